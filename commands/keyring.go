package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
)

// A Keyring holds the operator's secrets, the oldest first: the operator's part
// of all keys. New consents are given under the last one; a consent keeps the
// secret that it was asked for under, which its payload names by the public id
// [programme.OperatorKey]. It holds one secret at least, unless the process has none, and
// is not changed.
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

// A KeyRoot is the operator's part in a new consent: the root over its plan keys, and
// what stands for the secret that they follow from.
type KeyRoot struct{ OperatorKey, PlanKeyRoot domain.Hash }

// KeyRoots makes the operator's part in new consents.
type KeyRoots interface {
	// KeyRoot returns the root for a nonce and so many days. If that cannot be done at
	// the moment, the error matches [domain.ErrUnavailable].
	KeyRoot(ctx context.Context, nonce domain.Hash, firstDay, days uint32) (KeyRoot, error)
}

// KeyRoot implements [KeyRoots] with the current secret.
func (k Keyring) KeyRoot(_ context.Context, nonce domain.Hash, firstDay, days uint32) (KeyRoot, error) {
	return KeyRoot{programme.OperatorKey(k.Current()), plan.KeyRoot(k.Current(), nonce, firstDay, days)}, nil
}

// ChallengeKeys are those that the holders of operator secrets leave to the others. A
// challenge key says nothing of the secret that it follows from.
type ChallengeKeys interface {
	// ChallengeKey returns the challenge key that goes with an operator key, or
	// [domain.ErrNotFound].
	ChallengeKey(ctx context.Context, operatorKey domain.Hash) (consent.ChallengeKey, error)
}

// keyRoot returns the operator's part in a consent.
func (s *Service) keyRoot(ctx context.Context, nonce domain.Hash, firstDay, days uint32) (KeyRoot, error) {
	if len(s.Secrets) > 0 {
		return s.Secrets.KeyRoot(ctx, nonce, firstDay, days)
	}
	return s.KeyRoots.KeyRoot(ctx, nonce, firstDay, days)
}

// challengeKeys returns the keys that challenges are known by, the current one last.
// There is one at least. Without secrets it is only those of operator keys in force, as
// what goes by the name of a retired one may be forged.
func (s *Service) challengeKeys(ctx context.Context) (keys []consent.ChallengeKey, err error) {
	for _, secret := range s.Secrets {
		keys = append(keys, consent.NewChallengeKey(secret))
	}
	if len(keys) > 0 {
		return keys, nil
	}
	published, err := s.CurrentProgramme(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range published.Keys {
		if k.Retired {
			continue
		}
		key, err := s.ChallengeKeys.ChallengeKey(ctx, k.ID)
		switch {
		case err == nil:
			keys = append(keys, key)
		case !errors.Is(err, domain.ErrNotFound):
			return nil, err
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no challenge can be issued or taken yet; start a process that holds the operator secret once: %w", domain.ErrUnavailable)
	}
	return keys, nil
}

// challengeID returns the id of a challenge that is issued now.
func (s *Service) challengeID(ctx context.Context, purpose consent.Purpose, c consent.Challenge) (string, error) {
	keys, err := s.challengeKeys(ctx)
	if err != nil {
		return "", err
	}
	return keys[len(keys)-1].ID(purpose, c), nil
}

// openChallenge is [consent.ChallengeKey.Open] with the key of whichever secret the
// challenge was issued under: one that was issued before a rotation lives on
// after it.
func (s *Service) openChallenge(ctx context.Context, purpose consent.Purpose, id string) (c consent.Challenge, err error) {
	keys, err := s.challengeKeys(ctx)
	if err != nil {
		return c, err
	}
	now := s.Now()
	for _, key := range slices.Backward(keys) {
		if c, err = key.Open(purpose, id, now); !errors.Is(err, domain.ErrInvalid) {
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
