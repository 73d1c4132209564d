package house

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	tipping    = regexp.MustCompile(`(?i)\btips?\b`)
	people     = regexp.MustCompile(`(?i)\b(\d{1,3}) people\b`)
	priced     = regexp.MustCompile(`[$€£]\s?(` + numeral.String() + `)`)
	compound   = regexp.MustCompile(`(?i)\bcompounded\b`)
	everyMonth = regexp.MustCompile(`(?i)\b(monthly|every month)\b`)
	yearCount  = regexp.MustCompile(`(?i)\b(\d{1,3}) years?\b`)
	earnings   = regexp.MustCompile(`(?i)how much interest|total interest`)
	valueTax   = regexp.MustCompile(`(?i)\bVAT\b`)
	vatRate    = regexp.MustCompile(`(\d{1,2}(?:\.\d{1,2})?)\s?%`)
	position   = regexp.MustCompile(`(?i)(?:\b(\d{1,6}) pcs\b|\bqty (\d{1,6})\b).*(?:\bat|@|\bprice)\s+(` + numeral.String() + `)`)
	hundred    = big.NewRat(100, 1)
)

// solveTip shares a bill with its tax, and the tip on the bill alone. The bill is
// the first price of the question and the tax the second one.
func solveTip(question string, places int) (solution, bool) {
	rate, ok := rateIn(question)
	heads := people.FindStringSubmatch(question)
	prices := priced.FindAllStringSubmatch(question, 3)
	if !ok || heads == nil || len(prices) == 0 {
		return solution{}, false
	}
	n, ok := number(heads[1])
	if !ok || n.Sign() == 0 {
		return solution{}, false
	}
	total := new(big.Rat)
	for i, m := range prices {
		v, ok := number(m[1])
		if !ok {
			return solution{}, false
		}
		total.Add(total, v)
		if i == 0 {
			total.Add(total, v.Mul(v, rate))
		}
	}
	return value(total.Quo(total, n), places), true
}

// rateIn returns the percentage in a question as a fraction.
func rateIn(question string) (*big.Rat, bool) {
	m := share.FindStringSubmatch(question)
	if m == nil {
		return nil, false
	}
	r, ok := number(m[1])
	if !ok {
		return nil, false
	}
	return r.Quo(r, hundred), true
}

// maxPeriods bounds how often interest is added.
const maxPeriods = 600

// solveCompound adds interest period by period. The sum is the number that is
// neither the rate nor the years.
func solveCompound(question string, places int) (solution, bool) {
	rate, ok := rateIn(question)
	m := yearCount.FindStringSubmatch(question)
	if !ok || m == nil {
		return solution{}, false
	}
	periods, err := strconv.Atoi(m[1])
	if err != nil {
		return solution{}, false
	}
	if everyMonth.MatchString(question) {
		periods *= 12
		rate.Quo(rate, big.NewRat(12, 1))
	}
	sums := findNumbers(yearCount.ReplaceAllString(share.ReplaceAllString(question, " "), " "))
	if len(sums) == 0 || periods > maxPeriods {
		return solution{}, false
	}
	factor := rate.Add(rate, big.NewRat(1, 1))
	power := big.NewRat(1, 1)
	for range periods {
		power.Mul(power, factor)
	}
	if earnings.MatchString(question) {
		power.Sub(power, big.NewRat(1, 1))
	}
	return value(power.Mul(power, sums[0]), places), true
}

// solveInvoice adds the lines of an invoice, and the tax on their sum.
func solveInvoice(question string, places int) (solution, bool) {
	m := vatRate.FindStringSubmatch(question)
	if m == nil {
		return solution{}, false
	}
	rate, _ := number(m[1])
	net := new(big.Rat)
	for line := range strings.SplitSeq(question, "\n") {
		m := position.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, ok := number(m[1] + m[2]) // one of them is empty
		price, okay := number(m[3])
		if !ok || !okay {
			return solution{}, false
		}
		net.Add(net, n.Mul(n, price))
	}
	rate.Quo(rate, hundred)
	return value(net.Mul(net, rate.Add(rate, big.NewRat(1, 1))), places), net.Sign() > 0
}

// solveInterval counts the days from one date to another, the first one excluded.
func solveInterval(from, to time.Time) solution {
	days := int(to.Sub(from) / (24 * time.Hour)) // both at midnight UTC
	return solution{strconv.Itoa(days), strconv.Itoa(days + 7)}
}
