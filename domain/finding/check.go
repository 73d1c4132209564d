package finding

import (
	"fmt"

	"github.com/karatum/mystery/domain"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one.
func Check(s State, events []Event) error {
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case Reached:
		return Decider.Gives(s, Reach(e), events)
	case ReplyFiled:
		return Decider.Gives(s, FileReply(e), events)
	case ReplyErased:
		return Decider.Gives(s, EraseReply(e), events)
	case Corrected:
		return Decider.Gives(s, Correct{Consent: e.Consent, Look: e.Look, Version: s.Corrected[e.Look], Text: e.Text, By: e.By}, events)
	}
	panic(fmt.Sprintf("finding: unreachable event %T", e))
}
