package stats_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"strconv"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/stats"
)

// reference holds values that R, scipy and two programs with exact arithmetic
// agree upon; its field about says how they were made.
type reference struct {
	Rows []struct {
		ExamPasses  int           `json:"x_exam"`
		ExamN       int           `json:"n_exam"`
		FieldPasses int           `json:"x_field"`
		FieldN      int           `json:"n_field"`
		ExamRate    float64       `json:"rate_exam"`
		FieldRate   float64       `json:"rate_field"`
		Drop        string        `json:"drop_pp_exact"`
		Test        stats.Test    `json:"test"`
		Z           *float64      `json:"z"`
		P           float64       `json:"p_one_sided"`
		Exam        [2]float64    `json:"wilson_exam"`
		Field       [2]float64    `json:"wilson_field"`
		Newcombe    [2]float64    `json:"newcombe"`
		Verdict     stats.Verdict `json:"verdict"`
	} `json:"rows"`
	Quantiles []struct {
		Sample []float64 `json:"sample"`
		Median float64   `json:"median"`
		P90    float64   `json:"p90"`
	} `json:"quantiles_type7"`
	Latency []struct {
		Exam   []float64 `json:"exam"`
		Field  []float64 `json:"field"`
		Median float64   `json:"ratio_median"`
		P90    float64   `json:"ratio_p90"`
	} `json:"latency_ratios"`
}

func load(t *testing.T) (ref reference) {
	t.Helper()
	data, err := os.ReadFile("testdata/stats_reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	if len(ref.Rows) == 0 || len(ref.Quantiles) == 0 || len(ref.Latency) == 0 {
		t.Fatal("the reference is incomplete")
	}
	return ref
}

// near reports whether got is want within a relative error.
func near(got, want, relative float64) bool {
	return got == want || math.Abs(got-want) <= relative*math.Abs(want)
}

func checkInterval(t *testing.T, what string, got stats.Interval, want [2]float64) {
	t.Helper()
	if math.Abs(got.Lo-want[0]) > 1e-12 || math.Abs(got.Hi-want[1]) > 1e-12 {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestCompareReference(t *testing.T) {
	t.Parallel()
	for _, r := range load(t).Rows {
		t.Run(fmt.Sprintf("%d of %d against %d of %d", r.ExamPasses, r.ExamN, r.FieldPasses, r.FieldN), func(t *testing.T) {
			t.Parallel()
			exam, field := stats.Counts{N: r.ExamN, Passes: r.ExamPasses}, stats.Counts{N: r.FieldN, Passes: r.FieldPasses}
			c := stats.Compare(exam, field)
			if c.Verdict != r.Verdict || c.Test != r.Test {
				t.Errorf("verdict, test = %s, %s, want %s, %s", c.Verdict, c.Test, r.Verdict, r.Test)
			}
			if !near(c.P, r.P, 1e-9) {
				t.Errorf("P = %g, want %g", c.P, r.P)
			}
			var z float64
			if r.Z != nil {
				z = *r.Z
			}
			if !near(c.Z, z, 1e-14) {
				t.Errorf("Z = %g, want %g", c.Z, z)
			}
			if exam.Rate() != r.ExamRate || field.Rate() != r.FieldRate {
				t.Errorf("rates = %g, %g, want %g, %g", exam.Rate(), field.Rate(), r.ExamRate, r.FieldRate)
			}
			points, ok := new(big.Rat).SetString(r.Drop)
			if want, _ := points.Float64(); !ok || math.Abs(100*c.Drop-want) > 1e-10 {
				t.Errorf("Drop = %g, want %s points", c.Drop, r.Drop)
			}
			checkInterval(t, "Exam", c.Exam, r.Exam)
			checkInterval(t, "Field", c.Field, r.Field)
			checkInterval(t, "DropInterval", c.DropInterval, r.Newcombe)
		})
	}
}

func TestCompareEmptyArms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ exam, field stats.Counts }{
		{stats.Counts{}, stats.Counts{}},
		{stats.Counts{N: 40, Passes: 40}, stats.Counts{}},
		{stats.Counts{}, stats.Counts{N: 40, Passes: 1}},
	} {
		c := stats.Compare(tt.exam, tt.field)
		if c.Verdict != stats.Insufficient || c.Test != "" || c.P != 1 || c.DropInterval != (stats.Interval{Lo: -1, Hi: 1}) {
			t.Errorf("Compare(%v, %v) = %+v, want insufficient, no test and no knowledge of the drop", tt.exam, tt.field, c)
		}
	}
}

// The largest field count that still gives exam_only is where the thresholds bite.
func TestCompareLastExamOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		exam   stats.Counts
		fieldN int
		want   int
	}{
		{stats.Counts{N: 20, Passes: 20}, 12, 7},
		{stats.Counts{N: 20, Passes: 20}, 15, 10},
		{stats.Counts{N: 20, Passes: 20}, 30, 21},
		{stats.Counts{N: 20, Passes: 20}, 40, 29},
		{stats.Counts{N: 40, Passes: 40}, 12, 9},
		{stats.Counts{N: 40, Passes: 40}, 15, 11},
		{stats.Counts{N: 40, Passes: 40}, 30, 24},
		{stats.Counts{N: 40, Passes: 40}, 40, 33},
		{stats.Counts{N: 40, Passes: 38}, 12, 7},
		{stats.Counts{N: 40, Passes: 38}, 15, 9},
		{stats.Counts{N: 40, Passes: 38}, 30, 21},
		{stats.Counts{N: 40, Passes: 38}, 40, 30},
	} {
		got := -1
		for x := range tt.fieldN + 1 {
			if stats.Compare(tt.exam, stats.Counts{N: tt.fieldN, Passes: x}).Verdict == stats.ExamOnly {
				got = x
			}
		}
		if got != tt.want {
			t.Errorf("exam %v: last exam_only of %d = %d, want %d", tt.exam, tt.fieldN, got, tt.want)
		}
	}
}

