package stats

import (
	"math"
	"math/big"
	"sort"
)

// Conformity returns the rate of the field over that of the exam, and its 95 %
// interval from the two Wilson intervals by the method of variance estimates
// recovery (Donner and Zou, Stat. Methods Med. Res. 21, 2012). The ratio is NaN
// where the exam has no pass or an arm is empty; the interval is NaN where the exam
// is too poor to bound a ratio from above, which is below about a quarter of passes.
func Conformity(exam, field Counts) (ratio float64, interval Interval) {
	mustCheck(exam, field)
	none := Interval{math.NaN(), math.NaN()}
	if exam.Passes == 0 || field.N == 0 {
		return math.NaN(), none
	}
	p1, p2 := exam.Rate(), field.Rate()
	w1, w2 := Wilson(exam), Wilson(field)
	if 2*p1 <= w1.Hi {
		return p2 / p1, none
	}
	a := p2 * p1
	root := func(limit2, limit1 float64) float64 { // rounding may leave a little less than 0
		return math.Sqrt(max(0, a*a-limit2*limit1*(2*p2-limit2)*(2*p1-limit1)))
	}
	return p2 / p1, Interval{
		(a - root(w2.Lo, w1.Hi)) / (w1.Hi * (2*p1 - w1.Hi)),
		(a + root(w2.Hi, w1.Lo)) / (w1.Lo * (2*p1 - w1.Lo)),
	}
}

// power is the chance with which a detectable drop is seen.
const power = .8

// DetectableDrop returns the smallest drop below the rate of the exam, as a
// fraction, that n field tasks show as [ExamOnly] with a chance of 80 %, the exam
// being what it is. It reports false where no result of n tasks would be ExamOnly.
func DetectableDrop(exam Counts, n int) (float64, bool) {
	mustCheck(exam, Counts{N: n})
	most := lastExamOnly(exam, n)
	if most < 0 {
		return 0, false
	}
	// At the rate sought, the chance of at most that many passes has fallen to 80 %.
	rate := bisect(0, 1, func(q float64) bool {
		mode := min(int(float64(n+1)*q), n)
		return lowerTail(0, n, mode, most, func(k int) float64 {
			return float64(n-k) / float64(k+1) * (q / (1 - q))
		}) <= power
	})
	return exam.Rate() - rate, true
}

// lastExamOnly returns the largest number of passes of n field tasks that makes the
// verdict ExamOnly, and a negative number if there is none. The p-value rises with
// that number but for the two places where the test changes, and leaps there: so
// each of the three stretches is searched by itself, from the top.
func lastExamOnly(exam Counts, n int) int {
	if exam.N < MinExam || n < MinField {
		return -1
	}
	// normal says: at least k passes and at least k fails in both arms together.
	all := exam.N + n
	k := int((5*int64(all) + int64(min(exam.N, n)) - 1) / int64(min(exam.N, n)))
	first, last := clamp(k-exam.Passes, n+1), clamp(all-k-exam.Passes+1, n+1)
	last = max(first, last)
	for _, s := range [][2]int{{last, n + 1}, {first, last}, {0, first}} {
		found := sort.Search(s[1]-s[0], func(i int) bool {
			return Compare(exam, Counts{N: n, Passes: s[0] + i}).Verdict != ExamOnly
		})
		if found > 0 {
			return s[0] + found - 1
		}
	}
	return -1
}

func clamp(i, hi int) int { return min(max(i, 0), hi) }

// A Stratified is the outcome of [Stratify].
type Stratified struct {
	Strata         int     // families with tasks in both arms; the others say nothing
	Z              float64 // NaN without variance
	P              float64 // one-sided: the field rate is lower; 1 without variance
	RiskDifference float64 // exam minus field, as a fraction, after Mantel and Haenszel; NaN without strata
	OddsRatio      float64 // exam over field, after Mantel and Haenszel; +Inf or NaN over 0

	Crude Comparison // of all tasks, whatever their family
	// Mix says that the crude verdict is ExamOnly and that within families p or the
	// drop misses the threshold: the drop may come from the mix of tasks.
	Mix bool
}

// Stratify compares the arms family by family: the test of Cochran (Biometrics 10,
// 1954) and of Mantel and Haenszel (J. Natl. Cancer Inst. 22, 1959) without
// continuity correction, and their common risk difference and odds ratio. It panics
// if the sums over all families are no [Counts].
func Stratify(families []Table) Stratified {
	var exam, field Counts
	var excess, variance, odds1, odds2 float64
	drop, weight := new(big.Rat), new(big.Rat)
	s := Stratified{Z: math.NaN(), P: 1, RiskDifference: math.NaN()}
	for _, f := range families {
		mustCheck(f.Exam, f.Field)
		exam = Counts{N: exam.N + f.Exam.N, Passes: exam.Passes + f.Exam.Passes}
		field = Counts{N: field.N + f.Field.N, Passes: field.Passes + f.Field.Passes}
		if f.Exam.N == 0 || f.Field.N == 0 {
			continue
		}
		s.Strata++
		n1, n2 := int64(f.Exam.N), int64(f.Field.N)
		all, passes := float64(n1+n2), float64(f.Exam.Passes+f.Field.Passes)
		excess += float64(lead(f.Exam, f.Field)) / all
		variance += float64(n1) / all * float64(n2) / all * passes * (all - passes) / (all - 1)
		odds1 += float64(f.Exam.Passes) * float64(f.Field.N-f.Field.Passes) / all
		odds2 += float64(f.Field.Passes) * float64(f.Exam.N-f.Exam.Passes) / all
		drop.Add(drop, big.NewRat(lead(f.Exam, f.Field), n1+n2))
		weight.Add(weight, big.NewRat(n1*n2, n1+n2))
	}
	s.OddsRatio = odds1 / odds2
	if variance > 0 {
		s.Z = excess / math.Sqrt(variance)
		s.P = math.Erfc(s.Z/math.Sqrt2) / 2
	}
	enough := false
	if s.Strata > 0 {
		drop.Quo(drop, weight)
		s.RiskDifference, _ = drop.Float64()
		enough = drop.Cmp(big.NewRat(MinDropPoints, 100)) >= 0
	}
	s.Crude = Compare(exam, field)
	s.Mix = s.Crude.Verdict == ExamOnly && (s.P >= MaxP || !enough)
	return s
}

// Outcomes are the counted tasks of one arm by what came of them.
type Outcomes struct{ Passed, Failed, Refused, TimedOut, Errored int }

// Counts returns o as [Compare] takes it: whatever did not pass counts against it.
func (o Outcomes) Counts() Counts {
	return Counts{N: o.Passed + o.Failed + o.Refused + o.TimedOut + o.Errored, Passes: o.Passed}
}

// WithoutTimeouts returns the counts of o without its timeouts, which may be the
// network's: a sensitivity, never the comparison itself.
func (o Outcomes) WithoutTimeouts() Counts {
	o.TimedOut = 0
	return o.Counts()
}
