package assembly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxSkew is how far the clocks of this machine may move, against each other or
// against the database's, before this process stops sending.
const maxSkew = 2 * time.Second

// A Clock is programme time: the database's clock, which all processes share. It is
// measured now and then, and in between this machine's monotonic clock carries it on,
// so that nothing happens early or late because somebody sets the time here.
type Clock struct {
	ask func(context.Context) (time.Time, error)

	mu     sync.Mutex
	at     time.Time // of the last measurement, by the clocks of this machine
	theirs time.Time // what was measured then
	skew   time.Duration
}

// NewClock returns a clock that is measured once. ask returns the time of the clock that
// it follows.
func NewClock(ctx context.Context, ask func(context.Context) (time.Time, error)) (*Clock, error) {
	c := &Clock{ask: ask}
	if err := c.Measure(ctx); err != nil {
		return nil, err
	}
	c.skew = 0
	return c, nil
}

// databaseTime asks a database for the time.
func databaseTime(pool *pgxpool.Pool) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (t time.Time, err error) {
		if err := pool.QueryRow(ctx, "select clock_timestamp()").Scan(&t); err != nil {
			return t, fmt.Errorf("ask the database for the time: %w", err)
		}
		return t, nil
	}
}

// Measure asks for the time.
func (c *Clock) Measure(ctx context.Context) error {
	before := time.Now()
	theirs, err := c.ask(ctx)
	if err != nil {
		return err
	}
	at := before.Add(time.Since(before) / 2)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = theirs.Sub(c.theirs.Add(at.Sub(c.at))).Abs()
	c.at, c.theirs = at, theirs
	return nil
}

// Now returns programme time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.theirs.Add(time.Since(c.at)).UTC()
}

// Offset returns by how much the clock that is followed was ahead of this machine's when
// it was last measured.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.theirs.Sub(c.at.Round(0))
}

// Skewed reports whether the clocks moved against each other by more than a sender may
// tolerate: the database's was set between the last two measurements, or since the last
// one this machine's was, or the machine slept.
func (c *Clock) Skewed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	passed, shown := now.Sub(c.at), now.Round(0).Sub(c.at.Round(0)) // monotonic, and as set
	return c.skew > maxSkew || (shown-passed).Abs() > maxSkew
}

// Run measures once a minute until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// A failed measurement keeps the last one; the database is what is
			// needed for anything to be sent.
			_ = c.Measure(ctx)
		}
	}
}
