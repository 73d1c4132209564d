// Package agenttest checks that a client of agents keeps the contract that all
// of them share: nothing leaves before the gate has opened, a task is sent at
// most once, the marks of Karatum are never sent, and whatever a server does ends
// in an outcome. The client's own test calls [Run].
//
// It also holds the hostile servers that the checks use.
package agenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// A Client is what is tested.
type Client interface {
	Observe(ctx context.Context, url string, as agents.Sender) (task.Surface, agents.Target, error)
	Ask(ctx context.Context, call agents.Call) (agents.Reply, error)
}

// A Subject says how to test a client.
type Subject struct {
	Now func() time.Time
	New func(agents.Net) Client

	// Server is a plain agent at every path that takes Ask and answers with text.
	Server  func(text string) http.Handler
	Ask     task.Ask
	Dialect string

	// Document says that a task is one GET and its answer whatever document comes:
	// nothing has to be a message of JSON-RPC.
	Document bool
}

// Run runs all checks.
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run("an answer comes back", s.answer)
	t.Run("every identity is answered", s.identities)
	t.Run("a shut gate lets no byte out", s.shutGate)
	t.Run("the gate is asked once and released when the request is written", s.openGate)
	t.Run("a gate is not asked where nothing can be dialled", s.noDial)
	t.Run("marks are refused before the dial", s.marks)
	t.Run("each exchange is recorded in order", s.exchanges)
	t.Run("a cancelled call has no outcome", s.cancelled)
	t.Run("whatever a server does has an outcome", s.hostile)
}

// longEnough is the deadline of calls that should not come near it.
const longEnough = 20 * time.Second

func (s Subject) call(url string) agents.Call {
	return agents.Call{
		Target: agents.Target{URL: url, Dialect: s.Dialect}, Ask: s.Ask,
		Sender: agents.As(identity.Pool()[0]), Deadline: longEnough,
	}
}

func (s Subject) client() Client { return s.New(agents.Loopback(s.Now, nil)) }

func (s Subject) answer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(s.Server("forty-two"))
	defer server.Close()
	r, err := s.client().Ask(t.Context(), s.call(server.URL))
	if err != nil || r.Outcome != "" || r.Text != "forty-two" || r.Status != http.StatusOK {
		t.Fatalf("Ask = %+v, %v, want the text forty-two and no outcome", r, err)
	}
	if !strings.Contains(string(r.Raw), "forty-two") {
		t.Errorf("Raw = %q, want the message that holds the text", r.Raw)
	}
	if r.Latency <= 0 || r.Latency > longEnough {
		t.Errorf("Latency = %v, want a positive one", r.Latency)
	}
}

func (s Subject) identities(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(s.Server("forty-two"))
	defer server.Close()
	senders := []agents.Sender{{}, agents.Harness()}
	for _, id := range identity.Pool() {
		senders = append(senders, agents.As(id))
	}
	for _, sender := range senders {
		call := s.call(server.URL)
		call.Sender = sender
		if r, err := s.client().Ask(t.Context(), call); err != nil || r.Text != "forty-two" {
			t.Errorf("%s: Ask = %+v, %v, want the text forty-two", sender.Name, r, err)
		}
	}
}

// sink accepts connections and counts what comes in, and answers nothing.
type sink struct {
	net.Listener
	accepted chan struct{} // one element per connection
	bytes    atomic.Int64
	closed   sync.WaitGroup
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at the end of the test
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{Listener: l, accepted: make(chan struct{}, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.closed.Add(1)
			s.accepted <- struct{}{}
			go func() {
				defer s.closed.Done()
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				s.bytes.Add(n)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return s
}

func (s *sink) url() string { return "http://" + s.Addr().String() }

func (s Subject) shutGate(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	shut := errors.New("revoked")
	call := s.call(sink.url())
	asked := 0
	call.Gate = func(context.Context) (func(), error) {
		asked++
		return nil, shut
	}
	r, err := s.client().Ask(t.Context(), call)
	if !errors.Is(err, shut) {
		t.Errorf("Ask = %+v, %v, want the gate's own error", r, err)
	}
	<-sink.accepted // dialled all the same: the gate comes after
	sink.closed.Wait()
	if n := sink.bytes.Load(); n != 0 || asked != 1 {
		t.Errorf("%d bytes left after the gate was asked %d times, want 0 and 1", n, asked)
	}
}

func (s Subject) openGate(t *testing.T) {
	t.Parallel()
	var requests, asked, released atomic.Int64
	written := make(chan struct{})
	plain := s.Server("forty-two")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Errorf("read the first request: %v", err)
			}
			select {
			case <-written: // or the client waits for an answer with the gate held
			case <-time.After(longEnough / 2):
				t.Error("the gate was not released while the first request waits for its answer")
			}
			http.Error(w, "busy", http.StatusInternalServerError)
			return
		}
		plain.ServeHTTP(w, r)
	}))
	defer server.Close()
	call := s.call(server.URL)
	call.Gate = func(context.Context) (func(), error) {
		asked.Add(1)
		if n := requests.Load(); n != 0 {
			t.Errorf("%d requests came before the gate opened", n)
		}
		return func() {
			if released.Add(1) == 1 {
				close(written)
			}
		}, nil
	}
	r, err := s.client().Ask(t.Context(), call)
	if err != nil || r.Outcome != task.Error || r.Code != "500" {
		t.Errorf("Ask = %+v, %v, want error 500", r, err)
	}
	if asked.Load() != 1 || released.Load() != 1 || requests.Load() != 1 {
		t.Errorf("gate asked %d times, released %d times, %d requests; want one of each", asked.Load(), released.Load(), requests.Load())
	}
}

func (s Subject) noDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed in the next line
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // only its number is of use
	for _, test := range []struct {
		url     string
		outcome task.Outcome
		code    string
	}{
		{"http://" + l.Addr().String(), task.Error, agents.Transport},
		{"http://inside.example/", task.Blocked, agents.PrivateAddress},
		{"https://" + newTLS(t), task.Error, agents.Transport}, // a certificate that nobody trusts
	} {
		call := s.call(test.url)
		call.Gate = func(context.Context) (func(), error) {
			t.Errorf("%s: the gate was asked", test.url)
			return nil, errors.New("asked")
		}
		client := s.New(agents.Loopback(s.Now, map[string]string{"inside.example:80": "10.0.0.1:80"}))
		if r, err := client.Ask(t.Context(), call); err != nil || r.Outcome != test.outcome || r.Code != test.code {
			t.Errorf("%s: Ask = %+v, %v, want %s %s", test.url, r, err, test.outcome, test.code)
		}
	}
}

func newTLS(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (s Subject) marks(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	for _, id := range []identity.Identity{
		{UserAgent: "KaratumBot/1.0", HeaderOrder: []string{"User-Agent"}},
		{UserAgent: "karatum-trials/1.0", HeaderOrder: []string{"User-Agent"}},
		{Headers: []identity.Header{{Name: "X-Karatum-Evaluation", Value: "1"}}, HeaderOrder: []string{"X-Karatum-Evaluation"}},
		{ClientInfo: identity.ClientInfo{Name: "Karatum-Trials"}},
	} {
		call := s.call(sink.url())
		call.Sender = agents.As(id)
		if r, err := s.client().Ask(t.Context(), call); !errors.Is(err, domain.ErrForbidden) {
			t.Errorf("%+v: Ask = %+v, %v, want ErrForbidden", id, r, err)
		}
	}
	if n := len(sink.accepted); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
}

func (s Subject) exchanges(t *testing.T) {
	t.Parallel()
	var bodies []domain.Hash // of what the server got
	plain := s.Server("forty-two")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a request: %v", err)
		}
		bodies = append(bodies, domain.Sum(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		plain.ServeHTTP(w, r)
	}))
	defer server.Close()
	var got []agents.Exchange
	call := s.call(server.URL)
	call.Exchanged = func(x agents.Exchange) { got = append(got, x) }
	r, err := s.client().Ask(t.Context(), call)
	if err != nil || len(got) != len(bodies) || len(got) == 0 {
		t.Fatalf("Ask = %+v, %v with %d exchanges, want as many as the %d requests", r, err, len(got), len(bodies))
	}
	for i, x := range got {
		shape := x.URL == server.URL && x.Method == http.MethodPost && x.RPC != ""
		if s.Document {
			shape = strings.HasPrefix(x.URL, server.URL) && x.Method == http.MethodGet && x.RPC == ""
		}
		if x.N != i || !shape || x.Sent != bodies[i] || x.Status/100 != 2 {
			t.Errorf("exchange %d = %+v, want the request with the body %s", i, x, bodies[i])
		}
	}
	if last := got[len(got)-1]; last.Received != domain.Sum(r.Raw) {
		t.Errorf("the last exchange received %s, want the hash of the answer, %s", last.Received, domain.Sum(r.Raw))
	}
	got = nil
	call.Gate = func(context.Context) (func(), error) { return nil, domain.ErrForbidden }
	if _, err := s.client().Ask(t.Context(), call); err == nil || len(got) != 0 {
		t.Errorf("Ask through a shut gate: %v with the exchanges %+v, want an error and none", err, got)
	}
}

