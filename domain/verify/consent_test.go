package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
)

var (
	ownerKey    = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{0x11}, 32))
	strangerKey = secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{0x22}, 32))
	mine        = domain.Sum([]byte("the owner's nonce"))
	asked       = agent.Block{Chain: 84532, Number: 7, Hash: agent.BlockHash(domain.Sum([]byte("block")))}
)

type body = map[string]any

// payload is one that this very program could have asked for.
func payload() consent.Payload {
	issued := time.Date(2026, 10, 16, 9, 30, 0, 0, time.UTC)
	first := consent.FirstDay(issued.Add(consent.ChallengeLife))
	return consent.Payload{
		Request: consent.Request{
			Agent: "build:42", Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://agent.example/a2a"}}, Kinds: []task.Kind{task.A2A},
			MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 90, OwnerNonceHash: domain.Sum(mine[:]),
		},
		Terms: consent.Terms{
			Domain: "karatum.com", Owner: eip191.AddressOf(ownerKey.PubKey()), Chain: 84532, FirstDay: first, LastDay: first + 89,
			TermsVersion: terms.Current().Number, TermsHash: terms.Current().Hash(), PoolVersion: identity.Version(), PoolHash: identity.Hash(),
			CatalogueDigest: task.Digest(), OperatorKey: domain.Sum([]byte("key")), PlanKeyRoot: domain.Sum([]byte("root")),
			Nonce: domain.Sum([]byte("nonce")), IssuedAt: issued,
		},
	}
}

// revocation is of the same consent, an hour later.
func revocation(p consent.Payload) consent.Revocation {
	return p.Revocation(domain.Sum([]byte("revoke")), p.IssuedAt.Add(time.Hour))
}

// publish shows p as the API does, signed by the owner's key, and revoked.
func publish(t *testing.T, p consent.Payload) body {
	t.Helper()
	message, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	r := revocation(p)
	return body{
		"id": plan.ConsentID(p.Nonce), "state": "revoked", "agent": p.Agent, "owner": p.Owner, "firstDay": p.FirstDay, "lastDay": p.LastDay,
		"message": message, "payload": p, "payloadHash": hash, "signature": eip191.Sign(message, ownerKey), "verified": body{"method": "eip191"},
		"ownerNonce": mine, "proofs": []any{}, "plans": []any{body{"day": 1}},
		"revocation": body{
			"message": r.Message(), "nonce": r.Nonce, "issuedAt": r.IssuedAt,
			"signature": eip191.Sign(r.Message(), ownerKey), "verified": body{"method": "eip191"},
		},
	}
}

