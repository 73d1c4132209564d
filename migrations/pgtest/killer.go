package pgtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrKilled is why statements fail once a [Killer] has struck.
var ErrKilled = errors.New("killed")

// A Killer ends the use of a database at one of its statements: from then on nothing
// is done any more, as after the end of a process.
type Killer struct {
	mu    sync.Mutex
	armed bool
	left  int // statements that are still done
	died  bool
}

// Mortal returns a pool on the schema of another one, whose statements end when the
// Killer says so. It goes away with the test.
func Mortal(tb testing.TB, pool *pgxpool.Pool) (*pgxpool.Pool, *Killer) {
	tb.Helper()
	k := new(Killer)
	cfg := pool.Config()
	cfg.ConnConfig.Tracer = k
	cfg.MinConns = 0
	p, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p, k
}

// Arm lets n more statements be done.
func (k *Killer) Arm(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed, k.left, k.died = true, n, false
}

// Disarm lets all statements be done again, and reports whether some were not.
func (k *Killer) Disarm() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = false
	return k.died
}

func (k *Killer) step(ctx context.Context) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.armed {
		return ctx
	}
	if k.left == 0 {
		k.died = true
		dead, cancel := context.WithCancelCause(ctx)
		cancel(ErrKilled)
		return dead
	}
	k.left--
	return ctx
}

// TraceQueryStart implements [pgx.QueryTracer].
func (k *Killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return k.step(ctx)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*Killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (k *Killer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return k.step(ctx)
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (*Killer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (*Killer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart implements [pgx.CopyFromTracer].
func (k *Killer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return k.step(ctx)
}

// TraceCopyFromEnd implements [pgx.CopyFromTracer].
func (*Killer) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}
