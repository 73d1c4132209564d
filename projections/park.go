package projections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// maxParked is how many streams of a projection are parked by themselves. Where more
// cannot be taken it is the program that is broken and not the records; the projection
// then stands still.
const maxParked = 100

const parkedTable = `
create table if not exists parked (
	projection text        not null,
	stream     text        not null,
	version    bigint      not null, -- of the first record that is left out
	since      timestamptz not null default clock_timestamp(),
	reason     text        not null,
	primary key (projection, stream)
)`

// A Parked stream is one that a projection leaves out from a record on, until it is
// tried again: the record could not be applied, or the operator asked for it. Later
// records of the stream wait behind it. All other streams go on, though what they say may
// be shown without what the parked one would have added.
type Parked struct {
	Projection string
	Stream     ledger.Stream
	Version    uint64 // of the first record that is left out
	Since      time.Time
	Reason     string
}

func readParked(ctx context.Context, q querier) ([]Parked, error) {
	parked, err := collect(ctx, q, func(row pgx.CollectableRow) (p Parked, err error) {
		err = row.Scan(&p.Projection, &p.Stream, &p.Version, &p.Since, &p.Reason)
		p.Since = p.Since.UTC()
		return p, err
	}, `select projection, stream, version, since, reason from parked order by projection, since, stream`)
	if err != nil {
		return nil, fmt.Errorf("read which streams are parked: %w", err)
	}
	return parked, nil
}

// poisonous reports whether an error says that a record cannot be applied and never
// will be by this program, rather than that the database is away, busy or not as the
// program expects it.
func poisonous(err error) bool {
	switch {
	case errors.Is(err, errMoved), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, domain.ErrUnknownType): // a newer program takes it
		return false
	}
	if refused := new(pgconn.PgError); errors.As(err, &refused) && len(refused.Code) == 5 {
		switch refused.Code[:2] {
		case "21", "22", "23": // cardinality violation, data exception, integrity constraint violation
			return true
		}
		return false
	}
	return !Unreachable(err)
}

// applyEach applies a page record by record, and parks the streams of those that
// cannot be applied. It is the slow way, for a page that [Runner.fold] has failed on.
func (r *Runner) applyEach(ctx context.Context, f *follower, items []item, end uint64) error {
	var parked []Parked
	err := pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		if err := f.advance(ctx, tx, end, items); err != nil {
			return err
		}
		var err error
		parked, err = f.each(ctx, tx, items)
		return err
	})
	if err != nil {
		return f.failed(err)
	}
	f.position = end
	if len(parked) > 0 {
		f.generation++
	}
	for _, p := range parked {
		f.parked[p.Stream] = true
		r.logger().ErrorContext(ctx, "a stream is parked", "projection", f.Name, "stream", p.Stream, "version", p.Version, "err", p.Reason)
	}
	return nil
}

// each applies records one by one, in a transaction that holds the checkpoint, and
// parks streams.
func (f *follower) each(ctx context.Context, tx pgx.Tx, items []item) (parked []Parked, err error) {
	out := maps.Clone(f.parked)
	for i := range items {
		it := &items[i]
		if !it.shows(&f.Projection) || out[it.record.Stream] {
			continue
		}
		err := f.one(ctx, tx, it)
		if err == nil {
			continue
		}
		if tx.Conn().IsClosed() || !poisonous(err) {
			return nil, err
		}
		if len(out) >= maxParked {
			return nil, fmt.Errorf("%d streams are parked, and no more will be: %w", len(out), err)
		}
		out[it.record.Stream] = true
		p := Parked{Projection: f.Name, Stream: it.record.Stream, Version: it.record.Version, Reason: err.Error()}
		if err := park(ctx, tx, p); err != nil {
			return nil, err
		}
		parked = append(parked, p)
	}
	return parked, nil
}

// one applies a record, or leaves everything as it was.
func (f *follower) one(ctx context.Context, tx pgx.Tx, it *item) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		changes := newFold(func(context.Context) (pgx.Tx, error) { return tx, nil })
		if err := f.hand(ctx, changes, it); err != nil {
			return err
		}
		if err := changes.flush(ctx); err != nil {
			return &failureError{f.Name, &it.record, err}
		}
		return nil
	})
}

// park leaves a stream out. The transaction holds the checkpoint; whoever read it
// before applies nothing more.
func park(ctx context.Context, tx pgx.Tx, p Parked) error {
	var b pgx.Batch
	b.Queue(`insert into parked (projection, stream, version, reason) values ($1, $2, $3, $4)`, p.Projection, string(p.Stream), p.Version, p.Reason)
	b.Queue(`update checkpoints set generation = generation + 1 where name = $1`, p.Projection)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("park %s: %w", p.Stream, err)
	}
	return nil
}

