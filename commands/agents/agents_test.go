package agents_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	loopback := agents.Loopback(nil, nil)
	for _, test := range []struct {
		url             string
		production, lab bool // whether it is taken
	}{
		{"https://agent.example.com/a2a", true, true},
		{"https://agent.example.com:8443/mcp?x=1", true, true},
		{"https://AGENT.example.com", true, true},
		{"https://8.8.8.8/mcp", true, true},
		{"https://[2606:4700::1111]/mcp", true, true},
		{"https://xn--bcher-kva.example/", true, true},

		{"http://agent.example.com/", false, true},
		{"https://agent.example.com:22/", false, true},
		{"http://127.0.0.1:4100/mcp", false, true},
		{"https://localhost/", false, true},
		{"https://intranet/", false, true},
		{"https://printer.local/", false, true},
		{"https://metadata.google.internal/", false, true},
		{"https://127.0.0.1/", false, true},

		{"https://10.0.0.1/", false, false},
		{"https://169.254.169.254/", false, false},
		{"https://168.63.129.16/", false, false},
		{"https://0.0.0.0/", false, false},
		{"https://[::1]/", false, false},
		{"https://[::ffff:10.0.0.1]/", false, false},
		{"https://[64:ff9b::7f00:1]/", false, false},
		{"https://[fe80::1%25eth0]/", false, false},
		{"https://2130706433/", false, false},
		{"https://0x7f.1/", false, false},
		{"https://127.1/", false, false},
		{"https://0/", false, false},
		{"https://agent.example.com./", false, false},
		{"https://agent..example.com/", false, false},
		{"https://-/", false, true},
		{"https://bücher.example/", false, false},
		{"https://user:secret@agent.example.com/", false, false},
		{"https://agent.example.com/#part", false, false},
		{"https://agent.example.com/#", false, false},
		{"https://agent.example.com:0/", false, false},
		{"https://agent.example.com:99999/", false, false},
		{"https://agent.example.com/a b", false, false},
		{"https://agent.example.com/\n", false, false},
		{"ftp://agent.example.com/", false, false},
		{"https:agent.example.com", false, false},
		{"//agent.example.com/", false, false},
		{"agent.example.com", false, false},
		{"https://", false, false},
		{"", false, false},
		{"https://agent.example.com/" + strings.Repeat("x", 2048), false, false},
	} {
		for name, n := range map[string]agents.Net{"production": {}, "loopback": loopback} {
			want := test.production
			if name == "loopback" {
				want = test.lab
			}
			err := n.CheckURL(test.url)
			if (err == nil) != want || (err != nil && !errors.Is(err, domain.ErrInvalid)) {
				t.Errorf("%s: CheckURL(%.60q) = %v, want taken %v", name, test.url, err, want)
			}
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"https://a.example/", "https://[::1]:443/", "http://127.0.0.1:1/", "https://0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if err := (agents.Net{}).CheckURL(raw); err != nil {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("CheckURL(%q) = %v, want ErrInvalid", raw, err)
			}
			return
		}
		req, err := http.NewRequest(http.MethodGet, raw, nil)
		if err != nil || req.URL.Scheme != "https" || req.URL.User != nil || req.URL.Port() != "" && req.URL.Port() != "443" && req.URL.Port() != "8443" {
			t.Errorf("CheckURL(%q) = nil, want it refused: %v", raw, err)
		}
	})
}

// Production dials nothing private, whatever a URL says and whatever a name
// resolves to.
func TestProductionDialsNothingPrivate(t *testing.T) {
	t.Parallel()
	n := agents.Net{Now: time.Now}
	for _, url := range []string{"https://127.0.0.1/", "https://localhost/", "http://127.0.0.1:80/"} {
		line := n.Line(t.Context(), agents.Sender{}, nil)
		defer line.Close()
		if doc, err := line.Get(t.Context(), url, nil, 1000); err == nil {
			t.Errorf("Get(%s) = %d, want an error", url, doc.Status)
		}
	}
}

func get(t *testing.T, n agents.Net, url string, s agents.Sender, g agents.Gate) (*agents.Document, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	line := n.Line(ctx, s, g)
	defer line.Close()
	return line.Get(ctx, url, nil, 1<<20)
}

