package task

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// A ratio is an exact rational number. Two words hold it as long as they can, which
// is nearly always; what outgrows them is carried on by math/big, so nothing is ever
// rounded on the way. It is brought to lowest terms only to be written: numbers can
// be told apart without.
type ratio struct {
	num, den int64     // den > 0, and num is not the least of its type
	wide     *quotient // if set, the value; num and den are 0 then
}

// A quotient is a ratio of any size, with den > 0. It is not changed once a ratio
// holds it.
type quotient struct {
	num, den big.Int
	lowest   bool // in lowest terms for sure
}

func integer(n int) ratio { return ratio{num: int64(n), den: 1} }

// rational reads a constant of this package, such as "1.609344" or "9/5".
func rational(s string) ratio {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("task: not a number: " + s)
	}
	return ratioOf(r)
}

func ratioOf(r *big.Rat) ratio {
	if r.Num().IsInt64() && r.Denom().IsInt64() && r.Num().Int64() != math.MinInt64 {
		return ratio{num: r.Num().Int64(), den: r.Denom().Int64()}
	}
	f := new(quotient)
	f.num.Set(r.Num())
	f.den.Set(r.Denom())
	return ratio{wide: f}
}

// widened returns r as a quotient.
func (r ratio) widened() *quotient {
	if r.wide != nil {
		return r.wide
	}
	f := new(quotient)
	f.num.SetInt64(r.num)
	f.den.SetInt64(r.den)
	return f
}

// narrow reports whether words hold both a and b.
func narrow(a, b ratio) bool { return a.wide == nil && b.wide == nil }

// product returns a·b, and false if a word does not hold it.
func product(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n) //nolint:gosec // two's complement
	}
	return uint64(n)
}

func (r ratio) plus(s ratio) ratio {
	if narrow(r, s) {
		if r.den == s.den {
			if sum := r.num + s.num; magnitude(r.num)+magnitude(s.num) <= math.MaxInt64 {
				return ratio{num: sum, den: r.den}
			}
		}
		a, ok1 := product(r.num, s.den)
		b, ok2 := product(s.num, r.den)
		den, ok3 := product(r.den, s.den)
		if ok1 && ok2 && ok3 && magnitude(a)+magnitude(b) <= math.MaxInt64 {
			return ratio{num: a + b, den: den}
		}
	}
	x, y, z := r.widened(), s.widened(), new(quotient)
	z.num.Add(z.num.Mul(&x.num, &y.den), new(big.Int).Mul(&y.num, &x.den))
	z.den.Mul(&x.den, &y.den)
	return ratio{wide: z}
}

func (r ratio) minus(s ratio) ratio { return r.plus(s.negative()) }

func (r ratio) times(s ratio) ratio {
	if narrow(r, s) {
		num, ok1 := product(r.num, s.num)
		den, ok2 := product(r.den, s.den)
		if ok1 && ok2 {
			return ratio{num: num, den: den}
		}
	}
	x, y, z := r.widened(), s.widened(), new(quotient)
	z.num.Mul(&x.num, &y.num)
	z.den.Mul(&x.den, &y.den)
	return ratio{wide: z}
}

// over returns r divided by s, which is not zero.
func (r ratio) over(s ratio) ratio { return r.times(s.inverse()) }

// inverse returns 1/r for r that is not zero.
func (r ratio) inverse() ratio {
	switch {
	case r.wide != nil:
		z := &quotient{lowest: r.wide.lowest}
		z.num.Set(&r.wide.den)
		z.den.Set(&r.wide.num)
		if z.den.Sign() < 0 {
			z.den.Neg(&z.den)
			z.num.Neg(&z.num)
		}
		return ratio{wide: z}
	case r.num < 0:
		return ratio{num: -r.den, den: -r.num}
	}
	return ratio{num: r.den, den: r.num}
}

func (r ratio) negative() ratio {
	if r.wide == nil {
		return ratio{num: -r.num, den: r.den}
	}
	z := &quotient{lowest: r.wide.lowest}
	z.num.Neg(&r.wide.num)
	z.den.Set(&r.wide.den)
	return ratio{wide: z}
}

func (r ratio) sign() int {
	switch {
	case r.wide != nil:
		return r.wide.num.Sign()
	case r.num < 0:
		return -1
	case r.num > 0:
		return 1
	}
	return 0
}

// size returns r without its sign.
func (r ratio) size() ratio {
	if r.sign() < 0 {
		return r.negative()
	}
	return r
}

// percent returns r in per cent.
func (r ratio) percent() ratio { return r.times(integer(100)) }

// compare returns -1, 0 or 1 as r is below, equal to or above s.
func (r ratio) compare(s ratio) int {
	switch a, b := r.sign(), s.sign(); {
	case a != b:
		return cmp.Compare(a, b)
	case a < 0:
		return s.negative().compare(r.negative())
	}
	if narrow(r, s) {
		hi1, lo1 := bits.Mul64(magnitude(r.num), magnitude(s.den))
		hi2, lo2 := bits.Mul64(magnitude(s.num), magnitude(r.den))
		return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
	}
	x, y := r.widened(), s.widened()
	return new(big.Int).Mul(&x.num, &y.den).Cmp(new(big.Int).Mul(&y.num, &x.den))
}

// less reports whether r is below s.
func (r ratio) less(s ratio) bool { return r.compare(s) < 0 }

// lowest returns r in lowest terms.
func (r ratio) lowest() ratio {
	if r.wide == nil {
		a, b := magnitude(r.num), uint64(r.den) //nolint:gosec // above 0
		for b != 0 {
			a, b = b, a%b
		}
		return ratio{num: r.num / int64(a), den: r.den / int64(a)}
	}
	if r.wide.lowest {
		return r
	}
	z := &quotient{lowest: true}
	common := new(big.Int).GCD(nil, nil, new(big.Int).Abs(&r.wide.num), &r.wide.den)
	z.num.Quo(&r.wide.num, common)
	z.den.Quo(&r.wide.den, common)
	return ratio{wide: z}
}

