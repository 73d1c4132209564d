package consent_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
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
		PaymentsAllowed:    true,
		Payment:            &consent.Payment{Network: "eip155:84532", MaxPerTask: "10000", MaxPerMonth: "250000"},
		RevealDelaySeconds: 86400,
		ValidityDays:       90,
		OwnerNonceHash:     domain.Sum(ownerNonce[:]),
	}
}

// plain is a request without anything that may be left out.
func plain() consent.Request {
	r := request()
	r.Skills, r.PaymentsAllowed, r.Payment, r.OwnerNonceHash = nil, false, nil, domain.Hash{}
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
			Chain:           84532,
			FirstDay:        first,
			LastDay:         first + r.ValidityDays - 1,
			TermsVersion:    1,
			TermsHash:       domain.Sum([]byte("terms")),
			PoolVersion:     1,
			PoolHash:        domain.Sum([]byte("pool")),
			CatalogueDigest: domain.Sum([]byte("catalogue")),
			OperatorKey:     domain.Sum([]byte("operator key")),
			PlanKeyRoot:     domain.Sum([]byte("plan keys")),
			Nonce:           domain.Sum([]byte("nonce"), []byte{n}),
			IssuedAt:        issuedAt,
		},
	}
}

func sign(t *testing.T, p consent.Payload, key *secp256k1.PrivateKey) consent.Signature {
	t.Helper()
	text, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	return signText(text, key)
}

func signText(text string, key *secp256k1.PrivateKey) consent.Signature {
	sig := eip191.Sign(text, key)
	return sig[:]
}

// grant is a grant that nothing is wrong with.
func grant(t *testing.T, p consent.Payload) consent.Grant {
	t.Helper()
	g := consent.Grant{
		Payload: p, Signature: sign(t, p, ownerKey), Owned: agent.Ownership{Owner: owner}, Certified: true,
		Proofs: []consent.Proof{byIdentity, byDocument},
	}
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
			Verified: consent.Verification{Method: consent.ByKey}, OwnerCheck: g.Owned.At, OwnerNonce: g.OwnerNonce,
		},
		consent.HostProven{Consent: id, Endpoint: "ep_0", Method: consent.ByIdentity},
		consent.HostProven{Consent: id, Endpoint: "ep_1", Method: consent.ByDocument},
	}
}

func revoke(p consent.Payload, key *secp256k1.PrivateKey) consent.Revoke {
	r := p.Revocation(domain.Sum([]byte("revoke")), issuedAt.Add(time.Hour))
	return consent.Revoke{Consent: r.Consent, Nonce: r.Nonce, IssuedAt: r.IssuedAt, Signature: signText(r.Message(), key)}
}

// at is a block of the chain that payloads name.
var at = agent.Block{Chain: 84532, Number: 41_022_311, Hash: agent.BlockHash(domain.Sum([]byte("block")))}

