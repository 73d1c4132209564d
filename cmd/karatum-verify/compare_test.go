package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// notAnswered are the members of a row of the reference that compare does not
// answer: names and remarks, what only a larger computation gives, and the 20 digits
// of p, of which its own text has those of a float64.
var notAnswered = map[string]bool{
	"name": true, "note": true, "p_one_sided_str": true, "exact_conditional_p_R": true,
	"hodges_lehmann_ratio": true, "hodges_lehmann_ratio_95": true,
}

// Every row of the reference, asked by its inputs alone, gets the figures of the
// reference under the same names.
func TestCompareAgreesWithReference(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../domain/stats/testdata/stats_reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Rows       []members `json:"rows"`
		Quantiles  []members `json:"quantiles_type7"`
		Ratios     []members `json:"latency_ratios"`
		Sequential struct {
			Sequences []members `json:"sequences"`
		} `json:"sequential"`
		Confidence []members `json:"confidence_sequence_jeffreys_95"`
		CMH        struct {
			Rows []members `json:"rows"`
		} `json:"cmh"`
		Latency members `json:"latency_reference"`
		Turner  struct {
			Rows []members `json:"rows"`
		} `json:"turner_block_one_sided"`
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	var want []members
	ask := func(rows []members, inputs ...string) {
		for _, row := range rows {
			given := make(members)
			for _, name := range inputs {
				given[name] = row[name]
			}
			line, err := json.Marshal(given)
			if err != nil {
				t.Fatal(err)
			}
			in.Write(append(line, '\n'))
			want = append(want, row)
		}
	}
	ask(ref.Rows, "x_exam", "n_exam", "x_field", "n_field")
	ask(ref.Quantiles, "sample")
	ask(append(ref.Ratios, ref.Latency), "exam", "field")
	ask(ref.Sequential.Sequences, "x_exam", "n_exam", "field_success_per_cycle")
	ask(ref.Confidence, "x", "n")
	ask(ref.CMH.Rows, "tables")
	ask(ref.Turner.Rows, "blocks")
	if len(want) < 90 {
		t.Fatalf("the reference has %d rows, want all", len(want))
	}
	if code := run(t.Context(), []string{"compare", "--jsonl"}, &in, &out, t.Output()); code != exitOK {
		t.Fatalf("exit code %d, want %d", code, exitOK)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d answers to %d rows", len(lines), len(want))
	}
	for i, line := range lines {
		var got any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		row, err := json.Marshal(want[i])
		if err != nil {
			t.Fatal(err)
		}
		var w any
		if err := json.Unmarshal(row, &w); err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, fmt.Sprintf("row %d", i), got, w)
	}
}

// checkAnswer compares what is in want: numbers within 1e-12, a p within 1e-9 of
// its size, everything else to the letter.
func checkAnswer(t *testing.T, path string, got, want any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, value := range w {
			if notAnswered[name] {
				continue
			}
			if _, ok := g[name]; !ok {
				t.Errorf("%s has no %s", path, name)
				continue
			}
			checkAnswer(t, path+"."+name, g[name], value)
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s has %d elements, want %d", path, len(g), len(w))
			return
		}
		for i := range w {
			checkAnswer(t, fmt.Sprintf("%s[%d]", path, i), g[i], w[i])
		}
	case float64:
		tolerance := 1e-12 * max(1, math.Abs(w))
		if strings.Contains(path, ".p_") || strings.Contains(path, "_p") {
			tolerance = 1e-9 * math.Abs(w)
		}
		if strings.Contains(path, ".log_") {
			tolerance = 1e-10 // sums of log-gammas
		}
		if g, ok := got.(float64); !ok || math.Abs(g-w) > tolerance {
			t.Errorf("%s = %v, want %v", path, got, w)
		}
	default:
		if got != want {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	}
}
