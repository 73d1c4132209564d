package contracts_test

import (
	"bytes"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/contracts"
)

func TestData(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		contract contracts.Contract
		method   string
		args     []any
		selector []byte
	}{
		"Wallet":           {contracts.Wallet(), "isValidSignature", []any{[32]byte{1}, []byte{2}}, []byte{0x16, 0x26, 0xba, 0x7e}},
		"Delegate":         {contracts.Delegate(), "isValidSignature", []any{[32]byte{1}, []byte{2}}, []byte{0x16, 0x26, 0xba, 0x7e}},
		"WalletFactory":    {contracts.WalletFactory(), "deploy", []any{common.Address{1}, [32]byte{2}}, []byte{0x32, 0xc0, 0x2a, 0x14}},
		"IdentityRegistry": {contracts.IdentityRegistry(), "register", []any{""}, []byte{0xf2, 0xc2, 0x98, 0xbe}},
		"PaymentToken":     {contracts.PaymentToken(), "authorizationState", []any{common.Address{1}, [32]byte{2}}, []byte{0xe9, 0x4a, 0x01, 0x02}},
	} {
		if len(tt.contract.Bytecode) == 0 {
			t.Errorf("%s has no bytecode", name)
		}
		if got := tt.contract.Call(tt.method, tt.args...); !bytes.HasPrefix(got, tt.selector) {
			t.Errorf("Call(%s) of %s = %x, want it to begin with %x", tt.method, name, got[:4], tt.selector)
		}
	}
	w := contracts.Wallet()
	if got, want := w.Deploy(common.Address{19: 1}), append(bytes.Clone(w.Bytecode), common.LeftPadBytes([]byte{1}, 32)...); !bytes.Equal(got, want) {
		t.Errorf("Deploy = %x, want the bytecode and one word", got)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Call with wrong arguments did not panic")
		}
	}()
	contracts.Wallet().Call("setOwner", 7)
}
