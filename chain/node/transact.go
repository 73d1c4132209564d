package node

import (
	"context"
	"errors"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// What a node may have against a transaction that is sent to it.
var (
	// ErrNonceTooLow means that another transaction with the nonce was mined, which
	// may be an earlier one of equal content.
	ErrNonceTooLow = errors.New("the nonce is taken")

	// ErrUnderpriced means that the node has another transaction with the nonce, and
	// this one does not pay enough more to take its place; or that it takes none
	// that pay so little.
	ErrUnderpriced = errors.New("the fees are too low")

	// ErrFunds means that the account cannot pay for it.
	ErrFunds = errors.New("the account holds too little")
)

// verdicts are parts of the messages with which nodes refuse transactions. There are
// no codes for them. A nil verdict is none: the node has the transaction.
var verdicts = []struct {
	text string
	err  error
}{
	{"already known", nil},                    // go-ethereum and those that follow it
	{"already imported", nil},                 // anvil, Erigon
	{"alreadyknown", nil},                     // Nethermind
	{"known transaction", nil},                // Besu, older nodes
	{"nonce too low", ErrNonceTooLow},         // go-ethereum, anvil
	{"nonce is too low", ErrNonceTooLow},      // Besu
	{"oldnonce", ErrNonceTooLow},              // Nethermind
	{"underpriced", ErrUnderpriced},           // go-ethereum, anvil, Besu
	{"replacementnotallowed", ErrUnderpriced}, // Nethermind
	{"fee too low", ErrUnderpriced},
	{"feetoolow", ErrUnderpriced},
	{"less than block base fee", ErrUnderpriced},
	{"insufficient funds", ErrFunds},
	{"insufficientfunds", ErrFunds},
}

// Send hands a signed transaction to the node. One that the node has already is as
// good as sent. A transaction that it does not want is an [ErrNonceTooLow], an
// [ErrUnderpriced] or an [ErrFunds]. After any other error it is not known whether
// the node has it.
func (c *Client) Send(ctx context.Context, raw []byte) error {
	err := c.rpc.CallContext(ctx, nil, "eth_sendRawTransaction", hexutil.Encode(raw))
	if answer, ok := errors.AsType[rpc.Error](err); ok {
		text := strings.ToLower(answer.Error())
		for _, v := range verdicts {
			if strings.Contains(text, v.text) {
				return v.err
			}
		}
	}
	if err != nil {
		return c.fail(ctx, err)
	}
	return nil
}

// NonceAt returns how many transactions of account stand in the chain up to block.
func (c *Client) NonceAt(ctx context.Context, account common.Address, block Block) (uint64, error) {
	return at(ctx, c, block, func() (uint64, error) { return c.eth.NonceAtHash(ctx, account, block.Hash) })
}

// Finalised returns the newest block that the chain calls final. Chains that have
// no such thing give a [domain.ErrUnavailable].
func (c *Client) Finalised(ctx context.Context) (Block, error) {
	return c.block(ctx, rpc.FinalizedBlockNumber)
}

// Receipt returns what came of a transaction, nil if no block has it.
func (c *Client) Receipt(ctx context.Context, tx common.Hash) (*types.Receipt, error) {
	r, err := c.eth.TransactionReceipt(ctx, tx)
	switch {
	case errors.Is(err, ethereum.NotFound):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, c.fail(ctx, err)
	case r.TxHash != tx || r.BlockNumber == nil || !r.BlockNumber.IsUint64():
		return nil, c.unavailable("it answered with another receipt than was asked for")
	}
	return r, nil
}

// Transaction returns a transaction that the node has, and whether it waits for a
// block. It is nil if the node does not know it.
func (c *Client) Transaction(ctx context.Context, hash common.Hash) (tx *types.Transaction, pending bool, err error) {
	tx, pending, err = c.eth.TransactionByHash(ctx, hash)
	switch {
	case errors.Is(err, ethereum.NotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, c.fail(ctx, err)
	case tx.Hash() != hash:
		return nil, false, c.unavailable("it answered with another transaction than was asked for")
	}
	return tx, pending, nil
}

// Logs returns the logs that q asks for. Nodes bound how many blocks that may be.
func (c *Client) Logs(ctx context.Context, q ethereum.FilterQuery) ([]*types.Log, error) {
	logs, err := c.eth.FilterLogs(ctx, q)
	if err != nil {
		return nil, c.fail(ctx, err)
	}
	list := make([]*types.Log, len(logs))
	for i := range logs {
		list[i] = &logs[i]
	}
	return list, nil
}

// Fees returns what a unit of gas costs in the next block, and what the node thinks
// is paid on top (EIP-1559).
func (c *Client) Fees(ctx context.Context) (base, tip *big.Int, err error) {
	history, err := c.eth.FeeHistory(ctx, 1, nil, []float64{})
	if err != nil {
		return nil, nil, c.fail(ctx, err)
	}
	if len(history.BaseFee) == 0 || history.BaseFee[len(history.BaseFee)-1] == nil {
		return nil, nil, c.unavailable("it does not tell the base fee")
	}
	if tip, err = c.eth.SuggestGasTipCap(ctx); err != nil {
		return nil, nil, c.fail(ctx, err)
	}
	return history.BaseFee[len(history.BaseFee)-1], tip, nil
}

// EstimateGas returns how much gas a transaction would use now. A contract that
// gives up is a [RevertError].
func (c *Client) EstimateGas(ctx context.Context, call ethereum.CallMsg) (uint64, error) {
	gas, err := c.eth.EstimateGas(ctx, call)
	if err != nil {
		return 0, c.fail(ctx, err)
	}
	return gas, nil
}
