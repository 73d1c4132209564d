// Package rpc reads chains through whatever nodes there are.
//
// A [Client] reads one chain over one or more nodes, in the order in which they
// were given. A node is believed after it has shown that it serves the chain: its
// chain id is asked for before its first answer, and again after every failure.
// One that serves another chain is set aside. Where a node fails, the next one is
// asked; where a contract gives up, none is, as that is an answer. Nodes that
// have failed lately come last, so that the calls behind it do not wait for them.
//
// A [Set] holds the clients of several chains.
//
// Errors are those of package node, and name nodes by host alone.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"go.opentelemetry.io/otel/attribute"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

// Config says how a [Client] reads. Only Now must be set.
type Config struct {
	Now func() time.Time // real time, which tells how long a node has been in its state

	// Timeout bounds one question to one node; 0 means 10 s.
	Timeout time.Duration

	// Parallel is how many questions may be under way at once; 0 means 8.
	Parallel int

	// Lag is how many blocks behind the newest one Head is. Public nodes are many
	// machines behind one address, and the next question may go to one that does
	// not have the newest block yet. 0 means that Head is the newest block.
	Lag uint64

	// Agree has a block that is asked for by number, and a balance, read from two
	// nodes, and refuses what they do not agree on. With a single node it says
	// nothing.
	Agree bool

	Log *slog.Logger // nil: nothing is logged
}

// pause is how long a node that failed is asked after the others.
const pause = 30 * time.Second

// A Client reads one chain. Its methods may be called from several goroutines.
type Client struct {
	chain  uint64
	config Config
	slots  chan struct{}
	nodes  []*endpoint

	mu      sync.Mutex
	highest uint64 // number of the highest head that a node has shown
}

// Dial returns a client of a chain over the nodes at addresses, which are http or
// https URLs. A node that is down is no error here. Addresses that cannot be used,
// or none at all, are a [domain.ErrInvalid].
func Dial(ctx context.Context, chain uint64, addresses []string, c Config) (*Client, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("chain %d needs the address of a node: %w", chain, domain.ErrInvalid)
	}
	var nodes []*node.Client
	for i, a := range addresses {
		n, err := node.Dial(ctx, a)
		if err != nil {
			for _, n := range nodes {
				n.Close()
			}
			return nil, fmt.Errorf("node %d of chain %d: %w", i+1, chain, err)
		}
		nodes = append(nodes, n)
	}
	return New(chain, c, nodes...), nil
}

