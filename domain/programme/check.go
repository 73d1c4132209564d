package programme

import (
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one.
func Check(s State, events []Event) error {
	switch e := events[0].(type) {
	case OperatorKeyRetired:
		return Decider.Gives(s, RetireKey{Key: e.Key, Reason: e.Reason}, events)
	case Paused:
		return Decider.Gives(s, Pause(e), events)
	case Resumed:
		return Decider.Gives(s, Resume(e), events)
	case MaintainerRegistered:
		return Decider.Gives(s, RegisterMaintainer(e), events)
	case MaintainerRetired:
		return Decider.Gives(s, RetireMaintainer{Name: e.Name, Reason: e.Reason}, events)
	case TermsPublished, PoolPublished, CataloguePublished, OperatorKeyRegistered, ConfigChanged:
		// A key that is registered alone may have been asked for by itself, which
		// comes to the same.
		c, err := publication(s, events)
		if err != nil {
			return err
		}
		return Decider.Gives(s, c, events)
	}
	panic(fmt.Sprintf("programme: unreachable event %T", events[0]))
}

// publication returns the command that publishes what is new in events, with all the
// rest as it is. Secrets of this ledger are at hand: one key in force stands for them.
func publication(s State, events []Event) (Publish, error) {
	c := Publish{Terms: s.Terms, Pool: s.Pool, Catalogue: s.Catalogue}
	if i := slices.IndexFunc(s.Keys, func(k Key) bool { return !k.Retired }); i >= 0 {
		c.Keys = []domain.Hash{s.Keys[i].ID}
	}
	for _, e := range events {
		switch e := e.(type) {
		case TermsPublished:
			c.Terms = e
		case PoolPublished:
			c.Pool = e
		case CataloguePublished:
			c.Catalogue = e
		case OperatorKeyRegistered:
			c.Keys = append(c.Keys, e.Key)
		case ConfigChanged:
			c.IncidentSeverity = e.Value
		case OperatorKeyRetired, Paused, Resumed, MaintainerRegistered, MaintainerRetired:
			return c, fmt.Errorf("%s does not come with what is published: %w", e.EventType(), domain.ErrInvalid)
		}
	}
	return c, nil
}
