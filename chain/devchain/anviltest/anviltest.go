// Package anviltest runs tests on anvil, a node that others wrote, in the same way
// as on package devchain.
package anviltest

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/node"
)

// A Chain is an anvil that lives as long as a test. It makes a block of each
// transaction by itself.
type Chain struct {
	URL    string
	client *ethclient.Client
}

// Start starts an anvil with the given chain id, and with options of its command line.
// The program is the one that the variable ANVIL names, or the one that was installed
// below the folder that PEERS names, or the one on the path; without any the test fails.
func Start(t *testing.T, chain uint64, options ...string) *Chain {
	t.Helper()
	program, err := find()
	if err != nil {
		t.Fatal(err)
	}
	// The port may be taken by somebody else in between, in which case anvil ends.
	for range 5 {
		if c, ok := start(t, program, chain, options); ok {
			return c
		}
	}
	t.Fatal("anvil does not start")
	return nil
}

func find() (string, error) {
	if program := os.Getenv("ANVIL"); program != "" {
		return program, nil
	}
	if peers := os.Getenv("PEERS"); peers != "" {
		found, err := filepath.Glob(filepath.Join(peers, "node_modules", "@foundry-rs", "anvil-*", "bin", "anvil"))
		if err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	program, err := exec.LookPath("anvil")
	if err != nil {
		return "", fmt.Errorf("anvil is missing; run make test-peers, or name the program by ANVIL: %w", err)
	}
	return program, nil
}

func start(t *testing.T, program string, chain uint64, options []string) (*Chain, bool) {
	t.Helper()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	args := append([]string{"--host", "127.0.0.1", "--port", port, "--chain-id", strconv.FormatUint(chain, 10), "--silent"}, options...)
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program that whoever runs the tests has named
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })

	c := &Chain{URL: "http://127.0.0.1:" + port}
	conn, err := rpc.DialContext(t.Context(), c.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c.client = ethclient.NewClient(conn)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if id, err := c.client.ChainID(t.Context()); err == nil && id.IsUint64() && id.Uint64() == chain {
			return c, true
		}
		select {
		case <-ended:
			return nil, false
		case <-t.Context().Done():
			t.Fatal("anvil does not answer")
		case <-tick.C:
		}
	}
}

func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// Fund gives account a million ether.
func (c *Chain) Fund(ctx context.Context, account common.Address) error {
	return c.client.Client().CallContext(ctx, nil, "anvil_setBalance", account, "0xd3c21bcecceda1000000")
}

// Hold keeps transactions waiting from now on until [Chain.Mine] takes them.
func (c *Chain) Hold(ctx context.Context) error {
	return c.client.Client().CallContext(ctx, nil, "evm_setAutomine", false)
}

// Mine makes so many blocks, the first of them of the transactions that wait.
func (c *Chain) Mine(ctx context.Context, blocks int) error {
	return c.client.Client().CallContext(ctx, nil, "anvil_mine", blocks)
}

// Reorganise puts empty blocks in the place of so many newest ones. Their transactions
// are lost.
func (c *Chain) Reorganise(ctx context.Context, blocks int) error {
	return c.client.Client().CallContext(ctx, nil, "anvil_reorg", blocks, []any{})
}

// Node returns a reader of the chain.
func (c *Chain) Node() *node.Client { return node.New("anvil", c.client.Client()) }

// Client returns the connection of the test itself.
func (c *Chain) Client() *ethclient.Client { return c.client }

// Transact does as [devchain.Chain.Transact].
func (c *Chain) Transact(ctx context.Context, key *ecdsa.PrivateKey, tx devchain.Tx) (*types.Receipt, error) {
	hash, err := tx.Send(ctx, c.client, key)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		receipt, err := c.client.TransactionReceipt(ctx, hash)
		switch {
		case err == nil:
			return receipt, devchain.Succeeded(receipt)
		case !errors.Is(err, ethereum.NotFound):
			return nil, fmt.Errorf("look for the receipt of %s: %w", hash, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
