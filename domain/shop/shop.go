// Package shop records what becomes of one slot of a plan: committed, and if it
// is a real task sent, talked over with the agent, answered and marked, or missed or
// cancelled, and in the end revealed.
//
// Its stream is shop/<shop id>. Everything between the commit and the reveal is
// sealed; [Revealed] carries those records byte for byte, so that the hash chain
// of the stream can be checked from public data. A pad has a commit and nothing
// else.
package shop

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Committed](domain.Public),
	domain.Current[Sent](domain.Sealed),
	domain.Current[PaymentReserved](domain.Sealed),
	domain.Current[PaymentSettled](domain.Sealed),
	domain.Current[SessionOpened](domain.Sealed),
	domain.Current[SessionAction](domain.Sealed),
	domain.Current[SessionClosed](domain.Sealed),
	domain.Current[Replied](domain.Sealed),
	domain.Current[Judged](domain.Sealed),
	domain.Current[Missed](domain.Sealed),
	domain.Current[Cancelled](domain.Sealed),
	domain.Current[Revealed](domain.Public),
	domain.Current[Erased](domain.Public),
}

// ReplyKey is the key of the body of a shop's reply, which lies beside the log.
func ReplyKey(id string) string { return "reply/" + id }

// StreamOf names the stream of a shop.
func StreamOf(id string) ledger.Stream { return ledger.Stream("shop/" + id) }

// An Event is a step in the life of a slot.
//
//sumtype:decl
type Event interface {
	domain.Event
	shopEvent()
}

// Committed means that the slot's content is fixed. It reads the same for a real
// task and for a pad.
type Committed struct {
	Consent string      `json:"consent"`
	Day     uint32      `json:"day"`
	Slot    int         `json:"slot"`
	Commit  domain.Hash `json:"commit"`
}

// Sent means that the task is about to leave: it is appended before the first
// byte of the request, and never a second time.
type Sent struct {
	Endpoint        string      `json:"endpoint"`
	Identity        uint32      `json:"identity"`
	Template        string      `json:"template"`
	TemplateVersion uint32      `json:"templateVersion"`
	Ask             domain.Hash `json:"ask"` // hash of what is asked, with {block} for a block that was not known

	// Filled completes a task whose answer was not known when it was planned.
	Filled task.Filled `json:"filled,omitzero"`
}

// Replied means that an answer came, and commits to it before anything looks at
// it. The bytes and the salt lie beside the log.
type Replied struct {
	Hash         domain.Hash `json:"hash"`
	ReceivedAtMs int64       `json:"receivedAtMs"` // Unix milliseconds
	Status       int         `json:"status"`       // HTTP
	LatencyMs    int64       `json:"latencyMs"`
	Size         int         `json:"size"`   // bytes
	Answer       bool        `json:"answer"` // the bytes are the answer's text, and not what came in place of one
}

// Judged means that the task has an outcome. Where it points into the reply, it
// does so by offset and length.
type Judged struct {
	Outcome task.Outcome `json:"outcome"`
	Rule    string       `json:"rule"`    // the grader's rule, or the code of an error or block
	Literal task.Outcome `json:"literal"` // by the plain rule, "" without a graded reply
	Offset  int          `json:"offset"`
	Length  int          `json:"length"`
	Grader  uint32       `json:"grader"` // version
}

// Codes of blocked that are ours. Those that have to do with the way to the agent
// are in the package of its clients.
const (
	WorkerLost      = "worker_lost"       // the worker vanished between sending and judging
	ChainReadFailed = "chain_read_failed" // the answer of a deferred task could not be found
)

// Missed means that the task was not sent in time. It is our doing.
type Missed struct {
	Reason MissedReason `json:"reason"`
}

// A MissedReason says why a task was not sent in time.
type MissedReason string

// Missed reasons.
const (
	OperatorLate MissedReason = "operator_late" // nobody sent it within its window
	Paused       MissedReason = "paused"        // a scope that it falls under was
	ProofStale   MissedReason = "proof_stale"   // the host could not be asked lately whose it is
	Unattested   MissedReason = "unattested"    // the commits of its day were not attested on the chain
	HostBusy     MissedReason = "host_busy"     // the host had others until it was too late, over all consents, or wanted none
)

// Cancelled means that the task must not be sent any more.
type Cancelled struct {
	Reason CancelReason `json:"reason"`
}

// A CancelReason says why a task must not be sent.
type CancelReason string

// Cancel reasons.
const (
	ConsentOver CancelReason = "consent_over"
	HostLost    CancelReason = "host_lost"
)

