package task

var unitTemplates = []Template{
	{
		ID: "unit.convert", Version: 1, Family: "unit",
		keywords: keywords{
			own: []string{
				"unit", "unit conversion", "unit converter", "convert unit", "measurement", "conversion", "converter", "convert",
				"metric", "imperial", "length", "weight", "temperature",
			},
			described: []string{"unit conversion", "unit converter", "convert unit", "converting unit", "converts unit", "between unit", "unit of measure"},
			veto: []string{
				"currency", "exchange", "forex", "crypto", "file", "image", "pdf", "video", "audio", "speech", "text", "format",
				"time zone", "timezone", "unit test", "unit testing", "weather", "forecast", "business unit", "weight loss", "rate",
				"markdown", "html", "json", "document", "base", "case", "color", "colour", "sales", "marketing",
				"wei", "gwei", "ether", "eth", "ethereum", "evm", "hex", "hexadecimal", "binary", "selector", "checksum", "invoice",
			},
		},
		parameters: []parameter{
			{roleValue, "value amount quantity number magnitude x input", true},
			{roleFrom, "from fromunit source sourceunit unitfrom inputunit unit", true},
			{roleTo, "to tounit target targetunit unitto outputunit", true},
			{roleDecimals, "decimals precision places decimalplaces digits round", false},
		},
		make: makeConversion,
	},
}

// conversionPhrasings ask for {x} {from} in {to}.
var conversionPhrasings = []string{
	"Convert {x} {from} to {to}.",
	"What is {x} {from} in {to}?",
	"How many {to} is {x} {from}?",
	"Please express {x} {from} in {to}.",
	"I have {x} {from} and need the value in {to}.",
	"{x} {from}: how much is that in {to}?",
}

// A unit is how prompts write a unit and how tools may spell it.
type unit struct {
	names     []string // in a prompt
	spellings []string // in an argument, the preferred one first
}

var (
	kilometre    = unit{[]string{"kilometers", "kilometres", "km"}, []string{"kilometers", "km", "kilometer", "kilometres", "kilometre"}}
	mile         = unit{[]string{"international miles"}, []string{"miles", "mi", "mile", "international miles"}}
	metre        = unit{[]string{"meters", "metres"}, []string{"meters", "m", "meter", "metres", "metre"}}
	foot         = unit{[]string{"feet"}, []string{"feet", "ft", "foot"}}
	centimetre   = unit{[]string{"centimeters", "centimetres", "cm"}, []string{"centimeters", "cm", "centimeter", "centimetres", "centimetre"}}
	inch         = unit{[]string{"inches"}, []string{"inches", "in", "inch"}}
	nauticalMile = unit{[]string{"nautical miles"}, []string{"nautical miles", "nmi", "nautical mile", "NM"}}
	kilogram     = unit{[]string{"kilograms", "kg"}, []string{"kilograms", "kg", "kilogram"}}
	pound        = unit{[]string{"pounds", "pounds (lb)"}, []string{"pounds", "lb", "lbs", "pound"}}
	gram         = unit{[]string{"grams"}, []string{"grams", "g", "gram"}}
	ounce        = unit{[]string{"avoirdupois ounces", "ounces (avoirdupois)"}, []string{"ounces", "oz", "ounce", "avoirdupois ounces"}}
	litre        = unit{[]string{"liters", "litres"}, []string{"liters", "l", "liter", "litres", "litre"}}
	gallon       = unit{[]string{"US gallons"}, []string{"US gallons", "gal", "gallons", "gallon", "US gallon", "us_gal"}}
	millilitre   = unit{[]string{"milliliters", "millilitres", "ml"}, []string{"milliliters", "ml", "milliliter", "millilitres", "millilitre"}}
	fluidOunce   = unit{[]string{"US fluid ounces"}, []string{"US fluid ounces", "fl oz", "fluid ounces", "fluid ounce", "US fluid ounce", "floz"}}
	celsius      = unit{[]string{"degrees Celsius", "°C"}, []string{"celsius", "C", "°C", "degrees Celsius"}}
	fahrenheit   = unit{[]string{"degrees Fahrenheit", "°F"}, []string{"fahrenheit", "F", "°F", "degrees Fahrenheit"}}
	kmPerHour    = unit{[]string{"km/h", "kilometers per hour"}, []string{"km/h", "kmh", "kph", "kilometers per hour", "kilometres per hour"}}
	milePerHour  = unit{[]string{"mph", "miles per hour"}, []string{"mph", "miles per hour", "mi/h"}}
	squareMetre  = unit{[]string{"square meters", "square metres"}, []string{"square meters", "m2", "m²", "sqm", "square meter", "square metres"}}
	squareFoot   = unit{[]string{"square feet"}, []string{"square feet", "ft2", "ft²", "sqft", "sq ft", "square foot"}}
	hectare      = unit{[]string{"hectares"}, []string{"hectares", "ha", "hectare"}}
	acre         = unit{[]string{"acres"}, []string{"acres", "ac", "acre"}}
	megabyte     = unit{[]string{"MB (megabytes of 1,000,000 bytes)", "megabytes (MB, decimal)"}, []string{"MB", "megabytes", "megabyte"}}
	mebibyte     = unit{[]string{"MiB", "mebibytes (MiB)"}, []string{"MiB", "mebibytes", "mebibyte"}}
)

