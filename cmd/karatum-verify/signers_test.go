package main

import (
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/programme"
)

// Who has the log, and its key, cannot let a maintainer have said something, nor let one
// say it whose key has ended.
func TestLogWithMaintainers(t *testing.T) {
	t.Parallel()
	const cons = "cns_epc7tvcxbfw63o7vwllh"
	inc := incident.ID(cons)
	ann := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signs := func(a maintainer.Action) []maintainer.Approval {
		return []maintainer.Approval{maintainer.Approve("Ann", ann, a)}
	}
	act := func(version uint64, do incident.Verb, text string) (string, []maintainer.Approval) {
		return text, signs(incident.Act{Incident: inc, Version: version, Do: do, Text: text}.Action())
	}
	registered := programme.MaintainerRegistered{Name: "Ann", Key: domain.Hash(ann.Public().(ed25519.PublicKey))}
	retired := programme.MaintainerRetired{Name: "Ann", Key: registered.Key, Reason: "left"}
	reached := finding.Reached{Consent: cons, Agent: "build:42", Cycle: finding.AfterDay, Day: 20000, Look: 1, GatedVerdict: finding.ExamOnly}
	correction := finding.Correct{Consent: cons, Look: 1, Text: "two tasks were ours"}
	corrected := finding.Corrected{Consent: cons, Look: 1, Text: correction.Text, By: signs(correction.Action())}
	reworded := corrected
	reworded.Text = "all tasks were ours"
	first := incident.Open{Consent: cons, Agent: "build:42", Look: 1, At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	opened, err := incident.Decider.Decide(incident.State{}, first)
	if err != nil {
		t.Fatal(err)
	}
	var triaged incident.Triaged
	triaged.Verdict = incident.Confirmed
	triaged.Text, triaged.By = act(1, incident.Confirm, "seen again by hand")
	var resolved incident.Resolved
	resolved.Text, resolved.By = act(3, incident.Close, "certified anew")

	// disclose adds the disclosure of the incident, and what was sealed of it below.
	disclose := func(l *servedLog, at time.Time, then ...domain.Event) {
		o, _ := opened[0].(incident.Opened)
		e := incident.Disclosed{Opened: o, Triaged: triaged, Replies: []incident.ReplyFiled{}, At: at}
		e.Text, e.By = act(2, incident.Disclose, "a week is over")
		var prev domain.Hash
		for i, sealed := range []domain.Event{o, triaged} {
			r := l.record(incident.StreamOf(inc), first.At, prev, uint64(i+1), sealed)
			e.Records, prev = append(e.Records, r), r.Hash
		}
		for i, public := range append([]domain.Event{e}, then...) {
			r := l.record(incident.StreamOf(inc), at, prev, uint64(i+3), public)
			l.add(r, prev)
			prev = r.Hash
		}
	}
	week := first.At.Add(incident.ReplyTime)
	of := func(s ledger.Stream, events ...domain.Event) func(*servedLog) {
		return func(l *servedLog) { l.append(s, events...) }
	}
	for _, tt := range []struct {
		name  string
		steps []func(*servedLog)
		want  string // what is said, "" if all is well
	}{
		{"a correction", []func(*servedLog){of(programme.Stream, registered), of(finding.StreamOf(cons), reached, corrected)}, ""},
		{"a correction of nobody", []func(*servedLog){of(finding.StreamOf(cons), reached, corrected)}, "was not that of a maintainer then"},
		{"a correction after she was retired", []func(*servedLog){of(programme.Stream, registered, retired), of(finding.StreamOf(cons), reached, corrected)}, "was not that of a maintainer then"},
		{"a correction in other words", []func(*servedLog){of(programme.Stream, registered), of(finding.StreamOf(cons), reached, reworded)}, "does not belong to this action"},
		{"a correction twice", []func(*servedLog){of(programme.Stream, registered), of(finding.StreamOf(cons), reached, corrected, corrected)}, "does not belong to this action"},
		{"an incident", []func(*servedLog){of(programme.Stream, registered), func(l *servedLog) { disclose(l, week, resolved) }}, ""},
		{"an incident that is disclosed too early", []func(*servedLog){of(programme.Stream, registered), func(l *servedLog) { disclose(l, week.Add(-time.Hour)) }}, "the owner has until"},
		{"an incident of nobody", []func(*servedLog){func(l *servedLog) { disclose(l, week) }}, "no maintainer ever had"},
		{"an incident after she was retired", []func(*servedLog){of(programme.Stream, registered, retired), func(l *servedLog) { disclose(l, week) }}, "was not that of a maintainer then"},
	} {
		l := serveLog(t, 8)
		for _, step := range tt.steps {
			step(l)
		}
		l.size = len(l.items)
		code, said := l.look(filepath.Join(t.TempDir(), "log.json"))
		if tt.want == "" && code != exitOK || tt.want != "" && (code != exitFailed || !strings.Contains(said, tt.want)) {
			t.Errorf("with %s it says %d: %s", tt.name, code, said)
		}
	}
}
