package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A world is the whole service but for its outside: a ledger in memory, real read
// models, hosts that say yes or no.
type world struct {
	t       *testing.T
	log     *memory.Log
	service *commands.Service
	runner  *projections.Runner
	config  api.Config
	handler http.Handler
	logged  *lines
	hosts   hosts
	bodies  bodies

	mu     sync.Mutex
	now    time.Time
	counts map[string]int // requests of producers, by outcome
}

func (w *world) counted(outcome string, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = make(map[string]int)
	}
	w.counts[outcome]++
}

func (w *world) count(outcome string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[outcome]
}

// lines is what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

type hosts map[string]bool // URLs whose host lists the owner

func (hosts) Check(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("%s is not https: %w", url, domain.ErrInvalid)
	}
	return nil
}

func (h hosts) Prove(_ context.Context, endpoint string, _ eip191.Address) error {
	if !h[endpoint] {
		return fmt.Errorf("the document does not list the owner: %w", domain.ErrForbidden)
	}
	return nil
}

// An open gate, which closes at once.
type gate struct{}

func (gate) Open(context.Context, string) error { return nil }

func (gate) Close(ctx context.Context, _ string, then func(context.Context) error) error {
	return then(ctx)
}

func (gate) Pause(ctx context.Context, _ programme.Scope, then func(context.Context) error) error {
	return then(ctx)
}

func (gate) Resume(ctx context.Context, _ programme.Scope, then func(context.Context) error) error {
	return then(ctx)
}

type bodies map[string][]byte

var salt = domain.Sum([]byte("salt"))

func (b bodies) Get(_ context.Context, key string) (s, body []byte, err error) {
	body, ok := b[key]
	if !ok {
		return nil, nil, fmt.Errorf("body %s: %w", key, domain.ErrNotFound)
	}
	if own, ok := b["salt of "+key]; ok {
		return own, body, nil
	}
	return salt[:], body, nil
}

func (b bodies) Put(_ context.Context, key string, salt, body []byte) error {
	b[key], b["salt of "+key] = body, salt
	return nil
}

func (b bodies) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		delete(b, key)
		delete(b, "salt of "+key)
	}
	return nil
}

const (
	honest agent.Ref = "build:42"
	house  agent.Ref = "build:demo"
)

// key is the wallet of the owner of both agents.
var key = secp256k1.PrivKeyFromBytes([]byte("an owner's key, for tests only.."))

var owner = eip191.AddressOf(key.PubKey())

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, log: new(memory.Log), logged: new(lines), hosts: hosts{"https://agent.example/a2a": true}, bodies: bodies{},
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	w.log.Now = w.clock
	w.service = &commands.Service{
		Log: w.log, Catalog: commands.Catalog(), Now: w.clock, Rand: rand.NewChaCha8([32]byte{1}),
		Secrets: commands.Keyring{domain.Sum([]byte("operator"))}, Domain: "karatum.com", Hosts: w.hosts, Gate: gate{}, Texts: w.bodies,
	}
	pool := pgtest.Open(t)
	w.runner = &projections.Runner{Log: w.log, Catalog: commands.Catalog(), Pool: pool, Projections: projections.All()}
	if err := w.runner.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.service.Admission, w.service.ConsentHosts = &tables.Admission{Pool: pool}, projections.Reader{Pool: pool}
	w.config = api.Config{
		Service: w.service, Reader: projections.Reader{Pool: pool}, Ledger: publiclog.Reader{Pool: pool}, Bodies: w.bodies, PublicURL: "https://karatum.com",
		Producers: w.service, Counted: w.counted,
		CatchUp: w.runner.CatchUp, Written: (&projections.Tally{Runner: w.runner}).Public, Logger: slog.New(slog.NewTextHandler(w.logged, nil)), Now: w.clock,
		Facts: explorer.Facts{
			Abuse: "mailto:abuse@karatum.com", Bot: "KaratumBot/1.0 (+https://karatum.com/bot)", TasksPerHost: 24, CheckEvery: time.Hour,
		},
	}
	w.handler = api.New(w.config)
	return w
}

