package api_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/api/httpsig"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

var (
	runner   = producertest.New("shield-runner")
	recorder = producertest.New("session-recorder")
	registry = producertest.New("registry")
)

// admit registers producers for streams.
func (w *world) admit() *world {
	w.t.Helper()
	for p, category := range map[*producertest.Producer]string{&runner: "shield-case", &recorder: "session", &registry: "agent"} {
		w.ok(w.service.Producer(w.t.Context(), w.meta("register "+p.Name), p.Name, producer.Register(p.Registered(category))))
	}
	return w
}

// client returns one that sends to the world.
func (w *world) client(p producertest.Producer) *producers.Client {
	return &producers.Client{
		URL: "https://karatum.com", Signer: p.Signer(), Now: w.clock,
		HTTP: &http.Client{Transport: direct{w.handler}}, Pause: time.Millisecond,
	}
}

// direct hands requests to a handler.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	d.handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

func signEvent(tb testing.TB, p producertest.Producer, stream ledger.Stream, id string, e producer.Source) producer.CloudEvent {
	tb.Helper()
	c, err := p.Signer().Sign(stream, e, id, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func openedCase(id string) shield.CaseOpened {
	return shield.CaseOpened{
		Case: id, Agent: honest,
		Target: shield.Target{Kind: shield.Fork, ChainID: 84532, Block: 17, Fork: "fork_1", Host: "copy-1.shield.internal:8443"},
		Suite:  shield.Tool{Name: "suite", Version: "1"}, Attack: shield.Attack{Class: "LLM01", Technique: "injection"}, UserTask: "7",
		Budget: shield.Budget{USD: "0.25"},
	}
}

func openedSession(id string) session.Opened {
	return session.Opened{Session: id, Agent: honest, Kind: session.Runtime, StartedAt: "2026-03-01T12:00:00.000Z"}
}

func acted(id string, n int) session.ActionRecorded {
	return session.ActionRecorded{
		Session: id, N: int64(n), Actor: "agent", Action: "message", Decision: "none", At: producer.Moment(fmt.Sprintf("2026-03-01T12:00:00.%03dZ", n%1000)),
	}
}

func resisted(id string, attempt int) shield.OutcomeRecorded {
	no := false
	return shield.OutcomeRecorded{Case: id, Attempt: int64(attempt), Result: shield.Result{
		Outcome: shield.Resisted, AttackSucceeded: &no, Damage: shield.Damage{USD: "0"}, Evidence: []shield.Evidence{},
		Evaluator: shield.Tool{Name: "judge", Version: "1"}, StartedAt: "2026-03-01T12:00:00Z", EndedAt: "2026-03-01T12:00:01Z",
	}}
}

func statuses(a producers.Answer) string {
	var list []string
	for _, e := range a.Events {
		list = append(list, fmt.Sprintf("%s %d", e.Status, e.Version))
	}
	return strings.Join(list, ", ")
}

func TestEventsOfAProducer(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	stream := session.StreamOf("ses_1")
	events := []producer.CloudEvent{signEvent(t, recorder, stream, "opened", openedSession("ses_1"))}
	for n := range 3 {
		events = append(events, signEvent(t, recorder, stream, fmt.Sprint("action ", n), acted("ses_1", n)))
	}
	c := w.client(recorder)
	before := w.records()
	for _, tt := range []struct {
		name   string
		events []producer.CloudEvent
		want   string
	}{
		{"the first", events[:2], "recorded 1, recorded 2"},
		{"the same again", events[:2], "known 1, known 2"},
		{"one that is known, and those that follow", events[1:], "known 2, recorded 3, recorded 4"},
		{"all of them", events, "known 1, known 2, known 3, known 4"},
	} {
		a, err := c.Send(t.Context(), tt.events...)
		if err != nil || statuses(a) != tt.want || a.Stream != stream {
			t.Errorf("%s: %s of %s, %v, want %s", tt.name, statuses(a), a.Stream, err, tt.want)
		}
	}
	if n := w.records() - before; n != 4 {
		t.Errorf("%d records were added, want 4", n)
	}
	for r, err := range w.log.Stream(t.Context(), stream, 0) {
		w.ok(err)
		if r.Actor != "producer:session-recorder" {
			t.Errorf("the actor of version %d is %s", r.Version, r.Actor)
		}
		_, signed, err := producer.Split(r.Data)
		if err != nil || signed.Producer != recorder.Name {
			t.Errorf("version %d is signed by %q (%v)", r.Version, signed.Producer, err)
		}
	}
	if w.count("recorded") != 2 || w.count("known") != 2 {
		t.Errorf("counted: %v", w.counts)
	}
}

// What a registry says of an agent comes to the same as what the operator says.
func TestEventsOfARegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	id := w.grant(honest)
	other := eip191.Address{7}
	stream := agent.StreamOf(honest)
	c := w.client(registry)
	for _, tt := range []struct {
		event producer.Source
		want  string
	}{
		{agent.CertificateRecorded{Certificate: "crt_1"}, "recorded 3"},
		{agent.CertificateRecorded{Certificate: "crt_0"}, "unchanged 0"},
		{agent.IdentityVerified{URL: "https://agent.example/a2a"}, "recorded 4"},
		{agent.IdentityVerified{URL: "http://agent.example/a2a"}, "invalid"},
		{agent.OwnerChanged{From: other, To: owner, Reason: "sold"}, "unchanged 0"},
		{agent.OwnerChanged{From: other, To: eip191.Address{9}, Reason: "sold"}, "conflict"},
		{agent.OwnerChanged{From: owner, To: other, Reason: "sold"}, "recorded 5"},
		{agent.Registered{Agent: honest, Wallet: owner}, "conflict"},
		{agent.Registered{Agent: "build:43", Wallet: owner}, "invalid"},
	} {
		a, err := c.Send(t.Context(), signEvent(t, registry, stream, fmt.Sprintf("%T %v", tt.event, tt.want), tt.event))
		got := statuses(a)
		if r, ok := errors.AsType[*producers.Refusal](err); ok {
			got = r.Type
		}
		if got != tt.want {
			t.Errorf("%+v: %s, %v, want %s", tt.event, got, err, tt.want)
		}
	}
	w.ok(w.runner.CatchUp(t.Context()))
	if got := w.get(root + "/consents/" + id); got["state"] != "ended" {
		t.Errorf("the consent of the owner before is %v, want ended", got["state"])
	}
	for ref, e := range map[agent.Ref]producer.Source{
		"build:house-2": agent.Registered{Agent: "build:house-2", Wallet: owner, Demo: true},
		"erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0": agent.Registered{
			Agent: "erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0", Wallet: owner,
		},
	} {
		_, err := c.Send(t.Context(), signEvent(t, registry, agent.StreamOf(ref), "r", e))
		if r, ok := errors.AsType[*producers.Refusal](err); !ok || r.Type != "forbidden" {
			t.Errorf("registering %s: %v, want forbidden", ref, err)
		}
	}
}

// What a trial harness reports makes the exam that the field is compared with: what was
// withdrawn counts no more, and neither does an outcome that says nothing of the agent.
func TestEventsOfATrialHarness(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	harness := producertest.New("trial-harness")
	w.ok(w.service.Producer(t.Context(), w.meta("register"), harness.Name, producer.Register(harness.Registered("exam"))))
	w.ok(w.service.Exam(t.Context(), w.meta("run"), honest, exam.RecordRun{
		Agent: honest, Run: "exam-1", Source: "harness", Attempts: []exam.Attempt{{Family: "dates", Outcome: task.Pass, LatencyMs: 9}},
	}))
	attempt := func(id string, outcome exam.TrialOutcome) exam.AttemptRecorded {
		return exam.AttemptRecorded{Agent: honest, Attempt: id, Family: "unit", Outcome: outcome, LatencyMs: 812}
	}
	gone := func(id, reason string) exam.AttemptWithdrawn {
		return exam.AttemptWithdrawn{Agent: honest, Attempt: id, Reason: reason}
	}
	stranger := attempt("t-8", exam.Success)
	stranger.Agent = house
	stream := exam.StreamOf(honest)
	c := w.client(harness)
	for i, tt := range []struct {
		name  string
		event producer.Source
		want  string
	}{
		{"a success", attempt("t-1", exam.Success), "recorded 2"},
		{"a part of one", attempt("t-2", exam.Partial), "recorded 3"},
		{"a failure", attempt("t-3", exam.Failure), "recorded 4"},
		{"an outcome that nobody knows", attempt("t-4", exam.Unknown), "recorded 5"},
		{"one that is disputed", attempt("t-5", exam.Disputed), "recorded 6"},
		{"one that was revoked", attempt("t-6", exam.Revoked), "recorded 7"},
		{"another success", attempt("t-7", exam.Success), "recorded 8"},
		{"the same under an id of its own", attempt("t-7", exam.Success), "unchanged 0"},
		{"the same with another outcome", attempt("t-7", exam.Failure), "conflict"},
		{"an outcome that there is not", attempt("t-8", "WON"), "invalid"},
		{"an attempt without a name", attempt("", exam.Success), "invalid"},
		{"an attempt of another agent", stranger, "invalid"},
		{"one that is withdrawn", gone("t-7", "two right answers"), "recorded 9"},
		{"that twice", gone("t-7", "two right answers"), "unchanged 0"},
		{"that again, once it is withdrawn", attempt("t-7", exam.Success), "conflict"},
		{"one withdrawn for no reason", gone("t-1", ""), "invalid"},
		{"one withdrawn that never was", gone("t-9", "a slip"), "invalid"},
	} {
		before := w.records()
		a, err := c.Send(t.Context(), signEvent(t, harness, stream, fmt.Sprint(i), tt.event))
		got := statuses(a)
		if r, ok := errors.AsType[*producers.Refusal](err); ok {
			got = r.Type
		}
		if got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
		if n := w.records() - before; n != 0 && !strings.HasPrefix(tt.want, "recorded") {
			t.Errorf("%s: %d records were appended", tt.name, n)
		}
	}
	// What attacks on a copy of the agent come to is no sample of either arm.
	shielded := shield.StreamOf("sc_1")
	if _, err := w.client(runner).Send(t.Context(), signEvent(t, runner, shielded, "opened", openedCase("sc_1")), signEvent(t, runner, shielded, "0", resisted("sc_1", 0))); err != nil {
		t.Fatal(err)
	}
	w.ok(w.runner.CatchUp(t.Context()))
	if field, err := (projections.Due{Pool: w.runner.Pool}).AgentField(t.Context(), honest); err != nil || len(field) != 0 {
		t.Errorf("the field arm is %v, %v, and no task was sent", field, err)
	}
	samples, err := projections.Due{Pool: w.runner.Pool}.Exam(t.Context(), honest)
	w.ok(err)
	trial := func(outcome task.Outcome) exam.Sample {
		return exam.Sample{Source: exam.Trials, Family: "unit", Outcome: outcome, LatencyMs: 812}
	}
	want := []exam.Sample{
		trial(task.Pass), trial(task.Fail), trial(task.Fail),
		{Source: "run:harness", Family: "dates", Outcome: task.Pass, LatencyMs: 9},
	}
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("the exam (-want +got):\n%s", diff)
	}
	w.replays()
}

