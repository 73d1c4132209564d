package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/karatum/mystery/api/explorer"
)

// explorer returns the pages, which share the router and the problems with the
// rest of the interface.
func (s *server) explorer() *explorer.Pages {
	return explorer.New(explorer.Config{
		Reader: s.Reader, PublicURL: s.PublicURL, Now: s.Now, Facts: s.Facts,
		Problem: func(ctx context.Context, err error) explorer.Problem {
			p := new(Problem)
			errors.As(s.fail(ctx, err), &p)
			return problemPage(ctx, p)
		},
	})
}

// turnAway answers what no handler answers: with a page where people read, with
// problem+json for programs and everywhere below /v1.
func (s *server) turnAway(w http.ResponseWriter, r *http.Request, p *Problem) {
	w.Header().Add("Vary", "Accept")
	if strings.HasPrefix(r.URL.Path, "/v1/") || !explorer.Wanted(r) {
		writeProblem(w, p)
		return
	}
	s.pages.Refuse(w, r, problemPage(r.Context(), p))
}

func problemPage(ctx context.Context, p *Problem) explorer.Problem {
	return explorer.Problem{Status: p.Status, Title: p.Title, Detail: p.Detail, RequestID: requestOf(ctx).id}
}