// furnish publishes the programme and registers both agents.
func (w *world) furnish() *world {
	w.t.Helper()
	w.ok(w.service.Programme(w.t.Context(), w.meta("publish"), programme.Publish{
		Terms:     programme.TermsPublished{Version: terms.Current().Number, Hash: terms.Current().Hash()},
		Pool:      programme.PoolPublished{Version: identity.Version(), Hash: identity.Hash()},
		Catalogue: programme.CataloguePublished{Digest: domain.Sum([]byte("catalogue"))},
		Keys:      w.service.Secrets.Keys(),
	}))
	w.ok(w.service.Agent(w.t.Context(), w.meta("register"), honest, agent.Register{Agent: honest, Wallet: owner}))
	w.ok(w.service.Agent(w.t.Context(), w.meta("certify"), honest, agent.RecordCertificate{Certificate: "crt_0"}))
	w.ok(w.service.Agent(w.t.Context(), w.meta("register"), house, agent.Register{Agent: house, Wallet: owner, Demo: true}))
	w.ok(w.runner.CatchUp(w.t.Context()))
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) meta(command string) ledger.Meta { return ledger.Meta{Actor: "test", Command: command} }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// records returns how many records the log holds.
func (w *world) records() (n int) {
	for _, err := range w.log.After(w.t.Context(), 0) {
		w.ok(err)
		n++
	}
	return n
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	res := rec.Result()
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	w.ok(err)
	a := answer{res.StatusCode, res.Header, string(got)}
	if err := held(method, path, a); err != nil {
		w.t.Errorf("%s %.200s: the answer breaks openapi.json: %v", method, path, err)
	}
	return a
}

func (w *world) get(path string) map[string]any {
	w.t.Helper()
	a := w.do(http.MethodGet, path, "")
	if a.status != http.StatusOK {
		w.t.Fatalf("GET %s: %d: %s", path, a.status, a.body)
	}
	return w.object(a.body)
}

func (w *world) post(path string, status int, body string) map[string]any {
	w.t.Helper()
	a := w.do(http.MethodPost, path, body)
	if a.status != status {
		w.t.Fatalf("POST %s: %d, want %d: %s", path, a.status, status, a.body)
	}
	return w.object(a.body)
}

