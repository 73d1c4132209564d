package commands_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

const (
	ref = agent.Ref("build:42")

	a2a  = "https://agent.example/a2a"
	mcp  = "https://tools.agent.example/mcp"
	site = "karatum.com"
	some = "cns_evmwdbivcm7gsejx5jq2" // a consent id
	slot = "shp_evmwdbivcm7gsejx5jq2_20270304_00"
)

var (
	ownerKey    = secp256k1.PrivKeyFromBytes([]byte(strings.Repeat("\x11", 32)))
	strangerKey = secp256k1.PrivKeyFromBytes([]byte(strings.Repeat("\x22", 32)))
	owner       = eip191.AddressOf(ownerKey.PubKey())

	start     = time.Date(2026, 10, 16, 9, 30, 0, 123456789, time.UTC)
	errBroken = errors.New("pulled the plug")
)

// A gate stands in memory: senders hold it, closing waits for them.
type gate struct {
	mu     sync.RWMutex
	open   map[string]bool
	closed map[string]bool
	paused map[programme.Scope]bool
	fail   error // of closing and pausing
}

func (g *gate) Open(_ context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[id] = true
	return nil
}

func (g *gate) Close(ctx context.Context, id string, then func(context.Context) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return g.fail
	}
	g.closed[id] = true
	return then(ctx)
}

func (g *gate) Pause(ctx context.Context, scope programme.Scope, then func(context.Context) error) error {
	return g.pause(ctx, scope, true, then)
}

func (g *gate) Resume(ctx context.Context, scope programme.Scope, then func(context.Context) error) error {
	return g.pause(ctx, scope, false, then)
}

func (g *gate) pause(ctx context.Context, scope programme.Scope, paused bool, then func(context.Context) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return g.fail
	}
	g.paused[scope] = paused
	return then(ctx)
}

// passes reports whether a task may be sent. Its caller holds the gate.
func (g *gate) passes(id string) bool {
	return g.open[id] && !g.closed[id] && !g.paused[programme.Everything] && !g.paused[programme.OfConsent(id)]
}

// send reports whether a task gets through.
func (g *gate) send(id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.passes(id)
}

// hosts are the hosts of a world: which of them may be shopped at all, and whom
// their documents list.
type hosts struct {
	mu     sync.Mutex
	owners map[string]eip191.Address
	hang   bool
	asked  int
}

func (h *hosts) Check(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("%s is not on https: %w", url, domain.ErrInvalid)
	}
	return nil
}

func (h *hosts) Prove(ctx context.Context, endpoint string, by eip191.Address) error {
	h.mu.Lock()
	h.asked++
	listed, hang := h.owners[endpoint], h.hang
	h.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if listed != by {
		return fmt.Errorf("not listed: %w", domain.ErrForbidden)
	}
	return nil
}

// A world is a service with everything around it in memory.
type world struct {
	*commands.Service
	log   *memory.Log
	gate  *gate
	hosts *hosts
	now   time.Time
}

