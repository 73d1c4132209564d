package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A Runner applies the log to projections. All fields but Logger are required.
// The pool's search path ends with the schema of the read models. Its methods may
// be called from several goroutines, and several runners may share a database: a page
// counts only where the checkpoint still stands before it.
type Runner struct {
	Log         ledger.Log
	Catalog     domain.Catalog
	Pool        *pgxpool.Pool
	Projections []Projection
	Logger      *slog.Logger // nil: silent

	making *making // of the tables, nil once they are there
}

func (r *Runner) logger() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}

// page is the most records that are applied in one transaction. The first pages of a reading
// are smaller, each twice as large as the one before, so that there is soon something to apply.
const (
	page      = 8000
	firstPage = 1000
)

// CatchUp applies everything that is in the log when it is called. Projections
// that stand at one position share one reading of the log. A projection that
// fails keeps the position before the failing page and holds up no other; its
// error names the projection and, where it can, the record.
//
// A record that a projection cannot take, whatever is tried, holds up only its own
// stream: that is parked, see [Parked], and logged.
func (r *Runner) CatchUp(ctx context.Context) error {
	failed := make(map[string]error)
	for {
		moved, err := r.round(ctx, failed)
		if err != nil {
			failed[""] = err
		}
		if err == nil && moved {
			continue // somebody else applies the log too, perhaps not all of it
		}
		var errs []error
		for _, p := range r.Projections {
			errs = append(errs, failed[p.Name])
		}
		return errors.Join(append(errs, failed[""])...)
	}
}

