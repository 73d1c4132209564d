package explorer

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/projections"
)

var (
	incidentIDs = regexp.MustCompile(`^inc_[a-z2-7]{20}$`)
	findingIDs  = regexp.MustCompile(`^fnd_[a-z2-7]{20}_[1-9][0-9]{0,8}$`)
)

// maxSteps is how many records of an incident stand on its page.
const maxSteps = 50

type incidentPage struct {
	frame

	Incident projections.Incident
	Finding  string // address of the finding that it was opened for
	Replies  []reaction
	Records  []recordRow
}

// A reaction is a reply that the owner filed before the incident was disclosed.
type reaction struct {
	Look       int
	Address    string // of the finding that it stands at
	Commitment domain.Hash
}

// incident shows an incident that was disclosed. One that was not is answered like one
// that does not exist, for whether there is one is nobody's business.
func (p *Pages) incident(r *http.Request, f frame, _ projections.Status) (any, error) {
	ctx, id := r.Context(), chi.URLParam(r, "incident")
	if !incidentIDs.MatchString(id) {
		return nil, errNoPage
	}
	list, err := p.config.Reader.Incidents(ctx, projections.IncidentQuery{Incident: id, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errNoPage
	}
	v := incidentPage{frame: f, Incident: list[0]}
	o := v.Incident.Opened
	v.Own = o.Demo
	v.Title = "Incident about " + bareRef(o.Agent)
	v.Description = "What followed from a confirmed finding: why, how grave it is, and what maintainers did."
	v.Finding = addressOfLook(o.Consent, o.Look)
	for _, reply := range v.Incident.Replies {
		v.Replies = append(v.Replies, reaction{reply.Look, addressOfLook(o.Consent, reply.Look), reply.Commitment})
	}
	v.Records, err = p.steps(ctx, id)
	return v, err
}

// steps are the public records of an incident that a checkpoint covers.
func (p *Pages) steps(ctx context.Context, id string) (rows []recordRow, err error) {
	leaves, _, err := p.config.Ledger.Stream(ctx, incident.StreamOf(id), 1, maxSteps)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, l := range leaves {
		row, err := rowOf(l)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