// Fisher by its definition, with binomial coefficients in exact arithmetic.
func TestFisherAgainstDefinition(t *testing.T) {
	t.Parallel()
	for n1 := 1; n1 <= 9; n1++ {
		for n2 := 1; n2 <= 9; n2++ {
			for x1 := range n1 + 1 {
				for x2 := range n2 + 1 {
					c := stats.Compare(stats.Counts{N: n1, Passes: x1}, stats.Counts{N: n2, Passes: x2})
					if want := hypergeometric(x1, n1, x2, n2); c.Test == stats.FisherExact && !near(c.P, want, 1e-14) {
						t.Errorf("P of %d/%d against %d/%d = %g, want %g", x1, n1, x2, n2, c.P, want)
					}
				}
			}
		}
	}
}

func hypergeometric(x1, n1, x2, n2 int) float64 {
	s := int64(x1 + x2)
	sum := new(big.Int)
	for k := int64(0); k <= int64(x2); k++ {
		if s-k <= int64(n1) {
			a, b := new(big.Int).Binomial(int64(n2), k), new(big.Int).Binomial(int64(n1), s-k)
			sum.Add(sum, a.Mul(a, b))
		}
	}
	p, _ := new(big.Rat).SetFrac(sum, new(big.Int).Binomial(int64(n1+n2), s)).Float64()
	return p
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []stats.Counts{{}, {N: 1, Passes: 1}, {N: stats.MaxCount}} {
		if err := c.Check(); err != nil {
			t.Errorf("Check(%v) = %v, want nil", c, err)
		}
	}
	for _, c := range []stats.Counts{{N: -1}, {N: 1, Passes: 2}, {N: 1, Passes: -1}, {N: stats.MaxCount + 1}} {
		if err := c.Check(); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Check(%v) = %v, want ErrInvalid", c, err)
		}
	}
}

func TestQuantileReference(t *testing.T) {
	t.Parallel()
	for _, r := range load(t).Quantiles {
		for q, want := range map[float64]float64{.5: r.Median, .9: r.P90} {
			if got, ok := stats.Quantile(r.Sample, q); !ok || !near(got, want, 1e-12) {
				t.Errorf("Quantile(%v, %g) = %g, %t, want %g", r.Sample, q, got, ok, want)
			}
		}
	}
	for _, tt := range []struct {
		sample []float64
		q      float64
	}{{nil, .5}, {[]float64{1}, -.1}, {[]float64{1}, 1.1}, {[]float64{1}, math.NaN()}} {
		if got, ok := stats.Quantile(tt.sample, tt.q); ok {
			t.Errorf("Quantile(%v, %g) = %g, want none", tt.sample, tt.q, got)
		}
	}
}

func TestQuantileLeavesSample(t *testing.T) {
	t.Parallel()
	sample := []float64{3, 1, 2}
	if got, _ := stats.Quantile(sample, 1); got != 3 || sample[0] != 3 {
		t.Errorf("Quantile(sample, 1) = %g, sample now %v, want 3 and the old order", got, sample)
	}
}

func TestRatioReference(t *testing.T) {
	t.Parallel()
	for _, r := range load(t).Latency {
		for q, want := range map[float64]float64{.5: r.Median, .9: r.P90} {
			if got, ok := stats.Ratio(r.Exam, r.Field, q); !ok || !near(got, want, 1e-12) {
				t.Errorf("Ratio(%g) = %g, %t, want %g", q, got, ok, want)
			}
		}
	}
	if got, ok := stats.Ratio([]float64{0}, []float64{1}, .5); ok {
		t.Errorf("Ratio over 0 = %g, want none", got)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 1: "1", .45: "0.45", -.15: "-0.15", 1.808350515007746e-08: "1.808350515007746e-08", 2. / 3: "0.6666666666666666",
	} {
		got := stats.Format(f)
		if back, err := strconv.ParseFloat(got, 64); got != want || err != nil || back != f {
			t.Errorf("Format(%g) = %q, want %q", f, got, want)
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(40, 40, 40, 18)
	f.Add(20, 20, 12, 0)
	f.Add(1000000, 0, 1000000, 0)
	f.Add(stats.MaxCount, 1, stats.MaxCount, 1)
	f.Fuzz(func(t *testing.T, n1, x1, n2, x2 int) {
		exam, field := stats.Counts{N: n1, Passes: x1}, stats.Counts{N: n2, Passes: x2}
		if exam.Check() != nil || field.Check() != nil {
			return
		}
		c := stats.Compare(exam, field)
		if !(0 <= c.P && c.P <= 1) {
			t.Errorf("P = %g", c.P)
		}
		for _, in := range []struct {
			interval   stats.Interval
			lo, at, hi float64
		}{
			{c.Exam, 0, exam.Rate(), 1},
			{c.Field, 0, field.Rate(), 1},
			{c.DropInterval, -1, c.Drop, 1},
		} {
			const e = 1e-12 // rounding
			if !(in.lo-e <= in.interval.Lo && in.interval.Lo <= in.at+e && in.at <= in.interval.Hi+e && in.interval.Hi <= in.hi+e) {
				t.Errorf("interval %v around %g, want one within [%g, %g]", in.interval, in.at, in.lo, in.hi)
			}
		}
	})
}
