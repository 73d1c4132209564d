package api_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// TestHostileInput sends what is meant to confuse a parser. Nothing of it is our
// failure, and nothing of it leaves a trace.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(house)
	challenge, consents := root+"/consents/challenge", root+"/consents"
	insert := func(field, value string) string {
		return strings.Replace(request(honest), `{`, `{"`+field+`":`+value+`,`, 1)
	}
	cursor := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	stranger := eip191.Sign("another text", key).String()
	grant := w.challenge(honest)
	good, _ := grant.body["challengeId"].(string)
	flip := func(at int) string {
		b := []byte(good)
		b[at] = map[bool]byte{true: 'A', false: 'B'}[b[at] == 'B']
		return string(b)
	}

	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
	}{
		{"deep arrays", "POST", challenge, strings.Repeat("[", 60000), nil, 400},
		{"deep arrays that end", "POST", challenge, strings.Repeat("[", 30000) + strings.Repeat("]", 30000), nil, 400},
		{"deep arrays in a field", "POST", challenge, insert("x", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), nil, 422},
		{"a number beyond all", "POST", challenge, insert("x", "1"+strings.Repeat("0", 9000)), nil, 400},
		{"a number without end", "POST", challenge, strings.Replace(request(honest), `"maxPerDay":12`, `"maxPerDay":1e400`, 1), nil, 400},
		{"a whole number written long", "POST", challenge, strings.Replace(request(honest), `"maxPerDay":12`, `"maxPerDay":12.0000000000000000001`, 1), nil, 422},
		{"negative zero", "POST", challenge, request(honest, "maxPerWeek", math.Copysign(0, -1)), nil, 422},
		{"minus one day", "POST", challenge, request(honest, "validityDays", -1), nil, 422},
		{"days that wrap around", "POST", challenge, request(honest, "validityDays", uint64(1<<32+30)), nil, 422},
		{"seconds that wrap around", "POST", challenge, request(honest, "revealDelaySeconds", uint64(1<<63)), nil, 422},
		{"NUL in a skill", "POST", challenge, request(honest, "skills", []any{"a\x00"}), nil, 422},
		{"half a surrogate", "POST", challenge, strings.Replace(request(honest), "build:42", `build:\ud800`, 1), nil, 422},
		{"bytes that are no UTF-8", "POST", challenge, strings.Replace(request(honest), "build:42", "build:\xff", 1), nil, 422},
		{"look-alike letters", "POST", challenge, request("build:４２"), nil, 422},
		{"a look-alike host", "POST", challenge, request(honest, "endpoints", []any{map[string]any{"kind": "a2a", "url": "https://аgent.example/a2a"}}), nil, 422},
		{"a line break in a URL", "POST", challenge, request(honest, "endpoints", []any{map[string]any{"kind": "a2a", "url": "https://agent.example/\nOwner: 0x0"}}), nil, 422},
		{"a line break in a skill", "POST", challenge, request(honest, "skills", []any{"a\nOwner: 0x0"}), nil, 422},
		{"a line break in a network", "POST", challenge, request(honest, "paymentsAllowed", true, "payment", map[string]any{"network": "a\nb", "maxPerTask": "1", "maxPerMonth": "1"}), nil, 422},
		{"an endpoint twice", "POST", challenge, request(honest, "endpoints", []any{
			map[string]any{"kind": "a2a", "url": "https://agent.example/a2a"}, map[string]any{"kind": "a2a", "url": "https://agent.example/a2a"},
		}), nil, 422},
		{"byte order mark", "POST", challenge, "\ufeff" + request(honest), nil, 400},
		{"a type that is not ours", "POST", challenge, request(honest), []string{"Content-Type", "application/xml"}, 415},
		{"a form", "POST", consents, "challengeId=1", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"a body in gzip", "POST", challenge, "\x1f\x8b\x08\x00", []string{"Content-Encoding", "gzip"}, 400},
		{"an answer that nobody has", "GET", consents, "", []string{"Accept", "text/html"}, 200},

		{"a challenge with another first byte", "POST", consents, encode(with(w.object(encode(grant.body)), "challengeId", flip(4))), nil, 422},
		{"a challenge with another expiry", "POST", consents, encode(with(w.object(encode(grant.body)), "challengeId", flip(98))), nil, 422},
		{"a challenge with another code", "POST", consents, encode(with(w.object(encode(grant.body)), "challengeId", flip(120))), nil, 422},
		{"a challenge with padding", "POST", consents, encode(with(w.object(encode(grant.body)), "challengeId", good+"=")), nil, 422},
		{"a challenge with a line break", "POST", consents, encode(with(w.object(encode(grant.body)), "challengeId", good[:50]+"\n"+good[50:])), nil, 422},
		{"a signature of a stranger", "POST", consents, encode(with(w.object(encode(grant.body)), "signature", stranger)), nil, 403},
		{"a signature of zeros", "POST", consents, encode(with(w.object(encode(grant.body)), "signature", "0x"+strings.Repeat("0", 130))), nil, 422},
		{"a nonce nobody asked for", "POST", consents, encode(with(w.object(encode(grant.body)), "ownerNonce", strings.Repeat("ab", 32))), nil, 422},
		{"a revocation by a stranger", "POST", consents + "/" + id + "/revoke", encode(map[string]any{
			"challengeId": w.post(consents+"/"+id+"/revoke-challenge", http.StatusOK, "")["challengeId"], "signature": stranger,
		}), nil, 403},

		{"a cursor with a slot beyond", "GET", consents + "/" + id + "/shops?cursor=" + cursor(`{"Day":1,"Slot":24}`), "", nil, 422},
		{"a cursor with a day beyond", "GET", consents + "/" + id + "/shops?cursor=" + cursor(`{"Day":4294967296,"Slot":1}`), "", nil, 422},
		{"the last day of all", "GET", consents + "/" + id + "/shops?cursor=" + cursor(`{"Day":4294967295,"Slot":1}`), "", nil, 200},
		{"a cursor of the last second", "GET", consents + "?cursor=" + cursor(`{"Recorded":"9999-12-31T23:59:59.999999999Z","ID":"`+id+`"}`), "", nil, 200},
		{"a cursor of the year 0", "GET", consents + "?cursor=" + cursor(`{"Recorded":"0000-01-01T00:00:00Z","ID":"`+id+`"}`), "", nil, 200},
		{"a cursor with a strange zone", "GET", consents + "?cursor=" + cursor(`{"Recorded":"0000-01-01T00:00:00+23:59","ID":"`+id+`"}`), "", nil, 200},
		{"a cursor with a look beyond", "GET", root + "/findings?cursor=" + cursor(`{"At":"2026-01-01T00:00:00Z","Consent":"`+id+`","Look":2147483648}`), "", nil, 422},
		{"a cursor with a field more", "GET", consents + "?cursor=" + cursor(`{"Recorded":"2026-01-01T00:00:00Z","ID":"`+id+`","x":1}`), "", nil, 422},
		{"a limit above all", "GET", consents + "?limit=101", "", nil, 422},
		{"a limit that wraps around", "GET", consents + "?limit=18446744073709551617", "", nil, 422},
		{"a negative limit", "GET", consents + "/" + id + "/shops?limit=-1", "", nil, 422},
		{"a broken escape in a query", "GET", consents + "?agent=%zz", "", nil, 400},
		{"a semicolon in a query", "GET", consents + "?limit=1;state=revoked", "", nil, 400},
		{"a path that climbs", "GET", consents + "/../agents/build:42", "", nil, 404},
		{"an escaped slash in an id", "GET", root + "/agents/build:42%2f..", "", nil, 422},
		{"a line break in an id", "GET", consents + "/" + id + "%0a", "", nil, 422},
		{"a shop on no day", "GET", root + "/shops/shp_aaaaaaaaaaaaaaaaaaaa_99999999_99", "", nil, 404},
	} {
		n := w.records()
		a := w.do(c.method, c.path, c.body, c.headers...)
		if a.status != c.status {
			t.Errorf("%s: %d, want %d: %.300s", c.name, a.status, c.status, a.body)
		}
		if got := a.header.Get("Content-Type"); a.status >= 400 && got != "application/problem+json" {
			t.Errorf("%s: content type %q", c.name, got)
		}
		if a.status >= 400 && len(a.body) > 2000 {
			t.Errorf("%s: a problem of %d bytes repeats the input", c.name, len(a.body))
		}
		if added := w.records() - n; added != 0 {
			t.Errorf("%s: %d records were appended", c.name, added)
		}
	}
	if got := w.logged.String(); got != "" {
		t.Errorf("hostile input was logged as our failure:\n%s", got)
	}
	w.post(consents, http.StatusCreated, encode(grant.body)) // which all of it did not use up
}

