// Package explorer serves the pages that people read: the programme with its terms,
// ethics and identities, every consent, task and agent, disclosed incidents, the ledger
// and its batches, what owners sign, and who KaratumBot is.
//
// Pages are made on the server from public read models and work without a script.
// Scripts do more where they run: they copy ids, look at a form while it is filled in,
// have a wallet sign, and check a slot in the browser. Like the rest of the interface
// pages show nothing of a task before its reveal. No page holds a script or a style in
// itself, and none asks another host for anything; the policy that every page is served
// under makes a browser hold us to that. Text of others, such as replies and reasons,
// stands on a page as text and apart from what surrounds it.
package explorer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/api/explorer/checker"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A Reader reads what is public. [projections.Reader] is one.
type Reader interface {
	Programme(ctx context.Context) (projections.Status, error)

	Incidents(ctx context.Context, q projections.IncidentQuery) ([]projections.Incident, error)
	Agent(ctx context.Context, ref agent.Ref) (projections.Agent, error)
	AgentList(ctx context.Context, after *projections.AgentKey, limit int) ([]projections.ListedAgent, error)
	Consent(ctx context.Context, id string) (projections.Consent, error)
	Consents(ctx context.Context, q projections.ConsentQuery) ([]projections.Consent, error)
	Proofs(ctx context.Context, c projections.Consent) ([]projections.Proof, error)
	Plans(ctx context.Context, q projections.PlanQuery) ([]projections.Plan, error)
	Shop(ctx context.Context, id string) (projections.Shop, error)

	Finding(ctx context.Context, consent string, look int) (projections.Finding, error)
	LatestFinding(ctx context.Context, consent string) (*projections.Finding, error)
	LatestFindingOf(ctx context.Context, ref agent.Ref) (*projections.Finding, error)
	Findings(ctx context.Context, q projections.FindingQuery) ([]projections.Finding, error)
	Standings(ctx context.Context, q projections.StandingQuery) ([]projections.Finding, error)
	StandingCounts(ctx context.Context) (map[finding.Verdict]int, error)
	RevealedTasks(ctx context.Context, consent string, before *projections.ShopKey, limit int) ([]projections.RevealedTask, error)
	LatestReveals(ctx context.Context, limit int) ([]projections.RevealedTask, error)
	Tallies(ctx context.Context, consent string) ([]projections.DayTally, error)

	Batches(ctx context.Context, before uint64, limit int) ([]projections.Batch, error)
	Batch(ctx context.Context, n uint64) (projections.Batch, error)
	FindHash(ctx context.Context, hash domain.Hash) ([]projections.NamedHash, error)
}

// A Ledger reads the public log. [publiclog.Reader] is one.
type Ledger interface {
	Head(ctx context.Context) (publiclog.Head, error)
	Leaves(ctx context.Context, from uint64, limit int) ([]publiclog.Leaf, publiclog.Head, error)
	Stream(ctx context.Context, s ledger.Stream, version uint64, limit int) ([]publiclog.Leaf, publiclog.Head, error)
	Inclusion(ctx context.Context, index, size uint64) (publiclog.Inclusion, publiclog.Head, error)
	Find(ctx context.Context, hash domain.Hash) (*publiclog.Leaf, error)
	IsRoot(ctx context.Context, hash domain.Hash) (bool, error)
}

// Owners carries out what owners ask for, within the limits that hold for everybody.
type Owners interface {
	Check(r consent.Request) error
	Challenge(ctx context.Context, r consent.Request) (commands.Challenged, error)
	Grant(ctx context.Context, challengeID string, p consent.Payload, signature string, ownerNonce domain.Hash) (id string, err error)
	ChallengeRevoke(ctx context.Context, id string) (commands.RevokeChallenged, error)
	Revoke(ctx context.Context, id, challengeID, signature string) error
}

// Config is what the pages need. All fields but Checker are required.
type Config struct {
	Reader    Reader
	Ledger    Ledger
	Owners    Owners
	PublicURL string           // where the pages are reached, without a slash at the end
	Now       func() time.Time // programme time
	Facts     Facts

	// Verify makes every check of a slot from what is public.
	Verify func(ctx context.Context, shop string) (*verify.ShopReport, error)

	// Reply returns the reply to a revealed task, nil if there was none, or it was lost
	// or erased.
	Reply func(ctx context.Context, s projections.Shop) ([]byte, error)

	// OwnerReply returns the text of the reply to a finding, "" if it was erased.
	OwnerReply func(ctx context.Context, r projections.FindingReply) (string, error)

	// Passport returns what is known of an agent.
	Passport func(ctx context.Context, ref agent.Ref) (Passport, error)

	// Checker is what browsers check slots with; nil if this server was built without.
	Checker *checker.Program

	// Reference returns what the interface offers to programs.
	Reference func() *Reference

	// JSON answers a request for another path of the same interface, for programs.
	JSON http.Handler

	// Problem says what a reader may know of an error, and logs the rest.
	Problem func(ctx context.Context, err error) Problem
}

