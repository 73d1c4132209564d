package projections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A Reader answers from the public read models. Nothing it returns depends on a
// sealed record.
type Reader struct {
	Pool *pgxpool.Pool
}

// Ping returns nil if the database of the read models answers.
func (r Reader) Ping(ctx context.Context) error { return r.Pool.Ping(ctx) }

// Unreachable reports whether err says that the database did not answer, which
// may pass, and not that it refused something.
func Unreachable(err error) bool {
	if refused := new(pgconn.PgError); errors.As(err, &refused) {
		class := refused.Code[:min(2, len(refused.Code))]
		return class == "57" || class == "53" // the operator's doing; too many of something
	}
	failed, lost := new(pgconn.ConnectError), new(net.OpError)
	return errors.As(err, &failed) || errors.As(err, &lost) || errors.Is(err, io.ErrUnexpectedEOF) || // the connection was cut
		pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}

// snapshot runs queries that must agree with each other.
func (r Reader) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, r.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

// together sends queries on one way to the server and back, and has them answered from one
// snapshot. Each is to have a function that takes its answer.
func (r Reader) together(ctx context.Context, queries *pgx.Batch) error {
	conn, err := r.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // which closes the connection if the transaction did not end
	var b pgx.Batch
	b.Queue(`begin isolation level repeatable read read only`)
	b.QueuedQueries = append(b.QueuedQueries, queries.QueuedQueries...)
	b.Queue(`commit`)
	if err = conn.SendBatch(ctx, &b).Close(); err != nil {
		_, _ = conn.Exec(ctx, `rollback`) // err says more
	}
	return err
}

// only returns a function that takes the only row of an answer, and that returns an error as
// [one] does if there is none.
func only[T any](into *T, scan pgx.RowToFunc[T], what string) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectOneRow(rows, scan)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("there is no %s: %w", what, domain.ErrNotFound)
		}
		return err
	}
}

// A querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// collect returns the rows of a query; no rows are an empty list and not nil.
func collect[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows([]T{}, rows, scan)
}

// one returns the only row of a query, and an error matching
// [domain.ErrNotFound] that names what if there is none.
func one[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], what, sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return *new(T), err
	}
	var v T
	err = only(&v, scan, what)(rows)
	return v, err
}

// at returns the time of a column that may be null: the zero time for null.
func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// hashOf returns the hash that a column holds.
func hashOf(raw []byte) (h domain.Hash, err error) {
	if len(raw) != len(h) {
		return h, fmt.Errorf("a hash of %d bytes: %w", len(raw), ledger.ErrDamaged)
	}
	return domain.Hash(raw), nil
}

// encoded returns an event that r holds, for a table. In a shape that is still written
// these are the bytes that were hashed.
func encoded(r *ledger.Record, e domain.Event) ([]byte, error) {
	if r.Type == e.EventType() {
		return r.Data, nil
	}
	return domain.Encode(e)
}

// decode reads an event as a projection stored it.
func decode[T any](data []byte) (*T, error) {
	if data == nil {
		return nil, nil
	}
	v := new(T)
	return v, domain.Unmarshal(data, v)
}
