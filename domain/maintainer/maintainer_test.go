package maintainer_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/maintainer"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, 31), seed))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	act := maintainer.Action{Subject: "inc_a", Version: 3, Do: "recall", Text: "it misleads"}
	ann, bob := maintainer.Approve("ann", key(1), act), maintainer.Approve("bob", key(2), act)
	later := act
	later.Version++
	forged := ann
	forged.Signature[0] ^= 1
	other := bob
	other.Key = ann.Key
	type approvals = []maintainer.Approval
	for _, tt := range []struct {
		name string
		act  maintainer.Action
		want int
		by   approvals
		ok   bool
	}{
		{"one", act, 1, approvals{ann}, true},
		{"two", act, 2, approvals{ann, bob}, true},
		{"none", act, 1, nil, false},
		{"one of two", act, 2, approvals{ann}, false},
		{"one more than is asked for", act, 1, approvals{ann, bob}, false},
		{"the same twice", act, 2, approvals{ann, ann}, false},
		{"one key under two names", act, 2, approvals{ann, maintainer.Approve("bob", key(1), act)}, false},
		{"one name with two keys", act, 2, approvals{ann, maintainer.Approve("ann", key(2), act)}, false},
		{"a key that did not sign", act, 2, approvals{bob, other}, false},
		{"a bit flipped", act, 1, approvals{forged}, false},
		{"an action of another version", later, 1, approvals{ann}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.act.Check(tt.want, tt.by)
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, domain.ErrForbidden) {
				t.Errorf("Check(%d) = %v, want ok %t", tt.want, err, tt.ok)
			}
		})
	}
}

func TestSignatureHasOneSpelling(t *testing.T) {
	t.Parallel()
	a := maintainer.Approve("ann", key(1), maintainer.Action{})
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var again maintainer.Approval
	if err := json.Unmarshal(data, &again); err != nil || again != a {
		t.Errorf("%s reads as %+v, %v", data, again, err)
	}
	for _, text := range []string{"", "00", string(make([]byte, 128))} {
		if err := new(maintainer.Signature).UnmarshalText([]byte(text)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("UnmarshalText(%q) = %v, want ErrInvalid", text, err)
		}
	}
}
