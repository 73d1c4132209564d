package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file shows what producers have written: Shield cases, sessions, and what a
// registry says of agents, each with the records that it is made of and their proofs.

// Proven says as of when proofs are. Read models may be ahead of the checkpoint.
type Proven struct {
	Size uint64 `header:"Ledger-Size" doc:"How many public records the latest published checkpoint covers. Proofs are as of that checkpoint, and what began later is not shown."`
}

// A ProvenRecord is a record with the way to its proof.
type ProvenRecord struct {
	LedgerRecord
	Proof string `json:"proof" format:"uri-reference" doc:"The proof that the record is in the log."`
}

// An AttackCase is where a case of Shield stands.
type AttackCase struct {
	Mark
	Case      string    `json:"case"`
	Agent     agent.Ref `json:"agent"`
	Producer  string    `json:"producer" doc:"Who tells of it, and has signed each of its records."`
	Suite     string    `json:"suite"`
	Version   string    `json:"suiteVersion"`
	Class     string    `json:"class"`
	Technique string    `json:"technique"`
	Stage     string    `json:"stage" enum:"opened,running,decided,closed,aborted"`
	Attempts  int       `json:"attempts"`
	Outcome   string    `json:"outcome,omitempty" enum:"resisted,compromised,degraded,inconclusive,error,invalid" doc:"Of the last attempt."`
	OpenedAt  time.Time `json:"openedAt"`
	Index     uint64    `json:"index" doc:"Of the record of its opening in the log."`
	Proof     string    `json:"proof" format:"uri-reference"`
	URL       string    `json:"url" format:"uri-reference"`
}

// An AgentSession is where a session of an agent stands.
type AgentSession struct {
	Mark
	Session      string    `json:"session"`
	Agent        agent.Ref `json:"agent"`
	Producer     string    `json:"producer" doc:"Who tells of it, and has signed each of its records."`
	Kind         string    `json:"kind" enum:"trial,shield,runtime"`
	SelfReported bool      `json:"selfReported" doc:"True of a runtime session: it is the word of the agent's own side."`
	Parent       string    `json:"parent,omitempty" doc:"The trial or the case that it is of."`
	OpenedAt     time.Time `json:"openedAt"`
	Actions      int       `json:"actions"`
	Denied       int       `json:"denied" doc:"Actions that the rules of the session forbade."`
	Closed       string    `json:"closed,omitempty" enum:"completed,timeout,revoked,killed,error" doc:"Why it ended; absent while it is open."`
	Index        uint64    `json:"index" doc:"Of the record of its opening in the log."`
	Proof        string    `json:"proof" format:"uri-reference"`
	URL          string    `json:"url" format:"uri-reference"`
}

// witnessedID is the form of the ids of cases and sessions.
var witnessedID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

type placeKey projections.Place

func (k placeKey) valid() bool { return witnessedID.MatchString(k.ID) && !k.At.IsZero() }

