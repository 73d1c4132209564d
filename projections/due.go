package projections

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// DueWork is what the shopper plans its work from. It is private: it is handed
// sealed records too, and nothing that answers the public may read it.
var DueWork = Projection{
	Name: "due", Version: 10, Visibility: domain.Sealed,
	Tables: `
		create table due_agents (agent text primary key, demo boolean not null);
		create table due_consents (
			consent     text        primary key,
			agent       text        not null,
			demo        boolean     not null,
			event       bytea       not null, -- that granted it
			granted     timestamptz not null,
			over        timestamptz,
			looks       int         not null default 0,
			p_always    text        not null default '', -- of the last look
			final       boolean     not null default false, -- compared at its end
			confirmed   int         not null default 0 -- the first look that was exam_only behind the gate
		);
		create table due_proofs (consent text not null, endpoint text not null, primary key (consent, endpoint));
		create table due_plans (
			consent  text    not null,
			day      bigint  not null,
			commits  bytea, -- of all slots, if it was planned
			eligible bytea, -- hash of the list that the choices were made from, if it was
			opened   boolean not null default false,
			count    int     not null default 0,
			primary key (consent, day)
		);
		create table due_slots (
			shop    text   primary key,
			consent text   not null,
			day     bigint not null,
			slot    int    not null,
			state   text   not null,
			paying  boolean not null default false, -- it is not known what became of a payment
			sent    timestamptz,
			ended   timestamptz, -- when it got its outcome
			head    bytea  not null, -- hash of the last record of its stream
			family  text,
			result  bytea -- once revealed
		);
		create table due_seals (
			consent text   not null,
			day     bigint not null,
			hours   int    not null, -- bit 0 is that of midnight
			primary key (consent, day)
		);
		create table due_surfaces (
			agent text        not null,
			n     bigint      not null, -- version in the agent's stream
			kind  text        not null,
			url   text        not null,
			hash  text        not null,
			seen  timestamptz not null,
			primary key (agent, n)
		);
		create table due_compared (consent text not null, day bigint not null, primary key (consent, day));
		create table due_runs (
			agent text   not null,
			n     bigint not null, -- version in the agent's stream
			event bytea  not null,
			primary key (agent, n)
		);
		create table due_incidents (
			incident text        primary key,
			consent  text        not null unique,
			agent    text        not null,
			demo     boolean     not null,
			look     int         not null,
			severity bytea       not null,
			stage    text        not null,
			recalled boolean     not null default false,
			version  bigint      not null, -- records of its stream
			replies  int         not null default 0,
			until    timestamptz not null, -- a disclosure waits for the owner's reply
			opened   timestamptz not null
		);
		create table due_trials (
			agent   text   not null,
			attempt text   not null,
			n       bigint not null, -- version in the agent's stream
			event   bytea  not null,
			primary key (agent, attempt)
		)`,
	Indexes: `
		create index on due_consents (agent);
		create index on due_slots (consent, day, slot);
		create index on due_slots (consent) where state not in ('committed', 'revealed');
		create index on due_slots (sent) where sent is not null;
		create index on due_slots (ended) where ended is not null`,
	Apply: applyDue,
}

