package commands_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

//go:generate go test -run TestReferenceOfEvents -update .

var update = flag.Bool("update", false, "write docs/EVENTS.md")

// streams says where events of each package stand.
var streams = map[string]string{
	"agent": "agent/<ref>", "batch": "batch/<n>", "consent": "consent/<agent ref>", "exam": "exam/<agent ref>", "finding": "finding/<consent>",
	"incident": "incident/<id>", "plan": "plan/<consent>", "producer": "producer/<id>", "programme": "programme", "seal": "seal/<consent>",
	"session": "session/<id>", "shield": "shield-case/<id>", "shop": "shop/<slot>",
}

const preface = `# Events

The ledger is a list of these, and nothing else is true. ` + "`GET /v1/ledger/records`" + ` serves the public ones as they are hashed.

*Public* types are in the public log from the moment they are appended. *Sealed* ones are not: ` + "`shop.revealed.v1` and `incident.disclosed.v1`" + ` carry
them later, byte for byte. Which of the two a type is belongs to the type and never changes, nor does its shape. What is hashed is the canonical
form of the JSON (RFC 8785); the examples are indented to be read. CHANGELOG.md is where a new type is announced.

Written by ` + "`make generate`" + ` from the catalogue of types, the changelog and the examples of the tests.
`

// TestReferenceOfEvents holds docs/EVENTS.md to the catalogue, whose types it lists.
func TestReferenceOfEvents(t *testing.T) {
	t.Parallel()
	root := ".."
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	catalog := commands.Catalog()
	var text strings.Builder
	text.WriteString(preface)
	family := ""
	for typ := range catalog.Types() {
		name, _, _ := strings.Cut(string(typ), ".")
		if name != family {
			family = name
			if streams[name] == "" {
				t.Errorf("where do events of %s stand?", name)
			}
			fmt.Fprintf(&text, "\n## %s\n\nStream `%s`.\n", name, streams[name])
		}
		seen := "public"
		if catalog.Visibility(typ) == domain.Sealed {
			seen = "sealed"
		}
		example, err := os.ReadFile(filepath.Join(root, "domain", name, "testdata", string(typ)+".json"))
		if err != nil {
			t.Errorf("%s has no example: %v", typ, err)
			continue
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, bytes.TrimSpace(example), "", " "); err != nil {
			t.Errorf("the example of %s: %v", typ, err)
		}
		fmt.Fprintf(&text, "\n### %s\n\n%s: %s\n\n```json\n%s\n```\n", typ, seen, announced(t, string(changelog), typ), &indented)
	}
	path := filepath.Join(root, "docs", "EVENTS.md")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text.String() {
		t.Errorf("docs/EVENTS.md is not what the catalogue says (%v): run make generate", err)
	}
}

// announced returns what the changelog says of a type, on one line.
func announced(t *testing.T, changelog string, typ domain.Type) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^#### ` + regexp.QuoteMeta(string(typ)) + `( \(sealed\))?$`).FindStringIndex(changelog)
	if m == nil {
		t.Errorf("%s is not in the changelog", typ)
		return ""
	}
	said, _, _ := strings.Cut(strings.TrimSpace(changelog[m[1]:]), "\n\n")
	return strings.Join(strings.Fields(said), " ")
}
