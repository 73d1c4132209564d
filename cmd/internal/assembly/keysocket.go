package assembly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/keysocket"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/programme"
)

// AsksForKeys reports whether a process that does not have to hold operator secrets is to
// ask for plan key roots: there is a socket, and the secrets are not for it to read.
func (c Config) AsksForKeys() bool {
	if c.KeysSocket == "" {
		return false
	}
	path, _ := c.SecretPath()
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err == nil {
		_ = f.Close() // it was read from by nobody
	}
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// keyless returns the Config of a process that holds no key: batches are attested, and
// tasks paid for, elsewhere.
func (c Config) keyless() Config {
	if c.Attest.Chain == "" && c.Attest.KeyFile != "" {
		c.Attest.Chain = orElse(c.Chain, strconv.FormatUint(commands.HomeChain, 10))
	}
	c.Attest.KeyFile, c.Attest.PasswordFile, c.PayKey, c.PayKeyFile = "", "", "", ""
	return c
}

// askForKeys lets the service ask at the socket for what follows from operator secrets.
// The ledger must be begun, or this process would begin it without any.
func (p *Programme) askForKeys(state programme.State) error {
	if p.config.KeysSocket == "" {
		return fmt.Errorf("MYSTERY_KEYS_SOCKET must name the socket at which plan key roots are asked for: %w", domain.ErrInvalid)
	}
	if len(state.Keys) == 0 {
		return fmt.Errorf("this ledger is not begun, and a process without operator secrets cannot do that; start karatum-mystery work first: %w",
			domain.ErrUnavailable)
	}
	p.Service.KeyRoots = &keysocket.Client{Path: p.config.KeysSocket, Log: p.log}
	p.Service.ChallengeKeys = &tables.ChallengeKeys{Pool: p.pool}
	return nil
}

// leaveChallengeKeys leaves the processes that hold no secret what they know challenges by.
func (p *Programme) leaveChallengeKeys(ctx context.Context) error {
	keys := &tables.ChallengeKeys{Pool: p.pool}
	for i, key := range p.Service.Secrets.Keys() {
		if err := keys.Leave(ctx, key, consent.NewChallengeKey(p.Service.Secrets[i])); err != nil {
			return err
		}
	}
	return nil
}

// AnswerForKeys answers at the socket for plan key roots until ctx ends, if the Config
// names one.
func (p *Programme) AnswerForKeys(ctx context.Context) error {
	if p.config.KeysSocket == "" {
		return nil
	}
	s := keysocket.Server{Path: p.config.KeysSocket, Roots: p.Service.Secrets, Log: p.log}
	if name := p.config.KeysUser; name != "" {
		id, err := userID(name)
		if err != nil {
			return fmt.Errorf("MYSTERY_KEYS_USER: %w", err)
		}
		s.Others = []int{id}
	}
	return s.Run(ctx)
}

// userID returns the id of a user, who is named, or by the id itself.
func userID(name string) (int, error) {
	text := name
	if u, err := user.Lookup(name); err == nil {
		text = u.Uid
	}
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("there is no user %q here: %w", name, domain.ErrInvalid)
	}
	return id, nil
}

// KeyHolder asks at the socket, as an owner's request would, and returns the operator key
// under which new consents are given.
func (p *Programme) KeyHolder(ctx context.Context) (domain.Hash, error) {
	c := keysocket.Client{Path: p.config.KeysSocket, Log: p.log}
	root, err := c.KeyRoot(ctx, domain.Hash{1}, domain.DayOf(p.Now()), consent.MinValidity)
	return root.OperatorKey, err
}

// Keyless reports whether this process holds no operator secret.
func (p *Programme) Keyless() bool { return p.keyless }