var (
	addDueAgent = &Change{Table: "due_agents", Key: 1, SQL: `
		insert into due_agents (agent, demo) select * from unnest($1::text[], $2::boolean[])`}
	addDueSurface = &Change{Table: "due_surfaces", Key: 2, SQL: `
		insert into due_surfaces (agent, n, kind, url, hash, seen)
		select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])`}
	addDueConsent = &Change{Table: "due_consents", Key: 1, Reads: []Reading{{"due_agents", 1}}, SQL: `
		insert into due_consents (consent, agent, demo, event, granted)
		select v.consent, v.agent, coalesce(a.demo, false), v.event, v.granted
		from unnest($1::text[], $2::text[], $3::bytea[], $4::timestamptz[]) as v (consent, agent, event, granted)
		left join due_agents a using (agent)`}
	endDueConsent = &Change{Table: "due_consents", Key: 1, SQL: `
		update due_consents c set over = v.over
		from unnest($1::text[], $2::timestamptz[]) as v (consent, over) where c.consent = v.consent`}
	compareDueConsent = &Change{Table: "due_consents", Key: 1, SQL: `
		update due_consents c set looks = v.looks, final = c.final or v.final, p_always = v.p_always,
			confirmed = case when c.confirmed = 0 then v.confirmed else c.confirmed end
		from unnest($1::text[], $2::int[], $3::boolean[], $4::text[], $5::int[]) as v (consent, looks, final, p_always, confirmed)
		where c.consent = v.consent`}
	addDueCompared = &Change{Table: "due_compared", Key: 2, SQL: `
		insert into due_compared (consent, day) select * from unnest($1::text[], $2::bigint[]) on conflict do nothing`}
	addDueProof = &Change{Table: "due_proofs", Key: 2, SQL: `
		insert into due_proofs (consent, endpoint) select * from unnest($1::text[], $2::text[]) on conflict do nothing`}
	dropDueProof = &Change{Table: "due_proofs", Key: 2, SQL: `
		delete from due_proofs p using unnest($1::text[], $2::text[]) as v (consent, endpoint)
		where (p.consent, p.endpoint) = (v.consent, v.endpoint)`}
	sealDuePlan = &Change{Table: "due_plans", Key: 2, Copies: []string{"consent", "day", "opened", "count", "commits", "eligible"}, SQL: `
		insert into due_plans (consent, day, opened, count, commits, eligible)
		select * from unnest($1::text[], $2::bigint[], $3::boolean[], $4::int[], $5::bytea[], $6::bytea[])`}
	openDuePlan = &Change{Table: "due_plans", Key: 2, Into: sealDuePlan, SQL: `
		insert into due_plans (consent, day, opened, count)
		select * from unnest($1::text[], $2::bigint[], $3::boolean[], $4::int[])
		on conflict (consent, day) do update set opened = excluded.opened, count = excluded.count`}
	addDueSlot = &Change{Table: "due_slots", Key: 1, Copies: []string{"shop", "head", "state", "paying", "sent", "ended", "family", "result", "consent", "day", "slot"}, SQL: `
		insert into due_slots (shop, head, state, paying, sent, ended, family, result, consent, day, slot)
		select * from unnest($1::text[], $2::bytea[], $3::text[], $4::boolean[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::bytea[],
			$9::text[], $10::bigint[], $11::int[])`}
	// moveDueSlot leaves what it is given no value for.
	moveDueSlot = &Change{Table: "due_slots", Key: 1, Merges: true, Into: addDueSlot, SQL: `
		update due_slots s set head = v.head, state = coalesce(v.state, s.state), paying = coalesce(v.paying, s.paying),
			sent = coalesce(v.sent, s.sent), ended = coalesce(v.ended, s.ended), family = coalesce(v.family, s.family),
			result = coalesce(v.result, s.result)
		from unnest($1::text[], $2::bytea[], $3::text[], $4::boolean[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::bytea[])
			as v (shop, head, state, paying, sent, ended, family, result)
		where s.shop = v.shop`}
	addDueSeal = &Change{Table: "due_seals", Key: 2, Gathers: true, SQL: `
		insert into due_seals (consent, day, hours)
		select consent, day, bit_or(1 << hour) from unnest($1::text[], $2::bigint[], $3::int[]) as v (consent, day, hour) group by 1, 2
		on conflict (consent, day) do update set hours = due_seals.hours | excluded.hours`}
	addDueRun = &Change{Table: "due_runs", Key: 2, SQL: `
		insert into due_runs (agent, n, event) select * from unnest($1::text[], $2::bigint[], $3::bytea[])`}
	addDueIncident = &Change{Table: "due_incidents", Key: 1, SQL: `
		insert into due_incidents (incident, consent, agent, demo, look, severity, stage, version, until, opened)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::int[], $6::bytea[], $7::text[], $8::bigint[],
			$9::timestamptz[], $10::timestamptz[])`}
	// moveDueIncident leaves the stage if it is given none.
	moveDueIncident = &Change{Table: "due_incidents", Key: 1, SQL: `
		update due_incidents i set stage = coalesce(v.stage, i.stage), version = v.version, replies = i.replies + v.replies, recalled = i.recalled or v.recalled
		from unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::boolean[]) as v (incident, stage, version, replies, recalled)
		where i.incident = v.incident`}
	addDueTrial = &Change{Table: "due_trials", Key: 2, SQL: `
		insert into due_trials (agent, attempt, n, event) select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])`}
	dropDueTrial = &Change{Table: "due_trials", Key: 2, SQL: `
		delete from due_trials t using unnest($1::text[], $2::text[]) as v (agent, attempt)
		where (t.agent, t.attempt) = (v.agent, v.attempt)`}
)

