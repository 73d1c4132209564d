package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
)

const (
	// token is an agent on a registry of the home chain.
	token = agent.Ref("erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0")
	far   = agent.Ref("erc8004:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432:7")
)

// chains are the chains of a world: one, with contract wallets that accept what
// their keys signed behind a byte of their own, and one token.
type chains struct {
	mu      sync.Mutex
	wallets map[eip191.Address]eip191.Address // to the key of each
	owner   eip191.Address                    // of the token
	down    bool
	asked   int
}

// head is where the chain is read.
var head = agent.Block{Chain: commands.HomeChain, Number: 41_022_311, Hash: agent.BlockHash(domain.Sum([]byte("head")))}

func (c *chains) ask(chain uint64) error {
	c.asked++
	if chain != commands.HomeChain {
		return commands.NoNode(chain)
	}
	if c.down {
		return fmt.Errorf("node of chain %d: %w", chain, domain.ErrUnavailable)
	}
	return nil
}

func (c *chains) VerifyWallet(_ context.Context, chain uint64, owner eip191.Address, hash domain.Hash, sig []byte) (consent.Verification, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ask(chain); err != nil {
		return consent.Verification{}, err
	}
	key, ok := c.wallets[owner]
	if !ok || string(sig) != string(walletSignature(hash, key)) {
		return consent.Verification{}, fmt.Errorf("not accepted: %w", domain.ErrForbidden)
	}
	return consent.Verification{Method: consent.ByWallet, At: head}, nil
}

// walletSignature is what a wallet of the fake chain accepts: longer than any of a
// plain key.
func walletSignature(hash domain.Hash, key eip191.Address) consent.Signature {
	h := domain.Sum(hash[:], key[:])
	return append(consent.Signature(strings.Repeat("wallet", 12)), h[:]...)
}

func (c *chains) OwnerOf(_ context.Context, t agent.Token) (agent.Ownership, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ask(t.Chain); err != nil {
		return agent.Ownership{}, err
	}
	return agent.Ownership{Owner: c.owner, At: head}, nil
}

func (c *chains) transfer(to eip191.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = to
}

// wallet is a contract wallet that a key controls.
var (
	wallet    = eip191.Address{0xc0, 0xde}
	walletKey = eip191.Address{0xab}
)

