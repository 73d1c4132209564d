package task_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/task"
)

func ids(m map[string][]task.Entry) []string { return slices.Sorted(maps.Keys(m)) }

func TestMatchSkills(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		skill task.Skill
		want  []string
	}{
		"by id":                       {task.Skill{ID: "unit-conversion", Name: "Convert"}, []string{"unit.convert"}},
		"by name":                     {task.Skill{ID: "s1", Name: "Unit Converter"}, []string{"unit.convert"}},
		"by tag":                      {task.Skill{ID: "s1", Name: "Helper", Tags: []string{"SHA-256"}}, []string{"hash.sha256"}},
		"a family by name":            {task.Skill{ID: "arithmetic", Name: "Arithmetic"}, []string{"arith.average", "arith.percent_change", "arith.percent_of"}},
		"dates":                       {task.Skill{ID: "dates", Name: "Dates"}, []string{"date.add_days", "date.weekday"}},
		"weekdays alone":              {task.Skill{ID: "dayOfWeek", Name: "Day of the week"}, []string{"date.weekday"}},
		"hashes and encodings":        {task.Skill{ID: "x", Name: "Hashes and encodings"}, []string{"hash.base64", "hash.sha256"}},
		"camel case":                  {task.Skill{ID: "base64Encode"}, []string{"hash.base64"}},
		"by description":              {task.Skill{ID: "s1", Name: "Helper", Description: "Knows percentages and converts units."}, []string{"arith.percent_change", "arith.percent_of", "unit.convert"}},
		"names before description":    {task.Skill{ID: "weekday", Name: "Weekday", Description: "Also does unit conversion."}, []string{"date.weekday"}},
		"poetry":                      {task.Skill{ID: "poetry", Name: "Poetry", Description: "Writes poems for any date or mean average day.", Tags: []string{"art"}}, nil},
		"currency is no unit":         {task.Skill{ID: "currency-converter", Name: "Currency Converter"}, nil},
		"unit tests are no units":     {task.Skill{ID: "unit-test", Name: "Unit test writer"}, nil},
		"update is no date":           {task.Skill{ID: "update", Name: "Updates"}, nil},
		"hashtags are no hashes":      {task.Skill{ID: "hashtags", Name: "Hashtag ideas"}, nil},
		"decoding is no encoding":     {task.Skill{ID: "base64_decode", Name: "Base64 decoder"}, nil},
		"a mortgage is no arithmetic": {task.Skill{ID: "mortgage-calculator", Name: "Mortgage calculator"}, nil},
		"nothing said":                {task.Skill{}, nil},
		"an endless name":             {task.Skill{ID: "unit-conversion-" + strings.Repeat("x", 113)}, nil},
	} {
		got := ids(task.Match(task.Surface{Kind: task.A2A, Skills: []task.Skill{test.skill}}, nil))
		if !slices.Equal(got, test.want) {
			t.Errorf("Match(%s) = %v, want %v", name, got, test.want)
		}
	}
}

