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
		"a family by name":            {task.Skill{ID: "arithmetic", Name: "Arithmetic"}, []string{"arith.average", "arith.compound", "arith.percent_change", "arith.percent_of", "arith.split_tip"}},
		"dates":                       {task.Skill{ID: "dates", Name: "Dates"}, []string{"date.add_days", "date.days_between", "date.weekday"}},
		"weekdays alone":              {task.Skill{ID: "dayOfWeek", Name: "Day of the week"}, []string{"date.weekday"}},
		"hashes and encodings":        {task.Skill{ID: "x", Name: "Hashes and encodings"}, []string{"hash.base64", "hash.keccak256", "hash.sha256"}},
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
		"a tip calculator":            {task.Skill{ID: "tip-calculator", Name: "Tip calculator"}, []string{"arith.split_tip"}},
		"compound interest":           {task.Skill{ID: "s1", Name: "Compound interest calculator"}, []string{"arith.compound"}},
		"travel tips are no tips":     {task.Skill{ID: "travel", Name: "Travel tips"}, nil},
		"days between":                {task.Skill{ID: "days_between", Name: "Days between dates"}, []string{"date.days_between"}},
		"keccak":                      {task.Skill{ID: "keccak256", Name: "Keccak-256 hash"}, []string{"hash.keccak256"}},
		"two hashes":                  {task.Skill{ID: "hash", Tags: []string{"sha256", "keccak256"}}, []string{"hash.keccak256", "hash.sha256"}},
		"an Ethereum helper":          {task.Skill{ID: "evm", Name: "Ethereum helper"}, []string{"evm.checksum", "evm.from_wei", "evm.hex_dec", "evm.selector", "evm.to_wei", "hash.keccak256"}},
		"units of Ethereum":           {task.Skill{ID: "s1", Name: "Wei converter"}, []string{"evm.from_wei", "evm.to_wei"}},
		"one way":                     {task.Skill{ID: "gwei_to_wei"}, []string{"evm.to_wei"}},
		"a wallet is no helper":       {task.Skill{ID: "s1", Name: "Ethereum helper wallet"}, nil},
		"hex":                         {task.Skill{ID: "hexToDecimal"}, []string{"evm.hex_dec"}},
		"selectors":                   {task.Skill{ID: "s1", Name: "4-byte function selectors"}, []string{"evm.selector"}},
		"CSS selectors are none":      {task.Skill{ID: "s1", Name: "CSS method selector"}, nil},
		"checksums":                   {task.Skill{ID: "to-checksum-address", Name: "EIP-55"}, []string{"evm.checksum"}},
		"invoices":                    {task.Skill{ID: "invoice", Name: "Invoice totals"}, []string{"invoice.total"}},
		"making invoices":             {task.Skill{ID: "invoice", Name: "Invoice generator"}, nil},
		"selectors by description":    {task.Skill{ID: "s1", Name: "Helper", Description: "Knows the function selectors of contracts."}, []string{"evm.selector"}},
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
		"a bill": {
			"split_bill", "What each person pays.", `{"properties":{"bill":{"type":"number"},"tip_percent":{"type":"number"},"people":{"type":"integer"}},"required":["bill","tip_percent","people"]}`, "arith.split_tip",
			`{"fields":[{"property":"bill","role":"value","type":"number"},{"property":"tip_percent","role":"percent","type":"number"},{"property":"people","role":"people","type":"integer"}],"kind":"mcp","name":"split_bill"}`,
		},
		"interest": {
			"compound_interest", "", `{"properties":{"principal":{"type":"number"},"rate":{"type":"number","description":"yearly, in percent"},"years":{"type":"integer"},"compounds_per_year":{"type":"integer"}}}`, "arith.compound",
			`{"fields":[{"property":"principal","role":"principal","type":"number"},{"property":"rate","role":"rate","type":"number"},{"property":"years","role":"years","type":"integer"},{"property":"compounds_per_year","role":"periods","type":"integer"}],"kind":"mcp","name":"compound_interest"}`,
		},
		"a rate that may be a fraction": {
			"compound_interest", "", `{"properties":{"principal":{"type":"number"},"rate":{"type":"number"},"years":{"type":"integer"},"n":{"type":"integer"}}}`, "arith.compound", "",
		},
		"two dates": {
			"days_between", "", `{"properties":{"start":{"type":"string"},"end":{"type":"string"}},"required":["start","end"]}`, "date.days_between",
			`{"fields":[{"property":"start","role":"start","type":"string"},{"property":"end","role":"end","type":"string"}],"kind":"mcp","name":"days_between"}`,
		},
		"an amount with its unit": {
			"to_wei", "", `{"properties":{"amount":{"type":"string"},"from":{"enum":["ether","gwei"]},"to":{"enum":["wei"]}},"required":["amount","from","to"]}`, "evm.to_wei",
			`{"fields":[{"property":"amount","role":"amount","type":"string"},{"enum":["ether","gwei"],"property":"from","role":"from"},{"enum":["wei"],"property":"to","role":"to"}],"kind":"mcp","name":"to_wei"}`,
		},
		"an amount that would lose digits": {
			"to_wei", "", `{"properties":{"amount":{"type":"number"},"from":{"type":"string"},"to":{"type":"string"}}}`, "evm.to_wei", "",
		},
		"a hex number": {
			"hex_to_decimal", "", `{"properties":{"hex":{"type":"string"}},"required":["hex"]}`, "evm.hex_dec",
			`{"fields":[{"property":"hex","role":"hex","type":"string"}],"kind":"mcp","name":"hex_to_decimal"}`,
		},
		"a signature": {
			"function_selector", "", `{"properties":{"signature":{"type":"string"}},"required":["signature"]}`, "evm.selector",
			`{"fields":[{"property":"signature","role":"signature","type":"string"}],"kind":"mcp","name":"function_selector"}`,
		},
		"an address": {
			"checksum_address", "", `{"properties":{"address":{"type":"string"}},"required":["address"]}`, "evm.checksum",
			`{"fields":[{"property":"address","role":"address","type":"string"}],"kind":"mcp","name":"checksum_address"}`,
		},
		"a pasted invoice": {
			"invoice_total", "", `{"properties":{"invoice_text":{"type":"string"}},"required":["invoice_text"]}`, "invoice.total",
			`{"fields":[{"property":"invoice_text","role":"data","type":"string"}],"kind":"mcp","name":"invoice_total"}`,
		},
		"a verb in the name":                {"send_invoice", "", `{"properties":{"text":{"type":"string"}}}`, "invoice.total", ""},
		"a verb that opens the description": {"calculator", "Sends the result of a sum to a friend.", `{"properties":{"query":{"type":"string"}}}`, "arith.average", ""},
		"a verb behind an and":              {"calculator", "Computes a sum and writes it to a file.", `{"properties":{"query":{"type":"string"}}}`, "arith.average", ""},
		"no schema":                         {"weekday", "", ``, "date.weekday", ""},
		"a schema of false":                 {"weekday", "", `false`, "date.weekday", ""},
		"no properties":                     {"weekday", "", `{"type":"object"}`, "date.weekday", ""},
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
		{Name: "split_bill", InputSchema: json.RawMessage(`{"properties":{"bill":{"type":"number"},"tip_percent":{"type":"integer"},"people":{"type":"string"}}}`)},
		{Name: "compound_interest", InputSchema: json.RawMessage(`{"properties":{"p":{},"annual_rate_percent":{"type":"number"},"t":{"type":"number"},"n":{"type":"integer"}}}`)},
		{Name: "days_between", InputSchema: json.RawMessage(`{"properties":{"date1":{},"date2":{}}}`)},
		{Name: "eth_to_wei", InputSchema: json.RawMessage(`{"properties":{"amount":{"type":"string"},"from_unit":{"enum":["ETH"]},"to_unit":{"enum":["WEI"]}}}`)},
		{Name: "wei_to_eth", InputSchema: json.RawMessage(`{"properties":{"amount":{"type":"string"},"unit":{"enum":["Gwei"]}}}`)},
		{Name: "keccak256", InputSchema: json.RawMessage(`{"properties":{"data":{"type":"string"}}}`)},
		{Name: "hex_to_decimal", InputSchema: json.RawMessage(`{"properties":{"hex":{}}}`)},
		{Name: "function_selector", InputSchema: json.RawMessage(`{"properties":{"signature":{}}}`)},
		{Name: "checksum_address", InputSchema: json.RawMessage(`{"properties":{"address":{}}}`)},
		{Name: "invoice_total", InputSchema: json.RawMessage(`{"properties":{"content":{}}}`)},
	}}
	matched := task.Match(s, nil)
	for _, want := range []string{
		"arith.split_tip", "arith.compound", "date.days_between", "evm.to_wei", "evm.from_wei", "hash.keccak256", "evm.hex_dec", "evm.selector",
		"evm.checksum", "invoice.total",
	} {
		if !slices.ContainsFunc(matched[want], func(e task.Entry) bool { return len(e.Fields) > 0 }) {
			t.Errorf("no tool takes %s in parts", want)
		}
	}
	for template, entries := range matched {
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
