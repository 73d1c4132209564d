package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// A figure is something that was measured once. Of figures in the unit "/s" more is
// better, of all others less.
type figure struct {
	unit  string
	value float64
}

const (
	perSecond    = "/s"
	p50          = "ms-p50"
	milliseconds = "ms"
	microCPU     = "µs-CPU" // of this process, for each, so without that of a server
)

// A side is one of those that do the same, and is measured once each time it runs. The
// side that is ours has no name.
type side struct {
	name string
	run  func(context.Context) ([]figure, error)
}

// A spread is what came of some runs.
type spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Runs   []float64 `json:"runs"` // in the order in which they were made
}

func spreadOf(runs []float64) spread {
	return spread{Median: median(runs), Min: slices.Min(runs), Max: slices.Max(runs), Runs: runs}
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[len(xs)/2] + xs[(len(xs)-1)/2]) / 2
}

// A line of the table is one figure of ours, beside that of a peer if one has it.
type line struct {
	What string `json:"what"`
	Unit string `json:"unit"`
	Ours spread `json:"ours"`

	Peer   string  `json:"peer,omitempty"`
	Theirs *spread `json:"theirs,omitempty"`
	// Ratio says how many times as fast we are. It is taken run by run, as both sides of
	// a run find the machine in the same mood.
	Ratio *spread `json:"ratio,omitempty"`

	stage string
}

// linesOf returns the lines of what sides did: the figures of ours, each next to every
// peer that has it too. Samples are the figures by side and run.
func linesOf(what string, sides []side, samples [][][]figure) (lines []line) {
	for _, f := range samples[0][0] {
		ours := values(samples[0], f.unit)
		alone := true
		for i, s := range sides[1:] {
			theirs := values(samples[i+1], f.unit)
			if len(theirs) == 0 {
				continue
			}
			alone = false
			ratios := make([]float64, len(ours))
			for run := range ours {
				ratios[run] = ours[run] / theirs[run]
				if f.unit != perSecond {
					ratios[run] = theirs[run] / ours[run]
				}
			}
			other, ratio := spreadOf(theirs), spreadOf(ratios)
			lines = append(lines, line{What: what, Unit: f.unit, Ours: spreadOf(ours), Peer: s.name, Theirs: &other, Ratio: &ratio})
		}
		if alone {
			lines = append(lines, line{What: what, Unit: f.unit, Ours: spreadOf(ours)})
		}
	}
	return lines
}

// values returns the values in a unit, by run. It is empty if the runs have none.
func values(runs [][]figure, unit string) (list []float64) {
	for _, figures := range runs {
		for _, f := range figures {
			if f.unit == unit {
				list = append(list, f.value)
			}
		}
	}
	return list
}

// A report is all that was measured, and what the machine was like.
type report struct {
	Conditions conditions `json:"conditions"`
	Lines      []line     `json:"lines"`
}

type conditions struct {
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
	Load       string `json:"load"` // averages of 1, 5 and 15 minutes before
	Rounds     int    `json:"rounds"`
}

func (c conditions) String() string {
	return fmt.Sprintf("%d runs on %d cores, %s, PostgreSQL %s, load before %s", c.Rounds, c.Cores, c.Go, c.PostgreSQL, c.Load)
}

func (r report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s; medians, and least to most; above a ratio of 1 we are faster\n\n", r.Conditions)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tunit\tours\tleast to most\tpeer\ttheirs\tleast to most\tratio\tleast to most")
	for _, l := range r.Lines {
		theirs, ratio := spread{}, spread{}
		if l.Ratio != nil {
			theirs, ratio = *l.Theirs, *l.Ratio
		}
		cells := slices.Concat([]string{l.What, l.Unit}, l.Ours.cells(), []string{l.Peer}, theirs.cells(), ratio.cells())
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// cells returns the median and what lies around it; nothing of no runs.
func (s spread) cells() []string {
	if len(s.Runs) == 0 {
		return []string{"", ""}
	}
	return []string{digits(s.Median), digits(s.Min) + " to " + digits(s.Max)}
}

// digits writes x with three digits, or with all that stand before the point.
func digits(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// ratioUnit is the unit of ratios in the format of Go benchmarks.
func ratioUnit(unit string) string { return unit + "-ratio" }

// writeBenchmarks writes the report in the format of Go benchmarks, each run of each
// line as a result of its own, for benchstat to compare with another. The conditions are a
// comment: of results whose configurations differ it would make tables of their own.
func (r report) writeBenchmarks(w io.Writer) error {
	_, err := fmt.Fprintf(w, "# %s\n", r.Conditions)
	units := make(map[string]bool)
	for _, l := range r.Lines {
		for _, unit := range []string{l.Unit, ratioUnit(l.Unit)} {
			if better := "lower"; err == nil && !units[unit] {
				if unit != l.Unit || unit == perSecond {
					better = "higher"
				}
				_, err = fmt.Fprintf(w, "Unit %s better=%s\n", unit, better)
			}
			units[unit] = true
		}
	}
	for _, l := range r.Lines {
		for run, value := range l.Ours.Runs {
			if err == nil {
				_, err = fmt.Fprintf(w, "%s 1 %g %s", l.name(), value, l.Unit)
			}
			if err == nil && l.Ratio != nil {
				_, err = fmt.Fprintf(w, " %g %s", l.Ratio.Runs[run], ratioUnit(l.Unit))
			}
			if err == nil {
				_, err = fmt.Fprintln(w)
			}
		}
	}
	return err
}

// name returns the name of a line as that of a Go benchmark.
func (l line) name() string {
	name := "Benchmark" + words(l.What)
	if l.Peer != "" {
		name += "/to=" + words(l.Peer)
	}
	return name
}

// words joins the words of text, each with a capital.
func words(text string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
