package wallet_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/wallet"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// The keys of the tests. All can pay for transactions.
var (
	owner    = chaintest.Key(1)
	stranger = chaintest.Key(2)
	smart    = chaintest.Key(3) // delegates to a contract that knows its key
	careless = chaintest.Key(4) // delegates to a contract that does not
	rich     = []common.Address{chaintest.Address(owner), chaintest.Address(stranger), chaintest.Address(smart), chaintest.Address(careless)}
)

// sign returns r ‖ s ‖ v with v 27 or 28.
func sign(key *ecdsa.PrivateKey, hash domain.Hash) []byte {
	sig := chaintest.Must(crypto.Sign(hash[:], key))
	sig[64] += 27
	return sig
}

// with returns sig with another v.
func with(sig []byte, v func(byte) byte) []byte {
	sig = bytes.Clone(sig)
	sig[64] = v(sig[64])
	return sig
}

func minus27(v byte) byte { return v - 27 }

// highS returns the other signature that recovers to the same key.
func highS(sig []byte) []byte {
	sig = with(sig, func(v byte) byte { return 27 + 28 - v })
	s := new(big.Int).SetBytes(sig[32:64])
	s.Sub(crypto.S256().Params().N, s).FillBytes(sig[32:64])
	return sig
}

var mark = bytes.Repeat([]byte{0x64, 0x92}, 16)

// wrap returns a signature of ERC-6492.
func wrap(factory common.Address, call, sig []byte) []byte {
	kind := func(name string) abi.Argument { return abi.Argument{Type: chaintest.Must(abi.NewType(name, "", nil))} }
	return append(chaintest.Must(abi.Arguments{kind("address"), kind("bytes"), kind("bytes")}.Pack(factory, call, sig)), mark...)
}

// runs returns the data that deploys code as it is.
func runs(code []byte) []byte {
	// PUSH2 len, DUP1, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 0, RETURN
	return append([]byte{0x61, byte(len(code) >> 8), byte(len(code)), 0x80, 0x60, 12, 0x60, 0, 0x39, 0x60, 0, 0xf3}, code...)
}

// answers returns the code of a contract that answers every call with the first n
// bytes of word and zeros.
func answers(word []byte, n byte) []byte {
	// PUSH32 word, PUSH1 0, MSTORE, PUSH1 n, PUSH1 0, RETURN
	return append(append([]byte{0x7f}, common.RightPadBytes(word, 32)...), 0x60, 0, 0x52, 0x60, n, 0x60, 0, 0xf3)
}

func TestDevchain(t *testing.T) {
	t.Parallel()
	testVerify(t, chaintest.Start(t, rich...))
}

