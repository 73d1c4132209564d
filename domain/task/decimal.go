package task

import (
	"math"
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
	if n.places == 0 {
		return new(big.Rat).SetInt64(n.units)
	}
	return big.NewRat(n.units, powers[n.places])
}

// String writes n plainly, such as "-40.5".
func (n decimal) String() string {
	s := strconv.FormatInt(n.units, 10)
	if n.places == 0 {
		return s
	}
	sign := ""
	if n.units < 0 {
		sign, s = "-", s[1:]
	}
	if short := n.places + 1 - len(s); short > 0 {
		s = strings.Repeat("0", short) + s
	}
	point := len(s) - n.places
	return sign + s[:point] + "." + s[point:]
}

// text writes n as people do, with commas between thousands if asked for.
func (n decimal) text(grouped bool) string {
	s := n.String()
	if !grouped {
		return s
	}
	return group3(s)
}

// group3 puts commas between the thousands of a plain number.
func group3(s string) string {
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

// powers of ten that a word holds.
var powers = func() (list [19]int64) {
	list[0] = 1
	for i := range len(list) - 1 {
		list[i+1] = 10 * list[i]
	}
	return list
}()

// power10 returns 10^n for n >= 0.
func power10(n int) *big.Rat {
	if n < len(powers) {
		return new(big.Rat).SetInt64(powers[n])
	}
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// integer returns n, as a rational.
func integer(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }

// rational reads a constant of this package, such as "1.609344" or "9/5".
func rational(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("task: not a number: " + s)
	}
	return r
}

func percent(r *big.Rat) *big.Rat { return new(big.Rat).Mul(r, integer(100)) }

func distance(a, b *big.Rat) *big.Rat {
	d := new(big.Rat).Sub(a, b)
	return d.Abs(d)
}

// perMille2 is 0.2 %.
var perMille2 = big.NewRat(2, 1000)

// tolerance is how far a number may be off: half a unit of the last decimal
// asked for, or 0.2 %, whichever is larger.
func tolerance(exact *big.Rat, decimals int) *big.Rat {
	half := power10(decimals)
	half.Inv(half.Add(half, half))
	share := new(big.Rat).Mul(exact, perMille2)
	share.Abs(share)
	if share.Cmp(half) > 0 {
		return share
	}
	return half
}

// within reports whether a and b are at most so many margins apart. Most are so far
// apart that floating point tells, with a thousandth to spare; the others are
// compared exactly.
func within(a, b, margin *big.Rat, times int) bool {
	x, y, m := roughly(a), roughly(b), roughly(margin)*float64(times)
	if d := math.Abs(x - y); d > m*1.001+(math.Abs(x)+math.Abs(y))*1e-12 && d < math.MaxFloat64 {
		return false
	}
	return distance(a, b).Cmp(new(big.Rat).Mul(margin, integer(times))) <= 0
}

// roughly returns r with a relative error below 10^-15, or no number at all.
func roughly(r *big.Rat) float64 {
	n, _ := r.Num().Float64()
	d, _ := r.Denom().Float64()
	return n / d
}

// substantial reports whether a written answer is hard to hit by accident: three
// significant digits or more, and no whole number under 100.
func substantial(s string) bool {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	digits := len(strings.TrimLeft(whole, "0")) + len(fraction)
	if strings.Trim(whole, "0") == "" {
		digits = len(strings.TrimLeft(fraction, "0"))
	}
	if digits < 3 {
		return false
	}
	if strings.Trim(fraction, "0") != "" {
		return true
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return err != nil || n >= 100
}
