package main

import (
	"bytes"
	"context"
	"encoding/json"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/migrations/pgtest"
)

// TestLooksAfterTheLedger begins a ledger, reads it in every way, takes it to another
// database and tampers with it there.
func TestLooksAfterTheLedger(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	from, to := newDatabase(t, admin, "first"), newDatabase(t, admin, "second")
	on := func(url string) func(args ...string) (string, string, int) {
		getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": url})
		return func(args ...string) (string, string, int) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), args, getenv, &stdout, &stderr)
			return stdout.String(), stderr.String(), code
		}
	}
	first, second := on(from), on(to)
	if _, msg, code := first("agent", "register", "--build", "42", "--wallet", wallet); code != 0 {
		t.Fatalf("register = %d, %s", code, msg)
	}
	out, msg, code := first("ledger", "verify", "--json")
	var v assembly.Verification
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Records == 0 || len(v.Findings) > 0 {
		t.Errorf("verify = %d, %s (%s), want all well", code, out, msg)
	}
	if out, _, code := first("ledger", "stat"); code != 0 || !strings.Contains(out, "agent.registered.v1") || !strings.Contains(out, "1 streams agent") {
		t.Errorf("stat = %d, %s", code, out)
	}
	if out, _, code := first("ledger", "tail", "--lines", "1", "--json"); code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"stream":"agent/build:42"`) {
		t.Errorf("tail = %d, %s", code, out)
	}
	looksAfterReadModels(t, first, from)
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	if _, msg, code := first("ledger", "export", file); code != 0 {
		t.Fatalf("export = %d, %s", code, msg)
	}
	if _, _, code := first("ledger", "export", file); code == 0 {
		t.Error("an export writes over a file")
	}
	if _, msg, code := first("ledger", "import", file); code != exitRefused {
		t.Errorf("import into a ledger with records = %d (%s), want %d", code, msg, exitRefused)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, bytes.Replace(text, []byte("build:42"), []byte("build:43"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, msg, code := second("ledger", "import", bad); code != exitDamaged || !strings.Contains(msg, "line ") {
		t.Errorf("import of a changed record = %d (%s), want %d and the line", code, msg, exitDamaged)
	}
	if _, msg, code := second("ledger", "import", file); code != 0 {
		t.Fatalf("import = %d, %s", code, msg)
	}
	if out, _, _ := second("ledger", "export", "-"); out != string(text) {
		t.Error("what was imported is exported otherwise")
	}
	damage(t, to)
	out, msg, code = second("ledger", "verify")
	if code != exitDamaged || !strings.Contains(out, "position 1, version 1 of programme") {
		t.Errorf("verify of a ledger with a changed record = %d, %s (%s), want %d and the place", code, out, msg, exitDamaged)
	}
}

// looksAfterReadModels parks a stream, tries it again and makes read models anew.
func looksAfterReadModels(t *testing.T, do func(args ...string) (string, string, int), url string) {
	t.Helper()
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"projections status", 0, "programme"},
		{"projections retry", exitNotFound, "no such stream is parked"},
		{"projections park agents agent/build:42 --reason review", 0, "leaves out agent/build:42 from version 2 on"},
		{"projections park agents agent/build:42 --reason review", exitRefused, "already"},
		{"projections park nosuch agent/build:42 --reason review", exitNotFound, "nosuch"},
		{"projections status", 0, "agents leaves out agent/build:42"},
		{"ledger verify", exitDamaged, "projection agents leaves out agent/build:42"},
		{"projections retry agents agent/build:42 --json", 0, `{"parked":[]}`},
		{"projections rebuild nosuch", exitNotFound, "nosuch"},
		{"projections rebuild agents shops --json", 0, `"generation":4`},
		{"projections rebuild", 0, "due"},
		{"ledger verify", 0, "all is well"},
	} {
		out, msg, code := do(strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out+msg, tt.says) {
			t.Errorf("%s = %d, %s%s, want %d and %q", tt.args, code, out, msg, tt.code, tt.says)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock(hashtextextended('karatum/mystery/projections/shadow/mystery_rm_rebuild', 0))`); err != nil {
		t.Fatal(err)
	}
	if _, msg, code := do("projections", "rebuild", "agents"); code != exitRefused || !strings.Contains(msg, "under way") {
		t.Errorf("a second rebuild = %d, %s, want %d", code, msg, exitRefused)
	}
}

// newDatabase makes a database that goes away with the test.
func newDatabase(t *testing.T, admin *pgx.Conn, name string) string {
	t.Helper()
	name = "store_" + name + "_" + pgtest.Schema(pgtest.Open(t))
	if _, err := admin.Exec(t.Context(), `create database `+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), `drop database `+name+` with (force)`) })
	server := pgtest.URL(t)
	if !strings.Contains(server, "://") {
		return server + " dbname=" + name
	}
	u, err := neturl.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// damage changes the first record, as only an administrator can.
func damage(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`set session_replication_role = replica`,
		`update mystery.events set actor = 'somebody else' where position = 1`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
