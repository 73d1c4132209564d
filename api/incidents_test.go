package api_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/domain/terms"
)

// A person is a maintainer with a key.
type person struct {
	name string
	key  ed25519.PrivateKey
}

var (
	ann     = person{"Ann Example", ed25519.NewKeyFromSeed([]byte("a maintainer's key, for tests ..."[:32]))}
	bob     = person{"Bob Example", ed25519.NewKeyFromSeed([]byte("another one's key, for tests ..."[:32]))}
	mallory = person{"Mallory", ed25519.NewKeyFromSeed([]byte("a stranger's key, for tests ...."[:32]))}
)

// maintained registers Ann and Bob.
func (w *world) maintained() *world {
	w.t.Helper()
	for _, p := range []person{ann, bob} {
		c := programme.RegisterMaintainer{Name: p.name, Key: domain.Hash(p.key.Public().(ed25519.PublicKey))}
		w.ok(w.service.Programme(w.t.Context(), w.meta(p.name), c))
	}
	w.ok(w.runner.CatchUp(w.t.Context()))
	return w
}

// confirmedFinding puts a finding on a consent that is exam_only behind the gate.
func (w *world) confirmedFinding(consentID string, ref agent.Ref, look int) string {
	w.t.Helper()
	var e finding.Reached // as the example has it: 40 of 40, and 18 of 40
	data, err := os.ReadFile("../domain/finding/testdata/finding.reached.v1.json")
	w.ok(err)
	w.ok(json.Unmarshal(data, &e))
	e.Consent, e.Agent, e.Demo, e.Day, e.Look, e.Note = consentID, ref, ref == house, uint32(20000+look), look, "A gap."
	w.ok(w.service.Finding(w.t.Context(), w.meta(fmt.Sprint("found ", look)), consentID, finding.Reach(e)))
	w.ok(w.runner.CatchUp(w.t.Context()))
	return finding.ID(consentID, look)
}

// step is the body of a step that people signed.
func step(id string, version int, do incident.Verb, text string, by ...person) map[string]any {
	a := incident.Act{Incident: id, Version: uint64(version), Do: do, Text: text}
	var approvals []maintainer.Approval
	for _, p := range by {
		approvals = append(approvals, maintainer.Approve(p.name, p.key, a.Action()))
	}
	return map[string]any{"version": version, "do": do, "text": text, "by": approvals}
}

// act asks for a step and wants a status.
func (w *world) act(id string, status int, body map[string]any) {
	w.t.Helper()
	if a := w.do(http.MethodPost, root+"/incidents/"+id+"/actions", encode(body)); a.status != status {
		w.t.Errorf("%v on %s: %d, want %d: %s", body["do"], id, a.status, status, a.body)
	}
}

// grave configures incidents to be high.
func (w *world) grave() {
	w.t.Helper()
	w.ok(w.service.Programme(w.t.Context(), w.meta("grave"), programme.Publish{
		Terms:     programme.TermsPublished{Version: terms.Current().Number, Hash: terms.Current().Hash()},
		Pool:      programme.PoolPublished{Version: identity.Version(), Hash: identity.Hash()},
		Catalogue: programme.CataloguePublished{Digest: domain.Sum([]byte("catalogue"))},
		Keys:      w.service.Secrets.Keys(), IncidentSeverity: programme.HighSeverity,
	}))
}

// An ask is something that can be got.
type ask struct{ path, accept string }

