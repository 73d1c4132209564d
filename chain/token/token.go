// Package token reads tokens that are paid with by signed authorizations (EIP-20,
// EIP-3009), such as USDC: what an account holds, and whether an authorization of it
// was used up.
package token

import (
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
	CallAt(ctx context.Context, call ethereum.CallMsg, block node.Block) ([]byte, error)
}

// maxGas is what a look into a token may cost a node. USDC stands behind a proxy.
const maxGas = 500_000

// The first four bytes of the Keccak-256 of authorizationState(address,bytes32) and
// of balanceOf(address).
var (
	authorizationState = [4]byte{0xe9, 0x4a, 0x01, 0x02}
	balanceOf          = [4]byte{0x70, 0xa0, 0x82, 0x31}
)

// Used reports whether, at a block, the authorization of an account with a nonce was
// used up: it was redeemed, or the account called it off. A contract that does not
// answer like such a token is a [domain.ErrInvalid]; a node that does not answer, or
// not for this block, is a [domain.ErrUnavailable].
func Used(ctx context.Context, n Node, token, account eip191.Address, nonce [32]byte, block node.Block) (bool, error) {
	word, err := read(ctx, n, token, block, authorizationState, common.LeftPadBytes(account[:], 32), nonce[:])
	if err != nil {
		return false, err
	}
	if !word.IsUint64() || word.Uint64() > 1 {
		return false, fmt.Errorf("the contract at %s does not tell yes from no, so it is no token that authorizations are redeemed at: %w", token, domain.ErrInvalid)
	}
	return word.Sign() > 0, nil
}

// Balance returns what an account held at a block, in atomic units. Its errors are
// those of Used.
func Balance(ctx context.Context, n Node, token, account eip191.Address, block node.Block) (*big.Int, error) {
	return read(ctx, n, token, block, balanceOf, common.LeftPadBytes(account[:], 32))
}

// read calls a method that returns one word.
func read(ctx context.Context, n Node, token eip191.Address, block node.Block, method [4]byte, args ...[]byte) (*big.Int, error) {
	to := common.Address(token)
	data := method[:]
	for _, a := range args {
		data = append(data, a...)
	}
	out, err := n.CallAt(ctx, ethereum.CallMsg{To: &to, Gas: maxGas, Data: data}, block)
	var revert *node.RevertError
	switch {
	case errors.As(err, &revert), err == nil && len(out) != 32: // an account without code returns nothing
		return nil, fmt.Errorf("the contract at %s does not answer like a token: %w", token, domain.ErrInvalid)
	case errors.Is(err, domain.ErrNotFound):
		return nil, fmt.Errorf("the token %s was not read, as %s: %w", token, domain.Sentence(err), domain.ErrUnavailable)
	case err != nil:
		return nil, fmt.Errorf("read the token %s: %w", token, err)
	}
	return new(big.Int).SetBytes(out), nil
}
