// Package projections folds the ledger into the tables that are read: one file
// is one read model, with its tables, its row type and its queries.
//
// # The invariant
//
// The tables of a projection and the position it has reached change in one
// transaction, so each record counts once, however often a runner is killed.
// Everything in the tables follows from the log; dropping them loses nothing.
//
// # Who sees what
//
// A projection is either public or private. A public one is handed records of
// public types only, without their position in the log, and there is no other
// way in: what becomes of a slot between its commit and its reveal leaves no trace
// in any table that an answer to the public is made from. [Reader] queries public
// tables and [Due] private ones.
package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Tx is what a projection changes its tables with.
type Tx interface {
	// Exec adds a statement to the transaction. Statements run in order, but
	// perhaps not at once: an error may come from a later call.
	Exec(ctx context.Context, sql string, args ...any) error

	// QueryRow runs a query behind all statements added before.
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A Projection keeps some tables in step with the log.
type Projection struct {
	Name    string
	Version int // raise it when Tables or Apply changes: the tables are then rebuilt

	// Visibility says what Apply gets: only records of public types, without
	// their position, or with domain.Sealed every record.
	Visibility domain.Visibility

	// Tables creates the tables, in the schema of the read models.
	Tables string

	// Apply updates the tables for one record. It depends on nothing but its
	// arguments and its own tables, and ignores events that it does not know.
	Apply func(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error
}

// All returns every projection of the service.
func All() []Projection {
	return []Projection{Programme, Agents, Consents, Shops, Plans, Findings, Batches, DueWork}
}

// A Runner applies the log to projections. All fields but Logger are required.
// The pool's search path ends with the schema of the read models. Its methods may
// be called from several goroutines, and several runners may share a database: the
// row of a projection's checkpoint is locked while a page is applied to it.
type Runner struct {
	Log         ledger.Log
	Catalog     domain.Catalog
	Pool        *pgxpool.Pool
	Projections []Projection
	Logger      *slog.Logger // nil: silent
}

// page is the most records that are applied in one transaction.
const page = 1000

const checkpoints = `
create table if not exists checkpoints (
	name     text   primary key,
	version  int    not null,
	position bigint not null,
	tables   text[] not null -- what goes when the version is raised
)`

// Init creates the tables of projections that are new, and drops and creates
// those of projections whose version was raised. It refuses to go back to an
// earlier version, for an older program may run beside a newer one only as long
// as it reads what it knows.
func (r *Runner) Init(ctx context.Context) error {
	return pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		// A table is created in the first schema of the path; ours is the last.
		var schema string
		err := tx.QueryRow(ctx, `
			select set_config('search_path', (current_schemas(false))[array_upper(current_schemas(false), 1)], true)`).Scan(&schema)
		if err != nil {
			return fmt.Errorf("find the schema of the read models: %w", err)
		}
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('karatum/mystery/projections/' || $1, 0))`, schema); err != nil {
			return fmt.Errorf("lock the read models: %w", err)
		}
		if _, err := tx.Exec(ctx, checkpoints); err != nil {
			return fmt.Errorf("create the checkpoints: %w", err)
		}
		for _, p := range r.Projections {
			if err := create(ctx, tx, p); err != nil {
				return fmt.Errorf("projection %s: create its tables: %w", p.Name, err)
			}
		}
		return nil
	})
}

func create(ctx context.Context, tx pgx.Tx, p Projection) error {
	var version int
	var tables []string
	err := tx.QueryRow(ctx, `select version, tables from checkpoints where name = $1`, p.Name).Scan(&version, &tables)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return err
	case version == p.Version:
		return nil
	case version > p.Version:
		return fmt.Errorf("its tables are of version %d, and this program knows version %d: %w", version, p.Version, domain.ErrConflict)
	}
	for _, t := range tables {
		if _, err := tx.Exec(ctx, "drop table "+pgx.Identifier{t}.Sanitize()); err != nil {
			return err
		}
	}
	before, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, p.Tables); err != nil {
		return err
	}
	after, err := tablesOf(ctx, tx)
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(after, func(t string) bool { return slices.Contains(before, t) })
	_, err = tx.Exec(ctx, `
		insert into checkpoints (name, version, position, tables) values ($1, $2, 0, $3)
		on conflict (name) do update set version = $2, position = 0, tables = $3`, p.Name, p.Version, added)
	return err
}

func tablesOf(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `select tablename::text from pg_tables where schemaname = current_schema()`)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows([]string{}, rows, pgx.RowTo[string])
}

// CatchUp applies everything that is in the log when it is called. Projections
// that stand at one position share one reading of the log. A projection that
// fails keeps the position before the failing page and holds up no other; its
// error names the projection and the stream.
func (r *Runner) CatchUp(ctx context.Context) error {
	behind, err := r.positions(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for len(behind) > 0 {
		position := slices.Min(slices.Collect(maps.Keys(behind)))
		group := behind[position]
		delete(behind, position)
		items, err := r.read(ctx, position)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		if len(items) == 0 {
			continue
		}
		end := items[len(items)-1].record.Position
		for _, p := range group {
			reached, err := r.apply(ctx, p, position, items)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			if reached < end || len(items) == page {
				behind[reached] = append(behind[reached], p)
			}
		}
	}
	return errors.Join(failed...)
}

// Run calls [Runner.CatchUp] again and again, with a pause of poll, until ctx is
// done. Failures are logged and tried again.
func (r *Runner) Run(ctx context.Context, poll time.Duration) {
	logger := r.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := r.CatchUp(ctx); err != nil && ctx.Err() == nil {
			logger.ErrorContext(ctx, "projections are behind", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// positions returns the projections by the position they have reached.
func (r *Runner) positions(ctx context.Context) (map[uint64][]Projection, error) {
	rows, err := r.Pool.Query(ctx, `select name, position from checkpoints`)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	reached := make(map[string]uint64)
	var name string
	var position uint64
	if _, err := pgx.ForEachRow(rows, []any{&name, &position}, func() error {
		reached[name] = position
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	behind := make(map[uint64][]Projection)
	for _, p := range r.Projections {
		at, ok := reached[p.Name]
		if !ok {
			return nil, fmt.Errorf("projection %s has no checkpoint; Init creates it: %w", p.Name, domain.ErrNotFound)
		}
		behind[at] = append(behind[at], p)
	}
	return behind, nil
}

// An item is a record, decoded once for all projections.
type item struct {
	record     ledger.Record
	visibility domain.Visibility
	event      domain.Event
	err        error // of decoding
}

func (r *Runner) read(ctx context.Context, position uint64) ([]item, error) {
	var items []item
	for rec, err := range r.Log.After(ctx, position) {
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		e, err := r.Catalog.Decode(rec.Type, rec.Data)
		items = append(items, item{rec, r.Catalog.Visibility(rec.Type), e, err})
		if len(items) == page {
			break
		}
	}
	return items, nil
}

// shows reports whether p is handed the record. A type that the catalog does not
// know goes to everybody, where it fails: skipped, it would be missing for ever
// once a newer program knows it.
func (it item) shows(p Projection) bool {
	return p.Visibility == domain.Sealed || it.visibility == domain.Public || errors.Is(it.err, domain.ErrUnknownType)
}

// apply applies a page to p if it still stands at position, and returns the
// position where it stands now.
func (r *Runner) apply(ctx context.Context, p Projection, position uint64, items []item) (reached uint64, err error) {
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		var version int
		// The tables follow from the log, which is durable: if a crash takes the
		// last commits, it takes tables and checkpoint alike, and they are redone.
		err := tx.QueryRow(ctx, `
			select position, version from checkpoints, set_config('synchronous_commit', 'off', true)
			where name = $1 for update of checkpoints`, p.Name).Scan(&reached, &version)
		switch {
		case err != nil:
			return fmt.Errorf("projection %s: lock its checkpoint: %w", p.Name, err)
		case version != p.Version:
			return fmt.Errorf("projection %s: its tables are of version %d now, not %d: %w", p.Name, version, p.Version, domain.ErrConflict)
		case reached != position:
			return nil // another runner was here
		}
		b := batch{tx: tx, projection: p.Name}
		for i := range items {
			if err := b.apply(ctx, p, &items[i]); err != nil {
				return err
			}
		}
		reached = items[len(items)-1].record.Position
		b.record = nil
		if err := b.Exec(ctx, `update checkpoints set position = $2 where name = $1`, p.Name, reached); err != nil {
			return err
		}
		return b.flush(ctx)
	})
	return reached, err
}

// A batch is a [Tx] that sends the statements of many records in one go.
type batch struct {
	tx         pgx.Tx
	projection string
	record     *ledger.Record // that statements are added for
	queued     pgx.Batch
	records    []*ledger.Record // for each statement queued
}

func (b *batch) apply(ctx context.Context, p Projection, it *item) error {
	if !it.shows(p) {
		return nil
	}
	b.record = &it.record
	if it.err != nil {
		return b.failed(&it.record, it.err)
	}
	rec := it.record
	if p.Visibility == domain.Public {
		rec.Position = 0 // counts sealed records too
	}
	if err := p.Apply(ctx, b, rec, it.event); err != nil {
		return b.failed(&it.record, err)
	}
	return nil
}

// Exec implements [Tx].
func (b *batch) Exec(_ context.Context, sql string, args ...any) error {
	b.queued.Queue(sql, args...)
	b.records = append(b.records, b.record)
	return nil
}

// QueryRow implements [Tx].
func (b *batch) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := b.flush(ctx); err != nil {
		return noRow{err}
	}
	return b.tx.QueryRow(ctx, sql, args...)
}

func (b *batch) flush(ctx context.Context) (err error) {
	if b.queued.Len() == 0 {
		return nil
	}
	results := b.tx.SendBatch(ctx, &b.queued)
	for _, rec := range b.records {
		if _, err = results.Exec(); err != nil {
			err = b.failed(rec, err)
			break
		}
	}
	if closing := results.Close(); err == nil && closing != nil {
		err = b.failed(nil, closing)
	}
	b.queued, b.records = pgx.Batch{}, nil
	return err
}

// A failureError names a projection and where in the log it failed.
type failureError struct {
	projection string
	record     *ledger.Record
	err        error
}

func (f *failureError) Error() string {
	if f.record == nil {
		return fmt.Sprintf("projection %s: %v", f.projection, f.err)
	}
	return fmt.Sprintf("projection %s: %s, version %d of %s: %v", f.projection, f.record.Type, f.record.Version, f.record.Stream, f.err)
}

func (f *failureError) Unwrap() error { return f.err }

// failed names where err happened, unless it says so already.
func (b *batch) failed(rec *ledger.Record, err error) error {
	if f := new(failureError); errors.As(err, &f) {
		return f
	}
	return &failureError{b.projection, rec, err}
}

// noRow is the row of a query that did not run.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }
