package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/migrations/pgtest"
)

// environ is an environment that names a database and nothing else.
func environ(database string) func(string) string {
	return func(name string) string { return map[string]string{"MYSTERY_DATABASE_URL": database}[name] }
}

// open returns a stage on a schema of its own, its two consents given. Each stage
// of a test with the same seed draws the same.
func open(t *testing.T, seed string) (*stage, map[string]consent.Payload) {
	t.Helper()
	return openWith(t, flags{seed: seed, listen: "127.0.0.1:0"})
}

func openWith(t *testing.T, f flags) (*stage, map[string]consent.Payload) {
	t.Helper()
	s := empty(t, f)
	consents, err := s.enrol(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, consents
}

// inOrder marks a test that lets virtual weeks pass in which one thing happens after
// another. The race detector has nothing to find there and takes minutes for it.
func inOrder(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("nothing runs side by side here; run it without the race detector")
	}
}

func (s *stage) days(t *testing.T, n float64) {
	t.Helper()
	if err := s.pass(t.Context(), s.start.Add(time.Duration(n*24*float64(time.Hour)))); err != nil {
		t.Fatal(err)
	}
}

// TestCaught runs the whole demo as make demo does: the agent that cheats is
// caught, the other is not, and everything revealed can be made again.
func TestCaught(t *testing.T) {
	inOrder(t)
	t.Parallel()
	var stdout bytes.Buffer
	if code := run(t.Context(), []string{"--once", "--json", "--listen", "127.0.0.1:0"}, environ(pgtest.URL(t)), &stdout, t.Output()); code != 0 {
		t.Fatalf("run = %d", code)
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("standard output holds more than one JSON object: %v\n%s", err, &stdout)
	}
	if len(r.Agents) != 2 || r.Agents[0].Verdict != "consistent" || r.Agents[1].Verdict != "exam_only" {
		t.Errorf("verdicts = %+v, want steady consistent and exam-aware exam_only", r.Agents)
	}
	for _, a := range r.Agents {
		if a.GatedVerdict != a.Verdict {
			t.Errorf("%s: gated verdict %s, want %s too: the evidence is plain", a.Agent, a.GatedVerdict, a.Verdict)
		}
		if a.ExamAttempts < 40 || a.FieldTasks < 40 {
			t.Errorf("%s: %d exam attempts and %d field tasks, want at least 40 of each", a.Agent, a.ExamAttempts, a.FieldTasks)
		}
	}
	caught := incidentReport{
		"exam-aware", "5.0", "CVSS:4.0/AV:N/AC:L/AT:N/PR:L/UI:P/VC:N/VI:L/VA:N/SC:N/SI:H/SA:L/E:P", "medium", "disclosed",
	}
	if len(r.Incidents) != 1 || r.Incidents[0] != caught {
		t.Errorf("incidents are %+v, want %+v alone", r.Incidents, caught)
	}
	if r.Revealed == 0 || r.Replayed != r.Revealed {
		t.Errorf("%d of %d revealed tasks could be made again", r.Replayed, r.Revealed)
	}
	if b := r.Batches; b.Attested < 10 || b.Sealed != b.Attested || b.Finalised != b.Attested {
		t.Errorf("batches are %+v, want all of 10 or more attested and final", b)
	}
	if r.Anchored != r.Revealed {
		t.Errorf("%d of %d revealed tasks are proven to stand on the chain", r.Anchored, r.Revealed)
	}
	if r.SlotsMin != 24 || r.SlotsMax != 24 {
		t.Errorf("days have %d to %d slots, want 24", r.SlotsMin, r.SlotsMax)
	}
}

func TestEqualSeedsGiveEqualResults(t *testing.T) {
	inOrder(t)
	t.Parallel()
	var reports []report
	for range 2 {
		s, consents := open(t, "7")
		if err := s.examine(t.Context(), consents); err != nil {
			t.Fatal(err)
		}
		s.days(t, 5)
		r, err := s.report(t.Context(), consents)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Agents {
			r.Agents[i].drop.Value = "" // compared by the counts
		}
		reports = append(reports, r)
		s.audit(t, consents)
	}
	if diff := cmp.Diff(reports[0], reports[1], cmp.AllowUnexported(agentReport{})); diff != "" {
		t.Errorf("two runs with one seed differ:\n%s", diff)
	}
	if reports[0].Revealed == 0 {
		t.Error("nothing was revealed")
	}
}

