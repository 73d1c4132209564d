package assembly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxSkew is how far this process's clock may move against the database's before
// it stops sending.
const maxSkew = 2 * time.Second

// A Clock is programme time: the database's clock, which all processes share. It
// is this process's clock and an offset that is measured now and then.
type Clock struct {
	pool *pgxpool.Pool

	mu     sync.Mutex
	offset time.Duration
	skew   time.Duration // between the last two measurements
}

// NewClock measures the offset once.
func NewClock(ctx context.Context, pool *pgxpool.Pool) (*Clock, error) {
	c := &Clock{pool: pool}
	if err := c.Measure(ctx); err != nil {
		return nil, err
	}
	c.skew = 0
	return c, nil
}

// Measure asks the database for the time.
func (c *Clock) Measure(ctx context.Context) error {
	var theirs time.Time
	before := time.Now()
	if err := c.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&theirs); err != nil {
		return fmt.Errorf("ask the database for the time: %w", err)
	}
	after := time.Now()
	offset := theirs.Sub(before.Add(after.Sub(before) / 2))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew, c.offset = (offset - c.offset).Abs(), offset
	return nil
}

// Now returns programme time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset).UTC()
}

// Skewed reports whether the clocks moved against each other by more than a
// sender may tolerate.
func (c *Clock) Skewed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew > maxSkew
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
			// A failed measurement keeps the offset; the database is what is
			// needed for anything to be sent.
			_ = c.Measure(ctx)
		}
	}
}
