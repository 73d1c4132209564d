package task_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

func seed(label string, k int) domain.Hash {
	return domain.Sum([]byte(label), binary.BigEndian.AppendUint32(nil, uint32(k)))
}

func skill(label string) task.Entry { return task.Entry{Kind: task.A2A, Name: "skill", Label: label} }

func generate(tb testing.TB, template string, s domain.Hash, e task.Entry) task.Task {
	tb.Helper()
	made, err := task.Generate(template, 1, s, e)
	if err != nil {
		tb.Fatalf("Generate(%s, 1, %s) = %v", template, s, err)
	}
	return completed(tb, made, s)
}

func ExampleCatalogue() {
	for _, t := range task.Catalogue() {
		fmt.Printf("%s: %s\n", t.ID, t.Example)
	}
	// Output:
	// arith.average: Calculate the arithmetic mean of 2,370; 3,303; 8,581; 1,923; 8,015. Give the result to two decimals. Reply with the number only.
	// arith.compound: What is the total interest on 848 at 9.2 percent a year, compounded monthly, after 2 years? Leave out the 848 itself. Give the result to two decimals. No rounding before the end. The bare figure is enough. Thanks!
	// arith.percent_change: Work out the percent change from 42,675 to 53,961. Give the result to one decimal place. A decrease should carry a minus sign. Reply with the number only. Thanks in advance.
	// arith.percent_of: I need 75 percent of 5,762. Give the result to two decimal places. No working needed, just the result. Thanks!
	// arith.split_tip: Hello! Our table had food for $292.24. Tax of $18.99 comes on top, and so does a tip of 25 percent, reckoned on the price before tax. With 4 people paying the same, what does each owe? Give the result to two decimals. Reply with the number only.
	// chain.balance: One thing I need: Give me the balance in wei of 0x420000000000000000000000000000000000001A on Base Sepolia at block {block}. Just the number, please.
	// chain.block_hash: Quick question: Look up block {block} on Base Sepolia (chain id 84532): what is its hash? Just the hash, in hex.
	// date.add_days: What date is 95 days after 2032-01-30? Reply with the date only, as YYYY-MM-DD.
	// date.days_between: One thing I need: How many days are there between March 16, 2046 and November 23, 2050? Do not count the first day. No working needed, just the result. Thanks in advance.
	// date.weekday: Quick question: Which weekday is 2098-03-16? Just the name of the day in English, please.
	// evm.checksum: Hi there. What is the EIP-55 checksum form of 0x76d25953e038169c980cbaa369f8ca59119674c3? Nothing but the address in its mixed case.
	// evm.from_wei: A log shows 482076408758434184900 wei. How much ETH is that? I need the exact value with all its digits. No working needed, just the result. Thanks in advance.
	// evm.hex_dec: Which decimal number is 0x493086C8CA398A91643? All digits, no rounding and no exponent. The bare figure is enough.
	// evm.selector: Hello! Give me the four-byte selector of the function isVioletGlacier(uint8). Just the selector in hex with 0x in front, please. Thanks!
	// evm.to_wei: How many wei are 482.0764087584341849 ETH? I need the exact whole number, without scientific notation. No working needed, just the result. Thanks in advance.
	// hash.base64: I need this text in Base64: "ember-saffron-orchid-yarrow". UTF-8, without the quotes and without a trailing newline. Standard Base64 (with padding), nothing but the result.
	// hash.keccak256: Hash the text "nectar-ember" with Keccak-256. Take the text between the quotes as UTF-8, without a newline at the end. The original Keccak as Ethereum uses it is meant, not SHA3-256; just the hex digest, please. Thanks in advance.
	// hash.sha256: Hash the string "nectar-ember" with SHA-256. Take the text between the quotes as UTF-8, without a newline at the end. Reply with the hex digest only. Thanks in advance.
	// invoice.total: Quick question: This invoice came without a total:
	//
	// Sierra Yarrow Supplies | Invoice 12598 | 2026-09-17
	// All amounts in GBP
	// ember shelf | qty 20 | unit price 31.99
	// cobalt basket | qty 9 | unit price 4.30
	// harbor lamp | qty 14 | unit price 29.08
	// cedar kettle | qty 5 | unit price 43.26
	// harbor kettle | qty 3 | unit price 261.08
	// VAT 10% on the net sum
	//
	// What does it come to with VAT? Rounded to 2 decimals, please. Only round at the end, to the exact cent. Reply with the final total only.
	// unit.convert: Hello! How many km/h is 346.2 mph? Give the result to one decimal. Reply with the number only.
	// x402.pay: Quick question: The paid resource for the reference in this request. Thanks in advance.
}