// byWallet is a grant that a contract wallet signed in its own way.
func byWallet(t *testing.T, p consent.Payload, method consent.Method) consent.Grant {
	t.Helper()
	g := grant(t, p)
	g.Signature = bytes.Repeat([]byte{0x64, 0x92}, 100)
	g.Verified = consent.Verification{Method: method, At: at}
	return g
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
	refusal := func(cause consent.Cause, reason string) consent.Refused {
		return consent.Refused{
			Consent: id, Payload: p, Signature: good.Signature, Verified: consent.Verification{Method: consent.ByKey}, Cause: cause, Reason: reason,
		}
	}
	refused := refusal(consent.HostUnproven,
		"endpoint ep_1 (https://tools.agent.example:8443/mcp) is not proven: the host's document does not list the owner")
	revoking := revoke(p, ownerKey)
	revoked := consent.Revoked{
		Consent: id, Nonce: revoking.Nonce, IssuedAt: revoking.IssuedAt, Signature: revoking.Signature,
		Verified: consent.Verification{Method: consent.ByKey},
	}
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
		{Name: "grant by a contract wallet", When: byWallet(t, committed.Payload, consent.ByWallet), Then: func() events {
			g := byWallet(t, committed.Payload, consent.ByWallet)
			list := granted(g)
			list[0] = consent.Granted{Consent: id, Payload: g.Payload, Signature: g.Signature, Verified: g.Verified, OwnerNonce: g.OwnerNonce}
			return list
		}()},
		{Name: "grant by a contract wallet that is not deployed", When: byWallet(t, committed.Payload, consent.ByFactory), Then: func() events {
			g := byWallet(t, committed.Payload, consent.ByFactory)
			list := granted(g)
			list[0] = consent.Granted{Consent: id, Payload: g.Payload, Signature: g.Signature, Verified: g.Verified, OwnerNonce: g.OwnerNonce}
			return list
		}()},
		{Name: "grant by a contract wallet without a nonce", When: byWallet(t, p, consent.ByWallet), Err: domain.ErrInvalid},
		{Name: "grant by a contract wallet on another chain", When: with(byWallet(t, committed.Payload, consent.ByWallet), func(g *consent.Grant) {
			g.Verified.At.Chain = 1
		}), Err: domain.ErrInvalid},
		{Name: "grant by a contract wallet at no block", When: with(byWallet(t, committed.Payload, consent.ByWallet), func(g *consent.Grant) {
			g.Verified.At = agent.Block{Chain: 84532}
		}), Err: domain.ErrInvalid},
		{Name: "grant that no contract wallet was asked about", When: with(byWallet(t, committed.Payload, consent.ByWallet), func(g *consent.Grant) {
			g.Verified = consent.Verification{}
		}), Err: domain.ErrInvalid},
		{Name: "grant by a stranger who is said to be the key", When: with(good, func(g *consent.Grant) {
			g.Signature, g.Verified = sign(t, p, strangerKey), consent.Verification{Method: consent.ByKey}
		}), Err: domain.ErrForbidden},
		{Name: "grant by the key of an account that has a contract too", When: with(committed, func(g *consent.Grant) {
			g.Verified = consent.Verification{Method: consent.ByWallet, At: at}
		}), Then: granted(committed)},
		{Name: "grant by the owner on a registry", When: with(good, func(g *consent.Grant) {
			g.Owned.At = at
		}), Then: granted(with(good, func(g *consent.Grant) { g.Owned.At = at }))},
		{Name: "grant on an unproven host", When: with(good, func(g *consent.Grant) {
			g.Proofs = []consent.Proof{byIdentity, unproven}
		}), Then: events{refused}},
		{Name: "grant on a host that wants no tasks", When: with(good, func(g *consent.Grant) {
			g.Proofs = []consent.Proof{unproven, {Reason: "its host wants none", Cause: consent.HostStopped}}
		}), Then: events{refusal(consent.HostStopped,
			"endpoint ep_0 (https://agent.example/a2a) is not proven: the host's document does not list the owner; "+
				"endpoint ep_1 (https://tools.agent.example:8443/mcp) is not proven: its host wants none")}},
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
			g.Owned.Owner, g.Proofs = eip191.AddressOf(strangerKey.PubKey()), nil
		}), Then: events{refusal(consent.OtherOwner, "the agent belongs to 0x1563915e194D8CfBA1943570603F7606A3115508 now; ask for a new challenge")}},
		{Name: "grant for an agent that changed hands, by a stranger", When: with(good, func(g *consent.Grant) {
			g.Owned.Owner, g.Signature = eip191.AddressOf(strangerKey.PubKey()), sign(t, p, strangerKey)
		}), Err: domain.ErrForbidden},
		{Name: "grant for an agent of nobody", When: with(good, func(g *consent.Grant) {
			g.Owned.Owner = eip191.Address{}
		}), Then: events{refusal(consent.OtherOwner, "the agent belongs to nobody any more")}},
		{Name: "grant for an agent without a certificate", When: with(good, func(g *consent.Grant) {
			g.Certified, g.Proofs = false, nil
		}), Then: events{refusal(consent.Uncertified, "the agent holds no certificate")}},
		{Name: "grant without a signature", When: with(good, func(g *consent.Grant) {
			g.Signature = nil
		}), Err: domain.ErrInvalid},
		{Name: "grant with a v that is not canonical", When: with(good, func(g *consent.Grant) {
			g.Signature = slices.Clone(g.Signature)
			g.Signature[64] -= 27
		}), Then: given},
		{Name: "grant with another nonce than committed to", When: with(committed, func(g *consent.Grant) {
			g.OwnerNonce[31]++
		}), Err: domain.ErrInvalid},
		{Name: "grant without the nonce committed to", When: with(committed, func(g *consent.Grant) {
			g.OwnerNonce = domain.Hash{}
		}), Err: domain.ErrInvalid},
		{Name: "grant with a nonce that was not committed to", When: with(good, func(g *consent.Grant) {
			g.OwnerNonce = ownerNonce
		}), Err: domain.ErrInvalid},
		{Name: "grant without host proofs, as something else barred it before", When: with(good, func(g *consent.Grant) {
			g.Proofs = nil
		}), Err: domain.ErrConflict},
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
		{Name: "grant beside an active consent", Given: given, When: next, Then: events{consent.Refused{
			Consent: plan.ConsentID(next.Payload.Nonce), Payload: next.Payload, Signature: next.Signature,
			Verified: consent.Verification{Method: consent.ByKey}, Cause: consent.AlreadyActive,
			Reason: "the agent has an active consent, " + id + "; revoke it first",
		}}},
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
			other := p
			other.Domain = "evil.example"
			return revoke(other, ownerKey)
		}(), Err: domain.ErrForbidden},
		{Name: "revoke by a contract wallet", Given: given, When: func() consent.Revoke {
			r := revoking
			r.Signature, r.Verified = consent.Signature{1, 2, 3}, consent.Verification{Method: consent.ByWallet, At: at}
			return r
		}(), Then: events{consent.Revoked{
			Consent: id, Nonce: revoking.Nonce, IssuedAt: revoking.IssuedAt, Signature: consent.Signature{1, 2, 3},
			Verified: consent.Verification{Method: consent.ByWallet, At: at},
		}}},
		{Name: "revoke by a contract wallet on another chain", Given: given, When: func() consent.Revoke {
			r := revoking
			r.Signature, r.Verified = consent.Signature{1, 2, 3}, consent.Verification{Method: consent.ByWallet, At: at}
			r.Verified.At.Chain = 1
			return r
		}(), Err: domain.ErrInvalid},
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

