package finding_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/finding"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	after := func(day uint32, look int) finding.Reached {
		return finding.Reached{Consent: "cns_a", Cycle: finding.AfterDay, Day: day, Look: look, Verdict: finding.Insufficient}
	}
	end := func(day uint32, look int) finding.Reached {
		return finding.Reached{Consent: "cns_a", Cycle: finding.AtEnd, Day: day, Look: look, Verdict: finding.Consistent}
	}

	type events = []finding.Event
	domaintest.Decide(t, finding.Decider, []domaintest.Case[finding.Command, finding.Event]{
		{Name: "first look", When: finding.Reach(after(7, 1)), Then: events{after(7, 1)}},
		{Name: "next look", Given: events{after(7, 1)}, When: finding.Reach(after(8, 2)), Then: events{after(8, 2)}},
		{Name: "an earlier day that was opened late", Given: events{after(8, 1)}, When: finding.Reach(after(7, 2)), Then: events{after(7, 2)}},
		{Name: "a day twice", Given: events{after(7, 1)}, When: finding.Reach(after(7, 2))},
		{Name: "a day twice under its number", Given: events{after(7, 1)}, When: finding.Reach(after(7, 1))},
		{Name: "a number twice", Given: events{after(7, 1)}, When: finding.Reach(after(8, 1)), Err: domain.ErrConflict},
		{Name: "a number left out", Given: events{after(7, 1)}, When: finding.Reach(after(8, 3)), Err: domain.ErrConflict},
		{Name: "first look without a number", When: finding.Reach(after(7, 0)), Err: domain.ErrConflict},
		{Name: "the end after its last day", Given: events{after(7, 1)}, When: finding.Reach(end(7, 2)), Then: events{end(7, 2)}},
		{Name: "the end twice", Given: events{after(7, 1), end(7, 2)}, When: finding.Reach(end(7, 3))},
		{Name: "the end before any day", When: finding.Reach(end(0, 1)), Then: events{end(0, 1)}},
		{Name: "a day after the end", Given: events{end(7, 1)}, When: finding.Reach(after(7, 2)), Then: events{after(7, 2)}},
	})
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, finding.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, finding.Events, os.DirFS("testdata"))
}
