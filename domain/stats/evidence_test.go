package stats_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/karatum/mystery/domain/stats"
)

// companions is the part of the reference about what stands beside a verdict.
type companions struct {
	Sequential struct {
		Sequences []struct {
			Name   string `json:"name"`
			Passes int    `json:"x_exam"`
			N      int    `json:"n_exam"`
			Cycles []int  `json:"field_success_per_cycle"`
			Looks  []struct {
				FieldPasses      int           `json:"x_field"`
				FieldN           int           `json:"n_field"`
				P                float64       `json:"p_single_look"`
				Test             stats.Test    `json:"test"`
				Verdict          stats.Verdict `json:"spec_verdict"`
				LogE             float64       `json:"log_bf"`
				LogUniversal     float64       `json:"log_ui"`
				Gated            stats.Verdict `json:"gated_verdict"`
				PAlways          float64       `json:"p_always_bf"`
				PAlwaysUniversal float64       `json:"p_always_ui"`
			} `json:"looks"`
		} `json:"sequences"`
	} `json:"sequential"`
	Confidence []struct {
		Passes int     `json:"x"`
		N      int     `json:"n"`
		Lo     float64 `json:"lo"`
		Hi     float64 `json:"hi"`
	} `json:"confidence_sequence_jeffreys_95"`
	CMH struct {
		Rows []struct {
			Tables []row    `json:"tables"`
			Strata int      `json:"strata_used"`
			Z      *float64 `json:"z"`
			P      float64  `json:"p_one_sided"`
			Drop   float64  `json:"mh_risk_difference"`
			Odds   *float64 `json:"mh_odds_ratio"`
			CrudeP float64  `json:"crude_p"`
		} `json:"rows"`
	} `json:"cmh"`
	Latency struct {
		Exam           []float64 `json:"exam"`
		Field          []float64 `json:"field"`
		Slower         float64   `json:"prob_field_slower"`
		U              float64   `json:"mann_whitney_U_field"`
		MannWhitneyP   float64   `json:"mann_whitney_p_one_sided_tie_corrected_no_cc"`
		BrunnerMunzel  float64   `json:"brunner_munzel_stat"`
		BrunnerMunzelP float64   `json:"brunner_munzel_p_one_sided"`
	} `json:"latency_reference"`
	Turner struct {
		Rows []struct {
			Name   string    `json:"name"`
			Blocks [][2]int  `json:"blocks"`
			LogE   []float64 `json:"log_e"`
		} `json:"rows"`
	} `json:"turner_block_one_sided"`
}

// A row is x_exam, n_exam, x_field, n_field.
type row [4]int

func (r row) table() stats.Table {
	return stats.Table{Exam: stats.Counts{Passes: r[0], N: r[1]}, Field: stats.Counts{Passes: r[2], N: r[3]}}
}

func loadCompanions(t *testing.T) (c companions) {
	t.Helper()
	data, err := os.ReadFile("testdata/stats_reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Sequential.Sequences) == 0 || len(c.Confidence) == 0 || len(c.CMH.Rows) == 0 || len(c.Latency.Exam) == 0 || len(c.Turner.Rows) == 0 {
		t.Fatal("the reference is incomplete")
	}
	return c
}

func checkFigure(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if !near(got, want, relative) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestSequenceReference(t *testing.T) {
	t.Parallel()
	for _, s := range loadCompanions(t).Sequential.Sequences {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			exam := stats.Counts{N: s.N, Passes: s.Passes}
			var field stats.Counts
			always, universal := 1.0, 1.0
			for i, look := range s.Looks {
				field.N += 3
				field.Passes += s.Cycles[i]
				if field != (stats.Counts{N: look.FieldN, Passes: look.FieldPasses}) {
					t.Fatalf("look %d is at %v, the reference at %d of %d", i, field, look.FieldPasses, look.FieldN)
				}
				c := stats.Compare(exam, field)
				logE, logUI := stats.LogE(exam, field), stats.LogUniversal(exam, field)
				always = stats.PAlways(always, logE, exam, field)
				universal = stats.PAlways(universal, logUI, exam, field)
				if c.Test != look.Test || c.Verdict != look.Verdict {
					t.Errorf("look %d: %s, %s, want %s, %s", i, c.Test, c.Verdict, look.Test, look.Verdict)
				}
				if got := stats.Gated(exam, field, 0); got != look.Gated {
					t.Errorf("look %d: Gated = %s, want %s", i, got, look.Gated)
				}
				checkFigure(t, "P", c.P, look.P, 1e-9)
				if math.Abs(logE-look.LogE) > 1e-10 || math.Abs(logUI-look.LogUniversal) > 1e-10 {
					t.Errorf("look %d: LogE, LogUniversal = %v, %v, want %v, %v", i, logE, logUI, look.LogE, look.LogUniversal)
				}
				checkFigure(t, "PAlways", always, look.PAlways, 1e-9)
				checkFigure(t, "PAlways of universal inference", universal, look.PAlwaysUniversal, 1e-9)
			}
		})
	}
}

func TestGatedOnLostTasks(t *testing.T) {
	t.Parallel()
	exam, field := stats.Counts{N: 40, Passes: 40}, stats.Counts{N: 42, Passes: 20}
	for lost, want := range map[int]stats.Verdict{
		0:  stats.ExamOnly,
		18: stats.ExamOnly, // 18 of 60 are 30 %, and no more
		19: stats.Insufficient,
	} {
		if got := stats.Gated(exam, field, lost); got != want {
			t.Errorf("Gated with %d lost = %s, want %s", lost, got, want)
		}
	}
	if got := stats.Gated(stats.Counts{N: 40, Passes: 40}, stats.Counts{N: 12, Passes: 9}, 0); got != stats.Watch {
		t.Errorf("Gated at 9 of 12 = %s, want watch", got)
	}
}

