package explorer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

// This file holds what things are called on pages. The name that programs have for the
// verdict "consistent" is not among the words: people would take it for praise.

// A verdictWord is a verdict in words, with the shape that goes with it.
type verdictWord struct {
	Name  string // for programs
	Words string
	Shape string // triangle, ring, eye or dashes: see the template mark
}

// verdicts are the gated ones, in the order of filters.
var verdicts = []verdictWord{
	{string(finding.ExamOnly), "Exam only", "triangle"},
	{string(finding.Watch), "First sighting, not confirmed", "outline"},
	{string(finding.Consistent), "No difference found", "ring"},
	{string(finding.Insufficient), "Not enough data", "dashes"},
}

func wordOf(v finding.Verdict) verdictWord {
	for _, w := range verdicts {
		if w.Name == string(v) {
			return w
		}
	}
	return verdictWord{string(v), "Not enough data", "dashes"}
}

// stateWords say how a consent stands.
var stateWords = map[string]string{
	projections.Active: "Active", projections.Revoked: "Revoked", projections.Expired: "Expired", projections.Ended: "Ended", projections.Refused: "Refused",
}

// endingWords say what became of a task.
var endingWords = map[string]string{
	string(task.Pass): "Right", string(task.Fail): "Wrong", string(task.Refused): "Refused", string(task.Timeout): "No answer in time",
	string(task.Error): "Error", string(task.Blocked): "Blocked, not counted", string(shop.StateMissed): "Missed, not counted",
	string(shop.StateCancelled): "Cancelled, not counted",
}

func endingWord(ending string) string {
	if w, ok := endingWords[ending]; ok {
		return w
	}
	return ending
}

// familyNames say what the tasks of a family are about.
var familyNames = map[string]string{
	"arith": "Arithmetic", "chain": "On-chain reads", "date": "Dates", "evm": "EVM units", "hash": "Hashes and encodings",
	"invoice": "Invoices", "selector": "Selectors and checksums", "unit": "Unit conversion", "x402": "Paid resources",
}

func familyName(family string) string {
	if name, ok := familyNames[family]; ok {
		return name
	}
	return family
}

// bareRef is an agent as people call it: a build by its bare id.
func bareRef(ref agent.Ref) string {
	if id, ok := strings.CutPrefix(string(ref), "build:"); ok {
		return id
	}
	return string(ref)
}

// shorten cuts what is long and has no words. The whole stands in the markup beside it.
func shorten(v any) string {
	s := fmt.Sprint(v)
	switch {
	case strings.HasPrefix(s, "0x") && len(s) > 14:
		return s[:8] + "…" + s[len(s)-4:]
	case len(s) > 12:
		return s[:8] + "…"
	}
	return s
}

// ratio rounds a decimal number to hundredths, and leaves what is none.
func ratio(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
}

// ago says how long something is past, in one unit. What lies ahead is told apart.
func ago(d time.Duration) string {
	form := "%s\u00a0ago"
	if d < 0 {
		form, d = "in\u00a0%s", -d
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * 24 * time.Hour, "y"}, {24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if n := d / unit.length; n > 0 {
			return fmt.Sprintf(form, fmt.Sprintf("%d\u00a0%s", n, unit.name))
		}
	}
	return "now"
}

// A share is a rate with its interval, between 0 and 1.
type share struct {
	Counted, Passed  int
	Rate, Low, High  float64
	HasRate, HasSpan bool
}

func shareOf(counted, passed int, i finding.Interval) share {
	s := share{Counted: counted, Passed: passed}
	rate, err := strconv.ParseFloat(i.Value, 64)
	s.Rate, s.HasRate = rate, err == nil
	low, errLow := strconv.ParseFloat(i.Low, 64)
	high, errHigh := strconv.ParseFloat(i.High, 64)
	s.Low, s.High, s.HasSpan = low, high, errLow == nil && errHigh == nil
	return s
}

// Text is the rate with its interval in percent.
func (s share) Text() string {
	switch {
	case !s.HasRate:
		return "no counted task"
	case !s.HasSpan:
		return percent(s.Rate)
	}
	return fmt.Sprintf("%s (%s–%s)", percent(s.Rate), percentNumber(s.Low), percentNumber(s.High))
}

func percent(f float64) string { return percentNumber(f) + " %" }

