package api_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands/meter"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/projections"
)

func TestAnswersAreRevalidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	path := root + "/consents/" + id
	first := w.do(http.MethodGet, path, "")
	etag := first.header.Get("ETag")
	if first.status != http.StatusOK || !strings.HasPrefix(etag, `W/"`) {
		t.Fatalf("GET: %d with tag %q", first.status, etag)
	}
	opaque := strings.TrimPrefix(etag, "W/")
	for _, c := range []struct {
		name, method, path, match string
		status                    int
	}{
		{"the tag", http.MethodGet, path, etag, http.StatusNotModified},
		{"compared weakly", http.MethodGet, path, opaque, http.StatusNotModified},
		{"in a list", http.MethodGet, path, `"zz", "a,b" ,` + etag, http.StatusNotModified},
		{"anything", http.MethodGet, path, " * ", http.StatusNotModified},
		{"by HEAD", http.MethodHead, path, etag, http.StatusNotModified},
		{"another", http.MethodGet, path, `"zz"`, http.StatusOK},
		{"inside of another", http.MethodGet, path, `"x` + strings.Trim(opaque, `"`) + `"`, http.StatusOK},
		{"without quotes", http.MethodGet, path, strings.Trim(opaque, `"`), http.StatusOK},
		{"behind what cannot be read", http.MethodGet, path, `zz, ` + etag, http.StatusOK},
		{"not closed", http.MethodGet, path, strings.TrimSuffix(etag, `"`), http.StatusOK},
		{"of something else", http.MethodGet, root + "/consents", etag, http.StatusOK},
		{"where there is nothing", http.MethodGet, root + "/consents/cns_" + strings.Repeat("a", 20), "*", http.StatusNotFound},
		{"where the request is bad", http.MethodGet, root + "/consents?limit=0", "*", http.StatusUnprocessableEntity},
		{"the document", http.MethodGet, root + "/openapi.json", "*", http.StatusNotModified},
	} {
		a := w.do(c.method, c.path, "", "If-None-Match", c.match)
		if a.status != c.status {
			t.Errorf("%s: If-None-Match: %s = %d, want %d", c.name, c.match, a.status, c.status)
		}
		if a.status == http.StatusNotModified && (a.body != "" || a.header.Get("Content-Length") != "" || a.header.Get("Vary") == "") {
			t.Errorf("%s: a 304 with body %q and headers %v", c.name, a.body, a.header)
		}
	}
	ch := w.post(path+"/revoke-challenge", http.StatusOK, "")
	message, _ := ch["message"].(string)
	w.post(path+"/revoke", http.StatusOK, encode(map[string]any{
		"challengeId": ch["challengeId"], "signature": eip191.Sign(message, key).String(),
	}))
	if a := w.do(http.MethodGet, path, "", "If-None-Match", etag); a.status != http.StatusOK || a.header.Get("ETag") == etag {
		t.Errorf("after a change: %d with tag %s", a.status, a.header.Get("ETag"))
	}
}

func TestHeadIsGetWithoutItsBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	for _, path := range []string{root, root + "/consents", root + "/consents?format=csv", root + "/openapi.json", root + "/consents/none"} {
		get, head := w.do(http.MethodGet, path, ""), w.do(http.MethodHead, path, "")
		if head.status != get.status || head.body != "" {
			t.Errorf("HEAD %s = %d with body %q, want %d without", path, head.status, head.body, get.status)
		}
		for _, name := range []string{"Content-Type", "Content-Length", "ETag", "Link", "Vary"} {
			if got, want := head.header.Get(name), get.header.Get(name); got != want {
				t.Errorf("HEAD %s: %s = %q, want %q", path, name, got, want)
			}
		}
		if get.status == http.StatusOK && get.header.Get("Content-Length") != strconv.Itoa(len(get.body)) {
			t.Errorf("GET %s: Content-Length %s for %d bytes", path, get.header.Get("Content-Length"), len(get.body))
		}
	}
}

