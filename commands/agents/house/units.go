package house

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// measure is a unit: what it measures, and its size in the base unit of that.
type measure struct{ of, size string }

// measures are the units under their usual names, in lower case.
var measures = map[string]measure{
	"m": {"length", "1"}, "meter": {"length", "1"}, "metre": {"length", "1"},
	"km": {"length", "1000"}, "kilometer": {"length", "1000"}, "kilometre": {"length", "1000"},
	"cm": {"length", "0.01"}, "centimeter": {"length", "0.01"}, "centimetre": {"length", "0.01"},
	"mi": {"length", "1609.344"}, "mile": {"length", "1609.344"}, "international mile": {"length", "1609.344"},
	"nautical mile": {"length", "1852"}, "nmi": {"length", "1852"}, "nm": {"length", "1852"},
	"ft": {"length", "0.3048"}, "foot": {"length", "0.3048"}, "feet": {"length", "0.3048"},
	"in": {"length", "0.0254"}, "inch": {"length", "0.0254"}, "inches": {"length", "0.0254"},

	"g": {"mass", "0.001"}, "gram": {"mass", "0.001"}, "kg": {"mass", "1"}, "kilogram": {"mass", "1"},
	"lb": {"mass", "0.45359237"}, "pound": {"mass", "0.45359237"},
	"oz": {"mass", "0.028349523125"}, "ounce": {"mass", "0.028349523125"}, "avoirdupois ounce": {"mass", "0.028349523125"},

	"l": {"volume", "1"}, "liter": {"volume", "1"}, "litre": {"volume", "1"},
	"ml": {"volume", "0.001"}, "milliliter": {"volume", "0.001"}, "millilitre": {"volume", "0.001"},
	"gal": {"volume", "3.785411784"}, "gallon": {"volume", "3.785411784"}, "us gallon": {"volume", "3.785411784"},
	"fl oz": {"volume", "0.0295735295625"}, "fluid ounce": {"volume", "0.0295735295625"}, "us fluid ounce": {"volume", "0.0295735295625"},

	"km/h": {"speed", "1"}, "kmh": {"speed", "1"}, "kph": {"speed", "1"},
	"kilometers per hour": {"speed", "1"}, "kilometres per hour": {"speed", "1"},
	"mph": {"speed", "1.609344"}, "mi/h": {"speed", "1.609344"}, "miles per hour": {"speed", "1.609344"},

	"square meter": {"area", "1"}, "square metre": {"area", "1"}, "m2": {"area", "1"}, "m²": {"area", "1"}, "sqm": {"area", "1"},
	"square feet": {"area", "0.09290304"}, "square foot": {"area", "0.09290304"}, "ft2": {"area", "0.09290304"},
	"ft²": {"area", "0.09290304"}, "sqft": {"area", "0.09290304"}, "sq ft": {"area", "0.09290304"},
	"hectare": {"area", "10000"}, "ha": {"area", "10000"}, "acre": {"area", "4046.8564224"}, "ac": {"area", "4046.8564224"},

	"mb": {"data", "1000000"}, "megabyte": {"data", "1000000"}, "mib": {"data", "1048576"}, "mebibyte": {"data", "1048576"},

	"celsius": {"temperature", "C"}, "degrees celsius": {"temperature", "C"}, "°c": {"temperature", "C"}, "c": {"temperature", "C"},
	"fahrenheit": {"temperature", "F"}, "degrees fahrenheit": {"temperature", "F"}, "°f": {"temperature", "F"}, "f": {"temperature", "F"},
}

// find returns the unit of a name, in the singular or plural.
func find(name string) (measure, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	m, ok := measures[name]
	if !ok {
		m, ok = measures[strings.TrimSuffix(name, "s")]
	}
	return m, ok
}

// convert takes a value from one named unit to another.
func convert(x, from, to string, places int) (solution, bool) {
	v, ok := number(x)
	a, okA := find(from)
	b, okB := find(to)
	if !ok || !okA || !okB || a.of != b.of || a == b {
		return solution{}, false
	}
	if a.of == "temperature" {
		return value(temperature(v, a.size), places), true
	}
	return value(v.Quo(v.Mul(v, size(a)), size(b)), places), true
}

func size(m measure) *big.Rat {
	r, _ := new(big.Rat).SetString(m.size) // the table holds numbers
	return r
}

// temperature takes x in the scale from to the other one.
func temperature(x *big.Rat, from string) *big.Rat {
	ratio, zero := big.NewRat(9, 5), big.NewRat(32, 1)
	if from == "C" {
		return x.Add(x.Mul(x, ratio), zero)
	}
	return x.Quo(x.Sub(x, zero), ratio)
}

// unitNames matches any name of a unit that may stand in a sentence, longer names
// before the shorter ones they begin with. What is also a word or a single letter
// is left out.
var unitNames = func() string {
	names := make([]string, 0, len(measures))
	for name := range measures {
		if len(name) > 1 && !slices.Contains([]string{"in", "ac", "ha", "nm"}, name) {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return `(?:` + strings.Join(names, "|") + `)s?`
}()

var (
	quantity = regexp.MustCompile(`(?i)(-?(?:` + numeral.String() + `))\s*(` + unitNames + `)(?:[^\w]|$)`)
	unitWord = regexp.MustCompile(`(?i)(?:^|[^\w/])(` + unitNames + `)(?:[^\w/]|$)`)
)

// solveUnits reads "… 12.5 miles … kilometers …", in either order.
func solveUnits(question string, places int) (solution, bool) {
	m := quantity.FindStringSubmatchIndex(question)
	if m == nil {
		return solution{}, false
	}
	x, from := question[m[2]:m[3]], question[m[4]:m[5]]
	for _, rest := range []string{question[m[5]:], question[:m[0]]} {
		for _, to := range unitWord.FindAllStringSubmatch(rest, -1) {
			if s, ok := convert(x, from, to[1], places); ok {
				return s, true
			}
		}
	}
	return solution{}, false
}
