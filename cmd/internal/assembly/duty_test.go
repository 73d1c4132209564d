package assembly_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
)

// lapse lets all leases of a database run out, as time does.
func lapse(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `update leases set until = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
}

// One of two does the work; when it is gone, or was stopped for longer than its lease,
// the other one does, and it finds out before it goes on.
func TestDuty(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	leases := &tables.Leases{Pool: pool}
	one, two := assembly.NewDuty("work", leases, clock), assembly.NewDuty("work", leases, clock)
	does := func(when string, first, second bool) {
		t.Helper()
		if got := [2]bool{assembly.Has(one, t.Context()), assembly.Has(two, t.Context())}; got != [2]bool{first, second} {
			t.Errorf("%s: has = %v, want %v", when, got, [2]bool{first, second})
		}
	}
	does("at first", true, false)
	lapse(t, pool)
	does("before anybody asks again", true, false)
	now = now.Add(30 * time.Second)
	if !assembly.Has(two, t.Context()) { // the first one is stopped
		t.Error("nobody takes over")
	}
	does("the first one goes on", false, true)
	now = now.Add(30 * time.Second)
	does("later", false, true)
	assembly.Yield(two, t.Context())
	does("just after the second one has given it back", false, false)
	now = now.Add(10 * time.Second)
	does("soon after", true, false)

	away := pool.Config()
	away.ConnConfig.Host, away.ConnConfig.Fallbacks = "/nonexistent", nil
	gone, err := pgxpool.NewWithConfig(t.Context(), away)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if assembly.Has(assembly.NewDuty("other work", &tables.Leases{Pool: gone}, clock), t.Context()) {
		t.Error("a duty is had without a database")
	}
}

// A process that follows the ledger extends and signs the public log while it has the
// leases, and gives them back when it ends.
func TestFollowLedger(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	p, err := assembly.Open(t.Context(), assembly.Config{
		DatabaseURL: pgtest.URL(t), StateDir: t.TempDir(), PublicURL: "https://log.example", CheckpointInterval: "1s",
	}, assembly.Options{Schema: pgtest.Schema(pool), Secrets: commands.Keyring{domain.Sum([]byte("operator"))}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	held := func() (n int) {
		if err := pool.QueryRow(t.Context(), `select count(*) from leases where name in ('integrator', 'publisher')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.FollowLedger(ctx)
	}()
	for range 1200 {
		if h, err := p.Ledger.Head(t.Context()); err == nil && h.Size > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if h, err := p.Ledger.Head(t.Context()); err != nil || h.Size == 0 || held() != 2 {
		t.Errorf("the public log has %d leaves under a checkpoint, %v, and %d leases are held, want some and 2", h.Size, err, held())
	}
	cancel()
	<-ended
	if n := held(); n != 0 {
		t.Errorf("%d leases are left behind, want none", n)
	}
}
