//go:build peers

package contracts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The artifacts are what the compiler makes of the sources.
func TestPeerSolc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // so that the compiler is not installed among the sources
	if err := os.CopyFS(filepath.Join(dir, "artifacts"), os.DirFS("artifacts")); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.sol")
	if err != nil || len(sources) == 0 {
		t.Fatalf("there are no sources: %v", err)
	}
	for _, name := range append(sources, "package.json", "package-lock.json", "build.cjs") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"},
		{"node", "build.cjs", "--check"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}
