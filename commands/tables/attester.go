package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// A Transaction is one that was signed to go to a chain.
type Transaction struct {
	Hash    batch.Word
	Chain   uint64
	Account eip191.Address // that pays
	Nonce   uint64
	Batch   uint64 // 0: is of none
	Raw     []byte // as it is sent
	Signed  time.Time
}

// Transactions keeps the transactions that were signed, of which any may be mined.
type Transactions struct{ Pool *pgxpool.Pool }

// Keep stores a transaction. When it returns nil, that is durable.
func (t *Transactions) Keep(ctx context.Context, x Transaction) error {
	_, err := t.Pool.Exec(ctx, `
		insert into attester_transactions (hash, chain, account, nonce, batch, raw, signed) values ($1, $2, $3, $4, $5, $6, $7)
		on conflict (hash) do nothing`, x.Hash[:], x.Chain, x.Account[:], x.Nonce, x.Batch, x.Raw, x.Signed)
	if err != nil {
		return fmt.Errorf("keep a signed transaction: %w", unavailable(err))
	}
	return nil
}

// WithNonce returns the transactions of an account on a chain that have a nonce, of
// which one at most can be mined, in the order in which they were signed.
func (t *Transactions) WithNonce(ctx context.Context, chain uint64, account eip191.Address, nonce uint64) ([]Transaction, error) {
	rows, err := t.Pool.Query(ctx, `
		select hash, batch, raw, signed from attester_transactions
		where chain = $1 and account = $2 and nonce = $3 order by signed, hash`, chain, account[:], nonce)
	if err != nil {
		return nil, fmt.Errorf("read signed transactions: %w", unavailable(err))
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Transaction, error) {
		x := Transaction{Chain: chain, Account: account, Nonce: nonce}
		var hash []byte
		if err := row.Scan(&hash, &x.Batch, &x.Raw, &x.Signed); err != nil {
			return x, err
		}
		x.Hash, x.Signed = batch.Word(hash), x.Signed.UTC()
		return x, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read signed transactions: %w", unavailable(err))
	}
	return list, nil
}

// A Status says how attesting goes.
type Status struct {
	State  string
	Detail string
	Since  time.Time // when it came into State
}

// Note stores how attesting goes.
func (t *Transactions) Note(ctx context.Context, s Status) error {
	_, err := t.Pool.Exec(ctx, `
		insert into attester_status as was (state, detail, since) values ($1, $2, $3)
		on conflict (one) do update set detail = excluded.detail, state = excluded.state,
			since = case when was.state = excluded.state then was.since else excluded.since end`, s.State, s.Detail, s.Since)
	if err != nil {
		return fmt.Errorf("note how attesting goes: %w", unavailable(err))
	}
	return nil
}

// Status returns how attesting went last. If nothing was ever attested here, that
// is a [domain.ErrNotFound].
func (t *Transactions) Status(ctx context.Context) (s Status, err error) {
	err = t.Pool.QueryRow(ctx, `select state, detail, since from attester_status`).Scan(&s.State, &s.Detail, &s.Since)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, fmt.Errorf("nothing was attested here yet: %w", domain.ErrNotFound)
	case err != nil:
		return s, fmt.Errorf("read how attesting goes: %w", unavailable(err))
	}
	s.Since = s.Since.UTC()
	return s, nil
}