// asks returns everything that is served in public: each route there is, with ids of what
// there is on a consent, every page, feed and picture, each list in each of its formats,
// and all that can be asked about an incident without knowing of it.
func (l *publicLog) asks(consentID string) (list []ask) {
	l.t.Helper()
	inc, fnd, ref := incident.ID(consentID), finding.ID(consentID, 1), string(honest)
	var paths []string
	routes, _ := l.handler.(chi.Routes)
	l.ok(chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodGet || strings.HasPrefix(route, "/assets/") { // those are built with the program
			return nil
		}
		id := consentID
		switch {
		case strings.Contains(route, "/findings/"):
			id = fnd
		case strings.Contains(route, "/incidents/"):
			id = inc
		case strings.Contains(route, "/shops/"):
			id = plan.ShopID(consentID, 20513, 0)
		case strings.HasPrefix(route, "/v1/ledger/streams/"):
			id = inc
		}
		path := strings.NewReplacer("{id}", id, "{ref}", ref, "{index}", "0", "{n}", "1", "{day}", "20513", "{category}", "incident",
			"{hash}", strings.Repeat("0", 64), "{consent}", consentID, "{shop}", id, "{incident}", inc, "{agent}", "42", "{operation}", "get-incident", "*", "0/000.p/8").Replace(route)
		if strings.ContainsAny(path, "{*") {
			return fmt.Errorf("the crawl does not know what to ask for at %s", route)
		}
		paths = append(paths, path)
		if strings.HasPrefix(route, "/v1/ledger/streams/") {
			paths = append(paths, strings.NewReplacer("{category}", "finding", "{id}", consentID).Replace(route))
		}
		return nil
	}))
	paths = append(paths,
		"/metrics", "/ledger/tile/entries/000.p/8", "/v1/ledger/records?limit=1000", "/v1/ledger/proofs/inclusion?index=0", "/v1/ledger/proofs/consistency?from=1",
		"/v1/ledger/bundle?consent="+consentID, root+"/findings?agent="+ref, root+"/findings?verdict=exam_only", root+"/incidents?agent="+ref, root+"/incidents?consent="+consentID,
		"/mystery?verdict=exam_only", "/mystery/"+consentID+"?look=1", "/mystery/findings.atom?agent="+ref, "/mystery/findings.atom?consent="+consentID,
		"/mystery/reveals.atom?consent="+consentID, "/search?q="+consentID, "/search?q="+inc, "/search?q="+fnd, "/search?q="+ref,
	)
	lists := 0
	for _, path := range paths {
		for _, accept := range []string{"application/json", "text/html", "text/plain"} {
			list = append(list, ask{path, accept})
		}
		bare, query, _ := strings.Cut(path, "?")
		if op, ok := published().find(bare, "get"); !ok || !strings.HasPrefix(op.ID, "list-") || strings.Contains(query, "limit") {
			continue
		}
		lists++
		if query != "" {
			query += "&"
		}
		list = append(list, ask{bare + "?" + query + "format=csv", ""}, ask{bare + "?" + query + "format=ndjson", ""},
			ask{path, "text/csv"}, ask{path, "application/x-ndjson"})
	}
	if lists < 10 {
		l.t.Errorf("the crawl found %d lists, and there are 10 at least", lists)
	}
	return list
}

// crawl gets everything that is served in public.
func (l *publicLog) crawl(consentID string) map[ask]string {
	l.t.Helper()
	got := make(map[ask]string)
	for _, ask := range l.asks(consentID) {
		a := l.do(http.MethodGet, ask.path, "", "Accept", ask.accept)
		body := a.body
		if id := a.header.Get("X-Request-Id"); id != "" {
			body = strings.ReplaceAll(body, id, "") // pages that refuse name it
		}
		a.header.Del("X-Request-Id")
		got[ask] = fmt.Sprint(a.status, " ", a.header, " ", body)
	}
	return got
}

// traces returns where a crawl has seen something of an incident. That a path is repeated
// in the refusal of it is none.
func traces(crawled map[ask]string, inc string) (where []string) {
	for ask, got := range crawled {
		if strings.HasPrefix(ask.path, root+"/openapi") || strings.HasPrefix(ask.path, "/docs/api") {
			continue // the document has examples
		}
		if strings.Contains(ask.path, inc) {
			got = strings.ReplaceAll(got, inc, "")
		}
		for _, trace := range []string{inc, `"inc_`, "over_claim", "CVSS:4.0", "incident.opened", "mystery.exam_only", "seen again"} {
			if strings.Contains(got, trace) {
				where = append(where, fmt.Sprintf("%s (%s): %s", ask.path, ask.accept, trace))
			}
		}
	}
	slices.Sort(where)
	return where
}

