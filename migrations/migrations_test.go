package migrations_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/pgtest"
)

func code(err error) string {
	if e := new(pgconn.PgError); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestUpConcurrently(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	const schema = "test_concurrent"
	drop := func() {
		_, err := connect(t, url).Exec(context.Background(), "drop schema if exists "+schema+", "+schema+"_rm cascade")
		if err != nil {
			t.Error(err)
		}
	}
	drop()
	defer drop()
	var wg sync.WaitGroup
	for range 8 {
		conn := connect(t, url)
		wg.Go(func() {
			for range 2 { // once more over what is there
				if err := migrations.Up(t.Context(), conn, schema); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestUpSchemaName(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.URL(t))
	for _, name := range []string{"", "Mystery", "a-b", "a;drop", `a"b`, "1a", strings.Repeat("a", 41), "a\n"} {
		if err := migrations.Up(t.Context(), conn, name); err == nil {
			t.Errorf("Up to schema %q succeeds", name)
		}
	}
}

func TestUpWithoutRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	conn := connect(t, pgtest.URL(t))
	if _, err := conn.Exec(t.Context(), "set role "+migrations.Role); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(t.Context(), conn, pgtest.Schema(pool)); err != nil {
		t.Errorf("Up over a current schema needs no rights, yet: %v", err)
	}
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://%zz", "host=/nonexistent user=x dbname=y"} {
		if pool, err := migrations.Connect(t.Context(), url, "mystery"); err == nil {
			pool.Close()
			t.Errorf("Connect(%q) succeeds", url)
		}
	}
}

// The statements that no one may run on the log.
var forbidden = []string{
	"update events set actor = 'other'",
	"delete from events",
	"truncate events",
	"truncate heads, events",
	"update events set data = 'x' where position = 1",
	"delete from events where position > 0",
	"insert into events select 1, stream, version, id, type, time, 'other', command, correlation, data, hash from events on conflict (position) do update set actor = 'other'",
	"alter table events disable trigger all",
	"drop table events",
	"drop trigger append_only on events",
	"create or replace function refuse_change() returns trigger language plpgsql as 'begin return new; end'",
	"set session_replication_role = replica",
}

func addEvent(t *testing.T, conn interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
},
) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `insert into events values
		(1, 'a/1', 1, gen_random_uuid(), 'a.b.v1', now(), '', 'c', '', '{}', decode(repeat('00', 32), 'hex'))`)
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoleIsAppendOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	addEvent(t, pool)
	for _, sql := range forbidden {
		if _, err := pool.Exec(t.Context(), sql); code(err) != "42501" { // insufficient_privilege
			t.Errorf("%s: %v, want SQLSTATE 42501", sql, err)
		}
	}
	for _, sql := range []string{"delete from gate", "update bodies set bytes = ''", "delete from heads", "delete from log_head"} {
		if _, err := pool.Exec(t.Context(), sql); code(err) != "42501" {
			t.Errorf("%s: %v, want SQLSTATE 42501", sql, err)
		}
	}
}

func TestTriggersRefuseTheOwner(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	addEvent(t, pool)
	owner := pgtest.Owner(t, pool)
	for _, sql := range forbidden[:7] {
		if _, err := owner.Exec(t.Context(), sql); code(err) != "55000" {
			t.Errorf("%s: %v, want SQLSTATE 55000", sql, err)
		}
	}
}

func TestRoleOwnsReadModels(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	rm := pgtest.Schema(pool) + "_rm"
	for _, sql := range []string{
		"create table " + rm + ".shops (n int)",
		"insert into shops values (1)", // found by the search path
		"create schema " + rm + "_next",
		"create table " + rm + "_next.shops (n int)",
		"alter schema " + rm + " rename to " + rm + "_old",
		"alter schema " + rm + "_next rename to " + rm,
		"drop schema " + rm + "_old cascade",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// During an upgrade a newer program may migrate first. What it adds must not keep this
// one from starting, nor from writing.
func TestUpOverANewerSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	owner, schema := pgtest.Owner(t, pool), pgtest.Schema(pool)
	for _, sql := range []string{
		`alter table events add column region text not null default 'here'`,
		`alter table heads add column seen timestamptz`,
		`create table novelties (n int primary key)`,
		`update schema_version set version = version + 1`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := migrations.Up(t.Context(), connect(t, pgtest.URL(t)), schema); err != nil {
		t.Errorf("Up over a newer schema: %v", err)
	}
	l, err := migrations.LevelOf(t.Context(), pgtest.URL(t), schema)
	if err != nil || l.At != l.Known+1 {
		t.Errorf("LevelOf = %+v, %v, want a level beyond what is known", l, err)
	}
	log := postgres.New(pool, postgres.Options{})
	defer log.Close()
	if err := log.Append(t.Context(), "agent/build:42", 0, ledger.Meta{Actor: "test", Command: "1"}, agent.Registered{Agent: "build:42", Wallet: eip191.Address{1}}); err != nil {
		t.Errorf("a record cannot be added to a newer schema: %v", err)
	}
}

func TestLevelOf(t *testing.T) {
	t.Parallel()
	l, err := migrations.LevelOf(t.Context(), pgtest.URL(t), "test_never_made")
	if err != nil || l.At != 0 || l.Known == 0 {
		t.Errorf("LevelOf without a schema = %+v, %v, want level 0", l, err)
	}
	pool := pgtest.Open(t)
	if l, err = migrations.LevelOf(t.Context(), pgtest.URL(t), pgtest.Schema(pool)); err != nil || l.At != l.Known {
		t.Errorf("LevelOf a new schema = %+v, %v, want all migrations", l, err)
	}
	if _, err := migrations.LevelOf(t.Context(), "host=/nonexistent user=x dbname=y", "mystery"); err == nil {
		t.Error("LevelOf without a database succeeds")
	}
}

// What a migration may do is said in the package comment: programs of two versions
// work on one schema. The first nine were never released without each other.
func TestMigrationsOnlyAdd(t *testing.T) {
	t.Parallel()
	const together = 9
	files, err := filepath.Glob("*.sql")
	if err != nil || len(files) < together {
		t.Fatalf("migrations: %v, %v", files, err)
	}
	takes := regexp.MustCompile(`(?i)\b(drop|truncate|rename|alter\s+column|set\s+not\s+null|revoke)\b`)
	adds := regexp.MustCompile(`(?is)\badd\s+column\b[^,;]*`)
	for _, f := range files[together:] {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sql := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(string(data), "")
		if m := takes.FindString(sql); m != "" {
			t.Errorf("%s has %q: a program of the version before would lose what it works with", f, m)
		}
		for _, c := range adds.FindAllString(sql, -1) {
			if strings.Contains(strings.ToLower(c), "not null") && !strings.Contains(strings.ToLower(c), "default") {
				t.Errorf("%s: %q has no default: a program of the version before could not write there", f, strings.TrimSpace(c))
			}
		}
	}
}
