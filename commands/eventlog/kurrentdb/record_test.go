package kurrentdb_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
)

// stored reads the events of a stream as the database has them.
func stored(t *testing.T, url, stream string) (events []*esdb.RecordedEvent) {
	t.Helper()
	client := bare(t, url)
	defer func() { _ = client.Close() }()
	reading, err := client.ReadStream(t.Context(), stream, esdb.ReadStreamOptions{From: esdb.Start{}}, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	for {
		e, err := reading.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e.Event)
	}
}

// Golden bytes: this is how a ledger lies in EventStoreDB. Id and hash were
// computed by another program, in Python.
func TestLayout(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	moment := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	log := open(t, c.URL(), kurrentdb.Options{Now: func() time.Time { return moment }})
	m := ledger.Meta{Actor: `owner:"<é>"`, Command: "c1", Correlation: "c0"}
	if err := log.Append(t.Context(), "note/x", 0, m, noted{7}, noted{8}); err != nil {
		t.Fatal(err)
	}
	events := stored(t, c.URL(), "mystery-note/x")
	if len(events) != 2 {
		t.Fatalf("there are %d events, want 2", len(events))
	}
	e := events[0]
	got := []string{e.EventID.String(), e.EventType, e.ContentType, string(e.Data), string(e.UserMetadata)}
	want := []string{
		"623df7f0-63c4-5854-ad63-23ec35bd6fc1", "kurrentdb.noted.v1", "application/json", `{"N":7}`,
		`{"actor":"owner:\"<é>\"","command":"c1","correlation":"c0",` +
			`"hash":"76a1aee879689a367424f4407b3b40d7886201104ecd01413cd00e729fc7f8ed","time":"2026-03-01T11:00:00.123456Z"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the event as stored (-want +got):\n%s", diff)
	}
	for i, r := range ledgertest.Audit(t, log) {
		if p := events[i].Position; r.Position != p.Commit || r.Position != p.Prepare {
			t.Errorf("record %d is at %d, its event at %v", i, r.Position, p)
		}
	}
}

// What an append does not write is damage, wherever it is read, and nothing is
// appended behind it.
func TestDamage(t *testing.T) {
	t.Parallel()
	metadata := func(old, with string) func(*streams.ReadResp_ReadEvent_RecordedEvent) {
		return func(e *streams.ReadResp_ReadEvent_RecordedEvent) {
			e.CustomMetadata = bytes.Replace(e.CustomMetadata, []byte(old), []byte(with), 1)
		}
	}
	for name, change := range map[string]func(*streams.ReadResp_ReadEvent_RecordedEvent){
		"another stream of ours":    func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.StreamIdentifier = named("mystery-a/2") },
		"a stream without a name":   func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.StreamIdentifier = named("mystery-") },
		"a revision too many":       func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.StreamRevision++ },
		"a revision beyond numbers": func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.StreamRevision = math.MaxUint64 },
		"no position": func(e *streams.ReadResp_ReadEvent_RecordedEvent) {
			e.CommitPosition, e.PreparePosition = math.MaxUint64, math.MaxUint64
		},
		"of a transaction":      func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.CommitPosition++ },
		"no type":               func(e *streams.ReadResp_ReadEvent_RecordedEvent) { delete(e.Metadata, "type") },
		"no data":               func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.Data = nil },
		"no metadata":           func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.CustomMetadata = nil },
		"space in the metadata": metadata(`,"command"`, `, "command"`),
		"a field more":          metadata(`,"command"`, `,"b":1,"command"`),
		"a field less":          metadata(`,"correlation":""`, ``),
		"a field twice":         metadata(`,"command":"1"`, `,"command":"1","command":"1"`),
		"an escape too many":    metadata(`tester`, `\u0074ester`),
		"a hash in capitals":    func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.CustomMetadata = bytes.ToUpper(e.CustomMetadata) },
		"a hash cut short":      metadata(`","time`, `a","time`),
		"a time without a zone": metadata(`Z"}`, `"}`),
		"a time too fine":       metadata(`Z"}`, `1Z"}`),
		"a time with a comma":   metadata(`.`, `,`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(t, 1)
			writer := open(t, c.URL(), kurrentdb.Options{})
			for v := range uint64(3) {
				mustAppend(t, writer, "a/1", v)
			}
			c.Rewrite(func(r *streams.ReadResp) {
				if e := r.GetEvent().GetEvent(); e.GetStreamRevision() == 1 && string(e.GetStreamIdentifier().GetStreamName()) == "mystery-a/1" {
					change(e)
				}
			})
			log := open(t, c.URL(), kurrentdb.Options{}) // that has read nothing yet
			n := 0
			var last error
			for _, err := range log.Stream(t.Context(), "a/1", 0) {
				n, last = n+1, err
			}
			if n != 1 || last == nil || !strings.Contains(last.Error(), "damaged") { // a page is read whole
				t.Errorf("Stream ends after %d yields with %v, want the damage", n, last)
			}
			err := log.Append(t.Context(), "a/1", 3, command("3"), noted{})
			if err == nil || errors.Is(err, domain.ErrUnavailable) || errors.Is(err, ledger.ErrConflict) {
				t.Errorf("Append behind it: %v, want the damage", err)
			}
		})
	}
}

func named(s string) *shared.StreamIdentifier {
	return &shared.StreamIdentifier{StreamName: []byte(s)}
}

// Where the form is right, the chain tells.
func TestBrokenChain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*streams.ReadResp_ReadEvent_RecordedEvent){
		"data": func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.Data = []byte(`{"N":9}`) },
		"type": func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.Metadata["type"] = "kurrentdb.noted.v2" },
		"id":   func(e *streams.ReadResp_ReadEvent_RecordedEvent) { e.Id.GetStructured().LeastSignificantBits++ },
		"actor": func(e *streams.ReadResp_ReadEvent_RecordedEvent) {
			e.CustomMetadata = bytes.Replace(e.CustomMetadata, []byte("tester"), []byte("rester"), 1)
		},
	} {
		c := cluster(t, 1)
		mustAppend(t, open(t, c.URL(), kurrentdb.Options{}), "a/1", 0)
		c.Rewrite(func(r *streams.ReadResp) {
			if e := r.GetEvent().GetEvent(); e != nil {
				change(e)
			}
		})
		log := open(t, c.URL(), kurrentdb.Options{})
		err := log.Append(t.Context(), "a/1", 1, command("1"), noted{})
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("Append behind another %s: %v, want the damage", name, err)
		}
	}
}

// Whatever a server sends is read as a record of just that form, or refused.
func FuzzDecode(f *testing.F) {
	log, err := kurrentdb.New("esdb://localhost", kurrentdb.Options{Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(log.Close)
	r := ledger.Record{
		Stream: "note/x", ID: ledger.EventID("note/x", "c1", 0), Type: "note.noted.v1", Actor: "operator",
		Cause: ledger.Cause{Command: "c1", Correlation: "c0"}, Data: []byte(`{"n":7}`),
	}
	r.Link(domain.Hash{}, 1, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	good := kurrentdb.Encode(&r)
	f.Add("mystery-note/x", uint64(0), uint64(186), uint64(186), good.EventType, good.Data, good.Metadata)
	f.Add("mystery-note/x", uint64(math.MaxInt64), uint64(math.MaxUint64), uint64(1), good.EventType, good.Data, good.Metadata)
	f.Add("mystery-note/x", uint64(3), uint64(9), uint64(9), "t", []byte{0xff}, bytes.ReplaceAll(good.Metadata, []byte("operator"), []byte(`\ud800`)))
	f.Add("other", uint64(0), uint64(0), uint64(0), "", []byte(nil), []byte(`{"hash":null,"time":""}`))
	f.Add("$all", uint64(1), uint64(1), uint64(1), "$>", []byte("0@other"), []byte(nil))
	f.Fuzz(func(t *testing.T, stream string, revision, commit, prepare uint64, kind string, data, metadata []byte) {
		id := uuid.NewSHA1(uuid.NameSpaceURL, data)
		e := &esdb.RecordedEvent{
			StreamID: stream, EventNumber: revision, Position: esdb.Position{Commit: commit, Prepare: prepare},
			EventID: id, EventType: kind, Data: data, UserMetadata: metadata,
		}
		r, err := log.Decode(e)
		if err != nil {
			if diff := cmp.Diff(ledger.Record{}, r); diff != "" {
				t.Errorf("Decode fails with %v and a record (-want +got):\n%s", err, diff)
			}
			return
		}
		again := kurrentdb.Encode(&r)
		want := esdb.EventData{EventID: id, EventType: kind, ContentType: esdb.ContentTypeJson, Data: data, Metadata: metadata}
		if diff := cmp.Diff(want, again); diff != "" {
			t.Errorf("Encode(Decode(e)) (-want +got):\n%s", diff)
		}
		if "mystery-"+string(r.Stream) != stream || r.Version != revision+1 || r.Position != commit || r.Position == 0 || r.Position > math.MaxInt64 {
			t.Errorf("Decode gives %s at %d, position %d", r.Stream, r.Version, r.Position)
		}
	})
}

// What others keep in the same database is passed over, also where a page ends with
// it, and a position that belongs to no record is one like any other.
func TestOthersInTheDatabase(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	apart := open(t, c.URL(), kurrentdb.Options{Prefix: "another-"})
	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	others := make([]esdb.EventData, 600) // more than a page
	for i := range others {
		others[i] = esdb.EventData{EventID: uuid.New(), EventType: "other", Data: []byte("no JSON")}
	}
	for v := range uint64(4) {
		mustAppend(t, log, "a/1", v)
		mustAppend(t, apart, "a/1", v)
		if v != 1 {
			continue
		}
		if _, err := client.AppendToStream(t.Context(), "mystery", esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, others...); err != nil {
			t.Fatal(err)
		}
	}
	records := ledgertest.Audit(t, log)
	if len(records) != 4 || len(ledgertest.Audit(t, apart)) != 4 {
		t.Fatalf("the log has %d records, want 4", len(records))
	}
	foreign := stored(t, c.URL(), "mystery")
	for name, after := range map[string]uint64{
		"a record": records[1].Position, "between two": records[1].Position + 1, "before one": records[2].Position - 1,
		"an event of others": foreign[0].Position.Commit, "the last of many": foreign[len(foreign)-1].Position.Commit,
	} {
		var got []uint64
		for r, err := range log.After(t.Context(), after) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, r.Version)
		}
		if diff := cmp.Diff([]uint64{3, 4}, got); diff != "" {
			t.Errorf("After(%s) yields other versions (-want +got):\n%s", name, diff)
		}
	}
}