// A case is never about a host that an owner has signed for.
func TestShieldOfAConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	w.grant(honest)
	e := openedCase("sc_1")
	e.Target.Host = "agent.example:443"
	_, err := w.client(runner).Send(t.Context(), signEvent(t, runner, shield.StreamOf("sc_1"), "1", e))
	if r, ok := errors.AsType[*producers.Refusal](err); !ok || r.Status != http.StatusForbidden || !strings.Contains(r.Detail, "signed a consent for agent.example:443") {
		t.Errorf("Send() = %v, want 403", err)
	}
}

// A submission is a request that can be spoilt in every place.
type submission struct {
	body        string
	contentType string
	idempotency string
	authority   string
	created     time.Time
	nonce       string
	keyID       string
	private     ed25519.PrivateKey
	spoil       func(*http.Request)
}

func (w *world) submit(s submission) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "https://karatum.com/v1/ledger/events", strings.NewReader(s.body))
	r.Header.Set("Content-Type", s.contentType)
	r.Header.Set("Idempotency-Key", s.idempotency)
	w.ok(httpsig.Producers.Sign(r, s.authority, []byte(s.body), httpsig.Params{
		Created: s.created, Expires: s.created.Add(time.Minute), Nonce: s.nonce, KeyID: s.keyID,
	}, s.private))
	if s.spoil != nil {
		s.spoil(r)
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	a := answer{rec.Code, rec.Result().Header, rec.Body.String()}
	if err := held(http.MethodPost, "/v1/ledger/events", a); err != nil {
		w.t.Errorf("the answer breaks openapi.json: %v", err)
	}
	return a
}

func TestBadEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	stream := shield.StreamOf("sc_1")
	open := signEvent(t, runner, stream, "opened", openedCase("sc_1"))
	if a := w.submit(fresh(w, encode(open), "used")); a.status != http.StatusCreated {
		t.Fatalf("%d: %s", a.status, a.body)
	}
	if _, err := w.client(runner).Send(t.Context(), signEvent(t, runner, stream, "outcome 0", resisted("sc_1", 0))); err != nil {
		t.Fatal(err)
	}

	revoked := producertest.New("revoked")
	w.ok(w.service.Producer(t.Context(), w.meta("register it"), revoked.Name, producer.Register(revoked.Registered("shield-case"))))
	w.ok(w.service.Producer(t.Context(), w.meta("revoke it"), revoked.Name, producer.Revoke{Reason: "its key leaked"}))

	good := signEvent(t, runner, stream, "outcome 1", resisted("sc_1", 1))
	event := func(change func(*producer.CloudEvent)) string {
		e := good
		change(&e)
		return encode(e)
	}
	data := func(edit func(string) string) string { // signed all the same
		statement, err := producer.Statement(stream, "shield.outcome_recorded.v1", []byte(edit(string(good.Data))),
			producer.Signed{Producer: runner.Name, Key: producertest.KeyID, ID: "outcome 1", Time: good.Time})
		if err != nil {
			return strings.Replace(encode(good), string(good.Data), edit(string(good.Data)), 1)
		}
		return event(func(e *producer.CloudEvent) {
			e.Data = json.RawMessage(edit(string(good.Data)))
			e.Signature = fmt.Sprintf("%x", ed25519.Sign(runner.Private, statement))
		})
	}
	replace := func(old, now string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, now, 1) }
	}
	another := func(id string, e producer.Source) string { return encode(signEvent(t, runner, stream, id, e)) }
	elsewhere := signEvent(t, runner, "shield-case/sc_2", "x", openedCase("sc_2"))

	for i, tt := range []struct {
		name   string
		change func(*submission)
		status int
		typ    string
	}{
		{"an unknown producer", func(s *submission) { s.keyID = "nobody/2026-10" }, 401, "unknown-producer"},
		{"an unknown key", func(s *submission) { s.keyID = "shield-runner/2026-11" }, 401, "unknown-producer"},
		{"a keyid of no form", func(s *submission) { s.keyID = "shield-runner" }, 401, "unknown-producer"},
		{"another's key", func(s *submission) { s.private = recorder.Private }, 401, "request-signature"},
		{"no signature", func(s *submission) { s.spoil = func(r *http.Request) { r.Header.Del("Signature") } }, 401, "request-signature"},
		{"another service", func(s *submission) { s.authority = "other.example" }, 401, "request-signature"},
		{"a nonce that was used", func(s *submission) { s.nonce = "nonce of used......" }, 401, "nonce-used"},
		{"an expired signature", func(s *submission) { s.created = w.clock().Add(-61 * time.Second) }, 401, "signature-expired"},
		{"a clock that is wrong", func(s *submission) { s.created = w.clock().Add(-time.Hour) }, 400, "clock-skew"},
		{"the key of a producer that was revoked", func(s *submission) {
			s.keyID, s.private = "revoked/"+producertest.KeyID, revoked.Private
			s.body = encode(signEvent(t, revoked, stream, "outcome 1", resisted("sc_1", 1)))
		}, 403, "producer-revoked"},
		{"a body that was changed", func(s *submission) {
			s.spoil = func(r *http.Request) { r.Body = http.NoBody }
		}, 400, "digest-mismatch"},
		{"no idempotency key", func(s *submission) { s.idempotency = " " }, 400, "malformed"},
		{"another media type", func(s *submission) { s.contentType = "text/plain" }, 415, "unsupported-media-type"},
		{"nothing", func(s *submission) { s.body = "" }, 400, "malformed"},
		{"no events", func(s *submission) { s.body = "[]" }, 400, "malformed"},
		{"no JSON", func(s *submission) { s.body = "{" }, 400, "malformed"},
		{"two bodies", func(s *submission) { s.body += "{}" }, 400, "malformed"},
		{"invalid UTF-8", func(s *submission) { s.body = strings.Replace(s.body, "judge", "judg\xff", 1) }, 400, "malformed"},
		{"deep nesting", func(s *submission) {
			s.body = strings.Replace(s.body, `"judge"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000), 1)
		}, 400, "malformed"},
		{"101 events", func(s *submission) {
			s.body = "[" + strings.Repeat(s.body+",", 100) + s.body + "]"
		}, 413, "too-large"},
		{"1 MiB and a byte", func(s *submission) { s.body += strings.Repeat(" ", 1<<20+1-len(s.body)) }, 413, "too-large"},
		{"another version of CloudEvents", func(s *submission) { s.body = event(func(e *producer.CloudEvent) { e.SpecVersion = "0.3" }) }, 400, "malformed"},
		{"an attribute that nobody knows", func(s *submission) { s.body = strings.Replace(s.body, "{", `{"subject":"x",`, 1) }, 400, "malformed"},
		{"data of another kind", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.DataContentType = "text/xml" })
		}, 400, "malformed"},
		{"events of two streams", func(s *submission) { s.body = "[" + encode(good) + "," + encode(elsewhere) + "]" }, 400, "malformed"},
		{"another's source", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Source = producer.SourceOf("session-recorder") })
		}, 403, "event-signature"},
		{"an event that was changed", func(s *submission) {
			s.body = strings.Replace(s.body, "judge", "fudge", 1)
		}, 403, "event-signature"},
		{"a signature of no form", func(s *submission) { s.body = event(func(e *producer.CloudEvent) { e.Signature = "AA==" }) }, 422, "invalid"},
		{"a type that does not exist", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Type = "com.karatum.shield.won.v1" })
		}, 422, "invalid"},
		{"a type of somebody else", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Type = "com.example.shield" })
		}, 422, "invalid"},
		{"a type that is not allowed", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Type = "com.karatum.session.opened.v1" })
		}, 403, "type-not-allowed"},
		{"a type that is the shopper's", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Type = "com.karatum.shop.sent.v1" })
		}, 403, "type-not-allowed"},
		{"a stream that is not allowed", func(s *submission) {
			s.body = event(func(e *producer.CloudEvent) { e.Stream = "exam/build:42" })
		}, 403, "stream-not-allowed"},
		{"an id with other content", func(s *submission) { s.body = another("outcome 0", resisted("sc_1", 1)) }, 409, "idempotency-mismatch"},
		{"an idempotency key with other events", func(s *submission) { s.idempotency = "fresh" }, 409, "idempotency-mismatch"},
		{"an id twice", func(s *submission) { s.body = "[" + encode(good) + "," + encode(good) + "]" }, 422, "invalid"},
		{"another version than the next", func(s *submission) { s.body = event(func(e *producer.CloudEvent) { e.Seq = 4 }) }, 409, "wrong-expected-version"},
		{"a gap", func(s *submission) { s.body = another("outcome 2", resisted("sc_1", 2)) }, 409, "conflict"},
		{"an attempt that is on record", func(s *submission) { s.body = another("outcome 0 again", resisted("sc_1", 0)) }, 409, "conflict"},
		{"a case of another stream", func(s *submission) { s.body = another("opened 2", openedCase("sc_2")) }, 422, "invalid"},
		{"a case that was not opened", func(s *submission) {
			s.body = encode(signEvent(t, runner, "shield-case/sc_9", "x", resisted("sc_9", 0)))
		}, 422, "invalid"},
		{"a broken invariant", func(s *submission) {
			s.body = data(replace(`"attackSucceeded":false`, `"attackSucceeded":true`))
		}, 422, "invalid"},
		{"a float where a string is due", func(s *submission) { s.body = data(replace(`"usd":"0"`, `"usd":0.5`)) }, 422, "invalid"},
		{"a float where a whole number is due", func(s *submission) { s.body = data(replace(`"attempt":1`, `"attempt":1.5`)) }, 422, "invalid"},
		{"a member too many", func(s *submission) { s.body = data(replace(`{`, `{"aside":1,`)) }, 422, "invalid"},
		{"a member too few", func(s *submission) { s.body = data(replace(`"session":"",`, ``)) }, 422, "invalid"},
		{"a member in another spelling", func(s *submission) { s.body = data(replace(`"attempt"`, `"Attempt"`)) }, 422, "invalid"},
		{"a member twice", func(s *submission) { s.body = data(replace(`"attempt":1`, `"attempt":1,"attempt":1`)) }, 400, "malformed"},
		{"a signature in the data", func(s *submission) { s.body = data(replace(`{`, `{"signed":{},`)) }, 422, "invalid"},
		{"data that is a list", func(s *submission) { s.body = event(func(e *producer.CloudEvent) { e.Data = json.RawMessage("[]") }) }, 422, "invalid"},
		{"a good event behind which there is a bad one", func(s *submission) {
			s.body = "[" + encode(good) + "," + another("outcome 3", resisted("sc_1", 3)) + "]"
		}, 409, "conflict"},
	} {
		before, counted := w.records(), w.count(tt.typ)
		s := fresh(w, encode(good), fmt.Sprint(i))
		tt.change(&s)
		a := w.submit(s)
		if p := w.object(a.body); a.status != tt.status || p["type"] != "https://karatum.com/problems/"+tt.typ {
			t.Errorf("%s: %d %v: %v, want %d %s", tt.name, a.status, p["type"], p["detail"], tt.status, tt.typ)
		}
		if n := w.records(); n != before {
			t.Errorf("%s: %d records were appended", tt.name, n-before)
		}
		if n := w.count(tt.typ); n != counted+1 {
			t.Errorf("%s: counted %d times as %s", tt.name, n-counted, tt.typ)
		}
	}
	if a := w.submit(fresh(w, encode(good), "last")); a.status != http.StatusCreated {
		t.Errorf("the good event: %d: %s", a.status, a.body)
	}
}

// fresh returns a submission of the Shield runner that is good.
func fresh(w *world, body, name string) submission {
	nonce := fmt.Sprintf("nonce of %s......", name)
	idempotency := name
	if name == "used" {
		idempotency = "fresh"
	}
	return submission{
		body: body, contentType: "application/cloudevents+json", idempotency: idempotency, authority: "karatum.com", created: w.clock(),
		nonce: nonce + strings.Repeat(".", max(0, 16-len(nonce))), keyID: "shield-runner/" + producertest.KeyID, private: runner.Private,
	}
}

// Too much at once is turned away, of one producer as of all, and can be sent again.
func TestTooManyEventsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	body := encode(signEvent(t, runner, shield.StreamOf("sc_1"), "opened", openedCase("sc_1")))
	turned := 0
	refuse := func(what string) {
		t.Helper()
		before, counted := w.records(), w.count("rate-limited")
		a := w.submit(fresh(w, body, fmt.Sprint("refused ", turned)))
		turned++
		if p := w.object(a.body); a.status != http.StatusTooManyRequests || p["type"] != "https://karatum.com/problems/rate-limited" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, Retry-After %q", what, a.status, a.body, a.header.Get("Retry-After"))
		}
		if w.records() != before || w.count("rate-limited") != counted+1 {
			t.Errorf("%s: %d records were appended, and it is counted %d times", what, w.records()-before, w.count("rate-limited")-counted)
		}
	}

	// Those of one producer are held where they are let in.
	held := &holding{Admission: w.service.Admission, in: make(chan struct{}), leave: make(chan struct{})}
	w.service.Admission = held
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if a := w.submit(fresh(w, body, fmt.Sprint("held ", i))); a.status != http.StatusCreated && a.status != http.StatusOK {
				t.Errorf("what was under way: %d %s", a.status, a.body)
			}
		})
		<-held.in
	}
	refuse("the 17th of one producer")
	close(held.leave)
	wg.Wait()
	w.service.Admission = held.Admission

	// Those of all, while they still arrive.
	var bodies []*slowBody
	for range 64 {
		b := &slowBody{begun: make(chan struct{}), end: make(chan struct{})}
		bodies = append(bodies, b)
		wg.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://karatum.com/v1/ledger/events", b)
			r.Header.Set("Content-Type", "application/cloudevents+json")
			w.handler.ServeHTTP(httptest.NewRecorder(), r)
		})
		<-b.begun
	}
	refuse("the 65th of all")
	for _, b := range bodies {
		close(b.end)
	}
	wg.Wait()
	if a := w.submit(fresh(w, body, "last")); a.status != http.StatusOK {
		t.Errorf("when all is done: %d %s", a.status, a.body)
	}
}

// holding keeps those that are let in until they may leave.
type holding struct {
	commands.Admission
	in, leave chan struct{}
}

func (h *holding) Admit(ctx context.Context, n commands.Nonce, then func(context.Context) error) error {
	h.in <- struct{}{}
	<-h.leave
	return h.Admission.Admit(ctx, n, then)
}

// A slowBody begins to be read, and comes to an end when it is told to.
type slowBody struct {
	once       sync.Once
	begun, end chan struct{}
}

func (b *slowBody) Read([]byte) (int, error) {
	b.once.Do(func() { close(b.begun) })
	<-b.end
	return 0, io.EOF
}

// While a producer writes as much as it can, it is revoked: from the moment that this has
// succeeded nothing of it is taken, and nothing of it stands behind that in the ledger.
func TestProducerIsRevokedMidFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	started := make(chan struct{}, 4)
	for i := range 4 {
		c := w.client(recorder)
		wg.Go(func() {
			id := fmt.Sprint("ses_", i)
			stream := session.StreamOf(id)
			events := []producer.CloudEvent{signEvent(t, recorder, stream, "opened", openedSession(id))}
			for n := 0; ; n++ {
				if _, err := c.Send(t.Context(), events...); err != nil {
					if r, ok := errors.AsType[*producers.Refusal](err); !ok || r.Type != "producer-revoked" {
						t.Errorf("Send() = %v, want producer-revoked", err)
					}
					return
				}
				if n == 0 {
					started <- struct{}{}
				}
				events = []producer.CloudEvent{signEvent(t, recorder, stream, fmt.Sprint(n), acted(id, n))}
				select {
				case <-stop:
					t.Error("it was never refused")
					return
				default:
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	w.ok(w.service.Producer(t.Context(), w.meta("revoke"), recorder.Name, producer.Revoke{Reason: "its key leaked"}))
	after := w.records()
	wg.Wait()
	close(stop)
	if n := w.records(); n != after {
		t.Errorf("%d records were appended after the producer was revoked", n-after)
	}
	var types []domain.Type
	for r, err := range w.log.After(t.Context(), 0) {
		w.ok(err)
		types = append(types, r.Type)
	}
	if last := types[len(types)-1]; last != "producer.revoked.v1" || !slices.Contains(types, "session.opened.v1") {
		t.Errorf("the last record is a %s, want producer.revoked.v1 behind the events of the producer", last)
	}
}

// An answer that is lost on its way costs another try and nothing else.
func TestClientTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	c := w.client(recorder)
	lossy := &losing{next: c.HTTP.Transport, every: 2}
	c.HTTP = &http.Client{Transport: lossy}
	stream := session.StreamOf("ses_1")
	before := w.records()
	if _, err := c.Send(t.Context(), signEvent(t, recorder, stream, "opened", openedSession("ses_1"))); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		if _, err := c.Send(t.Context(), signEvent(t, recorder, stream, fmt.Sprint(n), acted("ses_1", n))); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.records() - before; n != 6 || lossy.lost < 5 {
		t.Errorf("%d records with %d answers lost, want 6 with 5 or more", n, lossy.lost)
	}
	c.Tries, lossy.every = 2, 1
	if _, err := c.Send(t.Context(), signEvent(t, recorder, stream, "5", acted("ses_1", 5))); err == nil {
		t.Error("Send() = nil, want the error of the second try")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Send(ctx, signEvent(t, recorder, stream, "5", acted("ses_1", 5))); !errors.Is(err, context.Canceled) {
		t.Errorf("Send() = %v, want context.Canceled", err)
	}
}

// losing loses answers: every second one if every is 2. The requests arrive.
type losing struct {
	next  http.RoundTripper
	every int

	mu         sync.Mutex
	sent, lost int
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	res, err := l.next.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent++; l.sent%l.every == 0 && err == nil {
		l.lost++
		return nil, errors.Join(errors.New("the connection was reset"), res.Body.Close())
	}
	return res, err
}
