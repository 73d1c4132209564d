package seal

import (
	"fmt"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Sealed](domain.Public),
}

// StreamOf names the stream of the seals of a consent.
func StreamOf(consent string) ledger.Stream { return ledger.Stream("seal/" + consent) }

// An Event is a step in the life of a consent's seals.
//
//sumtype:decl
type Event interface {
	domain.Event
	sealEvent()
}

// Sealed means that the 48 slots of yesterday and today were found as [Root] says.
type Sealed struct {
	Consent string      `json:"consent"`
	Hour    uint64      `json:"hour"` // counted from 1970
	Root    domain.Hash `json:"root"`
}

// EventType implements [domain.Event].
func (Sealed) EventType() domain.Type { return "seal.sealed.v1" }

func (Sealed) sealEvent() {}

// A Command asks for a step of a consent's seals.
//
//sumtype:decl
type Command interface{ sealCommand() }

// Seal asks to record a seal.
type Seal Sealed

func (Seal) sealCommand() {}

// State is what the last seal was.
type State struct {
	last *Sealed
}

// Decider is the life of the seals of one consent: hours only go on.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Seal:
		switch {
		case s.last == nil, s.last.Hour < c.Hour:
			return []Event{Sealed(c)}, nil
		case *s.last == Sealed(c):
			return nil, nil
		}
		return nil, fmt.Errorf("hour %d of %s was sealed or passed already; its seal stays what it is: %w", c.Hour, c.Consent, domain.ErrConflict)
	}
	panic(fmt.Sprintf("seal: unreachable command %T", c))
}

func evolve(s State, e Event) State {
	if e, ok := e.(Sealed); ok {
		s.last = &e
	}
	return s
}

// HourOf returns the hour that t is in, counted from 1970.
func HourOf(t time.Time) uint64 {
	return uint64(t.Unix()) / secondsPerHour //nolint:gosec // nothing was sealed before 1970
}

// HourStart returns the moment at which an hour begins and its seal is made.
func HourStart(hour uint64) time.Time {
	return time.Unix(int64(hour)*secondsPerHour, 0).UTC() //nolint:gosec // good for as long as hours are made
}

const secondsPerHour = 3600

// FirstHour is the hour of the first seal of a consent whose first day is given,
// LastHour that of the last seal of one whose last day is.
func FirstHour(firstDay uint32) uint64 { return hoursPerDay * uint64(firstDay) }

// LastHour is described at [FirstHour].
func LastHour(lastDay uint32) uint64 { return hoursPerDay * (uint64(lastDay) + 1) }
