// Package programme records what holds for everybody: the terms, the pool of
// client identities and the catalogue of tasks in force, the operator's keys, the
// people who may act in its name, how it is configured where that shows in public, and
// what is paused.
//
// Its stream is programme. A published version is never changed; consents given
// under an earlier one keep it, and so does a consent its operator key.
package programme

import (
	"fmt"
	"slices"
	"strings"

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
	domain.Current[OperatorKeyRetired](domain.Public),
	domain.Current[Paused](domain.Public),
	domain.Current[Resumed](domain.Public),
	domain.Current[MaintainerRegistered](domain.Public),
	domain.Current[MaintainerRetired](domain.Public),
	domain.Current[ConfigChanged](domain.Public),
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

// OperatorKeyRegistered means that the day keys of a consent may follow from the
// operator secret that Key stands for. A consent names the key that it was asked
// for under, and keeps it.
type OperatorKeyRegistered struct {
	Key domain.Hash `json:"key"`
}

// OperatorKeyRetired means that no consent is given under the key any more and
// that none is left that needs it.
type OperatorKeyRetired struct {
	Key    domain.Hash `json:"key"`
	Reason string      `json:"reason"`
}

// OperatorKey returns what stands for an operator secret in public: a MAC under
// it, which says nothing of it and tells it from any other.
func OperatorKey(secret domain.Hash) domain.Hash {
	return domain.MAC(secret, domain.NewEnc("karatum/mystery/operator-key/v1"))
}

// Paused means that no task of the scope is sent until it is Resumed. Pauses of
// several scopes stand side by side.
type Paused struct {
	Scope  Scope  `json:"scope"`
	Reason string `json:"reason"`
}

// Resumed means that the pause of this very scope is over.
type Resumed struct {
	Scope  Scope  `json:"scope"`
	Reason string `json:"reason"`
}

// MaintainerRegistered means that a person may act on incidents and findings, under a
// personal Ed25519 key; see package maintainer.
type MaintainerRegistered struct {
	Name string      `json:"name"`
	Key  domain.Hash `json:"key"` // public
}

// MaintainerRetired means that nothing signed under the key counts any more. What was
// done before stands.
type MaintainerRetired struct {
	Name   string      `json:"name"`
	Key    domain.Hash `json:"key"`
	Reason string      `json:"reason"`
}

// ConfigChanged means that the operator changed a setting that shows in public.
type ConfigChanged struct {
	Setting Setting `json:"setting"`
	Value   string  `json:"value"`
}

// A Setting is one that is recorded.
type Setting string

// IncidentSeverity is the setting of how grave a wrong answer is taken to be in an
// incident: medium, as the profile has it, or high.
const IncidentSeverity Setting = "incident_severity"

// Values of IncidentSeverity.
const (
	MediumSeverity = "medium" // until anything else is recorded
	HighSeverity   = "high"
)

// EventType implements [domain.Event].
func (TermsPublished) EventType() domain.Type { return "programme.terms_published.v1" }

// EventType implements [domain.Event].
func (PoolPublished) EventType() domain.Type { return "programme.pool_published.v1" }

// EventType implements [domain.Event].
func (CataloguePublished) EventType() domain.Type { return "programme.catalogue_published.v1" }

// EventType implements [domain.Event].
func (OperatorKeyRegistered) EventType() domain.Type { return "programme.operator_key_registered.v1" }

// EventType implements [domain.Event].
func (OperatorKeyRetired) EventType() domain.Type { return "programme.operator_key_retired.v1" }

// EventType implements [domain.Event].
func (Paused) EventType() domain.Type { return "programme.paused.v1" }

// EventType implements [domain.Event].
func (Resumed) EventType() domain.Type { return "programme.resumed.v1" }

// EventType implements [domain.Event].
func (MaintainerRegistered) EventType() domain.Type { return "programme.maintainer_registered.v1" }

// EventType implements [domain.Event].
func (MaintainerRetired) EventType() domain.Type { return "programme.maintainer_retired.v1" }

// EventType implements [domain.Event].
func (ConfigChanged) EventType() domain.Type { return "programme.config_changed.v1" }

func (MaintainerRegistered) programmeEvent()  {}
func (MaintainerRetired) programmeEvent()     {}
func (ConfigChanged) programmeEvent()         {}
func (TermsPublished) programmeEvent()        {}
func (PoolPublished) programmeEvent()         {}
func (CataloguePublished) programmeEvent()    {}
func (OperatorKeyRegistered) programmeEvent() {}
func (OperatorKeyRetired) programmeEvent()    {}
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
	Keys      []domain.Hash // of all operator secrets at hand, the current one last

	// IncidentSeverity is how the setting of that name is configured; "" leaves it.
	IncidentSeverity string
}

