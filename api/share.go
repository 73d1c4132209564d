package api

import (
	"net/http"
	"strings"
)

// This file lets scripts of other sites read what is public (Fetch, section 3.2,
// "CORS protocol"). Nothing is told to one of them that is not told to everybody: no
// answer depends on a cookie. To write, a site needs the signature of an owner or a
// producer, and has no business to do so out of somebody's browser.

// exposed are the headers that such a script may see beside those that it always may.
const exposed = "Allow, Content-Disposition, Content-Length, ETag, " + headerSize + ", Link, " + headerLimit + ", " + headerPolicy + ", Retry-After, X-Request-Id"

// forPrograms reports whether programs are served at a path, and not people alone.
func forPrograms(path string) bool {
	return strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/ledger/")
}

// share opens reading to other sites and answers browsers that ask first.
func share(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Header.Get("Access-Control-Request-Method")
		switch {
		case !forPrograms(r.URL.Path):
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Expose-Headers", exposed)
		case r.Method == http.MethodOptions && asked != "" && r.Header.Get("Origin") != "":
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", "*")
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Headers", "Accept, If-None-Match, "+headerWait)
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
