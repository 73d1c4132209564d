package explorer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

const (
	consentID  = "cns_mfzwizlsmjrxg43vmvzc"
	incidentID = "inc_mfzwizlsmjrxg43vmvzc"
	shopID     = "shp_mfzwizlsmjrxg43vmvzc_20260301_07"
)

// hostile is what others may write wherever they can: markup, text that runs from right
// to left, control characters.
const hostile = "</pre><script>alert(1)</script>\u202e\u2067\u200f\x00\x1b[31m\"'<b>"

// A reader holds one of everything, or what its fields leave out.
type reader struct {
	explorer.Reader // nil: what is not overridden is not asked for
	explorer.Ledger
	explorer.Owners

	status   projections.Status
	agent    projections.Agent
	agents   []projections.ListedAgent
	consents int // how often consent is listed
	batches  []projections.Batch
	leaves   []publiclog.Leaf
	hashes   map[domain.Hash][]projections.NamedHash
	err      error
	consent  projections.Consent
	shop     projections.Shop
	finding  *projections.Finding
	tasks    []projections.RevealedTask
	plans    []projections.Plan
	report   verify.ShopReport
	reply    []byte
	passport explorer.Passport
	incident *projections.Incident // that was disclosed, if one was
	refusal  error                 // of what owners ask for
}

func (r reader) Programme(context.Context) (projections.Status, error) { return r.status, r.err }

func (r reader) Consent(context.Context, string) (projections.Consent, error) {
	return r.consent, r.err
}

func (r reader) Proofs(_ context.Context, c projections.Consent) ([]projections.Proof, error) {
	proofs := []projections.Proof{}
	for i, e := range c.Payload.Endpoints {
		proofs = append(proofs, projections.Proof{Endpoint: consent.EndpointID(i), Kind: e.Kind, URL: e.URL, Reason: hostile})
	}
	return proofs, r.err
}

func (r reader) Plans(_ context.Context, q projections.PlanQuery) ([]projections.Plan, error) {
	list := slices.DeleteFunc(slices.Clone(r.plans), func(p projections.Plan) bool {
		return q.Before != 0 && p.Day >= q.Before || q.Unopened && p.Opened != nil
	})
	if q.Latest {
		slices.Reverse(list)
	}
	return list[:min(len(list), q.Limit)], r.err
}

func (r reader) Shop(context.Context, string) (projections.Shop, error) { return r.shop, r.err }

func (r reader) LatestFinding(context.Context, string) (*projections.Finding, error) {
	return r.finding, r.err
}

func (r reader) RevealedTasks(_ context.Context, _ string, _ *projections.ShopKey, limit int) ([]projections.RevealedTask, error) {
	return r.tasks[:min(limit, len(r.tasks))], r.err
}

func (r reader) Tallies(context.Context, string) (list []projections.DayTally, err error) {
	for i := range min(len(r.tasks), 60) {
		list = append(list, projections.DayTally{Day: 20000 + uint32(i), Endings: map[string]int{"pass": i % 5, "fail": i % 3, "missed": i % 2}})
	}
	return list, r.err
}

func (r reader) Agent(_ context.Context, ref agent.Ref) (projections.Agent, error) {
	if r.err == nil && ref != "build:42" {
		return projections.Agent{}, domain.ErrNotFound
	}
	return r.agent, r.err
}

func (r reader) AgentList(_ context.Context, _ *projections.AgentKey, limit int) ([]projections.ListedAgent, error) {
	return r.agents[:min(limit, len(r.agents))], r.err
}

func (r reader) Consents(_ context.Context, q projections.ConsentQuery) ([]projections.Consent, error) {
	return slices.Repeat([]projections.Consent{r.consent}, min(q.Limit, r.consents)), r.err
}

func (r reader) LatestFindingOf(context.Context, agent.Ref) (*projections.Finding, error) {
	return r.finding, r.err
}

func (r reader) Findings(context.Context, projections.FindingQuery) (list []projections.Finding, err error) {
	if r.finding != nil {
		list = append(list, *r.finding)
	}
	return list, r.err
}

func (r reader) Standings(_ context.Context, q projections.StandingQuery) ([]projections.Finding, error) {
	if r.finding == nil {
		return nil, r.err
	}
	return slices.Repeat([]projections.Finding{*r.finding}, q.Limit), r.err
}

func (r reader) StandingCounts(context.Context) (map[finding.Verdict]int, error) {
	if r.finding == nil {
		return nil, r.err
	}
	return map[finding.Verdict]int{finding.ExamOnly: 21, finding.Watch: 2}, r.err
}

func (r reader) LatestReveals(context.Context, int) ([]projections.RevealedTask, error) {
	return r.tasks, r.err
}

func (r reader) Batches(_ context.Context, _ uint64, limit int) ([]projections.Batch, error) {
	return r.batches[:min(limit, len(r.batches))], r.err
}

func (r reader) Batch(_ context.Context, n uint64) (projections.Batch, error) {
	for _, b := range r.batches {
		if b.Batch == n {
			return b, r.err
		}
	}
	return projections.Batch{}, cmp.Or(r.err, domain.ErrNotFound)
}

func (r reader) FindHash(_ context.Context, hash domain.Hash) (list []projections.NamedHash, err error) {
	return r.hashes[hash], r.err
}

func (r reader) Head(context.Context) (publiclog.Head, error) {
	if r.err == nil && len(r.leaves) == 0 {
		return publiclog.Head{}, domain.ErrNotFound
	}
	return publiclog.Head{Origin: "karatum.com/ledger", Size: uint64(len(r.leaves)), Note: []byte("karatum.com/ledger\n40\n"), Key: "karatum.com/ledger+00+AA"}, r.err
}

