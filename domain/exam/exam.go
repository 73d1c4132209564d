// Package exam records how an agent did where it knew that it was examined.
//
// Its stream is exam/<agent ref>. There are two sources: the trial attempts of the
// agent's certification, which the trial harness reports one by one and may withdraw,
// and whole runs in which the harness put tasks of the catalogue to the agent. A
// comparison takes the samples of both, see [AttemptRecorded.Sample], and lists them
// apart.
package exam

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/task"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[RunRecorded](domain.Public),
	domain.Current[AttemptRecorded](domain.Public),
	domain.Current[AttemptWithdrawn](domain.Public),
}

// StreamOf names the stream of the exams of an agent.
func StreamOf(ref agent.Ref) ledger.Stream { return ledger.Stream("exam/" + string(ref)) }

// An Event is something recorded of an agent's exams.
//
//sumtype:decl
type Event interface {
	domain.Event
	examEvent()
}

// RunRecorded means that the harness examined the agent, under its own name, with
// tasks of the same catalogue.
type RunRecorded struct {
	Agent    agent.Ref `json:"agent"`
	Run      string    `json:"run"`
	Source   string    `json:"source"` // "demo-harness"
	Attempts []Attempt `json:"attempts"`
}

// An Attempt is one task of a run. Its seed makes it reproducible.
type Attempt struct {
	Seed            domain.Hash  `json:"seed"`
	Template        string       `json:"template"`
	TemplateVersion uint32       `json:"templateVersion"`
	Family          string       `json:"family"`
	Endpoint        string       `json:"endpoint"`
	Entry           string       `json:"entry"`
	Outcome         task.Outcome `json:"outcome"`
	Rule            string       `json:"rule"`
	Literal         task.Outcome `json:"literal"`
	LatencyMs       int64        `json:"latencyMs"`
}

// Samples returns what the attempts of a run say in a comparison.
func (e RunRecorded) Samples() []Sample {
	samples := make([]Sample, len(e.Attempts))
	for i, a := range e.Attempts {
		samples[i] = Sample{Source: "run:" + e.Source, Family: a.Family, Outcome: a.Outcome, LatencyMs: a.LatencyMs}
	}
	return samples
}

// AttemptRecorded means that an attempt of a certification trial came to its end.
type AttemptRecorded struct {
	Agent     agent.Ref    `json:"agent"`
	Attempt   string       `json:"attempt"` // its id, unique among the agent's
	Family    string       `json:"family"`
	Outcome   TrialOutcome `json:"outcome"`
	LatencyMs int64        `json:"latencyMs"`

	producer.Signed `json:"signed,omitzero"`
}

// sameAs reports whether two events say the same of an attempt, whoever signed them.
func (e AttemptRecorded) sameAs(other AttemptRecorded) bool {
	e.Signed, other.Signed = producer.Signed{}, producer.Signed{}
	return e == other
}

// A TrialOutcome is how a trial attempt ended, in the words of the harness.
type TrialOutcome string

// Trial outcomes.
const (
	Success  TrialOutcome = "SUCCESS"
	Partial  TrialOutcome = "PARTIAL"
	Failure  TrialOutcome = "FAILURE"
	Unknown  TrialOutcome = "UNKNOWN"
	Disputed TrialOutcome = "DISPUTED"
	Revoked  TrialOutcome = "REVOKED"
)

// outcomes says what trial outcomes are as those of a task: "" for no sample.
var outcomes = map[TrialOutcome]task.Outcome{
	Success: task.Pass, Partial: task.Fail, Failure: task.Fail, Unknown: "", Disputed: "", Revoked: "",
}

// A Sample is an exam attempt as a comparison counts it.
type Sample struct {
	Source    string // "trial", or "run:" and the source of the run
	Family    string
	Outcome   task.Outcome
	LatencyMs int64
}

// Trials is the source of the samples that are trial attempts.
const Trials = "trial"

// Sample returns what the attempt says in a comparison. A success is a pass, a
// partial success or a failure is none, and the other outcomes are no samples.
func (e AttemptRecorded) Sample() (s Sample, ok bool) {
	outcome := outcomes[e.Outcome]
	return Sample{Source: Trials, Family: e.Family, Outcome: outcome, LatencyMs: e.LatencyMs}, outcome != ""
}

// AttemptWithdrawn means that a trial attempt counts no more. Findings that counted
// it stay as they are; those to come are without it.
type AttemptWithdrawn struct {
	Agent   agent.Ref `json:"agent"`
	Attempt string    `json:"attempt"`
	Reason  string    `json:"reason"`

	producer.Signed `json:"signed,omitzero"`
}

