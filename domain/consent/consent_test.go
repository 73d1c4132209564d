package consent_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
)

var (
	ownerKey    = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{0x11}, 32))
	strangerKey = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{0x22}, 32))
	owner       = eip191.AddressOf(ownerKey.PubKey())

	issuedAt   = time.Date(2026, 10, 16, 9, 30, 0, 0, time.UTC)
	ownerNonce = domain.Sum([]byte("what the owner pasted"))
	byIdentity = consent.Proof{Method: consent.ByIdentity}
	byDocument = consent.Proof{Method: consent.ByDocument}
	unproven   = consent.Proof{Reason: "the host's document does not list the owner"}
)

// request is as an owner would make it, with nothing left to its default.
func request() consent.Request {
	return consent.Request{
		Agent: "build:42",
		Endpoints: []consent.Endpoint{
			{Kind: task.A2A, URL: "https://agent.example/a2a"},
			{Kind: task.MCP, URL: "https://tools.agent.example:8443/mcp"},
		},
		Kinds:              []task.Kind{task.A2A, task.MCP},
		Skills:             []string{"unit-convert", "Date arithmetic"},
		MaxPerDay:          12,
		MaxPerWeek:         60,
		Payment:            &consent.Payment{Network: "eip155:84532", MaxPerTask: "10000", MaxPerMonth: "250000"},
		RevealDelaySeconds: 86400,
		ValidityDays:       90,
		OwnerNonceHash:     domain.Sum(ownerNonce[:]),
	}
}

// plain is a request without anything that may be left out.
func plain() consent.Request {
	r := request()
	r.Skills, r.Payment, r.OwnerNonceHash = nil, nil, domain.Hash{}
	return r
}

// payload returns r as the service would put it to the owner. n tells challenges
// apart.
func payload(r consent.Request, n byte) consent.Payload {
	first := consent.FirstDay(issuedAt.Add(consent.ChallengeLife))
	return consent.Payload{
		Request: r,
		Terms: consent.Terms{
			Domain:          "karatum.com",
			Owner:           owner,
			FirstDay:        first,
			LastDay:         first + r.ValidityDays - 1,
			TermsVersion:    1,
			TermsHash:       domain.Sum([]byte("terms")),
			PoolVersion:     1,
			PoolHash:        domain.Sum([]byte("pool")),
			CatalogueDigest: domain.Sum([]byte("catalogue")),
			PlanKeyRoot:     domain.Sum([]byte("plan keys")),
			Nonce:           domain.Sum([]byte("nonce"), []byte{n}),
			IssuedAt:        issuedAt,
		},
	}
}

func sign(t *testing.T, p consent.Payload, key *secp256k1.PrivateKey) eip191.Signature {
	t.Helper()
	text, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	return eip191.Sign(text, key)
}

// grant is a grant that nothing is wrong with.
func grant(t *testing.T, p consent.Payload) consent.Grant {
	t.Helper()
	g := consent.Grant{Payload: p, Signature: sign(t, p, ownerKey), Wallet: owner, Proofs: []consent.Proof{byIdentity, byDocument}}
	if !p.OwnerNonceHash.IsZero() {
		g.OwnerNonce = ownerNonce
	}
	return g
}

// granted is what follows a grant.
func granted(g consent.Grant) []consent.Event {
	id := plan.ConsentID(g.Payload.Nonce)
	return []consent.Event{
		consent.Granted{
			Consent: id, Payload: g.Payload, Signature: g.Signature,
			Verified: consent.Verification{Method: "eip191"}, OwnerNonce: g.OwnerNonce,
		},
		consent.HostProven{Consent: id, Endpoint: "ep_0", Method: consent.ByIdentity},
		consent.HostProven{Consent: id, Endpoint: "ep_1", Method: consent.ByDocument},
	}
}

