package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/api/explorer/checker"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// explorer returns the pages, which share the router and the problems with the
// rest of the interface.
func (s *server) explorer() *explorer.Pages {
	return explorer.New(explorer.Config{
		Reader: &standing{Reader: s.Reader, lookout: s.lookout}, Ledger: s.Ledger, Owners: owners{s}, PublicURL: s.PublicURL, Now: s.Now, Facts: s.Facts, JSON: s.router,
		Checker: checker.Built(),
		Verify:  s.verifyShop,
		Reply: func(ctx context.Context, p projections.Shop) ([]byte, error) {
			_, body, err := replyTo(ctx, p, s.Bodies)
			return body, err
		},
		OwnerReply: func(ctx context.Context, r projections.FindingReply) (string, error) {
			b, err := s.replyOf(ctx, &r)
			if err != nil {
				return "", err
			}
			return b.Text, nil
		},
		Passport:  s.passportPage,
		Reference: func() *explorer.Reference { return s.reference },
		Problem: func(ctx context.Context, err error) explorer.Problem {
			p := new(Problem)
			switch {
			case errors.As(err, &p):
			case errors.Is(err, publiclog.ErrDamaged):
				errors.As(s.failLedger(ctx, err), &p)
			default:
				errors.As(s.fail(ctx, err), &p)
			}
			return problemPage(ctx, p)
		},
	})
}

// A standing is a reader that remembers how the programme stands, which every page shows,
// for as long as the read models do not move.
type standing struct {
	projections.Reader

	lookout *lookout

	mu     sync.Mutex
	asOf   projections.AsOf
	status *projections.Status // nil before the first time; is not changed any more
}

// Programme implements [explorer.Reader].
func (s *standing) Programme(ctx context.Context) (projections.Status, error) {
	before, err := s.lookout.AsOf(ctx)
	if err != nil {
		return projections.Status{}, err
	}
	s.mu.Lock()
	asOf, status := s.asOf, s.status
	s.mu.Unlock()
	if status != nil && asOf == before {
		return *status, nil
	}
	read, err := s.Reader.Programme(ctx)
	if err != nil {
		return read, err
	}
	after, err := s.lookout.AsOf(ctx)
	if err == nil && after == before {
		s.mu.Lock()
		s.asOf, s.status = before, &read
		s.mu.Unlock()
	}
	return read, err
}

// passportPage returns the passport of an agent as its page shows it.
func (s *server) passportPage(ctx context.Context, ref agent.Ref) (explorer.Passport, error) {
	b, err := s.agentBody(ctx, ref)
	if err != nil {
		return explorer.Passport{}, err
	}
	p := explorer.Passport{AsOf: b.Passport.AsOf}
	for _, l := range []struct {
		name string
		passportLine
	}{
		{"Certificate", b.Passport.Certificate},
		{"Mystery Shopper", b.Passport.Mystery},
		{"Shield", b.Passport.Shield},
		{"Sessions", b.Passport.Sessions},
		{"Incidents", b.Passport.Incidents},
	} {
		line := explorer.PassportLine{Name: l.name, Text: l.Text, Recalled: l.Recalled}
		for _, e := range l.Evidence {
			line.Evidence = append(line.Evidence, explorer.Evidence{Stream: e.Stream, Version: e.Version, Index: e.Index})
		}
		p.Lines = append(p.Lines, line)
	}
	return p, nil
}

// owners lets pages do what the interface does for owners.
type owners struct{ s *server }

// Check implements [explorer.Owners].
func (o owners) Check(r consent.Request) error { return o.s.Service.CheckRequest(r) }

// Challenge implements [explorer.Owners].
func (o owners) Challenge(ctx context.Context, r consent.Request) (commands.Challenged, error) {
	if err := o.s.spend(ctx, o.s.Limits, commands.GrantQuotas(r.Agent, callerOf(ctx).address)); err != nil {
		return commands.Challenged{}, err
	}
	return o.s.Service.Challenge(ctx, r)
}

// Grant implements [explorer.Owners].
func (o owners) Grant(ctx context.Context, challengeID string, p consent.Payload, signature string, ownerNonce domain.Hash) (string, error) {
	out, err := o.s.grant(ctx, grantInput{challengeID, p, signature, ownerNonce})
	if err != nil {
		return "", err
	}
	return out.Body.ID, nil
}

// ChallengeRevoke implements [explorer.Owners].
func (o owners) ChallengeRevoke(ctx context.Context, id string) (commands.RevokeChallenged, error) {
	return o.s.challengeRevoke(ctx, id)
}

// Revoke implements [explorer.Owners].
func (o owners) Revoke(ctx context.Context, id, challengeID, signature string) error {
	_, err := o.s.revoke(ctx, id, revokeInput{challengeID, signature})
	return err
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
