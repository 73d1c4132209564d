package httpsig_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/api/httpsig"
	"github.com/karatum/mystery/domain"
)

var (
	key = ed25519.NewKeyFromSeed([]byte("a producer's key, for tests only"))
	now = time.Date(2026, 10, 16, 10, 0, 0, 0, time.UTC)
)

// The key test-key-ed25519 of RFC 9421, appendix B.1.4.
const testKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=
-----END PUBLIC KEY-----
`

// The signature over test-request in RFC 9421, appendix B.2.6.
func TestEd25519OfTheRFC(t *testing.T) {
	t.Parallel()
	block, _ := pem.Decode([]byte(testKey))
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		t.Fatalf("the key is a %T", parsed)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/foo?param=Value&Pet=dog", nil)
	for name, value := range map[string]string{
		"Date":           "Tue, 20 Apr 2021 02:07:55 GMT",
		"Content-Type":   "application/json",
		"Content-Length": "18",
		"Signature-Input": `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")` +
			`;created=1618884473;keyid="test-key-ed25519"`,
		"Signature": "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
	} {
		r.Header.Set(name, value)
	}
	s, err := httpsig.Profile{}.Parse(r, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(public); err != nil {
		t.Errorf("Verify() = %v", err)
	}
	if s.KeyID != "test-key-ed25519" || s.Created.Unix() != 1618884473 {
		t.Errorf("the parameters are %+v", s.Params)
	}
	r.Method = http.MethodPut
	if s, err = (httpsig.Profile{}).Parse(r, "example.com"); err == nil {
		err = s.Verify(public)
	}
	if domain.CodeOf(err) != domain.RequestSignature {
		t.Errorf("with another method Verify() = %v, want %s", err, domain.RequestSignature)
	}
}

const body = `{"a":1}`

