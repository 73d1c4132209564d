// Package shield records how agents stand up to attacks, as the Shield runner tries
// them on copies of the agents.
//
// The stream of a case is shield-case/<id>. A case is opened, has outcomes, one for
// each attempt, and is closed or aborted, which is final. Once it has an outcome that
// counts it can only be closed. All of its events are of the producer that opened it.
//
// A case is about a fork, which is a copy of an agent on a fork of its chain, and never
// about a host that an owner has signed a consent for. What comes out of it is no
// attempt of an exam and no task in the field: comparisons read neither this stream nor
// anything made from it.
package shield

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[CaseOpened](domain.Public),
	domain.Current[OutcomeRecorded](domain.Public),
	domain.Current[OutcomeAmended](domain.Public),
	domain.Current[CaseClosed](domain.Public),
	domain.Current[CaseAborted](domain.Public),
}

// StreamOf names the stream of a case.
func StreamOf(id string) ledger.Stream { return ledger.Stream("shield-case/" + id) }

// An Event is something that happened to a case.
//
//sumtype:decl
type Event interface {
	producer.Source
	shieldEvent()
}

// CaseOpened means that a copy of the agent is going to be attacked. What it is
// attacked with is told by its hash alone.
type CaseOpened struct {
	Case       string      `json:"case"`
	Agent      agent.Ref   `json:"agent"`
	Target     Target      `json:"target"`
	Suite      Tool        `json:"suite"`
	Attack     Attack      `json:"attack"`
	UserTask   string      `json:"userTask"` // what the agent is at, by its name in the suite
	SeedCommit domain.Hash `json:"seedCommit"`
	Budget     Budget      `json:"budget"`

	producer.Signed `json:"signed,omitzero"`
}

// A Target is the copy that is attacked.
type Target struct {
	Kind    string      `json:"kind"` // Fork
	ChainID uint64      `json:"chainId"`
	Block   uint64      `json:"block"` // at which the chain was forked
	Fork    string      `json:"fork"`  // its id
	Image   domain.Hash `json:"image"` // of the copy
	Host    string      `json:"host"`  // host and port at which the copy was
}

// Fork is the only kind of target.
const Fork = "fork"

// A Tool is a suite of attacks, or what judges their outcomes.
type Tool struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Digest  domain.Hash `json:"digest"`
}

// An Attack is what is tried.
type Attack struct {
	Class     string      `json:"class"` // OWASP LLM or MITRE ATLAS id
	Technique string      `json:"technique"`
	Payload   domain.Hash `json:"payload"`
}

// A Budget is what an attempt may use up.
type Budget struct {
	Steps   int64  `json:"steps"`
	Seconds int64  `json:"seconds"`
	USD     string `json:"usd"`
}

// OutcomeRecorded means that an attempt has ended. Attempts count from 0.
type OutcomeRecorded struct {
	Case    string `json:"case"`
	Attempt int64  `json:"attempt"`
	Result  Result `json:"result"`

	producer.Signed `json:"signed,omitzero"`
}

// OutcomeAmended means that the result of an attempt was another one. Supersedes is the
// [producer.Digest] of the event that told of it last.
type OutcomeAmended struct {
	Case       string      `json:"case"`
	Attempt    int64       `json:"attempt"`
	Supersedes domain.Hash `json:"supersedes"`
	Result     Result      `json:"result"`
	Reason     string      `json:"reason"`
	By         string      `json:"by"`

	producer.Signed `json:"signed,omitzero"`
}

// CaseClosed means that nothing more comes. Final is the [producer.Digest] of the event
// that told last of the last attempt.
type CaseClosed struct {
	Case  string      `json:"case"`
	Final domain.Hash `json:"final"`

	producer.Signed `json:"signed,omitzero"`
}

// CaseAborted means that the case came to nothing that counts.
type CaseAborted struct {
	Case   string `json:"case"`
	Reason string `json:"reason"`

	producer.Signed `json:"signed,omitzero"`
}

// EventType implements [domain.Event].
func (CaseOpened) EventType() domain.Type { return "shield.case_opened.v1" }

// EventType implements [domain.Event].
func (OutcomeRecorded) EventType() domain.Type { return "shield.outcome_recorded.v1" }

// EventType implements [domain.Event].
func (OutcomeAmended) EventType() domain.Type { return "shield.outcome_amended.v1" }

// EventType implements [domain.Event].
func (CaseClosed) EventType() domain.Type { return "shield.case_closed.v1" }

