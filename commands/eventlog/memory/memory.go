// Package memory keeps the ledger in memory, for tests. It keeps the contract of
// [ledger.Log] but for durability, and can fail on demand.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

var _ ledger.Log = (*Log)(nil)

// A Log is a [ledger.Log] in memory. The zero Log is empty and ready to use.
type Log struct {
	// Now returns the time of a record. If nil, it is time.Now.
	Now func() time.Time

	// Fault, if set, is called whenever an append is about to add records, once
	// with false before it does and once with true after. Append returns its
	// error: the first adds nothing, the second is a lost reply. Fault is called
	// under a lock and must not use the log.
	Fault func(persisted bool) error

	mu      sync.Mutex
	records []ledger.Record         // append-only; the one at index i has position i+1
	streams map[ledger.Stream][]int // indexes into records, in order of version
	ids     map[uuid.UUID]uint64    // versions of all records by id
}

// Append implements [ledger.Log].
func (l *Log) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	records, err := ledger.Prepare(s, m, events...)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append to %s: %w", s, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	actual := uint64(len(l.streams[s]))
	if at, known := l.ids[records[0].ID]; known {
		if last := records[len(records)-1].ID; at == version+1 && l.ids[last] == version+uint64(len(records)) {
			return nil
		}
		return fmt.Errorf("append to %s at %d: the command %s is in the log, and the stream is at %d: %w",
			s, version, m.Command, actual, ledger.ErrConflict)
	}
	if actual != version {
		return fmt.Errorf("append to %s at %d, which is at %d: %w", s, version, actual, ledger.ErrConflict)
	}
	if err := l.fault(false); err != nil {
		return err
	}
	l.add(s, records)
	return l.fault(true)
}

func (l *Log) add(s ledger.Stream, records []ledger.Record) {
	if l.streams == nil {
		l.streams = make(map[ledger.Stream][]int)
		l.ids = make(map[uuid.UUID]uint64)
	}
	now := l.now()
	var prev domain.Hash
	if at := l.streams[s]; len(at) > 0 {
		prev = l.records[at[len(at)-1]].Hash
	}
	for _, r := range records {
		r.Position = uint64(len(l.records)) + 1
		r.Link(prev, uint64(len(l.streams[s]))+1, now)
		prev = r.Hash
		l.streams[s] = append(l.streams[s], len(l.records))
		l.ids[r.ID] = r.Version
		l.records = append(l.records, r)
	}
}

func (l *Log) now() time.Time {
	if l.Now == nil {
		return time.Now() //nolint:forbidigo // the default clock
	}
	return l.Now()
}

func (l *Log) fault(persisted bool) error {
	if l.Fault == nil {
		return nil
	}
	return l.Fault(persisted)
}

// Stream implements [ledger.Log].
func (l *Log) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		l.mu.Lock()
		records, at := l.records, l.streams[s]
		l.mu.Unlock()
		for _, i := range at[min(version, uint64(len(at))):] {
			if !yieldRecord(ctx, yield, records[i]) {
				return
			}
		}
		end(ctx, yield)
	}
}

// After implements [ledger.Log].
func (l *Log) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		l.mu.Lock()
		records := l.records
		l.mu.Unlock()
		for _, r := range records[min(position, uint64(len(records))):] {
			if !yieldRecord(ctx, yield, r) {
				return
			}
		}
		end(ctx, yield)
	}
}

// yieldRecord yields a copy of r that its reader may change, or the end of ctx.
func yieldRecord(ctx context.Context, yield func(ledger.Record, error) bool, r ledger.Record) bool {
	if ctx.Err() != nil {
		end(ctx, yield)
		return false
	}
	r.Data = bytes.Clone(r.Data)
	return yield(r, nil)
}

// end yields the end of ctx, if it has ended: nobody takes what was cut off for all.
func end(ctx context.Context, yield func(ledger.Record, error) bool) {
	if err := ctx.Err(); err != nil {
		yield(ledger.Record{}, fmt.Errorf("read the log: %w", err))
	}
}
