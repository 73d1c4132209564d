package api

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections"
)

// This file says of every answer below /v1 as of when it is, and lets who has written
// read what was written.
//
// Both count public records and nothing else, so neither says whether a task was sent. A
// write is answered with how many there are behind it, sealed ones left out; who reads
// with that number waits until that many are in what is read, however the requests
// travel and whichever process answers them.

const (
	headerSize = "Ledger-Size"
	headerWait = "Ledger-Wait"
	queryWait  = "wait"
)

// A wait ends after maxWait. Meanwhile it is looked for the records now and then, less
// and less often, for who waits may be many.
const (
	maxWait    = 5 * time.Second
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// maxReadings is how often an answer is made anew because something was recorded
// meanwhile.
const maxReadings = 3

// asOf gives an answer below /v1 its size. It is made between two looks at the read
// models, and again if they have changed in between: so its parts belong together, and
// no transaction is held. Where too much is recorded for that, the size is the one from
// before, and the answer may hold more.
//
// What is answered from the public log itself is as of a checkpoint, and says so itself.
func (s *server) asOf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !reads || !strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, root+"/openapi") {
			next.ServeHTTP(w, r)
			return
		}
		r, err := s.awaited(r)
		if err != nil {
			if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			s.refuseReading(w, r, err)
			return
		}
		if ofLog(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		p, err := s.reading(w, r, next)
		if err != nil {
			s.refuseReading(w, r, err)
			return
		}
		maps.Copy(w.Header(), p.header)
		w.WriteHeader(p.status)
		_, _ = w.Write(p.body.Bytes()) // the client may be gone
	})
}

// reading makes an answer whose parts belong together.
func (s *server) reading(w http.ResponseWriter, r *http.Request, next http.Handler) (*page, error) {
	before, err := s.lookout.AsOf(r.Context())
	if err != nil {
		return nil, err
	}
	keeps := s.keeps(r)
	if keeps {
		if k, ok := s.kept.Get(r.URL.Path); ok && k.asOf == before {
			return k.page(), nil
		}
	}
	for n := 1; ; n++ {
		p := &page{header: w.Header().Clone()}
		next.ServeHTTP(p, r)
		p.header.Set(headerSize, strconv.FormatUint(before.Size, 10))
		after, err := s.lookout.AsOf(r.Context())
		if err == nil && after == before && keeps && p.status == http.StatusOK && p.body.Len() <= maxTagged {
			s.kept.Add(r.URL.Path, kept{before, p.header.Get("Content-Type"), p.body.Bytes()})
		}
		if err != nil || after == before || n == maxReadings {
			return p, err
		}
		before = after
	}
}

// maxKept is how many answers are kept, of 1 MiB at most.
const maxKept = 64

// A kept answer is one that was made before, of the state that the read models are in.
type kept struct {
	asOf  projections.AsOf
	media string
	body  []byte
}

func (k *kept) page() *page {
	p := &page{header: make(http.Header, 2), status: http.StatusOK, body: *bytes.NewBuffer(k.body)}
	p.header.Set("Content-Type", k.media)
	p.header.Set(headerSize, strconv.FormatUint(k.asOf.Size, 10))
	return p
}

// keeps reports whether the answer to a request is kept: that of the programme, and that
// of a consent, which many ask for. They follow from the read models alone, and from the
// texts of owners beside them, which are there before the record and never go.
func (s *server) keeps(r *http.Request) bool {
	id, consent := strings.CutPrefix(r.URL.Path, root+"/consents/")
	return r.URL.RawQuery == "" && (r.URL.Path == root || consent && consentID.MatchString(id))
}

// ofLog reports whether a path is answered from the public log.
func ofLog(path string) bool {
	rest, ok := strings.CutPrefix(path, ledgerRoot)
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "", "records", "streams", "proofs", "bundle":
		return ok
	}
	return false
}

