// Package stats compares how often an agent succeeds in its exam and in the
// field, and describes latencies.
//
// The comparison itself is [Compare]: one test, its thresholds, one verdict. All
// else stands beside it and changes no figure of it: evidence that may be looked
// at again and again ([LogE], [PAlways], [Gated]), what blocked tasks could have
// changed ([BlockedBand]), the mix of families ([Stratify]), the size of what is
// seen and of what goes unseen ([Conformity], [DetectableDrop]), and latencies
// ([CensoredQuantile], [CompareLatencies]).
//
// Whether a threshold is met is decided in integers: in float64, 0.95 - 0.80 is
// less than 0.15. Only the p-value is compared as a float64. Tests, intervals
// and quantiles have no continuity correction and no options, so that equal
// counts give equal results. The last digits of a result may differ between
// processors, for Go may fuse multiplication and addition; whoever recomputes a
// published p compares it within 1e-9 of its size. A figure that does not exist
// for the counts at hand, such as a ratio over 0, is NaN where nothing else is said.
package stats

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/karatum/mystery/domain"
)

// The thresholds of a verdict, fixed before anything is measured.
const (
	MinExam       = 20   // exam attempts
	MinField      = 12   // counted field tasks
	MaxP          = 0.01 // p of a significant drop is below it
	MinDropPoints = 15   // percentage points of a material drop
)

// MaxCount bounds the counts that [Compare] takes; the products of its integer
// comparisons stay below 2^63.
const MaxCount = 100_000_000

// Counts is one arm of a comparison. Blocked tasks are in neither number.
type Counts struct {
	N      int
	Passes int
}

// Check returns a [domain.ErrInvalid] unless 0 <= Passes <= N <= [MaxCount].
func (c Counts) Check() error {
	if c.Passes < 0 || c.Passes > c.N || c.N > MaxCount {
		return fmt.Errorf("%d passes of %d is no count of successes: %w", c.Passes, c.N, domain.ErrInvalid)
	}
	return nil
}

// Rate returns the share of passes, and 0 for an empty arm.
func (c Counts) Rate() float64 {
	if c.N == 0 {
		return 0
	}
	return float64(c.Passes) / float64(c.N)
}

// A Test names the way a p-value was computed.
type Test string

// The two tests.
const (
	ZPooled     Test = "z_pooled"
	FisherExact Test = "fisher_exact"
)

// A Verdict says what a comparison found.
type Verdict string

// The verdicts. Consistent is the absence of evidence for a drop, not evidence
// of its absence.
const (
	ExamOnly     Verdict = "exam_only"
	Consistent   Verdict = "consistent"
	Insufficient Verdict = "insufficient"
	Watch        Verdict = "watch" // a first sighting, not confirmed; only of [Gated]
)

// An Interval is a closed interval.
type Interval struct{ Lo, Hi float64 }

// A Comparison is the outcome of [Compare].
type Comparison struct {
	Verdict Verdict
	Test    Test    // "" if one arm is empty
	Z       float64 // 0 unless Test is ZPooled
	P       float64 // one-sided: the field rate is lower than that of the exam; 1 without a test

	Drop         float64  // exam rate minus field rate, as a fraction
	DropInterval Interval // 95 %, Newcombe
	Exam, Field  Interval // 95 % of the two rates, Wilson
}

// Compare tests whether the field rate lies below the exam rate.
// It panics unless both counts pass [Counts.Check].
func Compare(exam, field Counts) Comparison {
	mustCheck(exam, field)
	c := Comparison{
		P:            1,
		Drop:         exam.Rate() - field.Rate(),
		DropInterval: Newcombe(exam, field),
		Exam:         Wilson(exam),
		Field:        Wilson(field),
	}
	switch {
	case exam.N == 0 || field.N == 0: // nothing to test
	case normal(exam, field):
		c.Test = ZPooled
		c.Z = zPooled(exam, field)
		c.P = math.Erfc(c.Z/math.Sqrt2) / 2 // 1 - Φ(z) would be 0 from z = 8.3 on
	default:
		c.Test = FisherExact
		c.P = fisher(exam, field)
	}
	switch {
	case exam.N < MinExam || field.N < MinField:
		c.Verdict = Insufficient
	case c.P < MaxP && material(exam, field):
		c.Verdict = ExamOnly
	default:
		c.Verdict = Consistent
	}
	return c
}

// mustCheck panics unless all of counts pass [Counts.Check].
func mustCheck(counts ...Counts) {
	for _, c := range counts {
		if err := c.Check(); err != nil {
			panic("stats: " + err.Error())
		}
	}
}

// material reports whether the drop is at least MinDropPoints points.
func material(exam, field Counts) bool {
	return 100*lead(exam, field) >= MinDropPoints*int64(exam.N)*int64(field.N)
}

// lead is exam rate minus field rate, times the product of both numbers.
func lead(exam, field Counts) int64 {
	return int64(exam.Passes)*int64(field.N) - int64(field.Passes)*int64(exam.N)
}

