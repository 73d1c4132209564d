package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/programme"
)

// A Keyring holds the operator's secrets, the oldest first: the operator's part
// of all keys. New consents are given under the last one; a consent keeps the
// secret that it was asked for under, which its payload names by the public id
// [programme.OperatorKey]. It holds one secret at least and is not changed.
type Keyring []domain.Hash

// Current returns the secret of new consents.
func (k Keyring) Current() domain.Hash { return k[len(k)-1] }

// ByKey returns the secret that a key stands for, or an error matching
// [domain.ErrUnavailable] that names the key.
func (k Keyring) ByKey(key domain.Hash) (domain.Hash, error) {
	i := slices.Index(k.Keys(), key)
	if i < 0 {
		return domain.Hash{}, fmt.Errorf("the secret of operator key %s is missing; "+
			"restore it into the file of operator secrets, above the last one: %w", key, domain.ErrUnavailable)
	}
	return k[i], nil
}

// Keys returns what stands for the secrets in public, in their order.
func (k Keyring) Keys() []domain.Hash {
	keys := make([]domain.Hash, len(k))
	for i, secret := range k {
		keys[i] = programme.OperatorKey(secret)
	}
	return keys
}

// String keeps secrets out of logs.
func (k Keyring) String() string { return fmt.Sprintf("%d operator secrets", len(k)) }

// challengeID returns the id of a challenge that is issued now.
func (s *Service) challengeID(purpose consent.Purpose, c consent.Challenge) string {
	return consent.NewChallengeKey(s.Secrets.Current()).ID(purpose, c)
}

// openChallenge is [consent.ChallengeKey.Open] with the key of whichever secret the
// challenge was issued under: one that was issued before a rotation lives on
// after it.
func (s *Service) openChallenge(purpose consent.Purpose, id string) (c consent.Challenge, err error) {
	now := s.Now()
	for _, secret := range slices.Backward(s.Secrets) {
		if c, err = consent.NewChallengeKey(secret).Open(purpose, id, now); !errors.Is(err, domain.ErrInvalid) {
			return c, err
		}
	}
	return c, err
}

// inForce returns nil if challenges may be issued under an operator key, else an
// error matching [domain.ErrUnavailable].
func inForce(published programme.State, key domain.Hash) error {
	if published.InForce(key) {
		return nil
	}
	return fmt.Errorf("operator key %s is not in force; the operator has to start the service again with the current secret: %w",
		key, domain.ErrUnavailable)
}

// notRetired returns an error matching [domain.ErrConflict] if the operator key of
// a challenge was retired since that was issued.
func (s *Service) notRetired(ctx context.Context, key domain.Hash) error {
	published, err := s.CurrentProgramme(ctx)
	if err != nil || published.InForce(key) {
		return err
	}
	return fmt.Errorf("the operator key of this challenge was retired meanwhile; ask for a new challenge: %w", domain.ErrConflict)
}
