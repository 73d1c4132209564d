package projections_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// read returns readers of everything that h says.
func read(t *testing.T, h *history) (projections.Reader, projections.Due) {
	t.Helper()
	pool := pgtest.Open(t)
	catchUp(t, runnerOn(t, pool, h, projections.All()...))
	return projections.Reader{Pool: pool}, projections.Due{Pool: pool}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestProgramme(t *testing.T) {
	t.Parallel()
	var h history
	life(t, &h)
	key, next := hash("operator key"), hash("next operator key")
	from := h.now
	h.add(t, programme.Stream, programme.TermsPublished{Version: 2, Hash: hash("more terms")},
		programme.Paused{Scope: "host/agent.example:443", Reason: "it complains"},
		programme.Paused{Scope: programme.Everything, Reason: "repairs"},
		programme.Paused{Scope: "identity/3", Reason: "it is known"},
		programme.Resumed{Scope: "host/agent.example:443", Reason: "settled"},
		programme.OperatorKeyRegistered{Key: key}, programme.OperatorKeyRegistered{Key: next},
		programme.OperatorKeyRetired{Key: key, Reason: "a year is over"})
	id := grant(t, &h, honest, "n2")
	h.add(t, consent.StreamOf(honest), consent.Revoked{Consent: id, IssuedAt: start, Signature: signature()},
		consent.Refused{Consent: "cns_x", Payload: payload(honest, "n3"), Signature: signature(), Reason: "not proven"})
	asOf := h.now.Add(-time.Minute)
	d := newDay(id, 20514)
	h.add(t, shop.StreamOf(d.shop(0)), shop.Missed{Reason: shop.Paused}) // sealed: does not move asOf

	r, _ := read(t, &h)
	got := must(r.Programme(t.Context()))(t)
	want := projections.Status{
		AsOf: asOf,
		Pauses: []projections.Pause{
			{Scope: programme.Everything, Reason: "repairs", Since: from.Add(2 * time.Minute)},
			{Scope: "identity/3", Reason: "it is known", Since: from.Add(3 * time.Minute)},
		},
		Keys: []projections.OperatorKey{
			{Key: key, Since: from.Add(5 * time.Minute), Retired: from.Add(7 * time.Minute), Reason: "a year is over"},
			{Key: next, Since: from.Add(6 * time.Minute)},
		},
		Terms:      []projections.Version{{Number: 1, Hash: hash("terms"), Since: start}, {Number: 2, Hash: hash("more terms"), Since: got.Terms[1].Since}},
		Pools:      []projections.Version{{Number: 1, Hash: hash("pool"), Since: start.Add(time.Minute)}},
		Catalogues: []projections.Version{{Hash: hash("catalogue"), Since: start.Add(2 * time.Minute)}},
		Totals:     projections.Totals{Consents: map[string]int{"revoked": 1, "refused": 1}, Revealed: map[string]int{}, Findings: map[string]int{}, Incidents: map[string]int{}},
		Demo: projections.Totals{
			Consents: map[string]int{"active": 1}, Revealed: map[string]int{"pass": 3}, Findings: map[string]int{"exam_only": 1}, Incidents: map[string]int{},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Programme (-want +got):\n%s", diff)
	}
	if !got.Paused() {
		t.Error("Paused() = false, want true")
	}
}

func TestEmptyProgramme(t *testing.T) {
	t.Parallel()
	r, _ := read(t, new(history))
	if got := must(r.Programme(t.Context()))(t); !got.AsOf.IsZero() || got.Paused() || len(got.Pauses) > 0 || len(got.Terms) > 0 {
		t.Errorf("Programme of an empty log = %+v", got)
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	h.add(t, agent.StreamOf(house), agent.IdentityVerified{URL: "https://old.example/"}, agent.IdentityWithdrawn{URL: "https://old.example/"},
		agent.CertificateRecorded{Certificate: "crt_0"}, agent.CertificateWithdrawn{Certificate: "crt_0"},
		agent.OwnerChanged{From: eip191.Address{2}, To: eip191.Address{3}, Reason: "sold"})
	r, _ := read(t, &h)
	got := must(r.Agent(t.Context(), house))(t)
	want := projections.Agent{
		Ref: house, Wallet: eip191.Address{3}, Demo: true, Since: start.Add(4 * time.Minute),
		Identities:   []projections.Holding{{Value: "https://agent.example/", Since: start.Add(5 * time.Minute), Version: 2}},
		Certificates: []projections.Holding{{Value: "crt_1", Since: start.Add(6 * time.Minute), Version: 3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Agent (-want +got):\n%s", diff)
	}
	if _, err := r.Agent(t.Context(), "build:none"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Agent of a stranger: %v, want %v", err, domain.ErrNotFound)
	}
}

func TestConsent(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	id := grant(t, &h, house, "n1")
	over := h.now
	h.add(t, consent.StreamOf(house), consent.Ended{Consent: id, Reason: consent.OwnerChanged})
	r, _ := read(t, &h)
	got := must(r.Consent(t.Context(), id))(t)
	want := projections.Consent{
		ID: id, Agent: house, Demo: true, State: projections.Ended, Payload: payload(house, "n1"), Signature: signature(),
		Verified: consent.Verification{Method: consent.ByKey}, Recorded: start.Add(8 * time.Minute), Over: over, Reason: "owner_changed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Consent (-want +got):\n%s", diff)
	}
	proofs := must(r.Proofs(t.Context(), got))(t)
	wantProofs := []projections.Proof{
		{Endpoint: "ep_0", Kind: task.A2A, URL: "https://agent.example/a2a", Proven: true, Method: consent.ByIdentity, Since: start.Add(9 * time.Minute)},
		{Endpoint: "ep_1", Kind: task.MCP, URL: "https://agent.example/mcp", Reason: "gone", Since: start.Add(11 * time.Minute)},
	}
	if diff := cmp.Diff(wantProofs, proofs); diff != "" {
		t.Errorf("Proofs (-want +got):\n%s", diff)
	}
	if _, err := r.Consent(t.Context(), "cns_none"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Consent of an unknown id: %v, want %v", err, domain.ErrNotFound)
	}
}

// What a contract wallet signed, and where the chain was asked, comes out as it
// went in; so does what was refused.
func TestConsentOfContractWallet(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	at := agent.Block{Chain: 84532, Number: 7, Hash: agent.BlockHash(hash("block"))}
	granted := consent.Granted{
		Consent: "cns_wallet", Payload: payload(honest, "n1"), Signature: consent.Signature{1, 2, 3},
		Verified: consent.Verification{Method: consent.ByWallet, At: at}, OwnerCheck: at, OwnerNonce: hash("mine"),
	}
	refused := consent.Refused{
		Consent: "cns_refused", Payload: payload(house, "n2"), Signature: consent.Signature{4}, Verified: granted.Verified,
		Cause: consent.Uncertified, Reason: "the agent holds no certificate",
	}
	h.add(t, consent.StreamOf(honest), granted)
	h.add(t, consent.StreamOf(house), refused)
	r, _ := read(t, &h)
	got := must(r.Consent(t.Context(), granted.Consent))(t)
	want := projections.Consent{
		ID: granted.Consent, Agent: honest, State: projections.Active, Payload: granted.Payload, Signature: granted.Signature,
		Verified: granted.Verified, OwnerCheck: at, OwnerNonce: granted.OwnerNonce, Recorded: got.Recorded,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Consent (-want +got):\n%s", diff)
	}
	got = must(r.Consent(t.Context(), refused.Consent))(t)
	want = projections.Consent{
		ID: refused.Consent, Agent: house, Demo: true, State: projections.Refused, Payload: refused.Payload, Signature: refused.Signature,
		Verified: refused.Verified, Cause: refused.Cause, Reason: refused.Reason, Recorded: got.Recorded,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the refused Consent (-want +got):\n%s", diff)
	}
}

func TestConsents(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	first := grant(t, &h, house, "n1")
	h.add(t, consent.StreamOf(house), consent.Ended{Consent: first, Reason: consent.Expired})
	second := grant(t, &h, house, "n2")
	third := grant(t, &h, honest, "n3")
	h.add(t, consent.StreamOf(house), consent.Refused{Consent: "cns_refused", Payload: payload(house, "n4"), Signature: signature(), Reason: "why not"})
	r, _ := read(t, &h)
	for _, c := range []struct {
		name string
		q    projections.ConsentQuery
		want []string
	}{
		{"all", projections.ConsentQuery{Limit: 9}, []string{"cns_refused", third, second, first}},
		{"a page", projections.ConsentQuery{Limit: 2}, []string{"cns_refused", third}},
		{"of an agent", projections.ConsentQuery{Agent: house, Limit: 9}, []string{"cns_refused", second, first}},
		{"ever in force", projections.ConsentQuery{Agent: house, Granted: true, Limit: 1}, []string{second}},
		{"by state", projections.ConsentQuery{State: projections.Expired, Limit: 9}, []string{first}},
		{"both", projections.ConsentQuery{Agent: honest, State: projections.Expired, Limit: 9}, nil},
	} {
		var got []string
		for _, k := range must(r.Consents(t.Context(), c.q))(t) {
			got = append(got, k.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	page := must(r.Consents(t.Context(), projections.ConsentQuery{Limit: 2}))(t)
	last := page[1]
	page = must(r.Consents(t.Context(), projections.ConsentQuery{Limit: 2, After: &projections.ConsentKey{Recorded: last.Recorded, ID: last.ID}}))(t)
	if len(page) != 2 || page[0].ID != second || page[1].ID != first {
		t.Errorf("the second page is %v", page)
	}
}

func TestShops(t *testing.T) {
	t.Parallel()
	var h history
	first, second := life(t, &h)
	r, _ := read(t, &h)
	phases := func(d day) map[string][]int {
		got := make(map[string][]int)
		all := must(r.Shops(t.Context(), projections.ShopQuery{Consent: d.consent, Limit: 100}))(t)
		for _, s := range all {
			if s.Day != d.day {
				continue
			}
			got[s.Phase] = append(got[s.Phase], s.Slot)
			if s.Commit != d.commit(s.Slot) || s.ID != d.shop(s.Slot) || s.Agent != house || !s.Demo {
				t.Errorf("slot %d is %+v", s.Slot, s)
			}
			if (s.Revealed != nil) != (s.Phase == projections.PhaseRevealed) {
				t.Errorf("slot %d is %s, revealed %t", s.Slot, s.Phase, s.Revealed != nil)
			}
		}
		return got
	}
	// A task that was never revealed is no pad: it stays sealed for all to see.
	want := map[string][]int{
		projections.PhaseRevealed: first.tasks[:3], projections.PhaseSealed: first.tasks[3:], projections.PhasePad: first.pads,
	}
	if diff := cmp.Diff(want, phases(first)); diff != "" {
		t.Errorf("phases of the opened day (-want +got):\n%s", diff)
	}
	if got := phases(second); len(got[projections.PhaseSealed]) != plan.Slots {
		t.Errorf("phases of the sealed day: %v", got)
	}

	s := must(r.Shop(t.Context(), first.shop(first.tasks[0])))(t)
	if s.Revealed == nil || len(s.Revealed.Records) != 6 || s.Revealed.Records[0].Type != "shop.sent.v1" {
		t.Errorf("the revealed slot has %+v", s.Revealed)
	}
	page := must(r.Shops(t.Context(), projections.ShopQuery{
		Consent: first.consent, After: &projections.ShopKey{Day: first.day, Slot: 22}, Limit: 3,
	}))(t)
	if len(page) != 3 || page[0].Slot != 23 || page[1].Day != second.day || page[1].Slot != 0 {
		t.Errorf("the page behind slot 22 begins with %+v", page[0])
	}
	pads := must(r.Shops(t.Context(), projections.ShopQuery{Consent: first.consent, Phase: projections.PhasePad, Limit: 100}))(t)
	if len(pads) != len(first.pads) {
		t.Errorf("%d pads, want %d", len(pads), len(first.pads))
	}
	if _, err := r.Shop(t.Context(), "shp_none"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Shop of an unknown id: %v, want %v", err, domain.ErrNotFound)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	var h history
	first, second := life(t, &h)
	h.add(t, plan.StreamOf(first.consent), plan.Opened{Consent: first.consent, Day: 20516, Key: hash("k")}) // never planned
	r, _ := read(t, &h)
	got := must(r.Plans(t.Context(), projections.PlanQuery{Consent: first.consent, Limit: 9}))(t)
	if len(got) != 3 {
		t.Fatalf("%d plans, want 3", len(got))
	}
	if p := got[0]; p.Day != first.day || p.Sealed == nil || p.Opened == nil || p.Opened.Key != first.key || p.OpenedAt.IsZero() || p.Sealed.Commits[7] != first.commit(7) {
		t.Errorf("the opened day is %+v", p)
	}
	if p := got[1]; p.Day != second.day || p.Sealed == nil || p.Opened != nil || !p.OpenedAt.IsZero() {
		t.Errorf("the sealed day is %+v", p)
	}
	if p := got[2]; p.Sealed != nil || p.Opened == nil {
		t.Errorf("the day without a plan is %+v", p)
	}
	for _, tt := range []struct {
		query projections.PlanQuery
		want  []uint32
	}{
		{projections.PlanQuery{Limit: 2}, []uint32{first.day, second.day}},
		{projections.PlanQuery{After: first.day, Limit: 9}, []uint32{second.day, 20516}},
		{projections.PlanQuery{Latest: true, Limit: 2}, []uint32{20516, second.day}},
		{projections.PlanQuery{Latest: true, Before: 20516, Limit: 9}, []uint32{second.day, first.day}},
		{projections.PlanQuery{Unopened: true, Limit: 9}, []uint32{second.day}},
	} {
		tt.query.Consent = first.consent
		var days []uint32
		for _, p := range must(r.Plans(t.Context(), tt.query))(t) {
			days = append(days, p.Day)
		}
		if !slices.Equal(days, tt.want) {
			t.Errorf("Plans(%+v) are of the days %v, want %v", tt.query, days, tt.want)
		}
	}
	if p := must(r.Plan(t.Context(), first.consent, second.day))(t); p.Day != second.day || p.Sealed == nil {
		t.Errorf("Plan = %+v", p)
	}
	if _, err := r.Plan(t.Context(), first.consent, second.day+20); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Plan of a day that was never planned: %v, want %v", err, domain.ErrNotFound)
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	a, b := grant(t, &h, house, "n1"), grant(t, &h, honest, "n2")
	h.add(t, finding.StreamOf(a), reached(a, house, 1, finding.AfterDay, 1), reached(a, house, 2, finding.AfterDay, 2))
	other := reached(b, honest, 1, finding.AfterDay, 2)
	other.Verdict = finding.Consistent
	h.add(t, finding.StreamOf(b), other)
	h.add(t, finding.StreamOf(a), finding.Corrected{Consent: a, Look: 1, Text: "Two of the tasks were ours."})
	h.add(t, finding.StreamOf(b), finding.ReplyFiled{Consent: b, Look: 1, Signature: consent.Signature{1}}, finding.ReplyErased{Consent: b, Look: 1, Reason: "asked for"})
	r, _ := read(t, &h)
	for _, c := range []struct {
		name string
		q    projections.FindingQuery
		want []int // looks
	}{
		{"all", projections.FindingQuery{Limit: 9}, []int{1, 2, 1}},
		{"of an agent", projections.FindingQuery{Agent: house, Limit: 9}, []int{2, 1}},
		{"of a consent", projections.FindingQuery{Consent: b, Limit: 9}, []int{1}},
		{"of a verdict", projections.FindingQuery{Verdict: finding.ExamOnly, Limit: 1}, []int{2}},
		{"that were discussed", projections.FindingQuery{Discussed: true, Limit: 9}, []int{1, 1}},
	} {
		var got []int
		for _, f := range must(r.Findings(t.Context(), c.q))(t) {
			got = append(got, f.Look)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: looks %v, want %v", c.name, got, c.want)
		}
	}
	if f := must(r.Finding(t.Context(), b, 1))(t); f.Reply == nil || f.Reply.ErasedAt.IsZero() || f.Reply.Reason != "asked for" {
		t.Errorf("the reply whose text was erased is %+v", f.Reply)
	}
	last := must(r.LatestFinding(t.Context(), a))(t)
	if last == nil || last.Look != 2 || !last.Demo {
		t.Errorf("LatestFinding = %+v", last)
	}
	behind := must(r.Findings(t.Context(), projections.FindingQuery{Limit: 9, After: &projections.FindingKey{At: last.At, Consent: a, Look: 2}}))(t)
	if len(behind) != 1 || behind[0].Look != 1 || behind[0].Consent != a {
		t.Errorf("behind the second look: %+v", behind)
	}
	if f := must(r.LatestFindingOf(t.Context(), "build:none"))(t); f != nil {
		t.Errorf("LatestFindingOf a stranger = %+v", f)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	var h history
	first, second := life(t, &h)
	surfaceAt := start.Add(7 * time.Minute)
	_, due := read(t, &h)
	ctx := t.Context()

	consents := must(due.Consents(ctx))(t)
	if len(consents) != 1 || consents[0].Granted.Consent != first.consent || !consents[0].Demo || !consents[0].OverAt.IsZero() {
		t.Fatalf("Consents = %+v", consents)
	}
	if diff := cmp.Diff(map[string]bool{"ep_0": true}, consents[0].Proven); diff != "" {
		t.Errorf("Proven (-want +got):\n%s", diff)
	}

	plans := must(due.Plans(ctx, house))(t)
	if len(plans) != 2 || !plans[0].Opened || plans[0].Count != tasksPerDay || plans[1].Opened || !plans[1].Sealed ||
		plans[1].Eligible != hash("list") || len(plans[1].Commits) != plan.Slots || plans[1].Commits[3] != second.commit(3) {
		t.Errorf("Plans = %+v", plans)
	}

	slots := must(due.Slots(ctx, first.consent))(t)
	if got := slots[second.shop(second.tasks[0])]; got.State != shop.StateJudged || got.SentAt.IsZero() {
		t.Errorf("the judged slot is %+v", got)
	}
	if got := slots[second.shop(second.pads[0])]; got.State != shop.StateCommitted || !got.SentAt.IsZero() {
		t.Errorf("a pad of the sealed day is %+v", got)
	}
	if got := slots[first.shop(first.tasks[3])]; got.State != shop.StateMissed {
		t.Errorf("the missed slot of the opened day is %+v", got)
	}
	if len(slots) != plan.Slots+1 {
		t.Errorf("%d slots, want those of the sealed day and the one not revealed", len(slots))
	}

	wantSurfaces := []projections.DueSurface{{Kind: task.A2A, URL: "https://agent.example/a2a", Hash: hash("card"), At: surfaceAt}}
	if diff := cmp.Diff(wantSurfaces, must(due.Surfaces(ctx, house))(t)); diff != "" {
		t.Errorf("Surfaces (-want +got):\n%s", diff)
	}
	wantCompared := projections.DueComparisons{Looks: 1, PAlways: "0.02", Days: map[uint32]bool{first.day: true}}
	if diff := cmp.Diff(wantCompared, must(due.Compared(ctx, first.consent))(t)); diff != "" {
		t.Errorf("Compared (-want +got):\n%s", diff)
	}
	wantExam := []exam.Sample{
		{Source: "trial", Family: "date", Outcome: task.Pass, LatencyMs: 700},
		{Source: "trial", Family: "date", Outcome: task.Fail, LatencyMs: 700},
		{Source: "run:demo-harness", Family: "unit", Outcome: task.Pass},
		{Source: "run:demo-harness", Family: "unit", Outcome: task.Fail},
	}
	if diff := cmp.Diff(wantExam, must(due.Exam(ctx, house))(t)); diff != "" {
		t.Errorf("Exam (-want +got):\n%s", diff)
	}
	if got := must(due.Field(ctx, first.consent))(t); len(got) != 3 || got[0].Family != "unit" || got[0].Result.Outcome != task.Pass {
		t.Errorf("Field = %+v", got)
	}
}

// What a seal is made from: the last record of each slot of a planned day, whatever
// it is.
func TestDueHeads(t *testing.T) {
	t.Parallel()
	var h history
	first, second := life(t, &h)
	h.add(t, seal.StreamOf(first.consent), seal.Sealed{Consent: first.consent, Hour: 7}, seal.Sealed{Consent: first.consent, Hour: 9})
	_, due := read(t, &h)
	for _, d := range []day{first, second} {
		heads := must(due.Heads(t.Context(), d.consent, d.day))(t)
		if heads == nil {
			t.Fatalf("day %d has a plan and no heads", d.day)
		}
		for slot, got := range heads {
			var want domain.Hash
			for _, r := range h.records {
				if r.Stream == shop.StreamOf(d.shop(slot)) {
					want = r.Hash
				}
			}
			if got != want || want.IsZero() {
				t.Errorf("head of slot %d of day %d = %s, want %s", slot, d.day, got, want)
			}
		}
	}
	if heads := must(due.Heads(t.Context(), first.consent, first.day-1))(t); heads != nil {
		t.Errorf("a day without a plan has heads: %v", heads)
	}
	for _, c := range []struct {
		from, to uint64
		want     []uint64
	}{{0, 100, []uint64{7, 9}}, {8, 8, nil}, {9, 9, []uint64{9}}} {
		if got := must(due.Seals(t.Context(), first.consent, c.from, c.to))(t); !slices.Equal(got, c.want) {
			t.Errorf("Seals from %d to %d = %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestDueUntilSettled(t *testing.T) {
	t.Parallel()
	var h history
	first, second := life(t, &h)
	id := first.consent
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, &h, projections.DueWork)
	due := projections.Due{Pool: pool}
	for _, step := range []struct {
		name    string
		happens func()
		settled bool
	}{
		{"active", func() {}, false},
		{"revoked", func() {
			h.add(t, consent.StreamOf(house), consent.Revoked{Consent: id, IssuedAt: start, Signature: signature()})
		}, false},
		{"compared at its end", func() {
			h.add(t, finding.StreamOf(id), reached(id, house, 2, finding.AtEnd, second.day))
		}, false},
		{"opened", func() { second.open(t, &h) }, false},
		{"revealed", func() {
			second.reveal(t, &h, second.tasks[0])
			h.add(t, shop.StreamOf(second.shop(second.tasks[1])), shop.Judged{Outcome: task.Blocked, Rule: "worker_lost"})
			second.reveal(t, &h, second.tasks[1])
		}, false},
		{"revealed to the last", func() { first.reveal(t, &h, first.tasks[3]) }, true},
	} {
		step.happens()
		catchUp(t, r)
		got := must(due.Consents(t.Context()))(t)
		if settled := len(got) == 0; settled != step.settled {
			t.Errorf("%s: settled is %t, want %t", step.name, settled, step.settled)
		}
		if step.name == "revoked" && got[0].OverAt.IsZero() {
			t.Error("a revoked consent is not over")
		}
	}
	if got := must(due.Compared(t.Context(), id))(t); !got.Ended || got.Looks != 2 {
		t.Errorf("Compared = %+v, want its end", got)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := projections.Reader{Pool: pool}
	if _, err := r.Programme(t.Context()); err == nil || projections.Unreachable(err) {
		t.Errorf("without tables: %v counts as unreachable", err)
	}
	cfg, err := pgxpool.ParseConfig("host=" + t.TempDir() + " user=nobody database=none")
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	if _, err := (projections.Reader{Pool: nowhere}).Programme(t.Context()); !projections.Unreachable(err) {
		t.Errorf("without a server: %v does not count as unreachable", err)
	}

	// Ways in which a connection ends that nobody closed: no record is to blame for any.
	for name, cut := range map[string]func(net.Conn){
		"at the end of a message": func(proxy net.Conn) { _ = proxy.Close() },
		"by a reset": func(proxy net.Conn) {
			if tcp, ok := proxy.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = proxy.Close()
		},
		"within a message": func(proxy net.Conn) {
			_, _ = proxy.Write([]byte{'T', 0, 0})
			_ = proxy.Close()
		},
	} {
		if err := onCutConnection(t, pool, cut); !projections.Unreachable(err) {
			t.Errorf("a connection that is cut %s: %v does not count as unreachable", name, err)
		}
	}
}

// onCutConnection asks the database of pool something over a connection that is cut when
// it does, and returns the error.
func onCutConnection(t *testing.T, pool *pgxpool.Pool, cut func(net.Conn)) error {
	t.Helper()
	cfg := pool.Config().ConnConfig.Copy()
	dial := cfg.DialFunc
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	backend, err := dial(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		accepted <- c
		go func() { _, _ = io.Copy(backend, c) }()
		_, _ = io.Copy(c, backend)
	}()
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
	cfg.Fallbacks = nil
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	c := <-accepted
	time.AfterFunc(50*time.Millisecond, func() { cut(c) })
	err = conn.QueryRow(t.Context(), "select 1 from pg_sleep(60)").Scan(new(int))
	return err
}
