// Package ledgertest checks that a [ledger.Log] keeps its contract. Every store
// runs it, so that none needs to be trusted on its word.
package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// noted is the event of all checks.
type noted struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func (noted) EventType() domain.Type { return "ledgertest.noted.v1" }

// unstorable has no JSON form.
type unstorable struct {
	F func() `json:"f"`
}

func (unstorable) EventType() domain.Type { return "ledgertest.unstorable.v1" }

func command(id string) ledger.Meta {
	return ledger.Meta{Actor: "tester", Command: id, Correlation: "conversation"}
}

// Run runs all checks, each on an empty log made by open. At the end of each it
// reads the log from the start and recomputes every hash from the stored bytes.
func Run(t *testing.T, open func(*testing.T) ledger.Log) {
	t.Helper()
	for _, check := range []struct {
		name string
		run  func(*testing.T, ledger.Log)
	}{
		{"empty log", emptyLog},
		{"records come back as appended", roundTrip},
		{"a stream is read from any version", tails},
		{"streams are apart", streamsApart},
		{"a stale version is a conflict that names the actual one", conflict},
		{"all or none", allOrNone},
		{"a repeated append succeeds and adds nothing", repeated},
		{"a repeated append succeeds beneath later ones", repeatedBeneath},
		{"a command is not appended twice at other versions", movedCommand},
		{"one command may append to several streams", severalStreams},
		{"invalid appends are refused", invalid},
		{"a cancelled context ends each call", cancelled},
		{"an unknown outcome is settled by a repetition", unknownOutcome},
		{"large events and many events", large},
		{"text survives", text},
		{"a reader may stop, write and mutate", readerMayAct},
		{"one of several writers at a version wins", oneWins},
		{"the same append from several callers has one effect", sameAppend},
		{"a bad append does not harm those beside it", badBesideGood},
		{"resuming readers miss nothing", resume},
		{"a reader that starts amid writes sees a prefix", prefix},
	} {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			log := open(t)
			check.run(t, log)
			Audit(t, log)
		})
	}
}

// Audit reads the whole log and checks that positions increase, that versions count
// from 1 in each stream, that ids are those of the contract and unique, and that
// each hash follows from the bytes of its record and the hash before. It returns
// the records. Others may append meanwhile.
func Audit(t *testing.T, log ledger.Log) []ledger.Record {
	t.Helper()
	all := collect(t, log, 0)
	var position uint64
	streams := make(map[ledger.Stream][]ledger.Record)
	ids := make(map[string]bool)
	for _, r := range all {
		if r.Position <= position {
			t.Fatalf("position %d follows %d", r.Position, position)
		}
		position = r.Position
		var head ledger.Record
		if before := streams[r.Stream]; len(before) > 0 {
			head = before[len(before)-1]
		}
		if r.Version != head.Version+1 {
			t.Fatalf("%s: version %d follows %d", r.Stream, r.Version, head.Version)
		}
		if got := r.ChainHash(head.Hash); got != r.Hash {
			t.Fatalf("%s at %d: hash is %v, and %v by its bytes", r.Stream, r.Version, r.Hash, got)
		}
		if ids[r.ID.String()] {
			t.Fatalf("%s at %d: id %v is there twice", r.Stream, r.Version, r.ID)
		}
		ids[r.ID.String()] = true
		streams[r.Stream] = append(streams[r.Stream], r)
	}
	for s, want := range streams {
		got := stream(t, log, s)
		for len(got) > len(want) && got[len(got)-1].Position > position {
			got = got[:len(got)-1] // appended since
		}
		if !slices.EqualFunc(want, got, equal) {
			t.Fatalf("Stream(%q) yields other records than After", s)
		}
	}
	return all
}

// equal reports whether two records are the same at the same place.
func equal(a, b ledger.Record) bool {
	return a.Position == b.Position && a.Hash == b.Hash && bytes.Equal(a.AppendCanonical(nil), b.AppendCanonical(nil))
}

func collect(t *testing.T, log ledger.Log, after uint64) (all []ledger.Record) {
	t.Helper()
	for r, err := range log.After(t.Context(), after) {
		if err != nil {
			t.Fatalf("After(%d): %v", after, err)
		}
		all = append(all, r)
	}
	return all
}

func stream(t *testing.T, log ledger.Log, s ledger.Stream) (all []ledger.Record) {
	t.Helper()
	for r, err := range log.Stream(t.Context(), s, 0) {
		if err != nil {
			t.Fatalf("Stream(%q): %v", s, err)
		}
		all = append(all, r)
	}
	return all
}

