package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// crowd registers agents that all live at one host, and gives a consent for each.
// The A2A endpoint of the first is a verified identity.
func (s *stage) crowd(t *testing.T, names ...string) {
	t.Helper()
	base := houseURL + "/demo-agents/steady"
	for i, name := range names {
		ref := agent.Ref("build:" + name)
		register := []agent.Command{agent.Register{Agent: ref, Wallet: s.owner, Demo: true}}
		if i == 0 {
			register = append(register, agent.VerifyIdentity{URL: base})
		}
		for i, c := range register {
			m := ledger.Meta{Actor: "operator", Command: "register/" + string(rune('0'+i))}
			if err := s.prog.Service.Agent(t.Context(), m, ref, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.prog.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.give(t, func(r *consent.Request) {
			r.Agent, r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = ref, 24, 100, 3600
		})
	}
}

// However many consents there are for a host, it is sent so many tasks a day, 24 but
// for this test; the first of a day are the ones.
func TestHostIsSpared(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "61")
	turns, ok := s.prog.Worker.Turns.(*tables.Turns)
	if !ok || turns.Most != 24 {
		t.Fatalf("a host has turns as of %+v, want 24 a day", s.prog.Worker.Turns)
	}
	turns.Most, turns.Every = 5, 0
	s.crowd(t, "one", "two", "three")
	s.days(t, 2.1)
	sent := make(map[uint32]int)
	sentOn := make(map[ledger.Stream]uint32)
	last := make(map[uint32]int64)  // planned moment of the last that was sent
	first := make(map[uint32]int64) // planned moment of the first that was missed
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case shop.Sent:
			sent[domain.DayOf(r.Time)]++
			sentOn[r.Stream] = domain.DayOf(r.Time)
		case shop.Revealed:
			day := domain.DayOf(time.Unix(e.SendAt, 0))
			switch {
			case e.Result.State == shop.StateJudged && sentOn[r.Stream] > day: // it waited until midnight
			case e.Result.State == shop.StateJudged:
				last[day] = max(last[day], e.SendAt)
			case e.Result.Rule != string(shop.HostBusy):
				t.Errorf("%s is %s for %s", r.Stream, e.Result.State, e.Result.Rule)
			case first[day] == 0:
				first[day] = e.SendAt
			default:
				first[day] = min(first[day], e.SendAt)
			}
		}
	}
	for day, n := range sent {
		if n > 5 {
			t.Errorf("%d tasks were sent on %s, want 5 at most", n, domain.DayString(day))
		}
		if first[day] != 0 && (n != 5 || last[day] > first[day]) {
			t.Errorf("on %s %d tasks were sent, the last due at %d, and one was missed that was due at %d",
				domain.DayString(day), n, last[day], first[day])
		}
	}
	if len(first) == 0 {
		t.Errorf("no task was missed, which shows nothing: %v sent", sent)
	}
}

// A host that asks to be left alone is, whatever consent its tasks belong to: what is
// due before is missed, and then it goes on.
func TestHostIsLeftAlone(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "65")
	s.crowd(t, "one", "two", "three")
	const rest = 12 * time.Hour
	asked := 0
	s.prog.Worker.Field = &answering{s.prog.Worker.Field, func(ctx context.Context, c agents.Call) (agents.Reply, error) {
		release, err := c.Gate(ctx)
		if err != nil {
			return agents.Reply{}, err
		}
		release()
		if asked++; asked == 3 {
			return agents.Reply{Outcome: task.Blocked, Code: agents.RateLimited, Status: http.StatusTooManyRequests, RetryAfter: rest}, nil
		}
		return agents.Reply{Status: http.StatusOK, Text: "No."}, nil
	}}
	s.days(t, 2.2)
	var sent []time.Time
	busy, consents := 0, make(map[string]bool)
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case shop.Sent:
			sent = append(sent, r.Time)
		case shop.Revealed:
			due := time.Unix(e.SendAt, 0)
			if e.Result.Rule == string(shop.HostBusy) && len(sent) > 2 && due.After(sent[2]) && due.Before(sent[2].Add(rest)) {
				consents[e.Consent] = true
				busy++
			}
		}
	}
	if len(sent) < 5 {
		t.Fatalf("%d tasks were sent", len(sent))
	}
	for i, at := range sent[1:] {
		pause := consent.HostPause
		if i == 2 {
			pause = rest
		}
		if at.Sub(sent[i]) < pause {
			t.Errorf("task %d was sent %s after the one before, want %s at least", i+1, at.Sub(sent[i]), pause)
		}
	}
	if busy < 2 || len(consents) < 2 {
		t.Errorf("%d tasks of %d consents were missed meanwhile, want some of both", busy, len(consents))
	}
}