func (r reader) Leaves(ctx context.Context, from uint64, limit int) ([]publiclog.Leaf, publiclog.Head, error) {
	h, err := r.Head(ctx)
	return r.leaves[from : from+uint64(limit)], h, err
}

func (r reader) Inclusion(ctx context.Context, index, _ uint64) (publiclog.Inclusion, publiclog.Head, error) {
	h, err := r.Head(ctx)
	if err == nil && index >= h.Size {
		err = domain.ErrNotFound
	}
	if err != nil {
		return publiclog.Inclusion{}, h, err
	}
	return publiclog.Inclusion{Leaf: r.leaves[index], Size: h.Size, Path: make([]domain.Hash, 6)}, h, nil
}

func (r reader) Find(_ context.Context, hash domain.Hash) (*publiclog.Leaf, error) {
	for _, l := range r.leaves {
		if l.Hash == hash || l.LeafHash() == hash {
			return &l, r.err
		}
	}
	return nil, r.err
}

func (r reader) IsRoot(_ context.Context, hash domain.Hash) (bool, error) {
	return hash == domain.Sum([]byte("root")), r.err
}

func (r reader) Check(q consent.Request) error { return q.Check() }

func (r reader) Challenge(_ context.Context, q consent.Request) (commands.Challenged, error) {
	c := commands.Challenged{ChallengeID: "chl_1", Payload: r.consent.Payload, ExpiresAt: start}
	c.Payload.Request = q
	c.Message = "a message\nof two lines"
	return c, r.refusal
}

func (r reader) Grant(context.Context, string, consent.Payload, string, domain.Hash) (string, error) {
	return consentID, r.refusal
}

func (r reader) ChallengeRevoke(context.Context, string) (commands.RevokeChallenged, error) {
	return commands.RevokeChallenged{ChallengeID: "chl_2", Message: "a message\nthat revokes", ExpiresAt: start}, nil
}

func (r reader) Revoke(context.Context, string, string, string) error { return r.refusal }

func (r reader) Finding(_ context.Context, _ string, look int) (projections.Finding, error) {
	if r.finding == nil || r.finding.Look != look {
		return projections.Finding{}, cmp.Or(r.err, domain.ErrNotFound)
	}
	return *r.finding, r.err
}

func (r reader) Incidents(_ context.Context, q projections.IncidentQuery) (list []projections.Incident, err error) {
	if r.incident != nil && (q.Incident == "" || q.Incident == incidentID) {
		list = append(list, *r.incident)
	}
	return list, r.err
}

func (r reader) Stream(ctx context.Context, s ledger.Stream, _ uint64, _ int) ([]publiclog.Leaf, publiclog.Head, error) {
	h, err := r.Head(ctx)
	if err == nil && s != incident.StreamOf(incidentID) {
		err = domain.ErrNotFound
	}
	return r.leaves[:min(2, len(r.leaves))], h, err
}

// discussed returns r with a correction and a reply to its finding, an incident that went
// all the way, and a passport that tells of it.
func discussed(r reader) reader {
	ann := []maintainer.Approval{{Name: "Ann " + hostile}}
	said := projections.Correction{At: start, Text: "Two of the tasks were ours." + hostile, By: ann}
	r.finding.Corrections, r.finding.Reply = []projections.Correction{said}, &projections.FindingReply{At: start}
	r.incident = &projections.Incident{
		Disclosed: incident.Disclosed{
			Opened:  incident.Opened{Incident: incidentID, Consent: consentID, Agent: "build:42", Look: 3, Class: incident.Class, Severity: incident.Assess(true), ReplyUntil: start},
			Triaged: incident.Triaged{Verdict: incident.Confirmed, Text: hostile, By: ann},
			Replies: []incident.ReplyFiled{{Look: 3}}, Text: "The owner was heard.", By: ann,
		},
		Recorded: start, Version: 4, Corrections: []projections.Correction{said}, Recall: &projections.Step{Correction: said, Version: 5},
		Resolution: &projections.Step{Correction: said, Version: 6},
	}
	index := uint64(7)
	r.passport = explorer.Passport{AsOf: 40, Lines: []explorer.PassportLine{
		{Name: "Certificate", Text: "RECALLED" + hostile, Recalled: true, Evidence: []explorer.Evidence{{Stream: incident.StreamOf(incidentID), Version: 5, Index: &index}}},
		{Name: "Mystery Shopper", Text: "A gap.", Evidence: []explorer.Evidence{{Stream: "finding/" + consentID, Version: 1}}},
		{Name: "Shield", Text: "no data"},
		{Name: "Sessions", Text: "no data"},
		{Name: "Incidents", Text: "no data"},
	}}
	return r
}

// record is a sealed record as a reveal carries it.
func record(t domain.Type, data any) ledger.Record {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return ledger.Record{Type: t, Time: start, Data: raw}
}

