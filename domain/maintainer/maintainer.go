// Package maintainer says how people of the operator act in their own name: under a
// personal Ed25519 key, which the ledger registers with a name.
//
// What is signed is an [Action]. It names what it is about and the version of that, so
// a signature is good for one step at one moment and cannot be used again:
//
//	enc("karatum/mystery/maintainer-action/v1", subject, u64 version, do, text)
//
// The package does not know which keys are registered; that is a matter of the
// programme.
package maintainer

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"

	"github.com/karatum/mystery/domain"
)

// An Action is what a maintainer signs.
type Action struct {
	Subject string // id of the incident or the finding
	Version uint64 // of the subject, which the action is to follow on
	Do      string // what is to be done
	Text    string // what is said with it
}

// bytes returns what is signed.
func (a Action) bytes() []byte {
	return domain.NewEnc("karatum/mystery/maintainer-action/v1").Str(a.Subject).U64(a.Version).Str(a.Do).Str(a.Text)
}

// A Signature is one of Ed25519 (RFC 8032). As text and in JSON it is 128 lower-case
// hex digits.
type Signature [ed25519.SignatureSize]byte

// MarshalText implements encoding.TextMarshaler.
func (s Signature) MarshalText() ([]byte, error) {
	return hex.AppendEncode(nil, s[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It takes the one form of
// MarshalText.
func (s *Signature) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(s) || hex.EncodeToString(raw) != string(text) {
		return fmt.Errorf("a maintainer's signature has %d lower-case hex digits: %w", 2*len(s), domain.ErrInvalid)
	}
	copy(s[:], raw)
	return nil
}

// An Approval is a maintainer's signature under an action.
type Approval struct {
	Name      string      `json:"name"` // that the key is registered under
	Key       domain.Hash `json:"key"`  // public
	Signature Signature   `json:"signature"`
}

// Approve signs an action.
func Approve(name string, key ed25519.PrivateKey, a Action) Approval {
	approval := Approval{Name: name}
	copy(approval.Key[:], key.Public().(ed25519.PublicKey)) //nolint:errcheck // it always is one
	copy(approval.Signature[:], ed25519.Sign(key, a.bytes()))
	return approval
}

// Check returns nil if want different maintainers, with different keys, signed the
// action and nobody else did. The error matches [domain.ErrForbidden].
func (a Action) Check(want int, by []Approval) error {
	if len(by) != want {
		return fmt.Errorf("this takes the signatures of %d maintainers, and here are %d: %w", want, len(by), domain.ErrForbidden)
	}
	for i, approval := range by {
		for _, other := range by[:i] {
			if other.Name == approval.Name || other.Key == approval.Key {
				return fmt.Errorf("this takes two maintainers, each with a key of their own: %w", domain.ErrForbidden)
			}
		}
		if !ed25519.Verify(approval.Key[:], a.bytes(), approval.Signature[:]) {
			return fmt.Errorf("the signature of maintainer %q does not belong to this action; sign it again for version %d: %w",
				approval.Name, a.Version, domain.ErrForbidden)
		}
	}
	return nil
}
