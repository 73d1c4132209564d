package finding_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/maintainer"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	after := func(day uint32, look int) finding.Reached {
		return finding.Reached{Consent: "cns_a", Cycle: finding.AfterDay, Day: day, Look: look, Verdict: finding.Insufficient}
	}
	end := func(day uint32, look int) finding.Reached {
		return finding.Reached{Consent: "cns_a", Cycle: finding.AtEnd, Day: day, Look: look, Verdict: finding.Consistent}
	}

	key := secp256k1.PrivKeyFromBytes([]byte("an owner's key, for tests only.."))
	signed := func(look int, change func(*finding.ReplyFiled)) finding.ReplyFiled {
		e := finding.ReplyFiled{
			Consent: "cns_a", Look: look, Agent: "build:42", Domain: "karatum.com", Owner: eip191.AddressOf(key.PubKey()), Chain: 84532,
			Commitment: domain.Hash{7}, Size: 12, Nonce: domain.Hash{8}, IssuedAt: time.Date(2026, 10, 20, 9, 0, 0, 0, time.UTC),
		}
		if change != nil {
			change(&e)
		}
		sig := eip191.Sign(e.Message(), key)
		e.Signature, e.Verified = sig[:], consent.Verification{Method: consent.ByKey}
		return e
	}
	reply := signed(1, nil)
	changed := reply
	changed.Size++
	correct := func(look, version int, text string, signs bool) finding.Correct {
		c := finding.Correct{Consent: "cns_a", Look: look, Version: version, Text: text}
		if signs {
			c.By = []maintainer.Approval{maintainer.Approve("Ann", ed25519.NewKeyFromSeed(make([]byte, 32)), c.Action())}
		}
		return c
	}
	corrected := func(c finding.Correct) finding.Corrected {
		return finding.Corrected{Consent: c.Consent, Look: c.Look, Text: c.Text, By: c.By}
	}
	erase := func(look int, reason string) finding.EraseReply {
		return finding.EraseReply{Consent: "cns_a", Look: look, Reason: reason}
	}
	right, again := correct(1, 0, "two tasks were ours", true), correct(1, 1, "three, in fact", true)

	type events = []finding.Event
	domaintest.Decide(t, finding.Decider, []domaintest.Case[finding.Command, finding.Event]{
		{Name: "first look", When: finding.Reach(after(7, 1)), Then: events{after(7, 1)}},
		{Name: "next look", Given: events{after(7, 1)}, When: finding.Reach(after(8, 2)), Then: events{after(8, 2)}},
		{Name: "an earlier day that was opened late", Given: events{after(8, 1)}, When: finding.Reach(after(7, 2)), Then: events{after(7, 2)}},
		{Name: "a day twice", Given: events{after(7, 1)}, When: finding.Reach(after(7, 2))},
		{Name: "a day twice under its number", Given: events{after(7, 1)}, When: finding.Reach(after(7, 1))},
		{Name: "a number twice", Given: events{after(7, 1)}, When: finding.Reach(after(8, 1)), Err: domain.ErrConflict},
		{Name: "a number left out", Given: events{after(7, 1)}, When: finding.Reach(after(8, 3)), Err: domain.ErrConflict},
		{Name: "first look without a number", When: finding.Reach(after(7, 0)), Err: domain.ErrConflict},
		{Name: "the end after its last day", Given: events{after(7, 1)}, When: finding.Reach(end(7, 2)), Then: events{end(7, 2)}},
		{Name: "the end twice", Given: events{after(7, 1), end(7, 2)}, When: finding.Reach(end(7, 3))},
		{Name: "the end before any day", When: finding.Reach(end(0, 1)), Then: events{end(0, 1)}},
		{Name: "a reply", Given: events{after(7, 1)}, When: finding.FileReply(reply), Then: events{reply}},
		{Name: "a reply to an earlier look", Given: events{after(7, 1), after(8, 2)}, When: finding.FileReply(reply), Then: events{reply}},
		{Name: "a second reply", Given: events{after(7, 1), reply}, When: finding.FileReply(reply), Err: domain.ErrConflict},
		{Name: "a reply to what is not found", When: finding.FileReply(reply), Err: domain.ErrNotFound},
		{Name: "a reply to a look that is none", Given: events{after(7, 1)}, When: finding.FileReply(signed(0, nil)), Err: domain.ErrNotFound},
		{Name: "a reply of another size than was signed", Given: events{after(7, 1)}, When: finding.FileReply(changed), Err: domain.ErrForbidden},
		{Name: "a reply without a byte", Given: events{after(7, 1)}, When: finding.FileReply(signed(1, func(e *finding.ReplyFiled) { e.Size = 0 })), Err: domain.ErrInvalid},
		{Name: "a reply of more than 4 KiB", Given: events{after(7, 1)}, When: finding.FileReply(signed(1, func(e *finding.ReplyFiled) { e.Size = 4097 })), Err: domain.ErrInvalid},
		{Name: "erase a reply", Given: events{after(7, 1), reply}, When: erase(1, "asked for"), Then: events{finding.ReplyErased(erase(1, "asked for"))}},
		{Name: "erase it twice", Given: events{after(7, 1), reply, finding.ReplyErased(erase(1, "asked for"))}, When: erase(1, "once more")},
		{Name: "erase for no reason", Given: events{after(7, 1), reply}, When: erase(1, " "), Err: domain.ErrInvalid},
		{Name: "erase a reply that there is not", Given: events{after(7, 1)}, When: erase(1, "asked for"), Err: domain.ErrNotFound},
		{Name: "erase the reply to another look", Given: events{after(7, 1), after(8, 2), reply}, When: erase(2, "asked for"), Err: domain.ErrNotFound},
		{Name: "a reply after one that was erased", Given: events{after(7, 1), reply, finding.ReplyErased(erase(1, "asked for"))}, When: finding.FileReply(reply), Err: domain.ErrConflict},
		{Name: "a look after a reply", Given: events{after(7, 1), reply}, When: finding.Reach(after(8, 2)), Then: events{after(8, 2)}},

		{Name: "a correction", Given: events{after(7, 1)}, When: right, Then: events{corrected(right)}},
		{Name: "another one", Given: events{after(7, 1), corrected(right)}, When: again, Then: events{corrected(again)}},
		{Name: "the same again", Given: events{after(7, 1), corrected(right)}, When: right, Err: domain.ErrConflict},
		{Name: "a correction that nobody signed", Given: events{after(7, 1)}, When: correct(1, 0, "wrong", false), Err: domain.ErrForbidden},
		{Name: "a correction that says nothing", Given: events{after(7, 1)}, When: correct(1, 0, " ", true), Err: domain.ErrInvalid},
		{Name: "a correction of what is not found", When: right, Err: domain.ErrNotFound},

		{Name: "a day after the end", Given: events{end(7, 1)}, When: finding.Reach(after(7, 2)), Then: events{after(7, 2)}},
	})
}

func TestID(t *testing.T) {
	t.Parallel()
	const id = "fnd_epc7tvcxbfw63o7vwllh_12"
	if got := finding.ID("cns_epc7tvcxbfw63o7vwllh", 12); got != id {
		t.Errorf("ID = %s, want %s", got, id)
	}
	if consent, look, err := finding.ParseID(id); err != nil || consent != "cns_epc7tvcxbfw63o7vwllh" || look != 12 {
		t.Errorf("ParseID(%s) = %s, %d, %v", id, consent, look, err)
	}
	for _, bad := range []string{"", "fnd_", "fnd_a", "fnd_a_", "fnd_a_0", "fnd_a_-1", "fnd_a_01", "fnd_a_+1", "fnd_a_1_1", "cns_a_1", "fnd_a_99999999999999999999"} {
		if _, _, err := finding.ParseID(bad); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("ParseID(%q) = %v, want ErrInvalid", bad, err)
		}
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, finding.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, finding.Events, os.DirFS("testdata"))
}