// found is a comparison that came to a verdict.
func found(v finding.Verdict) *projections.Finding {
	return &projections.Finding{At: start, Reached: finding.Reached{
		Consent: consentID, Agent: "build:42", Look: 3, Day: 20512, Cycle: finding.AfterDay,
		Exam:  finding.Arm{Counted: 40, Passed: 39, Failed: 1, Rate: finding.Interval{Value: "0.975", Low: "0.871", High: "0.996"}, MedianMs: "800", P90Ms: "1250.5"},
		Field: finding.Arm{Counted: 50, Passed: 30, Failed: 20, Blocked: 30, Rate: finding.Interval{Value: "0.6", Low: "0.46", High: "0.72"}, MedianMs: "905", P90Ms: "2000"},
		Families: []finding.Family{
			{Family: "unit", ExamCount: 20, ExamPassed: 20, FieldCount: 30, FieldPassed: 20}, {Family: hostile, FieldCount: 20, FieldPassed: 10},
		},
		Test: "z_pooled", P: "0.00001", Drop: finding.Interval{Value: "0.375", Low: "0.21", High: "0.5"}, Verdict: finding.ExamOnly, GatedVerdict: v,
		Note: hostile, DetectableDrop: "0.1821", Latency: finding.LatencyRatios{Median: "1.13125"},
		Thresholds: finding.Thresholds{MinExam: 20, MinField: 12, MaxP: "0.01", MinDropPoints: 15, MinE: 100, MaxLost: 30},
	}}
}

// empty is a reader in which nothing has happened but a consent.
func empty() reader {
	return reader{consent: projections.Consent{ID: consentID, Agent: "build:42", State: projections.Active, Recorded: start}, agent: projections.Agent{Ref: "build:42", Since: start}}
}

// furnished is a reader with something of everything, in which others wrote what they
// could.
func furnished() reader {
	r := reader{status: full(), finding: found(finding.ExamOnly), reply: []byte(strings.Repeat(hostile, 1500))}
	r = discussed(r)
	r.consent = projections.Consent{
		ID: consentID, Agent: "build:42", State: projections.Active, Recorded: start,
		Payload: consent.Payload{
			Request: consent.Request{
				Agent: "build:42", Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://agent.example/a2a"}}, Kinds: []task.Kind{task.A2A},
				MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 60,
			},
			Terms: consent.Terms{Domain: "karatum.com", FirstDay: 20500, LastDay: 20559, IssuedAt: start},
		},
	}
	for i := range 40 {
		day := uint32(20513 - i)
		r.plans = append(r.plans, projections.Plan{Consent: consentID, Day: day, Sealed: &plan.Sealed{}, SealedAt: start})
		if i > 2 {
			r.plans[i].Opened, r.plans[i].OpenedAt = &plan.Opened{Planned: true, Count: 4, Cap: 12, Notes: []plan.Note{{Endpoint: "ep_0", Reason: plan.NothingOffered, Count: 2, Names: []string{hostile}}, {Endpoint: "ep_1", Reason: plan.Unread, Cause: "no_card"}}}, start
		}
	}
	for i := range 80 {
		r.tasks = append(r.tasks, projections.RevealedTask{
			Shop: fmt.Sprintf("shp_mfzwizlsmjrxg43vmvzc_20260301_%02d", i%24), Consent: consentID, Agent: "build:42", Day: 20513, Slot: i % 24, Template: "unit.convert",
			Family: "unit", Ending: []string{"pass", "fail", "missed"}[i%3], Latency: 812 * time.Millisecond, Planned: start, Revealed: start,
		})
	}
	r.shop = projections.Shop{
		ID: shopID, Consent: consentID, Agent: "build:42", Day: 20513, Slot: 7, Phase: projections.PhaseRevealed, RevealedAt: start,
		Revealed: &shop.Revealed{
			Consent: consentID, Agent: "build:42", Day: 20513, Slot: 7, Template: "unit.convert", TemplateVersion: 1, Family: "unit", Endpoint: "ep_0", Identity: 3,
			Entry: task.Entry{Kind: task.MCP, Name: hostile}, Prompt: "How many feet are <2> miles?", SourceAddresses: []string{"192.0.2.1"}, SendAt: start.Unix(),
			Ask: task.Ask{Tool: hostile, Arguments: json.RawMessage(`{"q":"<script>"}`)}, Expected: task.Expected{Value: "10560", Tolerance: "21.12"},
			Result: shop.Result{State: shop.StateJudged, Outcome: task.Fail, Rule: "marker", Literal: task.Pass, LatencyMs: 812, ReplyHash: domain.Sum([]byte("r"))},
			Records: []ledger.Record{
				record("shop.sent.v1", shop.Sent{Endpoint: "ep_0"}), record("shop.judged.v1", shop.Judged{Outcome: task.Fail, Rule: "marker", Offset: 6, Length: 8}),
			},
		},
	}
	r.agent = projections.Agent{
		Ref: "build:42", Since: start, Certificates: []projections.Holding{{Value: hostile, Since: start}}, Identities: []projections.Holding{{Value: "https://agent.example", Since: start}},
	}
	r.consents = 21
	for i := range 51 {
		a := projections.ListedAgent{Ref: agent.Ref(fmt.Sprintf("build:%d", i)), Since: start, Demo: i == 3}
		if i%2 == 0 {
			a.Consent, a.State, a.Latest = consentID, projections.Expired, found(finding.Watch)
		}
		r.agents = append(r.agents, a)
	}
	for i := range 40 {
		text, err := json.Marshal(map[string]any{
			"actor": hostile, "cause": map[string]any{"command": "c", "correlation": "c"}, "data": map[string]any{"text": strings.Repeat(hostile, 300)}, "id": "00000000-0000-0000-0000-000000000000",
			"stream": []string{"shop/" + shopID, "programme", "consent/build:42", "unknown/x"}[i%4], "time": "2026-03-01T12:00:00.000000Z", "type": "shop.committed.v1", "version": 1,
		})
		if err != nil {
			panic(err)
		}
		r.leaves = append(r.leaves, publiclog.Leaf{Index: uint64(i), Record: text, Hash: domain.Sum([]byte{byte(i)})})
	}
	for i := range 35 {
		b := projections.Batch{Sealed: batch.Sealed{Batch: uint64(35 - i), Chain: 84532, Count: 72}, SealedAt: start}
		if i > 1 {
			b.Attested, b.Final = &batch.Attested{Batch: b.Batch, Time: start}, i > 2
		}
		r.batches = append(r.batches, b)
	}
	r.hashes = map[domain.Hash][]projections.NamedHash{
		domain.Sum([]byte("reply")): {{Form: projections.ReplyHash, Of: shopID}}, domain.Sum([]byte("seal")): {{Form: projections.SealRoot, Of: consentID}},
		domain.Sum([]byte("uid")): {{Form: projections.AttestationUID, Of: "3"}},
		domain.Sum([]byte("two")): {{Form: projections.DayKey, Of: consentID}, {Form: projections.BatchRoot, Of: "3"}},
	}
	r.report = verify.ShopReport{Shop: shopID, Phase: "revealed", Verdict: verify.VerdictFail, Checks: []verify.SlotCheck{
		{ID: "consent", Status: verify.Pass, Detail: "holds " + hostile, Inputs: map[string]string{"b": hostile, "a": "1"}},
		{ID: "reply", Status: verify.Fail, Detail: "another one"},
		{ID: "payment", Status: verify.Skipped, Detail: "nothing was paid"},
	}}
	return r
}

func TestVerdictsInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		verdict   finding.Verdict
		seed      finding.Verdict
		want, not []string
	}{
		{finding.ExamOnly, finding.ExamOnly, []string{"Exam only", "18.3 points", "−37.5 points (−50 to −21)", "97.5 % (87.1–99.6)", "60 % (46–72)", "It does not say why.", "Field over exam: 1.13 for the half."}, []string{"First sighting", "No difference found"}},
		{finding.Watch, finding.ExamOnly, []string{"First sighting, not confirmed", "−37.5 points", "an E-value of 100"}, []string{"Exam only"}},
		{finding.Consistent, finding.Consistent, []string{"No difference found", "18.3 points", "is not evidence that there is none"}, []string{"Exam only"}},
		{finding.Insufficient, finding.Insufficient, []string{"Not enough data", "The rule asks for 20 and 12.", "Anything about the agent."}, []string{"From exam to field", "blocked or missed. Above"}},
		{finding.Insufficient, finding.ExamOnly, []string{"Not enough data", "37 % of the planned tasks were blocked or missed."}, []string{"From exam to field", "Exam only"}},
	} {
		r := furnished()
		r.finding = found(tt.verdict)
		r.finding.Verdict = tt.seed
		_, words := page(t, config(r), "/mystery/"+consentID)
		for _, want := range tt.want {
			if !strings.Contains(words, want) {
				t.Errorf("%s: the page does not say %q", tt.verdict, want)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(words, not) {
				t.Errorf("%s: the page says %q", tt.verdict, not)
			}
		}
	}
}

func TestStatesOfConsents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state, reason, want string
		revocable           bool
	}{
		{projections.Active, "", "Active", true},
		{projections.Revoked, "the owner revoked it", "Revoked · Its owner revoked it.", false},
		{projections.Expired, "expired", "Expired · Its last day is over.", false},
		{projections.Ended, "owner_changed", "Ended · The agent changed hands.", false},
		{projections.Refused, "the host is not proven", "Refused · The host is not proven.", false},
	} {
		r := furnished()
		r.consent.State, r.consent.Reason = tt.state, tt.reason
		body, words := page(t, config(r), "/mystery/"+consentID)
		if !strings.Contains(words, tt.want) {
			t.Errorf("%s: the page does not say %q", tt.state, tt.want)
		}
		if has := strings.Contains(body, `action="/mystery/`+consentID+`/revoke"`); has != tt.revocable {
			t.Errorf("%s: it can be revoked on the page: %t, want %t", tt.state, has, tt.revocable)
		}
	}
}

// What was not shopped is said in a sentence, with the code of a reading that failed.
func TestWhatWasNotShopped(t *testing.T) {
	t.Parallel()
	_, words := page(t, config(furnished()), "/mystery/"+consentID)
	for _, want := range []string{plan.NothingOffered.Sentence(), plan.Unread.Sentence() + " The last reading failed with no_card."} {
		if !strings.Contains(words, want) {
			t.Errorf("the page of a consent does not say %q", want)
		}
	}
}

