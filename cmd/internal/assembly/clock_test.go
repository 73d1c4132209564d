package assembly_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karatum/mystery/cmd/internal/assembly"
)

// Programme time is that of the database, whatever the clock of the machine shows. When
// the database's is set, it follows, and says so until the next measurement.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64 // how far the database's clock is before this machine's
		set.Store(int64(40 * 24 * time.Hour))
		var gone atomic.Bool
		database := func(context.Context) (time.Time, error) {
			if gone.Load() {
				return time.Time{}, errors.New("the database is gone")
			}
			return time.Now().Add(time.Duration(set.Load())), nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		c, err := assembly.NewClock(ctx, database)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx)
		}()
		step := func(name string, before time.Duration, skewed bool) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := time.Until(c.Now()); got != before || c.Skewed() != skewed {
				t.Errorf("%s: the clock is %v before this machine's, skewed %t; want %v, %t", name, got, c.Skewed(), before, skewed)
			}
		}
		move := func(by time.Duration) time.Duration { return time.Duration(set.Add(int64(by))) }
		step("as it was", move(0), false)
		step("a second on", move(time.Second), false)
		was := move(0)
		on := move(time.Hour)
		if got := time.Until(c.Now()); got != was {
			t.Errorf("between measurements the clock is %v before this machine's, want %v", got, was)
		}
		step("an hour on", on, true)
		step("a minute later", on, false)
		back := move(-2 * time.Hour)
		step("two hours back", back, true)
		step("a minute after that", back, false)
		gone.Store(true)
		move(time.Hour)
		step("while it cannot be asked", back, false)
		cancel()
		<-done
	})
}
