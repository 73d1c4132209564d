package attester_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/domain/batch"
)

// leases are those of a database whose time stands still until they are let run out.
type leases struct {
	mu   sync.Mutex
	held map[string]string
}

func (l *leases) TryAcquire(_ context.Context, name, holder string, _ time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] == "" {
		l.held[name] = holder
	}
	return l.held[name] == holder, nil
}

func (l *leases) Release(_ context.Context, name, holder string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] == holder {
		delete(l.held, name)
	}
	return nil
}

func (l *leases) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.held)
}

// counted counts how often it is asked for commits to close a batch with.
type counted struct {
	attester.Reads

	n *int
}

func (c counted) OpenCommits(ctx context.Context, size uint64, limit int) ([]batch.Open, error) {
	*c.n++
	return c.Reads.OpenCommits(ctx, size, limit)
}

// One of two processes closes batches, also where neither has the key; the other one does
// when the first is gone, or was stopped for longer than its lease. That one then does
// nothing any more.
func TestOneProcessSeals(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	l := &leases{held: make(map[string]string)}
	var looks [2]int
	var both [2]*attester.Attester
	for i := range both {
		both[i] = w.attester()
		both[i].Leases, both[i].Key, both[i].Reads = l, nil, counted{both[i].Reads, &looks[i]}
	}
	hour := func(order ...int) {
		t.Helper()
		w.commit(3)
		w.pass(time.Hour)
		looks = [2]int{}
		for _, i := range order {
			w.step(both[i])
		}
	}
	hour(0, 1, 0, 1)
	if w.state(1).Sealed.Count != 3 || looks[0] == 0 || looks[1] != 0 {
		t.Errorf("batch 1 is %+v after %v looks, want one that only the first process has looked for", w.state(1).Sealed, looks)
	}
	l.lapse()
	hour(1, 0, 1)
	if w.state(2).Sealed.Count != 3 || looks[0] != 0 || looks[1] == 0 {
		t.Errorf("batch 2 is %+v after %v looks, want one that only the second process has looked for", w.state(2).Sealed, looks)
	}
}
