package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// A Graded is the mark of a reply.
type Graded struct {
	ID      string       `json:"id"`
	Outcome task.Outcome `json:"outcome"` // of the value that the reply commits to; this one counts
	Literal task.Outcome `json:"literal"` // by the plain rule, the first twelve values
	Reason  string       `json:"reason"`  // the rule that decided
	Token   *Token       `json:"token"`   // null if no part of the reply decided
}

// A Token is a part of a reply, in bytes.
type Token struct {
	Offset int `json:"offset"`
	Length int `json:"length"`
}

// Grade marks the reply of a row, which is a JSON object with the members
//
//	id, family, prompt_sketch, expected_value, decimals_asked, reply
//
// of a [task.Case]. The members right_outcome, debatable, literal_first12_outcome,
// clear_under_spec, why and source, by which collections of cases say what people
// make of the reply, may be there and have no influence. Anything else is a
// [domain.ErrInvalid] that names the member.
//
// A reply is whatever an agent sent: bytes that are not UTF-8 stand in the row as
// they are, and an escaped half of a surrogate pair counts as U+FFFD.
func Grade(row []byte) (Graded, error) {
	o := &object{}
	o.read(row)
	c := task.Case{
		ID: o.text("id"), Family: o.text("family"), PromptSketch: o.text("prompt_sketch"),
		ExpectedValue: o.text("expected_value"), DecimalsAsked: o.text("decimals_asked"), Reply: o.reply("reply"),
	}
	for _, name := range []string{"right_outcome", "debatable", "literal_first12_outcome", "clear_under_spec", "why", "source"} {
		delete(o.members, name)
	}
	if err := o.close(); err != nil {
		return Graded{}, err
	}
	return GradeCase(c)
}

// families are the first parts of the families of cases.
var families = []string{"arith", "unit", "date", "hash", "evm", "selector", "checksum", "invoice", "chain", "x402"}

// GradeCase marks a reply. A case that does not say what is right is a
// [domain.ErrInvalid] that names the member at fault.
func GradeCase(c task.Case) (Graded, error) {
	family, _, _ := strings.Cut(c.Family, ".")
	if !slices.Contains(families, family) {
		return Graded{}, fmt.Errorf("family is %q, which no task belongs to: %w", c.Family, domain.ErrInvalid)
	}
	if c.ExpectedValue == "" {
		return Graded{}, fmt.Errorf("expected_value is empty: %w", domain.ErrInvalid)
	}
	t, err := knownTask(c)
	if err != nil {
		return Graded{}, err
	}
	m := task.Mark(t, c.Reply)
	g := Graded{ID: c.ID, Outcome: m.Outcome, Literal: m.Literal, Reason: m.Rule}
	if m.Length > 0 {
		g.Token = &Token{m.Offset, m.Length}
	}
	return g, nil
}

// knownTask returns the task of c once it knows which member would be at fault.
func knownTask(c task.Case) (task.Task, error) {
	plain := c
	plain.ExpectedValue = "0"
	if _, err := plain.Task(); err != nil {
		return task.Task{}, fmt.Errorf("decimals_asked is %q, neither a count of decimals nor exact: %w", c.DecimalsAsked, domain.ErrInvalid)
	}
	t, err := c.Task()
	if err != nil {
		return task.Task{}, fmt.Errorf("expected_value is %.80q, which is no decimal: %w", c.ExpectedValue, domain.ErrInvalid)
	}
	return t, nil
}

// reply takes a string whose bytes need not be UTF-8. encoding/json would put
// U+FFFD in place of each byte that is none, and offsets into the reply would move.
func (o *object) reply(name string) string {
	var raw json.RawMessage
	if !o.take(name, "a string", &raw) {
		return ""
	}
	if len(raw) < 2 || raw[0] != '"' {
		o.fail("%s%s is not a string", o.name, name)
		return ""
	}
	var reply []byte
	for rest := raw[1 : len(raw)-1]; len(rest) > 0; {
		valid := validPrefix(rest)
		var text string
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, rest[:valid], []byte{'"'}), &text); err != nil {
			o.fail("%s%s is not a string", o.name, name)
			return ""
		}
		reply = append(reply, text...)
		rest = rest[valid:]
		for len(rest) > 0 {
			if r, n := utf8.DecodeRune(rest); r != utf8.RuneError || n > 1 {
				break
			}
			reply = append(reply, rest[0])
			rest = rest[1:]
		}
	}
	return string(reply)
}

// validPrefix returns how many bytes of b are UTF-8 up to the first that is not.
func validPrefix(b []byte) (n int) {
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}