// EventType implements [domain.Event].
func (RunRecorded) EventType() domain.Type { return "exam.run_recorded.v1" }

// EventType implements [domain.Event].
func (AttemptRecorded) EventType() domain.Type { return "exam.attempt_recorded.v1" }

// EventType implements [domain.Event].
func (AttemptWithdrawn) EventType() domain.Type { return "exam.attempt_withdrawn.v1" }

func (RunRecorded) examEvent()      {}
func (AttemptRecorded) examEvent()  {}
func (AttemptWithdrawn) examEvent() {}

// A Command asks to record something of an exam.
//
//sumtype:decl
type Command interface{ examCommand() }

// RecordRun asks to record a run of the harness.
type RecordRun RunRecorded

// RecordAttempt asks to record a trial attempt.
type RecordAttempt AttemptRecorded

// WithdrawAttempt asks that a trial attempt count no more.
type WithdrawAttempt AttemptWithdrawn

func (RecordRun) examCommand()       {}
func (RecordAttempt) examCommand()   {}
func (WithdrawAttempt) examCommand() {}

// State is what is recorded.
type State struct {
	Runs     map[string]bool
	Attempts map[string]Attempted // trial attempts by id
}

// An Attempted is a trial attempt on record.
type Attempted struct {
	Recorded  AttemptRecorded
	Withdrawn bool
}

// Decider is what may be recorded of an agent's exams.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case RecordRun:
		if c.Run == "" || len(c.Attempts) == 0 {
			return nil, fmt.Errorf("an exam run has a name and at least one attempt: %w", domain.ErrInvalid)
		}
		if s.Runs[c.Run] {
			return nil, nil
		}
		return []Event{RunRecorded(c)}, nil
	case RecordAttempt:
		return record(s, AttemptRecorded(c))
	case WithdrawAttempt:
		return withdraw(s, AttemptWithdrawn(c))
	}
	panic(fmt.Sprintf("exam: unreachable command %T", c))
}

// Limits of what a harness reports.
const (
	maxName    = 100
	maxLatency = 1 << 40 // milliseconds: decades
)

func record(s State, e AttemptRecorded) ([]Event, error) {
	_, known := outcomes[e.Outcome]
	switch before, ok := s.Attempts[e.Attempt]; {
	case !domain.Printable(e.Attempt, maxName), !domain.Printable(e.Family, maxName):
		return nil, fmt.Errorf("the id and the family of an attempt are 1 to %d printable ASCII characters: %w", maxName, domain.ErrInvalid)
	case !known:
		return nil, fmt.Errorf("the outcome of an attempt is SUCCESS, PARTIAL, FAILURE, UNKNOWN, DISPUTED or REVOKED: %w", domain.ErrInvalid)
	case e.LatencyMs < 0 || e.LatencyMs > maxLatency:
		return nil, fmt.Errorf("the latency of an attempt is a number of milliseconds: %w", domain.ErrInvalid)
	case ok && before.Withdrawn:
		return nil, fmt.Errorf("attempt %s was withdrawn; record another under an id of its own: %w", e.Attempt, domain.ErrConflict)
	case ok && !before.Recorded.sameAs(e):
		return nil, fmt.Errorf("attempt %s is recorded already, with another content; withdraw it first: %w", e.Attempt, domain.ErrConflict)
	case ok:
		return nil, nil
	}
	return []Event{e}, nil
}

func withdraw(s State, e AttemptWithdrawn) ([]Event, error) {
	if err := domain.CheckReason(e.Reason); err != nil {
		return nil, err
	}
	switch before, ok := s.Attempts[e.Attempt]; {
	case !ok:
		return nil, fmt.Errorf("there is no attempt %s: %w", e.Attempt, domain.ErrNotFound)
	case before.Withdrawn:
		return nil, nil
	case before.Recorded.Agent != e.Agent:
		return nil, fmt.Errorf("attempt %s is another agent's: %w", e.Attempt, domain.ErrInvalid)
	}
	return []Event{e}, nil
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case RunRecorded:
		if s.Runs == nil {
			s.Runs = make(map[string]bool)
		}
		s.Runs[e.Run] = true
	case AttemptRecorded:
		if s.Attempts == nil {
			s.Attempts = make(map[string]Attempted)
		}
		s.Attempts[e.Attempt] = Attempted{Recorded: e}
	case AttemptWithdrawn:
		before := s.Attempts[e.Attempt]
		before.Withdrawn = true
		s.Attempts[e.Attempt] = before
	}
	return s
}
