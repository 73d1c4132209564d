package agents

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// latch is the gate of one task, and the connections that it guards.
type latch struct {
	// buffered says that the first request is made and that the next write is the
	// rest of it: net/http tells so before it flushes its buffer, not after.
	buffered atomic.Bool

	mu      sync.Mutex                                                // held while the gate is being asked
	ask     func() (release func(), limit context.Context, err error) // nil: not gated
	asked   bool
	err     error       // why nothing may be written
	release func()      // nil unless the gate is held
	stop    func() bool // the limit of the hold
	conns   []net.Conn
}

func newLatch(ctx context.Context, g Gate) *latch {
	if g == nil {
		return &latch{}
	}
	return &latch{ask: func() (func(), context.Context, error) {
		// One limit for all: asking, and writing what was allowed.
		limit, cancel := context.WithTimeout(ctx, gateTimeout)
		release, err := g(limit)
		if err != nil {
			cancel()
			return nil, nil, err
		}
		return func() { release(); cancel() }, limit, nil
	}}
}

// again lets the gate be asked once more, before the next write.
func (l *latch) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.let()
	l.asked = false
	l.buffered.Store(false)
}

// guard returns c as a connection on which nothing is written before the gate
// has opened. begun is called before each write, ended after it. With apart, what
// follows a head is written after it and not with it; to the gate they are one.
func (l *latch) guard(c net.Conn, apart bool, begun, ended func()) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return &guarded{c, l, apart, begun, ended}
}

// pass asks the gate if nobody has yet, and returns the error of one that stays
// shut to every caller.
func (l *latch) pass() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ask == nil || l.asked || l.err != nil {
		return l.err
	}
	l.asked = true
	release, limit, err := l.ask()
	if err != nil {
		l.err = &gateError{err}
		return l.err
	}
	l.release = release
	l.stop = context.AfterFunc(limit, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.release != nil && limit.Err() != nil {
			l.cut()
		}
	})
	return nil
}

// done releases the gate if it is held.
func (l *latch) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.let()
}

// close ends all writing and releases the gate if it is held. It waits for a
// gate that is being asked.
func (l *latch) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = errClosed
	}
	l.cut()
}

// cut closes the connections and then releases the gate, in this order: no byte
// follows a release that comes before the request was written.
func (l *latch) cut() {
	for _, c := range l.conns {
		if l.release != nil {
			drop(c)
		}
		_ = c.Close()
	}
	l.let()
}

// delay lets small writes wait for the acknowledgement of those before.
func delay(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	if s, ok := c.(*net.TCPConn); ok {
		_ = s.SetNoDelay(false) // a connection that is closed already writes nothing
	}
}

// drop makes the kernel forget what it was given and has not sent.
func drop(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	if s, ok := c.(*net.TCPConn); ok {
		_ = s.SetLinger(0) // a connection that is closed already has nothing to forget
		_ = s.Close()      // the alert that ends TLS would be one more byte
	}
}

func (l *latch) let() {
	if l.stop != nil {
		l.stop()
	}
	if release := l.release; release != nil {
		l.release = nil
		release()
	}
}

// shut returns the error of a gate that stayed shut, or nil.
func (l *latch) shut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shut, ok := errors.AsType[*gateError](l.err); ok {
		return shut
	}
	return nil
}

var errClosed = errors.New("the conversation is over")

// A gateError is a gate that stayed shut: not a word about the agent.
type gateError struct{ error }

func (e *gateError) Error() string { return fmt.Sprintf("the task may not be sent: %v", e.error) }
func (e *gateError) Unwrap() error { return e.error }

type guarded struct {
	net.Conn
	latch *latch
	apart bool

	begun, ended func()
}

func (c *guarded) Write(b []byte) (int, error) {
	if err := c.latch.pass(); err != nil {
		return 0, err
	}
	c.begun()
	n, err := c.write(b)
	c.ended()
	if err != nil || c.latch.buffered.Load() {
		c.latch.done()
	}
	return n, err
}

func (c *guarded) write(b []byte) (int, error) {
	_, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !c.apart || !ok || len(body) == 0 { // no JSON holds an end of a head
		return c.Conn.Write(b)
	}
	end := len(b) - len(body)
	if n, err := c.Conn.Write(b[:end]); err != nil {
		return n, err
	}
	n, err := c.Conn.Write(body)
	return end + n, err
}
