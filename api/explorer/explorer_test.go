package explorer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/net/html"

	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/api/explorer/checker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// full is a programme in which there is something of everything, and in which
// others wrote what they could.
func full() projections.Status {
	return projections.Status{
		AsOf: start,
		Pauses: []projections.Pause{
			{Scope: programme.Everything, Reason: `<script>alert("paused")</script> & more`, Since: start},
			{Scope: programme.OfHost("agent.example:443"), Reason: "They asked.", Since: start},
			{Scope: programme.OfConsent("cns_x"), Since: start},
			{Scope: programme.OfTemplate("unit.length"), Since: start},
			{Scope: programme.OfIdentity(3), Since: start},
		},
		Terms:      []projections.Version{{Number: 1, Hash: terms.Current().Hash(), Since: start}},
		Pools:      []projections.Version{{Number: 1, Hash: identity.Hash(), Since: start}},
		Catalogues: []projections.Version{{Hash: domain.Sum([]byte("catalogue")), Since: start}},
		Totals: projections.Totals{
			Consents: map[string]int{projections.Active: 37, projections.Revoked: 4},
			Revealed: map[string]int{"pass": 1_234_000, "missed": 567},
			Findings: map[string]int{"insufficient": 999},
		},
		Demo: projections.Totals{Consents: map[string]int{projections.Active: 2}},
	}
}

// reference is an interface in which there is one of everything.
var reference = explorer.Reference{Description: "All of it.", Groups: []explorer.OperationGroup{{Name: "read", Title: "Reading", Operations: []explorer.Operation{{
	ID: "get-thing", Method: http.MethodGet, Path: "/v1/things/{id}", Summary: "One thing", Description: "In full.",
	Parameters: []explorer.Field{{Name: "id", In: "path", Needed: true, Type: explorer.Type{Words: "string", Limits: "^<$"}, Text: "Its name.", Example: "thg_1"}},
	Bodies:     []explorer.Content{{Media: "application/json", Type: explorer.Type{Words: "list of", Object: "Thing"}, Text: "All"}},
	Answers: []explorer.Reply{
		{Status: "200", Text: "OK", Headers: []explorer.Field{{Name: "ETag", Type: explorer.Type{Words: "string"}}}, Bodies: []explorer.Content{{Media: "application/json", Type: explorer.Type{Object: "Thing"}}}},
		{Status: "304", Text: "Not Modified"},
	},
	Objects: []explorer.Object{{Name: "Thing", Text: "A thing.", Fields: []explorer.Field{{Name: "id", Type: explorer.Type{Words: "string"}}}}, {Name: "Nothing"}},
}}}}}

func config(r reader) explorer.Config { return configOf(&r) }

// configOf is the same of a reader that may change.
func configOf(r *reader) explorer.Config {
	return explorer.Config{
		Reader: r, Ledger: r, Owners: r, PublicURL: "https://karatum.com", Now: func() time.Time { return start },
		Facts: explorer.Facts{
			Abuse: "mailto:abuse@karatum.com", Bot: "KaratumBot/1.0 (+https://karatum.com/bot)", TasksPerHost: 23, CheckEvery: 30 * time.Minute,
		},
		Verify:     func(context.Context, string) (*verify.ShopReport, error) { return &r.report, r.err },
		Reply:      func(context.Context, projections.Shop) ([]byte, error) { return r.reply, r.err },
		OwnerReply: func(context.Context, projections.FindingReply) (string, error) { return hostile, r.err },
		Passport:   func(context.Context, agent.Ref) (explorer.Passport, error) { return r.passport, r.err },
		Checker:    &checker.Program{WASM: zipped("\x00asm"), Runtime: []byte("globalThis.Go = class {};")},
		Reference:  func() *explorer.Reference { return &reference },
		JSON: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strconv.Quote(r.URL.Path))
		}),
		Problem: func(_ context.Context, err error) explorer.Problem {
			if errors.Is(err, domain.ErrNotFound) {
				return explorer.Problem{Status: http.StatusNotFound, Title: "Not found"}
			}
			if errors.Is(err, domain.ErrInvalid) || errors.Is(err, domain.ErrForbidden) {
				return explorer.Problem{Status: http.StatusUnprocessableEntity, Title: "Not so", Detail: domain.Sentence(err)}
			}
			return explorer.Problem{Status: http.StatusServiceUnavailable, Title: "Not now", Detail: "try again in a moment", RequestID: "abc"}
		},
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.Bytes()
}

