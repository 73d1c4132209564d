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
	switch e := e.(type) {
	case RunRecorded:
		return Decider.Gives(s, RecordRun(e), events)
	case AttemptRecorded:
		return Decider.Gives(s, RecordAttempt(e), events)
	case AttemptWithdrawn:
		return Decider.Gives(s, WithdrawAttempt(e), events)
	}
	panic(fmt.Sprintf("exam: unreachable event %T", e))
}
