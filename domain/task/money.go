package task

import (
	"math/big"
	"strconv"
)

var moneyTemplates = []Template{
	{
		ID: "arith.split_tip", Version: 1, Family: "arith",
		keywords: keywords{
			own: []string{
				"split bill", "split a bill", "split the bill", "bill split", "bill splitter", "bill splitting", "split tip", "tip split",
				"tip splitter", "tip calculator", "tip calculation", "calculate tip", "gratuity",
			},
			broad:     arithBroad,
			described: append([]string{"split a bill", "split bill", "splits bill", "tip per person"}, arithDescribed...),
			rivals:    []string{"compound interest", "interest"},
			veto:      arithVeto,
		},
		parameters: []parameter{
			{roleValue, "bill billamount billtotal total subtotal amount check value", true},
			{rolePercent, "tippercent tippercentage tippct percent percentage", true},
			{rolePeople, "people persons numberofpeople numpeople peoplecount partysize guests splitcount diners ways", true},
		},
		make: makeSplitTip,
	},
	{
		ID: "arith.compound", Version: 1, Family: "arith",
		keywords: keywords{
			own:       []string{"compound interest", "interest compound", "compounding", "interest calculator", "interest calculation"},
			broad:     arithBroad,
			described: append([]string{"compound interest"}, arithDescribed...),
			rivals:    []string{"tip", "split bill", "bill split"},
			veto:      append([]string{"simple interest"}, arithVeto...),
		},
		parameters: []parameter{
			{rolePrincipal, "principal p principalamount initialamount initialinvestment startingamount amount", true},
			{roleRate, "ratepercent annualratepercent interestratepercent rate annualrate interestrate annualinterestrate r", true},
			{roleYears, "years t numberofyears termyears time term duration", true},
			{rolePeriods, "compoundsperyear periodsperyear timesperyear compoundingsperyear compoundingperiodsperyear compoundingfrequency frequency n", true},
		},
		make: makeCompound,
	},
}

// splitPhrasings ask for a share of a bill {x} with a tip of {p} per cent for {n}
// people.
var splitPhrasings = []string{
	"A restaurant bill comes to {x}. We add a {p}% tip and split everything evenly between {n} people. What does each person pay?",
	"Split a bill of {x} plus a tip of {p}% evenly among {n} people. How much is that per person?",
	"A group of {n} people shares a {x} bill and tips {p}%. What is each one's equal share?",
	"The check is {x} and we want to leave a {p} percent tip. If {n} people split it equally, how much does each owe?",
	"Dinner cost {x}. With a {p}% tip on top and {n} people taking equal shares, what does each pay?",
}

// taxedPhrasings have a tax of {t} on the bill, which is not tipped on.
var taxedPhrasings = []string{
	"The bill is {x} before tax, and tax adds {t}. We tip {p}% on the amount before tax and split the whole sum evenly between {n} people. " +
		"How much does each person pay?",
	"Food and drinks cost {x}, sales tax is {t}, and the tip is {p}% of the amount before tax. All of it is shared equally by {n} people. " +
		"What is each share?",
	"Our table had food for {x}. Tax of {t} comes on top, and so does a tip of {p} percent, reckoned on the price before tax. " +
		"With {n} people paying the same, what does each owe?",
}

// splitTips are the usual tips in per cent.
var splitTips = []decimal{{10, 0}, {12, 0}, {125, 1}, {15, 0}, {16, 0}, {175, 1}, {18, 0}, {20, 0}, {22, 0}, {25, 0}}

func makeSplitTip(d *draw) puzzle {
	bill := decimal{int64(d.between(4000, pick(d, []int{29900, 99900, 240000}))), 2}
	tip := pick(d, splitTips)
	people := d.between(3, 9)
	taxed := d.chance(3)
	sign, grouped := pick(d, []string{"$", "$", "€", "£"}), d.chance(2)

	x, p, n := bill.rat(), tip.rat(), integer(people)
	hundred := integer(100)
	share := new(big.Rat).Quo(new(big.Rat).Mul(x, p), hundred) // the tip
	total := new(big.Rat).Add(x, share)
	words := []string{"x", sign + bill.text(grouped), "p", tip.String(), "n", strconv.Itoa(people)}
	phrasings := splitPhrasings
	near := []*big.Rat{x, p, n, integer(2), share}
	untipped := x
	var arguments map[Role]any
	var wrong []*big.Rat
	if taxed {
		tax := decimal{bill.units * int64(d.between(55, 99)) / 1000, 2} // a rate of some per cent, in whole cents
		t := tax.rat()
		words = append(words, "t", sign+tax.text(grouped))
		phrasings = taxedPhrasings
		total.Add(total, t)
		untipped = new(big.Rat).Add(x, t)
		tipped := new(big.Rat).Mul(untipped, new(big.Rat).Add(integer(1), new(big.Rat).Quo(p, hundred)))
		near = append(near, t)
		wrong = append(wrong,
			new(big.Rat).Quo(tipped, n),                     // tip on the tax too
			new(big.Rat).Quo(new(big.Rat).Sub(total, t), n), // tax forgotten
		)
	} else {
		arguments = map[Role]any{roleValue: bill, rolePercent: tip, rolePeople: people}
	}
	exact := new(big.Rat).Quo(total, n)
	return puzzle{
		body:      fill(pick(d, phrasings), words...),
		rounding:  2,
		details:   [][]string{numberAlone},
		expected:  number(Number, exact, 2),
		arguments: arguments,
		near:      append(near, total),
		wrong: append(wrong,
			new(big.Rat).Quo(untipped, n),                      // tip forgotten
			new(big.Rat).Quo(share, n),                         // the tip alone
			new(big.Rat).Add(new(big.Rat).Quo(x, n), share),    // tip not shared
			new(big.Rat).Quo(new(big.Rat).Add(untipped, p), n), // per cent taken for money
			new(big.Rat).Quo(total, new(big.Rat).Add(n, integer(1))),
			new(big.Rat).Quo(total, new(big.Rat).Sub(n, integer(1))),
		),
	}
}

