package session

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"

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
	case Opened:
		return Open(e)
	case ActionRecorded:
		return RecordAction(e)
	case Closed:
		return Close(e)
	}
	panic(fmt.Sprintf("session: unreachable event %T", e))
}

// Limits of what is put on record for ever.
const (
	maxName     = 200
	maxActions  = 100_000
	maxDuration = 1 << 40 // milliseconds: decades
)

var (
	sessionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)
	amounts   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,77})$`)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}

func (e Opened) check() error {
	if _, err := agent.ParseRef(string(e.Agent)); err != nil {
		return err
	}
	switch {
	case e.Producer == "":
		return invalid("a session is opened by a producer, who signs for it")
	case !sessionID.MatchString(e.Session):
		return invalid("the id of a session is up to 100 letters, digits, dots, hyphens and underscores")
	case e.Kind != Trial && e.Kind != Shield && e.Kind != Runtime:
		return invalid("a session is of kind trial, shield or runtime")
	case (e.Kind == Runtime) != (e.Parent == "") || !name(e.Parent):
		return invalid("a session of kind trial or shield names its trial or case as parent, and a runtime session has none")
	case !name(e.Refs.A2AContext) || !name(e.Refs.MCPSession) || !name(e.Refs.Trace):
		return invalid("names that a session has elsewhere are up to %d printable ASCII characters", maxName)
	}
	return e.StartedAt.Check()
}

// name reports whether text is a name, or empty.
func name(text string) bool { return text == "" || domain.Printable(text, maxName) }

func (e ActionRecorded) check() error {
	switch {
	case e.N >= maxActions:
		return invalid("a session has %d actions at most", maxActions)
	case !slices.Contains(actors, e.Actor):
		return invalid("an actor is one of %v", actors)
	case !slices.Contains(actions, e.Action):
		return invalid("an action is one of %v", actions)
	case !slices.Contains(decisions, e.Decision):
		return invalid("a decision is one of %v", decisions)
	case !slices.Contains(operations, e.Operation):
		return invalid("an operation is one of %q", operations)
	case !name(e.Name) || !name(e.Call) || !name(e.Span):
		return invalid("the name, the call and the span of an action are up to %d printable ASCII characters", maxName)
	case (e.Action == ToolCall || e.Action == ToolResult) && e.Call == "":
		return invalid("a call of a tool, and its result, say in call which one it is")
	case (e.Action == PaymentQuote || e.Action == PaymentSettled) != (e.Cost != nil):
		return invalid("a price and a payment have a cost, and other actions have none")
	case e.DurationMs < 0 || e.DurationMs > maxDuration:
		return invalid("the duration of an action is a number of milliseconds")
	}
	if e.Cost != nil {
		if _, ok := e.Cost.amount(); !ok || !domain.Printable(e.Cost.Asset, maxName) {
			return invalid("a cost is a whole number of atomic units, as a string, and the asset that they are of")
		}
	}
	return e.At.Check()
}

func (c Cost) amount() (*big.Int, bool) {
	if !amounts.MatchString(c.Amount) {
		return nil, false
	}
	return new(big.Int).SetString(c.Amount, 10)
}
