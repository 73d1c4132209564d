package projections

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	rollup "github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

// Glances is what pages show many of at once: each revealed task in one row, the latest
// comparison of each consent, and what a hash is the hash of.
//
// Commits and roots of seals are not among these hashes, as [Batches] numbers them all.
var Glances = Projection{
	Name: "glances", Version: 3, Visibility: domain.Public,
	Tables: `
		create table glance_agents (agent text primary key, demo boolean not null);
		create table glance_tasks (
			shop     text        primary key,
			consent  text        not null,
			agent    text        not null,
			day      bigint      not null,
			slot     int         not null,
			template text        not null,
			family   text        not null,
			kind     text        not null, -- of the endpoint that it went to
			ending   text        not null, -- an outcome, or missed or cancelled
			latency  bigint      not null,
			planned  timestamptz not null, -- to be sent
			revealed timestamptz not null
		);
		create table glance_standings (
			consent text        primary key,
			agent   text        not null,
			demo    boolean     not null,
			verdict text        not null, -- the gated one
			reached timestamptz not null,
			data    bytea       not null -- the event
		);
		create table glance_hashes (
			hash bytea not null,
			form text  not null,
			of   text  not null,
			primary key (hash, form, of)
		)`,
	Indexes: `
		create index on glance_tasks (consent, day desc, slot desc);
		create index on glance_tasks (revealed desc, shop desc);
		create index on glance_standings (reached desc, consent desc);
		create index on glance_standings (verdict, reached desc, consent desc);
		create index on glance_standings (agent, reached desc)`,
	Apply: applyGlances,
}

var (
	addGlanceAgent = &Change{Table: "glance_agents", Key: 1, SQL: `
		insert into glance_agents (agent, demo) select * from unnest($1::text[], $2::boolean[])`}
	addGlanceTask = &Change{Table: "glance_tasks", Key: 1, Copies: []string{"shop", "consent", "agent", "day", "slot", "template", "family", "kind", "ending", "latency", "planned", "revealed"}, SQL: `
		insert into glance_tasks (shop, consent, agent, day, slot, template, family, kind, ending, latency, planned, revealed)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[],
			$11::timestamptz[], $12::timestamptz[])`}
	setStanding = &Change{Table: "glance_standings", Key: 1, Merges: true, SQL: `
		insert into glance_standings (consent, agent, demo, verdict, reached, data)
		select * from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::timestamptz[], $6::bytea[])
		on conflict (consent) do update set verdict = excluded.verdict, reached = excluded.reached, data = excluded.data`}
	nameHash = &Change{Table: "glance_hashes", Key: 3, SQL: `
		insert into glance_hashes (hash, form, of) select * from unnest($1::bytea[], $2::text[], $3::text[]) on conflict do nothing`}
	// nameReply is nameHash for what is named once, and there is much of.
	nameReply = &Change{Table: "glance_hashes", Key: 3, Copies: []string{"hash", "form", "of"}, SQL: nameHash.SQL}
)

// A HashForm says what a hash is the hash of.
type HashForm string

// The forms that are found, with the kind of thing that each leads to.
const (
	CommitHash      HashForm = "commit"      // a slot
	ReplyHash       HashForm = "reply"       // a slot
	SealRoot        HashForm = "seal"        // a consent
	PayloadHash     HashForm = "payload"     // a consent
	PlanKeyRoot     HashForm = "plan_keys"   // a consent
	DayKey          HashForm = "day_key"     // a consent
	BatchRoot       HashForm = "batch"       // a batch
	BatchID         HashForm = "batch_id"    // a batch
	AttestationUID  HashForm = "attestation" // a batch
	TransactionHash HashForm = "transaction" // a batch
)

func applyGlances(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	name := func(hash domain.Hash, form HashForm, of string) error {
		return tx.Do(nameHash, hash[:], string(form), of)
	}
	switch e := e.(type) {
	case agent.Registered:
		return tx.Do(addGlanceAgent, string(e.Agent), e.Demo)
	case consent.Granted:
		hash, err := e.Payload.Hash()
		if err != nil {
			return err
		}
		return errors.Join(name(hash, PayloadHash, e.Consent), name(e.Payload.PlanKeyRoot, PlanKeyRoot, e.Consent))
	case consent.Refused:
		hash, err := e.Payload.Hash()
		if err != nil {
			return err
		}
		return name(hash, PayloadHash, e.Consent)
	case plan.Opened:
		return name(e.Key, DayKey, e.Consent)
	case shop.Revealed:
		if !e.Result.ReplyHash.IsZero() {
			if err := tx.Do(nameReply, e.Result.ReplyHash[:], string(ReplyHash), r.Stream.ID()); err != nil {
				return err
			}
		}
		return tx.Do(addGlanceTask, r.Stream.ID(), e.Consent, string(e.Agent), e.Day, e.Slot, e.Template, e.Family, string(e.Entry.Kind), ending(e.Result),
			e.Result.LatencyMs, time.Unix(e.SendAt, 0).UTC(), r.Time)
	case finding.Reached:
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		return tx.Do(setStanding, e.Consent, string(e.Agent), e.Demo, string(e.GatedVerdict), r.Time, data)
	case rollup.Sealed:
		return errors.Join(name(e.Root, BatchRoot, r.Stream.ID()), name(e.ID(), BatchID, r.Stream.ID()))
	case rollup.Submitted:
		return name(domain.Hash(e.Tx), TransactionHash, r.Stream.ID())
	case rollup.Attested:
		return name(domain.Hash(e.UID), AttestationUID, r.Stream.ID())
	}
	return nil
}