// An incident about somebody else's agent leaves no trace anywhere in public until it
// is disclosed, whatever is done with it.
func TestPrivateIncidentLeavesNoTrace(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().maintained().publicLog()
	id := l.grant(honest)
	l.confirmedFinding(id, honest, 1)
	l.publish()
	before := l.crawl(id)

	inc := incident.ID(id)
	l.ok(l.service.OpenIncident(t.Context(), id, 1))
	l.act(inc, http.StatusOK, step(inc, 1, incident.Confirm, "seen again by hand", ann))
	l.act(inc, http.StatusConflict, step(inc, 2, incident.Disclose, "too early", ann))
	l.ok(l.runner.CatchUp(t.Context()))
	l.ok(l.integrator.Integrate(t.Context()))
	l.ok(l.publisher.Publish(t.Context()))
	after := l.crawl(id)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what is public changed with a private incident (-before +after):\n%s", diff)
	}
	if shown := traces(after, inc); len(shown) > 0 {
		t.Errorf("a private incident shows at %v", shown)
	}
	if t.Failed() {
		return
	}
	// A stranger is told the same of one that exists and of one that does not.
	other := "inc_aaaaaaaaaaaaaaaaaaaa"
	said := func(id string) string {
		a := l.do(http.MethodPost, root+"/incidents/"+id+"/actions", encode(step(id, 2, incident.Confirm, "let me in", mallory)))
		return fmt.Sprint(a.status, strings.ReplaceAll(a.body, id, ""))
	}
	if here, nowhere := said(inc), said(other); here != nowhere || !strings.HasPrefix(here, "403") {
		t.Errorf("a stranger is told %s of an incident that there is, and %s of one that there is not", here, nowhere)
	}
	l.act(other, http.StatusNotFound, step(other, 2, incident.Confirm, "which one?", ann))

	// The crawl would have seen it: once it is disclosed, it does.
	l.pass(7 * 24 * time.Hour)
	l.act(inc, http.StatusOK, step(inc, 2, incident.Disclose, "a week is over", ann))
	l.publish()
	shown := strings.Join(traces(l.crawl(id), inc), "\n")
	for _, path := range []string{
		root + "/incidents (application/json)", root + "/incidents?format=csv ()", root + "/incidents (application/x-ndjson)", root + "/agents/" + string(honest) + " (",
		"/v1/ledger/records (text/csv)", "/v1/ledger/streams/incident/" + inc + " (", "/mystery/" + id + " (text/html)", "/agents/42 (text/html)", "/incidents/" + inc + " (text/html)",
	} {
		if !strings.Contains(shown, path) {
			t.Errorf("the crawl does not see a public incident at %s", path)
		}
	}
}

// The whole life of an incident: the owner replies and is shown, the disclosure waits
// for that or for a week, and a recall takes two.
func TestIncident(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().maintained()
	w.grave()
	id := w.grant(honest)
	first := w.confirmedFinding(id, honest, 1)
	inc := incident.ID(id)
	for range 2 { // a worker that does not know what became of it does it again
		w.ok(w.service.OpenIncident(t.Context(), id, 1))
	}

	confirm := step(inc, 1, incident.Confirm, "seen again by hand", ann)
	w.act(inc, http.StatusUnprocessableEntity, step(inc, 1, incident.Confirm, "two\nlines", ann))
	w.act(inc, http.StatusForbidden, step(inc, 1, incident.Confirm, "seen again by hand", mallory))
	w.act(inc, http.StatusOK, confirm)
	w.act(inc, http.StatusConflict, confirm) // a signature is good for one step
	w.act(inc, http.StatusConflict, step(inc, 2, incident.Recall, "misleads", ann, bob))
	w.act(inc, http.StatusConflict, step(inc, 2, incident.Disclose, "at once", ann))

	text := "<b>An outage</b> of our upstream.\n\u202eSee the status page."
	w.reply(first, text, http.StatusCreated)
	w.reply(first, "and another thing", http.StatusConflict)
	w.act(inc, http.StatusOK, step(inc, 3, incident.Disclose, "the owner was heard", bob))
	w.act(inc, http.StatusForbidden, step(inc, 4, incident.Recall, "misleads", ann))
	w.act(inc, http.StatusForbidden, step(inc, 4, incident.Recall, "misleads", ann, mallory))
	w.act(inc, http.StatusOK, step(inc, 4, incident.Recall, "misleads", ann, bob))
	w.act(inc, http.StatusOK, step(inc, 5, incident.Correct, "two of the tasks were ours", bob))
	w.act(inc, http.StatusOK, step(inc, 6, incident.Close, "certified anew", bob))

	got := w.get(root + "/incidents/" + inc)
	if got["state"] != "closed" || got["recalled"] == nil || got["text"] != "the owner was heard" {
		t.Errorf("the incident is %v", got)
	}
	if sev, _ := got["severity"].(map[string]any); sev["score"] != "7.0" || sev["rating"] != "high" {
		t.Errorf("its severity is %v, want 7.0 high", got["severity"])
	}
	if list := w.get(root + "/incidents?agent=" + string(honest)); len(items(list)) != 1 {
		t.Errorf("the list of incidents is %v", list)
	}
	f := w.get(root + "/findings/" + first)
	reply, _ := f["reply"].(map[string]any)
	salt, _ := reply["salt"].(string)
	parsed, err := domain.ParseHash(salt)
	w.ok(err)
	if reply["text"] != text || reply["commitment"] != finding.Commitment(first, parsed, text).String() {
		t.Errorf("the reply is %v", reply)
	}
	w.replays()
}

