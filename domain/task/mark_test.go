package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain/task"
)

var (
	miles = task.Task{
		Prompt:   "How many miles is 42.195 km? Round to two decimal places.",
		Expected: task.Expected{Kind: task.Number, Value: "26.22", Exact: "1758125/67056", Decimals: "2", Tolerance: "14065/268224"},
	}
	march = task.Task{
		Prompt:   "Add 45 days to 2026-01-15. Which date is that?",
		Expected: task.Expected{Kind: task.Date, Value: "2026-03-01"},
	}
	sunday = task.Task{
		Prompt:   "Which weekday is 2026-03-01?",
		Expected: task.Expected{Kind: task.Weekday, Value: "Sunday"},
	}
	digest = task.Task{
		Prompt:   `What is the SHA-256 of "lantern-42"?`,
		Expected: task.Expected{Kind: task.Hex, Value: "23edebb56705de2e62b691a9695293030462c312cb31bac2636b453bf187108c"},
	}
	drop = task.Task{
		Prompt:   "What is the percentage change from 500 to 437? Round to one decimal.",
		Expected: task.Expected{Kind: task.Change, Value: "-12.6", Exact: "-63/5", Decimals: "1", Tolerance: "1/20"},
	}
	rise = task.Task{
		Prompt:   "What is the percentage change from 500 to 563? Round to one decimal.",
		Expected: task.Expected{Kind: task.Change, Value: "12.6", Exact: "63/5", Decimals: "1", Tolerance: "1/20"},
	}
)

