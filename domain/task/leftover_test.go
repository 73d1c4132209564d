package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/task"
)

// Whatever takes no task is left over for one reason, and nothing is that takes one.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}`)
	skills := func(list ...task.Skill) task.Surface { return task.Surface{Kind: task.A2A, Skills: list} }
	tools := func(list ...task.Tool) task.Surface { return task.Surface{Kind: task.MCP, Tools: list} }
	long := strings.Repeat("x", 129)
	for name, tt := range map[string]struct {
		shows task.Surface
		allow []string
		want  []task.Left
	}{
		"nothing shown":             {shows: skills()},
		"a skill with tasks":        {shows: skills(task.Skill{ID: "unit-convert"})},
		"a skill without":           {shows: skills(task.Skill{ID: "poetry", Name: "Poetry"}), want: []task.Left{{"poetry", task.NoTask}}},
		"a skill without an id":     {shows: skills(task.Skill{Name: "Poetry"}), want: []task.Left{{"Poetry", task.NoTask}}},
		"a skill without a name":    {shows: skills(task.Skill{Description: "converts units"}), want: []task.Left{{"", task.UnusableName}}},
		"a name that is too long":   {shows: skills(task.Skill{ID: long}), want: []task.Left{{long, task.UnusableName}}},
		"off the list":              {skills(task.Skill{ID: "unit-convert"}), []string{"percent"}, []task.Left{{"unit-convert", task.SkillLeftOut}}},
		"off the list without task": {skills(task.Skill{ID: "poetry"}), []string{"percent"}, []task.Left{{"poetry", task.SkillLeftOut}}},
		"a name that comes twice":   {shows: skills(task.Skill{ID: "unit-convert"}, task.Skill{ID: "unit-convert", Name: "Poetry"})},
		"a name that is taken later": {
			shows: skills(task.Skill{ID: "x", Name: "Poetry"}, task.Skill{ID: "x", Name: "Unit conversion"}), allow: []string{"Unit conversion"},
		},
		"a tool with tasks":           {shows: tools(task.Tool{Name: "unit_convert", InputSchema: text})},
		"a tool without":              {shows: tools(task.Tool{Name: "poetry", InputSchema: text}), want: []task.Left{{"poetry", task.NoTask}}},
		"a tool without a schema":     {shows: tools(task.Tool{Name: "unit_convert"}), want: []task.Left{{"unit_convert", task.UnfitSchema}}},
		"a schema that takes nothing": {shows: tools(task.Tool{Name: "unit_convert", InputSchema: json.RawMessage(`{"properties":{"n":{"type":"null"}}}`)}), want: []task.Left{{"unit_convert", task.UnfitSchema}}},
		"a name that changes things":  {shows: tools(task.Tool{Name: "update_units", InputSchema: text}), want: []task.Left{{"update_units", task.ChangesState}}},
		"a tool that destroys":        {shows: tools(task.Tool{Name: "unit_convert", InputSchema: text, Destructive: true}), want: []task.Left{{"unit_convert", task.ChangesState}}},
		"for sale":                    {shows: task.Surface{Kind: task.X402, Sales: []task.Sale{{}}}},
	} {
		if diff := cmp.Diff(append([]task.Left{}, tt.want...), append([]task.Left{}, task.LeftOver(tt.shows, tt.allow)...)); diff != "" {
			t.Errorf("%s: LeftOver (-want +got):\n%s", name, diff)
		}
	}
	var many task.Surface
	many.Kind = task.A2A
	for i := range 130 {
		many.Skills = append(many.Skills, task.Skill{ID: fmt.Sprintf("unit-convert-%d", i)})
	}
	want := []task.Left{{"unit-convert-128", task.TooMany}, {"unit-convert-129", task.TooMany}}
	if diff := cmp.Diff(want, task.LeftOver(many, nil)); diff != "" {
		t.Errorf("LeftOver of many (-want +got):\n%s", diff)
	}
}
