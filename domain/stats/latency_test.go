package stats_test

import (
	"math"
	"testing"

	"github.com/karatum/mystery/domain/stats"
)

func TestCompareLatenciesReference(t *testing.T) {
	t.Parallel()
	r := loadCompanions(t).Latency
	l, ok := stats.CompareLatencies(r.Exam, r.Field)
	if !ok {
		t.Fatal("CompareLatencies = false, want true")
	}
	checkFigure(t, "Slower", l.Slower, r.Slower, 1e-12)
	checkFigure(t, "U", l.U, r.U, 0)
	checkFigure(t, "MannWhitneyP", l.MannWhitneyP, r.MannWhitneyP, 1e-9)
	checkFigure(t, "BrunnerMunzel", l.BrunnerMunzel, r.BrunnerMunzel, 1e-12)
	checkFigure(t, "BrunnerMunzelP", l.BrunnerMunzelP, r.BrunnerMunzelP, 1e-9)
	if i := l.SlowerInterval; !(.5 < i.Lo && i.Lo < l.Slower && l.Slower < i.Hi && i.Hi <= 1) {
		t.Errorf("SlowerInterval = %v around %v, want one above ½, as p is below .025", i, l.Slower)
	}
	mirror, _ := stats.CompareLatencies(r.Field, r.Exam)
	checkFigure(t, "mirrored BrunnerMunzel", mirror.BrunnerMunzel, -l.BrunnerMunzel, 1e-12)
	checkFigure(t, "mirrored BrunnerMunzelP", mirror.BrunnerMunzelP, 1-l.BrunnerMunzelP, 1e-12)
}

func TestCompareLatenciesAtTheEdges(t *testing.T) {
	t.Parallel()
	if _, ok := stats.CompareLatencies(nil, []float64{1}); ok {
		t.Error("CompareLatencies of nothing = true, want false")
	}
	if _, ok := stats.CompareLatencies([]float64{1}, []float64{math.NaN()}); ok {
		t.Error("CompareLatencies of NaN = true, want false")
	}
	for _, tt := range []struct {
		name            string
		exam, field     []float64
		slower, mannP   float64
		noBrunnerMunzel bool
	}{
		{"one each", []float64{1}, []float64{2}, 1, .158655253931457, true},
		{"all equal", []float64{1, 1}, []float64{1, 1}, .5, 1, true},
		{"far apart", []float64{1, 2}, []float64{3, 4}, 1, .0606660, true},
		{"overlapping", []float64{1, 3, 5}, []float64{2, 4, 6}, 2. / 3, .2563, false},
	} {
		l, ok := stats.CompareLatencies(tt.exam, tt.field)
		if !ok || l.Slower != tt.slower || math.Abs(l.MannWhitneyP-tt.mannP) > 1e-4 || math.IsNaN(l.BrunnerMunzel) != tt.noBrunnerMunzel {
			t.Errorf("%s: CompareLatencies = %+v, %t", tt.name, l, ok)
		}
	}
}

func TestCensoredQuantile(t *testing.T) {
	t.Parallel()
	at := func(v float64) stats.Reading { return stats.Reading{Value: v} }
	limit := stats.Reading{Value: 30, AtLeast: true}
	for _, tt := range []struct {
		name   string
		sample []stats.Reading
		q      float64
		want   string
	}{
		{"below the limit", []stats.Reading{limit, at(1), at(2)}, .5, "2"},
		{"on the limit", []stats.Reading{limit, limit, at(2)}, .5, "≥30"},
		{"interpolated with it", []stats.Reading{limit, at(1), at(2), limit}, .5, "≥16"},
		{"a reply at the very limit comes first", []stats.Reading{limit, at(30)}, 0, "30"},
		{"a shorter limit below", []stats.Reading{{Value: 3, AtLeast: true}, at(4), at(5)}, .5, "≥4"},
		{"one timeout", []stats.Reading{limit}, .9, "≥30"},
	} {
		if got, ok := stats.CensoredQuantile(tt.sample, tt.q); !ok || got.String() != tt.want {
			t.Errorf("%s: CensoredQuantile = %s, %t, want %s", tt.name, got, ok, tt.want)
		}
	}
	if got, ok := stats.CensoredQuantile(nil, .5); ok {
		t.Errorf("CensoredQuantile(nil) = %s, want none", got)
	}
	if got, ok := stats.CensoredQuantile([]stats.Reading{limit}, math.NaN()); ok {
		t.Errorf("CensoredQuantile of NaN = %s, want none", got)
	}
}
