package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

type noted struct {
	Text  string `json:"text"`
	Count uint64 `json:"count"`
}

func (noted) EventType() domain.Type { return "note.noted.v1" }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("CET", 3600))

// linked returns the records of two events in their places.
func linked(t *testing.T) []ledger.Record {
	t.Helper()
	m := ledger.Meta{Actor: "owner:0xAb\n<&>\u2028\x7f é", Command: "cmd-1", Correlation: "\"conv\"\\\b\f\r\t\x01"}
	records, err := ledger.Prepare("note/a/b", m, noted{"first", 1}, noted{"second", 2})
	if err != nil {
		t.Fatal(err)
	}
	var prev domain.Hash
	for i := range records {
		records[i].Link(prev, uint64(i+1), noon)
		prev = records[i].Hash
	}
	return records
}

func TestStream(t *testing.T) {
	t.Parallel()
	for s, want := range map[ledger.Stream][2]string{
		"note/a/b":  {"note", "a/b"},
		"programme": {"programme", ""},
		"":          {"", ""},
	} {
		if got := [2]string{s.Category(), s.ID()}; got != want {
			t.Errorf("Category, ID of %q = %q, want %q", s, got, want)
		}
	}
}

// The canonical form is written by hand, so it is held against a library.
func TestRecordCanonical(t *testing.T) {
	t.Parallel()
	for _, r := range linked(t) {
		got := r.AppendCanonical(nil)
		want, err := jcs.Transform(got)
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("AppendCanonical() =\n%s\nwant\n%s", got, want)
		}
	}
}

// Golden bytes: these are what the hashes in every published bundle are over.
// The values were computed by another program, in Python.
func TestRecordGolden(t *testing.T) {
	t.Parallel()
	records, err := ledger.Prepare("note/x", ledger.Meta{Actor: "operator", Command: "c1", Correlation: "c0"}, noted{"hello", 7}, noted{"again", 8})
	if err != nil {
		t.Fatal(err)
	}
	records[0].Link(domain.Hash{}, 1, noon)
	records[1].Link(records[0].Hash, 2, noon)
	const canonical = `{"actor":"operator","cause":{"command":"c1","correlation":"c0"},"data":{"count":7,"text":"hello"},` +
		`"id":"623df7f0-63c4-5854-ad63-23ec35bd6fc1","stream":"note/x","time":"2026-03-01T11:00:00.123456Z","type":"note.noted.v1","version":1}`
	if got := string(records[0].AppendCanonical(nil)); got != canonical {
		t.Errorf("canonical form =\n%s\nwant\n%s", got, canonical)
	}
	for i, want := range []string{"34c46159b28ef1ef73507c764bbd36ec26ac61cf517aa84f81aa6b1a824c445a", "b7237376b0999f46bcda55ffd701fbffc9220b4cdbaa784cb2881c26e88854ce"} {
		if got := records[i].Hash.String(); got != want {
			t.Errorf("hash of record %d = %s, want %s", i+1, got, want)
		}
	}
}

func TestRecordChain(t *testing.T) {
	t.Parallel()
	records := linked(t)
	second := records[1]
	if got := second.ChainHash(records[0].Hash); got != second.Hash {
		t.Errorf("ChainHash(of the first) = %s, want %s", got, second.Hash)
	}
	if second.ChainHash(domain.Hash{}) == second.Hash {
		t.Error("the hash does not depend on the record before")
	}
	second.Position = 99
	if got := second.ChainHash(records[0].Hash); got != second.Hash {
		t.Errorf("hash at another position = %s, want %s", got, second.Hash)
	}
	for name, change := range map[string]func(*ledger.Record){
		"stream":      func(r *ledger.Record) { r.Stream += "x" },
		"version":     func(r *ledger.Record) { r.Version++ },
		"id":          func(r *ledger.Record) { r.ID[0]++ },
		"type":        func(r *ledger.Record) { r.Type += "x" },
		"time":        func(r *ledger.Record) { r.Time = r.Time.Add(time.Microsecond) },
		"actor":       func(r *ledger.Record) { r.Actor += "x" },
		"command":     func(r *ledger.Record) { r.Cause.Command += "x" },
		"correlation": func(r *ledger.Record) { r.Cause.Correlation += "x" },
		"data":        func(r *ledger.Record) { r.Data = []byte(`{}`) },
	} {
		r := records[1]
		change(&r)
		if r.ChainHash(records[0].Hash) == records[1].Hash {
			t.Errorf("the hash does not cover the %s", name)
		}
	}
}

func TestEventID(t *testing.T) {
	t.Parallel()
	id := ledger.EventID("note/x", "c1", 0)
	if id.Version() != 5 || id != ledger.EventID("note/x", "c1", 0) {
		t.Errorf("EventID() = %s, want a UUID of version 5 that does not change", id)
	}
	for _, other := range []string{
		ledger.EventID("note/y", "c1", 0).String(), ledger.EventID("note/x", "c2", 0).String(),
		ledger.EventID("note/x", "c1", 1).String(), ledger.EventID("note/xc", "1", 0).String(),
	} {
		if other == id.String() {
			t.Errorf("two events have the id %s", id)
		}
	}
}

