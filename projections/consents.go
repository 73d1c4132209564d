package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// States of a consent.
const (
	Active  = "active"
	Revoked = "revoked"
	Expired = "expired"
	Ended   = "ended" // for another reason than the end of its validity
	Refused = "refused"
)

func endState(reason consent.EndReason) string {
	if reason == consent.Expired {
		return Expired
	}
	return Ended
}

// Consents is every consent that an owner ever signed, in force or not.
var Consents = Projection{
	Name: "consents", Version: 3, Visibility: domain.Public,
	Tables: `
		create table consent_agents (agent text primary key, demo boolean not null);
		create table consents (
			consent    text        primary key,
			agent      text        not null,
			demo       boolean     not null,
			state      text        not null,
			signed     bytea       not null, -- the event with what was signed
			recorded   timestamptz not null, -- when it was granted or refused
			over       timestamptz,
			reason     text        not null default '',
			revoked    bytea -- the event that did
		);
		create table consent_proofs (
			consent  text        not null,
			endpoint text        not null,
			proven   boolean     not null,
			method   text        not null,
			reason   text        not null,
			since    timestamptz not null,
			primary key (consent, endpoint)
		)`,
	Indexes: `
		create index on consents (recorded desc, consent desc);
		create index on consents (agent, recorded desc, consent desc);
		create index on consents (state, recorded desc, consent desc)`,
	Apply: applyConsents,
}

var (
	addConsentAgent = &Change{Table: "consent_agents", Key: 1, SQL: `
		insert into consent_agents (agent, demo) select * from unnest($1::text[], $2::boolean[])`}
	addConsent = &Change{Table: "consents", Key: 1, Reads: []Reading{{"consent_agents", 1}}, SQL: `
		insert into consents (consent, agent, demo, state, signed, recorded, reason)
		select v.consent, v.agent, coalesce(a.demo, false), v.state, v.signed, v.recorded, v.reason
		from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::text[])
			as v (consent, agent, state, signed, recorded, reason)
		left join consent_agents a using (agent)`}
	proveEndpoint = &Change{Table: "consent_proofs", Key: 2, SQL: `
		insert into consent_proofs (consent, endpoint, proven, method, reason, since)
		select * from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::text[], $6::timestamptz[])
		on conflict (consent, endpoint) do update
		set proven = excluded.proven, method = excluded.method, reason = excluded.reason, since = excluded.since`}
	endConsent = &Change{Table: "consents", Key: 1, SQL: `
		update consents c set state = v.state, reason = v.reason, over = v.over, revoked = coalesce(v.revoked, c.revoked)
		from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::bytea[]) as v (consent, state, reason, over, revoked)
		where c.consent = v.consent`}
)

func applyConsents(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	add := func(id string, ref agent.Ref, state, reason string) error {
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		return tx.Do(addConsent, id, string(ref), state, data, r.Time, reason)
	}
	switch e := e.(type) {
	case agent.Registered:
		return tx.Do(addConsentAgent, string(e.Agent), e.Demo)
	case consent.Granted:
		return add(e.Consent, e.Payload.Agent, Active, "")
	case consent.Refused:
		return add(e.Consent, e.Payload.Agent, Refused, e.Reason)
	case consent.HostProven:
		return tx.Do(proveEndpoint, e.Consent, e.Endpoint, true, string(e.Method), "", r.Time)
	case consent.HostLost:
		return tx.Do(proveEndpoint, e.Consent, e.Endpoint, false, "", e.Reason, r.Time)
	case consent.Revoked:
		data, err := encoded(&r, e)
		if err != nil {
			return err
		}
		return tx.Do(endConsent, e.Consent, Revoked, "the owner revoked it", r.Time, data)
	case consent.Ended:
		return tx.Do(endConsent, e.Consent, endState(e.Reason), string(e.Reason), r.Time, nil)
	}
	return nil
}

// A Consent is what an owner signed and what became of it.
type Consent struct {
	ID         string
	Agent      agent.Ref
	Demo       bool
	State      string
	Payload    consent.Payload
	Signature  consent.Signature
	Verified   consent.Verification
	OwnerCheck agent.Block   // where the owner of an ERC-8004 agent was looked up; else zero
	OwnerNonce domain.Hash   // zero if the message commits to none
	Recorded   time.Time     // when it was granted, or refused
	Over       time.Time     // zero unless it was granted and is over
	Cause      consent.Cause // of a refusal
	Reason     string        // why it is over or was refused
	Revocation *consent.Revoked
}

