package task

import (
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

func (n decimal) ratio() ratio { return ratio{num: n.units, den: powers[n.places]} }

// String writes n plainly, such as "-40.5".
func (n decimal) String() string {
	sign := ""
	if n.units < 0 {
		sign = "-"
	}
	return pointed(sign, strconv.FormatUint(magnitude(n.units), 10), n.places)
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
	point := strings.IndexByte(s, '.')
	if point < 0 {
		point = len(s)
	}
	grouped := make([]byte, 0, len(s)+len(s)/3)
	for i := range len(s) {
		if left := point - i; i > 0 && left > 0 && left%3 == 0 && s[i-1] != '-' {
			grouped = append(grouped, ',')
		}
		grouped = append(grouped, s[i])
	}
	return string(grouped)
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
