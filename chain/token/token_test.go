package token_test

import (
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/token"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// The relay pays for all transactions, as facilitators do; the payer has none of the
// chain's own money.
var (
	relay = chaintest.Key(1)
	payer = chaintest.Key(2)
	rich  = []common.Address{chaintest.Address(relay)}
)

func TestDevchain(t *testing.T) {
	t.Parallel()
	testToken(t, chaintest.Start(t, rich...))
}

// testToken runs on any chain. What package x402 signs is redeemed there.
func testToken(t *testing.T, c chaintest.Chain) {
	t.Helper()
	ctx, n := t.Context(), c.Node()
	transact := func(to *common.Address, data []byte) (*types.Receipt, error) {
		return c.Transact(ctx, relay, devchain.Tx{To: to, Data: data})
	}
	contract := contracts.PaymentToken()
	deployed, err := transact(nil, contract.Deploy())
	if err != nil {
		t.Fatal(err)
	}
	at := deployed.ContractAddress
	asset := x402.USDC
	asset.Address = eip191.Address(at)
	from := eip191.Address(chaintest.Address(payer))
	if _, err := transact(&at, contract.Call("mint", common.Address(from), big.NewInt(1500))); err != nil {
		t.Fatal(err)
	}
	head := chaintest.Must(n.Head(ctx))
	a := x402.Authorization{
		From: from, To: eip191.Address{9}, Value: "1000", ValidAfter: max(head.Time.Unix()-600, 0), ValidBefore: head.Time.Unix() + 600, Nonce: batch.Word{1},
	}
	redeem := func(a x402.Authorization) error {
		digest, err := a.Digest(asset)
		if err != nil {
			t.Fatal(err)
		}
		sig := chaintest.Must(crypto.Sign(digest[:], payer))
		sig[64] += 27
		value, _ := new(big.Int).SetString(a.Value, 10)
		_, err = transact(&at, contract.Call("transferWithAuthorization", common.Address(a.From), common.Address(a.To), value,
			big.NewInt(a.ValidAfter), big.NewInt(a.ValidBefore), [32]byte(a.Nonce), sig))
		return err
	}
	state := func(want bool, balance int64) {
		t.Helper()
		head := chaintest.Must(n.Head(ctx))
		if used, err := token.Used(ctx, n, asset.Address, from, a.Nonce, head); err != nil || used != want {
			t.Errorf("Used = %t, %v, want %t", used, err, want)
		}
		if held, err := token.Balance(ctx, n, asset.Address, from, head); err != nil || held.Int64() != balance {
			t.Errorf("Balance = %s, %v, want %d", held, err, balance)
		}
	}
	state(false, 1500)
	early := a
	early.ValidAfter = head.Time.Unix() + 300
	if redeem(early) == nil {
		t.Error("an authorization was redeemed before it is valid")
	}
	if err := redeem(a); err != nil {
		t.Fatalf("redeem: %v", err)
	}
	state(true, 500)
	if redeem(a) == nil {
		t.Error("an authorization was redeemed twice")
	}
	if used, err := token.Used(ctx, n, asset.Address, from, a.Nonce, head); err != nil || used {
		t.Errorf("Used at the block before = %t, %v, want false", used, err)
	}
	for name, other := range map[string]eip191.Address{"an account without code": {7}, "itself a payer": from} {
		if _, err := token.Used(ctx, n, other, from, a.Nonce, chaintest.Must(n.Head(ctx))); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Used of %s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := token.Used(ctx, n, asset.Address, from, a.Nonce, node.Block{Number: head.Number, Hash: common.Hash{1}}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Used at a block that is not there: %v, want ErrUnavailable", err)
	}
}
