package verify

import (
	"encoding/json"
	"math"
	"math/big"

	"github.com/karatum/mystery/domain/stats"
)

// A Figure is a number in the answer of [Compare]; in JSON it is null if it does not
// exist or is infinite.
type Figure float64

// MarshalJSON implements [json.Marshaler].
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// An Interval is a closed interval, in JSON a list of both ends.
type Interval [2]Figure

func interval(i stats.Interval) Interval { return Interval{Figure(i.Lo), Figure(i.Hi)} }

// Figures is all that follows from the counts of both arms.
type Figures struct {
	ExamPasses  int `json:"x_exam"`
	ExamN       int `json:"n_exam"`
	FieldPasses int `json:"x_field"`
	FieldN      int `json:"n_field"`
	Blocked     int `json:"blocked"` // planned field tasks that were blocked or missed

	ExamRate    Figure        `json:"rate_exam"`
	FieldRate   Figure        `json:"rate_field"`
	Drop        *string       `json:"drop_pp_exact"`      // points, as a fraction; null if an arm is empty
	MinExpected *string       `json:"min_expected_exact"` // smallest expected cell, likewise
	Test        *string       `json:"test"`               // null if an arm is empty
	Z           Figure        `json:"z"`                  // null unless the test is z_pooled
	P           float64       `json:"p_one_sided"`
	PText       string        `json:"p_one_sided_str"` // "< 1e-300" where p_one_sided is 0
	Exam        Interval      `json:"wilson_exam"`
	Field       Interval      `json:"wilson_field"`
	Newcombe    Interval      `json:"newcombe"`
	Verdict     stats.Verdict `json:"verdict"`

	LogE         float64       `json:"log_bf"`
	LogUniversal float64       `json:"log_ui"`
	E            float64       `json:"e_value"` // at most the largest float64; log_bf has no such limit
	PAlways      float64       `json:"p_always"`
	Gated        stats.Verdict `json:"gated_verdict"`

	Conformity         Figure   `json:"conformity_ratio"`
	ConformityInterval Interval `json:"conformity_interval"`
	Detectable         Figure   `json:"smallest_detectable_drop"` // with 80 % power; null if there is none
	Band               Band     `json:"blocked_band"`
}

// A Band holds the verdicts with all blocked tasks as passes and as fails.
type Band struct {
	Passed stats.Verdict `json:"all_passed"`
	Failed stats.Verdict `json:"all_failed"`
}

// CompareCounts returns all figures of one look at two arms; blocked is the number
// of planned field tasks that were blocked or missed. It panics where
// [stats.BlockedBand] does.
func CompareCounts(exam, field stats.Counts, blocked int) Figures {
	c := stats.Compare(exam, field)
	logE := stats.LogE(exam, field)
	band := stats.BlockedBand(exam, field, blocked)
	ratio, around := stats.Conformity(exam, field)
	f := Figures{
		ExamPasses: exam.Passes, ExamN: exam.N, FieldPasses: field.Passes, FieldN: field.N, Blocked: blocked,
		ExamRate: rate(exam), FieldRate: rate(field),
		Test: testName(c), Z: Figure(math.NaN()), P: c.P, PText: pText(c.P),
		Exam: interval(c.Exam), Field: interval(c.Field), Newcombe: interval(c.DropInterval),
		Verdict:      c.Verdict,
		LogE:         logE,
		LogUniversal: stats.LogUniversal(exam, field),
		E:            eValue(logE),
		PAlways:      stats.PAlways(1, logE, exam, field),
		Gated:        stats.Gated(exam, field, blocked),
		Conformity:   Figure(ratio), ConformityInterval: interval(around),
		Detectable: Figure(math.NaN()),
		Band:       Band(band),
	}
	if drop, ok := stats.DetectableDrop(exam, field.N); ok {
		f.Detectable = Figure(drop)
	}
	if exam.N == 0 || field.N == 0 {
		return f
	}
	if c.Test == stats.ZPooled {
		f.Z = Figure(c.Z)
	}
	x1, n1, x2, n2 := int64(exam.Passes), int64(exam.N), int64(field.Passes), int64(field.N)
	drop := new(big.Rat).Sub(big.NewRat(100*x1, n1), big.NewRat(100*x2, n2)).RatString()
	expected := big.NewRat(min(n1, n2), n1+n2)
	expected.Mul(expected, big.NewRat(min(x1+x2, n1+n2-x1-x2), 1))
	smallest := expected.RatString()
	f.Drop, f.MinExpected = &drop, &smallest
	return f
}