// The text of others is shown as it is, and as text: nothing of it is markup, and what
// stands behind it reads in the direction of the page.
func TestHostileText(t *testing.T) {
	t.Parallel()
	c := config(furnished())
	for _, path := range []string{"/mystery/" + consentID, "/mystery/shops/" + shopID, "/agents/42", "/ledger/records/7", "/incidents/" + incidentID} {
		body, words := page(t, c, path)
		if n := len(scriptsOf(body)); n == 0 || strings.Count(body, "<script") != n {
			t.Errorf("%s has scripts that are none of ours", path)
		}
		for _, bad := range []string{"<script>", "<b>", "\x00", "\x1b"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
		if !strings.Contains(words, "</pre><script>alert(1)</script>") {
			t.Errorf("%s does not show what was written", path)
		}
	}
	body, _ := page(t, c, "/mystery/shops/"+shopID)
	for _, want := range []string{`dir="auto">&lt;/pre`, "<mark>&lt;script&gt;</mark>", "Only the beginning stands here", "\u202e"} {
		if !strings.Contains(body, want) {
			t.Errorf("the reply is shown without %q", want)
		}
	}
}

// A slot is checked again as soon as something is published or signed, and once in a
// while; until then its page shows what came of it.
func TestReportIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	r, made, now := furnished(), 0, start
	build := func() http.Handler {
		c := configOf(&r)
		c.Now = func() time.Time { return now }
		c.Verify = func(context.Context, string) (*verify.ShopReport, error) { made++; return &r.report, nil }
		return handler(c)
	}
	h := build()
	for i, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"at first", func() {}, 1},
		{"again", func() {}, 1},
		{"after a record", func() { r.status.AsOf = r.status.AsOf.Add(time.Microsecond) }, 2},
		{"after a checkpoint", func() { r.leaves = r.leaves[:len(r.leaves)-1] }, 3},
		{"within a minute", func() { now = now.Add(59 * time.Second) }, 3},
		{"after a minute", func() { now = now.Add(time.Second) }, 4},
	} {
		step.change()
		a := get(t, h, "/mystery/shops/"+shopID)
		if a.status != http.StatusOK || made != step.want {
			t.Errorf("%d, %s: %d, checked %d times, want %d", i, step.name, a.status, made, step.want)
		}
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		reply []byte
		want  string
	}{
		{"none", nil, "None came."},
		{"not UTF-8", []byte("a\xffb"), "a\ufffdb 3 bytes, as the agent sent them. What is no text in it is shown as \ufffd."},
		{"without a space", []byte(strings.Repeat("x", 64<<10)), "65,536 bytes, as the agent sent them."},
		{"from right to left", []byte("שלום עולם"), "שלום עולם"},
	} {
		r := furnished()
		r.reply = tt.reply
		r.shop.Revealed.Records = nil
		if _, words := page(t, config(r), "/mystery/shops/"+shopID); !strings.Contains(words, tt.want) {
			t.Errorf("%s: the page does not say %q", tt.name, tt.want)
		}
	}
}

// What was corrected and what the owner replied stand where the finding and the incident
// stand, and so does what follows for the passport.
func TestWhatWasSaidOfFindings(t *testing.T) {
	t.Parallel()
	c := config(furnished())
	const correction = "Corrected on 1 Mar 2026, 12:00:00 UTC: Two of the tasks were ours."
	for path, wants := range map[string][]string{
		"/mystery":                          {"Exam only corrected"},
		"/mystery/" + consentID:             {correction, "What the owner says to it", "An incident followed: " + incidentID + ", high"},
		"/mystery/" + consentID + "?look=3": {correction, "This is one look of several."},
		"/incidents/" + incidentID: {
			correction, "Recalled. Closed, after it was disclosed", "7.0 high", "Signed by Ann", "The owner was heard.", "A reply, which stands with look 3.", "Record 0: shop.committed.v1",
		},
		"/agents/42": {correction, "Certificate Recalled. RECALLED", "record 7, its proof", "no checkpoint covers it yet", "As of the first 40 public records", "Shield no data"},
	} {
		_, words := page(t, c, path)
		for _, want := range wants {
			if !strings.Contains(words, want) {
				t.Errorf("%s does not say %q: %s", path, want, words)
			}
		}
	}
}

// An incident that was not disclosed is answered like one that does not exist.
func TestPrivateIncident(t *testing.T) {
	t.Parallel()
	r := furnished()
	r.incident = nil
	h := handler(config(r))
	private, unknown := get(t, h, "/incidents/"+incidentID), get(t, h, "/incidents/inc_aaaaaaaaaaaaaaaaaaaa")
	if private.status != http.StatusNotFound || private.body != unknown.body {
		t.Errorf("a private incident: %d, and another answer than for one that does not exist", private.status)
	}
}

// Before its reveal a task looks like a pad, on the page as everywhere.
func TestSealedSlotTellsNothing(t *testing.T) {
	t.Parallel()
	r := furnished()
	r.shop.Phase, r.shop.Revealed, r.shop.RevealedAt = projections.PhaseSealed, nil, time.Time{}
	r.report = verify.ShopReport{Shop: shopID, Phase: "sealed", Verdict: verify.VerdictPending}
	_, words := page(t, config(r), "/mystery/shops/"+shopID)
	if !strings.Contains(words, "a slot without one looks the same") {
		t.Error("the page does not say that it is sealed")
	}
	for _, not := range []string{"The reply", "Right answer", "Answered in", "alert(1)"} {
		if strings.Contains(words, not) {
			t.Errorf("the page of a sealed slot says %q", not)
		}
	}
}

