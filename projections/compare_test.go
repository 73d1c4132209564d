package projections_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// A table that was edited by hand is named, and what follows from the log is not.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, sql, says string }{
		{"as it is", `select 1`, ""},
		{"an agent deleted", `delete from agents`, "table agents"},
		{"a table dropped", `drop table agents cascade`, "table agents is missing"},
		{"ahead of the log", `update checkpoints set position = 1000 where name = 'agents'`, "where the log has no record"},
		{"between two records", `update checkpoints set position = position - 1 where name = 'agents'`, "where the log has no record"},
		{"of another version", `update checkpoints set version = version + 1 where name = 'agents'`, "verify with the program"},
		{"set back", `update checkpoints set position = 0 where name = 'agents'`, "table agents"},
		{"without a checkpoint", `delete from checkpoints where name = 'agents'`, "has no checkpoint"},
		{"a table that is not its own", `update checkpoints set tables = '{}' where name = 'agents'`, "keeps the tables"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			r := runnerOn(t, pool, someAgents(t), projections.All()...)
			catchUp(t, r)
			if _, err := pool.Exec(t.Context(), tt.sql); err != nil {
				t.Fatal(err)
			}
			for range 2 { // nothing is left behind
				err := r.Compare(t.Context())
				switch {
				case tt.says == "" && err != nil:
					t.Errorf("Compare = %v", err)
				case tt.says != "" && (!errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("Compare = %v, want %v that says %q", err, ledger.ErrDamaged, tt.says)
				}
			}
			if n := shadows(t, pool); n != 0 {
				t.Errorf("%d schemas are left behind", n)
			}
		})
	}
}

// While one comparison is under way no other begins, for they would share a schema.
func TestOneComparison(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock(hashtextextended('karatum/mystery/projections/shadow/' || $1, 0))`,
		pgtest.Schema(pool)+"_rm_verify"); err != nil {
		t.Fatal(err)
	}
	if err := r.Compare(t.Context()); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("a second Compare = %v, want %v", err, domain.ErrConflict)
	}
}

func someAgents(t *testing.T) *history {
	t.Helper()
	h := new(history)
	for _, ref := range []agent.Ref{honest, house} {
		h.add(t, agent.StreamOf(ref), agent.Registered{Agent: ref, Wallet: eip191.Address{1}})
		h.add(t, agent.StreamOf(ref), agent.IdentityVerified{URL: "https://agent.example"})
	}
	return h
}

// shadows returns how many schemas there are beside that of the read models.
func shadows(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select count(*) from pg_namespace where starts_with(nspname, $1)`, pgtest.Schema(pool)+"_rm_").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
