package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/karatum/mystery/domain"
)

// A Standing is where a projection stands.
type Standing struct {
	Name       string
	Version    int
	Visibility domain.Visibility
	Generation int64 // changes when the tables are replaced, and with what is parked
	Position   uint64
	End        uint64    // of the log; 0 if the log does not tell
	Oldest     time.Time // of the first record that is not applied; zero if there is none
	Rate       float64   // records a second while it was last behind; 0 if it never was
	Parked     []Parked
	Rebuilding bool   // its tables are being made anew
	Rebuilt    uint64 // how far they are
}

// Behind returns how many positions there are that the projection has not applied. It
// is 0 if the log does not tell where it ends.
func (s *Standing) Behind() uint64 { return s.End - min(s.Position, s.End) }

// Remaining returns how long the projection will be behind at the rate it had; ok is false
// if that cannot be told.
func (s *Standing) Remaining() (d time.Duration, ok bool) {
	behind := s.Behind()
	if behind == 0 {
		return 0, s.Oldest.IsZero()
	}
	if s.Rate <= 0 {
		return 0, false
	}
	return time.Duration(float64(behind) / s.Rate * float64(time.Second)), true
}

// Status returns where every projection stands, in the order of Projections.
func (r *Runner) Status(ctx context.Context) ([]Standing, error) {
	if err := r.exist(ctx); err != nil {
		return nil, err
	}
	live, err := schemaOf(ctx, r.Pool)
	if err != nil {
		return nil, err
	}
	stand := make(map[string]Standing)
	rows, err := r.Pool.Query(ctx, `select name, version, generation, position, coalesce(rate, 0) from checkpoints`)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	var s Standing
	if _, err := pgx.ForEachRow(rows, []any{&s.Name, &s.Version, &s.Generation, &s.Position, &s.Rate}, func() error {
		stand[s.Name] = s
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	parked, err := readParked(ctx, r.Pool)
	if err != nil {
		return nil, err
	}
	rebuilt, err := r.rebuilt(ctx, live+"_rebuild")
	if err != nil {
		return nil, err
	}
	last := end(ctx, r.Log) // read behind the checkpoints, so none is beyond it
	oldest := make(map[uint64]time.Time)
	list := make([]Standing, 0, len(r.Projections))
	for _, p := range r.Projections {
		s, ok := stand[p.Name]
		if !ok {
			return nil, fmt.Errorf("projection %s has no checkpoint; start the service once: %w", p.Name, domain.ErrNotFound)
		}
		s.Visibility, s.End = p.Visibility, last
		for _, k := range parked {
			if k.Projection == p.Name {
				s.Parked = append(s.Parked, k)
			}
		}
		s.Rebuilt, s.Rebuilding = rebuilt[p.Name]
		if _, known := oldest[s.Position]; !known {
			if oldest[s.Position], err = r.timeBehind(ctx, s.Position); err != nil {
				return nil, err
			}
		}
		s.Oldest = oldest[s.Position]
		list = append(list, s)
	}
	return list, nil
}

// Stale returns the names of projections whose tables are of an earlier version, or not
// there, or that have not counted public records, in order. It changes nothing, unlike [Runner.Init].
func (r *Runner) Stale(ctx context.Context) (names []string, err error) {
	if err := r.exist(ctx); err != nil {
		return nil, err
	}
	versions := make(map[string]int)
	var name string
	var version int
	var lacks bool
	rows, err := r.Pool.Query(ctx, `select name, version, `+uncounted+` from checkpoints c`)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &version, &lacks}, func() error {
			if !lacks {
				versions[name] = version
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	for _, p := range r.Projections {
		if versions[p.Name] < p.Version {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// exist returns [domain.ErrNotFound] if no service has ever made the read models.
func (r *Runner) exist(ctx context.Context) error {
	var made bool
	if err := r.Pool.QueryRow(ctx, `select to_regclass('checkpoints') is not null`).Scan(&made); err != nil {
		return fmt.Errorf("look for the read models: %w", err)
	}
	if !made {
		return fmt.Errorf("there are no read models yet; start the service once: %w", domain.ErrNotFound)
	}
	return nil
}

// timeBehind returns the time of the first record behind a position.
func (r *Runner) timeBehind(ctx context.Context, position uint64) (t time.Time, err error) {
	for rec, err := range r.Log.After(ctx, position) {
		if err != nil {
			return t, fmt.Errorf("read the log: %w", err)
		}
		return rec.Time, nil
	}
	return t, nil
}

// rebuilt returns how far a rebuild is, by projection, if one is under way.
func (r *Runner) rebuilt(ctx context.Context, schema string) (map[string]uint64, error) {
	var underWay bool
	// The lock tells it from what a process has left that was killed. Its 64 bits are
	// in two columns, see the view pg_locks.
	err := r.Pool.QueryRow(ctx, `
		select exists (
			select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
			and database = (select oid from pg_database where datname = current_database())
			and (classid::bigint << 32) | objid::bigint = `+shadowLock+`)`, schema).Scan(&underWay)
	if err != nil {
		return nil, fmt.Errorf("see whether read models are rebuilt: %w", err)
	}
	if !underWay {
		return nil, nil
	}
	at, err := standings(ctx, r.Pool, schema, false)
	if gone := new(pgconn.PgError); errors.As(err, &gone) && gone.Code == "42P01" { // undefined_table
		return nil, nil // not begun yet, or over by now
	}
	if err != nil {
		return nil, err
	}
	rebuilt := make(map[string]uint64)
	for name, s := range at {
		rebuilt[name] = s.position
	}
	return rebuilt, nil
}
