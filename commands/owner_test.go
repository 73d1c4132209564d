package commands_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/task"
)

var ownerNonce = domain.Sum([]byte("what the owner pasted"))

func request() consent.Request {
	return consent.Request{
		Agent:              ref,
		Endpoints:          []consent.Endpoint{{Kind: task.A2A, URL: a2a}, {Kind: task.MCP, URL: mcp}},
		Kinds:              []task.Kind{task.A2A, task.MCP},
		MaxPerDay:          12,
		MaxPerWeek:         60,
		RevealDelaySeconds: 3600,
		ValidityDays:       30,
	}
}

func (w *world) challenge(t *testing.T, r consent.Request) commands.Challenged {
	t.Helper()
	c, err := w.Challenge(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grant walks the owner's whole way and returns the id of the consent.
func (w *world) grant(t *testing.T) string {
	t.Helper()
	c := w.challenge(t, request())
	id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	if err != nil {
		t.Fatalf("Grant: %v", err)
	}
	return id
}

func sign(message string, key *secp256k1.PrivateKey) consent.Signature {
	sig := eip191.Sign(message, key)
	return sig[:]
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := len(w.records(t))
	c := w.challenge(t, request())
	issued := time.Date(2026, 10, 16, 9, 30, 0, 0, time.UTC) // whole seconds
	first := domain.DayOf(issued) + 1
	want := consent.Payload{
		Request: request(),
		Terms: consent.Terms{
			Domain: site, Owner: owner, Chain: 84532, FirstDay: first, LastDay: first + 29,
			TermsVersion: 3, TermsHash: domain.Sum([]byte("terms")),
			PoolVersion: 2, PoolHash: domain.Sum([]byte("pool")),
			CatalogueDigest: domain.Sum([]byte("catalogue")),
			OperatorKey:     programme.OperatorKey(w.Secrets.Current()),
			PlanKeyRoot:     plan.KeyRoot(w.Secrets.Current(), c.Payload.Nonce, first, 30),
			Nonce:           c.Payload.Nonce,
			IssuedAt:        issued,
		},
	}
	if diff := cmp.Diff(want, c.Payload); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
	if want := issued.Add(15 * time.Minute); !c.ExpiresAt.Equal(want) {
		t.Errorf("expires at %s, want %s", c.ExpiresAt, want)
	}
	message, err := c.Payload.Message()
	if err != nil || message != c.Message || !strings.HasSuffix(message, c.PayloadHash.String()) {
		t.Errorf("message = %q, %v, want that of the payload with hash %s", c.Message, err, c.PayloadHash)
	}
	if again := w.challenge(t, request()); again.Payload.Nonce == c.Payload.Nonce || again.Payload.Nonce.IsZero() {
		t.Errorf("the next challenge has nonce %s, want a new one", again.Payload.Nonce)
	}
	if got := len(w.records(t)); got != before || w.hosts.asked != 0 {
		t.Errorf("%d records and %d hosts asked after a challenge, want %d and none", got, w.hosts.asked, before)
	}
}

func TestChallengeRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*consent.Request)) consent.Request {
		r := request()
		change(&r)
		return r
	}
	for _, tt := range []struct {
		name    string
		world   func(*testing.T) *world
		request consent.Request
		err     error
	}{
		{"beyond a limit", newWorld, with(func(r *consent.Request) { r.MaxPerDay = 25 }), domain.ErrInvalid},
		{"nothing asked for", newWorld, consent.Request{}, domain.ErrInvalid},
		{"an endpoint that may not be shopped", newWorld, with(func(r *consent.Request) {
			r.Endpoints[1].URL = "http://tools.agent.example/mcp"
		}), domain.ErrInvalid},
		{"an agent that is not registered", newWorld, with(func(r *consent.Request) { r.Agent = "build:7" }), domain.ErrNotFound},
		{"an agent without a certificate", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			wantErr(t, "withdraw", w.Agent(t.Context(), meta("void"), ref, agent.WithdrawCertificate{Certificate: "crt_1"}), nil)
			return w
		}, request(), domain.ErrForbidden},
		{"an agent with an active consent", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.grant(t)
			return w
		}, request(), domain.ErrConflict},
		{"no terms are published", func(t *testing.T) *world {
			t.Helper()
			w := emptyWorld()
			if err := w.Agent(t.Context(), meta("register"), ref, agent.Register{Agent: ref, Wallet: owner, Demo: true}); err != nil {
				t.Fatal(err)
			}
			return w
		}, request(), domain.ErrUnavailable},
		{"no randomness", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.Rand = iotest.ErrReader(errBroken)
			return w
		}, request(), errBroken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tt.world(t)
			before := len(w.records(t))
			c, err := w.Challenge(t.Context(), tt.request)
			wantErr(t, "Challenge", err, tt.err)
			if c.ChallengeID != "" || c.Message != "" {
				t.Errorf("Challenge gives %+v along with its error", c)
			}
			if got := len(w.records(t)); got != before {
				t.Errorf("%d records, want %d", got, before)
			}
		})
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		nonce domain.Hash
	}{
		{"with the signature as entropy", domain.Hash{}},
		{"with a nonce of the owner's", ownerNonce},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := request()
			if !tt.nonce.IsZero() {
				r.OwnerNonceHash = domain.Sum(tt.nonce[:])
			}
			c := w.challenge(t, r)
			sig := sign(c.Message, ownerKey)
			before := len(w.records(t))
			id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, tt.nonce)
			if want := plan.ConsentID(c.Payload.Nonce); err != nil || id != want {
				t.Fatalf("Grant = %s, %v, want %s", id, err, want)
			}
			want := []domain.Type{"consent.granted.v1", "consent.host_proven.v1", "consent.host_proven.v1"}
			if diff := cmp.Diff(want, w.types(t, consent.StreamOf(ref))); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			granted, err := w.ActiveConsent(t.Context(), ref)
			wantGranted := consent.Granted{
				Consent: id, Payload: c.Payload, Signature: sig, Verified: consent.Verification{Method: consent.ByKey}, OwnerNonce: tt.nonce,
			}
			if diff := cmp.Diff(wantGranted, granted); err != nil || diff != "" {
				t.Errorf("ActiveConsent, %v (-want +got):\n%s", err, diff)
			}
			added := w.records(t)[before:]
			for _, r := range added {
				if r.Actor != "owner:"+owner.String() || r.Cause != added[0].Cause || r.Cause.Command == "" {
					t.Errorf("%s is by %s because of %v", r.Type, r.Actor, r.Cause)
				}
			}
			methods := []consent.ProofMethod{consent.ByIdentity, consent.ByDocument}
			for i, r := range added[1:] {
				e, err := commands.Catalog().Decode(r.Type, r.Data)
				want := consent.HostProven{Consent: id, Endpoint: consent.EndpointID(i), Method: methods[i]}
				if diff := cmp.Diff(domain.Event(want), e); err != nil || diff != "" {
					t.Errorf("proof %d, %v (-want +got):\n%s", i, err, diff)
				}
			}
			if w.hosts.asked != 2 {
				t.Errorf("%d hosts asked, want both", w.hosts.asked)
			}
			if !w.gate.send(id) {
				t.Error("no task gets through the gate of an active consent")
			}

			_, err = w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, tt.nonce)
			wantErr(t, "a second grant", err, domain.ErrConflict)
			if got := len(w.records(t)); got != before+3 || w.hosts.asked != 2 {
				t.Errorf("a second grant leaves %d records and asks %d hosts more", got-before-3, w.hosts.asked-2)
			}
		})
	}
}

func TestGrantInLastSecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.challenge(t, request())
	w.now = c.ExpiresAt
	if _, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{}); err != nil {
		t.Error(err)
	}
}

// Nothing that does not hold leaves a trace: no record, no question to a host, no
// open gate.
func TestGrantWithoutRight(t *testing.T) {
	t.Parallel()
	type attempt struct {
		id    string
		p     consent.Payload
		sig   consent.Signature
		nonce domain.Hash
	}
	for _, tt := range []struct {
		name    string
		prepare func(*testing.T, *world, *attempt)
		err     error
		code    domain.Code
	}{
		{"a forged challenge", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			other := *w.Service
			other.Secrets = commands.Keyring{domain.Sum([]byte("another operator's secret"))}
			if err := other.Programme(t.Context(), meta("their key"), programme.RegisterKey{Key: other.Secrets.Keys()[0]}); err != nil {
				t.Fatal(err)
			}
			c, err := other.Challenge(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			a.id = c.ChallengeID
		}, domain.ErrInvalid, domain.ChallengeForeign},
		{"a challenge cut short", func(_ *testing.T, _ *world, a *attempt) { a.id = a.id[:len(a.id)-1] }, domain.ErrInvalid, domain.ChallengeForeign},
		{"a challenge that was altered", func(_ *testing.T, _ *world, a *attempt) {
			forged := []byte(a.id)
			forged[20] ^= 1
			a.id = string(forged)
		}, domain.ErrInvalid, domain.ChallengeForeign},
		{"no challenge", func(_ *testing.T, _ *world, a *attempt) { a.id = "" }, domain.ErrInvalid, domain.ChallengeForeign},
		{"a challenge to revoke", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			hash, err := a.p.Hash()
			if err != nil {
				t.Fatal(err)
			}
			a.id = consent.NewChallengeKey(w.Secrets.Current()).ID(consent.ToRevoke, consent.Challenge{
				Nonce: a.p.Nonce, Subject: hash, Expires: w.now.Add(time.Minute),
			})
		}, domain.ErrInvalid, domain.ChallengeForeign},
		{"an expired challenge", func(_ *testing.T, w *world, _ *attempt) { w.now = w.now.Add(consent.ChallengeLife) }, domain.ErrForbidden, domain.ChallengeExpired},
		{"the payload of another challenge", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			c := w.challenge(t, request())
			a.p, a.sig = c.Payload, sign(c.Message, ownerKey)
		}, domain.ErrInvalid, domain.PayloadChanged},
		{"the challenge of another payload", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			a.id = w.challenge(t, request()).ChallengeID
		}, domain.ErrInvalid, domain.PayloadChanged},
		{"another nonce than the challenge's", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			hash, err := a.p.Hash()
			if err != nil {
				t.Fatal(err)
			}
			a.id = consent.NewChallengeKey(w.Secrets.Current()).ID(consent.ToGrant, consent.Challenge{
				Nonce: domain.Hash{1}, Subject: hash, Expires: w.now.Add(time.Minute),
			})
		}, domain.ErrInvalid, domain.PayloadChanged},
		{"the signature of a stranger", func(t *testing.T, _ *world, a *attempt) {
			t.Helper()
			a.sig = signPayload(t, a.p, strangerKey)
		}, domain.ErrForbidden, domain.WrongSigner},
		{"the signature of another message", func(_ *testing.T, _ *world, a *attempt) {
			a.sig = sign("gm", ownerKey)
		}, domain.ErrForbidden, domain.WrongSigner},
		{"no signature", func(_ *testing.T, _ *world, a *attempt) { a.sig = nil }, domain.ErrInvalid, domain.BadSignature},
		{"a signature that was altered", func(_ *testing.T, _ *world, a *attempt) { a.sig[40] ^= 1 }, domain.ErrForbidden, domain.WrongSigner},
		{"an owner's nonce that was not committed to", func(_ *testing.T, _ *world, a *attempt) { a.nonce = ownerNonce }, domain.ErrInvalid, domain.OwnerNonceMismatch},
		{"without the owner's nonce committed to", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			r := request()
			r.OwnerNonceHash = domain.Sum(ownerNonce[:])
			c := w.challenge(t, r)
			*a = attempt{c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{}}
		}, domain.ErrInvalid, domain.OwnerNonceMismatch},
		{"another owner's nonce than committed to", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			r := request()
			r.OwnerNonceHash = domain.Sum(ownerNonce[:])
			c := w.challenge(t, r)
			*a = attempt{c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Sum(ownerNonce[:])}
		}, domain.ErrInvalid, domain.OwnerNonceMismatch},
		{"a payload that has no JSON", func(_ *testing.T, _ *world, a *attempt) {
			a.p.IssuedAt = a.p.IssuedAt.AddDate(10000, 0, 0)
		}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.challenge(t, request())
			a := attempt{c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{}}
			tt.prepare(t, w, &a)
			before := len(w.records(t))
			id, err := w.Grant(t.Context(), a.id, a.p, a.sig, a.nonce)
			if err == nil || tt.err != nil && !errors.Is(err, tt.err) || domain.CodeOf(err) != tt.code {
				t.Errorf("Grant: %v with code %q, want %v with code %q", err, domain.CodeOf(err), tt.err, tt.code)
			}
			if id != "" {
				t.Errorf("Grant = %q along with its error", id)
			}
			w.untouched(t, before, plan.ConsentID(a.p.Nonce))
		})
	}
}

