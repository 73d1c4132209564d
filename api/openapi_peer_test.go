//go:build peers

package api_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Redocly finds nothing wrong with the document, and would.
func TestPeerLintOfTheDocument(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	lint := func(document string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(peers, "openapi", "node_modules", ".bin", "redocly"), "lint",
			"--config", filepath.Join(peers, "openapi", "redocly.yaml"), "--max-problems", "20", document)
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := lint("openapi.json"); err != nil || !strings.Contains(out, "is valid") || strings.Contains(out, "warning(s)") {
		t.Errorf("lint = %v\n%s", err, out)
	}
	document, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	spoilt := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(spoilt, []byte(strings.Replace(string(document), `"operationId":`, `"operationID":`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := lint(spoilt); err == nil {
		t.Errorf("lint of a document with a fault found none\n%s", out)
	}
}
