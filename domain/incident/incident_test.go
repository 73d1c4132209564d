package incident_test

import (
	"crypto/ed25519"
	"os"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
)

const (
	cons = "cns_epc7tvcxbfw63o7vwllh"
	id   = "inc_epc7tvcxbfw63o7vwllh"
)

var at = time.Date(2026, 10, 20, 9, 0, 0, 0, time.UTC)

// act returns a step that people with these keys signed.
func act(version uint64, do incident.Verb, text string, keys ...byte) incident.Act {
	a := incident.Act{Incident: id, Version: version, Do: do, Text: text, At: at.Add(8 * 24 * time.Hour)}
	if do == incident.Disclose {
		for range version {
			a.Records = append(a.Records, ledger.Record{Data: []byte("{}")})
		}
	}
	for _, k := range keys {
		key := ed25519.NewKeyFromSeed(append(make([]byte, 31), k))
		a.By = append(a.By, maintainer.Approve(string('a'+rune(k)), key, a.Action()))
	}
	return a
}

func opened(demo, raise bool) incident.Opened {
	return incident.Opened{
		Incident: id, Dedupe: "mystery:" + cons, Detector: "mystery.exam_only", Class: "over_claim", Source: "detector",
		Consent: cons, Agent: "build:42", Demo: demo, Look: 5, Evidence: "/mystery/" + cons,
		Severity: incident.Assess(raise), ReplyUntil: at.Add(7 * 24 * time.Hour),
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	open := incident.Open{Consent: cons, Agent: "build:42", Look: 5, At: at}
	demo := open
	demo.Demo, demo.Raise = true, true
	triaged := func(v incident.Verdict, a incident.Act) incident.Triaged {
		return incident.Triaged{Verdict: v, Text: a.Text, By: a.By}
	}
	nobody := []maintainer.Approval{}
	confirm, reject := act(1, incident.Confirm, "seen again by hand", 1), act(1, incident.Reject, "our template was wrong", 1)
	confirmed, rejected := triaged(incident.Confirmed, confirm), triaged(incident.Rejected, reject)
	reply := incident.ReplyFiled{Look: 5, Commitment: domain.Hash{9}}
	disclosed := func(o incident.Opened, a incident.Act, tr incident.Triaged, replies ...incident.ReplyFiled) incident.Disclosed {
		return incident.Disclosed{Opened: o, Triaged: tr, Replies: append([]incident.ReplyFiled{}, replies...), At: a.At, Text: a.Text, By: a.By, Records: a.Records}
	}
	disclose := act(2, incident.Disclose, "the owner was heard", 1)
	public := disclosed(opened(false, false), disclose, confirmed)
	early := disclose
	early.At = at.Add(7*24*time.Hour - time.Second)
	answered := act(3, incident.Disclose, "the owner was heard", 1)
	answered.At = at.Add(time.Hour)
	short := disclose
	short.Records = short.Records[:1]
	stranger := confirm
	stranger.Text = "something else"
	elsewhere := act(1, incident.Confirm, "seen", 1)
	elsewhere.Incident = "inc_other"
	elsewhere.By = []maintainer.Approval{maintainer.Approve("b", ed25519.NewKeyFromSeed(append(make([]byte, 31), 1)), elsewhere.Action())}
	house := incident.Triaged{Verdict: incident.Confirmed, Text: "built to be caught", By: nobody}
	houseOut := act(2, incident.Disclose, "built to be caught")
	houseOut.At, houseOut.By = at, nobody
	shown := disclosed(opened(true, true), houseOut, house)
	recall := act(3, incident.Recall, "it misleads", 1, 2)
	recalled := incident.Recalled{Text: recall.Text, By: recall.By}
	closing, settled := act(2, incident.Close, "nothing in it", 2), act(3, incident.Close, "it was retrained", 2)
	corrected := act(3, incident.Correct, "two tasks were ours", 2)

	type events = []incident.Event
	domaintest.Decide(t, incident.Decider, []domaintest.Case[incident.Command, incident.Event]{
		{Name: "open", When: open, Then: events{opened(false, false)}},
		{Name: "open a raised one", When: demo, Then: events{opened(true, true)}},
		{Name: "open a second one of a consent", Given: events{opened(false, false)}, When: demo},
		{Name: "open one that was closed", Given: events{opened(false, false), rejected, incident.Closed{}}, When: open},

		{Name: "confirm", Given: events{opened(false, false)}, When: confirm, Then: events{confirmed}},
		{Name: "reject", Given: events{opened(false, false)}, When: reject, Then: events{rejected}},
		{Name: "triage what there is not", When: confirm, Err: domain.ErrNotFound},
		{Name: "triage another incident", Given: events{opened(false, false)}, When: elsewhere, Err: domain.ErrNotFound},
		{Name: "triage twice", Given: events{opened(false, false), confirmed}, When: act(2, incident.Reject, "no", 1), Err: domain.ErrConflict},
		{Name: "triage on top of an older version", Given: events{opened(false, false), reply}, When: confirm, Err: domain.ErrConflict},
		{Name: "triage without a signature", Given: events{opened(false, false)}, When: act(1, incident.Confirm, "seen"), Err: domain.ErrForbidden},
		{Name: "triage with a signature for another text", Given: events{opened(false, false)}, When: stranger, Err: domain.ErrForbidden},
		{Name: "triage without a reason", Given: events{opened(false, false)}, When: act(1, incident.Confirm, "", 1), Err: domain.ErrInvalid},
		{Name: "a step that there is not", Given: events{opened(false, false)}, When: act(1, "forget", "please", 1), Err: domain.ErrInvalid},

		{Name: "a house agent is triaged by nobody", Given: events{opened(true, true)}, When: act(1, incident.Confirm, "built to be caught"), Then: events{house}},
		{Name: "and disclosed at once", Given: events{opened(true, true), house}, When: houseOut, Then: events{shown}},
		{Name: "but not rejected by nobody", Given: events{opened(true, true)}, When: act(1, incident.Reject, "no"), Err: domain.ErrForbidden},

		{Name: "a reply", Given: events{opened(false, false)}, When: incident.FileReply(reply), Then: events{reply}},
		{Name: "a reply twice", Given: events{opened(false, false), reply}, When: incident.FileReply(reply)},
		{Name: "a reply to an earlier finding", Given: events{opened(false, false)}, When: incident.FileReply{Look: 4}},
		{Name: "a reply without an incident", When: incident.FileReply(reply)},
		{Name: "a reply after the disclosure stands at the finding alone", Given: events{opened(false, false), confirmed, public}, When: incident.FileReply(reply)},

		{Name: "disclose after seven days", Given: events{opened(false, false), confirmed}, When: disclose, Then: events{public}},
		{Name: "disclose a second before", Given: events{opened(false, false), confirmed}, When: early, Err: domain.ErrConflict},
		{
			Name: "disclose once the owner replied", Given: events{opened(false, false), reply, confirmed}, When: answered,
			Then: events{disclosed(opened(false, false), answered, confirmed, reply)},
		},
		{Name: "disclose without all records", Given: events{opened(false, false), confirmed}, When: short, Err: domain.ErrInvalid},
		{Name: "disclose what was not triaged", Given: events{opened(false, false)}, When: act(1, incident.Disclose, "now", 1), Err: domain.ErrConflict},
		{Name: "disclose what was rejected", Given: events{opened(false, false), rejected}, When: disclose, Err: domain.ErrConflict},
		{Name: "disclose twice", Given: events{opened(false, false), confirmed, public}, When: act(3, incident.Disclose, "again", 1), Err: domain.ErrConflict},

		{Name: "close what was rejected", Given: events{opened(false, false), rejected}, When: closing, Then: events{incident.Closed{Text: closing.Text, By: closing.By}}},
		{Name: "close what was confirmed and nobody heard of", Given: events{opened(false, false), confirmed}, When: closing, Err: domain.ErrConflict},
		{Name: "close what was disclosed", Given: events{opened(false, false), confirmed, public}, When: settled, Then: events{incident.Resolved{Text: settled.Text, By: settled.By}}},
		{Name: "correct", Given: events{opened(false, false), confirmed, public}, When: corrected, Then: events{incident.Corrected{Text: corrected.Text, By: corrected.By}}},
		{Name: "correct what nobody heard of", Given: events{opened(false, false), confirmed, reply}, When: corrected, Err: domain.ErrConflict},

		{Name: "recall a high one", Given: events{opened(true, true), house, shown}, When: recall, Then: events{recalled}},
		{Name: "recall a medium one", Given: events{opened(false, false), confirmed, public}, When: recall, Err: domain.ErrConflict},
		{Name: "recall alone", Given: events{opened(true, true), house, shown}, When: act(3, incident.Recall, "it misleads", 1), Err: domain.ErrForbidden},
		{Name: "recall before the disclosure", Given: events{opened(true, true), house}, When: act(2, incident.Recall, "it misleads", 1, 2), Err: domain.ErrConflict},
		{Name: "recall twice", Given: events{opened(true, true), house, shown, recalled}, When: act(4, incident.Recall, "it misleads", 1, 2)},
	})
}

// The two scores of the profile, as another implementation of CVSS 4.0 has them.
func TestAssess(t *testing.T) {
	t.Parallel()
	const base = "CVSS:4.0/AV:N/AC:L/AT:N/PR:L/UI:P/VC:N/VI:L/VA:N/SC:N/SI:H/SA:L/E:P"
	for raise, want := range map[bool]incident.Severity{
		false: {Profile: "KAS-1.0", Vector: base, Score: "5.0", Rating: incident.Medium},
		true:  {Profile: "KAS-1.0", Vector: base + "/MVI:H", Score: "7.0", Rating: incident.High},
	} {
		if got := incident.Assess(raise); got != want {
			t.Errorf("Assess(%t) = %+v, want %+v", raise, got, want)
		}
	}
	if incident.Medium.Grave() || !incident.High.Grave() || !incident.Critical.Grave() {
		t.Error("a recall takes high or critical")
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	if got := incident.ID(cons); got != id || incident.ConsentOf(id) != cons || incident.StreamOf(id) != "incident/"+id {
		t.Errorf("ID(%s) = %s, want %s and back", cons, got, id)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, incident.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, incident.Events, os.DirFS("testdata"))
}
