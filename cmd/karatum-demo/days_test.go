package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// TestDayWithoutPlan leaves the worker asleep from one evening to the next
// morning: the day between has no plan. It is opened all the same, and what it
// should have held counts as missed.
func TestDayWithoutPlan(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "29")
	p := consents["steady"]
	id := plan.ConsentID(p.Nonce)
	deleted := &deletions{Bodies: s.prog.Worker.Bodies, times: make(map[string]int)}
	s.prog.Worker.Bodies = deleted
	s.days(t, 2+21.0/24)
	unplanned := domain.DayOf(s.clock.Now()) + 1
	s.clock.Jump(domain.DayStart(unplanned).Add(time.Minute)) // nobody is there at 22:00
	s.days(t, 6.5)

	var opened *plan.Opened
	for _, o := range opens(t, s, id) {
		if o.Day == unplanned {
			opened = &o
		} else if !o.Planned {
			t.Errorf("%s has no plan either", domain.DayString(o.Day))
		}
	}
	if opened == nil || opened.Planned {
		t.Fatalf("day %s was opened as %+v, want it opened and without a plan", domain.DayString(unplanned), opened)
	}
	g, err := s.prog.Service.ActiveConsent(t.Context(), p.Agent)
	if err != nil {
		t.Fatal(err)
	}
	secret := plan.DaySecret(opened.Key, g.Entropy())
	if n := plan.Count(secret, opened.Cap); n != opened.Count || n == 0 {
		t.Errorf("the day should have held %d tasks, and says %d; the test needs some", n, opened.Count)
	}
	late := 0 // of the evening before, which nobody sent either
	for _, e := range s.events(t) {
		if e, ok := e.(shop.Revealed); ok && e.Consent == id && e.Result.State == shop.StateMissed {
			late++
		}
	}
	if got := lastFinding(t, s, id).Field.Missed; got != opened.Count+late {
		t.Errorf("the finding counts %d missed, want the %d that were never planned and %d that were late", got, opened.Count, late)
	}
	for slot := range uint32(plan.Slots) {
		for r, err := range s.prog.Service.Log.Stream(t.Context(), shop.StreamOf(plan.ShopID(id, unplanned, slot)), 0) {
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("slot %d of the day without a plan has a %s", slot, r.Type)
		}
	}

	first := seal.FirstHour(p.FirstDay)
	for hour := first; hour < seal.FirstHour(unplanned+1); hour++ { // they go as the days are opened
		if got := deleted.times[fmt.Sprintf("seal/%s/%d", id, hour)]; got != 1 {
			t.Errorf("the leaves of hour %d were deleted %d times, want once", hour-first, got)
		}
	}
}

// deletions counts how often each body is deleted.
type deletions struct {
	worker.Bodies

	mu    sync.Mutex
	times map[string]int
}

func (d *deletions) Delete(ctx context.Context, keys ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		d.times[key]++
	}
	return d.Bodies.Delete(ctx, keys...)
}

// opens returns the days of a consent that were opened.
func opens(t *testing.T, s *stage, id string) (days []plan.Opened) {
	t.Helper()
	for _, e := range s.eventsOf(t, plan.StreamOf(id)) {
		if o, ok := e.(plan.Opened); ok {
			days = append(days, o)
		}
	}
	return days
}

func lastFinding(t *testing.T, s *stage, id string) (f finding.Reached) {
	t.Helper()
	for _, e := range s.eventsOf(t, finding.StreamOf(id)) {
		if reached, ok := e.(finding.Reached); ok {
			f = reached
		}
	}
	return f
}

// TestStalledAgentHoldsUpNobody sends beside the cycle, as the service does: while
// an agent keeps its task waiting, the cycle goes on, or others could tell from
// what is late that the agent has one.
func TestStalledAgentHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "31")
	w := s.prog.Worker
	w.Async = true
	reached, answer := make(chan struct{}, 1), make(chan struct{})
	next := w.Field
	w.Field = &answering{next, func(ctx context.Context, c agents.Call) (agents.Reply, error) {
		release, err := c.Gate(ctx)
		if err != nil {
			return agents.Reply{}, err
		}
		release()
		reached <- struct{}{}
		<-answer
		return agents.Reply{Status: http.StatusOK, Text: "I cannot do that."}, nil
	}}
	for waiting := false; !waiting; {
		next, err := w.Step(t.Context()) // comes back though the agent does not
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-reached:
			waiting = true
		case <-time.After(20 * time.Millisecond):
			s.clock.Jump(next)
		}
	}
	stalled := lastSent(t, s)
	hour := s.clock.Now().Truncate(time.Hour).Add(time.Hour)
	for s.clock.Now().Before(hour) {
		s.clock.Jump(s.clock.Now().Add(10 * time.Minute))
		if _, err := w.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(answer)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Run(stopped, time.Second); err != nil { // returns when nothing is on its way any more
		t.Fatal(err)
	}
	ended := 0
	for r, err := range s.prog.Service.Log.Stream(t.Context(), stalled, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (shop.Judged{}).EventType() {
			ended++
		}
	}
	if ended != 1 {
		t.Errorf("%s was judged %d times, want once", stalled, ended)
	}
}

// TestTasksThatLeftAreWaitedFor ends a worker while an agent thinks: the answer is
// recorded all the same, and nothing else leaves.
func TestTasksThatLeftAreWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "33")
	w := s.prog.Worker
	w.Async = true
	reached, answer := make(chan context.Context, 24), make(chan struct{})
	w.Field = &answering{w.Field, func(ctx context.Context, c agents.Call) (agents.Reply, error) {
		release, err := c.Gate(ctx)
		if err != nil {
			return agents.Reply{}, err
		}
		release()
		reached <- ctx
		select {
		case <-answer:
			return agents.Reply{Status: http.StatusOK, Text: "I cannot do that."}, nil
		case <-ctx.Done():
			return agents.Reply{}, ctx.Err()
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asked context.Context // that of the task, to see whether it is given up
	for asked == nil {
		next, err := w.Step(ctx)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case asked = <-reached:
		case <-time.After(20 * time.Millisecond):
			s.clock.Jump(next)
		}
	}
	waiting := lastSent(t, s)
	stop()
	if asked.Err() != nil {
		t.Error("a task that has left is given up when the worker is told to end")
	}
	close(answer)
	if err := w.Run(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	var types []domain.Type
	for r, err := range s.prog.Service.Log.Stream(t.Context(), waiting, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, r.Type)
	}
	if !slices.Contains(types, shop.Replied{}.EventType()) || !slices.Contains(types, shop.Judged{}.EventType()) {
		t.Errorf("what was recorded of the task is %v, want its answer too", types)
	}
	for range 24 { // a day in which others are due
		s.clock.Jump(s.clock.Now().Add(time.Hour))
		if _, err := w.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Run(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if last := lastSent(t, s); last != waiting {
		t.Errorf("%s was sent by a worker that had been told to end", last)
	}
}
