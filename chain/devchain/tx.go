package devchain

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

// A Tx is what matters about a transaction on a chain where gas is free of charge.
type Tx struct {
	To       *common.Address // nil: deploy Data
	Data     []byte
	Value    *big.Int
	Delegate *common.Address // instead of the above: have the signer's account delegate to this contract (EIP-7702)
}

// Send signs t with key and sends it to the node of c. What the node left to itself
// would refuse is an error now.
func (t Tx) Send(ctx context.Context, c *ethclient.Client, key *ecdsa.PrivateKey) (common.Hash, error) {
	from := crypto.PubkeyToAddress(key.PublicKey)
	id, err := c.ChainID(ctx)
	if err != nil {
		return common.Hash{}, fmt.Errorf("ask for the chain id: %w", err)
	}
	nonce, err := c.PendingNonceAt(ctx, from)
	if err != nil {
		return common.Hash{}, fmt.Errorf("ask for the nonce of %s: %w", from, err)
	}
	head, err := c.HeaderByNumber(ctx, nil)
	if err != nil {
		return common.Hash{}, fmt.Errorf("ask for the base fee: %w", err)
	}
	gas, err := c.EstimateGas(ctx, ethereum.CallMsg{From: from, To: t.To, Data: t.Data, Value: t.Value})
	if err != nil {
		return common.Hash{}, fmt.Errorf("run the transaction of %s beforehand: %w", from, err)
	}
	tip := big.NewInt(1e9)
	most := new(big.Int).Add(tip, new(big.Int).Lsh(head.BaseFee, 1)) // the base fee may double meanwhile
	var inner types.TxData = &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: tip, GasFeeCap: most, Gas: gas, To: t.To, Value: t.Value, Data: t.Data,
	}
	if t.Delegate != nil {
		// The account sends its own authorisation, so the nonce has moved on by then.
		// The transaction goes to nobody, as the contract need not take a call.
		a, err := types.SignSetCode(key, types.SetCodeAuthorization{ChainID: *uint256.MustFromBig(id), Address: *t.Delegate, Nonce: nonce + 1})
		if err != nil {
			return common.Hash{}, fmt.Errorf("sign the authorisation of %s: %w", from, err)
		}
		inner = &types.SetCodeTx{
			ChainID: uint256.MustFromBig(id), Nonce: nonce, GasTipCap: uint256.MustFromBig(tip), GasFeeCap: uint256.MustFromBig(most),
			Gas: gas + params.CallNewAccountGas, AuthList: []types.SetCodeAuthorization{a},
		}
	}
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), inner)
	if err != nil {
		return common.Hash{}, fmt.Errorf("sign a transaction of %s: %w", from, err)
	}
	if err := c.SendTransaction(ctx, tx); err != nil {
		return common.Hash{}, fmt.Errorf("send a transaction of %s: %w", from, err)
	}
	return tx.Hash(), nil
}

// Succeeded returns an error if the transaction of r failed.
func Succeeded(r *types.Receipt) error {
	if r.Status != types.ReceiptStatusSuccessful {
		return fmt.Errorf("the transaction %s failed in block %s", r.TxHash, r.BlockNumber)
	}
	return nil
}
