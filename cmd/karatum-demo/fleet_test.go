package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// TestThreeWorkersThatDie lets three workers work for two days on the consents of
// two agents that live at one host, and kills them again and again between any two
// of the things they do. What the house agents were asked is counted at their door.
func TestThreeWorkersThatDie(t *testing.T) {
	t.Parallel()
	door := &door{asked: make(map[domain.Hash]int)}
	s := empty(t, flags{seed: "71", listen: "127.0.0.1:0", watch: door.before})
	s.crowd(t, "one", "two")
	one, ok := s.prog.Worker.Field.(worker.OneByOne)
	if !ok {
		t.Fatalf("the field is a %T", s.prog.Worker.Field)
	}
	road := &road{field: one.Field}
	s.prog.Worker.Field = worker.OneByOne{Field: road, Leases: one.Leases}
	fleet := &fleet{stage: s, random: rand.New(rand.NewPCG(71, 0))}
	fleet.pass(t, s.start.Add(72*time.Hour), 35)
	fleet.pass(t, s.start.Add(75*time.Hour), 0) // the last things are done by workers that live
	if fleet.deaths < 20 {
		t.Errorf("%d workers died, want many", fleet.deaths)
	}

	asks, answered := make(map[domain.Hash]int), make(map[domain.Hash]int)
	sentOn := make(map[uint32]int)
	ends := make(map[string]int)
	var last time.Time
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case shop.Sent:
			sentOn[domain.DayOf(r.Time)]++
			asks[e.Ask]++
			if pause := r.Time.Sub(last); pause < consent.HostPause {
				t.Errorf("%s was sent %s after the one before", r.Stream, pause)
			}
			last = r.Time
		case shop.Revealed:
			ends[string(e.Result.State)+"/"+e.Result.Rule]++
			if !e.Result.ReplyHash.IsZero() {
				answered[e.Ask.Hash()]++
			}
		}
	}
	t.Logf("%d deaths; the tasks ended as %v", fleet.deaths, ends)
	for day, n := range sentOn {
		if n > consent.MaxPerHost {
			t.Errorf("%d tasks were sent to the host on %s", n, domain.DayString(day))
		}
	}
	if road.most != 1 {
		t.Errorf("the host was asked for %d things at once", road.most)
	}
	for key, n := range door.asked {
		if n > asks[key] {
			t.Errorf("an agent was asked %d times, and %d tasks were sent: %s", n, asks[key], key)
		}
	}
	for key, n := range answered {
		if n > door.asked[key] {
			t.Errorf("%d replies are on record, and %d came: %s", n, door.asked[key], key)
		}
	}
	s.history(t).checkEnded(t)
}

// checkEnded checks that every task of a day that was opened came to one end.
func (h *history) checkEnded(t *testing.T) {
	t.Helper()
	h.check(t)
	opened := 0
	for _, days := range h.count {
		opened += len(days)
	}
	if opened < 4 {
		t.Errorf("%d days were opened, want two of each of two consents", opened)
	}
	for id, steps := range h.steps {
		terminal := 0
		for _, step := range steps {
			switch step {
			case (shop.Judged{}).EventType(), (shop.Missed{}).EventType(), (shop.Cancelled{}).EventType():
				terminal++
			}
		}
		if terminal > 1 || len(steps) > 1 && steps[len(steps)-1] == (shop.Revealed{}).EventType() && terminal != 1 {
			t.Errorf("%s came to %d ends: %v", id, terminal, steps)
		}
	}
}

// A door counts what is asked of the agents behind it.
type door struct {
	mu    sync.Mutex
	asked map[domain.Hash]int // by hash of the question
}

func (d *door) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asked is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		d.count(body)
		next.ServeHTTP(w, r)
	})
}

// count counts the question in a request, if there is one.
func (d *door) count(body []byte) {
	var message struct {
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Message   struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil {
		return // a request without a body
	}
	ask := task.Ask{Tool: message.Params.Name, Arguments: message.Params.Arguments}
	for _, part := range message.Params.Message.Parts {
		ask.Text += part.Text
	}
	if ask.Tool == "" && ask.Text == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[ask.Hash()]++
}

// A road counts how many are on their way to the agents at once.
type road struct {
	field

	mu       sync.Mutex
	on, most int
}

func (r *road) enter() (leave func()) {
	add := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.on += n
		r.most = max(r.most, r.on)
	}
	add(1)
	return func() { add(-1) }
}

