package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

// An Admission lets requests of producers in, each once, for all processes together. A
// request holds a lock of its producer, shared with others, from before the look at what
// the producer may do until its events are durable; to exclude the producer takes the
// lock alone. So what is appended under the lock alone stands behind all that the
// producer wrote before, and before all that it tries afterwards. For maintainers, who do
// little, there is one lock, and it is always taken alone.
type Admission struct {
	// Pool is for this alone: a request that is let in needs other connections to append,
	// and must not wait for those that want to be let in.
	Pool *pgxpool.Pool

	// Patience bounds how long Exclude and Maintain wait. If zero, it is 40 seconds: an append is
	// given up after 30.
	Patience time.Duration
}

const (
	// frozen is when the database ends the hold of a process that does not go on.
	frozen = 2 * time.Minute

	// lockNotAvailable is what a lock_timeout ends in.
	lockNotAvailable = "55P03"

	// forgetAtOnce bounds how many nonces a request clears away: more than it adds.
	forgetAtOnce = 100
)

// producerLock names the lock of the producer $1.
const producerLock = `hashtextextended('karatum/mystery/producers/' || current_schema() || '/' || $1, 0)`

// maintainerLock names the lock of all maintainers.
const maintainerLock = `hashtextextended('karatum/mystery/maintainers/' || current_schema(), 0)`

// Admit implements [commands.Admission].
func (a *Admission) Admit(ctx context.Context, n commands.Nonce, then func(context.Context) error) error {
	tx, err := a.begin(ctx)
	if err != nil {
		return fmt.Errorf("let in a request of %s: %w", n.Producer, err)
	}
	defer rollback(ctx, tx)
	var isNew bool
	b := new(pgx.Batch)
	b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(frozen))
	b.Queue("select pg_advisory_xact_lock_shared("+producerLock+")", n.Producer)
	b.Queue(`
		delete from producer_nonces where (producer, nonce) in (
			select producer, nonce from producer_nonces where expires < $1 order by expires limit $2 for update skip locked)`, n.Now, forgetAtOnce)
	b.Queue(`
		with added as (
			insert into producer_nonces (producer, nonce, expires) values ($1, $2, $3) on conflict do nothing returning true)
		select exists (select from added)`, n.Producer, n.Value, n.Expires).
		QueryRow(func(row pgx.Row) error { return row.Scan(&isNew) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("let in a request of %s: %w", n.Producer, unavailable(err))
	}
	if !isNew {
		return domain.WithCode(domain.NonceUsed, fmt.Errorf("a request with this nonce came before; sign again with another one: %w", domain.ErrUnauthenticated))
	}
	// Who asked may be gone. The lock is held all the same until it is known what became
	// of the events: a writer that was left alone could be late.
	ctx = context.WithoutCancel(ctx)
	failed := then(ctx)
	// What became of the request does not matter: it is not let in again. If this fails,
	// it may be, and finds its events on record.
	if err := tx.Commit(ctx); err != nil && failed == nil {
		return fmt.Errorf("remember a request of %s: %w", n.Producer, unavailable(err))
	}
	return failed
}

// Exclude implements [commands.Admission].
func (a *Admission) Exclude(ctx context.Context, producer string, then func(context.Context) error) error {
	return a.alone(ctx, "a request of "+producer, then, producerLock, producer)
}

// Maintain implements [commands.Admission].
func (a *Admission) Maintain(ctx context.Context, then func(context.Context) error) error {
	return a.alone(ctx, "a step of another maintainer", then, maintainerLock)
}

// alone calls then under a lock that nobody else holds. other says who may hold it.
func (a *Admission) alone(ctx context.Context, other string, then func(context.Context) error, lock string, args ...any) error {
	patience := a.Patience
	if patience == 0 {
		patience = 40 * time.Second
	}
	tx, err := a.begin(ctx)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", other, err)
	}
	defer rollback(ctx, tx)
	b := new(pgx.Batch)
	b.Queue("select set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)", milliseconds(patience), milliseconds(frozen))
	b.Queue("select pg_advisory_xact_lock("+lock+")", args...)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == lockNotAvailable {
			return fmt.Errorf("%s has been under way for %s; try again: %w", other, patience, domain.ErrUnavailable)
		}
		return fmt.Errorf("wait for %s: %w", other, unavailable(err))
	}
	// As in Admit: the lock is held until it is known what became of it.
	return then(context.WithoutCancel(ctx))
}

func (a *Admission) begin(ctx context.Context) (pgx.Tx, error) {
	// Each statement must see what was committed before it, whatever the server's default.
	tx, err := a.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, unavailable(err)
	}
	return tx, nil
}

// rollback ends a transaction that was not committed, and with it its locks, even if the
// time of the caller has run out.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}
