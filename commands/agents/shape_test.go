package agents_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/identity"
)

// recorded are the heads that the libraries of the pool themselves wrote to a
// plain listener: a GET, a POST of JSON, and one with a header of the caller's
// that A2A asks for. HOST is the listener, LENGTH the length of the body, which
// the libraries were given another of.
var recorded = []struct{ get, post, own string }{
	{
		"Host: HOST|User-Agent: python-requests/2.34.2|Accept-Encoding: gzip, deflate|Accept: */*|Connection: keep-alive",
		"Host: HOST|User-Agent: python-requests/2.34.2|Accept-Encoding: gzip, deflate|Accept: */*|Connection: keep-alive|Content-Length: LENGTH|Content-Type: application/json",
		"Host: HOST|User-Agent: python-requests/2.34.2|Accept-Encoding: gzip, deflate|Accept: */*|Connection: keep-alive|A2A-Version: 1.0|Content-Length: LENGTH|Content-Type: application/json",
	},
	{
		"Host: HOST|Accept: */*|Accept-Encoding: gzip, deflate|Connection: keep-alive|User-Agent: python-httpx/0.23.3",
		"Host: HOST|Accept: */*|Accept-Encoding: gzip, deflate|Connection: keep-alive|User-Agent: python-httpx/0.23.3|Content-Length: LENGTH|Content-Type: application/json",
		"Host: HOST|Accept: */*|Accept-Encoding: gzip, deflate|Connection: keep-alive|User-Agent: python-httpx/0.23.3|A2A-Version: 1.0|Content-Length: LENGTH|Content-Type: application/json",
	},
	{
		"Host: HOST|Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: Python/3.11 aiohttp/3.8.4",
		"Host: HOST|Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: Python/3.11 aiohttp/3.8.4|Content-Length: LENGTH|Content-Type: application/json",
		"Host: HOST|A2A-Version: 1.0|Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: Python/3.11 aiohttp/3.8.4|Content-Length: LENGTH|Content-Type: application/json",
	},
	{
		"Host: HOST|Connection: Keep-Alive|Accept-Encoding: gzip|User-Agent: okhttp/3.13.1",
		"Content-Type: application/json; charset=utf-8|Content-Length: LENGTH|Host: HOST|Connection: Keep-Alive|Accept-Encoding: gzip|User-Agent: okhttp/3.13.1",
		"A2A-Version: 1.0|Content-Type: application/json; charset=utf-8|Content-Length: LENGTH|Host: HOST|Connection: Keep-Alive|Accept-Encoding: gzip|User-Agent: okhttp/3.13.1",
	},
	{
		"Host: HOST|User-Agent: curl/7.88.1|Accept: */*",
		"Host: HOST|User-Agent: curl/7.88.1|Accept: */*|Content-Type: application/json|Content-Length: LENGTH",
		"Host: HOST|User-Agent: curl/7.88.1|Accept: */*|Content-Type: application/json|A2A-Version: 1.0|Content-Length: LENGTH",
	},
	{
		"Host: HOST|User-Agent: Go-http-client/1.1|Accept-Encoding: gzip",
		"Host: HOST|User-Agent: Go-http-client/1.1|Content-Length: LENGTH|Content-Type: application/json|Accept-Encoding: gzip",
		"Host: HOST|User-Agent: Go-http-client/1.1|Content-Length: LENGTH|A2a-Version: 1.0|Content-Type: application/json|Accept-Encoding: gzip",
	},
	{
		"Accept: application/json, text/plain, */*|User-Agent: axios/1.21.1|Accept-Encoding: gzip, compress, deflate, br|Host: HOST|Connection: keep-alive",
		"Accept: application/json, text/plain, */*|Content-Type: application/json|User-Agent: axios/1.21.1|Content-Length: LENGTH|Accept-Encoding: gzip, compress, deflate, br|Host: HOST|Connection: keep-alive",
		"Accept: application/json, text/plain, */*|Content-Type: application/json|A2A-Version: 1.0|User-Agent: axios/1.21.1|Content-Length: LENGTH|Accept-Encoding: gzip, compress, deflate, br|Host: HOST|Connection: keep-alive",
	},
	{
		"user-agent: got (https://github.com/sindresorhus/got)|accept-encoding: gzip, deflate, br|Host: HOST|Connection: keep-alive",
		"user-agent: got (https://github.com/sindresorhus/got)|content-type: application/json|content-length: LENGTH|accept-encoding: gzip, deflate, br|Host: HOST|Connection: keep-alive",
		"user-agent: got (https://github.com/sindresorhus/got)|a2a-version: 1.0|content-type: application/json|content-length: LENGTH|accept-encoding: gzip, deflate, br|Host: HOST|Connection: keep-alive",
	},
	fetch, fetch, fetch, fetch,
}

// fetch is what Node.js writes, in versions 20 and 22 alike.
var fetch = struct{ get, post, own string }{
	"host: HOST|connection: keep-alive|accept: */*|accept-language: *|sec-fetch-mode: cors|user-agent: node|accept-encoding: gzip, deflate",
	"host: HOST|connection: keep-alive|Content-Type: application/json|accept: */*|accept-language: *|sec-fetch-mode: cors|user-agent: node|accept-encoding: gzip, deflate|content-length: LENGTH",
	"host: HOST|connection: keep-alive|A2A-Version: 1.0|Content-Type: application/json|accept: */*|accept-language: *|sec-fetch-mode: cors|user-agent: node|accept-encoding: gzip, deflate|content-length: LENGTH",
}

// A wire is a plain listener that keeps what it is sent, as it is sent.
type wire struct {
	net.Listener
	heads chan string
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w := &wire{l, make(chan string, 10)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(c)
		}
	}()
	return w
}

