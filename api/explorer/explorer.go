// Package explorer serves the pages that people read: the programme, its terms,
// its ethics and limits, the client identities, and who KaratumBot is.
//
// Pages are made on the server from public read models and work without a script.
// Like the rest of the interface they show nothing of a task before its reveal.
// No page holds a script or a style of its own, and none asks another host for
// anything; the policy that every page is served under makes a browser hold us to
// that.
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
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/projections"
)

// A Reader reads what is public. [projections.Reader] is one.
type Reader interface {
	Programme(ctx context.Context) (projections.Status, error)
}

// Config is what the pages need. All fields are required.
type Config struct {
	Reader    Reader
	PublicURL string           // where the pages are reached, without a slash at the end
	Now       func() time.Time // programme time
	Facts     Facts

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
	style     string // address of the style sheet
	mark      string // address of the icon
	templates map[string]*template.Template
}

var (
	//go:embed templates
	templates embed.FS

	//go:embed assets
	assets embed.FS
)

// New returns the pages. It panics if a template does not parse, as that is a bug
// in the program.
func New(c Config) *Pages {
	p := &Pages{config: c, style: address("house.css"), mark: address("mark.svg"), templates: make(map[string]*template.Template)}
	shared := template.Must(template.New("").Funcs(template.FuncMap{
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":  func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") },
		"short": func(h domain.Hash) string { return h.String()[:8] + "…" },
	}).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, name := range []string{"programme", "terms", "ethics", "identities", "bot", "problem"} {
		own := template.Must(shared.Clone())
		p.templates[name] = template.Must(own.ParseFS(templates, "templates/"+name+".html"))
	}
	return p
}

// address is where a file of the folder assets is served: its name holds its hash,
// so that what is kept of it is never stale.
func address(name string) string {
	ext := path.Ext(name)
	sum := sha256.Sum256(asset(name))
	return "/assets/" + strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:8]) + ext
}

func asset(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("explorer: %v", err)) // it is embedded
	}
	return data
}

// Register adds the pages, and what they are made with, to r.
func (p *Pages) Register(r chi.Router) {
	r.Method(http.MethodGet, "/", http.RedirectHandler("/mystery", http.StatusFound))
	r.Get("/mystery", p.page("programme", p.programme))
	r.Get("/mystery/terms", p.page("terms", p.terms))
	r.Get("/mystery/ethics", p.page("ethics", p.ethics))
	r.Get("/mystery/identities", p.page("identities", p.identities))
	r.Get("/bot", p.page("bot", p.bot))
	r.Get("/.well-known/security.txt", p.security)
	r.Get(p.style, p.asset("house.css", "text/css; charset=utf-8"))
	r.Get(p.mark, p.asset("mark.svg", "image/svg+xml"))
}

// asset serves a file that never changes under its address.
func (p *Pages) asset(name, contentType string) http.HandlerFunc {
	data := asset(name)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("Content-Type", contentType)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// policy is the Content-Security-Policy of every page.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'"

// A frame is what the layout shows around each page.
type frame struct {
	Title       string
	Description string
	Path        string // of the page; empty if it has none of its own
	JSON        string // where the same is to be had for programs; may be empty

	Facts

	Site  string // the public URL
	Style string
	Mark  string

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
type entry struct{ Path, Name string }

// Nav is the navigation.
func (frame) Nav() []entry {
	return []entry{
		{"/mystery", "Mystery Shopper"},
		{"/mystery/terms", "Terms"},
		{"/mystery/ethics", "Ethics and limits"},
		{"/mystery/identities", "Identities"},
		{"/bot", "KaratumBot"},
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
		Site: p.config.PublicURL, Style: p.style, Mark: p.mark, Facts: p.config.Facts,
		TermsVersion: current.Number, TermsHash: current.Hash(), PoolVersion: identity.Version(), PoolHash: identity.Hash(),
	}
}

// page serves the page that view makes of the state of the programme.
func (p *Pages) page(name string, view func(frame, projections.Status) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, err := p.config.Reader.Programme(r.Context())
		if err != nil {
			p.Refuse(w, r, p.config.Problem(r.Context(), err))
			return
		}
		f := p.frame()
		f.Path = r.URL.Path
		for _, s := range status.Pauses {
			f.Pauses = append(f.Pauses, pause{tasksOf(s.Scope), s.Since, s.Reason})
		}
		if !status.AsOf.IsZero() {
			f.AsOf = &status.AsOf
		}
		if n := len(status.Catalogues); n > 0 {
			f.Catalogue = &status.Catalogues[n-1].Hash
		}
		body, err := p.render(name, view(f, status))
		if err != nil {
			p.Refuse(w, r, p.config.Problem(r.Context(), err))
			return
		}
		sum := sha256.Sum256(body)
		head(w)
		w.Header().Set("ETag", strconv.Quote(hex.EncodeToString(sum[:16])))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// render executes a template to its end, so that a reader gets a page or none.
func (p *Pages) render(name string, view any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.templates[name].ExecuteTemplate(&b, "layout", view); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return b.Bytes(), nil
}

func head(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
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
	head(w)
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