func TestCatalogueIsSortedAndWhole(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, template := range task.Catalogue() {
		ids = append(ids, template.ID)
		if template.Version == 0 || template.Example == "" || template.Family == "" {
			t.Errorf("template %+v is not whole", template.ID)
		}
	}
	want := []string{
		"arith.average", "arith.compound", "arith.percent_change", "arith.percent_of", "arith.split_tip",
		"chain.balance", "chain.block_hash",
		"date.add_days", "date.days_between", "date.weekday",
		"evm.checksum", "evm.from_wei", "evm.hex_dec", "evm.selector", "evm.to_wei",
		"hash.base64", "hash.keccak256", "hash.sha256", "invoice.total", "unit.convert", "x402.pay",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("Catalogue() (-want +got):\n%s", diff)
	}
}

// Agents of all sorts solve our questions from their words. So does ours, which
// knows nothing of how they are made.
func TestSolverAnswersEveryTemplate(t *testing.T) {
	t.Parallel()
	for _, template := range task.Catalogue() {
		t.Run(template.ID, func(t *testing.T) {
			t.Parallel()
			for k := range fewer(600) {
				made := generate(t, template.ID, seed("solve", k), skill("Everyday Helper"))
				got, err := answer(made)
				if err != nil {
					t.Fatal(err)
				}
				if got != made.Expected.Value {
					t.Fatalf("solve(%q) = %q, want %q", made.Prompt, got, made.Expected.Value)
				}
				for _, reply := range []string{
					got, "The answer is " + got + ".", "**" + got + "**", made.Prompt + "\n\n" + got, `{"result": "` + got + `"}`,
					"You asked: " + made.Prompt + " My answer: " + got,
				} {
					g := task.Mark(made, reply)
					// The plain rule reads twelve numbers, and some questions have as many.
					plainly := g.Literal == task.Pass || len(figures(made.Prompt)) >= 10 && strings.Contains(reply, made.Prompt)
					if g.Outcome != task.Pass || !plainly {
						t.Fatalf("Mark(%q, %q) = %+v, want a pass", made.Prompt, reply, g)
					}
				}
			}
		})
	}
}

func TestAnswerIsNoNumberOfThePrompt(t *testing.T) {
	t.Parallel()
	numbers := regexp.MustCompile(`-?\d+(?:,\d{3})*(?:\.\d+)?`)
	for _, template := range task.Catalogue() {
		t.Run(template.ID, func(t *testing.T) {
			t.Parallel()
			for k := range fewer(400) {
				made := generate(t, template.ID, seed("guard", k), skill(""))
				if strings.Contains(made.Prompt, made.Expected.Value) {
					t.Fatalf("%q holds its answer %s", made.Prompt, made.Expected.Value)
				}
				if g := task.Mark(made, made.Prompt); g.Outcome == task.Pass || g.Literal == task.Pass {
					t.Fatalf("Mark(%q) of the prompt itself = %+v", made.Prompt, g)
				}
				if made.Expected.Kind != task.Number && made.Expected.Kind != task.Change {
					continue
				}
				exact, _ := new(big.Rat).SetString(made.Expected.Exact)
				margin := new(big.Rat) // counts and amounts have none
				if made.Expected.Tolerance != "" {
					margin.SetString(made.Expected.Tolerance)
				}
				for _, s := range numbers.FindAllString(made.Prompt, -1) {
					n, _ := new(big.Rat).SetString(strings.ReplaceAll(s, ",", ""))
					if d := new(big.Rat).Sub(n, exact); d.Abs(d).Cmp(margin) <= 0 {
						t.Fatalf("%q holds %s, and the answer is %s", made.Prompt, s, made.Expected.Value)
					}
				}
			}
		})
	}
}

