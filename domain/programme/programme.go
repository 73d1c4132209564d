// Package programme records what holds for everybody: the terms, the pool of
// client identities and the catalogue of tasks in force, the operator's key, and
// whether the programme is paused.
//
// Its stream is programme. A published version is never changed; consents given
// under an earlier one keep it.
package programme

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Stream is the one stream of the programme.
const Stream ledger.Stream = "programme"

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[TermsPublished](domain.Public),
	domain.Current[PoolPublished](domain.Public),
	domain.Current[CataloguePublished](domain.Public),
	domain.Current[OperatorKeyRegistered](domain.Public),
	domain.Current[Paused](domain.Public),
	domain.Current[Resumed](domain.Public),
}

// An Event is something that holds for the whole programme.
//
//sumtype:decl
type Event interface {
	domain.Event
	programmeEvent()
}

// TermsPublished means that consents are asked for under these terms from now on.
type TermsPublished struct {
	Version uint32      `json:"version"`
	Hash    domain.Hash `json:"hash"`
}

// PoolPublished means that new consents name this pool of client identities.
type PoolPublished struct {
	Version uint32      `json:"version"`
	Hash    domain.Hash `json:"hash"`
}

// CataloguePublished means that new consents name this catalogue of templates
// and this grader.
type CataloguePublished struct {
	Digest domain.Hash `json:"digest"`
}

// OperatorKeyRegistered means that all keys of the programme follow from the
// operator secret that Key stands for.
type OperatorKeyRegistered struct {
	Key domain.Hash `json:"key"`
}

// OperatorKey returns what stands for an operator secret in public: a MAC under
// it, which says nothing of it and tells it from any other.
func OperatorKey(secret domain.Hash) domain.Hash {
	return domain.MAC(secret, domain.NewEnc("karatum/mystery/operator-key/v1"))
}

// Paused means that nothing is sent to anybody until Resumed.
type Paused struct {
	Reason string `json:"reason"`
}

// Resumed means that sending goes on.
type Resumed struct {
	Reason string `json:"reason"`
}

// EventType implements [domain.Event].
func (TermsPublished) EventType() domain.Type { return "programme.terms_published.v1" }

// EventType implements [domain.Event].
func (PoolPublished) EventType() domain.Type { return "programme.pool_published.v1" }

// EventType implements [domain.Event].
func (CataloguePublished) EventType() domain.Type { return "programme.catalogue_published.v1" }

// EventType implements [domain.Event].
func (OperatorKeyRegistered) EventType() domain.Type { return "programme.operator_key_registered.v1" }

// EventType implements [domain.Event].
func (Paused) EventType() domain.Type { return "programme.paused.v1" }

// EventType implements [domain.Event].
func (Resumed) EventType() domain.Type { return "programme.resumed.v1" }

func (TermsPublished) programmeEvent()        {}
func (PoolPublished) programmeEvent()         {}
func (CataloguePublished) programmeEvent()    {}
func (OperatorKeyRegistered) programmeEvent() {}
func (Paused) programmeEvent()                {}
func (Resumed) programmeEvent()               {}

// A Command asks for a change of the programme.
//
//sumtype:decl
type Command interface{ programmeCommand() }

// Publish asks to put into force what this build of the service carries.
type Publish struct {
	Terms     TermsPublished
	Pool      PoolPublished
	Catalogue CataloguePublished
	Key       OperatorKeyRegistered
}

// Pause asks to stop all sending.
type Pause struct{ Reason string }

// Resume asks to send again.
type Resume struct{ Reason string }

func (Publish) programmeCommand() {}
func (Pause) programmeCommand()   {}
func (Resume) programmeCommand()  {}

// State is what holds now.
type State struct {
	Terms     TermsPublished
	Pool      PoolPublished
	Catalogue CataloguePublished
	Key       OperatorKeyRegistered
	Paused    bool
}

// Decider is the life of the programme.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Publish:
		return publish(s, c)
	case Pause:
		if s.Paused {
			return nil, nil
		}
		return []Event{Paused(c)}, nil
	case Resume:
		if !s.Paused {
			return nil, nil
		}
		return []Event{Resumed(c)}, nil
	}
	panic(fmt.Sprintf("programme: unreachable command %T", c))
}

// publish records what is new. A version that was published with another hash
// is refused, as somebody changed a text and forgot its number; so is another
// operator secret.
func publish(s State, c Publish) ([]Event, error) {
	var events []Event
	switch s.Key {
	case c.Key:
	case OperatorKeyRegistered{}:
		events = append(events, c.Key)
	default:
		return nil, fmt.Errorf("this is not the operator secret that the ledger was begun with; "+
			"restore that one, for no sealed plan can be opened without it: %w", domain.ErrConflict)
	}
	if s.Terms != c.Terms {
		if c.Terms.Version <= s.Terms.Version {
			return nil, fmt.Errorf("terms version %d cannot follow version %d: %w",
				c.Terms.Version, s.Terms.Version, domain.ErrConflict)
		}
		events = append(events, c.Terms)
	}
	if s.Pool != c.Pool {
		if c.Pool.Version <= s.Pool.Version {
			return nil, fmt.Errorf("identity pool version %d cannot follow version %d: %w",
				c.Pool.Version, s.Pool.Version, domain.ErrConflict)
		}
		events = append(events, c.Pool)
	}
	if s.Catalogue != c.Catalogue {
		events = append(events, c.Catalogue)
	}
	return events, nil
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case TermsPublished:
		s.Terms = e
	case PoolPublished:
		s.Pool = e
	case CataloguePublished:
		s.Catalogue = e
	case OperatorKeyRegistered:
		s.Key = e
	case Paused:
		s.Paused = true
	case Resumed:
		s.Paused = false
	}
	return s
}