func (w *world) untouched(t *testing.T, records int, id string) {
	t.Helper()
	if got := len(w.records(t)); got != records {
		t.Errorf("%d records, want %d", got, records)
	}
	if w.hosts.asked != 0 {
		t.Errorf("%d hosts were asked, want none", w.hosts.asked)
	}
	if w.gate.send(id) {
		t.Error("the gate is open")
	}
}

func signPayload(t *testing.T, p consent.Payload, key *secp256k1.PrivateKey) consent.Signature {
	t.Helper()
	text, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	return sign(text, key)
}

// Each field of the payload is bound by the challenge, even where the owner signs
// the changed one.
func TestGrantOfChangedPayload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*consent.Payload){
		"agent":         func(p *consent.Payload) { p.Agent = "build:43" },
		"endpoint":      func(p *consent.Payload) { p.Endpoints[0].URL = mcp },
		"endpoint kind": func(p *consent.Payload) { p.Endpoints[0].Kind = task.X402 },
		"endpoints":     func(p *consent.Payload) { p.Endpoints = p.Endpoints[:1] },
		"kinds":         func(p *consent.Payload) { p.Kinds = p.Kinds[:1] },
		"skills":        func(p *consent.Payload) { p.Skills = []string{"percent"} },
		"per day":       func(p *consent.Payload) { p.MaxPerDay++ },
		"per week":      func(p *consent.Payload) { p.MaxPerWeek-- },
		"payment": func(p *consent.Payload) {
			p.PaymentsAllowed, p.Payment = true, &consent.Payment{Network: consent.PaymentNetwork, MaxPerTask: "1", MaxPerMonth: "1"}
		},
		"operator key":     func(p *consent.Payload) { p.OperatorKey[0]++ },
		"chain":            func(p *consent.Payload) { p.Chain++ },
		"reveal delay":     func(p *consent.Payload) { p.RevealDelaySeconds++ },
		"validity":         func(p *consent.Payload) { p.ValidityDays++; p.LastDay++ },
		"owner nonce hash": func(p *consent.Payload) { p.OwnerNonceHash = domain.Hash{1} },
		"domain":           func(p *consent.Payload) { p.Domain = "karatum.org" },
		"owner":            func(p *consent.Payload) { p.Owner = eip191.AddressOf(strangerKey.PubKey()) },
		"days":             func(p *consent.Payload) { p.FirstDay--; p.LastDay-- },
		"last day":         func(p *consent.Payload) { p.LastDay++ },
		"terms version":    func(p *consent.Payload) { p.TermsVersion-- },
		"terms hash":       func(p *consent.Payload) { p.TermsHash[0]++ },
		"pool version":     func(p *consent.Payload) { p.PoolVersion-- },
		"pool hash":        func(p *consent.Payload) { p.PoolHash[0]++ },
		"catalogue":        func(p *consent.Payload) { p.CatalogueDigest[0]++ },
		"plan key root":    func(p *consent.Payload) { p.PlanKeyRoot[0]++ },
		"nonce":            func(p *consent.Payload) { p.Nonce[0]++ },
		"issued at":        func(p *consent.Payload) { p.IssuedAt = p.IssuedAt.Add(time.Second) },
		"less than a second": func(p *consent.Payload) {
			p.IssuedAt = p.IssuedAt.Add(1)
		},
		"time zone": func(p *consent.Payload) { p.IssuedAt = p.IssuedAt.In(time.FixedZone("", 3600)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.challenge(t, request())
			p := c.Payload
			p.Endpoints, p.Kinds = slices.Clone(p.Endpoints), slices.Clone(p.Kinds)
			change(&p)
			before := len(w.records(t))
			for what, sig := range map[string]consent.Signature{
				"signed as issued":  sign(c.Message, ownerKey),
				"signed as changed": signPayload(t, p, ownerKey),
			} {
				_, err := w.Grant(t.Context(), c.ChallengeID, p, sig, domain.Hash{})
				wantErr(t, what, err, domain.ErrInvalid)
			}
			w.untouched(t, before, plan.ConsentID(p.Nonce))
		})
	}
}

