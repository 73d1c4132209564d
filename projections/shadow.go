package projections

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// schemaOf returns the schema of the read models: the last one in the search path.
func schemaOf(ctx context.Context, pool *pgxpool.Pool) (schema string, err error) {
	err = pool.QueryRow(ctx, `select (current_schemas(false))[array_upper(current_schemas(false), 1)]`).Scan(&schema)
	if err != nil {
		return "", fmt.Errorf("find the schema of the read models: %w", err)
	}
	return schema, nil
}

// A shadow is a schema in which read models are made beside those that are read. It
// belongs to the one connection that holds its lock: with that connection the right
// to it is gone, whoever may still believe to have it.
type shadow struct {
	live, schema string
	conn         *pgxpool.Conn
	runner       *Runner // on tables in the shadow
}

// openShadow makes an empty shadow, called purpose, for some projections. While another
// one of this purpose is open it waits for that, or returns an error matching
// [domain.ErrConflict]. What is left of one whose process has died is removed.
func (r *Runner) openShadow(ctx context.Context, purpose string, list []Projection, wait bool) (s *shadow, err error) {
	live, err := schemaOf(ctx, r.Pool)
	if err != nil {
		return nil, err
	}
	conn, err := r.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	s = &shadow{live: live, schema: live + "_" + purpose, conn: conn}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
			s = nil
		}
	}()
	if err := s.lock(ctx, purpose, wait); err != nil {
		s.conn.Release()
		s.conn = nil
		return s, err
	}
	name := pgx.Identifier{s.schema}.Sanitize()
	if _, err := conn.Exec(ctx, `drop schema if exists `+name+` cascade`); err != nil {
		return s, fmt.Errorf("remove what is left of %s: %w", s.schema, err)
	}
	if _, err := conn.Exec(ctx, `create schema `+name); err != nil {
		return s, fmt.Errorf("create %s: %w", s.schema, err)
	}
	var fast bool
	cfg := r.Pool.Config()
	cfg.MinConns, cfg.MaxConns = 0, shadowConns
	path := cfg.ConnConfig.RuntimeParams["search_path"]
	cfg.ConnConfig.RuntimeParams["search_path"] = path[:len(path)-len(live)] + s.schema
	if err := conn.QueryRow(ctx, `
		select exists (select from pg_settings where name = 'default_toast_compression' and 'lz4' = any(enumvals))`).Scan(&fast); err != nil {
		return s, fmt.Errorf("find out how the database compresses: %w", err)
	}
	if fast {
		cfg.ConnConfig.RuntimeParams["default_toast_compression"] = "lz4" // takes a fraction of the time
	}
	// What a crash takes of a shadow is made anew, and the swap waits for all before it.
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return s, fmt.Errorf("connect to the database: %w", err)
	}
	s.runner = &Runner{Log: r.Log, Catalog: r.Catalog, Pool: pool, Projections: list, Logger: r.Logger}
	return s, s.runner.createBare(ctx)
}

// shadowConns is how many projections are made at the same time.
const shadowConns = 3

const shadowLock = `hashtextextended('karatum/mystery/projections/shadow/' || $1, 0)`

// lock takes the right to the schema.
func (s *shadow) lock(ctx context.Context, purpose string, wait bool) error {
	if wait {
		if _, err := s.conn.Exec(ctx, `select pg_advisory_lock(`+shadowLock+`)`, s.schema); err != nil {
			return fmt.Errorf("lock the schema %s: %w", s.schema, err)
		}
		return nil
	}
	var ours bool
	if err := s.conn.QueryRow(ctx, `select pg_try_advisory_lock(`+shadowLock+`)`, s.schema).Scan(&ours); err != nil {
		return fmt.Errorf("lock the schema %s: %w", s.schema, err)
	}
	if !ours {
		return fmt.Errorf("another %s of the read models is under way; wait for it to end: %w", purpose, domain.ErrConflict)
	}
	return nil
}

// close removes the shadow, and gives up the right to it.
func (s *shadow) close(ctx context.Context) error {
	if s.runner != nil {
		s.runner.making.stop()
		s.runner.Pool.Close()
	}
	if s.conn == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	_, err := s.conn.Exec(ctx, `drop schema if exists `+pgx.Identifier{s.schema}.Sanitize()+` cascade`)
	if err == nil {
		_, err = s.conn.Exec(ctx, `select pg_advisory_unlock(`+shadowLock+`)`, s.schema)
	}
	// The connection goes in any case, and the lock with it at the latest.
	err = errors.Join(err, s.conn.Hijack().Close(ctx))
	if err != nil {
		return fmt.Errorf("remove %s: %w", s.schema, err)
	}
	return nil
}

// catchUp brings some projections of the shadow to a position, and not beyond.
func (s *shadow) catchUp(ctx context.Context, position uint64, list ...Projection) error {
	bounded := *s.runner
	bounded.Log = until{s.runner.Log, position}
	if len(list) > 0 {
		bounded.Projections = list
	}
	return bounded.CatchUp(ctx)
}

// until is a log that ends at a position.
type until struct {
	ledger.Log

	end uint64
}

func (u until) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		if position >= u.end {
			return
		}
		for r, err := range u.Log.After(ctx, position) {
			if err == nil && r.Position > u.end || !yield(r, err) {
				return
			}
		}
	}
}

// A standing is where a projection stands.
type standing struct {
	position uint64
	public   uint64
	version  int
	tables   []string
}

