package stats_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/stats"
)

func TestConformity(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, tt := range []struct {
		exam, field   stats.Counts
		ratio, lo, hi float64
	}{
		{stats.Counts{N: 40, Passes: 40}, stats.Counts{N: 40, Passes: 18}, .45, .307, .611},
		{stats.Counts{N: 40, Passes: 38}, stats.Counts{N: 40, Passes: 36}, .947, .807, 1.094},
		{stats.Counts{N: 40, Passes: 40}, stats.Counts{N: 40}, 0, 0, .088},
		{stats.Counts{N: 40, Passes: 1}, stats.Counts{N: 40, Passes: 1}, 1, nan, nan},
		{stats.Counts{N: 40}, stats.Counts{N: 40, Passes: 1}, nan, nan, nan},
		{stats.Counts{}, stats.Counts{N: 40, Passes: 1}, nan, nan, nan},
		{stats.Counts{N: 40, Passes: 40}, stats.Counts{}, nan, nan, nan},
	} {
		ratio, i := stats.Conformity(tt.exam, tt.field)
		for _, f := range [][2]float64{{ratio, tt.ratio}, {i.Lo, tt.lo}, {i.Hi, tt.hi}} {
			if math.IsNaN(f[0]) != math.IsNaN(f[1]) || math.Abs(f[0]-f[1]) > 5e-4 {
				t.Errorf("Conformity(%v, %v) = %.4f, %.4f, want %.3f, [%.3f, %.3f]", tt.exam, tt.field, ratio, i, tt.ratio, tt.lo, tt.hi)
				break
			}
		}
	}
}

func TestDetectableDrop(t *testing.T) {
	t.Parallel()
	for exam, points := range map[stats.Counts]map[int]float64{
		{N: 40, Passes: 40}: {12: 32.4, 24: 26.4, 39: 22.3, 60: 18.4, 198: 17.2},
		{N: 20, Passes: 20}: {12: 49.7, 24: 35.4, 39: 33.3, 60: 29.1, 198: 24.0},
	} {
		for n, want := range points {
			if got, ok := stats.DetectableDrop(exam, n); !ok || math.Abs(100*got-want) > .051 {
				t.Errorf("DetectableDrop(%v, %d) = %.2f points, %t, want %.1f", exam, n, 100*got, ok, want)
			}
		}
	}
	for exam, n := range map[stats.Counts]int{{N: 40, Passes: 40}: 11, {N: 19, Passes: 19}: 40, {N: 40, Passes: 3}: 40, {N: 40}: 40} {
		if got, ok := stats.DetectableDrop(exam, n); ok {
			t.Errorf("DetectableDrop(%v, %d) = %g, want none", exam, n, got)
		}
	}
}

// The search in three stretches finds what trying every count finds: at the drop
// that is detectable, that count or fewer come with a chance of 80 %.
func TestDetectableDropAgainstDefinition(t *testing.T) {
	t.Parallel()
	for n1 := 20; n1 <= 60; n1 += 8 {
		for x1 := 4; x1 <= n1; x1 += 3 {
			exam := stats.Counts{N: n1, Passes: x1}
			for n := 12; n <= 80; n += 7 {
				most := -1
				for x := range n + 1 {
					if stats.Compare(exam, stats.Counts{N: n, Passes: x}).Verdict == stats.ExamOnly {
						most = x
					}
				}
				drop, ok := stats.DetectableDrop(exam, n)
				if ok != (most >= 0) {
					t.Fatalf("DetectableDrop(%v, %d) = %g, %t, want the last exam_only at %d", exam, n, drop, ok, most)
				}
				var chance float64
				for x := range most + 1 {
					chance += binomial(n, x, exam.Rate()-drop)
				}
				if ok && math.Abs(chance-.8) > 1e-9 {
					t.Errorf("DetectableDrop(%v, %d) = %g is seen with a chance of %g", exam, n, drop, chance)
				}
			}
		}
	}
}

func TestStratifyReference(t *testing.T) {
	t.Parallel()
	for i, r := range loadCompanions(t).CMH.Rows {
		families := make([]stats.Table, len(r.Tables))
		for j, f := range r.Tables {
			families[j] = f.table()
		}
		s := stats.Stratify(families)
		if s.Strata != r.Strata {
			t.Errorf("row %d: Strata = %d, want %d", i, s.Strata, r.Strata)
		}
		if (r.Z == nil) != math.IsNaN(s.Z) || r.Z != nil && !near(s.Z, *r.Z, 1e-12) {
			t.Errorf("row %d: Z = %v, want %v", i, s.Z, r.Z)
		}
		if none := math.IsNaN(s.OddsRatio) || math.IsInf(s.OddsRatio, 0); (r.Odds == nil) != none || r.Odds != nil && !near(s.OddsRatio, *r.Odds, 1e-12) {
			t.Errorf("row %d: OddsRatio = %v, want %v", i, s.OddsRatio, r.Odds)
		}
		checkFigure(t, "P", s.P, r.P, 1e-9)
		checkFigure(t, "RiskDifference", s.RiskDifference, r.Drop, 1e-12)
		checkFigure(t, "Crude.P", s.Crude.P, r.CrudeP, 1e-9)
		if want := i == 1; s.Mix != want { // an exam of mostly an easy family
			t.Errorf("row %d: Mix = %t, want %t", i, s.Mix, want)
		}
	}
}

func TestStratifyWithoutVariance(t *testing.T) {
	t.Parallel()
	for name, families := range map[string][]stats.Table{
		"no family":     nil,
		"an empty arm":  {row{10, 10, 0, 0}.table(), row{0, 0, 1, 5}.table()},
		"one task each": {row{0, 1, 0, 1}.table()},
		"all passed":    {row{10, 10, 12, 12}.table(), row{8, 8, 7, 7}.table()},
	} {
		if s := stats.Stratify(families); !math.IsNaN(s.Z) || s.P != 1 || s.Mix {
			t.Errorf("%s: Stratify = %+v, want no z and a p of 1", name, s)
		}
	}
	if s := stats.Stratify([]stats.Table{row{40, 40, 10, 40}.table(), row{10, 10, 0, 0}.table()}); s.Strata != 1 {
		t.Errorf("Strata = %d, want the empty arm left out", s.Strata)
	}
}

// A common drop of exactly 15 points is material, though 0.96 - 0.81 is less than 0.15.
func TestStratifyMeetsThresholdExactly(t *testing.T) {
	t.Parallel()
	s := stats.Stratify([]stats.Table{row{96, 100, 81, 100}.table(), row{96, 100, 81, 100}.table()})
	if s.Crude.Verdict != stats.ExamOnly || s.Mix {
		t.Errorf("Stratify = %+v, want exam_only that is not from the mix", s)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	o := stats.Outcomes{Passed: 5, Failed: 4, Refused: 3, TimedOut: 2, Errored: 1}
	got := []stats.Counts{o.Counts(), o.WithoutTimeouts()}
	if diff := cmp.Diff([]stats.Counts{{N: 15, Passes: 5}, {N: 13, Passes: 5}}, got); diff != "" {
		t.Errorf("Counts, WithoutTimeouts (-want +got):\n%s", diff)
	}
}
