package producer_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	runner := producertest.New("shield-runner")
	registered := runner.Registered("shield-case")
	changed := func(change func(*producer.Registered)) producer.Register {
		r := runner.Registered("shield-case")
		change(&r)
		return producer.Register(r)
	}
	next := producertest.New("another").Key()
	next.ID = "2027-01"
	rotated := producer.KeyRotated{Key: next, Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	revoked := producer.Revoked{Reason: "its machine was stolen"}

	type events = []producer.Event
	domaintest.Decide(t, producer.Decider, []domaintest.Case[producer.Command, producer.Event]{
		{Name: "register", When: producer.Register(registered), Then: events{registered}},
		{Name: "register twice", Given: events{registered}, When: producer.Register(registered), Err: domain.ErrConflict},
		{Name: "register under no name", When: changed(func(r *producer.Registered) { r.Producer = "Shield Runner" }), Err: domain.ErrInvalid},
		{Name: "register for nothing", When: changed(func(r *producer.Registered) { r.Types = nil }), Err: domain.ErrInvalid},
		{Name: "register for what is the shopper's", When: changed(func(r *producer.Registered) { r.Types = []domain.Type{"shop.sent.v1"} }), Err: domain.ErrInvalid},
		{Name: "register for all streams", When: changed(func(r *producer.Registered) { r.Streams = []string{""} }), Err: domain.ErrInvalid},
		{Name: "register for streams of other types", When: changed(func(r *producer.Registered) { r.Streams = []string{"session/"} }), Err: domain.ErrInvalid},
		{Name: "register with a key of small order", When: changed(func(r *producer.Registered) { r.Key.Public = producer.PublicKey{1} }), Err: domain.ErrInvalid},
		{Name: "register with a key that never holds", When: changed(func(r *producer.Registered) { r.Key.NotAfter = r.Key.NotBefore }), Err: domain.ErrInvalid},
		{Name: "rotate", Given: events{registered}, When: producer.RotateKey(rotated), Then: events{rotated}},
		{Name: "rotate again", Given: events{registered, rotated}, When: producer.RotateKey(rotated)},
		{Name: "rotate to the same key", Given: events{registered}, When: producer.RotateKey{Key: runner.Key(), Until: rotated.Until}},
		{Name: "rotate to the same bytes", Given: events{registered}, When: producer.RotateKey{
			Key: producer.Key{ID: "2027-01", Public: runner.Key().Public, NotBefore: next.NotBefore, NotAfter: next.NotAfter}, Until: rotated.Until,
		}, Err: domain.ErrConflict},
		{Name: "rotate of a stranger", When: producer.RotateKey(rotated), Err: domain.ErrNotFound},
		{Name: "revoke", Given: events{registered}, When: producer.Revoke(revoked), Then: events{revoked}},
		{Name: "revoke twice", Given: events{registered, revoked}, When: producer.Revoke(revoked)},
		{Name: "revoke without a reason", Given: events{registered}, When: producer.Revoke{}, Err: domain.ErrInvalid},
		{Name: "rotate after revoking", Given: events{registered, revoked}, When: producer.RotateKey(rotated), Err: domain.ErrConflict},
	})
}

func TestStateMay(t *testing.T) {
	t.Parallel()
	registered := producertest.New("shield-runner").Registered("shield-case")
	registered.Streams = []string{"shield-case/runner-"}
	state := producer.Decider.Replay(registered)
	for _, tt := range []struct {
		name   string
		state  producer.State
		typ    domain.Type
		stream ledger.Stream
		code   domain.Code
	}{
		{"its type and stream", state, "shield.case_opened.v1", "shield-case/runner-1", ""},
		{"another's type", state, "session.opened.v1", "session/1", domain.TypeNotAllowed},
		{"another's stream", state, "shield.case_opened.v1", "shield-case/1", domain.StreamNotAllowed},
		{"its type in an exam", state, "shield.case_opened.v1", "exam/build:42", domain.StreamNotAllowed},
		{"a stranger's", producer.State{}, "shield.case_opened.v1", "shield-case/runner-1", domain.TypeNotAllowed},
		{"after it was revoked", producer.Decider.Replay(registered, producer.Revoked{}), "shield.case_opened.v1", "shield-case/runner-1", domain.ProducerRevoked},
	} {
		err := tt.state.May(tt.typ, tt.stream)
		if domain.CodeOf(err) != tt.code || (err != nil) != errors.Is(err, domain.ErrForbidden) {
			t.Errorf("May(%s, %s) of %s = %v, want code %q", tt.typ, tt.stream, tt.name, err, tt.code)
		}
	}
}

func TestRotatedKeysOverlap(t *testing.T) {
	t.Parallel()
	first, second := producertest.New("a"), producertest.New("b").Key()
	second.ID, second.NotBefore = "next", time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	until := time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC)
	state := producer.Decider.Replay(first.Registered("session"), producer.KeyRotated{Key: second, Until: until})
	for _, tt := range []struct {
		key  string
		at   time.Time
		want bool
	}{
		{producertest.KeyID, until.Add(-time.Second), true},
		{producertest.KeyID, until, false},
		{"next", second.NotBefore, true},
		{"next", second.NotBefore.Add(-time.Second), false},
		{"next", second.NotAfter, false},
	} {
		key, ok := state.Key(tt.key)
		if got := ok && key.HoldsAt(tt.at); got != tt.want {
			t.Errorf("the key %s holds at %s: %t, want %t", tt.key, tt.at, got, tt.want)
		}
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, producer.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, producer.Events, os.DirFS("testdata"))
}
