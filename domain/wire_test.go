package domain_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/domain/shop"
)

// aggregates are the packages that write events, by name.
var aggregates = map[string][]domain.Entry{
	"agent":     agent.Events,
	"batch":     batch.Events,
	"consent":   consent.Events,
	"exam":      exam.Events,
	"finding":   finding.Events,
	"incident":  incident.Events,
	"plan":      plan.Events,
	"producer":  producer.Events,
	"programme": programme.Events,
	"seal":      seal.Events,
	"session":   session.Events,
	"shield":    shield.Events,
	"shop":      shop.Events,
}

// Every type that the ledger has ever written has an example of its bytes, which
// decodes for ever.
func TestWire(t *testing.T) {
	t.Parallel()
	for name, events := range aggregates {
		t.Run(name, func(t *testing.T) {
			domaintest.Wire(t, events, os.DirFS(filepath.Join(name, "testdata")))
			for typ := range domain.NewCatalog(events).Types() {
				if !strings.HasPrefix(string(typ), name+".") {
					t.Errorf("package %s writes %s: events are named after their package", name, typ)
				}
			}
		})
	}
}

// All types together make one catalog, which no bytes from a store or a bundle
// bring down.
func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, slices.Concat(slices.Collect(maps.Values(aggregates))...), examples{})
}

// examples is the file system of the examples of all aggregates.
type examples struct{}

func (examples) Open(name string) (fs.File, error) {
	aggregate, _, _ := strings.Cut(name, ".")
	return os.DirFS(".").Open(path.Join(aggregate, "testdata", name))
}

var eventsList = regexp.MustCompile(`(?m)^var Events = \[\]domain\.Entry\{`)

// A new aggregate must not be forgotten here.
func TestWireNamesAllAggregates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Dir(file); eventsList.Match(src) && aggregates[name] == nil {
			t.Errorf("%s declares Events, but its package is not in the list of aggregates", file)
		}
	}
}
