package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Leases keep several processes from doing the same work. They save work and no
// more: a holder that was slow may find that another has begun, so correctness
// rests on expected versions and the gate. Time is the clock of the database.
type Leases struct {
	Pool *pgxpool.Pool
}

// TryAcquire gives holder the lease called name for ttl from now, if it is free, has
// run out, or is the holder's already, which renews it. It reports whether holder
// has the lease.
func (l *Leases) TryAcquire(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	var mine bool
	err := l.Pool.QueryRow(ctx, `
		insert into leases as l (name, holder, until) values ($1, $2, clock_timestamp() + $3::interval)
		on conflict (name) do update set holder = excluded.holder, until = excluded.until
		where l.holder = excluded.holder or l.until <= clock_timestamp()
		returning true`, name, holder, ttl).Scan(&mine)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("acquire lease %s: %w", name, unavailable(err))
	}
	return mine, nil
}

// Release gives the lease back if holder has it.
func (l *Leases) Release(ctx context.Context, name, holder string) error {
	if _, err := l.Pool.Exec(ctx, "delete from leases where name = $1 and holder = $2", name, holder); err != nil {
		return fmt.Errorf("release lease %s: %w", name, unavailable(err))
	}
	return nil
}
