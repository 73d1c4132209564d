// Package gethtest runs tests on the program geth in its developer mode. Its pool of
// transactions is the one that most nodes of most chains have, so it is asked what
// anvil is lax about: which transaction may take the place of another, and which one
// waits.
package gethtest

import (
	"context"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/params"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/internal/peer"
)

// ChainID is that of geth's developer mode. Its gas costs are not those of public
// chains, as it has forks that they do not have yet.
const ChainID = 1337

// A Chain is a geth that lives as long as a test.
type Chain struct{ *peer.Chain }

// Start starts a geth that makes a block every second, with options of its command
// line. The program is the one that the variable GETH names, or the one on the path;
// without any the test fails.
func Start(t *testing.T, options ...string) *Chain {
	t.Helper()
	program := os.Getenv("GETH")
	if program == "" {
		var err error
		if program, err = exec.LookPath("geth"); err != nil {
			t.Fatalf("geth is missing; run make test-geth, or name the program by GETH: %v", err)
		}
	}
	return &Chain{peer.Start(t, program, "geth", ChainID, func(port string) []string {
		return append([]string{
			"--dev", "--dev.period", "1", "--datadir", t.TempDir(), "--verbosity", "1", "--ipcdisable",
			"--http", "--http.addr", "127.0.0.1", "--http.port", port, "--http.api", "eth", "--authrpc.port", "0",
			"--port", "0", "--nodiscover", "--nat", "none", "--maxpeers", "0",
		}, options...)
	})}
}

// Fund has geth's developer give account a thousand ether, at fees that any geth takes
// whose --miner.gasprice is a gwei at most.
func (c *Chain) Fund(ctx context.Context, account common.Address) error {
	var accounts []common.Address
	if err := c.Client().Client().CallContext(ctx, &accounts, "eth_accounts"); err != nil {
		return err
	}
	if len(accounts) == 0 {
		return errors.New("geth has no account of its developer")
	}
	var tx common.Hash
	err := c.Client().Client().CallContext(ctx, &tx, "eth_sendTransaction", map[string]any{
		"from": accounts[0], "to": account, "value": (*hexutil.Big)(new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))),
		"maxFeePerGas": (*hexutil.Big)(big.NewInt(10 * params.GWei)), "maxPriorityFeePerGas": (*hexutil.Big)(big.NewInt(params.GWei)),
	})
	if err != nil {
		return err
	}
	receipt, err := c.Mined(ctx, tx)
	if err != nil {
		return err
	}
	return devchain.Succeeded(receipt)
}
