// Package session records what happened in the sessions of an agent, step by step, as
// those tell who ran them: runs of Shield, certification trials, and sessions of the
// agent at work. Conversations of the shopper are in the streams of their shops.
//
// The stream of a session is session/<id>. It is opened, has actions, which count from
// 0 without gaps, and is closed with their number and with the root of an RFC 9162 tree
// over their digests. All of its events are of the producer that opened it. What went
// in and out of an action is told by hashes alone.
package session

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/producer"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Opened](domain.Public),
	domain.Current[ActionRecorded](domain.Public),
	domain.Current[Closed](domain.Public),
}

// StreamOf names the stream of a session.
func StreamOf(id string) ledger.Stream { return ledger.Stream("session/" + id) }

// An Event is something that happened in a session.
//
//sumtype:decl
type Event interface {
	producer.Source
	sessionEvent()
}

// Opened means that a session has begun.
type Opened struct {
	Session   string          `json:"session"`
	Agent     agent.Ref       `json:"agent"`
	Kind      Kind            `json:"kind"`
	Parent    string          `json:"parent"` // the case or the trial that it is of; empty for a Runtime session
	Policy    domain.Hash     `json:"policy"` // hash of the rules that hold in it
	StartedAt producer.Moment `json:"startedAt"`
	Refs      Refs            `json:"refs"`

	producer.Signed `json:"signed,omitzero"`
}

// A Kind says what a session is for.
type Kind string

// The kinds of sessions. What a Runtime session tells of an agent comes from the agent
// itself.
const (
	Trial   Kind = "trial"
	Shield  Kind = "shield"
	Runtime Kind = "runtime"
)

// Refs are names that the session has elsewhere; empty if it has none.
type Refs struct {
	A2AContext string `json:"a2aContext"`
	MCPSession string `json:"mcpSessionHash"`
	Trace      string `json:"trace"`
}

// ActionRecorded is one step of a session.
type ActionRecorded struct {
	Session    string          `json:"session"`
	N          int64           `json:"n"`
	Actor      Actor           `json:"actor"`
	Action     Action          `json:"action"`
	Name       string          `json:"name"` // of a tool or the like
	Call       string          `json:"call"` // which call the step belongs to; empty if to none
	Input      domain.Hash     `json:"input"`
	Output     domain.Hash     `json:"output"`
	Decision   Decision        `json:"decision"`
	Cost       *Cost           `json:"cost"`
	At         producer.Moment `json:"at"`
	DurationMs int64           `json:"durationMs"`
	Operation  string          `json:"operation"` // of OpenTelemetry: invoke_agent, execute_tool, chat, or empty
	Span       string          `json:"span"`

	producer.Signed `json:"signed,omitzero"`
}

// An Actor is who acts.
type Actor string

// An Action is what is done.
type Action string

// A Decision is what the rules of the session say to a step.
type Decision string

// Actions and decisions that others depend on.
const (
	ToolCall       Action = "tool_call"
	ToolResult     Action = "tool_result"
	PaymentQuote   Action = "payment_quote"
	PaymentSettled Action = "payment_settled"

	Deny Decision = "deny"
)

var (
	actors  = []Actor{"agent", "counterpart", "system", "human"}
	actions = []Action{
		"message", ToolCall, ToolResult, PaymentQuote, PaymentSettled, "state_read", "state_write", "policy_decision", "handoff", "error",
	}
	decisions  = []Decision{"allow", Deny, "none"}
	operations = []string{"", "invoke_agent", "execute_tool", "chat"}
	reasons    = []Reason{"completed", "timeout", "revoked", "killed", "error"}
)

// A Cost is what is asked for or paid, in atomic units of an asset.
type Cost struct {
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
}

// Closed means that nothing more happens in the session. Root is that of the RFC 9162
// tree with the [producer.Digest] of each action as a leaf.
type Closed struct {
	Session string      `json:"session"`
	Reason  Reason      `json:"reason"`
	Count   int64       `json:"count"`
	Root    domain.Hash `json:"root"`

	producer.Signed `json:"signed,omitzero"`
}

// A Reason is why a session ended.
type Reason string

// EventType implements [domain.Event].
func (Opened) EventType() domain.Type { return "session.opened.v1" }

// EventType implements [domain.Event].
func (ActionRecorded) EventType() domain.Type { return "session.action_recorded.v1" }

// EventType implements [domain.Event].
func (Closed) EventType() domain.Type { return "session.closed.v1" }

func (Opened) sessionEvent()         {}
func (ActionRecorded) sessionEvent() {}
func (Closed) sessionEvent()         {}

// A Command asks to record something of a session.
//
//sumtype:decl
type Command interface{ sessionCommand() }

// Open asks to record that a session has begun.
type Open Opened

// RecordAction asks to record a step.
type RecordAction ActionRecorded

// Close asks to record that a session is over.
type Close Closed

func (Open) sessionCommand()         {}
func (RecordAction) sessionCommand() {}
func (Close) sessionCommand()        {}

