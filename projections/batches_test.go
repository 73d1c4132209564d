package projections_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// closeBatch seals the first n of the open commits and returns the batch.
func closeBatch(t *testing.T, h *history, before *batch.Sealed, open []batch.Open, n int) batch.Sealed {
	t.Helper()
	var last *batch.State
	if before != nil {
		last = &batch.State{Sealed: before}
	}
	s, _, err := batch.Close(last, 84532, batch.Word{1}, open[:n], uint64(len(h.records)), hash("log"))
	if err != nil {
		t.Fatal(err)
	}
	h.add(t, batch.StreamOf(s.Batch), s)
	return s
}

func TestBatches(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	register(t, &h)
	id := grant(t, &h, house, "batches")
	one, two := newDay(id, 20514), newDay(id, 20515)
	one.seal(t, &h)
	h.add(t, seal.StreamOf(id), seal.Sealed{Consent: id, Hour: seal.FirstHour(20514), Root: hash("a seal")})
	two.seal(t, &h)
	h.add(t, shop.StreamOf("twin"), shop.Committed{Consent: id, Day: 20516, Commit: one.commit(3)}) // is in no batch again
	runner := runnerOn(t, pool, &h, projections.All()...)
	catchUp(t, runner)
	integrator := publiclog.Integrator{Log: &h, Catalog: catalog, Pool: pool}
	if err := integrator.Integrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := projections.Reader{Pool: pool}

	open, err := reader.OpenCommits(t.Context(), uint64(len(h.records)), 100)
	if err != nil {
		t.Fatal(err)
	}
	var want []batch.Open
	for i, r := range h.records {
		if e, err := catalog.Decode(r.Type, r.Data); err != nil {
			t.Fatal(err)
		} else if c, ok := e.(shop.Committed); ok && r.Stream != shop.StreamOf("twin") {
			want = append(want, batch.Open{Commit: c.Commit, Index: uint64(i), Time: r.Time})
		} else if s, ok := e.(seal.Sealed); ok {
			want = append(want, batch.Open{Commit: s.Root, Index: uint64(i), Time: r.Time})
		}
	}
	if diff := cmp.Diff(want, open); diff != "" || len(open) != 49 {
		t.Fatalf("%d open commits (-want +got):\n%s", len(open), diff)
	}
	if got, err := reader.OpenCommits(t.Context(), open[5].Index, 100); err != nil || len(got) != 5 {
		t.Errorf("a checkpoint covers %d open commits, %v, want 5", len(got), err)
	}

	first := closeBatch(t, &h, nil, open, 13)
	second := closeBatch(t, &h, &first, open[13:], 1)
	catchUp(t, runner)
	list := []batch.Sealed{first, second}
	for i, o := range open {
		p, err := reader.CommitProof(t.Context(), o.Commit)
		if err != nil {
			t.Fatal(err)
		}
		if i >= 14 {
			if p.Batch != nil {
				t.Errorf("commit %d is in batch %d, want it to be open", i, p.Batch.Batch)
			}
			continue
		}
		s := list[i/13]
		if p.Batch == nil || p.Batch.Sealed != s || p.Index != uint64(i%13) {
			t.Fatalf("commit %d has the proof %+v, want one of batch %d", i, p, s.Batch)
		}
		if err := merkle.VerifyBatchPath(s.ID(), o.Commit, p.Index, uint64(s.Count), p.Path, s.Root); err != nil {
			t.Error(err)
		}
	}
	if got, err := reader.OpenCommits(t.Context(), uint64(len(h.records)), 2); err != nil || !slices.Equal(got, open[14:16]) {
		t.Errorf("behind the batches, OpenCommits = %v, %v", got, err)
	}
	if _, err := reader.CommitProof(t.Context(), hash("nobody's")); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("CommitProof of no commit = %v, want ErrNotFound", err)
	}
	if _, err := reader.Batch(t.Context(), 3); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Batch(3) = %v, want ErrNotFound", err)
	}
	for before, want := range map[uint64][]uint64{0: {2, 1}, 3: {2, 1}, 2: {1}, 1: nil} {
		got, err := reader.Batches(t.Context(), before, 10)
		if err != nil {
			t.Fatal(err)
		}
		var numbers []uint64
		for _, b := range got {
			numbers = append(numbers, b.Batch)
		}
		if !slices.Equal(numbers, want) {
			t.Errorf("Batches(%d) = %v, want %v", before, numbers, want)
		}
	}
}

