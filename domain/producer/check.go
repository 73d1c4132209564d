package producer

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
	case Registered:
		return Register(e)
	case KeyRotated:
		return RotateKey(e)
	case Revoked:
		return Revoke(e)
	}
	panic(fmt.Sprintf("producer: unreachable event %T", e))
}
