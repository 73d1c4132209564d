package assembly

import (
	"net/http"
	"time"
)

// Server returns an HTTP server for h with the timeouts that a public listener
// needs against slow clients.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           unambiguous(h),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}

// unambiguous ends a connection behind a request whose body came in chunks. If there was
// a Content-Length as well, net/http has dropped it without a word, and a proxy before us
// may have gone by that: then what follows is what somebody hid in the body, and no
// request (RFC 9112, section 6.1).
func unambiguous(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
