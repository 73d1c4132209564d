package replay_test

import (
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/programme"
)

var (
	ann = ed25519.NewKeyFromSeed(make([]byte, 32))
	inc = incident.ID(cons)

	reached = finding.Reached{
		Consent: cons, Agent: ref, Cycle: finding.AfterDay, Day: day, Look: 1, Verdict: finding.ExamOnly, GatedVerdict: finding.ExamOnly,
	}
	watched = finding.Reached{
		Consent: cons, Agent: ref, Cycle: finding.AfterDay, Day: day, Look: 1, Verdict: finding.ExamOnly, GatedVerdict: finding.Watch,
	}
)

func opened(change func(*incident.Open)) incident.Opened {
	c := incident.Open{Consent: cons, Agent: ref, Look: 1, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	if change != nil {
		change(&c)
	}
	events, err := incident.Decider.Decide(incident.State{}, c)
	if err != nil {
		panic(err)
	}
	e, _ := events[0].(incident.Opened)
	return e
}

func signs(version uint64, do incident.Verb) (text string, by []maintainer.Approval) {
	a := incident.Act{Incident: inc, Version: version, Do: do, Text: "as it should be"}
	return a.Text, []maintainer.Approval{maintainer.Approve("Ann", ann, a.Action())}
}

func confirmed() incident.Triaged {
	text, by := signs(1, incident.Confirm)
	return incident.Triaged{Verdict: incident.Confirmed, Text: text, By: by}
}

// disclosed carries what is sealed of the incident in h.
func disclosed(h *history, at time.Time) incident.Disclosed {
	text, by := signs(2, incident.Disclose)
	e := incident.Disclosed{Opened: opened(nil), Triaged: confirmed(), Replies: []incident.ReplyFiled{}, At: at, Text: text, By: by}
	for _, r := range h.records {
		if r.Stream == incident.StreamOf(inc) {
			e.Records = append(e.Records, r)
		}
	}
	return e
}

// What incidents take from other streams is there, and a disclosure hides nothing. The
// clock of these histories stands still.
func TestIncidents(t *testing.T) {
	t.Parallel()
	registered := programme.MaintainerRegistered{Name: "Ann", Key: domain.Hash(ann.Public().(ed25519.PublicKey))}
	for _, tt := range []struct {
		name   string
		found  finding.Reached
		signer bool // whether Ann is a maintainer
		events []domain.Event
		ok     bool
	}{
		{"confirmed", reached, true, []domain.Event{opened(nil), confirmed()}, true},
		{"a finding that is only watched", watched, true, []domain.Event{opened(nil)}, false},
		{"a look that there was not", reached, true, []domain.Event{opened(func(c *incident.Open) { c.Look = 2 })}, false},
		{"another agent", reached, true, []domain.Event{opened(func(c *incident.Open) { c.Agent = "build:43" })}, false},
		{"passed off as one of Karatum's own", reached, true, []domain.Event{opened(func(c *incident.Open) { c.Demo = true })}, false},
		{"another consent's stream", reached, true, []domain.Event{opened(func(c *incident.Open) { c.Consent = "cns_bbbbbbbbbbbbbbbbbbbb" })}, false},
		{"a severity that nobody raised", reached, true, []domain.Event{opened(func(c *incident.Open) { c.Raise = true })}, false},
		{"less time for a reply", reached, true, []domain.Event{opened(func(c *incident.Open) { c.At = c.At.Add(-2 * time.Hour) })}, false},
		{"a reply that stands at no finding", reached, true, []domain.Event{opened(nil), incident.ReplyFiled{Look: 1, Commitment: domain.Hash{1}}}, false},
		{"triaged by a stranger", reached, false, []domain.Event{opened(nil), confirmed()}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			if tt.signer {
				h.add(t, programme.Stream, registered)
			}
			h.add(t, finding.StreamOf(cons), tt.found)
			for _, e := range tt.events {
				h.add(t, incident.StreamOf(inc), e)
			}
			if err := read(h.records); (err == nil) != tt.ok || err != nil && !errors.Is(err, ledger.ErrDamaged) {
				t.Errorf("read = %v, want ok %t", err, tt.ok)
			}
		})
	}

	// What a maintainer signed stands before the end of their key, or it is forged.
	retired := programme.MaintainerRetired{Name: registered.Name, Key: registered.Key, Reason: "left"}
	correction := finding.Correct{Consent: cons, Look: 1, Text: "two tasks were ours"}
	corrected := finding.Corrected{
		Consent: cons, Look: 1, Text: correction.Text, By: []maintainer.Approval{maintainer.Approve("Ann", ann, correction.Action())},
	}
	for _, tt := range []struct {
		name string
		at   int // how many steps before Ann is retired
		ok   bool
	}{
		{"retired before the triage", 1, false},
		{"retired before the correction", 2, false},
		{"retired after all that she did", 3, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			h.add(t, programme.Stream, registered)
			h.add(t, finding.StreamOf(cons), reached)
			for i, e := range []domain.Event{opened(nil), confirmed(), corrected} {
				if i == tt.at {
					h.add(t, programme.Stream, retired)
				}
				if i == 2 {
					h.add(t, finding.StreamOf(cons), e)
				} else {
					h.add(t, incident.StreamOf(inc), e)
				}
			}
			h.add(t, programme.Stream, programme.MaintainerRegistered{Name: "Bob", Key: domain.Hash{7}})
			if err := read(h.records); (err == nil) != tt.ok || err != nil && !errors.Is(err, ledger.ErrDamaged) {
				t.Errorf("read = %v, want ok %t", err, tt.ok)
			}
		})
	}

	for name, forge := range map[string]func(*incident.Disclosed){
		"a record changed":           func(e *incident.Disclosed) { e.Records[1].Actor = "nobody" },
		"a record left out":          func(e *incident.Disclosed) { e.Records = e.Records[:1] },
		"another severity":           func(e *incident.Disclosed) { e.Opened.Severity = incident.Assess(true) },
		"another score":              func(e *incident.Disclosed) { e.Opened.Severity.Score = "9.0" },
		"later than it was recorded": func(*incident.Disclosed) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			h.add(t, programme.Stream, registered)
			h.add(t, finding.StreamOf(cons), reached)
			h.add(t, incident.StreamOf(inc), opened(nil))
			h.add(t, incident.StreamOf(inc), confirmed())
			e := disclosed(h, time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC))
			forge(&e)
			h.add(t, incident.StreamOf(inc), e)
			if err := read(h.records); !errors.Is(err, ledger.ErrDamaged) {
				t.Errorf("read = %v, want ErrDamaged", err)
			}
		})
	}
}
