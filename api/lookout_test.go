package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/karatum/mystery/projections"
)

// TestLookout lets many ask while somebody looks: they share one look, which begins
// after they have asked, and is not that of the one who has left.
func TestLookout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks, state := 0, uint64(0)
		proceed := make(chan struct{})
		l := &lookout{look: func(context.Context) (projections.AsOf, error) {
			looks++
			a := projections.AsOf{Size: state}
			<-proceed
			return a, nil
		}}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := l.AsOf(ctx)
			left <- err
		}()
		synctest.Wait() // the first look has seen 0, and is not over
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("AsOf of who left = %v, want %v", err, context.Canceled)
		}

		state = 7
		sizes := make(chan uint64)
		for range 100 {
			go func() {
				a, err := l.AsOf(t.Context())
				if err != nil {
					t.Error(err)
				}
				sizes <- a.Size
			}()
		}
		synctest.Wait()
		close(proceed)
		for range 100 {
			if size := <-sizes; size != 7 {
				t.Errorf("who asked once there were 7 saw %d", size)
			}
		}
		if looks != 2 {
			t.Errorf("two generations of callers took %d looks", looks)
		}
	})
}