// newWorld returns a world in which the terms are published, and the agent is
// registered with one endpoint proven by its identity and one by its host.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld()
	err := errors.Join(
		w.Programme(t.Context(), meta("publish"), programme.Publish{
			Terms:     programme.TermsPublished{Version: 3, Hash: domain.Sum([]byte("terms"))},
			Pool:      programme.PoolPublished{Version: 2, Hash: domain.Sum([]byte("pool"))},
			Catalogue: programme.CataloguePublished{Digest: domain.Sum([]byte("catalogue"))},
			Keys:      w.Secrets.Keys(),
		}),
		w.Agent(t.Context(), meta("register"), ref, agent.Register{Agent: ref, Wallet: owner}),
		w.Agent(t.Context(), meta("verify"), ref, agent.VerifyIdentity{URL: a2a}),
		w.Agent(t.Context(), meta("certify"), ref, agent.RecordCertificate{Certificate: "crt_1"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func emptyWorld() *world {
	w := &world{
		log:   new(memory.Log),
		gate:  &gate{open: make(map[string]bool), closed: make(map[string]bool), paused: make(map[programme.Scope]bool)},
		hosts: &hosts{owners: map[string]eip191.Address{mcp: owner}},
		now:   start,
	}
	w.Service = &commands.Service{
		Log: w.log, Catalog: commands.Catalog(), Now: func() time.Time { return w.now }, Rand: rand.Reader,
		Secrets: commands.Keyring{domain.Sum([]byte("operator secret"))}, Domain: site, Hosts: w.hosts, Gate: w.gate,
		Histories: commands.NewHistories(),
	}
	return w
}

func meta(command string) ledger.Meta { return ledger.Meta{Actor: "operator", Command: command} }

// records audits the log and returns all of it.
func (w *world) records(t *testing.T) []ledger.Record {
	t.Helper()
	return ledgertest.Audit(t, w.log)
}

// types returns the types of the records of a stream.
func (w *world) types(t *testing.T, s ledger.Stream) (types []domain.Type) {
	t.Helper()
	for _, r := range w.records(t) {
		if r.Stream == s {
			types = append(types, r.Type)
		}
	}
	return types
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	var got []string
	for typ := range commands.Catalog().Types() {
		name, _, _ := strings.Cut(string(typ), ".")
		got = append(got, name)
	}
	want := []string{"agent", "batch", "consent", "exam", "finding", "incident", "plan", "producer", "programme", "seal", "session", "shield", "shop"}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("aggregates of the catalog (-want +got):\n%s", diff)
	}
}

// One method for each aggregate, each writing to its stream.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stream ledger.Stream
		typ    domain.Type
		do     func(*commands.Service, context.Context, ledger.Meta) error
	}{
		{"agent/build:7", "agent.registered.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Agent(ctx, m, "build:7", agent.Register{Agent: "build:7", Wallet: owner})
		}},
		{"plan/" + some, "plan.sealed.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Plan(ctx, m, some, plan.Seal{Consent: some, Day: 20881})
		}},
		{"shop/" + slot, "shop.committed.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Shop(ctx, m, slot, shop.Commit{Consent: some, Day: 20881})
		}},
		{"exam/build:42", "exam.run_recorded.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Exam(ctx, m, ref, exam.RecordRun{
				Agent: ref, Run: "run-1", Attempts: []exam.Attempt{{Outcome: task.Pass}},
			})
		}},
		{"finding/" + some, "finding.reached.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Finding(ctx, m, some, finding.Reach{Consent: some, Cycle: finding.AfterDay, Day: 20881, Look: 1})
		}},
		{"programme", "programme.catalogue_published.v1", func(s *commands.Service, ctx context.Context, m ledger.Meta) error {
			return s.Programme(ctx, m, programme.Publish{Catalogue: programme.CataloguePublished{Digest: domain.Hash{1}}})
		}},
	} {
		t.Run(string(tt.stream), func(t *testing.T) {
			t.Parallel()
			w := emptyWorld()
			if err := tt.do(w.Service, t.Context(), meta("do")); err != nil {
				t.Fatal(err)
			}
			all := w.records(t)
			if len(all) != 1 {
				t.Fatalf("%d records, want 1", len(all))
			}
			want := ledger.Record{
				Stream: tt.stream, Version: 1, Type: tt.typ, Actor: "operator",
				Cause: ledger.Cause{Command: "do", Correlation: "do"}, // the first command of its conversation
			}
			r := all[0]
			got := ledger.Record{Stream: r.Stream, Version: r.Version, Type: r.Type, Actor: r.Actor, Cause: r.Cause}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			// Again under another id: it is no news.
			wantErr(t, "the same again", tt.do(w.Service, t.Context(), meta("again")), nil)
			if n := len(w.records(t)); n != 1 {
				t.Errorf("%d records after the same again, want 1", n)
			}
		})
	}
}