func (s Subject) cancelled(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Silence())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	call := s.call(server.URL)
	call.Gate = func(context.Context) (func(), error) { return cancel, nil }
	if r, err := s.client().Ask(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("Ask = %+v, %v, want context.Canceled", r, err)
	}
}

func (s Subject) hostile(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html"}}
	type attack struct {
		name    string
		handler http.Handler
		outcome task.Outcome
		code    string
	}
	attacks := []attack{
		{"a body that drips", Drip(), task.Timeout, ""},
		{"a stream of pings", Pings(), task.Timeout, ""},
		{"silence", Silence(), task.Timeout, ""},
		{"a body over the limit", Oversize(3 << 20), task.Error, agents.TooLarge},
		{"an event over the limit", OversizeEvent(2 << 20), task.Error, agents.TooLarge},
		{"a compression bomb", Bomb(200 << 20), task.Error, agents.TooLarge},
		{"a header over the limit", Body(200, http.Header{"X-Long": {strings.Repeat("x", 100<<10)}}, nil), task.Error, agents.Transport},
		{"an encoding nobody asked for", Body(200, http.Header{"Content-Encoding": {"br"}}, []byte("x")), task.Error, agents.Protocol},
		{"a body that is not the gzip it says", Body(200, http.Header{"Content-Encoding": {"gzip"}}, []byte("plain, not packed")), task.Error, agents.Protocol},
		{"events for somebody else without end", Chatter(), task.Error, agents.TooLarge},
		{"no HTTP", Raw("* BYE\r\n"), task.Error, agents.Transport},
		{"HTTP of before there were heads", Raw("<html>hello</html>"), task.Error, agents.Transport},
		{"an internal error", Page(500, "Oops"), task.Error, "500"},
		{"an overloaded server", Body(503, nil, nil), task.Error, "503"},
		{"a broken connection", Reset(), task.Error, agents.Transport},
		{"credentials wanted", Body(401, http.Header{"Www-Authenticate": {"Bearer"}}, nil), task.Blocked, agents.AuthWall},
		{"payment wanted", Body(402, nil, []byte(`{}`)), task.Blocked, agents.PaymentCap},
		{"a rate limit", Body(429, http.Header{"Retry-After": {"1"}}, nil), task.Blocked, agents.RateLimited},
		{"a bot wall", Body(403, html, []byte("<title>Just a moment</title> Verify you are human")), task.Blocked, agents.BotWall},
		{"a redirect to a private address", Redirect("http://10.0.0.1/"), task.Blocked, agents.PrivateAddress},
		{"a redirect to the metadata service", Redirect("http://169.254.169.254/latest/"), task.Blocked, agents.PrivateAddress},
		{"a redirect to a name with a private address", Redirect("http://inside.agent.example/"), task.Blocked, agents.PrivateAddress},
		{"a redirect to another site", Redirect("http://elsewhere.example/"), task.Blocked, agents.UnsupportedTransport},
		{"a redirect to a file", Redirect("file:///etc/passwd"), task.Blocked, agents.UnsupportedTransport},
		{"a redirect to itself", Redirect("/"), task.Error, agents.Protocol},
	}
	if !s.Document {
		attacks = append(attacks, []attack{
			{"a page", Page(200, "Welcome"), task.Error, agents.Protocol},
			{"nothing", Body(200, nil, nil), task.Error, agents.Protocol},
			{"JSON that is something else", Body(200, nil, []byte(`{"hello":["world"]}`)), task.Error, agents.Protocol},
			{"an empty event stream", Body(200, http.Header{"Content-Type": {"text/event-stream"}}, nil), task.Error, agents.Protocol},
			{"JSON deeper than can be read", Body(200, nil, []byte(strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000))), task.Error, agents.Protocol},
			{"a JSON-RPC error in a 500", Body(500, nil, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`)), task.Error, "-32603"},
		}...)
	}
	for _, test := range attacks {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				test.handler.ServeHTTP(w, r)
			}))
			server.Config.ErrorLog = quiet()
			server.Start()
			defer server.Close()
			client := s.New(agents.Loopback(s.Now, map[string]string{
				"www.agent.example:80":    server.Listener.Addr().String(),
				"inside.agent.example:80": "192.168.0.1:80",
				"elsewhere.example:80":    server.Listener.Addr().String(),
			}))
			call := s.call("http://www.agent.example/")
			if test.outcome == task.Timeout {
				call.Deadline = 700 * time.Millisecond
			}
			r, err := client.Ask(t.Context(), call)
			if err != nil || r.Outcome != test.outcome || r.Code != test.code {
				t.Errorf("Ask = %s %s (status %d), %v, want %s %s", r.Outcome, r.Code, r.Status, err, test.outcome, test.code)
			}
			if n := requests.Load(); n != 1 && test.name != "a redirect to itself" {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}