// mustAppend appends and ends the test on an error.
func mustAppend(t *testing.T, log ledger.Log, s ledger.Stream, version uint64, id string, events ...domain.Event) {
	t.Helper()
	if err := log.Append(t.Context(), s, version, command(id), events...); err != nil {
		t.Fatalf("Append(%q, %d, %s): %v", s, version, id, err)
	}
}

// mustConflict appends to "a/1" and wants to hear that it is at actual.
func mustConflict(t *testing.T, log ledger.Log, version, actual uint64, id string, events ...domain.Event) {
	t.Helper()
	const s ledger.Stream = "a/1"
	err := log.Append(t.Context(), s, version, command(id), events...)
	if !errors.Is(err, ledger.ErrConflict) || !errors.Is(err, domain.ErrConflict) {
		t.Fatalf("Append(%q, %d, %s): %v, want ErrConflict", s, version, id, err)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("is at %d", actual)) {
		t.Errorf("Append(%q, %d, %s): %v; it does not say that the stream is at %d", s, version, id, err, actual)
	}
}

// wantLength checks how many records s has.
func wantLength(t *testing.T, log ledger.Log, s ledger.Stream, want int) {
	t.Helper()
	if got := len(stream(t, log, s)); got != want {
		t.Errorf("%s has %d records, want %d", s, got, want)
	}
}

func emptyLog(t *testing.T, log ledger.Log) {
	t.Helper()
	for _, after := range []uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		if got := collect(t, log, after); len(got) > 0 {
			t.Errorf("After(%d) of an empty log yields %v", after, got)
		}
	}
	wantLength(t, log, "none/at-all", 0)
	mustAppend(t, log, "a/1", 0, "c1", noted{})
	if got := collect(t, log, math.MaxUint64); len(got) > 0 {
		t.Errorf("After behind the end yields %v", got)
	}
	wantLength(t, log, "a", 0)
	wantLength(t, log, "a/11", 0)
}

func roundTrip(t *testing.T, log ledger.Log) {
	t.Helper()
	events := []domain.Event{noted{1, "one"}, noted{2, "two"}}
	mustAppend(t, log, "a/1", 0, "c1", events...)
	mustAppend(t, log, "a/1", 2, "c2", noted{3, "three"})
	got := stream(t, log, "a/1")
	if len(got) != 3 {
		t.Fatalf("the stream has %d records, want 3", len(got))
	}
	for i, r := range got {
		if r.Time.IsZero() || r.Time.Location() != time.UTC || r.Time != r.Time.Truncate(time.Microsecond) {
			t.Errorf("time of record %d is %v, want whole microseconds in UTC", i, r.Time)
		}
		want := ledger.Record{
			Position: r.Position, Time: r.Time, Hash: r.Hash,
			Stream: "a/1", Version: uint64(i) + 1, Type: "ledgertest.noted.v1", Actor: "tester",
		}
		switch i {
		case 2:
			want.ID, want.Cause = ledger.EventID("a/1", "c2", 0), ledger.Cause{Command: "c2", Correlation: "conversation"}
			want.Data = []byte(`{"n":3,"text":"three"}`)
		default:
			want.ID, want.Cause = ledger.EventID("a/1", "c1", i), ledger.Cause{Command: "c1", Correlation: "conversation"}
			data, err := domain.Encode(events[i])
			if err != nil {
				t.Fatal(err)
			}
			want.Data = data
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("record %d (-want +got):\n%s", i, diff)
		}
	}
	if got := collect(t, log, got[1].Position); len(got) != 1 || got[0].Version != 3 {
		t.Errorf("After the second record: %v, want the third", got)
	}
}

func tails(t *testing.T, log ledger.Log) {
	t.Helper()
	const n = 5
	for i := range n {
		mustAppend(t, log, "a/1", uint64(i), fmt.Sprint("c", i), noted{N: i})
		mustAppend(t, log, "a/2", uint64(i), fmt.Sprint("c", i), noted{N: -i})
	}
	all := stream(t, log, "a/1")
	for _, version := range []uint64{0, 1, n - 1, n, n + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		tail := log.Stream(t.Context(), "a/1", version)
		for range 2 { // what is read twice is the same twice
			var got []ledger.Record
			for r, err := range tail {
				if err != nil {
					t.Fatalf("Stream behind %d: %v", version, err)
				}
				got = append(got, r)
			}
			if want := all[min(version, n):]; !slices.EqualFunc(want, got, equal) {
				t.Errorf("Stream behind %d yields %v, want %v", version, got, want)
			}
		}
	}
}