func TestPrepareInvalid(t *testing.T) {
	t.Parallel()
	ok := ledger.Meta{Actor: "operator", Command: "c"}
	for _, tt := range []struct {
		name   string
		stream ledger.Stream
		meta   ledger.Meta
		events []domain.Event
	}{
		{"no command", "note/x", ledger.Meta{Actor: "operator"}, []domain.Event{noted{}}},
		{"no stream", "", ok, []domain.Event{noted{}}},
		{"no category", "/x", ok, []domain.Event{noted{}}},
		{"no events", "note/x", ok, nil},
		{"stream not UTF-8", "note/\xff", ok, []domain.Event{noted{}}},
		{"actor not UTF-8", "note/x", ledger.Meta{Actor: "\xff", Command: "c"}, []domain.Event{noted{}}},
		{"correlation not UTF-8", "note/x", ledger.Meta{Command: "c", Correlation: "\xff"}, []domain.Event{noted{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := ledger.Prepare(tt.stream, tt.meta, tt.events...); !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Prepare() error = %v, want ErrInvalid", err)
			}
		})
	}
}

func TestRecordJSON(t *testing.T) {
	t.Parallel()
	for _, want := range linked(t) {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := ledger.Record{Position: want.Position, Hash: want.Hash} // neither is in the text
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("record after JSON (-want +got):\n%s", diff)
		}
	}
}

// json.MarshalIndent also writes < as \u003c, which must not reach the hash.
func TestRecordJSONReformatted(t *testing.T) {
	t.Parallel()
	records, err := ledger.Prepare("note/x", ledger.Meta{Command: "c"}, noted{"a < b & c", 1})
	if err != nil {
		t.Fatal(err)
	}
	want := records[0]
	want.Link(domain.Hash{}, 1, noon)
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var got ledger.Record
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if h := got.ChainHash(domain.Hash{}); h != want.Hash {
		t.Errorf("hash of the record read from\n%s\n= %s, want %s", text, h, want.Hash)
	}
}

func TestRecordUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	good := string(linked(t)[0].AppendCanonical(nil))
	for name, bad := range map[string]string{
		"unknown field":       strings.Replace(good, `{"actor"`, `{"position":1,"actor"`, 1),
		"time with offset":    strings.Replace(good, `.123456Z`, `.123456+01:00`, 1),
		"time without micros": strings.Replace(good, `.123456Z`, `Z`, 1),
		"time too fine":       strings.Replace(good, `.123456Z`, `.123456789Z`, 1),
		"negative version":    strings.Replace(good, `"version":1`, `"version":-1`, 1),
		"id that is no UUID":  strings.Replace(good, `"id":"`, `"id":"x`, 1),
		"no data":             strings.Replace(good, `"data":{"count":1,"text":"first"},`, ``, 1),
		"data that is null":   strings.Replace(good, `{"count":1,"text":"first"}`, `null`, 1),
		"control character":   strings.Replace(good, `"first"`, "\"fir\x01st\"", 1),
		"more behind it":      good + "{}",
		"version of 2^64":     strings.Replace(good, `"version":1`, `"version":18446744073709551616`, 1),
		"key twice in data":   strings.Replace(good, `"count":1`, `"count":1,"count":1`, 1),
		"array":               `[]`,
		"nothing":             ``,
	} {
		var r ledger.Record
		if bad == good {
			t.Errorf("%s: the case changes nothing", name)
		}
		if err := r.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s: read as %+v, want an error", name, r)
		}
	}
}

// Whatever can be read can be written, and means the same when read again.
func FuzzRecordUnmarshal(f *testing.F) {
	f.Add([]byte(`{"actor":"operator","cause":{"command":"c1","correlation":"c0"},"data":{"count":7,"text":"hello"},` +
		`"id":"00000000-0000-5000-8000-000000000000","stream":"note/x","time":"2026-03-01T11:00:00.123456Z","type":"note.noted.v1","version":1}`))
	f.Add([]byte(`{"actor":"\u2028\ud83d\ude00\u0007","cause":{},"data":{},"id":"00000000-0000-5000-8000-000000000000","stream":"/","time":"0001-01-01T00:00:00.000000Z"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r ledger.Record
		if r.UnmarshalJSON(data) != nil {
			return
		}
		text := r.AppendCanonical(nil)
		var again ledger.Record
		if err := again.UnmarshalJSON(text); err != nil {
			t.Fatalf("UnmarshalJSON(%s): %v", text, err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("record after a second round (-want +got):\n%s", diff)
		}
		var spaced ledger.Record // which takes another way through the program
		if err := spaced.UnmarshalJSON(append([]byte{' '}, data...)); err != nil {
			t.Fatalf("UnmarshalJSON of %s behind a space: %v", data, err)
		}
		if diff := cmp.Diff(spaced, r); diff != "" {
			t.Fatalf("record behind a space (-want +got):\n%s", diff)
		}
	})
}
