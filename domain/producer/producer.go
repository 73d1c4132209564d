// Package producer records who outside of the service may write to the ledger: the
// Shield runner, recorders of sessions, the trial harness, the registry. What they
// write carries their own signatures, see [Signed].
//
// The stream of a producer is producer/<id>. A producer has one key at a time, or two
// for as long as one follows on another. Revoking is for good.
package producer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Registered](domain.Public),
	domain.Current[KeyRotated](domain.Public),
	domain.Current[Revoked](domain.Public),
}

// StreamOf names the stream of a producer.
func StreamOf(id string) ledger.Stream { return ledger.Stream("producer/" + id) }

// Actor names a producer as the one who acted, see [ledger.Meta].
func Actor(id string) string { return "producer:" + id }

// types are the events that a producer may be allowed to write, with the category of
// their streams.
var types = map[domain.Type]string{
	"agent.certificate_recorded.v1":  "agent",
	"agent.certificate_withdrawn.v1": "agent",
	"agent.identity_verified.v1":     "agent",
	"agent.identity_withdrawn.v1":    "agent",
	"agent.owner_changed.v1":         "agent",
	"agent.registered.v1":            "agent",
	"exam.attempt_recorded.v1":       "exam",
	"exam.attempt_withdrawn.v1":      "exam",
	"session.action_recorded.v1":     "session",
	"session.closed.v1":              "session",
	"session.opened.v1":              "session",
	"shield.case_aborted.v1":         "shield-case",
	"shield.case_closed.v1":          "shield-case",
	"shield.case_opened.v1":          "shield-case",
	"shield.outcome_amended.v1":      "shield-case",
	"shield.outcome_recorded.v1":     "shield-case",
}

// Types returns the events that a producer may be allowed to write, in lexical order.
func Types() []domain.Type { return slices.Sorted(maps.Keys(types)) }

// Only reports whether producers alone write events of type t.
func Only(t domain.Type) bool { return types[t] == "session" || types[t] == "shield-case" }

// An Event is something that happened to a producer.
//
//sumtype:decl
type Event interface {
	domain.Event
	producerEvent()
}

// Registered means that a producer may write events of Types to streams whose names
// begin with one of Streams.
type Registered struct {
	Producer string        `json:"producer"`
	Key      Key           `json:"key"`
	Types    []domain.Type `json:"types"`
	Streams  []string      `json:"streams"`
}

// A Key is a key that a producer signs with.
type Key struct {
	ID        string    `json:"id"`
	Public    PublicKey `json:"public"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// KeyRotated means that a producer signs with another key. The one before holds
// until Until and no longer.
type KeyRotated struct {
	Key   Key       `json:"key"`
	Until time.Time `json:"until"`
}

// Revoked means that nothing more is taken from the producer. What it wrote before
// stays.
type Revoked struct {
	Reason string `json:"reason"`
}

// EventType implements [domain.Event].
func (Registered) EventType() domain.Type { return "producer.registered.v1" }

// EventType implements [domain.Event].
func (KeyRotated) EventType() domain.Type { return "producer.key_rotated.v1" }

// EventType implements [domain.Event].
func (Revoked) EventType() domain.Type { return "producer.revoked.v1" }

func (Registered) producerEvent() {}
func (KeyRotated) producerEvent() {}
func (Revoked) producerEvent()    {}

// A Command asks for a change of what a producer may do.
//
//sumtype:decl
type Command interface{ producerCommand() }

// Register asks to let a producer write.
type Register Registered

// RotateKey asks to replace the key of a producer.
type RotateKey KeyRotated

// Revoke asks to take nothing more from a producer.
type Revoke Revoked

func (Register) producerCommand()  {}
func (RotateKey) producerCommand() {}
func (Revoke) producerCommand()    {}

// State is what a producer may do. The zero State is one that was never registered.
type State struct {
	ID      string
	Keys    []Key // all that it ever had, the present one last
	Types   []domain.Type
	Streams []string
	Revoked bool
}

// Key returns the key with an id, whether it holds or not.
func (s State) Key(id string) (Key, bool) {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return s.Keys[i], true
}

// May returns nil if the producer may write an event of type t to stream. The error
// matches [domain.ErrForbidden].
func (s State) May(t domain.Type, stream ledger.Stream) error {
	switch {
	case s.Revoked:
		return domain.WithCode(domain.ProducerRevoked, fmt.Errorf("the producer %s is revoked: %w", s.ID, domain.ErrForbidden))
	case !slices.Contains(s.Types, t):
		return domain.WithCode(domain.TypeNotAllowed, fmt.Errorf("the producer %s may not write %s: %w", s.ID, t, domain.ErrForbidden))
	case types[t] != stream.Category(),
		!slices.ContainsFunc(s.Streams, func(prefix string) bool { return strings.HasPrefix(string(stream), prefix) }):
		return domain.WithCode(domain.StreamNotAllowed, fmt.Errorf("the producer %s may not write %s to %s: %w", s.ID, t, stream, domain.ErrForbidden))
	}
	return nil
}

// HoldsAt reports whether the key may sign at a moment.
func (k Key) HoldsAt(t time.Time) bool { return !t.Before(k.NotBefore) && t.Before(k.NotAfter) }

// Decider is the life of a producer: registered, its key rotated, revoked.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	if _, first := c.(Register); !first && s.ID == "" {
		return nil, fmt.Errorf("this producer is not registered: %w", domain.ErrNotFound)
	}
	switch c := c.(type) {
	case Register:
		return register(s, c)
	case RotateKey:
		return rotate(s, c)
	case Revoke:
		if s.Revoked {
			return nil, nil
		}
		if err := domain.CheckReason(c.Reason); err != nil {
			return nil, err
		}
		return []Event{Revoked(c)}, nil
	}
	panic(fmt.Sprintf("producer: unreachable command %T", c))
}

// Names of producers and keys stand in key ids and actors, apart by a slash.
var names = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,38}[a-z0-9])?$`)