// A RevealedTask is a task in one row.
type RevealedTask struct {
	Shop     string
	Consent  string
	Agent    agent.Ref
	Demo     bool
	Day      uint32
	Slot     int
	Template string
	Family   string
	Ending   string // an outcome, or missed or cancelled
	Latency  time.Duration
	Planned  time.Time // to be sent
	Revealed time.Time
}

const taskColumns = `shop, consent, agent, coalesce(demo, false), day, slot, template, family, ending, latency, planned, revealed`

// RevealedTasks returns revealed tasks of a consent, the latest slots first: those before
// a slot, or with nil from the very latest.
func (r Reader) RevealedTasks(ctx context.Context, consent string, before *ShopKey, limit int) ([]RevealedTask, error) {
	day, slot := int64(1)<<40, 0
	if before != nil {
		day, slot = int64(before.Day), before.Slot
	}
	return collect(ctx, r.Pool, scanTask, `
		select `+taskColumns+` from glance_tasks left join glance_agents using (agent) where consent = $1 and (day, slot) < ($2, $3)
		order by day desc, slot desc limit $4`, consent, day, slot, limit)
}

// LatestReveals returns the tasks that were revealed last, of all consents.
func (r Reader) LatestReveals(ctx context.Context, limit int) ([]RevealedTask, error) {
	return collect(ctx, r.Pool, scanTask, `
		select `+taskColumns+` from glance_tasks left join glance_agents using (agent) order by revealed desc, shop desc limit $1`, limit)
}

func scanTask(row pgx.CollectableRow) (t RevealedTask, err error) {
	var ms int64
	err = row.Scan(&t.Shop, &t.Consent, &t.Agent, &t.Demo, &t.Day, &t.Slot, &t.Template, &t.Family, &t.Ending, &ms, &t.Planned, &t.Revealed)
	t.Latency = time.Duration(ms) * time.Millisecond
	t.Planned, t.Revealed = t.Planned.UTC(), t.Revealed.UTC()
	return t, err
}

// A DayTally counts the revealed tasks of a day by how they ended.
type DayTally struct {
	Day     uint32
	Endings map[string]int
}

// Tallies returns the days of a consent on which something was revealed, in order.
func (r Reader) Tallies(ctx context.Context, consent string) (list []DayTally, err error) {
	rows, err := r.Pool.Query(ctx, `
		select day, ending, count(*) from glance_tasks where consent = $1 group by 1, 2 order by 1, 2`, consent)
	if err != nil {
		return nil, err
	}
	var day uint32
	var ending string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&day, &ending, &n}, func() error {
		if len(list) == 0 || list[len(list)-1].Day != day {
			list = append(list, DayTally{day, make(map[string]int)})
		}
		list[len(list)-1].Endings[ending] = n
		return nil
	})
	return list, err
}

// TaskTotals counts revealed tasks, and says how long the answers to them took.
type TaskTotals struct {
	Families map[string]map[string]int // by family and ending
	Kinds    map[string]map[string]int // by kind of endpoint and ending
	Latency  Latency
}

// Latency is how long answers took: the shortest time within which a half, nine tenths
// and 99 hundredths of them came.
type Latency struct {
	Answers       int
	P50, P90, P99 time.Duration // 0 without an answer
}

// TaskTotals returns the totals of the revealed tasks of Karatum's own agents, or of all
// others.
func (r Reader) TaskTotals(ctx context.Context, demo bool) (t TaskTotals, err error) {
	t.Families, t.Kinds = make(map[string]map[string]int), make(map[string]map[string]int)
	rows, err := r.Pool.Query(ctx, `
		select grouping(family), coalesce(family, kind), ending, count(*)
		from glance_tasks left join glance_agents using (agent) where coalesce(demo, false) = $1
		group by grouping sets ((family, ending), (kind, ending))`, demo)
	if err != nil {
		return t, err
	}
	var byKind, n int
	var name, ending string
	if _, err := pgx.ForEachRow(rows, []any{&byKind, &name, &ending, &n}, func() error {
		of := t.Families
		if byKind == 1 {
			of = t.Kinds
		}
		if of[name] == nil {
			of[name] = make(map[string]int)
		}
		of[name][ending] = n
		return nil
	}); err != nil {
		return t, err
	}
	var quantiles []int64
	err = r.Pool.QueryRow(ctx, `
		select count(*), coalesce(percentile_disc(array[0.5, 0.9, 0.99]) within group (order by latency), '{0,0,0}')
		from glance_tasks left join glance_agents using (agent) where coalesce(demo, false) = $1 and ending in ('pass', 'fail', 'refused')`, demo).Scan(&t.Latency.Answers, &quantiles)
	if err != nil {
		return t, err
	}
	for i, q := range []*time.Duration{&t.Latency.P50, &t.Latency.P90, &t.Latency.P99} {
		*q = time.Duration(quantiles[i]) * time.Millisecond
	}
	return t, nil
}