// size returns how many public records a path can be answered from.
func (s *server) size(ctx context.Context, path string) (uint64, error) {
	if !ofLog(path) {
		a, err := s.lookout.AsOf(ctx)
		return a.Size, err
	}
	h, err := s.Ledger.Head(ctx)
	if errors.Is(err, domain.ErrNotFound) {
		return 0, nil // no checkpoint yet
	}
	return h.Size, err
}

// sizeText is a size as clients write it: below 10^15, and so below 2^53.
var sizeText = regexp.MustCompile(`^[0-9]{1,15}$`)

// awaited waits until a request can be answered from as many records as it asks for, and
// returns it without that wish.
func (s *server) awaited(r *http.Request) (*http.Request, error) {
	wish := r.Header.Get(headerWait)
	if q := r.URL.Query(); q.Has(queryWait) {
		wish = q.Get(queryWait)
		q.Del(queryWait)
		r = withQuery(r, q)
	} else if wish == "" {
		return r, nil
	}
	ctx := r.Context()
	if !sizeText.MatchString(wish) {
		return r, newProblem(ctx, http.StatusUnprocessableEntity, "what is waited for is a number of records; take it from the header "+headerSize+" of a write")
	}
	want, err := strconv.ParseUint(wish, 10, 64)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		size, err := s.size(ctx, r.URL.Path)
		switch {
		case ctx.Err() != nil:
		case err != nil || size >= want:
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, newProblem(r.Context(), http.StatusServiceUnavailable, "the records that were waited for are not here yet; ask again in a moment")
		case <-time.After(pause):
		}
	}
}

// refuseReading answers with the problem of an error, outside of huma.
func (s *server) refuseReading(w http.ResponseWriter, r *http.Request, err error) {
	p := new(Problem)
	if !errors.As(err, &p) && !errors.As(s.fail(r.Context(), err), &p) {
		p = newProblem(r.Context(), http.StatusInternalServerError, "")
	}
	writeProblem(w, p)
}

// written says in the answer to a write how many public records there are now. The write
// stands whatever comes of it.
func (s *server) written(ctx context.Context, h http.Header) {
	if s.Written == nil {
		return
	}
	size, err := s.Written(ctx)
	if err != nil {
		s.Logger.ErrorContext(ctx, "a write does not say what to wait for", "requestId", requestOf(ctx).id, "err", err)
		return
	}
	h.Set(headerSize, strconv.FormatUint(size, 10))
}

// describeSizes adds to the document that answers have a size, and that it can be waited
// for.
func describeSizes(doc *huma.OpenAPI) {
	least, most := 0.0, 1e15-1
	count := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least, Maximum: &most}
	doc.Components.Headers = map[string]*huma.Header{headerSize: {
		Schema:      count,
		Description: "How many public records the answer was made from: the first so many of the public log. If more came while it was made, it may hold some of them too.",
	}}
	doc.Components.Parameters = map[string]*huma.Param{
		headerWait: {Name: headerWait, In: "header", Schema: count, Description: "As the parameter " + queryWait + "."},
		queryWait: {Name: queryWait, In: "query", Schema: count, Description: "Answer once the first so many public records can be read, or with 503 if that takes more than five seconds. " +
			"What " + headerSize + " says in the answer to a write makes sure that this reading shows it."},
	}
	size := &huma.Header{Ref: "#/components/headers/" + headerSize}
	add := func(r *huma.Response) {
		if r == nil || r.Headers[headerSize] != nil {
			return
		}
		if r.Headers == nil {
			r.Headers = make(map[string]*huma.Header)
		}
		r.Headers[headerSize] = size
	}
	for _, path := range doc.Paths {
		if op := path.Get; op != nil {
			op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + queryWait}, &huma.Param{Ref: "#/components/parameters/" + headerWait})
			add(op.Responses["200"])
			add(op.Responses["304"])
		}
		if op := path.Post; op != nil && !strings.HasPrefix(op.OperationID, "challenge-") {
			add(op.Responses["200"])
			add(op.Responses["201"])
		}
	}
}
