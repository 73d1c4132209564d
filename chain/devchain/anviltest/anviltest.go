// Package anviltest runs tests on anvil, a node that others wrote, in the same way
// as on package devchain.
package anviltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/devchain/internal/peer"
)

// A Chain is an anvil that lives as long as a test. It makes a block of each
// transaction by itself.
type Chain struct{ *peer.Chain }

// Start starts an anvil with the given chain id, and with options of its command line.
// The program is the one that the variable ANVIL names, or the one that was installed
// below the folder that PEERS names, or the one on the path; without any the test fails.
func Start(t *testing.T, chain uint64, options ...string) *Chain {
	t.Helper()
	program, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return &Chain{peer.Start(t, program, "anvil", chain, func(port string) []string {
		return append([]string{"--host", "127.0.0.1", "--port", port, "--chain-id", strconv.FormatUint(chain, 10), "--silent"}, options...)
	})}
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

// Fund gives account a million ether.
func (c *Chain) Fund(ctx context.Context, account common.Address) error {
	return c.Client().Client().CallContext(ctx, nil, "anvil_setBalance", account, "0xd3c21bcecceda1000000")
}

// Hold keeps transactions waiting from now on until [Chain.Mine] takes them.
func (c *Chain) Hold(ctx context.Context) error {
	return c.Client().Client().CallContext(ctx, nil, "evm_setAutomine", false)
}

// Mine makes so many blocks, the first of them of the transactions that wait.
func (c *Chain) Mine(ctx context.Context, blocks int) error {
	return c.Client().Client().CallContext(ctx, nil, "anvil_mine", blocks)
}

// Reorganise puts empty blocks in the place of so many newest ones. Their transactions
// are lost.
func (c *Chain) Reorganise(ctx context.Context, blocks int) error {
	return c.Client().Client().CallContext(ctx, nil, "anvil_reorg", blocks, []any{})
}
