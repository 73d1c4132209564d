package projections

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Rebuild makes the tables of some projections, or for no names of all, anew beside
// those in use, and puts them in their place in one transaction. Meanwhile the others
// are read and go on. Parked streams are tried again, and parked again if they still
// cannot be applied.
//
// tell, if not nil, is called now and then with how many records were read, the position
// of the last one, and that of the last one there is, 0 if that is not known.
//
// Rebuild returns [domain.ErrConflict] while another rebuild of this database is under
// way, and [domain.ErrNotFound] for a name that no projection has. If it is killed, what
// it has made is removed by the next one.
func (r *Runner) Rebuild(ctx context.Context, names []string, tell func(records, position, end uint64)) error {
	list, err := r.named(names)
	if err != nil {
		return err
	}
	if err := r.exist(ctx); err != nil {
		return err
	}
	s, err := r.openShadow(ctx, "rebuild", list, false)
	if err != nil {
		return err
	}
	if tell != nil {
		s.runner.Log = watched{r.Log, tell, end(ctx, r.Log)}
	}
	return errors.Join(s.replace(ctx), s.close(ctx))
}

// end returns the position of the last record of a log, 0 if it does not tell.
func end(ctx context.Context, log ledger.Log) uint64 {
	l, ok := log.(interface {
		End(ctx context.Context) (uint64, error)
	})
	if !ok {
		return 0
	}
	position, err := l.End(ctx)
	if err != nil {
		return 0
	}
	return position
}

// watched is a log that tells how far it was read.
type watched struct {
	ledger.Log

	tell func(records, position, end uint64)
	end  uint64
}

// tellEvery is how many records are read from one word to the next.
const tellEvery = 1000

func (w watched) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		n := uint64(0)
		for rec, err := range w.Log.After(ctx, position) {
			if n++; err == nil && n%tellEvery == 0 {
				w.tell(n, rec.Position, w.end)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// A swap waits for those who read the tables, and whoever comes then waits for it. So it
// gives up soon, before the server looks for deadlocks (after a second by default) and
// picks a reader to fail, and tries again a little later.
const (
	swapWait  = "400ms"
	swapPause = 200 * time.Millisecond
	swapTries = 100
)

// replace fills the shadow and puts its tables in the place of the live ones.
func (s *shadow) replace(ctx context.Context) error {
	if err := s.runner.CatchUp(ctx); err != nil {
		return err
	}
	if err := s.runner.making.all(); err != nil {
		return err
	}
	if err := s.index(ctx); err != nil {
		return err
	}
	// What was appended meanwhile is little, so now there is hardly anything left to do
	// while the live projections stand still.
	if err := s.runner.CatchUp(ctx); err != nil {
		return err
	}
	for range swapTries {
		err := s.swap(ctx)
		if busy := new(pgconn.PgError); !errors.As(err, &busy) || busy.Code != "55P03" && busy.Code != "40P01" { // lock_not_available, deadlock_detected
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(swapPause):
		}
	}
	return fmt.Errorf("the tables are read all the time, and cannot be replaced; try again: %w", domain.ErrConflict)
}

// index makes the indexes of filled tables, which costs a fraction of what it takes to
// keep them while the tables are filled.
func (s *shadow) index(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range s.runner.Projections {
		if p.Indexes == "" {
			continue
		}
		g.Go(func() error {
			if _, err := s.runner.Pool.Exec(ctx, p.Indexes); err != nil {
				return fmt.Errorf("projection %s: index its tables: %w", p.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// swap puts the tables of the shadow in the place of the live ones: tables, checkpoints
// and what is parked, all at once.
//
// The tables are moved under an exclusive lock rather than with their schema, which would
// need none: a reader with a snapshot from before would then find, in a table that it
// had not touched yet, what the shadow held at that moment.
func (s *shadow) swap(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select set_config('lock_timeout', $1, true), set_config('search_path', $2, true)`,
			swapWait, pgx.Identifier{s.live}.Sanitize()); err != nil {
			return err
		}
		now, err := standings(ctx, tx, s.live, true)
		if err != nil {
			return err
		}
		for _, p := range s.runner.Projections {
			if v := now[p.Name].version; v > p.Version {
				return fmt.Errorf("projection %s: its tables are of version %d now, and this program makes version %d: %w", p.Name, v, p.Version, domain.ErrConflict)
			}
			if err := s.catchUp(ctx, now[p.Name].position, p); err != nil {
				return err
			}
		}
		made, err := standings(ctx, s.runner.Pool, s.schema, false)
		if err != nil {
			return err
		}
		if err := s.lockTables(ctx, tx, now); err != nil {
			return err
		}
		for _, p := range s.runner.Projections {
			if err := s.move(ctx, tx, p.Name, now[p.Name].tables, made[p.Name].tables); err != nil {
				return fmt.Errorf("projection %s: replace its tables: %w", p.Name, err)
			}
		}
		return nil
	})
}

// lockTables locks all tables that are to be replaced.
func (s *shadow) lockTables(ctx context.Context, tx pgx.Tx, now map[string]standing) error {
	var tables []string
	for _, p := range s.runner.Projections {
		for _, t := range now[p.Name].tables {
			tables = append(tables, pgx.Identifier{s.live, t}.Sanitize())
		}
	}
	if len(tables) == 0 {
		return nil
	}
	slices.Sort(tables)
	if _, err := tx.Exec(ctx, `lock table `+strings.Join(tables, ", ")+` in access exclusive mode`); err != nil {
		return fmt.Errorf("lock the tables: %w", err)
	}
	return nil
}

// move replaces the tables of a projection, with its checkpoint and what is parked.
func (s *shadow) move(ctx context.Context, tx pgx.Tx, name string, old, made []string) error {
	var b pgx.Batch
	for _, t := range old {
		b.Queue(`drop table ` + pgx.Identifier{s.live, t}.Sanitize())
	}
	for _, t := range made {
		b.Queue(`alter table ` + pgx.Identifier{s.schema, t}.Sanitize() + ` set schema ` + pgx.Identifier{s.live}.Sanitize())
	}
	fresh := pgx.Identifier{s.schema}.Sanitize()
	b.Queue(`
		update checkpoints old set version = c.version, position = c.position, public = c.public, tables = c.tables, moved = c.moved, rate = c.rate,
			generation = old.generation + 1
		from `+fresh+`.checkpoints c where old.name = $1 and c.name = $1`, name)
	b.Queue(`delete from parked where projection = $1`, name)
	b.Queue(`insert into parked select * from `+fresh+`.parked where projection = $1`, name)
	return tx.SendBatch(ctx, &b).Close()
}
