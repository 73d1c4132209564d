package task_test

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// amountOf reads the number that the first group of pattern finds.
func amountOf(pattern, prompt string) (*big.Rat, error) {
	m := compiled(pattern).FindStringSubmatch(prompt)
	if m == nil {
		return nil, fmt.Errorf("no %s in %q", pattern, prompt)
	}
	r, ok := new(big.Rat).SetString(strings.ReplaceAll(m[1], ",", ""))
	if !ok {
		return nil, fmt.Errorf("%q in %q", m[1], prompt)
	}
	return r, nil
}

const amountPattern = `(\d[\d,]*(?:\.\d+)?)`

func solveTip(prompt string) (string, error) {
	p, err := amountOf(amountPattern+`(?:%| percent)`, prompt)
	if err != nil {
		return "", err
	}
	n, err := amountOf(`(\d+) people`, prompt)
	if err != nil {
		return "", err
	}
	sums := compiled(`[$€£]`+amountPattern).FindAllStringSubmatch(prompt, -1)
	if len(sums) == 0 || len(sums) > 2 {
		return "", fmt.Errorf("%d sums in %q", len(sums), prompt)
	}
	total := new(big.Rat)
	for i, s := range sums { // the first one is the bill, the second one the tax
		v, _ := new(big.Rat).SetString(strings.ReplaceAll(s[1], ",", ""))
		total.Add(total, v)
		if i == 0 {
			total.Add(total, quo(mul(v, p), big.NewRat(100, 1)))
		}
	}
	return rounded(total.Quo(total, n), prompt)
}

func solveCompound(prompt string) (string, error) {
	r, err := amountOf(amountPattern+`(?:%| percent)`, prompt)
	if err != nil {
		return "", err
	}
	t, err := amountOf(`(\d+) years`, prompt)
	if err != nil {
		return "", err
	}
	x := figures(prompt)[0] // the principal is the first number but where the years are
	if x.Cmp(big.NewRat(100, 1)) < 0 {
		x = figures(prompt)[1]
	}
	times := int64(1)
	if compiled(`month`).MatchString(prompt) {
		times = 12
	}
	balance := new(big.Rat).Set(x)
	for range t.Num().Int64() * times { // one period at a time
		balance.Add(balance, quo(mul(balance, r), big.NewRat(100*times, 1)))
	}
	if compiled(`How much interest|total interest`).MatchString(prompt) {
		balance.Sub(balance, x)
	}
	return rounded(balance, prompt)
}

func solveInvoice(prompt string) (string, error) {
	vat, err := amountOf(`(\d+)%`, prompt)
	if err != nil {
		return "", err
	}
	net := new(big.Rat)
	for line := range strings.Lines(prompt) {
		m := compiled(`(\d+) pcs.*(?:at|@) ` + amountPattern).FindStringSubmatch(line)
		if m == nil {
			m = compiled(`qty (\d+) \| unit price ` + amountPattern).FindStringSubmatch(line)
		}
		if m == nil {
			continue
		}
		n, _ := new(big.Rat).SetString(m[1])
		price, _ := new(big.Rat).SetString(strings.ReplaceAll(m[2], ",", ""))
		net.Add(net, mul(n, price))
	}
	return rounded(net.Add(net, quo(mul(net, vat), big.NewRat(100, 1))), prompt)
}

// solveDaysBetween counts days with the day number of the Gregorian calendar.
func solveDaysBetween(prompt string) (string, error) {
	month := "(?:" + strings.Join(monthNames, "|") + ")"
	pattern := compiled(`\d{4}-\d\d-\d\d|\d{1,2} ` + month + ` \d{4}|` + month + ` \d{1,2}, \d{4}`)
	found := pattern.FindAllString(prompt, -1)
	if len(found) != 2 {
		return "", fmt.Errorf("dates %q in %q", found, prompt)
	}
	var numbers [2]int
	for i, s := range found {
		for _, layout := range []string{"2006-01-02", "2 January 2006", "January 2, 2006"} {
			if t, err := time.Parse(layout, s); err == nil {
				numbers[i] = dayNumber(t.Date())
			}
		}
	}
	return strconv.Itoa(numbers[1] - numbers[0]), nil
}

// dayNumber counts from March, so that a leap day ends its year.
func dayNumber(y int, month time.Month, d int) int {
	m := (int(month) + 9) % 12
	y -= m / 10
	return 365*y + y/4 - y/100 + y/400 + (m*306+5)/10 + d - 1
}
