// Package postgres keeps the ledger in PostgreSQL, in the tables of package
// migrations.
//
// # Order
//
// The one row of log_head holds the last position. Whoever appends locks it first
// and holds it until commit, so positions become visible in their own order and
// without gaps, however many processes write. A gap in what is read is therefore
// damage, and reading ends there with an error.
//
// # Throughput
//
// Locking per append would make each wait for a flush of the disk. One goroutine
// per Log appends what waits in one transaction of two round trips, and gives each
// append a verdict of its own: a conflict does not harm those beside it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

var _ ledger.Log = (*Log)(nil)

// Options change how a [Log] works.
type Options struct {
	// Now returns the time of a record. If nil, it is the clock of the database,
	// read under the lock.
	Now func() time.Time
}

// A Log is a [ledger.Log] in PostgreSQL. Several may share a database.
//
// While the database is away, calls return errors of the kind
// [domain.ErrUnavailable]; once it is back, the Log works on.
type Log struct {
	pool  *pgxpool.Pool
	queue chan *request // unbuffered: a request that is sent is in the writer's hands
	close sync.Once
	// closing is closed by Close, closed by the writer when it has ended.
	closing, closed chan struct{}
}

// A request is an append on its way through the writer.
type request struct {
	version uint64
	records []ledger.Record
	size    int
	done    chan error // receives the verdict; has room for it
}

// New returns a Log in the schema that the connections of pool work in. It takes
// one connection out of pool for its writer, so that appends never wait for
// readers. Close it before pool.
func New(pool *pgxpool.Pool, o Options) *Log {
	l := &Log{
		pool:    pool,
		queue:   make(chan *request),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
	}
	w := &writer{log: l, now: o.Now}
	go w.run()
	return l
}

// Close ends the writer after the appends in its hands. Later appends are refused;
// reading goes on.
func (l *Log) Close() {
	l.close.Do(func() { close(l.closing) })
	<-l.closed
}

// Append implements [ledger.Log]. If ctx ends while the append is being written,
// Append returns at once, and the outcome is unknown. It is unknown as well after an
// error of the kind [domain.ErrUnavailable].
func (l *Log) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	records, err := ledger.Prepare(s, m, events...)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append to %s: %w", s, err)
	}
	r := &request{version: version, records: records, done: make(chan error, 1)}
	for i := range records {
		r.size += len(records[i].Data)
	}
	select {
	case l.queue <- r:
	case <-l.closing:
		return fmt.Errorf("append to %s: the log is closed: %w", s, domain.ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("append to %s: %w", s, ctx.Err())
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("append to %s, outcome unknown: %w", s, ctx.Err())
	}
}

// unavailable gives err, returned by the driver, its kind. What is not the end of a
// context and not a refused statement means that the server cannot be used now.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || isRefusal(err) {
		return err
	}
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
}

// isRefusal reports whether the server refused a statement for what it says, so
// that it would refuse it again. Other errors speak of the connection, or in their
// SQLSTATE of the state of the server: connection exception, transaction rollback,
// insufficient resources, operator intervention, system error, read-only standby,
// time spent idle, lock not available.
func isRefusal(err error) bool {
	e := new(pgconn.PgError)
	if !errors.As(err, &e) || len(e.Code) != 5 {
		return false
	}
	switch e.Code[:2] {
	case "08", "40", "53", "57", "58":
		return false
	}
	return e.Code != "25006" && e.Code != "25P03" && e.Code != "55P03"
}
