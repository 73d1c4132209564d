package main

import (
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/shop"
)

// set sets the clock, also back.
func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// A leap day is a day like others. What is due while nobody is there is missed and not
// made up for, and an hour that comes twice brings nothing twice.
func TestLeapDayDowntimeAndClockSetBack(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "787") // 27 February 2028
	p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = 24, 100, 30_000 })
	const leapDay = 21243
	if got := domain.DayString(leapDay); got != "2028-02-29" {
		t.Fatalf("day %d is %s, want a leap day", leapDay, got)
	}
	s.days(t, 1.08)
	away := s.clock.Now()
	back := away.Add(6 * time.Hour) // and all that was sent is revealed behind it
	s.clock.set(back)
	s.days(t, 3.5)
	s.clock.set(s.clock.Now().Add(-90 * time.Minute))
	s.days(t, 5.2)

	c := s.chronicle(t, p)
	if c.opened[leapDay].IsZero() || c.counts[leapDay] == 0 {
		t.Errorf("of the leap day, opened at %s, %d tasks are known, want some", c.opened[leapDay], c.counts[leapDay])
	}
	late := 0
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := commands.Catalog().Decode(r.Type, r.Data)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := e.(shop.Revealed); ok && e.Result.Rule == string(shop.OperatorLate) {
			late++
			if end := time.Unix(e.SendAt, 0).Add(15 * time.Minute); end.Before(away) || end.After(back) {
				t.Errorf("%s was missed though somebody was there until %s", r.Stream, end.UTC())
			}
		}
	}
	if late == 0 {
		t.Error("nothing was due while nobody was there, which shows nothing")
	}
}
