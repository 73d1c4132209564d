package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/session"
)

// Sessions is every session of an agent that somebody has recorded.
var Sessions = Projection{
	Name: "sessions", Version: 1, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table sessions (
			id       text        primary key,
			agent    text        not null,
			producer text        not null,
			kind     text        not null,
			parent   text        not null,
			opened   timestamptz not null,
			actions  bigint      not null default 0,
			denied   bigint      not null default 0,
			reason   text        not null default '' -- why it was closed
		);
		create index on sessions (opened desc, id desc);
		create index on sessions (agent, opened desc, id desc)`,
	Apply: applySessions,
}

var (
	addSession = &Change{Table: "sessions", Key: 1, SQL: `
		insert into sessions (id, agent, producer, kind, parent, opened)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])`}
	addAction = &Change{Table: "sessions", Key: 1, Gathers: true, SQL: `
		update sessions s set actions = v.actions, denied = s.denied + v.denied
		from (
			select id, max(n) + 1 as actions, count(*) filter (where denied) as denied
			from unnest($1::text[], $2::bigint[], $3::boolean[]) as a (id, n, denied) group by id) v
		where s.id = v.id`}
	closeSession = &Change{Table: "sessions", Key: 1, SQL: `
		update sessions s set reason = v.reason from unnest($1::text[], $2::text[]) as v (id, reason) where s.id = v.id`}
)

func applySessions(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case session.Opened:
		return tx.Do(addSession, e.Session, string(e.Agent), e.Producer, string(e.Kind), e.Parent, r.Time)
	case session.ActionRecorded:
		return tx.Do(addAction, e.Session, e.N, e.Decision == session.Deny)
	case session.Closed:
		return tx.Do(closeSession, e.Session, string(e.Reason))
	}
	return nil
}

// A Session is where a session stands.
type Session struct {
	ID       string
	Agent    agent.Ref
	Demo     bool // whether the agent is one of Karatum's own
	Producer string
	Kind     session.Kind
	Parent   string
	Opened   time.Time
	Actions  int
	Denied   int
	Reason   string // why it was closed, "" if it is open
	Index    uint64 // of the record of its opening in the public log
}

// A SessionQuery picks sessions of which the opening is among the first Size records of
// the public log. Its other zero fields pick all.
type SessionQuery struct {
	Size  uint64
	ID    string
	Agent agent.Ref
	Kind  session.Kind
	After *Place // the last one of the page before
	Limit int
}

// Sessions returns the sessions that q picks, latest first.
func (r Reader) Sessions(ctx context.Context, q SessionQuery) ([]Session, error) {
	at, after := q.After.args()
	return collect(ctx, r.Pool, scanSession, `
		select s.id, s.agent, coalesce(g.demo, false), s.producer, s.kind, s.parent, s.opened, s.actions, s.denied, s.reason, l.index
		from sessions s
		join tree_leaves l on l.stream = 'session/' || s.id and l.version = 1 and l.index < $1
		left join agents g on g.agent = s.agent
		where ($2 = '' or s.id = $2) and ($3 = '' or s.agent = $3) and ($4 = '' or s.kind = $4)
		  and ($5::timestamptz is null or (s.opened, s.id) < ($5, $6))
		order by s.opened desc, s.id desc limit $7`,
		q.Size, q.ID, string(q.Agent), string(q.Kind), at, after, q.Limit)
}

func scanSession(row pgx.CollectableRow) (s Session, err error) {
	err = row.Scan(&s.ID, &s.Agent, &s.Demo, &s.Producer, (*string)(&s.Kind), &s.Parent, &s.Opened, &s.Actions, &s.Denied, &s.Reason, &s.Index)
	s.Opened = s.Opened.UTC()
	return s, err
}

// SessionTotals is how many sessions of an agent are on record.
type SessionTotals struct {
	Trial, Shield, Runtime int
	Denied                 int // actions of all of them
}

// SessionTotals returns those of an agent.
func (r Reader) SessionTotals(ctx context.Context, ref agent.Ref) (t SessionTotals, err error) {
	err = r.Pool.QueryRow(ctx, `
		select count(*) filter (where kind = 'trial'), count(*) filter (where kind = 'shield'), count(*) filter (where kind = 'runtime'),
			coalesce(sum(denied), 0)
		from sessions where agent = $1`, string(ref)).Scan(&t.Trial, &t.Shield, &t.Runtime, &t.Denied)
	return t, err
}
