package domain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// A Hash is 32 bytes: a SHA-256 digest, a key, a seed or a nonce. As text and in
// JSON it is 64 lower-case hex digits without 0x.
type Hash [32]byte

// ParseHash reads the text form of a Hash.
func ParseHash(s string) (h Hash, err error) {
	err = h.UnmarshalText([]byte(s))
	return h, err
}

// String returns h as 64 lower-case hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether all bytes of h are zero.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) {
	return hex.AppendEncode(make([]byte, 0, 64), h[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It takes 64 lower-case hex
// digits and nothing else, so that one hash has one spelling.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 64 {
		return fmt.Errorf("a hash has 64 hex digits, not %d: %w", len(text), ErrInvalid)
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("a hash is written in lower-case hex without 0x: %w", ErrInvalid)
		}
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Sum is H of the design: SHA-256 over the concatenated parts.
func Sum(parts ...[]byte) (h Hash) {
	d := sha256.New()
	for _, p := range parts {
		d.Write(p)
	}
	d.Sum(h[:0])
	return h
}

// MAC is HM of the design: HMAC-SHA-256 (RFC 2104) under key over the
// concatenated parts.
func MAC(key Hash, parts ...[]byte) (h Hash) {
	d := hmac.New(sha256.New, key[:])
	for _, p := range parts {
		d.Write(p)
	}
	d.Sum(h[:0])
	return h
}

// Enc is the unambiguous byte encoding that everything hashed goes through:
// strings and byte strings as a 32-bit big-endian length and the bytes, integers
// big-endian, hashes raw. It begins with a domain string, so that bytes hashed
// for one purpose never mean anything for another.
//
//	domain.NewEnc("karatum/mystery/pad/v1").Str(consentID).U32(day).U32(slot)
type Enc []byte

// NewEnc starts an encoding with its domain string.
func NewEnc(purpose string) Enc { return make(Enc, 0, 128).Str(purpose) }

// Str appends a string with its length.
func (e Enc) Str(s string) Enc {
	return append(binary.BigEndian.AppendUint32(e, uint32(len(s))), s...) //nolint:gosec // no string here nears 4 GiB
}

// Bytes appends a byte string with its length.
func (e Enc) Bytes(b []byte) Enc {
	return append(binary.BigEndian.AppendUint32(e, uint32(len(b))), b...) //nolint:gosec // no byte string here nears 4 GiB
}

// U32 appends a 32-bit integer.
func (e Enc) U32(n uint32) Enc { return binary.BigEndian.AppendUint32(e, n) }

// U64 appends a 64-bit integer.
func (e Enc) U64(n uint64) Enc { return binary.BigEndian.AppendUint64(e, n) }

// Hash appends 32 raw bytes.
func (e Enc) Hash(h Hash) Enc { return append(e, h[:]...) }