// Revealed opens the slot: everything needed to recompute the commit and to mark
// the reply again.
type Revealed struct {
	Consent         string          `json:"consent"`
	Agent           agent.Ref       `json:"agent"`
	Day             uint32          `json:"day"`
	Slot            int             `json:"slot"`
	Seed            domain.Hash     `json:"seed"`
	Template        string          `json:"template"`
	TemplateVersion uint32          `json:"templateVersion"`
	Family          string          `json:"family"`
	Endpoint        string          `json:"endpoint"`
	Entry           task.Entry      `json:"entry"`
	Identity        uint32          `json:"identity"`
	SourceAddresses []string        `json:"sourceAddresses"`
	SendAt          int64           `json:"sendAt"` // planned, Unix seconds
	Prompt          string          `json:"prompt"`
	Ask             task.Ask        `json:"ask"`
	Expected        task.Expected   `json:"expected"`
	Filled          task.Filled     `json:"filled,omitzero"` // into a deferred task; the three before are filled in
	Result          Result          `json:"result"`
	Records         []ledger.Record `json:"records"` // the sealed records of the stream, in order

	// Pinned is zero if the slot had no seal between its end and its reveal.
	Pinned Pinned `json:"seal,omitzero"`

	// Unanchored says that this seal was not attested on the chain when the slot was
	// revealed: by two hours after it was due, or when the consent was over. Where
	// seals are attested nowhere, it says nothing.
	Unanchored bool `json:"unanchored,omitzero"`
}

// Pinned shows that an hourly seal found the stream of the slot at the last of its
// sealed records, before any of them was revealed. The place of the slot in the seal
// follows from hour, day and slot; the root is the one that was published.
type Pinned struct {
	Hour uint64        `json:"hour"` // counted from 1970
	Salt domain.Hash   `json:"salt"` // of the slot's leaf
	Path []domain.Hash `json:"path"` // RFC 6962
}

// A Result is how a slot ended: an outcome of the agent, or why it had no chance.
type Result struct {
	State     State        `json:"state"` // judged, missed or cancelled
	Outcome   task.Outcome `json:"outcome"`
	Rule      string       `json:"rule"`
	Literal   task.Outcome `json:"literal"`
	LatencyMs int64        `json:"latencyMs"`
	ReplyHash domain.Hash  `json:"replyHash"` // zero without a reply
}

// Erased means that reply, session and their salts, which lie beside the log, are gone,
// and why. What commits to them stays, as do all proofs; nobody can tell any more what
// it commits to. Only what was revealed can be erased: before, the event would tell
// that there is a reply.
type Erased struct {
	Reason string `json:"reason"`
}

// EventType implements [domain.Event].
func (Committed) EventType() domain.Type { return "shop.committed.v1" }

// EventType implements [domain.Event].
func (Sent) EventType() domain.Type { return "shop.sent.v1" }

// EventType implements [domain.Event].
func (Replied) EventType() domain.Type { return "shop.replied.v1" }

// EventType implements [domain.Event].
func (Judged) EventType() domain.Type { return "shop.judged.v1" }

// EventType implements [domain.Event].
func (Missed) EventType() domain.Type { return "shop.missed.v1" }

// EventType implements [domain.Event].
func (Cancelled) EventType() domain.Type { return "shop.cancelled.v1" }

// EventType implements [domain.Event].
func (Revealed) EventType() domain.Type { return "shop.revealed.v1" }

// EventType implements [domain.Event].
func (Erased) EventType() domain.Type { return "shop.erased.v1" }

func (Committed) shopEvent() {}
func (Sent) shopEvent()      {}
func (Replied) shopEvent()   {}
func (Judged) shopEvent()    {}
func (Missed) shopEvent()    {}
func (Cancelled) shopEvent() {}
func (Revealed) shopEvent()  {}
func (Erased) shopEvent()    {}

// A State is a place in the life of a slot.
type State string

// States. Judged, missed and cancelled are terminal; a slot in one of them can be
// revealed. Beside that a slot may be paying, see [State.Paying].
const (
	StateNone      State = ""
	StateCommitted State = "committed"
	StateSent      State = "sent"
	StateConversed State = "conversed" // the conversation with the agent is over and on record
	StateReplied   State = "replied"
	StateJudged    State = "judged"
	StateMissed    State = "missed"
	StateCancelled State = "cancelled"
	StateRevealed  State = "revealed"
	StateErased    State = "erased"
)

// A Command asks for the next step of a slot.
//
//sumtype:decl
type Command interface{ shopCommand() }

// Commit asks to record the slot's commit.
type Commit Committed