func TestAddressesThatNameNothing(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	for path, want := range map[string]int{
		"/mystery/cns_x": 404, "/mystery/cns_MFZWIZLSMJRXG43VMVZC": 404, "/mystery/%00": 404, "/mystery/shops/shp_x": 404, "/mystery/shops/" + consentID: 404,
		"/mystery/" + consentID + "?tasks=x": 422, "/mystery/" + consentID + "?tasks=shp_mfzwizlsmjrxg43vmvzd_20260301_07": 422,
		"/mystery/" + consentID + "?tasks=shp_mfzwizlsmjrxg43vmvzc_20261301_07": 422, "/mystery/" + consentID + "?tasks=shp_mfzwizlsmjrxg43vmvzc_20260301_24": 422,
		"/mystery/" + consentID + "?look=0": 422, "/mystery/" + consentID + "?look=x": 422, "/mystery/" + consentID + "?look=4": 404, "/mystery/" + consentID + "?look=3": 200,
		"/incidents/inc_x": 404, "/incidents/inc_mfzwizlsmjrxg43vmvzd": 404, "/incidents/" + incidentID: 200,
		"/mystery/" + consentID + "?days=-1": 422, "/mystery/" + consentID + "?days=99999999999": 422,
		"/mystery/" + consentID + "?days=20510&tasks=" + shopID: 200,
		"/mystery?verdict=best":                                 422, "/mystery?verdict=watch": 200, "/mystery?after=x": 422, "/mystery?after=-1_" + consentID: 422, "/mystery?after=1_" + consentID: 200,
		"/mystery?consents=x": 422, "/mystery?consents=" + consentID: 200,
		"/agents/43": 404, "/agents/BUILD": 404, "/agents/%3Cscript%3E": 404, "/agents/build:42": 200, "/agents?after=x": 422, "/agents?after=build:42": 200,
		"/ledger?before=x": 422, "/ledger?before=30": 200, "/ledger?before=99999999": 200, "/ledger/records/40": 404, "/ledger/records/-1": 404, "/ledger/records/01": 404,
		"/ledger/records/99999999999999999999": 404, "/ledger/batches/0": 404, "/ledger/batches/36": 404, "/ledger/batches/3": 200, "/ledger/batches?before=x": 422,
		"/search?q=" + strings.Repeat("x", 5000): 200, "/search?q=%00%3Cscript%3E": 200,
	} {
		if a := get(t, h, path); a.status != want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("GET %s: %d, %s; want %d and a page", path, a.status, a.header.Get("Content-Type"), want)
		}
	}
}