// A host that wants no tasks gets none, whoever owns it, under any consent and also
// at an endpoint that is a verified identity; and new consents are refused until it
// says otherwise.
func TestHostStops(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "62")
	s.crowd(t, "one", "two")
	stopped, until := s.start.Add(28*time.Hour+time.Minute), s.start.Add(40*time.Hour+time.Minute)
	s.prog.Service.Hosts = fickle{s.prog.Service.Hosts, func() error {
		if now := s.clock.Now(); now.After(stopped) && now.Before(until) {
			return commands.ErrStopped
		}
		return nil
	}}
	s.days(t, 32.0/24)
	if _, err := s.api.grant(t.Context(), consent.Request{
		Agent: edge, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: houseURL + "/demo-agents/steady"}},
		Kinds: []task.Kind{task.A2A}, MaxPerDay: 1, MaxPerWeek: 1, RevealDelaySeconds: 3600, ValidityDays: 7,
	}, s.wallet); err == nil || !strings.Contains(err.Error(), "problems/host-stopped") {
		t.Errorf("a consent for a host that wants no tasks: %v", err)
	}
	s.days(t, 2.6)
	lost, proven, cancelled, after := make(map[string]bool), 0, 0, 0
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case consent.HostLost:
			lost[e.Consent+e.Endpoint] = true
			if e.Reason != domain.Sentence(commands.ErrStopped) {
				t.Errorf("a host was lost as %q", e.Reason)
			}
		case consent.HostProven:
			if r.Time.After(until) {
				proven++
			}
		case shop.Sent:
			if r.Time.After(stopped.Add(time.Hour)) && r.Time.Before(until) {
				t.Errorf("a task was sent at %s to a host that wants none", r.Time)
			}
			if r.Time.After(until) {
				after++
			}
		case shop.Cancelled:
			if e.Reason == shop.HostLost {
				cancelled++
			}
		}
	}
	if len(lost) != 4 || proven != 4 || cancelled == 0 || after == 0 {
		t.Errorf("%d endpoints lost, %d proven again, %d tasks cancelled, %d sent afterwards, want 4, 4 and some of both",
			len(lost), proven, cancelled, after)
	}
}

// An identity that is withdrawn is a word of its own: its endpoint is lost at the
// next reading, also while its host does not answer, which would keep an endpoint
// that the host itself had vouched for.
func TestWithdrawnIdentityIsLost(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "63")
	s.crowd(t, "one")
	silent := s.start.Add(12*time.Hour + time.Minute)
	s.prog.Service.Hosts = fickle{s.prog.Service.Hosts, func() error {
		if s.clock.Now().After(silent) {
			return errors.New("no route")
		}
		return nil
	}}
	s.days(t, 12.1/24)
	if err := s.prog.Service.Agent(t.Context(), ledger.Meta{Actor: "operator", Command: "withdraw"}, "build:one",
		agent.WithdrawIdentity{URL: houseURL + "/demo-agents/steady", Reason: "it was sold"}); err != nil {
		t.Fatal(err)
	}
	s.days(t, 15.5/24)
	lost := make(map[string]time.Duration)
	for r, e := range s.events(t) {
		if e, ok := e.(consent.HostLost); ok {
			lost[e.Endpoint] = r.Time.Sub(s.start)
		}
	}
	want := map[string]time.Duration{"ep_0": 13 * time.Hour, "ep_1": 15 * time.Hour}
	if diff := cmp.Diff(want, lost); diff != "" {
		t.Errorf("lost how long after the start (-want +got):\n%s", diff)
	}
}

// Hosts are read at fixed moments, whatever is due, and at once after a start.
func TestHostsAreReadAtAFixedCadence(t *testing.T) {
	inOrder(t)
	t.Parallel()
	for _, every := range []time.Duration{0, 20 * time.Minute, 3 * time.Hour} {
		s := bare(t, "64")
		s.give(t, func(r *consent.Request) { r.MaxPerDay, r.MaxPerWeek = 24, 100 })
		s.prog.Worker.CheckEvery = every
		var times []time.Time
		var mu sync.Mutex
		s.prog.Service.Hosts = fickle{s.prog.Service.Hosts, func() error {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, s.clock.Now())
			return nil
		}}
		s.days(t, 1.25)
		if every == 0 {
			every = time.Hour
		}
		// Both endpoints at the start, and then at each full interval.
		if got, want := len(times), 2*int(30*time.Hour/every); got != want {
			t.Errorf("every %s: %d readings in 30 hours, want %d", every, got, want)
		}
		for _, at := range times {
			if !at.Equal(at.Truncate(every)) && at.Sub(s.start) > time.Minute {
				t.Errorf("every %s: a host was read at %s", every, at)
			}
		}
	}
}
