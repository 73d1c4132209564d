package stats

import (
	"cmp"
	"math"
	"slices"
)

// A Reading is a latency that is known, or of which is known that it is at least
// Value: that of a task which ran into its limit.
type Reading struct {
	Value   float64
	AtLeast bool
}

// String returns the value in its shortest form, with a "≥" before it where the
// true value may be larger.
func (r Reading) String() string {
	if r.AtLeast {
		return "≥" + Format(r.Value)
	}
	return Format(r.Value)
}

// CensoredQuantile is [Quantile] of readings some of which are limits. These are
// entered at their value and never left out, which would make a slow agent fast.
// Where one of them is part of the result, or stands below it and may belong above,
// the result is a limit too.
func CensoredQuantile(sample []Reading, q float64) (Reading, bool) {
	x := slices.SortedFunc(slices.Values(sample), func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(rank(a), rank(b)))
	})
	values := make([]float64, len(x))
	for i, r := range x {
		values[i] = r.Value
	}
	v, ok := Quantile(values, q)
	if !ok {
		return Reading{}, false
	}
	used := x[:int(math.Ceil(float64(len(x)-1)*q))+1]
	return Reading{v, slices.ContainsFunc(used, func(r Reading) bool { return r.AtLeast })}, true
}

// rank puts what is at least v behind what is v.
func rank(r Reading) int {
	if r.AtLeast {
		return 1
	}
	return 0
}

// MinP90 is the number of readings from which on their 0.9-quantile is worth
// showing; that of fewer is nearly the largest.
const MinP90 = 10

// Latencies is the outcome of [CompareLatencies].
type Latencies struct {
	Slower         float64  // probability that a field reply is slower, ties counting half
	SlowerInterval Interval // 95 %, Brunner and Munzel, cut to [0, 1]; NaN where their test is

	U            float64 // of Mann and Whitney: pairs in which the field is slower, ties counting half
	MannWhitneyP float64 // one-sided, normal, corrected for ties; 1 if all are equal

	BrunnerMunzel  float64 // statistic, positive if the field is slower; NaN without variance
	BrunnerMunzelP float64 // one-sided, by Student's t
}

// CompareLatencies says whether replies in the field are slower than in the exam.
// The test of Brunner and Munzel (Biometrical Journal 42, 2000) is sound where the
// arms differ in spread; that of Mann and Whitney (Ann. Math. Statist. 18, 1947) is
// not, and is there because everybody knows it. Neither has a part in a verdict. It
// reports false unless both samples hold something, and nothing that is no number.
func CompareLatencies(exam, field []float64) (Latencies, bool) {
	if len(exam) == 0 || len(field) == 0 || slices.ContainsFunc(exam, math.IsNaN) || slices.ContainsFunc(field, math.IsNaN) {
		return Latencies{}, false
	}
	all, ties := midranks(append(slices.Clone(exam), field...))
	inExam, _ := midranks(exam)
	inField, _ := midranks(field)
	e, f := all[:len(exam)], all[len(exam):]
	n1, n2 := float64(len(exam)), float64(len(field))
	n := n1 + n2

	var l Latencies
	l.U = sum(f) - n2*(n2+1)/2
	l.Slower = l.U / (n1 * n2)
	l.MannWhitneyP = 1
	if variance := n1 * n2 / 12 * (n + 1 - ties/(n*(n-1))); ties < n*(n*n-1) {
		l.MannWhitneyP = math.Erfc((l.U-n1*n2/2)/math.Sqrt(variance)/math.Sqrt2) / 2
	}

	// The variances of the placements, each scaled to a part of that of l.Slower.
	v1 := placementVariance(e, inExam) / (n1 * n2 * n2)
	v2 := placementVariance(f, inField) / (n2 * n1 * n1)
	if !(v1+v2 > 0) { // one reading, or arms that do not overlap
		l.BrunnerMunzel, l.BrunnerMunzelP = math.NaN(), math.NaN()
		l.SlowerInterval = Interval{math.NaN(), math.NaN()}
		return l, true
	}
	df := (v1 + v2) * (v1 + v2) / (v1*v1/(n1-1) + v2*v2/(n2-1))
	se := math.Sqrt(v1 + v2)
	l.BrunnerMunzel = (l.Slower - .5) / se
	l.BrunnerMunzelP = studentUpper(l.BrunnerMunzel, df)
	half := se * bisect(0, 1e6, func(t float64) bool { return studentUpper(t, df) <= .025 })
	l.SlowerInterval = Interval{max(0, l.Slower-half), min(1, l.Slower+half)}
	return l, true
}

// midranks returns the rank of each of sample, 1 for the least, and the mean of
// their ranks for those that are equal; and the sum of t³−t over groups of t equals.
func midranks(sample []float64) (ranks []float64, ties float64) {
	order := make([]int, len(sample))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(sample[a], sample[b]) })
	ranks = make([]float64, len(sample))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && sample[order[j]] == sample[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+1+j) / 2
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}

// placementVariance is the variance of the ranks among all, less those in the arm.
func placementVariance(all, own []float64) float64 {
	n := float64(len(all))
	mean := (sum(all) - sum(own)) / n
	var squares float64
	for i := range all {
		d := all[i] - own[i] - mean
		squares += d * d
	}
	return squares / (n - 1)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// studentUpper returns the probability that Student's t with df degrees of freedom
// exceeds t.
func studentUpper(t, df float64) float64 {
	tail := incompleteBeta(df/(df+t*t), df/2, .5) / 2
	if t < 0 {
		return 1 - tail
	}
	return tail
}

// incompleteBeta is the regularised incomplete beta function I_x(a, b), by its
// continued fraction (DLMF 8.17.22) evaluated after Lentz.
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges slowly
		return 1 - incompleteBeta(1-x, b, a)
	}
	const tiny = 1e-300
	apart := func(v float64) float64 { // from 0
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/apart(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < 1e5; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / apart(1+even*d)
		c = apart(1 + even/c)
		f *= c * d
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / apart(1+odd*d)
		c = apart(1 + odd/c)
		f *= c * d
		if math.Abs(c*d-1) < 1e-16 {
			break
		}
	}
	return f * math.Exp(a*math.Log(x)+b*math.Log1p(-x)-logBeta(a, b)) / a
}
