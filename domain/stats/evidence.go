package stats

import "math"

// MinE is the E-value from which on [Gated] confirms a verdict.
const MinE = 100

// MaxLostPercent is the share of planned tasks that may be blocked or missed; where
// more are, what is left says nothing about the agent. See [Gated].
const MaxLostPercent = 30

// LogE returns the natural logarithm of the E-value of a difference between the
// arms: the Bayes factor of two independent binomials against a common rate, under
// Jeffreys priors (Gunel and Dickey, Biometrika 61, 1974).
//
// Averaged over the prior of the common rate it is an E-process, so that the
// chance of it ever reaching 1/α under equal rates is at most α, however often one
// looks (Ville 1939). It has no direction: see [Eligible].
func LogE(exam, field Counts) float64 {
	mustCheck(exam, field)
	return logJeffreys(exam) + logJeffreys(field) -
		logJeffreys(Counts{N: exam.N + field.N, Passes: exam.Passes + field.Passes})
}

// LogUniversal returns the natural logarithm of the E-value of universal inference
// (Wasserman, Ramdas and Balakrishnan, PNAS 117, 2020), split off by a Jeffreys
// mixture in place of a part of the sample: the mixture over the largest likelihood
// under a field rate that is not lower. Unlike [LogE] it is proved at every rate,
// and it asks for 1.5 to 2.5 times as many tasks.
func LogUniversal(exam, field Counts) float64 {
	mustCheck(exam, field)
	null := logLikelihood(exam) + logLikelihood(field)
	if lead(exam, field) > 0 {
		null = logLikelihood(Counts{N: exam.N + field.N, Passes: exam.Passes + field.Passes})
	}
	return logJeffreys(exam) + logJeffreys(field) - null
}

// Eligible reports whether a look counts towards [PAlways]: both arms have the size
// that [Compare] asks for, and the field rate is lower.
func Eligible(exam, field Counts) bool {
	return exam.N >= MinExam && field.N >= MinField && lead(exam, field) > 0
}

// PAlways returns the p-value that holds at every look, after one more look with
// the evidence logE of [LogE] or [LogUniversal]: the least 1/E of the looks that are
// [Eligible]. before is that of the looks before, 1 before the first; the p-value
// never rises again. (Johari, Pekelis and Walsh, Always Valid Inference, 2015.)
func PAlways(before, logE float64, exam, field Counts) float64 {
	if !Eligible(exam, field) {
		return before
	}
	return min(before, math.Exp(-logE))
}

// Gated returns the verdict of [Compare] behind a second gate: it is ExamOnly only
// where the E-value of this very look is at least [MinE], else [Watch]. lost is the
// number of planned field tasks that were blocked or missed and thus are not in
// field; where they are more than [MaxLostPercent] of all, the verdict is
// [Insufficient].
//
// Without the gate a look after every day makes a nominal 1 % some 5 %; with it the
// worst case over rates and looks is 0.2 %, by exact recursion over all paths.
func Gated(exam, field Counts, lost int) Verdict {
	mustCheck(Counts{N: lost})
	v := Compare(exam, field).Verdict
	switch {
	case 100*int64(lost) > MaxLostPercent*(int64(field.N)+int64(lost)):
		return Insufficient
	case v == ExamOnly && LogE(exam, field) < math.Log(MinE):
		return Watch
	}
	return v
}

// A Band is the verdict under the two extreme answers to what tasks would have
// shown that show nothing.
type Band struct{ Passed, Failed Verdict }

// BlockedBand returns the verdicts of [Compare] with all lost field tasks, blocked
// or missed, counted as passes and with all counted as fails. It panics if field
// and lost together are no [Counts].
func BlockedBand(exam, field Counts, lost int) Band {
	mustCheck(field, Counts{N: lost})
	return Band{
		Passed: Compare(exam, Counts{N: field.N + lost, Passes: field.Passes + lost}).Verdict,
		Failed: Compare(exam, Counts{N: field.N + lost, Passes: field.Passes}).Verdict,
	}
}

// ConfidenceSequence returns the 95 % interval of the rate of c that holds at every
// look, and not only at one fixed beforehand: all rates that the Jeffreys mixture
// outweighs less than twentyfold (Robbins, Ann. Math. Statist. 41, 1970).
func ConfidenceSequence(c Counts) Interval {
	mustCheck(c)
	inside := func(t float64) bool {
		return logJeffreys(c)-xlogy(c.Passes, t)-xlogy(c.N-c.Passes, 1-t) < math.Log(20)
	}
	i := Interval{0, 1}
	if c.Passes > 0 {
		i.Lo = bisect(0, c.Rate(), inside)
	}
	if c.Passes < c.N {
		i.Hi = bisect(c.Rate(), 1, func(t float64) bool { return !inside(t) })
	}
	return i
}

// A Table is what one family of tasks, or one block of them, gave in both arms.
type Table struct{ Exam, Field Counts }

// LogEBlocks returns the natural logarithm of the E-value of a lower field rate
// after each of blocks, which are parts of exam and field that were taken side by
// side. A block is weighed by rates learnt from earlier blocks alone, so that the
// E-value is proved at every rate: Turner, Ly and Grünwald, Generic E-variables for
// exact sequential k-sample tests, 2024, with their prior of 0.18 and a factor of 1
// as long as the field is not behind.
func LogEBlocks(blocks []Table) []float64 {
	const prior = 0.18
	learnt := func(seen Counts) float64 {
		return (float64(seen.Passes) + prior) / (float64(seen.N) + 2*prior)
	}
	var exam, field Counts // of the blocks before
	var logE float64
	after := make([]float64, 0, len(blocks))
	for _, b := range blocks {
		mustCheck(b.Exam, b.Field)
		if a, f := learnt(exam), learnt(field); f < a && b.Exam.N+b.Field.N > 0 {
			na, nf := float64(b.Exam.N), float64(b.Field.N)
			common := (na*a + nf*f) / (na + nf)
			logE += xlogy(b.Exam.Passes, a/common) + xlogy(b.Exam.N-b.Exam.Passes, (1-a)/(1-common)) +
				xlogy(b.Field.Passes, f/common) + xlogy(b.Field.N-b.Field.Passes, (1-f)/(1-common))
		}
		exam = Counts{N: exam.N + b.Exam.N, Passes: exam.Passes + b.Exam.Passes}
		field = Counts{N: field.N + b.Field.N, Passes: field.Passes + b.Field.Passes}
		after = append(after, logE)
	}
	return after
}

// logJeffreys is the logarithm of the probability of one sequence with the counts
// c, its rate drawn from the Jeffreys prior.
func logJeffreys(c Counts) float64 {
	return logBeta(float64(c.Passes)+.5, float64(c.N-c.Passes)+.5) - math.Log(math.Pi)
}

// logLikelihood is that with the rate of c.
func logLikelihood(c Counts) float64 {
	return xlogy(c.Passes, c.Rate()) + xlogy(c.N-c.Passes, float64(c.N-c.Passes)/float64(c.N))
}

// xlogy is x·ln y, and 0 for an x of 0.
func xlogy(x int, y float64) float64 {
	if x == 0 {
		return 0
	}
	return float64(x) * math.Log(y)
}

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}

// bisect returns where above turns from false to true between lo and hi, to the
// last digit.
func bisect(lo, hi float64, above func(float64) bool) float64 {
	for {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			return hi
		}
		if above(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
}
