// Package projections folds the ledger into the tables that are read: one file
// is one read model, with its tables, its row type and its queries.
//
// # The invariant
//
// The tables of a projection and the position it has reached change in one
// transaction, so each record counts once, however often a runner is killed.
// Everything in the tables follows from the log; dropping them loses nothing. They are
// made anew beside those in use, and take their place in one transaction ([Runner.Rebuild]).
// With that, and whenever a stream is parked or tried again, the generation of a
// projection changes, and a runner that read a page for the one before applies
// nothing of it.
//
// # Who sees what
//
// A projection is either public or private. A public one is handed records of
// public types only, without their position in the log, and there is no other
// way in: what becomes of a slot between its commit and its reveal leaves no trace
// in any table that an answer to the public is made from. [Reader] queries public
// tables and [Due] private ones.
package projections

import (
	"context"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A Projection keeps some tables in step with the log.
type Projection struct {
	Name    string
	Version int // raise it when Tables, Indexes or Apply changes: the tables are then made anew

	// Visibility says what Apply gets: only records of public types, without
	// their position, or with domain.Sealed every record.
	Visibility domain.Visibility

	// ByStream says that the rows which come of a stream depend on no other stream, so
	// that one that was parked can be applied later. Of any other projection the
	// tables are made anew for that.
	ByStream bool

	// Tables creates the tables, in the schema of the read models. Their names are no
	// other projection's.
	Tables string

	// Indexes creates those indexes on them that no change needs. Where tables are made
	// anew, they are made once those are filled.
	Indexes string

	// Apply updates the tables for one record. It depends on nothing but its
	// arguments and its own tables, and ignores events that it does not know. What it
	// returns an error for is never applied: its stream is parked, see [Parked].
	Apply func(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error
}

// All returns every projection of the service.
func All() []Projection {
	return []Projection{
		Programme, Agents, Producers, Consents, ConsentHosts, Shops, Plans, Findings, Incidents, ShieldCases, Sessions, Batches, Glances, DueWork,
	}
}