func items(list map[string]any) []any { items, _ := list["items"].([]any); return items }

// replays reads the ledger again from its first record.
func (w *world) replays() {
	w.t.Helper()
	again := replay.New(commands.Catalog())
	for r, err := range w.log.After(w.t.Context(), 0) {
		w.ok(err)
		w.ok(again.Add(r))
	}
	w.ok(again.End())
}

// reply files a reply in both steps and wants a status of the second.
func (w *world) reply(findingID, text string, status int) {
	w.t.Helper()
	c := w.post(root+"/findings/"+findingID+"/reply-challenge", http.StatusOK, encode(map[string]any{"text": text}))
	message, _ := c["message"].(string)
	w.post(root+"/findings/"+findingID+"/reply", status, encode(map[string]any{
		"challengeId": c["challengeId"], "text": text, "salt": c["salt"], "signature": eip191.Sign(message, key).String(),
	}))
}

// A week without a reply is enough, and what was rejected is never heard of.
func TestIncidentWithoutReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().maintained()
	id := w.grant(honest)
	w.confirmedFinding(id, honest, 1)
	inc := incident.ID(id)
	w.ok(w.service.OpenIncident(t.Context(), id, 1))
	w.act(inc, http.StatusOK, step(inc, 1, incident.Confirm, "seen again", ann))
	w.pass(7*24*time.Hour - time.Minute)
	w.act(inc, http.StatusConflict, step(inc, 2, incident.Disclose, "a week is over", ann))
	w.pass(time.Minute)
	w.act(inc, http.StatusOK, step(inc, 2, incident.Disclose, "a week is over", ann))
	w.act(inc, http.StatusConflict, step(inc, 3, incident.Recall, "misleads", ann, bob)) // it is medium
	if got := w.get(root + "/incidents/" + inc); got["state"] != "disclosed" {
		t.Errorf("the incident is %v", got)
	}
	w.replays()
}

func TestRejectedIncidentIsNeverHeardOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().maintained()
	id := w.grant(honest)
	w.confirmedFinding(id, honest, 1)
	inc := incident.ID(id)
	w.ok(w.service.OpenIncident(t.Context(), id, 1))
	w.act(inc, http.StatusOK, step(inc, 1, incident.Reject, "our template was wrong", ann))
	w.act(inc, http.StatusOK, step(inc, 2, incident.Close, "nothing in it", ann))
	if a := w.do(http.MethodGet, root+"/incidents/"+inc, ""); a.status != http.StatusNotFound {
		t.Errorf("GET of a rejected incident: %d %s", a.status, a.body)
	}
	w.replays()
}

// Karatum's own agents are triaged and disclosed at once.
func TestIncidentOfHouseAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	w.hosts["https://agent.example/a2a"] = true
	id := w.grant(house)
	w.confirmedFinding(id, house, 1)
	w.ok(w.service.OpenIncident(t.Context(), id, 1))
	w.ok(w.runner.CatchUp(t.Context()))
	got := w.get(root + "/incidents/" + incident.ID(id))
	if sev, _ := got["severity"].(map[string]any); got["demo"] != true || got["state"] != "disclosed" || sev["score"] != "5.0" {
		t.Errorf("the incident is %v", got)
	}
	w.replays()
}

