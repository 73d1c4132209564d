package task

import (
	"math/big"
	"math/bits"
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

	x, p, n := bill.ratio(), tip.ratio(), integer(people)
	one, hundred := integer(1), integer(100)
	share := x.times(p).over(hundred) // the tip
	total := x.plus(share)
	words := []string{"x", sign + bill.text(grouped), "p", tip.String(), "n", strconv.Itoa(people)}
	phrasings := splitPhrasings
	near := append(make([]ratio, 0, 7), x, p, n, integer(2), share)
	wrong := make([]ratio, 0, 8)
	untipped := x
	var parts arguments
	if taxed {
		tax := decimal{bill.units * int64(d.between(55, 99)) / 1000, 2} // a rate of some per cent, in whole cents
		t := tax.ratio()
		words = append(words, "t", sign+tax.text(grouped))
		phrasings = taxedPhrasings
		total = total.plus(t)
		untipped = x.plus(t)
		tipped := untipped.times(one.plus(p.over(hundred)))
		near = append(near, t)
		wrong = append(wrong,
			tipped.over(n),         // tip on the tax too
			total.minus(t).over(n), // tax forgotten
		)
	} else {
		parts = func() map[Role]any { return map[Role]any{roleValue: bill, rolePercent: tip, rolePeople: people} }
	}
	exact := total.over(n)
	return puzzle{
		body:      fill(pick(d, phrasings), words...),
		rounding:  2,
		details:   [][]string{numberAlone},
		expected:  number(Number, exact, 2),
		arguments: parts,
		near:      append(near, total),
		wrong: append(wrong,
			untipped.over(n),         // tip forgotten
			share.over(n),            // the tip alone
			x.over(n).plus(share),    // tip not shared
			untipped.plus(p).over(n), // per cent taken for money
			total.over(n.plus(one)),
			total.over(n.minus(one)),
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

	x, r := principal.ratio(), rate.ratio()
	yearlyRate := r.over(integer(100))
	time := integer(years)
	simple := x.times(yearlyRate).times(time) // interest
	balance := grown(x, yearlyRate, periods, years)
	other := grownRoughly(x, yearlyRate, 13-periods, years) // added yearly for monthly, or the reverse
	p := puzzle{
		rounding: 2,
		details:  [][]string{lateRoundings, numberAlone},
		near:     []ratio{x, r, time, integer(2), integer(12), integer(100)},
	}
	phrasings := growthPhrasings
	if earned {
		phrasings = interestPhrasings
		p.expected = number(Number, balance.minus(x), 2)
		p.wrong = []ratio{simple, balance, other.minus(x)}
	} else {
		p.expected = number(Number, balance, 2)
		p.wrong = []ratio{simple, x.plus(simple), other, other.minus(x)}
		p.arguments = func() map[Role]any {
			return map[Role]any{rolePrincipal: principal, roleRate: rate, roleYears: years, rolePeriods: periods}
		}
	}
	p.body = fill(pick(d, phrasings),
		"x", principal.text(grouped), "r", rate.String(), "t", strconv.Itoa(years), "often", pick(d, often))
	return p
}

// grown returns x · (1 + rate/periods)^(periods·years).
func grown(x, rate ratio, periods, years int) ratio {
	factor := integer(1).plus(rate.over(integer(periods))).lowest().widened()
	n, power := big.NewInt(int64(periods*years)), new(quotient)
	power.num.Exp(&factor.num, n, nil)
	power.den.Exp(&factor.den, n, nil)
	return x.times(ratio{wide: power})
}

// grownRoughly returns the same to twelve digits and more, for what need only be
// told apart: it reckons in units of 10^-18. A word holds every power of a factor
// that there is, as none comes to 18.
func grownRoughly(x, rate ratio, periods, years int) ratio {
	const unit = 1_000_000_000_000_000_000
	factor := unit + mulDiv(unit, magnitude(rate.num), magnitude(rate.den)*uint64(periods)) //nolint:gosec // 1 or 12
	power := uint64(unit)
	for n := periods * years; n > 0; n /= 2 {
		if n%2 == 1 {
			power = mulDiv(power, factor, unit)
		}
		factor = mulDiv(factor, factor, unit)
	}
	return x.times(ratio{num: int64(power), den: unit})
}

// mulDiv returns a·b/c, rounded down, which a word must hold.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, _ := bits.Div64(hi, lo, c)
	return q
}
