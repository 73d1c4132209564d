package explorer

import (
	"net/http"
	"strconv"
	"strings"
)

// Wanted reports whether who asks would rather read a page than JSON, by the
// header Accept (RFC 9110, section 12.5.1). A browser names text/html; a program
// that takes anything does not, and gets JSON.
func Wanted(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	html := max(quality(accept, "text/html"), quality(accept, "application/xhtml+xml"))
	return html > 0 && html >= quality(accept, "application/json")
}

// jsonWanted reports whether who asks for a page would rather have JSON: it says so in
// the query, or names JSON and names a page lower or not at all.
func jsonWanted(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	json := quality(accept, "application/json")
	return json > max(quality(accept, "text/html"), quality(accept, "application/xhtml+xml"))
}

// quality returns the weight in thousandths that a header gives to a media type
// by its name, 0 if it does not name it. Wildcards name nothing.
func quality(accept, media string) int {
	for item := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), media) {
			continue
		}
		return weight(parameters)
	}
	return 0
}

// weight returns the q of the parameters of a media range in thousandths. One that
// cannot be read counts as 0.
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
