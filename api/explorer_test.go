package api_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/finding"
)

var hrefs = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// eventful is a world in which there is something on every page.
func eventful(t *testing.T) (*world, day) {
	t.Helper()
	w := newWorld(t).furnish()
	log := w.publicLog()
	refused := w.challenge(honest)
	w.hosts["https://agent.example/a2a"] = false
	w.post(root+"/consents", http.StatusUnprocessableEntity, encode(refused.body))
	w.hosts["https://agent.example/a2a"] = true
	w.grant(honest)
	d := w.seal(w.grant(house), house)
	for _, slot := range d.tasks[:3] {
		d.send(slot, "5280 feet")
	}
	d.pass(time.Hour)
	d.reveal(d.tasks[0], passed("5280 feet"))
	d.reveal(d.tasks[1], passed("</pre><script>alert(1)</script>\u202e "+strings.Repeat("x", 60<<10)))
	d.compare(1, finding.AfterDay)
	var open []batch.Open
	for slot := range 3 {
		open = append(open, batch.Open{Commit: domain.Sum([]byte(d.shop(slot))), Index: uint64(slot), Time: w.clock()})
	}
	first, _, err := batch.Close(nil, 84532, batch.Word{1}, open, uint64(w.records()), domain.Hash{2})
	w.ok(err)
	w.batch(1, batch.Seal{Sealed: first})
	log.publish()
	w.ok(w.runner.CatchUp(t.Context()))
	return w, d
}

// Every link from a page leads to something, and to the place in it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	seen, crawled := map[string]answer{}, map[string]bool{}
	fetch := func(path string) answer {
		if _, ok := seen[path]; !ok {
			a := w.do(http.MethodGet, path, "", "Accept", "text/html")
			if a.status != http.StatusOK {
				t.Errorf("GET %s: %d", path, a.status)
			}
			seen[path] = a
		}
		return seen[path]
	}
	todo := []string{"/mystery"}
	for ; len(todo) > 0; todo = todo[1:] {
		a := fetch(todo[0])
		if crawled[todo[0]] || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			continue
		}
		crawled[todo[0]] = true
		if len(a.body) > 100<<10 {
			t.Errorf("%s has %d bytes", todo[0], len(a.body))
		}
		for _, found := range hrefs.FindAllStringSubmatch(a.body, -1) {
			link := strings.TrimPrefix(html.UnescapeString(found[1]), "https://karatum.com")
			path, fragment, _ := strings.Cut(link, "#")
			if path == "" {
				path = todo[0]
			}
			if !strings.HasPrefix(path, "/") {
				continue // mailto
			}
			if fragment != "" && !strings.Contains(fetch(path).body, ` id="`+fragment+`"`) {
				t.Errorf("%s has a link to %s, and nothing there has this id", todo[0], link)
			}
			todo = append(todo, path)
		}
	}
	for _, path := range []string{
		"/mystery/terms", "/mystery/ethics", "/mystery/identities", "/bot", "/.well-known/security.txt", root + "/terms", "/mystery/" + d.consent,
		"/mystery/shops/" + d.shop(d.tasks[0]), "/agents", "/agents/42", "/agents/demo", "/agents/demo/badge.svg", "/stack", "/stack/card", "/ledger",
		"/ledger/batches/1", "/ledger/records/0", "/mystery/findings.atom", "/mystery/reveals.atom",
	} {
		if _, ok := seen[path]; !ok {
			t.Errorf("no link leads to %s", path)
		}
	}
}

func TestPagesInPlaceOfProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/nothing", browser, 404, true},
		{"GET", "/nothing", "*/*", 404, false},
		{"GET", "/nothing", "", 404, false},
		{"GET", "/nothing", "application/json, text/html;q=0.5", 404, false},
		{"GET", root + "/nothing", browser, 404, false},
		{"GET", root + "/shops/nothing", browser, 422, false},
		{"POST", "/mystery/terms", browser, 405, true},
		{"POST", "/mystery/terms", "*/*", 405, false},
		{"GET", "/mystery?%zz", browser, 400, true},
	} {
		a := w.do(c.method, c.path, "", "Accept", c.accept)
		kind := a.header.Get("Content-Type")
		if a.status != c.status || strings.HasPrefix(kind, "text/html") != c.page || !c.page && kind != "application/problem+json" {
			t.Errorf("%s %s for %q: %d, %s; want %d, a page: %t", c.method, c.path, c.accept, a.status, kind, c.status, c.page)
		}
		if c.page && !strings.Contains(a.body, a.header.Get("X-Request-Id")) {
			t.Errorf("%s %s: the page does not name the request", c.method, c.path)
		}
	}
	if a := w.do("POST", "/mystery/terms", "", "Accept", browser); a.header.Get("Allow") == "" {
		t.Error("a refused method is answered without Allow")
	}
}

func TestRootLeadsToTheProgramme(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	if a := w.do("GET", "/", "", "Accept", "text/html"); a.status != http.StatusFound || a.header.Get("Location") != "/mystery" {
		t.Errorf("GET /: %d to %q", a.status, a.header.Get("Location"))
	}
}
