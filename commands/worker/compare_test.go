package worker_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

func attempts(outcome task.Outcome, n int) (list []exam.Sample) {
	for range n {
		list = append(list, exam.Sample{Source: "run:harness", Family: "dates", Outcome: outcome, LatencyMs: 10})
	}
	return list
}

func results(outcome task.Outcome, n int) (list []worker.Result) {
	for range n {
		list = append(list, worker.Result{Family: "units", Result: shop.Result{State: shop.StateJudged, Outcome: outcome, LatencyMs: 20}})
	}
	return list
}

func TestCompareVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		exam      []exam.Sample
		field     []worker.Result
		verdict   finding.Verdict
		test      string
		p         float64 // 0: not looked at
		unplanned int
	}{
		{
			name: "as the specification's own example", exam: attempts(task.Pass, 40),
			field:   append(results(task.Pass, 18), results(task.Fail, 22)...),
			verdict: finding.ExamOnly, test: "z_pooled", p: 1.808350515007746e-08,
		},
		{
			name: "one more pass of 12 would not do", exam: attempts(task.Pass, 20),
			field:   append(results(task.Pass, 7), results(task.Refused, 5)...),
			verdict: finding.ExamOnly, test: "fisher_exact", p: 0.0039329413634196725,
		},
		{
			name: "and it does not", exam: attempts(task.Pass, 20),
			field:   append(results(task.Pass, 8), results(task.Error, 4)...),
			verdict: finding.Consistent, test: "fisher_exact", p: 0.013765294771968854,
		},
		{
			name: "19 attempts", exam: attempts(task.Pass, 19), field: results(task.Fail, 40),
			verdict: finding.Insufficient, test: "z_pooled",
		},
		{
			name: "11 counted tasks, however many are blocked", exam: attempts(task.Pass, 40),
			field:   append(results(task.Fail, 11), results(task.Blocked, 30)...),
			verdict: finding.Insufficient,
		},
		{name: "nothing at all", verdict: finding.Insufficient, unplanned: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := worker.Compare(worker.Arms{Exam: tt.exam, Field: tt.field, Unplanned: tt.unplanned})
			if got.Verdict != tt.verdict {
				t.Errorf("verdict %s, want %s", got.Verdict, tt.verdict)
			}
			if p, err := strconv.ParseFloat(got.P, 64); tt.p != 0 && (err != nil || got.Test != tt.test || math.Abs(p-tt.p) > 1e-9*tt.p) {
				t.Errorf("%s gives p = %s, want %v with %s", got.Test, got.P, tt.p, tt.test)
			}
			if got.Field.Missed != tt.unplanned {
				t.Errorf("%d missed, want the %d that were never planned", got.Field.Missed, tt.unplanned)
			}
		})
	}
}

func TestCompareCountsEachEnd(t *testing.T) {
	t.Parallel()
	field := results(task.Pass, 3)
	for _, outcome := range []task.Outcome{task.Fail, task.Refused, task.Timeout, task.Error, task.Blocked} {
		field = append(field, results(outcome, 1)...)
	}
	for _, state := range []shop.State{shop.StateMissed, shop.StateCancelled} {
		field = append(field, worker.Result{Family: "units", Result: shop.Result{State: state}})
	}
	got := worker.Compare(worker.Arms{Field: field, Unplanned: 4, Limit: 30 * time.Second}).Field
	got.Rate, got.MedianMs, got.P90Ms = finding.Interval{}, "", ""
	want := finding.Arm{
		Counted: 7, Passed: 3, Failed: 1, Refused: 1, TimedOut: 1, Errored: 1, Blocked: 1, Missed: 5, Cancelled: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("field arm (-want +got):\n%s", diff)
	}
}

func TestCompareByFamily(t *testing.T) {
	t.Parallel()
	got := worker.Compare(worker.Arms{
		Exam:  append(attempts(task.Pass, 2), attempts(task.Fail, 1)...),
		Field: append(results(task.Pass, 4), results(task.Blocked, 9)...),
	})
	want := []finding.Family{
		{Family: "dates", ExamCount: 3, ExamPassed: 2},
		{Family: "units", FieldCount: 4, FieldPassed: 4},
	}
	if diff := cmp.Diff(want, got.Families); diff != "" {
		t.Errorf("families (-want +got):\n%s", diff)
	}
}

