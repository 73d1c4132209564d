package agents

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// latch is the gate of one task, and the connections that it guards.
type latch struct {
	// buffered says that the first request is made and that the next write is the
	// rest of it: net/http tells so before it flushes its buffer, not after.
	buffered atomic.Bool

	mu      sync.Mutex                         // held while the gate is being asked
	open    func() (release func(), err error) // nil: not gated, or asked already
	err     error                              // why nothing may be written
	release func()                             // nil unless the gate is held
	timer   *time.Timer
	conns   []net.Conn
}

func newLatch(ctx context.Context, g Gate) *latch {
	if g == nil {
		return &latch{}
	}
	return &latch{open: func() (func(), error) { return g(ctx) }}
}

// guard returns c as a connection on which nothing is written before the gate
// has opened. wrote is called before each write.
func (l *latch) guard(c net.Conn, wrote func()) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return &guarded{c, l, wrote}
}

// pass asks the gate if nobody has yet, and returns the error of one that stays
// shut to every caller.
func (l *latch) pass() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil || l.err != nil {
		return l.err
	}
	open := l.open
	l.open = nil
	release, err := open()
	if err != nil {
		l.err = &gateError{err}
		return l.err
	}
	l.release = release
	l.timer = time.AfterFunc(gateTimeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.release != nil {
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
	if l.timer != nil {
		l.timer.Stop()
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
	wrote func()
}

func (c *guarded) Write(b []byte) (int, error) {
	if err := c.latch.pass(); err != nil {
		return 0, err
	}
	c.wrote()
	n, err := c.Conn.Write(b)
	if err != nil || c.latch.buffered.Load() {
		c.latch.done()
	}
	return n, err
}