// A WitnessPage is what a list is asked for.
type WitnessPage struct {
	Agent  string `query:"agent" maxLength:"160" doc:"Only those of this agent." example:"build:42"`
	Cursor string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

// read returns what a page is asked for.
func (in WitnessPage) read() (ref agent.Ref, after *projections.Place, err error) {
	if in.Agent != "" {
		if ref, err = agent.ParseRef(in.Agent); err != nil {
			return ref, nil, err
		}
	}
	key, err := decodeCursor[placeKey](in.Cursor)
	return ref, (*projections.Place)(key), err
}

// A RecordsPage says which records of a stream are asked for.
type RecordsPage struct {
	From  uint64 `query:"from" minimum:"1" maximum:"4611686018427387904" default:"1" doc:"Version of the first record."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *server) registerWitnesses(api huma.API) {
	huma.Register(api, getLedger("list-shield-cases", "/shield/cases", "Cases of Shield: copies of agents that were attacked"), s.listShieldCases)
	huma.Register(api, getLedger("get-shield-case", "/shield/cases/{id}", "One case, with its records"), s.getShieldCase)
	huma.Register(api, getLedger("list-sessions", "/sessions", "Sessions of agents, as those recorded them who ran them"), s.listSessions)
	huma.Register(api, getLedger("get-session", "/sessions/{id}", "One session, with its records"), s.getSession)
	huma.Register(api, getLedger("get-ledger-agent", "/agents/{ref}", "What the ledger knows of an agent beside its consents, with its records"), s.getLedgerAgent)
}

func shieldOf(c projections.ShieldCase) AttackCase {
	return AttackCase{
		Mark: markOf(c.Demo), Case: c.ID, Agent: c.Agent, Producer: c.Producer, Suite: c.Suite, Version: c.Version, Class: c.Class, Technique: c.Technique,
		Stage: string(c.Stage), Attempts: c.Attempts, Outcome: c.Outcome, OpenedAt: c.Opened, Index: c.Index, Proof: proofPath(c.Index),
		URL: ledgerRoot + "/shield/cases/" + url.PathEscape(c.ID),
	}
}

func sessionOf(c projections.Session) AgentSession {
	return AgentSession{
		Mark: markOf(c.Demo), Session: c.ID, Agent: c.Agent, Producer: c.Producer, Kind: string(c.Kind), SelfReported: c.Kind == session.Runtime,
		Parent: c.Parent, OpenedAt: c.Opened, Actions: c.Actions, Denied: c.Denied, Closed: c.Reason, Index: c.Index, Proof: proofPath(c.Index),
		URL: ledgerRoot + "/sessions/" + url.PathEscape(c.ID),
	}
}

// proofPath is where the proof of a record is.
func proofPath(index uint64) string {
	return ledgerRoot + "/proofs/inclusion?index=" + strconv.FormatUint(index, 10)
}

// afterLink is the Link header to the page behind a cursor, "" for none.
func afterLink(path, cursor string, limit int, filters url.Values) string {
	if cursor == "" {
		return ""
	}
	q := url.Values{"cursor": {cursor}, "limit": {strconv.Itoa(limit)}}
	for name := range filters {
		if v := filters.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	return fmt.Sprintf(`<%s%s?%s>; rel="next"`, ledgerRoot, path, q.Encode())
}

// A witnessedPage is a page of what producers tell of.
type witnessedPage[S any] struct {
	Proven
	items      []S
	next, link string
}

// A witnessQuery is what a page is made from: what began within the first Size records, the
// latest first, behind a place.
type witnessQuery struct {
	size  uint64
	agent agent.Ref
	after *projections.Place
	limit int
}

// listWitnessed makes a page of a list. read answers a query of it, and shown says where an
// item stands and how it is shown.
func listWitnessed[T, S any](
	ctx context.Context, s *server, path string, in WitnessPage, filters url.Values,
	read func(context.Context, witnessQuery) ([]T, error), place func(T) projections.Place, shown func(T) S,
) (p witnessedPage[S], err error) {
	ref, after, err := in.read()
	if err != nil {
		return p, s.fail(ctx, err)
	}
	h, err := s.Ledger.Head(ctx)
	if err != nil {
		return p, s.failLedger(ctx, err)
	}
	list, err := read(ctx, witnessQuery{h.Size, ref, after, in.Limit + 1})
	if err != nil {
		return p, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(one T) any { return placeKey(place(one)) })
	if err != nil {
		return p, s.fail(ctx, err)
	}
	p = witnessedPage[S]{Proven: Proven{h.Size}, items: make([]S, len(list)), next: next, link: afterLink(path, next, in.Limit, filters)}
	for i, one := range list {
		p.items[i] = shown(one)
	}
	return p, nil
}

type shieldCasesOutput struct {
	Proven
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []AttackCase `json:"items" doc:"Latest first."`
		Next  string       `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

func (s *server) listShieldCases(ctx context.Context, in *WitnessPage) (*shieldCasesOutput, error) {
	p, err := listWitnessed(ctx, s, "/shield/cases", *in, url.Values{"agent": {in.Agent}},
		func(ctx context.Context, q witnessQuery) ([]projections.ShieldCase, error) {
			return s.Reader.ShieldCases(ctx, projections.ShieldQuery{Size: q.size, Agent: q.agent, After: q.after, Limit: q.limit})
		}, func(c projections.ShieldCase) projections.Place { return projections.Place{At: c.Opened, ID: c.ID} }, shieldOf)
	if err != nil {
		return nil, err
	}
	out := &shieldCasesOutput{Proven: p.Proven, Link: p.link}
	out.Body.Items, out.Body.Next = p.items, p.next
	return out, nil
}

type shieldCaseInput struct {
	ID string `path:"id" maxLength:"100" example:"sc_1"`
	RecordsPage
}

type shieldCaseOutput struct {
	Proven
	Link string `header:"Link" doc:"The next page of records (RFC 8288)."`
	Body struct {
		AttackCase
		Records []ProvenRecord `json:"records" doc:"By version."`
	}
}

func (s *server) getShieldCase(ctx context.Context, in *shieldCaseInput) (*shieldCaseOutput, error) {
	records, h, err := s.recordsOf(ctx, shield.StreamOf(in.ID), in.RecordsPage)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	cases, err := s.Reader.ShieldCases(ctx, projections.ShieldQuery{Size: h.Size, ID: in.ID, Limit: 1})
	if err != nil || len(cases) == 0 {
		return nil, s.failLedger(ctx, missing(err, "case", in.ID))
	}
	out := &shieldCaseOutput{Proven: Proven{h.Size}, Link: moreRecords("/shield/cases/"+url.PathEscape(in.ID), records, in.RecordsPage)}
	out.Body.AttackCase, out.Body.Records = shieldOf(cases[0]), records
	return out, nil
}

type sessionsInput struct {
	WitnessPage
	Kind string `query:"kind" enum:"trial,shield,runtime"`
}

type sessionsOutput struct {
	Proven
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []AgentSession `json:"items" doc:"Latest first."`
		Next  string         `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

func (s *server) listSessions(ctx context.Context, in *sessionsInput) (*sessionsOutput, error) {
	p, err := listWitnessed(ctx, s, "/sessions", in.WitnessPage, url.Values{"agent": {in.Agent}, "kind": {in.Kind}},
		func(ctx context.Context, q witnessQuery) ([]projections.Session, error) {
			return s.Reader.Sessions(ctx, projections.SessionQuery{Size: q.size, Agent: q.agent, Kind: session.Kind(in.Kind), After: q.after, Limit: q.limit})
		}, func(c projections.Session) projections.Place { return projections.Place{At: c.Opened, ID: c.ID} }, sessionOf)
	if err != nil {
		return nil, err
	}
	out := &sessionsOutput{Proven: p.Proven, Link: p.link}
	out.Body.Items, out.Body.Next = p.items, p.next
	return out, nil
}

type sessionInput struct {
	ID string `path:"id" maxLength:"100" example:"ses_1"`
	RecordsPage
}

type sessionOutput struct {
	Proven
	Link string `header:"Link" doc:"The next page of records (RFC 8288)."`
	Body struct {
		AgentSession
		Records []ProvenRecord `json:"records" doc:"By version."`
	}
}

func (s *server) getSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	records, h, err := s.recordsOf(ctx, session.StreamOf(in.ID), in.RecordsPage)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	list, err := s.Reader.Sessions(ctx, projections.SessionQuery{Size: h.Size, ID: in.ID, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, s.failLedger(ctx, missing(err, "session", in.ID))
	}
	out := &sessionOutput{Proven: Proven{h.Size}, Link: moreRecords("/sessions/"+url.PathEscape(in.ID), records, in.RecordsPage)}
	out.Body.AgentSession, out.Body.Records = sessionOf(list[0]), records
	return out, nil
}

type shieldLine struct {
	Cases       int    `json:"cases" doc:"That were not aborted."`
	Counted     int    `json:"counted" doc:"Of these, cases with an outcome that counts."`
	Compromised int    `json:"compromised" doc:"Of these, cases in which an attack succeeded."`
	URL         string `json:"url" format:"uri-reference"`
}

type sessionsLine struct {
	Trial   int    `json:"trial"`
	Shield  int    `json:"shield"`
	Runtime int    `json:"runtime" doc:"As the agent's own side tells."`
	Denied  int    `json:"denied" doc:"Actions that the rules of a session forbade."`
	URL     string `json:"url" format:"uri-reference"`
}

type ledgerAgentOutput struct {
	Proven
	Link string `header:"Link" doc:"The next page of records (RFC 8288)."`
	Body struct {
		Mark
		Agent        agent.Ref         `json:"agent" example:"build:42"`
		Owner        string            `json:"owner"`
		RegisteredAt time.Time         `json:"registeredAt"`
		Identities   []heldIdentity    `json:"identities" doc:"URLs shown to be the agent's own."`
		Certificates []heldCertificate `json:"certificates" doc:"In force."`
		Shield       shieldLine        `json:"shield"`
		Sessions     sessionsLine      `json:"sessions"`
		Exams        string            `json:"exams" format:"uri-reference" doc:"Where the records of its exams are, if there are any."`
		Records      []ProvenRecord    `json:"records" doc:"Of the agent, by version."`
	}
}

func (s *server) getLedgerAgent(ctx context.Context, in *struct {
	Ref string `path:"ref" maxLength:"160" example:"build:42"`
	RecordsPage
},
) (*ledgerAgentOutput, error) {
	ref, err := agent.ParseRef(in.Ref)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	records, h, err := s.recordsOf(ctx, agent.StreamOf(ref), in.RecordsPage)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	a, err := s.Reader.Agent(ctx, ref)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	cases, err := s.Reader.ShieldTotals(ctx, ref)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	sessions, err := s.Reader.SessionTotals(ctx, ref)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	of := "?" + url.Values{"agent": {string(ref)}}.Encode()
	out := &ledgerAgentOutput{Proven: Proven{h.Size}, Link: moreRecords("/agents/"+url.PathEscape(string(ref)), records, in.RecordsPage)}
	b := &out.Body
	b.Mark, b.Agent, b.Owner, b.RegisteredAt = markOf(a.Demo), a.Ref, a.Wallet.String(), a.Since
	b.Identities, b.Certificates = []heldIdentity{}, []heldCertificate{}
	for _, held := range a.Identities {
		b.Identities = append(b.Identities, heldIdentity{held.Value, held.Since})
	}
	for _, held := range a.Certificates {
		b.Certificates = append(b.Certificates, heldCertificate{held.Value, held.Since})
	}
	b.Shield = shieldLine{cases.Cases, cases.Counted, cases.Compromised, ledgerRoot + "/shield/cases" + of}
	b.Sessions = sessionsLine{sessions.Trial, sessions.Shield, sessions.Runtime, sessions.Denied, ledgerRoot + "/sessions" + of}
	b.Exams, b.Records = ledgerRoot+"/streams/exam/"+url.PathEscape(string(ref)), records
	return out, nil
}

// recordsOf returns a page of the records of a stream. One without any is a
// [domain.ErrNotFound].
func (s *server) recordsOf(ctx context.Context, stream ledger.Stream, page RecordsPage) ([]ProvenRecord, publiclog.Head, error) {
	leaves, h, err := s.Ledger.Stream(ctx, stream, page.From, page.Limit)
	if err != nil {
		return nil, h, err
	}
	records := make([]ProvenRecord, len(leaves))
	for i, l := range leaves {
		records[i] = ProvenRecord{recordOf(l), proofPath(l.Index)}
	}
	return records, h, nil
}

// moreRecords is the Link header to the records behind a full page, "" for none.
func moreRecords(path string, records []ProvenRecord, page RecordsPage) string {
	if len(records) < page.Limit {
		return ""
	}
	var last struct {
		Version uint64 `json:"version"`
	}
	if json.Unmarshal(records[len(records)-1].Record, &last) != nil {
		return ""
	}
	return fromLink(path, last.Version+1, page.Limit)
}

// missing is err, or that there is no such thing.
func missing(err error, what, id string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("the log has no %s %s: %w", what, id, domain.ErrNotFound)
}