// A reply is the owner's alone, of 4 KiB, and good for one finding; what is refused
// leaves nothing.
func TestReplyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	f := w.confirmedFinding(id, honest, 1)
	second := w.confirmedFinding(id, honest, 2)
	path := root + "/findings/" + f
	n := w.records()
	for name, text := range map[string]string{"empty": "", "blank": " ", "too long": strings.Repeat("ä", 2049), "control": "a\u0007b", "NUL": "a\u0000b"} {
		if a := w.do(http.MethodPost, path+"/reply-challenge", encode(map[string]any{"text": text})); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.post(root+"/findings/"+finding.ID(id, 3)+"/reply-challenge", http.StatusNotFound, `{"text":"which?"}`)
	c := w.post(path+"/reply-challenge", http.StatusOK, `{"text":"a reply"}`)
	message, _ := c["message"].(string)
	good := func() map[string]any {
		return map[string]any{"challengeId": c["challengeId"], "text": "a reply", "salt": c["salt"], "signature": eip191.Sign(message, key).String()}
	}
	for name, bad := range map[string]struct {
		path   string
		change []any
		status int
	}{
		"another text":    {path, []any{"text", "another reply"}, http.StatusUnprocessableEntity},
		"another salt":    {path, []any{"salt", strings.Repeat("1", 64)}, http.StatusUnprocessableEntity},
		"another finding": {root + "/findings/" + second, nil, http.StatusUnprocessableEntity},
		"another signer":  {path, []any{"signature", eip191.Sign("another text", key).String()}, http.StatusForbidden},
		"no signature":    {path, []any{"signature", "0x"}, http.StatusUnprocessableEntity},
		"no challenge":    {path, []any{"challengeId", "chl_x"}, http.StatusUnprocessableEntity},
	} {
		if a := w.do(http.MethodPost, bad.path+"/reply", encode(with(good(), bad.change...))); a.status != bad.status {
			t.Errorf("%s: %d, want %d: %s", name, a.status, bad.status, a.body)
		}
	}
	if got := w.records(); got != n || len(w.bodies) != 0 {
		t.Errorf("%d records and %d texts, want %d and none", got, len(w.bodies), n)
	}
	w.pass(16 * time.Minute)
	w.post(path+"/reply", http.StatusForbidden, encode(good())) // expired
}

// Who is retired signs nothing any more, and what was signed before stands.
func TestRetiredMaintainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().maintained()
	id := w.grant(honest)
	w.confirmedFinding(id, honest, 1)
	inc := incident.ID(id)
	w.ok(w.service.OpenIncident(t.Context(), id, 1))
	w.act(inc, http.StatusOK, step(inc, 1, incident.Confirm, "seen again by hand", ann))
	w.ok(w.service.Programme(t.Context(), w.meta("retire"), programme.RetireMaintainer{Name: ann.name, Reason: "left"}))
	w.pass(7 * 24 * time.Hour)
	n := w.records()
	w.act(inc, http.StatusForbidden, step(inc, 2, incident.Disclose, "a week is over", ann))
	if got := w.records(); got != n {
		t.Errorf("%d records were appended", got-n)
	}
	w.act(inc, http.StatusOK, step(inc, 2, incident.Disclose, "a week is over", bob))
	w.replays()
}

// The text of a reply can be erased; that there was one, and what its owner signed, stays.
func TestOwnersReplyIsErased(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	f := w.confirmedFinding(id, honest, 1)
	const text = "Call me at home, 555 0100."
	c := w.post(root+"/findings/"+f+"/reply-challenge", http.StatusOK, encode(map[string]any{"text": text}))
	message, _ := c["message"].(string)
	reply := encode(map[string]any{"challengeId": c["challengeId"], "text": text, "salt": c["salt"], "signature": eip191.Sign(message, key).String()})
	w.post(root+"/findings/"+f+"/reply", http.StatusCreated, reply)
	shown := func() map[string]any {
		t.Helper()
		r, _ := w.get(root + "/findings/" + f)["reply"].(map[string]any)
		return r
	}
	before := shown()
	w.ok(w.service.EraseReply(t.Context(), w.meta("erase"), f, "the owner asked for it", w.bodies))
	w.ok(w.runner.CatchUp(t.Context()))
	after := shown()
	erased, _ := after["erased"].(map[string]any)
	if after["text"] != nil || after["salt"] != nil || erased["reason"] != "the owner asked for it" {
		t.Errorf("the reply is %v", after)
	}
	for _, name := range []string{"commitment", "signature", "message", "at"} {
		if after[name] != before[name] {
			t.Errorf("%s is %v, and was %v", name, after[name], before[name])
		}
	}
	if page := w.do(http.MethodGet, "/mystery/"+id, "").body; strings.Contains(page, "555") || !strings.Contains(page, "The text was erased on") {
		t.Errorf("the page of the consent is %s", page)
	}
	// Whoever does not know what became of the reply sends it again, and brings nothing back.
	w.post(root+"/findings/"+f+"/reply", http.StatusCreated, reply)
	if len(w.bodies) != 0 {
		t.Errorf("there is still %v", w.bodies)
	}
	w.replays()
}