// Whoever picks the encoding of a signature picks no seed: what Decide keeps, and
// so what all secrets follow from, is one form whatever came in.
func TestNoEncodingChangesASeed(t *testing.T) {
	t.Parallel()
	p := payload(plain(), 1)
	canonical := sign(t, p, ownerKey)
	parity := canonical[64] - 27
	compact := slices.Clone(canonical[:64])
	compact[32] |= parity << 7 // EIP-2098
	want := plan.DaySecret(domain.Sum([]byte("day key")), consent.Granted{Payload: p, Signature: canonical}.Entropy())
	for name, sig := range map[string]consent.Signature{
		"v 27 or 28": canonical,
		"v 0 or 1":   append(slices.Clone(canonical[:64]), parity),
		"compact":    compact,
	} {
		for _, text := range []string{sig.String(), "0x" + strings.ToUpper(sig.String()[2:])} {
			g := grant(t, p)
			var err error
			if g.Signature, err = consent.ParseSignature(text); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			events, err := consent.Decider.Decide(consent.State{}, g)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			kept, ok := events[0].(consent.Granted)
			if got := plan.DaySecret(domain.Sum([]byte("day key")), kept.Entropy()); !ok || got != want {
				t.Errorf("%s: the day secret is %s, want %s", name, got, want)
			}
		}
	}
	// With (r, s) the pair (r, n−s) recovers to the same signer: it is refused.
	var high secp256k1.ModNScalar
	high.SetByteSlice(canonical[32:64])
	s := high.Negate().Bytes()
	for name, sig := range map[string]consent.Signature{
		"the twin with a high s":  slices.Concat(canonical[:32], s[:], []byte{55 - canonical[64]}),
		"with v 29":               append(slices.Clone(canonical[:64]), 29),
		"with v of EIP-155":       append(slices.Clone(canonical[:64]), 37),
		"63 bytes":                canonical[:63],
		"a byte more":             append(slices.Clone(canonical), 0),
		"two signatures in a row": slices.Concat(canonical, canonical),
		"nothing":                 nil,
	} {
		g := grant(t, p)
		g.Signature = sig
		events, err := consent.Decider.Decide(consent.State{}, g)
		if len(events) > 0 || !errors.Is(err, domain.ErrInvalid) || domain.CodeOf(err) != domain.BadSignature {
			t.Errorf("%s: %v, %v, want a bad signature", name, events, err)
		}
	}
}

// A contract wallet's signature has many forms. None of them reaches a seed.
func TestNoWalletSignatureReachesASeed(t *testing.T) {
	t.Parallel()
	p := payload(request(), 1)
	for _, sig := range []consent.Signature{{1}, bytes.Repeat([]byte{7}, consent.MaxSignature)} {
		g := byWallet(t, p, consent.ByWallet)
		g.Signature = sig
		events, err := consent.Decider.Decide(consent.State{}, g)
		if err != nil {
			t.Fatal(err)
		}
		if got := events[0].(consent.Granted).Entropy(); !bytes.Equal(got, ownerNonce[:]) {
			t.Errorf("entropy = %x, want the nonce %s", got, ownerNonce)
		}
	}
}

