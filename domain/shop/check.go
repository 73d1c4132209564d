package shop

import (
	"fmt"

	"github.com/karatum/mystery/domain"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one.
func Check(s State, events []Event) error {
	if _, ok := events[0].(SessionOpened); ok {
		c, err := conversed(events)
		if err != nil {
			return err
		}
		return Decider.Gives(s, c, events)
	}
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	c := commandOf(e)
	if c == nil {
		return fmt.Errorf("a %s does not come alone: %w", e.EventType(), domain.ErrInvalid)
	}
	return Decider.Gives(s, c, events)
}

// commandOf returns the command that asks for e alone, or nil if none does.
func commandOf(e Event) Command {
	switch e := e.(type) {
	case Committed:
		return Commit(e)
	case Sent:
		return Send(e)
	case PaymentReserved:
		return Reserve(e)
	case PaymentSettled:
		return Settle(e)
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
	case SessionOpened, SessionAction, SessionClosed:
		return nil
	}
	panic(fmt.Sprintf("shop: unreachable event %T", e))
}
