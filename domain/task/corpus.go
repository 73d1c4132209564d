package task

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
)

// A Case is a reply to be marked together with what was asked, in the form in
// which collections of such replies are exchanged.
type Case struct {
	ID            string `json:"id"`
	Family        string `json:"family"`
	PromptSketch  string `json:"prompt_sketch"`
	ExpectedValue string `json:"expected_value"`
	DecimalsAsked string `json:"decimals_asked"` // a count, "exact", or empty where no number is asked
	Reply         string `json:"reply"`
}

// Task returns the task that c.Reply answers, as far as Mark needs it.
func (c Case) Task() (Task, error) {
	t := Task{Template: c.Family, Prompt: c.PromptSketch}
	t.Family, _, _ = strings.Cut(c.Family, ".")
	kind := Number
	switch c.Family {
	case "arith.percent_change":
		kind = Change
	case "date.add_days":
		kind = Date
	case "date.weekday":
		kind = Weekday
	case "hash.sha256", "hash.keccak256", "selector", "chain.block_hash":
		kind = Hex
	case "hash.base64":
		kind = Base64
	case "checksum":
		kind = Checksum
	case paymentTemplate:
		kind = Token
	}
	if kind != Number && kind != Change {
		t.Expected = Expected{Kind: kind, Value: c.ExpectedValue}
		return t, nil
	}
	exact, ok := plainDecimal(c.ExpectedValue)
	if !ok {
		return Task{}, fmt.Errorf("case %q expects %q, which is no number: %w", c.ID, c.ExpectedValue, domain.ErrInvalid)
	}
	if c.DecimalsAsked == "exact" {
		t.Expected = Expected{Kind: kind, Value: c.ExpectedValue, Exact: exact.String()}
		return t, nil
	}
	decimals, err := strconv.Atoi(c.DecimalsAsked)
	if err != nil || decimals < 0 || decimals > maxExponent {
		return Task{}, fmt.Errorf("case %q asks for %q decimals: %w", c.ID, c.DecimalsAsked, domain.ErrInvalid)
	}
	t.Expected = number(kind, exact, decimals)
	if c.Family == "date.days_between" || c.Family == "chain.balance" || strings.HasPrefix(c.Family, "evm.") {
		t.Expected.Tolerance = "" // counts and amounts are right or wrong
	}
	return t, nil
}

// plainDecimal reads a decimal of bounded length. It takes no exponent, which would
// make of a few bytes a number of any size.
func plainDecimal(s string) (ratio, bool) {
	if len(s) > maxNumeral || strings.Trim(strings.TrimLeft(s, "+-"), "0123456789.") != "" {
		return ratio{}, false
	}
	return readRatio(s)
}