// standings reads the checkpoints of a schema. With lock, the projections then stay
// where they are until the transaction of q ends.
func standings(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, schema string, lock bool,
) (map[string]standing, error) {
	sql := `select name, position, coalesce(public, 0), version, tables from ` + pgx.Identifier{schema, "checkpoints"}.Sanitize() + ` order by name`
	if lock {
		sql += ` for update`
	}
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	found := make(map[string]standing)
	var name string
	var position, public int64
	var version int
	var tables []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &position, &public, &version, &tables}, func() error {
		if position < 0 || public < 0 {
			return fmt.Errorf("projection %s stands at position %d, behind %d public records: %w", name, position, public, ledger.ErrDamaged)
		}
		found[name] = standing{uint64(position), uint64(public), version, slices.Sorted(slices.Values(tables))}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	return found, nil
}

// Compare folds the log anew and holds every table of the projections against what
// comes of that. It returns an error matching [ledger.ErrDamaged] for each
// projection, in order, that does not follow from the log; rows are counted and not
// shown.
//
// Projections stand still only while the last records are folded and the tables
// compared.
func (r *Runner) Compare(ctx context.Context) (err error) {
	s, err := r.openShadow(ctx, "verify", r.Projections, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	before, err := standings(ctx, r.Pool, s.live, false)
	if err != nil {
		return err
	}
	if err := r.complete(ctx, before); err != nil {
		return err
	}
	lowest := before[r.Projections[0].Name].position
	for _, p := range r.Projections {
		lowest = min(lowest, before[p.Name].position)
	}
	if err := s.catchUp(ctx, lowest); err != nil {
		return err
	}
	if err := s.runner.making.all(); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		now, err := standings(ctx, tx, s.live, true)
		if err != nil {
			return err
		}
		parked, err := readParked(ctx, tx)
		if err != nil {
			return err
		}
		var damaged []error
		for _, p := range parked {
			damaged = append(damaged, fmt.Errorf("projection %s leaves out %s from version %d on; run: karatum-mystery projections retry: %w",
				p.Projection, p.Stream, p.Version, ledger.ErrDamaged))
		}
		for _, p := range r.Projections {
			if err := s.catchUp(ctx, now[p.Name].position, p); err != nil {
				return err
			}
			made, err := standings(ctx, s.runner.Pool, s.schema, false)
			if err != nil {
				return err
			}
			if !slices.Equal(made[p.Name].tables, now[p.Name].tables) {
				damaged = append(damaged, fmt.Errorf("projection %s keeps the tables %v, and not %v: %w",
					p.Name, now[p.Name].tables, made[p.Name].tables, ledger.ErrDamaged))
				continue
			}
			if made[p.Name].public != now[p.Name].public {
				damaged = append(damaged, fmt.Errorf("projection %s counts %d public records, and not %d: %w",
					p.Name, now[p.Name].public, made[p.Name].public, ledger.ErrDamaged))
			}
			for _, t := range now[p.Name].tables {
				if err := s.compare(ctx, tx, t); errors.Is(err, ledger.ErrDamaged) {
					damaged = append(damaged, fmt.Errorf("projection %s: %w", p.Name, err))
				} else if err != nil {
					return err
				}
			}
		}
		return errors.Join(damaged...)
	})
}

// complete returns an error matching [ledger.ErrDamaged] unless every projection
// stands at a record of the log, or before the first one.
func (r *Runner) complete(ctx context.Context, at map[string]standing) error {
	for _, p := range r.Projections {
		s, ok := at[p.Name]
		if !ok {
			return fmt.Errorf("projection %s has no checkpoint: %w", p.Name, ledger.ErrDamaged)
		}
		if s.version != p.Version {
			return fmt.Errorf("projection %s is of version %d, and this program makes version %d; verify with the program that the service runs: %w",
				p.Name, s.version, p.Version, ledger.ErrDamaged)
		}
		stands := s.position == 0
		if !stands {
			for rec, err := range r.Log.After(ctx, s.position-1) {
				if err != nil {
					return fmt.Errorf("read the log: %w", err)
				}
				stands = rec.Position == s.position
				break
			}
		}
		if !stands {
			return fmt.Errorf("projection %s stands at position %d, where the log has no record: %w", p.Name, s.position, ledger.ErrDamaged)
		}
	}
	return nil
}

// compare holds a table against the one of the shadow.
func (s *shadow) compare(ctx context.Context, tx pgx.Tx, table string) error {
	live, fresh := pgx.Identifier{s.live, table}.Sanitize(), pgx.Identifier{s.schema, table}.Sanitize()
	var more, less int
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint, for a table that is not there
		return tx.QueryRow(ctx, `
			select
				(select count(*) from (select x::text from `+live+` x except all select x::text from `+fresh+` x) as more),
				(select count(*) from (select x::text from `+fresh+` x except all select x::text from `+live+` x) as less)`).Scan(&more, &less)
	})
	if missing := new(pgconn.PgError); errors.As(err, &missing) && missing.Code == "42P01" { // undefined_table
		return fmt.Errorf("table %s is missing: %w", table, ledger.ErrDamaged)
	}
	switch {
	case err != nil:
		return fmt.Errorf("compare table %s: %w", table, err)
	case more > 0 || less > 0:
		return fmt.Errorf("table %s has %d rows that do not follow from the log, and lacks %d that do: %w", table, more, less, ledger.ErrDamaged)
	}
	return nil
}