// signed returns a request that is signed.
func signed(tb testing.TB) *http.Request {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "https://karatum.com/v1/ledger/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	r.Header.Set("Idempotency-Key", "0b0e6bb2")
	err := httpsig.Producers.Sign(r, "karatum.com", []byte(body), httpsig.Params{
		Created: now, Expires: now.Add(time.Minute), Nonce: "nonce-nonce-nonce", KeyID: "runner/2026-10",
	}, key)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// verify is what a receiver does.
func verify(r *http.Request, at time.Time) error {
	if err := httpsig.CheckDigest(r.Header, []byte(body)); err != nil {
		return err
	}
	s, err := httpsig.Producers.Parse(r, "karatum.com")
	if err != nil {
		return err
	}
	if err := s.Check(at); err != nil {
		return err
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return s.Verify(public)
}

func TestSignedRequests(t *testing.T) {
	t.Parallel()
	edit := func(header, old, now string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(header, strings.Replace(r.Header.Get(header), old, now, 1)) }
	}
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		at     time.Time
		want   domain.Code
	}{
		{"as it was signed", func(*http.Request) {}, now, ""},
		{"with a header more", func(r *http.Request) { r.Header.Set("X-Trace", "1") }, now, ""},
		{"beside a signature of somebody else", func(r *http.Request) {
			r.Header.Add("Signature-Input", `proxy=("@method");created=1;keyid="p";tag="proxy"`)
			r.Header.Add("Signature", "proxy=:AAAA:")
		}, now, ""},
		{"sent to another path", func(r *http.Request) { r.URL.Path = "/v1/other" }, now, domain.RequestSignature},
		{"with another method", func(r *http.Request) { r.Method = http.MethodPut }, now, domain.RequestSignature},
		{"with another type", func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, now, domain.RequestSignature},
		{"with another idempotency key", func(r *http.Request) { r.Header.Set("Idempotency-Key", "x") }, now, domain.RequestSignature},
		{"without an idempotency key", func(r *http.Request) { r.Header.Del("Idempotency-Key") }, now, domain.RequestSignature},
		{"with another digest", edit("Content-Digest", "sha-256=:", "sha-256=:A"), now, domain.DigestMismatch},
		{"without a digest", func(r *http.Request) { r.Header.Del("Content-Digest") }, now, domain.DigestMismatch},
		{"with a digest of another kind", edit("Content-Digest", "sha-256", "md5"), now, domain.DigestMismatch},
		{"without a signature", func(r *http.Request) { r.Header.Del("Signature") }, now, domain.RequestSignature},
		{"without anything", func(r *http.Request) { r.Header.Del("Signature-Input") }, now, domain.RequestSignature},
		{"with two signatures", func(r *http.Request) {
			r.Header.Add("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "karatum=", "b=", 1))
		}, now, domain.RequestSignature},
		{"that covers less", edit("Signature-Input", `"@path" `, ""), now, domain.RequestSignature},
		{"that covers something twice", edit("Signature-Input", `"@path" `, `"@path" "@path" `), now, domain.RequestSignature},
		{"that covers what there is not", edit("Signature-Input", `"@path" `, `"@path" "x-none" `), now, domain.RequestSignature},
		{"that covers part of a component", edit("Signature-Input", `"@path" `, `"@path";req `), now, domain.RequestSignature},
		{"that covers a query", edit("Signature-Input", `"@path" `, `"@path" "@query" `), now, domain.RequestSignature},
		{"with another algorithm", edit("Signature-Input", "ed25519", "hmac-sha256"), now, domain.RequestSignature},
		{"with another nonce", edit("Signature-Input", "nonce-nonce-nonce", "nonce-nonce-other"), now, domain.RequestSignature},
		{"with a short nonce", edit("Signature-Input", "nonce-nonce-nonce", "1"), now, domain.RequestSignature},
		{"without a key", edit("Signature-Input", `keyid="runner/2026-10";`, ""), now, domain.RequestSignature},
		{"that holds for longer", edit("Signature-Input", ";expires=1", ";expires=2"), now, domain.RequestSignature},
		{"that never expires", edit("Signature-Input", ";expires=", ";never="), now, domain.RequestSignature},
		{"whose tag is another", edit("Signature-Input", "karatum-producer", "other"), now, domain.RequestSignature},
		{"that cannot be read", edit("Signature-Input", "(", "["), now, domain.RequestSignature},
		{"a moment early", func(*http.Request) {}, now.Add(-2 * time.Second), ""},
		{"too early", func(*http.Request) {}, now.Add(-20 * time.Second), domain.SignatureExpired},
		{"in its last second", func(*http.Request) {}, now.Add(59 * time.Second), ""},
		{"expired", func(*http.Request) {}, now.Add(time.Minute), domain.SignatureExpired},
		{"of a clock that is slow", func(*http.Request) {}, now.Add(6 * time.Minute), domain.ClockSkew},
		{"of a clock that is fast", func(*http.Request) {}, now.Add(-6 * time.Minute), domain.ClockSkew},
	} {
		r := signed(t)
		tt.change(r)
		if err := verify(r, tt.at); domain.CodeOf(err) != tt.want || (err == nil) != (tt.want == "") {
			t.Errorf("a request %s: %v, want code %q", tt.name, err, tt.want)
		}
	}
}

// A request that was sent to somebody else is worth nothing here.
func TestAuthorityIsTheVerifiers(t *testing.T) {
	t.Parallel()
	r := signed(t)
	s, err := httpsig.Producers.Parse(r, "other.example")
	if err != nil {
		t.Fatal(err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	if err := s.Verify(public); domain.CodeOf(err) != domain.RequestSignature {
		t.Errorf("Verify() = %v, want %s", err, domain.RequestSignature)
	}
}

func FuzzParse(f *testing.F) {
	r := signed(f)
	f.Add(r.Header.Get("Signature-Input"), r.Header.Get("Signature"), r.Header.Get("Content-Digest"))
	f.Add(`a=("@method";bs;key="x" 1 :AA==:);created=-1`, "a=1", "sha-256=?1")
	f.Fuzz(func(t *testing.T, input, signature, digest string) {
		r := signed(t)
		r.Header["Signature-Input"], r.Header["Signature"], r.Header["Content-Digest"] = []string{input}, []string{signature}, []string{digest}
		if err := verify(r, now); err != nil && domain.CodeOf(err) == "" {
			t.Errorf("the refusal has no code: %v", err)
		}
	})
}
