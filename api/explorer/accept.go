package explorer

import (
	"net/http"

	"github.com/karatum/mystery/api/accept"
)

// Wanted reports whether who asks would rather read a page than JSON, by the
// header Accept (RFC 9110, section 12.5.1). A browser names text/html; a program
// that takes anything does not, and gets JSON.
func Wanted(r *http.Request) bool {
	html := pageWeight(r)
	return html > 0 && html >= accept.Weight(r.Header, "Accept", "application/json")
}

// jsonWanted reports whether who asks for a page would rather have JSON: it says so in
// the query, or names JSON and names a page lower or not at all.
func jsonWanted(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	return accept.Weight(r.Header, "Accept", "application/json") > pageWeight(r)
}

func pageWeight(r *http.Request) int {
	return max(accept.Weight(r.Header, "Accept", "text/html"), accept.Weight(r.Header, "Accept", "application/xhtml+xml"))
}