// Facts are what the pages tell of how the programme is run.
type Facts struct {
	Abuse        string        // where abuse is reported: a mailto or https URI
	Bot          string        // the user agent that host proofs are fetched with
	TasksPerHost int           // on a day, over all consents
	CheckEvery   time.Duration // between readings of host proofs and surfaces
	Demo         bool          // the programme is a demonstration, and every page says so
}

// A Problem is what a page says in place of what was asked for.
type Problem struct {
	Status    int
	Title     string
	Detail    string // may be empty
	RequestID string // may be empty
}

// Pages are the pages of one programme.
type Pages struct {
	config    Config
	files     map[string]file // by name
	checker   *program        // nil if there is none
	reports   *reports
	templates map[string]*template.Template

	// sameSite keeps other sites from sending forms in the name of who looks at them.
	sameSite *http.CrossOriginProtection
}

//go:embed templates
var templates embed.FS

// New returns the pages. It panics if a template does not parse or the program for
// browsers is not compressed, as that is a bug in the program or in how it was built.
func New(c Config) *Pages {
	p := &Pages{config: c, files: filesOf(), reports: newReports(c), templates: make(map[string]*template.Template), sameSite: http.NewCrossOriginProtection()}
	var err error
	if p.checker, err = programOf(c.Checker); err != nil {
		panic(fmt.Sprintf("explorer: the program for browsers: %v", err))
	}
	shared := template.Must(template.New("").Funcs(template.FuncMap{
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") },
		"ago":     func(t time.Time) string { return ago(c.Now().Sub(t)) },
		"short":   shorten,
		"ratio":   ratio,
		"grouped": grouped,
		"bare":    bareRef,
		"family":  familyName,
		"day":     day,
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, file := range pageFiles() {
		own := template.Must(shared.Clone())
		p.templates[strings.TrimSuffix(file, ".html")] = template.Must(own.ParseFS(templates, "templates/"+file))
	}
	return p
}

// pageFiles names the templates that are pages.
func pageFiles() (names []string) {
	files, err := templates.ReadDir("templates")
	if err != nil {
		panic(fmt.Sprintf("explorer: %v", err)) // it is embedded
	}
	for _, f := range files {
		if f.Name() != "layout.html" && f.Name() != "parts.html" {
			names = append(names, f.Name())
		}
	}
	return names
}

// Register adds the pages, and what they are made with, to r.
func (p *Pages) Register(r chi.Router) {
	r.Method(http.MethodGet, "/", http.RedirectHandler("/mystery", http.StatusFound))
	r.Get("/mystery", p.page("programme", at("/v1/mystery"), p.programme))
	r.Get("/mystery/terms", p.page("terms", at("/v1/mystery/terms"), p.terms))
	r.Get("/mystery/ethics", p.page("ethics", at("/v1/mystery"), p.ethics))
	r.Get("/mystery/identities", p.page("identities", at("/v1/mystery/terms"), p.identities))
	r.Get("/mystery/opt-in", p.page("optin", nil, p.optIn))
	r.Post("/mystery/opt-in", p.challenge)
	r.Post("/mystery/opt-in/check", p.checkOptIn)
	r.Post("/mystery/consents", p.grant)
	r.Post("/mystery/{consent}/revoke", p.challengeRevoke)
	r.Post("/mystery/{consent}/revocation", p.revoke)
	r.Get("/mystery/{consent}", p.page("consent", below("/v1/mystery/consents/", "consent"), p.consent))
	r.Get("/mystery/shops/{shop}", p.page("shop", below("/v1/mystery/shops/", "shop"), p.shop))
	r.Get("/mystery/findings.atom", p.serveFeed("findings", "Findings of the Mystery Shopper", p.findingEntries))
	r.Get("/mystery/reveals.atom", p.serveFeed("reveals", "Revealed tasks of the Mystery Shopper", p.revealEntries))
	r.Get("/incidents/{incident}", p.page("incident", below("/v1/mystery/incidents/", "incident"), p.incident))
	r.Get("/agents", p.page("agents", at("/v1/mystery/agents"), p.agents))
	r.Get("/agents/{agent}", p.page("agent", ofAgent, p.agent))
	r.Get("/agents/{agent}/badge.svg", p.badge)
	r.Get("/stack", p.page("stack", at("/v1/mystery"), p.stack))
	r.Get("/stack/card", p.serveCard)
	r.Get("/ledger", p.page("ledger", at("/v1/ledger"), p.ledger))
	r.Get("/ledger/batches", p.page("batches", at("/v1/ledger/batches"), p.batches))
	r.Get("/ledger/batches/{n}", p.page("batch", below("/v1/ledger/batches/", "n"), p.batch))
	r.Get("/ledger/records/{n}", p.page("record", below("/v1/ledger/records/", "n"), p.record))
	r.Get("/search", p.search)
	r.Get("/bot", p.page("bot", nil, p.bot))
	r.Get("/docs/api", p.page("docs", at("/v1/mystery/openapi.json"), p.docs))
	r.Get("/docs/api/{operation}", p.page("docs", nil, p.docs))
	r.Get("/.well-known/security.txt", p.security)
	p.registerFiles(r)
}

// A place says where programs find what a page shows; "" for nowhere.
type place func(r *http.Request) string

func at(path string) place { return func(*http.Request) string { return path } }

// below is the path that a parameter of the page completes.
func below(root, parameter string) place {
	return func(r *http.Request) string { return root + chi.URLParam(r, parameter) }
}

// pageScripts are the scripts of a page beside copy.js, which all have.
var pageScripts = map[string]string{"optin": "optin.js", "programme": "optin.js", "shop": "check.js", "sign": "sign.js"}

// policy is the Content-Security-Policy of a page: nothing but what we serve ourselves,
// and nothing makes a script of text. It allows what the scripts of the page do and no
// more: to ask this server, to run the program, to show the icons that wallets bring.
func (p *Pages) policy(name string) string {
	script, image, ask, frames := "script-src 'self'", "img-src 'self'", "connect-src 'none'", "frame-ancestors 'none'"
	switch name {
	case "optin", "programme":
		ask = "connect-src 'self'"
	case "shop":
		ask = "connect-src 'self'"
		if p.checker != nil {
			script = "script-src 'self' 'wasm-unsafe-eval'"
		}
	case "sign":
		image = "img-src 'self' data:"
	case "card": // has no script, and others may show it in a frame
		script, frames = "script-src 'none'", "frame-ancestors *"
	}
	return strings.Join([]string{
		"default-src 'none'", script, "style-src 'self'", image, ask, "form-action 'self'", "base-uri 'none'", frames,
		"require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
}

// A frame is what the layout shows around each page.
type frame struct {
	Title       string
	Description string
	Own         bool   // the page is about one of Karatum's own agents
	Path        string // of the page; empty if it has none of its own
	Query       string // that was searched for
	Matched     string // what a search found this page by; may be empty
	JSON        string // where the same is to be had for programs; may be empty

	Facts

	Site   string // the public URL
	Style  file
	Mark   file
	Copier file  // the script of all pages
	Script *file // that of this one; nil if it has none of its own

	TermsVersion uint32
	TermsHash    domain.Hash
	PoolVersion  uint32
	PoolHash     domain.Hash
	Catalogue    *domain.Hash // nil before the first was published
	AsOf         *time.Time   // of the last public record; nil before the first
	Pauses       []pause
}

// A pause is one in force, in words.
type pause struct {
	What   string
	Since  time.Time
	Reason string
}

// An entry is one line of the navigation.
type entry struct {
	Path, Name string
	Current    string // value of aria-current: page, true for what lies below, or ""
}

// Nav is the navigation.
func (f frame) Nav() []entry {
	list := []entry{
		{Path: "/mystery", Name: "Mystery Shopper"},
		{Path: "/agents", Name: "Agents"},
		{Path: "/stack", Name: "Stack"},
		{Path: "/ledger", Name: "Ledger"},
	}
	for i, e := range list {
		switch {
		case f.Path == e.Path:
			list[i].Current = "page"
		case strings.HasPrefix(f.Path, e.Path+"/"):
			list[i].Current = "true"
		}
	}
	return list
}

// Foot is the navigation at the foot.
func (frame) Foot() []entry {
	return []entry{
		{Path: "/mystery/terms", Name: "Terms"},
		{Path: "/mystery/ethics", Name: "Ethics and limits"},
		{Path: "/mystery/identities", Name: "Identities"},
		{Path: "/bot", Name: "KaratumBot"},
	}
}

// Every is how often hosts are asked.
func (f frame) Every() string { return "every " + strings.TrimPrefix(span(f.CheckEvery), "1 ") }

// AbuseName is the abuse contact as people read it.
func (f frame) AbuseName() string { return strings.TrimPrefix(f.Abuse, "mailto:") }

// frame returns what does not depend on the read models.
func (p *Pages) frame() frame {
	current := terms.Current()
	return frame{
		Site: p.config.PublicURL, Style: p.files["house.css"], Mark: p.files["mark.svg"], Copier: p.files["copy.js"], Facts: p.config.Facts,
		TermsVersion: current.Number, TermsHash: current.Hash(), PoolVersion: identity.Version(), PoolHash: identity.Hash(),
	}
}

// A view makes what a template is executed with.
type view func(r *http.Request, f frame, s projections.Status) (any, error)

// page serves the page that view makes of what is known, or to programs the answer at
// json, which may be nil.
func (p *Pages) page(name string, json place, view view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if json != nil && jsonWanted(r) {
			p.answerJSON(w, r, json(r))
			return
		}
		f, status, err := p.open(r, name)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		if json != nil {
			f.JSON = json(r)
		}
		v, err := view(r, f, status)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		body, err := p.render(name, v)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		sum := sha256.Sum256(body)
		p.head(w, name)
		w.Header().Set("ETag", strconv.Quote(hex.EncodeToString(sum[:16])))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// open reads the state of the programme for the frame of a page.
func (p *Pages) open(r *http.Request, name string) (frame, projections.Status, error) {
	f := p.frame()
	if script, ok := p.files[pageScripts[name]]; ok {
		f.Script = &script
	}
	f.Path, f.Matched = r.URL.Path, formWords[r.URL.Query().Get("matched")]
	status, err := p.config.Reader.Programme(r.Context())
	if err != nil {
		return f, status, err
	}
	for _, s := range status.Pauses {
		f.Pauses = append(f.Pauses, pause{tasksOf(s.Scope), s.Since, s.Reason})
	}
	if !status.AsOf.IsZero() {
		f.AsOf = &status.AsOf
	}
	if n := len(status.Catalogues); n > 0 {
		f.Catalogue = &status.Catalogues[n-1].Hash
	}
	return f, status, nil
}

func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	p.Refuse(w, r, p.config.Problem(r.Context(), err))
}

// answerJSON answers with what is served at path, from one end of the interface to the
// other, so that it is the same to the byte.
func (p *Pages) answerJSON(w http.ResponseWriter, r *http.Request, path string) {
	inner := r.Clone(context.WithValue(r.Context(), chi.RouteCtxKey, (*chi.Context)(nil)))
	inner.URL = &url.URL{Path: path}
	inner.Header.Set("Accept", "application/json")
	p.config.JSON.ServeHTTP(w, inner)
}

// render executes a template to its end, so that a reader gets a page or none.
func (p *Pages) render(name string, view any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.templates[name].ExecuteTemplate(&b, "layout", view); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return visible(b.Bytes()), nil
}

// visible replaces the control characters of a page but for tabs and line ends, as HTML
// has no way to write them.
func visible(page []byte) []byte {
	isControl := func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }
	if !bytes.ContainsFunc(page, isControl) {
		return page
	}
	return bytes.Map(func(c rune) rune {
		if isControl(c) {
			return utf8.RuneError
		}
		return c
	}, page)
}

func (p *Pages) head(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.policy(name))
}

type problemPage struct {
	frame

	Lead    string
	Problem Problem
}

// Refuse answers with a page that says what is wrong.
func (p *Pages) Refuse(w http.ResponseWriter, _ *http.Request, problem Problem) {
	v := problemPage{frame: p.frame(), Problem: problem, Lead: sentence(problem.Detail)}
	v.Title = problem.Title
	if problem.Status == http.StatusNotFound {
		v.Title = "There is no such page"
		v.Lead = "Perhaps the address was mistyped. What was published once stays at its address, so nothing was taken away from here."
	}
	body, err := p.render("problem", v)
	if err != nil {
		panic(err) // no text can make it fail
	}
	p.head(w, "problem")
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body) // the client may be gone
}

// sentence makes a sentence of the detail of a problem, which is written like an
// error.
func sentence(detail string) string {
	if detail == "" {
		return ""
	}
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}
