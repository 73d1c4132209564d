package task

import (
	"math/big"
	"strconv"
	"strings"
)

// A decimal is a parameter of a question: units · 10^-places, without trailing
// zeros behind the point. It is an integer and a scale, so nothing is ever
// rounded on the way in.
type decimal struct {
	units  int64
	places int
}

// decimalBetween draws a decimal with at most the given places, from lo to hi.
func (d *draw) decimalBetween(lo, hi, places int) decimal {
	scale := 1
	for range places {
		scale *= 10
	}
	n := decimal{int64(d.between(lo*scale, hi*scale)), places}
	for n.places > 0 && n.units%10 == 0 {
		n.units, n.places = n.units/10, n.places-1
	}
	return n
}

func (n decimal) rat() *big.Rat {
	r := new(big.Rat).SetInt64(n.units)
	return r.Quo(r, power10(n.places))
}

// String writes n plainly, such as "-40.5".
func (n decimal) String() string { return n.rat().FloatString(n.places) }

// text writes n as people do, with commas between thousands if asked for.
func (n decimal) text(grouped bool) string {
	s := n.String()
	if !grouped {
		return s
	}
	sign, digits := "", s
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}

// power10 returns 10^n for n >= 0.
func power10(n int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// rational reads a constant of this package, such as "1.609344" or "9/5".
func rational(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("task: not a number: " + s)
	}
	return r
}

func percent(r *big.Rat) *big.Rat { return new(big.Rat).Mul(r, big.NewRat(100, 1)) }

func distance(a, b *big.Rat) *big.Rat {
	d := new(big.Rat).Sub(a, b)
	return d.Abs(d)
}

// tolerance is how far a number may be off: half a unit of the last decimal
// asked for, or 0.2 %, whichever is larger.
func tolerance(exact *big.Rat, decimals int) *big.Rat {
	half := new(big.Rat).Quo(big.NewRat(1, 2), power10(decimals))
	share := new(big.Rat).Mul(exact, big.NewRat(2, 1000))
	share.Abs(share)
	if share.Cmp(half) > 0 {
		return share
	}
	return half
}

// substantial reports whether a written answer is hard to hit by accident: three
// significant digits or more, and no whole number under 100.
func substantial(s string) bool {
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(s), "0")
	if len(digits) < 3 {
		return false
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if strings.Trim(fraction, "0") != "" {
		return true
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return err != nil || n >= 100
}
