package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/projections"
)

// An IncidentSummary is an incident that was disclosed. Of any other nothing is told,
// not even whether it exists.
type IncidentSummary struct {
	Mark
	ID          string            `json:"id" example:"inc_mfzwizlsmjrxg43vmvzc"`
	Agent       agent.Ref         `json:"agent" example:"build:42"`
	Consent     string            `json:"consent"`
	EvidenceURL string            `json:"evidenceUrl" format:"uri" doc:"The consent, with every task that is revealed."`
	Finding     string            `json:"finding" doc:"The finding that it was opened for."`
	Detector    string            `json:"detector" example:"mystery.exam_only"`
	Class       string            `json:"class" example:"over_claim"`
	Severity    incident.Severity `json:"severity"`
	Triage      string            `json:"triage" enum:"confirmed"`
	State       string            `json:"state" enum:"disclosed,closed"`
	DisclosedAt time.Time         `json:"disclosedAt"`
	Text        string            `json:"text" doc:"What was said with the disclosure."`
	Recalled    *stepBody         `json:"recalled,omitempty" doc:"If the agent's certificate is recalled for it."`
	Closed      *stepBody         `json:"closed,omitempty"`
	Corrections []correctionBody  `json:"corrections" doc:"What turned out to be wrong, oldest first. Show them where you show the incident."`
}

type stepBody correctionBody

type incidentBody struct {
	IncidentSummary
	Event   json.RawMessage `json:"event" doc:"The data of the event incident.disclosed, as hashed: with all that was sealed of the incident, byte for byte."`
	Replies []replyRef      `json:"replies" doc:"What the owner replied before the disclosure."`
}

type replyRef struct {
	Finding    string      `json:"finding" doc:"That it stands at."`
	Commitment domain.Hash `json:"commitment"`
}

type incidentsInput struct {
	Agent   string `query:"agent" maxLength:"160" doc:"Only those about this agent." example:"build:42"`
	Consent string `query:"consent" pattern:"^cns_[a-z2-7]{20}$" doc:"Only that of this consent."`
	Cursor  string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type incidentsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []IncidentSummary `json:"items" doc:"Latest disclosure first."`
		Next  string            `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

var incidentID = regexp.MustCompile(`^inc_[a-z2-7]{20}$`)

type incidentKey projections.IncidentKey

func (k incidentKey) valid() bool { return incidentID.MatchString(k.Incident) }

type actInput struct {
	ID   string `path:"id" pattern:"^inc_[a-z2-7]{20}$" example:"inc_mfzwizlsmjrxg43vmvzc"`
	Body struct {
		Version uint64                `json:"version" minimum:"1" maximum:"1000000" doc:"How many records the incident has, as karatum-mystery incident show says."`
		Do      string                `json:"do" enum:"confirm,reject,disclose,close,correct,recall"`
		Text    string                `json:"text" maxLength:"2000" doc:"Why: one line."`
		By      []maintainer.Approval `json:"by" minItems:"1" maxItems:"2" doc:"Signatures of maintainers, two for a recall, over enc(karatum/mystery/maintainer-action/v1, id, u64 version, do, text)."`
	}
}

type actOutput struct {
	Body struct {
		ID      string `json:"id"`
		Version uint64 `json:"version" doc:"The incident has so many records now."`
	}
}

// byMaintainer describes an operation that maintainers sign for.
func byMaintainer(op huma.Operation) huma.Operation {
	op.Tags = []string{"maintainer"}
	op.Description = "For the operator's maintainers, whose keys GET /v1/mystery lists. Whoever did not sign is told nothing of what there is."
	return op
}

func (s *server) registerIncidents(api huma.API) {
	huma.Register(api, get("list-incidents", "/incidents", "Every incident that was disclosed"), s.listIncidents)

	type path struct {
		ID string `path:"id" pattern:"^inc_[a-z2-7]{20}$" example:"inc_mfzwizlsmjrxg43vmvzc"`
	}
	type output struct{ Body incidentBody }
	huma.Register(api, get("get-incident", "/incidents/{id}", "One incident that was disclosed", 404),
		func(ctx context.Context, in *path) (*output, error) {
			list, err := s.Reader.Incidents(ctx, projections.IncidentQuery{Incident: in.ID, Limit: 1})
			if err == nil && len(list) == 0 {
				err = fmt.Errorf("no incident %s was disclosed: %w", in.ID, domain.ErrNotFound)
			}
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output{s.incidentOf(list[0])}, nil
		})
	huma.Register(api, byMaintainer(post("act-on-incident", "/incidents/{id}/actions", "Triage, disclose, close, correct or recall, as a maintainer",
		http.StatusOK, maxSmall, http.StatusForbidden)), s.actOnIncident)
}

func (s *server) listIncidents(ctx context.Context, in *incidentsInput) (*incidentsOutput, error) {
	q := projections.IncidentQuery{Consent: in.Consent, Limit: in.Limit + 1}
	var err error
	if in.Agent != "" {
		if q.Agent, err = agent.ParseRef(in.Agent); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	after, err := decodeCursor[incidentKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	q.After = (*projections.IncidentKey)(after)
	list, err := s.Reader.Incidents(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(i projections.Incident) any { return incidentKey{i.Recorded, i.Opened.Incident} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &incidentsOutput{Link: nextLink("/incidents", next, in.Limit, map[string]string{"agent": in.Agent, "consent": in.Consent})}
	out.Body.Items, out.Body.Next = make([]IncidentSummary, len(list)), next
	for i, one := range list {
		out.Body.Items[i] = s.summaryOfIncident(one)
	}
	return out, nil
}

func (s *server) summaryOfIncident(i projections.Incident) IncidentSummary {
	o := i.Opened
	b := IncidentSummary{
		Mark: markOf(o.Demo), ID: o.Incident, Agent: o.Agent, Consent: o.Consent, EvidenceURL: s.consentURL(o.Consent),
		Finding: finding.ID(o.Consent, o.Look), Detector: o.Detector, Class: o.Class, Severity: o.Severity,
		Triage: string(i.Triaged.Verdict), State: "disclosed", DisclosedAt: i.Recorded, Text: i.Text, Corrections: correctionsOf(i.Corrections),
	}
	if i.Recall != nil {
		recall := stepBody(i.Recall.Correction)
		b.Recalled = &recall
	}
	if i.Resolution != nil {
		closed := stepBody(i.Resolution.Correction)
		b.State, b.Closed = "closed", &closed
	}
	return b
}

func (s *server) incidentOf(i projections.Incident) incidentBody {
	b := incidentBody{IncidentSummary: s.summaryOfIncident(i), Event: i.Event, Replies: []replyRef{}}
	for _, r := range i.Replies {
		b.Replies = append(b.Replies, replyRef{finding.ID(i.Opened.Consent, r.Look), r.Commitment})
	}
	return b
}

func (s *server) actOnIncident(ctx context.Context, in *actInput) (*actOutput, error) {
	c := incident.Act{Incident: in.ID, Version: in.Body.Version, Do: incident.Verb(in.Body.Do), Text: in.Body.Text, By: in.Body.By}
	if err := s.Service.ActOnIncident(ctx, c); err != nil {
		return nil, s.fail(ctx, err)
	}
	s.caughtUp(ctx)
	out := &actOutput{}
	out.Body.ID, out.Body.Version = in.ID, in.Body.Version+1
	return out, nil
}
