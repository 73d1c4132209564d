package kurrentdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
	"github.com/karatum/mystery/domain/ledger"
)

// next returns a function that takes the next record of a sequence in the
// background, in time.
func next(t *testing.T, log *kurrentdb.Log, position uint64) (func() ledger.Record, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	records, end := make(chan ledger.Record), make(chan error, 1)
	go func() {
		for r, err := range log.Follow(ctx, position) {
			if err != nil {
				end <- err
				return
			}
			records <- r
		}
		end <- nil
	}()
	stop := func() {
		t.Helper()
		cancel()
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow ends with %v, want context.Canceled", err)
		}
	}
	return func() ledger.Record {
		t.Helper()
		select {
		case r := <-records:
			return r
		case err := <-end:
			t.Fatalf("Follow ends with %v", err)
		case <-time.After(soon):
			t.Fatal("Follow yields nothing")
		}
		panic("unreachable")
	}, stop
}

// A bare subscription begins at the end unless told otherwise, and what breaks it
// breaks it for ever.
func TestSubscriptionsBreak(t *testing.T) {
	t.Parallel()
	c := cluster(t, 3)
	log := open(t, c.URL(), kurrentdb.Options{})
	mustAppend(t, log, "a/1", 0)

	client := bare(t, c.URL()+"&maxDiscoverAttempts=100000&discoveryInterval=1")
	t.Cleanup(func() { _ = client.Close() })
	sub, err := client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := sub.Recv(); e.CaughtUp == nil {
		t.Errorf("a subscription from nowhere begins with %+v, want that it has caught up", e)
	}
	follow, stop := next(t, log, 0)
	if r := follow(); r.Version != 1 {
		t.Errorf("Follow(0) begins with version %d, want 1", r.Version)
	}

	version := uint64(1)
	for range 3 {
		for i := range 3 {
			c.Down(i)
		}
		for i := range 3 {
			c.Up(i)
		}
		c.Lead(int(version % 3))
		for range 2 {
			mustAppend(t, log, "a/1", version)
			version++
			if r := follow(); r.Version != version {
				t.Fatalf("Follow yields version %d, want %d", r.Version, version)
			}
		}
	}
	for range 3 {
		if e := sub.Recv(); e.SubscriptionDropped == nil {
			t.Errorf("after the outage the subscription brings %+v, want that it was dropped", e)
		}
	}
	stop()
}

// Each subscription ends after one event here, so that one is made for each.
func TestFollowGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	const records = 10
	for v := range uint64(records) {
		mustAppend(t, log, "a/1", v)
		if err := bareAppend(t.Context(), client, fmt.Sprint("other-", v), soon); err != nil {
			t.Fatal(err)
		}
	}
	var sent atomic.Int64
	c.SetFault(func(_ context.Context, m double.Moment) error {
		if m == double.BeforeRead {
			sent.Store(0)
		}
		if m == double.BeforeEvent && sent.Add(1) > 1 {
			return status.Error(codes.Unavailable, "enough")
		}
		return nil
	})
	follow, stop := next(t, log, 0)
	for v := range uint64(records) {
		if r := follow(); r.Version != v+1 {
			t.Fatalf("Follow yields version %d, want %d", r.Version, v+1)
		}
	}
	stop()
	c.SetFault(nil)

	positions := make([]uint64, 0, records)
	for r, err := range log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, r.Position)
	}
	for name, from := range map[string]uint64{"a record": positions[4], "where no record begins": positions[4] + 1} {
		for r, err := range log.Follow(t.Context(), from) {
			if err != nil || r.Version != 6 {
				t.Errorf("%s: Follow begins with version %d, %v, want 6", name, r.Version, err)
			}
			break
		}
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, position := range []uint64{0, 1 << 62, 1<<63 - 1, 1<<64 - 1} {
		for _, err := range log.Follow(ctx, position) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Follow(%d) of an empty log: %v, want context.DeadlineExceeded", position, err)
			}
		}
	}
	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	if err := bareAppend(t.Context(), client, "mystery-a/1", soon); err != nil {
		t.Fatal(err)
	}
	for _, err := range log.Follow(t.Context(), 0) {
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("Follow over what is no record: %v, want the damage", err)
		}
	}
}