// A signed consent for a host that is not the owner's is on the record, and is
// not in force.
func TestGrantOnUnprovenHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hosts.owners = nil
	c := w.challenge(t, request())
	sig := sign(c.Message, ownerKey)
	id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, domain.Hash{})
	if want := plan.ConsentID(c.Payload.Nonce); id != want || domain.CodeOf(err) != domain.HostNotProven || !strings.Contains(err.Error(), "ep_1 (") {
		t.Fatalf("Grant = %s, %v, want %s refused for ep_1", id, err, want)
	}
	if w.gate.send(id) {
		t.Error("the gate of a refused consent is open")
	}
	if diff := cmp.Diff([]domain.Type{"consent.refused.v1"}, w.types(t, consent.StreamOf(ref))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	_, err = w.ActiveConsent(t.Context(), ref)
	wantErr(t, "ActiveConsent", err, domain.ErrNotFound)

	// The challenge is used; the next one may succeed.
	w.hosts.owners = map[string]eip191.Address{mcp: owner}
	_, err = w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, domain.Hash{})
	wantErr(t, "the same challenge again", err, domain.ErrConflict)
	w.grant(t)
}

// One owner, two agents, two consents.
func TestGrantForAnotherAgentOfTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.Agent(t.Context(), meta("register 7"), "build:7", agent.Register{Agent: "build:7", Wallet: owner, Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	first := w.grant(t)
	r := request()
	r.Agent = "build:7"
	// Each agent proves its endpoints for itself: the identity of the other does
	// not count.
	w.hosts.owners[a2a] = owner
	c := w.challenge(t, r)
	id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	if err != nil || id == first {
		t.Errorf("Grant = %s, %v, want a second consent", id, err)
	}
	if w.hosts.asked != 4 {
		t.Errorf("%d hosts asked, want two for each agent", w.hosts.asked)
	}
}

// A host that does not answer proves nothing either way, and keeps nobody waiting:
// the owner may try again.
func TestProofsOfSilentHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hosts.hang = true
		began := time.Now()
		c := w.challenge(t, request())
		before := len(w.records(t))
		id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
		if id != "" || domain.CodeOf(err) != domain.HostUnreachable {
			t.Errorf("Grant = %q, %v, and nothing is known of the host", id, err)
		}
		wantErr(t, "Grant", err, domain.ErrUnavailable)
		if got := len(w.records(t)); got != before {
			t.Errorf("%d records, want %d", got, before)
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("the host was waited for %s, want 15s", took)
		}
	})
}

