// Package eip191 hashes, signs and recovers messages of personal_sign (EIP-191,
// version 0x45), and holds the policy for what counts as a signature:
//
//   - 65 bytes r ‖ s ‖ v with v 0, 1, 27 or 28, or the 64 bytes of EIP-2098;
//   - s in the lower half of the group order (EIP-2), since with every (r, s)
//     the pair (r, n−s) recovers to the same signer;
//   - r and s neither zero nor beyond the group order.
//
// A [Signature] that [ParseSignature] returned has one form whatever encoding
// came in, so it may be hashed: whoever picks the encoding picks nothing.
//
// A message is text, and its UTF-8 bytes are signed. "0x68656c6c6f" means these
// twelve characters and not the five bytes they could stand for.
//
// The package does not know contract wallets (ERC-1271, ERC-6492): their
// signatures mean nothing without a chain.
package eip191

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/karatum/mystery/domain"
)

// Hash returns what a wallet signs for message: the Keccak-256 of
// "\x19Ethereum Signed Message:\n", the length of the message in bytes as
// decimal, and the message.
func Hash(message string) domain.Hash {
	return keccak256([]byte("\x19Ethereum Signed Message:\n"), strconv.AppendInt(nil, int64(len(message)), 10), []byte(message))
}

// A Signature is the canonical form r ‖ s ‖ v: low s, v 27 or 28. As text and
// in JSON it is 0x and 130 lower-case hex digits.
type Signature [65]byte

// ParseSignature reads a signature as a wallet gives it, in 0x-prefixed hex, in
// any of the encodings that the policy of this package knows, and returns its
// canonical form. Anything else is a [domain.ErrInvalid].
func ParseSignature(text string) (Signature, error) {
	digits, err := hexDigits(text)
	if err != nil {
		return Signature{}, fmt.Errorf("a signature is %w", err)
	}
	if len(digits) != 128 && len(digits) != 130 {
		return Signature{}, fmt.Errorf("a signature has 65 bytes, or 64 in compact form, and not %d hex digits: %w", len(digits), domain.ErrInvalid)
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return Signature{}, fmt.Errorf("a signature has a digit that is not hex: %w", domain.ErrInvalid)
	}
	return Canonical(raw)
}

// Canonical does the same for the bytes of a signature.
func Canonical(raw []byte) (Signature, error) {
	if len(raw) != 64 && len(raw) != 65 {
		return Signature{}, fmt.Errorf("a signature has 65 bytes, or 64 in compact form, and not %d: %w", len(raw), domain.ErrInvalid)
	}
	var sig Signature
	copy(sig[:], raw)
	switch {
	case len(raw) == 64: // EIP-2098: low s leaves its top bit free for the parity
		sig[64] = 27 + sig[32]>>7
		sig[32] &= 0x7f
	case sig[64] <= 1: // hardware wallets leave out the 27
		sig[64] += 27
	}
	if err := sig.check(); err != nil {
		return Signature{}, err
	}
	return sig, nil
}

// check reports whether sig is canonical. It does not ask whether a key can be
// recovered, for that needs a message.
func (sig Signature) check() error {
	var r, s secp256k1.ModNScalar
	switch overR, overS := r.SetByteSlice(sig[:32]), s.SetByteSlice(sig[32:64]); {
	case sig[64] != 27 && sig[64] != 28:
		return fmt.Errorf("the v of a signature is 0, 1, 27 or 28, not %d: %w", sig[64], domain.ErrInvalid)
	case overR || overS || r.IsZero() || s.IsZero():
		return fmt.Errorf("r or s of the signature is out of range: %w", domain.ErrInvalid)
	case s.IsOverHalfOrder():
		return fmt.Errorf("the signature has a high s, which EIP-2 forbids: %w", domain.ErrInvalid)
	}
	return nil
}

// String returns sig as 0x and 130 lower-case hex digits.
func (sig Signature) String() string { return "0x" + hex.EncodeToString(sig[:]) }

// MarshalText implements encoding.TextMarshaler.
func (sig Signature) MarshalText() ([]byte, error) {
	return hex.AppendEncode([]byte("0x"), sig[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. Other than
// [ParseSignature] it takes the canonical form alone, as MarshalText writes it:
// what is stored has one spelling.
func (sig *Signature) UnmarshalText(text []byte) error {
	parsed, err := ParseSignature(string(text))
	if err != nil {
		return err
	}
	if canonical, _ := parsed.MarshalText(); !bytes.Equal(canonical, text) {
		return fmt.Errorf("the signature is not in its canonical form r ‖ s ‖ v with v 27 or 28: %w", domain.ErrInvalid)
	}
	*sig = parsed
	return nil
}

// Recover returns the account whose key signed message. It returns
// [domain.ErrInvalid] if sig is not canonical or no key can have made it. Every
// other signature has a signer, so compare the result with the one expected.
func Recover(message string, sig Signature) (Address, error) {
	if err := sig.check(); err != nil {
		return Address{}, err
	}
	// The compact form of package ecdsa is v ‖ r ‖ s.
	compact := append(make([]byte, 0, 65), sig[64])
	compact = append(compact, sig[:64]...)
	hash := Hash(message)
	key, _, err := ecdsa.RecoverCompact(compact, hash[:])
	if err != nil {
		return Address{}, fmt.Errorf("no key can have made this signature: %w", domain.ErrInvalid)
	}
	return AddressOf(key), nil
}

// Sign signs message with the nonce of RFC 6979: one key and message give one
// signature.
func Sign(message string, key *secp256k1.PrivateKey) (sig Signature) {
	hash := Hash(message)
	compact := ecdsa.SignCompact(key, hash[:], false)
	copy(sig[:64], compact[1:])
	sig[64] = compact[0]
	return sig
}

// hexDigits returns what follows the 0x. Its error completes "a thing is …".
func hexDigits(s string) (string, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return "", fmt.Errorf("written in hex behind 0x: %w", domain.ErrInvalid)
	}
	return digits, nil
}
