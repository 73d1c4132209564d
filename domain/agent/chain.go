package agent

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// A Token is an agent on an ERC-8004 identity registry, which is an ERC-721
// contract: whoever holds the token owns the agent. The first id is 0.
type Token struct {
	Chain    uint64
	Registry eip191.Address
	ID       *big.Int // 0 to 2^256 − 1
}

// Token returns the token that an erc8004 ref names. ok is false for a build.
func (r Ref) Token() (t Token, ok bool) {
	parts := strings.Split(string(r), ":")
	if len(parts) != 4 {
		return Token{}, false
	}
	chain, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || chain > MaxChain {
		return Token{}, false
	}
	registry, err := eip191.ParseAddress(parts[2])
	if err != nil {
		return Token{}, false
	}
	id, ok := new(big.Int).SetString(parts[3], 10)
	return Token{chain, registry, id}, ok && id.BitLen() <= 256
}

// MaxChain is the largest chain id: as a number in JSON it must be exact.
const MaxChain = 1<<53 - 1

// A Block is where on a chain something was read.
type Block struct {
	Chain  uint64    `json:"chain"`
	Number uint64    `json:"block"`
	Hash   BlockHash `json:"blockHash"`
}

// An Ownership says who owns an agent at a block of its registry's chain.
type Ownership struct {
	Owner eip191.Address // zero if nobody does, such as of a burnt token
	At    Block          // zero for a build, which is on no chain
}

// A BlockHash is the hash of a block of an Ethereum chain: as text 0x and 64
// lower-case hex digits.
type BlockHash domain.Hash

// String returns h as 0x and 64 lower-case hex digits.
func (h BlockHash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler in the form of String.
func (h BlockHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes the form of String
// and no other.
func (h *BlockHash) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok {
		return fmt.Errorf("a block hash is written in hex behind 0x: %w", domain.ErrInvalid)
	}
	return (*domain.Hash)(h).UnmarshalText([]byte(digits))
}
