package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// A turnstile counts the challenges that get past the limits.
type turnstile struct {
	api.Service

	passed atomic.Int64
}

func (s *turnstile) Challenge(ctx context.Context, r consent.Request) (commands.Challenged, error) {
	s.passed.Add(1)
	return s.Service.Challenge(ctx, r)
}

func (s *turnstile) ChallengeRevoke(ctx context.Context, id string, ref agent.Ref) (commands.RevokeChallenged, error) {
	s.passed.Add(1)
	return s.Service.ChallengeRevoke(ctx, id, ref)
}

// limit puts limits on a world and returns what counts behind them. Requests through
// 10.0.0.0/8 come from our proxies.
func (w *world) limit() *turnstile {
	w.t.Helper()
	s := &turnstile{Service: w.service}
	w.handler = api.New(api.Config{
		Service: s, Reader: projections.Reader{Pool: w.runner.Pool}, Bodies: w.bodies, PublicURL: "https://karatum.com",
		CatchUp: w.runner.CatchUp,
		Limits:  &tables.Limits{Pool: w.runner.Pool, Now: w.clock}, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	return s
}

// ask posts body as a peer and returns the answer.
func (w *world) ask(peer, forwarded, path, body string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.RemoteAddr = peer
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if forwarded != "" {
		r.Header.Set("X-Forwarded-For", forwarded)
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	a := answer{rec.Code, rec.Header(), rec.Body.String()}
	if err := held(http.MethodPost, path, a); err != nil {
		w.t.Errorf("the answer breaks openapi.json: %v", err)
	}
	return a
}

const challengePath = root + "/consents/challenge"

func TestChallengesPerAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.limit()
	ask := func(peer string, ref agent.Ref) answer { return w.ask(peer, "", challengePath, request(ref)) }
	for i := range 5 {
		a := ask("192.0.2.1:1000", honest)
		if a.status != http.StatusOK {
			t.Fatalf("challenge %d: %d: %s", i, a.status, a.body)
		}
		want := fmt.Sprintf(`"grant-agent";r=%d;t=3600 "grant-address";r=%d;t=3600`, 4-i, 19-i)
		if got := strings.Join(a.header.Values("RateLimit"), " "); got != want {
			t.Errorf("RateLimit after challenge %d = %s, want %s", i, got, want)
		}
	}
	w.pass(90 * time.Second)
	before := s.passed.Load()
	a := ask("192.0.2.1:2000", honest)
	problem := w.object(a.body)
	if a.status != http.StatusTooManyRequests || problem["type"] != "https://karatum.com/problems/rate-limited" {
		t.Errorf("the sixth challenge: %d: %s", a.status, a.body)
	}
	for name, want := range map[string]string{
		"Retry-After":      "3510",
		"RateLimit":        `"grant-agent";r=0;t=3510 "grant-address";r=15;t=3510`,
		"RateLimit-Policy": `"grant-agent";q=5;w=3600 "grant-address";q=20;w=3600`,
	} {
		if got := strings.Join(a.header.Values(name), " "); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if s.passed.Load() != before {
		t.Error("a request that was one too many reached the service")
	}
	for name, a := range map[string]answer{
		"another agent":   ask("192.0.2.1:1000", house),
		"another address": ask("192.0.2.2:1000", honest),
	} {
		if a.status != http.StatusOK {
			t.Errorf("%s: %d: %s", name, a.status, a.body)
		}
	}
	w.pass(3510 * time.Second)
	if a := ask("192.0.2.1:1000", honest); a.status != http.StatusOK {
		t.Errorf("after the time that was said: %d: %s", a.status, a.body)
	}
}

// A refusal by the service counts as well: it is work too.
func TestChallengesPerAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	s := w.limit()
	for i := range 30 {
		want := http.StatusNotFound
		if i >= 20 {
			want = http.StatusTooManyRequests
		}
		peer := fmt.Sprintf("[2001:db8:1:2::%x]:1000", i) // one /64
		if a := w.ask(peer, "", challengePath, request(agent.Ref(fmt.Sprintf("build:none-%d", i)))); a.status != want {
			t.Fatalf("challenge %d: %d, want %d: %s", i, a.status, want, a.body)
		}
	}
	if a := w.ask("[2001:db8:1:3::1]:1000", "", challengePath, request(honest)); a.status != http.StatusOK {
		t.Errorf("from the next /64: %d: %s", a.status, a.body)
	}
	if got := s.passed.Load(); got != 21 {
		t.Errorf("%d challenges reached the service, want 21", got)
	}
}

// Whatever strangers ask for, an owner can revoke.
func TestRevocationIsNotCrowdedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	w.limit()
	for range 25 {
		w.ask("192.0.2.1:1000", "", challengePath, request(house))
		w.ask("198.51.100.1:1000", "", root+"/consents/"+id+"/revoke-challenge", "")
	}
	revoke := func(peer string) answer { return w.ask(peer, "", root+"/consents/"+id+"/revoke-challenge", "") }
	for i := range 20 { // no limit by agent or consent
		if a := revoke("192.0.2.1:1000"); a.status != http.StatusOK {
			t.Fatalf("revocation %d: %d: %s", i, a.status, a.body)
		}
	}
	a := revoke("192.0.2.1:1000")
	if a.status != http.StatusTooManyRequests || a.header.Get("RateLimit-Policy") != `"revoke-address";q=20;w=3600` {
		t.Errorf("the 21st revocation: %d, policy %s", a.status, a.header.Get("RateLimit-Policy"))
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, peer, forwarded string
		same                  [2]string // a peer and what it forwards, counted as the same client
	}{
		{"a peer that is no proxy says what it likes", "192.0.2.1:1", "203.0.113.9", [2]string{"192.0.2.1:2", ""}},
		{"a proxy says who called", "10.0.0.1:1", "203.0.113.9", [2]string{"203.0.113.9:2", ""}},
		{"through two proxies", "10.0.0.1:1", "198.51.100.7, 203.0.113.9, 10.0.0.2", [2]string{"203.0.113.9:2", ""}},
		{"what a client forged stands before", "10.0.0.1:1", "198.51.100.7, 203.0.113.9", [2]string{"10.0.0.3:1", "198.51.100.8,203.0.113.9"}},
		{"with a port", "10.0.0.1:1", "203.0.113.9:4711", [2]string{"203.0.113.9:2", ""}},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:1", "::ffff:203.0.113.9", [2]string{"203.0.113.9:2", ""}},
		{"a proxy that says nothing", "10.0.0.1:1", "", [2]string{"10.0.0.1:2", "unknown"}},
		{"rubbish is not passed over", "10.0.0.1:1", "203.0.113.9, rubbish", [2]string{"10.0.0.1:2", ""}},
		{"no address at all", "@", "", [2]string{"", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limit()
			left := func(peer, forwarded string) string {
				a := w.ask(peer, forwarded, challengePath, request("build:none"))
				return a.header.Values("RateLimit")[1]
			}
			first, second := left(tt.peer, tt.forwarded), left(tt.same[0], tt.same[1])
			if first != `"grant-address";r=19;t=3600` || second != `"grant-address";r=18;t=3600` {
				t.Errorf("left %s and then %s, want 19 and 18", first, second)
			}
		})
	}
}

func TestLimitsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	pool := pgtest.Open(t)
	pool.Close()
	s := &turnstile{Service: w.service}
	w.handler = api.New(api.Config{
		Service: s, Reader: projections.Reader{Pool: w.runner.Pool}, Bodies: w.bodies, PublicURL: "https://karatum.com",
		CatchUp: w.runner.CatchUp, Limits: &tables.Limits{Pool: pool},
	})
	if a := w.ask("192.0.2.1:1", "", challengePath, request(honest)); a.status != http.StatusServiceUnavailable {
		t.Errorf("without a count: %d: %s", a.status, a.body)
	}
	if s.passed.Load() != 0 {
		t.Error("a request that was not counted reached the service")
	}
}
