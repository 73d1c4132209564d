package migrations

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Patience is how long the connections of [Connect] wait for a database that says
// nothing: longer than any statement takes, and short enough for a day to go on.
const Patience = 2 * time.Minute

// patiently makes the connections of a dialler give up a database that says nothing for
// as long as patience says, or takes nothing. Where a host has vanished, or something on
// the way to it forwards nothing any more, nobody closes the connection, and a statement
// would be waited for without end.
func patiently(dial pgconn.DialFunc, patience time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: c, patience: patience}, nil
	}
}

// A patientConn is a connection whose reads and writes end. A deadline that whoever
// uses it has set goes before its own.
type patientConn struct {
	net.Conn

	patience time.Duration

	mu            sync.Mutex
	reads, writes bool // have a deadline of the user's
}

// Read implements [net.Conn].
func (c *patientConn) Read(b []byte) (int, error) {
	if err := c.limit(&c.reads, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.explain(err, &c.reads)
}

// Write implements [net.Conn].
func (c *patientConn) Write(b []byte) (int, error) {
	if err := c.limit(&c.writes, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	return n, c.explain(err, &c.writes)
}

// limit sets the deadline of what begins now, unless the user has set one.
func (c *patientConn) limit(theirs *bool, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *theirs {
		return nil
	}
	return set(time.Now().Add(c.patience)) //nolint:forbidigo // the network goes by real time
}

// explain says why something has ended that the user set no deadline for.
func (c *patientConn) explain(err error, theirs *bool) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *theirs {
		return err
	}
	return fmt.Errorf("the database said nothing for %s, and the connection is given up", c.patience)
}

// SetDeadline implements [net.Conn].
func (c *patientConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.writes = !t.IsZero(), !t.IsZero()
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = !t.IsZero()
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = !t.IsZero()
	return c.Conn.SetWriteDeadline(t)
}