// Of two fields with one name both checks and values are those of the last.
func TestFieldTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	twice := func(second string) string {
		return strings.TrimSuffix(request(honest), "}") + `,"maxPerDay":` + second + `}`
	}
	if a := w.do(http.MethodPost, root+"/consents/challenge", twice("25")); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the second is beyond the limit: %d: %s", a.status, a.body)
	}
	c := w.post(root+"/consents/challenge", http.StatusOK, twice("3"))
	if p, _ := c["payload"].(map[string]any); p["maxPerDay"] != 3.0 || !strings.Contains(fmt.Sprint(c["message"]), "Tasks per day: at most 3\n") {
		t.Errorf("the challenge is %v", c)
	}
}

// However often one challenge is granted at once, it has one effect, and the other
// callers learn that they were second.
func TestGrantAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.challenge(honest)
	n := w.records()
	const callers = 8
	answers := make([]answer, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { answers[i] = w.do(http.MethodPost, root+"/consents", encode(s.body)) })
	}
	wg.Wait()
	statuses := make(map[int]int)
	for _, a := range answers {
		statuses[a.status]++
	}
	if statuses[http.StatusCreated] != 1 || statuses[http.StatusConflict] != callers-1 {
		t.Errorf("statuses %v, want 201 once and else 409", statuses)
	}
	if added := w.records() - n; added != 2 {
		t.Errorf("%d records were appended, want the grant and its proof", added)
	}
}

