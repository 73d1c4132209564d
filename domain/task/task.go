// Package task makes the questions of the shopper and marks the answers.
//
// A [Task] is a pure function of a template, its version, a seed and an [Entry],
// the skill or tool it is put to: [Generate] returns the same question, in the
// same words, with the same right answer, on every machine and for ever. The
// choices come from one stream of bytes, H(seed ‖ u32be counter) with counter 0,
// 1, 2, …; whoever holds the seed can make the task again. A template that
// changes what it makes gets a new version, and [Digest] is the proof that it
// did not change otherwise.
//
// [Match] says which templates an agent can honestly be asked, from what it
// declares. [Mark] says whether a reply holds the right answer.
//
// All arithmetic is exact, on integers from decimal strings: in two words while they
// hold a number and on math/big beyond. A number is rounded once, when it is written
// down. The package performs no I/O, reads no clock and
// knows nothing of agents, protocols or payments.
//
// # Adding a template
//
// A template is one entry in the table of its subject (units.go, arith.go, money.go,
// dates.go, hashes.go, evm.go, selector.go, invoice.go, chain.go): what it is called, how it
// is recognised, how it takes structured arguments, and the function that draws a
// question. The wording that all share is in wording.go.
package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/karatum/mystery/domain"
)

// A Kind is the protocol of an endpoint.
type Kind string

// The kinds of endpoint.
const (
	A2A  Kind = "a2a"
	MCP  Kind = "mcp"
	X402 Kind = "x402"
)

// A Template makes the tasks of one sort. It is immutable.
type Template struct {
	ID      string
	Version uint32
	Family  string
	Example string // a prompt it has made

	keywords
	parameters []parameter
	make       func(*draw) puzzle
}

// A puzzle is a question before it is put in a sentence with its surroundings.
type puzzle struct {
	body      string         // the question itself
	rounding  int            // decimals asked for, for numbers
	details   [][]string     // for each list, one sentence of it follows the question
	expected  Expected       // the right answer
	arguments arguments      // the same question in parts, nil if it has none
	near      []ratio        // numbers of the question and intermediates the answer must not resemble
	wrong     []ratio        // what the usual mistakes lead to
	request   map[string]any // what a paid request carries beside the words, whoever takes it
	deferred  *Deferral      // how the answer is found, if it is not known yet
	poor      bool           // the draw is to be made again, for a reason of the template
}

// The arguments of a question are asked for only where a tool takes them.
type arguments func() map[Role]any

// An Entry is the skill or tool that a task is put to, and how it takes one.
type Entry struct {
	Kind   Kind    `json:"kind"`
	Name   string  `json:"name"`             // id of the skill or name of the tool
	Label  string  `json:"label,omitempty"`  // A2A: what people call the skill, if it may be mentioned
	Text   string  `json:"text,omitempty"`   // MCP: the property that takes the whole prompt
	Fields []Field `json:"fields,omitempty"` // MCP: or the properties that take its parts
}

// A Field is a property of a tool that takes one part of a question.
type Field struct {
	Role     Role     `json:"role"`
	Property string   `json:"property"`
	Type     string   `json:"type,omitempty"` // JSON Schema type; empty takes all
	Enum     []string `json:"enum,omitempty"` // the only values it takes
}

