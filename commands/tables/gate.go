package tables

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
)

// whole is the key of the row that stands for the programme as a whole. A consent
// has a row under its id, which begins with "cns_", and a scope that was ever paused
// one under its text.
const whole = "programme"

// ErrPaused is the error of a gate that is shut because the programme is paused, as
// a whole or in a scope of the task.
var ErrPaused = fmt.Errorf("tasks like this one are paused: %w", domain.ErrForbidden)

// A Gate makes revoking and pausing exact. A sender holds it open from its last look
// at the consent to the last byte of the request; closing waits for those that hold
// it and lets in no one new. So once Close has returned, no byte of a new task of
// that consent leaves, and once Pause has, none of that scope.
//
// Every sender holds the row of the programme, whatever its task is. So a pause of any
// scope can wait for them all at that one row, and nobody passes between the look at
// what is paused and the sending: a row that is not there could not be held. Pausing
// is rare, and those it does not concern wait for as long as it takes others to send.
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

// Hold enters the gate for a task. The caller bounds it with a context of five
// seconds, and calls release when the request is written. Until then neither Close of
// its consent nor Pause returns.
//
// The error is of the kind [domain.ErrForbidden] if the consent is closed or was never
// opened, and [ErrPaused] if a scope of the task is paused. While something is being
// closed it is [domain.ErrUnavailable].
func (g *Gate) Hold(ctx context.Context, t programme.Task) (release func(), err error) {
	// Each statement must see what was committed before it, whatever the server's default.
	tx, err := g.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("enter the gate of %s: %w", t.Consent, unavailable(err))
	}
	release = func() {
		// The hold ends even if the caller's time has run out. If the rollback
		// fails, the connection is closed, which ends it too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}
	if err := lockForSending(ctx, tx, t); err != nil {
		release()
		return nil, fmt.Errorf("enter the gate of %s: %w", t.Consent, err)
	}
	return release, nil
}

func lockForSending(ctx context.Context, tx pgx.Tx, t programme.Task) error {
	keys := []string{whole, t.Consent}
	var closing bool
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
	// The scopes are looked at by a statement of their own, behind the lock: one that
	// waited for it would still see what was paused before it began to wait.
	var held, paused []string
	b = new(pgx.Batch)
	b.Queue("select key from gate where key = any($1) and open for share", keys).Query(gather(&held))
	b.Queue("select key from gate where key = any($1) and not open", rows(t.Scopes())).Query(gather(&paused))
	err := tx.SendBatch(ctx, b).Close()
	switch {
	case err != nil:
		return unavailable(err)
	case !slices.Contains(held, whole), len(paused) > 0:
		return ErrPaused
	case !slices.Contains(held, t.Consent):
		return fmt.Errorf("it is closed: %w", domain.ErrForbidden)
	}
	return nil
}

// gather reads a column of keys into list.
func gather(list *[]string) func(pgx.Rows) error {
	return func(r pgx.Rows) (err error) {
		*list, err = pgx.CollectRows(r, pgx.RowTo[string])
		return err
	}
}

// row returns the key of the row of a scope.
func row(s programme.Scope) string {
	if s == programme.Everything {
		return whole
	}
	return string(s)
}

func rows(scopes []programme.Scope) []string {
	keys := make([]string, len(scopes))
	for i, s := range scopes {
		keys[i] = row(s)
	}
	return keys
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
	if err := g.shut(ctx, consent, consent); err != nil {
		return fmt.Errorf("close the gate of %s: %w", consent, err)
	}
	return then(ctx)
}

// Pause closes the gate to all tasks of a scope as Close does to those of a consent,
// but not for good.
func (g *Gate) Pause(ctx context.Context, scope programme.Scope, then func(context.Context) error) error {
	done, err := g.switching(ctx)
	if err != nil {
		return fmt.Errorf("pause %s: %w", scope, err)
	}
	defer done()
	if err := g.shut(ctx, whole, row(scope)); err != nil {
		return fmt.Errorf("pause %s: %w", scope, err)
	}
	return then(ctx)
}

// Resume calls then, which appends the event that says so, and opens the gate to the
// tasks of a scope. Other scopes that are paused stay so, and consents that were
// closed stay closed.
func (g *Gate) Resume(ctx context.Context, scope programme.Scope, then func(context.Context) error) error {
	done, err := g.switching(ctx)
	if err != nil {
		return fmt.Errorf("resume %s: %w", scope, err)
	}
	defer done()
	if err := then(ctx); err != nil {
		return err
	}
	_, err = g.Pool.Exec(ctx, "update gate set open = true, closed_at = null where key = $1", row(scope))
	if err != nil {
		return fmt.Errorf("resume %s: %w", scope, unavailable(err))
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

// shut waits until no one holds the row with the key held, and then closes the one
// with the given key, which it makes if need be.
func (g *Gate) shut(ctx context.Context, held, key string) error {
	patience := g.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	// Committed first: from here on no one new takes the lock, and those who hold
	// it end in time. Should we end before, the notice lapses by itself.
	notice, err := g.Pool.Exec(ctx, `
		insert into gate_closing (key, until)
		select key, clock_timestamp() + $2::interval from gate where key = $1
		on conflict (key) do update set until = greatest(gate_closing.until, excluded.until)`, held, patience)
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
		if _, err := tx.Exec(ctx, "select from gate where key = $1 for update", held); err != nil {
			return err
		}
		b := new(pgx.Batch)
		b.Queue(`
			insert into gate (key, open, closed_at) values ($1, false, now())
			on conflict (key) do update set open = false, closed_at = now() where gate.open`, key)
		b.Queue("delete from gate_closing where key = $1", held)
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