// testName returns the test of c, and nil where there was none.
func testName(c stats.Comparison) *string {
	if c.Test == "" {
		return nil
	}
	name := string(c.Test)
	return &name
}

func rate(c stats.Counts) Figure {
	if c.N == 0 {
		return Figure(math.NaN())
	}
	return Figure(c.Rate())
}

func eValue(logE float64) float64 { return min(math.Exp(logE), math.MaxFloat64) }

// pText returns p for people, to whom it is never 0.
func pText(p float64) string {
	if p < 1e-300 {
		return "< 1e-300"
	}
	return stats.Format(p)
}

// A Sequence is a fixed exam and a look at the field after each cycle.
type Sequence struct {
	ExamPasses int    `json:"x_exam"`
	ExamN      int    `json:"n_exam"`
	Cycles     []int  `json:"field_success_per_cycle"`
	Looks      []Look `json:"looks"`
}

// A Look is what is known after a cycle.
type Look struct {
	FieldPasses      int           `json:"x_field"`
	FieldN           int           `json:"n_field"`
	P                float64       `json:"p_single_look"`
	Test             *string       `json:"test"` // null if the exam is empty
	Verdict          stats.Verdict `json:"spec_verdict"`
	LogE             float64       `json:"log_bf"`
	LogUniversal     float64       `json:"log_ui"`
	E                float64       `json:"e_value"` // as in [Figures]
	Gated            stats.Verdict `json:"gated_verdict"`
	PAlways          float64       `json:"p_always"`
	PAlwaysE         float64       `json:"p_always_bf"` // the same, under its other name
	PAlwaysUniversal float64       `json:"p_always_ui"`
}

// perCycle is the number of tasks of a cycle of a sequence, and of each arm of a
// block.
const perCycle = 3

func compareSequence(exam stats.Counts, cycles []int) Sequence {
	s := Sequence{ExamPasses: exam.Passes, ExamN: exam.N, Cycles: cycles, Looks: make([]Look, 0, len(cycles))}
	var field stats.Counts
	always, universal := 1.0, 1.0
	for _, passes := range cycles {
		field.N += perCycle
		field.Passes += passes
		c := stats.Compare(exam, field)
		logE, logUI := stats.LogE(exam, field), stats.LogUniversal(exam, field)
		always = stats.PAlways(always, logE, exam, field)
		universal = stats.PAlways(universal, logUI, exam, field)
		s.Looks = append(s.Looks, Look{
			FieldPasses: field.Passes, FieldN: field.N, P: c.P, Test: testName(c), Verdict: c.Verdict,
			LogE: logE, LogUniversal: logUI, E: eValue(logE), Gated: stats.Gated(exam, field, 0),
			PAlways: always, PAlwaysE: always, PAlwaysUniversal: universal,
		})
	}
	return s
}

// Families is the comparison family by family.
type Families struct {
	Tables       [][4]int      `json:"tables"` // x_exam, n_exam, x_field, n_field
	Strata       int           `json:"strata_used"`
	Z            Figure        `json:"z"`
	P            float64       `json:"p_one_sided"`
	Drop         Figure        `json:"mh_risk_difference"`
	Odds         Figure        `json:"mh_odds_ratio"`
	CrudeP       float64       `json:"crude_p"`
	CrudeVerdict stats.Verdict `json:"crude_verdict"`
	Mix          bool          `json:"may_come_from_the_mix"`
}

func compareFamilies(rows [][4]int, tables []stats.Table) Families {
	s := stats.Stratify(tables)
	return Families{
		Tables: rows, Strata: s.Strata, Z: Figure(s.Z), P: s.P, Drop: Figure(s.RiskDifference), Odds: Figure(s.OddsRatio),
		CrudeP: s.Crude.P, CrudeVerdict: s.Crude.Verdict, Mix: s.Mix,
	}
}

// Quantiles describes one sample of latencies.
type Quantiles struct {
	Sample []float64 `json:"sample"`
	Median Figure    `json:"median"`
	P90    Figure    `json:"p90"`
}

