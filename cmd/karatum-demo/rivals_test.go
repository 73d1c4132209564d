package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/seal"
)

// TestTwoWorkers lets two workers that know nothing of each other work on one
// ledger at the same virtual moments: nothing is done twice, and nothing else
// comes of it than with one.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	days := 4.1
	if racing { // a day less with nothing new in it for the detector
		days = 2.1
	}
	plain, _ := open(t, "17")
	plain.days(t, days)
	want := plain.history(t)

	s, _ := open(t, "17")
	first := s.prog.Worker
	s.restart()
	first.Leases, s.prog.Worker.Leases = nil, nil // leases save work, and nothing rests on them
	workers := []*worker.Worker{first, s.prog.Worker}
	end := s.start.Add(time.Duration(days * 24 * float64(time.Hour)))
	failures := 0
	for done := false; !done; {
		var nexts [2]time.Time
		var errs [2]error
		var wg sync.WaitGroup
		for i, w := range workers {
			wg.Go(func() { nexts[i], errs[i] = w.Step(t.Context()) })
		}
		wg.Wait()
		next := nexts[0]
		if nexts[1].Before(next) {
			next = nexts[1]
		}
		if err := errors.Join(errs[:]...); err != nil {
			if failures++; failures > 500 || !errors.Is(err, domain.ErrConflict) {
				t.Fatalf("a step failed: %v", err)
			}
			continue
		}
		if done = !next.Before(end); done {
			next = end
		}
		s.clock.Jump(next)
	}
	if err := s.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps ended because the other worker was first", failures)
	got := s.history(t)
	got.check(t)
	if diff := cmp.Diff(want.types, got.types); diff != "" {
		t.Errorf("with one worker and with two (seals, opened days and comparisons by number):\n%s", diff)
	}
	if diff := cmp.Diff(want.ends, got.ends); diff != "" {
		t.Errorf("the tasks ended otherwise than with one worker:\n%s", diff)
	}
}

// puts counts the leaves of seals that are kept.
type puts struct {
	worker.Bodies

	seals *atomic.Int64
}

func (p puts) Put(ctx context.Context, key string, salt, body []byte) error {
	if strings.HasPrefix(key, "seal/") {
		p.seals.Add(1)
	}
	return p.Bodies.Put(ctx, key, salt, body)
}

// TestSealsAreMadeOnce lets two workers that share leases, as two processes do, work side
// by side for half a day: each seal is made by one of them, and the other one does not
// even begin.
func TestSealsAreMadeOnce(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "23")
	s.days(t, 1.5) // sealing has begun
	first := s.prog.Worker
	s.restart()
	s.prog.Worker.Leases = first.Leases
	var made atomic.Int64
	workers := []*worker.Worker{first, s.prog.Worker}
	for _, w := range workers {
		w.Bodies = puts{w.Bodies, &made}
	}
	onRecord := func() (n int64) {
		for _, e := range s.events(t) {
			if _, ok := e.(seal.Sealed); ok {
				n++
			}
		}
		return n
	}
	before := onRecord()
	for end := s.start.Add(48 * time.Hour); s.clock.Now().Before(end); s.clock.Jump(s.clock.Now().Add(30 * time.Minute)) {
		var wg sync.WaitGroup
		for _, w := range workers {
			wg.Go(func() {
				if _, err := w.Step(t.Context()); err != nil && !errors.Is(err, domain.ErrConflict) {
					t.Errorf("Step: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if n := onRecord() - before; n < 10 || made.Load() != n {
		t.Errorf("%d seals are on record, and leaves were kept %d times; want once for each of 10 or more", n, made.Load())
	}
}