func TestWrongAnswersFail(t *testing.T) {
	t.Parallel()
	nudge := map[task.AnswerKind]func(string) []string{
		task.Number: func(v string) []string { return scaled(v, "1.01", "0.99", "10", "0.1", "-1") },
		task.Change: func(v string) []string { return scaled(v, "1.01", "0.99", "10", "0.01", "-1") },
		task.Date:   func(v string) []string { return []string{v[:8] + "00", "2001-01-01", v[:7]} },
		task.Weekday: func(v string) []string {
			return []string{map[bool]string{true: "Monday", false: "Sunday"}[v == "Sunday"], v[:2], v + "ish"}
		},
		task.Hex: func(v string) []string {
			return []string{v[1:], v + "0", "0" + v, strings.Repeat("0", len(v)), v[:len(v)-1]}
		},
		task.Checksum: func(v string) []string {
			return []string{strings.ToLower(v), strings.ToUpper(v), v + "0", v[:len(v)-1], swapCase(v)}
		},
		task.Token:  func(v string) []string { return []string{v[:len(v)-1], v[1:], v[:len(v)-4] + "zzzz"} },
		task.Base64: func(v string) []string { return []string{strings.ToLower(v), v + "A", "A" + v, v[:len(v)/2]} },
	}
	for _, template := range task.Catalogue() {
		t.Run(template.ID, func(t *testing.T) {
			t.Parallel()
			for k := range 200 {
				made := generate(t, template.ID, seed("wrong", k), skill(""))
				for _, wrong := range nudge[made.Expected.Kind](made.Expected.Value) {
					if g := task.Mark(made, wrong); g.Outcome != task.Fail {
						t.Fatalf("Mark(%q, %q) = %+v, want a fail (%s is right)", made.Prompt, wrong, g, made.Expected.Value)
					}
				}
			}
		})
	}
}

// swapCase changes the case of the last letter of an address.
func swapCase(v string) string {
	i := strings.LastIndexAny(v, "abcdefABCDEF")
	return v[:i] + string(v[i]^0x20) + v[i+1:]
}

func scaled(v string, factors ...string) []string {
	r, _ := new(big.Rat).SetString(v)
	list := make([]string, len(factors))
	for i, f := range factors {
		m, _ := new(big.Rat).SetString(f)
		list[i] = m.Mul(m, r).FloatString(24)
	}
	return list
}

// The mistakes that people and machines make with these questions lead elsewhere.
func TestUsualMistakesFail(t *testing.T) {
	t.Parallel()
	mistakes := map[string]func([]*big.Rat) []*big.Rat{
		"arith.percent_of": func(n []*big.Rat) []*big.Rat {
			p, x := n[0], n[1]
			if p.Cmp(x) > 0 {
				p, x = x, p
			}
			share := quo(mul(p, x), big.NewRat(100, 1))
			return []*big.Rat{mul(p, x), quo(x, p), new(big.Rat).Sub(x, share), new(big.Rat).Add(x, share)}
		},
		"arith.percent_change": func(n []*big.Rat) []*big.Rat {
			step := new(big.Rat).Sub(n[1], n[0])
			hundred := big.NewRat(100, 1)
			return []*big.Rat{mul(quo(step, n[1]), hundred), quo(step, n[0]), step, mul(quo(n[1], n[0]), hundred)}
		},
		"arith.average": func(n []*big.Rat) []*big.Rat {
			sum := new(big.Rat)
			for _, v := range n {
				sum.Add(sum, v)
			}
			return []*big.Rat{sum, quo(sum, big.NewRat(int64(len(n)-1), 1)), n[len(n)/2]}
		},
		"arith.split_tip": func(n []*big.Rat) []*big.Rat {
			slices.SortFunc(n, (*big.Rat).Cmp) // people, tip and bill, or people, tip, tax and bill in some order
			bill := n[len(n)-1]
			return []*big.Rat{bill, quo(bill, n[0]), quo(bill, n[1])}
		},
		"date.days_between": func(n []*big.Rat) []*big.Rat { return n },
		"evm.to_wei": func(n []*big.Rat) []*big.Rat {
			return []*big.Rat{n[0], mul(n[0], big.NewRat(1e15, 1)), mul(n[0], big.NewRat(1e6, 1))}
		},
	}
	for template, wrong := range mistakes {
		for k := range 300 {
			made := generate(t, template, seed("mistake", k), skill(""))
			for _, r := range wrong(figures(made.Prompt)) {
				if g := task.Mark(made, r.FloatString(3)); g.Outcome != task.Fail {
					t.Fatalf("Mark(%q, %s) = %+v, want a fail", made.Prompt, r.FloatString(3), g)
				}
			}
		}
	}
}