func streamsApart(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{N: 1})
	mustAppend(t, log, "a/2", 0, "c2", noted{N: 2})
	mustAppend(t, log, "a/1", 1, "c3", noted{N: 3}, noted{N: 4})
	wantLength(t, log, "a/1", 3)
	wantLength(t, log, "a/2", 1)
}

func conflict(t *testing.T, log ledger.Log) {
	t.Helper()
	mustConflict(t, log, 1, 0, "c0", noted{})
	mustAppend(t, log, "a/1", 0, "c1", noted{}, noted{})
	mustConflict(t, log, 0, 2, "c2", noted{})
	mustConflict(t, log, 1, 2, "c2", noted{})
	mustConflict(t, log, 3, 2, "c2", noted{})
	mustConflict(t, log, math.MaxInt64, 2, "c2", noted{})
	mustConflict(t, log, math.MaxUint64, 2, "c2", noted{})
	mustAppend(t, log, "a/1", 2, "c2", noted{})
	wantLength(t, log, "a/1", 3)
}

func allOrNone(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{})
	mustConflict(t, log, 0, 1, "c2", noted{}, noted{}, noted{})
	if err := log.Append(t.Context(), "a/1", 1, command("c3"), noted{}, unstorable{}); err == nil {
		t.Error("an event without a JSON form was appended")
	}
	if got := collect(t, log, 0); len(got) != 1 {
		t.Errorf("refused appends left records: %v", got)
	}
}

func repeated(t *testing.T, log ledger.Log) {
	t.Helper()
	for range 3 {
		mustAppend(t, log, "a/1", 0, "c1", noted{N: 1}, noted{N: 2})
	}
	for range 3 {
		mustAppend(t, log, "a/1", 2, "c2", noted{N: 3})
	}
	wantLength(t, log, "a/1", 3)
}

func repeatedBeneath(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{N: 1}, noted{N: 2})
	mustAppend(t, log, "a/1", 2, "c2", noted{N: 3})
	mustAppend(t, log, "a/2", 0, "c3", noted{N: 4})
	mustAppend(t, log, "a/1", 0, "c1", noted{N: 1}, noted{N: 2})
	mustAppend(t, log, "a/1", 2, "c2", noted{N: 3})
	mustConflict(t, log, 0, 3, "c4", noted{N: 1}, noted{N: 2}) // the same events by another command
	wantLength(t, log, "a/1", 3)
}

func movedCommand(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{N: 1})
	mustConflict(t, log, 1, 1, "c1", noted{N: 1})
	mustConflict(t, log, 0, 1, "c1", noted{N: 1}, noted{N: 2}) // more than was appended
	mustAppend(t, log, "a/1", 1, "c2", noted{N: 2})
	mustConflict(t, log, 2, 2, "c1", noted{N: 1})
	mustConflict(t, log, 0, 2, "c1", noted{N: 1}, noted{N: 2})
	mustConflict(t, log, 1, 2, "c1", noted{N: 1})
	wantLength(t, log, "a/1", 2)
}

func severalStreams(t *testing.T, log ledger.Log) {
	t.Helper()
	for _, s := range []ledger.Stream{"a/1", "a/2", "b/1"} {
		mustAppend(t, log, s, 0, "c1", noted{})
		wantLength(t, log, s, 1)
	}
}

func invalid(t *testing.T, log ledger.Log) {
	t.Helper()
	for _, tt := range []struct {
		name   string
		s      ledger.Stream
		m      ledger.Meta
		events []domain.Event
	}{
		{"no command", "a/1", ledger.Meta{}, []domain.Event{noted{}}},
		{"no events", "a/1", command("c1"), nil},
		{"no stream", "", command("c1"), []domain.Event{noted{}}},
		{"stream not UTF-8", "a/\xff", command("c1"), []domain.Event{noted{}}},
		{"command not UTF-8", "a/1", command("\xff"), []domain.Event{noted{}}},
		{"NUL in stream", "a/\x00", command("c1"), []domain.Event{noted{}}},
		{"NUL in command", "a/1", command("c\x00"), []domain.Event{noted{}}},
		{"NUL in actor", "a/1", ledger.Meta{Command: "c1", Actor: "\x00"}, []domain.Event{noted{}}},
	} {
		if err := log.Append(t.Context(), tt.s, 0, tt.m, tt.events...); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", tt.name, err)
		}
	}
	if got := collect(t, log, 0); len(got) > 0 {
		t.Errorf("invalid appends left records: %v", got)
	}
}

