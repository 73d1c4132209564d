package task_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// expressions are the regular expressions of the solver by their text.
var expressions sync.Map

// compiled returns a regular expression that is compiled once, however often it is
// asked for.
func compiled(text string) *regexp.Regexp {
	if known, ok := expressions.Load(text); ok {
		return known.(*regexp.Regexp)
	}
	known, _ := expressions.LoadOrStore(text, regexp.MustCompile(text))
	return known.(*regexp.Regexp)
}

// solve answers a question from its words alone, as an agent would. It shares no
// code and no table with the package: the numbers, units and dates are found in
// the prompt, and the factors are its own.
func solve(prompt string) (string, error) {
	switch {
	case strings.Contains(prompt, "VAT"):
		return solveInvoice(prompt)
	case compiled(`(?i)keccak`).MatchString(prompt):
		return keccak(quoted(prompt)), nil
	case strings.Contains(prompt, "EIP-55"):
		return solveChecksum(prompt)
	case strings.Contains(prompt, "selector"):
		return solveSelector(prompt)
	case compiled(`0x[0-9a-fA-F]{9}`).MatchString(prompt):
		return solveHex(prompt)
	case compiled(`\bwei\b`).MatchString(prompt):
		return solveWei(prompt)
	case strings.Contains(prompt, "compounded"):
		return solveCompound(prompt)
	case compiled(`\btips?\b`).MatchString(prompt):
		return solveTip(prompt)
	case strings.Contains(prompt, "SHA-256"):
		sum := sha256.Sum256([]byte(quoted(prompt)))
		return hex.EncodeToString(sum[:]), nil
	case strings.Contains(prompt, "Base64"):
		return base64.StdEncoding.EncodeToString([]byte(quoted(prompt))), nil
	case strings.Contains(prompt, "weekday") || strings.Contains(prompt, "day of the week"):
		day, err := theDate(prompt)
		return zeller(day), err
	case compiled(`(?i)the first day|the start date`).MatchString(prompt):
		return solveDaysBetween(prompt)
	case compiled(`\d days`).MatchString(prompt):
		return solveDays(prompt)
	case compiled(`average|mean`).MatchString(prompt):
		return solveAverage(prompt)
	case compiled(`%|percent`).MatchString(prompt):
		return solvePercent(prompt)
	}
	return solveUnits(prompt)
}

func quoted(prompt string) string {
	return prompt[strings.IndexByte(prompt, '"')+1 : strings.LastIndexByte(prompt, '"')]
}

var (
	numeralPattern = regexp.MustCompile(`-?\d+(?:,\d{3})*(?:\.\d+)?`)
	placesPattern  = regexp.MustCompile(`(\w+) decimal`)
)

// figures returns the numbers of the question, without the decimals asked for.
func figures(prompt string) []*big.Rat {
	prompt = strings.ReplaceAll(prompt, "1,000,000", "")
	prompt = placesPattern.ReplaceAllString(prompt, "")
	var list []*big.Rat
	for _, s := range numeralPattern.FindAllString(prompt, -1) {
		r, _ := new(big.Rat).SetString(strings.ReplaceAll(s, ",", ""))
		list = append(list, r)
	}
	return list
}

func rounded(r *big.Rat, prompt string) (string, error) {
	for _, m := range placesPattern.FindAllStringSubmatch(prompt, -1) {
		words := map[string]int{"one": 1, "two": 2, "three": 3, "1": 1, "2": 2, "3": 3}
		if n, ok := words[m[1]]; ok {
			return r.FloatString(n), nil
		}
	}
	return "", fmt.Errorf("no decimals asked in %q", prompt)
}

func solveAverage(prompt string) (string, error) {
	list := figures(prompt)
	if len(list) < 2 {
		return "", fmt.Errorf("%d numbers in %q", len(list), prompt)
	}
	sum := new(big.Rat)
	for _, n := range list {
		sum.Add(sum, n)
	}
	return rounded(sum.Quo(sum, big.NewRat(int64(len(list)), 1)), prompt)
}

func solvePercent(prompt string) (string, error) {
	list := figures(prompt)
	if len(list) != 2 {
		return "", fmt.Errorf("%d numbers in %q", len(list), prompt)
	}
	hundred := big.NewRat(100, 1)
	if compiled(`percent change|percentage change|change in percent|did a figure change`).MatchString(prompt) {
		change := new(big.Rat).Sub(list[1], list[0])
		change.Mul(change.Quo(change, list[0]), hundred)
		return rounded(change, prompt)
	}
	product := new(big.Rat).Mul(list[0], list[1])
	return rounded(product.Quo(product, hundred), prompt)
}

var monthNames = strings.Fields("January February March April May June July August September October November December")

// theDate returns the one date of a prompt.
func theDate(prompt string) (time.Time, error) {
	if s := compiled(`\d{4}-\d\d-\d\d`).FindString(prompt); s != "" {
		return time.Parse("2006-01-02", s)
	}
	month := "(" + strings.Join(monthNames, "|") + ")"
	if s := compiled(`\d{1,2} ` + month + ` \d{4}`).FindString(prompt); s != "" {
		return time.Parse("2 January 2006", s)
	}
	return time.Parse("January 2, 2006", compiled(month+` \d{1,2}, \d{4}`).FindString(prompt))
}

