package commands_test

import (
	"context"
	"errors"
	"testing"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
)

// replies are bodies that can be out of order.
type replies struct {
	kept map[string]bool
	err  error
}

func (r replies) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		if r.err == nil {
			delete(r.kept, key)
		}
	}
	return r.err
}

func TestErase(t *testing.T) {
	t.Parallel()
	log := new(memory.Log)
	s := &commands.Service{Log: log, Catalog: commands.Catalog()}
	answered := shop.Revealed{Result: shop.Result{ReplyHash: domain.Hash{1}}}
	for id, history := range map[string][]domain.Event{
		"revealed": {shop.Committed{}, shop.Sent{}, shop.Replied{}, shop.Judged{}, answered},
		"waiting":  {shop.Committed{}, shop.Sent{}, shop.Replied{}, shop.Judged{}},
		"pad":      {shop.Committed{}},
		"missed":   {shop.Committed{}, shop.Missed{}, shop.Revealed{}},
		"reset":    {shop.Committed{}, shop.Sent{}, shop.SessionOpened{}, shop.SessionClosed{}, shop.Judged{}, shop.Revealed{}},
	} {
		if err := log.Append(t.Context(), shop.StreamOf(id), 0, ledger.Meta{Command: "past"}, history...); err != nil {
			t.Fatal(err)
		}
	}
	bodies := replies{kept: map[string]bool{}}
	for _, id := range []string{"revealed", "waiting", "pad", "missed"} {
		bodies.kept[shop.ReplyKey(id)] = true
	}
	bodies.kept[shop.SessionKey("reset")] = true
	erase := func(id, reason string, from commands.Bodies) error {
		return s.Erase(t.Context(), ledger.Meta{Actor: "operator", Command: "erase " + reason}, id, reason, from)
	}
	// What must not be erased, and nothing is.
	for _, tt := range []struct {
		id, reason string
		err        error
	}{
		{"waiting", "asked for", domain.ErrConflict},
		{"pad", "asked for", domain.ErrConflict},
		{"missed", "asked for", domain.ErrConflict},
		{"unknown", "asked for", domain.ErrNotFound},
		{"revealed", "", domain.ErrInvalid},
	} {
		if err := erase(tt.id, tt.reason, bodies); !errors.Is(err, tt.err) {
			t.Errorf("Erase(%s, %q) = %v, want %v", tt.id, tt.reason, err, tt.err)
		}
	}
	if len(bodies.kept) != 5 {
		t.Errorf("%d replies and sessions are left, want all", len(bodies.kept))
	}
	// A session that led to no reply is the agent's word too.
	if err := erase("reset", "asked for", bodies); err != nil || bodies.kept[shop.SessionKey("reset")] {
		t.Errorf("Erase a session without a reply = %v, and it is there: %t", err, bodies.kept[shop.SessionKey("reset")])
	}
	// A reply that could not be deleted is deleted by the next call, and the event
	// stays the first one.
	away := errors.New("the database is away")
	if err := erase("revealed", "asked for", replies{err: away}); !errors.Is(err, away) {
		t.Errorf("Erase without a database = %v, want its error", err)
	}
	if err := erase("revealed", "once more", bodies); err != nil || bodies.kept[shop.ReplyKey("revealed")] {
		t.Errorf("Erase once more = %v, and the reply is there: %t", err, bodies.kept[shop.ReplyKey("revealed")])
	}
	var last domain.Event
	n := 0
	for r, err := range log.Stream(t.Context(), shop.StreamOf("revealed"), 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if last, err = s.Catalog.Decode(r.Type, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	if n != 6 || last != (shop.Erased{Reason: "asked for"}) {
		t.Errorf("the stream ends with %+v at %d, want the erasure at 6", last, n)
	}
	// Whoever reveals again finds it done.
	if err := s.Shop(t.Context(), ledger.Meta{Command: "reveal"}, "revealed", shop.Reveal(answered)); err != nil {
		t.Errorf("Reveal what is erased = %v", err)
	}
}

// What an owner replied to a finding goes in the same way: the record first, and then the
// text.
func TestEraseReply(t *testing.T) {
	t.Parallel()
	log := new(memory.Log)
	s := &commands.Service{Log: log, Catalog: commands.Catalog()}
	const cons = "cns_epc7tvcxbfw63o7vwllh"
	kept, other, sig := domain.Hash{1}, domain.Hash{2}, consent.Signature{1}
	if err := log.Append(t.Context(), finding.StreamOf(cons), 0, ledger.Meta{Command: "past"},
		finding.Reached{Consent: cons, Look: 1}, finding.Reached{Consent: cons, Look: 2}, finding.Reached{Consent: cons, Look: 3},
		finding.ReplyFiled{Consent: cons, Look: 1, Commitment: kept, Signature: sig}, finding.ReplyFiled{Consent: cons, Look: 2, Commitment: other, Signature: sig}); err != nil {
		t.Fatal(err)
	}
	bodies := replies{kept: map[string]bool{finding.ReplyKey(kept): true, finding.ReplyKey(other): true}}
	erase := func(id, reason string, from commands.Bodies) error {
		return s.EraseReply(t.Context(), ledger.Meta{Actor: "operator", Command: "erase " + id + reason}, id, reason, from)
	}
	for _, tt := range []struct {
		id, reason string
		err        error
	}{
		{finding.ID(cons, 3), "asked for", domain.ErrNotFound},
		{finding.ID(cons, 4), "asked for", domain.ErrNotFound},
		{finding.ID(cons, 1), " ", domain.ErrInvalid},
		{"fnd_1", "asked for", domain.ErrInvalid},
	} {
		if err := erase(tt.id, tt.reason, bodies); !errors.Is(err, tt.err) {
			t.Errorf("EraseReply(%s, %q) = %v, want %v", tt.id, tt.reason, err, tt.err)
		}
	}
	if len(bodies.kept) != 2 {
		t.Fatalf("%d texts are left, want both", len(bodies.kept))
	}
	broken := replies{kept: bodies.kept, err: domain.ErrUnavailable}
	if err := erase(finding.ID(cons, 1), "asked for", broken); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("EraseReply where texts cannot be deleted = %v, want ErrUnavailable", err)
	}
	for range 2 {
		if err := erase(finding.ID(cons, 1), "once more", bodies); err != nil {
			t.Errorf("EraseReply again = %v", err)
		}
	}
	if len(bodies.kept) != 1 || !bodies.kept[finding.ReplyKey(other)] {
		t.Errorf("what is left is %v, want the other reply", bodies.kept)
	}
	n := 0
	for r, err := range log.Stream(t.Context(), finding.StreamOf(cons), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (finding.ReplyErased{}).EventType() {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d erasures are on record, want 1", n)
	}
}