func handler(c explorer.Config) http.Handler {
	pages, r := explorer.New(c), chi.NewRouter()
	pages.Register(r)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		pages.Refuse(w, r, explorer.Problem{Status: http.StatusNotFound, Title: "Not found"})
	})
	return r
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, h http.Handler, path string, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	res := rec.Result()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// paths are all pages; the ids are those of what a [reader] holds.
var paths = []string{
	"/mystery", "/mystery/terms", "/mystery/ethics", "/mystery/identities", "/bot", "/mystery/opt-in", "/mystery/" + consentID, "/mystery/shops/" + shopID,
	"/mystery/" + consentID + "?look=3", "/incidents/" + incidentID, "/agents", "/agents/42", "/stack", "/ledger", "/ledger/batches", "/search", "/search?q=nothing",
	"/docs/api", "/docs/api/get-thing",
}

// A variant is a programme that the pages are made for.
type variant struct {
	name   string
	config explorer.Config
}

func variants() []variant {
	demo, without := config(furnished()), config(furnished())
	demo.Facts.Demo, without.Checker = true, nil
	return []variant{
		{"that was built without the program for browsers", without},
		{"with nothing in it", config(empty())},
		{"with something of everything", config(furnished())},
		{"that is a demonstration", demo},
		{"that cannot be read", config(reader{err: errors.New("the database is down")})},
	}
}

func TestPagesAreSound(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			h := handler(v.config)
			for _, path := range append([]string{"/nowhere"}, paths...) {
				a := get(t, h, path)
				if got := a.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
					t.Errorf("%s: content type %q", path, got)
				}
				weight := len(a.body)
				for _, m := range loaded.FindAllStringSubmatch(a.body, -1) {
					weight += len(get(t, h, m[1]).body)
				}
				if weight > 100<<10 {
					t.Errorf("%s has %d bytes with all that it loads", path, weight)
				}
				if marked := strings.Contains(a.body, "DEMO ·"); v.config.Facts.Demo && !marked {
					t.Errorf("%s: DEMO is not in the title", path)
				}
				for _, fault := range faults(t, a.body) {
					t.Errorf("%s: %s", path, fault)
				}
			}
		})
	}
}

// loaded is what comes with a page unasked.
var loaded = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

// A policy that allows what a page does not have is of no use, and a page that has
// what the policy forbids does not work. Here both are in one place: the scripts of each
// page, and what its policy allows beyond that of all.
func TestPolicy(t *testing.T) {
	t.Parallel()
	without := config(furnished())
	without.Checker = nil
	opens := map[string]string{"connect-src 'none'": "connect-src 'self'"}
	checks := map[string]string{"connect-src 'none'": "connect-src 'self'", "script-src 'self'": "script-src 'self' 'wasm-unsafe-eval'"}
	for _, tt := range []struct {
		config  explorer.Config
		path    string
		scripts []string
		other   map[string]string // what stands in place of directives
	}{
		{config(furnished()), "/nowhere", []string{"copy"}, nil},
		{config(furnished()), "/mystery", []string{"copy", "optin"}, opens},
		{config(furnished()), "/mystery/opt-in", []string{"copy", "optin"}, opens},
		{config(furnished()), "/mystery/shops/" + shopID, []string{"copy", "check"}, checks},
		{without, "/mystery/shops/" + shopID, []string{"copy", "check"}, opens},
		{config(furnished()), "/mystery/" + consentID, []string{"copy"}, nil},
		{config(furnished()), "/agents/42", []string{"copy"}, nil},
		{config(furnished()), "/search?q=nothing", []string{"copy"}, nil},
		{config(furnished()), "/stack/card", nil, map[string]string{"script-src 'self'": "script-src 'none'", "frame-ancestors 'none'": "frame-ancestors *"}},
	} {
		a := get(t, handler(tt.config), tt.path)
		if got, want := a.header.Get("Content-Security-Policy"), policyWith(tt.other); got != want {
			t.Errorf("%s: the policy is\n%s\nwant\n%s", tt.path, got, want)
		}
		if got := scriptsOf(a.body); !slices.Equal(got, tt.scripts) || strings.Count(a.body, "<script") != len(got) {
			t.Errorf("%s has the scripts %q, want %q and no others", tt.path, got, tt.scripts)
		}
	}
}

