package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

var update = flag.Bool("update", false, "write openapi.json anew")

func TestOpenAPIDocumentIsFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.do(http.MethodGet, root+"/openapi.json", "")
	if a.status != http.StatusOK {
		t.Fatalf("the document: %d", a.status)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, []byte(a.body), "", "  "); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("openapi.json is stale: go test ./api -run OpenAPI -update\n%s", cmp.Diff(string(want), got.String()))
	}
}

// The limits in the document are those of the domain.
func TestOpenAPILimits(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	properties := doc.Components.Schemas["ChallengeInput"].Properties
	for _, c := range []struct {
		property, limit string
		want            float64
	}{
		{"endpoints", "maxItems", consent.MaxEndpoints},
		{"maxPerDay", "maximum", consent.MaxPerDay},
		{"maxPerWeek", "maximum", consent.MaxPerWeek},
		{"revealDelaySeconds", "minimum", consent.MinRevealDelay.Seconds()},
		{"revealDelaySeconds", "maximum", consent.MaxRevealDelay.Seconds()},
		{"validityDays", "minimum", consent.MinValidity},
		{"validityDays", "maximum", consent.MaxValidity},
	} {
		if got := properties[c.property][c.limit]; got != c.want {
			t.Errorf("%s of %s is %v in the document, want %v", c.limit, c.property, got, c.want)
		}
	}
}

func TestOwnersWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(house)

	c := w.get(root + "/consents/" + id)
	message, _ := c["message"].(string)
	signature, err := eip191.ParseSignature(fmt.Sprint(c["signature"]))
	if err != nil {
		t.Fatal(err)
	}
	if signer, err := eip191.Recover(message, signature); err != nil || signer.String() != c["owner"] {
		t.Errorf("the published message was signed by %s (%v), want %s", signer, err, c["owner"])
	}
	verified, _ := c["verified"].(map[string]any)
	if c["state"] != "active" || c["demo"] != true || c["label"] != "DEMO" || verified["method"] != "eip191" || verified["at"] != nil || !strings.Contains(message, fmt.Sprint(c["payloadHash"])) {
		t.Errorf("the consent is %v", c)
	}

	ch := w.post(root+"/consents/"+id+"/revoke-challenge", http.StatusOK, "")
	text, _ := ch["message"].(string)
	body := encode(map[string]any{"challengeId": ch["challengeId"], "signature": eip191.Sign(text, key).String()})
	got := w.post(root+"/consents/"+id+"/revoke", http.StatusOK, body)
	if got["state"] != "revoked" || got["label"] != "DEMO" {
		t.Errorf("the answer to revoking is %v", got)
	}
	n := w.records()
	if got := w.post(root+"/consents/"+id+"/revoke", http.StatusOK, body); got["state"] != "revoked" || w.records() != n {
		t.Errorf("revoking twice: %v, and %d records more", got, w.records()-n)
	}
	c = w.get(root + "/consents/" + id)
	if r, _ := c["revocation"].(map[string]any); c["state"] != "revoked" || c["overAt"] == nil || r["message"] != text || r["nonce"] == nil {
		t.Errorf("the revoked consent is %v", c)
	}
	if a := w.do(http.MethodPost, root+"/consents/"+id+"/revoke-challenge", ""); a.status != http.StatusConflict {
		t.Errorf("a challenge to revoke what is over: %d, want 409", a.status)
	}
	w.grant(house) // a new one may follow
}

func TestOwnerNonce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	nonce := domain.Sum([]byte("mine"))
	s := w.challenge(honest, "ownerNonceHash", domain.Sum(nonce[:]))
	n := w.records()
	if a := w.do(http.MethodPost, root+"/consents", encode(s.body)); a.status != http.StatusUnprocessableEntity || w.records() != n {
		t.Fatalf("without the nonce: %d: %s", a.status, a.body)
	}
	w.post(root+"/consents", http.StatusCreated, encode(with(s.body, "ownerNonce", nonce)))
	if c := w.get(root + "/consents/" + s.id); c["ownerNonce"] != nonce.String() {
		t.Errorf("ownerNonce is %v, want %s", c["ownerNonce"], nonce)
	}
}

func TestRefusedConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.challenge(honest, "endpoints", []any{map[string]any{"kind": "a2a", "url": "https://stranger.example/a2a"}})
	a := w.do(http.MethodPost, root+"/consents", encode(s.body))
	p := w.object(a.body)
	if a.status != http.StatusUnprocessableEntity || p["type"] != "https://karatum.com/problems/host-not-proven" || p["consent"] != s.id {
		t.Fatalf("an unproven host: %d: %s", a.status, a.body)
	}
	c := w.get(root + "/consents/" + s.id)
	if c["state"] != "refused" || c["cause"] != "host_not_proven" || c["refusedAt"] == nil || c["grantedAt"] != nil || c["reason"] != p["detail"] {
		t.Errorf("the refused consent is %v", c)
	}
	if got := w.get(root + "/agents/" + string(honest)); got["spotChecks"] != "never" {
		t.Errorf("spotChecks is %v, want never", got["spotChecks"])
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(house)
	challenge, consents := root+"/consents/challenge", root+"/consents"

	used := w.challenge(honest)
	w.post(consents, http.StatusCreated, encode(used.body))
	ch := w.post(root+"/consents/"+used.id+"/revoke-challenge", http.StatusOK, "")
	w.post(root+"/consents/"+used.id+"/revoke", http.StatusOK, encode(map[string]any{
		"challengeId": ch["challengeId"], "signature": eip191.Sign(ch["message"].(string), key).String(),
	}))
	expired := w.challenge(honest)
	w.pass(consent.ChallengeLife + 1)
	fresh := func(changes ...any) string { return encode(with(w.challenge(honest).body, changes...)) }
	toRevoke := w.post(root+"/consents/"+id+"/revoke-challenge", http.StatusOK, "")
	toRevokeID, _ := toRevoke["challengeId"].(string)
	toRevokeText, _ := toRevoke["message"].(string)

	good := w.challenge(honest)
	message := w.do(http.MethodPost, challenge, request(honest))
	otherSignature := eip191.Sign(message.body, key).String()
	goodChallenge, _ := good.body["challengeId"].(string)
	goodSignature, _ := good.body["signature"].(string)
	payload := func(changes ...any) map[string]any {
		copied := w.object(encode(good.body["payload"]))
		return with(copied, changes...)
	}
	endpoints := func(n int) (list []any) {
		for i := range n {
			list = append(list, map[string]any{"kind": "a2a", "url": fmt.Sprint("https://agent.example/", i)})
		}
		return list
	}
	money := func(task, month string) map[string]any {
		return map[string]any{"network": "eip155:84532", "maxPerTask": task, "maxPerMonth": month}
	}
	nonce := domain.Sum([]byte("mine"))
	crlf := w.crlf(honest)
	const plain, token = agent.Ref("build:plain"), agent.Ref("erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0")
	w.ok(w.service.Agent(t.Context(), w.meta("register"), plain, agent.Register{Agent: plain, Wallet: owner}))
	w.ok(w.service.Agent(t.Context(), w.meta("register"), token, agent.Register{Agent: token, Wallet: owner, Demo: true}))
	const unknown = "cns_aaaaaaaaaaaaaaaaaaaa"
	oversize := `{"agent":"` + strings.Repeat("x", 70000) + `"}`

	for _, c := range []struct {
		name, method, path, body string
		status                   int
		sort                     string
	}{
		{"malformed JSON", "POST", challenge, `{"agent":`, 400, "malformed"},
		{"no JSON at all", "POST", consents, `hello`, 400, "malformed"},
		{"empty body", "POST", challenge, ``, 400, "malformed"},
		{"two values", "POST", challenge, request(honest) + `{}`, 400, "malformed"},
		{"not an object", "POST", challenge, `[]`, 422, "invalid"},
		{"null", "POST", challenge, `null`, 422, "invalid"},
		{"unknown field", "POST", challenge, request(honest, "extra", 1), 422, "invalid"},
		{"unknown field inside", "POST", challenge, request(honest, "endpoints", []any{map[string]any{"kind": "a2a", "url": "https://a.example", "x": 1}}), 422, "invalid"},
		{"unknown field in the payload", "POST", consents, fresh("payload", payload("extra", 1)), 422, "invalid"},
		{"another spelling of a field", "POST", challenge, request(honest, "AGENT", "build:1"), 422, "invalid"},
		{"another spelling in the payload", "POST", consents, fresh("payload", payload("OWNER", "0x00")), 422, "invalid"},
		{"wrong type", "POST", challenge, request(honest, "maxPerDay", "12"), 422, "invalid"},
		{"fraction", "POST", challenge, request(honest, "maxPerDay", 1.5), 422, "invalid"},
		{"huge number", "POST", challenge, strings.Replace(request(honest), `"maxPerDay":12`, `"maxPerDay":1e99`, 1), 422, "invalid"},
		{"wrong type in the payload", "POST", consents, fresh("payload", payload("nonce", 7)), 422, "invalid"},
		{"payload of another sort", "POST", consents, fresh("payload", "text"), 422, "invalid"},
		{"bad hash", "POST", challenge, request(honest, "ownerNonceHash", "0x12"), 422, "invalid"},
		{"missing field", "POST", challenge, request(honest, "kinds", nil), 422, "invalid"},
		{"missing signature", "POST", consents, fresh("signature", nil), 422, "invalid"},
		{"oversize", "POST", challenge, oversize, 413, "too-large"},
		{"oversize grant", "POST", consents, oversize, 413, "too-large"},
		{"oversize revocation", "POST", consents + "/" + id + "/revoke", oversize, 413, "too-large"},

		{"second grant of a challenge", "POST", consents, encode(used.body), 403, "challenge-expired"}, // expired by now, see TestSecondGrant
		{"expired challenge", "POST", consents, encode(expired.body), 403, "challenge-expired"},
		{"forged challenge id", "POST", consents, fresh("challengeId", "chl_"+strings.Repeat("A", 139)), 422, "challenge-foreign"},
		{"challenge id that is none", "POST", consents, fresh("challengeId", "x"), 422, "challenge-foreign"},
		{"challenge of another payload", "POST", consents, fresh("challengeId", goodChallenge), 422, "payload-changed"},
		{"challenge to revoke used to grant", "POST", consents, fresh("challengeId", toRevokeID), 422, "challenge-foreign"},
		{"changed payload", "POST", consents, encode(with(w.object(encode(good.body)), "payload", payload("maxPerDay", 24))), 422, "payload-changed"},
		{"signature by another text", "POST", consents, fresh("signature", otherSignature), 403, "wrong-signer"},
		{"signature that is none", "POST", consents, fresh("signature", "0x12"), 422, "bad-signature"},
		{"signature with a high s", "POST", consents, fresh("signature", highS(goodSignature)), 422, "bad-signature"},
		{"revocation by another text", "POST", consents + "/" + id + "/revoke", encode(map[string]any{"challengeId": toRevokeID, "signature": otherSignature}), 403, "wrong-signer"},
		{"revocation with a challenge to grant", "POST", consents + "/" + id + "/revoke", encode(map[string]any{"challengeId": goodChallenge, "signature": goodSignature}), 422, "challenge-foreign"},
		{"revocation of another consent", "POST", consents + "/" + used.id + "/revoke", encode(map[string]any{"challengeId": toRevokeID, "signature": eip191.Sign(toRevokeText, key).String()}), 422, "challenge-foreign"},

		{"seven endpoints", "POST", challenge, request(honest, "endpoints", endpoints(7)), 422, "invalid"},
		{"no endpoint", "POST", challenge, request(honest, "endpoints", []any{}), 422, "invalid"},
		{"http endpoint", "POST", challenge, request(honest, "endpoints", []any{map[string]any{"kind": "a2a", "url": "http://agent.example"}}), 422, "endpoint-refused"},
		{"25 tasks a day", "POST", challenge, request(honest, "maxPerDay", 25), 422, "invalid"},
		{"101 tasks a week", "POST", challenge, request(honest, "maxPerWeek", 101), 422, "invalid"},
		{"delay below an hour", "POST", challenge, request(honest, "revealDelaySeconds", 3599), 422, "invalid"},
		{"validity above a year", "POST", challenge, request(honest, "validityDays", 366), 422, "invalid"},
		{"kind without endpoint", "POST", challenge, request(honest, "kinds", []any{"mcp"}), 422, "invalid"},
		{"payment with a sign", "POST", challenge, request(honest, "paymentsAllowed", true, "payment", map[string]any{"network": "eip155:84532", "maxPerTask": "-1", "maxPerMonth": "9"}), 422, "payment-rules"},
		{"payment that is not allowed", "POST", challenge, request(honest, "payment", money("1", "9")), 422, "payment-rules"},
		{"payments without limits", "POST", challenge, request(honest, "paymentsAllowed", true), 422, "payment-rules"},
		{"a month for less than a task", "POST", challenge, request(honest, "paymentsAllowed", true, "payment", money("9", "1")), 422, "payment-rules"},
		{"payment with real money", "POST", challenge, request(honest, "paymentsAllowed", true, "payment", with(money("1", "9"), "network", "eip155:8453")), 422, "payment-rules"},
		{"agent without a certificate", "POST", challenge, request(plain), 403, "no-certificate"},
		{"payload for another domain", "POST", consents, fresh("payload", payload("domain", "karatum.org")), 422, "wrong-domain"},
		{"payload for another chain", "POST", consents, fresh("payload", payload("chain", 1)), 422, "wrong-chain"},
		{"contract wallet, with no node of its chain", "POST", consents, encode(with(w.challenge(honest, "ownerNonceHash", domain.Sum(nonce[:])).body,
			"signature", "0x"+strings.Repeat("6492", 100), "ownerNonce", nonce)), 422, "chain-not-configured"},
		{"signature by a contract wallet without a nonce", "POST", consents, fresh("signature", "0x"+strings.Repeat("6492", 100)), 422, "bad-signature"},
		{"signature of more than 8 KiB", "POST", consents, fresh("signature", "0x"+strings.Repeat("00", 8<<10+1)), 422, "bad-signature"},
		{"text that ends its lines with CR LF", "POST", consents, crlf, 403, "wrong-signer"},
		{"nonce that was not committed to", "POST", consents, fresh("ownerNonce", nonce), 422, "owner-nonce-mismatch"},
		{"agent on a registry, with no node of its chain", "POST", challenge, request(token), 422, "chain-not-configured"},
		{"revocation of what is over", "POST", consents + "/" + used.id + "/revoke-challenge", "", 409, "consent-over"},
		{"upper-case ref", "POST", challenge, request("BUILD:42"), 422, "invalid"},
		{"ref with a leading zero", "POST", challenge, request("build:042"), 422, "invalid"},
		{"unregistered agent", "POST", challenge, request("build:7"), 404, "not-registered"},
		{"agent with an active consent", "POST", challenge, request(house), 409, "active-consent"},

		{"unknown consent", "GET", consents + "/" + unknown, "", 404, "not-found"},
		{"slots of an unknown consent", "GET", consents + "/" + unknown + "/shops", "", 404, "not-found"},
		{"revoking an unknown consent", "POST", consents + "/" + unknown + "/revoke-challenge", "", 404, "not-found"},
		{"revoking an unknown consent, signed", "POST", consents + "/" + unknown + "/revoke", encode(map[string]any{"challengeId": toRevokeID, "signature": goodSignature}), 404, "not-found"},
		{"unknown shop", "GET", root + "/shops/shp_aaaaaaaaaaaaaaaaaaaa_20260301_00", "", 404, "not-found"},
		{"unknown agent", "GET", root + "/agents/build:7", "", 404, "not-found"},
		{"bad consent id", "GET", consents + "/cns_UPPER", "", 422, "invalid"},
		{"consent id with a NUL", "GET", consents + "/cns_%00", "", 400, "malformed"},
		{"bad shop id", "GET", root + "/shops/1", "", 422, "invalid"},
		{"bad agent ref", "GET", root + "/agents/build:042", "", 422, "invalid"},
		{"agent ref with a NUL", "GET", root + "/agents/build:%00", "", 400, "malformed"},
		{"filter with a NUL", "GET", consents + "?agent=x%00", "", 400, "malformed"},
		{"bad state", "GET", consents + "?state=x", "", 422, "invalid"},
		{"bad verdict", "GET", root + "/findings?verdict=x", "", 422, "invalid"},
		{"bad limit", "GET", consents + "?limit=0", "", 422, "invalid"},
		{"limit that is no number", "GET", consents + "?limit=x", "", 422, "invalid"},
		{"bad cursor", "GET", consents + "?cursor=x", "", 422, "invalid"},
		{"cursor of another list", "GET", root + "/findings?cursor=eyJJRCI6IngifQ", "", 422, "invalid"},
		{"unknown query parameter", "GET", consents + "?zz=1", "", 422, "invalid"},
		{"no such path", "GET", "/v1/nothing", "", 404, "not-found"},
		{"no such method", "DELETE", consents, "", 405, "method-not-allowed"},
	} {
		n := w.records()
		a := w.do(c.method, c.path, c.body)
		p := w.object(a.body)
		if a.status != c.status || p["type"] != "https://karatum.com/problems/"+c.sort {
			t.Errorf("%s: %d %v, want %d %s: %.300s", c.name, a.status, p["type"], c.status, c.sort, a.body)
		}
		if got := a.header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: content type %q", c.name, got)
		}
		if p["title"] == "" || p["status"] != float64(a.status) {
			t.Errorf("%s: the problem is %s", c.name, a.body)
		}
		if strings.Contains(a.body, goodSignature) || strings.Contains(a.body, strings.Repeat("x", 100)) {
			t.Errorf("%s: the problem repeats the input", c.name)
		}
		if added := w.records() - n; added != 0 {
			t.Errorf("%s: %d records were appended", c.name, added)
		}
	}
	if got := w.logged.String(); got != "" {
		t.Errorf("bad input was logged as our failure:\n%s", got)
	}
}

