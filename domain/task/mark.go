package task

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GraderVersion is the version of the rules of [Mark].
const GraderVersion uint32 = 1

// An Outcome is what came of a task.
type Outcome string

// The outcomes. Mark gives the first three; the others end a task without a
// reply to mark.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Refused Outcome = "refused"
	Timeout Outcome = "timeout"
	Error   Outcome = "error"
	Blocked Outcome = "blocked" // our side; says nothing about the agent
)

// Counted reports whether o counts as behaviour of the agent.
func (o Outcome) Counted() bool { return o != Blocked }

// A Grade is the mark of one reply. Outcome is that of the value the reply
// commits to, and counts. Literal is that of the plain rule, which takes a right
// value anywhere among the first twelve; it is recorded beside it.
type Grade struct {
	Outcome Outcome `json:"outcome"`
	Rule    string  `json:"rule"`
	Literal Outcome `json:"literal"`
	Offset  int     `json:"offset"` // bytes of the reply that the grade points at,
	Length  int     `json:"length"` // none if both are 0
}

// The rules that decide a grade.
const (
	ruleEmpty   = "empty"      // there is nothing in the reply
	ruleMarker  = "marker"     // the value at the last explicit marker
	ruleFirst   = "first12"    // one of the first twelve values
	ruleLast    = "last"       // the last weekday that is stated
	ruleList    = "list"       // the right value is one of several on offer
	ruleNegated = "negated"    // the right value stands under a "not"
	ruleNone    = "no_value"   // nothing of the asked kind is in the reply
	ruleRefusal = "refusal"    // the reply declines and offers no value
	ruleWrong   = "no_match"   // values of the asked kind, none of them right
	ruleUnknown = "unmarkable" // the task does not say what is right
)

// maxReply bounds what is read of a reply.
const maxReply = 2 << 20

// maxValues is how many values of a reply are looked at where no marker decides.
const maxValues = 12

// A value is a part of a reply that may be the answer.
type value struct {
	start, end int // in the text of the document
	right      bool
}

// values are the values of a reply in order. Numbers are judged only when asked
// for: a reply may hold a million of them, and few are looked at.
type values struct {
	list  []value
	judge func(value) bool // nil where the values know whether they are right
}

func (v values) right(i int) bool {
	if v.judge == nil {
		return v.list[i].right
	}
	return v.judge(v.list[i])
}

// Mark says whether reply holds the right answer to t. It is forgiving about
// wording and form and strict about the value:
//
//   - the reply is normalised: thinking blocks and questions of its own are cut,
//     entities, look-alike characters and LaTeX are undone;
//   - values of the asked kind are read from it, but for restated inputs, labels,
//     list numbers, exponents of units, dates and the like;
//   - the value at the last explicit marker (answer, result, final, =, a box, bold
//     print) decides; without one, a right value among the first twelve passes,
//     unless it stands in a list of different values or under a "not";
//   - a reply without a value that declines is refused.
//
// Time is linear in the length of the reply, of which 2 MiB are read. Any bytes
// can be marked.
func Mark(t Task, reply string) Grade {
	if len(reply) > maxReply {
		reply = reply[:maxReply]
	}
	plain := normalise(reply)
	if len(bytes.TrimSpace(plain.text)) == 0 {
		return Grade{Outcome: Fail, Rule: ruleEmpty, Literal: Fail}
	}
	right := t.Expected.aim()
	g, committed := decide(t, right, plain)
	if committed != nil {
		g.Offset, g.Length = plain.source(reply, *committed)
	}
	switch {
	case foundLiterally(t.Expected, right, reply, plain):
		g.Literal = Pass
	case g.Outcome == Refused:
		g.Literal = Refused
	default:
		g.Literal = Fail
	}
	return g
}

// decide applies the commitment rule. It returns the value that decided, if any.
func decide(t Task, right *aim, doc document) (Grade, *value) {
	found, ok := valuesOf(t, right, doc.text)
	switch {
	case !ok:
		return Grade{Outcome: Fail, Rule: ruleUnknown}, nil
	case len(found.list) == 0 && refuses(doc.text):
		return Grade{Outcome: Refused, Rule: ruleRefusal}, nil
	case len(found.list) == 0:
		return Grade{Outcome: Fail, Rule: ruleNone}, nil
	}
	i, rule := commitment(t.Expected.Kind, doc.text, found)
	if i < 0 {
		return Grade{Outcome: Fail, Rule: rule}, nil
	}
	v := found.list[i]
	switch {
	case !found.right(i):
		return Grade{Outcome: Fail, Rule: rule}, &v
	case hedged(doc.text, found, i):
		return Grade{Outcome: Fail, Rule: ruleList}, &v
	case negated(doc.text, v):
		return Grade{Outcome: Fail, Rule: ruleNegated}, &v
	}
	return Grade{Outcome: Pass, Rule: rule}, &v
}