// policyWith returns the policy of all pages with other directives in the place of some.
func policyWith(other map[string]string) string {
	var policy []string
	for _, d := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'none'", "form-action 'self'", "base-uri 'none'",
		"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	} {
		if instead, ok := other[d]; ok {
			policy = append(policy, instead)
		} else {
			policy = append(policy, d)
		}
	}
	return strings.Join(policy, "; ")
}

var scriptTag = regexp.MustCompile(`<script type="module" src="/assets/([a-z]+)-[0-9a-f]{16}\.js" integrity="sha256-[0-9A-Za-z+/]{43}="></script>`)

// scriptsOf names the scripts of a page, each of which is ours and named with its hash.
func scriptsOf(body string) (names []string) {
	for _, m := range scriptTag.FindAllStringSubmatch(html.UnescapeString(body), -1) {
		names = append(names, m[1])
	}
	return names
}

// faults holds a page against what all pages keep to: the policy they are served
// under, and what people who hear or enlarge a page depend on.
func faults(t *testing.T, body string) (faults []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	ids, count, level := map[string]bool{}, map[string]int{}, 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data != "title" || n.Namespace == "" { // a drawing has a title of its own
			count[n.Data]++
		}
		switch n.Data {
		case "script":
			if !ourScript.MatchString(attr(n, "src")) || attr(n, "integrity") == "" || n.FirstChild != nil {
				fault("there is a <script> that is none of ours, or has no hash: %q", attr(n, "src"))
			}
		case "style", "base", "iframe", "object", "embed":
			fault("there is a <%s>", n.Data)
		case "form":
			if !strings.HasPrefix(attr(n, "action"), "/") {
				fault("a form leads to %q", attr(n, "action"))
			}
		case "html":
			if attr(n, "lang") != "en" {
				fault("the language is not said")
			}
		case "h1", "h2", "h3", "h4":
			next := int(n.Data[1] - '0')
			if next > level+1 {
				fault("<%s> %q follows a heading of level %d", n.Data, text(n), level)
			}
			level = next
		case "table":
			if attr(n, "role") != "table" {
				fault("a table loses its role where it is shown as blocks")
			}
		case "th":
			if attr(n, "scope") == "" {
				fault("<th> %q has no scope", text(n))
			}
		case "link":
			if rel := attr(n, "rel"); (rel == "stylesheet" || rel == "icon") && !strings.HasPrefix(attr(n, "href"), "/assets/") {
				fault("%s is from elsewhere: %q", rel, attr(n, "href"))
			}
		case "a":
			if strings.TrimSpace(text(n)) == "" {
				fault("a link to %q has no words", attr(n, "href"))
			}
			if attr(n, "download") != "" && strings.HasPrefix(attr(n, "href"), "data:text/plain;") {
				break
			}
			if !allowed.MatchString(attr(n, "href")) {
				fault("a link leads to %q", attr(n, "href"))
			}
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				fault("<%s> has the attribute %s, which the policy forbids", n.Data, a.Key)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					fault("the id %q is used twice", a.Val)
				}
				ids[a.Val] = true
			}
		}
	}
	for _, once := range []string{"title", "h1", "main", "header", "footer", "nav"} {
		if count[once] != 1 {
			fault("there are %d of <%s>", count[once], once)
		}
	}
	for n := range doc.Descendants() {
		for _, name := range []string{"aria-labelledby", "href"} {
			for id := range strings.FieldsSeq(attr(n, name)) {
				if id, here := strings.CutPrefix(id, "#"); (here || name != "href") && !ids[id] {
					fault("%s refers to %q, which is not there", name, id)
				}
			}
		}
	}
	return faults
}

var ourScript = regexp.MustCompile(`^/assets/(?:check|copy|optin|sign)-[0-9a-f]{16}\.js$`)