// Latencies compares two samples of latencies.
type Latencies struct {
	Exam           []float64 `json:"exam"`
	Field          []float64 `json:"field"`
	RatioMedian    Figure    `json:"ratio_median"`
	RatioP90       Figure    `json:"ratio_p90"`
	Slower         Figure    `json:"prob_field_slower"`
	SlowerInterval Interval  `json:"prob_field_slower_95"`
	U              Figure    `json:"mann_whitney_U_field"`
	MannWhitneyP   Figure    `json:"mann_whitney_p_one_sided_tie_corrected_no_cc"`
	BrunnerMunzel  Figure    `json:"brunner_munzel_stat"`
	BrunnerMunzelP Figure    `json:"brunner_munzel_p_one_sided"`
}

func compareLatencies(exam, field []float64) Latencies {
	l, _ := stats.CompareLatencies(exam, field)
	return Latencies{
		Exam: exam, Field: field,
		RatioMedian: optional(stats.Ratio(exam, field, .5)), RatioP90: optional(stats.Ratio(exam, field, .9)),
		Slower: Figure(l.Slower), SlowerInterval: interval(l.SlowerInterval),
		U: Figure(l.U), MannWhitneyP: Figure(l.MannWhitneyP),
		BrunnerMunzel: Figure(l.BrunnerMunzel), BrunnerMunzelP: Figure(l.BrunnerMunzelP),
	}
}

func optional(v float64, ok bool) Figure {
	if !ok {
		return Figure(math.NaN())
	}
	return Figure(v)
}

// Blocks holds the evidence after each block of exam and field tasks.
type Blocks struct {
	Blocks [][2]int  `json:"blocks"`
	LogE   []float64 `json:"log_e"`
}

// A Rate is the interval of one rate that holds at every look.
type Rate struct {
	Passes int    `json:"x"`
	N      int    `json:"n"`
	Lo     Figure `json:"lo"`
	Hi     Figure `json:"hi"`
}

// Compare computes the statistics of a row, which is a JSON object of one of six
// kinds. Its answer is the one named behind it.
//
//	x_exam, n_exam, x_field, n_field, and blocked or not
//	                 passes and counted tasks of both arms, and the field tasks that
//	                 were blocked or missed: [Figures]
//	x_exam, n_exam, field_success_per_cycle
//	                 a list of passes of three tasks each: [Sequence]
//	tables           a list of [x_exam, n_exam, x_field, n_field], one per family:
//	                 [Families]
//	sample           a list of numbers: [Quantiles]
//	exam, field      lists of latencies: [Latencies]
//	blocks           a list of [passes of 3 exam tasks, passes of 3 field tasks]:
//	                 [Blocks]
//	x, n             passes and tasks of one arm: [Rate]
//
// Counts are whole numbers up to [stats.MaxCount], in sums too, and no list is
// empty. Anything else is a [domain.ErrInvalid] that names the member.
func Compare(row []byte) (any, error) {
	o := openObject(row)
	var answer func() any // computes nothing before the row is known to be good
	switch {
	case o.has("tables"):
		rows, tables := o.tables()
		answer = func() any { return compareFamilies(rows, tables) }
	case o.has("sample"):
		sample := o.floats("sample")
		answer = func() any {
			return Quantiles{sample, optional(stats.Quantile(sample, .5)), optional(stats.Quantile(sample, .9))}
		}
	case o.has("exam") || o.has("field"):
		exam, field := o.latencies("exam"), o.latencies("field")
		answer = func() any { return compareLatencies(exam, field) }
	case o.has("blocks"):
		rows, blocks := o.blocks()
		answer = func() any { return Blocks{rows, stats.LogEBlocks(blocks)} }
	case o.has("x") || o.has("n"):
		c := o.counts("x", "n")
		answer = func() any {
			i := stats.ConfidenceSequence(c)
			return Rate{c.Passes, c.N, Figure(i.Lo), Figure(i.Hi)}
		}
	case o.has("field_success_per_cycle"):
		exam, cycles := o.counts("x_exam", "n_exam"), o.cycles()
		answer = func() any { return compareSequence(exam, cycles) }
	default:
		exam, field, blocked := o.counts("x_exam", "n_exam"), o.counts("x_field", "n_field"), 0
		if o.has("blocked") {
			blocked = int(o.number("blocked", uint64(stats.MaxCount-field.N))) //nolint:gosec // within MaxCount
		}
		answer = func() any { return CompareCounts(exam, field, blocked) }
	}
	if err := o.close(); err != nil {
		return nil, err
	}
	return answer(), nil
}

