package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/projections"
)

type heldIdentity struct {
	URL   string    `json:"url"`
	Since time.Time `json:"since"`
}

type heldCertificate struct {
	Certificate string    `json:"certificate"`
	Since       time.Time `json:"since"`
}

type agentBody struct {
	Mark
	Agent        agent.Ref         `json:"agent" example:"build:42"`
	Owner        eip191.Address    `json:"owner"`
	RegisteredAt time.Time         `json:"registeredAt"`
	Identities   []heldIdentity    `json:"identities" doc:"URLs shown to be the agent's own."`
	Certificates []heldCertificate `json:"certificates" doc:"In force."`
	SpotChecks   string            `json:"spotChecks" enum:"active,revoked,expired,ended,never" doc:"State of the last consent that was granted."`
	Note         string            `json:"note" doc:"The note on the agent's certificate."`
	Consents     []ConsentSummary  `json:"consents" doc:"The last 20, latest first."`
	Finding      *findingBody      `json:"finding,omitempty" doc:"The latest."`
	Passport     passport          `json:"passport" doc:"What is known of the agent, line by line. The lines are never averaged into one figure."`
}

// An AgentSummary is an agent in a list.
type AgentSummary struct {
	Mark
	Agent        agent.Ref       `json:"agent" example:"build:42"`
	RegisteredAt time.Time       `json:"registeredAt"`
	SpotChecks   string          `json:"spotChecks" enum:"active,revoked,expired,ended,never" doc:"State of the last consent that was granted."`
	Consent      string          `json:"consent,omitempty" doc:"That consent."`
	Latest       *findingSummary `json:"latestFinding,omitempty"`
}

type findingSummary struct {
	ID        string    `json:"id" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
	At        time.Time `json:"at"`
	Verdict   string    `json:"verdict" enum:"exam_only,consistent,insufficient" doc:"consistent: no such gap was found, which is no proof of equality."`
	Gated     string    `json:"gatedVerdict" enum:"exam_only,watch,consistent,insufficient" doc:"The verdict behind a test that holds however often one looks."`
	Corrected bool      `json:"corrected,omitempty" doc:"If something in it turned out to be wrong; the finding says what."`
}

func summaryOfAgent(a projections.ListedAgent) AgentSummary {
	b := AgentSummary{Mark: markOf(a.Demo), Agent: a.Ref, RegisteredAt: a.Since, SpotChecks: a.State, Consent: a.Consent}
	if a.State == "" {
		b.SpotChecks = "never"
	}
	if f := a.Latest; f != nil {
		b.Latest = &findingSummary{finding.ID(f.Consent, f.Look), f.At, string(f.Verdict), string(f.GatedVerdict), len(f.Corrections) > 0}
	}
	return b
}

type agentsInput struct {
	Cursor string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type agentsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []AgentSummary `json:"items" doc:"Latest registration first; not a ranking."`
		Next  string         `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

type agentKey projections.AgentKey

func (k agentKey) valid() bool {
	_, err := agent.ParseRef(string(k.Ref))
	return err == nil
}

func (s *server) listAgents(ctx context.Context, in *agentsInput) (*agentsOutput, error) {
	after, err := decodeCursor[agentKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, err := s.Reader.AgentList(ctx, (*projections.AgentKey)(after), in.Limit+1)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(a projections.ListedAgent) any { return agentKey{a.Since, a.Ref} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &agentsOutput{Link: nextLink("/agents", next, in.Limit, nil)}
	out.Body.Items, out.Body.Next = make([]AgentSummary, len(list)), next
	for i, a := range list {
		out.Body.Items[i] = summaryOfAgent(a)
	}
	return out, nil
}

func (s *server) registerAgents(api huma.API) {
	huma.Register(api, get("list-agents", "/agents", "Every registered agent"), s.listAgents)

	type input struct {
		Ref string `path:"ref" maxLength:"160" example:"build:42"`
	}
	type output struct{ Body agentBody }
	huma.Register(api, get("get-agent", "/agents/{ref}", "One agent: its consents and what was found", 404),
		func(ctx context.Context, in *input) (*output, error) {
			ref, err := agent.ParseRef(in.Ref)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			b, err := s.agentBody(ctx, ref)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output{b}, nil
		})
}

func (s *server) agentBody(ctx context.Context, ref agent.Ref) (b agentBody, err error) {
	a, err := s.Reader.Agent(ctx, ref)
	if err != nil {
		return b, err
	}
	b = agentBody{
		Mark: markOf(a.Demo), Agent: a.Ref, Owner: a.Wallet, RegisteredAt: a.Since,
		Identities: []heldIdentity{}, Certificates: []heldCertificate{}, Consents: []ConsentSummary{},
	}
	for _, h := range a.Identities {
		b.Identities = append(b.Identities, heldIdentity{h.Value, h.Since})
	}
	for _, h := range a.Certificates {
		b.Certificates = append(b.Certificates, heldCertificate{h.Value, h.Since})
	}
	consents, err := s.Reader.Consents(ctx, projections.ConsentQuery{Agent: ref, Limit: 20})
	if err != nil {
		return b, err
	}
	for _, c := range consents {
		b.Consents = append(b.Consents, s.summaryOf(c))
	}
	f, err := s.Reader.LatestFindingOf(ctx, ref)
	if err != nil {
		return b, err
	}
	granted, err := s.Reader.Consents(ctx, projections.ConsentQuery{Agent: ref, Granted: true, Limit: 1})
	if err != nil {
		return b, err
	}
	b.SpotChecks, b.Note = note(a.Demo, granted, f)
	if f != nil {
		found, err := s.findingOf(ctx, *f)
		if err != nil {
			return b, err
		}
		b.Finding = &found
	}
	b.Passport, err = s.passportOf(ctx, a, b.Note, f)
	return b, err
}

// note says how an agent stands to spot checks, in one word and for people. last
// is the last consent that was granted, if there is one.
func note(demo bool, last []projections.Consent, f *projections.Finding) (word, text string) {
	if len(last) == 0 {
		return "never", finding.Standing(demo, nil, "")
	}
	c := last[0]
	p := finding.Permission{Given: c.Recorded, Over: c.Over, Why: consent.EndReason(c.Reason)}
	if c.State == projections.Revoked {
		p.Why = ""
	}
	if f == nil {
		return c.State, finding.Standing(demo, &p, "")
	}
	return c.State, finding.Standing(demo, &p, f.Note)
}
