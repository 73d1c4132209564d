package api

import (
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/projections"
)

// A ConsentSummary is what a list says of a consent.
type ConsentSummary struct {
	Mark
	ID        string         `json:"id" example:"cns_mfzwizlsmjrxg43vmvzc"`
	State     string         `json:"state" enum:"active,revoked,expired,ended,refused"`
	Cause     consent.Cause  `json:"cause,omitempty" enum:"owner_changed,no_certificate,active_consent,host_not_proven,host_stopped" doc:"What stood in its way, if it was refused."`
	Reason    string         `json:"reason,omitempty" doc:"Why it is over or was refused."`
	Agent     agent.Ref      `json:"agent" example:"build:42"`
	Owner     eip191.Address `json:"owner"`
	GrantedAt *time.Time     `json:"grantedAt,omitempty"`
	RefusedAt *time.Time     `json:"refusedAt,omitempty"`
	OverAt    *time.Time     `json:"overAt,omitempty"`
	FirstDay  uint32         `json:"firstDay" doc:"UTC day number: days since 1970-01-01."`
	FirstDate string         `json:"firstDate" format:"date"`
	LastDay   uint32         `json:"lastDay"`
	LastDate  string         `json:"lastDate" format:"date"`
	URL       string         `json:"url" format:"uri"`
}

type proof struct {
	Endpoint string     `json:"endpoint" example:"ep_0"`
	Kind     string     `json:"kind"`
	URL      string     `json:"url"`
	Proven   bool       `json:"proven" doc:"Whether the host is shown to be the owner's."`
	Method   string     `json:"method,omitempty" doc:"identity or document."`
	Reason   string     `json:"reason,omitempty" doc:"Why it is not proven."`
	Since    *time.Time `json:"since,omitempty"`
}

type planBody struct {
	Day      uint32        `json:"day"`
	Date     string        `json:"date" format:"date"`
	Planned  bool          `json:"planned" doc:"False if the day was opened without a plan."`
	SealedAt *time.Time    `json:"sealedAt,omitempty"`
	Commits  []domain.Hash `json:"commits,omitempty" doc:"Of all 24 slots, tasks and pads alike."`
	Eligible domain.Hash   `json:"eligibleHash,omitzero" doc:"Of the list that the day's choices were made from."`
	Opened   *planOpened   `json:"opened,omitempty"`
}

type planOpened struct {
	At       time.Time      `json:"at"`
	Key      domain.Hash    `json:"key" doc:"The day key."`
	Path     []domain.Hash  `json:"path" doc:"From the day key to the plan key root of the message (RFC 6962)."`
	Cap      int            `json:"cap"`
	Count    int            `json:"count" doc:"Of tasks on this day."`
	Eligible plan.Eligible  `json:"eligible"`
	Surfaces []plan.Surface `json:"surfaces"`
	Notes    []noteBody     `json:"notes" doc:"What was not shopped, and why."`
}

// A noteBody says what was not shopped on a day, and why.
type noteBody struct {
	Endpoint string      `json:"endpoint,omitempty" example:"ep_0" doc:"Absent where it is about the day."`
	Reason   plan.Reason `json:"reason" enum:"kind_left_out,unread,nothing_offered,no_payer,too_many,unusable_name,skill_left_out,changes_state,unfit_schema,no_task,no_chain,no_plan,limit_reached,operator_late,paused,proof_stale,unattested,host_busy,host_lost,consent_over"`
	Text     string      `json:"text" doc:"The reason in plain words."`
	Count    int         `json:"count,omitempty" doc:"Of the skills, tools or tasks that it is about."`
	Names    []string    `json:"names,omitempty" doc:"Of the first of these skills or tools, cut and escaped."`
	Cause    string      `json:"cause,omitempty" example:"no_card" doc:"Of unread: the code with which the last reading failed, if it is known."`
}

type revocation struct {
	Message   string            `json:"message"`
	Nonce     domain.Hash       `json:"nonce"`
	IssuedAt  time.Time         `json:"issuedAt"`
	Signature consent.Signature `json:"signature"`
	Verified  verification      `json:"verified"`
}

// A verification says how a signature was found to be the owner's.
type verification struct {
	Method consent.Method `json:"method" enum:"eip191,erc1271,erc6492" doc:"eip191: the key recovered from it is the owner's. erc1271, erc6492: a contract wallet accepts it."`
	At     *agent.Block   `json:"at,omitempty" doc:"Where the contract wallet was asked."`
}

