// Package migrations holds the database schema as SQL and brings a database up to
// it. One database may hold several installations, each in a schema of its own.
//
// # Who may do what
//
// The migrating user owns the tables. The service works as the role mystery_app,
// which may add events and read them, and can neither change nor delete one, nor
// drop the triggers that refuse it as well. It owns the schema <schema>_rm of the
// read models. A superuser stands above all of this; against that one only hash
// chains and outside witnesses help.
//
// # Upgrades
//
// During an upgrade, programs of two versions work on one schema. So a migration only
// adds: tables, indexes, and columns that can be left out of an insert because they
// have a default or may be null. What a former program knows stays as it was, and a
// program that finds a newer schema than its own works on it. What this rule does not
// allow takes two releases: one that stops to use a thing, and a later one that drops it.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/tern/v2/migrate"
)

// Role is the role of the service. It belongs to the whole cluster and cannot log in.
const Role = "mystery_app"

//go:embed *.sql
var files embed.FS

// schemaName matches names that need no quotes and leave room for suffixes in the
// 63 bytes of a PostgreSQL name.
var schemaName = regexp.MustCompile(`\A[a-z][a-z0-9_]{0,39}\z`)

// bootstrap makes what the first migration needs. It does only what is missing,
// so that in a database that an administrator has prepared it needs no rights.
//
// Roles are shared by all databases of a cluster while advisory locks are not, so
// another process may create the role in between: that is as good.
const bootstrap = `
do $$ begin
  if to_regrole('mystery_app') is null then
    begin
      create role mystery_app nologin;
    exception when duplicate_object or unique_violation then null;
    end;
  end if;
  if not pg_has_role('mystery_app', 'member') then
    execute format('grant mystery_app to %I', current_user);
  end if;
  if to_regnamespace('SCHEMA') is null then
    create schema SCHEMA;
  end if;
end $$`

// lock is the key of the advisory lock under which bootstrap runs.
const lock = 5507117093284561

// Up migrates schema to the newest version, creating it and [Role] as needed. One that a
// newer program has migrated further stays as it is. Several processes may call it at
// once. The settings of conn are reset.
func Up(ctx context.Context, conn *pgx.Conn, schema string) error {
	if !schemaName.MatchString(schema) {
		return fmt.Errorf("schema name %q is not of the form %s", schema, schemaName)
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", lock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, strings.ReplaceAll(bootstrap, "SCHEMA", schema))
		return err
	})
	if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == "42501" { // insufficient_privilege
		return fmt.Errorf("prepare schema %s: an administrator must run once: "+
			"create role %s nologin; grant %[2]s to %s; create schema %[1]s authorization %[3]s: %w",
			schema, Role, conn.Config().User, err)
	}
	if err != nil {
		return fmt.Errorf("prepare schema %s: %w", schema, err)
	}
	m, err := migrate.NewMigrator(ctx, conn, schema+".schema_version")
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	m.Data["schema"] = schema
	if err := m.LoadMigrations(files); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	err = m.Migrate(ctx)
	if newer := migrate.BadVersionError(""); errors.As(err, &newer) {
		return nil // a newer program was here, and only added to what this one knows
	}
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return nil
}

// A Level is how far a schema has been migrated, in numbers of migrations.
type Level struct {
	At    int // 0: there is no schema yet
	Known int // the newest migration of this program
}

// LevelOf returns the level of schema in the database at url, and changes nothing.
func LevelOf(ctx context.Context, url, schema string) (l Level, err error) {
	list, err := files.ReadDir(".")
	if err != nil {
		return l, err
	}
	l.Known = len(list)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return l, fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	table := pgx.Identifier{schema, "schema_version"}.Sanitize()
	var made bool
	if err := conn.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&made); err != nil || !made {
		return l, err
	}
	if err := conn.QueryRow(ctx, "select version from "+table).Scan(&l.At); err != nil {
		return l, fmt.Errorf("read how far schema %s is migrated: %w", schema, err)
	}
	return l, nil
}

// minConns is the least size of a pool, whatever its URL says. A sender holds one
// connection at the gate while it reads and appends over others. As soon as all
// connections of a pool were held like that, no sender would get on.
const minConns = 24

// Connect migrates schema in the database at url and opens a pool whose
// connections work there as [Role], with the tables of schema and of its read
// models in the search path. The settings travel in the start-up message, so no
// RESET undoes them. A connection on which the database says nothing for [Patience] is
// given up.
func Connect(ctx context.Context, url, schema string) (*pgxpool.Pool, error) {
	return ConnectFor(ctx, url, schema, Patience)
}

// ConnectFor is Connect with another patience.
func ConnectFor(ctx context.Context, url, schema string, patience time.Duration) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	err = Up(ctx, conn, schema)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	cfg.MaxConns = max(cfg.MaxConns, minConns)
	cfg.ConnConfig.DialFunc = patiently(cfg.ConnConfig.DialFunc, patience)
	cfg.ConnConfig.RuntimeParams["role"] = Role
	cfg.ConnConfig.RuntimeParams["search_path"] = schema + "," + schema + "_rm"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database as %s: %w", Role, err)
	}
	return pool, nil
}

// Drop removes a schema and that of its read models, with everything in them. It
// is for schemas that were made to be thrown away.
func Drop(ctx context.Context, url, schema string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, name := range []string{schema, schema + "_rm"} {
		if _, err := conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade"); err != nil {
			return fmt.Errorf("drop schema %s: %w", name, err)
		}
	}
	return nil
}