func TestParseSignature(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"0x00", "0xABcd", "0x" + strings.Repeat("6492", consent.MaxSignature/2)} {
		sig, err := consent.ParseSignature(good)
		if err != nil || sig.String() != strings.ToLower(good) {
			t.Errorf("ParseSignature(%.20s) = %.20s, %v, want the same", good, sig, err)
		}
	}
	for name, bad := range map[string]string{
		"nothing": "", "no digits": "0x", "no prefix": "6492", "upper-case prefix": "0X6492", "half a byte": "0x649", "no hex": "0x64g2",
		"a blank": "0x64 92", "a line break": "0x6492\n", "a byte too many": "0x" + strings.Repeat("00", consent.MaxSignature+1),
	} {
		if sig, err := consent.ParseSignature(bad); !errors.Is(err, domain.ErrInvalid) || domain.CodeOf(err) != domain.BadSignature {
			t.Errorf("ParseSignature of %s = %v, %v, want a bad signature", name, sig, err)
		}
	}
	var stored consent.Signature
	if err := stored.UnmarshalText([]byte("0xAB")); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("UnmarshalText of upper case = %v, want ErrInvalid", err)
	}
}

// What became of a grant that its owner signed is an error of its own sort for its
// caller.
func TestRefusedErr(t *testing.T) {
	t.Parallel()
	for cause, want := range map[consent.Cause]struct {
		code domain.Code
		kind error
	}{
		consent.OtherOwner:    {domain.OwnerChanged, domain.ErrForbidden},
		consent.Uncertified:   {domain.NoCertificate, domain.ErrForbidden},
		consent.AlreadyActive: {domain.ActiveConsent, domain.ErrConflict},
		consent.HostUnproven:  {domain.HostNotProven, domain.ErrInvalid},
		consent.HostStopped:   {domain.HostStopped, domain.ErrForbidden},

		consent.OwnerNotListed:  {domain.OwnerNotListed, domain.ErrInvalid},
		consent.PrivateAddress:  {domain.PrivateAddress, domain.ErrInvalid},
		consent.ProofMalformed:  {domain.ProofMalformed, domain.ErrInvalid},
		consent.ProofMissing:    {domain.ProofMissing, domain.ErrInvalid},
		consent.ProofRedirected: {domain.ProofRedirected, domain.ErrInvalid},
		consent.ProofTooLarge:   {domain.ProofTooLarge, domain.ErrInvalid},
	} {
		err := consent.Refused{Cause: cause, Reason: "such is life"}.Err()
		if host := consent.HostCause(err); host != cause && (cause == consent.HostUnproven || host != consent.HostUnproven) {
			t.Errorf("HostCause of %s = %s", cause, host)
		}
		if domain.CodeOf(err) != want.code || !errors.Is(err, want.kind) || domain.Sentence(err) != "such is life" {
			t.Errorf("Err() of %s = %v with code %q, want %s", cause, err, domain.CodeOf(err), want.code)
		}
	}
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	known := agent.State{Registered: true, Wallet: owner, Certificates: map[string]bool{"crt_1": true}}
	sold, void, demo := known, known, known
	sold.Wallet = eip191.Address{1}
	void.Certificates = nil
	demo.Certificates, demo.Demo = nil, true
	for _, tt := range []struct {
		name  string
		known agent.State
		want  consent.EndReason
	}{
		{"as it was", known, ""},
		{"of another owner", sold, consent.OwnerChanged},
		{"without a certificate", void, consent.CertificateWithdrawn},
		{"a demo without a certificate", demo, ""},
	} {
		if got := consent.Unfit(tt.known, owner); got != tt.want {
			t.Errorf("Unfit of an agent %s = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The commitment line alone decides: with it no signature reaches a seed.
func TestEntropyOfCommittedNonce(t *testing.T) {
	t.Parallel()
	g := consent.Granted{Payload: payload(request(), 1), OwnerNonce: ownerNonce, Signature: consent.Signature{1}}
	if got := g.Entropy(); !bytes.Equal(got, ownerNonce[:]) {
		t.Errorf("entropy = %x, want the nonce %s", got, ownerNonce)
	}
	g.Payload.OwnerNonceHash = domain.Hash{}
	if got := g.Entropy(); !bytes.Equal(got, g.Signature) {
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
	signed := func(what, text string, by eip191.Address, sig consent.Signature) {
		if _, err := consent.VerifyPlain(text, by, sig); err != nil {
			t.Errorf("%s: %v", what, err)
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
	signed("the revocation", granted.Payload.Revocation(revoked.Nonce, revoked.IssuedAt).Message(), granted.Payload.Owner, revoked.Signature)
}