// New returns a client of a chain over nodes, which it takes over.
func New(chain uint64, c Config, nodes ...*node.Client) *Client {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Parallel == 0 {
		c.Parallel = 8
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client := &Client{chain: chain, config: c, slots: make(chan struct{}, c.Parallel)}
	for _, n := range nodes {
		client.nodes = append(client.nodes, &endpoint{node: n, health: Health{Node: n.Name(), State: Unasked, Since: c.Now()}})
	}
	return client
}

// Chain returns the id of the chain.
func (c *Client) Chain() uint64 { return c.chain }

// Close lets go of the connections.
func (c *Client) Close() {
	for _, e := range c.nodes {
		e.node.Close()
	}
}

// Health returns the state of the nodes, in the order in which they were given.
func (c *Client) Health() []Health {
	list := make([]Health, 0, len(c.nodes))
	for _, e := range c.nodes {
		list = append(list, e.state())
	}
	return list
}

// Head returns the newest block of the chain, or the one that lies [Config].Lag
// behind it.
//
// A node whose head lies behind one that was seen before has fallen behind, or
// has lost blocks; the next one is asked, which may know more. If none does, the
// chain itself has got shorter, and the highest head of those that answered is
// returned. So a head may go backwards, and who counts blocks from it must
// expect that.
func (c *Client) Head(ctx context.Context) (node.Block, error) {
	c.mu.Lock()
	highest := c.highest
	c.mu.Unlock()
	var (
		best     node.Block
		answered bool
		failed   failures
	)
	for _, e := range c.order() {
		b, err := ask(ctx, c, e, c.newest)
		if err != nil {
			if failed.add(ctx, err); failed.final {
				break
			}
			continue
		}
		if b.Number >= highest {
			e.set(c, OK, "")
			c.shown(b.Number, highest)
			return b, nil
		}
		e.set(c, Behind, fmt.Sprintf("its newest block is %d after %d was seen", b.Number, highest))
		if !answered || b.Number > best.Number {
			best, answered = b, true
		}
	}
	if !answered {
		return node.Block{}, failed.err(c)
	}
	c.shown(best.Number, highest)
	return best, nil
}

// newest is the question that Head asks.
func (c *Client) newest(ctx context.Context, n *node.Client) (node.Block, error) {
	b, err := n.Head(ctx)
	if err != nil || c.config.Lag == 0 {
		return b, err
	}
	return n.Block(ctx, b.Number-min(b.Number, c.config.Lag))
}

// shown takes note of a head, unless another call has done so since it was asked
// for, when before was the highest.
func (c *Client) shown(number, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.highest == before {
		c.highest = number
	}
}

// Block returns the block that the chain has at number. One that no node knows is
// a [domain.ErrUnavailable]: it may be about to come.
func (c *Client) Block(ctx context.Context, number uint64) (node.Block, error) {
	read := func(ctx context.Context, n *node.Client) (node.Block, error) { return n.Block(ctx, number) }
	return agreed(ctx, c, fmt.Sprintf("block %d", number), read, func(a, b node.Block) bool { return a == b })
}

// CodeAt returns the code of account at block; none for a plain key.
func (c *Client) CodeAt(ctx context.Context, account common.Address, block node.Block) ([]byte, error) {
	return first(ctx, c, func(ctx context.Context, n *node.Client) ([]byte, error) { return n.CodeAt(ctx, account, block) })
}

// CallAt runs a contract on the state that block leaves behind and returns its
// output. See [node.Client.CallAt].
func (c *Client) CallAt(ctx context.Context, call ethereum.CallMsg, block node.Block) ([]byte, error) {
	return first(ctx, c, func(ctx context.Context, n *node.Client) ([]byte, error) { return n.CallAt(ctx, call, block) })
}

// BalanceAt returns the native balance of account at block, in wei.
func (c *Client) BalanceAt(ctx context.Context, account common.Address, block node.Block) (*big.Int, error) {
	read := func(ctx context.Context, n *node.Client) (*big.Int, error) { return n.BalanceAt(ctx, account, block) }
	return agreed(ctx, c, "a balance", read, func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
}

// On has do put a series of questions to one node, from which a picture results that
// does not mix what several nodes see. It is told the newest block, or the one that
// lies [Config].Lag behind it. A node that fails on the way is left for the next one,
// on which do begins anew, unless the error is what the chain says or one of final.
func (c *Client) On(ctx context.Context, do func(ctx context.Context, n *node.Client, head node.Block) error, final ...error) error {
	_, err := through(ctx, c, seriesTimeouts*c.config.Timeout, final, func(ctx context.Context, n *node.Client) (struct{}, error) {
		head, err := c.newest(ctx, n)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, do(ctx, n, head)
	})
	return err
}

// seriesTimeouts is how many times the time of one question a series may take.
const seriesTimeouts = 6

// A question is what a node is asked.
type question[T any] func(context.Context, *node.Client) (T, error)

// first returns what the first node says that says anything.
func first[T any](ctx context.Context, c *Client, q question[T]) (T, error) {
	return through(ctx, c, c.config.Timeout, nil, q)
}

// through asks one node after the other, each for so long at most. Errors that match
// one of final are answers.
func through[T any](ctx context.Context, c *Client, timeout time.Duration, final []error, q question[T]) (zero T, err error) {
	var failed failures
	for _, e := range c.order() {
		v, err := askFor(ctx, c, e, timeout, final, q)
		if err == nil {
			return v, nil
		}
		if failed.add(ctx, err, final...); failed.final {
			break
		}
	}
	return zero, failed.err(c)
}

// agreed returns what two nodes say, if the client has two and was told to compare
// them, and else what the first says.
func agreed[T any](ctx context.Context, c *Client, what string, q question[T], same func(a, b T) bool) (zero T, err error) {
	if !c.config.Agree || len(c.nodes) < 2 {
		return first(ctx, c, q)
	}
	var (
		said   T
		by     *endpoint
		failed failures
	)
	for _, e := range c.order() {
		v, err := ask(ctx, c, e, q)
		switch {
		case err != nil:
			if failed.add(ctx, err); failed.final {
				return zero, failed.err(c)
			}
		case by == nil:
			said, by = v, e
		case same(said, v):
			return v, nil
		default:
			c.config.Log.WarnContext(ctx, "two nodes of a chain do not agree", "chain", c.chain, "about", what, "node", by.node.Name(), "other", e.node.Name())
			return zero, fmt.Errorf("the nodes %s and %s of chain %d do not agree on %s, so neither is believed: %w",
				by.node.Name(), e.node.Name(), c.chain, what, domain.ErrUnavailable)
		}
	}
	if by != nil {
		return zero, fmt.Errorf("two nodes of chain %d have to agree on %s and only %s answered; try again later: %w",
			c.chain, what, by.node.Name(), domain.ErrUnavailable)
	}
	return zero, failed.err(c)
}

// ask puts q to the node of e, after its chain id if that is not known, and takes
// note of how it went.
func ask[T any](ctx context.Context, c *Client, e *endpoint, q question[T]) (T, error) {
	return askFor(ctx, c, e, c.config.Timeout, nil, q)
}

func askFor[T any](ctx context.Context, c *Client, e *endpoint, timeout time.Duration, final []error, q question[T]) (zero T, err error) {
	if err := e.aside(c); err != nil {
		return zero, err
	}
	ctx, end := commands.StartSpan(ctx, "rpc", attribute.Int64("mystery.chain", int64(c.chain)), attribute.String("server.address", e.node.Name())) //nolint:gosec // ids of chains are below 2^53
	defer func() { end(err) }()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return zero, stopped(ctx, c)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := e.identify(bounded, c); err != nil {
		return zero, e.failed(ctx, c, err)
	}
	v, err := q(bounded, e.node)
	switch {
	case matches(err, final):
		e.answered(c)
		return zero, err
	case err != nil:
		return zero, e.failed(ctx, c, err)
	}
	e.answered(c)
	return v, nil
}

// stopped is the error of a call whose context came to an end.
func stopped(ctx context.Context, c *Client) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("chain %d was not waited for: %w", c.chain, ctx.Err())
	}
	return fmt.Errorf("chain %d did not answer in time; try again later: %w", c.chain, domain.ErrUnavailable)
}

