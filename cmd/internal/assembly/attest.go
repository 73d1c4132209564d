package assembly

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// Attesting says where batches of commits are attested, and by whom. If neither Chain
// nor KeyFile is set, they are not, and there are none.
type Attesting struct {
	// Chain (MYSTERY_ATTEST_CHAIN) is the id of the chain. With it alone, batches are
	// sealed and attested by another process, which has the key. If empty, it is
	// that of MYSTERY_CHAIN.
	Chain string

	// KeyFile (MYSTERY_ATTESTER_KEY_FILE) holds the key of the account that attests,
	// readable by its owner only: 64 hex digits, or a keystore of go-ethereum, whose
	// password is in PasswordFile (MYSTERY_ATTESTER_PASSWORD_FILE). Nothing else may
	// use the account.
	KeyFile, PasswordFile string

	// EAS (MYSTERY_ATTEST_EAS) and Registry (MYSTERY_ATTEST_REGISTRY) are the addresses
	// of the contracts. If empty: those that are built in for Base, Optimism, their
	// Sepolia test networks, and Sepolia.
	EAS, Registry string

	// Resolver (MYSTERY_ATTEST_RESOLVER) is the address of the schema's resolver, which
	// karatum-mystery chain deploy puts on the chain. If empty, the schema has none.
	Resolver string

	// Confirmations (MYSTERY_ATTEST_CONFIRMATIONS) is how many blocks stand on top of
	// that of an attestation before it counts; 5 if empty.
	Confirmations string

	// MaxFee (MYSTERY_ATTEST_MAX_FEE) is the most that is paid for a unit of gas, in
	// gwei; 100 if empty.
	MaxFee string

	// BatchSize (MYSTERY_BATCH_SIZE) is how many commits close a batch before five past
	// the hour; 1024 if empty, 100000 at most.
	BatchSize string
}

func attestingFrom(getenv func(string) string) Attesting {
	return Attesting{
		Chain: getenv("MYSTERY_ATTEST_CHAIN"), KeyFile: getenv("MYSTERY_ATTESTER_KEY_FILE"), PasswordFile: getenv("MYSTERY_ATTESTER_PASSWORD_FILE"),
		EAS: getenv("MYSTERY_ATTEST_EAS"), Registry: getenv("MYSTERY_ATTEST_REGISTRY"), Resolver: getenv("MYSTERY_ATTEST_RESOLVER"),
		Confirmations: getenv("MYSTERY_ATTEST_CONFIRMATIONS"), MaxFee: getenv("MYSTERY_ATTEST_MAX_FEE"), BatchSize: getenv("MYSTERY_BATCH_SIZE"),
	}
}

// What holds unless configured otherwise.
const (
	closeAfter    = 5 * time.Minute // each hour
	batchSize     = 1024
	confirmations = 5
	finalDepth    = 10_000 // of a chain that does not say itself what is final
	patience      = 3 * time.Minute
	maxFee        = 100 // gwei
)

// attestChain returns the chain that batches are attested on, 0 if they are not.
func (c Config) attestChain() (uint64, error) {
	if c.Attest.Chain == "" {
		if c.Attest.KeyFile == "" {
			return 0, nil
		}
		return c.home()
	}
	chain, err := strconv.ParseUint(c.Attest.Chain, 10, 64)
	if err != nil || chain == 0 || chain > agent.MaxChain {
		return 0, fmt.Errorf("MYSTERY_ATTEST_CHAIN %q is not the id of a chain, such as %d: %w", c.Attest.Chain, commands.HomeChain, domain.ErrInvalid)
	}
	return chain, nil
}

// deployment returns where EAS is on a chain.
func (c Attesting) deployment(chain uint64) (d eas.Deployment, resolver common.Address, err error) {
	d, known := eas.DeploymentOn(chain)
	if !known && (c.EAS == "" || c.Registry == "") {
		return d, resolver, fmt.Errorf("no EAS is known on chain %d; set MYSTERY_ATTEST_EAS and MYSTERY_ATTEST_REGISTRY to the addresses of the contracts: %w", chain, domain.ErrInvalid)
	}
	for _, a := range []struct {
		name, text string
		to         *common.Address
	}{
		{"MYSTERY_ATTEST_EAS", c.EAS, &d.EAS},
		{"MYSTERY_ATTEST_REGISTRY", c.Registry, &d.Registry},
		{"MYSTERY_ATTEST_RESOLVER", c.Resolver, &resolver},
	} {
		if a.text == "" {
			continue
		}
		address, err := eip191.ParseAddress(a.text)
		if err != nil {
			return d, resolver, fmt.Errorf("%s: %w", a.name, err)
		}
		*a.to = common.Address(address)
	}
	return d, resolver, nil
}

