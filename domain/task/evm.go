package task

import (
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// evmBroad are the names of skills that help people who work with Ethereum.
var evmBroad = []string{
	"ethereum helper", "evm helper", "ethereum utility", "evm utility", "ethereum utilities", "evm utilities", "ethereum util", "evm util",
	"ethereum tool", "evm tool", "ethereum developer", "evm developer", "ethereum toolkit", "evm toolkit", "solidity helper",
}

// evmUnitBroad are those that know its units.
var evmUnitBroad = append([]string{
	"ethereum unit", "evm unit", "ether unit", "eth unit", "wei", "gwei", "wei converter", "ether converter", "eth converter",
}, evmBroad...)

var evmVeto = []string{
	"price", "news", "wallet", "send", "transfer", "swap", "bridge", "stake", "staking", "nft", "mint", "trade", "trading", "transaction",
	"deploy", "audit", "block explorer", "gas tracker", "gas price", "airdrop", "sign", "portfolio",
}

var evmTemplates = []Template{
	{
		ID: "evm.to_wei", Version: 1, Family: "evm",
		keywords: keywords{
			own:       []string{"to wei", "ether to wei", "eth to wei", "gwei to wei", "parse ether", "parse unit"},
			broad:     evmUnitBroad,
			described: []string{"wei", "gwei", "ether unit", "ethereum unit"},
			rivals:    []string{"from wei", "wei to eth", "wei to ether", "wei to gwei", "format ether", "format unit"},
			veto:      evmVeto,
		},
		parameters: []parameter{
			{roleAmount, amountNames, true},
			{roleFrom, fromNames + " unit", true},
			{roleTo, toNames, false},
		},
		make: makeToWei,
	},
	{
		ID: "evm.from_wei", Version: 1, Family: "evm",
		keywords: keywords{
			own:       []string{"from wei", "wei to eth", "wei to ether", "wei to gwei", "format ether", "format unit"},
			broad:     evmUnitBroad,
			described: []string{"wei", "gwei", "ether unit", "ethereum unit"},
			rivals:    []string{"to wei", "parse ether", "parse unit"},
			veto:      evmVeto,
		},
		parameters: []parameter{
			{roleAmount, amountNames, true},
			{roleTo, toNames + " unit", true},
			{roleFrom, fromNames, false},
		},
		make: makeFromWei,
	},
	{
		ID: "evm.hex_dec", Version: 1, Family: "evm",
		keywords: keywords{
			own: []string{
				"hex to decimal", "hex to dec", "hex decimal", "hexadecimal to decimal", "hex converter", "hex conversion", "hex to int",
				"hex to number", "hexadecimal",
			},
			broad:     evmBroad,
			described: []string{"hex to decimal", "hexadecimal to decimal", "hexadecimal number", "hex number"},
			rivals:    []string{"decimal to hex", "dec to hex", "text to hex", "hex to text"},
			veto:      append([]string{"color", "colour", "rgb", "hex dump", "editor"}, evmVeto...),
		},
		parameters: []parameter{{roleHex, "hex hexvalue hexstring hexnumber hexadecimal value input number data", true}},
		make:       makeHexDecimal,
	},
}

// Properties of the tools for units. The one whose name has wei in it is the one
// that such a tool may leave out: to_wei(amount, unit), from_wei(amount, unit).
const (
	amountNames = "amount value quantity number"
	fromNames   = "from fromunit unitfrom sourceunit source inputunit"
	toNames     = "to tounit unitto targetunit target outputunit"
)

// A coin is a unit of money of Ethereum: 10^places wei.
type coin struct {
	names     []string // in a prompt
	spellings []string // in an argument, the preferred one first
	places    int
	scales    []coinScale
}

// A coinScale is a range of amounts that are drawn with so many places.
type coinScale struct{ lo, hi, places int }

var (
	wei   = coin{spellings: []string{"wei"}}
	coins = []coin{
		{
			names: []string{"ETH", "ether"}, spellings: []string{"ether", "eth"}, places: 18,
			scales: []coinScale{{1, 9, 18}, {10, 90, 17}, {100, 900, 16}, {1000, 9000, 15}},
		},
		{
			names: []string{"gwei"}, spellings: []string{"gwei"}, places: 9,
			scales: []coinScale{{10_000_000, 900_000_000, 9}, {1_000_000_000, 9_000_000_000, 9}},
		},
	}
)

// amount draws an amount of a coin. It reports poor for one that a binary floating
// point number of 53 bits can hold: then nobody's short cut would show.
func (d *draw) amount(c coin) (n decimal, poor bool) {
	s := pick(d, c.scales)
	n = d.decimalBetween(s.lo, s.hi, s.places)
	u := uint64(n.units) //nolint:gosec // not negative
	return n, u == 0 || bits.Len64(u>>bits.TrailingZeros64(u)) <= 53
}

// wei returns n of a coin in wei. That is another number by powers of ten, so neither
// can be taken for the other.
func (c coin) wei(n decimal) string {
	return strconv.FormatInt(n.units, 10) + strings.Repeat("0", c.places-n.places)
}

// toWeiPhrasings ask for {x} {unit} in wei.
var toWeiPhrasings = []string{
	"Convert {x} {unit} to wei.",
	"How many wei are {x} {unit}?",
	"What is {x} {unit} in wei?",
	"Express {x} {unit} in wei.",
	"I have a figure of {x} {unit}. What is that in wei?",
}

// fromWeiPhrasings ask for {x} wei in {unit}.
var fromWeiPhrasings = []string{
	"Convert {x} wei to {unit}.",
	"How many {unit} is {x} wei?",
	"What is {x} wei in {unit}?",
	"Express {x} wei in {unit}.",
	"A log shows {x} wei. How much {unit} is that?",
}

// Both ask for all digits.
var (
	wholeDigits = []string{
		"I need the exact whole number, without scientific notation.",
		"Write out every digit.",
		"Give the exact integer with all its digits.",
		"All digits, no rounding and no exponent.",
	}
	decimalDigits = []string{
		"I need the exact value with all its digits.",
		"Write out every digit, without scientific notation.",
		"The exact decimal value, no rounding and no exponent.",
		"Do not round, and do not use an exponent.",
	}
)

func makeToWei(d *draw) puzzle {
	c := pick(d, coins)
	n, poor := d.amount(c)
	return puzzle{
		body:     fill(pick(d, toWeiPhrasings), "x", n.text(d.chance(2)), "unit", pick(d, c.names)),
		details:  [][]string{wholeDigits, numberAlone},
		expected: count(c.wei(n)),
		arguments: func() map[Role]any {
			return map[Role]any{roleAmount: n.String(), roleFrom: c.spellings, roleTo: wei.spellings}
		},
		poor: poor,
	}
}

func makeFromWei(d *draw) puzzle {
	c := pick(d, coins)
	n, poor := d.amount(c)
	text := c.wei(n)
	written := text
	if d.chance(2) {
		written = group3(text)
	}
	return puzzle{
		body:     fill(pick(d, fromWeiPhrasings), "x", written, "unit", pick(d, c.names)),
		details:  [][]string{decimalDigits, numberAlone},
		expected: Expected{Kind: Number, Value: n.String(), Exact: n.ratio().String()},
		arguments: func() map[Role]any {
			return map[Role]any{roleAmount: text, roleFrom: wei.spellings, roleTo: c.spellings}
		},
		poor: poor,
	}
}

// hexPhrasings ask for {h} in decimal.
var hexPhrasings = []string{
	"What is {h} in decimal?",
	"Convert {h} from hexadecimal to decimal.",
	"Write the hex number {h} as a decimal integer.",
	"Give me the decimal value of {h}.",
	"Which decimal number is {h}?",
}

func makeHexDecimal(d *draw) puzzle {
	const first, digits = "123456789abcdef", "0123456789abcdef"
	var b strings.Builder
	b.WriteByte(first[d.below(len(first))])
	for range d.between(14, 23) { // 57 bits and more, for the sake of floating point
		b.WriteByte(digits[d.below(len(digits))])
	}
	h := b.String()
	n, _ := new(big.Int).SetString(h, 16)
	poor := !strings.ContainsAny(h, "abcdef") || new(big.Int).Rsh(n, n.TrailingZeroBits()).BitLen() <= 53
	if d.chance(4) {
		h = strings.ToUpper(h)
	}
	h = "0x" + h
	return puzzle{
		body:      fill(pick(d, hexPhrasings), "h", h),
		details:   [][]string{wholeDigits, numberAlone},
		expected:  count(n.String()),
		arguments: func() map[Role]any { return map[Role]any{roleHex: h} },
		poor:      poor,
	}
}
