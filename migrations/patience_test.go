package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A database that says nothing is given up, and only that: whoever waits less is heard,
// and a connection that rests is not one that is waited for.
func TestPatience(t *testing.T) {
	t.Parallel()
	const patience = 3 * time.Second
	pool, err := migrations.ConnectFor(t.Context(), pgtest.URL(t), pgtest.Schema(pgtest.Open(t)), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()

	hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := pool.Exec(hasty, "select pg_sleep(600)"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
		t.Errorf("with a context of 100 ms: %v after %s, want its end", err, time.Since(began))
	}
	if _, err := pool.Exec(t.Context(), "select pg_sleep($1)", 600); err == nil || !strings.Contains(err.Error(), "said nothing for 3s") || time.Since(began) > time.Minute {
		t.Errorf("with patience alone: %v after %s", err, time.Since(began))
	}
	if err := c.Ping(t.Context()); err != nil || time.Since(began) < patience {
		t.Errorf("a connection that has rested for %s: %v", time.Since(began), err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool afterwards: %v", err)
	}
}
