// Package node reads one node of one Ethereum chain.
//
// What a chain says is only worth something together with the block at which it
// was said. So state is read at a [Block], which has a number and a hash: the
// node must have that hash at that number, and is then asked for the state by
// hash (EIP-1898). A chain that is reorganised in between gives an error, never
// the state of another block.
//
// Every error is one of three: a [RevertError], when a contract was run and gave
// up; a [domain.ErrNotFound], when the node has another block in the place of
// the one asked for; or a [domain.ErrUnavailable], when nothing is known, for
// whatever reason. Its text names a node by its host. The rest of an address is
// where providers put their keys, and is kept out.
//
// The package asks one node once. Choosing between nodes, and whether one serves
// the chain that it is said to serve, is a matter of package rpc.
package node

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/karatum/mystery/domain"
)

// A Block says which block of a chain is meant. State is read by Number and Hash
// alone, so Time may be left out there.
type Block struct {
	Number uint64
	Hash   common.Hash
	Time   time.Time
}

// A Client reads one node. Its methods may be called from several goroutines.
type Client struct {
	name    string
	secrets []string
	rpc     *rpc.Client
	eth     *ethclient.Client
}

// Dial returns a client of the node at address, which is an http or https URL.
// It connects when something is read, so a node that is down is no error here. An
// address that cannot be used is a [domain.ErrInvalid].
func Dial(ctx context.Context, address string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address of a node is an http or https URL: %w", domain.ErrInvalid)
	}
	h := &http.Client{
		Transport: limited{&http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
		}},
		// A node that has moved is configured anew: a key in the address is for one host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c, err := rpc.DialOptions(ctx, address, rpc.WithHTTPClient(h))
	if err != nil {
		return nil, fmt.Errorf("the address of the node at %s cannot be used: %w", u.Host, domain.ErrInvalid)
	}
	client := New(u.Host, c)
	client.secrets = secrets(u)
	return client, nil
}

// New returns a client that reads through c, which it takes over. Errors call the
// node name.
func New(name string, c *rpc.Client) *Client {
	return &Client{name: name, rpc: c, eth: ethclient.NewClient(c)}
}

// Name returns what errors call the node: the host, for a node that was dialled.
func (c *Client) Name() string { return c.name }

// Close lets go of the connections.
func (c *Client) Close() { c.rpc.Close() }

// ChainID returns the id of the chain that the node serves (EIP-155).
func (c *Client) ChainID(ctx context.Context) (uint64, error) {
	id, err := c.eth.ChainID(ctx)
	switch {
	case err != nil:
		return 0, c.fail(ctx, err)
	case !id.IsUint64():
		return 0, c.unavailable("its chain id has more than 64 bits")
	}
	return id.Uint64(), nil
}

// Head returns the newest block that the node knows.
func (c *Client) Head(ctx context.Context) (Block, error) {
	return c.block(ctx, rpc.LatestBlockNumber)
}

// Block returns the block that the node has at number.
func (c *Client) Block(ctx context.Context, number uint64) (Block, error) {
	if number > maxNumber {
		return Block{}, c.unavailable("it has no block of that number")
	}
	b, err := c.block(ctx, rpc.BlockNumber(number))
	if err == nil && b.Number != number {
		return Block{}, c.unavailable("it answered with another block than was asked for")
	}
	return b, err
}

// maxNumber is the highest number of a block that go-ethereum can ask for.
const maxNumber = 1<<63 - 1

// block takes the hash as the node states it. Working it out of the header would
// give another one, without a sign, once a fork adds a field that this program
// does not know.
func (c *Client) block(ctx context.Context, number rpc.BlockNumber) (Block, error) {
	var b *struct {
		Number    *hexutil.Uint64 `json:"number"`
		Hash      *common.Hash    `json:"hash"`
		Timestamp *hexutil.Uint64 `json:"timestamp"`
	}
	switch err := c.rpc.CallContext(ctx, &b, "eth_getBlockByNumber", number, false); {
	case err != nil:
		return Block{}, c.fail(ctx, err)
	case b == nil:
		return Block{}, c.fail(ctx, ethereum.NotFound)
	case b.Number == nil || b.Hash == nil || b.Timestamp == nil || *b.Timestamp > maxNumber:
		return Block{}, c.unavailable("it answered with something that is not a block")
	}
	return Block{
		Number: uint64(*b.Number),
		Hash:   *b.Hash,
		Time:   time.Unix(int64(*b.Timestamp), 0).UTC(),
	}, nil
}

// CodeAt returns the code of account at block; none for a plain key.
func (c *Client) CodeAt(ctx context.Context, account common.Address, block Block) ([]byte, error) {
	return at(ctx, c, block, func() ([]byte, error) { return c.eth.CodeAtHash(ctx, account, block.Hash) })
}

// CallAt runs a contract on the state that block leaves behind and returns its
// output. Calling an account without code is no error and has no output. A
// contract that gives up is a [RevertError].
func (c *Client) CallAt(ctx context.Context, call ethereum.CallMsg, block Block) ([]byte, error) {
	return at(ctx, c, block, func() ([]byte, error) { return c.eth.CallContractAtHash(ctx, call, block.Hash) })
}

// BalanceAt returns the native balance of account at block, in wei.
func (c *Client) BalanceAt(ctx context.Context, account common.Address, block Block) (*big.Int, error) {
	return at(ctx, c, block, func() (*big.Int, error) { return c.eth.BalanceAtHash(ctx, account, block.Hash) })
}

// at reads state of block. Nodes go on answering for the hash of a block that has
// been dropped from the chain, so the number is asked for first.
func at[T any](ctx context.Context, c *Client, block Block, read func() (T, error)) (zero T, err error) {
	switch has, err := c.Block(ctx, block.Number); {
	case err != nil:
		return zero, err
	case has.Hash != block.Hash:
		return zero, fmt.Errorf("block %d of the chain has the hash %s at %s, and not %s: %w",
			block.Number, has.Hash, c.name, block.Hash, domain.ErrNotFound)
	}
	v, err := read()
	if err != nil {
		return zero, c.fail(ctx, err)
	}
	return v, nil
}

// fail says what err, from go-ethereum, means. A context that was cancelled is
// passed on as it is: whoever cancelled it knows.
func (c *Client) fail(ctx context.Context, err error) error {
	if revert := reverted(err); revert != nil {
		return revert
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("the node %s was not waited for: %w", c.name, ctx.Err())
	}
	var (
		status  rpc.HTTPError
		answer  rpc.Error
		request *url.Error
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return c.unavailable("it did not answer in time")
	case errors.Is(err, ethereum.NotFound):
		return c.unavailable("it does not know the block")
	case errors.As(err, &status): // its body is whatever the provider likes to say
		return c.unavailable(fmt.Sprintf("it answered with HTTP status %d", status.StatusCode))
	case errors.As(err, &answer):
		return c.unavailable("it answered: " + printable(answer.Error()))
	case errors.As(err, &request): // its text is the whole address
		return c.unavailable(request.Err.Error())
	}
	return c.unavailable(err.Error())
}

func (c *Client) unavailable(reason string) error {
	for _, s := range c.secrets {
		reason = strings.ReplaceAll(reason, s, "…")
	}
	return fmt.Errorf("the node %s could not be read, as %s: %w", c.name, reason, domain.ErrUnavailable)
}