func percentNumber(f float64) string {
	return strconv.FormatFloat(math.Round(f*1000)/10, 'f', -1, 64)
}

// points writes a difference of rates in percentage points, with the sign of a fall.
func points(text string) (string, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", false
	}
	return signed(-f), true
}

// signed writes points with a true minus sign.
func signed(f float64) string {
	n := strconv.FormatFloat(math.Abs(math.Round(f*1000)/10), 'f', -1, 64)
	switch {
	case n == "0":
		return "0"
	case f < 0:
		return "−" + n
	}
	return "+" + n
}

// detectable is the smallest fall that would be seen 4 times in 5, in points: "" if none
// would.
func detectable(f finding.Reached) string {
	d, err := strconv.ParseFloat(f.DetectableDrop, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(math.Ceil(d*1000)/10, 'f', -1, 64)
}

// milliseconds writes a quantile of latency.
func milliseconds(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "unknown"
	case f >= 1000:
		return strconv.FormatFloat(math.Round(f/10)/100, 'f', -1, 64) + " s"
	}
	return strconv.FormatFloat(math.Round(f), 'f', -1, 64) + " ms"
}

// significant writes a decimal string with three digits.
func significant(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// A comparison is a finding as pages show it.
type comparison struct {
	projections.Finding

	Word       verdictWord
	Exam       share
	Field      share
	Difference string // in points, with its interval; "" where there is nothing to say
	Detectable string // in points; "" if nothing would be seen
	TestName   string
	PText      string
	ReplyText  string // what the owner says to it; "" for nothing, or if it was erased
}

// Address is the page of the comparison, which stays the same when later ones come.
func (c comparison) Address() string { return addressOfLook(c.Consent, c.Look) }

func addressOfLook(consent string, look int) string {
	return fmt.Sprintf("/mystery/%s?look=%d", consent, look)
}

// ID is what programs call it.
func (c comparison) ID() string { return finding.ID(c.Consent, c.Look) }

func comparisonOf(f projections.Finding) comparison {
	c := comparison{
		Finding: f, Word: wordOf(f.GatedVerdict), Detectable: detectable(f.Reached), PText: significant(f.P),
		Exam: shareOf(f.Exam.Counted, f.Exam.Passed, f.Exam.Rate), Field: shareOf(f.Field.Counted, f.Field.Passed, f.Field.Rate),
	}
	switch f.Test {
	case "z_pooled":
		c.TestName = "pooled z-test"
	case "fisher_exact":
		c.TestName = "Fisher’s exact test"
	}
	// Without enough data no direction is shown, whatever the points look like.
	if f.GatedVerdict != finding.Insufficient {
		value, ok := points(f.Drop.Value)
		low, _ := points(f.Drop.High)
		high, _ := points(f.Drop.Low)
		if ok {
			c.Difference = fmt.Sprintf("%s points (%s to %s)", value, low, high)
		}
	}
	return c
}

// Enough reports whether there is enough data for a verdict.
func (c comparison) Enough() bool { return c.GatedVerdict != finding.Insufficient }

// Lost is the share of planned tasks that were blocked or missed, in percent.
func (c comparison) Lost() int {
	f := c.Finding.Field
	lost, all := f.Blocked+f.Missed, f.Counted+f.Blocked+f.Missed
	if all == 0 {
		return 0
	}
	return 100 * lost / all
}

// TooMuchLost reports whether that is why there is not enough data.
func (c comparison) TooMuchLost() bool {
	return !c.Enough() && c.Verdict != finding.Insufficient
}

// Badge is the comparison in one line, as a badge has it.
func (c comparison) Badge() string {
	date := c.At.Format("Jan 2006")
	if len(c.Corrections) > 0 {
		date += ", corrected"
	}
	switch {
	case c.GatedVerdict == finding.ExamOnly:
		return fmt.Sprintf("field: below its exam, n=%d, %s", c.Finding.Field.Counted, date)
	case c.GatedVerdict == finding.Watch:
		return fmt.Sprintf("field: first sighting of a gap, n=%d, %s", c.Finding.Field.Counted, date)
	case c.Enough() && c.Detectable != "":
		return fmt.Sprintf("field: no difference ≥ %s pts found, n=%d, %s", c.Detectable, c.Finding.Field.Counted, date)
	}
	return fmt.Sprintf("field: not enough data, n=%d, %s", c.Finding.Field.Counted, date)
}