// A correction stands where the finding does.
func TestCorrection(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().maintained()
	id := w.grant(honest)
	f := w.confirmedFinding(id, honest, 1)
	correct := func(version int, text string, by person) map[string]any {
		c := finding.Correct{Consent: id, Look: 1, Version: version, Text: text}
		return map[string]any{"version": version, "text": text, "by": []maintainer.Approval{maintainer.Approve(by.name, by.key, c.Action())}}
	}
	path := root + "/findings/" + f + "/corrections"
	w.post(path, http.StatusForbidden, encode(correct(0, "it is all wrong", mallory)))
	w.post(path, http.StatusCreated, encode(correct(0, "two tasks were ours", ann)))
	w.post(path, http.StatusConflict, encode(correct(0, "two tasks were ours", ann)))
	w.post(path, http.StatusCreated, encode(correct(1, "three, in fact", bob)))
	for _, where := range []string{"/findings/" + f, "/consents/" + id, "/agents/" + string(honest)} {
		got := w.get(root + where)
		if inner, ok := got["finding"].(map[string]any); ok {
			got = inner
		}
		if list, _ := got["corrections"].([]any); len(list) != 2 {
			t.Errorf("%s has the corrections %v, want two", where, got["corrections"])
		}
	}
	w.replays()
}

// A passport has a line for each thing that is known, with the records that it rests on,
// and says of all others that there is no data.
func TestPassport(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().maintained().publicLog()
	l.grave()
	line := func(name string) map[string]any {
		t.Helper()
		p, _ := l.get(root + "/agents/" + string(honest))["passport"].(map[string]any)
		line, _ := p[name].(map[string]any)
		return line
	}
	for _, name := range []string{"shield", "sessions", "incidents"} {
		if got := line(name); got["text"] != "no data" {
			t.Errorf("the line %s of an agent of which nothing is known is %v", name, got)
		}
	}
	if got := fmt.Sprint(line("mystery")["text"]); !strings.Contains(got, "never agreed") {
		t.Errorf("the line of an agent that never agreed is %q", got)
	}

	id := l.grant(honest)
	l.confirmedFinding(id, honest, 1)
	inc := incident.ID(id)
	l.ok(l.service.OpenIncident(t.Context(), id, 1))
	l.act(inc, http.StatusOK, step(inc, 1, incident.Confirm, "seen again", ann))
	l.pass(7 * 24 * time.Hour)
	l.act(inc, http.StatusOK, step(inc, 2, incident.Disclose, "a week is over", ann))
	l.act(inc, http.StatusOK, step(inc, 3, incident.Recall, "misleads", ann, bob))
	l.publish()
	for name, text := range map[string]string{
		"certificate": "RECALLED", "mystery": "A gap.", "shield": "no data", "sessions": "no data", "incidents": "7.0 high",
	} {
		got := line(name)
		if !strings.Contains(fmt.Sprint(got["text"]), text) || (got["recalled"] == true) != (name == "certificate") {
			t.Errorf("the line %s is %v, want %q in it", name, got, text)
		}
		proofs, _ := got["evidence"].([]any)
		if (len(proofs) == 0) != (text == "no data") {
			t.Errorf("the line %s has the evidence %v", name, proofs)
		}
		for _, p := range proofs {
			e, _ := p.(map[string]any)
			for _, link := range []string{"recordUrl", "proofUrl"} {
				to := fmt.Sprint(e[link])
				if got := l.get(strings.TrimPrefix(to, "https://karatum.com")); got["hash"] != e["hash"] {
					t.Errorf("%s of %v leads to %v", link, e, got)
				}
			}
		}
	}

	stats := l.get(root + "/stats")
	all, _ := stats["all"].(map[string]any)
	if fmt.Sprint(all["incidents"]) != "map[high:1]" || all["lostShare"] != "no data" || stats["asOf"] == 0.0 {
		t.Errorf("stats are %v", stats)
	}
}
