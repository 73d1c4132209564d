package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
)

const (
	payKey   = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	otherKey = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

func TestKeysThatPay(t *testing.T) {
	t.Parallel()
	file := func(mode os.FileMode, lines ...string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		config assembly.Config
		keys   int
		once   bool
		err    string // part of it
	}{
		"nobody":            {assembly.Config{}, 0, false, ""},
		"one for all":       {assembly.Config{PayKey: payKey}, 1, false, ""},
		"one for each":      {assembly.Config{PayKeyFile: file(0o600, "# funded in March", payKey, "", "  "+otherKey+" ")}, 2, true, ""},
		"no key":            {assembly.Config{PayKey: "secret"}, 0, false, "MYSTERY_X402_PRIVATE_KEY: a key that pays is"},
		"both":              {assembly.Config{PayKey: payKey, PayKeyFile: file(0o600, payKey)}, 0, false, "both set"},
		"no file":           {assembly.Config{PayKeyFile: filepath.Join(t.TempDir(), "none")}, 0, false, "no such file"},
		"an open file":      {assembly.Config{PayKeyFile: file(0o644, payKey)}, 0, false, "chmod 600"},
		"an empty file":     {assembly.Config{PayKeyFile: file(0o600, "# none yet")}, 0, false, "holds no key"},
		"a line that fails": {assembly.Config{PayKeyFile: file(0o600, payKey, payKey[:20])}, 0, false, "line 2 of"},
		"a key twice":       {assembly.Config{PayKeyFile: file(0o600, payKey, "0x"+payKey)}, 0, false, "line 2 of"},
	} {
		keys, once, err := assembly.KeysThatPay(tt.config)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || len(keys) != tt.keys || once != tt.once {
			t.Errorf("%s: %d keys, once %t, %v, want %d, %t, %q", name, len(keys), once, err, tt.keys, tt.once, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), payKey[:20]) {
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
	}
}
