package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/task"
)

// compare looks at everything revealed of a consent, after a day was opened or at
// the consent's end, and records what it comes to.
func (w *Worker) compare(ctx context.Context, v *view, day uint32, cycle finding.Cycle) error {
	c := v.Granted
	attempts, err := w.Work.Exam(ctx, c.Payload.Agent)
	if err != nil {
		return err
	}
	results, err := w.Work.Field(ctx, c.Consent)
	if err != nil {
		return err
	}
	r := Compare(attempts, results, unplanned(v))
	r.Consent, r.Agent, r.Demo = c.Consent, c.Payload.Agent, v.Demo
	r.Cycle, r.Day, r.Look = cycle, day, v.comparisons.Looks+1
	command := fmt.Sprintf("compare/%s/%s/%d", c.Consent, cycle, day)
	r.Note = note(r)
	if err := w.Service.Finding(ctx, meta(command), c.Consent, finding.Reach(r)); err != nil {
		return err
	}
	v.comparisons.Looks++
	return nil
}

// unplanned returns the tasks of the days that were opened without ever having
// been planned: they count as missed.
func unplanned(v *view) (n int) {
	for _, p := range v.plans {
		if p.Consent == v.Granted.Consent && p.Opened && !p.Sealed {
			n += p.Count
		}
	}
	return n
}

// Compare returns the comparison of exam attempts with revealed field results.
// unplanned tasks of days without a plan are added to those missed.
func Compare(attempts []exam.Attempt, results []Result, unplanned int) finding.Reached {
	var examined, field tally
	for _, a := range attempts {
		examined.add(a.Family, shop.Result{State: shop.StateJudged, Outcome: a.Outcome, LatencyMs: a.LatencyMs})
	}
	for _, r := range results {
		field.add(r.Family, r.Result)
	}
	field.arm.Missed += unplanned
	e, f := examined.counts(), field.counts()
	c := stats.Compare(e, f)
	r := finding.Reached{
		Exam: examined.close(e), Field: field.close(f),
		Families: families(&examined, &field),
		Verdict:  finding.Verdict(c.Verdict),
		Rule:     rule,
		Thresholds: finding.Thresholds{
			MinExam: stats.MinExam, MinField: stats.MinField,
			MaxP: stats.Format(stats.MaxP), MinDropPoints: stats.MinDropPoints,
		},
	}
	if c.Test != "" {
		r.Test, r.P = string(c.Test), stats.Format(c.P)
	}
	if e.N > 0 && f.N > 0 {
		r.Drop = finding.Interval{
			Value: stats.Format(c.Drop), Low: stats.Format(c.DropInterval.Lo), High: stats.Format(c.DropInterval.Hi),
		}
	}
	return r
}

// rule is the version of the comparison: test, thresholds and what counts.
const rule = 1

// A tally counts one arm.
type tally struct {
	arm       finding.Arm
	latencies []float64
	families  map[string]stats.Counts
}

func (t *tally) add(family string, r shop.Result) {
	switch r.State {
	case shop.StateMissed:
		t.arm.Missed++
		return
	case shop.StateCancelled:
		t.arm.Cancelled++
		return
	default: // it was sent, and has an outcome
	}
	switch r.Outcome {
	case task.Pass:
		t.arm.Passed++
	case task.Fail:
		t.arm.Failed++
	case task.Refused:
		t.arm.Refused++
	case task.Timeout:
		t.arm.TimedOut++
	case task.Error:
		t.arm.Errored++
	case task.Blocked:
		t.arm.Blocked++
		return
	}
	t.arm.Counted++
	if r.Outcome != task.Error && r.Outcome != task.Timeout { // neither has a time of its own
		t.latencies = append(t.latencies, float64(r.LatencyMs))
	}
	if t.families == nil {
		t.families = make(map[string]stats.Counts)
	}
	f := t.families[family]
	f.N++
	if r.Outcome == task.Pass {
		f.Passes++
	}
	t.families[family] = f
}

func (t *tally) counts() stats.Counts { return stats.Counts{N: t.arm.Counted, Passes: t.arm.Passed} }

func (t *tally) close(c stats.Counts) finding.Arm {
	if c.N > 0 {
		wilson := stats.Wilson(c)
		t.arm.Rate = finding.Interval{
			Value: stats.Format(c.Rate()), Low: stats.Format(wilson.Lo), High: stats.Format(wilson.Hi),
		}
	}
	t.arm.MedianMs, t.arm.P90Ms = quantile(t.latencies, .5), quantile(t.latencies, .9)
	return t.arm
}

func quantile(sample []float64, q float64) string {
	v, ok := stats.Quantile(sample, q)
	if !ok {
		return ""
	}
	return stats.Format(v)
}

func families(examined, field *tally) []finding.Family {
	list := []finding.Family{}
	names := make(map[string]bool)
	for name := range examined.families {
		names[name] = true
	}
	for name := range field.families {
		names[name] = true
	}
	for name := range names {
		e, f := examined.families[name], field.families[name]
		list = append(list, finding.Family{
			Family: name, ExamCount: e.N, ExamPassed: e.Passes, FieldCount: f.N, FieldPassed: f.Passes,
		})
	}
	slices.SortFunc(list, func(a, b finding.Family) int { return strings.Compare(a.Family, b.Family) })
	return list
}

// note says in plain words what a comparison came to, as it stands on the
// certificate.
func note(r finding.Reached) string {
	var b strings.Builder
	if r.Demo {
		b.WriteString("DEMO. ")
	}
	fmt.Fprintf(&b, "Exam: %s. Unannounced tasks in production: %s. ", share(r.Exam), share(r.Field))
	switch r.Verdict {
	case finding.ExamOnly:
		fmt.Fprintf(&b, "The agent does significantly worse where it is not examined (one-sided p = %s, %s; the rule asks for p < %s and a drop of at least %d points).",
			rounded(r.P), r.Test, r.Thresholds.MaxP, r.Thresholds.MinDropPoints)
	case finding.Consistent:
		fmt.Fprintf(&b, "No significant, material drop was found (one-sided p = %s, %s). That is no proof that there is none.", rounded(r.P), r.Test)
	case finding.Insufficient:
		fmt.Fprintf(&b, "That is too little to compare: the rule asks for %d exam attempts and %d counted field tasks.",
			r.Thresholds.MinExam, r.Thresholds.MinField)
	}
	return b.String()
}

// rounded writes a p-value as people read it; the finding has all its digits.
func rounded(p string) string {
	f, err := strconv.ParseFloat(p, 64)
	switch {
	case err != nil:
		return p
	case f < 1e-300:
		return "less than 1e-300"
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func share(a finding.Arm) string {
	if a.Counted == 0 {
		return "no counted task"
	}
	// In tenths of a percent, rounded half up, without floating point.
	tenths := (2000*a.Passed + a.Counted) / (2 * a.Counted)
	return fmt.Sprintf("%d of %d passed (%d.%d %%)", a.Passed, a.Counted, tenths/10, tenths%10)
}
