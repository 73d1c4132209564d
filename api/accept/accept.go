// Package accept reads what clients would rather have: Accept, Accept-Encoding and the
// like (RFC 9110, section 12.4). Wildcards name nothing here: who names nothing gets what
// everybody gets. What cannot be read counts as not wanted, and is no error.
package accept

import (
	"net/http"
	"strconv"
	"strings"
)

// Weight returns the weight in thousandths that a header gives to a value by its name,
// 0 if it does not name it.
func Weight(h http.Header, header, name string) int {
	for item := range strings.SplitSeq(strings.Join(h.Values(header), ","), ",") {
		value, parameters, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(value), name) {
			return weight(parameters)
		}
	}
	return 0
}

// Names returns what a header names with a weight above 0, in its order and without
// parameters.
func Names(h http.Header, header string) (names []string) {
	for item := range strings.SplitSeq(strings.Join(h.Values(header), ","), ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if name = strings.TrimSpace(name); name != "" && weight(parameters) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// weight returns the q of the parameters of an item in thousandths. One that cannot be
// read counts as 0.
func weight(parameters string) int {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) { // NaN is no weight either
			return 0
		}
		return int(q * 1000)
	}
	return 1000
}