func TestPagesForPrograms(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	for _, tt := range []struct {
		path, accept, want string
	}{
		{"/mystery/" + consentID, "application/json", `"/v1/mystery/consents/` + consentID + `"`},
		{"/mystery/" + consentID + "?format=json", "text/html", `"/v1/mystery/consents/` + consentID + `"`},
		{"/mystery/shops/" + shopID, "application/json, text/html;q=0.9", `"/v1/mystery/shops/` + shopID + `"`},
		{"/mystery/terms", "application/json", `"/v1/mystery/terms"`},
		{"/mystery/terms", "*/*", ""},
		{"/mystery/terms", "text/html, application/json;q=0.9", ""},
		{"/mystery/terms?format=html", "application/json", ""},
		{"/bot", "application/json", ""},
		{"/agents", "application/json", `"/v1/mystery/agents"`},
		{"/incidents/" + incidentID, "application/json", `"/v1/mystery/incidents/` + incidentID + `"`},
	} {
		a := get(t, h, tt.path, "Accept", tt.accept)
		if json := a.header.Get("Content-Type") == "application/json"; json != (tt.want != "") || json && a.body != tt.want {
			t.Errorf("GET %s for %s: %s %.80s, want %s", tt.path, tt.accept, a.header.Get("Content-Type"), a.body, tt.want)
		}
		if a.header.Get("Vary") != "Accept" {
			t.Errorf("GET %s: Vary is %q", tt.path, a.header.Get("Vary"))
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	for _, tt := range []struct{ name, query, path, matched string }{
		{"a consent", consentID, "/mystery/" + consentID, "consent"},
		{"a slot", " " + shopID + " ", "/mystery/shops/" + shopID, "shop"},
		{"an agent by its full name", "build:42", "/agents/42", "agent"},
		{"an incident", incidentID, "/incidents/" + incidentID, "incident"},
		{"the stream of an incident", "incident/" + incidentID, "/incidents/" + incidentID, "stream"},
		{"a batch among records", "batch 3", "/ledger/batches/3", "batch_number"},
		{"a record among batches", "record 3", "/ledger/records/3", "index"},
		{"a stream", "finding/" + consentID, "/mystery/" + consentID, "stream"},
		{"the stream of a batch", "batch/3", "/ledger/batches/3", "stream"},
		{"a reply", domain.Sum([]byte("reply")).String(), "/mystery/shops/" + shopID, "reply"},
		{"a seal in capitals", strings.ToUpper(domain.Sum([]byte("seal")).String()), "/mystery/" + consentID, "seal"},
		{"an attestation", "0x" + domain.Sum([]byte("uid")).String(), "/ledger/batches/3", "attestation"},
		{"a record", domain.Sum([]byte{9}).String(), "/ledger/records/9", "record"},
		{"a leaf", publiclog.Leaf{Hash: domain.Sum([]byte{9})}.LeafHash().String(), "/ledger/records/9", "leaf"},
		{"a checkpoint", domain.Sum([]byte("root")).String(), "/ledger", "root"},
	} {
		a := get(t, h, "/search?q="+url.QueryEscape(tt.query))
		if want := tt.path + "?matched=" + tt.matched; a.status != http.StatusSeeOther || a.header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", tt.name, a.status, a.header.Get("Location"), want)
		}
	}
	for query, want := range map[string]string{
		"3":                                    "Batch 3",
		domain.Sum([]byte("two")).String():     "the key of an opened day",
		domain.Sum([]byte("nothing")).String(): "Nothing here has this id",
		"cns_mfzwizl":                          "Nothing here has this id",
		"inc_mfzwizlsmjrxg43vmvzd":             "Nothing here has this id",
		"fnd_mfzwizlsmjrxg43vmvzc_4":           "Nothing here has this id",
		"":                                     "64 hex digits",
		"finding/x/../../y":                    "Nothing here has this id",
		"shop/" + consentID:                    "Nothing here has this id",
	} {
		if _, words := page(t, config(furnished()), "/search?q="+url.QueryEscape(query)); !strings.Contains(words, want) {
			t.Errorf("search for %q does not say %q", query, want)
		}
	}
	if a := get(t, h, "/search?q=fnd_mfzwizlsmjrxg43vmvzc_3"); a.header.Get("Location") != "/mystery/"+consentID+"?look=3&matched=finding" {
		t.Errorf("a finding: %d to %q", a.status, a.header.Get("Location"))
	}
	if _, words := page(t, config(furnished()), "/mystery/"+consentID+"?matched=seal"); !strings.Contains(words, "What you searched for is the root of an hourly seal.") {
		t.Error("the page does not say what was matched")
	}
	if _, words := page(t, config(furnished()), "/mystery/"+consentID+"?matched=<b>"); strings.Contains(words, "What you searched for") {
		t.Error("the page says that something was matched which is nothing")
	}
}

func TestFeeds(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	type feed struct {
		ID      string `xml:"id"`
		Updated string `xml:"updated"`
		Entries []struct {
			ID    string `xml:"id"`
			Title string `xml:"title"`
			Link  struct {
				Href string `xml:"href,attr"`
			} `xml:"link"`
		} `xml:"entry"`
	}
	for _, tt := range []struct{ path, id, entry, title, link string }{
		{"/mystery/findings.atom", "tag:karatum.com,2026:findings", "tag:karatum.com,2026:finding/" + consentID + "/3", "42: Exam only, corrected", "https://karatum.com/mystery/" + consentID + "?look=3"},
		{"/mystery/findings.atom?agent=build:42", "tag:karatum.com,2026:findings?agent=build%3A42", "tag:karatum.com,2026:finding/" + consentID + "/3", "42: Exam only, corrected", "https://karatum.com/mystery/" + consentID + "?look=3"},
		{"/mystery/reveals.atom", "tag:karatum.com,2026:reveals", "tag:karatum.com,2026:shop/shp_mfzwizlsmjrxg43vmvzc_20260301_00", "42: Unit conversion, Right", "https://karatum.com/mystery/shops/shp_mfzwizlsmjrxg43vmvzc_20260301_00"},
	} {
		a := get(t, h, tt.path)
		var f feed
		if err := xml.Unmarshal([]byte(a.body), &f); err != nil || a.status != http.StatusOK || len(f.Entries) == 0 {
			t.Errorf("GET %s: %d, %v: %.200s", tt.path, a.status, err, a.body)
			continue
		}
		e := f.Entries[0]
		if f.ID != tt.id || f.Updated != "2026-03-01T12:00:00Z" || e.ID != tt.entry || e.Title != tt.title || e.Link.Href != tt.link {
			t.Errorf("GET %s: %+v with %+v", tt.path, f.ID, e)
		}
	}
	for path, want := range map[string]int{"/mystery/findings.atom?agent=x": 422, "/mystery/findings.atom?consent=x": 422} {
		if a := get(t, h, path); a.status != want {
			t.Errorf("GET %s: %d, want %d", path, a.status, want)
		}
	}
}

func TestBadges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*reader)
		want   string
	}{
		{"a gap", func(r *reader) { r.finding = found(finding.ExamOnly) }, "field: below its exam, n=50, Mar 2026"},
		{"a corrected one", func(*reader) {}, "field: below its exam, n=50, Mar 2026, corrected"},
		{"no gap", func(r *reader) { r.finding = found(finding.Consistent) }, "field: no difference ≥ 18.3 pts found, n=50, Mar 2026"},
		{"a first sighting", func(r *reader) { r.finding = found(finding.Watch) }, "field: first sighting of a gap, n=50, Mar 2026"},
		{"too little", func(r *reader) { r.finding = found(finding.Insufficient) }, "field: not enough data, n=50, Mar 2026"},
		{"a consent that is over", func(r *reader) { r.consent.State = projections.Revoked }, "field: below its exam, n=50, Mar 2026, corrected, consent revoked"},
		{"nothing compared", func(r *reader) { r.finding = nil }, "field: nothing compared yet, n=0, Mar 2026"},
		{"no consent", func(r *reader) { r.finding, r.consents = nil, 0 }, "field: never agreed to spot checks"},
		{"one of Karatum's", func(r *reader) { r.agent.Demo = true }, "DEMO field: below its exam, n=50, Mar 2026, corrected"},
	} {
		r := furnished()
		tt.change(&r)
		a := get(t, handler(config(r)), "/agents/42/badge.svg")
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(a.body, ">"+tt.want+"</text>") {
			t.Errorf("%s: %d %s, want %q", tt.name, a.status, a.body, tt.want)
		}
	}
}

// The card is the one page that others may show in a frame.
func TestCard(t *testing.T) {
	t.Parallel()
	a := get(t, handler(config(furnished())), "/stack/card")
	if policy := a.header.Get("Content-Security-Policy"); a.status != http.StatusOK || !strings.Contains(policy, "frame-ancestors *") || strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("GET /stack/card: %d, %q", a.status, policy)
	}
	for _, want := range []string{"Mystery Shopper", "37", "1,234,567", "Exam only 21", "No. 35, Sealed"} {
		if !strings.Contains(strings.Join(strings.Fields(a.body), " "), want) {
			t.Errorf("the card does not say %q", want)
		}
	}
}

// post sends a form.
func post(t *testing.T, h http.Handler, path string, form url.Values, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.String()}
}

func optIn() url.Values {
	return url.Values{
		"agent": {"42"}, "kind0": {"a2a"}, "url0": {"https://agent.example/a2a"}, "kind1": {"mcp"}, "url1": {"https://agent.example/mcp"},
		"perDay": {"4"}, "perWeek": {"20"}, "delay": {"24"}, "days": {"90"}, "skills": {"units,\r\n dates "},
	}
}