// The answer to a command may be lost. Its repetition has no second effect, also
// if others came in between.
func TestLostReply(t *testing.T) {
	t.Parallel()
	type step = func(*world, context.Context, ledger.Meta) error
	observe := func(surface byte) step {
		return func(w *world, ctx context.Context, m ledger.Meta) error {
			return w.Agent(ctx, m, ref, agent.ObserveSurface{Kind: task.A2A, URL: a2a, Surface: domain.Hash{surface}})
		}
	}
	seal := func(day uint32) step {
		return func(w *world, ctx context.Context, m ledger.Meta) error {
			return w.Plan(ctx, m, some, plan.Seal{Consent: some, Day: day})
		}
	}
	send := func(w *world, ctx context.Context, m ledger.Meta) error {
		return w.Shop(ctx, m, slot, shop.Send{Endpoint: "ep_0"})
	}
	miss := func(w *world, ctx context.Context, m ledger.Meta) error {
		return w.Shop(ctx, m, slot, shop.Miss{Reason: shop.OperatorLate})
	}
	judge := func(w *world, ctx context.Context, m ledger.Meta) error {
		return w.Shop(ctx, m, slot, shop.Judge{Outcome: task.Blocked, Rule: shop.WorkerLost})
	}
	for _, tt := range []struct {
		name    string
		do      step
		between step
	}{
		{"agent", observe(1), observe(2)},
		{"plan", seal(1), seal(2)},
		{"shop sent", send, judge},
		{"shop missed", miss, nil},
	} {
		for persisted, added := range map[bool]int{false: 0, true: 1} {
			t.Run(fmt.Sprintf("%s, persisted %t", tt.name, persisted), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				err := w.Shop(t.Context(), meta("commit"), slot, shop.Commit{Consent: some})
				if err != nil {
					t.Fatal(err)
				}
				before := len(w.records(t))
				w.log.Fault = func(p bool) error {
					if p == persisted {
						return errBroken
					}
					return nil
				}
				wantErr(t, "the lost reply", tt.do(w, t.Context(), meta("do")), errBroken)
				w.log.Fault = nil
				if got := len(w.records(t)) - before; got != added {
					t.Fatalf("%d records after the fault, want %d", got, added)
				}
				wantErr(t, "the repetition", tt.do(w, t.Context(), meta("do")), nil)
				if tt.between != nil {
					wantErr(t, "what comes in between", tt.between(w, t.Context(), meta("between")), nil)
					wantErr(t, "the late repetition", tt.do(w, t.Context(), meta("do")), nil)
				}
				want := 1
				if tt.between != nil {
					want = 2
				}
				if got := len(w.records(t)) - before; got != want {
					t.Errorf("%d records in the end, want %d", got, want)
				}
			})
		}
	}
}

// A rival gets in between load and append, so many times.
type rival struct {
	*memory.Log
	times int
	act   func(int)
}

func (r *rival) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	if r.times > 0 {
		r.times--
		r.act(r.times)
	}
	return r.Log.Append(ctx, s, version, m, events...)
}

func TestLostRace(t *testing.T) {
	t.Parallel()
	for times, want := range []error{nil, nil, nil, domain.ErrConflict} {
		t.Run(fmt.Sprintf("%d times", times), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := *w.Service
			w.Log = &rival{w.log, times, func(n int) {
				m := meta(fmt.Sprintf("rival %d", n))
				if err := other.Agent(t.Context(), m, ref, agent.RecordCertificate{Certificate: m.Command}); err != nil {
					t.Error(err)
				}
			}}
			before := len(w.records(t))
			err := w.Agent(t.Context(), meta("do"), ref, agent.VerifyIdentity{URL: mcp})
			wantErr(t, "command", err, want)
			if want != nil && !strings.HasSuffix(domain.Sentence(err), "; send the same again") {
				t.Errorf("the sentence is %q, want it to say what to do", domain.Sentence(err))
			}
			added := times
			if want == nil {
				added++
			}
			if got := len(w.records(t)) - before; got != added {
				t.Errorf("%d records, want %d", got, added)
			}
		})
	}
}

// After a lost race the command is decided again on what happened.
func TestLostRaceDecidesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := *w.Service
	w.Log = &rival{w.log, 1, func(int) {
		if err := other.Agent(t.Context(), meta("rival"), ref, agent.VerifyIdentity{URL: mcp}); err != nil {
			t.Error(err)
		}
	}}
	before := len(w.records(t))
	wantErr(t, "what another has just done", w.Agent(t.Context(), meta("do"), ref, agent.VerifyIdentity{URL: mcp}), nil)
	if got := len(w.records(t)) - before; got != 1 {
		t.Errorf("%d records, want the rival's alone", got)
	}
}

func TestRefusalAppendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := len(w.records(t))
	wantErr(t, "unknown agent", w.Agent(t.Context(), meta("1"), "build:7", agent.VerifyIdentity{URL: a2a}), domain.ErrNotFound)
	wantErr(t, "another wallet", w.Agent(t.Context(), meta("2"), ref, agent.Register{Agent: ref}), domain.ErrConflict)
	wantErr(t, "unknown slot", w.Shop(t.Context(), meta("3"), slot, shop.Send{}), domain.ErrNotFound)
	wantErr(t, "no command id", w.Agent(t.Context(), ledger.Meta{}, ref, agent.VerifyIdentity{URL: mcp}), domain.ErrInvalid)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "cancelled", w.Agent(done, meta("4"), ref, agent.VerifyIdentity{URL: mcp}), context.Canceled)
	if got := len(w.records(t)); got != before {
		t.Errorf("%d records, want %d", got, before)
	}
}