func (r *road) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	defer r.enter()()
	return r.field.Observe(ctx, kind, url, s)
}

func (r *road) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	defer r.enter()()
	return r.field.Ask(ctx, kind, c)
}

// A fleet is three workers that share a ledger and nothing else.
type fleet struct {
	*stage
	random *rand.Rand
	crew   [3]*mortal
	deaths int
}

// A mortal is a worker that dies after it has done so many things.
type mortal struct {
	*worker.Worker
	ctx  context.Context
	kill context.CancelFunc
	left atomic.Int64 // things that it still does; it lives on if there were none from the start
}

// pass lets time pass until end. A worker dies after up to lifetime things that it
// did, if that is not 0, and another one takes its place.
func (f *fleet) pass(t *testing.T, end time.Time, lifetime int64) {
	t.Helper()
	for i := range f.crew {
		f.crew[i] = f.born(t, lifetime)
	}
	for idle := 0; idle < 1000; idle++ {
		var nexts [len(f.crew)]time.Time
		var errs [len(f.crew)]error
		var wg sync.WaitGroup
		for i, m := range f.crew {
			wg.Go(func() { nexts[i], errs[i] = m.Step(m.ctx) })
		}
		wg.Wait()
		whole, next := true, end
		for i, m := range f.crew {
			switch {
			case m.ctx.Err() != nil:
				m.kill()
				f.crew[i], whole = f.born(t, lifetime), false
				f.deaths++
			case errs[i] != nil && !errors.Is(errs[i], domain.ErrConflict):
				t.Fatalf("a worker that lives failed: %v", errs[i])
			case errs[i] != nil:
				whole = false // another one was first
			case nexts[i].Before(next):
				next = nexts[i]
			}
		}
		if !whole {
			continue
		}
		idle = 0
		f.clock.Jump(next)
		if !next.Before(end) {
			return
		}
	}
	t.Fatal("the workers do not get on")
}

// born returns a worker that knows nothing but the ledger.
func (f *fleet) born(t *testing.T, lifetime int64) *mortal {
	t.Helper()
	w := f.prog.Worker
	m := &mortal{}
	m.ctx, m.kill = context.WithCancel(t.Context())
	t.Cleanup(m.kill)
	if lifetime > 0 {
		m.left.Store(1 + f.random.Int64N(lifetime))
	}
	service := *w.Service
	service.Log, service.Histories = &mortalLog{service.Log, m, rand.New(rand.NewPCG(f.random.Uint64(), 0))}, commands.NewHistories()
	m.Worker = &worker.Worker{
		Service: &service, Work: w.Work, Field: mortalField{w.Field, m}, Gate: w.Gate, Turns: w.Turns, Bodies: w.Bodies,
		Rand: w.Rand, Now: w.Now, Sources: w.Sources, Parallel: 1, Log: w.Log,
	}
	return m
}

// dies counts one more thing and reports whether it was the last.
func (m *mortal) dies() bool {
	if m.left.Load() > 0 && m.left.Add(-1) == 0 {
		m.kill()
	}
	return m.ctx.Err() != nil
}

// A mortalLog fails for good when its worker dies, before or after the last append.
type mortalLog struct {
	ledger.Log

	m      *mortal
	random *rand.Rand
}

func (l *mortalLog) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	died := l.m.ctx.Err() != nil
	if died || l.m.dies() {
		if !died && l.random.IntN(2) == 0 {
			_ = l.Log.Append(context.WithoutCancel(ctx), s, version, m, events...) // nobody hears of it
		}
		return fmt.Errorf("append to %s: %w", s, context.Canceled)
	}
	return l.Log.Append(ctx, s, version, m, events...)
}

// A mortalField may lose its worker before it asks, and when the answer is there.
type mortalField struct {
	field
	m *mortal
}

func (f mortalField) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	if f.m.dies() {
		return agents.Reply{}, f.m.ctx.Err()
	}
	reply, err := f.field.Ask(ctx, kind, c)
	if f.m.dies() {
		return agents.Reply{}, f.m.ctx.Err()
	}
	return reply, err
}
