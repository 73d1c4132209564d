package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
)

func TestKeyring(t *testing.T) {
	t.Parallel()
	older, newer, stranger := domain.Hash{1}, domain.Hash{2}, domain.Hash{3}
	ring := commands.Keyring{older, newer}
	if got := ring.Current(); got != newer {
		t.Errorf("Current() = %s, want the last secret", got)
	}
	keys := []domain.Hash{programme.OperatorKey(older), programme.OperatorKey(newer)}
	if diff := cmp.Diff(keys, ring.Keys()); diff != "" {
		t.Errorf("Keys (-want +got):\n%s", diff)
	}
	for i, key := range keys {
		if got, err := ring.ByKey(key); err != nil || got != ring[i] {
			t.Errorf("ByKey(%s) = %s, %v, want secret %d", key, got, err, i)
		}
	}
	missing := programme.OperatorKey(stranger)
	_, err := ring.ByKey(missing)
	wantErr(t, "ByKey of a missing secret", err, domain.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), missing.String()) {
		t.Errorf("ByKey of a missing secret: %v, want the key in it", err)
	}
	for _, text := range []string{fmt.Sprint(ring), fmt.Sprintf("%+v", ring), fmt.Sprintf("%+v", commands.Service{Secrets: ring})} {
		if strings.Contains(text, newer.String()) {
			t.Errorf("printed as %s, which tells a secret", text)
		}
	}
}

// rotate goes over to another operator secret, as a restart with a longer file does.
func (w *world) rotate(t *testing.T, secret domain.Hash) {
	t.Helper()
	w.Secrets = append(w.Secrets, secret)
	register := programme.RegisterKey{Key: programme.OperatorKey(secret)}
	if err := w.Programme(t.Context(), meta("rotate to "+secret.String()), register); err != nil {
		t.Fatal(err)
	}
}

// What was asked for before a rotation goes on after it, under the secret that it
// was asked for with.
func TestChallengesOutliveRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Secrets.Current()
	c := w.challenge(t, request())
	w.rotate(t, domain.Hash{2})
	id, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	if err != nil {
		t.Fatalf("Grant after the rotation: %v", err)
	}
	granted, err := w.ActiveConsent(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	p := granted.Payload
	if root := plan.KeyRoot(first, p.Nonce, p.FirstDay, p.ValidityDays); p.OperatorKey != programme.OperatorKey(first) || p.PlanKeyRoot != root {
		t.Errorf("the consent names key %s and root %s, want those of the first secret", p.OperatorKey, p.PlanKeyRoot)
	}
	r, err := w.ChallengeRevoke(t.Context(), id, ref)
	if err != nil {
		t.Fatal(err)
	}
	w.rotate(t, domain.Hash{3})
	if err := w.Revoke(t.Context(), id, ref, r.ChallengeID, sign(r.Message, ownerKey)); err != nil {
		t.Errorf("Revoke after another rotation: %v", err)
	}
	p = w.challenge(t, request()).Payload
	if root := plan.KeyRoot(domain.Hash{3}, p.Nonce, p.FirstDay, p.ValidityDays); p.OperatorKey != programme.OperatorKey(domain.Hash{3}) || p.PlanKeyRoot != root {
		t.Errorf("the next consent names key %s and root %s, want those of the last secret", p.OperatorKey, p.PlanKeyRoot)
	}
}

// No consent is asked for or given under a key that is not in force.
func TestKeyNotInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.challenge(t, request())
	first := w.Secrets.Keys()[0]
	w.rotate(t, domain.Hash{2})
	retire := programme.RetireKey{Key: first, Reason: "a year is over"}
	wantErr(t, "RetireKey", w.Programme(t.Context(), meta("retire"), retire), nil)
	before := len(w.records(t))
	_, err := w.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	wantErr(t, "Grant under a retired key", err, domain.ErrConflict)
	for name, ring := range map[string]commands.Keyring{
		"retired": w.Secrets[:1], "never registered": {domain.Hash{7}},
	} {
		other := *w.Service
		other.Secrets = ring
		if _, err := other.Challenge(t.Context(), request()); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("Challenge under a key that is %s: %v, want ErrUnavailable", name, err)
		}
	}
	if got := len(w.records(t)); got != before || w.hosts.asked != 0 {
		t.Errorf("%d records and %d hosts asked, want %d and none", got, w.hosts.asked, before)
	}
}

