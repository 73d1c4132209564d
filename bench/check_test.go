package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// kept returns the ratios of a table as they come back from a baseline.
func kept(t *testing.T) ratios {
	t.Helper()
	var b bytes.Buffer
	if err := (report{conditions{Cores: 2, Go: "go1.26", PostgreSQL: "15.1"}, table(t)}).writeBenchmarks(&b); err != nil {
		t.Fatal(err)
	}
	all, err := readRatios(&b, "baseline")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBaselineHoldsTheRatiosOfEachRun(t *testing.T) {
	t.Parallel()
	got, want := kept(t), ratiosOf(table(t))
	if len(got) != len(want) {
		t.Errorf("%d ratios come back, want %d", len(got), len(want))
	}
	for key, runs := range want {
		if !slices.Equal(got[key], runs) {
			t.Errorf("of %s come back %v, want %v", key, got[key], runs)
		}
	}
}

func TestPlantedRegressionsAreFound(t *testing.T) {
	t.Parallel()
	const (
		rate    = "BenchmarkAppend2Writers/to=RateOnly /s-ratio"
		latency = "BenchmarkAppend2Writers/to=FastOne ms-p50-ratio"
	)
	times := func(key string, by float64) func(ratios) {
		return func(now ratios) {
			for i := range now[key] {
				now[key][i] *= by
			}
		}
	}
	for _, c := range []struct {
		name  string
		plant func(now ratios)
		want  []string
	}{
		{"nothing", func(ratios) {}, nil},
		{"a rate that falls by 21 %", times(rate, 0.79), []string{rate}},
		{"a rate that falls by 19 %", times(rate, 0.81), nil},
		{"a latency that is a third longer", times(latency, 1/1.33), []string{latency}},
		{"a rate that rises", times(rate, 3), nil},
		{"one run of three that is luck", func(now ratios) { now[latency][2] = 99 }, nil},
		{"a line that is gone", func(now ratios) { delete(now, rate) }, []string{rate}},
		{"a line that is new", func(now ratios) { now["new"] = []float64{0.001} }, nil},
		{"two at once", func(now ratios) { times(rate, 0.5)(now); times(latency, 0.5)(now) }, []string{latency, rate}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := kept(t)
			c.plant(now)
			var got []string
			for _, r := range regressions(kept(t), now) {
				got = append(got, r.key)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("regressions = %q, want %q", got, c.want)
			}
		})
	}
}

func TestRegressionSaysWhatItWas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    regression
		want string
	}{
		{regression{"Append /s-ratio", 2, 1.5}, "Append /s-ratio was 2.00, and is 1.50: 25 % less"},
		{regression{"Append /s-ratio", 2, 0}, "Append /s-ratio was 2.00, and was not measured"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("%+v reads %q, want %q", c.r, got, c.want)
		}
	}
}

func TestBadBaselineIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":             "",
		"another text":        "hello\n",
		"no ratios":           "BenchmarkAppend 1 5 /s\n",
		"a number that isn't": "BenchmarkAppend 1 x /s-ratio\n",
	} {
		if got, err := readRatios(strings.NewReader(text), name); err == nil {
			t.Errorf("readRatios of %s = %v, want an error", name, got)
		}
	}
}

// measuring returns a stage whose ratio is one of some in turn, and a bench.
func measuring(t *testing.T, ours ...float64) (*bench, []stage) {
	t.Helper()
	n := 0
	return &bench{rounds: 1, stderr: t.Output()}, []stage{{"reads", func(b *bench, ctx context.Context) error {
		n++
		return b.hold(ctx, doing("read", planned("", []figure{{perSecond, ours[n-1]}}), planned("peer", []figure{{perSecond, 1}})))
	}}}
}

func TestWhatIsSlowOnceIsMeasuredAgain(t *testing.T) {
	t.Parallel()
	baseline := func() ratios {
		return ratios{"BenchmarkRead/to=Peer /s-ratio": {10}, "BenchmarkAnother/to=Peer /s-ratio": {10}}
	}
	for _, c := range []struct {
		name  string
		ours  []float64 // in turn
		found bool
	}{
		{"as fast as before", []float64{10}, false},
		{"slow once", []float64{5, 9}, false},
		{"slow twice", []float64{5, 7}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, chosen := measuring(t, c.ours...)
			if err := b.measure(t.Context(), chosen); err != nil {
				t.Fatal(err)
			}
			err := b.compare(t.Context(), baseline(), chosen)
			if (err != nil) != c.found {
				t.Errorf("compare = %v, want an error: %t", err, c.found)
			}
			if c.found && !strings.Contains(err.Error(), "BenchmarkRead/to=Peer /s-ratio was 10.0, and is 7.00: 30 % less") {
				t.Errorf("compare = %v, which does not tell what is slower", err)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string // the stages
		err  string
	}{
		{nil, "appends leaves reads proofs batches tasks producers api", ""},
		{[]string{"-what", "api,growth"}, "api growth", ""},
		{[]string{"-what", "apis"}, "", `nothing called "apis" is measured`},
		{[]string{"-rounds", "0"}, "", "measure once at least"},
		{[]string{"-length", "10ms"}, "", "measure once at least"},
	} {
		o, chosen, err := parse(c.args, t.Output())
		names := make([]string, len(chosen))
		for i, s := range chosen {
			names[i] = s.name
		}
		got := strings.Join(names, " ")
		if c.err == "" && (err != nil || got != c.want || o.rounds != 10 || o.length != 2*time.Second) {
			t.Errorf("parse(%q) = %+v, %s, %v, want %s", c.args, o, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("parse(%q) = %v, want %q", c.args, err, c.err)
		}
	}
}

func TestBaselineIsThere(t *testing.T) {
	t.Parallel()
	all, err := readBaseline("testdata/baseline.txt")
	if err != nil {
		t.Fatal(err)
	}
	runs := len(all["BenchmarkDurableLeaf256Writers/to=TesseraFiles /s-ratio"])
	for key, list := range all {
		if len(list) != runs || runs == 0 {
			t.Errorf("of %s the baseline holds %d runs, want as many as of the others, %d", key, len(list), runs)
		}
	}
}
