package projections

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
)

// Programme is what holds for everybody, and how much there is of everything.
// What belongs to Karatum's own agents is counted apart.
var Programme = Projection{
	Name: "programme", Version: 3, Visibility: domain.Public,
	Tables: `
		create table programme (
			one    boolean     primary key default true check (one),
			as_of  timestamptz
		);
		insert into programme default values;
		create table programme_pauses (
			scope  text        primary key,
			reason text        not null,
			since  timestamptz not null,
			n      bigint      not null -- order of pausing
		);
		create table programme_keys (
			key     text        primary key,
			n       bigint      not null, -- order of registration
			since   timestamptz not null,
			retired timestamptz,
			reason  text        not null default ''
		);
		create table programme_maintainers (
			key     text        primary key,
			n       bigint      not null, -- order of registration
			name    text        not null,
			since   timestamptz not null,
			retired timestamptz,
			reason  text        not null default ''
		);
		create table programme_settings (setting text primary key, value text not null, since timestamptz not null);
		create table programme_versions (
			n       bigint      primary key, -- order of publication
			kind    text        not null,
			version bigint      not null,
			hash    text        not null,
			since   timestamptz not null
		);
		create table programme_agents (agent text primary key, demo boolean not null);
		create table programme_totals (
			demo  boolean not null,
			kind  text    not null,
			value text    not null,
			n     bigint  not null,
			primary key (demo, kind, value)
		)`,
	Apply: applyProgramme,
}

var (
	passTime = &Change{Table: "programme", Gathers: true, SQL: `
		update programme set as_of = greatest(as_of, (select max(v.time) from unnest($1::timestamptz[]) as v (time)))`}
	addProgrammeAgent = &Change{Table: "programme_agents", Key: 1, SQL: `
		insert into programme_agents (agent, demo) select * from unnest($1::text[], $2::boolean[])`}
	countTotal = &Change{Table: "programme_totals", Gathers: true, Reads: []Reading{{"programme_agents", 0}}, SQL: `
		insert into programme_totals (demo, kind, value, n)
		select coalesce(a.demo, false), v.kind, v.value, sum(v.n)
		from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as v (agent, kind, value, n)
		left join programme_agents a using (agent)
		group by 1, 2, 3
		on conflict (demo, kind, value) do update set n = programme_totals.n + excluded.n`}
)

func applyProgramme(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	if err := tx.Do(passTime, r.Time); err != nil {
		return err
	}
	publish := func(kind string, version uint32, hash domain.Hash) error {
		return tx.Exec(ctx, `insert into programme_versions (n, kind, version, hash, since) values ($1, $2, $3, $4, $5)`,
			r.Version, kind, version, hash.String(), r.Time)
	}
	count := func(ref, kind, value string, n int) error {
		return tx.Do(countTotal, ref, kind, value, n)
	}
	over := func(state string) error {
		ref := r.Stream.ID()
		if err := count(ref, "consent", Active, -1); err != nil {
			return err
		}
		return count(ref, "consent", state, 1)
	}
	switch e := e.(type) {
	case programme.TermsPublished:
		return publish("terms", e.Version, e.Hash)
	case programme.PoolPublished:
		return publish("pool", e.Version, e.Hash)
	case programme.CataloguePublished:
		return publish("catalogue", 0, e.Digest)
	case programme.OperatorKeyRegistered:
		return tx.Exec(ctx, `insert into programme_keys (key, n, since) values ($1, $2, $3)`, e.Key.String(), r.Version, r.Time)
	case programme.OperatorKeyRetired:
		return tx.Exec(ctx, `update programme_keys set retired = $2, reason = $3 where key = $1`, e.Key.String(), r.Time, e.Reason)
	case programme.MaintainerRegistered:
		return tx.Exec(ctx, `insert into programme_maintainers (key, n, name, since) values ($1, $2, $3, $4)`, e.Key.String(), r.Version, e.Name, r.Time)
	case programme.MaintainerRetired:
		return tx.Exec(ctx, `update programme_maintainers set retired = $2, reason = $3 where key = $1`, e.Key.String(), r.Time, e.Reason)
	case programme.ConfigChanged:
		return tx.Exec(ctx, `insert into programme_settings (setting, value, since) values ($1, $2, $3)
			on conflict (setting) do update set value = excluded.value, since = excluded.since`, string(e.Setting), e.Value, r.Time)
	case programme.Paused:
		return tx.Exec(ctx, `insert into programme_pauses (scope, reason, since, n) values ($1, $2, $3, $4)`,
			string(e.Scope), e.Reason, r.Time, r.Version)
	case programme.Resumed:
		return tx.Exec(ctx, `delete from programme_pauses where scope = $1`, string(e.Scope))
	case agent.Registered:
		return tx.Do(addProgrammeAgent, string(e.Agent), e.Demo)
	case consent.Granted:
		return count(string(e.Payload.Agent), "consent", Active, 1)
	case consent.Refused:
		return count(string(e.Payload.Agent), "consent", Refused, 1)
	case consent.Revoked:
		return over(Revoked)
	case consent.Ended:
		return over(endState(e.Reason))
	case shop.Revealed:
		return count(string(e.Agent), "revealed", ending(e.Result), 1)
	case incident.Disclosed:
		return count(string(e.Opened.Agent), "incident", string(e.Opened.Severity.Rating), 1)
	case finding.Reached:
		return count(string(e.Agent), "finding", string(e.Verdict), 1)
	}
	return nil
}

// ending is the outcome of a task, or why it has none.
func ending(r shop.Result) string {
	if r.State == shop.StateJudged {
		return string(r.Outcome)
	}
	return string(r.State)
}