func TestGrantLostReply(t *testing.T) {
	t.Parallel()
	for persisted, want := range map[bool]error{false: nil, true: domain.ErrConflict} {
		w := newWorld(t)
		c := w.challenge(t, request())
		sig := sign(c.Message, ownerKey)
		before := len(w.records(t))
		w.log.Fault = func(p bool) error {
			if p == persisted {
				return errBroken
			}
			return nil
		}
		_, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, domain.Hash{})
		wantErr(t, "the lost reply", err, errBroken)
		w.log.Fault = nil
		_, err = w.Grant(t.Context(), c.ChallengeID, c.Payload, sig, domain.Hash{})
		wantErr(t, "the repetition", err, want)
		if got := len(w.records(t)) - before; got != 3 {
			t.Errorf("%d records after a repetition, want one grant with its proofs", got)
		}
		if granted, err := w.ActiveConsent(t.Context(), ref); err != nil || !w.gate.send(granted.Consent) {
			t.Errorf("consent %s, %v is not in force behind an open gate", granted.Consent, err)
		}
	}
}

// An agent has one active consent, however many owners hurry.
func TestGrantRace(t *testing.T) {
	t.Parallel()
	const n = 8
	for name, same := range map[string]bool{"different challenges": false, "one challenge": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			challenges := make([]commands.Challenged, n)
			for i := range challenges {
				challenges[i] = w.challenge(t, request())
				if same {
					challenges[i] = challenges[0]
				}
			}
			errs := make([]error, n)
			begin := make(chan struct{})
			var wg sync.WaitGroup
			for i, c := range challenges {
				wg.Go(func() {
					<-begin
					_, errs[i] = w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
				})
			}
			close(begin)
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				wantErr(t, "a grant that comes second", err, domain.ErrConflict)
			}
			want := []domain.Type{"consent.granted.v1", "consent.host_proven.v1", "consent.host_proven.v1"}
			got := w.types(t, consent.StreamOf(ref))
			if diff := cmp.Diff(want, got[:min(3, len(got))]); diff != "" || won != 1 {
				t.Errorf("%d grants succeed, want 1; records (-want +got):\n%s", won, diff)
			}
			// Who came second with a challenge of his own is on record, unless he
			// lost the race for the stream too often.
			for _, typ := range got[3:] {
				if same || typ != "consent.refused.v1" {
					t.Errorf("%s behind the grant", typ)
				}
			}
		})
	}
}

