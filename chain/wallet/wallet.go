// Package wallet asks whether a contract wallet accepts a signature.
//
// There are two ways, and the signature says which:
//
//   - ERC-6492, for a wallet that may not be deployed yet: the signature ends with
//     a mark and holds, before the wallet's own signature, a factory and what to
//     call it with. A contract that exists for this one call deploys the wallet,
//     asks it, and is undone with all it did.
//   - ERC-1271, for a wallet that is deployed: isValidSignature of the wallet.
//
// Both are answers of a chain at a block, and a wallet may change its mind: owners
// are exchanged. So a [Verdict] names the block by number and hash, and
// [VerifyAt] puts the same question again, to any node that still has its state.
//
// A signature is passed on as it came, since only the wallet knows its form. If it
// does not accept one that ends in v 0 or 1, as hardware wallets write it, it is
// asked again with 27 or 28.
//
// Saying no and saying nothing are kept apart. A wallet that refuses, gives up, or
// answers in another form than the standard has is a [domain.ErrForbidden]; a node
// that does not answer is a [domain.ErrUnavailable], from which nothing follows.
//
// Plain keys are a matter of package eip191, with one exception: an account that
// delegates to a contract (EIP-7702) has code, and is a plain key all the same.
package wallet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// A Node reads a chain; see [node.Client] for what its errors mean.
type Node interface {
	Head(ctx context.Context) (node.Block, error)
	CodeAt(ctx context.Context, account common.Address, block node.Block) ([]byte, error)
	CallAt(ctx context.Context, call ethereum.CallMsg, block node.Block) ([]byte, error)
}

// A Method is a way to ask.
type Method string

// Methods.
const (
	ERC1271 Method = "erc1271"
	ERC6492 Method = "erc6492"
	EIP191  Method = "eip191" // the key of an account that delegates signed
)

// A Verdict says how a signature was found to be that of an account, and at which
// block.
type Verdict struct {
	Method    Method
	Block     uint64
	BlockHash common.Hash
}

// MaxSignature bounds the bytes of a signature. Several owners and the code that
// deploys a wallet find room in it.
const MaxSignature = 8 << 10

// What one question may cost a node, which runs whatever the signature tells it
// to. The gas is below the most that a transaction may have (EIP-7825), as some
// nodes hold calls to that too.
const (
	maxGas  = 10_000_000
	maxTime = 20 * time.Second
)

// caller is whom the wallet sees asking. It is not the zero address: some contracts
// take that for a rehearsal, and are less strict.
var caller = common.Address([]byte("karatum mystery call"))

// Verify asks at the newest block of n whether the contract wallet at account
// accepts sig as a signature of hash.
//
// If it does not, or account is no contract, the error is a [domain.ErrForbidden];
// if sig is longer than [MaxSignature], a [domain.ErrInvalid]; if n does not
// answer, a [domain.ErrUnavailable].
func Verify(ctx context.Context, n Node, account eip191.Address, hash domain.Hash, sig []byte) (Verdict, error) {
	if err := checkLength(sig); err != nil {
		return Verdict{}, err
	}
	head, err := n.Head(ctx)
	if err != nil {
		return Verdict{}, fmt.Errorf("find the newest block: %w", err)
	}
	return VerifyAt(ctx, n, head, account, hash, sig)
}

// VerifyAt is Verify at a block of which number and hash are known. A block that
// the chain does not have, or has no more, is a [domain.ErrNotFound].
func VerifyAt(ctx context.Context, n Node, block node.Block, account eip191.Address, hash domain.Hash, sig []byte) (Verdict, error) {
	if err := checkLength(sig); err != nil {
		return Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	q := question{n, block, common.Address(account), hash}
	method, err := q.ask(ctx, sig)
	var revert *node.RevertError
	switch {
	case errors.As(err, &revert):
		return Verdict{}, q.refused("gives up on the signature")
	case err != nil:
		return Verdict{}, fmt.Errorf("ask the wallet %s: %w", account, err)
	}
	return Verdict{Method: method, Block: block.Number, BlockHash: block.Hash}, nil
}

func checkLength(sig []byte) error {
	if len(sig) > MaxSignature {
		return fmt.Errorf("the signature of a contract wallet has %d bytes at most, not %d: %w", MaxSignature, len(sig), domain.ErrInvalid)
	}
	return nil
}

// A question is one hash to one account at one block.
type question struct {
	Node
	block   node.Block
	account common.Address
	hash    domain.Hash
}

// ask goes by the order of ERC-6492: its mark comes first, since the signature of
// a wallet that has been deployed in the meantime still bears it.
func (q question) ask(ctx context.Context, sig []byte) (Method, error) {
	if bytes.HasSuffix(sig, mark) {
		return ERC6492, q.askFactory(ctx, sig)
	}
	// A call to an account without code succeeds and returns nothing. So that it
	// has code, at this very block, is a question of its own.
	code, err := q.CodeAt(ctx, q.account, q.block)
	switch {
	case err != nil:
		return "", err
	case len(code) == 0:
		return "", fmt.Errorf("there is no contract wallet at %s in block %d, and a wallet that is not deployed yet signs by ERC-6492: %w",
			q.account, q.block.Number, domain.ErrForbidden)
	}
	err = q.accepts(ctx, sig)
	if other, ok := recovered27(sig); ok && said(err) {
		err = q.accepts(ctx, other)
	}
	if _, delegates := types.ParseDelegation(code); delegates && said(err) && q.signedByKey(sig) {
		return EIP191, nil
	}
	return ERC1271, err
}

// said reports whether err is the wallet's no, and not a node's silence.
func said(err error) bool {
	var revert *node.RevertError
	return errors.As(err, &revert) || errors.Is(err, domain.ErrForbidden)
}

// refused says what the wallet does instead of accepting the signature.
func (q question) refused(does string) error {
	return fmt.Errorf("the contract wallet %s %s in block %d: %w", q.account, does, q.block.Number, domain.ErrForbidden)
}

// recovered27 returns a signature r ‖ s ‖ v with v 0 or 1 as one with 27 or 28.
func recovered27(sig []byte) ([]byte, bool) {
	if len(sig) != crypto.SignatureLength || sig[64] > 1 {
		return nil, false
	}
	other := bytes.Clone(sig)
	other[64] += 27
	return other, true
}

// accepts asks isValidSignature of ERC-1271.
func (q question) accepts(ctx context.Context, sig []byte) error {
	data, err := isValidSignature.Pack(q.hash, sig)
	if err != nil {
		panic(err) // a hash and bytes can be encoded
	}
	out, err := q.CallAt(ctx, ethereum.CallMsg{From: caller, To: &q.account, Gas: maxGas, Data: append(selector(), data...)}, q.block)
	if err != nil {
		return err
	}
	// A bytes4 is the left part of a word whose rest is zero. Contracts refuse
	// anything else when they decode it, and so do we; more words may follow.
	if !bytes.HasPrefix(out, append(selector(), make([]byte, 28)...)) {
		return q.refused("does not accept the signature")
	}
	return nil
}

// signedByKey reports whether sig is that of the account's own key, by the policy
// of package eip191.
func (q question) signedByKey(sig []byte) bool {
	canonical, err := eip191.Canonical(sig)
	if err != nil {
		return false
	}
	canonical[64] -= 27
	key, err := crypto.SigToPub(q.hash[:], canonical[:])
	return err == nil && crypto.PubkeyToAddress(*key) == q.account
}
