package x402_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// The first two accounts of the well-known test mnemonic.
const (
	key0 = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	key1 = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

// What is signed is what go-ethereum makes of the same typed data.
func TestDigest(t *testing.T) {
	t.Parallel()
	a := x402.Authorization{
		From: eip191.Address{1, 2, 3}, To: eip191.Address{19: 7}, Value: "123456789012345678901234567890",
		ValidAfter: 1804117800, ValidBefore: 1804118460, Nonce: batch.Word(domain.Sum([]byte("nonce"))),
	}
	field := func(name, of string) apitypes.Type { return apitypes.Type{Name: name, Type: of} }
	want, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {field("name", "string"), field("version", "string"), field("chainId", "uint256"), field("verifyingContract", "address")},
			"TransferWithAuthorization": {
				field("from", "address"), field("to", "address"), field("value", "uint256"),
				field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32"),
			},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{
			Name: "USDC", Version: "2", ChainId: (*math.HexOrDecimal256)(big.NewInt(84532)), VerifyingContract: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
		},
		Message: apitypes.TypedDataMessage{
			"from": a.From.String(), "to": a.To.String(), "value": a.Value,
			"validAfter": fmt.Sprint(a.ValidAfter), "validBefore": fmt.Sprint(a.ValidBefore), "nonce": a.Nonce.String(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Digest(x402.USDC)
	if err != nil || string(got[:]) != string(want) {
		t.Errorf("Digest = %s, %v, want %x", got, err, want)
	}
	for _, value := range []string{"", "-1", "0x1", "1.5", strings.Repeat("9", 80)} {
		a.Value = value
		if _, err := a.Digest(x402.USDC); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Digest of %q: %v, want ErrInvalid", value, err)
		}
	}
}

// On the wire all of an authorization is text, as the libraries want it.
func TestSignedWire(t *testing.T) {
	t.Parallel()
	s := x402.Signed{Signature: eip191.Signature{0: 1, 64: 27}, Authorization: x402.Authorization{Value: "1", ValidBefore: 60}}
	got, err := json.Marshal(s)
	want := `{"signature":"0x01` + strings.Repeat("00", 63) + `1b","authorization":{"from":"0x0000000000000000000000000000000000000000",` +
		`"to":"0x0000000000000000000000000000000000000000","value":"1","validAfter":"0","validBefore":"60","nonce":"0x` + strings.Repeat("00", 32) + `"}}`
	if err != nil || string(got) != want {
		t.Errorf("JSON = %s, %v, want %s", got, err, want)
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{key0, strings.TrimPrefix(key0, "0x")} {
		k, err := x402.ParseKey(text)
		if err != nil || k.Address().String() != "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266" {
			t.Errorf("ParseKey = %s, %v, want the first test account", k, err)
		}
		if shown := fmt.Sprintf("%v %+v %s", k, k, k); strings.Contains(shown, key0[4:20]) {
			t.Errorf("a key is printed as %s", shown)
		}
	}
	order := "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for _, text := range []string{"", "0x", "secret", key0[:64], key0 + "00", strings.Repeat("0", 64), order} {
		if _, err := x402.ParseKey(text); !errors.Is(err, domain.ErrInvalid) || len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("ParseKey(%q): %v, want ErrInvalid without the key in it", text, err)
		}
	}
}
