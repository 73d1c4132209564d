package assembly

import (
	"context"
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/programme"
)

// A KeyUse is an operator key and the consents that need its secret, as something
// is left to do under them.
type KeyUse struct {
	Key      domain.Hash
	Consents []string
}

// MissingKeys returns the operator keys that are needed and whose secrets are not at
// hand. Until they are, nothing is planned, sent or opened under the consents.
func (p *Programme) MissingKeys(ctx context.Context) (missing []KeyUse, err error) {
	needed, err := p.neededKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range needed {
		if _, err := p.Service.Secrets.ByKey(k.Key); err != nil {
			missing = append(missing, k)
		}
	}
	return missing, nil
}

// neededKeys returns the operator keys that are needed, in the order of their oldest
// consents.
func (p *Programme) neededKeys(ctx context.Context) (keys []KeyUse, err error) {
	if err := p.Worker.Work.CatchUp(ctx); err != nil {
		return nil, err
	}
	consents, err := p.Worker.Work.Consents(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range consents {
		key := c.Granted.Payload.OperatorKey
		i := slices.IndexFunc(keys, func(k KeyUse) bool { return k.Key == key })
		if i < 0 {
			i = len(keys)
			keys = append(keys, KeyUse{Key: key})
		}
		keys[i].Consents = append(keys[i].Consents, c.Granted.Consent)
	}
	return keys, nil
}

// reportMissing says at the start which secrets are missing. It costs something only
// if one of those that were ever registered is.
func (p *Programme) reportMissing(ctx context.Context) error {
	state, err := p.Service.CurrentProgramme(ctx)
	if err != nil {
		return err
	}
	here := p.Service.Secrets.Keys()
	if !slices.ContainsFunc(state.Keys, func(k programme.Key) bool { return !slices.Contains(here, k.ID) }) {
		return nil
	}
	missing, err := p.MissingKeys(ctx)
	for _, k := range missing {
		p.log.ErrorContext(ctx, "the secret of an operator key is missing; until it is restored nothing is planned, sent or opened under its consents",
			"key", k.Key.String(), "consents", k.Consents)
	}
	return err
}

// RotateKey makes a new operator secret, adds it to the file and registers what
// stands for it. Consents are given under it once the service has been started again;
// those that were given before keep their own.
func (p *Programme) RotateKey(ctx context.Context, m ledger.Meta) (key domain.Hash, err error) {
	path, _ := p.config.SecretPath()
	secret, err := addSecret(path)
	if err != nil {
		return key, fmt.Errorf("add an operator secret to %s: %w", path, err)
	}
	key = programme.OperatorKey(secret)
	// The secret is durable before anybody can rely on it.
	if err := p.Service.Programme(ctx, m, programme.RegisterKey{Key: key}); err != nil {
		return key, fmt.Errorf("the new secret is in %s, and the next start of the service will register it as %s, but now: %w", path, key, err)
	}
	return key, nil
}

// KeysAtHand returns the operator keys whose secrets are in the file now, the current
// one last. The service itself works with the file as it was at its start.
func (p *Programme) KeysAtHand() ([]domain.Hash, error) {
	path, _ := p.config.SecretPath()
	ring, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	return ring.Keys(), nil
}

// RetireKey gives up an operator key. It returns an error matching
// [domain.ErrConflict] while something is left to do under a consent that needs it.
func (p *Programme) RetireKey(ctx context.Context, m ledger.Meta, key domain.Hash, reason string) error {
	needed, err := p.neededKeys(ctx)
	if err != nil {
		return err
	}
	c := programme.RetireKey{Key: key, Reason: reason}
	if i := slices.IndexFunc(needed, func(k KeyUse) bool { return k.Key == key }); i >= 0 {
		c.Needed = needed[i].Consents
	}
	return p.Service.Programme(ctx, m, c)
}
