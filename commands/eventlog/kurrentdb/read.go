package kurrentdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain/ledger"
)

const (
	// pageSize is how many events are read at once. Between pages nothing is held
	// open, so a reader may take its time.
	pageSize = 512

	// pageBytes is how many bytes make a page full before that.
	pageBytes = 1 << 20
)

// A page is what one call has read.
type page struct {
	events []*esdb.RecordedEvent
	ended  bool // the server had no more
}

// fetch reads up to count events from what open returns, trying again while no
// server can be used. A stream that does not exist is an empty one.
func (l *Log) fetch(ctx context.Context, count int, open call[*esdb.ReadStream]) (page, error) {
	p, err := insist(ctx, l.clients, func(ctx context.Context, c *esdb.Client) (page, error) {
		reading, err := open(ctx, c)
		if err != nil {
			return page{}, err
		}
		defer reading.Close()
		return receive(reading, count)
	})
	if isMissing(err) {
		return page{ended: true}, nil
	}
	return p, err
}

func receive(reading *esdb.ReadStream, count int) (p page, err error) {
	size := 0
	// Two events at least: the first may be the one that the last page ended with.
	for len(p.events) < count && (size < pageBytes || len(p.events) < 2) {
		resolved, err := reading.Recv()
		if errors.Is(err, io.EOF) {
			p.ended = true
			return p, nil
		}
		if err != nil {
			return page{}, err
		}
		e := resolved.Event
		if e == nil {
			return page{}, fmt.Errorf("%w: an answer without its event", errPanic)
		}
		p.events = append(p.events, e)
		size += len(e.Data) + len(e.UserMetadata)
	}
	return p, nil
}

// A run is a number of consecutive records of one stream.
type run struct {
	records []ledger.Record
	ended   bool // the stream has no more
}

// readStream reads up to count records behind version.
func (l *Log) readStream(ctx context.Context, s ledger.Stream, version, count uint64) (run, error) {
	p, err := l.fetch(ctx, int(min(count, pageSize)), func(ctx context.Context, c *esdb.Client) (*esdb.ReadStream, error) {
		options := esdb.ReadStreamOptions{Direction: esdb.Forwards, From: esdb.StreamRevision{Value: version}, Deadline: &l.deadline}
		return c.ReadStream(ctx, l.prefix+string(s), options, min(count, pageSize))
	})
	if err != nil {
		return run{}, err
	}
	r := run{ended: p.ended, records: make([]ledger.Record, len(p.events))}
	for i, e := range p.events {
		rec, err := l.decode(e)
		if err != nil {
			return run{}, err
		}
		if version++; rec.Stream != s || rec.Version != version {
			return run{}, fmt.Errorf("%s has %s at %d where %d should be: %w", s, rec.Stream, rec.Version, version, errDamaged)
		}
		r.records[i] = rec
	}
	return r, nil
}

// Stream implements [ledger.Log].
func (l *Log) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		last := version
		for ended := last >= math.MaxInt64; !ended; { // no record has a greater version
			r, err := patient(ctx, l, func(ctx context.Context) (run, error) { return l.readStream(ctx, s, last, pageSize) })
			if err != nil {
				fail(yield, err)
				return
			}
			for _, rec := range r.records {
				if !hand(ctx, yield, rec) {
					return
				}
			}
			last += uint64(len(r.records))
			ended = r.ended
		}
	}
}

// After implements [ledger.Log].
func (l *Log) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		if err := ctx.Err(); err != nil {
			fail(yield, err)
			return
		}
		seen := esdb.Position{Commit: position, Prepare: position}
		from := seen // a page begins with what the one before it ended with
		for ended := position >= maxPosition; !ended; {
			p, err := patient(ctx, l, func(ctx context.Context) (page, error) { return l.readAll(ctx, from) })
			if err != nil {
				fail(yield, err)
				return
			}
			for _, e := range p.events {
				from = e.Position
				if !isBehind(from, seen) || !strings.HasPrefix(e.StreamID, l.prefix) {
					continue
				}
				seen = from
				rec, err := l.decode(e)
				if err != nil {
					fail(yield, err)
					return
				}
				if !hand(ctx, yield, rec) {
					return
				}
			}
			ended = p.ended
		}
	}
}

// readAll reads a page of the whole database from a position on. If no record begins
// there, the position is none that this database gave; then it reads from the start.
func (l *Log) readAll(ctx context.Context, from esdb.Position) (page, error) {
	read := func(from esdb.AllPosition) (page, error) {
		return l.fetch(ctx, pageSize, func(ctx context.Context, c *esdb.Client) (*esdb.ReadStream, error) {
			return c.ReadAll(ctx, esdb.ReadAllOptions{Direction: esdb.Forwards, From: from, Deadline: &l.deadline}, pageSize)
		})
	}
	p, err := read(from)
	if isMisplaced(err) {
		return read(esdb.Start{})
	}
	return p, err
}

// isBehind reports whether p lies behind q in the log of the database.
func isBehind(p, q esdb.Position) bool {
	return p.Commit > q.Commit || p.Commit == q.Commit && p.Prepare > q.Prepare
}

// patient carries out the reading of a page.
func patient[T any](ctx context.Context, l *Log, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := l.wait(ctx)
	defer cancel()
	return read(ctx)
}

// hand yields r, or the end of ctx, and reports whether to go on.
func hand(ctx context.Context, yield func(ledger.Record, error) bool, r ledger.Record) bool {
	if err := ctx.Err(); err != nil {
		fail(yield, err)
		return false
	}
	return yield(r, nil)
}

// fail yields the error that a sequence ends with.
func fail(yield func(ledger.Record, error) bool, err error) {
	yield(ledger.Record{}, fmt.Errorf("read the log: %w", err))
}
