package seal

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
	}
	panic(fmt.Sprintf("seal: unreachable event %T", e))
}