// Run calls [Runner.CatchUp] again and again, with a pause of poll, until ctx is
// done. Failures are logged and tried again.
func (r *Runner) Run(ctx context.Context, poll time.Duration) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := r.CatchUp(ctx); err != nil && ctx.Err() == nil {
			r.logger().ErrorContext(ctx, "projections are behind", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// A follower is a projection on its way through the log.
type follower struct {
	Projection

	position   uint64
	generation int64
	parked     map[ledger.Stream]bool
}

// followers returns the projections by position, but those that have failed. One whose
// tables belong to another version fails now.
func (r *Runner) followers(ctx context.Context, failed map[string]error) ([]*follower, error) {
	rows, err := r.Pool.Query(ctx, `
		select name, version, position, generation, array(select stream from parked where projection = name) from checkpoints`)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	found := make(map[string]*follower)
	var name string
	var version int
	var position uint64
	var generation int64
	var parked []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &version, &position, &generation, &parked}, func() error {
		f := &follower{position: position, generation: generation, parked: make(map[ledger.Stream]bool)}
		f.Version = version
		for _, s := range parked {
			f.parked[ledger.Stream(s)] = true
		}
		found[name] = f
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	var list []*follower
	for _, p := range r.Projections {
		f, ok := found[p.Name]
		switch {
		case failed[p.Name] != nil:
		case !ok:
			return nil, fmt.Errorf("projection %s has no checkpoint; Init creates it: %w", p.Name, domain.ErrNotFound)
		case f.Version != p.Version:
			failed[p.Name] = fmt.Errorf("projection %s: its tables are of version %d now, not %d: %w", p.Name, f.Version, p.Version, domain.ErrConflict)
		default:
			f.Projection = p
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b *follower) int { return cmp.Compare(a.position, b.position) })
	return list, nil
}

// round takes the projections through the log once. It adds to failed, and reports
// whether another runner has moved one of them meanwhile.
func (r *Runner) round(ctx context.Context, failed map[string]error) (moved bool, err error) {
	waiting, err := r.followers(ctx, failed)
	if err != nil {
		return false, err
	}
	for len(waiting) > 0 && err == nil {
		var all []*lane
		all, waiting, err = r.lead(ctx, waiting)
		for _, l := range all {
			switch l.end(); {
			case errors.Is(l.err, errMoved):
				moved = true
			case l.err != nil:
				failed[l.Name] = l.err
			}
		}
	}
	return moved, err
}

// lead reads the log once, from where the first of those stand who wait, and starts a lane
// for each of them when it comes to where that one stands. It ends with the log, or when
// none of the lanes goes on any more, and returns who waits still.
func (r *Runner) lead(ctx context.Context, waiting []*follower) (all []*lane, rest []*follower, err error) {
	var on []*lane // that go on
	from := waiting[0].position
	var stops []uint64 // where others stand
	for _, f := range waiting {
		if f.position != from {
			stops = append(stops, f.position)
		}
	}
	for items, err := range r.pages(ctx, from, stops) {
		if err != nil {
			return all, waiting, err
		}
		for len(waiting) > 0 && waiting[0].position == from {
			l := r.start(ctx, waiting[0])
			all, on, waiting = append(all, l), append(on, l), waiting[1:]
		}
		from = items[len(items)-1].record.Position
		if on = slices.DeleteFunc(on, func(l *lane) bool { return !l.send(items) }); len(on) == 0 {
			return all, waiting, nil
		}
	}
	// Whoever stands at the end of the log has nothing to do.
	return all, slices.DeleteFunc(waiting, func(f *follower) bool { return f.position == from }), nil
}

// A lane is a follower that is applied page by page, while others are applied too and the
// next pages are read. None waits for the slowest one, until that is a page or two behind.
type lane struct {
	*follower

	pages chan []item
	ended chan struct{} // closed once no page is taken any more
	err   error         // why, once that is closed
}

func (r *Runner) start(ctx context.Context, f *follower) *lane {
	l := &lane{follower: f, pages: make(chan []item, 1), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		if l.err = r.making.wait(f.Name); l.err != nil {
			return
		}
		for items := range l.pages {
			if l.err = r.apply(ctx, f, items); l.err != nil {
				return
			}
		}
	}()
	return l
}

// send gives l the next page. It reports whether l goes on.
func (l *lane) send(items []item) bool {
	select {
	case l.pages <- items:
		return true
	case <-l.ended:
		return false
	}
}

// end waits until l has applied all that it was sent.
func (l *lane) end() {
	close(l.pages)
	<-l.ended
}

// An item is a record, decoded once for all projections.
type item struct {
	record     ledger.Record
	visibility domain.Visibility
	event      domain.Event
	err        error // of decoding
}

func (r *Runner) decode(rec ledger.Record) item {
	e, err := r.Catalog.Decode(rec.Type, rec.Data)
	return item{rec, r.Catalog.Visibility(rec.Type), e, err}
}

// shows reports whether p is handed the record. A type that the catalog does not
// know goes to everybody, where it fails: skipped, it would be missing for ever
// once a newer program knows it.
func (it *item) shows(p *Projection) bool {
	return p.Visibility == domain.Sealed || it.visibility == domain.Public || errors.Is(it.err, domain.ErrUnknownType)
}

// pages yields the log behind a position, decoded, in pages that end at each of stops
// if there is a record. The next page is read while one is applied.
func (r *Runner) pages(ctx context.Context, position uint64, stops []uint64) iter.Seq2[[]item, error] {
	type result struct {
		items []item
		err   error
	}
	return func(yield func([]item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next := make(chan result)
		go func() {
			defer close(next)
			send := func(items []item, err error) bool {
				select {
				case next <- result{items, err}:
					return true
				case <-ctx.Done():
					return false
				}
			}
			items, full := make([]item, 0, 64), firstPage
			for rec, err := range r.Log.After(ctx, position) {
				if err != nil {
					// What came before it is good.
					if len(items) == 0 || send(items, nil) {
						send(nil, fmt.Errorf("read the log: %w", err))
					}
					return
				}
				items = append(items, r.decode(rec))
				if len(items) == full || slices.Contains(stops, rec.Position) {
					if !send(items, nil) {
						return
					}
					full = min(2*full, page)
					items = make([]item, 0, full)
				}
			}
			if len(items) > 0 {
				send(items, nil)
			}
		}()
		defer func() {
			cancel()
			for range next { // until the reader has ended
			}
		}()
		for n := range next {
			if !yield(n.items, n.err) || n.err != nil {
				return
			}
		}
	}
}

// errMoved means that a checkpoint is no more where it was read.
var errMoved = errors.New("another runner was here")

// An execer is a pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// advance moves the checkpoint of f to a position, over items. In a transaction the
// row is then held until the end, and with it the tables: nobody else changes them. It
// returns errMoved unless the checkpoint is still where f is, in the same generation.
func (f *follower) advance(ctx context.Context, tx execer, position uint64, items []item) error {
	public := 0
	for i := range items {
		if items[i].visibility == domain.Public {
			public++
		}
	}
	// The tables follow from the log, which is durable: if a crash takes the last
	// commits, it takes tables and checkpoint alike, and they are redone.
	//
	// Nobody has analyzed tables that are being filled, and what is looked for in them is
	// little: a plan that was made once, with indexes, does for all pages. Without that, a
	// page is held against whole tables, and the time that takes grows with them: so it does
	// if the plan was made for tables that had hardly any rows, which are cheaply read whole.
	// What has to be read whole then counts as dear, and would be compiled first.
	//
	// The rate is that of full pages that follow each other.
	tag, err := tx.Exec(ctx, `
		update checkpoints set position = $2, public = public + $8, moved = clock_timestamp(), rate = case
			when $3::int < $4::int then rate
			else $3 / greatest(extract(epoch from clock_timestamp() - moved), 0.000001) end
		from set_config('synchronous_commit', 'off', true) a, set_config('plan_cache_mode', 'force_generic_plan', true) b,
			set_config('enable_hashjoin', 'off', true) c, set_config('enable_mergejoin', 'off', true) d,
			set_config('enable_seqscan', 'off', true) e, set_config('jit', 'off', true) f
		where name = $1 and position = $5 and generation = $6 and version = $7`,
		f.Name, position, len(items), page, f.position, f.generation, f.Version, public)
	if err != nil {
		return fmt.Errorf("projection %s: move its checkpoint: %w", f.Name, err)
	}
	if tag.RowsAffected() == 0 {
		return errMoved
	}
	return nil
}

// apply applies a page to f, which stands before it: all of it in one transaction,
// or nothing.
func (r *Runner) apply(ctx context.Context, f *follower, items []item) error {
	end := items[len(items)-1].record.Position
	lost, err := r.fold(ctx, f, items, end)
	if err == nil {
		f.position = end
		return nil
	}
	if lost || !poisonous(err) {
		return f.failed(err)
	}
	return r.applyEach(ctx, f, items, end)
}

// fold applies a page in as few statements as there can be. If it fails, it says
// whether that is because the database was lost.
func (r *Runner) fold(ctx context.Context, f *follower, items []item, end uint64) (lost bool, err error) {
	changes := newFold(func(ctx context.Context) (pgx.Tx, error) {
		tx, err := r.Pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if err := f.advance(ctx, tx, end, items); err != nil {
			return nil, errors.Join(err, tx.Rollback(ctx))
		}
		return tx, nil
	})
	changes.copies = true
	defer func() {
		if err != nil && changes.tx != nil {
			lost = changes.tx.Conn().IsClosed()
			_ = changes.tx.Rollback(ctx) // err says more
		}
	}()
	for i := range items {
		if it := &items[i]; f.takes(it) {
			if err := f.hand(ctx, changes, it); err != nil {
				return false, err
			}
		}
	}
	if err := changes.flush(ctx); err != nil {
		return false, err
	}
	if changes.tx == nil { // nothing in it was for this projection
		return false, f.advance(ctx, r.Pool, end, items)
	}
	return false, changes.tx.Commit(ctx)
}

// takes reports whether f is handed a record now.
func (f *follower) takes(it *item) bool {
	return it.shows(&f.Projection) && !f.parked[it.record.Stream]
}

// hand gives a record to the projection.
func (f *follower) hand(ctx context.Context, tx Tx, it *item) error {
	if it.err != nil {
		return &failureError{f.Name, &it.record, it.err}
	}
	rec := it.record
	if f.Visibility == domain.Public {
		rec.Position = 0 // counts sealed records too
	}
	if err := f.Apply(ctx, tx, rec, it.event); err != nil {
		return &failureError{f.Name, &it.record, err}
	}
	return nil
}

// A failureError names a projection and where in the log it failed.
type failureError struct {
	projection string
	record     *ledger.Record // nil if that is not known
	err        error
}

func (e *failureError) Error() string {
	if e.record == nil {
		return fmt.Sprintf("projection %s: %v", e.projection, e.err)
	}
	return fmt.Sprintf("projection %s: %s, version %d of %s: %v", e.projection, e.record.Type, e.record.Version, e.record.Stream, e.err)
}

func (e *failureError) Unwrap() error { return e.err }

// failed names f in an error, unless it is named already.
func (f *follower) failed(err error) error {
	if named := new(failureError); errors.Is(err, errMoved) || errors.As(err, &named) {
		return err
	}
	return &failureError{f.Name, nil, err}
}