// withChains gives a world a chain, and the agent a contract wallet for an owner.
func withChains(t *testing.T) (*world, *chains) {
	t.Helper()
	w := newWorld(t)
	c := &chains{wallets: map[eip191.Address]eip191.Address{wallet: walletKey}, owner: owner}
	w.Chains = c
	err := errors.Join(
		w.Agent(t.Context(), meta("sell"), ref, agent.ChangeOwner{To: wallet, Reason: "sold"}),
		w.Agent(t.Context(), meta("token"), token, agent.Register{Agent: token, Wallet: owner, Demo: true, At: head}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.hosts.owners = map[string]eip191.Address{a2a: wallet, mcp: wallet}
	return w, c
}

func committed() consent.Request {
	r := request()
	r.OwnerNonceHash = domain.Sum(ownerNonce[:])
	return r
}

func byWallet(message string) consent.Signature {
	return walletSignature(eip191.Hash(message), walletKey)
}

// A contract wallet gives a consent and takes it back.
func TestContractWallet(t *testing.T) {
	t.Parallel()
	w, _ := withChains(t)
	c := w.challenge(t, committed())
	id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, byWallet(c.Message), ownerNonce)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := w.ActiveConsent(t.Context(), ref)
	want := consent.Granted{
		Consent: id, Payload: c.Payload, Signature: byWallet(c.Message),
		Verified: consent.Verification{Method: consent.ByWallet, At: head}, OwnerNonce: ownerNonce,
	}
	if diff := cmp.Diff(want, granted); err != nil || diff != "" {
		t.Errorf("ActiveConsent, %v (-want +got):\n%s", err, diff)
	}
	if got := granted.Entropy(); string(got) != string(ownerNonce[:]) {
		t.Errorf("entropy = %x, want the nonce", got)
	}

	r, err := w.ChallengeRevoke(t.Context(), id, ref)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Revoke by a stranger", w.Revoke(t.Context(), id, ref, r.ChallengeID, sign(r.Message, strangerKey)), domain.ErrForbidden)
	if !w.gate.send(id) {
		t.Fatal("a stranger closed the gate")
	}
	wantErr(t, "Revoke", w.Revoke(t.Context(), id, ref, r.ChallengeID, byWallet(r.Message)), nil)
	if w.gate.send(id) {
		t.Error("the gate is open after the revocation")
	}
	all := w.records(t)
	e, err := commands.Catalog().Decode(all[len(all)-1].Type, all[len(all)-1].Data)
	if revoked, ok := e.(consent.Revoked); err != nil || !ok || revoked.Verified.At != head {
		t.Errorf("the last record is %+v, %v, want a revocation verified at the head", e, err)
	}
}

// What does not hold of a contract wallet leaves no trace, and says by its code
// what to do about it.
func TestContractWalletWithoutRight(t *testing.T) {
	t.Parallel()
	type attempt struct {
		request consent.Request
		sign    func(message string) consent.Signature
		nonce   domain.Hash
	}
	for _, tt := range []struct {
		name    string
		prepare func(*world, *chains, *attempt)
		kind    error
		code    domain.Code
	}{
		{"a wallet of this chain, without a nonce", func(_ *world, _ *chains, a *attempt) {
			a.request, a.nonce = request(), domain.Hash{}
		}, domain.ErrInvalid, domain.OwnerNonceMissing},
		{"a wallet that does not open its nonce", func(_ *world, _ *chains, a *attempt) {
			a.nonce = domain.Hash{}
		}, domain.ErrInvalid, domain.OwnerNonceMismatch},
		{"no node of any chain", func(w *world, _ *chains, _ *attempt) { w.Chains = nil }, domain.ErrInvalid, domain.ChainNotConfigured},
		{"no node of this chain", func(w *world, _ *chains, _ *attempt) { w.Chain = 10 }, domain.ErrInvalid, domain.ChainNotConfigured},
		{"a node that is down", func(_ *world, c *chains, _ *attempt) { c.down = true }, domain.ErrUnavailable, domain.ChainUnavailable},
		{"a wallet that does not accept", func(_ *world, c *chains, _ *attempt) {
			c.wallets[wallet] = eip191.Address{1}
		}, domain.ErrForbidden, domain.WrongSigner},
		{"no wallet at the owner's address", func(_ *world, c *chains, _ *attempt) { delete(c.wallets, wallet) }, domain.ErrForbidden, domain.WrongSigner},
		{"the plain key of a stranger", func(_ *world, _ *chains, a *attempt) {
			a.sign = func(m string) consent.Signature { return sign(m, strangerKey) }
		}, domain.ErrForbidden, domain.WrongSigner},
		{"the plain key of a stranger, without a nonce and a node", func(w *world, _ *chains, a *attempt) {
			w.Chains, a.request, a.nonce = nil, request(), domain.Hash{}
			a.sign = func(m string) consent.Signature { return sign(m, strangerKey) }
		}, domain.ErrForbidden, domain.WrongSigner},
		{"the plain key of a stranger, without a nonce, and the node is down", func(_ *world, c *chains, a *attempt) {
			c.down, a.request, a.nonce = true, request(), domain.Hash{}
			a.sign = func(m string) consent.Signature { return sign(m, strangerKey) }
		}, domain.ErrForbidden, domain.WrongSigner},
		{"63 bytes", func(_ *world, _ *chains, a *attempt) {
			a.sign = func(m string) consent.Signature { return sign(m, strangerKey)[:63] }
		}, domain.ErrInvalid, domain.BadSignature},
		{"another text", func(_ *world, _ *chains, a *attempt) {
			a.sign = func(m string) consent.Signature { return byWallet(m + "\n") }
		}, domain.ErrForbidden, domain.WrongSigner},
		{"lines that end in CR LF", func(_ *world, _ *chains, a *attempt) {
			a.sign = func(m string) consent.Signature { return byWallet(strings.ReplaceAll(m, "\n", "\r\n")) }
		}, domain.ErrForbidden, domain.WrongSigner},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := withChains(t)
			a := attempt{committed(), byWallet, ownerNonce}
			tt.prepare(w, c, &a)
			ch := w.challenge(t, a.request)
			before := len(w.records(t))
			id, err := w.Grant(t.Context(), ch.ChallengeID, ch.Payload, a.sign(ch.Message), a.nonce)
			if id != "" || !errors.Is(err, tt.kind) || domain.CodeOf(err) != tt.code {
				t.Errorf("Grant = %q, %v with code %q, want %v with code %q", id, err, domain.CodeOf(err), tt.kind, tt.code)
			}
			w.untouched(t, before, plan.ConsentID(ch.Payload.Nonce))
		})
	}
}

