package tables_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
)

// Whoever comes last, the gate and what is on record say the same.
func TestPauseAndResumeAtOnce(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	var paused atomic.Bool
	record := func(state bool) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(time.Millisecond) // an append takes its time
			paused.Store(state)
			return nil
		}
	}
	for range 30 {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := g.Pause(t.Context(), programme.Everything, record(true)); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := g.Resume(t.Context(), programme.Everything, record(false)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		release, err := g.Hold(t.Context(), taskOf("cns_a"))
		if err == nil {
			release()
		}
		if closed := errors.Is(err, domain.ErrForbidden); closed != paused.Load() {
			t.Fatalf("on record the programme is paused: %t; at the gate: %v", paused.Load(), err)
		}
	}
}
