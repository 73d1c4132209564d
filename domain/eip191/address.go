package eip191

import (
	"encoding/hex"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/domain"
)

// An Address is the 20 bytes of an Ethereum account. Compare addresses as
// values and never as text: one address has several spellings.
type Address [20]byte

// AddressOf returns the address of the account that holds key: the last 20
// bytes of the Keccak-256 of the uncompressed point without its prefix byte.
func AddressOf(key *secp256k1.PublicKey) (a Address) {
	h := keccak256(key.SerializeUncompressed()[1:])
	copy(a[:], h[12:])
	return a
}

// ParseAddress reads an address from 0x and 40 hex digits. Letters are either
// all in lower case or in the mixed case of EIP-55, whose checksum must then
// hold. Anything else is a [domain.ErrInvalid].
func ParseAddress(s string) (a Address, err error) {
	digits, err := hexDigits(s)
	if err != nil {
		return Address{}, fmt.Errorf("an address is %w", err)
	}
	if len(digits) != 2*len(a) {
		return Address{}, fmt.Errorf("an address has 40 hex digits, not %d: %w", len(digits), domain.ErrInvalid)
	}
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return Address{}, fmt.Errorf("an address has a digit that is not hex: %w", domain.ErrInvalid)
	}
	if digits != hex.EncodeToString(a[:]) && s != a.String() {
		return Address{}, fmt.Errorf("the EIP-55 checksum of address %s does not hold, as a digit may be mistyped: %w", s, domain.ErrInvalid)
	}
	return a, nil
}

// String returns a with the checksum of EIP-55: a letter is in upper case where
// the same nibble of the Keccak-256 of the lower-case digits is 8 or more.
func (a Address) String() string {
	text, _ := a.MarshalText()
	return string(text)
}

// IsZero reports whether all bytes of a are zero.
func (a Address) IsZero() bool { return a == Address{} }

// MarshalText implements encoding.TextMarshaler in the form of String.
func (a Address) MarshalText() ([]byte, error) {
	text := hex.AppendEncode([]byte("0x"), a[:])
	digits := text[2:]
	sum := keccak256(digits)
	for i, c := range digits {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 0xf
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] -= 'a' - 'A'
		}
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler by the rules of
// [ParseAddress].
func (a *Address) UnmarshalText(text []byte) error {
	parsed, err := ParseAddress(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// keccak256 is the hash function of Ethereum: Keccak as submitted, before NIST
// changed its padding for SHA-3.
func keccak256(parts ...[]byte) (h [32]byte) {
	d := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		d.Write(p)
	}
	d.Sum(h[:0])
	return h
}