// Send asks for leave to send the task.
type Send Sent

// Reply asks to commit to an answer.
type Reply Replied

// Judge asks to record the outcome.
type Judge Judged

// Miss asks to record that the task was not sent in time.
type Miss Missed

// Cancel asks to record that the task must not be sent.
type Cancel Cancelled

// Reveal asks to open the slot.
type Reveal Revealed

// Erase asks to record that the reply is erased.
type Erase Erased

func (Commit) shopCommand() {}
func (Send) shopCommand()   {}
func (Reply) shopCommand()  {}
func (Judge) shopCommand()  {}
func (Miss) shopCommand()   {}
func (Cancel) shopCommand() {}
func (Reveal) shopCommand() {}
func (Erase) shopCommand()  {}

// Decider is the life of a slot.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Commit:
		if s != StateNone {
			return nil, nil // completed before
		}
		return []Event{Committed(c)}, nil
	case Send:
		return step(s, Sent(c), StateCommitted)
	case Reserve:
		return reserve(s, c)
	case Settle:
		return settle(s, c)
	case Reply:
		return step(s, Replied(c), StateConversed)
	case Converse:
		return converse(s, c)
	case Judge:
		switch c.Rule {
		case ChainReadFailed: // before anything is sent, or of a payment that the reply asks for again
			return step(s, Judged(c), StateCommitted, StateReplied)
		case WorkerLost: // and with it what it saw
			return step(s, Judged(c), StateSent, StateConversed, StateReplied)
		}
		return step(s, Judged(c), StateConversed, StateReplied)
	case Miss:
		return step(s, Missed(c), StateCommitted)
	case Cancel:
		return step(s, Cancelled(c), StateCommitted)
	case Reveal:
		if s == StateRevealed || s == StateErased {
			return nil, nil
		}
		if s.Paying() {
			return nil, fmt.Errorf("it is not known yet what became of the payment for this slot: %w", domain.ErrConflict)
		}
		return step(s, Revealed(c), StateJudged, StateMissed, StateCancelled)
	case Erase:
		return erase(s, c)
	}
	panic(fmt.Sprintf("shop: unreachable command %T", c))
}

// maxReason is how many characters a reason has at most.
const maxReason = 400

func erase(s State, c Erase) ([]Event, error) {
	switch {
	case s == StateErased:
		return nil, nil
	case s != StateRevealed && s != StateNone:
		return nil, fmt.Errorf("this slot is not revealed; to erase something of it would tell that it holds something: %w", domain.ErrConflict)
	case strings.TrimSpace(c.Reason) == "", !utf8.ValidString(c.Reason), strings.ContainsFunc(c.Reason, unicode.IsControl),
		utf8.RuneCountInString(c.Reason) > maxReason:
		return nil, fmt.Errorf("the reason of an erasure is one line of up to %d characters: %w", maxReason, domain.ErrInvalid)
	}
	return step(s, Erased(c), StateRevealed)
}

func step(s State, e Event, from ...State) ([]Event, error) {
	if slices.Contains(from, s.Plain()) {
		return []Event{e}, nil
	}
	if s == StateNone {
		return nil, fmt.Errorf("%s: this slot was never committed: %w", e.EventType(), domain.ErrNotFound)
	}
	return nil, fmt.Errorf("%s: this slot is %s already: %w", e.EventType(), s, domain.ErrConflict)
}

func evolve(s State, e Event) State {
	switch e.(type) {
	case Committed:
		return StateCommitted
	case Sent:
		return StateSent
	case PaymentReserved:
		return s.Pay()
	case PaymentSettled:
		return s.Plain()
	case SessionOpened, SessionAction, SessionClosed:
		return s.Then(StateConversed)
	case Replied:
		return s.Then(StateReplied)
	case Judged:
		return s.Then(StateJudged)
	case Missed:
		return StateMissed
	case Cancelled:
		return StateCancelled
	case Revealed:
		return StateRevealed
	case Erased:
		return StateErased
	}
	panic(fmt.Sprintf("shop: unreachable event %T", e))
}

// With returns r as it is after one more event of the slot.
func (r Result) With(e domain.Event) Result {
	switch e := e.(type) {
	case Replied:
		r.LatencyMs, r.ReplyHash = e.LatencyMs, e.Hash
	case Judged:
		r.State, r.Outcome, r.Rule, r.Literal = StateJudged, e.Outcome, e.Rule, e.Literal
	case Missed:
		r.State, r.Rule = StateMissed, string(e.Reason)
	case Cancelled:
		r.State, r.Rule = StateCancelled, string(e.Reason)
	}
	return r
}
