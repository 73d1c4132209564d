package consent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
)

var (
	challengeKey = consent.NewChallengeKey(domain.Sum([]byte("operator secret")))
	challenge    = consent.Challenge{
		Nonce:   domain.Sum([]byte("nonce")),
		Subject: domain.Sum([]byte("payload")),
		Expires: issuedAt.Add(consent.ChallengeLife),
	}
)

func TestChallengeOpen(t *testing.T) {
	t.Parallel()
	id := challengeKey.ID(consent.ToGrant, challenge)
	other := consent.NewChallengeKey(domain.Sum([]byte("another secret")))
	raw := strings.TrimPrefix(id, "chl_")
	for _, tt := range []struct {
		name    string
		key     consent.ChallengeKey
		purpose consent.Purpose
		id      string
		at      time.Time
		err     error
	}{
		{"at once", challengeKey, consent.ToGrant, id, issuedAt, nil},
		{"in its last second", challengeKey, consent.ToGrant, id, challenge.Expires, nil},
		{"before it was issued", challengeKey, consent.ToGrant, id, issuedAt.Add(-time.Hour), nil},
		{"a moment late", challengeKey, consent.ToGrant, id, challenge.Expires.Add(1), domain.ErrForbidden},
		{"a year late", challengeKey, consent.ToGrant, id, challenge.Expires.AddDate(1, 0, 0), domain.ErrForbidden},
		{"for another purpose", challengeKey, consent.ToRevoke, id, issuedAt, domain.ErrInvalid},
		{"for no purpose", challengeKey, "", id, issuedAt, domain.ErrInvalid},
		{"made by another key", other, consent.ToGrant, id, issuedAt, domain.ErrInvalid},
		{"forged and late", other, consent.ToGrant, id, challenge.Expires.AddDate(1, 0, 0), domain.ErrInvalid},
		{"nothing", challengeKey, consent.ToGrant, "", issuedAt, domain.ErrInvalid},
		{"the prefix alone", challengeKey, consent.ToGrant, "chl_", issuedAt, domain.ErrInvalid},
		{"without the prefix", challengeKey, consent.ToGrant, raw, issuedAt, domain.ErrInvalid},
		{"with the prefix twice", challengeKey, consent.ToGrant, "chl_" + id, issuedAt, domain.ErrInvalid},
		{"with another prefix", challengeKey, consent.ToGrant, "cns_" + raw, issuedAt, domain.ErrInvalid},
		{"in upper case", challengeKey, consent.ToGrant, strings.ToUpper(id), issuedAt, domain.ErrInvalid},
		{"padded", challengeKey, consent.ToGrant, id + "=", issuedAt, domain.ErrInvalid},
		{"with a newline after", challengeKey, consent.ToGrant, id + "\n", issuedAt, domain.ErrInvalid},
		{"with a line break inside", challengeKey, consent.ToGrant, id[:40] + "\r\n" + id[40:], issuedAt, domain.ErrInvalid},
		{"with a blank before", challengeKey, consent.ToGrant, " " + id, issuedAt, domain.ErrInvalid},
		{"twice", challengeKey, consent.ToGrant, id + raw, issuedAt, domain.ErrInvalid},
		{"very long", challengeKey, consent.ToGrant, "chl_" + strings.Repeat("A", 1<<20), issuedAt, domain.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.key.Open(tt.purpose, tt.id, tt.at)
			if !errors.Is(err, tt.err) {
				t.Fatalf("Open: %v, want %v", err, tt.err)
			}
			want := challenge
			if tt.err != nil {
				want = consent.Challenge{}
			}
			if got != want {
				t.Errorf("Open = %+v, want %+v", got, want)
			}
		})
	}
}

func TestChallengeTruncated(t *testing.T) {
	t.Parallel()
	id := challengeKey.ID(consent.ToGrant, challenge)
	for i := range len(id) {
		if _, err := challengeKey.Open(consent.ToGrant, id[:i], issuedAt); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Open of the first %d characters: %v, want ErrInvalid", i, err)
		}
	}
}

// Also where a flipped bit is one that base64 does not use, or makes a character
// that a decoder may skip.
func TestChallengeFlippedBits(t *testing.T) {
	t.Parallel()
	for _, purpose := range []consent.Purpose{consent.ToGrant, consent.ToRevoke} {
		id := challengeKey.ID(purpose, challenge)
		for i := range len(id) {
			for bit := range 8 {
				forged := []byte(id)
				forged[i] ^= 1 << bit
				if _, err := challengeKey.Open(purpose, string(forged), issuedAt); !errors.Is(err, domain.ErrInvalid) {
					t.Errorf("Open with bit %d of character %d flipped: %v, want ErrInvalid", bit, i, err)
				}
			}
		}
	}
}

func TestRevocationSubject(t *testing.T) {
	t.Parallel()
	r := revocation()
	seen := map[domain.Hash]bool{r.Subject(): true}
	for _, o := range []consent.Revocation{
		{Consent: r.Consent, Agent: "build:43"},
		{Consent: r.Consent + "b", Agent: "uild:42"},
		{Consent: r.Consent[1:], Agent: r.Agent},
	} {
		if seen[o.Subject()] {
			t.Errorf("the subject of %s of %s is that of another", o.Consent, o.Agent)
		}
		seen[o.Subject()] = true
	}
	if (consent.Revocation{Consent: r.Consent, Agent: r.Agent}).Subject() != r.Subject() {
		t.Error("the subject of a revocation is more than consent and agent")
	}
}

// Nothing opens but what ID made, in the very spelling that ID gave it.
func FuzzChallengeOpen(f *testing.F) {
	id := challengeKey.ID(consent.ToGrant, challenge)
	f.Add("grant", id)
	f.Add("revoke", id)
	f.Add("grant", id+"\n")
	f.Add("grant", "chl_")
	f.Add("grant", id[:len(id)-1])
	f.Fuzz(func(t *testing.T, purpose, id string) {
		c, err := challengeKey.Open(consent.Purpose(purpose), id, issuedAt)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) && !errors.Is(err, domain.ErrForbidden) {
				t.Errorf("Open(%q) = %v, want ErrInvalid or ErrForbidden", id, err)
			}
			return
		}
		if got := challengeKey.ID(consent.Purpose(purpose), c); got != id {
			t.Errorf("Open(%q) = %+v, whose id is %q", id, c, got)
		}
	})
}