// hold locks the checkpoint of a projection until tx ends, and returns where it is. It
// returns [domain.ErrConflict] if the tables are of another version.
func (r *Runner) hold(ctx context.Context, tx pgx.Tx, p Projection) (*follower, error) {
	f := &follower{Projection: p, parked: make(map[ledger.Stream]bool)}
	var version int
	err := tx.QueryRow(ctx, `select version, position, generation from checkpoints where name = $1 for update`, p.Name).
		Scan(&version, &f.position, &f.generation)
	switch {
	case err != nil:
		return nil, fmt.Errorf("projection %s: lock its checkpoint: %w", p.Name, err)
	case version != p.Version:
		return nil, fmt.Errorf("projection %s: its tables are of version %d, not %d: %w", p.Name, version, p.Version, domain.ErrConflict)
	}
	return f, nil
}

// named returns the projections of some names, all of them for none, in order.
func (r *Runner) named(names []string) ([]Projection, error) {
	var known []string
	var list []Projection
	for _, p := range r.Projections {
		known = append(known, p.Name)
		if len(names) == 0 || slices.Contains(names, p.Name) {
			list = append(list, p)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no projection %q, but %v: %w", name, known, domain.ErrNotFound)
		}
	}
	return list, nil
}

// Park makes a projection leave out a stream from the next record on that it has not
// applied yet. It returns [domain.ErrNotFound] for a projection or stream that there
// is none of, and [domain.ErrConflict] if the stream is parked already.
func (r *Runner) Park(ctx context.Context, projection string, s ledger.Stream, reason string) (p Parked, err error) {
	list, err := r.named([]string{projection})
	if err != nil {
		return p, err
	}
	if err := r.exist(ctx); err != nil {
		return p, err
	}
	p = Parked{Projection: projection, Stream: s, Version: 1, Reason: reason}
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		f, err := r.hold(ctx, tx, list[0])
		if err != nil {
			return err
		}
		exists := false
		for rec, err := range r.Log.Stream(ctx, s, 0) {
			if err != nil {
				return fmt.Errorf("read stream %s: %w", s, err)
			}
			exists = true
			if rec.Position > f.position {
				break
			}
			p.Version = rec.Version + 1
		}
		if !exists {
			return fmt.Errorf("there is no stream %q: %w", string(s), domain.ErrNotFound)
		}
		err = park(ctx, tx, p)
		if twice := new(pgconn.PgError); errors.As(err, &twice) && twice.Code == "23505" { // unique_violation
			return fmt.Errorf("%s leaves out %s already: %w", projection, s, domain.ErrConflict)
		}
		return err
	})
	return p, err
}

// Retry tries parked streams again, of one projection or, for "", of all, and of them one
// stream or, for "", all. It returns those that are still parked afterwards, and
// [domain.ErrNotFound] if there was nothing to try.
//
// Where the rows of a stream depend on no other stream its records are applied now, in
// their order. Elsewhere what came meanwhile may have been folded without what the
// parked stream says, so the projection is made anew, see [Runner.Rebuild]. In either
// case its tables are then what they would be had nothing ever been parked.
func (r *Runner) Retry(ctx context.Context, projection string, s ledger.Stream) (still []Parked, err error) {
	if projection != "" {
		if _, err := r.named([]string{projection}); err != nil {
			return nil, err
		}
	}
	if err := r.exist(ctx); err != nil {
		return nil, err
	}
	parked, err := readParked(ctx, r.Pool)
	if err != nil {
		return nil, err
	}
	wanted := func(p Parked) bool {
		return (projection == "" || p.Projection == projection) && (s == "" || p.Stream == s)
	}
	parked = slices.DeleteFunc(parked, func(p Parked) bool { return !wanted(p) })
	if len(parked) == 0 {
		return nil, fmt.Errorf("no such stream is parked: %w", domain.ErrNotFound)
	}
	var anew []string
	for _, p := range parked {
		list, err := r.named([]string{p.Projection})
		switch {
		case err != nil:
			return nil, err
		case !list[0].ByStream:
			anew = append(anew, p.Projection)
		default:
			if err := r.retry(ctx, list[0], p); err != nil {
				return nil, err
			}
		}
	}
	if len(anew) > 0 {
		if err := r.Rebuild(ctx, slices.Compact(slices.Sorted(slices.Values(anew))), nil); err != nil {
			return nil, err
		}
	}
	still, err = readParked(ctx, r.Pool)
	return slices.DeleteFunc(still, func(p Parked) bool { return !wanted(p) }), err
}

// retry applies the records of a stream that were left out so far.
func (r *Runner) retry(ctx context.Context, p Projection, parked Parked) error {
	return pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		f, err := r.hold(ctx, tx, p)
		if err != nil {
			return err
		}
		var items []item
		for rec, err := range r.Log.Stream(ctx, parked.Stream, parked.Version-1) {
			if err != nil {
				return fmt.Errorf("read stream %s: %w", parked.Stream, err)
			}
			if rec.Position > f.position {
				break
			}
			items = append(items, r.decode(rec))
		}
		if tag, err := tx.Exec(ctx, `delete from parked where projection = $1 and stream = $2`, p.Name, string(parked.Stream)); err != nil || tag.RowsAffected() == 0 {
			return err // else another one was here
		}
		if _, err := tx.Exec(ctx, `update checkpoints set generation = generation + 1 where name = $1`, p.Name); err != nil {
			return err
		}
		_, err = f.each(ctx, tx, items)
		return err
	})
}
