package main

import (
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// TestNothingLeavesUnattested has a chain that works for two days and then takes nothing
// any more: tasks leave as long as their plans are attested, then they are missed, and
// reveals wait two hours for a chain that does not come back.
func TestNothingLeavesUnattested(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, _ := openWith(t, flags{seed: "91", listen: "127.0.0.1:0", anchored: true})
	s.days(t, 2.99)
	down := s.start.AddDate(0, 0, 3)
	s.anchor.due = down.AddDate(1, 0, 0)
	s.days(t, 4.5)

	var (
		commits  = make(map[string]domain.Hash) // by the stream of the slot
		roots    = make(map[string]domain.Hash) // by the stream of the seals and the hour
		pending  []domain.Hash
		attested = make(map[domain.Hash]time.Time)
		members  = make(map[uint64][]domain.Hash) // by batch
		sent     int
		missed   int
		anchored int
		late     int
	)
	hourOf := func(consentID string, hour uint64) string {
		return string(seal.StreamOf(consentID)) + " " + time.Unix(int64(hour)*3600, 0).String()
	}
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case shop.Committed:
			commits[string(r.Stream)] = e.Commit
			pending = append(pending, e.Commit)
		case seal.Sealed:
			roots[hourOf(e.Consent, e.Hour)] = e.Root
			pending = append(pending, e.Root)
		case batch.Sealed:
			members[e.Batch], pending = pending[:e.Count], pending[e.Count:]
		case batch.Attested:
			for _, c := range members[e.Batch] {
				attested[c] = r.Time
			}
		case shop.Sent:
			sent++
			if at, ok := attested[commits[string(r.Stream)]]; !ok || at.After(r.Time) {
				t.Errorf("%s left at %s, and its commit was attested at %s", r.Stream, r.Time, at)
			}
			if r.Time.After(down.AddDate(0, 0, 1)) {
				t.Errorf("%s left at %s, a day after the chain", r.Stream, r.Time)
			}
		case shop.Missed:
			if e.Reason != shop.Unattested {
				t.Errorf("%s was missed as %s, want %s", r.Stream, e.Reason, shop.Unattested)
			}
			missed++
		case shop.Revealed:
			root, sealed := roots[hourOf(e.Consent, e.Pinned.Hour)]
			at, ok := attested[root]
			if !sealed || e.Unanchored == ok {
				t.Errorf("%s is revealed as unanchored: %t, and its seal was attested at %s", r.Stream, e.Unanchored, at)
			}
			if due := time.Unix(e.SendAt, 0).Add(revealDelay); e.Unanchored && r.Time.Before(due.Add(2*time.Hour)) {
				t.Errorf("%s is revealed at %s, and was due at %s: its seal was not waited for", r.Stream, r.Time, due)
			} else if e.Unanchored {
				late++
			} else {
				anchored++
			}
		}
	}
	if sent == 0 || missed == 0 || anchored == 0 || late == 0 {
		t.Errorf("%d tasks left and %d were missed, %d reveals were anchored and %d were not, want some of each", sent, missed, anchored, late)
	}
}
