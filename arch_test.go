package mystery_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/karatum/mystery"

// architecture says who may import whom. Patterns are those of the go command:
// "api" is one package, "api/..." is that and all below it. The first row that
// matches a package holds; a package that no row matches has no place here.
//
// The inner rooms come first: what is pure knows nothing of what is not.
var architecture = []rule{
	{"domain/...", []string{"domain/..."}},
	{"commands", []string{"domain/..."}},
	{"commands/...", []string{"domain/...", "commands/..."}},
	{"projections/...", []string{"domain/...", "projections/..."}},
	{"chain/eas/...", []string{"domain/...", "chain/eas/..."}},
	{"chain/node/...", []string{"domain/..."}},
	{"chain/wallet/...", []string{"domain/...", "chain/node/...", "chain/wallet/..."}},
	{"chain/...", []string{"domain/...", "commands", "chain/..."}},
	{"api/...", []string{"domain/...", "commands", "projections/...", "api/..."}},
	{"migrations/...", []string{"migrations/..."}},
	{"cmd/karatum-verify/...", []string{"domain/...", "chain/eas/...", "chain/node/...", "chain/wallet/..."}},
	{"cmd/karatum-verify-wasm/...", []string{"domain/..."}},
	{"cmd/...", []string{"..."}},
}

// reserved says which packages are for a few alone, whatever the table above
// allows. A chain in the process is a whole node, which no service should link.
var reserved = []rule{
	{"chain/devchain/...", []string{"chain/devchain/...", "cmd/karatum-demo/..."}},
}

// A rule allows packages to import others of this module, or, in reserved, a
// package to be imported by others.
type rule struct {
	from string
	to   []string
}

// pure lists what the domain may import from elsewhere: libraries that compute,
// and of the standard library all that neither reads nor writes the world.
var (
	pure = []string{
		"github.com/cbergoon/merkletree/...",
		"github.com/decred/dcrd/dcrec/secp256k1/...",
		"github.com/google/uuid",
		"github.com/gowebpki/jcs",
		"github.com/pandatix/go-cvss/...",
		"golang.org/x/crypto/sha3",
		"golang.org/x/mod/sumdb/...",
	}
	impure = []string{
		"crypto/rand", "database/sql/...", "log/...", "math/rand/...", "net", "net/http/...", "net/rpc/...", "os/...", "plugin", "syscall/...",
	}
)

func TestArchitecture(t *testing.T) {
	t.Parallel()
	for from, imports := range packages(t) {
		i := slices.IndexFunc(architecture, func(r rule) bool { return matches(r.from, from) })
		if i < 0 {
			t.Errorf("%s is in none of the folders that hold the product's code", from)
			continue
		}
		for _, to := range imports {
			ours, ok := strings.CutPrefix(to, module+"/")
			forbidden := func(r rule) bool { return matches(r.from, ours) && !matchesAny(r.to, from) }
			if ok && (!matchesAny(architecture[i].to, ours) || slices.ContainsFunc(reserved, forbidden)) {
				t.Errorf("%s must not import %s", from, ours)
			}
		}
	}
}

func TestDomainIsPure(t *testing.T) {
	t.Parallel()
	for from, imports := range packages(t) {
		if !matches("domain/...", from) || strings.HasSuffix(from, "test") { // domaintest, ledgertest: for tests
			continue
		}
		for _, to := range imports {
			host, _, _ := strings.Cut(to, "/")
			switch standard := !strings.Contains(host, "."); {
			case strings.HasPrefix(to, module+"/"):
			case standard && matchesAny(impure, to), !standard && !matchesAny(pure, to):
				t.Errorf("%s is pure and must not import %s", from, to)
			}
		}
	}
}

// packages returns what each package of the module imports, tests aside. One is for
// browsers alone.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	listInto(t, imports, "./...")
	listInto(t, imports, "./cmd/karatum-verify-wasm", "GOOS=js", "GOARCH=wasm")
	return imports
}

func listInto(t *testing.T, imports map[string][]string, pattern string, environ ...string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, pattern)
	list.Env = append(list.Environ(), environ...)
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if from, ok := strings.CutPrefix(fields[0], module+"/"); ok { // the module itself holds this test alone
			imports[from] = append(imports[from], fields[1:]...)
		}
	}
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func matches(pattern, path string) bool {
	root, tree := strings.CutSuffix(pattern, "...")
	root = strings.TrimSuffix(root, "/")
	switch {
	case !tree:
		return path == root
	case root == "":
		return true
	}
	return path == root || strings.HasPrefix(path, root+"/")
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"api", "api", true},
		{"api", "api/explorer", false},
		{"api/...", "api", true},
		{"api/...", "api/explorer", true},
		{"api/...", "apiary", false},
		{"...", "anything/at/all", true},
	} {
		if got := matches(tt.pattern, tt.path); got != tt.want {
			t.Errorf("matches(%q, %q) = %t, want %t", tt.pattern, tt.path, got, tt.want)
		}
	}
}