func revoke(p consent.Payload, key *secp256k1.PrivateKey) consent.Revoke {
	r := consent.Revocation{
		Domain: "karatum.com", Consent: plan.ConsentID(p.Nonce), Agent: p.Agent, Owner: p.Owner,
		Nonce: domain.Sum([]byte("revoke")), IssuedAt: issuedAt.Add(time.Hour),
	}
	return consent.Revoke{
		Consent: r.Consent, Domain: r.Domain, Nonce: r.Nonce, IssuedAt: r.IssuedAt, Signature: eip191.Sign(r.Message(), key),
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	p := payload(plain(), 1)
	id := plan.ConsentID(p.Nonce)
	good := grant(t, p)
	next := grant(t, payload(plain(), 2))
	committed := grant(t, payload(request(), 1))
	with := func(g consent.Grant, change func(*consent.Grant)) consent.Grant {
		g.Payload.Endpoints = slices.Clone(g.Payload.Endpoints)
		change(&g)
		return g
	}

	type events = []consent.Event
	given := granted(good)
	refused := consent.Refused{
		Consent: id, Payload: p, Signature: good.Signature,
		Reason: "endpoint ep_1 (https://tools.agent.example:8443/mcp) is not proven: the host's document does not list the owner",
	}
	revoking := revoke(p, ownerKey)
	revoked := consent.Revoked{Consent: id, Nonce: revoking.Nonce, IssuedAt: revoking.IssuedAt, Signature: revoking.Signature}
	expired := consent.Ended{Consent: id, Reason: consent.Expired}
	lost := consent.HostLost{Consent: id, Endpoint: "ep_1", Reason: unproven.Reason}
	found := consent.HostProven{Consent: id, Endpoint: "ep_1", Method: consent.ByIdentity}
	check := func(proofs ...consent.Proof) consent.CheckHosts {
		return consent.CheckHosts{Consent: id, Proofs: proofs}
	}
	after := func(more ...consent.Event) events { return slices.Concat(given, more) }

	domaintest.Decide(t, consent.Decider, []domaintest.Case[consent.Command, consent.Event]{
		{Name: "grant", When: good, Then: given},
		{Name: "grant with a nonce of the owner's", When: committed, Then: granted(committed)},
		{Name: "grant on an unproven host", When: with(good, func(g *consent.Grant) {
			g.Proofs = []consent.Proof{byIdentity, unproven}
		}), Then: events{refused}},
		{Name: "grant by a stranger", When: with(good, func(g *consent.Grant) {
			g.Signature = sign(t, p, strangerKey)
		}), Err: domain.ErrForbidden},
		{Name: "grant by a stranger on an unproven host", When: with(good, func(g *consent.Grant) {
			g.Signature = sign(t, p, strangerKey)
			g.Proofs = []consent.Proof{byIdentity, unproven}
		}), Err: domain.ErrForbidden},
		{Name: "grant changed after it was signed", When: with(good, func(g *consent.Grant) {
			g.Payload.MaxPerDay++
		}), Err: domain.ErrForbidden},
		{Name: "grant redirected after it was signed", When: with(good, func(g *consent.Grant) {
			g.Payload.Endpoints[0].URL = "https://evil.example/a2a"
		}), Err: domain.ErrForbidden},
		{Name: "grant for an agent that changed hands", When: with(good, func(g *consent.Grant) {
			g.Wallet = eip191.AddressOf(strangerKey.PubKey())
		}), Err: domain.ErrForbidden},
		{Name: "grant for an agent of nobody", When: with(good, func(g *consent.Grant) {
			g.Wallet = eip191.Address{}
		}), Err: domain.ErrForbidden},
		{Name: "grant without a signature", When: with(good, func(g *consent.Grant) {
			g.Signature = eip191.Signature{}
		}), Err: domain.ErrInvalid},
		{Name: "grant with a v that is not canonical", When: with(good, func(g *consent.Grant) {
			g.Signature[64] -= 27
		}), Err: domain.ErrInvalid},
		{Name: "grant with another nonce than committed to", When: with(committed, func(g *consent.Grant) {
			g.OwnerNonce[31]++
		}), Err: domain.ErrInvalid},
		{Name: "grant without the nonce committed to", When: with(committed, func(g *consent.Grant) {
			g.OwnerNonce = domain.Hash{}
		}), Err: domain.ErrInvalid},
		{Name: "grant with a nonce that was not committed to", When: with(good, func(g *consent.Grant) {
			g.OwnerNonce = ownerNonce
		}), Err: domain.ErrInvalid},
		{Name: "grant without host proofs", When: with(good, func(g *consent.Grant) {
			g.Proofs = nil
		}), Err: domain.ErrInvalid},
		{Name: "grant with too few host proofs", When: with(good, func(g *consent.Grant) {
			g.Proofs = g.Proofs[:1]
		}), Err: domain.ErrInvalid},
		{Name: "grant beyond the limits, rightly signed", When: func() consent.Grant {
			r := plain()
			r.MaxPerDay = consent.MaxPerDay + 1
			return grant(t, payload(r, 1))
		}(), Err: domain.ErrInvalid},
		{Name: "grant of one challenge twice", Given: given, When: good, Err: domain.ErrConflict},
		{Name: "grant of one challenge after it was revoked", Given: after(revoked), When: good, Err: domain.ErrConflict},
		{Name: "grant of one challenge after it expired", Given: after(expired), When: good, Err: domain.ErrConflict},
		{Name: "grant of a challenge that was refused", Given: events{refused}, When: good, Err: domain.ErrConflict},
		{Name: "grant of another challenge after a refusal", Given: events{refused}, When: next, Then: granted(next)},
		{Name: "grant beside an active consent", Given: given, When: next, Err: domain.ErrConflict},
		{Name: "grant after a revocation", Given: after(revoked), When: next, Then: granted(next)},
		{Name: "grant after the end", Given: after(expired), When: next, Then: granted(next)},

		{Name: "host lost", Given: given, When: check(byIdentity, unproven), Then: events{lost}},
		{Name: "host still lost", Given: after(lost), When: check(byIdentity, unproven)},
		{Name: "host proven again", Given: after(lost), When: check(byIdentity, byIdentity), Then: events{found}},
		{Name: "host still proven", Given: given, When: check(byIdentity, byDocument)},
		{Name: "host proven by other means", Given: given, When: check(byDocument, byIdentity)},
		{Name: "both hosts lost", Given: given, When: check(unproven, unproven), Then: events{
			consent.HostLost{Consent: id, Endpoint: "ep_0", Reason: unproven.Reason}, lost,
		}},
		{Name: "host lost after the end", Given: after(expired), When: check(byIdentity, unproven)},
		{Name: "host proven before any consent", When: consent.CheckHosts{Proofs: []consent.Proof{byIdentity}}},
		{Name: "host proven anew under the next consent", Given: slices.Concat(after(lost, revoked), granted(next)), When: consent.CheckHosts{
			Consent: plan.ConsentID(next.Payload.Nonce), Proofs: []consent.Proof{byIdentity, byDocument},
		}},

		{Name: "revoke", Given: given, When: revoking, Then: events{revoked}},
		{Name: "revoke twice", Given: after(revoked), When: revoking},
		{Name: "revoke after the end", Given: after(expired), When: revoking},
		{Name: "revoke an earlier consent", Given: slices.Concat(after(revoked), granted(next)), When: revoking},
		{Name: "revoke by a stranger", Given: given, When: revoke(p, strangerKey), Err: domain.ErrForbidden},
		{Name: "revoke without a signature", Given: given, When: consent.Revoke{Consent: id}, Err: domain.ErrInvalid},
		{Name: "revoke with the signature of the grant", Given: given, When: func() consent.Revoke {
			r := revoking
			r.Signature = good.Signature
			return r
		}(), Err: domain.ErrForbidden},
		{Name: "revoke signed for another domain", Given: given, When: func() consent.Revoke {
			r := revoking
			r.Domain = "evil.example"
			return r
		}(), Err: domain.ErrForbidden},
		{Name: "revoke what was never granted", When: revoking, Err: domain.ErrNotFound},
		{Name: "revoke what was refused", Given: events{refused}, When: revoking, Err: domain.ErrNotFound},
		{Name: "revoke another consent", Given: granted(next), When: revoking, Err: domain.ErrNotFound},
		{Name: "revoke nothing", When: consent.Revoke{}, Err: domain.ErrNotFound},

		{Name: "end", Given: given, When: consent.End(expired), Then: events{expired}},
		{Name: "end twice", Given: after(expired), When: consent.End{Consent: id, Reason: consent.OwnerChanged}},
		{Name: "end after a revocation", Given: after(revoked), When: consent.End(expired)},
		{Name: "end another consent", Given: granted(next), When: consent.End(expired)},
		{Name: "end nothing", When: consent.End{Reason: consent.Expired}},
	})
}

// Admit says before any host is asked what Decide would say with all hosts proven.
func TestAdmit(t *testing.T) {
	t.Parallel()
	g := grant(t, payload(plain(), 1))
	g.Proofs = nil
	var s consent.State
	if err := s.Admit(g); err != nil {
		t.Errorf("Admit: %v", err)
	}
	if err := consent.Decider.Replay(granted(g)...).Admit(g); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Admit of a second grant: %v, want ErrConflict", err)
	}
	g.Signature = sign(t, g.Payload, strangerKey)
	if err := s.Admit(g); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Admit of a stranger: %v, want ErrForbidden", err)
	}
}

