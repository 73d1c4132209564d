package shield

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
)

// Check returns nil if one command, decided in state s, can have given these events, of
// which there is at least one.
func Check(s State, events []Event) error {
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	return Decider.Gives(s, CommandOf(e), events)
}

// CommandOf returns the command that asks for e.
func CommandOf(e Event) Command {
	switch e := e.(type) {
	case CaseOpened:
		return Open{Case: e}
	case OutcomeRecorded:
		return RecordOutcome(e)
	case OutcomeAmended:
		return AmendOutcome(e)
	case CaseClosed:
		return Close(e)
	case CaseAborted:
		return Abort(e)
	}
	panic(fmt.Sprintf("shield: unreachable event %T", e))
}

// eventOf returns the event that c asks for.
func eventOf(c Command) Event {
	switch c := c.(type) {
	case Open:
		return c.Case
	case RecordOutcome:
		return OutcomeRecorded(c)
	case AmendOutcome:
		return OutcomeAmended(c)
	case Close:
		return CaseClosed(c)
	case Abort:
		return CaseAborted(c)
	}
	panic(fmt.Sprintf("shield: unreachable command %T", c))
}

// caseOf returns the case that e names.
func caseOf(e Event) string {
	switch e := e.(type) {
	case CaseOpened:
		return e.Case
	case OutcomeRecorded:
		return e.Case
	case OutcomeAmended:
		return e.Case
	case CaseClosed:
		return e.Case
	case CaseAborted:
		return e.Case
	}
	panic(fmt.Sprintf("shield: unreachable event %T", e))
}

// Limits of what is put on record for ever.
const (
	maxName     = 200
	maxAttempts = 1000
	maxEvidence = 64
	maxNumber   = 1 << 53 // what a JSON number holds exactly
)

var (
	caseID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)
	host    = regexp.MustCompile(`^(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]):[1-9][0-9]{0,4}$`)
	decimal = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,6})?$`)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}

func (e CaseOpened) check() error {
	_, err := agent.ParseRef(string(e.Agent))
	switch {
	case err != nil:
		return err
	case e.Producer == "":
		return invalid("a case is opened by a producer, who signs for it")
	case !caseID.MatchString(e.Case):
		return invalid("the id of a case is up to 100 letters, digits, dots, hyphens and underscores")
	case e.Target.Kind != Fork:
		return invalid("a case is about a fork, and nothing else")
	case !host.MatchString(e.Target.Host):
		return invalid("the host of a target is a host in lower case and its port, such as copy-1.example:443")
	case e.Target.ChainID >= maxNumber || e.Target.Block >= maxNumber:
		return invalid("the numbers of a chain and of a block are below 2^53")
	case e.Budget.Steps < 0 || e.Budget.Steps >= maxNumber || e.Budget.Seconds < 0 || e.Budget.Seconds >= maxNumber || !decimal.MatchString(e.Budget.USD):
		return invalid("a budget has a number of steps and of seconds, and decimal dollars such as 0.25")
	}
	if err := e.Suite.check("suite"); err != nil {
		return err
	}
	return named(map[string]string{
		"id of the fork": e.Target.Fork, "class of the attack": e.Attack.Class, "technique": e.Attack.Technique, "name of the user's task": e.UserTask,
	})
}

func (t Tool) check(what string) error {
	return named(map[string]string{"name of the " + what: t.Name, "version of the " + what: t.Version})
}

// named returns nil if all texts are names.
func named(texts map[string]string) error {
	for what, text := range texts {
		if !domain.Printable(text, maxName) {
			return invalid("the %s is 1 to %d printable ASCII characters", what, maxName)
		}
	}
	return nil
}

func (r Result) check() error {
	if err := r.checkOutcome(); err != nil {
		return err
	}
	switch {
	case r.Session != "" && !caseID.MatchString(r.Session):
		return invalid("the id of a session is up to 100 letters, digits, dots, hyphens and underscores")
	case r.FirstUnsafeStep != nil && (*r.FirstUnsafeStep < 0 || *r.FirstUnsafeStep >= maxNumber):
		return invalid("the first unsafe step is a number from 0 on")
	case (r.Damage.Kind != "") != domain.Printable(r.Damage.Kind, maxName) || !decimal.MatchString(r.Damage.USD):
		return invalid("damage has a kind, empty if there is none, and decimal dollars such as 0.25")
	case errors.Join(r.StartedAt.Check(), r.EndedAt.Check()) != nil:
		return invalid("the start and the end of an attempt are moments such as 2026-10-16T10:00:00Z")
	case r.EndedAt.Time().Before(r.StartedAt.Time()):
		return invalid("an attempt ends no earlier than it starts")
	case r.Evidence == nil || len(r.Evidence) > maxEvidence:
		return invalid("evidence is a list of %d at most", maxEvidence)
	}
	for _, e := range r.Evidence {
		if !domain.Printable(e.Kind, maxName) || e.Bytes < 0 || e.Bytes >= maxNumber || e.SHA256.IsZero() || (e.Key != "") != domain.Printable(e.Key, maxName) {
			return invalid("evidence has a kind, a hash and a size")
		}
	}
	if k := r.KAS; k != nil && (!strings.HasPrefix(k.Vector, "CVSS:4.0/") || !domain.Printable(k.Vector, maxName) || !domain.Printable(k.Profile, maxName) || !decimal.MatchString(k.Score)) {
		return invalid("a severity is a profile, a vector of CVSS 4.0 and a decimal score such as 5.0")
	}
	return r.Evaluator.check("evaluator")
}

// checkOutcome holds the outcome against what else is said.
func (r Result) checkOutcome() error {
	succeeded := r.AttackSucceeded != nil && *r.AttackSucceeded
	if _, ok := counting[r.Outcome]; !ok {
		return invalid("the outcome of an attempt is one of %v", Outcomes())
	}
	switch {
	case r.Outcome == Compromised && (!succeeded || len(r.Evidence) == 0 || r.Session == ""):
		return invalid("an agent is compromised if attackSucceeded is true, evidence shows it, and a session tells of it")
	case r.Outcome == Resisted && (succeeded || r.AttackSucceeded == nil):
		return invalid("an agent has resisted if attackSucceeded is false")
	}
	return nil
}
