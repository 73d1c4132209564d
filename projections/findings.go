package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
)

// Findings is every comparison of field and exam.
var Findings = Projection{
	Name: "findings", Version: 1, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table findings (
			consent text        not null,
			look    int         not null,
			agent   text        not null,
			verdict text        not null,
			reached timestamptz not null,
			data    bytea       not null, -- the event
			primary key (consent, look)
		)`,
	Indexes: `
		create index on findings (reached desc, consent desc, look desc);
		create index on findings (agent, reached desc, consent desc, look desc);
		create index on findings (verdict, reached desc, consent desc, look desc)`,
	Apply: applyFindings,
}

var addFinding = &Change{Table: "findings", Key: 2, SQL: `
	insert into findings (consent, look, agent, verdict, reached, data)
	select * from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[])`}

func applyFindings(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case finding.Reached:
		data, err := domain.Encode(e)
		if err != nil {
			return err
		}
		return tx.Do(addFinding, e.Consent, e.Look, string(e.Agent), string(e.Verdict), r.Time, data)
	}
	return nil
}

// A Finding is one comparison and when it was made.
type Finding struct {
	finding.Reached
	At time.Time
}

// A FindingQuery picks findings. Its zero fields pick all.
type FindingQuery struct {
	Agent   agent.Ref
	Consent string
	Verdict finding.Verdict
	After   *FindingKey // the last one of the page before
	Limit   int
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
	return collect(ctx, r.Pool, scanFinding, `
		select reached, data from findings
		where ($1 = '' or agent = $1) and ($2 = '' or consent = $2) and ($3 = '' or verdict = $3)
		  and ($4::timestamptz is null or (reached, consent, look) < ($4, $5, $6))
		order by reached desc, consent desc, look desc limit $7`,
		string(q.Agent), q.Consent, string(q.Verdict), reached, after.Consent, after.Look, q.Limit)
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

func scanFinding(row pgx.CollectableRow) (f Finding, err error) {
	var data []byte
	if err = row.Scan(&f.At, &data); err != nil {
		return f, err
	}
	f.At = f.At.UTC()
	err = domain.Unmarshal(data, &f.Reached)
	return f, err
}
