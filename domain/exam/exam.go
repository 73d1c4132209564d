// Package exam records how an agent did where it knew that it was examined.
//
// Its stream is exam/<agent ref>. Attempts count as passes or not as the
// specification says; a comparison takes all that are not withdrawn.
package exam

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[RunRecorded](domain.Public),
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

// EventType implements [domain.Event].
func (RunRecorded) EventType() domain.Type { return "exam.run_recorded.v1" }

func (RunRecorded) examEvent() {}

// A Command asks to record something of an exam.
//
//sumtype:decl
type Command interface{ examCommand() }

// RecordRun asks to record a run of the harness.
type RecordRun RunRecorded

func (RecordRun) examCommand() {}

// State is which runs are recorded.
type State struct{ Runs map[string]bool }

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
	}
	panic(fmt.Sprintf("exam: unreachable command %T", c))
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case RunRecorded:
		if s.Runs == nil {
			s.Runs = make(map[string]bool)
		}
		s.Runs[e.Run] = true
	}
	return s
}
