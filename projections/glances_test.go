package projections_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

func TestRevealedTasks(t *testing.T) {
	t.Parallel()
	var h history
	first, _ := life(t, &h)
	r, _ := read(t, &h)
	list := must(r.RevealedTasks(t.Context(), first.consent, nil, 100))(t)
	var slots []int
	for _, task := range list {
		slots = append(slots, task.Slot)
		if s := must(r.Shop(t.Context(), task.Shop))(t); s.Revealed == nil || task.Template != s.Revealed.Template || task.Agent != house || !task.Demo ||
			task.Day != first.day || !task.Revealed.Equal(s.RevealedAt) || task.Planned.Unix() != s.Revealed.SendAt || task.Ending == "" {
			t.Errorf("the task is %+v, and the slot %+v", task, s.Revealed)
		}
	}
	want := slices.Sorted(slices.Values(first.tasks[:3]))
	slices.Reverse(want)
	if !slices.Equal(slots, want) {
		t.Errorf("revealed slots %v, want %v", slots, want)
	}
	behind := must(r.RevealedTasks(t.Context(), first.consent, &projections.ShopKey{Day: first.day, Slot: want[0]}, 1))(t)
	if len(behind) != 1 || behind[0].Slot != want[1] {
		t.Errorf("behind slot %d: %+v, want slot %d", want[0], behind, want[1])
	}
	if all := must(r.LatestReveals(t.Context(), 2))(t); len(all) != 2 || all[0].Revealed.Before(all[1].Revealed) {
		t.Errorf("LatestReveals = %+v", all)
	}
	tallies := must(r.Tallies(t.Context(), first.consent))(t)
	if len(tallies) != 1 || tallies[0].Day != first.day {
		t.Fatalf("Tallies = %+v", tallies)
	}
	n := 0
	for _, count := range tallies[0].Endings {
		n += count
	}
	if n != 3 {
		t.Errorf("Tallies = %+v, want 3 tasks", tallies)
	}
}

// Tasks are counted apart for Karatum's own agents and all others, and only answers have
// a latency that counts.
func TestTaskTotals(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	n := 0
	reveal := func(ref agent.Ref, family string, kind task.Kind, result shop.Result) {
		id := plan.ShopID(plan.ConsentID(hash(string(ref))), 20_000, uint32(n))
		n++
		h.add(t, shop.StreamOf(id), shop.Revealed{
			Consent: plan.ConsentID(hash(string(ref))), Agent: ref, Day: 20_000, Slot: n - 1, Template: family + ".x", Family: family,
			Entry: task.Entry{Kind: kind}, Result: result, Records: []ledger.Record{},
		})
	}
	judged := func(o task.Outcome, ms int64) shop.Result {
		return shop.Result{State: shop.StateJudged, Outcome: o, LatencyMs: ms}
	}
	for ms := range int64(10) {
		reveal(honest, "unit", task.A2A, judged(task.Pass, (ms+1)*100))
	}
	reveal(honest, "time", task.MCP, judged(task.Fail, 9_000))
	reveal(honest, "time", task.MCP, judged(task.Timeout, 60_000))
	reveal(honest, "unit", task.MCP, shop.Result{State: shop.StateMissed})
	reveal(house, "unit", task.A2A, judged(task.Refused, 7))
	r, _ := read(t, &h)

	type counts = map[string]map[string]int
	want := projections.TaskTotals{
		Families: counts{"unit": {"pass": 10, "missed": 1}, "time": {"fail": 1, "timeout": 1}},
		Kinds:    counts{"a2a": {"pass": 10}, "mcp": {"fail": 1, "timeout": 1, "missed": 1}},
		Latency:  projections.Latency{Answers: 11, P50: 600 * time.Millisecond, P90: time.Second, P99: 9 * time.Second},
	}
	if diff := cmp.Diff(want, must(r.TaskTotals(t.Context(), false))(t)); diff != "" {
		t.Errorf("the totals of all others (-want +got):\n%s", diff)
	}
	own := projections.TaskTotals{
		Families: counts{"unit": {"refused": 1}}, Kinds: counts{"a2a": {"refused": 1}},
		Latency: projections.Latency{Answers: 1, P50: 7 * time.Millisecond, P90: 7 * time.Millisecond, P99: 7 * time.Millisecond},
	}
	if diff := cmp.Diff(own, must(r.TaskTotals(t.Context(), true))(t)); diff != "" {
		t.Errorf("the totals of Karatum's own agents (-want +got):\n%s", diff)
	}
}

