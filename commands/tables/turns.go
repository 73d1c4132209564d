package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
)

// Turns decides whose turn it is at a host, over all consents and workers: so many
// tasks a day, each a while after the one before, and none while the host wants to
// be left alone.
//
// Of the tasks that wait, the one that was planned for the earliest moment goes
// first, and of those for one moment the one whose id is the first.
type Turns struct {
	Pool  *pgxpool.Pool
	Most  int           // tasks for a host on a day
	Every time.Duration // between two tasks for a host
}

// A Turn is what a task asks for.
type Turn struct {
	Host string // "host:port"
	Shop string
	Due  time.Time // the moment that the task was planned for
	Ends time.Time // the last one at which it may go
}

// patience is for how long a task that does not ask again when it was told to keeps
// those behind it waiting.
const patience = time.Minute

// Take gives a task its turn and returns the zero time, or returns when to ask again,
// which may be when it is too late. The same task may ask again for a turn that it
// has, as nothing else has had one since. A turn that was taken counts for its day
// whatever becomes of the task.
func (t *Turns) Take(ctx context.Context, turn Turn, now time.Time) (again time.Time, err error) {
	err = pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
		again, err = t.take(ctx, tx, turn, now)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("take a turn at %s: %w", turn.Host, unavailable(err))
	}
	return again, nil
}

func (t *Turns) take(ctx context.Context, tx pgx.Tx, turn Turn, now time.Time) (again time.Time, err error) {
	again, err = t.free(ctx, tx, turn, now)
	if err == nil && !again.After(now) {
		again, err = t.count(ctx, tx, turn, now)
	}
	switch {
	case err != nil:
		return again, err
	case again.After(now):
		_, err = tx.Exec(ctx, `
			insert into waiting (shop, host, due, ends, again) values ($1, $2, $3, $4, $5)
			on conflict (shop) do update set again = excluded.again`, turn.Shop, turn.Host, turn.Due, turn.Ends, again)
		return again, err
	}
	_, err = tx.Exec(ctx, `update paces set shop = $2, taken = $3 where host = $1`, turn.Host, turn.Shop, now)
	if err == nil {
		_, err = tx.Exec(ctx, `delete from waiting where shop = $1`, turn.Shop)
	}
	return time.Time{}, err
}

// free returns now if nothing but the number of the day's tasks can stand in the way,
// or a later moment.
func (t *Turns) free(ctx context.Context, tx pgx.Tx, turn Turn, now time.Time) (again time.Time, err error) {
	// All that ask for the host stand in line for its row, and each looks at what
	// waits when it has it.
	var last string
	err = tx.QueryRow(ctx, `
		insert into paces as p (host) values ($1)
		on conflict (host) do update set host = excluded.host
		returning shop, greatest($3, rests, case when shop <> $2 then taken + $4::interval end)`,
		turn.Host, turn.Shop, now, t.Every).Scan(&last, &again)
	if err != nil || again.After(now) || last == turn.Shop {
		return again, err
	}
	var earlier bool
	err = tx.QueryRow(ctx, `
		select exists (select from waiting
			where host = $1 and (due, shop collate "C") < ($2, $3) and ends >= $4 and again + $5::interval > $4)`,
		turn.Host, turn.Due, turn.Shop, now, patience).Scan(&earlier)
	if earlier {
		again = now.Add(patience)
	}
	return again, err
}

// count gives the task one of the day's places and returns now, or when the next day
// begins.
func (t *Turns) count(ctx context.Context, tx pgx.Tx, turn Turn, now time.Time) (time.Time, error) {
	day := domain.DayOf(now)
	var taken int
	err := tx.QueryRow(ctx, `
		insert into turns as t (host, day, shops) values ($1, $2, array[$3])
		on conflict (host, day) do update
			set shops = case when $3 = any(t.shops) then t.shops else t.shops || $3 end
			where $3 = any(t.shops) or cardinality(t.shops) < $4
		returning cardinality(shops)`, turn.Host, int64(day), turn.Shop, t.Most).Scan(&taken)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return domain.DayStart(day + 1), nil
	case err == nil && taken == 1:
		err = forgetTurns(ctx, tx, turn.Host, now)
	}
	return now, err
}

// forgetTurns deletes what is more than a day old, but for the pace of the host whose
// turn is being taken. It passes over what somebody else is at.
func forgetTurns(ctx context.Context, tx pgx.Tx, host string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		delete from turns where (host, day) in (select host, day from turns where day < $1 for update skip locked)`, int64(domain.DayOf(now))-1)
	if err != nil {
		return err
	}
	old := now.Add(-24 * time.Hour)
	_, err = tx.Exec(ctx, `
		delete from waiting where shop in (select shop from waiting where ends < $1 for update skip locked)`, old)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		delete from paces where host in (select host from paces where taken < $1 and rests < $1 and host <> $2 for update skip locked)`, old, host)
	return err
}

// Rest leaves a host alone until the given moment, as it asked for.
func (t *Turns) Rest(ctx context.Context, host string, until time.Time) error {
	_, err := t.Pool.Exec(ctx, `
		insert into paces as p (host, rests) values ($1, $2)
		on conflict (host) do update set rests = greatest(p.rests, excluded.rests)`, host, until)
	if err != nil {
		return fmt.Errorf("leave %s alone: %w", host, unavailable(err))
	}
	return nil
}

// Waited reports whether a task had to wait for its host, the last time it asked.
func (t *Turns) Waited(ctx context.Context, shop string) (waited bool, err error) {
	err = t.Pool.QueryRow(ctx, `select exists (select from waiting where shop = $1)`, shop).Scan(&waited)
	if err != nil {
		return false, fmt.Errorf("look whether %s waits: %w", shop, unavailable(err))
	}
	return waited, nil
}
