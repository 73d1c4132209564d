package projections

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// Producers is the names of all who may write to the ledger, or might once.
var Producers = Projection{
	Name: "producers", Version: 1, Visibility: domain.Public, ByStream: true,
	Tables: `create table producers (producer text primary key)`,
	Apply:  applyProducers,
}

var addProducer = &Change{Table: "producers", Key: 1, SQL: `
	insert into producers (producer) select * from unnest($1::text[])`}

func applyProducers(_ context.Context, tx Tx, _ ledger.Record, e domain.Event) error {
	if e, ok := e.(producer.Registered); ok {
		return tx.Do(addProducer, e.Producer)
	}
	return nil
}

// Producers returns the names of all producers in lexical order.
func (r Reader) Producers(ctx context.Context) ([]string, error) {
	return collect(ctx, r.Pool, pgx.RowTo[string], `select producer from producers order by producer`)
}
