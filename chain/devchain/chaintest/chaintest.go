// Package chaintest holds what tests share that run on a development chain and, in the
// same way, on a node that others wrote.
package chaintest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/node"
)

// ID is the id of the chains of tests, which is that of Base Sepolia.
const ID = 84532

// A Chain is one on which transactions cost nothing.
type Chain interface {
	Node() *node.Client
	Transact(ctx context.Context, key *ecdsa.PrivateKey, tx devchain.Tx) (*types.Receipt, error)
}

// Start starts a development chain on which these accounts can pay for transactions.
// It is closed when the test ends.
func Start(t *testing.T, rich ...common.Address) *devchain.Chain {
	t.Helper()
	c, err := devchain.New(devchain.Config{ChainID: ID, Rich: rich})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Key returns the private key of 32 bytes n. It panics for 0 and 255, with which there is none.
func Key(n byte) *ecdsa.PrivateKey { return Must(crypto.ToECDSA(bytes.Repeat([]byte{n}, 32))) }

// Address returns the account of key.
func Address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// Must returns v. It panics if err is not nil, for what a test cannot go on without.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
