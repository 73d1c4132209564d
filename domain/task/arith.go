package task

import (
	"slices"
	"strings"
)

// arithBroad are the names of skills that take any of the arithmetic templates.
var arithBroad = []string{"arithmetic", "math", "maths", "mathematics", "calculator", "calculate", "calculation", "calc"}

var arithDescribed = []string{"arithmetic", "mathematical calculation", "math problem", "maths problem", "word problem", "numeric calculation", "does math", "basic math"}

var arithVeto = []string{
	"mortgage", "loan", "bmi", "calorie", "tax", "gas fee", "shipping", "carbon", "horoscope", "pregnancy", "retirement", "gpa",
	"price feed", "proof", "theorem", "battery",
}

// arithRivals name the templates of money.go.
var arithRivals = []string{"tip", "gratuity", "split bill", "bill split", "bill splitter", "compound interest", "compounding", "interest"}

var arithTemplates = []Template{
	{
		ID: "arith.percent_of", Version: 1, Family: "arith",
		keywords: keywords{
			own:       []string{"percent of", "percentage of", "percent", "percentage", "percentages"},
			broad:     arithBroad,
			described: append([]string{"percentage", "percent of"}, arithDescribed...),
			rivals:    arithRivals,
			veto:      append([]string{"percent change", "percentage change"}, arithVeto...),
		},
		parameters: []parameter{
			{rolePercent, "percent percentage pct rate p", true},
			{roleValue, "value number amount of base total whole x", true},
			{roleDecimals, "decimals precision places decimalplaces digits round", false},
		},
		make: makePercentOf,
	},
	{
		ID: "arith.percent_change", Version: 1, Family: "arith",
		keywords: keywords{
			own:       []string{"percent change", "percentage change", "percent difference", "percentage", "percentages", "percent"},
			broad:     arithBroad,
			described: append([]string{"percentage", "percent change"}, arithDescribed...),
			rivals:    arithRivals,
			veto:      append([]string{"percent of", "percentage of"}, arithVeto...),
		},
		parameters: []parameter{
			{roleFrom, "old oldvalue from initial initialvalue start startvalue original originalvalue before previous", true},
			{roleTo, "new newvalue to final finalvalue end endvalue current currentvalue after", true},
			{roleDecimals, "decimals precision places decimalplaces digits round", false},
		},
		make: makePercentChange,
	},
	{
		ID: "arith.average", Version: 1, Family: "arith",
		keywords: keywords{
			own:       []string{"average", "mean", "arithmetic mean"},
			broad:     append([]string{"statistics", "stats", "descriptive statistics"}, arithBroad...),
			described: append([]string{"arithmetic mean", "average of", "mean of"}, arithDescribed...),
			rivals:    arithRivals,
			veto:      append([]string{"moving average", "weighted"}, arithVeto...),
		},
		parameters: []parameter{
			{roleList, "numbers values data list items nums series x", true},
			{roleDecimals, "decimals precision places decimalplaces digits round", false},
		},
		make: makeAverage,
	},
}

// percentOfPhrasings ask for {p} per cent of {x}.
var percentOfPhrasings = []string{
	"What is {p}% of {x}?",
	"How much is {p}% of {x}?",
	"Calculate {p} percent of {x}.",
	"I need {p} percent of {x}.",
	"Find {p}% of {x}.",
	"A budget comes to {x}. How much is {p}% of it?",
	"Of a total of {x} I want {p} percent. How much is that?",
}

func makePercentOf(d *draw) puzzle {
	share := d.decimalBetween(3, 96, d.below(2))
	whole := d.decimalBetween(120, pick(d, []int{990, 9900, 99000}), d.below(3))
	decimals := 2
	p, x, hundred := share.ratio(), whole.ratio(), integer(100)
	multiplied := p.times(x)
	exact := multiplied.over(hundred)
	grouped := d.chance(2)
	return puzzle{
		body:     fill(pick(d, percentOfPhrasings), "p", share.String(), "x", whole.text(grouped)),
		rounding: decimals,
		details:  [][]string{numberAlone},
		expected: number(Number, exact, decimals),
		arguments: func() map[Role]any {
			return map[Role]any{rolePercent: share, roleValue: whole, roleDecimals: decimals}
		},
		near: []ratio{p, x, integer(decimals), p.over(hundred), hundred},
		wrong: []ratio{
			multiplied,          // per cent not taken
			x.percent().over(p), // x is p % of what
			x.minus(exact),      // what is left of x
			x.plus(exact),       // x with p % on top
			p.percent().over(x), // which part of x is p
			x.over(p),           // divided instead
			exact.over(hundred),
		},
	}
}

