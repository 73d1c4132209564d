package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
)

// ChallengeKeys are keys of challenges, by the operator key that each goes with. Those
// who hold operator secrets leave them to processes that hold none: all of these have to
// know the challenges of each other, also while no holder of a secret runs.
//
// Who reads one can make up that a challenge was issued here. For that to come to
// anything an owner has to sign it, and who reads this table sees sealed tasks as well.
type ChallengeKeys struct {
	Pool *pgxpool.Pool
}

// Leave keeps a key for the others. To leave it again changes nothing.
func (c *ChallengeKeys) Leave(ctx context.Context, operatorKey domain.Hash, key consent.ChallengeKey) error {
	_, err := c.Pool.Exec(ctx, `insert into challenge_keys (operator_key, key) values ($1, $2) on conflict (operator_key) do nothing`,
		operatorKey[:], key[:])
	if err != nil {
		return fmt.Errorf("leave a key of challenges to others: %w", unavailable(err))
	}
	return nil
}

// ChallengeKey implements [commands.ChallengeKeys].
func (c *ChallengeKeys) ChallengeKey(ctx context.Context, operatorKey domain.Hash) (consent.ChallengeKey, error) {
	var key []byte
	err := c.Pool.QueryRow(ctx, `select key from challenge_keys where operator_key = $1`, operatorKey[:]).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return consent.ChallengeKey{}, fmt.Errorf("the key of challenges of operator key %s: %w", operatorKey, domain.ErrNotFound)
	case err != nil:
		return consent.ChallengeKey{}, fmt.Errorf("read a key of challenges: %w", unavailable(err))
	}
	return consent.ChallengeKey(key), nil
}