// crlf is a grant for which the owner signed the message with the line ends of
// another system.
func (w *world) crlf(ref agent.Ref) string {
	w.t.Helper()
	c := w.post(root+"/consents/challenge", http.StatusOK, request(ref))
	text := strings.ReplaceAll(fmt.Sprint(c["message"]), "\n", "\r\n")
	return encode(map[string]any{"challengeId": c["challengeId"], "payload": c["payload"], "signature": eip191.Sign(text, key).String()})
}

// highS is the other signature of the same text and key, which EIP-2 forbids.
func highS(signature string) string {
	const order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	n, s := make([]byte, 32), make([]byte, 32)
	_, _ = fmt.Sscanf(order, "%x", &n)
	_, _ = fmt.Sscanf(signature[66:130], "%x", &s)
	borrow := 0
	for i := 31; i >= 0; i-- {
		d := int(n[i]) - int(s[i]) - borrow
		borrow = 0
		if d < 0 {
			d, borrow = d+256, 1
		}
		s[i] = byte(d)
	}
	v := map[string]string{"1b": "1c", "1c": "1b"}[signature[130:]]
	return fmt.Sprintf("%s%x%s", signature[:66], s, v)
}

func TestSecondGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.challenge(honest)
	w.post(root+"/consents", http.StatusCreated, encode(s.body))
	n := w.records()
	a := w.do(http.MethodPost, root+"/consents", encode(s.body))
	if p := w.object(a.body); a.status != http.StatusConflict || p["type"] != "https://karatum.com/problems/challenge-used" || w.records() != n {
		t.Errorf("the second grant: %d, %d records more: %s", a.status, w.records()-n, a.body)
	}
}

