package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
)

// What people agree upon, grade says too. Where they differ, either answer will do.
func TestGradeAgreesWithPeople(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../domain/task/testdata/answer_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []json.RawMessage
	var cases []struct {
		task.Case
		Right     task.Outcome `json:"right_outcome"`
		Debatable bool         `json:"debatable"`
		Clear     bool         `json:"clear_under_spec"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	for _, row := range rows {
		if err := json.Compact(&in, row); err != nil {
			t.Fatal(err)
		}
		in.WriteByte('\n')
	}
	if code := run(t.Context(), []string{"grade", "--jsonl"}, &in, &out, t.Output()); code != exitOK {
		t.Fatalf("exit code %d, want %d", code, exitOK)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("%d marks for %d cases", len(lines), len(cases))
	}
	type agreement struct{ clear, clearAgreed, debatable, debatableAgreed int }
	families := make(map[string]agreement)
	for i, c := range cases {
		var g verify.Graded
		if err := json.Unmarshal([]byte(lines[i]), &g); err != nil {
			t.Fatal(err)
		}
		if g.ID != c.ID {
			t.Fatalf("mark %d is of %s, want %s", i, g.ID, c.ID)
		}
		if g.Token != nil && (g.Token.Offset < 0 || g.Token.Length <= 0 || g.Token.Offset+g.Token.Length > len(c.Reply)) {
			t.Errorf("%s: token %+v of a reply of %d bytes", c.ID, *g.Token, len(c.Reply))
		}
		agreed := 0
		if g.Outcome == c.Right {
			agreed = 1
		}
		a := families[c.Family]
		if c.Debatable && !c.Clear {
			a.debatable++
			a.debatableAgreed += agreed
		} else {
			a.clear++
			a.clearAgreed += agreed
			if g.Outcome != c.Right || g.Literal != c.Right {
				t.Errorf("%s: grade(%q) = %s, literal %s by %s, want %s", c.ID, c.Reply, g.Outcome, g.Literal, g.Reason, c.Right)
			}
		}
		families[c.Family] = a
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		a := families[family]
		_, _ = fmt.Fprintf(t.Output(), "%-22s %3d of %3d clear, %2d of %2d debatable\n", family, a.clearAgreed, a.clear, a.debatableAgreed, a.debatable)
	}
}