// A StandingQuery picks the latest comparisons of consents. Its zero Verdict picks all.
type StandingQuery struct {
	Verdict finding.Verdict // gated
	After   *ConsentKey     // the last one of the page before: when its comparison was made, and its consent
	Limit   int
}

// correctionsOfStanding selects when the comparison s was corrected, and the events. It
// is the last look at its consent.
const correctionsOfStanding = `
	array(select made from finding_corrections c
		where c.consent = s.consent and c.look = (select max(look) from findings f where f.consent = s.consent) order by c.version),
	array(select data from finding_corrections c
		where c.consent = s.consent and c.look = (select max(look) from findings f where f.consent = s.consent) order by c.version)`

// Standings returns the latest comparison of each consent that q picks, the latest first,
// with what was corrected of it.
func (r Reader) Standings(ctx context.Context, q StandingQuery) ([]Finding, error) {
	var reached *time.Time
	var id string
	if q.After != nil {
		reached, id = &q.After.Recorded, q.After.ID
	}
	return collect(ctx, r.Pool, scanStanding, `
		select reached, data, `+correctionsOfStanding+` from glance_standings s
		where ($1 = '' or verdict = $1) and ($2::timestamptz is null or (reached, consent) < ($2, $3))
		order by reached desc, consent desc limit $4`, string(q.Verdict), reached, id, q.Limit)
}

// StandingCounts says how many consents stand at each gated verdict.
func (r Reader) StandingCounts(ctx context.Context) (map[finding.Verdict]int, error) {
	rows, err := r.Pool.Query(ctx, `select verdict, count(*) from glance_standings group by verdict`)
	if err != nil {
		return nil, err
	}
	counts := make(map[finding.Verdict]int)
	var verdict string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&verdict, &n}, func() error {
		counts[finding.Verdict(verdict)] = n
		return nil
	})
	return counts, err
}

// A ListedAgent is an agent as a list shows it.
type ListedAgent struct {
	Ref     agent.Ref
	Demo    bool
	Since   time.Time
	Consent string   // the last that was granted; "" if none ever was
	State   string   // of that consent
	Latest  *Finding // nil without a comparison
}

// An AgentKey is a place in the list of agents.
type AgentKey struct {
	Since time.Time
	Ref   agent.Ref
}

// AgentList returns registered agents, the latest first, from those after a place, or
// with nil from the very latest.
func (r Reader) AgentList(ctx context.Context, after *AgentKey, limit int) ([]ListedAgent, error) {
	var since *time.Time
	var ref string
	if after != nil {
		since, ref = &after.Since, string(after.Ref)
	}
	return collect(ctx, r.Pool, scanListedAgent, `
		select a.agent, a.demo, a.since, coalesce(c.consent, ''), coalesce(c.state, ''), s.reached, s.data, `+correctionsOfStanding+`
		from (
			select * from agents where $1::timestamptz is null or (since, agent) < ($1, $2)
			order by since desc, agent desc limit $3
		) a
		left join lateral (
			select consent, state from consents where agent = a.agent and state <> 'refused'
			order by recorded desc, consent desc limit 1
		) c on true
		left join lateral (
			select consent, reached, data from glance_standings where agent = a.agent order by reached desc limit 1
		) s on true
		order by a.since desc, a.agent desc`, since, ref, limit)
}

func scanListedAgent(row pgx.CollectableRow) (a ListedAgent, err error) {
	var reached *time.Time
	var data []byte
	var made []time.Time
	var corrections [][]byte
	if err = row.Scan(&a.Ref, &a.Demo, &a.Since, &a.Consent, &a.State, &reached, &data, &made, &corrections); err != nil {
		return a, err
	}
	a.Since = a.Since.UTC()
	e, err := decode[finding.Reached](data)
	if err != nil || e == nil {
		return a, err
	}
	a.Latest = &Finding{Reached: *e, At: at(reached)}
	a.Latest.Corrections, err = correctionsOf(made, corrections)
	return a, err
}

// A NamedHash says what a hash is.
type NamedHash struct {
	Form HashForm
	Of   string // id of a slot or a consent, or number of a batch
}

// FindHash returns what a hash is of, which may be several things.
func (r Reader) FindHash(ctx context.Context, hash domain.Hash) ([]NamedHash, error) {
	return collect(ctx, r.Pool, func(row pgx.CollectableRow) (n NamedHash, err error) {
		err = row.Scan(&n.Form, &n.Of)
		return n, err
	}, `
		select case split_part(stream, '/', 1) when 'seal' then 'seal' else 'commit' end, split_part(stream, '/', 2)
		from batch_commits where commit = $1
		union all
		select * from (select form, of from glance_hashes where hash = $1 order by form, of limit 20) h`, hash[:])
}
