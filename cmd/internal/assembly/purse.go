package assembly

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"

	"github.com/karatum/mystery/chain/token"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// keysThatPay returns the keys that tasks are paid with, and whether each pays for one
// task alone; none if nothing is to be paid.
func (c Config) keysThatPay() (keys []x402.Key, once bool, err error) {
	switch {
	case c.PayKey != "" && c.PayKeyFile != "":
		return nil, false, fmt.Errorf("MYSTERY_X402_PRIVATE_KEY and MYSTERY_X402_KEY_FILE are both set; one says who pays: %w", domain.ErrInvalid)
	case c.PayKey != "":
		k, err := x402.ParseKey(c.PayKey)
		if err != nil {
			return nil, false, fmt.Errorf("MYSTERY_X402_PRIVATE_KEY: %w", err)
		}
		return []x402.Key{k}, false, nil
	case c.PayKeyFile != "":
		keys, err := readPayKeys(c.PayKeyFile)
		if err != nil {
			return nil, false, fmt.Errorf("MYSTERY_X402_KEY_FILE: %w", err)
		}
		return keys, true, nil
	}
	return nil, false, nil
}

// readPayKeys reads a key from each line that is no comment. Its errors hold nothing
// of the file.
func readPayKeys(path string) (keys []x402.Key, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s can be read by others; chmod 600 it: %w", path, domain.ErrForbidden)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := x402.ParseKey(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", n, path, err)
		}
		if slices.ContainsFunc(keys, func(o x402.Key) bool { return o.Address() == k.Address() }) {
			return nil, fmt.Errorf("line %d of %s repeats an earlier one, and a key pays once: %w", n, path, domain.ErrInvalid)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no key; put one on each line: %w", path, domain.ErrInvalid)
	}
	return keys, nil
}

// openPurse lets the worker pay if the Config says who does.
func (p *Programme) openPurse() error {
	keys, once, err := p.config.keysThatPay()
	if err != nil || len(keys) == 0 {
		return err
	}
	if p.nodes[x402.USDC.Chain] == nil {
		return fmt.Errorf("tasks are to be paid on chain %d, and no node can say what became of a payment; name one in MYSTERY_RPC_%d: %w",
			x402.USDC.Chain, x402.USDC.Chain, domain.ErrInvalid)
	}
	p.Worker.Purse = &x402.Purse{
		Keys: keys, Once: once, Spends: &tables.Spends{Pool: p.pool}, Chain: chains{p.nodes}, Now: p.Now, Rand: p.Service.Rand,
	}
	return nil
}

var _ x402.Chain = chains{}

// Authorization implements [x402.Chain].
func (c chains) Authorization(
	ctx context.Context, chain uint64, asset, payer eip191.Address, nonce batch.Word,
) (used bool, at time.Time, err error) {
	n, ok := c.nodes[chain]
	if !ok {
		return false, at, fmt.Errorf("no node of chain %d is configured: %w", chain, domain.ErrUnavailable)
	}
	head, err := n.Head(ctx)
	if err != nil {
		return false, at, err
	}
	used, err = token.Used(ctx, n, asset, payer, nonce, head)
	return used, head.Time, err
}

// A Payer is an account that pays for tasks, and what it holds.
type Payer struct {
	Account eip191.Address
	Balance *big.Int // in atomic units
}

// Payers returns the accounts that pay for tasks.
func (p *Programme) Payers(ctx context.Context) (list []Payer, err error) {
	if p.Worker.Purse == nil {
		return nil, nil
	}
	n := p.nodes[x402.USDC.Chain]
	head, err := n.Head(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range p.Worker.Purse.Accounts() {
		balance, err := token.Balance(ctx, n, x402.USDC.Address, a, head)
		if err != nil {
			return nil, err
		}
		list = append(list, Payer{a, balance})
	}
	return list, nil
}
