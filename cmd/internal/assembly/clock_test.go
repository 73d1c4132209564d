package assembly_test

import (
	"context"
	"errors"
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
		set := 40 * 24 * time.Hour // the database's clock before this machine's
		var gone error
		ctx, cancel := context.WithCancel(t.Context())
		c, err := assembly.NewClock(ctx, func(context.Context) (time.Time, error) { return time.Now().Add(set), gone })
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
		was := set
		step("as it was", was, false)
		set += time.Second
		step("a second on", set, false)
		was = set
		set += time.Hour
		if got := time.Until(c.Now()); got != was {
			t.Errorf("between measurements the clock is %v before this machine's, want %v", got, was)
		}
		step("an hour on", set, true)
		step("a minute later", set, false)
		set -= 2 * time.Hour
		step("two hours back", set, true)
		step("a minute after that", set, false)
		was, set, gone = set, set+time.Hour, errors.New("the database is gone")
		step("while it cannot be asked", was, false)
		cancel()
		<-done
	})
}
