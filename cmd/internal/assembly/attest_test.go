package assembly_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/migrations/pgtest"
)

const anAddress = "0x0000000000000000000000000000000000000001"

// openWith opens a programme with an environment.
func openWith(t *testing.T, schema string, env map[string]string) (*assembly.Programme, error) {
	t.Helper()
	c := assembly.ConfigFrom(func(name string) string { return env[name] })
	c.StateDir = t.TempDir()
	return assembly.Open(t.Context(), c, assembly.Options{Schema: schema})
}

// TestAttestingRefused gives settings that cannot be used. They are refused before
// anything is opened.
func TestAttestingRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"a chain that is not known", map[string]string{"MYSTERY_ATTEST_CHAIN": "777", "MYSTERY_RPC_777": "http://127.0.0.1:1"}, "MYSTERY_ATTEST_EAS"},
		{"a chain without a node", map[string]string{"MYSTERY_ATTEST_CHAIN": "8453"}, "MYSTERY_RPC_8453"},
		{"no chain id", map[string]string{"MYSTERY_ATTEST_CHAIN": "base"}, "MYSTERY_ATTEST_CHAIN"},
		{"no address", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_RESOLVER": "0x1"}, "MYSTERY_ATTEST_RESOLVER"},
		{"too large a size", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_BATCH_SIZE": "100001"}, "MYSTERY_BATCH_SIZE"},
		{"no number", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_CONFIRMATIONS": "-1"}, "MYSTERY_ATTEST_CONFIRMATIONS"},
		{"no fee", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_MAX_FEE": "0"}, "MYSTERY_ATTEST_MAX_FEE"},
		{"a key that is not there", map[string]string{"MYSTERY_ATTESTER_KEY_FILE": "/nowhere/key"}, "/nowhere/key"},
	} {
		tt.env["MYSTERY_DATABASE_URL"] = "postgres://nowhere.invalid/none"
		if _, err := openWith(t, "", tt.env); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Open = %v, want an error with %s", tt.name, err, tt.want)
		}
	}
}

// TestAttestingOpens needs no node, as none is asked at the start.
func TestAttestingOpens(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "attester.key")
	if err := os.WriteFile(key, []byte(hex.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openWith(t, pgtest.Schema(pgtest.Open(t)), map[string]string{
		"MYSTERY_DATABASE_URL": pgtest.URL(t), "MYSTERY_ATTESTER_KEY_FILE": key, "MYSTERY_ATTEST_CHAIN": "777",
		"MYSTERY_RPC_777": "http://127.0.0.1:1", "MYSTERY_ATTEST_EAS": anAddress, "MYSTERY_ATTEST_REGISTRY": anAddress,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Attester == nil || p.Attester.Key == nil {
		t.Fatal("there is no attester with a key")
	}
	if how, err := p.Attesting(t.Context()); err != nil || how != "not begun" {
		t.Errorf("Attesting = %q, %v, want that it is not begun", how, err)
	}
	if err := p.Attester.Step(t.Context()); err != nil {
		t.Errorf("Step without commits: %v", err)
	}
	if how, err := p.Attesting(t.Context()); err != nil || how != "ok" {
		t.Errorf("Attesting = %q, %v, want ok", how, err)
	}
}
