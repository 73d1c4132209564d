package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands"
)

// Limits counts what strangers ask for, for all processes together, in a table that
// no number of strangers can make grow: each limit has 65,536 buckets, and a key is
// counted in the one that its salted hash names.
//
// So a limit may be used up by others. While k of them have used up theirs, a
// stranger finds its own bucket full with the odds of k in 65,536: with a thousand
// such, in 1.5 % of the cases. To fill the buckets of a limit of 20 an hour on
// purpose takes over a million requests an hour from as many networks as there are
// buckets, at the very least; nobody can aim at one, for the salt is secret.
//
// A bucket holds the times of what it has counted, so a limit holds for any stretch
// of time and not only for whole hours.
type Limits struct {
	Pool *pgxpool.Pool
	Now  func() time.Time // nil: the clock of the database
}

// buckets is the SQL of the buckets that the names and keys $1 and $2 are counted in.
const buckets = `
	select q.i, q.name, get_byte(h, 0) * 256 + get_byte(h, 1) as n, q.most, q.span
	from unnest($1::text[], $2::bytea[], $3::int[], $4::interval[]) with ordinality as q (name, key, most, span, i),
		bucket_salt s, sha256(s.salt || convert_to(q.name, 'UTF8') || q.key) as h`

// Take charges one to each of several quotas, or none of them if one is used up. It
// is exact however many ask at once. Names of quotas differ.
func (l *Limits) Take(ctx context.Context, quotas []commands.Quota) (s commands.Spent, err error) {
	var names []string
	var keys [][]byte
	var most []int
	var spans []time.Duration
	for _, q := range quotas {
		names, keys = append(names, q.Name), append(keys, []byte(q.Key))
		most, spans = append(most, q.Limit), append(spans, q.Window)
	}
	args := []any{names, keys, most, spans}
	// Each statement must see what was committed before it began, whatever the
	// server's default.
	err = pgx.BeginTxFunc(ctx, l.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		b := new(pgx.Batch)
		// Buckets are taken in one order by all, so that nobody waits in a circle.
		b.Queue(`insert into buckets (name, n) select name, n from (`+buckets+`) as w order by name, n on conflict do nothing`, args...)
		b.Queue(`
			with clock as materialized (select coalesce($5, clock_timestamp()) as now),
			wanted as materialized (`+buckets+`),
			held as materialized (
				select b.name, b.n, b.times from buckets b join wanted using (name, n) order by b.name, b.n for update of b),
			counted as materialized (
				select w.*, array(select t from unnest(h.times) as t where t > now - span order by t) as times
				from clock, wanted w join held h using (name, n)),
			verdict as materialized (select bool_and(cardinality(times) < most) as ok from counted),
			charged as (
				update buckets b set times = c.times || now from clock, verdict, counted c
				where ok and b.name = c.name and b.n = c.n)
			select ok, most - cardinality(times) - ok::int, coalesce(times[1] + span - now, span)
			from clock, verdict, counted order by i`, append(args, now(l.Now))...).
			Query(func(rows pgx.Rows) error {
				var left commands.Left
				_, err := pgx.ForEachRow(rows, []any{&s.OK, &left.Remaining, &left.Reset}, func() error {
					s.Left = append(s.Left, left)
					return nil
				})
				return err
			})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return commands.Spent{}, fmt.Errorf("count a request: %w", unavailable(err))
	}
	return s, nil
}

// now returns the time of a clock, or nil for that of the database.
func now(clock func() time.Time) *time.Time {
	if clock == nil {
		return nil
	}
	t := clock()
	return &t
}
