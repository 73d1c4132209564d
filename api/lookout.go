package api

import (
	"context"
	"sync"

	"github.com/karatum/mystery/projections"
)

// A lookout looks at the read models for all who ask at once. Who asks while it looks
// shares the next look with others who do, which begins after all of them have asked: so
// each sees whatever was there before, as if it had looked itself.
type lookout struct {
	look func(ctx context.Context) (projections.AsOf, error)

	mu      sync.Mutex
	looking bool
	next    *view // nil if nobody waits for another look
}

// A view is what a look has seen, once seen is closed.
type view struct {
	seen chan struct{}
	asOf projections.AsOf
	err  error
}

// AsOf returns the state of the read models, which is not older than the call.
func (l *lookout) AsOf(ctx context.Context) (projections.AsOf, error) {
	l.mu.Lock()
	if l.next == nil {
		l.next = &view{seen: make(chan struct{})}
	}
	v := l.next
	if !l.looking {
		l.begin(ctx)
	}
	l.mu.Unlock()
	select {
	case <-v.seen:
		return v.asOf, v.err
	case <-ctx.Done():
		return projections.AsOf{}, ctx.Err()
	}
}

// begin looks for all who wait, while l is held. It does not end with the one who asked
// first, for others wait too.
func (l *lookout) begin(ctx context.Context) {
	v := l.next
	l.next, l.looking = nil, true
	ctx = context.WithoutCancel(ctx)
	go func() {
		bounded, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		v.asOf, v.err = l.look(bounded)
		close(v.seen)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.looking = l.next != nil; l.looking {
			l.begin(ctx)
		}
	}()
}
