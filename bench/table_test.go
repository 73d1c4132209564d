package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// planned returns sides whose runs tell given figures in turn.
func planned(name string, runs ...[]figure) side {
	n := 0
	return side{name, func(context.Context) ([]figure, error) {
		n++
		return runs[n-1], nil
	}}
}

// table returns the lines of a contest with two peers, of which one has no latency.
func table(t *testing.T) []line {
	t.Helper()
	b := &bench{rounds: 3, stage: "appends", stderr: t.Output()}
	err := b.hold(t.Context(), doing("append, 2 writers",
		planned("", []figure{{perSecond, 100}, {p50, 4}}, []figure{{perSecond, 300}, {p50, 2}}, []figure{{perSecond, 200}, {p50, 3}}),
		planned("fast one", []figure{{perSecond, 200}, {p50, 2}}, []figure{{perSecond, 600}, {p50, 1}}, []figure{{perSecond, 100}, {p50, 6}}),
		planned("rate-only", []figure{{perSecond, 50}}, []figure{{perSecond, 50}}, []figure{{perSecond, 50}})))
	if err != nil {
		t.Fatal(err)
	}
	return b.lines
}

func TestRatiosAreTakenRunByRun(t *testing.T) {
	t.Parallel()
	lines := table(t)
	for i, want := range []struct {
		key    string
		ours   float64
		theirs float64
		ratios []float64
		median float64
	}{
		{"BenchmarkAppend2Writers/to=FastOne /s-ratio", 200, 200, []float64{0.5, 0.5, 2}, 0.5},
		{"BenchmarkAppend2Writers/to=RateOnly /s-ratio", 200, 50, []float64{2, 6, 4}, 4},
		{"BenchmarkAppend2Writers/to=FastOne ms-p50-ratio", 3, 2, []float64{0.5, 0.5, 2}, 0.5},
	} {
		l := lines[i]
		if l.key() != want.key || l.Ours.Median != want.ours || l.Theirs.Median != want.theirs ||
			!slices.Equal(l.Ratio.Runs, want.ratios) || l.Ratio.Median != want.median {
			t.Errorf("line %d = %s: ours %v, theirs %v, ratio %v, want %+v", i, l.key(), l.Ours, *l.Theirs, *l.Ratio, want)
		}
	}
	if len(lines) != 3 {
		t.Errorf("there are %d lines, want 3", len(lines))
	}
}

func TestFigureWithoutPeerHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	b := &bench{rounds: 1, stderr: t.Output()}
	if err := b.hold(t.Context(), doing("read", planned("", []figure{{microCPU, 7}}), planned("peer", []figure{{perSecond, 1}}))); err != nil {
		t.Fatal(err)
	}
	if l := b.lines; len(l) != 1 || l[0].Ours.Median != 7 || l[0].Ratio != nil || l[0].Peer != "" {
		t.Errorf("lines = %+v, want one without a peer", l)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{4, 1}, 2.5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 2, 4, 6}, 5},
	} {
		before := slices.Clone(c.xs)
		if got := median(c.xs); got != c.want || !slices.Equal(c.xs, before) {
			t.Errorf("median(%v) = %v and leaves %v, want %v and no change", before, got, c.xs, c.want)
		}
	}
}

func TestTableIsAligned(t *testing.T) {
	t.Parallel()
	r := report{conditions{Cores: 2, Go: "go1.26", PostgreSQL: "15.1", Load: "0 0 0", Rounds: 3}, append(table(t), line{What: "alone", Unit: perSecond, Ours: spreadOf([]float64{1})})}
	var b bytes.Buffer
	if err := r.writeTable(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
	column := strings.Index(lines[0], "peer")
	for _, l := range lines[1:4] {
		if !strings.HasPrefix(l[column:], "fast one") && !strings.HasPrefix(l[column:], "rate-only") {
			t.Errorf("the peer is not below its heading:\n%s", b.String())
		}
	}
}

func TestJSONTellsOursTheirsAndRatio(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := (report{Lines: table(t)}).writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Lines []struct {
			What                string
			Ours, Theirs, Ratio struct{ Median float64 }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if l := got.Lines[1]; l.What != "append, 2 writers" || l.Ours.Median != 200 || l.Theirs.Median != 50 || l.Ratio.Median != 4 {
		t.Errorf("line = %+v, want 200 next to 50, 4 times as fast", l)
	}
}