func TestMatchTools(t *testing.T) {
	t.Parallel()
	value := func(typ string) string { return `"value":{"type":"` + typ + `"}` }
	units := `"from":{"type":"string"},"to":{"type":"string"}`
	for name, test := range map[string]struct {
		tool, description, schema, template string
		want                                string // JSON of the entry, empty for none
	}{
		"structured": {
			"convert_units", "", `{"type":"object","properties":{` + value("number") + `,` + units + `},"required":["value","from","to"]}`, "unit.convert",
			`{"fields":[{"property":"value","role":"value","type":"number"},{"property":"from","role":"from","type":"string"},{"property":"to","role":"to","type":"string"}],"kind":"mcp","name":"convert_units"}`,
		},
		"structured with an unknown requirement": {
			"convert_units", "", `{"properties":{` + value("number") + `,` + units + `,"tenant":{"type":"string"}},"required":["value","from","to","tenant"]}`, "unit.convert", "",
		},
		"required but not described": {
			"convert_units", "", `{"properties":{` + value("number") + `,` + units + `},"required":["value","tenant"]}`, "unit.convert", "",
		},
		"required decimals are filled": {
			"percentage", "", `{"properties":{"percent":{"type":"number"},"of":{"type":"number"},"precision":{"type":"integer"}},"required":["percent","of","precision"]}`, "arith.percent_of",
			`{"fields":[{"property":"percent","role":"percent","type":"number"},{"property":"of","role":"value","type":"number"},{"property":"precision","role":"decimals","type":"integer"}],"kind":"mcp","name":"percentage"}`,
		},
		"free text": {
			"calculator", "", `{"properties":{"query":{"type":"string"}},"required":["query"]}`, "arith.average",
			`{"kind":"mcp","name":"calculator","text":"query"}`,
		},
		"free text by description": {
			"ask", "Unit conversion and more", `{"properties":{"input":{"type":"string"}}}`, "unit.convert",
			`{"kind":"mcp","name":"ask","text":"input"}`,
		},
		"text among optional settings": {
			"calc", "", `{"properties":{"question":{"type":"string"},"verbose":{"type":"boolean"},"lang":{"type":"string"}}}`, "arith.average",
			`{"kind":"mcp","name":"calc","text":"question"}`,
		},
		"an expression is no text": {
			"calculator", "", `{"properties":{"expression":{"type":"string"}},"required":["expression"]}`, "arith.average", "",
		},
		"two texts required": {
			"calculator", "", `{"properties":{"query":{"type":"string"},"user":{"type":"string"}},"required":["query","user"]}`, "arith.average", "",
		},
		"a number is no text": {
			"calculator", "", `{"properties":{"query":{"type":"number"}},"required":["query"]}`, "arith.average", "",
		},
		"text to be hashed": {
			"sha256", "", `{"properties":{"text":{"type":"string"}},"required":["text"]}`, "hash.sha256",
			`{"fields":[{"property":"text","role":"data","type":"string"}],"kind":"mcp","name":"sha256"}`,
		},
		"text that is a question": {
			"sha256", "", `{"properties":{"text":{"type":"string","description":"The question in words"}},"required":["text"]}`, "hash.sha256",
			`{"kind":"mcp","name":"sha256","text":"text"}`,
		},
		"text of a tool for many things": {
			"hash", "", `{"properties":{"text":{"type":"string"}},"required":["text"]}`, "hash.sha256", "",
		},
		"an algorithm to choose": {
			"hash", "", `{"properties":{"text":{"type":"string"},"algorithm":{"enum":["md5","sha256"]}},"required":["text","algorithm"]}`, "hash.sha256",
			`{"fields":[{"property":"text","role":"data","type":"string"},{"enum":["md5","sha256"],"property":"algorithm","role":"algorithm"}],"kind":"mcp","name":"hash"}`,
		},
		"an algorithm that is not there": {
			"hash", "", `{"properties":{"text":{"type":"string"},"algorithm":{"enum":["md5"]}},"required":["text","algorithm"]}`, "hash.sha256", "",
		},
		"units that are not there": {
			"convert", "", `{"properties":{` + value("number") + `,"from":{"enum":["parsec"]},"to":{"enum":["parsec","light year"]}},"required":["value","from","to"]}`, "unit.convert", "",
		},
		"a reference": {
			"add_days", "", `{"properties":{"date":{"$ref":"#/$defs/D"},"days":{"type":"integer"}},"required":["date","days"],"$defs":{"D":{"type":"string","format":"date"}}}`, "date.add_days",
			`{"fields":[{"property":"date","role":"date","type":"string"},{"property":"days","role":"days","type":"integer"}],"kind":"mcp","name":"add_days"}`,
		},
		"a dangling reference that matters": {
			"add_days", "", `{"properties":{"date":{"$ref":"#/$defs/D"},"days":{"type":"integer"}},"required":["date","days"]}`, "date.add_days", "",
		},
		"a dangling reference that does not matter": {
			"weekday", "", `{"properties":{"date":{"type":"string"},"options":{"$ref":"#/nowhere"}},"required":["date"]}`, "date.weekday",
			`{"fields":[{"property":"date","role":"date","type":"string"}],"kind":"mcp","name":"weekday"}`,
		},
		"a reference to itself": {
			"weekday", "", `{"properties":{"date":{"$ref":"#/$defs/D"}},"required":["date"],"$defs":{"D":{"$ref":"#/$defs/D"}}}`, "date.weekday", "",
		},
		"an optional of pydantic": {
			"average", "", `{"properties":{"numbers":{"anyOf":[{"type":"null"},{"type":"array","items":{"type":"number"}}]}}}`, "arith.average",
			`{"fields":[{"property":"numbers","role":"list","type":"array"}],"kind":"mcp","name":"average"}`,
		},
		"a type that may be null": {
			"weekday", "", `{"properties":{"date":{"type":["null","string"]}},"required":["date"]}`, "date.weekday",
			`{"fields":[{"property":"date","role":"date","type":"string"}],"kind":"mcp","name":"weekday"}`,
		},
		"no schema":         {"weekday", "", ``, "date.weekday", ""},
		"a schema of false": {"weekday", "", `false`, "date.weekday", ""},
		"no properties":     {"weekday", "", `{"type":"object"}`, "date.weekday", ""},
	} {
		m := task.Match(task.Surface{Kind: task.MCP, Tools: []task.Tool{{Name: test.tool, Description: test.description, InputSchema: json.RawMessage(test.schema)}}}, nil)
		got := ""
		if entries := m[test.template]; len(entries) > 0 {
			got = canonical(t, entries[0])
		}
		if got != test.want {
			t.Errorf("Match(%s)[%s] = %s, want %s", name, test.template, got, test.want)
		}
	}
}