// revocation asks for a challenge to revoke and signs it.
func (w *world) revocation(t *testing.T, id string, key *secp256k1.PrivateKey) (string, consent.Signature) {
	t.Helper()
	c, err := w.ChallengeRevoke(t.Context(), id, ref)
	if err != nil {
		t.Fatal(err)
	}
	return c.ChallengeID, sign(c.Message, key)
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.grant(t)
	before := len(w.records(t))
	c, err := w.ChallengeRevoke(t.Context(), id, ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{site + " asks to revoke", "Consent: " + id, "Agent: build:42", "Owner: " + owner.String(), "Issued at: 2026-10-16T09:30:00Z"} {
		if !strings.Contains(c.Message, line) {
			t.Errorf("message %q does not say %q", c.Message, line)
		}
	}
	if want := start.Truncate(time.Second).Add(15 * time.Minute); !c.ExpiresAt.Equal(want) {
		t.Errorf("expires at %s, want %s", c.ExpiresAt, want)
	}
	if got := len(w.records(t)); got != before || !w.gate.send(id) {
		t.Errorf("a challenge leaves %d records or shuts the gate", got-before)
	}

	passedDuring := true
	w.log.Fault = func(bool) error {
		passedDuring = w.gate.passes(id)
		return nil
	}
	w.now = c.ExpiresAt // its last second
	sig := sign(c.Message, ownerKey)
	wantErr(t, "Revoke", w.Revoke(t.Context(), id, ref, c.ChallengeID, sig), nil)
	if passedDuring {
		t.Error("the gate was still open when the revocation was appended")
	}
	if w.gate.send(id) {
		t.Error("a task gets through after the revocation")
	}
	all := w.records(t)
	last := all[len(all)-1]
	if len(all) != before+1 || last.Type != "consent.revoked.v1" || last.Actor != "owner:"+owner.String() {
		t.Errorf("%d records more, the last %s by %s, want one consent.revoked.v1 by the owner", len(all)-before, last.Type, last.Actor)
	}

	wantErr(t, "Revoke again", w.Revoke(t.Context(), id, ref, c.ChallengeID, sig), nil)
	_, err = w.ChallengeRevoke(t.Context(), id, ref)
	wantErr(t, "ChallengeRevoke of what is over", err, domain.ErrConflict)
	if got := len(w.records(t)); got != before+1 {
		t.Errorf("%d records after a second revocation, want %d", got, before+1)
	}
	_, err = w.ActiveConsent(t.Context(), ref)
	wantErr(t, "ActiveConsent", err, domain.ErrNotFound)

	// The agent is free for the next consent, with a gate of its own.
	if next := w.grant(t); next == id || !w.gate.send(next) || w.gate.send(id) {
		t.Errorf("the next consent is %s; its gate is open: %t, that of the first: %t", next, w.gate.send(next), w.gate.send(id))
	}
}

func TestChallengeRevokeRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.ChallengeRevoke(t.Context(), some, ref)
	wantErr(t, "before any consent", err, domain.ErrNotFound)
	_, err = w.ChallengeRevoke(t.Context(), "", ref)
	wantErr(t, "of nothing", err, domain.ErrNotFound)
	id := w.grant(t)
	before := len(w.records(t))
	_, err = w.ChallengeRevoke(t.Context(), some, ref)
	wantErr(t, "of another consent", err, domain.ErrNotFound)
	_, err = w.ChallengeRevoke(t.Context(), id, "build:7")
	wantErr(t, "of another agent", err, domain.ErrNotFound)
	w.Rand = iotest.ErrReader(errBroken)
	_, err = w.ChallengeRevoke(t.Context(), id, ref)
	wantErr(t, "without randomness", err, errBroken)
	if got := len(w.records(t)); got != before {
		t.Errorf("%d records, want %d", got, before)
	}
}