// Over TLS the gate is asked when the handshake is done, and a shut one lets no
// application data out.
func TestGateOverTLS(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	n := agents.Loopback(time.Now, nil).Trusting(pool)

	shut := errors.New("paused")
	if _, err := get(t, n, server.URL, agents.Sender{}, func(context.Context) (func(), error) { return nil, shut }); !errors.Is(err, shut) {
		t.Errorf("Get = %v, want the gate's error", err)
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests through a shut gate", requests.Load())
	}
	released := make(chan struct{})
	doc, err := get(t, n, server.URL, agents.Sender{}, func(context.Context) (func(), error) {
		return func() { close(released) }, nil
	})
	if err != nil || doc.Status != http.StatusOK || requests.Load() != 1 {
		t.Errorf("Get = %+v, %v after %d requests, want 200 after 1", doc, err, requests.Load())
	}
	<-released
}

// A peer that does not read holds the gate for five seconds and no longer, and
// then gets nothing more.
func TestGateIsNotHeldByASlowPeer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.(*net.TCPConn).SetReadBuffer(4 << 10)
			conns <- c
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var opened time.Time
	var held atomic.Int64
	line := agents.Loopback(time.Now, nil).Line(ctx, agents.Sender{}, func(context.Context) (func(), error) {
		opened = time.Now()
		return func() { held.Store(int64(time.Since(opened))) }, nil
	})
	defer line.Close()
	const size = 8 << 20 // far more than the buffers of both sockets take
	params := map[string]string{"x": strings.Repeat("x", size)}
	_, err = line.RPC(ctx, "http://"+l.Addr().String(), nil, "x", params, nil)
	var e *agents.Error
	if !errors.As(err, &e) || e.Outcome != task.Error || e.Code != agents.Transport {
		t.Errorf("RPC = %v, want error transport", err)
	}
	if d := time.Duration(held.Load()); d < agents.GateTimeout-time.Second || d > agents.GateTimeout+10*time.Second {
		t.Errorf("the gate was held for %v, want about %v", d, agents.GateTimeout)
	}
	c := <-conns
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) || n >= size {
		t.Errorf("%d bytes came and then %v, want fewer than the request and an end", n, err)
	}
}

// When a conversation is given up while its gate is being asked, it ends after
// the gate, and nothing is sent.
func TestGateThatOpensTooLate(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var state atomic.Int64
	line := agents.Loopback(time.Now, nil).Line(ctx, agents.Sender{}, func(context.Context) (func(), error) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		state.Store(1)
		return func() { state.Store(2) }, nil
	})
	_, err := line.Get(ctx, server.URL, nil, 1000)
	line.Close()
	if !errors.Is(err, context.Canceled) || state.Load() != 2 {
		t.Errorf("Get = %v with the gate in state %d, want cancelled and released", err, state.Load())
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	var head http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { head = r.Header }))
	defer server.Close()
	for _, test := range []struct {
		name   string
		sender agents.Sender
		want   http.Header
	}{
		{"nobody", agents.Sender{}, http.Header{}},
		{
			"an identity", agents.As(identity.Pool()[0]),
			http.Header{
				"User-Agent": {"python-requests/2.34.2"}, "Accept": {"*/*"}, "Accept-Encoding": {"gzip, deflate"}, "Connection": {"keep-alive"},
			},
		},
		{"the harness", agents.Harness(), http.Header{"User-Agent": {"Karatum-Trials/1.0"}, "X-Karatum-Evaluation": {"1"}}},
	} {
		if _, err := get(t, agents.Loopback(time.Now, nil), server.URL, test.sender, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, head); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestSpacedFrames(t *testing.T) {
	t.Parallel()
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(b)
		io.WriteString(w, `[{"id":7,"result":0},{"id":"1","result":{}}]`)
	}))
	defer server.Close()
	line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(identity.Pool()[0]), nil)
	defer line.Close()
	a, err := line.RPC(t.Context(), server.URL, nil, "m", map[string]string{"q": `a:b, "c" <d> é 🜍`}, nil)
	if err != nil || string(a.Result) != "{}" {
		t.Errorf("RPC = %+v, %v, want the second of the two answers", a, err)
	}
	const want = `{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"q": "a:b, \"c\" <d> \u00e9 \ud83d\udf0d"}}`
	if body != want {
		t.Errorf("frame = %s, want %s", body, want)
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("forty-two ", 100))
	pack := func(w io.WriteCloser, err error) {
		if err != nil {
			t.Fatal(err)
		}
		w.Write(text)
		w.Close()
	}
	var gz, zl, fl bytes.Buffer
	pack(gzip.NewWriter(&gz), nil)
	pack(zlib.NewWriter(&zl), nil)
	w, err := flate.NewWriter(&fl, 9)
	pack(w, err)
	for _, test := range []struct {
		encoding string
		body     []byte
		limit    int64
		ok       bool
	}{
		{"", text, 1000, true},
		{"", text, 999, false},
		{"identity", text, 1000, true},
		{"gzip", gz.Bytes(), 1000, true},
		{"GZIP", gz.Bytes(), 1000, true},
		{"gzip", gz.Bytes(), 999, false},
		{"gzip", gz.Bytes()[:gz.Len()-4], 1000, false},
		{"gzip", text, 1000, false},
		{"deflate", zl.Bytes(), 1000, true},
		{"deflate", fl.Bytes(), 1000, true},
		{"deflate", fl.Bytes(), 999, false},
		{"br", text, 1000, false},
	} {
		res := &http.Response{Header: http.Header{"Content-Encoding": {test.encoding}}, Body: io.NopCloser(bytes.NewReader(test.body))}
		got, err := agents.ReadAll(res, test.limit)
		if (err == nil) != test.ok || test.ok && !bytes.Equal(got, text) {
			t.Errorf("%q with limit %d: %d bytes, %v, want read %v", test.encoding, test.limit, len(got), err, test.ok)
		}
	}
}

