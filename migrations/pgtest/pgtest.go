// Package pgtest gives tests a real PostgreSQL: a migrated schema for each test, so
// that all of them run in parallel.
//
// The server is the one at MYSTERY_DATABASE_URL if that is set; its user must be a
// superuser. Otherwise each test process runs a private server, which dies with it.
// Such servers stay as directories below the system's temporary directory and are
// used again by later runs; it does not matter how those end. They run without
// fsync: a test of durability starts a server of its own.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/privatepg"
)

// Open returns a pool on a fresh schema that the service's role works in, as in
// production. Pool and schema go away with the test.
func Open(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	schema := "test_" + strings.ToLower(rand.Text()[:16])
	pool, err := migrations.Connect(tb.Context(), URL(tb), schema)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		pool.Close()
		drop(tb, schema)
	})
	return pool
}

// Owner returns a connection of the superuser to the schema of a pool that [Open]
// returned.
func Owner(tb testing.TB, pool *pgxpool.Pool) *pgx.Conn {
	tb.Helper()
	cfg := pool.Config().ConnConfig
	delete(cfg.RuntimeParams, "role")
	conn, err := pgx.ConnectConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Schema returns the name of the schema of a pool that [Open] returned.
func Schema(pool *pgxpool.Pool) string {
	schema, _, _ := strings.Cut(pool.Config().ConnConfig.RuntimeParams["search_path"], ",")
	return schema
}

// URL returns the connection string of the server, with a superuser.
func URL(tb testing.TB) string {
	tb.Helper()
	if url := os.Getenv("MYSTERY_DATABASE_URL"); url != "" {
		return url
	}
	s, err := server()
	if err != nil {
		tb.Fatal(err)
	}
	return s.URL()
}

// server starts the private server of this process.
var server = sync.OnceValues(func() (*privatepg.Server, error) {
	base := filepath.Join(os.TempDir(), "mystery-pgtest-"+strconv.Itoa(os.Geteuid()))
	if err := makeBase(base); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	// The first directory that works: others are in use, or damaged by a crash of
	// the machine, or of another version of PostgreSQL.
	var errs []error
	for slot := range 32 {
		s, err := privatepg.Start(ctx, privatepg.Options{
			Dir: filepath.Join(base, strconv.Itoa(slot)),
			Settings: []string{
				"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
				"max_wal_size=64MB", "min_wal_size=32MB", "max_connections=300", "jit=off",
			},
		})
		if err == nil {
			return s, dropLeftovers(ctx, s.URL())
		}
		if errors.Is(err, privatepg.ErrNoBinaries) || errors.Is(err, privatepg.ErrUnsupported) || ctx.Err() != nil {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
})

// makeBase makes the directory above those of the servers. Its name can be guessed,
// so it must be ours and no link.
func makeBase(base string) error {
	if err := os.Mkdir(base, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the server's account must be able to enter
		return err
	}
	st := new(syscall.Stat_t)
	if err := syscall.Lstat(base, st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user: remove it", base)
	}
	return os.Chmod(base, 0o755) //nolint:gosec // as above
}

// dropLeftovers drops the schemas of tests that were killed. No other process uses
// the server.
func dropLeftovers(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return dropLike(ctx, conn, "test\\_%")
}

// dropLike drops the schemas with names like pattern. One statement for each keeps
// the number of locks small.
func dropLike(ctx context.Context, conn *pgx.Conn, pattern string) error {
	rows, err := conn.Query(ctx, "select nspname from pg_namespace where nspname like $1", pattern)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade"); err != nil {
			return err
		}
	}
	return nil
}

// drop drops a schema and those of its read models.
func drop(tb testing.TB, schema string) {
	tb.Helper()
	ctx := context.Background() // that of the test is cancelled by now
	conn, err := pgx.Connect(ctx, URL(tb))
	if err != nil {
		tb.Error(err)
		return
	}
	defer conn.Close(ctx)
	if err := dropLike(ctx, conn, strings.ReplaceAll(schema, "_", `\_`)+"%"); err != nil {
		tb.Error(err)
	}
}
