package tables

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
)

// programme is the key of the row that stands for the programme as a whole. A
// consent id begins with "cns_".
const programme = "programme"

// ErrPaused is the error of a gate that is shut because the whole programme is
// paused.
var ErrPaused = fmt.Errorf("the programme is paused: %w", domain.ErrForbidden)

// A Gate makes revoking exact. A sender holds it open from its last look at the
// consent to the last byte of the request; closing waits for those that hold it and
// lets in no one new. So once Close has returned, no byte of a new task leaves.
//
// That rests on the database, which holds the locks: if it is lost while a sender
// holds the gate, the sender knows only when it next asks, so it bounds its hold.
type Gate struct {
	Pool *pgxpool.Pool

	// Patience bounds how long closing waits for holders. If zero, it is 10
	// seconds. It should exceed the bound that senders set themselves, 5 seconds.
	Patience time.Duration
}

// holdLimit is when the database ends the hold of a sender that has frozen. It is
// beyond the bound that a living sender keeps.
const holdLimit = 6 * time.Second

// Hold enters the gate for a task of a consent. The caller bounds it with a context
// of five seconds, and calls release when the request is written. Until then
// neither Close of this consent nor Pause returns.
//
// The error is of the kind [domain.ErrForbidden] if consent or programme are
// closed, or the consent was never opened. While one of them is being closed it is
// [domain.ErrUnavailable].
func (g *Gate) Hold(ctx context.Context, consent string) (release func(), err error) {
	tx, err := g.Pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("enter the gate of %s: %w", consent, unavailable(err))
	}
	release = func() {
		// The hold ends even if the caller's time has run out. If the rollback
		// fails, the connection is closed, which ends it too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}
	if err := lockForSending(ctx, tx, consent); err != nil {
		release()
		return nil, fmt.Errorf("enter the gate of %s: %w", consent, err)
	}
	return release, nil
}

func lockForSending(ctx context.Context, tx pgx.Tx, consent string) error {
	keys := []string{programme, consent}
	var closing bool
	states := make(map[string]bool)
	b := new(pgx.Batch)
	b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(holdLimit))
	b.Queue("select exists (select from gate_closing where key = any($1) and until > clock_timestamp())", keys).
		QueryRow(func(row pgx.Row) error { return row.Scan(&closing) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return unavailable(err)
	}
	if closing { // heeded before the lock, so that the one who waits gets it
		return fmt.Errorf("it is being closed: %w", domain.ErrUnavailable)
	}
	rows, err := tx.Query(ctx, "select key, open from gate where key = any($1) for share", keys)
	if err != nil {
		return unavailable(err)
	}
	var key string
	var open bool
	_, err = pgx.ForEachRow(rows, []any{&key, &open}, func() error {
		states[key] = open
		return nil
	})
	switch {
	case err != nil:
		return unavailable(err)
	case !states[programme]:
		return ErrPaused
	case !states[consent]:
		return fmt.Errorf("it is closed: %w", domain.ErrForbidden)
	}
	return nil
}

// Open makes the row of a consent that has been granted. Opening twice is not an
// error; opening what has been closed is a [domain.ErrConflict].
func (g *Gate) Open(ctx context.Context, consent string) error {
	var open bool
	err := g.Pool.QueryRow(ctx, `
		insert into gate (key, open) values ($1, true)
		on conflict (key) do update set key = excluded.key
		returning open`, consent).Scan(&open)
	if err != nil {
		return fmt.Errorf("open the gate of %s: %w", consent, unavailable(err))
	}
	if !open {
		return fmt.Errorf("the gate of %s has been closed for good: %w", consent, domain.ErrConflict)
	}
	return nil
}

// Close waits until no one holds the gate of a consent, closes it for good, and then
// calls then, which appends the event that says why. If then fails, the gate stays
// closed and Close may be called again. The error is of the kind
// [domain.ErrUnavailable] if a holder did not let go in time, and nothing has
// changed; it is [domain.ErrNotFound] if the gate was never opened.
func (g *Gate) Close(ctx context.Context, consent string, then func(context.Context) error) error {
	if err := g.shut(ctx, consent); err != nil {
		return fmt.Errorf("close the gate of %s: %w", consent, err)
	}
	return then(ctx)
}

// Pause closes the gate of the whole programme as Close does that of a consent.
func (g *Gate) Pause(ctx context.Context, then func(context.Context) error) error {
	done, err := g.switching(ctx)
	if err != nil {
		return fmt.Errorf("pause the programme: %w", err)
	}
	defer done()
	if err := g.shut(ctx, programme); err != nil {
		return fmt.Errorf("pause the programme: %w", err)
	}
	return then(ctx)
}

// Resume calls then, which appends the event that says so, and opens the gate of the
// programme. Consents that were closed stay closed.
func (g *Gate) Resume(ctx context.Context, then func(context.Context) error) error {
	done, err := g.switching(ctx)
	if err != nil {
		return fmt.Errorf("resume the programme: %w", err)
	}
	defer done()
	if err := then(ctx); err != nil {
		return err
	}
	_, err = g.Pool.Exec(ctx, "update gate set open = true, closed_at = null where key = $1", programme)
	if err != nil {
		return fmt.Errorf("resume the programme: %w", unavailable(err))
	}
	return nil
}

// switching lets one pause or resume at a time until done is called: the gate and
// what then appends must end up saying the same.
func (g *Gate) switching(ctx context.Context) (done func(), err error) {
	tx, err := g.Pool.Begin(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	done = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, the connection is closed, which ends it too
	}
	_, err = tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('karatum/mystery/gate/' || current_schema(), 0))")
	if err != nil {
		done()
		return nil, unavailable(err)
	}
	return done, nil
}

// shut closes the row with the given key.
func (g *Gate) shut(ctx context.Context, key string) error {
	patience := g.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	// Committed first: from here on no one new takes the lock, and those who hold
	// it end in time. Should we end before, the notice lapses by itself.
	notice, err := g.Pool.Exec(ctx, `
		insert into gate_closing (key, until)
		select key, clock_timestamp() + $2::interval from gate where key = $1
		on conflict (key) do update set until = greatest(gate_closing.until, excluded.until)`, key, patience)
	if err != nil {
		return unavailable(err)
	}
	if notice.RowsAffected() == 0 {
		return domain.ErrNotFound
	}
	err = pgx.BeginFunc(ctx, g.Pool, func(tx pgx.Tx) error {
		// A lock_timeout would bound the wait for each of several holders.
		_, err := tx.Exec(ctx, "select set_config('statement_timeout', $1, true)", milliseconds(patience))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select from gate where key = $1 for update", key); err != nil {
			return err
		}
		b := new(pgx.Batch)
		b.Queue("update gate set open = false, closed_at = now() where key = $1 and open", key)
		b.Queue("delete from gate_closing where key = $1", key)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// milliseconds writes d as PostgreSQL settings take it, at least one.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
