package main

import (
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// TestSeals lets a day pass, stays away for five hours and a half, and goes on: each
// hour has one seal but those that nobody saw, and every task that ended an hour
// before its reveal, whatever became of it, was pinned by a seal in between.
func TestSeals(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "9")
	first := consents["steady"].FirstDay
	s.days(t, domain.DayStart(first+1).Sub(s.start).Hours()/24+10.5/24)
	s.clock.Jump(s.clock.Now().Add(330 * time.Minute))
	s.days(t, domain.DayStart(first+3).Sub(s.start).Hours()/24+0.5/24)

	for name, p := range consents {
		id := plan.ConsentID(p.Nonce)
		roots := s.seals(t, id)
		for hour := seal.FirstHour(first); hour <= seal.FirstHour(first+3); hour++ {
			away := hour > seal.FirstHour(first+1)+10 && hour < seal.FirstHour(first+1)+16
			if _, ok := roots[hour]; ok == away {
				t.Errorf("%s: hour %d of day %d: sealed is %t, want %t", name, hour%24, hour/24-uint64(first), ok, !away)
			}
		}
		if n := s.pins(t, id, first, roots); n == 0 {
			t.Errorf("%s: no revealed task was pinned", name)
		}
	}
}

// seals returns the roots of the seals of a consent by hour.
func (s *stage) seals(t *testing.T, id string) map[uint64]ledger.Record {
	t.Helper()
	seals := make(map[uint64]ledger.Record)
	for r, err := range s.prog.Service.Log.Stream(t.Context(), seal.StreamOf(id), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seals[sealed(t, r).Hour] = r
	}
	return seals
}

func sealed(t *testing.T, r ledger.Record) (e seal.Sealed) {
	t.Helper()
	if err := domain.Unmarshal(r.Data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// pins checks the seals that the reveals of the first days name, and counts them.
func (s *stage) pins(t *testing.T, id string, first uint32, seals map[uint64]ledger.Record) (n int) {
	t.Helper()
	for slot := range uint32(3 * plan.Slots) {
		day, slot := first+slot/plan.Slots, slot%plan.Slots
		stream := shop.StreamOf(plan.ShopID(id, day, slot))
		var last domain.Hash
		var at time.Time
		for r, err := range s.prog.Service.Log.Stream(t.Context(), stream, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Type != (shop.Revealed{}).EventType() {
				last, at = r.Hash, r.Time
				continue
			}
			var e shop.Revealed
			if err := domain.Unmarshal(r.Data, &e); err != nil {
				t.Fatal(err)
			}
			if e.Pinned.Path == nil {
				if r.Time.Sub(at) >= time.Hour {
					t.Errorf("%s ended at %s and was revealed at %s, and no seal pins it", stream, at, r.Time)
				}
				continue
			}
			record, ok := seals[e.Pinned.Hour]
			if !ok || record.Time.After(r.Time) || record.Time.Before(at) {
				t.Errorf("%s ended at %s and was revealed at %s; its seal is of %s", stream, at, r.Time, record.Time)
			}
			if err := seal.VerifyPath(sealed(t, record).Root, e.Pinned.Hour, day, slot, e.Pinned.Salt, last, e.Pinned.Path); err != nil {
				t.Errorf("%s: %v", stream, err)
			}
			n++
		}
	}
	return n
}
