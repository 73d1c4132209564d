package task

import "strconv"

// Reckon does with fractions as they are written what the templates do with numbers.
func Reckon(a, b string) (results map[string]string, ok bool) {
	r, ok1 := readRatio(a)
	s, ok2 := readRatio(b)
	if !ok1 || !ok2 {
		return nil, false
	}
	results = map[string]string{
		"plus": r.plus(s).String(), "minus": r.minus(s).String(), "times": r.times(s).String(), "size": r.size().String(),
		"rounded 0": r.rounded(0), "rounded 2": r.rounded(2), "rounded 25": r.rounded(25), "part": r.lowest().part(500).String(),
		"order": strconv.Itoa(r.compare(s)), "near": strconv.FormatBool(aimAt(s, integer(1)).near(r, 3)),
	}
	if s.sign() != 0 {
		results["over"] = r.over(s).String()
	}
	return results, true
}
