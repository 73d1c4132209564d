package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/karatum/mystery/migrations/pgtest"
)

// A wire is what lies between the programme and its database: it knows enough of
// PostgreSQL's protocol (version 3, "Message Formats") to cut a connection before or
// behind a certain statement.
type wire struct {
	network, server string // where the database is
	listener        net.Listener
	config          *pgconn.Config

	fate   atomic.Pointer[func() fate] // of each way to the database and back; nil: all go well
	down   atomic.Bool                 // whoever comes is turned away
	silent atomic.Bool                 // nothing is passed on, and nothing is closed
	delay  atomic.Int64                // of each statement, in nanoseconds
	ways   atomic.Int64                // that were asked for

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// A fate is what becomes of a statement.
type fate int

const (
	passes    fate = iota
	cutBefore      // the connection ends, and the statement never arrives
	cutBehind      // the statement is carried out, and its answer lost
)

// lay returns a wire to the database at url.
func lay(t *testing.T, url string) *wire {
	t.Helper()
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{config: c, conns: make(map[net.Conn]bool)}
	w.network, w.server = pgconn.NetworkAddress(c.Host, c.Port)
	dir, err := os.MkdirTemp("", "wire") //nolint:usetesting // that of a test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if w.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.cut()
		served.Wait()
	})
	return w
}

// url returns the connection string of the database behind the wire.
func (w *wire) url() string {
	url := "host=" + filepath.Dir(w.listener.Addr().String()) + " port=5432 user=" + w.config.User + " dbname=" + w.config.Database + " sslmode=disable connect_timeout=5"
	if w.config.Password != "" {
		url += " password='" + w.config.Password + "'"
	}
	return url
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

// hold keeps a connection, to be cut, until let.
func (w *wire) hold(c net.Conn) (let func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
	return func() {
		_ = c.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, c)
	}
}

// carry joins a connection with one to the database, until one of them ends.
func (w *wire) carry(client net.Conn) {
	defer w.hold(client)()
	if w.down.Load() {
		return
	}
	server, err := net.Dial(w.network, w.server)
	if err != nil {
		return
	}
	defer w.hold(server)()
	p := &passage{wire: w, client: client, server: server}
	var ends sync.WaitGroup
	ends.Go(func() {
		p.back()
		_ = client.Close()
		_ = server.Close()
	})
	p.forth()
	_ = client.Close()
	_ = server.Close()
	ends.Wait()
}

// A passage is a connection on the wire.
type passage struct {
	wire           *wire
	client, server net.Conn

	dead   atomic.Bool // it has swallowed something, and swallows all that comes
	doomed atomic.Bool // it ends once the database has done what it was told
}

// forth passes on what the programme says.
func (p *passage) forth() {
	cancels, err := p.startUp()
	if err != nil || cancels {
		return
	}
	in, out := bufio.NewReader(p.client), bufio.NewWriter(p.server)
	for {
		kind, message, err := read(in)
		if err != nil {
			return
		}
		if kind == 'Q' || kind == 'S' { // a simple query, or the end of an extended one
			if d := p.wire.delay.Load(); d > 0 {
				time.Sleep(time.Duration(d)) // the database is slow
			}
			p.wire.ways.Add(1)
			if judge := p.wire.fate.Load(); judge != nil {
				switch (*judge)() {
				case passes:
				case cutBefore:
					return
				case cutBehind:
					p.doomed.Store(true)
				}
			}
		}
		if p.swallows() {
			continue
		}
		if err := pass(message, in, out); err != nil {
			return
		}
	}
}

// pass passes a message on, together with those behind it that are there already: most are
// small, and come by the dozen.
func pass(message []byte, in *bufio.Reader, out *bufio.Writer) error {
	if _, err := out.Write(message); err != nil || in.Buffered() > 0 {
		return err
	}
	return out.Flush()
}

// back passes on what the database says.
func (p *passage) back() {
	in, out := bufio.NewReader(p.server), bufio.NewWriter(p.client)
	for {
		kind, message, err := read(in)
		if err != nil {
			return
		}
		switch {
		case p.swallows():
		case p.doomed.Load():
			if kind == 'Z' || kind == 'G' { // ready for the next query, or for what is to be copied
				return
			}
		default:
			if err := pass(message, in, out); err != nil {
				return
			}
		}
	}
}

// swallows reports whether what has come on the way is lost. A connection that has lost
// something is of no use any more.
func (p *passage) swallows() bool {
	if p.wire.silent.Load() {
		p.dead.Store(true)
	}
	return p.dead.Load()
}

// cancelRequest is the code in place of a version that asks to cancel a statement.
const cancelRequest = 80877102

// startUp passes on the first message, which has no kind, and reports whether it was all.
func (p *passage) startUp() (cancels bool, err error) {
	var head [8]byte
	if _, err := io.ReadFull(p.client, head[:]); err != nil {
		return false, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 8 || size > maxStartUp {
		return false, errors.New("no start-up message")
	}
	message := make([]byte, size)
	copy(message, head[:])
	if _, err := io.ReadFull(p.client, message[8:]); err != nil {
		return false, err
	}
	if p.swallows() {
		return false, nil
	}
	_, err = p.server.Write(message)
	return binary.BigEndian.Uint32(head[4:]) == cancelRequest, err
}

// maxStartUp is what PostgreSQL itself takes.
const maxStartUp = 10_000

// read reads a message: its kind, and all of its bytes.
func read(r io.Reader) (kind byte, message []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	message = make([]byte, 1+size)
	copy(message, head[:])
	_, err = io.ReadFull(r, message[5:])
	return head[0], message, err
}

// TestWire holds that the wire does what the tests behind it rely on: a statement that
// is cut off before it arrives leaves nothing, one whose answer is lost is carried out.
func TestWire(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(pgtest.Open(t))
	w := lay(t, pgtest.URL(t))
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), w.url())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	plain := connect()
	insert := "insert into " + schema + ".leases values ($1, 'nobody', now())"
	for i, f := range []fate{passes, cutBefore, cutBehind} {
		c := connect()
		if _, err := c.Prepare(t.Context(), "insert", insert); err != nil {
			t.Fatal(err)
		}
		var struck atomic.Bool
		judge := func() fate {
			if struck.Swap(true) {
				return passes
			}
			return f
		}
		w.fate.Store(&judge)
		name := "wire " + strconv.Itoa(i)
		if _, err := c.Exec(t.Context(), "insert", name); (err == nil) != (f == passes) {
			t.Errorf("fate %d: Exec = %v", f, err)
		}
		var there bool
		if err := plain.QueryRow(t.Context(), "select exists (select from "+schema+".leases where name = $1)", name).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there != (f != cutBefore) {
			t.Errorf("fate %d: the row is there: %t", f, there)
		}
	}
}