// RegisterKey asks to let consents be given under an operator key.
type RegisterKey OperatorKeyRegistered

// RetireKey asks to give up an operator key.
type RetireKey struct {
	Key    domain.Hash
	Reason string
	Needed []string // consents with something left to do that its secret is needed for
}

// Pause asks to hold back all tasks of a scope.
type Pause Paused

// Resume asks to send them again.
type Resume Resumed

// RegisterMaintainer asks to let a person act under a key.
type RegisterMaintainer MaintainerRegistered

// RetireMaintainer asks that nothing signed under that key count any more.
type RetireMaintainer struct{ Name, Reason string }

func (RegisterMaintainer) programmeCommand() {}
func (RetireMaintainer) programmeCommand()   {}
func (Publish) programmeCommand()            {}
func (RegisterKey) programmeCommand()        {}
func (RetireKey) programmeCommand()          {}
func (Pause) programmeCommand()              {}
func (Resume) programmeCommand()             {}

// Check returns nil if the pause would hold something back and says why, else an
// error matching [domain.ErrInvalid]. It is asked before the gate is shut.
func (p Pause) Check() error {
	if err := p.Scope.Check(); err != nil {
		return err
	}
	return domain.CheckReason(p.Reason)
}

// Check returns nil if the resumption says why, else an error matching
// [domain.ErrInvalid].
func (r Resume) Check() error { return domain.CheckReason(r.Reason) }

// A Key is an operator key that was registered.
type Key struct {
	ID      domain.Hash
	Retired bool
}

// State is what holds now.
type State struct {
	Terms     TermsPublished
	Pool      PoolPublished
	Catalogue CataloguePublished
	Keys      []Key    // in order of registration
	Paused    []Paused // in order of their beginning, each scope once

	Maintainers      []Maintainer // in order of registration
	IncidentSeverity string       // "" if never recorded
}

// A Maintainer is a person who was registered.
type Maintainer struct {
	Name    string
	Key     domain.Hash
	Retired bool
}

// Maintained reports whether a person may act under a key now.
func (s State) Maintained(name string, key domain.Hash) bool {
	return slices.Contains(s.Maintainers, Maintainer{Name: name, Key: key})
}

// HighSeverity reports whether a wrong answer is taken for more than the profile of
// incidents does.
func (s State) HighSeverity() bool { return s.IncidentSeverity == HighSeverity }

// InForce reports whether consents may be given under an operator key: it is
// registered and not retired.
func (s State) InForce(key domain.Hash) bool { return slices.Contains(s.Keys, Key{ID: key}) }

func (s State) registered(key domain.Hash) bool {
	return slices.ContainsFunc(s.Keys, func(k Key) bool { return k.ID == key })
}

func (s State) paused(scope Scope) bool {
	return slices.ContainsFunc(s.Paused, func(p Paused) bool { return p.Scope == scope })
}

// Decider is the life of the programme.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Publish:
		return publish(s, c)
	case RegisterKey:
		return register(s, c.Key)
	case RetireKey:
		return retire(s, c)
	case Pause:
		if err := c.Check(); err != nil || s.paused(c.Scope) {
			return nil, err
		}
		return []Event{Paused(c)}, nil
	case Resume:
		if err := c.Check(); err != nil || !s.paused(c.Scope) {
			return nil, err
		}
		return []Event{Resumed(c)}, nil
	case RegisterMaintainer:
		return registerMaintainer(s, c)
	case RetireMaintainer:
		return retireMaintainer(s, c)
	}
	panic(fmt.Sprintf("programme: unreachable command %T", c))
}