// Nobody but the owner closes a gate or ends a consent.
func TestRevokeWithoutRight(t *testing.T) {
	t.Parallel()
	type attempt struct {
		consent, challenge string
		agent              agent.Ref
		sig                consent.Signature
	}
	for _, tt := range []struct {
		name    string
		prepare func(*testing.T, *world, *attempt)
		err     error
	}{
		{"the signature of a stranger", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			a.challenge, a.sig = w.revocation(t, a.consent, strangerKey)
		}, domain.ErrForbidden},
		{"the signature of another challenge", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			a.challenge, _ = w.revocation(t, a.consent, ownerKey)
		}, domain.ErrForbidden},
		{"the signature of the grant", func(t *testing.T, w *world, a *attempt) {
			t.Helper()
			granted, err := w.ActiveConsent(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			a.sig = granted.Signature
		}, domain.ErrForbidden},
		{"no signature", func(_ *testing.T, _ *world, a *attempt) { a.sig = nil }, domain.ErrInvalid},
		{"no challenge", func(_ *testing.T, _ *world, a *attempt) { a.challenge = "" }, domain.ErrInvalid},
		{"a forged challenge", func(_ *testing.T, _ *world, a *attempt) {
			forged := []byte(a.challenge)
			forged[100] ^= 1
			a.challenge = string(forged)
		}, domain.ErrInvalid},
		{"a challenge to grant", func(_ *testing.T, w *world, a *attempt) {
			a.challenge = consent.NewChallengeKey(w.Secrets.Current()).ID(consent.ToGrant, consent.Challenge{
				Subject: consent.Revocation{Consent: a.consent, Agent: ref}.Subject(), Expires: w.now.Add(time.Minute),
			})
		}, domain.ErrInvalid},
		{"an expired challenge", func(_ *testing.T, w *world, _ *attempt) { w.now = w.now.Add(consent.ChallengeLife) }, domain.ErrForbidden},
		{"the challenge of another consent", func(_ *testing.T, _ *world, a *attempt) { a.consent = some }, domain.ErrInvalid},
		{"the challenge of another agent", func(_ *testing.T, _ *world, a *attempt) { a.agent = "build:7" }, domain.ErrInvalid},
		{"a consent that never was", func(_ *testing.T, w *world, a *attempt) {
			a.consent = some
			a.challenge = consent.NewChallengeKey(w.Secrets.Current()).ID(consent.ToRevoke, consent.Challenge{
				Subject: consent.Revocation{Consent: some, Agent: ref}.Subject(), Expires: w.now.Add(time.Minute),
			})
		}, domain.ErrNotFound},
		{"a gate that others hold", func(_ *testing.T, w *world, _ *attempt) { w.gate.fail = domain.ErrUnavailable }, domain.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.grant(t)
			a := attempt{consent: id, agent: ref}
			a.challenge, a.sig = w.revocation(t, id, ownerKey)
			tt.prepare(t, w, &a)
			before := len(w.records(t))
			wantErr(t, "Revoke", w.Revoke(t.Context(), a.consent, a.agent, a.challenge, a.sig), tt.err)
			if got := len(w.records(t)); got != before {
				t.Errorf("%d records, want %d", got, before)
			}
			if !w.gate.send(id) {
				t.Error("the gate is closed")
			}
			if active, err := w.ActiveConsent(t.Context(), ref); err != nil || active.Consent != id {
				t.Errorf("active consent = %s, %v, want %s", active.Consent, err, id)
			}
		})
	}
}