type foreign struct{}

func (foreign) EventType() domain.Type { return "consent.foreign.v1" }

// What cannot be read is not decided on.
func TestForeignEvent(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]domain.Event{
		"of another aggregate": agent.IdentityVerified{URL: a2a},
		"of an unknown type":   foreign{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if err := w.log.Append(t.Context(), consent.StreamOf(ref), 0, meta("foreign"), e); err != nil {
				t.Fatal(err)
			}
			before := len(w.records(t))
			err := w.Consent(t.Context(), meta("end"), ref, consent.End{Consent: some, Reason: consent.Expired})
			wantErr(t, "command", err, domain.ErrUnknownType)
			_, err = w.Challenge(t.Context(), request())
			wantErr(t, "Challenge", err, domain.ErrUnknownType)
			if got := len(w.records(t)); got != before {
				t.Errorf("%d records, want %d", got, before)
			}
		})
	}
}

// Pausing shuts the gate before the pause is on the record, and nothing but
// pausing and resuming touches it.
func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.gate.Open(t.Context(), some); err != nil {
		t.Fatal(err)
	}
	passedDuring := true
	w.log.Fault = func(bool) error {
		passedDuring = w.gate.passes(some)
		return nil
	}
	pause := programme.Pause{Scope: programme.Everything, Reason: "incident"}
	wantErr(t, "Pause", w.Programme(t.Context(), meta("pause"), pause), nil)
	if passedDuring || w.gate.send(some) {
		t.Error("a task gets through a paused programme")
	}
	wantErr(t, "Pause again", w.Programme(t.Context(), meta("pause 2"), pause), nil)
	wantErr(t, "Publish", w.Programme(t.Context(), meta("publish 2"), programme.Publish{
		Terms: programme.TermsPublished{Version: 4}, Pool: programme.PoolPublished{Version: 3}, Keys: w.Secrets.Keys(),
	}), nil)
	if w.gate.send(some) {
		t.Error("publishing opens the gate")
	}
	wantErr(t, "Resume", w.Programme(t.Context(), meta("resume"), programme.Resume{Scope: programme.Everything, Reason: "resolved"}), nil)
	if !w.gate.send(some) {
		t.Error("no task gets through a programme that was resumed")
	}
	wantErr(t, "Pause of a consent", w.Programme(t.Context(), meta("pause one"), programme.Pause{Scope: programme.OfConsent(some), Reason: "a complaint"}), nil)
	if w.gate.send(some) {
		t.Error("a task gets through under a consent that is paused")
	}
	wantErr(t, "Resume of a consent", w.Programme(t.Context(), meta("resume one"), programme.Resume{Scope: programme.OfConsent(some), Reason: "settled"}), nil)
	// What would not go on record shuts no gate.
	wantErr(t, "Pause without a reason", w.Programme(t.Context(), meta("pause wrong"), programme.Pause{Scope: programme.Everything}), domain.ErrInvalid)
	wantErr(t, "Pause of nothing", w.Programme(t.Context(), meta("pause wrong"), programme.Pause{Scope: "host/", Reason: "incident"}), domain.ErrInvalid)
	if !w.gate.send(some) {
		t.Error("a pause that was refused has shut the gate")
	}
	want := []domain.Type{
		"programme.operator_key_registered.v1",
		"programme.terms_published.v1", "programme.pool_published.v1", "programme.catalogue_published.v1",
		"programme.paused.v1",
		"programme.terms_published.v1", "programme.pool_published.v1", "programme.catalogue_published.v1",
		"programme.resumed.v1", "programme.paused.v1", "programme.resumed.v1",
	}
	if diff := cmp.Diff(want, w.types(t, programme.Stream)); diff != "" {
		t.Errorf("programme (-want +got):\n%s", diff)
	}
	w.gate.fail = domain.ErrUnavailable
	wantErr(t, "Pause of a held gate", w.Programme(t.Context(), meta("pause 3"), pause), domain.ErrUnavailable)
	if got := len(w.types(t, programme.Stream)); got != len(want) {
		t.Errorf("%d records of the programme, want %d", got, len(want))
	}
}