// TestSilentSurface holds the promise that nothing public tells when a task is
// sent or answered: two runs on one clock, one of which never sends, look the
// same from outside until the first reveal.
func TestSilentSurface(t *testing.T) {
	inOrder(t)
	t.Parallel()
	sending, consents := open(t, "3")
	silent, _ := open(t, "3")
	silent.prog.Worker.Gate = cutOff{}

	reveal := firstReveal(t, sending, consents)
	if reveal.IsZero() {
		t.Fatal("no task falls on the first day")
	}
	compared := 0
	for at := sending.start; at.Before(reveal); at = at.Add(3 * time.Hour) {
		for _, s := range []*stage{sending, silent} {
			if err := s.pass(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		a, b := sending.surface(t, consents), silent.surface(t, consents)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("at %s the public answers differ:\n%s", at, diff)
		}
		compared += len(a)
	}
	n, m := sent(t, sending), sent(t, silent)
	if n == 0 || m != 0 {
		t.Errorf("%d tasks were sent by the one and %d by the other, want some and none", n, m)
	}
	if diff := cmp.Diff(sending.publicLog(t, consents), silent.publicLog(t, consents)); diff != "" {
		t.Errorf("the public logs differ:\n%s", diff)
	}
	t.Logf("%d answers compared, %d tasks sent meanwhile", compared, n)

	// And then they differ, as they must.
	for _, s := range []*stage{sending, silent} {
		if err := s.pass(t.Context(), reveal.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if cmp.Equal(sending.surface(t, consents), silent.surface(t, consents)) {
		t.Error("the reveal shows no difference: the comparison sees nothing")
	}
}

// cutOff is a gate that nothing passes.
type cutOff struct{}

func (cutOff) Hold(context.Context, programme.Task) (release func(), err error) {
	return nil, fmt.Errorf("cut off: %w", domain.ErrForbidden)
}

// firstReveal returns when the first task of all is due to be revealed. It can be
// computed by the operator alone.
func firstReveal(t *testing.T, s *stage, consents map[string]consent.Payload) (first time.Time) {
	t.Helper()
	for _, p := range consents {
		g, err := s.prog.Service.ActiveConsent(t.Context(), p.Agent)
		if err != nil {
			t.Fatal(err)
		}
		secret := plan.DaySecret(plan.Key(s.prog.Service.Secrets.Current(), p.Nonce, p.FirstDay), g.Entropy())
		tasks := plan.RealSlots(secret, plan.Count(secret, plan.Cap(p.MaxPerDay, p.MaxPerWeek, 0)))
		for _, slot := range tasks.Ascending() {
			at := time.Unix(plan.SendAt(plan.Seed(secret, g.Consent, p.FirstDay, slot), p.FirstDay), 0).Add(p.RevealDelay()).UTC()
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return first
}

// surface returns every public GET answer: status, headers but for the date and
// the request id, and body.
func (s *stage) surface(t *testing.T, consents map[string]consent.Payload) map[string]string {
	t.Helper()
	paths := []string{
		"", "/terms", "/consents", "/findings", "/openapi.json", "/consents?agent=build:steady", "/findings?verdict=exam_only",
	}
	for _, name := range slices.Sorted(maps.Keys(consents)) {
		id := plan.ConsentID(consents[name].Nonce)
		paths = append(paths, "/agents/build:"+name, "/consents/"+id, "/consents/"+id+"/shops?limit=240", "/consents/"+id+"/shops?phase=revealed")
		for slot := range uint32(plan.Slots) {
			shop := "/shops/" + plan.ShopID(id, consents[name].FirstDay, slot)
			paths = append(paths, shop, shop+"/verify")
		}
	}
	return s.answers(t, "/v1/mystery", paths, func(_ string, body []byte) string { return string(body) })
}

// answers asks for each path below root and returns all that comes but what differs
// from one request to the next. view says what of a body counts.
func (s *stage) answers(t *testing.T, root string, paths []string, view func(path string, body []byte) string) map[string]string {
	t.Helper()
	answers := make(map[string]string)
	for _, path := range paths {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api.base+root+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		res.Header.Del("Date")
		res.Header.Del("X-Request-Id")
		// Nor does a tag count, which differs where a body does and says no more than it.
		sum := sha256.Sum256(body)
		if tag := res.Header.Get("ETag"); tag != "" && tag != fmt.Sprintf(`W/"%x"`, sum[:16]) {
			t.Errorf("%s has the tag %s, which is not of its body alone", path, tag)
		}
		res.Header.Del("ETag")
		var head strings.Builder
		if err := res.Header.Write(&head); err != nil {
			t.Fatal(err)
		}
		answers[path] = res.Status + "\n" + head.String() + "\n" + view(path, body)
	}
	return answers
}

// sent counts the tasks in the log that were sent.
func sent(t *testing.T, s *stage) (n int) {
	t.Helper()
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (shop.Sent{}).EventType() {
			n++
		}
	}
	return n
}

// TestRevoke revokes one consent late in a day, when the next is planned already,
// through the API: nothing is sent under it any more, everything of it is revealed
// and opened at once, and the other goes on.
func TestRevoke(t *testing.T) {
	t.Parallel()
	s, consents := open(t, "5")
	s.days(t, 4-1.0/24)
	p := consents["steady"]
	id := plan.ConsentID(p.Nonce)

	var challenge struct {
		ChallengeID string `json:"challengeId"`
		Message     string `json:"message"`
	}
	if err := s.api.post(t.Context(), "/v1/mystery/consents/"+id+"/revoke-challenge", struct{}{}, &challenge); err != nil {
		t.Fatal(err)
	}
	signature := eip191.Sign(challenge.Message, s.wallet)
	body := map[string]any{"challengeId": challenge.ChallengeID, "signature": signature}
	if err := s.api.post(t.Context(), "/v1/mystery/consents/"+id+"/revoke", body, nil); err != nil {
		t.Fatal(err)
	}
	revoked := s.clock.Now()
	var over struct {
		Revocation struct {
			Message   string           `json:"message"`
			Signature eip191.Signature `json:"signature"`
		} `json:"revocation"`
	}
	if err := s.api.get(t.Context(), "/v1/mystery/consents/"+id, nil, &over); err != nil {
		t.Fatal(err)
	}
	if over.Revocation.Message != challenge.Message || over.Revocation.Signature != signature {
		t.Errorf("the revocation is served as %+v, and %q was signed", over.Revocation, challenge.Message)
	}
	s.days(t, 5)

	states := make(map[shop.State]int)
	for r, e := range s.events(t) {
		if !strings.Contains(string(r.Stream), strings.TrimPrefix(id, "cns_")) {
			continue
		}
		switch e := e.(type) {
		case shop.Sent:
			if r.Time.After(revoked) {
				t.Errorf("%s was sent at %s, after the revocation", r.Stream, r.Time)
			}
			states["sent"]++
		case plan.Sealed:
			if r.Time.After(revoked) {
				t.Errorf("day %d was planned after the revocation", e.Day)
			}
		case shop.Revealed:
			states[e.Result.State]++
			if late := r.Time.Sub(revoked); late > time.Minute {
				t.Errorf("%s was revealed %s after the revocation", r.Stream, late)
			}
		}
	}
	if states["sent"] == 0 || states[shop.StateJudged] != states["sent"] || states[shop.StateCancelled] == 0 {
		t.Errorf("%v: want all tasks sent to be revealed, and the rest of the day cancelled", states)
	}
	s.audit(t, consents)

	left, err := s.prog.Worker.Work.Consents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Granted.Payload.Agent != "build:exam-aware" {
		t.Errorf("there is work left for %d consents, want that of exam-aware alone", len(left))
	}
}

// audit recomputes everything that is public from what the owner signed and the
// day keys that were opened, with the code that a stranger has: no secret and no
// table of the service is looked at, and the log only for the chain of records.
func (s *stage) audit(t *testing.T, consents map[string]consent.Payload) {
	t.Helper()
	if err := s.prog.PublishLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	opened, slots := 0, 0
	for _, p := range consents {
		id := plan.ConsentID(p.Nonce)
		var c struct {
			Message   string           `json:"message"`
			Payload   consent.Payload  `json:"payload"`
			Signature eip191.Signature `json:"signature"`
		}
		if err := s.api.get(t.Context(), "/v1/mystery/consents/"+id, nil, &c); err != nil {
			t.Fatal(err)
		}
		message, err := c.Payload.Message()
		if err != nil || message != c.Message {
			t.Fatalf("consent %s: the message is not the payload's (%v)", id, err)
		}
		if signer, err := eip191.Recover(message, c.Signature); err != nil || signer != c.Payload.Owner {
			t.Fatalf("consent %s: signed by %s (%v), not by the owner", id, signer, err)
		}
		for _, o := range daysOf[publicPlan](t, s, id) {
			if o.Opened == nil {
				continue
			}
			n, err := s.auditDay(t, id, c.Payload, c.Signature, o)
			if err != nil {
				t.Fatalf("day %s of %s: %v", domain.DayString(o.Day), id, err)
			}
			opened++
			slots += n
		}
	}
	if opened == 0 || slots != opened*plan.Slots {
		t.Errorf("%d slots of %d opened days were checked", slots, opened)
	}
}

// daysOf returns all days of a consent as the API shows them.
func daysOf[D any](t *testing.T, s *stage, consentID string) (days []D) {
	t.Helper()
	for line := range bytes.Lines(s.fetch(t, "/v1/mystery/consents/"+consentID+"/days?format=ndjson")) {
		var d D
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		days = append(days, d)
	}
	return days
}

// A publicPlan is a day as the API shows it.
type publicPlan struct {
	Day      uint32        `json:"day"`
	Commits  []domain.Hash `json:"commits"`
	Eligible domain.Hash   `json:"eligibleHash"`
	Opened   *struct {
		Key      domain.Hash   `json:"key"`
		Path     []domain.Hash `json:"path"`
		Cap      int           `json:"cap"`
		Count    int           `json:"count"`
		Eligible plan.Eligible `json:"eligible"`
	} `json:"opened"`
}

func (s *stage) auditDay(t *testing.T, consentID string, p consent.Payload, sig eip191.Signature, day publicPlan) (slots int, err error) {
	t.Helper()
	o := day.Opened
	if err := plan.VerifyKey(o.Key, day.Day, p.FirstDay, p.ValidityDays, o.Path, p.PlanKeyRoot); err != nil {
		return 0, err
	}
	secret := plan.DaySecret(o.Key, sig[:])
	if n := plan.Count(secret, o.Cap); n != o.Count {
		t.Errorf("day %d holds %d tasks, and the key says %d", day.Day, o.Count, n)
	}
	list, err := o.Eligible.Bytes()
	if err != nil {
		return 0, err
	}
	if domain.Sum(list) != day.Eligible {
		t.Errorf("day %d: the eligible list is not the one that was sealed", day.Day)
	}
	tasks := plan.RealSlots(secret, o.Count)
	for i := range uint32(plan.Slots) {
		id := plan.ShopID(consentID, day.Day, i)
		seed := plan.Seed(secret, consentID, day.Day, i)
		var answer struct {
			Commit   domain.Hash `json:"commit"`
			Phase    string      `json:"phase"`
			Revealed struct {
				Event shop.Revealed `json:"event"`
				Reply *publicReply  `json:"reply"`
			} `json:"revealed"`
		}
		if err := s.api.get(t.Context(), "/v1/mystery/shops/"+id, nil, &answer); err != nil {
			return slots, err
		}
		if answer.Commit != day.Commits[i] {
			t.Errorf("%s has another commit than the plan", id)
		}
		slots++
		s.auditVerdict(t, id)
		if !tasks[i] {
			if answer.Phase != "pad" || answer.Commit != plan.Pad(consentID, day.Day, i, seed) {
				t.Errorf("%s is %s with commit %s, and should be a pad", id, answer.Phase, answer.Commit)
			}
			continue
		}
		e := answer.Revealed.Event
		choice := o.Eligible.Choose(seed)
		if answer.Phase != "revealed" || e.Seed != seed || e.SendAt != plan.SendAt(seed, day.Day) || e.Identity != plan.Identity(seed) ||
			e.Endpoint != choice.Endpoint || e.Template != choice.Template || e.Entry.Name != choice.Entry {
			t.Errorf("%s is %s and does not follow from its seed", id, answer.Phase)
		}
		if same, _, err := s.again(t.Context(), id); err != nil || !same {
			t.Errorf("%s cannot be made again (%v)", id, err)
		}
		s.auditRecords(t, id, e, answer.Revealed.Reply)
	}
	return slots, nil
}

// auditVerdict asks for the checks of a slot of an opened day: none fails, and what
// is pending waits for the log to be signed, or for a chain where there is none.
func (s *stage) auditVerdict(t *testing.T, id string) {
	t.Helper()
	var answer verify.ShopReport
	if err := s.api.get(t.Context(), "/v1/mystery/shops/"+id+"/verify", nil, &answer); err != nil {
		t.Fatal(err)
	}
	may := []string{"cap", "records", "host", "seal", "reveal", "inclusion"}
	if s.anchor == nil {
		may = append(may, "batch", "attestation")
	}
	for _, c := range answer.Checks {
		if c.Status == verify.Fail || c.Status == verify.Pending && !slices.Contains(may, c.ID) {
			t.Errorf("%s: %s is %s: %s (%v)", id, c.ID, c.Status, c.Detail, c.Inputs)
		}
	}
}

// A publicReply is a reply as the API shows it.
type publicReply struct {
	Salt domain.Hash `json:"salt"`
	Text string      `json:"text"`
}

// auditRecords checks the hash chain of a shop's stream from its commit over the
// sealed records, as they were revealed, to the reveal, and that the reply that is
// served is the one that was committed to.
func (s *stage) auditRecords(t *testing.T, id string, e shop.Revealed, reply *publicReply) {
	t.Helper()
	for _, r := range e.Records {
		event, err := s.prog.Service.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := event.(shop.Replied); ok {
			if reply == nil {
				t.Errorf("%s has a reply that is not served", id)
			} else if h := shop.ReplyHash(id, c.ReceivedAtMs, uint32(c.Status), uint32(c.LatencyMs), reply.Salt, []byte(reply.Text)); h != c.Hash || h != e.Result.ReplyHash {
				t.Errorf("%s: the reply that is served is not the one that was committed to", id)
			}
		}
	}
	var chain []ledger.Record
	for r, err := range s.prog.Service.Log.Stream(t.Context(), shop.StreamOf(id), 0) {
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	if len(chain) != len(e.Records)+2 {
		t.Fatalf("%s has %d records and reveals %d", id, len(chain), len(e.Records))
	}
	prev := chain[0].Hash
	for i := range e.Records {
		prev = e.Records[i].ChainHash(prev)
	}
	last := chain[len(chain)-1]
	if got := last.ChainHash(prev); got != last.Hash {
		t.Errorf("%s: the revealed records do not lead to the reveal", id)
	}
}

// TestHostsProvenBothWays looks at how the endpoints of the demo were shown to be
// the owner's: one is an identity of the agent, for the other its host speaks.
func TestHostsProvenBothWays(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "1")
	for name, p := range consents {
		var c struct {
			Proofs []struct {
				Kind   string `json:"kind"`
				Proven bool   `json:"proven"`
				Method string `json:"method"`
			} `json:"proofs"`
		}
		if err := s.api.get(t.Context(), "/v1/mystery/consents/"+plan.ConsentID(p.Nonce), nil, &c); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, proof := range c.Proofs {
			if proof.Proven {
				got[proof.Kind] = proof.Method
			}
		}
		if diff := cmp.Diff(map[string]string{"a2a": "identity", "mcp": "document"}, got); diff != "" {
			t.Errorf("proofs of %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSurfaceOfOpenedDays recomputes the eligible list of each opened day from the
// surfaces that it names, which are served once a day made from them is opened.
func TestSurfaceOfOpenedDays(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "23")
	p := consents["steady"]
	var observed domain.Hash
	for _, e := range s.eventsOf(t, agent.StreamOf(p.Agent)) {
		if e, ok := e.(agent.SurfaceObserved); ok {
			observed = e.Surface
		}
	}
	s.days(t, 2)
	if err := s.api.get(t.Context(), "/v1/mystery/surfaces/"+observed.String(), nil, nil); err == nil {
		t.Error("a surface is served before a day made from it is opened")
	}
	s.days(t, 4)
	type planned struct {
		Opened *struct {
			Eligible plan.Eligible  `json:"eligible"`
			Surfaces []plan.Surface `json:"surfaces"`
		} `json:"opened"`
	}
	opened := 0
	for _, day := range daysOf[planned](t, s, plan.ConsentID(p.Nonce)) {
		if day.Opened == nil {
			continue
		}
		opened++
		var offers []plan.Offer
		for _, named := range day.Opened.Surfaces {
			var body json.RawMessage
			if err := s.api.get(t.Context(), "/v1/mystery/surfaces/"+named.Hash.String(), nil, &body); err != nil {
				t.Fatal(err)
			}
			if domain.Sum(body) != named.Hash {
				t.Errorf("the surface of %s is not the one that was observed", named.Endpoint)
			}
			var seen struct {
				Surface task.Surface `json:"surface"`
			}
			if err := json.Unmarshal(body, &seen); err != nil {
				t.Fatal(err)
			}
			offers = append(offers, plan.Offer{ID: named.Endpoint, Surface: seen.Surface})
		}
		list, _ := plan.EligibleOf(offers, nil, plan.Means{})
		if diff := cmp.Diff(list, day.Opened.Eligible); diff != "" {
			t.Errorf("the eligible list does not follow from the surfaces:\n%s", diff)
		}
	}
	if opened == 0 {
		t.Error("no day was opened")
	}
}

// TestStartFails holds that a demo that cannot start says so in a sentence and
// leaves nothing behind.
func TestStartFails(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		args []string
		url  string
		code int
		says string
	}{
		{"database out of reach", t.Context(), nil, "postgres://127.0.0.1:1/nobody", 1, "database"},
		{"no database URL at all", t.Context(), nil, "bogus", 1, "database"},
		{"bad listen address", t.Context(), []string{"--listen", "127.0.0.1:99999"}, "bogus", 1, "--listen"},
		{"bad seed", t.Context(), []string{"--seed", "tomorrow"}, "", 2, "--seed"},
		{"told to stop at once", cancelled, nil, "", 130, "interrupted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"--once", "--json", "--listen", "127.0.0.1:0"}, tt.args...)
			if code := run(tt.ctx, args, environ(tt.url), &stdout, &stderr); code != tt.code {
				t.Errorf("run = %d, want %d; it said %s", code, tt.code, &stderr)
			}
			if !strings.Contains(stderr.String(), tt.says) || stdout.Len() > 0 {
				t.Errorf("standard error %q, want %q in it; standard output %q, want none", &stderr, tt.says, &stdout)
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestNeverTwice kills the worker between shop.sent and the answer: the next one
// declares the task lost and does not send it again.
func TestNeverTwice(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, _ := open(t, "11")
	field := &dying{next: s.prog.Worker.Field}
	s.prog.Worker.Field = field

	// Until a task is on its way; then everything the worker tries fails.
	ctx, kill := context.WithCancel(t.Context())
	field.kill = kill
	if err := s.pass(ctx, s.start.AddDate(0, 0, 5)); err == nil {
		t.Fatal("no task was sent in five days")
	}
	lost := lastSent(t, s)
	s.prog.Worker.Field = field.next
	s.days(t, 6)

	var kinds []domain.Type
	for r, e := range s.eventsOf(t, lost) {
		kinds = append(kinds, r.Type)
		if j, ok := e.(shop.Judged); ok && (j.Outcome != task.Blocked || j.Rule != "worker_lost") {
			t.Errorf("judged %s (%s), want blocked (worker_lost)", j.Outcome, j.Rule)
		}
	}
	want := []domain.Type{"shop.committed.v1", "shop.sent.v1", "shop.judged.v1", "shop.revealed.v1"}
	if !slices.Equal(kinds, want) {
		t.Errorf("%s = %v, want %v", lost, kinds, want)
	}
}

// lastSent returns the stream of the task that was sent last.
func lastSent(t *testing.T, s *stage) (stream ledger.Stream) {
	t.Helper()
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (shop.Sent{}).EventType() {
			stream = r.Stream
		}
	}
	return stream
}

// dying is a field in which the worker dies as soon as its first task may leave.
type dying struct {
	next interface {
		Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error)
		Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error)
	}
	kill func()
}

func (d *dying) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	return d.next.Observe(ctx, kind, url, s)
}

func (d *dying) Ask(ctx context.Context, _ task.Kind, c agents.Call) (agents.Reply, error) {
	release, err := c.Gate(ctx)
	if err != nil {
		return agents.Reply{}, err
	}
	release()
	d.kill()
	return agents.Reply{}, context.Canceled
}