// order returns the nodes in the order in which to ask them.
func (c *Client) order() []*endpoint {
	now := c.config.Now()
	list := slices.Clone(c.nodes)
	slices.SortStableFunc(list, func(a, b *endpoint) int { return a.rank(now) - b.rank(now) })
	return list
}

// failures are the errors of the nodes that were asked in vain.
type failures struct {
	list  []error
	final bool // the next node has nothing to add
}

func (f *failures) add(ctx context.Context, err error, final ...error) {
	var revert *node.RevertError
	f.list = append(f.list, err)
	f.final = errors.As(err, &revert) || ctx.Err() != nil || matches(err, final)
}

func matches(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// err returns the one error that all of f amount to.
func (f *failures) err(c *Client) error {
	switch {
	case f.final:
		return f.list[len(f.list)-1]
	case len(f.list) == 0:
		return fmt.Errorf("chain %d has no node: %w", c.chain, domain.ErrUnavailable)
	case !slices.ContainsFunc(f.list, func(err error) bool { return !errors.Is(err, domain.ErrNotFound) }):
		return f.list[0] // all know the chain, and it has another block there
	}
	var why []string
	for _, err := range f.list {
		why = append(why, domain.Sentence(err))
	}
	if !slices.ContainsFunc(f.list, func(err error) bool { return !errors.Is(err, ErrWrongChain) }) {
		return wrongChainError{fmt.Sprintf("no node of chain %d serves it (%s)", c.chain, strings.Join(why, "; "))}
	}
	return fmt.Errorf("no node of chain %d could answer (%s); try again later: %w", c.chain, strings.Join(why, "; "), domain.ErrUnavailable)
}