// Whoever picks the encoding of a signature picks no seed.
func TestEntropyOfEveryEncoding(t *testing.T) {
	t.Parallel()
	p := payload(plain(), 1)
	canonical := sign(t, p, ownerKey)
	rs := hex.EncodeToString(canonical[:64])
	compact := canonical
	compact[32] |= (canonical[64] - 27) << 7 // EIP-2098
	parity := hex.EncodeToString([]byte{canonical[64] - 27})
	v := hex.EncodeToString([]byte{canonical[64]})
	want := consent.Granted{Payload: p, Signature: canonical}.Entropy()
	if len(want) != 65 || want[64] != 27 && want[64] != 28 {
		t.Fatalf("entropy = %x, want r ‖ s ‖ v", want)
	}
	for name, text := range map[string]string{
		"v 27 or 28": "0x" + rs + v,
		"v 0 or 1":   "0x" + rs + parity,
		"compact":    "0x" + hex.EncodeToString(compact[:64]),
		"upper case": "0x" + string(bytes.ToUpper([]byte(rs+v))),
	} {
		sig, err := eip191.ParseSignature(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := (consent.Granted{Payload: p, Signature: sig}).Entropy(); !bytes.Equal(got, want) {
			t.Errorf("%s: entropy = %x, want %x", name, got, want)
		}
	}
	// With (r, s) the pair (r, n−s) recovers to the same signer: it is refused.
	var s secp256k1.ModNScalar
	s.SetByteSlice(canonical[32:64])
	high := s.Negate().Bytes()
	twin := slices.Concat(canonical[:32], high[:], []byte{55 - canonical[64]})
	if _, err := eip191.ParseSignature("0x" + hex.EncodeToString(twin)); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("the twin with a high s: %v, want ErrInvalid", err)
	}
}