// A plain key is as good as ever where there is no node, and its owner may commit
// to a nonce.
func TestPlainKeyNeedsNoChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := &chains{down: true}
	w.Chains = c
	ch := w.challenge(t, committed())
	if _, err := w.Grant(t.Context(), ch.ChallengeID, ch.Payload, sign(ch.Message, ownerKey), ownerNonce); err != nil || c.asked != 0 {
		t.Errorf("Grant: %v, and the chain was asked %d times, want never", err, c.asked)
	}
}

// What was signed for another domain or chain, in another text or before another
// service holds nowhere else, and leaves no trace.
func TestGrantElsewhere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		service func(s commands.Service) commands.Service // that issues the challenge
		message func(string) string                       // that is signed
		kind    error
		code    domain.Code
	}{
		{"a challenge of a service for another domain", func(s commands.Service) commands.Service {
			s.Domain = "karatum.org"
			return s
		}, nil, domain.ErrInvalid, domain.WrongDomain},
		{"a challenge of a service on another chain", func(s commands.Service) commands.Service {
			s.Chain = 8453
			return s
		}, nil, domain.ErrInvalid, domain.WrongChain},
		{"a challenge of a service with another secret", func(s commands.Service) commands.Service {
			s.Secrets = commands.Keyring{domain.Sum([]byte("the second server's"))}
			return s
		}, nil, domain.ErrInvalid, domain.ChallengeForeign},
		{"a text for another domain", nil, func(m string) string {
			return strings.Replace(m, site, "karatum.org", 1)
		}, domain.ErrForbidden, domain.WrongSigner},
		{"a text for another chain", nil, func(m string) string {
			return strings.Replace(m, "eip155:84532", "eip155:1", 1)
		}, domain.ErrForbidden, domain.WrongSigner},
		{"lines that end in CR LF", nil, func(m string) string {
			return strings.ReplaceAll(m, "\n", "\r\n")
		}, domain.ErrForbidden, domain.WrongSigner},
		{"a line feed at the end", nil, func(m string) string { return m + "\n" }, domain.ErrForbidden, domain.WrongSigner},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			issuer := *w.Service
			if tt.service != nil {
				issuer = tt.service(issuer)
			}
			key := programme.RegisterKey{Key: issuer.Secrets.Keys()[0]}
			if err := issuer.Programme(t.Context(), meta("their key"), key); err != nil {
				t.Fatal(err)
			}
			c, err := issuer.Challenge(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			text := c.Message
			if tt.message != nil {
				text = tt.message(text)
			}
			before := len(w.records(t))
			id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(text, ownerKey), domain.Hash{})
			if id != "" || !errors.Is(err, tt.kind) || domain.CodeOf(err) != tt.code {
				t.Errorf("Grant = %q, %v with code %q, want %v with code %q", id, err, domain.CodeOf(err), tt.kind, tt.code)
			}
			w.untouched(t, before, plan.ConsentID(c.Payload.Nonce))
		})
	}
}

