package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
)

// Bodies holds bytes that came from outside, under keys of the caller's choice.
// Events only commit to them, with a salt that is kept here too, so deleting a body
// erases it while every proof stays valid.
type Bodies struct {
	Pool *pgxpool.Pool
}

// Put stores a body; salt may be nil. When it returns nil, the body is durable. If
// there is one under key already it stays, which is not an error: the caller
// repeats a Put with unknown outcome.
func (b *Bodies) Put(ctx context.Context, key string, salt, body []byte) error {
	if body == nil {
		body = []byte{} // an empty body is one
	}
	_, err := b.Pool.Exec(ctx, `
		insert into bodies (key, salt, bytes) values ($1, $2, $3)
		on conflict (key) do nothing`, key, salt, body)
	if err != nil {
		return fmt.Errorf("store body %s: %w", key, unavailable(err))
	}
	return nil
}

// Get returns a body and its salt, or [domain.ErrNotFound].
func (b *Bodies) Get(ctx context.Context, key string) (salt, body []byte, err error) {
	err = b.Pool.QueryRow(ctx, "select salt, bytes from bodies where key = $1", key).Scan(&salt, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil, fmt.Errorf("body %s: %w", key, domain.ErrNotFound)
	case err != nil:
		return nil, nil, fmt.Errorf("read body %s: %w", key, unavailable(err))
	}
	return salt, body, nil
}

// Each calls f with every body whose key begins with prefix, as of one moment, until f
// returns an error, which it returns.
func (b *Bodies) Each(ctx context.Context, prefix string, f func(key string, salt, body []byte) error) error {
	rows, err := b.Pool.Query(ctx, "select key, salt, bytes from bodies where starts_with(key, $1) order by key", prefix)
	if err != nil {
		return fmt.Errorf("read bodies %s: %w", prefix, unavailable(err))
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var salt, body []byte
		if err := rows.Scan(&key, &salt, &body); err != nil {
			return fmt.Errorf("read bodies %s: %w", prefix, unavailable(err))
		}
		if err := f(key, salt, body); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read bodies %s: %w", prefix, unavailable(err))
	}
	return nil
}

// Delete erases bodies and their salts. To delete what is not there is not an error.
func (b *Bodies) Delete(ctx context.Context, keys ...string) error {
	if _, err := b.Pool.Exec(ctx, "delete from bodies where key = any($1)", keys); err != nil {
		return fmt.Errorf("delete bodies: %w", unavailable(err))
	}
	return nil
}
