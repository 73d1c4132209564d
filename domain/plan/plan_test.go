package plan_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/plan"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	sealed := func(day uint32, first byte) plan.Sealed {
		return plan.Sealed{Consent: "cns_a", Day: day, Commits: [plan.Slots]domain.Hash{{first}}, Eligible: domain.Hash{9}}
	}
	opened := func(day uint32, planned bool) plan.Opened {
		return plan.Opened{Consent: "cns_a", Day: day, Planned: planned, Key: domain.Hash{byte(day)}, Notes: []plan.Note{}}
	}
	seal := func(s plan.Sealed) plan.Seal { return plan.Seal(s) }
	open := func(o plan.Opened) plan.Open { return plan.Open(o) }
	otherList := sealed(7, 1)
	otherList.Eligible = domain.Hash{8}
	lastCommit := sealed(7, 1)
	lastCommit.Commits[plan.Slots-1] = domain.Hash{1}

	noting := func(notes ...plan.Note) plan.Opened {
		o := opened(7, false)
		o.Notes = notes
		return o
	}
	type events = []plan.Event
	domaintest.Decide(t, plan.Decider, []domaintest.Case[plan.Command, plan.Event]{
		{Name: "seal", When: seal(sealed(7, 1)), Then: events{sealed(7, 1)}},
		{Name: "seal again", Given: events{sealed(7, 1)}, When: seal(sealed(7, 1))},
		{Name: "seal the next day", Given: events{sealed(7, 1)}, When: seal(sealed(8, 1)), Then: events{sealed(8, 1)}},
		{Name: "seal other commits", Given: events{sealed(7, 1)}, When: seal(sealed(7, 2)), Err: domain.ErrConflict},
		{Name: "seal another last commit", Given: events{sealed(7, 1)}, When: seal(lastCommit), Err: domain.ErrConflict},
		{Name: "seal another list", Given: events{sealed(7, 1)}, When: seal(otherList), Err: domain.ErrConflict},
		{Name: "seal again after it was opened", Given: events{sealed(7, 1), opened(7, true)}, When: seal(sealed(7, 1))},
		{Name: "seal a day that was opened without a plan", Given: events{opened(7, false)}, When: seal(sealed(7, 1)), Err: domain.ErrConflict},

		{Name: "open", Given: events{sealed(7, 1)}, When: open(opened(7, true)), Then: events{opened(7, true)}},
		{Name: "open again", Given: events{sealed(7, 1), opened(7, true)}, When: open(opened(7, true))},
		{Name: "open a day without a plan", When: open(opened(7, false)), Then: events{opened(7, false)}},
		{Name: "open a day without a plan beside one with", Given: events{sealed(8, 1)}, When: open(opened(7, false)), Then: events{opened(7, false)}},
		{Name: "open a day as planned that was not", When: open(opened(7, true)), Err: domain.ErrConflict},
		{Name: "open a day as not planned that was", Given: events{sealed(7, 1)}, When: open(opened(7, false)), Err: domain.ErrConflict},
		{
			Name: "open an earlier day later", Given: events{sealed(7, 1), sealed(8, 1), opened(8, true)},
			When: open(opened(7, true)), Then: events{opened(7, true)},
		},

		{
			Name: "open with notes", When: open(noting(
				plan.Note{Endpoint: "ep_0", Reason: "unread"}, plan.Note{Endpoint: "ep_1", Reason: "no_task", Count: 1, Names: []string{"poetry"}},
				plan.Note{Reason: "no_plan"}, plan.Note{Reason: "host_busy", Count: 2},
			)), Then: events{noting(
				plan.Note{Endpoint: "ep_0", Reason: "unread"}, plan.Note{Endpoint: "ep_1", Reason: "no_task", Count: 1, Names: []string{"poetry"}},
				plan.Note{Reason: "no_plan"}, plan.Note{Reason: "host_busy", Count: 2},
			)},
		},
		{
			Name: "open with the cause of a failed reading", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "unread", Cause: "-32601"})),
			Then: events{noting(plan.Note{Endpoint: "ep_0", Reason: "unread", Cause: "-32601"})},
		},
		{Name: "open with a cause that is no code", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "unread", Cause: "<no card>"})), Err: domain.ErrInvalid},
		{Name: "open with the cause of nothing", When: open(noting(plan.Note{Reason: "no_plan", Cause: "no_card"})), Err: domain.ErrInvalid},
		{Name: "open with a reason of no list", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "boredom"})), Err: domain.ErrInvalid},
		{Name: "open with an endpoint that is not named", When: open(noting(plan.Note{Reason: "unread"})), Err: domain.ErrInvalid},
		{Name: "open with skills that are not named", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "no_task", Count: 1})), Err: domain.ErrInvalid},
		{Name: "open with tasks that are not counted", When: open(noting(plan.Note{Reason: "paused"})), Err: domain.ErrInvalid},
		{Name: "open with tasks of an endpoint", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "paused", Count: 1})), Err: domain.ErrInvalid},
		{Name: "open with fewer tasks than none", When: open(noting(plan.Note{Reason: "paused", Count: -1})), Err: domain.ErrInvalid},
		{Name: "open with a wild name", When: open(noting(plan.Note{Endpoint: "ep_0", Reason: "no_task", Count: 1, Names: []string{"a\nb"}})), Err: domain.ErrInvalid},
		{Name: "open with a note twice", When: open(noting(plan.Note{Reason: "no_plan"}, plan.Note{Reason: "no_plan"})), Err: domain.ErrInvalid},
		{Name: "open with the day before an endpoint", When: open(noting(plan.Note{Reason: "no_plan"}, plan.Note{Endpoint: "ep_0", Reason: "unread"})), Err: domain.ErrInvalid},
		{Name: "open with endpoints in disorder", When: open(noting(plan.Note{Endpoint: "ep_1", Reason: "unread"}, plan.Note{Endpoint: "ep_0", Reason: "unread"})), Err: domain.ErrInvalid},
	})
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	if got := plan.StreamOf("cns_a"); got != "plan/cns_a" {
		t.Errorf("StreamOf(cns_a) = %s, want plan/cns_a", got)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, plan.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, plan.Events, os.DirFS("testdata"))
}
