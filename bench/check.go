package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// tolerance is how much of a ratio may be lost.
const tolerance = 0.2

// Ratios are the ratios of lines, by run. The keys are names of lines with their units.
type ratios map[string][]float64

// ratiosOf returns the ratios of lines.
func ratiosOf(lines []line) ratios {
	all := make(ratios)
	for _, l := range lines {
		if l.Ratio != nil {
			all[l.key()] = l.Ratio.Runs
		}
	}
	return all
}

func (l line) key() string { return l.name() + " " + ratioUnit(l.Unit) }

// readRatios reads what [report.writeBenchmarks] wrote. Anything but ratios is left out,
// as it says nothing on another machine.
func readRatios(r io.Reader, name string) (ratios, error) {
	all := make(ratios)
	in := benchfmt.NewReader(r, name)
	for in.Scan() {
		switch record := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, v := range record.Values {
				if strings.HasSuffix(v.Unit, ratioUnit("")) {
					key := "Benchmark" + record.Name.String() + " " + v.Unit
					all[key] = append(all[key], v.Value)
				}
			}
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no ratios; write one with -benchstat", name)
	}
	return all, nil
}

// A regression is a ratio that is not what it was.
type regression struct {
	key      string
	was, now float64 // medians; now is 0 if it was not measured
}

func (r regression) String() string {
	if r.now == 0 {
		return fmt.Sprintf("%s was %s, and was not measured", r.key, digits(r.was))
	}
	return fmt.Sprintf("%s was %s, and is %s: %.0f %% less", r.key, digits(r.was), digits(r.now), 100*(1-r.now/r.was))
}

// regressions returns the ratios of was whose median in now is less by more than the
// tolerance, or that now lacks, by key. What only now has cannot have got worse.
func regressions(was, now ratios) (list []regression) {
	for _, key := range slices.Sorted(maps.Keys(was)) {
		r := regression{key: key, was: median(was[key])}
		if len(now[key]) > 0 {
			r.now = median(now[key])
		}
		if r.now < r.was*(1-tolerance) {
			list = append(list, r)
		}
	}
	return list
}