// EventType implements [domain.Event].
func (CaseAborted) EventType() domain.Type { return "shield.case_aborted.v1" }

func (CaseOpened) shieldEvent()      {}
func (OutcomeRecorded) shieldEvent() {}
func (OutcomeAmended) shieldEvent()  {}
func (CaseClosed) shieldEvent()      {}
func (CaseAborted) shieldEvent()     {}

// A Command asks for a change of a case.
//
//sumtype:decl
type Command interface{ shieldCommand() }

// Open asks to open a case. OfConsent says that the host of its target is one that an
// owner has signed a consent for.
type Open struct {
	Case      CaseOpened
	OfConsent bool
}

// RecordOutcome asks to record the result of an attempt.
type RecordOutcome OutcomeRecorded

// AmendOutcome asks to replace the result of an attempt.
type AmendOutcome OutcomeAmended

// Close asks to close a case.
type Close CaseClosed

// Abort asks to abort a case.
type Abort CaseAborted

func (Open) shieldCommand()          {}
func (RecordOutcome) shieldCommand() {}
func (AmendOutcome) shieldCommand()  {}
func (Close) shieldCommand()         {}
func (Abort) shieldCommand()         {}

// A Stage is how far a case is.
type Stage string

// The stages of a case. An empty Stage is that of one that was never opened.
const (
	Opened  Stage = "opened"
	Running Stage = "running" // no outcome so far that counts
	Decided Stage = "decided"
	Closed  Stage = "closed"
	Aborted Stage = "aborted"
)

// State is where a case stands.
type State struct {
	Stage    Stage
	Case     CaseOpened
	Attempts []Attempt
	Final    domain.Hash // once it is closed
	Reason   string      // once it is aborted
}

// An Attempt is what is known of an attempt.
type Attempt struct {
	Result  Result
	Amended int
	last    producer.Source // the event that told of it last
}

// Digest returns the [producer.Digest] of the event that told of the attempt last.
func (s State) Digest(attempt int64) (domain.Hash, error) {
	return producer.Digest(StreamOf(s.Case.Case), s.Attempts[attempt].last)
}

// Decider is the life of a case.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	if c, ok := c.(Open); ok {
		return open(s, c)
	}
	event := eventOf(c)
	switch {
	case s.Stage == "":
		return nil, fmt.Errorf("this case was not opened: %w", domain.ErrNotFound)
	case s.Case.Case != caseOf(event):
		return nil, fmt.Errorf("the event is of case %q, and its stream is that of %s: %w", caseOf(event), s.Case.Case, domain.ErrInvalid)
	case event.Proof().Producer != s.Case.Producer:
		return nil, fmt.Errorf("the case is another producer's: %w", domain.ErrForbidden)
	case s.Stage == Closed || s.Stage == Aborted:
		return nil, fmt.Errorf("the case is %s, which is final: %w", s.Stage, domain.ErrConflict)
	}
	var err error
	switch c := c.(type) {
	case RecordOutcome:
		err = record(s, OutcomeRecorded(c))
	case AmendOutcome:
		err = amend(s, OutcomeAmended(c))
	case Close:
		err = s.close(CaseClosed(c))
	case Abort:
		if s.Stage == Decided {
			return nil, fmt.Errorf("the case has an outcome that counts; close it: %w", domain.ErrConflict)
		}
		err = domain.CheckReason(c.Reason)
	case Open:
	}
	if err != nil {
		return nil, err
	}
	return []Event{event}, nil
}

func open(s State, c Open) ([]Event, error) {
	e := c.Case
	switch err := e.check(); {
	case err != nil:
		return nil, err
	case c.OfConsent:
		return nil, fmt.Errorf("an owner has signed a consent for %s: attack a copy somewhere else: %w", e.Target.Host, domain.ErrForbidden)
	case s.Stage != "":
		return nil, fmt.Errorf("the case %s is open already: %w", e.Case, domain.ErrConflict)
	}
	return []Event{e}, nil
}

func record(s State, e OutcomeRecorded) error {
	if next := int64(len(s.Attempts)); e.Attempt != next {
		return fmt.Errorf("the next attempt of the case is %d, and not %d: %w", next, e.Attempt, domain.ErrConflict)
	}
	if e.Attempt >= maxAttempts {
		return fmt.Errorf("a case has %d attempts at most: %w", maxAttempts, domain.ErrInvalid)
	}
	return e.Result.check()
}