func cancelled(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{}, noted{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Append(ctx, "a/1", 2, command("c2"), noted{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Append: %v, want context.Canceled", err)
	}
	wantLength(t, log, "a/1", 2)
	for _, behind := range []uint64{0, 2, 3} {
		reads := map[string]iter.Seq2[ledger.Record, error]{"Stream": log.Stream(ctx, "a/1", behind), "After": log.After(ctx, behind)}
		for name, read := range reads {
			var last error
			for _, last = range read {
				if last == nil {
					t.Errorf("%s behind %d yields records", name, behind)
				}
			}
			if !errors.Is(last, context.Canceled) {
				t.Errorf("%s behind %d ends with %v, want context.Canceled", name, behind, last)
			}
		}
	}
	// The context may also end between two records.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range log.After(ctx, 0) {
		cancel()
		n, last = n+1, err
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("After, cancelled at the first record, ended with %v after %d yields, want context.Canceled after 2", last, n)
	}
}

func unknownOutcome(t *testing.T, log ledger.Log) {
	t.Helper()
	var version uint64
	for i := range 40 {
		id := fmt.Sprint("c", i)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		err := log.Append(ctx, "a/1", version, command(id), noted{N: i})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Append: %v, want context.DeadlineExceeded or nothing", err)
		}
		mustAppend(t, log, "a/1", version, id, noted{N: i})
		version++
	}
	wantLength(t, log, "a/1", 40)
}

func large(t *testing.T, log ledger.Log) {
	t.Helper()
	big := strings.Repeat("0123456789abcdef", 1<<13) // 128 KiB
	mustAppend(t, log, "a/big", 0, "c1", noted{1, big}, noted{2, big}, noted{3, big})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if err := log.Append(t.Context(), ledger.Stream(fmt.Sprint("a/", i)), 0, command("c2"), noted{i, big}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	many := make([]domain.Event, 3000)
	for i := range many {
		many[i] = noted{N: i}
	}
	mustAppend(t, log, "a/many", 0, "c3", many...)
	wantLength(t, log, "a/many", len(many))
	if got := stream(t, log, "a/big")[1].Data; string(got) != `{"n":2,"text":"`+big+`"}` {
		t.Errorf("a large event came back as %d other bytes", len(got))
	}
}

func text(t *testing.T, log ledger.Log) {
	t.Helper()
	for i, s := range []string{"plain", `quotes " ' \ and {,}`, "NULL", "line\nfeed\ttab", "日本語 é \u2028", "emoji 🙂", " spaces ", "\x7f\x01"} {
		name := ledger.Stream("a/" + s)
		m := ledger.Meta{Actor: s, Command: s, Correlation: s}
		if err := log.Append(t.Context(), name, 0, m, noted{i, s + "\x00"}); err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		r := stream(t, log, name)[0]
		var e noted
		if err := domain.Unmarshal(r.Data, &e); err != nil || e != (noted{i, s + "\x00"}) {
			t.Errorf("%q came back as %+v, %v", s, e, err)
		}
		if r.Actor != s || r.Cause != (ledger.Cause{Command: s, Correlation: s}) {
			t.Errorf("%q came back as %q, %+v", s, r.Actor, r.Cause)
		}
	}
}

func readerMayAct(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/1", 0, "c1", noted{N: 1}, noted{N: 2}, noted{N: 3})
	seq := log.After(t.Context(), 0)
	var written uint64
	for range 2 { // a sequence can be ranged over again
		for r, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, log, "b/1", written, fmt.Sprint("d", written), noted{})
			written++
			clear(r.Data) // the reader owns its copy
			if r.Version == 2 {
				break
			}
		}
	}
	wantLength(t, log, "a/1", 3)
	wantLength(t, log, "b/1", 4)
}

