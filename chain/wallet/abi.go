package wallet

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
)

// selector returns the first four bytes of the Keccak-256 of
// "isValidSignature(bytes32,bytes)". ERC-1271 has them for the call and, as a
// magic value, for the answer yes.
func selector() []byte { return []byte{0x16, 0x26, 0xba, 0x7e} }

var (
	// isValidSignature is (bytes32 hash, bytes signature).
	isValidSignature = arguments("bytes32", "bytes")

	// wrapped is (address factory, bytes factoryCalldata, bytes signature), what
	// stands before the mark of ERC-6492.
	wrapped = arguments("address", "bytes", "bytes")

	// validation is (address signer, bytes32 hash, bytes signature), what the
	// validator of ERC-6492 is constructed with.
	validation = arguments("address", "bytes32", "bytes")

	// mark ends a signature of ERC-6492.
	mark = []byte(strings.Repeat("\x64\x92", 16))
)

func arguments(names ...string) (list abi.Arguments) {
	for _, name := range names {
		t, err := abi.NewType(name, "", nil)
		if err != nil {
			panic(err)
		}
		list = append(list, abi.Argument{Type: t})
	}
	return list
}

// validator is the creation code of the contract ValidateSigOffchain of ERC-6492,
// as it comes with viem (npm viem 2.57.20, erc6492SignatureValidatorByteCode),
// under the licence in validator.LICENSE. Its constructor does all the work and
// returns one byte as the code of the contract: 1 for yes and 0 for no.
//
//go:embed validator.hex
var validator string

// askFactory asks for a signature of ERC-6492, which it passes on as it came. The
// other form of the wallet's own signature is tried only if that is refused.
func (q question) askFactory(ctx context.Context, sig []byte) error {
	err := q.validate(ctx, sig)
	if !said(err) {
		return err
	}
	parts, unpacking := wrapped.Unpack(bytes.TrimSuffix(sig, mark))
	if unpacking != nil {
		return err
	}
	inner, _ := parts[2].([]byte)
	inner, ok := recovered27(inner)
	if !ok {
		return err
	}
	again, packing := wrapped.Pack(parts[0], parts[1], inner)
	if packing != nil {
		panic(packing) // it has just been decoded
	}
	return q.validate(ctx, append(again, mark...))
}

// validate constructs the validator in a call, which leaves nothing behind.
func (q question) validate(ctx context.Context, sig []byte) error {
	code, err := hex.DecodeString(strings.ReplaceAll(validator, "\n", ""))
	if err != nil {
		panic(err)
	}
	data, err := validation.Pack(q.account, q.hash, sig)
	if err != nil {
		panic(err)
	}
	out, err := q.CallAt(ctx, ethereum.CallMsg{From: caller, Gas: maxGas, Data: append(code, data...)}, q.block)
	if err != nil {
		return err
	}
	if len(out) != 1 || out[0] != 1 {
		return q.refused("does not accept the signature")
	}
	return nil
}