func check(t *testing.T, m body) *verify.ConsentReport {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := verify.Consent(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outcomes lists the checks that are not passed.
func outcomes(r *verify.ConsentReport) map[string]verify.Status {
	list := make(map[string]verify.Status)
	for _, c := range r.Checks {
		if c.Status != verify.Pass {
			list[c.ID] = c.Status
		}
	}
	return list
}

// byWallet makes the signature one of a contract wallet.
func byWallet(m body) {
	m["signature"] = "0x" + strings.Repeat("6492", 100)
	m["verified"] = body{"method": "erc1271", "at": asked}
}

// Every claim that is changed fails its check and no other.
func TestConsentReport(t *testing.T) {
	t.Parallel()
	type status = map[string]verify.Status
	const fail, skipped = verify.Fail, verify.Skipped
	revoked := func(m body) body {
		r := maps.Clone(m["revocation"].(body))
		m["revocation"] = r
		return r
	}
	for _, tt := range []struct {
		name    string
		payload func(*consent.Payload) // before it is signed
		publish func(body)             // after it is shown
		want    status
	}{
		{name: "as it is"},
		{name: "without a nonce of the owner's", payload: func(p *consent.Payload) { p.OwnerNonceHash = domain.Hash{} }, publish: func(m body) {
			delete(m, "ownerNonce")
		}},
		{name: "in force", publish: func(m body) { m["state"] = "active"; delete(m, "revocation") }},
		{name: "refused", publish: func(m body) {
			m["state"] = "refused"
			delete(m, "revocation")
			delete(m, "ownerNonce")
		}, want: status{"owner_nonce": skipped}},
		{name: "under other terms", payload: func(p *consent.Payload) { p.TermsVersion = 99 }, want: status{"terms": skipped}},
		{name: "with another catalogue", payload: func(p *consent.Payload) { p.CatalogueDigest[0]++ }, want: status{"catalogue": skipped}},
		{name: "with another hash of the terms", payload: func(p *consent.Payload) { p.TermsHash[0]++ }, want: status{"terms": fail}},
		{name: "with another pool", payload: func(p *consent.Payload) { p.PoolHash[0]++ }, want: status{"identity_pool": fail}},
		{name: "beyond a limit", payload: func(p *consent.Payload) { p.MaxPerDay = 25 }, want: status{"payload": fail}},

		{name: "another id", publish: func(m body) { m["id"] = "cns_aaaaaaaaaaaaaaaaaaaa" }, want: status{"consent_id": fail}},
		{name: "another owner beside the payload", publish: func(m body) { m["owner"] = eip191.Address{1} }, want: status{"summary": fail}},
		{name: "another day beside the payload", publish: func(m body) { m["lastDay"] = 99999 }, want: status{"summary": fail}},
		{name: "a text with other line ends", publish: func(m body) {
			m["message"] = strings.ReplaceAll(m["message"].(string), "\n", "\r\n")
		}, want: status{"message": fail}},
		{name: "another payload hash", publish: func(m body) { m["payloadHash"] = domain.Hash{1} }, want: status{"payload_hash": fail}},
		{name: "another limit than was signed", publish: func(m body) {
			p := m["payload"].(consent.Payload)
			p.MaxPerDay = 24
			m["payload"] = p
		}, want: status{"message": fail, "payload_hash": fail, "signature": fail}},
		{name: "a payload in another form", publish: func(m body) {
			data, _ := json.Marshal(m["payload"])
			m["payload"] = json.RawMessage(strings.Replace(string(data), "T09:30:00Z", "T11:30:00+02:00", 1))
		}, want: status{"message": fail, "payload_hash": fail, "signature": fail}},
		{name: "a payload with its time in another form", publish: func(m body) {
			data, _ := json.Marshal(m["payload"])
			m["payload"] = json.RawMessage(strings.Replace(string(data), "T09:30:00Z", "T09:30:00.000Z", 1))
		}, want: status{"payload": fail}},
		{name: "signed by a stranger", publish: func(m body) {
			m["signature"] = eip191.Sign(m["message"].(string), strangerKey)
		}, want: status{"signature": fail}},
		{name: "signed in another encoding", publish: func(m body) {
			sig := eip191.Sign(m["message"].(string), ownerKey)
			sig[64] -= 27
			m["signature"] = consent.Signature(sig[:])
		}, want: status{"signature": fail}},
		{name: "signed by the key and said to be a wallet's", publish: func(m body) {
			m["verified"] = body{"method": "erc1271", "at": asked}
		}, want: status{"signature": fail}},
		{name: "another nonce than committed to", publish: func(m body) { m["ownerNonce"] = domain.Hash{1} }, want: status{"owner_nonce": fail}},
		{name: "no nonce where one was committed to", publish: func(m body) { delete(m, "ownerNonce") }, want: status{"owner_nonce": fail}},
		{name: "a nonce that was not committed to", payload: func(p *consent.Payload) { p.OwnerNonceHash = domain.Hash{} }, want: status{"owner_nonce": fail}},

		{name: "signed by a contract wallet", publish: byWallet, want: status{"signature": skipped}},
		{name: "signed by a contract wallet on another chain", publish: func(m body) {
			byWallet(m)
			other := asked
			other.Chain = 1
			m["verified"] = body{"method": "erc1271", "at": other}
		}, want: status{"signature": fail}},
		{name: "signed by a contract wallet without a nonce", payload: func(p *consent.Payload) { p.OwnerNonceHash = domain.Hash{} }, publish: func(m body) {
			byWallet(m)
			delete(m, "ownerNonce")
		}, want: status{"signature": fail}},
		{name: "signed in a way that does not exist", publish: func(m body) {
			byWallet(m)
			m["verified"] = body{"method": "trust"}
		}, want: status{"signature": fail}},

		{name: "revoked without a revocation", publish: func(m body) { delete(m, "revocation") }, want: status{"revocation": fail}},
		{name: "in force with a revocation", publish: func(m body) { m["state"] = "active" }, want: status{"revocation": fail}},
		{name: "revoked by a stranger", publish: func(m body) {
			r := revoked(m)
			r["signature"] = eip191.Sign(r["message"].(string), strangerKey)
		}, want: status{"revocation": fail}},
		{name: "revoked with another text", publish: func(m body) {
			r := revoked(m)
			r["message"] = "gm"
			r["signature"] = eip191.Sign("gm", ownerKey)
		}, want: status{"revocation": fail}},
		{name: "revoked by a contract wallet", publish: func(m body) {
			r := revoked(m)
			r["signature"], r["verified"] = "0x6492", body{"method": "erc6492", "at": asked}
		}, want: status{"revocation": skipped}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := payload()
			if tt.payload != nil {
				tt.payload(&p)
			}
			m := publish(t, p)
			if tt.publish != nil {
				tt.publish(m)
			}
			want := tt.want
			if want == nil {
				want = status{}
			}
			r := check(t, m)
			if diff := cmp.Diff(want, outcomes(r)); diff != "" {
				t.Errorf("checks that do not pass (-want +got):\n%s\n%+v", diff, r.Checks)
			}
			if got := slices.Contains(slices.Collect(maps.Values(want)), fail); r.Failed() != got {
				t.Errorf("Failed() = %t, want %t", r.Failed(), got)
			}
		})
	}
}

// What a chain has to say is left open with all that it has to be asked, until
// somebody settles it.
func TestConsentReportOfContractWallet(t *testing.T) {
	t.Parallel()
	m := publish(t, payload())
	byWallet(m)
	r := check(t, m)
	message, _ := m["message"].(string)
	want := []verify.WalletClaim{{
		Check: "signature", Owner: payload().Owner, Hash: eip191.Hash(message), Signature: bytes.Repeat([]byte{0x64, 0x92}, 100),
		Method: consent.ByWallet, At: asked,
	}}
	if diff := cmp.Diff(want, r.Wallets); diff != "" {
		t.Fatalf("Wallets (-want +got):\n%s", diff)
	}
	r.Settle(r.Wallets[0], verify.Pass, "asked again")
	if got := outcomes(r); len(got) != 0 || r.Failed() {
		t.Errorf("checks that do not pass after it was settled: %v", got)
	}
	r.Settle(r.Wallets[0], verify.Fail, "asked again")
	if !r.Failed() {
		t.Error("Failed() = false after the wallet said no")
	}
}

func TestConsentUnreadable(t *testing.T) {
	t.Parallel()
	with := func(change func(body)) string {
		m := publish(t, payload())
		change(m)
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, row := range map[string]string{
		"nothing":               "",
		"a list":                "[]",
		"a problem":             `{"type":"https://karatum.com/problems/not-found","title":"x","status":404}`,
		"no signature":          with(func(m body) { delete(m, "signature") }),
		"a short hash":          with(func(m body) { m["payloadHash"] = "ab" }),
		"an address in a slip":  with(func(m body) { m["owner"] = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2a" }),
		"an upper-case digit":   with(func(m body) { m["signature"] = "0xAB" }),
		"a payload with more":   with(func(m body) { m["payload"] = json.RawMessage(`{"extra":1}`) }),
		"a payload that is not": with(func(m body) { m["payload"] = "text" }),
		"a member twice":        strings.Replace(with(func(body) {}), `{`, `{"id":"cns_aaaaaaaaaaaaaaaaaaaa",`, 1),
		"a revocation of text":  with(func(m body) { m["revocation"] = "no" }),
		"a year beyond":         strings.Replace(with(func(body) {}), `"issuedAt":"2026`, `"issuedAt":"12026`, 2),
	} {
		if r, err := verify.Consent([]byte(row)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Consent of %s = %+v, %v, want ErrInvalid", name, r, err)
		}
	}
}

// Whatever is published, the checks come to an end and never say that a stranger's
// signature is the owner's.
func FuzzConsent(f *testing.F) {
	p := payload()
	message, err := p.Message()
	if err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(body{
		"id": plan.ConsentID(p.Nonce), "state": "active", "agent": p.Agent, "owner": p.Owner, "firstDay": p.FirstDay, "lastDay": p.LastDay,
		"message": message, "payload": p, "payloadHash": domain.Hash{}, "signature": eip191.Sign(message, strangerKey),
		"verified": body{"method": "eip191"}, "ownerNonce": mine,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"id":"","payload":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := verify.Consent(data)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Consent: %v, want ErrInvalid", err)
			}
			return
		}
		if len(r.Checks) != 11 {
			t.Errorf("%d checks, want 11", len(r.Checks))
		}
	})
}