// A ledger that fails is our failure: the caller learns that, and no more.
func TestLedgerGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.challenge(honest)
	w.log.Fault = func(persisted bool) error {
		if persisted {
			return nil
		}
		return errors.New("the disk of 10.0.0.7 is gone")
	}
	n := w.records()
	a := w.do(http.MethodPost, root+"/consents", encode(s.body))
	p := w.object(a.body)
	if a.status != http.StatusInternalServerError || p["type"] != "https://karatum.com/problems/internal" || strings.Contains(a.body, "10.0.0.7") {
		t.Errorf("the grant: %d: %s", a.status, a.body)
	}
	if w.records() != n {
		t.Errorf("%d records were appended", w.records()-n)
	}
	if id := a.header.Get("X-Request-Id"); id == "" || !strings.Contains(w.logged.String(), id) || !strings.Contains(w.logged.String(), "10.0.0.7") {
		t.Errorf("the log does not tell what request %q met:\n%s", id, w.logged)
	}
	w.log.Fault = nil
	w.post(root+"/consents", http.StatusCreated, encode(s.body))
}

// everything returns the paths of all GET answers about a day.
func everything(d day) []string {
	paths := []string{
		"", "/terms", "/consents", "/consents?state=active&limit=1", "/consents?agent=" + string(d.ref), "/consents/" + d.consent,
		"/consents/" + d.consent + "/shops", "/consents/" + d.consent + "/shops?phase=sealed&limit=5",
		"/consents/" + d.consent + "/shops?phase=revealed", "/findings", "/findings?agent=" + string(d.ref),
		"/agents/" + string(d.ref), "/openapi.json",
	}
	for slot := range 24 {
		paths = append(paths, "/shops/"+d.shop(slot), "/shops/"+d.shop(slot)+"/verify")
	}
	for i, p := range paths {
		paths[i] = root + p
	}
	for slot := range 24 {
		paths = append(paths, "/mystery/shops/"+d.shop(slot))
	}
	name := strings.TrimPrefix(string(d.ref), "build:")
	paths = append(paths, "/mystery/"+d.consent, "/agents", "/agents/"+name, "/agents/"+name+"/badge.svg", "/stack", "/stack/card", "/ledger", "/ledger/batches",
		"/mystery/findings.atom", "/mystery/reveals.atom", "/search?q="+domain.Sum([]byte("5280 feet")).String(), "/search?q="+d.shop(d.tasks[0]))
	return append(paths, "/healthz", "/readyz", root+"/shops/shp_aaaaaaaaaaaaaaaaaaaa_20260301_00",
		"/mystery", "/mystery/terms", "/mystery/ethics", "/mystery/identities", "/bot", "/.well-known/security.txt")
}

