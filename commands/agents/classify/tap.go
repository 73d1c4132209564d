package classify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Tap stands between clients and a server of HTTP/1.1, passes all bytes on and
// keeps the requests as they came. A client is expected to wait for an answer before
// it sends the next request on a connection.
type Tap struct {
	listener net.Listener
	server   string
	now      func() time.Time
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    []net.Conn
	requests []Request
}

// Open starts a tap before the server at an address. Close it when done.
func Open(ctx context.Context, server string, now func() time.Time) (*Tap, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a tap: %w", err)
	}
	t := &Tap{listener: l, server: server, now: now}
	t.running.Go(t.accept)
	return t, nil
}

// Addr is the address that clients connect to.
func (t *Tap) Addr() string { return t.listener.Addr().String() }

// Close ends all connections and returns the requests that came whole, in the order
// in which they did.
func (t *Tap) Close() []Request {
	t.mu.Lock()
	t.closed = true
	_ = t.listener.Close()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
	return t.requests
}

func (t *Tap) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return // it was closed
		}
		server, err := (&net.Dialer{}).Dial("tcp", t.server)
		if err != nil || !t.keep(client, server) {
			_ = client.Close()
			continue
		}
		t.running.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server) // until either is closed
		})
		t.running.Go(func() {
			defer server.Close()
			t.read(client, server)
		})
	}
}

func (t *Tap) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	t.conns = append(t.conns, conns...)
	return true
}

// read passes on what a client sends and takes it apart into requests.
func (t *Tap) read(client net.Conn, server io.Writer) {
	var have []byte
	var r Request
	var last time.Time
	nth, before := 1, 0
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		now := t.now()
		if len(have) > 0 {
			r.Pause = max(r.Pause, now.Sub(last))
		}
		last = now
		have = append(have, buf[:n]...)
		// The segments are counted before the server can answer: what comes
		// after the answer belongs to the next request.
		if head, body, whole := parse(have); whole {
			after := segments(client)
			r.Head, r.Body, r.Nth, r.Segments = head, body, nth, after-before
			t.mu.Lock()
			t.requests = append(t.requests, r)
			t.mu.Unlock()
			have, r, nth, before = nil, Request{}, nth+1, after
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// parse takes a request apart if it is there whole.
func parse(b []byte) (head string, body []byte, whole bool) {
	h, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		return "", nil, false
	}
	for field := range strings.SplitSeq(string(h), "\r\n") {
		name, value, _ := strings.Cut(field, ":")
		if strings.EqualFold(name, "content-length") {
			length, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil || len(body) < length {
				return "", nil, false
			}
		}
	}
	return string(h), body, true
}
