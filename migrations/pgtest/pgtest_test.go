package pgtest_test

import (
	"testing"

	"github.com/karatum/mystery/migrations/pgtest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("a schema of its own", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			var user, schema string
			var empty bool
			err := pool.QueryRow(t.Context(), "select current_user, current_schema, not exists (select from events)").
				Scan(&user, &schema, &empty)
			if err != nil {
				t.Fatal(err)
			}
			if user != "mystery_app" || schema != pgtest.Schema(pool) || !empty {
				t.Errorf("connected as %s to %s, empty %t; want mystery_app, %s, true", user, schema, empty, pgtest.Schema(pool))
			}
			var super bool
			err = pgtest.Owner(t, pool).QueryRow(t.Context(), "select rolsuper from pg_roles where rolname = current_user").Scan(&super)
			if err != nil || !super {
				t.Errorf("the owner is a superuser: %t, %v", super, err)
			}
			if _, err := pool.Exec(t.Context(), "insert into leases values ('a', 'b', now())"); err != nil {
				t.Error(err)
			}
		})
	}
}