// FuzzRPC reads what a server may answer, as JSON and as a stream.
func FuzzRPC(f *testing.F) {
	var body []byte
	var mediaType string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Write(body)
	}))
	f.Cleanup(server.Close)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), false)
	f.Add([]byte("event: message\r\ndata: {\"id\":1,\ndata: \"result\":{}}\r\n\r\n"), true)
	f.Add([]byte(`[{"error":{"code":1}},null,7]`), false)
	f.Fuzz(func(t *testing.T, b []byte, stream bool) {
		body, mediaType = b, "application/json"
		if stream {
			mediaType = "text/event-stream"
		}
		line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.Sender{}, nil)
		defer line.Close()
		a, err := line.RPC(t.Context(), server.URL, nil, "m", nil, nil)
		var e *agents.Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Errorf("%q: %v is not about the agent", b, err)
		case err == nil && a.Result == nil && a.Error == nil:
			t.Errorf("%q: an answer with neither result nor error", b)
		}
	})
}

// A request follows three redirects within a site, from host to host, and no more.
func TestRedirects(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left := strings.TrimPrefix(r.URL.Path, "/")
		if left == "" {
			return
		}
		to := map[string]string{"agent.example": "www.agent.example", "www.agent.example": "agent.example"}[r.Host]
		http.Redirect(w, r, "http://"+to+"/"+left[1:], http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	n := agents.Loopback(time.Now, map[string]string{"agent.example:80": addr, "www.agent.example:80": addr})
	for hops, code := range []string{"", "", "", "", agents.Protocol, agents.Protocol} {
		_, err := get(t, n, "http://agent.example/"+strings.Repeat("x", hops), agents.As(identity.Pool()[0]), nil)
		var e *agents.Error
		if errors.As(err, &e); (code == "") != (err == nil) || e != nil && (e.Outcome != task.Error || e.Code != code) {
			t.Errorf("after %d redirects: %v, want the code %q", hops, err, code)
		}
	}
}

// A proxy that the environment names would dial in our place, past the guard.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	defer server.Close()
	n := agents.Loopback(time.Now, map[string]string{"agent.example:80": server.Listener.Addr().String()})
	d, err := get(t, n, "http://agent.example/", agents.As(identity.Pool()[0]), nil)
	if err != nil || string(d.Body) != "here" || asked.Load() != 0 {
		t.Errorf("Get = %+v, %v, and the proxy was asked %d times, want the host's own answer", d, err, asked.Load())
	}
}
