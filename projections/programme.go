package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
)

// Programme is what holds for everybody, and how much there is of everything.
// What belongs to Karatum's own agents is counted apart.
var Programme = Projection{
	Name: "programme", Version: 1, Visibility: domain.Public,
	Tables: `
		create table programme (
			one    boolean     primary key default true check (one),
			as_of  timestamptz,
			paused boolean     not null default false,
			reason text        not null default ''
		);
		insert into programme default values;
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

func applyProgramme(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	if err := tx.Exec(ctx, `update programme set as_of = $1 where as_of is null or as_of < $1`, r.Time); err != nil {
		return err
	}
	publish := func(kind string, version uint32, hash domain.Hash) error {
		return tx.Exec(ctx, `insert into programme_versions (n, kind, version, hash, since) values ($1, $2, $3, $4, $5)`,
			r.Version, kind, version, hash.String(), r.Time)
	}
	count := func(ref, kind, value string, n int) error {
		return tx.Exec(ctx, `
			insert into programme_totals (demo, kind, value, n)
			values (coalesce((select demo from programme_agents where agent = $1), false), $2, $3, $4)
			on conflict (demo, kind, value) do update set n = programme_totals.n + excluded.n`, ref, kind, value, n)
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
	case programme.Paused:
		return tx.Exec(ctx, `update programme set paused = true, reason = $1`, e.Reason)
	case programme.Resumed:
		return tx.Exec(ctx, `update programme set paused = false, reason = $1`, e.Reason)
	case agent.Registered:
		return tx.Exec(ctx, `insert into programme_agents (agent, demo) values ($1, $2)`, string(e.Agent), e.Demo)
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

// Totals counts what is public.
type Totals struct {
	Consents map[string]int // by state
	Revealed map[string]int // tasks by outcome, or missed or cancelled
	Findings map[string]int // by verdict
}

// A Status is the programme as a whole. Lists are in order of publication: the
// last entry is in force.
type Status struct {
	AsOf       time.Time // of the last public record; zero before the first
	Paused     bool
	Reason     string // of the last pause or resumption
	Terms      []Version
	Pools      []Version
	Catalogues []Version
	Totals     Totals // without Karatum's own agents
	Demo       Totals // of those alone
}

// Programme returns the programme as a whole.
func (r Reader) Programme(ctx context.Context) (s Status, err error) {
	err = r.snapshot(ctx, func(tx pgx.Tx) error {
		var asOf *time.Time
		if err := tx.QueryRow(ctx, `select as_of, paused, reason from programme`).Scan(&asOf, &s.Paused, &s.Reason); err != nil {
			return err
		}
		s.AsOf = at(asOf)
		if err := s.readVersions(ctx, tx); err != nil {
			return err
		}
		return s.readTotals(ctx, tx)
	})
	return s, err
}

func (s *Status) readVersions(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select kind, version, hash, since from programme_versions order by n`)
	if err != nil {
		return err
	}
	var kind, hash string
	var v Version
	_, err = pgx.ForEachRow(rows, []any{&kind, &v.Number, &hash, &v.Since}, func() (err error) {
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

func (s *Status) readTotals(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select demo, kind, value, n from programme_totals where n <> 0`)
	if err != nil {
		return err
	}
	empty := func() Totals { return Totals{make(map[string]int), make(map[string]int), make(map[string]int)} }
	s.Totals, s.Demo = empty(), empty()
	var demo bool
	var kind, value string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&demo, &kind, &value, &n}, func() error {
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
		}
		return nil
	})
	return err
}