// The commitment line alone decides: with it no signature reaches a seed.
func TestEntropyOfCommittedNonce(t *testing.T) {
	t.Parallel()
	g := consent.Granted{Payload: payload(request(), 1), OwnerNonce: ownerNonce, Signature: eip191.Signature{1}}
	if got := g.Entropy(); !bytes.Equal(got, ownerNonce[:]) {
		t.Errorf("entropy = %x, want the nonce %s", got, ownerNonce)
	}
	g.Payload.OwnerNonceHash = domain.Hash{}
	if got := g.Entropy(); !bytes.Equal(got, g.Signature[:]) {
		t.Errorf("entropy without the line = %x, want the signature", got)
	}
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	if got := consent.StreamOf("build:42"); got != "consent/build:42" {
		t.Errorf("StreamOf(build:42) = %s, want consent/build:42", got)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, consent.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, consent.Events, os.DirFS("testdata"))
}

// The examples hold true signatures: as long as they verify, so does every
// consent that was signed in this form of the message.
func TestExamplesAreSigned(t *testing.T) {
	t.Parallel()
	event := func(typ domain.Type) domain.Event {
		data, err := os.ReadFile("testdata/" + string(typ) + ".json")
		if err != nil {
			t.Fatal(err)
		}
		e, err := domain.NewCatalog(consent.Events).Decode(typ, data)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	signed := func(what, text string, by eip191.Address, sig eip191.Signature) {
		if signer, err := eip191.Recover(text, sig); err != nil || signer != by {
			t.Errorf("%s was signed by %s, %v, want %s", what, signer, err, by)
		}
	}
	granted := event("consent.granted.v1").(consent.Granted)
	text, err := granted.Payload.Message()
	if err != nil {
		t.Fatal(err)
	}
	signed("the grant", text, granted.Payload.Owner, granted.Signature)
	if got := plan.ConsentID(granted.Payload.Nonce); got != granted.Consent {
		t.Errorf("the consent is %s, want %s", granted.Consent, got)
	}
	if got := domain.Sum(granted.OwnerNonce[:]); got != granted.Payload.OwnerNonceHash {
		t.Errorf("H(owner nonce) = %s, want %s", got, granted.Payload.OwnerNonceHash)
	}

	refused := event("consent.refused.v1").(consent.Refused)
	text, err = refused.Payload.Message()
	if err != nil {
		t.Fatal(err)
	}
	signed("what was refused", text, refused.Payload.Owner, refused.Signature)

	revoked := event("consent.revoked.v1").(consent.Revoked)
	signed("the revocation", consent.Revocation{
		Domain: granted.Payload.Domain, Consent: revoked.Consent, Agent: granted.Payload.Agent, Owner: granted.Payload.Owner,
		Nonce: revoked.Nonce, IssuedAt: revoked.IssuedAt,
	}.Message(), granted.Payload.Owner, revoked.Signature)
}