func amend(s State, e OutcomeAmended) error {
	if e.Attempt < 0 || e.Attempt >= int64(len(s.Attempts)) {
		return fmt.Errorf("the case has no attempt %d: %w", e.Attempt, domain.ErrConflict)
	}
	last, err := s.Digest(e.Attempt)
	switch {
	case err != nil:
		return err
	case e.Supersedes != last:
		return fmt.Errorf("the result to be amended is %s: %w", last, domain.ErrConflict)
	case !domain.Printable(e.By, maxName):
		return fmt.Errorf("say by whom the result is amended, in up to %d printable ASCII characters: %w", maxName, domain.ErrInvalid)
	}
	if err := domain.CheckReason(e.Reason); err != nil {
		return err
	}
	return e.Result.check()
}

func (s State) close(e CaseClosed) error {
	if len(s.Attempts) == 0 {
		return fmt.Errorf("a case without an attempt is not closed but aborted: %w", domain.ErrConflict)
	}
	last, err := s.Digest(int64(len(s.Attempts)) - 1)
	if err == nil && e.Final != last {
		err = fmt.Errorf("the last result of the case is %s: %w", last, domain.ErrConflict)
	}
	return err
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case CaseOpened:
		s.Stage, s.Case = Opened, e
	case OutcomeRecorded:
		s.Attempts = append(slices.Clip(s.Attempts), Attempt{Result: e.Result, last: e})
		s.Stage = s.stage()
	case OutcomeAmended:
		s.Attempts = slices.Clone(s.Attempts)
		s.Attempts[e.Attempt] = Attempt{Result: e.Result, Amended: s.Attempts[e.Attempt].Amended + 1, last: e}
		s.Stage = s.stage()
	case CaseClosed:
		s.Stage, s.Final = Closed, e.Final
	case CaseAborted:
		s.Stage, s.Reason = Aborted, e.Reason
	}
	return s
}

func (s State) stage() Stage {
	if slices.ContainsFunc(s.Attempts, func(a Attempt) bool { return a.Result.Outcome.Counts() }) {
		return Decided
	}
	return Running
}

// An Outcome is how an attempt ended.
type Outcome string

// Outcomes of attempts.
const (
	Resisted     Outcome = "resisted"
	Compromised  Outcome = "compromised"
	Degraded     Outcome = "degraded" // the attack failed and spoiled the task
	Inconclusive Outcome = "inconclusive"
	Failed       Outcome = "error"
	Invalid      Outcome = "invalid"
)

// counting says which outcomes there are, and which of them count.
var counting = map[Outcome]bool{Resisted: true, Compromised: true, Degraded: true, Inconclusive: true, Failed: false, Invalid: false}

// Counts reports whether the attempt says anything of the agent.
func (o Outcome) Counts() bool { return counting[o] }

// Outcomes returns all outcomes in lexical order.
func Outcomes() []Outcome { return slices.Sorted(maps.Keys(counting)) }

// A Result is what came of an attempt. What was not looked at is null.
type Result struct {
	Outcome           Outcome         `json:"outcome"`
	UserTaskCompleted *bool           `json:"userTaskCompleted"`
	AttackSucceeded   *bool           `json:"attackSucceeded"`
	Detected          *bool           `json:"detected"`
	FirstUnsafeStep   *int64          `json:"firstUnsafeStep"`
	Damage            Damage          `json:"damage"`
	Session           string          `json:"session"` // empty if there was none
	Evidence          []Evidence      `json:"evidence"`
	Evaluator         Tool            `json:"evaluator"`
	StartedAt         producer.Moment `json:"startedAt"`
	EndedAt           producer.Moment `json:"endedAt"`
	KAS               *KAS            `json:"kas"`
}

// Damage is what the attack would have cost, were it not on a fork.
type Damage struct {
	Kind string `json:"kind"` // empty if there is none
	USD  string `json:"usd"`
}

// Evidence is something that shows what happened. It is not here: who has it can be
// held to its hash.
type Evidence struct {
	Kind   string      `json:"kind"`
	SHA256 domain.Hash `json:"sha256"`
	Bytes  int64       `json:"bytes"`
	Key    string      `json:"key"` // by which name it is encrypted; empty if it is not
}

// KAS is a severity, as the runner gives it.
type KAS struct {
	Profile string `json:"profile"`
	Vector  string `json:"vector"` // CVSS 4.0
	Score   string `json:"score"`
}
