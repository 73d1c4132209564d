package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

// TestAppendsFail lets every other append of the worker fail at its first try,
// before or after it was made durable, and lets the worker live on or be replaced
// by one that knows nothing but the ledger. The days must come to the same as
// without faults, but for tasks that were on their way: those are lost and never
// sent again.
func TestAppendsFail(t *testing.T) {
	t.Parallel()
	const days = 4.1 // three are planned, and two of them opened
	plain, _ := open(t, "13")
	plain.days(t, days)
	want := plain.history(t)
	want.check(t)
	if len(want.count) != len(agentNames) {
		t.Fatalf("days of %d consents were opened", len(want.count))
	}
	for _, tt := range []struct {
		name      string
		persisted bool // what fails is in the log
		restart   bool // the worker does not survive its failure
	}{
		{"lost, worker dies", false, true},
		{"persisted, worker dies", true, true},
		{"lost, worker lives", false, false},
		{"persisted, worker lives", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, "13")
			faulty := &faultyLog{Log: s.prog.Service.Log, persisted: tt.persisted, failed: make(map[string]bool)}
			s.prog.Service.Log = faulty
			s.stumble(t, days, tt.restart)
			if len(faulty.failed) < 100 {
				t.Errorf("%d appends failed, want some hundred", len(faulty.failed))
			}
			h := s.history(t)
			h.check(t)
			if diff := cmp.Diff(want.types, h.types); diff != "" {
				t.Errorf("without and with faults (seals, opened days and comparisons by number):\n%s", diff)
			}
			// A task is lost where its own sending or its reply failed, or the worker
			// died with it; nothing else may change.
			for id, end := range want.ends {
				if got := h.ends[id]; got != end && !strings.HasPrefix(got, "blocked/worker_lost") {
					t.Errorf("%s ended as %q, and without faults as %q", id, got, end)
				}
			}
		})
	}
}

// stumble lets days pass like pass, but goes on after errors.
func (s *stage) stumble(t *testing.T, days float64, restart bool) {
	t.Helper()
	end := s.start.Add(time.Duration(days * 24 * float64(time.Hour)))
	failures := 0
	for {
		next, err := s.prog.Worker.Step(t.Context())
		switch {
		case err != nil:
			if failures++; failures > 5000 {
				t.Fatalf("the worker does not get on: %v", err)
			}
			if restart {
				s.restart()
			}
		case !next.Before(end):
			s.clock.Jump(end)
			if err := s.prog.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d steps failed", failures)
			return
		default:
			s.clock.Jump(next)
		}
	}
}

// restart replaces the worker by one that remembers nothing.
func (s *stage) restart() {
	w := s.prog.Worker
	s.prog.Worker = &worker.Worker{
		Service: w.Service, Work: w.Work, Field: w.Field, Gate: w.Gate, Turns: w.Turns, Bodies: w.Bodies, Rand: w.Rand, Now: w.Now, Purse: w.Purse,
		Sources: w.Sources, Deadline: w.Deadline, Parallel: w.Parallel, Log: w.Log,
	}
}

// A faultyLog fails every other append once, whichever these are.
type faultyLog struct {
	ledger.Log

	persisted bool

	mu     sync.Mutex
	failed map[string]bool // by what it is, for command ids of sends are random
}

func (l *faultyLog) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	key := fmt.Sprint(s, " ", version, " ", events[0].EventType())
	spared := domain.Sum([]byte(key))[0]%2 == 0
	l.mu.Lock()
	spared = spared || l.failed[key]
	if !spared {
		l.failed[key] = true
	}
	l.mu.Unlock()
	if spared {
		return l.Log.Append(ctx, s, version, m, events...)
	}
	if l.persisted {
		if err := l.Log.Append(ctx, s, version, m, events...); err != nil {
			return err
		}
	}
	return fmt.Errorf("append to %s: the database went away: %w", s, domain.ErrUnavailable)
}

// A history is what the ledger came to, as far as it does not depend on when
// things happened.
type history struct {
	types map[string]int    // events of plans and findings by type and stream
	ends  map[string]string // of shops: outcome and rule
	steps map[string][]domain.Type
	days  map[string]map[uint32]int // shops committed by consent and day
	count map[string]map[uint32]int // tasks of opened days that were planned
	real  map[string]map[uint32]int // tasks revealed
}

func (s *stage) history(t *testing.T) *history {
	t.Helper()
	h := &history{
		types: make(map[string]int), ends: make(map[string]string), steps: make(map[string][]domain.Type),
		days: make(map[string]map[uint32]int), count: make(map[string]map[uint32]int), real: make(map[string]map[uint32]int),
	}
	add := func(m map[string]map[uint32]int, consent string, day uint32, n int) {
		if m[consent] == nil {
			m[consent] = make(map[uint32]int)
		}
		m[consent][day] += n
	}
	heads := make(map[ledger.Stream]domain.Hash)
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got := r.ChainHash(heads[r.Stream]); got != r.Hash {
			t.Fatalf("%s %d does not continue its chain", r.Stream, r.Version)
		}
		heads[r.Stream] = r.Hash
		e, err := s.prog.Service.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			t.Fatal(err)
		}
		switch r.Stream.Category() {
		case "plan", "finding":
			h.types[string(r.Stream)+" "+string(r.Type)]++
		case "shop":
			h.steps[r.Stream.ID()] = append(h.steps[r.Stream.ID()], r.Type)
		}
		switch e := e.(type) {
		case shop.Committed:
			add(h.days, e.Consent, e.Day, 1)
		case plan.Opened:
			if e.Planned {
				add(h.count, e.Consent, e.Day, e.Count)
			}
		case shop.Revealed:
			add(h.real, e.Consent, e.Day, 1)
			h.ends[r.Stream.ID()] = string(e.Result.Outcome) + "/" + e.Result.Rule
			if e.Result.State != shop.StateJudged {
				h.ends[r.Stream.ID()] = string(e.Result.State) + "/" + e.Result.Rule
			}
		}
	}
	return h
}

// check checks what holds of every history.
func (h *history) check(t *testing.T) {
	t.Helper()
	for consent, byDay := range h.days {
		for day, slots := range byDay {
			if slots != plan.Slots {
				t.Errorf("day %s of %s has %d slots", domain.DayString(day), consent, slots)
			}
		}
	}
	for consent, byDay := range h.count {
		for day, tasks := range byDay {
			if h.real[consent][day] != tasks {
				t.Errorf("day %s of %s was opened with %d tasks, and %d were revealed", domain.DayString(day), consent, tasks, h.real[consent][day])
			}
		}
	}
	order := []domain.Type{
		"shop.committed.v1", "shop.sent.v1", "shop.session_opened.v1", "shop.session_action.v1", "shop.session_closed.v1", "shop.replied.v1", "shop.judged.v1", "shop.missed.v1", "shop.cancelled.v1", "shop.revealed.v1",
	}
	for id, steps := range h.steps {
		last := -1
		for _, s := range steps {
			at := slices.Index(order, s)
			if at < last || at == last && s != (shop.SessionAction{}).EventType() {
				t.Errorf("%s went through %v", id, steps)
				break
			}
			last = at
		}
	}
	t.Logf("the tasks ended as %v", ends(maps.Values(h.ends)))
}

func ends(values iter.Seq[string]) map[string]int {
	n := make(map[string]int)
	for v := range values {
		n[v]++
	}
	return n
}
