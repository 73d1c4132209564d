package task

import (
	"strconv"

	"github.com/karatum/mystery/domain"
)

// An AnswerKind says what sort of thing answers a question.
type AnswerKind string

// The kinds of answer. A Change is a Number whose sign may be told in words.
const (
	Number   AnswerKind = "number"
	Change   AnswerKind = "change"
	Date     AnswerKind = "date"
	Weekday  AnswerKind = "weekday"
	Hex      AnswerKind = "hex"
	Base64   AnswerKind = "base64"
	Checksum AnswerKind = "checksum" // an address in the mixed case of EIP-55
	Token    AnswerKind = "token"
)

// Expected is the right answer to a task and how far a reply may be off. Numbers
// are strings: Exact and Tolerance are fractions such as "2645/100", Value is the
// answer as it would be written. A number without Tolerance must be equal; if it
// has Decimals all the same, the plain rule still allows for them.
type Expected struct {
	Kind      AnswerKind `json:"kind"`
	Value     string     `json:"value"`
	Exact     string     `json:"exact,omitempty"`
	Decimals  string     `json:"decimals,omitempty"`
	Tolerance string     `json:"tolerance,omitempty"`
}

// Hash returns H(JCS(x)).
func (x Expected) Hash() domain.Hash { return hashJSON(x) }

// number is the Expected of an exact value asked for with some decimals.
func number(kind AnswerKind, exact ratio, decimals int) Expected {
	exact = exact.lowest()
	return Expected{
		Kind:      kind,
		Value:     exact.rounded(decimals),
		Exact:     exact.String(),
		Decimals:  strconv.Itoa(decimals),
		Tolerance: tolerance(exact, decimals).String(),
	}
}

// count is the Expected of a whole number, which is right or wrong.
func count(digits string) Expected { return Expected{Kind: Number, Value: digits, Exact: digits} }

// toTheCent is the Expected of a sum of money that is right to the last digit; half
// a cent is for the two ways to round.
func toTheCent(exact ratio) Expected {
	x := number(Number, exact, 2)
	x.Tolerance = "1/200"
	return x
}