func TestBlockedBand(t *testing.T) {
	t.Parallel()
	exam := stats.Counts{N: 40, Passes: 40}
	for _, tt := range []struct {
		field stats.Counts
		lost  int
		want  stats.Band
	}{
		{stats.Counts{N: 40, Passes: 18}, 0, stats.Band{Passed: stats.ExamOnly, Failed: stats.ExamOnly}},
		{stats.Counts{N: 20, Passes: 20}, 10, stats.Band{Passed: stats.Consistent, Failed: stats.ExamOnly}},
		{stats.Counts{N: 9, Passes: 9}, 2, stats.Band{Passed: stats.Insufficient, Failed: stats.Insufficient}},
	} {
		if got := stats.BlockedBand(exam, tt.field, tt.lost); got != tt.want {
			t.Errorf("BlockedBand(%v, %v, %d) = %v, want %v", exam, tt.field, tt.lost, got, tt.want)
		}
	}
}

func TestConfidenceSequenceReference(t *testing.T) {
	t.Parallel()
	for _, r := range loadCompanions(t).Confidence {
		checkInterval(t, fmt.Sprintf("ConfidenceSequence(%d of %d)", r.Passes, r.N),
			stats.ConfidenceSequence(stats.Counts{N: r.N, Passes: r.Passes}), [2]float64{r.Lo, r.Hi})
	}
	checkInterval(t, "ConfidenceSequence of nothing", stats.ConfidenceSequence(stats.Counts{}), [2]float64{0, 1})
}

func TestBlocksReference(t *testing.T) {
	t.Parallel()
	for _, r := range loadCompanions(t).Turner.Rows {
		blocks := make([]stats.Table, len(r.Blocks))
		for i, b := range r.Blocks {
			blocks[i] = stats.Table{Exam: stats.Counts{N: 3, Passes: b[0]}, Field: stats.Counts{N: 3, Passes: b[1]}}
		}
		got := stats.LogEBlocks(blocks)
		if len(got) != len(r.LogE) {
			t.Fatalf("%s: %d values, want %d", r.Name, len(got), len(r.LogE))
		}
		for i, want := range r.LogE {
			if math.Abs(got[i]-want) > 1e-12 {
				t.Errorf("%s: LogEBlocks[%d] = %v, want %v", r.Name, i, got[i], want)
			}
		}
	}
}

// The mean of a block's factor under equal rates is at most 1, whatever was seen
// before: that is what makes the product an E-process.
func TestBlocksAreFair(t *testing.T) {
	t.Parallel()
	first := stats.Table{Exam: stats.Counts{N: 3, Passes: 3}, Field: stats.Counts{N: 3, Passes: 1}}
	for _, rate := range []float64{.05, .3, .5, .8, .95} {
		var mean float64
		for a := range 4 {
			for f := range 4 {
				second := stats.Table{Exam: stats.Counts{N: 3, Passes: a}, Field: stats.Counts{N: 3, Passes: f}}
				mean += binomial(3, a, rate) * binomial(3, f, rate) * math.Exp(stats.LogEBlocks([]stats.Table{first, second})[1])
			}
		}
		if mean > 1+1e-12 {
			t.Errorf("mean factor at rate %g = %g, want at most 1", rate, mean)
		}
	}
}

func binomial(n, k int, p float64) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
}

func FuzzEvidence(f *testing.F) {
	f.Add(40, 40, 40, 18, 3)
	f.Add(20, 20, 12, 0, 0)
	f.Add(0, 0, 0, 0, 0)
	f.Add(stats.MaxCount, 1, stats.MaxCount-1, 1, 1)
	f.Fuzz(func(t *testing.T, n1, x1, n2, x2, lost int) {
		exam, field := stats.Counts{N: n1, Passes: x1}, stats.Counts{N: n2, Passes: x2}
		if exam.Check() != nil || field.Check() != nil || lost < 0 || lost > stats.MaxCount-n2 {
			return
		}
		logE := stats.LogE(exam, field)
		if math.IsNaN(logE) || math.IsNaN(stats.LogUniversal(exam, field)) {
			t.Error("the evidence is no number")
		}
		if p := stats.PAlways(1, logE, exam, field); !(0 <= p && p <= 1) {
			t.Errorf("PAlways = %g", p)
		}
		gated, plain := stats.Gated(exam, field, lost), stats.Compare(exam, field).Verdict
		if gated == stats.ExamOnly && plain != stats.ExamOnly {
			t.Errorf("Gated = %s where Compare says %s", gated, plain)
		}
		stats.BlockedBand(exam, field, lost)
		if i := stats.ConfidenceSequence(field); !(0 <= i.Lo && i.Lo <= field.Rate() && i.Hi <= 1) || field.N > 0 && field.Rate() > i.Hi {
			t.Errorf("ConfidenceSequence(%v) = %v", field, i)
		}
		if ratio, i := stats.Conformity(exam, field); !math.IsNaN(i.Lo) && !(i.Lo <= ratio+1e-9 && ratio <= i.Hi+1e-9) {
			t.Errorf("Conformity(%v, %v) = %g, %v", exam, field, ratio, i)
		}
		if drop, ok := stats.DetectableDrop(exam, field.N); ok && !(0 < drop && drop <= 1) {
			t.Errorf("DetectableDrop(%v, %d) = %g", exam, field.N, drop)
		}
		s := stats.Stratify([]stats.Table{{Exam: exam, Field: field}})
		if !(0 <= s.P && s.P <= 1) {
			t.Errorf("P of one family = %g", s.P)
		}
	})
}