// Interest of {x} at {r} per cent a year for {t} years; {often} says when it is
// added.
var (
	growthPhrasings = []string{
		"{x} is invested at {r}% a year, {often}, for {t} years. What is the final balance?",
		"What does a sum of {x} grow to in {t} years at {r}% annual interest, {often}?",
		"A savings plan starts with {x} and earns {r} percent per year, {often}. What is the balance after {t} years?",
		"Find the final amount for {x} at a nominal rate of {r}% per year, {often}, over {t} years.",
	}
	interestPhrasings = []string{
		"How much interest does {x} earn in {t} years at {r}% a year, {often}?",
		"{x} is put aside at {r}% per year, {often}, for {t} years. How much interest is that in total, without the starting sum?",
		"What is the total interest on {x} at {r} percent a year, {often}, after {t} years? Leave out the {x} itself.",
	}
	yearly  = []string{"compounded yearly", "compounded annually", "compounded once a year"}
	monthly = []string{"compounded monthly", "compounded every month"}
)

// lateRoundings say that periods are not rounded.
var lateRoundings = []string{
	"Do not round in between.",
	"Keep full precision until the end.",
	"No rounding before the end.",
	"Round nothing on the way.",
}

func makeCompound(d *draw) puzzle {
	principal := decimal{int64(d.between(500, pick(d, []int{2000, 9900, 60000}))), 0}
	rate := d.decimalBetween(5, 14, 1)
	periods, often := 1, yearly
	years := d.between(3, 9)
	if d.chance(2) {
		periods, often = 12, monthly
		years = d.between(2, 4)
	}
	earned := d.chance(2)
	grouped := d.chance(2)

	x, r := principal.rat(), rate.rat()
	yearlyRate := new(big.Rat).Quo(r, integer(100))
	time := integer(years)
	simple := new(big.Rat).Mul(x, new(big.Rat).Mul(yearlyRate, time)) // interest
	balance := grown(x, yearlyRate, periods, years)
	other := grownRoughly(x, yearlyRate, 13-periods, years) // added yearly for monthly, or the reverse
	p := puzzle{
		rounding: 2,
		details:  [][]string{lateRoundings, numberAlone},
		near:     []*big.Rat{x, r, time, integer(2), integer(12), integer(100)},
	}
	phrasings := growthPhrasings
	if earned {
		phrasings = interestPhrasings
		p.expected = number(Number, new(big.Rat).Sub(balance, x), 2)
		p.wrong = []*big.Rat{simple, balance, other.Sub(other, x)}
	} else {
		p.expected = number(Number, balance, 2)
		p.wrong = []*big.Rat{simple, new(big.Rat).Add(x, simple), other, new(big.Rat).Sub(other, x)}
		p.arguments = map[Role]any{rolePrincipal: principal, roleRate: rate, roleYears: years, rolePeriods: periods}
	}
	p.body = fill(pick(d, phrasings),
		"x", principal.text(grouped), "r", rate.String(), "t", strconv.Itoa(years), "often", pick(d, often))
	return p
}

// grown returns x · (1 + rate/periods)^(periods·years). The powers of the numerator
// and the denominator have no factor in common, so they are taken by themselves.
func grown(x, rate *big.Rat, periods, years int) *big.Rat {
	factor := new(big.Rat).Quo(rate, integer(periods))
	factor.Add(factor, integer(1))
	n := big.NewInt(int64(periods * years))
	num, den := new(big.Int).Exp(factor.Num(), n, nil), new(big.Int).Exp(factor.Denom(), n, nil)
	return factor.SetFrac(num.Mul(num, x.Num()), den.Mul(den, x.Denom()))
}

// grownRoughly returns the same to twelve digits and more, for what need only be
// told apart.
func grownRoughly(x, rate *big.Rat, periods, years int) *big.Rat {
	unit := big.NewInt(powers[18])
	factor := new(big.Int).Mul(unit, rate.Num())
	factor.Quo(factor, big.NewInt(int64(periods)))
	factor.Quo(factor, rate.Denom()).Add(factor, unit)
	power := new(big.Int).Set(unit)
	for n := periods * years; n > 0; n /= 2 {
		if n%2 == 1 {
			power.Mul(power, factor).Quo(power, unit)
		}
		factor.Mul(factor, factor).Quo(factor, unit)
	}
	r := new(big.Rat).SetFrac(power, unit)
	return r.Mul(r, x)
}