func TestMark(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		task  task.Task
		reply string
		want  task.Outcome
		rule  string
	}{
		"a factor in brackets":         {miles, "26.22 miles (1 mile = 1.609344 km)", task.Pass, "first12"},
		"a factor behind":              {miles, "26.22 miles, since 1 mile = 1.609344 km", task.Pass, "first12"},
		"a chain of steps":             {miles, "1 km = 0.621371 mi, so 42.195 km = 26.2188 mi", task.Pass, "marker"},
		"an equation back":             {miles, "Final answer: 26.22 miles = 42.195 km", task.Pass, "marker"},
		"steps in a list":              {miles, "1. Divide by 1.609344.\n2. Round.\n\nThe result is 26.22.", task.Pass, "marker"},
		"bold and a remark":            {miles, "**26.22 miles**\n\nThat is a marathon, run by 2 of 3 people.", task.Pass, "marker"},
		"bold of another value":        {miles, "I first had 26.22, but it is **42.20**.", task.Fail, "marker"},
		"two bold values":              {miles, "**25.00** no, **26.22**", task.Pass, "marker"},
		"an answer before the marker":  {miles, "26.22 is the answer.", task.Pass, "marker"},
		"an answer lines below":        {miles, "Answer:\n\n26.22", task.Pass, "marker"},
		"a heading":                    {miles, "## Answer\n26.22", task.Pass, "marker"},
		"the inputs only":              {miles, "You want 42.195 km in miles.", task.Fail, "no_value"},
		"a hedge at the marker":        {miles, "The answer is 26.22 or 27.", task.Fail, "list"},
		"a range":                      {miles, "26.22-28.00 miles", task.Fail, "list"},
		"between":                      {miles, "between 25 and 26.22", task.Fail, "list"},
		"not this one":                 {miles, "It is not 26.22 miles.", task.Fail, "negated"},
		"not that but this":            {miles, "It is not 25.1 but 26.22 miles.", task.Pass, "first12"},
		"no zero-width characters":     {miles, "26\u200b.22", task.Pass, "first12"},
		"right to left marks":          {miles, "\u202e26.22\u202c", task.Pass, "first12"},
		"full width":                   {miles, "２６．２２", task.Pass, "first12"},
		"chinese around it":            {miles, "答案是26.22英里。", task.Pass, "first12"},
		"broken UTF-8":                 {miles, "\xff\xfe26.22\xc3", task.Pass, "first12"},
		"an identifier":                {miles, "run-26.22 done, see a26.22", task.Fail, "no_value"},
		"a huge exponent":              {miles, "1e999999999", task.Fail, "no_match"},
		"a thought without an end":     {miles, "<think>26.22", task.Fail, "empty"},
		"a thought without a start":    {miles, "maybe 25</think>26.22", task.Pass, "first12"},
		"a question of its own":        {miles, "26.22\nQ: 10 km? Answer: 6.21", task.Pass, "first12"},
		"a page with numbers":          {miles, "See https://example.org/26.22/miles", task.Fail, "no_value"},
		"a minus of its own":           {miles, "-26.22", task.Fail, "no_match"},
		"latex":                        {miles, `\(42.195 \div 1.609344 \approx \boxed{26.22\text{ mi}}\)`, task.Pass, "marker"},
		"a refusal":                    {miles, "Sorry, but I can't help with that.", task.Refused, "refusal"},
		"a refusal with the inputs":    {miles, "I'm unable to convert 42.195 km.", task.Refused, "refusal"},
		"a refusal in German":          {miles, "Leider kann ich das nicht berechnen.", task.Refused, "refusal"},
		"a refusal in Chinese":         {miles, "抱歉，我无法完成这个请求。", task.Refused, "refusal"},
		"a refusal in Japanese":        {miles, "申し訳ありませんが、お手伝いできません。", task.Refused, "refusal"},
		"a refusal in Portuguese":      {miles, "Desculpe, não posso ajudar com isso.", task.Refused, "refusal"},
		"a refusal with a value":       {miles, "I can't run code, but it is about 26.22.", task.Pass, "first12"},
		"a refusal with a wrong value": {miles, "I can't compute it, maybe 30.", task.Fail, "no_match"},
		"an apology alone":             {miles, "Sorry to hear that!", task.Fail, "no_value"},
		"nothing":                      {miles, "", task.Fail, "empty"},
		"invisible":                    {miles, "\u200b \n\t\x00", task.Fail, "empty"},

		"a drop in words":        {drop, "A decrease of 12.6%.", task.Pass, "first12"},
		"a drop behind":          {drop, "12.6% lower", task.Pass, "first12"},
		"a drop with its sign":   {drop, "A drop: -12.6 %", task.Pass, "first12"},
		"no drop":                {drop, "An increase of 12.6%.", task.Fail, "no_match"},
		"no sign at all":         {drop, "12.6", task.Fail, "no_match"},
		"a rise":                 {rise, "12.6 % (negative for a drop)", task.Pass, "first12"},
		"a rise called a drop":   {rise, "A decrease of 12.6%", task.Fail, "no_match"},
		"a rise, old base":       {rise, "+12.6%", task.Pass, "first12"},
		"a subtraction":          {drop, "500-12.6", task.Fail, "no_match"},
		"a minus before dollars": {drop, "-$12.6", task.Pass, "first12"},

		"a date after the inputs":   {march, "45 days after January 15, 2026 is the 1st of March, 2026.", task.Pass, "first12"},
		"two dates":                 {march, "2026-03-01 or 2026-03-02", task.Fail, "list"},
		"a corrected date":          {march, "Answer: 2026-03-01. Wait. Answer: 2026-03-02.", task.Fail, "marker"},
		"an impossible date":        {march, "2026-02-30", task.Fail, "no_value"},
		"year first with points":    {march, "2026.03.01", task.Pass, "first12"},
		"weekday, month and day":    {march, "Sun, Mar 1, 2026", task.Pass, "first12"},
		"no calendar":               {march, "I cannot access a calendar.", task.Refused, "refusal"},
		"a longer number":           {march, "12026-03-01", task.Fail, "no_value"},
		"short day":                 {sunday, "Sun", task.Pass, "last"},
		"the star":                  {sunday, "The sun is up.", task.Fail, "no_value"},
		"a day inside a word":       {sunday, "Sundays", task.Fail, "no_value"},
		"reckoned from another day": {sunday, "2026-02-28 was a Saturday, so it is Sunday.", task.Pass, "last"},
		"the day named first":       {sunday, "Answer: Sunday. Monday would be the 2nd.", task.Pass, "marker"},

		"a digest in a fence":    {digest, "```\n23edebb56705de2e62b691a969529303\n0462c312cb31bac2636b453bf187108c\n```", task.Pass, "first12"},
		"a digest and a remark":  {digest, "SHA-256(\"lantern-42\") = 23edebb56705de2e62b691a9695293030462c312cb31bac2636b453bf187108c", task.Pass, "marker"},
		"a digest of 65 digits":  {digest, "023edebb56705de2e62b691a9695293030462c312cb31bac2636b453bf187108c", task.Fail, "no_match"},
		"nine groups of eight":   {digest, "23edebb5 6705de2e 62b691a9 69529303 0462c312 cb31bac2 636b453b f187108c 00000000", task.Fail, "no_match"},
		"a digest after another": {digest, "MD5: 0123456789abcdef0123456789abcdef\nSHA-256: 23edebb56705de2e62b691a9695293030462c312cb31bac2636b453bf187108c", task.Pass, "first12"},
	} {
		if g := task.Mark(test.task, test.reply); g.Outcome != test.want || g.Rule != test.rule {
			t.Errorf("%s: Mark(%q) = %s by %s, want %s by %s", name, test.reply, g.Outcome, g.Rule, test.want, test.rule)
		}
	}
}

// Who writes an address in another case may show the one it was given first.
func TestMarkPassesOverTheAddressOfThePrompt(t *testing.T) {
	t.Parallel()
	const given, mixed = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	asked := task.Task{Prompt: "Apply EIP-55 to " + given + ".", Expected: task.Expected{Kind: task.Checksum, Value: mixed}}
	for reply, want := range map[string]task.Outcome{
		given + " to " + mixed:          task.Pass,
		given + " = " + mixed:           task.Pass,
		mixed + " (from " + given + ")": task.Pass,
		given:                           task.Fail,
		given + " = " + given:           task.Fail,
		given + " to " + given:          task.Fail,
		"I cannot help with " + given:   task.Refused,
		"It is " + mixed + " or 0x" + strings.ToUpper(mixed[2:]): task.Fail,
	} {
		if g := task.Mark(asked, reply); g.Outcome != want {
			t.Errorf("Mark(%q) = %+v, want %s", reply, g, want)
		}
	}
}

func TestMarkPointsAtTheValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reply, want string }{
		{"It comes to 26.22 miles.", "26.22"},
		{"<think>25</think>\n\u200bIt is **26.22**, dear.", "26.22"},
		{"答案是 ２６．２２ 英里", "２６．２２"},
		{"I do not know.", ""},
		{"Answer: 30", "30"},
	} {
		g := task.Mark(miles, test.reply)
		if got := test.reply[g.Offset : g.Offset+g.Length]; got != test.want {
			t.Errorf("Mark(%q) points at %q, want %q", test.reply, got, test.want)
		}
	}
}

func TestMarkOfATaskThatSaysNothing(t *testing.T) {
	t.Parallel()
	for _, x := range []task.Expected{
		{},
		{Kind: "riddle", Value: "42"},
		{Kind: task.Number, Value: "42"},
		{Kind: task.Number, Value: "42", Exact: "x"},
		{Kind: task.Number, Value: "42", Exact: "1e999999999"},
		{Kind: task.Number, Value: "42", Exact: "42", Tolerance: "1/0"},
		{Kind: task.Date},
		{Kind: task.Hex},
		{Kind: task.Token},
	} {
		if g := task.Mark(task.Task{Expected: x}, "It is 42."); g.Outcome != task.Fail || g.Literal != task.Fail {
			t.Errorf("Mark with %+v = %+v, want a fail", x, g)
		}
	}
}

// Replies that are made to be slow or large take their time in proportion.
func TestMarkIsLinear(t *testing.T) {
	t.Parallel()
	const size = 32 << 10
	for name, unit := range map[string]string{
		"digits": "7", "numbers": "7 ", "groups": "1,", "points": "1.", "thousands": "123,", "equations": "=1", "answers": "answer ",
		"answers with values": "answer 1 ", "bold": "**1", "braces": "{", "boxes": `\boxed{`, "fractions": `\frac{1}{2}`, "tags": "<think>",
		"closed tags": "</think>", "entities": "&#44;", "dates": "2026-03-01 ", "months": "May 1 ", "days": "Sunday ", "hex": "ab ",
		"long hex": "0123456789abcdef ", "base64": "aB3=\n", "wrapped": "aGFyYm9y\n", "refusals": "I cannot help. ", "superscripts": "²",
		"exponents": "1e9 ", "broken": "\xff", "zero width": "\u200b", "brackets": "(=1 ", "labels": "step 1 of 2 ", "lines": "1. a\n",
		"minus": "-", "questions": "Q:\n", "stars": "*", "spaces": " 123", "quotes": `"value":1 `,
	} {
		t.Run(name, func(t *testing.T) {
			reply := strings.Repeat(unit, size/len(unit))
			for _, asked := range []task.Task{miles, drop, march, sunday, digest, {Expected: task.Expected{Kind: task.Base64, Value: "aGFyYm9y"}}} {
				start := time.Now()
				task.Mark(asked, reply)
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("Mark of 32 KiB of %q for a %s takes %v", unit, asked.Expected.Kind, took)
				}
			}
		})
	}
}

func TestMarkReadsTwoMebibytes(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat(". ", 1<<20-8)
	if g := task.Mark(miles, filler+"26.22"); g.Outcome != task.Pass {
		t.Errorf("Mark of an answer within 2 MiB = %+v, want a pass", g)
	}
	if g := task.Mark(miles, filler+filler+"26.22"); g.Outcome != task.Fail {
		t.Errorf("Mark of an answer behind 2 MiB = %+v, want a fail", g)
	}
}

func FuzzMark(f *testing.F) {
	for _, c := range readCases(f) {
		f.Add(c.Reply)
	}
	f.Add("\\boxed{\\frac{1}{2}}&#x26;<think>1,234.5 ×10^")
	f.Fuzz(func(t *testing.T, reply string) {
		for _, asked := range []task.Task{
			miles, drop, march, sunday, digest,
			{Expected: task.Expected{Kind: task.Base64, Value: "aGFyYm9y"}},
			{Expected: task.Expected{Kind: task.Token, Value: "harbor-7"}},
			{
				Prompt:   "Apply EIP-55 to 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed.",
				Expected: task.Expected{Kind: task.Checksum, Value: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
			},
		} {
			g := task.Mark(asked, reply)
			if g.Offset < 0 || g.Length < 0 || g.Offset+g.Length > len(reply) {
				t.Errorf("Mark(%q) points at %d+%d of %d bytes", reply, g.Offset, g.Length, len(reply))
			}
			if again := task.Mark(asked, reply); again != g {
				t.Errorf("Mark(%q) = %+v, and then %+v", reply, g, again)
			}
		}
	})
}
