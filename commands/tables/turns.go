package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Turns bounds how many tasks a host is sent on a day, over all consents and
// workers.
type Turns struct {
	Pool *pgxpool.Pool
	Most int
}

// Take reports whether a task may go to a host ("host:port") on a day. The first Most
// that ask are the ones; asking again changes nothing. A turn that was taken counts,
// whatever becomes of its task.
func (t *Turns) Take(ctx context.Context, host string, day uint32, shop string) (bool, error) {
	var taken int
	err := t.Pool.QueryRow(ctx, `
		insert into turns as t (host, day, shops) values ($1, $2, array[$3])
		on conflict (host, day) do update
			set shops = case when $3 = any(t.shops) then t.shops else t.shops || $3 end
			where $3 = any(t.shops) or cardinality(t.shops) < $4
		returning cardinality(shops)`, host, int64(day), shop, t.Most).Scan(&taken)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take a turn at %s: %w", host, unavailable(err))
	case taken == 1:
		return true, t.forget(ctx, day)
	}
	return true, nil
}

// forget deletes the days before the last. It passes over what somebody else is at.
func (t *Turns) forget(ctx context.Context, day uint32) error {
	_, err := t.Pool.Exec(ctx, `
		delete from turns where (host, day) in (select host, day from turns where day < $1 for update skip locked)`, int64(day)-1)
	if err != nil {
		return fmt.Errorf("forget the turns of days gone by: %w", unavailable(err))
	}
	return nil
}