// policy returns when batches are closed and what is thought of the chain.
func (c Attesting) policy() (p batch.Policy, ceiling *big.Int, err error) {
	number := func(name, text string, otherwise, least, most uint64) uint64 {
		if text == "" {
			return otherwise
		}
		n, bad := strconv.ParseUint(text, 10, 64)
		if bad != nil || n < least || n > most {
			err = fmt.Errorf("%s %q is not a number from %d to %d: %w", name, text, least, most, domain.ErrInvalid)
		}
		return n
	}
	p = batch.Policy{
		After: closeAfter, Depth: finalDepth, Patience: patience,
		Size:          int(number("MYSTERY_BATCH_SIZE", c.BatchSize, batchSize, 1, batch.MaxCount)), //nolint:gosec // bounded
		Confirmations: number("MYSTERY_ATTEST_CONFIRMATIONS", c.Confirmations, confirmations, 0, 64),
	}
	gwei := number("MYSTERY_ATTEST_MAX_FEE", c.MaxFee, maxFee, 1, 1_000_000)
	return p, new(big.Int).Mul(new(big.Int).SetUint64(gwei), big.NewInt(1e9)), err
}

// attester returns what the Config says of attesting, without the ports; nil if
// batches are not attested.
func (c Config) attester(o Options) (_ *attester.Attester, chain uint64, err error) {
	if chain, err = c.attestChain(); err != nil || chain == 0 {
		return nil, 0, err
	}
	if len(c.Nodes[chain]) == 0 && o.Nodes[chain] == nil {
		return nil, 0, fmt.Errorf("batches are attested on chain %d, so MYSTERY_RPC_%d must name a node of it: %w", chain, chain, domain.ErrInvalid)
	}
	a := &attester.Attester{Key: o.AttesterKey}
	if a.EAS, a.Resolver, err = c.Attest.deployment(chain); err != nil {
		return nil, 0, err
	}
	if a.Policy, a.Ceiling, err = c.Attest.policy(); err != nil {
		return nil, 0, err
	}
	if a.Key == nil && c.Attest.KeyFile != "" {
		a.Key, err = attester.ReadKey(c.Attest.KeyFile, c.Attest.PasswordFile)
	}
	return a, chain, err
}

// openAttester makes this process ready to seal batches and, if it holds the key, to
// attest them.
func (p *Programme) openAttester(a *attester.Attester, chain uint64) {
	if a == nil {
		return
	}
	a.Ledger, a.Reads, a.Transactions = p.Service, anchorage{p}, signed{&tables.Transactions{Pool: p.pool}}
	a.Leases = &tables.Leases{Pool: p.pool}
	a.Chain, a.Now, a.Rand, a.Log = p.nodes[chain], p.Now, p.Service.Rand, p.log
	p.Attester, p.Worker.Anchors = a, p.Reader
}

// Work runs the shopper's cycle, and beside it the attester if there is one, until ctx
// ends. Both look at least once in each interval.
func (p *Programme) Work(ctx context.Context, interval time.Duration) error {
	ctx = p.traced(ctx)
	if p.Attester == nil {
		return p.Worker.Run(ctx, interval)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Attester.Run(ctx, interval) }()
	err := p.Worker.Run(ctx, interval)
	cancel()
	return errors.Join(err, <-ended)
}

// Attesting returns how attesting goes, in whichever process it is done; "" if batches
// are not attested.
func (p *Programme) Attesting(ctx context.Context) (string, error) {
	if p.Attester == nil {
		return "", nil
	}
	s, err := (&tables.Transactions{Pool: p.pool}).Status(ctx)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return "not begun", nil
	case err != nil:
		return "", err
	case s.Detail == "":
		return s.State, nil
	}
	return fmt.Sprintf("%s since %s: %s", s.State, s.Since.Format(time.RFC3339), s.Detail), nil
}

// anchorage shows the attester the read models.
type anchorage struct{ *Programme }

var _ attester.Reads = anchorage{}

func (a anchorage) CatchUp(ctx context.Context) error { return a.Programme.CatchUp(ctx) }

func (a anchorage) BatchNumbers(ctx context.Context) (open, last uint64, err error) {
	return a.Reader.BatchNumbers(ctx)
}

func (a anchorage) OpenCommits(ctx context.Context, size uint64, limit int) ([]batch.Open, error) {
	return a.Reader.OpenCommits(ctx, size, limit)
}

func (a anchorage) LogHead(ctx context.Context) (uint64, domain.Hash, error) {
	h, err := a.Ledger.Head(ctx)
	return h.Size, h.Root, err
}

// signed keeps what the attester signs.
type signed struct{ table *tables.Transactions }

var _ attester.Transactions = signed{}

func (s signed) Keep(ctx context.Context, t attester.Transaction) error {
	return s.table.Keep(ctx, tables.Transaction(t))
}

func (s signed) WithNonce(ctx context.Context, chain uint64, account eip191.Address, nonce uint64) ([]attester.Transaction, error) {
	list, err := s.table.WithNonce(ctx, chain, account, nonce)
	out := make([]attester.Transaction, len(list))
	for i, t := range list {
		out[i] = attester.Transaction(t)
	}
	return out, err
}

func (s signed) Note(ctx context.Context, st attester.Status) error {
	return s.table.Note(ctx, tables.Status(st))
}
