package tables_test

import (
	"sync"
	"testing"
	"time"
)

// A sender at the gate reads and appends meanwhile, over connections of the same
// pool. As many senders as a worker has at once must not wait for each other's.
func TestSendersDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	g, pool := open(t)
	const senders = 8
	var entered, done sync.WaitGroup
	entered.Add(senders)
	began := time.Now()
	for range senders {
		done.Go(func() {
			release, err := g.Hold(t.Context(), taskOf("cns_a"))
			entered.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			entered.Wait() // all are in
			if err := pool.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	finished := make(chan struct{})
	go func() { done.Wait(); close(finished) }()
	select {
	case <-finished:
		t.Logf("took %s", time.Since(began))
	case <-time.After(4 * time.Second):
		t.Fatalf("%d senders wait for each other: the pool has %d connections", senders, pool.Config().MaxConns)
	}
}