// Whether the revocation was stored or not when its answer was lost: the gate is
// closed, and the same signature sent again ends it with one record.
func TestRevokeLostReply(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{false, true} {
		w := newWorld(t)
		id := w.grant(t)
		challenge, sig := w.revocation(t, id, ownerKey)
		before := len(w.records(t))
		w.log.Fault = func(p bool) error {
			if p == persisted {
				return errBroken
			}
			return nil
		}
		wantErr(t, "the lost reply", w.Revoke(t.Context(), id, ref, challenge, sig), errBroken)
		if w.gate.send(id) {
			t.Error("the gate is open after an attempt to revoke")
		}
		w.log.Fault = nil
		wantErr(t, "the repetition", w.Revoke(t.Context(), id, ref, challenge, sig), nil)
		if got := len(w.records(t)) - before; got != 1 {
			t.Errorf("%d records after a repetition, want 1", got)
		}
	}
}

// Revocations at one time make one record, and all succeed.
func TestRevokeRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.grant(t)
	before := len(w.records(t))
	const n = 8
	var challenges [n]string
	var sigs [n]consent.Signature
	for i := range n {
		challenges[i], sigs[i] = w.revocation(t, id, ownerKey)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := w.Revoke(t.Context(), id, ref, challenges[i], sigs[i]); err != nil {
				t.Errorf("Revoke: %v", err)
			}
		})
	}
	wg.Wait()
	if got := len(w.records(t)) - before; got != 1 || w.gate.send(id) {
		t.Errorf("%d records, gate open: %t, want one record and a closed gate", got, w.gate.send(id))
	}
}

// A consent keeps the terms that were in force when it was asked for.
func TestGrantUnderEarlierTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.challenge(t, request())
	err := w.Programme(t.Context(), meta("publish 4"), programme.Publish{
		Terms: programme.TermsPublished{Version: 4, Hash: domain.Hash{4}},
		Pool:  programme.PoolPublished{Version: 2, Hash: domain.Sum([]byte("pool"))},
		Keys:  w.Secrets.Keys(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{}); err != nil {
		t.Fatal(err)
	}
	if granted, err := w.ActiveConsent(t.Context(), ref); err != nil || granted.Payload.TermsVersion != 3 {
		t.Errorf("terms version = %d, %v, want 3", granted.Payload.TermsVersion, err)
	}
}

func TestKnownAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known, err := w.KnownAgent(t.Context(), ref)
	if err != nil || !known.Registered || known.Wallet != owner || !known.VerifiedFor(a2a) {
		t.Errorf("KnownAgent = %+v, %v, want the agent as registered", known, err)
	}
	unknown, err := w.KnownAgent(t.Context(), "build:7")
	if err != nil || unknown.Registered {
		t.Errorf("KnownAgent of a stranger = %+v, %v, want the zero state", unknown, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.KnownAgent(done, ref)
	wantErr(t, "KnownAgent", err, context.Canceled)
}