// oneWins has writers who decide on the same state: each version is won once.
func oneWins(t *testing.T, log ledger.Log) {
	t.Helper()
	const writers, rounds = 8, 5
	for version := range uint64(rounds) {
		var mu sync.Mutex
		won := make(map[int]bool)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				err := log.Append(t.Context(), "a/1", version, command(fmt.Sprint("c", version, "-", w)), noted{N: w})
				switch {
				case err == nil:
					mu.Lock()
					won[w] = true
					mu.Unlock()
				case !errors.Is(err, ledger.ErrConflict):
					t.Errorf("writer %d: %v, want ErrConflict", w, err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d writers won version %d", len(won), version)
		}
		records := stream(t, log, "a/1")
		var e noted
		if err := domain.Unmarshal(records[len(records)-1].Data, &e); err != nil || !won[e.N] {
			t.Errorf("version %d: writer %d stands in the log, %v won", version, e.N, slices.Collect(maps.Keys(won)))
		}
	}
	wantLength(t, log, "a/1", rounds)
}

func sameAppend(t *testing.T, log ledger.Log) {
	t.Helper()
	for round := range uint64(5) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := log.Append(t.Context(), "a/1", 2*round, command(fmt.Sprint("c", round)), noted{N: 1}, noted{N: 2})
				if err != nil {
					t.Errorf("Append: %v", err)
				}
			})
		}
		wg.Wait()
	}
	wantLength(t, log, "a/1", 10)
}

// badBesideGood has good and bad appends at the same time, which a store may commit
// together: each gets its own verdict.
func badBesideGood(t *testing.T, log ledger.Log) {
	t.Helper()
	mustAppend(t, log, "a/taken", 0, "c0", noted{})
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/good", w))
			for v := range uint64(each) {
				if err := log.Append(t.Context(), s, v, command(fmt.Sprint("c", v)), noted{N: w}); err != nil {
					t.Errorf("good append: %v", err)
				}
			}
		})
		wg.Go(func() {
			for i := range each {
				id := command(fmt.Sprint("bad", w, "-", i))
				if err := log.Append(t.Context(), "a/taken", 0, id, noted{}); !errors.Is(err, ledger.ErrConflict) {
					t.Errorf("stale append: %v, want ErrConflict", err)
				}
				if err := log.Append(t.Context(), "a/taken", 1, command("c0"), noted{}); !errors.Is(err, ledger.ErrConflict) {
					t.Errorf("moved command: %v, want ErrConflict", err)
				}
				if err := log.Append(t.Context(), "a/taken", 1, id, unstorable{}); err == nil {
					t.Error("an event without a JSON form was appended")
				}
				if err := log.Append(t.Context(), "a/\x00", 0, id, noted{}); !errors.Is(err, domain.ErrInvalid) {
					t.Errorf("NUL in a stream: %v, want ErrInvalid", err)
				}
			}
		})
	}
	wg.Wait()
	wantLength(t, log, "a/taken", 1)
	for w := range writers {
		wantLength(t, log, ledger.Stream(fmt.Sprint("a/good", w)), each)
	}
}

// resume has readers that come back to where they were, while many write. A store
// whose positions become visible out of order loses records here.
func resume(t *testing.T, log ledger.Log) {
	t.Helper()
	const writers, each, readers = 16, 25, 3
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/", w))
			for v := range uint64(each) {
				if err := log.Append(t.Context(), s, v, command(fmt.Sprint("c", v)), noted{N: w}); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	for i := range readers {
		reading.Go(func() {
			var last uint64
			seen := 0
			for final := false; !final; {
				select {
				case <-done:
					final = true // and read once more
				default:
				}
				limit := 1 << 30
				if i > 0 && !final {
					limit = 7 * i // stop within what is there
				}
				for r, err := range log.After(t.Context(), last) {
					if err != nil {
						t.Errorf("After(%d): %v", last, err)
						return
					}
					if r.Position <= last {
						t.Errorf("position %d follows %d", r.Position, last)
					}
					last, seen = r.Position, seen+1
					if limit--; limit == 0 {
						break
					}
				}
			}
			if seen != writers*each {
				t.Errorf("a resuming reader saw %d records, want %d", seen, writers*each)
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
}

// prefix checks that what one read yields is how the log begins, for good.
func prefix(t *testing.T, log ledger.Log) {
	t.Helper()
	const writers, each = 8, 25
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/", w))
			for v := range uint64(each) {
				if err := log.Append(t.Context(), s, 2*v, command(fmt.Sprint("c", v)), noted{N: w}, noted{N: w}); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	var reads [][]ledger.Record
	for range 10 {
		reads = append(reads, collect(t, log, 0))
	}
	writing.Wait()
	all := collect(t, log, 0)
	if len(all) != 2*writers*each {
		t.Errorf("the log has %d records, want %d", len(all), 2*writers*each)
	}
	for _, read := range reads {
		if len(read) > len(all) {
			t.Fatalf("a read had %d records, the log has %d", len(read), len(all))
		}
		if !slices.EqualFunc(all[:len(read)], read, equal) {
			t.Fatalf("a read of %d records amid writes is no prefix of the log", len(read))
		}
	}
}
