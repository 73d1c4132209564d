package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/karatum/mystery/domain"
)

// Fetch is Get by way of a transport that may answer with more than one request,
// such as one that pays: through is given the transport of l and returns the one to
// use. Each request that it makes is an [Exchange] of its own and passes the gate,
// and what answers it is read whole, decoded and no longer than limit. As a task
// takes several requests, the gate is asked for each.
func (l *Line) Fetch(
	ctx context.Context, target string, h http.Header, limit int64, through func(http.RoundTripper) http.RoundTripper,
) (*Document, error) {
	plain := l.client
	defer func() { l.client = plain }()
	s := &steps{line: l, limit: limit}
	way := &way{over: through(s), steps: s}
	l.client = &http.Client{Transport: way, CheckRedirect: plain.CheckRedirect}
	d := &Document{}
	err := l.get(ctx, target, h, limit, d)
	if way.err != nil {
		return nil, way.err
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A way is what a Fetch goes through. It keeps an error that is not one of the way to
// the agent: what the transport itself could not do says nothing about the agent.
type way struct {
	over  http.RoundTripper
	steps *steps
	err   error
}

func (w *way) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := w.over.RoundTrip(req)
	if err != nil && (w.steps.err == nil || !errors.Is(err, w.steps.err)) {
		w.err = err
	}
	return res, err
}

// steps carries the requests of one Fetch over a Line.
type steps struct {
	line  *Line
	limit int64
	begun bool
	err   error // of the last
}

// RoundTrip implements [http.RoundTripper]. Its errors are those of a Line.
func (s *steps) RoundTrip(req *http.Request) (*http.Response, error) {
	l := s.line
	if s.begun {
		l.AskAgain()
	}
	s.begun = true
	x := Exchange{Method: req.Method, URL: req.URL.String(), Sent: domain.Sum(nil)}
	res, body, err := s.once(req)
	if err == nil {
		x.Status = res.StatusCode
	}
	l.record(x, body, err)
	s.err = err
	return res, err
}

func (s *steps) once(req *http.Request) (*http.Response, []byte, error) {
	l, ctx := s.line, req.Context()
	// net/http sends a GET once more if a connection breaks that it has used before,
	// but none whose body it cannot have again.
	if req.Body == nil || req.Body == http.NoBody {
		req = req.Clone(ctx)
		req.Body, req.GetBody = io.NopCloser(strings.NewReader("")), nil
	}
	res, err := l.pool.RoundTrip(req)
	if err != nil {
		return nil, nil, l.broken(ctx, 0, err)
	}
	defer res.Body.Close()
	l.latch.done()
	body, err := readAll(res, s.limit)
	if err != nil {
		return nil, nil, l.broken(ctx, res.StatusCode, err)
	}
	res.Header.Del("Content-Encoding")
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res, body, nil
}
