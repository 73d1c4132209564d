package batch

import (
	"fmt"

	"github.com/karatum/mystery/domain"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one. before is the batch before, nil for the first. What a
// chain showed is taken as recorded.
func Check(s State, before *State, events []Event) error {
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	return Decider.Gives(s, commandOf(s, e, before), events)
}

// commandOf returns the command that asks for e, decided on in state s.
func commandOf(s State, e Event, before *State) Command {
	switch e := e.(type) {
	case Sealed:
		return Seal{e, before}
	case Submitted:
		return Submit{e, before, len(s.Submitted)}
	case Attested:
		return Attest(e)
	case Finalised:
		return Finalise(e)
	case Dropped:
		return Drop{e, len(s.Submitted)}
	}
	panic(fmt.Sprintf("batch: unreachable event %T", e))
}
