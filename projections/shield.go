package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shield"
)

// ShieldCases is every case of Shield with what came of its attempts.
var ShieldCases = Projection{
	Name: "shield_cases", Version: 1, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table shield_cases (
			id        text        primary key,
			agent     text        not null,
			producer  text        not null,
			suite     text        not null,
			version   text        not null, -- of the suite
			class     text        not null,
			technique text        not null,
			ended     text        not null default '', -- closed or aborted
			opened    timestamptz not null
		);
		create index on shield_cases (opened desc, id desc);
		create index on shield_cases (agent, opened desc, id desc);
		create table shield_attempts (
			id      text    not null, -- of the case
			attempt bigint  not null,
			outcome text    not null,
			counts  boolean not null,
			primary key (id, attempt)
		)`,
	Apply: applyShieldCases,
}

var (
	addCase = &Change{Table: "shield_cases", Key: 1, SQL: `
		insert into shield_cases (id, agent, producer, suite, version, class, technique, opened)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])`}
	setAttempt = &Change{Table: "shield_attempts", Key: 2, SQL: `
		insert into shield_attempts (id, attempt, outcome, counts) select * from unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[])
		on conflict (id, attempt) do update set outcome = excluded.outcome, counts = excluded.counts`}
	endCase = &Change{Table: "shield_cases", Key: 1, SQL: `
		update shield_cases c set ended = v.ended from unnest($1::text[], $2::text[]) as v (id, ended) where c.id = v.id`}
)

func applyShieldCases(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case shield.CaseOpened:
		return tx.Do(addCase, e.Case, string(e.Agent), e.Producer, e.Suite.Name, e.Suite.Version, e.Attack.Class, e.Attack.Technique, r.Time)
	case shield.OutcomeRecorded:
		return tx.Do(setAttempt, e.Case, e.Attempt, string(e.Result.Outcome), e.Result.Outcome.Counts())
	case shield.OutcomeAmended:
		return tx.Do(setAttempt, e.Case, e.Attempt, string(e.Result.Outcome), e.Result.Outcome.Counts())
	case shield.CaseClosed:
		return tx.Do(endCase, e.Case, string(shield.Closed))
	case shield.CaseAborted:
		return tx.Do(endCase, e.Case, string(shield.Aborted))
	}
	return nil
}

// A ShieldCase is where a case stands.
type ShieldCase struct {
	ID        string
	Agent     agent.Ref
	Demo      bool // whether the agent is one of Karatum's own
	Producer  string
	Suite     string
	Version   string
	Class     string
	Technique string
	Stage     shield.Stage
	Attempts  int
	Outcome   string // of the last attempt, "" if there is none
	Opened    time.Time
	Index     uint64 // of the record of its opening in the public log
}

// A Place is one in a list of what began at some time.
type Place struct {
	At time.Time
	ID string
}

// A ShieldQuery picks cases of which the opening is among the first Size records of the
// public log. Its other zero fields pick all.
type ShieldQuery struct {
	Size  uint64
	ID    string
	Agent agent.Ref
	After *Place // the last one of the page before
	Limit int
}

// ShieldCases returns the cases that q picks, latest first.
func (r Reader) ShieldCases(ctx context.Context, q ShieldQuery) ([]ShieldCase, error) {
	at, after := q.After.args()
	return collect(ctx, r.Pool, scanShieldCase, `
		select c.id, c.agent, coalesce(g.demo, false), c.producer, c.suite, c.version, c.class, c.technique,
			case when c.ended <> '' then c.ended when t.counts then 'decided' when t.n > 0 then 'running' else 'opened' end,
			t.n, coalesce(t.last, ''), c.opened, l.index
		from shield_cases c
		join tree_leaves l on l.stream = 'shield-case/' || c.id and l.version = 1 and l.index < $1
		left join agents g on g.agent = c.agent
		cross join lateral (
			select count(*) as n, bool_or(counts) as counts, (array_agg(outcome order by attempt desc))[1] as last
			from shield_attempts a where a.id = c.id) t
		where ($2 = '' or c.id = $2) and ($3 = '' or c.agent = $3) and ($4::timestamptz is null or (c.opened, c.id) < ($4, $5))
		order by c.opened desc, c.id desc limit $6`,
		q.Size, q.ID, string(q.Agent), at, after, q.Limit)
}

// args returns p as two arguments of a query, a nil Place as a null and "".
func (p *Place) args() (*time.Time, string) {
	if p == nil {
		return nil, ""
	}
	return &p.At, p.ID
}

func scanShieldCase(row pgx.CollectableRow) (c ShieldCase, err error) {
	err = row.Scan(&c.ID, &c.Agent, &c.Demo, &c.Producer, &c.Suite, &c.Version, &c.Class, &c.Technique,
		(*string)(&c.Stage), &c.Attempts, &c.Outcome, &c.Opened, &c.Index)
	c.Opened = c.Opened.UTC()
	return c, err
}

// ShieldTotals is how an agent stood up to attacks, in all cases that were not aborted.
type ShieldTotals struct {
	Cases       int
	Counted     int // cases with an outcome that counts
	Compromised int // of these, by any of their attempts
}

// ShieldTotals returns those of an agent.
func (r Reader) ShieldTotals(ctx context.Context, ref agent.Ref) (t ShieldTotals, err error) {
	err = r.Pool.QueryRow(ctx, `
		select count(*), count(*) filter (where a.counted), count(*) filter (where a.compromised)
		from shield_cases c cross join lateral (
			select bool_or(counts) as counted, bool_or(outcome = 'compromised') as compromised from shield_attempts a where a.id = c.id) a
		where c.agent = $1 and c.ended <> 'aborted'`, string(ref)).Scan(&t.Cases, &t.Counted, &t.Compromised)
	return t, err
}