// The gate, over the looks of one consent: the p-value that always holds never
// rises, a first sighting is watched, and what is confirmed stays so only while the
// evidence does.
func TestCompareGate(t *testing.T) {
	t.Parallel()
	var field []worker.Result
	before := ""
	var got []finding.Verdict
	var ps []float64
	for _, day := range []struct{ passed, failed int }{{7, 5}, {0, 3}, {0, 12}, {60, 0}} {
		field = append(append(field, results(task.Pass, day.passed)...), results(task.Fail, day.failed)...)
		r := worker.Compare(worker.Arms{Exam: attempts(task.Pass, 20), Field: field, AllField: field, PAlways: before})
		p, err := strconv.ParseFloat(r.PAlways, 64)
		if err != nil {
			t.Fatal(err)
		}
		if r.AllConsents.Counted != len(field) || r.AllConsents.Verdict != r.Verdict || r.AllConsents.LogE != r.LogE {
			t.Errorf("with one consent the agent's arm is %+v and the consent's %s, %s", r.AllConsents, r.Verdict, r.LogE)
		}
		before, ps, got = r.PAlways, append(ps, p), append(got, r.GatedVerdict)
	}
	want := []finding.Verdict{finding.Watch, finding.ExamOnly, finding.ExamOnly, finding.Watch}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gated verdicts (-want +got):\n%s", diff)
	}
	for i := range ps[1:] {
		if ps[i+1] > ps[i] {
			t.Errorf("p always = %v, and it must never rise", ps)
		}
	}
}

// What says nothing is shown by the verdicts it could turn over, and too much of it
// leaves none.
func TestCompareLost(t *testing.T) {
	t.Parallel()
	field := append(results(task.Pass, 14), results(task.Fail, 6)...)
	few := worker.Compare(worker.Arms{Exam: attempts(task.Pass, 40), Field: append(field, results(task.Blocked, 8)...)})
	if few.Band != (finding.Band{Passed: finding.ExamOnly, Failed: finding.ExamOnly}) || few.GatedVerdict == finding.Insufficient {
		t.Errorf("8 of 28 lost: band %+v, gated %s", few.Band, few.GatedVerdict)
	}
	many := worker.Compare(worker.Arms{Exam: attempts(task.Pass, 40), Field: field, Unplanned: 9})
	if many.GatedVerdict != finding.Insufficient {
		t.Errorf("9 of 29 lost: gated %s, want insufficient", many.GatedVerdict)
	}
}

func TestCompareLatencies(t *testing.T) {
	t.Parallel()
	got := worker.Compare(worker.Arms{
		Exam: attempts(task.Pass, 12), Field: append(results(task.Pass, 6), results(task.Timeout, 6)...), Limit: 30 * time.Second,
	})
	if got.Exam.MedianMs != "10" || got.Field.MedianMs != "≥15010" || got.Field.P90Ms != "≥30000" || got.Latency.P90 != "≥3000" {
		t.Errorf("exam %s ms, field %s ms and %s ms, ratio %s; a timeout took at least as long as it was given",
			got.Exam.MedianMs, got.Field.MedianMs, got.Field.P90Ms, got.Latency.P90)
	}
}

// The two sources of an exam count together and are listed apart; what was blocked
// counts in neither.
func TestCompareSources(t *testing.T) {
	t.Parallel()
	trials, runs := attempts(task.Pass, 3), attempts(task.Fail, 2)
	for i := range trials {
		trials[i].Source = exam.Trials
	}
	got := worker.Compare(worker.Arms{Exam: append(append(trials, runs...), attempts(task.Blocked, 1)...)})
	want := []finding.Source{{Source: "run:harness", Counted: 2}, {Source: "trial", Counted: 3, Passed: 3}}
	if diff := cmp.Diff(want, got.Sources); diff != "" || got.Exam.Counted != 5 {
		t.Errorf("%d counted, sources (-want +got):\n%s", got.Exam.Counted, diff)
	}
}
