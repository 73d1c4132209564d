// Package plan records what is committed for each UTC day of a consent, and
// derives everything in it.
//
// Its stream is plan/<consent>. Every active consent has exactly one plan of 24
// commits for each day, real tasks or pads alike, sealed before the day begins
// and opened after its last reveal. The derivations (derive.go) are those of the
// two-party scheme: the operator fixed all day keys in the message that the owner
// signed, and every seed depends on the owner's signature.
package plan

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Sealed](domain.Public),
	domain.Current[Opened](domain.Public),
}

// StreamOf names the stream of the plans of a consent.
func StreamOf(consent string) ledger.Stream { return ledger.Stream("plan/" + consent) }

// An Event is a step in the life of a day's plan.
//
//sumtype:decl
type Event interface {
	domain.Event
	planEvent()
}

// Sealed means that the day's 24 slots are committed to. It alone is the plan;
// the shop.committed events are completed from it.
type Sealed struct {
	Consent  string             `json:"consent"`
	Day      uint32             `json:"day"`
	Commits  [Slots]domain.Hash `json:"commits"`
	Eligible domain.Hash        `json:"eligible"` // H(JCS) of the list that the choices were made from
}

// Opened means that the day key is published with its path to the root the owner
// signed: from now on anybody can recompute the day. Days without a plan
// are opened too, with Planned false.
type Opened struct {
	Consent  string        `json:"consent"`
	Day      uint32        `json:"day"`
	Planned  bool          `json:"planned"`
	Key      domain.Hash   `json:"key"`
	Path     []domain.Hash `json:"path"`
	Cap      int           `json:"cap"`
	Count    int           `json:"count"`
	Eligible Eligible      `json:"eligible"`
	Surfaces []Surface     `json:"surfaces"`
	Notes    []Note        `json:"notes"` // what was not shopped, and why
}

// A Surface names the body that an endpoint's part of the list was made from, or would
// have been.
type Surface struct {
	Endpoint string      `json:"endpoint"`
	Hash     domain.Hash `json:"hash"`
}

// EventType implements [domain.Event].
func (Sealed) EventType() domain.Type { return "plan.sealed.v1" }

// EventType implements [domain.Event].
func (Opened) EventType() domain.Type { return "plan.opened.v1" }

func (Sealed) planEvent() {}
func (Opened) planEvent() {}

// A Command asks for a step of a day's plan.
//
//sumtype:decl
type Command interface{ planCommand() }

// Seal asks to commit to a day.
type Seal Sealed

// Open asks to publish a day's key.
type Open Opened

func (Seal) planCommand() {}
func (Open) planCommand() {}

// State is which days of a consent are sealed and opened.
type State struct {
	Days map[uint32]Sealed
	Open map[uint32]bool
}

// Decider is the life of the plans of one consent.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Seal:
		if have, ok := s.Days[c.Day]; ok && have != Sealed(c) {
			return nil, fmt.Errorf("another plan of %s is sealed for %s: %w", domain.DayString(c.Day), c.Consent, domain.ErrConflict)
		} else if ok {
			return nil, nil
		}
		if s.Open[c.Day] {
			return nil, fmt.Errorf("day %s of %s is opened already: %w", domain.DayString(c.Day), c.Consent, domain.ErrConflict)
		}
		return []Event{Sealed(c)}, nil
	case Open:
		if s.Open[c.Day] {
			return nil, nil
		}
		if _, planned := s.Days[c.Day]; planned != c.Planned {
			return nil, fmt.Errorf("day %s of %s: planned is %t: %w", domain.DayString(c.Day), c.Consent, planned, domain.ErrConflict)
		}
		if err := checkNotes(c.Notes); err != nil {
			return nil, err
		}
		return []Event{Opened(c)}, nil
	}
	panic(fmt.Sprintf("plan: unreachable command %T", c))
}

func evolve(s State, e Event) State {
	if s.Days == nil {
		s.Days, s.Open = make(map[uint32]Sealed), make(map[uint32]bool)
	}
	switch e := e.(type) {
	case Sealed:
		s.Days[e.Day] = e
	case Opened:
		s.Open[e.Day] = true
	}
	return s
}

// Eligible is the list that a day's endpoint, template and entry are chosen
// from: every list sorted bytewise, what leaves no choice left out.
type Eligible struct {
	Endpoints []EligibleEndpoint `json:"endpoints"`
}

// An EligibleEndpoint is an endpoint with at least one template it can take.
type EligibleEndpoint struct {
	ID        string             `json:"id"`
	Templates []EligibleTemplate `json:"templates"`
}

// An EligibleTemplate is a template and the skills or tools that can take it.
type EligibleTemplate struct {
	ID      string   `json:"id"`
	Version uint32   `json:"version"`
	Entries []string `json:"entries"`
}

// Bytes returns the canonical JSON of the list, whose hash stands in [Sealed].
func (l Eligible) Bytes() ([]byte, error) { return domain.Canonical(l) }

// A Choice is what a seed picks from a list: H(seed) decides, nobody else.
type Choice struct {
	Endpoint string
	Template string
	Version  uint32
	Entry    string
}

// Choose returns the choice of a seed. The list must not be empty.
func (l Eligible) Choose(seed domain.Hash) Choice {
	e := l.Endpoints[U(seed, "endpoint", uint64(len(l.Endpoints)))]
	t := e.Templates[U(seed, "template", uint64(len(e.Templates)))]
	n := t.Entries[U(seed, "tool", uint64(len(t.Entries)))]
	return Choice{Endpoint: e.ID, Template: t.ID, Version: t.Version, Entry: n}
}

// Empty reports whether the list leaves nothing to choose: the day's cap is then 0.
func (l Eligible) Empty() bool { return len(l.Endpoints) == 0 }

// An Offer is an endpoint of a consent and what it was last seen to show.
type Offer struct {
	ID      string // ep_0, ep_1, …
	Surface task.Surface

	LeftOut bool   // its kind is not in scope
	Unread  bool   // it showed nothing in time
	Cause   string // of that, as far as it is known: a code
}

// Means is what the operator is able to do besides asking.
type Means struct {
	Pays        bool // there is an account that could pay
	ReadsChains bool // the chains that tasks ask about can be read
}