func TestOptIn(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	a := post(t, h, "/mystery/opt-in", optIn())
	for _, want := range []string{
		"a message\nof two lines", `value="chl_1"`, "cast wallet sign", `action="/mystery/consents"`, `data-message="0x61206d6573736167650a6f662074776f206c696e6573"`, `data-owner="0x`, `download="karatum-consent.txt"`,
		"base64,YSBtZXNzYWdlCm9mIHR3byBsaW5lcw==", "&#34;skills&#34;:[&#34;units&#34;,&#34;dates&#34;]", "&#34;kinds&#34;:[&#34;a2a&#34;,&#34;mcp&#34;]",
	} {
		if a.status != http.StatusOK || !strings.Contains(html.UnescapeString(a.body), html.UnescapeString(want)) {
			t.Errorf("%d: the page to sign on does not have %s", a.status, want)
		}
	}
	if got, want := a.header.Get("Content-Security-Policy"), policyWith(map[string]string{"img-src 'self'": "img-src 'self' data:"}); got != want {
		t.Errorf("the policy of the page to sign on is\n%s\nwant\n%s", got, want)
	}
	if got := scriptsOf(a.body); !slices.Equal(got, []string{"copy", "sign"}) {
		t.Errorf("the page to sign on has the scripts %q", got)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("the page to sign on may be kept: %q", got)
	}
	for _, fault := range faults(t, a.body) {
		t.Error(fault)
	}
	for name, value := range map[string]string{"agent": "B<>", "perDay": "x", "days": "-1", "delay": "99999999999999999999", "nonceHash": "zz"} {
		form := optIn()
		form.Set(name, value)
		a := post(t, h, "/mystery/opt-in", form)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, `role="alert"`) || !strings.Contains(a.body, `value="https://agent.example/mcp"`) {
			t.Errorf("%s %q: %d, want the form with what is wrong and what was typed", name, value, a.status)
		}
	}
}

// A form can be looked at while it is filled in, by the rules that it is held to when it
// is sent. No message comes of it.
func TestOptInIsChecked(t *testing.T) {
	t.Parallel()
	h := handler(config(furnished()))
	for _, tt := range []struct {
		name, field, value string
		want               string
	}{
		{"that keeps all rules", "agent", "42", `{"ok":true,"detail":""}`},
		{"with too many tasks", "perDay", "25", `{"ok":false,"detail":"Tasks per day must be 1 to 24, not 25."}`},
		{"with what is no number", "days", "<b>", `{"ok":false,"detail":"The field \"days\" takes a whole number."}`},
		{"with no URL", "url0", "ftp:", `{"ok":false,"detail":"\"ftp:\" is not an absolute http(s) URL."}`},
		{"of an agent that nobody knows", "agent", "43", `{"ok":false,"detail":"Not found."}`},
	} {
		form := optIn()
		form.Set(tt.field, tt.value)
		a := post(t, h, "/mystery/opt-in/check", form)
		if a.status != http.StatusOK || a.body != tt.want || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a form %s: %d %s, want %s", tt.name, a.status, a.body, tt.want)
		}
	}
	if a := post(t, h, "/mystery/opt-in/check", optIn(), "Origin", "https://elsewhere.example"); !strings.Contains(a.body, `"ok":false`) {
		t.Errorf("a form of another site: %s", a.body)
	}
}

func TestGrantAndRevoke(t *testing.T) {
	t.Parallel()
	r := furnished()
	h := handler(config(r))
	payload, err := domain.Canonical(r.consent.Payload)
	if err != nil {
		t.Fatal(err)
	}
	grant := url.Values{"challenge": {"chl_1"}, "payload": {string(payload)}, "signature": {"0x00"}}
	if a := post(t, h, "/mystery/consents", grant); a.status != http.StatusSeeOther || a.header.Get("Location") != "/mystery/"+consentID {
		t.Errorf("a signed consent: %d to %q", a.status, a.header.Get("Location"))
	}
	if a := post(t, h, "/mystery/consents", url.Values{"payload": {"{"}}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a broken payload: %d", a.status)
	}
	if a := post(t, h, "/mystery/"+consentID+"/revoke", nil); a.status != http.StatusOK || !strings.Contains(a.body, "a message\nthat revokes") || !strings.Contains(a.body, `action="/mystery/`+consentID+`/revocation"`) {
		t.Errorf("the message that revokes: %d", a.status)
	}
	if a := post(t, h, "/mystery/"+consentID+"/revocation", url.Values{"challenge": {"chl_2"}, "signature": {"0x00"}}); a.status != http.StatusSeeOther {
		t.Errorf("a signed revocation: %d", a.status)
	}
	if a := post(t, h, "/mystery/cns_x/revoke", nil); a.status != http.StatusNotFound {
		t.Errorf("a revocation of nothing: %d", a.status)
	}
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"} {
		if a := post(t, h, "/mystery/consents", grant, name, value); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "This form was sent from another site") {
			t.Errorf("a form from elsewhere (%s): %d", name, a.status)
		}
	}
	if a := post(t, h, "/mystery/opt-in", url.Values{"agent": {strings.Repeat("x", 70<<10)}}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a form that is too long: %d", a.status)
	}

	r.refusal = fmt.Errorf("somebody else signed: %w", domain.ErrForbidden)
	h = handler(config(r))
	for _, path := range []string{"/mystery/consents", "/mystery/" + consentID + "/revocation"} {
		if a := post(t, h, path, grant); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "Somebody else signed.") || !strings.Contains(a.body, `name="signature"`) {
			t.Errorf("%s after a refused signature: %d, want the message again", path, a.status)
		}
	}
}