func (w *wire) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		var head strings.Builder
		length := int64(0)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
			if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "content-length") {
				fmt.Sscan(value, &length)
			}
		}
		io.CopyN(io.Discard, r, length)
		w.heads <- strings.ReplaceAll(head.String(), fmt.Sprint("ength: ", length), "ength: LENGTH")
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}

// head returns the next head that came, in the form of recorded.
func (w *wire) head() string {
	h := strings.TrimSuffix(<-w.heads, "\r\n")
	return strings.ReplaceAll(strings.ReplaceAll(h, w.Addr().String(), "HOST"), "\r\n", "|")
}

// Every request of an identity has, byte for byte, the head that its library
// writes, on a fresh connection and on one that is used again.
func TestHeadsAreThoseOfTheLibraries(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	url := "http://" + w.Addr().String() + "/a2a?x=1"
	for i, id := range identity.Pool() {
		want := recorded[i]
		line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(id), nil)
		for range 2 {
			if _, err := line.Get(t.Context(), url, nil, 1000); err != nil {
				t.Fatalf("%s: Get = %v", id.Name, err)
			}
			got := []string{w.head()}
			for _, h := range []http.Header{nil, {"A2A-Version": {"1.0"}}} {
				if _, err := line.RPC(t.Context(), url, h, "message/send", map[string]string{"a": "b"}, nil); err != nil {
					t.Fatalf("%s: RPC = %v", id.Name, err)
				}
				got = append(got, w.head())
			}
			if diff := cmp.Diff([]string{
				"GET /a2a?x=1 HTTP/1.1|" + want.get, "POST /a2a?x=1 HTTP/1.1|" + want.post, "POST /a2a?x=1 HTTP/1.1|" + want.own,
			}, got); diff != "" {
				t.Errorf("heads of %s (-recorded +ours):\n%s", id.Name, diff)
			}
		}
		line.Close()
	}
}

// In the Model Context Protocol a client on node fetch writes as the TypeScript
// SDK does.
func TestHeadsOfMCP(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	url := "http://" + w.Addr().String() + "/mcp"
	line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(identity.Pool()[10]), nil).MCP()
	defer line.Close()
	h := http.Header{"Mcp-Session-Id": {"s"}, "Mcp-Protocol-Version": {"2025-11-25"}, "Accept": {"application/json, text/event-stream"}}
	if _, err := line.RPC(t.Context(), url, h, "tools/list", nil, nil); err != nil {
		t.Fatal(err)
	}
	h.Set("Accept", "text/event-stream")
	got := []string{w.head()}
	if _, err := line.Get(t.Context(), url, h, 1000); err != nil {
		t.Fatal(err)
	}
	got = append(got, w.head())
	want := []string{
		"POST /mcp HTTP/1.1|host: HOST|connection: keep-alive|mcp-session-id: s|mcp-protocol-version: 2025-11-25|content-type: application/json|accept: application/json, text/event-stream|accept-language: *|sec-fetch-mode: cors|user-agent: node|accept-encoding: gzip, deflate|content-length: LENGTH",
		"GET /mcp HTTP/1.1|host: HOST|connection: keep-alive|mcp-session-id: s|mcp-protocol-version: 2025-11-25|Accept: text/event-stream|accept-language: *|sec-fetch-mode: cors|user-agent: node|accept-encoding: gzip, deflate",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("heads (-want +got):\n%s", diff)
	}
}

// A request that follows a redirect has nothing in its head but its new host that
// the first had not.
func TestHeadAfterARedirect(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	from := newRedirect(t, "http://www.agent.example/next")
	n := agents.Loopback(time.Now, map[string]string{"www.agent.example:80": w.Addr().String(), "agent.example:80": from})
	for i, id := range identity.Pool() {
		line := n.Line(t.Context(), agents.As(id), nil)
		if _, err := line.RPC(t.Context(), "http://agent.example/a2a", nil, "m", nil, nil); err != nil {
			t.Fatalf("%s: RPC = %v", id.Name, err)
		}
		line.Close()
		want := "POST /next HTTP/1.1|" + strings.Replace(recorded[i].post, "HOST", "www.agent.example", 1)
		if diff := cmp.Diff(want, w.head()); diff != "" {
			t.Errorf("head of %s (-want +got):\n%s", id.Name, diff)
		}
	}
}

// A body that exceeds the write buffer follows its head whole.
func TestShapedBodyOfManyWrites(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, id := range identity.Pool() {
		line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(id), nil)
		for _, size := range []int{300 << 10, 1} {
			if _, err := line.RPC(t.Context(), "http://"+w.Addr().String()+"/", nil, "m", strings.Repeat("x", size), nil); err != nil {
				t.Fatalf("%s: RPC of %d bytes = %v", id.Name, size, err)
			}
			if h := w.head(); !strings.HasPrefix(h, "POST / HTTP/1.1|") {
				t.Errorf("%s: head = %q", id.Name, h)
			}
		}
		line.Close()
	}
}

// A head that does not fit is not sent in part.
func TestHeadTooLarge(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(identity.Pool()[0]), nil)
	defer line.Close()
	h := http.Header{"Mcp-Session-Id": {strings.Repeat("x", 100<<10)}}
	if _, err := line.RPC(t.Context(), "http://"+w.Addr().String()+"/", h, "m", nil, nil); err == nil {
		t.Error("RPC = nil, want an error")
	}
	if len(w.heads) != 0 {
		t.Error("a part of the head was sent")
	}
}

func newRedirect(t *testing.T, to string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.RedirectHandler(to, http.StatusTemporaryRedirect)}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}