// part returns 1/n of r for a word n > 0. It leaves lowest terms what they are: only
// n can have a divisor in common with the numerator then.
func (r ratio) part(n int64) ratio {
	if r.wide == nil || !r.wide.lowest {
		return r.over(ratio{num: n, den: 1})
	}
	common := new(big.Int).Rem(&r.wide.num, big.NewInt(n))
	common.GCD(nil, nil, common.Abs(common), big.NewInt(n))
	z := &quotient{lowest: true}
	z.num.Quo(&r.wide.num, common)
	z.den.Mul(&r.wide.den, common.Quo(big.NewInt(n), common))
	return ratio{wide: z}
}

// String writes r in lowest terms, as "-63/5" or "42".
func (r ratio) String() string {
	r = r.lowest()
	var b []byte
	if r.wide == nil {
		b = strconv.AppendInt(b, r.num, 10)
		if r.den != 1 {
			b = strconv.AppendInt(append(b, '/'), r.den, 10)
		}
		return string(b)
	}
	b = r.wide.num.Append(b, 10)
	if !r.wide.den.IsInt64() || r.wide.den.Int64() != 1 {
		b = r.wide.den.Append(append(b, '/'), 10)
	}
	return string(b)
}

// rounded writes r with so many decimals, halves away from zero.
func (r ratio) rounded(places int) string {
	sign := ""
	if r.sign() < 0 {
		sign = "-"
	}
	if r.wide == nil && places < len(powers) {
		den := uint64(r.den)                                                          //nolint:gosec // above 0
		if hi, lo := bits.Mul64(magnitude(r.num), uint64(powers[places])); hi < den { //nolint:gosec // above 0
			units, rest := bits.Div64(hi, lo, den)
			if rest >= den-rest {
				units++
			}
			return pointed(sign, strconv.FormatUint(units, 10), places)
		}
	}
	f := r.size().times(power10(places)).widened()
	units, rest := new(big.Int).QuoRem(&f.num, &f.den, new(big.Int))
	if rest.Lsh(rest, 1).Cmp(&f.den) >= 0 {
		units.Add(units, big.NewInt(1))
	}
	return pointed(sign, units.String(), places)
}

// pointed puts a point before the last so many digits.
func pointed(sign, digits string, places int) string {
	if places == 0 {
		return sign + digits
	}
	if short := places + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	point := len(digits) - places
	return sign + digits[:point] + "." + digits[point:]
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
func power10(n int) ratio {
	if n < len(powers) {
		return ratio{num: powers[n], den: 1}
	}
	f := new(quotient)
	f.num.Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	f.den.SetInt64(1)
	return ratio{wide: f}
}

// maxFraction bounds the fractions of an Expected. The longest ones of the
// catalogue, those of compound interest, have some hundred bytes.
const maxFraction = 4096

// readRatio reads what String writes, and whatever else math/big takes for a
// fraction or a decimal in plain digits.
func readRatio(s string) (ratio, bool) {
	if len(s) > maxFraction {
		return ratio{}, false
	}
	above, below, found := strings.Cut(s, "/")
	if !found {
		below = "1"
	}
	if isCount(strings.TrimPrefix(above, "-")) && isCount(below) {
		if len(above) < len(powers) && len(below) < len(powers) {
			num, _ := strconv.ParseInt(above, 10, 64)
			den, _ := strconv.ParseInt(below, 10, 64)
			return ratio{num: num, den: den}, true
		}
		f := new(quotient)
		f.num.SetString(above, 10)
		f.den.SetString(below, 10)
		return ratio{wide: f}, true
	}
	if strings.ContainsAny(s, "eEpPxX_") {
		return ratio{}, false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return ratio{}, false
	}
	return ratioOf(r), true
}

// isCount reports whether s is a number from 1 on in decimal digits, with no zero
// before it.
func isCount(s string) bool {
	if s == "" || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// tolerance is how far a number may be off: half a unit of the last decimal
// asked for, or 0.2 %, whichever is larger.
func tolerance(exact ratio, decimals int) ratio {
	half := power10(decimals).times(integer(2)).inverse()
	share := exact.size().part(500)
	if half.less(share) {
		return share
	}
	return half
}

// An aim is an exact value and how far from it is near enough.
type aim struct {
	exact, margin ratio
	at, reach     float64 // the same, roughly
}

func aimAt(exact, margin ratio) *aim { return &aim{exact, margin, exact.roughly(), margin.roughly()} }

// near reports whether r is at most so many margins from a. Most are so far from it
// that floating point tells, with a thousandth to spare; the others are compared
// exactly.
func (a *aim) near(r ratio, times int) bool {
	x, m := r.roughly(), a.reach*float64(times)
	if d := math.Abs(x - a.at); d > m*1.001+(math.Abs(x)+math.Abs(a.at))*1e-12 && d < math.MaxFloat64 {
		return false
	}
	return !a.margin.times(integer(times)).less(r.minus(a.exact).size())
}

// nearAny reports whether one of list is at most so many margins from a.
func (a *aim) nearAny(list []ratio, times int) bool {
	return slices.ContainsFunc(list, func(r ratio) bool { return a.near(r, times) })
}

// roughly returns r with a relative error below 10^-15, or no number at all.
func (r ratio) roughly() float64 {
	if r.wide == nil {
		return float64(r.num) / float64(r.den)
	}
	n, _ := r.wide.num.Float64()
	d, _ := r.wide.den.Float64()
	return n / d
}