// CheckName returns nil for a name that a producer or a key may have. The error
// matches [domain.ErrInvalid].
func CheckName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("a producer and its key have names of up to 40 lower-case letters, digits, dots and hyphens, such as shield-runner and 2026-10: %w", domain.ErrInvalid)
	}
	return nil
}

func register(s State, c Register) ([]Event, error) {
	if s.ID != "" {
		return nil, fmt.Errorf("the producer %s is registered already; rotate its key, or take another name: %w", s.ID, domain.ErrConflict)
	}
	if err := CheckName(c.Producer); err != nil {
		return nil, err
	}
	if err := c.Key.check(); err != nil {
		return nil, err
	}
	if len(c.Types) == 0 || len(c.Streams) == 0 {
		return nil, fmt.Errorf("a producer is allowed at least one type and one prefix of streams: %w", domain.ErrInvalid)
	}
	categories := make(map[string]bool)
	for i, t := range c.Types {
		category, ok := types[t]
		if !ok || slices.Contains(c.Types[:i], t) {
			return nil, fmt.Errorf("%q is no type, or named twice, that a producer may be allowed: %w", t, domain.ErrInvalid)
		}
		categories[category] = true
	}
	const maxPrefix = 200
	for i, prefix := range c.Streams {
		category, _, ok := strings.Cut(prefix, "/")
		if !ok || !categories[category] || !domain.Printable(prefix, maxPrefix) || slices.Contains(c.Streams[:i], prefix) {
			return nil, fmt.Errorf("%q is not the beginning of streams that events of its types are in, such as shield-case/, or named twice: %w", prefix, domain.ErrInvalid)
		}
	}
	return []Event{Registered(c)}, nil
}

func (k Key) check() error {
	if err := CheckName(k.ID); err != nil {
		return err
	}
	if k.NotBefore.IsZero() || !k.NotBefore.Before(k.NotAfter) {
		return fmt.Errorf("a key holds from one moment to a later one: %w", domain.ErrInvalid)
	}
	return k.Public.check()
}

func rotate(s State, c RotateKey) ([]Event, error) {
	if s.Revoked {
		return nil, fmt.Errorf("the producer %s is revoked for good; register another one: %w", s.ID, domain.ErrConflict)
	}
	for _, known := range s.Keys {
		if known.ID == c.Key.ID && known.Public == c.Key.Public && known.NotBefore.Equal(c.Key.NotBefore) {
			return nil, nil
		}
		if known.ID == c.Key.ID || known.Public == c.Key.Public {
			return nil, fmt.Errorf("the producer %s had a key %s, or these bytes as one, before; make a new one: %w", s.ID, c.Key.ID, domain.ErrConflict)
		}
	}
	if err := c.Key.check(); err != nil {
		return nil, err
	}
	if c.Until.IsZero() {
		return nil, fmt.Errorf("say until when the key before holds: %w", domain.ErrInvalid)
	}
	return []Event{KeyRotated(c)}, nil
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case Registered:
		s.ID, s.Keys, s.Types, s.Streams = e.Producer, []Key{e.Key}, e.Types, e.Streams
	case KeyRotated:
		s.Keys = slices.Clone(s.Keys)
		for i := range s.Keys {
			if s.Keys[i].NotAfter.After(e.Until) {
				s.Keys[i].NotAfter = e.Until
			}
		}
		s.Keys = append(s.Keys, e.Key)
	case Revoked:
		s.Revoked = true
	}
	return s
}
