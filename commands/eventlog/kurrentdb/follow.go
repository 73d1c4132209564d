package kurrentdb

import (
	"context"
	"errors"
	"iter"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain/ledger"
)

// Follow yields what lies behind a position, as After does, and then what is
// appended, until ctx ends or the log proves to be damaged. A subscription that
// breaks is made again at the place that it had reached.
func (l *Log) Follow(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		f := &follower{log: l, yield: yield, seen: esdb.Position{Commit: position, Prepare: position}}
		f.from = f.seen
		if position == 0 {
			f.from = esdb.Start{}
		}
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			before := f.from
			err := ctx.Err()
			if err == nil && position < maxPosition { // nothing is ever behind that
				err = f.subscribe(ctx)
			}
			switch {
			case errors.Is(err, errEnough):
				return
			case ctx.Err() != nil:
				fail(yield, ctx.Err())
				return
			case isMisplaced(err):
				f.from = esdb.Start{} // as in readAll
			case err != nil && (!isPassing(err) || errors.Is(err, errDamaged)):
				fail(yield, err)
				return
			case f.from != before:
				pause = firstPause // it went well for a while
			}
			sleep(ctx, pause)
		}
	}
}

// errEnough means that the reader of a sequence wants no more.
var errEnough = errors.New("enough")

// A follower is one sequence of [Log.Follow].
type follower struct {
	log   *Log
	yield func(ledger.Record, error) bool
	seen  esdb.Position    // of the last record yielded
	from  esdb.AllPosition // where the next subscription begins; the place itself is left out
}

// A notice is what a subscription brings: an event, a place it has passed, or its end.
type notice struct {
	event  *esdb.RecordedEvent
	passed *esdb.Position
	err    error
}

// subscribe follows one subscription to its end and returns why it ended.
func (f *follower) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := f.log.clients.fresh()
	if err != nil {
		return err
	}
	notices := make(chan notice)
	tell := func(n notice) bool {
		select {
		case notices <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	from := f.from
	go func() {
		// The client is this goroutine's alone, so it is safe to close here. It ends
		// when ctx does, or after the attempt to connect that is under way then.
		_, err := guard(demandLeader(ctx), c, func(ctx context.Context, c *esdb.Client) (any, error) {
			return nil, f.log.listen(ctx, c, from, tell)
		})
		_ = c.Close() // it has no error to return
		tell(notice{err: err})
	}()
	for {
		select {
		case n := <-notices:
			if err := f.take(ctx, n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listen subscribes and tells what it hears, until the subscription breaks or nobody
// listens.
func (l *Log) listen(ctx context.Context, c *esdb.Client, from esdb.AllPosition, tell func(notice) bool) error {
	const window = 512 // events of others between two places told
	s, err := c.SubscribeToAll(ctx, esdb.SubscribeToAllOptions{
		From:               from,
		MaxSearchWindow:    window,
		CheckpointInterval: 1,
		Filter:             &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{l.prefix}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it has no error to return
	for {
		var n notice
		switch e := s.Recv(); {
		case e.EventAppeared != nil:
			n.event = e.EventAppeared.Event
		case e.CheckPointReached != nil:
			n.passed = e.CheckPointReached
		case e.SubscriptionDropped != nil:
			return e.SubscriptionDropped.Error
		}
		if !tell(n) {
			return ctx.Err()
		}
	}
}

// take hands on what a notice brings.
func (f *follower) take(ctx context.Context, n notice) error {
	switch {
	case n.err != nil:
		return n.err
	case n.passed != nil:
		f.from = *n.passed
	case n.event != nil && isBehind(n.event.Position, f.seen):
		r, err := f.log.decode(n.event)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.seen = n.event.Position
		f.from = f.seen
		if !f.yield(r, nil) {
			return errEnough
		}
	}
	return nil
}