func applyDue(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case agent.Event:
		return applyDueAgent(tx, r, e)
	case consent.Event:
		return applyDueConsent(tx, r, e)
	case plan.Event:
		return applyDuePlan(tx, e)
	case shop.Event:
		return applyDueSlot(tx, r, e)
	case seal.Sealed:
		return tx.Do(addDueSeal, e.Consent, e.Hour/24, e.Hour%24)
	case exam.Event:
		return applyDueExam(tx, r, e)
	case incident.Event:
		return applyDueIncident(tx, r, e)
	case finding.Reached:
		final, confirmed := e.Cycle == finding.AtEnd, 0
		if e.GatedVerdict == finding.ExamOnly {
			confirmed = e.Look
		}
		if err := tx.Do(compareDueConsent, e.Consent, e.Look, final, e.PAlways, confirmed); err != nil || final {
			return err
		}
		return tx.Do(addDueCompared, e.Consent, e.Day)
	}
	return nil
}

func applyDueExam(tx Tx, r ledger.Record, e exam.Event) error {
	data, err := encoded(&r, e)
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case exam.RunRecorded:
		return tx.Do(addDueRun, r.Stream.ID(), r.Version, data)
	case exam.AttemptRecorded:
		return tx.Do(addDueTrial, r.Stream.ID(), e.Attempt, r.Version, data)
	case exam.AttemptWithdrawn:
		return tx.Do(dropDueTrial, r.Stream.ID(), e.Attempt)
	}
	return nil
}

func applyDueIncident(tx Tx, r ledger.Record, e incident.Event) error {
	move := func(stage any, replies int, recalled bool) error {
		return tx.Do(moveDueIncident, r.Stream.ID(), stage, r.Version, replies, recalled)
	}
	switch e := e.(type) {
	case incident.Opened:
		severity, err := domain.Canonical(e.Severity)
		if err != nil {
			return err
		}
		return tx.Do(addDueIncident, e.Incident, e.Consent, string(e.Agent), e.Demo, e.Look, severity, string(incident.Reported), r.Version, e.ReplyUntil, r.Time)
	case incident.Triaged:
		if e.Verdict == incident.Rejected {
			return move(string(incident.StageRejected), 0, false)
		}
		return move(string(incident.StageConfirmed), 0, false)
	case incident.ReplyFiled:
		return move(nil, 1, false)
	case incident.Closed:
		return move(string(incident.StageClosed), 0, false)
	case incident.Disclosed:
		return move(string(incident.StageDisclosed), 0, false)
	case incident.Corrected:
		return move(nil, 0, false)
	case incident.Recalled:
		return move(nil, 0, true)
	case incident.Resolved:
		return move(string(incident.StageResolved), 0, false)
	}
	return nil
}

func applyDueAgent(tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case agent.Registered:
		return tx.Do(addDueAgent, string(e.Agent), e.Demo)
	case agent.SurfaceObserved:
		return tx.Do(addDueSurface, r.Stream.ID(), r.Version, string(e.Kind), e.URL, e.Surface.String(), r.Time)
	}
	return nil
}

func applyDueConsent(tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case consent.Granted:
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		return tx.Do(addDueConsent, e.Consent, string(e.Payload.Agent), data, r.Time)
	case consent.HostProven:
		return tx.Do(addDueProof, e.Consent, e.Endpoint)
	case consent.HostLost:
		return tx.Do(dropDueProof, e.Consent, e.Endpoint)
	case consent.Revoked:
		return tx.Do(endDueConsent, e.Consent, r.Time)
	case consent.Ended:
		return tx.Do(endDueConsent, e.Consent, r.Time)
	}
	return nil
}

func applyDuePlan(tx Tx, e domain.Event) error {
	switch e := e.(type) {
	case plan.Sealed:
		commits := make([]byte, 0, len(e.Commits)*len(domain.Hash{}))
		for _, commit := range e.Commits {
			commits = append(commits, commit[:]...)
		}
		return tx.Do(sealDuePlan, e.Consent, e.Day, false, 0, commits, e.Eligible[:])
	case plan.Opened:
		return tx.Do(openDuePlan, e.Consent, e.Day, true, e.Count)
	}
	return nil
}

