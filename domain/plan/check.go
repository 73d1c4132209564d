package plan

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
	case Sealed:
		return Decider.Gives(s, Seal(e), events)
	case Opened:
		if sealed, planned := s.Days[e.Day]; planned {
			list, err := e.Eligible.Bytes()
			if err != nil {
				return err
			}
			if domain.Sum(list) != sealed.Eligible {
				return fmt.Errorf("the list that day %s is opened with is not the one it was sealed with: %w", domain.DayString(e.Day), domain.ErrInvalid)
			}
		}
		return Decider.Gives(s, Open(e), events)
	}
	panic(fmt.Sprintf("plan: unreachable event %T", e))
}
