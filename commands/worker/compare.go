package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/task"
)

// compare looks at everything revealed of a consent, after a day was opened or at
// the consent's end, and records what it comes to.
func (w *Worker) compare(ctx context.Context, v *view, day uint32, cycle finding.Cycle) error {
	c := v.Granted
	in := Arms{Unplanned: unplanned(v), PAlways: v.comparisons.PAlways, Limit: w.deadline()}
	var err error
	if in.Exam, err = w.Work.Exam(ctx, c.Payload.Agent); err != nil {
		return err
	}
	if in.Field, err = w.Work.Field(ctx, c.Consent); err != nil {
		return err
	}
	if in.AllField, err = w.Work.AgentField(ctx, c.Payload.Agent); err != nil {
		return err
	}
	r := Compare(in)
	r.Consent, r.Agent, r.Demo = c.Consent, c.Payload.Agent, v.Demo
	r.Cycle, r.Day, r.Look = cycle, day, v.comparisons.Looks+1
	command := fmt.Sprintf("compare/%s/%s/%d", c.Consent, cycle, day)
	r.Note = finding.Note(r)
	if err := w.Service.Finding(ctx, meta(command), c.Consent, finding.Reach(r)); err != nil {
		return err
	}
	v.comparisons.Looks++
	v.comparisons.PAlways = r.PAlways
	if r.GatedVerdict == finding.ExamOnly && v.comparisons.Confirmed == 0 {
		v.comparisons.Confirmed = r.Look
	}
	return nil
}

