package api_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/maintainer"
)

var hrefs = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// eventful is a world in which there is something on every page.
func eventful(t *testing.T) (*world, day) {
	t.Helper()
	w := newWorld(t).furnish().maintained()
	log := w.publicLog()
	refused := w.challenge(honest)
	w.hosts["https://agent.example/a2a"] = false
	w.post(root+"/consents", http.StatusUnprocessableEntity, encode(refused.body))
	w.hosts["https://agent.example/a2a"] = true
	w.grant(honest)
	d := w.seal(w.grant(house), house)
	replies := []string{"5280 feet", "</pre><script>alert(1)</script>\u202e\u2067\u200f" + strings.Repeat("x", 60<<10), "5280 feet"}
	for i, reply := range replies {
		d.send(d.tasks[i], reply)
	}
	d.pass(time.Hour)
	for i, reply := range replies[:2] {
		d.reveal(d.tasks[i], passed(reply))
	}
	d.compare(1, finding.AfterDay)
	correction := finding.Correct{Consent: d.consent, Look: 1, Text: "Two of the tasks were ours."}
	correction.By = []maintainer.Approval{maintainer.Approve(ann.name, ann.key, correction.Action())}
	w.ok(w.service.CorrectFinding(t.Context(), correction))
	gap := w.confirmedFinding(d.consent, house, 2)
	w.reply(gap, "</pre><script>alert(1)</script> An outage.", http.StatusCreated)
	w.ok(w.service.OpenIncident(t.Context(), d.consent, 2))
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
		"/ledger/batches/1", "/ledger/records/0", "/incidents/" + incident.ID(d.consent), "/mystery/" + d.consent + "?look=1", root + "/agents", "/mystery/findings.atom", "/mystery/reveals.atom",
	} {
		if _, ok := seen[path]; !ok {
			t.Errorf("no link leads to %s", path)
		}
	}
}

// Findings, incidents and passports stand on pages with all that was said of them.
func TestPagesOfWhatWasFound(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	for path, wants := range map[string][]string{
		"/mystery/" + d.consent:             {"What the owner says to it", "&lt;/pre&gt;&lt;script&gt;alert(1)", "An incident followed", "Two of the tasks were ours."},
		"/mystery/" + d.consent + "?look=1": {"Two of the tasks were ours.", "Signed by", "Ann Example", "This is one look of several."},
		"/incidents/" + incident.ID(d.consent): {
			"Incident about demo", "incident.disclosed.v1", "a href=\"/mystery/" + d.consent + "?look=2\"",
		},
		"/agents/demo": {"Passport", "Incident " + incident.ID(d.consent), "/v1/ledger/proofs/inclusion?index=", "<dt>Shield</dt><dd><bdi>no data</bdi>"},
		"/agents/42":   {"The owner agreed to spot checks on", "Certificate crt_0 is on record"},
	} {
		body := w.do(http.MethodGet, path, "", "Accept", "text/html").body
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not have %q", path, want)
			}
		}
	}
}

func TestListOfAgents(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	a := w.do(http.MethodGet, "/agents", "", "Accept", "application/json")
	if direct := w.do(http.MethodGet, root+"/agents", ""); a.status != http.StatusOK || a.body != direct.body {
		t.Errorf("the page as JSON: %d %s, want %s", a.status, a.body, direct.body)
	}
	byRef := make(map[string]map[string]any)
	next := root + "/agents?limit=1"
	for range 3 {
		got := w.get(next)
		one, _ := items(got)[0].(map[string]any)
		byRef[fmt.Sprint(one["agent"])] = one
		cursor, more := got["nextCursor"].(string)
		if !more {
			break
		}
		next = root + "/agents?limit=1&cursor=" + cursor
	}
	if len(byRef) != 2 || byRef[string(honest)]["spotChecks"] != "active" {
		t.Fatalf("the agents, page by page: %v", byRef)
	}
	demo := byRef[string(house)]
	latest, _ := demo["latestFinding"].(map[string]any)
	if demo["demo"] != true || demo["consent"] != d.consent || latest["id"] != finding.ID(d.consent, 2) || latest["gatedVerdict"] != "exam_only" {
		t.Errorf("the house agent is %v", demo)
	}
	if a := w.do(http.MethodGet, root+"/agents?cursor=x", ""); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a cursor that is none: %d", a.status)
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
