package consent

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
)

// MaxSignature bounds the bytes of a signature: that of a contract wallet may
// carry those of several owners, and the code that deploys the wallet.
const MaxSignature = 8 << 10

// A Signature is what a wallet gave for a message: of a plain key the 65 bytes of
// [eip191.Signature], of a contract wallet whatever its contract takes, as it
// came. As text and in JSON it is 0x and lower-case hex digits.
type Signature []byte

// ParseSignature reads a signature as a wallet gives it, in 0x-prefixed hex. It
// asks for no more than that: what the bytes must be depends on the wallet.
func ParseSignature(text string) (Signature, error) {
	bad := func(format string, args ...any) error {
		return domain.WithCode(domain.BadSignature, invalid(format, args...))
	}
	if len(text) < 2 || text[:2] != "0x" {
		return nil, bad("a signature is written in hex behind 0x")
	}
	if len(text) > 2+2*MaxSignature {
		return nil, bad("a signature has %d bytes at most", MaxSignature)
	}
	sig, err := hex.DecodeString(text[2:])
	switch {
	case err != nil:
		return nil, bad("a signature has pairs of hex digits and nothing else")
	case len(sig) == 0:
		return nil, bad("the signature is empty")
	}
	return sig, nil
}

// String returns sig as 0x and lower-case hex digits.
func (sig Signature) String() string { return "0x" + hex.EncodeToString(sig) }

// MarshalText implements encoding.TextMarshaler in the form of String.
func (sig Signature) MarshalText() ([]byte, error) { return []byte(sig.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Other than [ParseSignature]
// it takes the form of String alone: what is stored has one spelling.
func (sig *Signature) UnmarshalText(text []byte) error {
	parsed, err := ParseSignature(string(text))
	if err != nil {
		return err
	}
	if parsed.String() != string(text) {
		return invalid("a stored signature is written in lower-case hex")
	}
	*sig = parsed
	return nil
}

// A Method is a way to find that a signature is the owner's.
type Method string

// Methods.
const (
	ByKey     Method = "eip191"  // the key recovered from it is that of the owner's account
	ByWallet  Method = "erc1271" // the contract at the owner's address accepts it
	ByFactory Method = "erc6492" // so does the contract that it says how to deploy there
)

// Verification says how a signature was found to be the owner's. The contract
// methods say at which block the chain was asked, so that anybody can ask again.
type Verification struct {
	Method Method      `json:"method"`
	At     agent.Block `json:"at,omitzero"`
}

// VerifyPlain returns the canonical form of a signature of message by the plain
// key of owner. The error is of the kind [domain.ErrInvalid] if sig is none that
// the policy of package eip191 accepts, and [domain.ErrForbidden] if it is that of
// another key.
func VerifyPlain(message string, owner eip191.Address, sig Signature) (eip191.Signature, error) {
	canonical, err := eip191.Canonical(sig)
	if err != nil {
		return canonical, domain.WithCode(domain.BadSignature, err)
	}
	signer, err := eip191.Recover(message, canonical)
	if err != nil {
		return canonical, domain.WithCode(domain.BadSignature, err)
	}
	if signer != owner {
		return canonical, domain.WithCode(domain.WrongSigner, fmt.Errorf("the message was signed by %s and not by the owner %s, "+
			"whose contract, if it is one, must accept the signature and needs an ownerNonceHash in the challenge: %w", signer, owner, domain.ErrForbidden))
	}
	return canonical, nil
}

// Settle returns how an owner signed a message of another package, and the form in which
// the signature is kept. v is what a contract wallet on chain said, zero if none was
// asked.
func Settle(message string, owner eip191.Address, chain uint64, sig Signature, v Verification) (Signature, Verification, error) {
	return signed{message, owner, chain, sig, v}.settle()
}

// A signed is a message with all that shows whose signature it bears.
type signed struct {
	message   string
	owner     eip191.Address
	chain     uint64
	signature Signature
	verified  Verification // as the chain answered, or zero
}

// settle returns how the signature was found to be the owner's, and the form in
// which it is kept. A plain key is checked here, whatever was said before; that a
// contract accepted a signature only its chain can tell.
func (s signed) settle() (Signature, Verification, error) {
	canonical, err := VerifyPlain(s.message, s.owner, s.signature)
	if err == nil {
		return canonical[:], Verification{Method: ByKey}, nil
	}
	switch s.verified.Method {
	case ByWallet, ByFactory:
		if s.verified.At.Chain != s.chain || s.verified.At.Hash == (agent.BlockHash{}) {
			return nil, Verification{}, invalid("a contract wallet is asked on chain %d, at a block that is named", s.chain)
		}
		return bytes.Clone(s.signature), s.verified, nil
	case ByKey:
	}
	return nil, Verification{}, err
}