func (w *world) object(text string) (o map[string]any) {
	w.t.Helper()
	w.ok(json.Unmarshal([]byte(text), &o))
	return o
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// request is what an owner asks for; with changes made to it.
func request(ref agent.Ref, changes ...any) string {
	r := map[string]any{
		"agent":     ref,
		"endpoints": []any{map[string]any{"kind": "a2a", "url": "https://agent.example/a2a"}},
		"kinds":     []any{"a2a"}, "maxPerDay": 12, "maxPerWeek": 60, "revealDelaySeconds": 3600, "validityDays": 30,
	}
	return encode(with(r, changes...))
}

func with(o map[string]any, changes ...any) map[string]any {
	for i := 0; i < len(changes); i += 2 {
		name, _ := changes[i].(string)
		if changes[i+1] == nil {
			delete(o, name)
		} else {
			o[name] = changes[i+1]
		}
	}
	return o
}

// A signed is a challenge with its signature, ready to be posted.
type signed struct {
	id   string // of the consent
	body map[string]any
}

const root = "/v1/mystery"

func (w *world) challenge(ref agent.Ref, changes ...any) signed {
	w.t.Helper()
	c := w.post(root+"/consents/challenge", http.StatusOK, request(ref, changes...))
	var p consent.Payload
	w.ok(json.Unmarshal([]byte(encode(c["payload"])), &p))
	message, _ := c["message"].(string)
	return signed{plan.ConsentID(p.Nonce), map[string]any{
		"challengeId": c["challengeId"], "payload": c["payload"], "signature": eip191.Sign(message, key).String(),
	}}
}

// grant takes a consent through both steps and returns its id.
func (w *world) grant(ref agent.Ref) string {
	w.t.Helper()
	s := w.challenge(ref)
	got := w.post(root+"/consents", http.StatusCreated, encode(s.body))
	if got["id"] != s.id || got["state"] != "active" {
		w.t.Fatalf("the granted consent is %v, want %s, active", got, s.id)
	}
	return s.id
}

// A day is a planned day of a consent.
type day struct {
	*world

	consent string
	ref     agent.Ref
	day     uint32
	key     domain.Hash
	tasks   []int
	pads    []int
}

func (w *world) seal(id string, ref agent.Ref) day {
	w.t.Helper()
	var granted consent.Granted
	for r, err := range w.log.Stream(w.t.Context(), consent.StreamOf(ref), 0) {
		w.ok(err)
		e, err := commands.Catalog().Decode(r.Type, r.Data)
		w.ok(err)
		if g, is := e.(consent.Granted); is && g.Consent == id {
			granted = g
		}
	}
	d := day{world: w, consent: id, ref: ref, day: granted.Payload.FirstDay}
	d.key = plan.Key(w.service.Secrets.Current(), granted.Payload.Nonce, d.day)
	tasks := plan.RealSlots(plan.DaySecret(d.key, granted.Entropy()), 4)
	sealed := plan.Sealed{Consent: id, Day: d.day}
	for slot := range plan.Slots {
		sealed.Commits[slot] = domain.Sum([]byte(d.shop(slot)))
		if tasks[slot] {
			d.tasks = append(d.tasks, slot)
		} else {
			d.pads = append(d.pads, slot)
		}
	}
	w.ok(w.service.Plan(w.t.Context(), w.meta("seal"), id, plan.Seal(sealed)))
	for slot, commit := range sealed.Commits {
		d.step(slot, shop.Commit{Consent: id, Day: d.day, Slot: slot, Commit: commit})
	}
	return d
}

// later plans so many days more, each behind the one before.
func (d day) later(days uint32) {
	d.t.Helper()
	for n := range days {
		sealed := plan.Sealed{Consent: d.consent, Day: d.day + n + 1, Eligible: domain.Sum([]byte("list"))}
		for slot := range plan.Slots {
			sealed.Commits[slot] = domain.Sum(fmt.Append(nil, sealed.Day, slot))
		}
		d.ok(d.service.Plan(d.t.Context(), d.meta(fmt.Sprint("seal ", sealed.Day)), d.consent, plan.Seal(sealed)))
	}
	d.ok(d.runner.CatchUp(d.t.Context()))
}

func (d day) shop(slot int) string { return plan.ShopID(d.consent, d.day, uint32(slot)) }

func (d day) step(slot int, c shop.Command) {
	d.t.Helper()
	d.ok(d.service.Shop(d.t.Context(), d.meta(fmt.Sprintf("%T", c)), d.shop(slot), c))
}

// send sends the task of a slot and keeps the reply: all of it sealed.
func (d day) send(slot int, reply string) {
	d.t.Helper()
	d.step(slot, shop.Send{Endpoint: "ep_0", Template: "unit.length", TemplateVersion: 1})
	talk := shop.Session{Kind: task.A2A, URL: "https://agent.example/a2a", Exchanges: []shop.Exchange{
		{Method: http.MethodPost, URL: "https://agent.example/a2a", RPC: "message/send", Status: 200, Received: domain.Sum([]byte(reply))},
	}}
	var err error
	d.bodies[shop.SessionKey(d.shop(slot))], err = domain.Canonical(talk)
	d.ok(err)
	d.step(slot, talk.Converse(d.shop(slot), salt))
	d.bodies[shop.ReplyKey(d.shop(slot))] = []byte(reply)
	d.step(slot, shop.Reply{Hash: shop.ReplyHash(d.shop(slot), 0, 200, 0, salt, []byte(reply)), Status: 200, Size: len(reply)})
	d.step(slot, shop.Judge{Outcome: task.Pass, Rule: "value", Literal: task.Pass})
}

func (d day) reveal(slot int, result shop.Result) {
	d.t.Helper()
	e := shop.Revealed{
		Consent: d.consent, Agent: d.ref, Day: d.day, Slot: slot, Template: "unit.length", TemplateVersion: 1, Family: "unit",
		Endpoint: "ep_0", SourceAddresses: []string{"192.0.2.1"}, SendAt: int64(d.day) * 86400, Prompt: "<feet> & miles?",
		Result: result, Records: []ledger.Record{},
	}
	for r, err := range d.log.Stream(d.t.Context(), shop.StreamOf(d.shop(slot)), 0) {
		d.ok(err)
		if r.Version > 1 {
			e.Records = append(e.Records, r)
		}
	}
	d.step(slot, shop.Reveal(e))
}

func passed(reply string) shop.Result {
	return shop.Result{State: shop.StateJudged, Outcome: task.Pass, Rule: "value", Literal: task.Pass, LatencyMs: 7, ReplyHash: domain.Sum([]byte(reply))}
}

func (d day) open() {
	d.t.Helper()
	d.ok(d.service.Plan(d.t.Context(), d.meta("open"), d.consent, plan.Open{
		Consent: d.consent, Day: d.day, Planned: true, Key: d.key, Path: []domain.Hash{}, Cap: 12, Count: len(d.tasks),
		Eligible: plan.Eligible{Endpoints: []plan.EligibleEndpoint{}}, Surfaces: []plan.Surface{},
		Notes: []plan.Note{{Endpoint: "ep_0", Reason: "no_task", Count: 1, Names: []string{"poetry"}}},
	}))
}

func (d day) compare(look int, cycle finding.Cycle) {
	d.t.Helper()
	d.ok(d.service.Finding(d.t.Context(), d.meta(fmt.Sprint("compare ", look)), d.consent, finding.Reach{
		Consent: d.consent, Agent: d.ref, Demo: d.ref == house, Cycle: cycle, Day: d.day, Look: look,
		Verdict: finding.Insufficient, GatedVerdict: finding.Insufficient, Note: "Too little to say.", Families: []finding.Family{}, Sources: []finding.Source{},
	}))
}

func readerOf(w *world) projections.Reader { return projections.Reader{Pool: w.runner.Pool} }
