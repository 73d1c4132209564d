package assembly_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/cmd/internal/assembly"
)

var connections = flag.Int("connections", 10_000, "how many idle connections a server is given")

// patience is far beyond what anything here takes on a slow machine.
const patience = 2 * time.Minute

// A listener is a server of the true interface, without what is behind it.
type listener struct {
	t       *testing.T
	address string

	mu   sync.Mutex
	seen []string // paths that were asked for
}

func listen(t *testing.T) *listener {
	t.Helper()
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{t: t, address: socket.Addr().String()}
	h := api.New(api.Config{PublicURL: "https://karatum.com", Now: time.Now})
	server := assembly.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.seen = append(l.seen, r.URL.Path)
		l.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(socket); err != http.ErrServerClosed {
			t.Errorf("Serve = %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return l
}

func (l *listener) asked(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.seen, path)
}

func (l *listener) dial() *net.TCPConn {
	l.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(l.t.Context(), "tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		l.t.Fatal(err)
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// exchange sends bytes and returns the status of the first answer, 0 if there was none,
// once the server has ended the connection or had nothing more to say.
func (l *listener) exchange(text string) (status int) {
	l.t.Helper()
	conn := l.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err == nil { // else it was refused before its end
		_ = conn.CloseWrite()
	}
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, nil); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		status = res.StatusCode
	}
	_, _ = io.Copy(io.Discard, in)
	return status
}

func (l *listener) healthy(when string) {
	l.t.Helper()
	if got := l.exchange("GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nConnection: close\r\n\r\n"); got != http.StatusOK {
		l.t.Errorf("%s: GET /healthz = %d", when, got)
	}
}

// What reads in two ways is refused, or read in one way with nothing behind it: the
// request that was hidden in another is never served.
func TestSmuggledRequests(t *testing.T) {
	t.Parallel()
	l := listen(t)
	const hidden = "GET /smuggled HTTP/1.1\r\nHost: karatum.com\r\n\r\n"
	post := func(headers, body string) string {
		return "POST /v1/ledger/events HTTP/1.1\r\nHost: karatum.com\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
	}
	length := fmt.Sprint(len(hidden) + 5)
	for _, tt := range []struct {
		name, text string
		statuses   []int // any of them
	}{
		{"a length and chunks", post("Content-Length: "+length+"\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden), []int{400}},
		{"chunks and a length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"+hidden), []int{400}},
		{"two lengths", post("Content-Length: 0\r\nContent-Length: "+length+"\r\n", "0\r\n\r\n"+hidden), []int{400}},
		{"a list of lengths", post("Content-Length: 0, "+length+"\r\n", "0\r\n\r\n"+hidden), []int{400}},
		{"a length with a sign", post("Content-Length: +5\r\n", hidden), []int{400}},
		{"a length below zero", post("Content-Length: -1\r\n", hidden), []int{400}},
		{"a length that wraps around", post("Content-Length: 18446744073709551616\r\n", hidden), []int{400}},
		{"a length in hex", post("Content-Length: 0x5\r\n", hidden), []int{400}},
		{"chunks and identity", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"+hidden), []int{400, 501}},
		{"chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden), []int{400, 501}},
		{"chunks spelled oddly", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"+hidden), []int{400, 501}},
		{"chunks behind a tab", post("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"+hidden), []int{400, 501}},
		{"a blank before a colon", post("Content-Length : "+length+"\r\n", "0\r\n\r\n"+hidden), []int{400}},
		{"a header that goes on", post("X-A: b\r\n Content-Length: 0\r\nContent-Length: "+fmt.Sprint(len(hidden))+"\r\n", hidden), []int{400}},
		{"a first header that goes on", "GET /healthz HTTP/1.1\r\n X-A: b\r\nHost: karatum.com\r\n\r\n", []int{400}},
		{"a bare line feed in chunks", post("Transfer-Encoding: chunked\r\n", "2\nab\r\n0\r\n\r\n"+hidden), []int{400}},
		{"a chunk with an extension", post("Transfer-Encoding: chunked\r\n", "2;a=b\r\n{}\r\n0\r\n\r\n"+hidden), []int{400}},
		{"a chunk with a long extension", post("Transfer-Encoding: chunked\r\n", "2;"+strings.Repeat("a", 20000)+"\r\n{}\r\n0\r\n\r\n"+hidden), []int{400}},
		{"a chunk beyond all", post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}"+hidden), []int{400}},
		{"NUL in a header", "GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nX-A: \x00\r\n\r\n", []int{400}},
		{"a bare carriage return", "GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nX-A: a\rX-B: c\r\n\r\n", []int{400}},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", []int{400}},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nHost: elsewhere.example\r\n\r\n", []int{400}},
		{"a host that is none", "GET /healthz HTTP/1.1\r\nHost: a/b@c\r\n\r\n", []int{400}},
		{"bare line feeds", "GET /healthz HTTP/1.1\nHost: karatum.com\n\n", []int{200, 400}},
		{"the absolute form", "GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: karatum.com\r\n\r\n", []int{200, 400}},
		{"a method that connects", "CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", []int{400, 404, 405}},
		{"a version of tomorrow", "GET /healthz HTTP/3.0\r\nHost: karatum.com\r\n\r\n", []int{400, 505}},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{0, 400, 405, 505}},
		{"no version", "GET /healthz\r\n\r\n", []int{400}},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64) + "\r\n\r\n", []int{400}},
		{"headers without end", "GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nX-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", []int{431}},
		{"a body beyond the limit", post("Content-Length: 2097152\r\n", strings.Repeat(" ", 2<<20)), []int{413}},
		{"a body beyond the limit in chunks", post("Transfer-Encoding: chunked\r\n", "200000\r\n"+strings.Repeat(" ", 2<<20)+"\r\n0\r\n\r\n"), []int{413}},
	} {
		if got := l.exchange(tt.text); !slices.Contains(tt.statuses, got) {
			t.Errorf("%s: %d, want one of %v", tt.name, got, tt.statuses)
		}
		if l.asked("/smuggled") {
			t.Fatalf("%s: the hidden request was served", tt.name)
		}
	}
	l.healthy("afterwards")
}

// Who sends slowly is cut off, whether in the header or in the body.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	l := listen(t)
	t.Run("all at once", func(t *testing.T) {
		for name, tt := range map[string]struct {
			text   string
			status int // 0: cut off without a word
		}{
			"in the first line": {"GET /heal", http.StatusBadRequest},
			"in the header":     {"GET /healthz HTTP/1.1\r\nHost: karatum.com\r\nX-A: b", 0},
			"in the body": {
				"POST /v1/mystery/consents/challenge HTTP/1.1\r\nHost: karatum.com\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", http.StatusRequestTimeout,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn := l.dial()
				defer conn.Close()
				if _, err := io.WriteString(conn, tt.text); err != nil {
					t.Fatal(err)
				}
				in, status := bufio.NewReader(conn), 0
				if res, err := http.ReadResponse(in, nil); err == nil {
					_ = res.Body.Close()
					status = res.StatusCode
				}
				if status != tt.status {
					t.Errorf("the answer is %d, want %d", status, tt.status)
				}
				if _, err := io.Copy(io.Discard, in); err != nil {
					t.Errorf("the connection was not ended: %v", err)
				}
			})
		}
	})
	l.healthy("afterwards")
}