func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func quo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }

func TestConversionsCoverAllPairsBothWays(t *testing.T) {
	t.Parallel()
	e := task.Entry{Kind: task.MCP, Name: "convert", Fields: []task.Field{
		{Role: "value", Property: "value"}, {Role: "from", Property: "from"}, {Role: "to", Property: "to"},
	}}
	seen := make(map[string]bool)
	for k := range 2000 {
		made := generate(t, "unit.convert", seed("pairs", k), e)
		var arguments struct{ From, To string }
		if err := json.Unmarshal(made.Ask.Arguments, &arguments); err != nil {
			t.Fatal(err)
		}
		seen[arguments.From+" to "+arguments.To] = true
	}
	if len(seen) != 26 {
		t.Errorf("%d directed pairs are drawn, want 26: %v", len(seen), seen)
	}
}

func TestDaysCrossLeapDays(t *testing.T) {
	t.Parallel()
	leap, century := 0, 0
	for k := range 300 {
		made := generate(t, "date.add_days", seed("leap", k), skill(""))
		start, err := theDate(made.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		from, to := start.Format("2006-01-02"), made.Expected.Value
		if y := from[:4]; y[3]%4 == 0 && from < y+"-02-29" && to > y+"-02-29" {
			leap++
		}
		if from < "2100-02-28" && to > "2100-03-01" {
			century++
		}
	}
	if leap < 50 || century < 50 {
		t.Errorf("%d of 300 cross a leap day and %d the end of February 2100, want 50 each", leap, century)
	}
}

func TestBase64SignsAllOrNone(t *testing.T) {
	t.Parallel()
	with := 0
	for k := range 200 {
		v := generate(t, "hash.base64", seed("signs", k), skill("")).Expected.Value
		plus, slash, pad := strings.Contains(v, "+"), strings.Contains(v, "/"), strings.Contains(v, "=")
		if plus != slash || slash != pad {
			t.Errorf("the answer %q has some of the signs", v)
		}
		if plus {
			with++
		}
	}
	if with < 60 {
		t.Errorf("%d of 200 answers have signs, want 60 and more", with)
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template string
		version  uint32
		entry    task.Entry
		want     error
	}{
		"an unknown template":         {"unit.nothing", 1, skill(""), domain.ErrNotFound},
		"an unknown version":          {"unit.convert", 2, skill(""), domain.ErrNotFound},
		"an entry without a kind":     {"unit.convert", 1, task.Entry{Name: "x"}, domain.ErrInvalid},
		"a paid resource":             {"unit.convert", 1, task.Entry{Kind: task.X402, Name: "x"}, domain.ErrInvalid},
		"a tool without properties":   {"unit.convert", 1, task.Entry{Kind: task.MCP, Name: "x"}, domain.ErrInvalid},
		"a tool that takes it twice":  {"date.weekday", 1, task.Entry{Kind: task.MCP, Name: "x", Text: "q", Fields: []task.Field{{Role: "date", Property: "d"}}}, domain.ErrInvalid},
		"a part that it has not":      {"date.weekday", 1, task.Entry{Kind: task.MCP, Name: "x", Fields: []task.Field{{Role: "percent", Property: "d"}}}, domain.ErrInvalid},
		"an enum that nothing is in":  {"unit.convert", 1, task.Entry{Kind: task.MCP, Name: "x", Fields: []task.Field{{Role: "from", Property: "d", Enum: []string{"parsec"}}}}, domain.ErrInvalid},
		"an enum for what is no name": {"date.weekday", 1, task.Entry{Kind: task.MCP, Name: "x", Fields: []task.Field{{Role: "date", Property: "d", Enum: []string{"today"}}}}, domain.ErrInvalid},
	} {
		if _, err := task.Generate(test.template, test.version, seed("refuse", 0), test.entry); !errors.Is(err, test.want) {
			t.Errorf("Generate with %s: %v, want %v", name, err, test.want)
		}
	}
}

func TestAskTakesTheFormOfTheEntry(t *testing.T) {
	t.Parallel()
	s := seed("ask", 3)
	for name, test := range map[string]struct {
		template string
		entry    task.Entry
		want     string
	}{
		"a text":        {"unit.convert", skill(""), `{"text":"Hey, a quick one: What is 720.73 international miles in kilometers? Round to two decimals. Only the final number is needed. Cheers!"}`},
		"a prompt":      {"unit.convert", task.Entry{Kind: task.MCP, Name: "ask", Text: "query"}, `{"arguments":{"query":"Hey, a quick one: What is 720.73 international miles in kilometers? Round to two decimals. Only the final number is needed. Cheers!"},"tool":"ask"}`},
		"parts":         {"unit.convert", task.Entry{Kind: task.MCP, Name: "convert", Fields: []task.Field{{Role: "value", Property: "amount", Type: "number"}, {Role: "from", Property: "from"}, {Role: "to", Property: "to"}}}, `{"arguments":{"amount":720.73,"from":"miles","to":"kilometers"},"tool":"convert"}`},
		"whole numbers": {"arith.average", task.Entry{Kind: task.MCP, Name: "mean", Fields: []task.Field{{Role: "list", Property: "numbers", Type: "array"}}}, `{"arguments":{"numbers":[1846,3126,3298,1506,2814,2456]},"tool":"mean"}`},
		"text to hash":  {"hash.sha256", task.Entry{Kind: task.MCP, Name: "sha256", Fields: []task.Field{{Role: "data", Property: "text"}, {Role: "algorithm", Property: "algo", Enum: []string{"md5", "SHA-256"}}}}, `{"arguments":{"algo":"SHA-256","text":"juniper.orchid.806"},"tool":"sha256"}`},
		"days":          {"date.add_days", task.Entry{Kind: task.MCP, Name: "add_days", Fields: []task.Field{{Role: "date", Property: "start"}, {Role: "days", Property: "days", Type: "string"}}}, `{"arguments":{"days":"313","start":"2040-01-04"},"tool":"add_days"}`},
	} {
		made := generate(t, test.template, s, test.entry)
		got, err := domain.Canonical(made.Ask)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != test.want {
			t.Errorf("the ask for %s = %s, want %s", name, got, test.want)
		}
	}
}

func TestTaskSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, template := range task.Catalogue() {
		made := generate(t, template.ID, seed("json", 1), task.Entry{Kind: task.MCP, Name: "ask", Text: "prompt"})
		data, err := domain.Canonical(made)
		if err != nil {
			t.Fatal(err)
		}
		var back task.Task
		if err := domain.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, back); diff != "" {
			t.Errorf("%s after JSON (-want +got):\n%s", template.ID, diff)
		}
		if back.Ask.Hash() != made.Ask.Hash() || back.Expected.Hash() != made.Expected.Hash() {
			t.Errorf("%s: the hashes of ask and answer changed with JSON", template.ID)
		}
		if g := task.Mark(back, back.Expected.Value); g.Outcome != task.Pass {
			t.Errorf("Mark(%s, %q) = %+v after JSON, want a pass", template.ID, back.Expected.Value, g)
		}
	}
}

func TestHashOfBrokenArguments(t *testing.T) {
	t.Parallel()
	a := task.Ask{Tool: "x", Arguments: json.RawMessage("{")}
	if h := a.Hash(); !h.IsZero() {
		t.Errorf("Hash() of broken arguments = %s, want zero", h)
	}
}

// These hashes are signed in consents: a change here is a change of the catalogue
// and needs a new version of the template or the grader.
func TestDigest(t *testing.T) {
	t.Parallel()
	const want = "eb25de265fe55a0ec6aea04915ca86c6d60fc6e29505469b8568bdf9ce7d109a"
	if got := task.Digest().String(); got != want {
		t.Errorf("Digest() = %s, want %s", got, want)
	}
}

func TestOutcomeCounted(t *testing.T) {
	t.Parallel()
	for _, o := range []task.Outcome{task.Pass, task.Fail, task.Refused, task.Timeout, task.Error} {
		if !o.Counted() {
			t.Errorf("%s is not counted", o)
		}
	}
	if task.Blocked.Counted() {
		t.Error("blocked is counted")
	}
}
