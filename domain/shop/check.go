package shop

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
	return Decider.Gives(s, commandOf(e), events)
}

// commandOf returns the command that asks for e.
func commandOf(e Event) Command {
	switch e := e.(type) {
	case Committed:
		return Commit(e)
	case Sent:
		return Send(e)
	case Replied:
		return Reply(e)
	case Judged:
		return Judge(e)
	case Missed:
		return Miss(e)
	case Cancelled:
		return Cancel(e)
	case Revealed:
		return Reveal(e)
	case Erased:
		return Erase(e)
	}
	panic(fmt.Sprintf("shop: unreachable event %T", e))
}
