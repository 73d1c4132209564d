package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
)

// Agents is what is known of each registered agent.
var Agents = Projection{
	Name: "agents", Version: 3, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table agents (
			agent  text        primary key,
			wallet text        not null,
			demo   boolean     not null,
			since  timestamptz not null
		);
		create table agent_holdings ( -- verified identities and certificates in force
			agent   text        not null,
			kind    text        not null,
			value   text        not null,
			since   timestamptz not null,
			version bigint      not null, -- in the agent's stream
			primary key (agent, kind, value)
		)`,
	Apply: applyAgents,
}

var (
	addAgent = &Change{Table: "agents", Key: 1, SQL: `
		insert into agents (agent, wallet, demo, since)
		select * from unnest($1::text[], $2::text[], $3::boolean[], $4::timestamptz[])`}
	moveAgent = &Change{Table: "agents", Key: 1, SQL: `
		update agents a set wallet = v.wallet
		from unnest($1::text[], $2::text[]) as v (agent, wallet) where a.agent = v.agent`}
	holdThing = &Change{Table: "agent_holdings", Key: 3, SQL: `
		insert into agent_holdings (agent, kind, value, since, version)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[])
		on conflict (agent, kind, value) do nothing`}
	dropThing = &Change{Table: "agent_holdings", Key: 3, SQL: `
		delete from agent_holdings h
		using unnest($1::text[], $2::text[], $3::text[]) as v (agent, kind, value)
		where (h.agent, h.kind, h.value) = (v.agent, v.kind, v.value)`}
)

func applyAgents(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	id := r.Stream.ID()
	switch e := e.(type) {
	case agent.Registered:
		return tx.Do(addAgent, string(e.Agent), e.Wallet.String(), e.Demo, r.Time)
	case agent.OwnerChanged:
		return tx.Do(moveAgent, id, e.To.String())
	case agent.IdentityVerified:
		return tx.Do(holdThing, id, "identity", e.URL, r.Time, r.Version)
	case agent.IdentityWithdrawn:
		return tx.Do(dropThing, id, "identity", e.URL)
	case agent.CertificateRecorded:
		return tx.Do(holdThing, id, "certificate", e.Certificate, r.Time, r.Version)
	case agent.CertificateWithdrawn:
		return tx.Do(dropThing, id, "certificate", e.Certificate)
	}
	return nil
}

// A Holding is a verified identity or a certificate in force.
type Holding struct {
	Value   string
	Since   time.Time
	Version uint64 // of the event in the agent's stream
}

// An Agent is what is known of a registered agent.
type Agent struct {
	Ref          agent.Ref
	Wallet       eip191.Address
	Demo         bool
	Since        time.Time
	Identities   []Holding
	Certificates []Holding
}

// Agent returns what is known of an agent, or an error matching
// [domain.ErrNotFound].
func (r Reader) Agent(ctx context.Context, ref agent.Ref) (a Agent, err error) {
	err = r.snapshot(ctx, func(tx pgx.Tx) error {
		if a, err = one(ctx, tx, scanAgent, "agent "+string(ref),
			`select agent, wallet, demo, since from agents where agent = $1`, string(ref)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `select kind, value, since, version from agent_holdings where agent = $1 order by value`, string(ref))
		if err != nil {
			return err
		}
		var kind string
		var h Holding
		_, err = pgx.ForEachRow(rows, []any{&kind, &h.Value, &h.Since, &h.Version}, func() error {
			h.Since = h.Since.UTC()
			if kind == "identity" {
				a.Identities = append(a.Identities, h)
			} else {
				a.Certificates = append(a.Certificates, h)
			}
			return nil
		})
		return err
	})
	return a, err
}

func scanAgent(row pgx.CollectableRow) (a Agent, err error) {
	var wallet string
	if err = row.Scan(&a.Ref, &wallet, &a.Demo, &a.Since); err != nil {
		return a, err
	}
	a.Since = a.Since.UTC()
	a.Wallet, err = eip191.ParseAddress(wallet)
	return a, err
}