// commitment returns the index of the value that decides and the rule that says
// so, or a negative index if no value is right.
func commitment(kind AnswerKind, text []byte, found values) (int, string) {
	if i := marked(kind, text, found.list); i >= 0 {
		return i, ruleMarker
	}
	if kind == Weekday {
		return len(found.list) - 1, ruleLast
	}
	doubtful, rule := -1, ruleWrong
	for i := range min(len(found.list), maxValues) {
		switch {
		case !found.right(i):
		case !hedged(text, found, i) && !negated(text, found.list[i]):
			return i, ruleFirst
		case doubtful < 0:
			doubtful, rule = i, ruleFirst
		}
	}
	return doubtful, rule
}

// foundLiterally applies the plain rule of the specification.
func foundLiterally(x Expected, right *aim, reply string, doc document) bool {
	text := doc.text
	if !doc.literal {
		text = literally(reply)
	}
	switch x.Kind {
	case Number, Change:
		if decimals, err := strconv.Atoi(x.Decimals); right != nil && err == nil && decimals >= 0 && decimals <= maxExponent {
			right = aimAt(right.exact, tolerance(right.exact, decimals)) // the plain rule knows no exact counts
		}
		return right != nil && plainlyRight(text, right)
	case Date:
		return slices.ContainsFunc(scanDates(text, false), func(d dateToken) bool { return d.written && d.iso == x.Value })
	case Weekday:
		return slices.ContainsFunc(scanWeekdays(text), func(w weekdayToken) bool { return w.name == x.Value })
	case Base64:
		return slices.ContainsFunc(base64Runs(text), func(r run) bool { return string(text[r.start:r.end]) == x.Value })
	case Hex, Token:
		return x.Value != "" && strings.Contains(strings.ToLower(reply), strings.ToLower(x.Value))
	case Checksum:
		return x.Value != "" && strings.Contains(reply, x.Value)
	}
	return false
}

// valuesOf returns the values of the asked kind in text, in order. It reports
// false if the task does not say what is right.
func valuesOf(t Task, right *aim, text []byte) (values, bool) {
	x := t.Expected
	if x.Value == "" {
		return values{}, false
	}
	switch x.Kind {
	case Number, Change:
		if right == nil {
			return values{}, false
		}
		return values{
			list:  numberValues(text, textOf(t.Prompt)),
			judge: func(v value) bool { return rightNumber(text, v, right, x.Kind == Change) },
		}, true
	case Date:
		return values{list: dateValues(text, textOf(t.Prompt), x.Value)}, true
	case Weekday:
		return values{list: weekdayValues(text, x.Value)}, true
	case Hex:
		return values{list: hexValues(text, strings.TrimPrefix(x.Value, "0x"), strings.EqualFold)}, true
	case Checksum:
		list := hexValues(text, strings.TrimPrefix(x.Value, "0x"), func(a, b string) bool { return a == b })
		return values{list: withoutRestated(text, list, t.Prompt)}, true
	case Base64:
		return values{list: base64Values(text, x.Value)}, true
	case Token:
		return values{list: tokenValues(text, x.Value)}, true
	}
	return values{}, false
}

// aim reads Exact and Tolerance. It returns nil if they are no numbers.
func (x Expected) aim() *aim {
	exact, ok := readRatio(x.Exact)
	if !ok {
		return nil
	}
	margin := integer(0)
	if x.Tolerance != "" {
		if margin, ok = readRatio(x.Tolerance); !ok {
			return nil
		}
	}
	return aimAt(exact, margin)
}

// source maps a value to the bytes of the reply it was read from.
func (doc document) source(reply string, v value) (offset, length int) {
	if v.end <= v.start {
		return 0, 0
	}
	offset = int(doc.at[v.start])
	end := int(doc.at[v.end-1]) + 1
	for end < len(reply) && !utf8.RuneStart(reply[end]) {
		end++
	}
	return offset, max(0, end-offset)
}
