package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
)

// Plans is the plan of each day of each consent, sealed and opened.
var Plans = Projection{
	Name: "plans", Version: 2, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table plans (
			consent   text   not null,
			day       bigint not null,
			sealed    bytea, -- the event
			sealed_at timestamptz,
			opened    bytea, -- the event
			opened_at timestamptz,
			primary key (consent, day)
		);
		create table plan_surfaces (hash text primary key) -- that an opened day was made from`,
	Apply: applyPlans,
}

var (
	sealPlan = &Change{Table: "plans", Key: 2, Copies: []string{"consent", "day", "opened", "opened_at", "sealed", "sealed_at"}, SQL: `
		insert into plans (consent, day, opened, opened_at, sealed, sealed_at)
		select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::timestamptz[], $5::bytea[], $6::timestamptz[])`}
	openPlan = &Change{Table: "plans", Key: 2, Into: sealPlan, SQL: `
		insert into plans (consent, day, opened, opened_at)
		select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::timestamptz[])
		on conflict (consent, day) do update set opened = excluded.opened, opened_at = excluded.opened_at`}
	openSurface = &Change{Table: "plan_surfaces", Key: 1, SQL: `
		insert into plan_surfaces (hash) select * from unnest($1::text[]) on conflict do nothing`}
)

func applyPlans(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case plan.Sealed:
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		return tx.Do(sealPlan, e.Consent, e.Day, nil, nil, data, r.Time)
	case plan.Opened:
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		for _, surface := range e.Surfaces {
			if err := tx.Do(openSurface, surface.Hash.String()); err != nil {
				return err
			}
		}
		// Opened without a plan: the operator was late.
		return tx.Do(openPlan, e.Consent, e.Day, data, r.Time)
	}
	return nil
}

// A Plan is one day of a consent.
type Plan struct {
	Consent  string
	Day      uint32
	Sealed   *plan.Sealed // nil if the day was not planned
	SealedAt time.Time
	Opened   *plan.Opened // nil until the day is opened
	OpenedAt time.Time
}

// A PlanQuery picks days of a consent. Its zero fields pick all.
type PlanQuery struct {
	Consent  string
	After    uint32 // only days behind it
	Before   uint32 // only days before it
	Unopened bool   // only days that are not opened yet
	Latest   bool   // the latest first
	Limit    int
}

const planColumns = `consent, day, sealed, sealed_at, opened, opened_at`

// Plans returns the plans of a consent by day.
func (r Reader) Plans(ctx context.Context, q PlanQuery) ([]Plan, error) {
	return collect(ctx, r.Pool, scanPlan, `
		select `+planColumns+` from plans
		where consent = $1 and day > $2 and ($3::bigint = 0 or day < $3) and (not $4 or opened is null)
		order by case when $5 then -day else day end limit $6`,
		q.Consent, q.After, q.Before, q.Unopened, q.Latest, q.Limit)
}

// Plan returns the plan of a day of a consent, or [domain.ErrNotFound] for a day that was
// neither planned nor opened.
func (r Reader) Plan(ctx context.Context, consent string, day uint32) (Plan, error) {
	return one(ctx, r.Pool, scanPlan, "plan of "+domain.DayString(day)+" under "+consent,
		`select `+planColumns+` from plans where consent = $1 and day = $2`, consent, day)
}

// SurfaceOpened returns [domain.ErrNotFound] unless a day that is opened was made
// from the surface with the given hash.
func (r Reader) SurfaceOpened(ctx context.Context, hash domain.Hash) error {
	_, err := one(ctx, r.Pool, pgx.RowTo[string], "opened surface "+hash.String(), `select hash from plan_surfaces where hash = $1`, hash.String())
	return err
}

func scanPlan(row pgx.CollectableRow) (p Plan, err error) {
	var sealed, opened []byte
	var sealedAt, openedAt *time.Time
	if err = row.Scan(&p.Consent, &p.Day, &sealed, &sealedAt, &opened, &openedAt); err != nil {
		return p, err
	}
	p.SealedAt, p.OpenedAt = at(sealedAt), at(openedAt)
	if p.Sealed, err = decode[plan.Sealed](sealed); err != nil {
		return p, err
	}
	p.Opened, err = decode[plan.Opened](opened)
	return p, err
}