func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	plain := w.do(http.MethodGet, root+"/terms", "")
	for accept, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.1": "gzip", "": "", "gzip;q=0": "", "*": ""} {
		a := w.do(http.MethodGet, root+"/openapi.json", "", "Accept-Encoding", accept)
		if got := a.header.Get("Content-Encoding"); got != want || a.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding: %s = %q, want %q; Vary: %s", accept, got, want, a.header.Get("Vary"))
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"/terms", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	z, err := gzip.NewReader(rec.Body)
	w.ok(err)
	body, err := io.ReadAll(z)
	w.ok(err)
	if string(body) != plain.body || rec.Header().Get("ETag") != plain.header.Get("ETag") || rec.Header().Get("Content-Length") != "" {
		t.Errorf("compressed: %d bytes for %d, headers %v", len(body), len(plain.body), rec.Header())
	}
	if a := w.do(http.MethodGet, root+"/consents", "", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Error("an answer that fits a packet was compressed")
	}
}

func TestOtherSitesMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	ask := func(method, path string, headers ...string) answer {
		return w.do(method, path, "", append(headers, "Origin", "https://elsewhere.example")...)
	}
	for _, path := range []string{root, root + "/consents/none", "/v1/ledger", "/v1/nothing", "/ledger/tile/0/000"} {
		a := ask(http.MethodGet, path)
		if a.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "Ledger-Size") {
			t.Errorf("GET %s: %v", path, a.header)
		}
		if a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("GET %s: cookies may come along", path)
		}
		a = ask(http.MethodOptions, path, "Access-Control-Request-Method", http.MethodGet, "Access-Control-Request-Headers", "if-none-match")
		if a.status != http.StatusNoContent || a.body != "" || a.header.Get("Access-Control-Allow-Methods") != "GET, HEAD" ||
			!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "If-None-Match") {
			t.Errorf("asking before GET %s: %d %v", path, a.status, a.header)
		}
	}
	for name, a := range map[string]answer{
		"a write":                ask(http.MethodPost, root+"/consents"),
		"a page":                 ask(http.MethodGet, "/mystery/terms"),
		"asking before a page":   ask(http.MethodOptions, "/mystery/terms", "Access-Control-Request-Method", http.MethodGet),
		"OPTIONS and no request": ask(http.MethodOptions, root),
	} {
		if got := a.header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: Access-Control-Allow-Origin = %q, want none", name, got)
		}
	}
}

// bound puts a limit on reading, with a real meter.
func (w *world) bound() {
	w.handler = api.New(api.Config{
		Service: w.service, Reader: projections.Reader{Pool: w.runner.Pool}, Bodies: w.bodies, PublicURL: "http://localhost:8080", CatchUp: w.runner.CatchUp, Reads: meter.New(w.clock),
	})
}

func TestReadsPerAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	w.bound()
	ask := func(peer, method string) answer {
		r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), method, root+"/terms", nil)
		r.RemoteAddr = peer
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		return answer{rec.Code, rec.Header(), rec.Body.String()}
	}
	for i := range 3000 {
		if a := ask("192.0.2.1:1000", http.MethodHead); a.status != http.StatusOK {
			t.Fatalf("request %d: %d", i, a.status)
		}
	}
	a := ask("192.0.2.1:1000", http.MethodGet)
	if a.status != http.StatusTooManyRequests || w.object(a.body)["type"] != "https://karatum.com/problems/rate-limited" {
		t.Errorf("one too many: %d: %s", a.status, a.body)
	}
	for name, want := range map[string]string{
		"Retry-After": "70", "RateLimit": `"read-address";r=0;t=70`, "RateLimit-Policy": `"read-address";q=3000;w=60`, "Strict-Transport-Security": "",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if a := ask("192.0.2.2:1000", http.MethodGet); a.status != http.StatusOK {
		t.Errorf("from elsewhere: %d", a.status)
	}
	w.pass(70 * time.Second)
	if a := ask("192.0.2.1:1000", http.MethodGet); a.status != http.StatusOK || a.header.Get("RateLimit") != `"read-address";r=2999;t=70` {
		t.Errorf("after the time that was said: %d, RateLimit: %s", a.status, a.header.Get("RateLimit"))
	}
}

func TestBrowsersComeByTLSAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.do(http.MethodGet, root, "").header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
		t.Errorf("Strict-Transport-Security = %q", got)
	}
}
