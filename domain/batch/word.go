package batch

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/karatum/mystery/domain"
)

// A Word is a bytes32 of an Ethereum chain: a UID of EAS, the hash of a block or of
// a transaction. As text it is 0x and 64 lower-case hex digits.
type Word domain.Hash

// String returns w as 0x and 64 lower-case hex digits.
func (w Word) String() string { return "0x" + hex.EncodeToString(w[:]) }

// IsZero reports whether all bytes of w are zero.
func (w Word) IsZero() bool { return w == Word{} }

// MarshalText implements encoding.TextMarshaler in the form of String.
func (w Word) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes the form of String
// and no other.
func (w *Word) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok {
		return fmt.Errorf("32 bytes of a chain are written in hex behind 0x: %w", domain.ErrInvalid)
	}
	return (*domain.Hash)(w).UnmarshalText([]byte(digits))
}