var allowed = regexp.MustCompile(`^(?:/|#|mailto:)`)

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		switch {
		case d.Type == html.TextNode:
			b.WriteString(d.Data)
		case d.Data == "td", d.Data == "dd":
			b.WriteString(" ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func page(t *testing.T, c explorer.Config, path string) (raw, words string) {
	t.Helper()
	a := get(t, handler(c), path)
	if a.status != http.StatusOK {
		t.Fatalf("GET %s: %d", path, a.status)
	}
	doc, err := html.Parse(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return a.body, text(doc)
}

func TestWhatPagesSay(t *testing.T) {
	t.Parallel()
	c := config(furnished())
	current := terms.Current()
	all := []string{current.Hash().String(), "1 Mar 2026, 12:00:00 UTC", "Versions"}
	for _, term := range current.Terms {
		all = append(all, fmt.Sprintf("%d. %s", term.N, term.Title), term.Text)
	}
	pool := []string{identity.Hash().String()}
	for _, id := range identity.Pool() {
		pool = append(pool, id.UserAgent, id.ClientInfo.Name+" "+id.ClientInfo.Version)
	}
	ethics := []string{
		"24 a day, 100 a week", "Tasks for one host 23 a day", "every 30 minutes", "5 an hour for an agent, 20 in all", "Endpoints of one agent 6", "1 hour to 30 days", "7 to 365 days", "15 minutes", `{"owners": [], "stop": true}`,
		"abuse@karatum.com", "all tasks for the host agent.example:443, since 1 Mar 2026, 12:00:00 UTC. Reason given: They asked.",
		"all tasks under the consent cns_x", "all tasks made from the template unit.length", "all tasks under identity 3",
	}
	for _, r := range plan.Reasons() {
		ethics = append(ethics, fmt.Sprintf("%s %s %s", r, r.Subject(), r.Sentence()))
	}
	for _, tt := range []struct {
		path string
		want []string
	}{
		{"/mystery", []string{"37", "1,234,567", "999", "Exam only 21", "Tasks for one host 23 a day", `all tasks for everybody, since 1 Mar 2026, 12:00:00 UTC. Reason given: <script>alert("paused")</script> & more`, "DEMO Karatum’s own agents"}},
		{"/mystery/terms", all},
		{"/mystery/identities", pool},
		{"/mystery/ethics", ethics},
		{"/bot", []string{"KaratumBot/1.0 (+https://karatum.com/bot)", "/.well-known/karatum-mystery.json", "abuse@karatum.com"}},
	} {
		body, words := page(t, c, tt.path)
		for _, want := range tt.want {
			if !strings.Contains(words, want) {
				t.Errorf("%s does not say %q", tt.path, want)
			}
		}
		if strings.Contains(body, "<script>") {
			t.Errorf("%s holds markup of others", tt.path)
		}
	}
}

// The word is a verdict's name for programs. People would take it for praise.
func TestNoPraise(t *testing.T) {
	t.Parallel()
	for _, path := range paths {
		if _, words := page(t, config(furnished()), path); strings.Contains(strings.ToLower(words), "consistent") {
			t.Errorf("%s says consistent", path)
		}
	}
}

func TestCurrentPageIsMarked(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/mystery":              `<a href="/mystery" aria-current="page">`,
		"/mystery/terms":        `<a href="/mystery" aria-current="true">`,
		"/mystery/" + consentID: `<a href="/mystery" aria-current="true">`,
	} {
		body, _ := page(t, config(furnished()), path)
		body, _, _ = strings.Cut(body, "</nav>")
		if strings.Count(body, "aria-current") != 1 || !strings.Contains(body, want) {
			t.Errorf("%s: the navigation does not have %s alone", path, want)
		}
	}
}

func TestUnreadableProgramme(t *testing.T) {
	t.Parallel()
	a := get(t, handler(config(reader{err: errors.New("password=secret")})), "/mystery/terms")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "Try again in a moment.") || !strings.Contains(a.body, "abc") {
		t.Errorf("GET /mystery/terms: %d: %s", a.status, a.body)
	}
	if strings.Contains(a.body, "secret") {
		t.Error("the page tells what is nobody's business")
	}
}