// normal reports whether each expected cell of the two by two table is at least
// 5, which is what the z-test asks for. Two arms that passed or failed all have
// an empty row, so the z-test never divides by zero.
func normal(exam, field Counts) bool {
	s, n := int64(exam.Passes)+int64(field.Passes), int64(exam.N)+int64(field.N)
	return int64(min(exam.N, field.N))*min(s, n-s) >= 5*n
}

// zPooled is (p1-p2) / sqrt(P(1-P)(1/n1+1/n2)) with P the rate of both arms
// together, its fractions cleared: differences of rates would cancel digits.
func zPooled(exam, field Counts) float64 {
	n1, n2 := float64(exam.N), float64(field.N)
	passes := float64(exam.Passes + field.Passes)
	fails := n1 + n2 - passes
	return float64(lead(exam, field)) / math.Sqrt(passes*fails/(n1+n2)*n1*n2)
}

// fisher returns the probability of at most field.Passes passes in the field,
// all margins given. It sums the hypergeometric weights outward from the mode,
// where they are largest, by the ratio of neighbours: exact to a few units in
// the last place, where log-gamma terms lose eight digits.
func fisher(exam, field Counts) float64 {
	n1, n2 := exam.N, field.N
	s := exam.Passes + field.Passes
	lo, hi := max(0, s-n1), min(s, n2)
	mode := int(int64(s+1) * int64(n2+1) / int64(n1+n2+2))
	mode = min(max(mode, lo), hi)

	// ratio is the weight of k+1 passes in the field over that of k.
	ratio := func(k int) float64 {
		return float64(s-k) / float64(k+1) * (float64(n2-k) / float64(n1-s+k+1))
	}
	return lowerTail(lo, hi, mode, field.Passes, ratio)
}

// lowerTail returns the probability of at most x under a distribution on lo to hi
// with one peak, at mode, of which ratio(k) is the weight of k+1 over that of k.
// Weights end where float64 loses digits: multiplied by a ratio near 1, the very
// smallest would never become 0.
func lowerTail(lo, hi, mode, x int, ratio func(k int) float64) float64 {
	var tail, total float64
	add := func(k int, w float64) {
		total += w
		if k <= x {
			tail += w
		}
	}
	const least = 0x1p-1022
	w := 1.0
	for k := mode; k <= hi && w >= least; k++ {
		add(k, w)
		w *= ratio(k)
	}
	w = 1
	for k := mode - 1; k >= lo; k-- {
		if w /= ratio(k); w < least {
			break
		}
		add(k, w)
	}
	return tail / total
}

// z95 is the 0.975 quantile of the standard normal distribution.
const z95 = 1.959963984540054235524594

// Wilson returns the 95 % score interval of the rate of c (Wilson 1927), and
// all of [0, 1] for an empty arm.
func Wilson(c Counts) Interval {
	if c.N == 0 {
		return Interval{0, 1}
	}
	n, p := float64(c.N), c.Rate()
	centre := (p + z95*z95/(2*n)) / (1 + z95*z95/n)
	half := z95 / (1 + z95*z95/n) * math.Sqrt(p*(1-p)/n+z95*z95/(4*n*n))
	i := Interval{centre - half, centre + half}
	if c.Passes == 0 {
		i.Lo = 0 // rounding leaves some 1e-17
	}
	if c.Passes == c.N {
		i.Hi = 1
	}
	return i
}

// Newcombe returns the 95 % interval of exam rate minus field rate: the hybrid
// score interval, method 10 of Newcombe 1998.
func Newcombe(exam, field Counts) Interval {
	if exam.N == 0 || field.N == 0 {
		return Interval{-1, 1}
	}
	p1, p2 := exam.Rate(), field.Rate()
	w1, w2 := Wilson(exam), Wilson(field)
	d := p1 - p2
	return Interval{
		d - math.Hypot(p1-w1.Lo, w2.Hi-p2),
		d + math.Hypot(w1.Hi-p1, p2-w2.Lo),
	}
}

// Quantile returns the q-quantile of sample, 0 <= q <= 1, interpolated between
// neighbours: type 7 of Hyndman and Fan 1996. It reports false for an empty
// sample and for a q that is none. The sample need not be sorted.
func Quantile(sample []float64, q float64) (float64, bool) {
	if len(sample) == 0 || math.IsNaN(q) || q < 0 || q > 1 {
		return 0, false
	}
	x := slices.Sorted(slices.Values(sample))
	h := float64(len(x)-1) * q
	j := int(h)
	if j == len(x)-1 {
		return x[j], true
	}
	return x[j] + (h-float64(j))*(x[j+1]-x[j]), true
}

// Ratio returns the q-quantile of field over that of exam. It reports false
// where one of them does not exist or that of exam is 0.
func Ratio(exam, field []float64, q float64) (float64, bool) {
	e, ok1 := Quantile(exam, q)
	f, ok2 := Quantile(field, q)
	if !ok1 || !ok2 || e == 0 {
		return 0, false
	}
	return f / e, true
}

// Format returns the shortest decimal text that reads back as f, the form in
// which events carry a rate or a p-value: "0.45", "1.808350515007746e-08".
func Format(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
