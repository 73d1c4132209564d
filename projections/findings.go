package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
)

// Findings is every comparison of field and exam, with what its owner replied and what
// was corrected.
var Findings = Projection{
	Name: "findings", Version: 3, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table findings (
			consent text        not null,
			look    int         not null,
			agent   text        not null,
			verdict text        not null,
			reached timestamptz not null,
			version bigint      not null, -- in the stream of the consent's findings
			data    bytea       not null, -- the event
			primary key (consent, look)
		);
		create table finding_replies (
			consent text        not null,
			look    int         not null,
			filed   timestamptz not null,
			data    bytea       not null, -- the event
			primary key (consent, look)
		);
		create table finding_erasures ( -- of the text of a reply
			consent text        not null,
			look    int         not null,
			erased  timestamptz not null,
			reason  text        not null,
			primary key (consent, look)
		);
		create table finding_corrections (
			consent text        not null,
			look    int         not null,
			version bigint      not null,
			made    timestamptz not null,
			data    bytea       not null, -- the event
			primary key (consent, look, version)
		)`,
	Indexes: `
		create index on findings (reached desc, consent desc, look desc);
		create index on findings (agent, reached desc, consent desc, look desc);
		create index on findings (verdict, reached desc, consent desc, look desc)`,
	Apply: applyFindings,
}

var (
	addFinding = &Change{Table: "findings", Key: 2, SQL: `
		insert into findings (consent, look, agent, verdict, reached, version, data)
		select * from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::bytea[])`}
	addFindingReply = &Change{Table: "finding_replies", Key: 2, SQL: `
		insert into finding_replies (consent, look, filed, data)
		select * from unnest($1::text[], $2::int[], $3::timestamptz[], $4::bytea[])`}
	addFindingErasure = &Change{Table: "finding_erasures", Key: 2, SQL: `
		insert into finding_erasures (consent, look, erased, reason)
		select * from unnest($1::text[], $2::int[], $3::timestamptz[], $4::text[])`}
	addFindingCorrection = &Change{Table: "finding_corrections", Key: 3, SQL: `
		insert into finding_corrections (consent, look, version, made, data)
		select * from unnest($1::text[], $2::int[], $3::bigint[], $4::timestamptz[], $5::bytea[])`}
)

func applyFindings(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	f, ok := e.(finding.Event)
	if !ok {
		return nil
	}
	data, err := encoded(&r, f)
	if err != nil {
		return err
	}
	switch e := f.(type) {
	case finding.Reached:
		return tx.Do(addFinding, e.Consent, e.Look, string(e.Agent), string(e.Verdict), r.Time, r.Version, data)
	case finding.ReplyFiled:
		return tx.Do(addFindingReply, e.Consent, e.Look, r.Time, data)
	case finding.ReplyErased:
		return tx.Do(addFindingErasure, e.Consent, e.Look, r.Time, e.Reason)
	case finding.Corrected:
		return tx.Do(addFindingCorrection, e.Consent, e.Look, r.Version, r.Time, data)
	}
	return nil
}

// A Finding is one comparison, when it was made, and what was said of it since.
type Finding struct {
	finding.Reached
	At          time.Time
	Version     uint64        // in its stream
	Reply       *FindingReply // nil without one
	Corrections []Correction  // in order
}

// A FindingReply is what the owner replied. Its text lies beside the log.
type FindingReply struct {
	finding.ReplyFiled
	At       time.Time
	ErasedAt time.Time // when its text was erased; zero if it was not
	Reason   string    // why it was
}

// A Correction sets something right.
type Correction struct {
	At   time.Time
	Text string
	By   []maintainer.Approval
}

// A FindingQuery picks findings. Its zero fields pick all.
type FindingQuery struct {
	Agent   agent.Ref
	Consent string
	Verdict finding.Verdict
	Look    int

	// Discussed picks those alone that were replied to or corrected.
	Discussed bool

	After *FindingKey // the last one of the page before
	Limit int
}

// A FindingKey is a place in the list of findings.
type FindingKey struct {
	At      time.Time
	Consent string
	Look    int
}

// Findings returns the findings that q picks, latest first.
func (r Reader) Findings(ctx context.Context, q FindingQuery) ([]Finding, error) {
	var reached *time.Time
	var after FindingKey
	if q.After != nil {
		after = *q.After
		reached = &after.At
	}
	return collect(ctx, r.Pool, scanDiscussed, `
		select f.reached, f.version, f.data, r.filed, r.data, e.erased, coalesce(e.reason, ''),
			array(select made from finding_corrections c where (c.consent, c.look) = (f.consent, f.look) order by version),
			array(select data from finding_corrections c where (c.consent, c.look) = (f.consent, f.look) order by version)
		from findings f left join finding_replies r using (consent, look) left join finding_erasures e using (consent, look)
		where ($1 = '' or agent = $1) and ($2 = '' or consent = $2) and ($3 = '' or verdict = $3)
		  and ($4::timestamptz is null or (reached, consent, look) < ($4, $5, $6)) and ($7 = 0 or look = $7)
		  and (not $8 or r.filed is not null or exists (select from finding_corrections c where (c.consent, c.look) = (f.consent, f.look)))
		order by reached desc, consent desc, look desc limit $9`,
		string(q.Agent), q.Consent, string(q.Verdict), reached, after.Consent, after.Look, q.Look, q.Discussed, q.Limit)
}

// Finding returns the finding of one look at a consent, or an error matching
// [domain.ErrNotFound].
func (r Reader) Finding(ctx context.Context, consent string, look int) (Finding, error) {
	list, err := r.Findings(ctx, FindingQuery{Consent: consent, Look: look, Limit: 1})
	switch {
	case err != nil:
		return Finding{}, err
	case len(list) == 0:
		return Finding{}, fmt.Errorf("there is no finding %s: %w", finding.ID(consent, look), domain.ErrNotFound)
	}
	return list[0], nil
}

// LatestFinding returns the last finding on a consent, or nil.
func (r Reader) LatestFinding(ctx context.Context, consent string) (*Finding, error) {
	return r.latest(ctx, FindingQuery{Consent: consent, Limit: 1})
}

// LatestFindingOf returns the last finding on an agent, or nil.
func (r Reader) LatestFindingOf(ctx context.Context, ref agent.Ref) (*Finding, error) {
	return r.latest(ctx, FindingQuery{Agent: ref, Limit: 1})
}

func (r Reader) latest(ctx context.Context, q FindingQuery) (*Finding, error) {
	list, err := r.Findings(ctx, q)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// scanStanding reads a finding with what was corrected of it.
func scanStanding(row pgx.CollectableRow) (f Finding, err error) {
	var data []byte
	var made []time.Time
	var corrections [][]byte
	if err = row.Scan(&f.At, &data, &made, &corrections); err != nil {
		return f, err
	}
	f.At = f.At.UTC()
	if err = domain.Unmarshal(data, &f.Reached); err != nil {
		return f, err
	}
	f.Corrections, err = correctionsOf(made, corrections)
	return f, err
}

// correctionsOf makes corrections of when they were made and of their events.
func correctionsOf(made []time.Time, data [][]byte) (list []Correction, err error) {
	for i, raw := range data {
		var e finding.Corrected
		if err = domain.Unmarshal(raw, &e); err != nil {
			return nil, err
		}
		list = append(list, Correction{made[i].UTC(), e.Text, e.By})
	}
	return list, nil
}

// scanDiscussed reads one with all of that.
func scanDiscussed(row pgx.CollectableRow) (f Finding, err error) {
	var data, reply []byte
	var filed, erased *time.Time
	var reason string
	var made []time.Time
	var corrections [][]byte
	if err = row.Scan(&f.At, &f.Version, &data, &filed, &reply, &erased, &reason, &made, &corrections); err != nil {
		return f, err
	}
	f.At = f.At.UTC()
	if err = domain.Unmarshal(data, &f.Reached); err != nil {
		return f, err
	}
	if filed != nil {
		f.Reply = &FindingReply{At: filed.UTC(), ErasedAt: at(erased), Reason: reason}
		if err = domain.Unmarshal(reply, &f.Reply.ReplyFiled); err != nil {
			return f, err
		}
	}
	f.Corrections, err = correctionsOf(made, corrections)
	return f, err
}