// A unitPair holds two units with one of `one` being factor of `many`, or for
// temperatures many = one · factor + offset. All factors are exact.
type unitPair struct {
	one, many unit
	factor    ratio
	offset    int
	lo, hi    int     // of the value to convert
	mistaken  []ratio // factors taken by mistake: imperial measures, lengths for areas
}

// unitPairs: international yard and pound (1959), the litre and US gallon of NIST
// Handbook 44 appendix C, IEC 80000-13 for the mebibyte.
var unitPairs = []unitPair{
	{one: mile, many: kilometre, factor: rational("1.609344"), lo: 12, hi: 2400, mistaken: []ratio{rational("1.852")}},
	{one: foot, many: metre, factor: rational("0.3048"), lo: 12, hi: 4800},
	{one: inch, many: centimetre, factor: rational("2.54"), lo: 12, hi: 900},
	{one: nauticalMile, many: kilometre, factor: rational("1.852"), lo: 12, hi: 4000, mistaken: []ratio{rational("1.609344")}},
	{one: pound, many: kilogram, factor: rational("0.45359237"), lo: 12, hi: 1900},
	{one: ounce, many: gram, factor: rational("28.349523125"), lo: 40, hi: 9000, mistaken: []ratio{rational("31.1034768")}},
	{one: gallon, many: litre, factor: rational("3.785411784"), lo: 12, hi: 3000, mistaken: []ratio{rational("4.54609")}},
	{one: fluidOunce, many: millilitre, factor: rational("29.5735295625"), lo: 40, hi: 6000, mistaken: []ratio{rational("28.4130625")}},
	{one: celsius, many: fahrenheit, factor: rational("9/5"), offset: 32, lo: -30, hi: 450},
	{one: milePerHour, many: kmPerHour, factor: rational("1.609344"), lo: 18, hi: 390},
	{one: squareFoot, many: squareMetre, factor: rational("0.09290304"), lo: 14, hi: 5200, mistaken: []ratio{rational("0.3048")}},
	{one: acre, many: hectare, factor: rational("0.40468564224"), lo: 12, hi: 2600},
	{one: mebibyte, many: megabyte, factor: rational("1.048576"), lo: 120, hi: 9500},
}

// convert takes x across the pair: forward from one to many, or back.
func convert(x, factor, offset ratio, forward bool) ratio {
	if forward {
		return x.times(factor).plus(offset)
	}
	return x.minus(offset).over(factor)
}

func makeConversion(d *draw) puzzle {
	pair := pick(d, unitPairs)
	forward := d.chance(2)
	value := d.decimalBetween(pair.lo, pair.hi, d.below(3))
	decimals := d.between(1, 3)
	from, to := pair.one, pair.many
	if !forward {
		from, to = to, from
	}

	x, factor, offset := value.ratio(), pair.factor, integer(pair.offset)
	p := puzzle{
		rounding: decimals,
		near:     append(make([]ratio, 0, 4), x, integer(decimals)),
		wrong:    make([]ratio, 0, 5),
	}
	if pair.offset != 0 {
		forgot := convert(x, factor, integer(0), forward)
		late := x.over(factor).minus(offset) // 32 taken off after the division
		double := x.plus(x).plus(integer(30))
		p.wrong = append(p.wrong, forgot, late, double)
	} else {
		p.near = append(p.near, factor, factor.inverse())
	}
	exact := convert(x, factor, offset, forward)
	p.expected = number(Number, exact, decimals)
	p.wrong = append(p.wrong, x, convert(x, factor, offset, !forward))
	for _, m := range pair.mistaken {
		p.wrong = append(p.wrong, convert(x, m, offset, forward))
	}
	p.poor = exact.size().less(integer(3))

	grouped := d.chance(2)
	p.body = fill(pick(d, conversionPhrasings),
		"x", value.text(grouped), "from", pick(d, from.names), "to", pick(d, to.names))
	p.details = [][]string{numberAlone}
	p.arguments = func() map[Role]any {
		return map[Role]any{roleValue: value, roleFrom: from.spellings, roleTo: to.spellings, roleDecimals: decimals}
	}
	return p
}