// testVerify runs on any chain, so that ours is not the only one it holds on.
func testVerify(t *testing.T, c chaintest.Chain) {
	t.Helper()
	ctx := t.Context()
	n := c.Node()
	transact := func(key *ecdsa.PrivateKey, tx devchain.Tx) *types.Receipt {
		t.Helper()
		r, err := c.Transact(ctx, key, tx)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	deploy := func(data []byte) common.Address {
		t.Helper()
		return transact(owner, devchain.Tx{Data: data}).ContractAddress
	}
	at := func(number *big.Int) node.Block {
		t.Helper()
		b, err := n.Block(ctx, number.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}

	var (
		text  = eip191.Hash("hello")
		other = eip191.Hash("hellO")
		sig   = sign(owner, text)
		w     = contracts.Wallet()
		f     = contracts.WalletFactory()
		magic = []byte{0x16, 0x26, 0xba, 0x7e}
	)
	factory := deploy(f.Deploy())
	salted := func(salt byte) (common.Address, []byte) {
		code := crypto.Keccak256(w.Deploy(chaintest.Address(owner)))
		return crypto.CreateAddress2(factory, [32]byte{salt}, code), f.Call("deploy", chaintest.Address(owner), [32]byte{salt})
	}
	deployment := transact(owner, devchain.Tx{Data: w.Deploy(chaintest.Address(owner))})
	born := deployment.ContractAddress
	since, before := at(deployment.BlockNumber), at(new(big.Int).Sub(deployment.BlockNumber, big.NewInt(1)))

	fresh, calldata := salted(1) // not deployed
	late, lateCalldata := salted(2)
	transact(owner, devchain.Tx{To: &factory, Data: lateCalldata})
	sold := deploy(w.Deploy(chaintest.Address(owner)))
	yesterday := chaintest.Must(n.Head(ctx))
	transact(owner, devchain.Tx{To: &sold, Data: w.Call("setOwner", chaintest.Address(stranger))})

	delegate := deploy(contracts.Delegate().Deploy())
	transact(smart, devchain.Tx{Delegate: &delegate})
	transact(careless, devchain.Tx{Delegate: &born})

	nobody := common.Address{9}
	newest := chaintest.Must(n.Head(ctx))
	for _, tt := range []struct {
		name    string
		account common.Address
		hash    domain.Hash
		sig     []byte
		at      node.Block // zero: the newest
		want    wallet.Method
		err     error
	}{
		{"a wallet says yes", born, text, sig, node.Block{}, wallet.ERC1271, nil},
		{"a wallet says yes in the block of its birth", born, text, sig, since, wallet.ERC1271, nil},
		{"one block before there is no wallet", born, text, sig, before, "", domain.ErrForbidden},
		{"v as hardware wallets write it", born, text, with(sig, minus27), node.Block{}, wallet.ERC1271, nil},
		{"another message", born, other, sig, node.Block{}, "", domain.ErrForbidden},
		{"a stranger", born, text, sign(stranger, text), node.Block{}, "", domain.ErrForbidden},
		{"a stranger with the other v", born, text, with(sign(stranger, text), minus27), node.Block{}, "", domain.ErrForbidden},
		{"a high s, on which the wallet gives up", born, text, highS(sig), node.Block{}, "", domain.ErrForbidden},
		{"63 bytes", born, text, sig[:63], node.Block{}, "", domain.ErrForbidden},
		{"no bytes", born, text, nil, node.Block{}, "", domain.ErrForbidden},
		{"as many bytes as may be", born, text, make([]byte, wallet.MaxSignature), node.Block{}, "", domain.ErrForbidden},
		{"too many bytes", born, text, make([]byte, wallet.MaxSignature+1), node.Block{}, "", domain.ErrInvalid},
		{"too many bytes at a block", born, text, make([]byte, wallet.MaxSignature+1), since, "", domain.ErrInvalid},
		{"a block that is not of this chain", born, text, sig, node.Block{Number: since.Number, Hash: common.Hash{1}}, "", domain.ErrNotFound},
		{"a block to come", born, text, sig, node.Block{Number: newest.Number + 100, Hash: common.Hash{1}}, "", domain.ErrUnavailable},
		{"an owner who has sold", sold, text, sig, node.Block{}, "", domain.ErrForbidden},
		{"an owner who was to sell", sold, text, sig, yesterday, wallet.ERC1271, nil},
		{"a plain key", chaintest.Address(owner), text, sig, node.Block{}, "", domain.ErrForbidden},

		{"a wallet that is not deployed", fresh, text, wrap(factory, calldata, sig), node.Block{}, wallet.ERC6492, nil},
		{"the same without the mark", fresh, text, sig, node.Block{}, "", domain.ErrForbidden},
		{"the same for another message", fresh, other, wrap(factory, calldata, sig), node.Block{}, "", domain.ErrForbidden},
		{"the same by a stranger", fresh, text, wrap(factory, calldata, sign(stranger, text)), node.Block{}, "", domain.ErrForbidden},
		{"the same with the other v", fresh, text, wrap(factory, calldata, with(sig, minus27)), node.Block{}, wallet.ERC6492, nil},
		{"the same for another account", nobody, text, wrap(factory, calldata, sig), node.Block{}, "", domain.ErrForbidden},
		{"a wallet that was deployed later", late, text, wrap(factory, lateCalldata, sig), node.Block{}, wallet.ERC6492, nil},
		{"its own signature", late, text, sig, node.Block{}, wallet.ERC1271, nil},
		{"a factory that is none", fresh, text, wrap(nobody, calldata, sig), node.Block{}, "", domain.ErrForbidden},
		{"a factory that gives up", fresh, text, wrap(factory, []byte{1, 2, 3, 4}, sig), node.Block{}, "", domain.ErrForbidden},
		{"a plain key behind the mark", chaintest.Address(owner), text, wrap(nobody, nil, sig), node.Block{}, "", domain.ErrForbidden},
		{"the mark alone", fresh, text, mark, node.Block{}, "", domain.ErrForbidden},
		{"noise before the mark", fresh, text, append(bytes.Repeat([]byte{0xff}, 200), mark...), node.Block{}, "", domain.ErrForbidden},

		{"a key that delegates, asked as a wallet", chaintest.Address(smart), text, sign(smart, text), node.Block{}, wallet.ERC1271, nil},
		{"a key that delegates to what does not know it", chaintest.Address(careless), text, sign(careless, text), node.Block{}, wallet.EIP191, nil},
		{"the same with the other v", chaintest.Address(careless), text, with(sign(careless, text), minus27), node.Block{}, wallet.EIP191, nil},
		{"the same by a stranger", chaintest.Address(careless), text, sign(stranger, text), node.Block{}, "", domain.ErrForbidden},
		{"the same with a high s", chaintest.Address(careless), text, highS(sign(careless, text)), node.Block{}, "", domain.ErrForbidden},

		{"a word that says yes, and more", deploy(runs(answers(magic, 64))), text, sig, node.Block{}, wallet.ERC1271, nil},
		{"four bytes and no word", deploy(runs(answers(magic, 4))), text, sig, node.Block{}, "", domain.ErrForbidden},
		{"a word with something behind the yes", deploy(runs(answers(append(magic, 1), 32))), text, sig, node.Block{}, "", domain.ErrForbidden},
		{"the number one", deploy(runs(answers(common.LeftPadBytes([]byte{1}, 32), 32))), text, sig, node.Block{}, "", domain.ErrForbidden},
		{"nothing", deploy(runs([]byte{0x00})), text, sig, node.Block{}, "", domain.ErrForbidden},
		{"a wallet that never ends", deploy(runs([]byte{0x5b, 0x5f, 0x56})), text, sig, node.Block{}, "", domain.ErrForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var (
				got   wallet.Verdict
				err   error
				where = tt.at
			)
			if tt.at == (node.Block{}) {
				where = chaintest.Must(n.Head(ctx))
				got, err = wallet.Verify(ctx, n, eip191.Address(tt.account), tt.hash, tt.sig)
			} else {
				got, err = wallet.VerifyAt(ctx, n, tt.at, eip191.Address(tt.account), tt.hash, tt.sig)
			}
			want := wallet.Verdict{Method: tt.want, Block: where.Number, BlockHash: where.Hash}
			if tt.err != nil {
				want = wallet.Verdict{}
			}
			if !errors.Is(err, tt.err) || got != want {
				t.Errorf("Verify = %v, %v, want %v, %v", got, err, want, tt.err)
			}
			if err == nil { // anybody can ask again
				block := node.Block{Number: got.Block, Hash: got.BlockHash}
				if again, err := wallet.VerifyAt(ctx, n, block, eip191.Address(tt.account), tt.hash, tt.sig); err != nil || again != got {
					t.Errorf("VerifyAt = %v, %v, want %v again", again, err, got)
				}
			}
		})
	}
	if code, err := n.CodeAt(ctx, fresh, chaintest.Must(n.Head(ctx))); err != nil || len(code) != 0 {
		t.Errorf("asking about a wallet that is not deployed has left code %x, %v, want none", code, err)
	}
}

// A canned node gives the same answers to everybody.
type canned struct {
	code, out         []byte
	head, codes, call error
}

func (c canned) Head(context.Context) (node.Block, error) { return node.Block{Number: 1}, c.head }

func (c canned) CodeAt(context.Context, common.Address, node.Block) ([]byte, error) {
	return c.code, c.codes
}

func (c canned) CallAt(context.Context, ethereum.CallMsg, node.Block) ([]byte, error) {
	return c.out, c.call
}

// From silence nothing follows, wherever it sets in.
func TestSilence(t *testing.T) {
	t.Parallel()
	delegation := types.AddressToDelegation(common.Address{7})
	hash := eip191.Hash("hello")
	sig := sign(owner, hash)
	for name, tt := range map[string]struct {
		node canned
		sig  []byte
	}{
		"of the head":                 {canned{head: domain.ErrUnavailable}, sig},
		"of the code":                 {canned{codes: domain.ErrUnavailable}, sig},
		"of the wallet":               {canned{code: []byte{1}, call: domain.ErrUnavailable}, sig},
		"of the wallet, with other v": {canned{code: []byte{1}, call: domain.ErrUnavailable}, with(sig, minus27)},
		"of the validator":            {canned{call: domain.ErrUnavailable}, wrap(common.Address{}, nil, with(sig, minus27))},
		"of a key that delegates":     {canned{code: delegation, call: domain.ErrUnavailable}, sig},
	} {
		if got, err := wallet.Verify(t.Context(), tt.node, eip191.Address(chaintest.Address(owner)), hash, tt.sig); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("Verify with silence %s = %v, %v, want ErrUnavailable", name, got, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	hash := eip191.Hash("hello")
	sig := sign(owner, hash)
	f.Add([]byte{1}, []byte{1}, sig)
	f.Add(types.AddressToDelegation(common.Address{7}), []byte{}, with(sig, minus27))
	f.Add([]byte{}, []byte{0}, wrap(common.Address{1}, []byte{2}, with(sig, minus27)))
	f.Add([]byte{}, []byte{}, mark)
	f.Fuzz(func(t *testing.T, code, out, sig []byte) {
		for _, call := range []error{nil, &node.RevertError{}} {
			got, err := wallet.Verify(t.Context(), canned{code: code, out: out, call: call}, eip191.Address(chaintest.Address(owner)), hash, sig)
			if err != nil && !errors.Is(err, domain.ErrForbidden) && !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Verify = %v, %v, want another kind of error", got, err)
			}
			if (err == nil) == (got == wallet.Verdict{}) {
				t.Errorf("Verify = %v, %v", got, err)
			}
		}
	})
}
