package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// pageSize is how many records are read at once. Between pages no connection and
// no snapshot is held, so a reader may take its time, and use the pool.
const pageSize = 500

// errDamaged means that the log holds what no append can have left behind.
var errDamaged = fmt.Errorf("the log is %w", ledger.ErrDamaged)

const selectRecords = `select position, stream, version, id, type, time, actor, command, correlation, data, hash from events `

// Stream implements [ledger.Log].
func (l *Log) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		l.pages(ctx, yield, version, func(r ledger.Record) uint64 { return r.Version },
			selectRecords+"where stream = $3 and version > $1 order by version limit $2", string(s))
	}
}

// After implements [ledger.Log].
func (l *Log) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		l.pages(ctx, yield, position, func(r ledger.Record) uint64 { return r.Position },
			selectRecords+"where position > $1 order by position limit $2")
	}
}

// pages yields the records with the numbers last+1, last+2, … page by page, where
// number tells which of its numbers counts. The first two arguments of sql are the
// last number before a page and the size of the page. Behind a full page the next one is
// read while that is yielded.
func (l *Log) pages(ctx context.Context, yield func(ledger.Record, error) bool, last uint64,
	number func(ledger.Record) uint64, sql string, args ...any,
) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	read := func(last uint64, expected int) func() ([]ledger.Record, error) {
		var page []ledger.Record
		var err error
		done := make(chan struct{})
		reading.Go(func() {
			defer close(done)
			page, err = l.page(ctx, expected, sql, append([]any{last, pageSize}, args...))
		})
		return func() ([]ledger.Record, error) {
			<-done
			return page, err
		}
	}
	fail := func(err error) { yield(ledger.Record{}, fmt.Errorf("read the log: %w", err)) }
	for next := read(last, 0); last < math.MaxInt64; { // no record has a greater number
		page, err := next()
		if err != nil {
			fail(err)
			return
		}
		full := len(page) == pageSize
		for i, r := range page {
			if full && i == 1 { // whoever wants a second record will want all
				next = read(last-1+pageSize, pageSize) // records have no gaps, or the loop ends before it comes to that
			}
			if err := ctx.Err(); err != nil {
				fail(err)
				return
			}
			if number(r) != last+1 {
				fail(fmt.Errorf("%s at %d has number %d behind %d: %w", r.Stream, r.Version, number(r), last, errDamaged))
				return
			}
			if !yield(r, nil) {
				return
			}
			last++
		}
		if !full {
			return
		}
	}
}

// page reads a page, of which about so many records are expected.
func (l *Log) page(ctx context.Context, expected int, sql string, args []any) ([]ledger.Record, error) {
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable(err)
	}
	page, err := pgx.AppendRows(make([]ledger.Record, 0, expected), rows, scan)
	switch failed := (pgx.ScanArgError{}); {
	case errors.As(err, &failed): // such as a negative version
		return nil, fmt.Errorf("%w: %w", err, errDamaged)
	case errors.Is(err, errDamaged):
		return nil, err
	case err != nil:
		return nil, unavailable(err)
	}
	return page, nil
}

func scan(row pgx.CollectableRow) (r ledger.Record, err error) {
	var stream, typ string
	var id [16]byte
	var at time.Time
	var hash []byte
	err = row.Scan(&r.Position, &stream, &r.Version, &id, &typ, &at, &r.Actor, &r.Cause.Command, &r.Cause.Correlation, &r.Data, &hash)
	if err != nil {
		return r, err
	}
	r.Stream, r.ID, r.Type, r.Time = ledger.Stream(stream), id, domain.Type(typ), at.UTC()
	if len(hash) != len(r.Hash) { // for all that a constraint of the table says
		return r, fmt.Errorf("%s at %d has a hash of %d bytes: %w", r.Stream, r.Version, len(hash), errDamaged)
	}
	r.Hash = domain.Hash(hash)
	return r, nil
}
