package main

import (
	"context"
	"sync"
)

// followLedger keeps the public log going beside the weeks, by the real clock, until
// the returned function is called.
func (s *stage) followLedger(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.prog.FollowLedger(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}