// counts takes the two numbers of an arm.
func (o *object) counts(passes, n string) stats.Counts {
	c := stats.Counts{N: int(o.number(n, stats.MaxCount))} //nolint:gosec // within MaxCount
	x := o.number(passes, stats.MaxCount)
	if o.err == nil && x > uint64(c.N) { //nolint:gosec // not negative
		o.fail("%s%s is %d, more than %s, %d", o.name, passes, x, n, c.N)
	}
	c.Passes = int(x) //nolint:gosec // within MaxCount
	return c
}

// list takes a list that is not empty.
func (o *object) list(name string) (items []json.RawMessage) {
	if o.take(name, "a list", &items) && len(items) == 0 {
		o.fail("%s%s is empty", o.name, name)
	}
	return items
}

// floats takes a list of numbers.
func (o *object) floats(name string) []float64 {
	items := o.list(name)
	numbers := make([]float64, len(items))
	for i, item := range items {
		if string(item) == "null" || json.Unmarshal(item, &numbers[i]) != nil {
			o.fail("%s%s[%d] is not a number", o.name, name, i)
			break
		}
	}
	return numbers
}

// latencies takes a list of numbers that are not negative.
func (o *object) latencies(name string) []float64 {
	numbers := o.floats(name)
	for i, v := range numbers {
		if v < 0 {
			o.fail("%s%s[%d] is negative", o.name, name, i)
			break
		}
	}
	return numbers
}

// integers decodes item, the i-th of the list name, into as many integers from 0 to
// limit as into has.
func (o *object) integers(name string, i int, item json.RawMessage, limit uint64, into []int) {
	var numbers []*uint64
	bad := json.Unmarshal(item, &numbers) != nil || len(numbers) != len(into)
	for j := 0; !bad && j < len(into); j++ {
		if numbers[j] == nil || *numbers[j] > limit {
			bad = true
			break
		}
		into[j] = int(*numbers[j]) //nolint:gosec // within limit
	}
	if bad {
		o.fail("%s%s[%d] is not a list of %d whole numbers up to %d", o.name, name, i, len(into), limit)
	}
}

// tables takes the counts of each family.
func (o *object) tables() (rows [][4]int, tables []stats.Table) {
	items := o.list("tables")
	if len(items) > maxFamilies {
		o.fail("%stables has %d families and can have %d at most", o.name, len(items), maxFamilies)
		return nil, nil
	}
	var exam, field int
	for i, item := range items {
		var r [4]int
		o.integers("tables", i, item, stats.MaxCount, r[:])
		t := stats.Table{Exam: stats.Counts{Passes: r[0], N: r[1]}, Field: stats.Counts{Passes: r[2], N: r[3]}}
		exam += t.Exam.N
		field += t.Field.N
		switch {
		case t.Exam.Check() != nil:
			o.fail("%stables[%d] has x_exam %d, more than n_exam, %d", o.name, i, r[0], r[1])
		case t.Field.Check() != nil:
			o.fail("%stables[%d] has x_field %d, more than n_field, %d", o.name, i, r[2], r[3])
		case max(exam, field) > stats.MaxCount:
			o.fail("%stables[%d] brings an arm to more than %d tasks", o.name, i, stats.MaxCount)
		}
		if o.err != nil {
			return nil, nil
		}
		rows, tables = append(rows, r), append(tables, t)
	}
	return rows, tables
}

// maxFamilies bounds the exact fractions of a comparison by family.
const maxFamilies = 1000

// blocks takes the passes of each block.
func (o *object) blocks() (rows [][2]int, blocks []stats.Table) {
	for i, item := range o.list("blocks") {
		var r [2]int
		o.integers("blocks", i, item, perCycle, r[:])
		rows = append(rows, r)
		blocks = append(blocks, stats.Table{
			Exam:  stats.Counts{N: perCycle, Passes: r[0]},
			Field: stats.Counts{N: perCycle, Passes: r[1]},
		})
	}
	return rows, blocks
}

// cycles takes the passes of each cycle.
func (o *object) cycles() []int {
	const name = "field_success_per_cycle"
	items := o.list(name)
	cycles := make([]int, len(items))
	for i, item := range items {
		if string(item) == "null" || json.Unmarshal(item, &cycles[i]) != nil || cycles[i] < 0 || cycles[i] > perCycle {
			o.fail("%s%s[%d] is not a whole number up to %d", o.name, name, i, perCycle)
			break
		}
	}
	return cycles
}