func TestStandings(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	h.add(t, agent.StreamOf("build:silent"), agent.Registered{Agent: "build:silent"})
	a, b := grant(t, &h, house, "n1"), grant(t, &h, honest, "n2")
	h.add(t, finding.StreamOf(a), reached(a, house, 1, finding.AfterDay, 1))
	other := reached(b, honest, 1, finding.AfterDay, 2)
	other.GatedVerdict = finding.Consistent
	h.add(t, finding.StreamOf(b), other)
	last := reached(a, house, 2, finding.AfterDay, 2)
	last.GatedVerdict = finding.ExamOnly
	h.add(t, finding.StreamOf(a), last, finding.Corrected{Consent: a, Look: 2, Text: "last"}, finding.Corrected{Consent: a, Look: 1, Text: "first"})
	r, _ := read(t, &h)

	got := must(r.Standings(t.Context(), projections.StandingQuery{Limit: 9}))(t)
	if len(got) != 2 || got[0].Consent != a || got[0].Look != 2 || got[1].Consent != b {
		t.Fatalf("Standings = %+v", got)
	}
	if c := got[0].Corrections; len(c) != 1 || c[0].Text != "last" || len(got[1].Corrections) != 0 {
		t.Errorf("corrections of the last looks: %+v and %+v", c, got[1].Corrections)
	}
	behind := must(r.Standings(t.Context(), projections.StandingQuery{After: &projections.ConsentKey{Recorded: got[0].At, ID: a}, Limit: 9}))(t)
	if len(behind) != 1 || behind[0].Consent != b {
		t.Errorf("behind the first: %+v", behind)
	}
	if first := must(r.Standings(t.Context(), projections.StandingQuery{Verdict: finding.Watch, Limit: 9}))(t); len(first) != 0 {
		t.Errorf("a verdict that does not hold any more: %+v", first)
	}
	want := map[finding.Verdict]int{finding.ExamOnly: 1, finding.Consistent: 1}
	if diff := cmp.Diff(want, must(r.StandingCounts(t.Context()))(t)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}

	agents := must(r.AgentList(t.Context(), nil, 9))(t)
	if len(agents) != 3 || agents[0].Ref != "build:silent" || agents[0].Consent != "" || agents[0].Latest != nil {
		t.Fatalf("AgentList = %+v", agents)
	}
	if x := agents[1]; x.Ref != house || !x.Demo || x.Consent != a || x.State != projections.Active || x.Latest == nil || x.Latest.Look != 2 || len(x.Latest.Corrections) != 1 {
		t.Errorf("the house agent is %+v", x)
	}
	rest := must(r.AgentList(t.Context(), &projections.AgentKey{Since: agents[1].Since, Ref: house}, 9))(t)
	if len(rest) != 1 || rest[0].Ref != honest {
		t.Errorf("behind the house agent: %+v", rest)
	}
}

func TestFindHash(t *testing.T) {
	t.Parallel()
	var h history
	first, _ := life(t, &h)
	h.add(t, seal.StreamOf(first.consent), seal.Sealed{Consent: first.consent, Hour: seal.FirstHour(first.day), Root: hash("a seal")})
	r, _ := read(t, &h)
	c := must(r.Consent(t.Context(), first.consent))(t)
	payload, err := c.Payload.Hash()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		hash domain.Hash
		want projections.NamedHash
	}{
		{first.commit(7), projections.NamedHash{Form: projections.CommitHash, Of: first.shop(7)}},
		{hash("a seal"), projections.NamedHash{Form: projections.SealRoot, Of: first.consent}},
		{payload, projections.NamedHash{Form: projections.PayloadHash, Of: first.consent}},
		{c.Payload.PlanKeyRoot, projections.NamedHash{Form: projections.PlanKeyRoot, Of: first.consent}},
		{first.key, projections.NamedHash{Form: projections.DayKey, Of: first.consent}},
	} {
		if got := must(r.FindHash(t.Context(), tt.hash))(t); !slices.Contains(got, tt.want) {
			t.Errorf("FindHash(%s) = %+v, want %+v", tt.hash, got, tt.want)
		}
	}
	var replies int
	for _, slot := range first.tasks[:3] {
		s := must(r.Shop(t.Context(), plan.ShopID(first.consent, first.day, uint32(slot))))(t)
		if hash := s.Revealed.Result.ReplyHash; !hash.IsZero() {
			replies++
			if got := must(r.FindHash(t.Context(), hash))(t); !slices.Contains(got, projections.NamedHash{Form: projections.ReplyHash, Of: s.ID}) {
				t.Errorf("FindHash of a reply = %+v, want %s", got, s.ID)
			}
		}
	}
	if replies == 0 {
		t.Error("no reply was looked for")
	}
	if got := must(r.FindHash(t.Context(), hash("nothing")))(t); len(got) != 0 {
		t.Errorf("FindHash of nothing = %+v", got)
	}
}