func TestBatchLife(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	h.add(t, shop.StreamOf("one"), shop.Committed{Commit: hash("one")})
	runner := runnerOn(t, pool, &h, projections.Batches)
	sealed := closeBatch(t, &h, nil, []batch.Open{{Commit: hash("one")}}, 1)
	submitted := batch.Submitted{Batch: 1, Attester: eip191.Address{1}, EAS: eip191.Address{2}, Tx: batch.Word{3}}
	attested := batch.Attested{Batch: 1, Attester: eip191.Address{1}, EAS: eip191.Address{2}, UID: batch.Word{4}, Tx: batch.Word{3}, Block: 5, BlockHash: batch.Word{6}, Time: start}
	at := h.records[1].Time
	for _, tt := range []struct {
		name  string
		event batch.Event
		want  projections.Batch
	}{
		{"submitted", submitted, projections.Batch{Submitted: &submitted}},
		{"attested", attested, projections.Batch{Submitted: &submitted, Attested: &attested}},
		{"dropped", batch.Dropped{Batch: 1, Reason: batch.Reorganised, UID: attested.UID}, projections.Batch{}},
		{"submitted again", submitted, projections.Batch{Submitted: &submitted}},
		{"attested again", attested, projections.Batch{Submitted: &submitted, Attested: &attested}},
		{"finalised", batch.Finalised{Batch: 1, UID: attested.UID}, projections.Batch{Submitted: &submitted, Attested: &attested, Final: true}},
	} {
		h.add(t, batch.StreamOf(1), tt.event)
		catchUp(t, runner)
		tt.want.Sealed, tt.want.SealedAt = sealed, at
		got, err := projections.Reader{Pool: pool}.Batch(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		reader := projections.Reader{Pool: pool}
		for _, list := range [][]domain.Hash{{hash("one")}, {hash("one"), hash("other")}} {
			want := tt.want.Attested != nil && len(list) == 1
			if got, err := reader.Attested(t.Context(), list); err != nil || got != want {
				t.Errorf("%s: Attested of %d commits = %t, %v, want %t", tt.name, len(list), got, err, want)
			}
		}
		wantOpen := uint64(1)
		if tt.want.Final {
			wantOpen = 0
		}
		if open, last, err := reader.BatchNumbers(t.Context()); err != nil || open != wantOpen || last != 1 {
			t.Errorf("%s: BatchNumbers = %d, %d, %v, want %d, 1", tt.name, open, last, err, wantOpen)
		}
	}
}

// A batch on record that the commits do not make is not shown.
func TestBatchThatDoesNotFollow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*batch.Sealed){
		"another root":      func(s *batch.Sealed) { s.Root[0]++ },
		"too many commits":  func(s *batch.Sealed) { s.Count++ },
		"another id":        func(s *batch.Sealed) { s.Chain++ },
		"a commit left out": func(s *batch.Sealed) { s.Count-- },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			var h history
			open := []batch.Open{{Commit: hash("one")}, {Commit: hash("two"), Index: 1}}
			for _, o := range open {
				h.add(t, shop.StreamOf(o.Commit.String()), shop.Committed{Commit: o.Commit})
			}
			s, _, err := batch.Close(nil, 84532, batch.Word{1}, open, 2, hash("log"))
			if err != nil {
				t.Fatal(err)
			}
			change(&s)
			h.add(t, batch.StreamOf(1), s)
			r := runnerOn(t, pool, &h, projections.Batches)
			catchUp(t, r)
			if parked := parked(t, r); len(parked) != 1 || parked[0].Stream != batch.StreamOf(1) || parked[0].Version != 1 {
				t.Errorf("parked: %+v, want the batch", parked)
			}
			if list, err := (projections.Reader{Pool: pool}).Batches(t.Context(), 0, 10); err != nil || len(list) > 0 {
				t.Errorf("Batches = %+v, %v, want none", list, err)
			}
		})
	}
}
