package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// A consent is revoked while a task is on its way that nobody will ever hear of again. The
// seals go on until that is said of it, and then nothing of them is kept but the seals.
func TestSealsOutliveAConsent(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "24")
	p := s.give(t, func(*consent.Request) {})
	id := plan.ConsentID(p.Nonce)
	first := seal.FirstHour(p.FirstDay)
	until := func(at time.Time) {
		t.Helper()
		s.days(t, at.Sub(s.start).Hours()/24)
	}
	until(seal.HourStart(first + 1).Add(-40 * time.Second))

	secret, err := s.prog.Service.Secrets.ByKey(p.OperatorKey)
	if err != nil {
		t.Fatal(err)
	}
	consents, err := s.prog.Worker.Work.Consents(t.Context())
	if err != nil || len(consents) != 1 {
		t.Fatalf("there are %d consents, %v, want 1", len(consents), err)
	}
	day := plan.DaySecret(plan.Key(secret, p.Nonce, p.FirstDay), consents[0].Granted.Entropy())
	slots := plan.RealSlots(day, 1)
	task := plan.ShopID(id, p.FirstDay, slots.Ascending()[0])
	m := ledger.Meta{Actor: "worker", Command: "a worker that dies"}
	if err := s.prog.Service.Shop(t.Context(), m, task, shop.Send{Endpoint: "ep_0", Template: "unit.convert", TemplateVersion: 1}); err != nil {
		t.Fatal(err)
	}
	s.revoke(t, p)
	kept := func(hour uint64) bool {
		t.Helper()
		_, _, err := s.prog.Worker.Bodies.Get(t.Context(), fmt.Sprintf("seal/%s/%d", id, hour))
		if err != nil && !errors.Is(err, domain.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !kept(first) {
		t.Error("nothing is kept of the seal of a day that is not opened")
	}
	until(seal.HourStart(first + 3))

	seals := s.seals(t, id)
	for hour, want := range map[uint64]bool{first: true, first + 1: true, first + 2: false, first + 3: false} {
		if _, ok := seals[hour]; ok != want {
			t.Errorf("hour %d of the first day is sealed: %t, want %t", hour-first, ok, want)
		}
		if kept(hour) {
			t.Errorf("the leaves of hour %d are still kept", hour-first)
		}
	}
	var last shop.Revealed
	for r, err := range s.prog.Service.Log.Stream(t.Context(), shop.StreamOf(task), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == last.EventType() {
			if err := domain.Unmarshal(r.Data, &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last.Result.Rule != shop.WorkerLost {
		t.Errorf("the task that was on its way ended as %+v, want %s", last.Result, shop.WorkerLost)
	}
	s.settled(t)
}
