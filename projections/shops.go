package projections

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

// Phases of a slot, as the public sees it.
const (
	PhaseSealed   = "sealed"   // a commit, of a task or of none
	PhaseRevealed = "revealed" // a task, opened
	PhasePad      = "pad"      // no task, shown by the opened day
)

// Shops is every slot of every plan.
//
// Whether a slot is a pad is never said by anybody: it follows from the day key
// once that is opened. A slot that should hold a task and was not revealed stays
// sealed for all to see.
var Shops = Projection{
	Name: "shops", Version: 5, Visibility: domain.Public,
	Tables: `
		create table shop_agents (agent text primary key, demo boolean not null);
		create table shop_consents (
			consent text    primary key,
			agent   text    not null,
			demo    boolean not null,
			entropy bytea   not null -- the owner's part of the seeds
		);
		create table shops (
			shop     text        primary key,
			consent  text        not null,
			day      bigint      not null,
			slot     int         not null,
			commit   bytea       not null,
			pad      boolean     not null default false, -- by the opened day
			revealed timestamptz,
			data     bytea, -- of the event that revealed it, as hashed
			erased   timestamptz,
			reason   text not null default '' -- why it was erased
		)`,
	Indexes: `create index on shops (consent, day, slot)`,
	Apply:   applyShops,
}

var (
	addShopAgent = &Change{Table: "shop_agents", Key: 1, SQL: `
		insert into shop_agents (agent, demo) select * from unnest($1::text[], $2::boolean[])`}
	addShopConsent = &Change{Table: "shop_consents", Key: 1, Reads: []Reading{{"shop_agents", 1}}, SQL: `
		insert into shop_consents (consent, agent, demo, entropy)
		select v.consent, v.agent, coalesce(a.demo, false), v.entropy
		from unnest($1::text[], $2::text[], $3::bytea[]) as v (consent, agent, entropy)
		left join shop_agents a using (agent)`}
	addShop = &Change{Table: "shops", Key: 1, Copies: []string{"shop", "pad", "revealed", "data", "erased", "reason", "consent", "day", "slot", "commit"}, SQL: `
		insert into shops (shop, pad, revealed, data, erased, reason, consent, day, slot, commit)
		select * from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::bytea[], $5::timestamptz[], $6::text[],
			$7::text[], $8::bigint[], $9::int[], $10::bytea[])`}
	// moveShop leaves what it is given no value for.
	moveShop = &Change{Table: "shops", Key: 1, Merges: true, Into: addShop, SQL: `
		update shops s set pad = coalesce(v.pad, s.pad), revealed = coalesce(v.revealed, s.revealed), data = coalesce(v.data, s.data),
			erased = coalesce(v.erased, s.erased), reason = coalesce(v.reason, s.reason)
		from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::bytea[], $5::timestamptz[], $6::text[])
			as v (shop, pad, revealed, data, erased, reason)
		where s.shop = v.shop`}
)

func applyShops(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case agent.Registered:
		return tx.Do(addShopAgent, string(e.Agent), e.Demo)
	case consent.Granted:
		return tx.Do(addShopConsent, e.Consent, string(e.Payload.Agent), e.Entropy())
	case shop.Committed:
		return tx.Do(addShop, r.Stream.ID(), false, nil, nil, nil, "", e.Consent, e.Day, e.Slot, e.Commit[:])
	case shop.Revealed:
		return tx.Do(moveShop, r.Stream.ID(), nil, r.Time, r.Data, nil, nil)
	case shop.Erased:
		return tx.Do(moveShop, r.Stream.ID(), nil, nil, nil, r.Time, e.Reason)
	case plan.Opened:
		return openPads(ctx, tx, e)
	}
	return nil
}

func openPads(ctx context.Context, tx Tx, e plan.Opened) error {
	if !e.Planned {
		return nil
	}
	var entropy []byte
	err := tx.Lookup(ctx, "shop_consents", []any{e.Consent}, `select entropy from shop_consents where consent = $1`, e.Consent).Scan(&entropy)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // no consent, no slots
	}
	if err != nil {
		return err
	}
	tasks := plan.RealSlots(plan.DaySecret(e.Key, entropy), e.Count)
	for slot, isTask := range tasks {
		if isTask {
			continue
		}
		if err := tx.Do(moveShop, plan.ShopID(e.Consent, e.Day, uint32(slot)), true, nil, nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// A Shop is one slot of a plan. Before it is revealed nothing in it tells a task
// from a pad.
type Shop struct {
	ID         string
	Consent    string
	Agent      agent.Ref
	Demo       bool
	Day        uint32
	Slot       int
	Commit     domain.Hash
	Phase      string
	RevealedAt time.Time      // zero unless revealed
	Revealed   *shop.Revealed // nil unless revealed
	Data       []byte         // the same as hashed
	ErasedAt   time.Time      // when the reply was erased; zero if it was not
	Reason     string         // why it was
}

const (
	shopColumns = `shop, consent, agent, demo, day, slot, commit, ` + shopPhase + `, revealed, data, erased, reason`
	shopByID    = `select ` + shopColumns + ` from shops join shop_consents using (consent) where shop = $1`
	shopPhase   = `case when revealed is not null then 'revealed' when pad then 'pad' else 'sealed' end`
)

// Shop returns a slot, or an error matching [domain.ErrNotFound].
func (r Reader) Shop(ctx context.Context, id string) (Shop, error) {
	return one(ctx, r.Pool, scanShop, "shop "+id, shopByID, id)
}

// ShopAndPlan returns a slot and the plan that it is of, or an error matching
// [domain.ErrNotFound].
func (r Reader) ShopAndPlan(ctx context.Context, id string) (s Shop, p Plan, err error) {
	var b pgx.Batch
	b.Queue(shopByID, id).Query(only(&s, scanShop, "shop "+id))
	b.Queue(`select `+planColumns+` from plans join shops using (consent, day) where shop = $1`, id).Query(only(&p, scanPlan, "plan of the shop "+id))
	err = r.together(ctx, &b)
	return s, p, err
}

// A ShopQuery picks slots of a consent. Its zero Phase picks all.
type ShopQuery struct {
	Consent string
	Phase   string
	After   *ShopKey // the last one of the page before
	Limit   int
}

// A ShopKey is a place in the list of a consent's slots.
type ShopKey struct {
	Day  uint32
	Slot int
}

// Shops returns the slots that q picks, by day and slot.
func (r Reader) Shops(ctx context.Context, q ShopQuery) ([]Shop, error) {
	day, slot := int64(-1), -1
	if q.After != nil {
		day, slot = int64(q.After.Day), q.After.Slot
	}
	return collect(ctx, r.Pool, scanShop, `
		select `+shopColumns+` from shops join shop_consents using (consent)
		where consent = $1 and ($2 = '' or `+shopPhase+` = $2) and (day, slot) > ($3, $4)
		order by day, slot limit $5`, q.Consent, q.Phase, day, slot, q.Limit)
}

func scanShop(row pgx.CollectableRow) (s Shop, err error) {
	var commit []byte
	var revealed, erased *time.Time
	if err = row.Scan(&s.ID, &s.Consent, &s.Agent, &s.Demo, &s.Day, &s.Slot, &commit, &s.Phase, &revealed, &s.Data, &erased, &s.Reason); err != nil {
		return s, err
	}
	s.RevealedAt, s.ErasedAt = at(revealed), at(erased)
	if s.Commit, err = hashOf(commit); err != nil {
		return s, err
	}
	s.Revealed, err = decode[shop.Revealed](s.Data)
	return s, err
}