func solveDays(prompt string) (string, error) {
	day, err := theDate(prompt)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(compiled(`(\d+) days`).FindStringSubmatch(prompt)[1])
	if err != nil {
		return "", err
	}
	// One day at a time, by the rule of the calendar.
	y, m, d := day.Date()
	for range n {
		length := []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
		if m == time.February && (y%4 == 0 && y%100 != 0 || y%400 == 0) {
			length = 29
		}
		if d++; d > length {
			d, m = 1, m+1
		}
		if m > 12 {
			m, y = 1, y+1
		}
	}
	return fmt.Sprintf("%04d-%02d-%02d", y, m, d), nil
}

// zeller finds the day of the week by Zeller's congruence.
func zeller(t time.Time) string {
	y, month, q := t.Date()
	m := int(month)
	if m < 3 {
		m, y = m+12, y-1
	}
	h := (q + 13*(m+1)/5 + y%100 + y%100/4 + y/100/4 + 5*(y/100)) % 7
	return strings.Fields("Saturday Sunday Monday Tuesday Wednesday Thursday Friday")[h]
}

// solverUnits are the words of units with their size in a base unit, longest first.
var solverUnits = []struct{ name, size, base string }{
	{"nautical miles", "1852", "m"},
	{"international miles", "1609.344", "m"},
	{"kilometers per hour", "1000", "m/h"},
	{"miles per hour", "1609.344", "m/h"},
	{"US fluid ounces", "29.5735295625", "ml"},
	{"avoirdupois ounces", "28.349523125", "g"},
	{"ounces (avoirdupois)", "28.349523125", "g"},
	{"degrees Fahrenheit", "5/9", "C"},
	{"degrees Celsius", "1", "C"},
	{"square meters", "1", "m2"},
	{"square metres", "1", "m2"},
	{"square feet", "0.09290304", "m2"},
	{"US gallons", "3785.411784", "ml"},
	{"milliliters", "1", "ml"},
	{"millilitres", "1", "ml"},
	{"centimeters", "0.01", "m"},
	{"centimetres", "0.01", "m"},
	{"kilometers", "1000", "m"},
	{"kilometres", "1000", "m"},
	{"kilograms", "1000", "g"},
	{"mebibytes (MiB)", "1048576", "B"},
	{"megabytes (MB, decimal)", "1000000", "B"},
	{"MB (megabytes of 1,000,000 bytes)", "1000000", "B"},
	{"hectares", "10000", "m2"},
	{"pounds (lb)", "453.59237", "g"},
	{"pounds", "453.59237", "g"},
	{"liters", "1000", "ml"},
	{"litres", "1000", "ml"},
	{"meters", "1", "m"},
	{"metres", "1", "m"},
	{"inches", "0.0254", "m"},
	{"acres", "4046.8564224", "m2"},
	{"grams", "1", "g"},
	{"feet", "0.3048", "m"},
	{"km/h", "1000", "m/h"},
	{"mph", "1609.344", "m/h"},
	{"MiB", "1048576", "B"},
	{"°C", "1", "C"},
	{"°F", "5/9", "C"},
	{"km", "1000", "m"},
	{"kg", "1000", "g"},
	{"cm", "0.01", "m"},
	{"ml", "1", "ml"},
}

func solveUnits(prompt string) (string, error) {
	type found struct {
		at         int
		size, zero *big.Rat
		base       string
	}
	var units []found
	rest := prompt
	for _, u := range solverUnits {
		if !strings.Contains(rest, u.name) {
			continue
		}
		at := compiled(`(?:^|[ ])(` + regexp.QuoteMeta(u.name) + `)(?:[ .:?]|$)`).FindStringSubmatchIndex(rest)
		if at == nil {
			continue
		}
		size, _ := new(big.Rat).SetString(u.size)
		zero := new(big.Rat)
		if strings.Contains(u.name, "F") {
			zero.SetInt64(32)
		}
		units = append(units, found{at: at[2], size: size, zero: zero, base: u.base})
		rest = rest[:at[2]] + strings.Repeat("#", at[3]-at[2]) + rest[at[3]:]
	}
	if len(units) != 2 || units[0].base != units[1].base {
		return "", fmt.Errorf("units %v in %q", units, prompt)
	}
	n := numeralPattern.FindStringIndex(prompt)
	if strings.HasPrefix(prompt[n[0]:], "1,000,000") {
		n = numeralPattern.FindStringIndex(rest)
	}
	x := figures(prompt)[0]
	from, to := units[0], units[1]
	if from.at < n[1] || to.at > n[1] && to.at < from.at {
		from, to = to, from // the unit that comes next to the number is the given one
	}
	base := new(big.Rat).Mul(new(big.Rat).Sub(x, from.zero), from.size)
	y := base.Quo(base, to.size)
	return rounded(y.Add(y, to.zero), prompt)
}