func canonical(tb testing.TB, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	var ordered any
	if err := json.Unmarshal(data, &ordered); err != nil {
		tb.Fatal(err)
	}
	if data, err = json.Marshal(ordered); err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func TestMatchAllowListAndOrder(t *testing.T) {
	t.Parallel()
	s := task.Surface{Kind: task.A2A, Skills: []task.Skill{
		{ID: "z-units", Name: "Unit conversion"}, {ID: "Units", Name: "More units"}, {ID: "units", Name: "Units again"}, {ID: "Units", Name: "Units twice"},
	}}
	names := func(allow ...string) (list []string) {
		for _, e := range task.Match(s, allow)["unit.convert"] {
			list = append(list, e.Name+"/"+e.Label)
		}
		return list
	}
	if diff := cmp.Diff([]string{"Units/More units", "units/Units again", "z-units/Unit conversion"}, names()); diff != "" {
		t.Errorf("Match without a list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"units/Units again", "z-units/Unit conversion"}, names("units", "Unit conversion", "nothing")); diff != "" {
		t.Errorf("Match with a list (-want +got):\n%s", diff)
	}
	if got := names("nothing"); got != nil {
		t.Errorf("Match with a list of nothing = %v, want none", got)
	}
	if got := task.Match(task.Surface{Kind: task.X402, Skills: s.Skills}, nil); len(got) != 0 {
		t.Errorf("Match of a paid resource = %v, want none", got)
	}
}

// Whatever Match says can be generated.
func TestMatchedEntriesTakeTheirTask(t *testing.T) {
	t.Parallel()
	s := task.Surface{Kind: task.MCP, Tools: []task.Tool{
		{Name: "convert_units", InputSchema: json.RawMessage(`{"properties":{"value":{"type":"integer"},"from_unit":{"enum":["km","mi","kg"]},"to_unit":{"enum":["km","mi","lb"]}}}`)},
		{Name: "percentage", InputSchema: json.RawMessage(`{"properties":{"percent":{"type":"integer"},"value":{"type":"integer"}}}`)},
		{Name: "average", InputSchema: json.RawMessage(`{"properties":{"numbers":{"type":"array"}}}`)},
		{Name: "calculator", InputSchema: json.RawMessage(`{"properties":{"question":{"type":"string"}}}`)},
	}}
	for template, entries := range task.Match(s, nil) {
		for _, e := range entries {
			for k := range 200 {
				made := generate(t, template, seed("matched", k), e)
				if made.Ask.Tool != e.Name || made.Ask.Text != "" || len(made.Ask.Arguments) == 0 {
					t.Fatalf("Generate(%s, %s).Ask = %+v", template, e.Name, made.Ask)
				}
				if e.Name == "convert_units" && !strings.Contains(string(made.Ask.Arguments), `"from_unit":"`) {
					t.Fatalf("arguments %s", made.Ask.Arguments)
				}
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("convert_units", "Converts units.", `{"properties":{"value":{"type":"number"},"from":{"$ref":"#/$defs/U"},"to":{"anyOf":[{"type":"string"}]}},"$defs":{"U":{"enum":["km"]}}}`)
	f.Add("sha256", "", `{"properties":{"text":true},"required":["text"]}`)
	f.Add("a\xff", "dates", `{"properties":{"date":{"type":["string","null"],"const":"x"}}}`)
	f.Fuzz(func(t *testing.T, name, description, schema string) {
		tool := task.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}
		for template, entries := range task.Match(task.Surface{Kind: task.MCP, Tools: []task.Tool{tool}}, nil) {
			for _, e := range entries {
				if _, err := task.Generate(template, 1, seed("fuzz", 0), e); err != nil {
					t.Errorf("Match gave %+v for %s, and Generate says %v", e, template, err)
				}
			}
		}
		task.Match(task.Surface{Kind: task.A2A, Skills: []task.Skill{{ID: name, Name: description, Description: schema, Tags: []string{name}}}}, []string{name})
	})
}
