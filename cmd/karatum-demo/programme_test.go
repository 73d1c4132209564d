package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
)

func (s *stage) command(t *testing.T, name string, c programme.Command) {
	t.Helper()
	if err := s.prog.Service.Programme(t.Context(), ledger.Meta{Actor: "operator", Command: name}, c); err != nil {
		t.Fatal(err)
	}
}

// A scope that is paused holds back its own tasks and no others, and they stay
// visible as missed for that reason.
func TestPausedScopes(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "42")
	p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = 24, 100, 3600 })
	var identities []programme.Scope
	for i := range uint32(6) {
		identities = append(identities, programme.OfIdentity(i))
	}
	pauses := [][]programme.Scope{ // by day
		identities,
		identities,
		{programme.OfHost(houseHost)},
		{programme.OfConsent(plan.ConsentID(p.Nonce)), programme.OfIdentity(3)},
		nil,
	}
	for i, scopes := range pauses {
		s.days(t, float64(i+1))
		for _, scope := range scopes {
			s.command(t, "pause "+string(scope)+time.Duration(i).String(), programme.Pause{Scope: scope, Reason: "a test"})
		}
		s.days(t, float64(i+2)-0.001)
		for _, scope := range scopes {
			s.command(t, "resume "+string(scope)+time.Duration(i).String(), programme.Resume{Scope: scope, Reason: "a test"})
		}
	}
	s.days(t, float64(len(pauses)+2))

	missed, asked := make([]int, len(pauses)), make([]int, len(pauses))
	for r, event := range s.events(t) {
		e, ok := event.(shop.Revealed)
		if !ok {
			continue
		}
		day := int(e.Day - p.FirstDay)
		if day >= len(pauses) || e.SendAt%86400 > 86400-20*60 {
			continue // not paused, or still in its window when the pause is over
		}
		held := false
		for _, scope := range (programme.Task{Consent: e.Consent, Host: houseHost, Template: e.Template, Identity: e.Identity}).Scopes() {
			for _, paused := range pauses[day] {
				held = held || paused == scope
			}
		}
		switch {
		case e.Result.State == shop.StateMissed && e.Result.Rule == string(shop.Paused):
			missed[day]++
		case e.Result.State == shop.StateJudged:
			asked[day]++
		default:
			t.Errorf("%s ended as %+v", r.Stream, e.Result)
		}
		if held != (e.Result.State == shop.StateMissed) {
			t.Errorf("%s of day %d under identity %d ended as %+v; held back: %t", r.Stream, day, e.Identity, e.Result, held)
		}
	}
	if missed[0]+missed[1] == 0 || asked[0]+asked[1] == 0 || missed[2] == 0 || missed[3] == 0 || asked[4] == 0 {
		t.Errorf("by day %v tasks were missed and %v sent, which proves little", missed, asked)
	}
}

// keep lets days pass although some consents cannot be served, and returns the last
// error of a step.
func (s *stage) keep(t *testing.T, days float64) (last error) {
	t.Helper()
	end := s.start.Add(time.Duration(days * 24 * float64(time.Hour)))
	for {
		next, err := s.prog.Worker.Step(t.Context())
		if err != nil {
			last = err
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		if !next.Before(end) {
			s.clock.Jump(end)
			return last
		}
		s.clock.Jump(next)
	}
}

// Two agents, two consents, and a rotation between them: each keeps the secret that
// it was signed for, through a restart, and its days can be recomputed. Without the
// older secret one consent stands still, and says so, while the other goes on.
func TestRotation(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "41")
	const other agent.Ref = "build:exam-aware"
	m := ledger.Meta{Actor: "operator", Command: "register another"}
	if err := s.prog.Service.Agent(t.Context(), m, other, agent.Register{Agent: other, Wallet: s.owner, Demo: true}); err != nil {
		t.Fatal(err)
	}
	often := func(r *consent.Request) {
		r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds, r.ValidityDays = 12, 84, 3600, 9
	}
	before := s.give(t, often)
	s.days(t, 2.5) // in the middle of a day that is planned and begun

	ring := append(slices.Clip(s.prog.Service.Secrets), s.flags.draw("next operator secret"))
	keys := ring.Keys()
	s.prog.Service.Secrets = ring
	s.command(t, "rotate", programme.RegisterKey{Key: keys[1]})
	s.restart()
	after := s.give(t, func(r *consent.Request) {
		often(r)
		r.Agent = other
		for i := range r.Endpoints {
			r.Endpoints[i].URL = strings.Replace(r.Endpoints[i].URL, "steady", "exam-aware", 1)
		}
	})
	if before.OperatorKey != keys[0] || after.OperatorKey != keys[1] {
		t.Errorf("the consents name the keys %s and %s, want %s", before.OperatorKey, after.OperatorKey, keys)
	}
	s.days(t, 5)
	both := map[string]consent.Payload{"before": before, "after": after}
	s.audit(t, both)

	s.prog.Service.Secrets = ring[1:]
	s.restart()
	sent := s.sentUnder(t, before)
	goesOn := s.sentUnder(t, after)
	if err := s.keep(t, 6); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), keys[0].String()) {
		t.Errorf("without the older secret a step fails with %v, want the key that is missing", err)
	}
	if n := s.sentUnder(t, before) - sent; n != 0 {
		t.Errorf("%d tasks were sent under a consent whose secret is missing", n)
	}
	if s.sentUnder(t, after) == goesOn {
		t.Error("the other consent stands still too")
	}
	missing, err := s.prog.MissingKeys(t.Context())
	want := []assembly.KeyUse{{Key: keys[0], Consents: []string{plan.ConsentID(before.Nonce)}}}
	if diff := cmp.Diff(want, missing); diff != "" || err != nil {
		t.Errorf("MissingKeys, %v (-want +got):\n%s", err, diff)
	}
	retire := func() error {
		return s.prog.RetireKey(t.Context(), ledger.Meta{Actor: "operator", Command: "retire"}, keys[0], "a year is over")
	}
	if err := retire(); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("RetireKey of a key in use: %v, want ErrConflict", err)
	}

	// The secret is back: what was missed comes out, and in the end the key can go.
	s.prog.Service.Secrets = ring
	s.restart()
	s.days(t, 14)
	s.settled(t)
	s.audit(t, map[string]consent.Payload{"after": after})
	if ends(maps.Values(s.history(t).ends))["missed/operator_late"] == 0 {
		t.Error("no task was missed while the secret was missing")
	}
	if err := retire(); err != nil {
		t.Errorf("RetireKey of a key that nothing needs: %v", err)
	}
}

// sentUnder counts the tasks sent under a consent.
func (s *stage) sentUnder(t *testing.T, p consent.Payload) (n int) {
	t.Helper()
	prefix := "shp_" + strings.TrimPrefix(plan.ConsentID(p.Nonce), "cns_") + "_"
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (shop.Sent{}).EventType() && strings.HasPrefix(r.Stream.ID(), prefix) {
			n++
		}
	}
	return n
}
