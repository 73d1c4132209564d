package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/karatum/mystery/chain/registry"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/chain/wallet"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// knownChains are those that MYSTERY_RPC_<chain id> is read for, beside those that are
// configured for other purposes, with the nodes that are asked if it is not set.
var knownChains = map[uint64][]string{
	1:        nil, // Ethereum
	10:       nil, // OP Mainnet
	8453:     nil, // Base
	84532:    {"https://sepolia.base.org"},
	11155111: {"https://ethereum-sepolia-rpc.publicnode.com"},
	11155420: nil, // OP Sepolia
}

// noNodes is the value of MYSTERY_RPC_<chain id> that turns a default off.
const noNodes = "none"

// nodesFrom reads which nodes are asked about which chain.
func nodesFrom(getenv func(string) string, chains ...uint64) map[uint64][]string {
	nodes := make(map[uint64][]string)
	add := func(chain uint64, otherwise []string) {
		switch addresses := getenv("MYSTERY_RPC_" + strconv.FormatUint(chain, 10)); {
		case addresses == noNodes:
		case addresses != "":
			nodes[chain] = list(addresses)
		case len(otherwise) > 0:
			nodes[chain] = otherwise
		}
	}
	for chain, otherwise := range knownChains {
		add(chain, otherwise)
	}
	for _, chain := range chains {
		if _, known := knownChains[chain]; !known {
			add(chain, nil)
		}
	}
	return nodes
}

// home returns the chain on which the contract wallets of owners are.
func (c Config) home() (uint64, error) {
	if c.Chain == "" {
		return commands.HomeChain, nil
	}
	chain, err := strconv.ParseUint(c.Chain, 10, 64)
	if err != nil || chain == 0 || chain > agent.MaxChain {
		return 0, fmt.Errorf("MYSTERY_CHAIN %q is not the id of a chain, such as %d: %w", c.Chain, commands.HomeChain, domain.ErrInvalid)
	}
	return chain, nil
}

// openChains connects to the nodes of the Config, if the program brings none of its
// own. Nothing is asked of them yet.
func (p *Programme) openChains(ctx context.Context, o Options) error {
	home, err := p.config.home()
	if err != nil {
		return err
	}
	p.nodes = o.Nodes
	if p.nodes == nil {
		if p.nodes, err = dial(ctx, p.config.Nodes, p.log); err != nil {
			return err
		}
		p.closers = append(p.closers, p.nodes.Close)
	}
	p.Service.Chain, p.Service.Chains = home, chains{p.nodes}
	if len(p.nodes) > 0 {
		p.Worker.Chain = p.nodes
	}
	return nil
}

// lag is how many blocks behind the newest one is taken for the head. Behind one address
// there are often several machines, and the next may not have what the last one had.
const lag = 2

func dial(ctx context.Context, nodes map[uint64][]string, log *slog.Logger) (_ rpc.Set, err error) {
	set := make(rpc.Set)
	for chain, addresses := range nodes {
		c := rpc.Config{Now: time.Now, Agree: len(addresses) > 1, Lag: lag, Log: log}
		if set[chain], err = rpc.Dial(ctx, chain, addresses, c); err != nil {
			delete(set, chain)
			set.Close()
			return nil, fmt.Errorf("MYSTERY_RPC_%d: %w", chain, err)
		}
	}
	return set, nil
}

// chains asks the contracts of owners.
type chains struct{ nodes rpc.Set }

var _ commands.Chains = chains{}

func (c chains) VerifyWallet(
	ctx context.Context, chain uint64, owner eip191.Address, hash domain.Hash, sig []byte,
) (v consent.Verification, err error) {
	n, ok := c.nodes[chain]
	if !ok {
		return v, commands.NoNode(chain)
	}
	verdict, err := wallet.Verify(ctx, n, owner, hash, sig)
	if err != nil {
		return v, err
	}
	return consent.Verification{
		Method: consent.Method(verdict.Method),
		At:     agent.Block{Chain: chain, Number: verdict.Block, Hash: agent.BlockHash(verdict.BlockHash)},
	}, nil
}

func (c chains) OwnerOf(ctx context.Context, t agent.Token) (o agent.Ownership, err error) {
	n, ok := c.nodes[t.Chain]
	if !ok {
		return o, commands.NoNode(t.Chain)
	}
	head, err := n.Head(ctx)
	if err != nil {
		return o, err
	}
	o.Owner, err = registry.Owner(ctx, n, t.Registry, t.ID, head)
	if err != nil && !errors.Is(err, domain.ErrNotFound) { // nobody owns what does not exist
		return o, err
	}
	o.At = agent.Block{Chain: t.Chain, Number: head.Number, Hash: agent.BlockHash(head.Hash)}
	return o, nil
}

// AskNodes asks every chain for its newest block and returns the state of its nodes.
func (p *Programme) AskNodes(ctx context.Context) map[uint64][]rpc.Health {
	var g errgroup.Group
	for _, n := range p.nodes {
		g.Go(func() error {
			_, _ = n.Head(ctx) // what came of it is in its health
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
	health := make(map[uint64][]rpc.Health, len(p.nodes))
	for chain, n := range p.nodes {
		health[chain] = n.Health()
	}
	return health
}