// publish records what is new. A version that was published with another hash
// is refused, as somebody changed a text and forgot its number.
func publish(s State, c Publish) ([]Event, error) {
	events, err := takeUp(s, c.Keys)
	if err != nil {
		return nil, err
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
	return s.configure(c, events)
}

// configure appends what is configured otherwise than before.
func (s State) configure(c Publish, events []Event) ([]Event, error) {
	before := s.IncidentSeverity
	if before == "" {
		before = MediumSeverity
	}
	switch c.IncidentSeverity {
	case "", before:
	case MediumSeverity, HighSeverity:
		events = append(events, ConfigChanged{IncidentSeverity, c.IncidentSeverity})
	default:
		return nil, invalid("the severity of incidents is medium or high, not %q", c.IncidentSeverity)
	}
	return events, nil
}

// maxMaintainer is how long the name of a maintainer may be.
const maxMaintainer = 64

func registerMaintainer(s State, c RegisterMaintainer) ([]Event, error) {
	switch {
	case !domain.Printable(c.Name, maxMaintainer):
		return nil, invalid("a maintainer has a name of 1 to %d printable ASCII characters", maxMaintainer)
	case c.Key.IsZero():
		return nil, invalid("a maintainer has an Ed25519 key; karatum-mystery programme maintainer-key makes one")
	case s.Maintained(c.Name, c.Key):
		return nil, nil
	}
	for _, m := range s.Maintainers {
		switch {
		case m.Key == c.Key:
			return nil, fmt.Errorf("this key was registered for %s already; let everybody have one of their own: %w", m.Name, domain.ErrConflict)
		case m.Name == c.Name && !m.Retired:
			return nil, fmt.Errorf("%s has a key; retire it first: %w", c.Name, domain.ErrConflict)
		}
	}
	return []Event{MaintainerRegistered(c)}, nil
}

func retireMaintainer(s State, c RetireMaintainer) ([]Event, error) {
	if err := domain.CheckReason(c.Reason); err != nil {
		return nil, err
	}
	known := false
	for _, m := range s.Maintainers {
		if m.Name != c.Name {
			continue
		}
		if !m.Retired {
			return []Event{MaintainerRetired{m.Name, m.Key, c.Reason}}, nil
		}
		known = true
	}
	if !known {
		return nil, fmt.Errorf("there is no maintainer %q; karatum-mystery programme status lists them: %w", c.Name, domain.ErrNotFound)
	}
	return nil, nil
}

// takeUp registers the operator keys that are new. Secrets of which the ledger
// knows none were made for another one.
func takeUp(s State, keys []domain.Hash) ([]Event, error) {
	if len(s.Keys) > 0 && !slices.ContainsFunc(keys, s.registered) {
		return nil, fmt.Errorf("this is not an operator secret of this ledger; restore the one that it was begun with, "+
			"for no sealed plan can be opened without it: %w", domain.ErrConflict)
	}
	var events []Event
	for i, key := range keys {
		if s.registered(key) && i < len(keys)-1 {
			continue // retired or not: what was sealed under it is opened with it
		}
		more, err := register(s, key)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

func register(s State, key domain.Hash) ([]Event, error) {
	switch {
	case s.InForce(key):
		return nil, nil
	case s.registered(key):
		return nil, fmt.Errorf("operator key %s is retired for good; put another secret behind it, "+
			"or let karatum-mystery programme rotate-key make one: %w", key, domain.ErrConflict)
	}
	return []Event{OperatorKeyRegistered{Key: key}}, nil
}

// retire gives up a key that nothing hangs on any more. The newest stays, for
// new consents need one.
func retire(s State, c RetireKey) ([]Event, error) {
	if err := domain.CheckReason(c.Reason); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.ID == c.Key })
	switch {
	case i < 0:
		return nil, fmt.Errorf("there is no operator key %s; karatum-mystery programme status lists them: %w", c.Key, domain.ErrNotFound)
	case s.Keys[i].Retired:
		return nil, nil
	case !slices.ContainsFunc(s.Keys[i+1:], func(k Key) bool { return !k.Retired }):
		return nil, fmt.Errorf("%s is the newest operator key in force; "+
			"rotate first, and restart the service: %w", c.Key, domain.ErrConflict)
	case len(c.Needed) > 0:
		return nil, fmt.Errorf("operator key %s is needed until nothing is left to do under %s: %w",
			c.Key, strings.Join(c.Needed, ", "), domain.ErrConflict)
	}
	return []Event{OperatorKeyRetired{Key: c.Key, Reason: c.Reason}}, nil
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
		s.Keys = append(slices.Clip(s.Keys), Key{ID: e.Key})
	case OperatorKeyRetired:
		s.Keys = slices.Clone(s.Keys)
		for i := range s.Keys {
			s.Keys[i].Retired = s.Keys[i].Retired || s.Keys[i].ID == e.Key
		}
	case Paused:
		s.Paused = append(slices.Clip(s.Paused), e)
	case Resumed:
		s.Paused = slices.DeleteFunc(slices.Clone(s.Paused), func(p Paused) bool { return p.Scope == e.Scope })
	case MaintainerRegistered:
		s.Maintainers = append(slices.Clip(s.Maintainers), Maintainer{Name: e.Name, Key: e.Key})
	case MaintainerRetired:
		s.Maintainers = slices.Clone(s.Maintainers)
		for i := range s.Maintainers {
			s.Maintainers[i].Retired = s.Maintainers[i].Retired || s.Maintainers[i].Key == e.Key
		}
	case ConfigChanged:
		if e.Setting == IncidentSeverity {
			s.IncidentSeverity = e.Value
		}
	}
	return s
}
