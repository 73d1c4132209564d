package task_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// An answerCase is a row of testdata/answer_cases.json with what must come of it.
type answerCase struct {
	task.Case
	RightOutcome task.Outcome `json:"right_outcome"`
	Debatable    bool         `json:"debatable"`
	Literal      task.Outcome `json:"literal_first12_outcome"`
	Clear        bool         `json:"clear_under_spec"`
}

func readCases(tb testing.TB) []answerCase {
	tb.Helper()
	data, err := os.ReadFile("testdata/answer_cases.json")
	if err != nil {
		tb.Fatal(err)
	}
	var cases []answerCase
	if err := json.Unmarshal(data, &cases); err != nil {
		tb.Fatal(err)
	}
	return cases
}

// keptLiteral holds the debatable cases where we keep to the plain rule, which
// fails them: the answer is written in words, with a multiplier, in another
// language or without its year, where the prompts of the catalogue ask for
// digits, English, and whole dates.
var keptLiteral = map[string]bool{
	"invo-020": true, "arit-021": true, // 12.3 lakh, 2.5k
	"arit-064": true, "arit-065": true, "arit-066": true, "unit-118": true, "chai-219": true, "evm-182": true, // number words
	"evm-185":  true,                   // blanks behind the point
	"date-133": true, "date-134": true, // no year, a French month
	"date-141": true, // a French weekday
	"arit-238": true, // "I can help with 2 of 3 parts only"
}

func TestAnswerCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			asked, err := c.Task()
			if err != nil {
				t.Fatal(err)
			}
			want := c.RightOutcome
			literal := want
			if c.Debatable {
				literal = c.Literal
				if keptLiteral[c.ID] {
					want = literal
				}
			}
			g := task.Mark(asked, c.Reply)
			if g.Outcome != want {
				t.Errorf("Mark(%q).Outcome = %s by %s, want %s", c.Reply, g.Outcome, g.Rule, want)
			}
			if g.Literal != literal {
				t.Errorf("Mark(%q).Literal = %s, want %s", c.Reply, g.Literal, literal)
			}
		})
	}
}

// The expected value of a case comes from a file of anybody's: an exponent in it
// must not become a number that fills the memory.
func TestCaseRefusesExponents(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1e999999999", "1/3", "0x10", "1E5", "inf", strings.Repeat("9", 1<<20), ".", "--1"} {
		c := task.Case{ID: "c", Family: "arith.average", ExpectedValue: value, DecimalsAsked: "2"}
		if _, err := c.Task(); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Task with %.20q expected: %v, want ErrInvalid", value, err)
		}
	}
}
