package house

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A solution is the right answer to a question, and one that is surely wrong.
type solution struct{ right, wrong string }

var (
	quoted     = regexp.MustCompile(`"([^"]*)"`)
	bracketed  = regexp.MustCompile(`\s*\([^)]*\)`)
	rounding   = regexp.MustCompile(`(?i)\b(zero|one|two|three|four|five|six|\d+) decimals?( places?)?`)
	numeral    = regexp.MustCompile(`\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?`)
	dayCount   = regexp.MustCompile(`(\d+) days`)
	dayOfWeek  = regexp.MustCompile(`(?i)weekday|day of the week`)
	change     = regexp.MustCompile(`(?i)change`)
	percentage = regexp.MustCompile(`(?i)percent|%`)
	share      = regexp.MustCompile(`(?i)(` + numeral.String() + `)\s*(?:%|percent)`)
	average    = regexp.MustCompile(`(?i)average|\bmean\b`)
	shaHash    = regexp.MustCompile(`(?i)\bsha-?256\b`)
	base64Word = regexp.MustCompile(`(?i)\bbase64\b`)
)

// Bounds on questions: what exceeds them is not understood.
const (
	maxQuestion = 4 << 10
	maxDigits   = 40
)

// solve reads a question in words. It reports false if it does not understand it.
func solve(question string) (solution, bool) {
	if len(question) > maxQuestion {
		return solution{}, false
	}
	if m := quoted.FindStringSubmatch(question); m != nil {
		switch {
		case keccakWord.MatchString(question):
			return solution{hex.EncodeToString(keccak(m[1])), hex.EncodeToString(keccak(m[1] + "\n"))}, true
		case shaHash.MatchString(question):
			return solution{digest(m[1]), digest(m[1] + "\n")}, true
		case base64Word.MatchString(question):
			return solution{encode(m[1]), encode(m[1] + "\n")}, true
		}
		return solution{}, false
	}
	if s, ok := solveEthereum(question); ok {
		return s, true
	}
	invoice := valueTax.MatchString(question)
	if day, rest, ok := findDate(question); ok && !invoice {
		return solveDate(day, rest)
	}
	places := 2
	if m := rounding.FindStringSubmatch(question); m != nil {
		places = count(m[1])
		question = rounding.ReplaceAllString(question, "")
	}
	if invoice {
		return solveInvoice(question, places)
	}
	question = bracketed.ReplaceAllString(question, "")
	switch numbers := findNumbers(question); {
	case len(numbers) == 0:
		return solution{}, false
	case percentage.MatchString(question) && change.MatchString(question):
		if len(numbers) < 2 || numbers[0].Sign() == 0 {
			return solution{}, false
		}
		step := new(big.Rat).Sub(numbers[1], numbers[0])
		return value(step.Mul(step.Quo(step, numbers[0]), big.NewRat(100, 1)), places), true
	case compound.MatchString(question):
		return solveCompound(question, places)
	case tipping.MatchString(question):
		return solveTip(question, places)
	case share.MatchString(question):
		return solveShare(question, places)
	case average.MatchString(question):
		sum := new(big.Rat)
		for _, n := range numbers {
			sum.Add(sum, n)
		}
		return value(sum.Quo(sum, big.NewRat(int64(len(numbers)), 1)), places), true
	}
	return solveUnits(question, places)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// value writes a number with some decimals. The wrong one is off by an eighth and
// one more, which no rounding explains.
func value(x *big.Rat, places int) solution {
	off := new(big.Rat).Mul(x, big.NewRat(9, 8))
	if x.Sign() < 0 {
		off.Sub(off, big.NewRat(1, 1))
	} else {
		off.Add(off, big.NewRat(1, 1))
	}
	return solution{x.FloatString(places), off.FloatString(places)}
}

var numberWords = []string{"zero", "one", "two", "three", "four", "five", "six"}

func count(word string) int {
	if n := slices.Index(numberWords, strings.ToLower(word)); n >= 0 {
		return n
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		return 2
	}
	return min(n, 18)
}

func findNumbers(text string) []*big.Rat {
	var numbers []*big.Rat
	for _, s := range numeral.FindAllString(text, -1) {
		if r, ok := number(s); ok {
			numbers = append(numbers, r)
		}
	}
	return numbers
}

// number reads a number as people write it. Exponents are none of that, and
// would make a few bytes fill the memory.
func number(s string) (*big.Rat, bool) {
	if len(s) > maxDigits || strings.ContainsAny(s, "eEpP_/") {
		return nil, false
	}
	return new(big.Rat).SetString(strings.ReplaceAll(s, ",", ""))
}

// solveShare finds the share of a whole, which is the other number.
func solveShare(question string, places int) (solution, bool) {
	m := share.FindStringSubmatchIndex(question)
	p, ok := number(question[m[2]:m[3]])
	others := findNumbers(question[:m[0]] + " " + question[m[1]:])
	if !ok || len(others) == 0 {
		return solution{}, false
	}
	return value(p.Mul(p, others[0]).Quo(p, big.NewRat(100, 1)), places), true
}

// dates are the ways to write a date.
var dates = []struct {
	pattern *regexp.Regexp
	layout  string
}{
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`), "2006-01-02"},
	{regexp.MustCompile(`\b\d{1,2} [A-Z][a-z]+ \d{4}\b`), "2 January 2006"},
	{regexp.MustCompile(`\b[A-Z][a-z]+ \d{1,2}, \d{4}\b`), "January 2, 2006"},
}

// findDate returns the date in a text, and the text without it.
func findDate(text string) (time.Time, string, bool) {
	for _, d := range dates {
		for _, at := range d.pattern.FindAllStringIndex(text, -1) {
			if day, err := time.Parse(d.layout, text[at[0]:at[1]]); err == nil {
				return day, text[:at[0]] + text[at[1]:], true
			}
		}
	}
	return time.Time{}, "", false
}

func solveDate(day time.Time, rest string) (solution, bool) {
	if dayOfWeek.MatchString(rest) {
		return solution{day.Weekday().String(), day.AddDate(0, 0, 1).Weekday().String()}, true
	}
	if end, _, ok := findDate(rest); ok {
		return solveInterval(day, end), true
	}
	m := dayCount.FindStringSubmatch(rest)
	if m == nil {
		return solution{}, false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n > 1_000_000 {
		return solution{}, false
	}
	write := func(n int) string { return day.AddDate(0, 0, n).Format("2006-01-02") }
	return solution{write(n), write(n + 1)}, true
}