// left is the keys of challenges that a holder of secrets has left to others.
type left map[domain.Hash]consent.ChallengeKey

func (l left) ChallengeKey(_ context.Context, operatorKey domain.Hash) (consent.ChallengeKey, error) {
	key, ok := l[operatorKey]
	if !ok {
		return key, fmt.Errorf("no key: %w", domain.ErrNotFound)
	}
	return key, nil
}

// silent makes no roots.
type silent struct{}

func (silent) KeyRoot(context.Context, domain.Hash, uint32, uint32) (commands.KeyRoot, error) {
	return commands.KeyRoot{}, domain.WithCode(domain.KeysUnavailable, fmt.Errorf("nobody answers: %w", domain.ErrUnavailable))
}

// A service without secrets does all that owners ask for, and what it and one that has
// them issue is taken by both. While nobody makes roots, only new consents wait.
func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := left{}
	bare := *w.Service
	bare.Secrets, bare.KeyRoots, bare.ChallengeKeys = nil, w.Secrets, keys
	_, err := bare.Challenge(t.Context(), request())
	wantErr(t, "Challenge before a key was left", err, domain.ErrUnavailable)
	keys[w.Secrets.Keys()[0]] = consent.NewChallengeKey(w.Secrets.Current())

	c, err := bare.Challenge(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	p := c.Payload
	if root := plan.KeyRoot(w.Secrets.Current(), p.Nonce, p.FirstDay, p.ValidityDays); p.OperatorKey != w.Secrets.Keys()[0] || p.PlanKeyRoot != root {
		t.Errorf("the challenge names key %s and root %s, want those of the secret", p.OperatorKey, p.PlanKeyRoot)
	}
	bare.KeyRoots = silent{}
	_, err = bare.Challenge(t.Context(), request())
	if wantErr(t, "Challenge while nobody makes roots", err, domain.ErrUnavailable); domain.CodeOf(err) != domain.KeysUnavailable {
		t.Errorf("Challenge while nobody makes roots has the code %q", domain.CodeOf(err))
	}
	id, err := w.Grant(t.Context(), c.ChallengeID, p, sign(c.Message, ownerKey), domain.Hash{})
	if err != nil {
		t.Fatalf("Grant where the secret is, of a challenge from where it is not: %v", err)
	}
	r, err := bare.ChallengeRevoke(t.Context(), id, ref)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Revoke without secrets", bare.Revoke(t.Context(), id, ref, r.ChallengeID, sign(r.Message, ownerKey)), nil)

	c = w.challenge(t, request())
	if _, err := bare.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{}); err != nil {
		t.Errorf("Grant without secrets, of a challenge from where they are: %v", err)
	}
}

// What was left under a key that is retired is good for nothing.
func TestRetiredChallengeKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Secrets.Keys()[0]
	c := w.challenge(t, request())
	w.rotate(t, domain.Hash{2})
	bare := *w.Service
	bare.Secrets, bare.KeyRoots, bare.ChallengeKeys = nil, w.Secrets, left{first: consent.NewChallengeKey(w.Secrets[0])}
	wantErr(t, "RetireKey", w.Programme(t.Context(), meta("retire"), programme.RetireKey{Key: first, Reason: "it was seen"}), nil)
	_, err := bare.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	wantErr(t, "Grant with the only key retired", err, domain.ErrUnavailable)
	bare.ChallengeKeys = left{first: consent.NewChallengeKey(w.Secrets[0]), w.Secrets.Keys()[1]: consent.NewChallengeKey(w.Secrets[1])}
	_, err = bare.Grant(t.Context(), c.ChallengeID, c.Payload, sign(c.Message, ownerKey), domain.Hash{})
	wantErr(t, "Grant of a challenge under a retired key", err, domain.ErrInvalid)
}