// An Ask is what is asked on the wire: a text, or a tool and its arguments.
type Ask struct {
	Text      string          `json:"text,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Hash returns H(JCS(a)). An Ask whose arguments are not JSON, which Generate
// never makes, has the zero hash.
func (a Ask) Hash() domain.Hash { return hashJSON(a) }

// A Task is one question with its right answer.
type Task struct {
	Template string   `json:"template"`
	Version  uint32   `json:"version"`
	Family   string   `json:"family"`
	Prompt   string   `json:"prompt"` // the whole question in words, even where Ask is structured
	Ask      Ask      `json:"ask"`
	Expected Expected `json:"expected"`

	// Deferred is set where the answer is found only when the task is sent; see
	// [Task.Fill].
	Deferred *Deferral `json:"deferred,omitempty"`
}

// hashJSON returns the hash of the canonical JSON of v, and the zero hash if v
// has none.
func hashJSON(v any) domain.Hash {
	data, err := domain.Canonical(v)
	if err != nil {
		return domain.Hash{}
	}
	return domain.Sum(data)
}

// catalogue is every template by ID. It is not changed after it is made.
var catalogue = sync.OnceValue(func() []Template {
	list := slices.Concat(
		unitTemplates, arithTemplates, moneyTemplates, dateTemplates, hashTemplates, evmTemplates, selectorTemplates, invoiceTemplates,
		chainTemplates,
	)
	slices.SortFunc(list, func(a, b Template) int { return strings.Compare(a.ID, b.ID) })
	for i := range list {
		t, err := list[i].generate(sampleSeed(0), Entry{Kind: A2A, Name: list[i].ID}, maxDraws)
		if err != nil {
			panic("task: " + err.Error())
		}
		list[i].Example = t.Prompt
	}
	return list
})

// Catalogue returns all templates, sorted by ID. The slice is the caller's.
func Catalogue() []Template { return slices.Clone(catalogue()) }

// Generate makes the task that seed stands for. It returns an error matching
// [domain.ErrNotFound] for a template or version that is not in the catalogue,
// and one matching [domain.ErrInvalid] for an entry that cannot take it.
func Generate(template string, version uint32, seed domain.Hash, e Entry) (Task, error) {
	list := catalogue()
	for i := range list {
		if t := &list[i]; t.ID == template && t.Version == version {
			return t.generate(seed, e, maxDraws)
		}
	}
	return Task{}, fmt.Errorf("template %q version %d is not in the catalogue: %w", template, version, domain.ErrNotFound)
}

// Bounds on how often parameters are drawn again. A tool that takes one pair of
// units one way in whole numbers takes one draw in eighty, and nothing is pickier:
// such a tool is found out with trialDraws, and maxDraws do not fail by chance.
const (
	maxDraws   = 5000
	trialDraws = 500
)

func (t Template) generate(seed domain.Hash, e Entry, draws int) (Task, error) {
	if err := t.check(e); err != nil {
		return Task{}, err
	}
	d := &draw{seed: seed}
	for range draws {
		p := t.make(d)
		arguments, ok := structure(e, p)
		if !ok || p.poor || !p.clear() {
			continue
		}
		task := Task{
			Template: t.ID,
			Version:  t.Version,
			Family:   t.Family,
			Prompt:   p.prompt(d, e),
			Expected: p.expected,
			Deferred: p.deferred,
		}
		ask, err := e.ask(task.Prompt, arguments)
		if p.request != nil {
			ask, err = requestOf(p.request)
		}
		if err != nil {
			return Task{}, fmt.Errorf("arguments of %s for tool %q: %w", t.ID, e.Name, err)
		}
		task.Ask = ask
		return task, nil
	}
	return Task{}, fmt.Errorf("%s finds no question that %q can take: %w", t.ID, e.Name, domain.ErrInvalid)
}

func (t Template) check(e Entry) error {
	switch {
	case e.Kind == A2A, e.Kind == X402 && t.ID == paymentTemplate:
		return nil
	case e.Kind == MCP && e.Name != "" && (e.Text != "") != (len(e.Fields) > 0):
		return nil
	}
	return fmt.Errorf("entry %q of kind %q cannot take %s: %w", e.Name, e.Kind, t.ID, domain.ErrInvalid)
}

// clear reports whether the answer can be told from the numbers of the question,
// from intermediate values and from the usual mistakes.
func (p puzzle) clear() bool {
	if p.deferred != nil {
		return true // there is nothing yet to tell it from
	}
	if p.expected.Kind != Number && p.expected.Kind != Change {
		return true
	}
	right := p.expected.aim()
	if right == nil || !substantial(p.expected.Value) {
		return false
	}
	return !right.nearAny(p.near, 1) && !right.nearAny(p.wrong, 3)
}

// ask puts the question in the form that the entry takes.
func (e Entry) ask(prompt string, arguments map[string]any) (Ask, error) {
	if e.Kind == A2A {
		return Ask{Text: prompt}, nil
	}
	if e.Text != "" {
		arguments = map[string]any{e.Text: prompt}
	}
	data, err := domain.Canonical(arguments)
	if err != nil {
		return Ask{}, fmt.Errorf("%w: %w", domain.ErrInvalid, err)
	}
	return Ask{Tool: e.Name, Arguments: data}, nil
}

// requestOf is the ask of a paid request: what it carries.
func requestOf(values map[string]any) (Ask, error) {
	data, err := domain.Canonical(values)
	return Ask{Arguments: data}, err
}

// structure fills the fields of e from p. It reports false if a value does not
// fit the type or the enum of its property.
func structure(e Entry, p puzzle) (map[string]any, bool) {
	if e.Kind != MCP || e.Text != "" {
		return nil, true
	}
	if p.arguments == nil {
		return nil, false
	}
	parts := p.arguments()
	arguments := make(map[string]any, len(e.Fields))
	for _, f := range e.Fields {
		v, ok := parts[f.Role]
		if !ok {
			return nil, false
		}
		if v, ok = f.fit(v); !ok {
			return nil, false
		}
		arguments[f.Property] = v
	}
	return arguments, true
}

// fit converts a value to what the property takes.
func (f Field) fit(v any) (any, bool) {
	switch v := v.(type) {
	case decimal:
		switch {
		case f.Type == "string":
			return v.String(), true
		case f.Type == "integer" && v.places > 0:
			return nil, false
		}
		return json.Number(v.String()), true
	case int:
		if f.Type == "string" {
			return strconv.Itoa(v), true
		}
		return v, true
	case []decimal:
		list := make([]json.Number, len(v))
		for i, n := range v {
			list[i] = json.Number(n.String())
		}
		return list, true
	case []string: // spellings of one thing, the preferred one first
		if len(f.Enum) == 0 {
			return v[0], true
		}
		for _, s := range v {
			for _, allowed := range f.Enum {
				if plain(s) == plain(allowed) {
					return allowed, true
				}
			}
		}
		return nil, false
	case string:
		return v, len(f.Enum) == 0
	}
	panic(fmt.Sprintf("task: argument of type %T", v))
}
