package eip191_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// The signature of "hello" by the first account of anvil and hardhat, whose key
// is public, as geth and ethers make it.
const (
	helloKey    = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	helloSigner = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	helloHash   = "50b2c43fd39106bafbba0da34fc430e1f91e3c96ea2acee2bc34119f92b37750"
	helloR      = "f16ea9a3478698f695fd1401bfe27e9e4a7e8e3da94aa72b021125e31fa899cc"
	helloS      = "573c48ea3fe1d4ab61a9db10c19032026e3ed2dbccba5a178235ac27f9450431"
	helloHighS  = "a8c3b715c01e2b549e5624ef3e6fcdfc4c700a0ae28e46243d9cb264d6f13d10"

	order     = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	halfOrder = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0"
	zero      = "0000000000000000000000000000000000000000000000000000000000000000"
)

func privateKey(t *testing.T, digits string) *secp256k1.PrivateKey {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return secp256k1.PrivKeyFromBytes(b)
}

func TestHash(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"hello":       helloHash,
		"Hello World": "a1de988600a42c4b4ab089b619297c17d53cffae5d5120d82d8a92d0bb3b78f2", // web3.js documentation
		"Some data":   "1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655", // web3.js documentation
	} {
		if got := eip191.Hash(message).String(); got != want {
			t.Errorf("Hash(%q) = %s, want %s", message, got, want)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	key := privateKey(t, helloKey)
	if got := eip191.AddressOf(key.PubKey()).String(); got != helloSigner {
		t.Errorf("AddressOf = %s, want %s", got, helloSigner)
	}
	sig := eip191.Sign("hello", key)
	if want := "0x" + helloR + helloS + "1c"; sig.String() != want {
		t.Errorf("Sign = %s, want %s", sig, want)
	}
	for _, message := range []string{"", "café − 7\n", strings.Repeat("long ", 1000)} {
		sig := eip191.Sign(message, key)
		if parsed, err := eip191.ParseSignature(sig.String()); err != nil || parsed != sig {
			t.Errorf("ParseSignature(Sign(%.9q)) = %s, %v, want %s", message, parsed, err, sig)
		}
		if signer, err := eip191.Recover(message, sig); err != nil || signer.String() != helloSigner {
			t.Errorf("Recover(Sign(%.9q)) = %s, %v, want %s", message, signer, err, helloSigner)
		}
	}
}

func TestParseSignature(t *testing.T) {
	t.Parallel()
	// The two examples of EIP-2098, by the key 0x1234…1234.
	const (
		worldR  = "68a020a209d3d56c46f38cc50a33f704f4a9a10a59377f8dd762ac66910e9b90"
		worldS  = "7e865ad05c4035ab5792787d4a0297a43617ae897930a6fe4d822b8faea52064"
		smallR  = "9328da16089fcba9bececa81663203989f2df5fe1faa6291a45381c81bd17f76"
		smallS  = "139c6d6b623b42da56557e5e734a43dc83345ddfadec52cbe24d0cc64f550793"
		smallVS = "939c6d6b623b42da56557e5e734a43dc83345ddfadec52cbe24d0cc64f550793"
		signer  = "0x2e988A386a799F506693793c6A5AF6B54dfAaBfB"
	)
	for _, test := range []struct {
		name, in, want  string
		message, signer string
	}{
		{"v 1", helloR + helloS + "01", helloR + helloS + "1c", "hello", helloSigner},
		{"v 28", helloR + helloS + "1c", helloR + helloS + "1c", "hello", helloSigner},
		{"v 27", worldR + worldS + "1b", worldR + worldS + "1b", "Hello World", signer},
		{"v 0", worldR + worldS + "00", worldR + worldS + "1b", "Hello World", signer},
		{"upper case", strings.ToUpper(worldR + worldS + "1b"), worldR + worldS + "1b", "Hello World", signer},
		{"compact with parity 0", worldR + worldS, worldR + worldS + "1b", "Hello World", signer},
		{"compact with parity 1", smallR + smallVS, smallR + smallS + "1c", "It's a small(er) world", signer},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sig, err := eip191.ParseSignature("0x" + test.in)
			if err != nil || sig.String() != "0x"+test.want {
				t.Fatalf("ParseSignature = %s, %v, want 0x%s", sig, err, test.want)
			}
			got, err := eip191.Recover(test.message, sig)
			if err != nil || got.String() != test.signer {
				t.Errorf("Recover = %s, %v, want %s", got, err, test.signer)
			}
		})
	}
}

func TestParseSignatureRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"high s":                 "0x" + helloR + helloHighS + "1b",
		"s just over the half":   "0x" + helloR + halfOrder[:63] + "1" + "1b",
		"63 bytes":               "0x" + (helloR + helloS)[:126],
		"66 bytes":               "0x" + helloR + helloS + "1c00",
		"empty":                  "",
		"empty behind 0x":        "0x",
		"missing 0x":             helloR + helloS + "1c",
		"0X":                     "0X" + helloR + helloS + "1c",
		"two times 0x":           "0x0x" + (helloR + helloS + "1c")[2:],
		"odd number of digits":   "0x" + helloR + helloS + "1",
		"not hex":                "0x" + helloR + helloS + "1g",
		"white space":            "0x" + helloR + helloS + "1c ",
		"v 2":                    "0x" + helloR + helloS + "02",
		"v 26":                   "0x" + helloR + helloS + "1a",
		"v 29":                   "0x" + helloR + helloS + "1d",
		"v of EIP-155":           "0x" + helloR + helloS + "25",
		"zero r":                 "0x" + zero + helloS + "1c",
		"zero s":                 "0x" + helloR + zero + "1c",
		"zero r in compact form": "0x" + zero + helloS,
		"r is the order":         "0x" + order + helloS + "1c",
		"r over the order":       "0x" + strings.Repeat("f", 64) + helloS + "1c",
		"s is the order":         "0x" + helloR + order + "1c",
		"s over the order":       "0x" + helloR + strings.Repeat("f", 64) + "1c",
		"high s in compact form": "0x" + helloR + strings.Repeat("f", 64),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if sig, err := eip191.ParseSignature(in); !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("ParseSignature(%s) = %s, %v, want ErrInvalid", in, sig, err)
			}
		})
	}
	if _, err := eip191.ParseSignature("0x" + helloR + halfOrder + "1c"); err != nil {
		t.Errorf("ParseSignature with the highest low s: %v", err)
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	hello, err := eip191.ParseSignature("0x" + helloR + helloS + "1c")
	if err != nil {
		t.Fatal(err)
	}
	// The characters of hex are not the bytes they stand for: another hash, and
	// so another signer.
	got, err := eip191.Recover("0x68656c6c6f", hello)
	if want := "0xEBf4730205c8E4c647DA201d345229dB61215379"; err != nil || got.String() != want {
		t.Errorf("Recover of hex as text = %s, %v, want %s", got, err, want)
	}

	high, err := hex.DecodeString(helloR + helloHighS + "1b")
	if err != nil {
		t.Fatal(err)
	}
	noPoint := hello // 5 is no x coordinate of the curve
	copy(noPoint[:32], make([]byte, 32))
	noPoint[31] = 5
	for name, sig := range map[string]eip191.Signature{
		"zero":            {},
		"high s":          eip191.Signature(high),
		"not on a point":  noPoint,
		"v not canonical": func() eip191.Signature { s := hello; s[64] = 1; return s }(),
	} {
		if a, err := eip191.Recover("hello", sig); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Recover of signature %q = %s, %v, want ErrInvalid", name, a, err)
		}
	}
}

func TestSignatureText(t *testing.T) {
	t.Parallel()
	canonical := `"0x` + helloR + helloS + `1c"`
	var sig eip191.Signature
	if err := json.Unmarshal([]byte(canonical), &sig); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(sig); err != nil || string(text) != canonical {
		t.Errorf("Marshal = %s, %v, want %s", text, err, canonical)
	}
	for _, other := range []string{
		"0x" + helloR + helloS + "01",
		"0x" + strings.ToUpper(helloR+helloS+"1c"),
		"0x" + helloR + "d" + helloS[1:], // compact form
		"0x",
	} {
		if err := sig.UnmarshalText([]byte(other)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("UnmarshalText(%s) = %v, want ErrInvalid", other, err)
		}
	}
	if sig.String() != "0x"+helloR+helloS+"1c" {
		t.Errorf("a refused text changed the signature to %s", sig)
	}
}

func FuzzParseSignature(f *testing.F) {
	for _, s := range []string{
		"", "0x", "0x" + helloR + helloS + "1c", "0x" + helloR + helloS + "00", "0x" + helloR + helloS,
		"0x" + helloR + helloHighS + "1b", helloR + helloS + "1c", "0x" + zero + zero + "1b", "0x" + order + halfOrder + "1c",
	} {
		f.Add(s, "hello")
	}
	f.Fuzz(func(t *testing.T, text, message string) {
		sig, err := eip191.ParseSignature(text)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) || sig != (eip191.Signature{}) {
				t.Errorf("ParseSignature(%q) = %s, %v", text, sig, err)
			}
			return
		}
		again, err := eip191.ParseSignature(sig.String())
		if err != nil || again != sig {
			t.Errorf("ParseSignature(%s) = %s, %v: not canonical", sig, again, err)
		}
		var read eip191.Signature
		if err := read.UnmarshalText([]byte(sig.String())); err != nil || read != sig {
			t.Errorf("UnmarshalText(%s) = %s, %v", sig, read, err)
		}
		if _, err := eip191.Recover(message, sig); err != nil && !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Recover(%q, %s): %v", message, sig, err)
		}
	})
}