// A Version is something published for new consents to refer to.
type Version struct {
	Number uint32 // 0 for a catalogue, which its digest names
	Hash   domain.Hash
	Since  time.Time
}

// A Pause is a scope that is paused now.
type Pause struct {
	Scope  programme.Scope
	Reason string
	Since  time.Time
}

// An OperatorKey is what stands for an operator secret.
type OperatorKey struct {
	Key     domain.Hash
	Since   time.Time // when it was registered
	Retired time.Time // zero while it is in force
	Reason  string    // why it was retired
}

// A Maintainer is a person who may act on incidents and findings.
type Maintainer struct {
	Name string
	OperatorKey
}

// A Setting is one that shows in public.
type Setting struct {
	Setting programme.Setting
	Value   string
	Since   time.Time
}

// Totals counts what is public.
type Totals struct {
	Consents map[string]int // by state
	Revealed map[string]int // tasks by outcome, or missed or cancelled
	Findings map[string]int // by verdict

	Incidents map[string]int // that were disclosed, by rating
}

// A Status is the programme as a whole. Lists are in order of publication: of
// terms, pools and catalogues the last entry is in force.
type Status struct {
	AsOf       time.Time // of the last public record; zero before the first
	Pauses     []Pause
	Keys       []OperatorKey
	Terms      []Version
	Pools      []Version
	Catalogues []Version

	Maintainers []Maintainer
	Settings    []Setting

	Totals Totals // without Karatum's own agents
	Demo   Totals // of those alone
}

// Paused reports whether everything is paused.
func (s *Status) Paused() bool {
	return slices.ContainsFunc(s.Pauses, func(p Pause) bool { return p.Scope == programme.Everything })
}

// Programme returns the programme as a whole.
func (r Reader) Programme(ctx context.Context) (s Status, err error) {
	var b pgx.Batch
	b.Queue(`select as_of from programme`).QueryRow(func(row pgx.Row) error {
		var asOf *time.Time
		err := row.Scan(&asOf)
		s.AsOf = at(asOf)
		return err
	})
	b.Queue(`select scope, reason, since from programme_pauses order by n`).Query(s.readPauses)
	b.Queue(`select key, since, retired, reason from programme_keys order by n`).Query(s.readKeys)
	b.Queue(`select kind, version, hash, since from programme_versions order by n`).Query(s.readVersions)
	b.Queue(`select name, key, since, retired, reason from programme_maintainers order by n`).Query(s.readMaintainers)
	b.Queue(`select setting, value, since from programme_settings order by setting`).Query(s.readSettings)
	b.Queue(`select demo, kind, value, n from programme_totals where n <> 0`).Query(s.readTotals)
	err = r.together(ctx, &b)
	return s, err
}

func (s *Status) readPauses(rows pgx.Rows) error {
	var p Pause
	_, err := pgx.ForEachRow(rows, []any{&p.Scope, &p.Reason, &p.Since}, func() error {
		p.Since = p.Since.UTC()
		s.Pauses = append(s.Pauses, p)
		return nil
	})
	return err
}

func (s *Status) readKeys(rows pgx.Rows) error {
	var k OperatorKey
	var key string
	var retired *time.Time
	_, err := pgx.ForEachRow(rows, []any{&key, &k.Since, &retired, &k.Reason}, func() (err error) {
		k.Since, k.Retired = k.Since.UTC(), at(retired)
		if k.Key, err = domain.ParseHash(key); err != nil {
			return err
		}
		s.Keys = append(s.Keys, k)
		return nil
	})
	return err
}

func (s *Status) readMaintainers(rows pgx.Rows) error {
	var m Maintainer
	var key string
	var retired *time.Time
	_, err := pgx.ForEachRow(rows, []any{&m.Name, &key, &m.Since, &retired, &m.Reason}, func() (err error) {
		m.Since, m.Retired = m.Since.UTC(), at(retired)
		if m.Key, err = domain.ParseHash(key); err != nil {
			return err
		}
		s.Maintainers = append(s.Maintainers, m)
		return nil
	})
	return err
}

func (s *Status) readSettings(rows pgx.Rows) error {
	var set Setting
	_, err := pgx.ForEachRow(rows, []any{&set.Setting, &set.Value, &set.Since}, func() error {
		set.Since = set.Since.UTC()
		s.Settings = append(s.Settings, set)
		return nil
	})
	return err
}

func (s *Status) readVersions(rows pgx.Rows) error {
	var kind, hash string
	var v Version
	_, err := pgx.ForEachRow(rows, []any{&kind, &v.Number, &hash, &v.Since}, func() (err error) {
		v.Since = v.Since.UTC()
		if v.Hash, err = domain.ParseHash(hash); err != nil {
			return err
		}
		switch kind {
		case "terms":
			s.Terms = append(s.Terms, v)
		case "pool":
			s.Pools = append(s.Pools, v)
		case "catalogue":
			s.Catalogues = append(s.Catalogues, v)
		}
		return nil
	})
	return err
}

func (s *Status) readTotals(rows pgx.Rows) error {
	empty := func() Totals {
		return Totals{make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)}
	}
	s.Totals, s.Demo = empty(), empty()
	var demo bool
	var kind, value string
	var n int
	_, err := pgx.ForEachRow(rows, []any{&demo, &kind, &value, &n}, func() error {
		totals := s.Totals
		if demo {
			totals = s.Demo
		}
		switch kind {
		case "consent":
			totals.Consents[value] = n
		case "revealed":
			totals.Revealed[value] = n
		case "finding":
			totals.Findings[value] = n
		case "incident":
			totals.Incidents[value] = n
		}
		return nil
	})
	return err
}
