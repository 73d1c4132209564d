package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var hrefs = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// Every link from a page to another part of the interface leads to something, and
// to the place in it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	seen, crawled := map[string]string{}, map[string]bool{}
	fetch := func(path string) string {
		if _, ok := seen[path]; !ok {
			a := w.do(http.MethodGet, path, "", "Accept", "text/html")
			if a.status != http.StatusOK {
				t.Errorf("GET %s: %d", path, a.status)
			}
			seen[path] = a.body
		}
		return seen[path]
	}
	todo := []string{"/mystery"}
	for ; len(todo) > 0; todo = todo[1:] {
		if crawled[todo[0]] {
			continue
		}
		crawled[todo[0]] = true
		for _, found := range hrefs.FindAllStringSubmatch(fetch(todo[0]), -1) {
			link := strings.TrimPrefix(found[1], "https://karatum.com")
			path, fragment, _ := strings.Cut(link, "#")
			if path == "" {
				path = todo[0]
			}
			if !strings.HasPrefix(path, "/") {
				continue // mailto
			}
			if body := fetch(path); fragment != "" && !strings.Contains(body, ` id="`+fragment+`"`) {
				t.Errorf("%s has a link to %s, and nothing there has this id", todo[0], link)
			}
			if strings.HasPrefix(path, "/mystery") || path == "/bot" {
				todo = append(todo, path)
			}
		}
	}
	for _, path := range []string{"/mystery/terms", "/mystery/ethics", "/mystery/identities", "/bot", "/.well-known/security.txt", root + "/terms"} {
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
