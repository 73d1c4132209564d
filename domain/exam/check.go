package exam

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
	return Decider.Gives(s, CommandOf(e), events)
}

// CommandOf returns the command that asks for e.
func CommandOf(e Event) Command {
	switch e := e.(type) {
	case RunRecorded:
		return RecordRun(e)
	case AttemptRecorded:
		return RecordAttempt(e)
	case AttemptWithdrawn:
		return WithdrawAttempt(e)
	}
	panic(fmt.Sprintf("exam: unreachable event %T", e))
}
