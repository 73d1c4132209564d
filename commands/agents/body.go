package agents

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

// Limits of bodies, on the wire and decoded alike.
const (
	// MaxCard is the limit of an agent card.
	MaxCard = 1 << 20

	maxReply  = 2 << 20
	maxEvent  = 1 << 20
	maxStream = 4 << 20
)

var (
	errTooLarge = errors.New("the answer exceeds the limit")
	errEncoding = errors.New("the answer is not encoded as it says")
)

// capped reads at most left bytes and then fails, where an io.LimitReader would
// pass off the beginning as the whole.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// Only a byte more than allowed is too many.
		n, err := c.r.Read(make([]byte, 1))
		if n > 0 {
			return 0, errTooLarge
		}
		return 0, err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// decode returns the body of res without its content encoding, limited before
// and after: 200 MiB of zeros are 200 KB on the wire.
func decode(res *http.Response, limit int64) (io.Reader, error) {
	wire := &capped{res.Body, limit}
	r, err := decoder(strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))), wire, takesBrotli(res.Request))
	if err != nil {
		return nil, err
	}
	return &capped{r, limit}, nil
}

// takesBrotli reports whether a request says that it takes br. Servers send gzip
// and deflate unasked, and every client takes those; br they do not.
func takesBrotli(req *http.Request) bool {
	if req == nil {
		return false
	}
	takes := strings.Split(req.Header.Get("Accept-Encoding"), ",")
	return slices.ContainsFunc(takes, func(e string) bool { return strings.TrimSpace(e) == "br" })
}

func decoder(encoding string, wire io.Reader, br bool) (io.Reader, error) {
	switch encoding {
	case "", "identity":
		return wire, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(wire)
		if err != nil {
			return nil, encodingError(err)
		}
		return checked{z}, nil
	case "deflate": // zlib by RFC 9110, section 8.4.1.2, and bare deflate all the same
		b := bufio.NewReader(wire)
		if h, _ := b.Peek(2); len(h) < 2 || h[0]&0x0f != 8 || (uint(h[0])<<8|uint(h[1]))%31 != 0 {
			return checked{flate.NewReader(b)}, nil
		}
		z, err := zlib.NewReader(b)
		if err != nil {
			return nil, encodingError(err)
		}
		return checked{z}, nil
	case "br":
		if br {
			return unbrotli{brotli.NewReader(wire)}, nil
		}
	}
	return nil, fmt.Errorf("%w: %q was not asked for", errEncoding, encoding)
}

// encodingError tells an error of the decoder from one of the reader below it.
func encodingError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrHeader) ||
		errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", errEncoding, err)
	}
	return err
}

// unbrotli marks the errors of the brotli decoder, whose type is not exported:
// those that are neither the reader's below it nor the end.
type unbrotli struct{ r io.Reader }

func (u unbrotli) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err != nil && strings.HasPrefix(err.Error(), "brotli: ") {
		err = fmt.Errorf("%w: %w", errEncoding, err)
	}
	return n, err
}

// checked marks the errors of a decoder.
type checked struct{ r io.Reader }

func (c checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = encodingError(err)
	}
	return n, err
}

// readAll returns the whole decoded body of res, or an error if it is longer
// than limit on the wire or decoded.
func readAll(res *http.Response, limit int64) ([]byte, error) {
	r, err := decode(res, limit)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// events reads a text/event-stream body.
type events struct {
	lines *bufio.Scanner
	err   error // of the content encoding
}

func newEvents(res *http.Response) *events {
	r, err := decode(res, maxStream)
	if err != nil {
		return &events{err: err}
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxEvent)
	return &events{lines: s}
}

// next returns the next event that has data, or io.EOF. An event that the stream
// ends in the middle of counts, as servers forget the last empty line.
func (e *events) next() (name string, data []byte, err error) {
	if e.err != nil {
		return "", nil, e.err
	}
	has := false
	for e.lines.Scan() {
		line := bytes.TrimSuffix(bytes.TrimPrefix(e.lines.Bytes(), bom), []byte("\r"))
		if len(line) == 0 {
			if has {
				return name, data, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if has {
				data = append(data, '\n')
			}
			if len(data)+len(value) > maxEvent {
				return "", nil, errTooLarge
			}
			data, has = append(data, value...), true
		}
	}
	switch err := e.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", nil, errTooLarge
	case err != nil:
		return "", nil, err
	case has:
		return name, data, nil
	}
	return "", nil, io.EOF
}