func verificationOf(v consent.Verification) verification { return verification{v.Method, block(v.At)} }

// block leaves out what was read nowhere.
func block(b agent.Block) *agent.Block {
	if b == (agent.Block{}) {
		return nil
	}
	return &b
}

type consentBody struct {
	ConsentSummary
	Message     string            `json:"message" doc:"What the owner signed (EIP-191 personal_sign): LF, no newline at the end."`
	Payload     consent.Payload   `json:"payload"`
	PayloadHash domain.Hash       `json:"payloadHash" doc:"SHA-256 of the canonical JSON (RFC 8785) of the payload."`
	Signature   consent.Signature `json:"signature" doc:"Of a plain key in its one canonical form: r, s, v, with low s and v 27 or 28."`
	Verified    verification      `json:"verified" doc:"How the signature was found to be the owner's."`
	OwnerCheck  *agent.Block      `json:"ownerCheck,omitempty" doc:"Where the registry of an ERC-8004 agent was asked for its owner."`
	OwnerNonce  domain.Hash       `json:"ownerNonce,omitzero" doc:"Opens the owner's commitment in the message."`
	Revocation  *revocation       `json:"revocation,omitempty" doc:"What the owner signed to revoke it."`
	Proofs      []proof           `json:"proofs"`
	Plans       []planBody        `json:"plans" doc:"Of the latest days, seven at most, by day."`
	Days        string            `json:"days" format:"uri" doc:"Where all days are."`
	Finding     *findingBody      `json:"finding,omitempty" doc:"The latest."`
}

type consentsInput struct {
	Agent  string `query:"agent" maxLength:"160" doc:"Only those of this agent." example:"build:42"`
	State  string `query:"state" enum:"active,revoked,expired,ended,refused"`
	Cursor string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type consentsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []ConsentSummary `json:"items" doc:"Latest first."`
		Next  string           `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

type consentKey projections.ConsentKey

func (k consentKey) valid() bool { return consentID.MatchString(k.ID) }

func (s *server) registerConsents(api huma.API) {
	huma.Register(api, get("list-consents", "/consents", "All consents ever signed"), s.listConsents)
	huma.Register(api, get("list-days", "/consents/{id}/days", "The days of a consent: what was committed to, and what was opened", 404), s.listDays)
	type dayInput struct {
		ID  string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
		Day uint32 `path:"day" minimum:"1" maximum:"2932896" doc:"UTC day number: days since 1970-01-01."`
	}
	type dayOutput struct{ Body planBody }
	huma.Register(api, get("get-day", "/consents/{id}/days/{day}", "One day of a consent", 404),
		func(ctx context.Context, in *dayInput) (*dayOutput, error) {
			p, err := s.Reader.Plan(ctx, in.ID, in.Day)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &dayOutput{planOf(p)}, nil
		})
	type input struct {
		ID string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
	}
	type output struct{ Body consentBody }
	huma.Register(api, get("get-consent", "/consents/{id}", "One consent: what was signed, and what became of it", 404),
		func(ctx context.Context, in *input) (*output, error) {
			b, err := s.consent(ctx, in.ID)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output{b}, nil
		})
}

func (s *server) listConsents(ctx context.Context, in *consentsInput) (*consentsOutput, error) {
	q := projections.ConsentQuery{State: in.State, Limit: in.Limit + 1}
	var err error
	if in.Agent != "" {
		if q.Agent, err = agent.ParseRef(in.Agent); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	after, err := decodeCursor[consentKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	q.After = (*projections.ConsentKey)(after)
	list, err := s.Reader.Consents(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(c projections.Consent) any { return consentKey{c.Recorded, c.ID} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consentsOutput{Link: nextLink("/consents", next, in.Limit, map[string]string{"agent": in.Agent, "state": in.State})}
	out.Body.Items, out.Body.Next = make([]ConsentSummary, len(list)), next
	for i, c := range list {
		out.Body.Items[i] = s.summaryOf(c)
	}
	return out, nil
}

func (s *server) summaryOf(c projections.Consent) ConsentSummary {
	b := ConsentSummary{
		Mark: markOf(c.Demo), ID: c.ID, State: c.State, Cause: c.Cause, Reason: c.Reason,
		Agent: c.Agent, Owner: c.Payload.Owner, OverAt: moment(c.Over),
		FirstDay: c.Payload.FirstDay, FirstDate: domain.DayString(c.Payload.FirstDay),
		LastDay: c.Payload.LastDay, LastDate: domain.DayString(c.Payload.LastDay),
		URL: s.consentURL(c.ID),
	}
	if c.State == projections.Refused {
		b.RefusedAt = &c.Recorded
	} else {
		b.GrantedAt = &c.Recorded
	}
	return b
}

type daysInput struct {
	ID     string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
	Cursor string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"30" default:"10"`
}

type daysOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Mark
		Items []planBody `json:"items" doc:"By day."`
		Next  string     `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

// A dayKey is a place in the list of a consent's days. Its field has a name that no other
// key has, so that no cursor is taken for one of another list.
type dayKey struct {
	DayBefore uint32
}

func (k dayKey) valid() bool { return k.DayBefore > 0 }

func (s *server) listDays(ctx context.Context, in *daysInput) (*daysOutput, error) {
	after, err := decodeCursor[dayKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	c, err := s.Reader.Consent(ctx, in.ID)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	q := projections.PlanQuery{Consent: in.ID, Limit: in.Limit + 1}
	if after != nil {
		q.After = after.DayBefore
	}
	list, err := s.Reader.Plans(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(p projections.Plan) any { return dayKey{p.Day} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &daysOutput{Link: nextLink("/consents/"+in.ID+"/days", next, in.Limit, nil)}
	out.Body.Mark, out.Body.Items, out.Body.Next = markOf(c.Demo), plansOf(list), next
	return out, nil
}

func (s *server) consentURL(id string) string { return s.PublicURL + root + "/consents/" + id }

func (s *server) consent(ctx context.Context, id string) (b consentBody, err error) {
	c, err := s.Reader.Consent(ctx, id)
	if err != nil {
		return b, err
	}
	b = consentBody{
		ConsentSummary: s.summaryOf(c),
		Payload:        c.Payload, Signature: c.Signature, Verified: verificationOf(c.Verified), OwnerCheck: block(c.OwnerCheck), OwnerNonce: c.OwnerNonce,
	}
	if b.Message, err = c.Payload.Message(); err != nil {
		return b, err
	}
	if b.PayloadHash, err = c.Payload.Hash(); err != nil {
		return b, err
	}
	if e := c.Revocation; e != nil {
		b.Revocation = &revocation{
			c.Payload.Revocation(e.Nonce, e.IssuedAt).Message(), e.Nonce, e.IssuedAt, e.Signature, verificationOf(e.Verified),
		}
	}
	proofs, err := s.Reader.Proofs(ctx, c)
	if err != nil {
		return b, err
	}
	b.Proofs = make([]proof, len(proofs))
	for i, p := range proofs {
		b.Proofs[i] = proof{p.Endpoint, string(p.Kind), p.URL, p.Proven, string(p.Method), p.Reason, moment(p.Since)}
	}
	plans, err := s.Reader.Plans(ctx, projections.PlanQuery{Consent: id, Latest: true, Limit: latestPlans})
	if err != nil {
		return b, err
	}
	slices.Reverse(plans)
	b.Plans, b.Days = plansOf(plans), s.consentURL(id)+"/days"
	f, err := s.Reader.LatestFinding(ctx, id)
	if err != nil || f == nil {
		return b, err
	}
	found, err := s.findingOf(ctx, *f)
	b.Finding = &found
	return b, err
}

// latestPlans is how many days stand in the answer about a consent itself.
const latestPlans = 7

func plansOf(list []projections.Plan) []planBody {
	plans := make([]planBody, len(list))
	for i, p := range list {
		plans[i] = planOf(p)
	}
	return plans
}

func planOf(p projections.Plan) planBody {
	b := planBody{Day: p.Day, Date: domain.DayString(p.Day), Planned: p.Sealed != nil, SealedAt: moment(p.SealedAt)}
	if p.Sealed != nil {
		b.Commits, b.Eligible = p.Sealed.Commits[:], p.Sealed.Eligible
	}
	if o := p.Opened; o != nil {
		b.Opened = &planOpened{p.OpenedAt, o.Key, o.Path, o.Cap, o.Count, o.Eligible, o.Surfaces, notesOf(o.Notes)}
	}
	return b
}

func notesOf(notes []plan.Note) []noteBody {
	list := make([]noteBody, len(notes))
	for i, n := range notes {
		list[i] = noteBody{n.Endpoint, n.Reason, n.Reason.Sentence(), n.Count, n.Names, n.Cause}
	}
	return list
}
