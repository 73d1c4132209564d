// Package registry asks the ERC-8004 identity registry of a chain who owns an
// agent.
//
// An agent there is an ERC-721 token, and its owner is the owner of the token. Ids
// count from zero, which is an id like any other. The deployed contracts are ahead
// of the text of the ERC; where they differ the contracts are followed.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// A Node reads a chain; see [node.Client] for what its errors mean.
type Node interface {
	CodeAt(ctx context.Context, account common.Address, block node.Block) ([]byte, error)
	CallAt(ctx context.Context, call ethereum.CallMsg, block node.Block) ([]byte, error)
}

// Addresses of the registry as the project publishes them: one on all main
// networks and one on all test networks. They are proxies, whose code may change.
var (
	Mainnets = eip191.Address(common.HexToAddress("0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"))
	Testnets = eip191.Address(common.HexToAddress("0x8004A818BFB912233c491871b3d84c89A494BD9e"))
)

// Default returns the address of the registry on a chain: Ethereum, OP Mainnet and
// Base with their test networks. Of another chain it knows none.
func Default(chain uint64) (eip191.Address, bool) {
	switch chain {
	case 1, 10, 8453:
		return Mainnets, true
	case 11155111, 11155420, 84532:
		return Testnets, true
	}
	return eip191.Address{}, false
}

// maxGas is what reading an owner may cost a node. It is a look into storage,
// behind a proxy.
const maxGas = 1_000_000

// Owner returns who owned an agent at a block.
//
// An id that was never given, or whose token was burnt, is a [domain.ErrNotFound],
// and nothing else is: who holds that an agent has no owner any more may act on it.
// An id beyond 256 bits and a contract that does not answer like a registry are a
// [domain.ErrInvalid]. A node that does not answer, or not for this block, is a
// [domain.ErrUnavailable].
func Owner(ctx context.Context, n Node, registry eip191.Address, id *big.Int, block node.Block) (eip191.Address, error) {
	if id.Sign() < 0 || id.BitLen() > 256 {
		return eip191.Address{}, fmt.Errorf("the id of an agent is a number from 0 to 2^256-1: %w", domain.ErrInvalid)
	}
	to := common.Address(registry)
	// A call to an account without code succeeds and returns nothing.
	code, err := n.CodeAt(ctx, to, block)
	switch {
	case err != nil:
		return eip191.Address{}, unread(registry, err)
	case len(code) == 0:
		return eip191.Address{}, fmt.Errorf("there is no contract at %s in block %d, so it is no registry of agents: %w",
			registry, block.Number, domain.ErrInvalid)
	}
	out, err := n.CallAt(ctx, ethereum.CallMsg{To: &to, Gas: maxGas, Data: encode(ownerOf, id)}, block)
	var revert *node.RevertError
	switch {
	case errors.As(err, &revert) && bytes.Equal(revert.Data, encode(nonexistentToken, id)):
		return eip191.Address{}, fmt.Errorf("the registry %s has no agent %s in block %d: %w", registry, id, block.Number, domain.ErrNotFound)
	case errors.As(err, &revert):
		return eip191.Address{}, fmt.Errorf("the contract at %s does not say who owns agent %s (%s): %w", registry, id, revert.Reason, domain.ErrInvalid)
	case err != nil:
		return eip191.Address{}, unread(registry, err)
	}
	// An address is the right part of a word whose rest is zero, and of a token that
	// exists it is never zero itself (ERC-721).
	if len(out) != 32 || common.BytesToHash(out[:12]) != (common.Hash{}) || common.BytesToHash(out) == (common.Hash{}) {
		return eip191.Address{}, fmt.Errorf("the contract at %s does not say who owns a token, so it is no registry of agents: %w",
			registry, domain.ErrInvalid)
	}
	return eip191.Address(out[12:]), nil
}

// unread is the error of a registry that no node could be asked about. That the
// chain has another block than the one meant says nothing about the agent.
func unread(registry eip191.Address, err error) error {
	if errors.Is(err, domain.ErrNotFound) {
		return fmt.Errorf("the registry %s was not read, as %s: %w", registry, domain.Sentence(err), domain.ErrUnavailable)
	}
	return fmt.Errorf("read the registry %s: %w", registry, err)
}

// The first four bytes of the Keccak-256 of ownerOf(uint256), and of the error
// ERC721NonexistentToken(uint256), which ownerOf ends with in OpenZeppelin's
// ERC-721 since its version 5 (ERC-6093).
var (
	ownerOf          = [4]byte{0x63, 0x52, 0x21, 0x1e}
	nonexistentToken = [4]byte{0x7e, 0x27, 0x32, 0x89}
)

func encode(selector [4]byte, id *big.Int) []byte {
	return append(selector[:], common.BigToHash(id).Bytes()...)
}