func applyDueSlot(tx Tx, r ledger.Record, e domain.Event) error {
	id, head := r.Stream.ID(), bytes.Clone(r.Hash[:])
	step := func(state shop.State) error {
		return tx.Do(moveDueSlot, id, head, string(state), nil, nil, nil, nil, nil)
	}
	end := func(state shop.State) error {
		return tx.Do(moveDueSlot, id, head, string(state), nil, nil, r.Time, nil, nil)
	}
	paying := func(paying bool) error { return tx.Do(moveDueSlot, id, head, nil, paying, nil, nil, nil, nil) }
	switch e := e.(type) {
	case shop.Committed:
		return tx.Do(addDueSlot, id, head, string(shop.StateCommitted), false, nil, nil, nil, nil, e.Consent, e.Day, e.Slot)
	case shop.Sent:
		return tx.Do(moveDueSlot, id, head, string(shop.StateSent), nil, r.Time, nil, nil, nil)
	case shop.PaymentReserved:
		return paying(true)
	case shop.PaymentSettled:
		return paying(false)
	case shop.SessionOpened, shop.SessionAction, shop.SessionClosed:
		return step(shop.StateConversed)
	case shop.Replied:
		return step(shop.StateReplied)
	case shop.Judged:
		return end(shop.StateJudged)
	case shop.Missed:
		return end(shop.StateMissed)
	case shop.Cancelled:
		return end(shop.StateCancelled)
	case shop.Revealed:
		result, err := domain.Canonical(e.Result)
		if err != nil {
			return err
		}
		return tx.Do(moveDueSlot, id, head, string(shop.StateRevealed), nil, nil, nil, e.Family, result)
	case shop.Erased:
		return tx.Do(moveDueSlot, id, head, nil, nil, nil, nil, nil, nil)
	}
	return nil
}

// Due answers from the private read model of the work to be done.
type Due struct {
	Pool *pgxpool.Pool
}

// A DueConsent is a consent that there is still work for.
type DueConsent struct {
	Granted consent.Granted
	Demo    bool
	OverAt  time.Time       // zero while it is active
	Proven  map[string]bool // endpoint ids
}

// Consents returns every consent that is not settled, oldest first. A consent is
// settled when it is over, all its planned days are opened, every task sent under
// it is revealed, it was compared at its end, and what follows from that is done.
func (d Due) Consents(ctx context.Context) ([]DueConsent, error) {
	return collect(ctx, d.Pool, scanDueConsent, `
		select event, demo, over, array(select endpoint from due_proofs p where p.consent = c.consent)
		from due_consents c
		where over is null or not final
		   or exists (select from due_plans p where p.consent = c.consent and not opened)
		   or exists (select from due_slots s where s.consent = c.consent and state not in ('committed', 'revealed'))
		   or confirmed > 0 and not exists (
		      select from due_incidents i where i.consent = c.consent and not (i.demo and i.stage in ('reported', 'confirmed')))
		order by granted, consent`)
}

func scanDueConsent(row pgx.CollectableRow) (c DueConsent, err error) {
	var event []byte
	var over *time.Time
	var proven []string
	if err = row.Scan(&event, &c.Demo, &over, &proven); err != nil {
		return c, err
	}
	c.OverAt = at(over)
	c.Proven = make(map[string]bool)
	for _, endpoint := range proven {
		c.Proven[endpoint] = true
	}
	err = domain.Unmarshal(event, &c.Granted)
	return c, err
}

// A DuePlan is a day that is sealed or opened.
type DuePlan struct {
	Consent  string
	Day      uint32
	Sealed   bool          // false: opened without a plan, and there are no commits
	Commits  []domain.Hash // of all slots
	Eligible domain.Hash   // of the list that the choices were made from
	Opened   bool
	Count    int // of tasks; known once it is opened
}

// Plans returns the days of all consents that an agent ever had, by day.
func (d Due) Plans(ctx context.Context, ref agent.Ref) ([]DuePlan, error) {
	return collect(ctx, d.Pool, scanDuePlan, `
		select p.consent, p.day, p.commits, p.eligible, p.opened, p.count
		from due_plans p join due_consents c using (consent)
		where c.agent = $1 order by p.day, c.granted`, string(ref))
}

