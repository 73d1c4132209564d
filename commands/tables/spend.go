package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
)

// Spends counts what tasks cost before it is spent. What was reserved counts until it
// is released, also if whoever reserved it is never heard of again.
type Spends struct {
	Pool *pgxpool.Pool
}

// A Reservation is a price that is to be paid.
type Reservation struct {
	Shop    string
	Consent string
	Month   string // that it counts in
	Amount  string // decimal, atomic units
	Limit   string // of the consent in a month

	// Payers are the accounts that could pay. With Once an account pays for one task
	// and then never again.
	Payers []string
	Once   bool
}

// ErrSpent is the error of a reservation that would exceed the limit of its month.
var ErrSpent = fmt.Errorf("the consent allows no more payments this month: %w", domain.ErrForbidden)

// ErrNoPayer is the error of a reservation for which every account has paid already.
var ErrNoPayer = fmt.Errorf("no account is left that has not paid for a task: %w", domain.ErrForbidden)

// Reserve counts a price, or returns [ErrSpent] or [ErrNoPayer]. It returns the
// account that is to pay. Each task reserves once: a second time is a
// [domain.ErrConflict], whatever came of the first.
func (s *Spends) Reserve(ctx context.Context, r Reservation) (payer string, err error) {
	err = pgx.BeginTxFunc(ctx, s.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// Payments are rare: one at a time is simple, and exact for all limits at once.
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('karatum/mystery/spends/' || current_schema(), 0))"); err != nil {
			return unavailable(err)
		}
		payer, err = reserve(ctx, tx, r)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reserve a payment for %s: %w", r.Shop, err)
	}
	return payer, nil
}

func reserve(ctx context.Context, tx pgx.Tx, r Reservation) (payer string, err error) {
	var known, fits bool
	err = tx.QueryRow(ctx, `
		select exists (select from spends where shop = $1),
			coalesce((select sum(amount) from spends where consent = $2 and month = $3 and not released), 0) + $4::numeric <= $5::numeric`,
		r.Shop, r.Consent, r.Month, r.Amount, r.Limit).Scan(&known, &fits)
	switch {
	case err != nil:
		return "", unavailable(err)
	case known:
		return "", fmt.Errorf("a payment was reserved before, and there is one for each task: %w", domain.ErrConflict)
	case !fits:
		return "", ErrSpent
	}
	err = tx.QueryRow(ctx, `
		insert into spends (shop, consent, month, amount, payer)
		select $1, $2, $3, $4::numeric, p.payer
		from unnest($5::text[]) with ordinality as p (payer, n)
		where not $6 or not exists (select from spends s where s.payer = p.payer)
		order by p.n limit 1
		returning payer`, r.Shop, r.Consent, r.Month, r.Amount, r.Payers, r.Once).Scan(&payer)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNoPayer
	}
	if err != nil {
		return "", unavailable(err)
	}
	return payer, nil
}

// Keep keeps the signed authorization of a reservation. Nothing may be given away
// that was not kept: it returns a [domain.ErrConflict] where there is one already, or
// the reservation is released.
func (s *Spends) Keep(ctx context.Context, shop string, payment []byte) error {
	done, err := s.Pool.Exec(ctx, "update spends set payment = $2 where shop = $1 and payment is null and not released", shop, payment)
	if err != nil {
		return fmt.Errorf("keep the payment of %s: %w", shop, unavailable(err))
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("no payment of %s can be kept any more: %w", shop, domain.ErrConflict)
	}
	return nil
}

// Release stops counting a reservation. Releasing twice, or what was never reserved,
// is not an error.
func (s *Spends) Release(ctx context.Context, shop string) error {
	if _, err := s.Pool.Exec(ctx, "update spends set released = true where shop = $1", shop); err != nil {
		return fmt.Errorf("release the payment of %s: %w", shop, unavailable(err))
	}
	return nil
}

// Unused reports whether one of some accounts has never paid.
func (s *Spends) Unused(ctx context.Context, payers []string) (unused bool, err error) {
	err = s.Pool.QueryRow(ctx, `
		select exists (select from unnest($1::text[]) as p (payer) where not exists (select from spends s where s.payer = p.payer))`,
		payers).Scan(&unused)
	if err != nil {
		return false, fmt.Errorf("look for an account that has not paid: %w", unavailable(err))
	}
	return unused, nil
}