// idleAt names the server that [TestIdleClients] holds connections to.
const idleAt = "TEST_IDLE_AT"

// Connections that say nothing keep nobody out. Their other ends are in a process of its
// own, as systems limit how many descriptors one of them has.
func TestIdleConnections(t *testing.T) {
	l := listen(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	clients := exec.CommandContext(t.Context(), self, "-test.run", "^TestIdleClients$", "-connections", strconv.Itoa(*connections))
	clients.Env = append(os.Environ(), idleAt+"="+l.address)
	clients.Stderr = t.Output()
	out, err := clients.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if n, open := strings.CutPrefix(strings.TrimSpace(said), "open: "); err != nil || !open {
		t.Errorf("the clients say %q, %v", said, err)
	} else if n != strconv.Itoa(*connections) {
		t.Logf("the system allows for %s connections", n)
	}
	l.healthy("meanwhile")
	_ = in.Close() // they may end
	_, _ = io.Copy(io.Discard, out)
	if err := clients.Wait(); err != nil {
		t.Errorf("the clients end with %v", err)
	}
	l.healthy("afterwards")
}

// TestIdleClients is the process that [TestIdleConnections] starts: it opens connections,
// says how many, and holds them until its input ends.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	l := &listener{t: t, address: os.Getenv(idleAt)}
	if l.address == "" {
		t.Skip("it is started by TestIdleConnections")
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(*connections, int(limit.Cur)-100)
	for i := range n {
		conn := l.dial()
		defer conn.Close()
		if i%3 == 0 { // some have asked before
			if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: karatum.com\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	fmt.Fprintln(os.Stdout, "open:", n)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