func scanDuePlan(row pgx.CollectableRow) (p DuePlan, err error) {
	var commits, eligible []byte
	if err = row.Scan(&p.Consent, &p.Day, &commits, &eligible, &p.Opened, &p.Count); err != nil || commits == nil {
		return p, err
	}
	p.Sealed = true
	for raw := range slices.Chunk(commits, len(p.Eligible)) {
		commit, err := hashOf(raw)
		if err != nil {
			return p, err
		}
		p.Commits = append(p.Commits, commit)
	}
	p.Eligible, err = hashOf(eligible)
	return p, err
}

// A DueSlot is where a slot stands.
type DueSlot struct {
	State  shop.State
	SentAt time.Time // zero if it was not sent
}

// Slots returns, by shop id, the slots of a consent that work may be left for:
// all those of days that are not opened, and of opened days those that something
// has become of and that are not revealed.
func (d Due) Slots(ctx context.Context, consent string) (map[string]DueSlot, error) {
	rows, err := d.Pool.Query(ctx, `
		select shop, state, paying, sent from due_slots
		where consent = $1 and day in (select day from due_plans where consent = $1 and not opened)
		union
		select shop, state, paying, sent from due_slots
		where consent = $1 and state not in ('committed', 'revealed')`, consent)
	if err != nil {
		return nil, err
	}
	slots := make(map[string]DueSlot)
	var id string
	var s DueSlot
	var paying bool
	var sent *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &s.State, &paying, &sent}, func() error {
		s.SentAt = at(sent)
		if paying {
			s.State = s.State.Pay()
		}
		slots[id] = s
		return nil
	})
	return slots, err
}

// Heads returns the hash of the last record of each slot of a day, or nil if the
// day has no plan. It is zero for a slot that is not recorded yet.
func (d Due) Heads(ctx context.Context, consent string, day uint32) (*[plan.Slots]domain.Hash, error) {
	rows, err := d.Pool.Query(ctx, `
		select coalesce(s.slot, 0), s.head
		from due_plans p left join due_slots s using (consent, day)
		where p.consent = $1 and p.day = $2 and p.commits is not null`, consent, day)
	if err != nil {
		return nil, err
	}
	var heads *[plan.Slots]domain.Hash
	var slot int
	var head []byte
	_, err = pgx.ForEachRow(rows, []any{&slot, &head}, func() (err error) {
		if heads == nil {
			heads = new([plan.Slots]domain.Hash)
		}
		if head != nil {
			heads[slot], err = hashOf(head)
		}
		return err
	})
	return heads, err
}

// Seals returns the hours of the seals of a consent from one hour up to another, in
// order.
func (d Due) Seals(ctx context.Context, consent string, from, to uint64) ([]uint64, error) {
	return collect(ctx, d.Pool, pgx.RowTo[uint64], `
		select 24 * day + n as hour from due_seals cross join generate_series(0, 23) n
		where consent = $1 and day between $2::bigint / 24 and $3::bigint / 24 and hours & (1 << n) <> 0 and 24 * day + n between $2 and $3
		order by hour`, consent, from, to)
}

// A DueSurface is what an endpoint was seen to show from a moment on.
type DueSurface struct {
	Kind task.Kind
	URL  string
	Hash domain.Hash
	At   time.Time
}

// Surfaces returns all surfaces that the endpoints of an agent have shown, oldest
// first.
func (d Due) Surfaces(ctx context.Context, ref agent.Ref) ([]DueSurface, error) {
	scan := func(row pgx.CollectableRow) (s DueSurface, err error) {
		var hash string
		if err = row.Scan(&s.Kind, &s.URL, &hash, &s.At); err != nil {
			return s, err
		}
		s.At = s.At.UTC()
		s.Hash, err = domain.ParseHash(hash)
		return s, err
	}
	return collect(ctx, d.Pool, scan, `select kind, url, hash, seen from due_surfaces where agent = $1 order by n`, string(ref))
}

// DueComparisons says which comparisons of a consent exist.
type DueComparisons struct {
	Looks   int             // how many
	Days    map[uint32]bool // after the opening of which days
	Ended   bool            // whether there is one at the consent's end
	PAlways string          // of the last one

	Confirmed int            // the first look that was exam_only behind the gate; 0 if none was
	Incident  incident.Stage // what became of the incident that follows from it
}