// A validly signed grant that is refused is on record with its cause. No host is
// asked where something else stands in the way.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		agent   agent.Ref
		between func(*testing.T, *world, *chains) // challenge and grant
		kind    error
		code    domain.Code
	}{
		{"the build was sold", ref, func(t *testing.T, w *world, _ *chains) {
			t.Helper()
			wantErr(t, "sell", w.Agent(t.Context(), meta("sell"), ref, agent.ChangeOwner{To: wallet}), nil)
		}, domain.ErrForbidden, domain.OwnerChanged},
		{"the token was sold", token, func(_ *testing.T, _ *world, c *chains) { c.transfer(wallet) }, domain.ErrForbidden, domain.OwnerChanged},
		{"the token was burnt", token, func(_ *testing.T, _ *world, c *chains) { c.transfer(eip191.Address{}) }, domain.ErrForbidden, domain.OwnerChanged},
		{"the certificate was withdrawn", ref, func(t *testing.T, w *world, _ *chains) {
			t.Helper()
			wantErr(t, "withdraw", w.Agent(t.Context(), meta("void"), ref, agent.WithdrawCertificate{Certificate: "crt_1"}), nil)
		}, domain.ErrForbidden, domain.NoCertificate},
		{"another consent came first", ref, func(t *testing.T, w *world, _ *chains) {
			t.Helper()
			w.grant(t)
			w.hosts.asked = 0
		}, domain.ErrConflict, domain.ActiveConsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := &chains{owner: owner}
			w.Chains = c
			wantErr(t, "register", w.Agent(t.Context(), meta("token"), token, agent.Register{Agent: token, Wallet: owner, Demo: true}), nil)
			r := request()
			r.Agent = tt.agent
			ch := w.challenge(t, r)
			tt.between(t, w, c)
			before := len(w.records(t))
			id, err := w.Grant(t.Context(), ch.ChallengeID, ch.Payload, sign(ch.Message, ownerKey), domain.Hash{})
			if id != plan.ConsentID(ch.Payload.Nonce) || !errors.Is(err, tt.kind) || domain.CodeOf(err) != tt.code {
				t.Errorf("Grant = %q, %v with code %q, want %v with code %q", id, err, domain.CodeOf(err), tt.kind, tt.code)
			}
			all := w.records(t)
			if len(all) != before+1 || all[before].Type != "consent.refused.v1" {
				t.Errorf("%d records more, want one refusal", len(all)-before)
			}
			if w.hosts.asked != 0 || w.gate.send(id) {
				t.Errorf("%d hosts were asked, gate open: %t", w.hosts.asked, w.gate.send(id))
			}
			// The same grant again: its challenge is used.
			_, err = w.Grant(t.Context(), ch.ChallengeID, ch.Payload, sign(ch.Message, ownerKey), domain.Hash{})
			if domain.CodeOf(err) != domain.ChallengeUsed || len(w.records(t)) != before+1 {
				t.Errorf("again: %v, want a used challenge and no record", err)
			}
		})
	}
}

func TestChallengeOfToken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		agent   agent.Ref
		prepare func(*world, *chains)
		kind    error
		code    domain.Code
	}{
		{"as it is", token, func(*world, *chains) {}, nil, ""},
		{"without a node", token, func(w *world, _ *chains) { w.Chains = nil }, domain.ErrInvalid, domain.ChainNotConfigured},
		{"on another chain", far, func(*world, *chains) {}, domain.ErrInvalid, domain.ChainNotConfigured},
		{"with a node that is down", token, func(_ *world, c *chains) { c.down = true }, domain.ErrUnavailable, domain.ChainUnavailable},
		{"that was burnt", token, func(_ *world, c *chains) { c.transfer(eip191.Address{}) }, domain.ErrForbidden, domain.OwnerChanged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := withChains(t)
			wantErr(t, "register", w.Agent(t.Context(), meta("far"), far, agent.Register{Agent: far, Wallet: owner, Demo: true}), nil)
			tt.prepare(w, c)
			r := request()
			r.Agent = tt.agent
			before := len(w.records(t))
			ch, err := w.Challenge(t.Context(), r)
			if !errors.Is(err, tt.kind) || domain.CodeOf(err) != tt.code {
				t.Errorf("Challenge: %v with code %q, want %v with code %q", err, domain.CodeOf(err), tt.kind, tt.code)
			}
			if err == nil && (ch.Payload.Owner != owner || ch.Payload.Chain != commands.HomeChain) {
				t.Errorf("the challenge is for owner %s on chain %d", ch.Payload.Owner, ch.Payload.Chain)
			}
			w.untouched(t, before, plan.ConsentID(ch.Payload.Nonce))
		})
	}
}

