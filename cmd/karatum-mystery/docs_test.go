package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/doctest"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/migrations/privatepg"
)

// A backup is restored as the manual says, into a cluster that has never seen the service.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	url := newDatabase(t, admin, "backup")
	getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": url})
	if code := run(t.Context(), []string{"agent", "register", "--build", "42", "--wallet", wallet, "--certificate", "KC-1"}, getenv, t.Output(), t.Output()); code != 0 {
		t.Fatalf("register = %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	other, err := privatepg.Start(ctx, privatepg.Options{
		Dir: filepath.Join(filepath.Dir(getenv("MYSTERY_STATE_DIR")), "restored"), Settings: []string{"fsync=off", "max_connections=100"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := doctest.Run(t, "OPERATIONS.md", "backup", []string{
		"MYSTERY_DATABASE_URL=" + url, "RESTORED_URL=" + other.URL(), "MYSTERY_STATE_DIR=" + getenv("MYSTERY_STATE_DIR"),
		"MYSTERY_RPC_84532=none", "MYSTERY_RPC_11155111=none",
	}, map[string]string{
		"karatum-mystery": playsProgram + "=1 exec '" + self + "'",
		// Those of the server, wherever they are.
		"pg_dump": "exec '" + filepath.Join(other.Bin(), "pg_dump") + "'", "pg_restore": "exec '" + filepath.Join(other.Bin(), "pg_restore") + "'",
		"psql": "exec '" + filepath.Join(other.Bin(), "psql") + "'",
	})
	if !strings.Contains(out, "all is well") {
		t.Errorf("verify does not say that the restored ledger is well:\n%s", out)
	}
	// The restored service goes on.
	again := env(t, map[string]string{"MYSTERY_DATABASE_URL": other.URL(), "MYSTERY_STATE_DIR": getenv("MYSTERY_STATE_DIR")})
	if code := run(t.Context(), []string{"agent", "certificate", "withdraw", "--build", "42", "--certificate", "KC-1", "--reason", "x"}, again, t.Output(), t.Output()); code != 0 {
		t.Errorf("a command on what was restored = %d", code)
	}
	if code := run(t.Context(), []string{"ledger", "verify"}, again, t.Output(), t.Output()); code != 0 {
		t.Errorf("verify after it = %d", code)
	}
}

// Commands that documents show are understood: their names, their flags, and what is
// required.
func TestDocumentsShowWhatThereIs(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`(?m)^ +(?:bin/)?karatum-mystery (.+?)(?: +#.*)?$`)
	total := 0
	for _, document := range []string{"README.md", "docs/OPERATIONS.md", "docs/PRODUCERS.md", "docs/OWNERS.md", "docs/FAQ.md", "docs/CHECK.md"} {
		for _, m := range shown.FindAllStringSubmatch(read(t, document), -1) {
			total++
			understood(t, document, words(m[1]))
		}
	}
	if total < 10 {
		t.Errorf("%d commands are shown", total)
	}
	for _, document := range []string{"README.md", "docs/OPERATIONS.md"} {
		for _, name := range variable.FindAllString(read(t, document), -1) {
			if !known(name) {
				t.Errorf("%s names %s, which the manual does not", document, name)
			}
		}
	}
	// Documents lead to documents that there are.
	for _, document := range []string{"README.md", "docs/OPERATIONS.md", "docs/OWNERS.md", "docs/FAQ.md", "docs/CHECK.md", "docs/EVENTS.md"} {
		for _, name := range regexp.MustCompile(`\b(?:docs/)?[A-Z]+\.md\b`).FindAllString(read(t, document), -1) {
			base := filepath.Base(name)
			_, below := os.Stat(filepath.Join(repository, "docs", base))
			_, top := os.Stat(filepath.Join(repository, base))
			if below != nil && top != nil {
				t.Errorf("%s leads to %s, which there is not", document, name)
			}
		}
	}
}

// words splits a line as a shell does, as far as documents need it. What is optional
// stands in brackets, which are left out.
func words(line string) (list []string) {
	line = strings.NewReplacer("[", "", "]", "").Replace(line)
	for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' || r == '\'' }) {
		if i%2 == 1 { // within quotes
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}