func (w *world) answers(paths []string) map[string]answer {
	w.t.Helper()
	got := make(map[string]answer)
	for _, p := range paths {
		a := w.do(http.MethodGet, p, "")
		a.header.Del("X-Request-Id")
		a.header.Del("Date")
		got[p] = a
	}
	return got
}

// Until a task is revealed no public answer tells whether it was sent.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	w.ok(w.runner.CatchUp(t.Context()))
	paths := everything(d)
	before := w.answers(paths)
	d.send(d.tasks[0], "5280 feet")
	d.step(d.tasks[1], shop.Send{Endpoint: "ep_0"})
	d.step(d.tasks[2], shop.Miss{Reason: shop.OperatorLate})
	d.step(d.tasks[3], shop.Cancel{Reason: shop.HostLost})
	w.ok(w.runner.CatchUp(t.Context()))
	if diff := cmp.Diff(before, w.answers(paths), cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("what is sealed changed public answers (-before +after):\n%s", diff)
	}
}

func TestSealedSlotsLookAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(honest), honest)
	d.send(d.tasks[0], "5280 feet")
	w.ok(w.runner.CatchUp(t.Context()))
	for _, slot := range []int{d.tasks[0], d.pads[0]} {
		want := map[string]any{
			"id": d.shop(slot), "consent": d.consent, "day": float64(d.day), "slot": float64(slot),
			"commit": domain.Sum([]byte(d.shop(slot))).String(), "phase": "sealed",
		}
		if diff := cmp.Diff(want, w.get(root+"/shops/"+d.shop(slot))); diff != "" {
			t.Errorf("slot %d (-want +got):\n%s", slot, diff)
		}
	}
}

func TestRevealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	text, binary, erased, missed := d.tasks[0], d.tasks[1], d.tasks[2], d.tasks[3]
	d.send(text, "5280 <feet> & more")
	d.send(binary, "\xff\x00")
	d.send(erased, "forget me")
	delete(w.bodies, shop.ReplyKey(d.shop(erased)))
	delete(w.bodies, shop.SessionKey(d.shop(erased)))
	d.step(missed, shop.Miss{Reason: shop.OperatorLate})
	d.reveal(text, passed("5280 <feet> & more"))
	d.reveal(binary, passed("\xff\x00"))
	d.reveal(erased, passed("forget me"))
	d.reveal(missed, shop.Result{State: shop.StateMissed})
	d.open()
	d.compare(1, finding.AfterDay)
	w.ok(w.runner.CatchUp(t.Context()))

	for _, c := range []struct {
		name  string
		slot  int
		reply any
	}{
		{"text", text, map[string]any{"salt": salt.String(), "text": "5280 <feet> & more"}},
		{"binary", binary, map[string]any{"salt": salt.String(), "base64": "/wA="}},
		{"erased", erased, nil},
		{"missed", missed, nil},
	} {
		got := w.get(root + "/shops/" + d.shop(c.slot))
		revealed, _ := got["revealed"].(map[string]any)
		reply, present := revealed["reply"]
		if diff := cmp.Diff(c.reply, reply); diff != "" || !present {
			t.Errorf("%s: the reply (-want +got):\n%s", c.name, diff)
		}
		talk, _ := revealed["session"].(map[string]any)
		if shown := talk != nil; shown != (c.reply != nil) || shown && (talk["salt"] != salt.String() || talk["url"] != "https://agent.example/a2a") {
			t.Errorf("%s: the session is %v", c.name, talk)
		}
		if got["phase"] != "revealed" || got["label"] != "DEMO" {
			t.Errorf("%s: the slot is %v", c.name, got)
		}
	}

	// The event is served byte for byte, so its hash can be checked.
	body := w.do(http.MethodGet, root+"/shops/"+d.shop(text), "").body
	var exact []byte
	for r, err := range w.log.Stream(t.Context(), shop.StreamOf(d.shop(text)), 0) {
		w.ok(err)
		exact = r.Data
	}
	if !strings.Contains(body, string(exact)) {
		t.Errorf("the answer does not hold the event\n%s\nbut\n%s", exact, body)
	}
	if pad := w.get(root + "/shops/" + d.shop(d.pads[0])); pad["phase"] != "pad" || pad["revealed"] != nil {
		t.Errorf("a pad of the opened day is %v", pad)
	}
	list := w.get(root + "/consents/" + d.consent + "/shops?phase=revealed")
	if items, _ := list["items"].([]any); len(items) != 4 || list["label"] != "DEMO" {
		t.Errorf("the revealed slots are %v", list)
	}
	c := w.get(root + "/consents/" + d.consent)
	plans, _ := c["plans"].([]any)
	if len(plans) != 1 {
		t.Fatalf("the plans are %v", c["plans"])
	}
	first, _ := plans[0].(map[string]any)
	opened, _ := first["opened"].(map[string]any)
	if first["date"] != domain.DayString(d.day) || opened["key"] != d.key.String() || opened["count"] != 4.0 {
		t.Errorf("the opened plan is %v", first)
	}
	wantNotes := []any{map[string]any{
		"endpoint": "ep_0", "reason": "no_task", "text": "There is no honest task for what they do.", "count": 1.0, "names": []any{"poetry"},
	}}
	if diff := cmp.Diff(wantNotes, opened["notes"]); diff != "" {
		t.Errorf("the notes of the opened plan (-want +got):\n%s", diff)
	}
	if f, _ := c["finding"].(map[string]any); f["verdict"] != "insufficient" || f["label"] != "DEMO" {
		t.Errorf("the finding is %v", c["finding"])
	}
	a := w.get(root + "/agents/" + string(house))
	if a["spotChecks"] != "active" || a["label"] != "DEMO" || !strings.HasSuffix(fmt.Sprint(a["note"]), "Too little to say.") {
		t.Errorf("the agent is %v", a)
	}
	p := w.get(root)
	demo, _ := p["demoTotals"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"pass": 3.0, "missed": 1.0}, demo["revealed"]); diff != "" || demo["label"] != "DEMO" {
		t.Errorf("the demo totals are %v (-want +got):\n%s", demo, diff)
	}
	stats, _ := w.get(root + "/stats")["demo"].(map[string]any)
	shown := map[string]any{}
	for _, name := range []string{"label", "counted", "passed", "blocked", "missed", "lostShare", "blockedShare", "families", "latency"} {
		shown[name] = stats[name]
	}
	if diff := cmp.Diff(map[string]any{
		"label": "DEMO", "counted": 3.0, "passed": 3.0, "blocked": 0.0, "missed": 1.0, "lostShare": "25.0", "blockedShare": "0.0",
		"families": map[string]any{"unit": map[string]any{"pass": 3.0, "missed": 1.0}},
		"latency":  map[string]any{"answers": 3.0, "p50Ms": 7.0, "p90Ms": 7.0, "p99Ms": 7.0},
	}, shown); diff != "" {
		t.Errorf("the statistics (-want +got):\n%s", diff)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	d.later(8)
	w.grant(honest)
	for look := range 5 {
		w.pass(1e9)
		e := finding.Reached{Consent: d.consent, Agent: house, Demo: true, Cycle: finding.AfterDay, Day: d.day + uint32(look), Look: look + 1, Verdict: finding.Consistent, GatedVerdict: finding.Consistent, Families: []finding.Family{}, Sources: []finding.Source{}}
		w.ok(w.service.Finding(t.Context(), w.meta(fmt.Sprint(look)), d.consent, finding.Reach(e)))
	}
	w.ok(w.runner.CatchUp(t.Context()))
	for _, c := range []struct {
		path, field string
		want        int
	}{
		{"/consents?limit=1", "id", 2},
		{"/consents/" + d.consent + "/shops?limit=7&phase=sealed", "slot", 24},
		{"/consents/" + d.consent + "/days?limit=3", "day", 9},
		{"/findings?limit=2&agent=build:demo&verdict=consistent", "look", 5},
	} {
		var seen []any
		for path := root + c.path; path != ""; {
			a := w.do(http.MethodGet, path, "")
			page := w.object(a.body)
			items, _ := page["items"].([]any)
			for _, item := range items {
				o, _ := item.(map[string]any)
				seen = append(seen, o[c.field])
			}
			link := a.header.Get("Link")
			if (link == "") != (page["nextCursor"] == nil) || len(seen) > c.want {
				t.Fatalf("%s: %d items, link %q, cursor %v: %s", path, len(seen), link, page["nextCursor"], a.body)
			}
			path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		}
		unique := make(map[any]bool)
		for _, v := range seen {
			unique[v] = true
		}
		if len(seen) != c.want || len(unique) != c.want {
			t.Errorf("%s: saw %v, want %d different ones", c.path, seen, c.want)
		}
	}
}