// percentChangePhrasings ask for the change from {a} to {b}.
var percentChangePhrasings = []string{
	"What is the percentage change from {a} to {b}?",
	"A value went from {a} to {b}. What is the change in percent?",
	"Work out the percent change from {a} to {b}.",
	"Sales were {a} last month and {b} this month. What is the percentage change?",
	"By what percentage did a figure change that started at {a} and ended at {b}?",
	"The old reading was {a}, the new one is {b}. What is the percent change relative to the old one?",
}

// changeSigns say how a drop is written.
var changeSigns = []string{
	"Use a minus sign for a drop.",
	"Negative for a drop.",
	"Write a decrease as a negative number.",
	"A decrease should carry a minus sign.",
}

func makePercentChange(d *draw) puzzle {
	places := d.below(2)
	top := pick(d, []int{900, 9000, 90000})
	before, after := d.decimalBetween(60, top, places), d.decimalBetween(60, top, places)
	decimals := d.between(1, 2)
	a, b := before.ratio(), after.ratio()
	step := b.minus(a)
	exact := step.over(a).percent()
	times := b.over(a)
	grouped := d.chance(2)
	p := puzzle{
		body:     fill(pick(d, percentChangePhrasings), "a", before.text(grouped), "b", after.text(grouped)),
		rounding: decimals,
		details:  [][]string{changeSigns, numberAlone},
		expected: number(Change, exact, decimals),
		arguments: func() map[Role]any {
			return map[Role]any{roleFrom: before, roleTo: after, roleDecimals: decimals}
		},
		near: []ratio{a, b, integer(decimals), step, times, times.percent(), integer(100)},
		wrong: []ratio{
			step.over(b).percent(), // the new value as the base
			step.negative().over(b).percent(),
			exact.negative(),
			step.over(a), // a fraction
			a.over(b).percent(),
			times.percent(),
		},
	}
	// A change of many hundred per cent is no ordinary question.
	p.poor = integer(400).less(exact.size())
	return p
}

// averagePhrasings ask for the mean of {list}.
var averagePhrasings = []string{
	"What is the average of {list}?",
	"Find the mean of these numbers: {list}.",
	"Calculate the arithmetic mean of {list}.",
	"Can you average these for me: {list}?",
	"My readings were {list}. What is their mean?",
	"Take the figures {list}. What is their average?",
}

func makeAverage(d *draw) puzzle {
	places := d.below(2)
	top := pick(d, []int{400, 4000, 9500})
	list := make([]decimal, d.between(4, 7))
	values := make([]ratio, len(list), len(list)+3)
	sum := integer(0)
	for i := range list {
		list[i] = d.decimalBetween(top/20, top, places)
		values[i] = list[i].ratio()
		sum = sum.plus(values[i])
	}
	decimals := 2
	n, two := len(list), integer(2)
	exact := sum.over(integer(n))

	sorted := slices.Clone(values)
	slices.SortFunc(sorted, ratio.compare)
	low, high := sorted[(n-1)/2], sorted[n/2]
	median := low.plus(high).over(two)
	middle := sorted[0].plus(sorted[n-1]).over(two)

	return puzzle{
		body:      fill(pick(d, averagePhrasings), "list", enumerate(d, list)),
		rounding:  decimals,
		details:   [][]string{numberAlone},
		expected:  number(Number, exact, decimals),
		arguments: func() map[Role]any { return map[Role]any{roleList: list, roleDecimals: decimals} },
		near:      append(values, sum, integer(n), integer(decimals)),
		wrong:     []ratio{median, middle, low, high, sum.over(integer(n - 1)), sum.over(integer(n + 1))},
	}
}

// enumerate writes a list of numbers. Numbers with commas in them are parted by
// semicolons, so that each comma has one reading.
func enumerate(d *draw, list []decimal) string {
	grouped := d.chance(3)
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = n.text(grouped)
	}
	if grouped {
		return strings.Join(words, "; ")
	}
	last := len(words) - 1
	if d.chance(2) {
		return strings.Join(words, ", ")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
