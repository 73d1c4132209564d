package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/api/accept"
)

// This file is how answers below /v1 travel: with an entity tag, not at all to who has
// them already, and compressed.
//
// A tag is a hash of the body and so says nothing that the body did not. It is weak, as
// it is the same for a body that travels compressed (RFC 9110, section 8.8.1).

const (
	maxTagged     = 1 << 20 // longer answers go out as they are made, without a tag
	minCompressed = 1 << 10 // less fits a packet as it is
)

// tag gives what is answered to a GET or HEAD below /v1 its tag, or answers with 304
// where the client has it.
func tag(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Accept-Encoding")
		a := &answer{ResponseWriter: w, r: r, out: w}
		next.ServeHTTP(a, r)
		a.end()
	})
}

// An answer is kept until its handler returns, or it is known to have no tag. If the
// handler panics before, nothing of it was sent.
type answer struct {
	http.ResponseWriter

	r      *http.Request
	status int // 0: not known
	body   bytes.Buffer
	sent   bool      // the header is out, and what follows goes to out
	out    io.Writer // the client, perhaps through zip
	zip    *gzip.Writer
}

// Unwrap lets [http.ResponseController] set deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		a.ResponseWriter.WriteHeader(status) // informational: another one follows
	case a.status == 0:
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.sent && a.body.Len()+len(p) <= maxTagged {
		return a.body.Write(p)
	}
	if err := a.send(false); err != nil {
		return 0, err
	}
	return a.out.Write(p)
}

// FlushError sends what there is so far, which then has no tag.
func (a *answer) FlushError() error {
	if err := a.send(false); err != nil {
		return err
	}
	if a.zip != nil {
		if err := a.zip.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// send begins to send, once. An answer that is whole and short is not compressed.
func (a *answer) send(whole bool) error {
	if a.sent {
		return nil
	}
	a.WriteHeader(http.StatusOK)
	a.sent = true
	if a.r.Method == http.MethodHead {
		a.out = io.Discard
	}
	if accept.Weight(a.r.Header, "Accept-Encoding", "gzip") > 0 && (!whole || a.body.Len() >= minCompressed) {
		a.compress()
	}
	a.ResponseWriter.WriteHeader(a.status)
	_, err := a.out.Write(a.body.Bytes())
	return err
}

var zips = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a level that there is
	return z
}}

// compress puts a compressor before the client.
func (a *answer) compress() {
	a.Header().Del("Content-Length")
	a.Header().Set("Content-Encoding", "gzip")
	a.zip, _ = zips.Get().(*gzip.Writer)
	a.zip.Reset(a.out)
	a.out = a.zip
}

// end sends what is still kept. That a client is gone by now is no matter.
func (a *answer) end() {
	if !a.sent {
		a.WriteHeader(http.StatusOK)
		if a.status == http.StatusOK && a.known() {
			// These describe a body, which a 304 has not (RFC 9110, section 15.4.5).
			a.Header().Del("Content-Type")
			a.Header().Del("Content-Length")
			a.ResponseWriter.WriteHeader(http.StatusNotModified)
			return
		}
		if n := a.body.Len(); n > 0 {
			a.Header().Set("Content-Length", strconv.Itoa(n))
		}
		_ = a.send(true)
	}
	if a.zip != nil {
		_ = a.zip.Close()
		zips.Put(a.zip)
	}
}

// known tags an answer that is whole and reports whether the client has it.
func (a *answer) known() bool {
	sum := sha256.Sum256(a.body.Bytes())
	etag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
	a.Header().Set("ETag", etag)
	return matches(a.r.Header.Values("If-None-Match"), etag)
}

// matches reports whether lines of If-None-Match name a tag by the weak comparison, or
// any (RFC 9110, sections 8.8.3 and 13.1.2). What follows a malformed item is not read.
func matches(lines []string, etag string) bool {
	opaque := strings.TrimPrefix(etag, "W/")
	for _, line := range lines {
		if strings.Trim(line, " \t") == "*" {
			return true
		}
		for {
			line = strings.TrimLeft(line, " \t,")
			item, ok := firstTag(strings.TrimPrefix(line, "W/"))
			if !ok {
				break
			}
			if item == opaque {
				return true
			}
			line = strings.TrimPrefix(line, "W/")[len(item):]
		}
	}
	return false
}

// firstTag returns the opaque tag that a text begins with. Commas may stand in it.
func firstTag(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", false
	}
	end := strings.IndexByte(text[1:], '"')
	if end < 0 {
		return "", false
	}
	return text[:end+2], true
}

// describeAnswers adds to the document what is true of every answer to a GET.
func describeAnswers(doc *huma.OpenAPI) {
	text := &huma.Schema{Type: huma.TypeString}
	etag := &huma.Header{Schema: text, Description: "Send it back as If-None-Match, and an answer that is still the same is 304. Absent on answers of more than 1 MiB.", Example: `W/"5feceb66ffc86f38d952786c6d696c79"`}
	limits := limitHeaders("read-address", "q=3000;w=60", "r=2999;t=70")
	for _, path := range doc.Paths {
		if path.Get == nil {
			continue
		}
		path.Get.Responses["304"] = &huma.Response{Description: "Not Modified"}
		for _, status := range []string{"200", "304"} {
			r := path.Get.Responses[status]
			if r.Headers == nil {
				r.Headers = make(map[string]*huma.Header)
			}
			r.Headers["ETag"] = etag
			maps.Copy(r.Headers, limits)
		}
	}
}