// State is where a session stands. The zero State is one that was never opened.
type State struct {
	Session Opened
	Actions []ActionRecorded
	Denied  int // steps that were denied
	Over    *Closed

	calls  map[string]call
	quotes map[quoted]*big.Int // the latest
}

// A call is what became of the call of a tool.
type call struct{ denied, answered bool }

// A quoted is what a price was asked for.
type quoted struct{ call, asset string }

// Decider is the life of a session.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Open:
		if err := Opened(c).check(); err != nil {
			return nil, err
		}
		if s.Session.Session != "" {
			return nil, fmt.Errorf("the session %s is open already: %w", c.Session, domain.ErrConflict)
		}
		return []Event{Opened(c)}, nil
	case RecordAction:
		if err := s.takes(c.Session, c.Signed); err != nil {
			return nil, err
		}
		if next := int64(len(s.Actions)); c.N != next {
			return nil, fmt.Errorf("the next action of the session is %d, and not %d: %w", next, c.N, domain.ErrConflict)
		}
		if err := ActionRecorded(c).check(); err != nil {
			return nil, err
		}
		if err := s.follows(ActionRecorded(c)); err != nil {
			return nil, err
		}
		return []Event{ActionRecorded(c)}, nil
	case Close:
		if err := s.takes(c.Session, c.Signed); err != nil {
			return nil, err
		}
		if err := s.ends(Closed(c)); err != nil {
			return nil, err
		}
		return []Event{Closed(c)}, nil
	}
	panic(fmt.Sprintf("session: unreachable command %T", c))
}

// takes returns nil if a session goes on with an event of a producer.
func (s State) takes(session string, signed producer.Signed) error {
	switch {
	case s.Session.Session == "":
		return fmt.Errorf("this session was not opened: %w", domain.ErrNotFound)
	case s.Session.Session != session:
		return invalid("the event is of session %q, and its stream is that of %s", session, s.Session.Session)
	case s.Session.Producer != signed.Producer:
		return fmt.Errorf("the session is another producer's: %w", domain.ErrForbidden)
	case s.Over != nil:
		return fmt.Errorf("the session is closed: %w", domain.ErrConflict)
	}
	return nil
}

// follows returns nil if a step can come behind those before.
func (s State) follows(e ActionRecorded) error {
	known, called := s.calls[e.Call]
	switch e.Action {
	case ToolCall:
		if called {
			return fmt.Errorf("the call %s was made before: %w", e.Call, domain.ErrConflict)
		}
	case ToolResult:
		switch {
		case !called:
			return invalid("a result is that of a call, and there is no call %q", e.Call)
		case known.denied:
			return invalid("the call %s was denied, so it has no result", e.Call)
		case known.answered:
			return fmt.Errorf("the call %s has its result: %w", e.Call, domain.ErrConflict)
		}
	case PaymentSettled:
		amount, _ := e.Cost.amount() // as checked
		if most := s.quotes[quoted{e.Call, e.Cost.Asset}]; most == nil || amount.Cmp(most) > 0 {
			return invalid("no more is paid than was asked for before, for the same call and in the same asset")
		}
	default: // nothing has to come before
	}
	return nil
}

func (s State) ends(e Closed) error {
	if !slices.Contains(reasons, e.Reason) {
		return invalid("a session is closed for one of the reasons %v", reasons)
	}
	if n := int64(len(s.Actions)); e.Count != n {
		return invalid("the session has %d actions, and not %d", n, e.Count)
	}
	root, err := Root(s.Actions)
	if err == nil && root != e.Root {
		err = invalid("the actions of the session have the root %s", root)
	}
	return err
}

// Root returns the root of the tree over the actions of a session.
func Root(actions []ActionRecorded) (domain.Hash, error) {
	leaves := make([]domain.Hash, len(actions))
	for i, a := range actions {
		var err error
		if leaves[i], err = producer.Digest(StreamOf(a.Session), a); err != nil {
			return domain.Hash{}, err
		}
	}
	return merkle.Root(leaves), nil
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case Opened:
		s.Session = e
		s.calls, s.quotes = make(map[string]call), make(map[quoted]*big.Int)
	case ActionRecorded:
		s.Actions = append(s.Actions, e)
		s = s.act(e)
	case Closed:
		s.Over = &e
	}
	return s
}

// act returns s behind a step. It changes the maps of s.
func (s State) act(e ActionRecorded) State {
	if e.Decision == Deny {
		s.Denied++
	}
	known, called := s.calls[e.Call]
	switch {
	case e.Action == ToolCall:
		s.calls[e.Call] = call{denied: e.Decision == Deny}
	case e.Action == ToolResult:
		s.calls[e.Call] = call{answered: true}
	case e.Action == PaymentQuote:
		s.quotes[quoted{e.Call, e.Cost.Asset}], _ = e.Cost.amount()
	case called && e.Decision == Deny:
		known.denied = true
		s.calls[e.Call] = known
	}
	return s
}
