package node

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// secrets returns the parts of u that must appear in no text: the password, and
// all that is long enough to be a key in user, path and query.
func secrets(u *url.URL) []string {
	parts := append(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")...)
	parts = append(parts, u.RawQuery, u.User.Username())
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return len(s) < 8 })
	if password, _ := u.User.Password(); password != "" {
		parts = append(parts, password)
	}
	return parts
}

// printable makes what a node said fit for a sentence: one line, at most 200
// characters.
func printable(s string) string {
	const most = 200
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// limited cuts answers off at maxAnswer, so that no node can fill our memory. One
// that was cut off is no JSON any more.
type limited struct{ next http.RoundTripper }

// maxAnswer is far above the code of a contract, which is the longest thing asked
// for: 24 KiB (EIP-170), twice that in hex.
const maxAnswer = 1 << 20

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}
