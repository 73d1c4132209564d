package consent

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
)

// A ChallengeKey authenticates challenges, so that none need to be stored: a
// flood of anonymous requests leaves nothing behind. It follows from the
// operator secret.
type ChallengeKey domain.Hash

// NewChallengeKey derives the key from the operator secret.
func NewChallengeKey(operatorSecret domain.Hash) ChallengeKey {
	return ChallengeKey(domain.MAC(operatorSecret, domain.NewEnc("karatum/mystery/challenge-key/v1")))
}

// A Challenge is what its id proves that this service asked for.
type Challenge struct {
	Nonce   domain.Hash
	Subject domain.Hash // of the payload, or of the consent to revoke
	Expires time.Time   // whole seconds
}

const challengePrefix = "chl_"

// ID returns the authenticated token that stands for c: nonce, subject, expiry
// and their MAC. purpose keeps a challenge to grant from serving as one to revoke.
func (k ChallengeKey) ID(purpose Purpose, c Challenge) string {
	body := c.body()
	mac := k.mac(purpose, body)
	return challengePrefix + base64.RawURLEncoding.EncodeToString(append(body, mac[:]...))
}

// Open checks a token at the moment now and returns what it stands for. It
// returns [domain.ErrInvalid] for a token that this key did not make for this
// purpose, and [domain.ErrForbidden] for one that has expired.
func (k ChallengeKey) Open(purpose Purpose, id string, now time.Time) (Challenge, error) {
	text, ok := strings.CutPrefix(id, challengePrefix)
	// The length is that of the text too, for the decoder skips line breaks.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(raw) != 32+32+8+32 || len(text) != base64.RawURLEncoding.EncodedLen(len(raw)) {
		return Challenge{}, domain.WithCode(domain.ChallengeForeign, invalid("this is not a challenge id; ask for a new challenge"))
	}
	body, mac := raw[:72], raw[72:]
	if want := k.mac(purpose, body); !hmac.Equal(mac, want[:]) {
		return Challenge{}, domain.WithCode(domain.ChallengeForeign,
			invalid("this challenge was not issued here, or for something else; ask for a new challenge"))
	}
	c := Challenge{Expires: time.Unix(int64(binary.BigEndian.Uint64(body[64:])), 0).UTC()} //nolint:gosec // our own number, just authenticated
	copy(c.Nonce[:], body)
	copy(c.Subject[:], body[32:])
	if now.After(c.Expires) {
		return Challenge{}, domain.WithCode(domain.ChallengeExpired,
			fmt.Errorf("this challenge expired at %s; ask for a new one: %w", c.Expires.Format(time.RFC3339), domain.ErrForbidden))
	}
	return c, nil
}

func (c Challenge) body() []byte {
	body := make([]byte, 0, 104)
	body = append(body, c.Nonce[:]...)
	body = append(body, c.Subject[:]...)
	return binary.BigEndian.AppendUint64(body, uint64(c.Expires.Unix())) //nolint:gosec // after 1970
}

func (k ChallengeKey) mac(purpose Purpose, body []byte) domain.Hash {
	return domain.MAC(domain.Hash(k), domain.NewEnc("karatum/mystery/challenge/v1").Str(string(purpose)).Bytes(body))
}

// A Purpose says what a challenge is for.
type Purpose string

// Purposes.
const (
	ToGrant  Purpose = "grant"
	ToRevoke Purpose = "revoke"
	ToReply  Purpose = "reply"
)

// A Revocation is what an owner signs to withdraw a consent. Its domain is that of
// the consent.
type Revocation struct {
	Domain   string
	Consent  string
	Agent    agent.Ref
	Owner    eip191.Address
	Nonce    domain.Hash
	IssuedAt time.Time
}

// Revocation returns what withdraws the consent that p asked for.
func (p Payload) Revocation(nonce domain.Hash, issued time.Time) Revocation {
	return Revocation{p.Domain, plan.ConsentID(p.Nonce), p.Agent, p.Owner, nonce, issued}
}

// Message returns the plain text that the owner signs (EIP-191 personal_sign).
func (r Revocation) Message() string {
	return fmt.Sprintf("%s asks to revoke a consent to Mystery Shopping of an AI agent. Signing costs no gas and authorises nothing on-chain.\n"+
		"\nConsent: %s\nAgent: %s\nOwner: %s\nNonce: %s\nIssued at: %s",
		r.Domain, r.Consent, r.Agent, r.Owner, r.Nonce, r.IssuedAt.UTC().Format(time.RFC3339))
}

// Subject is what the challenge of a revocation speaks of.
func (r Revocation) Subject() domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/revocation/v1").Str(r.Consent).Str(string(r.Agent)))
}
