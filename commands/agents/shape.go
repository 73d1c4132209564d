package agents

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain/identity"
)

// A shaped connection writes each request head as the sender's software does.
// net/http writes heads in an order and a spelling of its own, by which a server
// tells it from every other client; all else about it, pooling and timeouts and
// the reading of answers, is left as it is.
//
// It relies on what [Net.Line] sets up: HTTP/1.1, one request at a time on a
// connection, and a write buffer that takes a whole head, so that the first write
// of a request holds all of it.
type shaped struct {
	net.Conn
	sender *Sender
	mcp    bool
	body   int64 // bytes of the request's body that are still to be written
}

// Write writes what net/http wrote, with its head, if it begins with one, put in
// order. Head and body leave in one write if they came in one.
func (c *shaped) Write(p []byte) (int, error) {
	if c.body > 0 {
		n, err := c.Conn.Write(p)
		c.body -= int64(n)
		return n, err
	}
	head, rest, ok := bytes.Cut(p, []byte("\r\n\r\n"))
	if !ok {
		return 0, errHead
	}
	lines := strings.Split(string(head), "\r\n")
	length, err := contentLength(lines[1:])
	if err != nil {
		return 0, err
	}
	out := c.sender.order(lines, c.mcp)
	n, err := c.Conn.Write(append(out, rest...))
	if err != nil {
		// How much of a head in another order was written cannot be told, and a
		// connection that failed carries nothing more.
		return 0, err
	}
	c.body = length - int64(n-len(out))
	return len(p), nil
}

var errHead = errors.New("the head of the request is too large or has no length")

// contentLength returns the length of the body that follows a head.
func contentLength(fields []string) (int64, error) {
	var length int64
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		switch {
		case strings.EqualFold(name, "Transfer-Encoding"):
			return 0, errHead // whose body's end would have to be looked for
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return 0, errHead
			}
			length = n
		}
	}
	return length, nil
}

// ordered reports whether the sender has an order for its heads. The exam harness
// and the crawler have none, as they need not look like anything else.
func (s *Sender) ordered() bool { return slices.Contains(s.HeaderOrder, identity.CallerHeaders) }

// order returns the head in lines, its request line first, as the sender's
// software writes it. What the order does not name stands in the place of
// [identity.CallerHeaders].
func (s *Sender) order(lines []string, mcp bool) []byte {
	request, fields := lines[0], lines[1:]
	order := s.HeaderOrder
	if mcp && len(s.MCPOrder) > 0 {
		order = s.MCPOrder
	}
	if mcp && len(s.StreamOrder) > 0 && strings.HasPrefix(request, http.MethodGet+" ") {
		order = s.StreamOrder
	}
	out := []byte(request + "\r\n")
	for _, name := range order {
		for _, f := range fields {
			field, value, _ := strings.Cut(f, ": ")
			if strings.EqualFold(field, name) {
				out = append(out, name+": "+value+"\r\n"...)
			} else if name == identity.CallerHeaders && !names(order, field) {
				out = append(out, f+"\r\n"...)
			}
		}
	}
	return append(out, "\r\n"...)
}

func names(order []string, field string) bool {
	return slices.ContainsFunc(order, func(name string) bool { return strings.EqualFold(name, field) })
}
