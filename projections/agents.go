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
	Name: "agents", Version: 2, Visibility: domain.Public,
	Tables: `
		create table agents (
			agent  text        primary key,
			wallet text        not null,
			demo   boolean     not null,
			since  timestamptz not null
		);
		create table agent_holdings ( -- verified identities and certificates in force
			agent text        not null,
			kind  text        not null,
			value text        not null,
			since timestamptz not null,
			primary key (agent, kind, value)
		)`,
	Apply: applyAgents,
}

func applyAgents(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	hold := func(kind, value string) error {
		return tx.Exec(ctx, `
			insert into agent_holdings (agent, kind, value, since) values ($1, $2, $3, $4)
			on conflict (agent, kind, value) do nothing`, r.Stream.ID(), kind, value, r.Time)
	}
	drop := func(kind, value string) error {
		return tx.Exec(ctx, `delete from agent_holdings where agent = $1 and kind = $2 and value = $3`, r.Stream.ID(), kind, value)
	}
	switch e := e.(type) {
	case agent.Registered:
		return tx.Exec(ctx, `insert into agents (agent, wallet, demo, since) values ($1, $2, $3, $4)`,
			string(e.Agent), e.Wallet.String(), e.Demo, r.Time)
	case agent.OwnerChanged:
		return tx.Exec(ctx, `update agents set wallet = $2 where agent = $1`, r.Stream.ID(), e.To.String())
	case agent.IdentityVerified:
		return hold("identity", e.URL)
	case agent.IdentityWithdrawn:
		return drop("identity", e.URL)
	case agent.CertificateRecorded:
		return hold("certificate", e.Certificate)
	case agent.CertificateWithdrawn:
		return drop("certificate", e.Certificate)
	}
	return nil
}

// A Holding is a verified identity or a certificate in force.
type Holding struct {
	Value string
	Since time.Time
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
		rows, err := tx.Query(ctx, `select kind, value, since from agent_holdings where agent = $1 order by value`, string(ref))
		if err != nil {
			return err
		}
		var kind string
		var h Holding
		_, err = pgx.ForEachRow(rows, []any{&kind, &h.Value, &h.Since}, func() error {
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
