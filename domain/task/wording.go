package task

import (
	"strconv"
	"strings"
)

// All wording that templates share. A prompt is
//
//	[opener] [context] question [rounding] [details …] [closer]
//
// with one space between the parts; the parts in brackets are drawn or left out.
// {name} stands for a value.

var openers = []string{
	"Quick question:",
	"Hi!",
	"Hello!",
	"Hi there.",
	"Hey, a quick one:",
	"Good day.",
	"One thing I need:",
	"Small request:",
}

var closers = []string{
	"Thanks!",
	"Thank you.",
	"Thanks in advance.",
	"Many thanks!",
	"Cheers!",
	"Much appreciated.",
}

// contexts mention a skill by its human name.
var contexts = []string{
	"Using your {skill} skill:",
	"With your {skill} skill:",
	"Use your {skill} skill for this:",
}

// roundings ask for {places}, such as "two decimal places" or "2 decimals".
var roundings = []string{
	"Round to {places}.",
	"Please round to {places}.",
	"Rounded to {places}, please.",
	"Give the result to {places}.",
	"I need it to {places}.",
}

// numberAlone asks for nothing but the number.
var numberAlone = []string{
	"Just the number, please.",
	"Only the final number is needed.",
	"Reply with the number only.",
	"No working needed, just the result.",
	"The bare figure is enough.",
}

var countWords = []string{"zero", "one", "two", "three", "four", "five", "six"}

// places says how many decimals are asked for.
func places(d *draw, n int) string {
	noun := pick(d, []string{"decimal place", "decimal"})
	if n != 1 {
		noun += "s"
	}
	if d.chance(2) {
		return countWords[n] + " " + noun
	}
	return strconv.Itoa(n) + " " + noun
}

// fill replaces {name} by value, for pairs of both.
func fill(template string, pairs ...string) string {
	b := make([]byte, 0, 256)
	for {
		text, rest, found := strings.Cut(template, "{")
		b = append(b, text...)
		name, rest, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return string(b)
		}
		template = rest
		for i := 1; i < len(pairs); i += 2 {
			if pairs[i-1] == name {
				b = append(b, pairs[i]...)
			}
		}
	}
}

// prompt puts the question into words.
func (p puzzle) prompt(d *draw, e Entry) string {
	parts := make([]string, 0, 8)
	if d.chance(3) {
		parts = append(parts, pick(d, openers))
	}
	if label, ok := mentionable(e.Label); ok && d.chance(3) {
		parts = append(parts, fill(pick(d, contexts), "skill", label))
	}
	parts = append(parts, p.body)
	if p.expected.Tolerance != "" {
		parts = append(parts, fill(pick(d, roundings), "places", places(d, p.rounding)))
	}
	for _, sentences := range p.details {
		parts = append(parts, pick(d, sentences))
	}
	if d.chance(3) {
		parts = append(parts, pick(d, closers))
	}
	return strings.Join(parts, " ")
}

// mentionable returns what to call a skill in a sentence. A label that is long or
// holds more than letters, blanks and hyphens is left unsaid: a digit in it would
// be a number of the question.
func mentionable(label string) (string, bool) {
	words := strings.Fields(label)
	if n := len(words); n > 0 && strings.EqualFold(words[n-1], "skill") {
		words = words[:n-1]
	}
	label = strings.Join(words, " ")
	if label == "" || len(label) > 40 {
		return "", false
	}
	for _, c := range []byte(label) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != ' ' && c != '-' {
			return "", false
		}
	}
	return label, true
}