// A consent that is granted and revoked at once ends revoked or never began; what
// is left when all is answered is one state for everybody.
func TestGrantAndRevokeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	for range 5 {
		first, second := w.challenge(honest), w.challenge(honest)
		w.post(root+"/consents", http.StatusCreated, encode(first.body))
		ch := w.post(root+"/consents/"+first.id+"/revoke-challenge", http.StatusOK, "")
		text, _ := ch["message"].(string)
		revocation := encode(map[string]any{"challengeId": ch["challengeId"], "signature": eip191.Sign(text, key).String()})
		var revoked, granted answer
		var wg sync.WaitGroup
		wg.Go(func() { revoked = w.do(http.MethodPost, root+"/consents/"+first.id+"/revoke", revocation) })
		wg.Go(func() { granted = w.do(http.MethodPost, root+"/consents", encode(second.body)) })
		wg.Wait()
		if revoked.status != http.StatusOK || granted.status != http.StatusCreated && granted.status != http.StatusConflict {
			t.Fatalf("revoke: %d, grant: %d %s", revoked.status, granted.status, granted.body)
		}
		states := w.get(root + "/consents?agent=" + string(honest) + "&state=active")
		items, _ := states["items"].([]any)
		if want := granted.status == http.StatusCreated; (len(items) == 1) != want {
			t.Errorf("the second grant was answered %d, and %d consents are active", granted.status, len(items))
		}
		if len(items) == 0 { // the refusal used up its challenge
			second = w.challenge(honest)
			w.post(root+"/consents", http.StatusCreated, encode(second.body))
		}
		ch = w.post(root+"/consents/"+second.id+"/revoke-challenge", http.StatusOK, "")
		text, _ = ch["message"].(string)
		w.post(root+"/consents/"+second.id+"/revoke", http.StatusOK,
			encode(map[string]any{"challengeId": ch["challengeId"], "signature": eip191.Sign(text, key).String()}))
		w.pass(consent.ChallengeLife)
	}
}
