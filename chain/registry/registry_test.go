package registry_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/registry"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// Both can pay for transactions.
var (
	owner = chaintest.Key(1)
	buyer = chaintest.Key(2)
	rich  = []common.Address{chaintest.Address(owner), chaintest.Address(buyer)}
)

func TestDevchain(t *testing.T) {
	t.Parallel()
	testOwner(t, chaintest.Start(t, rich...))
}

// testOwner runs on any chain, so that ours is not the only one it holds on.
func testOwner(t *testing.T, c chaintest.Chain) {
	t.Helper()
	ctx := t.Context()
	n := c.Node()
	transact := func(key *ecdsa.PrivateKey, to *common.Address, data []byte) (common.Address, node.Block) {
		t.Helper()
		r, err := c.Transact(ctx, key, devchain.Tx{To: to, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		return r.ContractAddress, chaintest.Must(n.Block(ctx, r.BlockNumber.Uint64()))
	}
	contract := contracts.IdentityRegistry()
	reg, empty := transact(owner, nil, contract.Deploy())
	do := func(key *ecdsa.PrivateKey, method string, args ...any) node.Block {
		t.Helper()
		_, b := transact(key, &reg, contract.Call(method, args...))
		return b
	}
	var (
		zero = new(big.Int)
		last = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	)
	registered := do(owner, "register", "https://agent.example/card.json")
	do(owner, "register", "")
	do(buyer, "registerAs", last, "")
	sold := do(owner, "transferFrom", chaintest.Address(owner), chaintest.Address(buyer), zero)
	burnt := do(owner, "burn", big.NewInt(1))
	// A contract that has something else to say, and one that says it to everybody.
	wallet, _ := transact(owner, nil, contracts.Wallet().Deploy(chaintest.Address(owner)))
	dirty, _ := transact(owner, nil, append([]byte{0x60, 13, 0x80, 0x60, 11, 0x60, 0, 0x39, 0x60, 0, 0xf3},
		0x5f, 0x19, 0x5f, 0x52, 0x60, 32, 0x5f, 0xf3, 0, 0, 0, 0, 0)) // MSTORE(0, NOT 0), RETURN(0, 32)
	none, head := transact(owner, nil, append([]byte{0x60, 13, 0x80, 0x60, 11, 0x60, 0, 0x39, 0x60, 0, 0xf3},
		0x60, 32, 0x5f, 0xf3, 0, 0, 0, 0, 0, 0, 0, 0, 0)) // RETURN(0, 32)

	for _, tt := range []struct {
		name     string
		registry common.Address
		id       *big.Int
		at       node.Block
		want     common.Address
		err      error
	}{
		{"the first agent", reg, zero, registered, chaintest.Address(owner), nil},
		{"before it was sold", reg, zero, node.Block{Number: sold.Number - 1, Hash: chaintest.Must(n.Block(ctx, sold.Number-1)).Hash}, chaintest.Address(owner), nil},
		{"after it was sold", reg, zero, sold, chaintest.Address(buyer), nil},
		{"the last possible agent", reg, last, head, chaintest.Address(buyer), nil},
		{"before there was an agent", reg, zero, empty, common.Address{}, domain.ErrNotFound},
		{"an agent that never was", reg, big.NewInt(7), head, common.Address{}, domain.ErrNotFound},
		{"before it was burnt", reg, big.NewInt(1), sold, chaintest.Address(owner), nil},
		{"after it was burnt", reg, big.NewInt(1), burnt, common.Address{}, domain.ErrNotFound},
		{"before there was a registry", reg, zero, node.Block{Number: empty.Number - 1, Hash: chaintest.Must(n.Block(ctx, empty.Number-1)).Hash}, common.Address{}, domain.ErrInvalid},
		{"a plain key", chaintest.Address(owner), zero, head, common.Address{}, domain.ErrInvalid},
		{"a contract of another kind", wallet, zero, head, common.Address{}, domain.ErrInvalid},
		{"a word that is no address", dirty, zero, head, common.Address{}, domain.ErrInvalid},
		{"nobody", none, zero, head, common.Address{}, domain.ErrInvalid},
		{"a negative id", reg, big.NewInt(-1), head, common.Address{}, domain.ErrInvalid},
		{"an id of 257 bits", reg, new(big.Int).Lsh(big.NewInt(1), 256), head, common.Address{}, domain.ErrInvalid},
		{"a block that is not of this chain", reg, zero, node.Block{Number: head.Number, Hash: common.Hash{1}}, common.Address{}, domain.ErrUnavailable},
		{"a block to come", reg, zero, node.Block{Number: head.Number + 100, Hash: common.Hash{1}}, common.Address{}, domain.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := registry.Owner(ctx, n, eip191.Address(tt.registry), tt.id, tt.at)
			if !errors.Is(err, tt.err) || got != eip191.Address(tt.want) {
				t.Errorf("Owner = %s, %v, want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// A canned node has a registry that answers all the same.
type canned struct{ code, call error }

func (c canned) CodeAt(context.Context, common.Address, node.Block) ([]byte, error) {
	return []byte{1}, c.code
}

func (c canned) CallAt(context.Context, ethereum.CallMsg, node.Block) ([]byte, error) {
	return nil, c.call
}

// Who hears that there is no such agent ends its consents. So nothing else may
// sound like it.
func TestNothingElseIsNotFound(t *testing.T) {
	t.Parallel()
	const same = "an error about this agent"
	nonexistent := append([]byte{0x7e, 0x27, 0x32, 0x89}, common.LeftPadBytes([]byte{7}, 32)...)
	for name, tt := range map[string]struct {
		node canned
		want error
	}{
		same:                            {canned{call: &node.RevertError{Data: nonexistent}}, domain.ErrNotFound},
		"an error about another agent":  {canned{call: &node.RevertError{Data: append(nonexistent[:35:35], 8)}}, domain.ErrInvalid},
		"an error without data":         {canned{call: &node.RevertError{}}, domain.ErrInvalid},
		"no answer":                     {canned{call: domain.ErrUnavailable}, domain.ErrUnavailable},
		"no code":                       {canned{code: domain.ErrUnavailable}, domain.ErrUnavailable},
		"a block that has been dropped": {canned{call: domain.ErrNotFound}, domain.ErrUnavailable},
		"an empty answer":               {canned{}, domain.ErrInvalid},
	} {
		_, err := registry.Owner(t.Context(), tt.node, registry.Testnets, big.NewInt(7), node.Block{})
		if !errors.Is(err, tt.want) || errors.Is(err, domain.ErrNotFound) != (name == same) {
			t.Errorf("Owner after %s = %v, want %v", name, err, tt.want)
		}
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint64]string{
		1: "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432", 8453: "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432",
		84532: "0x8004A818BFB912233c491871b3d84c89A494BD9e", 11155111: "0x8004A818BFB912233c491871b3d84c89A494BD9e",
		1337: "",
	} {
		got, ok := registry.Default(id)
		if ok != (want != "") || ok && got != chaintest.Must(eip191.ParseAddress(want)) {
			t.Errorf("Default(%d) = %s, %t, want %q", id, got, ok, want)
		}
	}
}
