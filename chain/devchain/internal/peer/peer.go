// Package peer runs nodes that others wrote, each as a program that lives as long as
// a test.
package peer

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"os/exec"
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

// A Chain is a node with a chain of its own.
type Chain struct {
	URL    string
	name   string
	client *ethclient.Client
}

// Start starts the program and returns when it serves the chain with that id. Its
// arguments are made for a port on 127.0.0.1, where it has to answer HTTP. If it does
// not start, the test fails.
func Start(t *testing.T, program, name string, chain uint64, arguments func(port string) []string) *Chain {
	t.Helper()
	// The port may be taken by somebody else in between, in which case the program ends.
	for range 5 {
		if c, ok := start(t, program, name, chain, arguments); ok {
			return c
		}
	}
	t.Fatalf("%s does not start", name)
	return nil
}

func start(t *testing.T, program, name string, chain uint64, arguments func(port string) []string) (*Chain, bool) {
	t.Helper()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, arguments(port)...) //nolint:gosec // a program that whoever runs the tests has named
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })

	c := &Chain{URL: "http://127.0.0.1:" + port, name: name}
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
			t.Fatalf("%s does not answer", name)
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

// Node returns a reader of the chain.
func (c *Chain) Node() *node.Client { return node.New(c.name, c.client.Client()) }

// Client returns the connection of the test itself.
func (c *Chain) Client() *ethclient.Client { return c.client }

// Transact has key sign a transaction, waits until it is mined and returns the
// receipt. A transaction without To deploys a contract. One that fails is an error.
func (c *Chain) Transact(ctx context.Context, key *ecdsa.PrivateKey, tx devchain.Tx) (*types.Receipt, error) {
	hash, err := tx.Send(ctx, c.client, key)
	if err != nil {
		return nil, err
	}
	receipt, err := c.Mined(ctx, hash)
	if err != nil {
		return nil, err
	}
	return receipt, devchain.Succeeded(receipt)
}

// Mined waits until a transaction is mined and returns its receipt.
func (c *Chain) Mined(ctx context.Context, tx common.Hash) (*types.Receipt, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		receipt, err := c.client.TransactionReceipt(ctx, tx)
		switch {
		case err == nil:
			return receipt, nil
		case !errors.Is(err, ethereum.NotFound):
			return nil, fmt.Errorf("look for the receipt of %s: %w", tx, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
