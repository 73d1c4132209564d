package incident

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/maintainer"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one. Signatures and severities are computed again.
func Check(s State, events []Event) error {
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	act := func(do Verb, text string, by []maintainer.Approval) error {
		return Decider.Gives(s, Act{Incident: s.Opened.Incident, Version: s.Version, Do: do, Text: text, By: by}, events)
	}
	switch e := e.(type) {
	case Opened:
		return Decider.Gives(s, Open{
			Consent: e.Consent, Agent: e.Agent, Demo: e.Demo, Look: e.Look,
			Raise: e.Severity == Assess(true), At: e.ReplyUntil.Add(-ReplyTime),
		}, events)
	case ReplyFiled:
		return Decider.Gives(s, FileReply(e), events)
	case Triaged:
		if e.Verdict == Rejected {
			return act(Reject, e.Text, e.By)
		}
		return act(Confirm, e.Text, e.By)
	case Closed:
		return act(Close, e.Text, e.By)
	case Disclosed:
		return Decider.Gives(s, Act{
			Incident: s.Opened.Incident, Version: s.Version, Do: Disclose, Text: e.Text, By: e.By, At: e.At, Records: e.Records,
		}, events)
	case Corrected:
		return act(Correct, e.Text, e.By)
	case Recalled:
		return act(Recall, e.Text, e.By)
	case Resolved:
		return act(Close, e.Text, e.By)
	}
	panic(fmt.Sprintf("incident: unreachable event %T", e))
}