// The answer about a consent has its latest days and says where all are, each of which has
// an answer of its own that is the same.
func TestDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	d.later(8)
	path := root + "/consents/" + d.consent
	c := w.get(path)
	latest, _ := c["plans"].([]any)
	if len(latest) != 7 || c["days"] != "https://karatum.com"+path+"/days" {
		t.Errorf("a consent with nine days has %d of them, and says that all are at %v", len(latest), c["days"])
	}
	all, _ := w.get(path + "/days")["items"].([]any)
	if len(all) != 9 {
		t.Fatalf("%d days are listed, want 9", len(all))
	}
	if diff := cmp.Diff(all[2:], latest); diff != "" {
		t.Errorf("the latest days differ in the list and in the consent (-list +consent):\n%s", diff)
	}
	for _, listed := range all {
		one, _ := listed.(map[string]any)
		if diff := cmp.Diff(one, w.get(fmt.Sprintf("%s/days/%v", path, one["day"]))); diff != "" {
			t.Errorf("a day differs in the list and alone (-list +alone):\n%s", diff)
		}
	}
	slots := w.object(w.do(http.MethodGet, path+"/shops?limit=1", "").body)
	for absent, status := range map[string]int{
		"/days/1":        http.StatusNotFound,
		"/days/tomorrow": http.StatusUnprocessableEntity,
		"/days?limit=31": http.StatusUnprocessableEntity,
		"/days?cursor=" + slots["nextCursor"].(string): http.StatusUnprocessableEntity,
	} {
		if a := w.do(http.MethodGet, path+absent, ""); a.status != status {
			t.Errorf("GET %s%s: %d, want %d", path, absent, a.status, status)
		}
	}
	if a := w.do(http.MethodGet, root+"/consents/cns_aaaaaaaaaaaaaaaaaaaa/days", ""); a.status != http.StatusNotFound {
		t.Errorf("the days of no consent are answered with %d", a.status)
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.get(root); got["asOf"] != nil {
		t.Errorf("an empty ledger is as of %v", got["asOf"])
	}
	w.furnish()
	got := w.get(root + "/terms")
	current, _ := got["terms"].(map[string]any)
	text, err := domain.Canonical(current["terms"])
	w.ok(err)
	if h := domain.Sum(text).String(); h != current["hash"] {
		t.Errorf("the hash of the terms is %v, want %s", current["hash"], h)
	}
	pool, _ := got["identityPool"].(map[string]any)
	if text, err = domain.Canonical(pool["identities"]); err != nil {
		t.Fatal(err)
	}
	if h := domain.Sum(text).String(); h != pool["hash"] {
		t.Errorf("the hash of the pool is %v, want %s", pool["hash"], h)
	}
	published, _ := got["published"].(map[string]any)
	for _, list := range []string{"terms", "identityPools", "catalogues"} {
		if versions, _ := published[list].([]any); len(versions) != 1 {
			t.Errorf("published %s: %v", list, published[list])
		}
	}
}