// The owner that the registry names gives the consent, though another was known
// before; what is known follows.
func TestOwnerOnRegistry(t *testing.T) {
	t.Parallel()
	w, c := withChains(t)
	c.transfer(eip191.AddressOf(strangerKey.PubKey()))
	r := request()
	r.Agent = token
	ch := w.challenge(t, r)
	w.hosts.owners = map[string]eip191.Address{a2a: ch.Payload.Owner, mcp: ch.Payload.Owner}
	_, err := w.Grant(t.Context(), ch.ChallengeID, ch.Payload, sign(ch.Message, strangerKey), domain.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	granted, err := w.ActiveConsent(t.Context(), token)
	if err != nil || granted.OwnerCheck != head {
		t.Errorf("the owner was looked up at %+v, %v, want %+v", granted.OwnerCheck, err, head)
	}
	known, err := w.KnownAgent(t.Context(), token)
	if err != nil || known.Wallet != ch.Payload.Owner {
		t.Errorf("the known owner is %s, %v, want %s", known.Wallet, err, ch.Payload.Owner)
	}
	want := []domain.Type{"agent.registered.v1", "agent.owner_changed.v1"}
	if diff := cmp.Diff(want, w.types(t, agent.StreamOf(token))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A consent of the owner before does not stand in the way of the new one: it ends
// as soon as the registry is asked.
func TestNewOwnerReplacesConsent(t *testing.T) {
	t.Parallel()
	w, c := withChains(t)
	buyer := eip191.AddressOf(strangerKey.PubKey())
	r := request()
	r.Agent = token
	ours := w.challenge(t, r)
	w.hosts.owners = map[string]eip191.Address{a2a: owner, mcp: owner}
	first, err := w.Grant(t.Context(), ours.ChallengeID, ours.Payload, sign(ours.Message, ownerKey), domain.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Challenge(t.Context(), r)
	wantErr(t, "a challenge beside the owner's own consent", err, domain.ErrConflict)
	c.transfer(buyer)
	theirs := w.challenge(t, r)
	w.hosts.owners = map[string]eip191.Address{a2a: buyer, mcp: buyer}
	second, err := w.Grant(t.Context(), theirs.ChallengeID, theirs.Payload, sign(theirs.Message, strangerKey), domain.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	if w.gate.send(first) || !w.gate.send(second) {
		t.Errorf("the gate of the first is open: %t, that of the second: %t", w.gate.send(first), w.gate.send(second))
	}
	want := []domain.Type{
		"consent.granted.v1", "consent.host_proven.v1", "consent.host_proven.v1", "consent.ended.v1",
		"consent.granted.v1", "consent.host_proven.v1", "consent.host_proven.v1",
	}
	if diff := cmp.Diff(want, w.types(t, consent.StreamOf(token))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// When the command returns that sells an agent or withdraws its last certificate,
// nothing more is sent under its consent.
func TestUnfitAgentEndsConsent(t *testing.T) {
	t.Parallel()
	void := agent.WithdrawCertificate{Certificate: "crt_1", Reason: "issued in error"}
	sell := agent.ChangeOwner{To: wallet, Reason: "sold"}
	for _, tt := range []struct {
		name  string
		first agent.Command
		then  agent.Command
		want  consent.EndReason
	}{
		{"sold", nil, sell, consent.OwnerChanged},
		{"sold to its owner", nil, agent.ChangeOwner{To: owner, Reason: "a slip"}, ""},
		{"without a certificate", nil, void, consent.CertificateWithdrawn},
		{"with one certificate of two", agent.RecordCertificate{Certificate: "crt_2"}, void, ""},
		{"with another identity", nil, agent.WithdrawIdentity{URL: a2a, Reason: "moved"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.grant(t)
			if tt.first != nil {
				wantErr(t, "first", w.Agent(t.Context(), meta("first"), ref, tt.first), nil)
			}
			wantErr(t, "then", w.Agent(t.Context(), meta("then"), ref, tt.then), nil)
			if got := w.gate.send(id); got != (tt.want == "") {
				t.Errorf("the gate is open: %t", got)
			}
			all := w.records(t)
			last, err := commands.Catalog().Decode(all[len(all)-1].Type, all[len(all)-1].Data)
			if err != nil {
				t.Fatal(err)
			}
			ended, over := last.(consent.Ended)
			if over != (tt.want != "") || over && (ended.Consent != id || ended.Reason != tt.want) {
				t.Errorf("the last record is %+v, want the end %q", last, tt.want)
			}
			// Again, as after a lost answer: no news.
			wantErr(t, "again", w.Agent(t.Context(), meta("then"), ref, tt.then), nil)
			if got := len(w.records(t)); got != len(all) {
				t.Errorf("%d records after the same again, want %d", got, len(all))
			}
		})
	}
}

// A gate that cannot be closed leaves the consent in force, and the command can be
// repeated.
func TestUnfitAgentBehindHeldGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.grant(t)
	w.gate.fail = domain.ErrUnavailable
	sell := agent.ChangeOwner{To: wallet, Reason: "sold"}
	wantErr(t, "sell", w.Agent(t.Context(), meta("sell"), ref, sell), domain.ErrUnavailable)
	w.gate.fail = nil
	wantErr(t, "sell again", w.Agent(t.Context(), meta("sell"), ref, sell), nil)
	if w.gate.send(id) {
		t.Error("the gate is open")
	}
	wantErr(t, "EndIfUnfit", w.EndIfUnfit(t.Context(), meta("check"), ref), nil)
	want := []domain.Type{"consent.granted.v1", "consent.host_proven.v1", "consent.host_proven.v1", "consent.ended.v1"}
	if diff := cmp.Diff(want, w.types(t, consent.StreamOf(ref))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