// Compared returns the comparisons of a consent: none for one it does not know.
func (d Due) Compared(ctx context.Context, consent string) (DueComparisons, error) {
	c := DueComparisons{Days: make(map[uint32]bool)}
	rows, err := d.Pool.Query(ctx, `
		select c.looks, c.final, c.p_always, array(select day from due_compared where consent = $1), c.confirmed, coalesce(i.stage, '')
		from due_consents c left join due_incidents i using (consent) where consent = $1`, consent)
	if err != nil {
		return c, err
	}
	var days []uint32
	_, err = pgx.ForEachRow(rows, []any{&c.Looks, &c.Ended, &c.PAlways, &days, &c.Confirmed, &c.Incident}, func() error {
		for _, day := range days {
			c.Days[day] = true
		}
		return nil
	})
	return c, err
}

// A DueIncident is where an incident stands, public or not.
type DueIncident struct {
	Incident   string
	Consent    string
	Agent      agent.Ref
	Demo       bool
	Look       int
	Severity   incident.Severity
	Stage      incident.Stage
	Recalled   bool
	Version    uint64
	Replies    int
	ReplyUntil time.Time
	Opened     time.Time
}

// Incidents returns every incident there is, latest first.
func (d Due) Incidents(ctx context.Context) ([]DueIncident, error) {
	scan := func(row pgx.CollectableRow) (i DueIncident, err error) {
		var severity []byte
		if err = row.Scan(&i.Incident, &i.Consent, &i.Agent, &i.Demo, &i.Look, &severity, &i.Stage, &i.Recalled, &i.Version, &i.Replies,
			&i.ReplyUntil, &i.Opened); err != nil {
			return i, err
		}
		i.ReplyUntil, i.Opened = i.ReplyUntil.UTC(), i.Opened.UTC()
		err = domain.Unmarshal(severity, &i.Severity)
		return i, err
	}
	return collect(ctx, d.Pool, scan, `
		select incident, consent, agent, demo, look, severity, stage, recalled, version, replies, until, opened
		from due_incidents order by opened desc, incident`)
}

// Exam returns the samples of an agent's exam: first those of its trial attempts, then
// those of its runs, each in the order of their recording.
func (d Due) Exam(ctx context.Context, ref agent.Ref) ([]exam.Sample, error) {
	samples := []exam.Sample{}
	trials, err := collect(ctx, d.Pool, scanEvent[exam.AttemptRecorded], `select event from due_trials where agent = $1 order by n`, string(ref))
	if err != nil {
		return nil, err
	}
	for _, trial := range trials {
		if s, ok := trial.Sample(); ok {
			samples = append(samples, s)
		}
	}
	runs, err := collect(ctx, d.Pool, scanEvent[exam.RunRecorded], `select event from due_runs where agent = $1 order by n`, string(ref))
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		samples = append(samples, run.Samples()...)
	}
	return samples, nil
}

func scanEvent[E any](row pgx.CollectableRow) (e E, err error) {
	var data []byte
	if err = row.Scan(&data); err != nil {
		return e, err
	}
	err = domain.Unmarshal(data, &e)
	return e, err
}

// A DueResult is how a revealed task ended.
type DueResult struct {
	Family string
	Result shop.Result
}

// Field returns how the revealed tasks of a consent ended, by day and slot.
func (d Due) Field(ctx context.Context, consent string) ([]DueResult, error) {
	return collect(ctx, d.Pool, scanDueResult, `
		select family, result from due_slots where consent = $1 and state = 'revealed' order by day, slot`, consent)
}

// AgentField returns how the revealed tasks of all consents of an agent ended.
func (d Due) AgentField(ctx context.Context, ref agent.Ref) ([]DueResult, error) {
	return collect(ctx, d.Pool, scanDueResult, `
		select s.family, s.result from due_slots s join due_consents c using (consent)
		where c.agent = $1 and s.state = 'revealed' order by s.day, s.slot, c.granted`, string(ref))
}

func scanDueResult(row pgx.CollectableRow) (r DueResult, err error) {
	var result []byte
	if err = row.Scan(&r.Family, &result); err != nil {
		return r, err
	}
	err = domain.Unmarshal(result, &r.Result)
	return r, err
}