// The document names every reason why something is not shopped, as the list does.
func TestReasonsInTheDocument(t *testing.T) {
	t.Parallel()
	var want []any
	for _, r := range plan.Reasons() {
		want = append(want, string(r))
	}
	s := published().Components.Schemas["NoteBody"]
	if s == nil || s.Properties["reason"] == nil {
		t.Fatal("the document has no reasons of notes")
	}
	if diff := cmp.Diff(want, s.Properties["reason"].Enum); diff != "" {
		t.Errorf("reasons in the document (-want +got):\n%s", diff)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	expect := func(word, text string) {
		t.Helper()
		got := w.get(root + "/agents/" + string(honest))
		if got["spotChecks"] != word || !strings.Contains(fmt.Sprint(got["note"]), text) {
			t.Errorf("spotChecks %v, note %q; want %s, %q", got["spotChecks"], got["note"], word, text)
		}
	}
	expect("never", "never agreed")
	id := w.grant(honest)
	expect("active", "agreed to spot checks on 2026-03-01. Nothing has been compared yet.")
	w.ok(w.service.Consent(t.Context(), w.meta("end"), honest, consent.End{Consent: id, Reason: consent.CertificateWithdrawn}))
	w.ok(w.service.Agent(t.Context(), w.meta("certify"), honest, agent.RecordCertificate{Certificate: "crt_1"}))
	w.ok(w.service.Agent(t.Context(), w.meta("verify"), honest, agent.VerifyIdentity{URL: "https://agent.example/"}))
	w.ok(w.runner.CatchUp(t.Context()))
	expect("ended", "ended on 2026-03-01, as the agent's certificate was withdrawn, and no task was sent since.")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", root, 200},
		{"HEAD", root, 200},
		{"HEAD", root + "/consents", 200},
		{"GET", "/healthz", 200},
		{"GET", "/readyz", 200},
		{"GET", "/nothing", 404},
		{"PUT", root, 405},
		{"HEAD", "/nothing", 404},
	} {
		a := w.do(c.method, c.path, "")
		if a.status != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, a.status, c.status)
		}
		for _, h := range []string{"X-Request-Id", "X-Content-Type-Options", "Content-Security-Policy", "Referrer-Policy", "Cache-Control"} {
			if a.header.Get(h) == "" {
				t.Errorf("%s %s: no %s", c.method, c.path, h)
			}
		}
		if strings.Contains(a.body, "$schema") {
			t.Errorf("%s %s: the body names a schema", c.method, c.path)
		}
	}
	if got := w.do("PUT", root+"/consents", "").header.Values("Allow"); !slices.Equal(got, []string{"GET", "HEAD", "POST"}) {
		t.Errorf("Allow is %v", got)
	}
	if a := w.do(http.MethodPost, root+"/consents", "{}", "Content-Type", "text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("a body of text: %d: %s", a.status, a.body)
	}
	first, second := w.do("GET", root, "").header.Get("X-Request-Id"), w.do("GET", root, "").header.Get("X-Request-Id")
	if first == second || len(first) != 32 {
		t.Errorf("request ids %q and %q", first, second)
	}
}

// A panicking port is answered as a problem and logged.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	w.service.Hosts = nil
	a := w.do(http.MethodPost, root+"/consents/challenge", request(honest))
	if p := w.object(a.body); a.status != http.StatusInternalServerError || p["type"] != "https://karatum.com/problems/internal" {
		t.Errorf("a panic: %d: %s", a.status, a.body)
	}
	if !strings.Contains(w.logged.String(), "a handler panicked") {
		t.Errorf("the log says\n%s", w.logged)
	}
}

// A read model that lags behind a write does not undo it.
func TestCatchUpFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.challenge(honest)
	h := api.New(api.Config{
		Service: w.service, Reader: readerOf(w), Bodies: w.bodies, PublicURL: "https://karatum.com/",
		CatchUp: func(context.Context) error { return errors.New("not now") },
	})
	w.handler = h
	got := w.post(root+"/consents", http.StatusCreated, encode(s.body))
	if want := "https://karatum.com/v1/mystery/consents/" + s.id; got["url"] != want {
		t.Errorf("url is %v, want %s", got["url"], want)
	}
}