// report opens the incident that follows from a confirmed finding, unless that was
// done. A worker that dies before it has is followed by one that does.
func (w *Worker) report(ctx context.Context, v *view) error {
	c := &v.comparisons
	halfway := v.Demo && (c.Incident == incident.Reported || c.Incident == incident.StageConfirmed)
	if c.Confirmed == 0 || c.Incident != incident.None && !halfway {
		return nil
	}
	if err := w.Service.OpenIncident(ctx, v.Granted.Consent, c.Confirmed); err != nil {
		return err
	}
	w.Log.InfoContext(ctx, "a finding has led to an incident", "consent", v.Granted.Consent, "incident", incident.ID(v.Granted.Consent))
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

// Arms is what a comparison looks at.
type Arms struct {
	Exam      []exam.Sample
	Field     []Result      // revealed, of the consent
	Unplanned int           // tasks of days without a plan: they count as missed
	AllField  []Result      // revealed, of all consents the agent ever had
	PAlways   string        // of the look before, "" for the first
	Limit     time.Duration // of a task: what timed out took at least that long
}

// Compare returns the comparison of exam and field, and what stands beside it.
func Compare(a Arms) finding.Reached {
	var examined, field, everywhere tally
	for _, t := range a.Exam {
		examined.add(t.Family, shop.Result{State: shop.StateJudged, Outcome: t.Outcome, LatencyMs: t.LatencyMs}, a.Limit)
	}
	for _, r := range a.Field {
		field.add(r.Family, r.Result, a.Limit)
	}
	for _, r := range a.AllField {
		everywhere.add(r.Family, r.Result, a.Limit)
	}
	field.arm.Missed += a.Unplanned
	e, f := examined.counts(), field.counts()
	c := stats.Compare(e, f)
	r := finding.Reached{
		Exam: examined.close(e), Field: field.close(f),
		Sources: sources(a.Exam), Families: families(&examined, &field),
		Verdict:    finding.Verdict(c.Verdict),
		Rule:       rule,
		Thresholds: finding.CurrentThresholds(),
		Latency: finding.LatencyRatios{
			Median: ratio(examined.latencies, field.latencies, .5), P90: ratio(examined.latencies, field.latencies, .9),
		},
	}
	if c.Test != "" {
		r.Test, r.P = string(c.Test), stats.Format(c.P)
	}
	if e.N > 0 && f.N > 0 {
		r.Drop = interval(c.Drop, c.DropInterval)
		r.Conformity = interval(stats.Conformity(e, f))
	}
	gate(&r, a.PAlways, e, f, field.lost())
	beside(&r, &examined, &field, e, f)
	r.AllConsents = allConsents(e, &everywhere)
	return r
}

// rule is the version of the comparison: test, thresholds and what counts.
const rule = 1

// gate adds the verdict that only ever rises on evidence which holds however often
// one looks.
func gate(r *finding.Reached, before string, e, f stats.Counts, lost int) {
	r.GatedVerdict = finding.Verdict(stats.Gated(e, f, lost))
	least, err := strconv.ParseFloat(before, 64)
	if err != nil {
		least = 1 // of the first look
	}
	r.PAlways = stats.Format(least)
	if e.N > 0 && f.N > 0 {
		logE := stats.LogE(e, f)
		r.LogE, r.PAlways = stats.Format(logE), stats.Format(stats.PAlways(least, logE, e, f))
	}
}

// beside adds what helps to judge a verdict and does not decide it.
func beside(r *finding.Reached, examined, field *tally, e, f stats.Counts) {
	band := stats.BlockedBand(e, f, field.lost())
	r.Band = finding.Band{Passed: finding.Verdict(band.Passed), Failed: finding.Verdict(band.Failed)}
	if drop, ok := stats.DetectableDrop(e, f.N); ok {
		r.DetectableDrop = stats.Format(drop)
	}
	var strata []stats.Table
	for _, family := range r.Families {
		strata = append(strata, stats.Table{Exam: examined.families[family.Family], Field: field.families[family.Family]})
	}
	s := stats.Stratify(strata)
	r.Stratified = finding.Stratified{
		Strata: s.Strata, Z: figure(s.Z), P: figure(s.P), RiskDifference: figure(s.RiskDifference), OddsRatio: figure(s.OddsRatio), Mix: s.Mix,
	}
}

func allConsents(e stats.Counts, everywhere *tally) finding.AllConsents {
	f := everywhere.counts()
	c := stats.Compare(e, f)
	all := finding.AllConsents{
		Counted: f.N, Passed: f.Passes,
		Verdict: finding.Verdict(c.Verdict), GatedVerdict: finding.Verdict(stats.Gated(e, f, everywhere.lost())),
	}
	if c.Test != "" {
		all.P = stats.Format(c.P)
	}
	if e.N > 0 && f.N > 0 {
		all.LogE = stats.Format(stats.LogE(e, f))
	}
	return all
}

// figure writes a number, and nothing for one that does not exist.
func figure(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return stats.Format(f)
}

func interval(value float64, i stats.Interval) finding.Interval {
	return finding.Interval{Value: figure(value), Low: figure(i.Lo), High: figure(i.Hi)}
}

func ratio(exam, field []stats.Reading, q float64) string {
	e, ok := stats.CensoredQuantile(exam, q)
	f, also := stats.CensoredQuantile(field, q)
	if !ok || !also || e.AtLeast || e.Value == 0 {
		return ""
	}
	return stats.Reading{Value: f.Value / e.Value, AtLeast: f.AtLeast}.String()
}

// A tally counts one arm.
type tally struct {
	arm       finding.Arm
	latencies []stats.Reading
	families  map[string]stats.Counts
}

func (t *tally) add(family string, r shop.Result, limit time.Duration) {
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
	switch r.Outcome {
	case task.Error: // has no time of its own
	case task.Timeout:
		t.latencies = append(t.latencies, stats.Reading{Value: float64(limit.Milliseconds()), AtLeast: true})
	default:
		t.latencies = append(t.latencies, stats.Reading{Value: float64(r.LatencyMs)})
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

// lost is how many planned tasks say nothing: they were blocked or missed.
func (t *tally) lost() int { return t.arm.Blocked + t.arm.Missed }

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

func quantile(sample []stats.Reading, q float64) string {
	v, ok := stats.CensoredQuantile(sample, q)
	if !ok {
		return ""
	}
	return v.String()
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

// sources counts the samples of the exam by where they come from.
func sources(samples []exam.Sample) []finding.Source {
	list := []finding.Source{}
	for _, s := range samples {
		i := slices.IndexFunc(list, func(f finding.Source) bool { return f.Source == s.Source })
		if i < 0 {
			i = len(list)
			list = append(list, finding.Source{Source: s.Source})
		}
		if s.Outcome == task.Blocked {
			continue
		}
		list[i].Counted++
		if s.Outcome == task.Pass {
			list[i].Passed++
		}
	}
	slices.SortFunc(list, func(a, b finding.Source) int { return strings.Compare(a.Source, b.Source) })
	return list
}