func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	h := handler(config(reader{status: full()}))
	tag := get(t, h, "/mystery").header.Get("ETag")
	again := get(t, h, "/mystery", "If-None-Match", tag)
	if again.status != http.StatusNotModified || again.body != "" || again.header.Get("Content-Length") != "" {
		t.Errorf("the same page again: %d, %d bytes, length %q", again.status, len(again.body), again.header.Get("Content-Length"))
	}
	status := full()
	status.Pauses = nil
	changed := get(t, handler(config(reader{status: status})), "/mystery", "If-None-Match", tag)
	if changed.status != http.StatusOK {
		t.Errorf("a changed page: %d, want 200", changed.status)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	c := config(furnished())
	h := handler(c)
	body, _ := page(t, c, "/mystery/shops/"+shopID)
	found := regexp.MustCompile(`(?:href|src|data-runtime|data-program)="(/assets/[a-z_]+-[0-9a-f]{16}\.(css|svg|js|wasm))"(?: (?:data-)?integrity="(sha256-[^"]+)")?`).FindAllStringSubmatch(html.UnescapeString(body), -1)
	if len(found) != 6 {
		t.Fatalf("the page of a slot is made with %q, want a style sheet, an icon, two scripts, a program and what runs it", found)
	}
	types := map[string]string{"css": "text/css; charset=utf-8", "svg": "image/svg+xml", "js": "text/javascript; charset=utf-8", "wasm": "application/wasm"}
	for _, f := range found {
		path, integrity := f[1], f[3]
		a := get(t, h, path)
		if a.status != http.StatusOK || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Content-Type") != types[f[2]] {
			t.Errorf("GET %s: %d, %v", path, a.status, a.header)
		}
		sum := sha256.Sum256([]byte(a.body))
		if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); integrity != "" && integrity != want {
			t.Errorf("%s is said to have the hash %s, and has %s", path, integrity, want)
		}
		if !strings.Contains(path, hex.EncodeToString(sum[:8])) {
			t.Errorf("%s does not have its hash in its name", path)
		}
		for _, outside := range []string{"url(", "@import", "<style", "style=", "innerHTML", "eval("} {
			if strings.Contains(a.body, outside) {
				t.Errorf("%s holds %s", path, outside)
			}
		}
		if f[2] == "wasm" {
			z := get(t, h, path, "Accept-Encoding", "br, gzip")
			if z.body != string(c.Checker.WASM) || z.header.Get("Content-Encoding") != "gzip" || z.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("the program is not compressed for who reads that: %v", z.header)
			}
		}
	}
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url string
		now       time.Time
		want      string
	}{
		{
			"reached by https", "https://karatum.com", start,
			"Contact: mailto:abuse@karatum.com\nExpires: 2026-08-28T00:00:00Z\nPreferred-Languages: en\n" +
				"Canonical: https://karatum.com/.well-known/security.txt\nPolicy: https://karatum.com/mystery/ethics#report\n",
		},
		{
			"on one's own machine, later that day", "http://localhost:8080", start.Add(11 * time.Hour),
			"Contact: mailto:abuse@karatum.com\nExpires: 2026-08-28T00:00:00Z\nPreferred-Languages: en\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config(reader{err: errors.New("not needed for this")})
			c.PublicURL, c.Now = tt.url, func() time.Time { return tt.now }
			a := get(t, handler(c), "/.well-known/security.txt")
			if kind := a.header.Get("Content-Type"); kind != "text/plain; charset=utf-8" || a.body != tt.want {
				t.Errorf("security.txt is, as %s,\n%s\nwant\n%s", kind, a.body, tt.want)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":                 false,
		"*/*":              false,
		"application/json": false,
		"text/html":        true,
		"TEXT/HTML;level=1 ; Q=0.5, application/json;q=0.4":               true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true, // browsers
		"application/json, text/html;q=0.9":                               false,
		"text/html;q=0":                                                   false,
		"text/html;q=NaN, */*":                                            false,
		"text/html;q=7":                                                   false,
		";;;,,,=,q=":                                                      false,
		"text/htmlx, application/json":                                    false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := explorer.Wanted(r); got != want {
			t.Errorf("Wanted(%q) = %t, want %t", accept, got, want)
		}
	}
}
