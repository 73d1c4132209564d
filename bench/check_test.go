package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
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
