package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
)

const checkpointTable = `
create table if not exists checkpoints (
	name       text        primary key,
	version    int         not null,
	position   bigint      not null,
	public     bigint      not null default 0, -- records of public types up to there
	generation bigint      not null default 1, -- of the tables and of what is parked
	moved      timestamptz not null default clock_timestamp(),
	rate       double precision, -- records a second, of the last full page
	tables     text[]      not null -- what goes when they are made anew
)`

// uncounted reports whether a row c of checkpoints lacks the count of public records. Tables that
// were made by an early program have no column for it, or one that is null until the projection
// is made anew, as nothing else tells what the count is.
const uncounted = `to_jsonb(c) ->> 'public' is null`

// Init creates the tables of projections that are new. Those of a projection whose
// version was raised are made anew as by [Runner.Rebuild], while an older program goes on
// with the former ones; Init returns when the new ones are in place. It refuses to go
// back to an earlier version, for an older program may run beside a newer one only as
// long as it reads what it knows.
func (r *Runner) Init(ctx context.Context) error {
	stale, err := r.create(ctx)
	if err != nil || len(stale) == 0 {
		return err
	}
	s, err := r.openShadow(ctx, "rebuild", stale, true)
	if err != nil {
		return err
	}
	// Another process may have done it while this one waited.
	if stale, err = r.create(ctx); err == nil && len(stale) > 0 {
		err = s.replace(ctx)
	}
	return errors.Join(err, s.close(ctx))
}

// create creates the tables of projections that have none, and returns the projections
// that have those of an earlier version.
func (r *Runner) create(ctx context.Context) (stale []Projection, err error) {
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		schema, err := enter(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('karatum/mystery/projections/' || $1, 0))`, schema); err != nil {
			return fmt.Errorf("lock the read models: %w", err)
		}
		if _, err := tx.Exec(ctx, checkpointTable+`; `+parkedTable); err != nil {
			return fmt.Errorf("create the checkpoints: %w", err)
		}
		if err := addCount(ctx, tx); err != nil {
			return fmt.Errorf("count public records in the checkpoints: %w", err)
		}
		for _, p := range r.Projections {
			var version int
			var lacks bool
			err := tx.QueryRow(ctx, `select version, `+uncounted+` from checkpoints c where name = $1`, p.Name).Scan(&version, &lacks)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				if err = addCheckpoints(ctx, tx, p); err == nil {
					err = createTables(ctx, tx, p, p.Tables+`; `+p.Indexes)
				}
			case err == nil && (version < p.Version || version == p.Version && lacks):
				stale = append(stale, p)
			case err == nil && version > p.Version:
				err = fmt.Errorf("they are of version %d, and this program knows version %d: %w", version, p.Version, domain.ErrConflict)
			}
			if err != nil {
				return fmt.Errorf("projection %s: create its tables: %w", p.Name, err)
			}
		}
		return nil
	})
	return stale, err
}

// addCount adds the column that early checkpoints lack. It looks first, as whoever adds a column
// waits for all who read the table, even if it is there.
func addCount(ctx context.Context, tx pgx.Tx) error {
	var there bool
	if err := tx.QueryRow(ctx, `
		select exists (select from pg_attribute where attrelid = 'checkpoints'::regclass and attname = 'public')`).Scan(&there); err != nil || there {
		return err
	}
	_, err := tx.Exec(ctx, `alter table checkpoints add column public bigint`)
	return err
}

// A making is the tables of some projections, while they are created.
type making struct {
	cancel context.CancelFunc
	tables map[string]*made
}

// made is whether the tables of a projection are there.
type made struct {
	done chan struct{} // closed once it is decided
	err  error         // why not
}

// createBare creates the tables of all projections, without indexes that no change needs,
// in a schema that has none. There are many, and the server syncs a file for each index, so
// it makes them side by side, and returns before they are made. What is applied to them waits.
func (r *Runner) createBare(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		if _, err := enter(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, checkpointTable+`; `+parkedTable); err != nil {
			return err
		}
		return addCheckpoints(ctx, tx, r.Projections...)
	})
	if err != nil {
		return fmt.Errorf("create the checkpoints: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r.making = &making{cancel, make(map[string]*made)}
	for _, p := range r.Projections {
		m := &made{done: make(chan struct{})}
		r.making.tables[p.Name] = m
		go func() {
			defer close(m.done)
			m.err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
				if _, err := enter(ctx, tx); err != nil {
					return err
				}
				return createTables(ctx, tx, p, p.Tables)
			})
			if m.err != nil {
				m.err = fmt.Errorf("projection %s: create its tables: %w", p.Name, m.err)
			}
		}()
	}
	return nil
}

// wait returns nil once the tables of a projection are there. A nil making has made all.
func (m *making) wait(name string) error {
	if m == nil {
		return nil
	}
	<-m.tables[name].done
	return m.tables[name].err
}

// all returns nil once all tables are there.
func (m *making) all() error {
	if m == nil {
		return nil
	}
	var errs []error
	for name := range m.tables {
		errs = append(errs, m.wait(name))
	}
	return errors.Join(errs...)
}

// stop ends the creation, wherever it is.
func (m *making) stop() {
	if m == nil {
		return
	}
	m.cancel()
	_ = m.all() // nobody wants them any more
}

// enter makes the schema of the read models, the last one in the search path, the one
// that tables are created in until tx ends, and returns it.
func enter(ctx context.Context, tx pgx.Tx) (schema string, err error) {
	err = tx.QueryRow(ctx, `
		select set_config('search_path', (current_schemas(false))[array_upper(current_schemas(false), 1)], true)`).Scan(&schema)
	if err != nil {
		return "", fmt.Errorf("find the schema of the read models: %w", err)
	}
	return schema, nil
}

// addCheckpoints writes down that projections have applied nothing, and have no tables.
func addCheckpoints(ctx context.Context, tx pgx.Tx, list ...Projection) error {
	names, versions := make([]string, len(list)), make([]int, len(list))
	for i, p := range list {
		names[i], versions[i] = p.Name, p.Version
	}
	_, err := tx.Exec(ctx, `
		insert into checkpoints (name, version, position, public, tables)
		select name, version, 0, 0, '{}' from unnest($1::text[], $2::int[]) as v (name, version)`, names, versions)
	return err
}

// createTables creates the tables of a projection, which has a checkpoint, with some statements.
func createTables(ctx context.Context, tx pgx.Tx, p Projection, sql string) error {
	before, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sql); err != nil {
		return err
	}
	after, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(after, func(t string) bool { return slices.Contains(before, t) })
	_, err = tx.Exec(ctx, `update checkpoints set tables = $2 where name = $1`, p.Name, added)
	return err
}

// tablesOf returns the tables of the schema that were created in tx: other tables of it may
// appear at any time.
func tablesOf(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `
		select relname::text from pg_class
		where relnamespace = current_schema()::regnamespace and relkind = 'r' and xmin = pg_current_xact_id()::xid`)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows([]string{}, rows, pgx.RowTo[string])
}