// A Proof says whether an endpoint of a consent is shown to be the owner's.
type Proof struct {
	Endpoint string // ep_0, ep_1, …
	Kind     task.Kind
	URL      string
	Proven   bool
	Method   consent.ProofMethod // "" if not proven
	Reason   string              // why not
	Since    time.Time           // zero if never proven
}

const consentColumns = `consent, agent, demo, state, signed, recorded, over, reason, revoked`

// Consent returns a consent, or an error matching [domain.ErrNotFound].
func (r Reader) Consent(ctx context.Context, id string) (Consent, error) {
	return one(ctx, r.Pool, scanConsent, "consent "+id,
		`select `+consentColumns+` from consents where consent = $1`, id)
}

// A ConsentQuery picks consents. Its zero fields pick all.
type ConsentQuery struct {
	Agent   agent.Ref
	State   string
	Granted bool        // only those that were ever in force
	After   *ConsentKey // the last one of the page before
	Limit   int
}

// A ConsentKey is a place in the list of consents.
type ConsentKey struct {
	Recorded time.Time
	ID       string
}

// Consents returns the consents that q picks, latest first.
func (r Reader) Consents(ctx context.Context, q ConsentQuery) ([]Consent, error) {
	var recorded *time.Time
	var id string
	if q.After != nil {
		recorded, id = &q.After.Recorded, q.After.ID
	}
	return collect(ctx, r.Pool, scanConsent, `
		select `+consentColumns+` from consents
		where ($1 = '' or agent = $1) and ($2 = '' or state = $2) and (not $6 or state <> 'refused')
		  and ($3::timestamptz is null or (recorded, consent) < ($3, $4))
		order by recorded desc, consent desc limit $5`,
		string(q.Agent), q.State, recorded, id, q.Limit, q.Granted)
}

func scanConsent(row pgx.CollectableRow) (c Consent, err error) {
	var signed, revoked []byte
	var over *time.Time
	if err = row.Scan(&c.ID, &c.Agent, &c.Demo, &c.State, &signed, &c.Recorded, &over, &c.Reason, &revoked); err != nil {
		return c, err
	}
	c.Recorded, c.Over = c.Recorded.UTC(), at(over)
	if c.Revocation, err = decode[consent.Revoked](revoked); err != nil {
		return c, err
	}
	if c.State == Refused {
		e, err := decode[consent.Refused](signed)
		if err != nil {
			return c, err
		}
		c.Payload, c.Signature, c.Verified, c.Cause = e.Payload, e.Signature, e.Verified, e.Cause
		return c, nil
	}
	e, err := decode[consent.Granted](signed)
	if err != nil {
		return c, err
	}
	c.Payload, c.Signature, c.Verified, c.OwnerCheck, c.OwnerNonce = e.Payload, e.Signature, e.Verified, e.OwnerCheck, e.OwnerNonce
	return c, nil
}

// Proofs returns the proofs of the endpoints of c, in the order of the message.
func (r Reader) Proofs(ctx context.Context, c Consent) ([]Proof, error) {
	proofs := make([]Proof, len(c.Payload.Endpoints))
	place := make(map[string]*Proof)
	for i, e := range c.Payload.Endpoints {
		proofs[i] = Proof{Endpoint: consent.EndpointID(i), Kind: e.Kind, URL: e.URL}
		place[proofs[i].Endpoint] = &proofs[i]
	}
	rows, err := r.Pool.Query(ctx, `select endpoint, proven, method, reason, since from consent_proofs where consent = $1`, c.ID)
	if err != nil {
		return nil, err
	}
	var row Proof
	_, err = pgx.ForEachRow(rows, []any{&row.Endpoint, &row.Proven, &row.Method, &row.Reason, &row.Since}, func() error {
		if p := place[row.Endpoint]; p != nil {
			p.Proven, p.Method, p.Reason, p.Since = row.Proven, row.Method, row.Reason, row.Since.UTC()
		}
		return nil
	})
	return proofs, err
}
