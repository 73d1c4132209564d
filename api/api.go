// Package api is the public HTTP interface: JSON under /v1/mystery, described by
// the OpenAPI document that it serves, and the pages of the explorer beside it.
//
// An answer to a GET is made from public read models alone, so nothing in it, not
// its size and not its headers, depends on whether a task was sent or answered
// before that task is revealed. Refusals are problems as of RFC 9457 with a
// stable type; see problem.go.
package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/karatum/mystery/api/accept"
	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A Service carries out what owners ask for. [commands.Service] is one.
type Service interface {
	CheckRequest(r consent.Request) error
	Challenge(ctx context.Context, r consent.Request) (commands.Challenged, error)
	Grant(ctx context.Context, challengeID string, p consent.Payload, sig consent.Signature, ownerNonce domain.Hash) (id string, err error)
	ChallengeRevoke(ctx context.Context, consentID string, ref agent.Ref) (commands.RevokeChallenged, error)
	Revoke(ctx context.Context, consentID string, ref agent.Ref, challengeID string, sig consent.Signature) error
	ChallengeReply(ctx context.Context, findingID, text string) (commands.ReplyChallenged, error)
	FileReply(ctx context.Context, r commands.Reply) error
	CorrectFinding(ctx context.Context, c finding.Correct) error
	ActOnIncident(ctx context.Context, c incident.Act) error
}

// Bodies holds the bytes that came from outside and that events only commit to.
// Get returns an error matching [domain.ErrNotFound] for what was erased.
type Bodies interface {
	Get(ctx context.Context, key string) (salt, body []byte, err error)
}

// Config is what the interface needs. All fields but Ready, Written, Attesting, Counted,
// Watch, Limits, Reads, Proxies and Logger are required.
type Config struct {
	Service   Service
	Reader    projections.Reader
	Ledger    publiclog.Reader
	Bodies    Bodies
	Producers Producers
	PublicURL string           // where the interface is reached, without a slash at the end
	Now       func() time.Time // programme time
	Facts     explorer.Facts   // what pages tell of how the programme is run

	// CatchUp applies everything in the log to the read models. It runs before
	// a write is answered, so that the caller can read what it wrote.
	CatchUp func(ctx context.Context) error

	// Ready returns why requests cannot be served now, "" if they can. It is shown to
	// everybody. nil asks whether the database answers.
	Ready func(ctx context.Context) (why string)

	// Written returns how many public records the log holds, be they in the read models
	// or not. It is asked once a write is on record, and tells the caller what to wait
	// for; nil tells nobody.
	Written func(ctx context.Context) (uint64, error)

	// Attesting returns how attesting batches goes, "" if they are not attested; nil
	// says the same.
	Attesting func(ctx context.Context) (string, error)

	// Counted is told what came of each request of a producer, the name of its problem or
	// "recorded" or "known", and how many events it was about; nil tells nobody.
	Counted func(outcome string, events int)

	// Watch is around everything; nil is not. Behind its next handler the route that a
	// request took is in [chi.RouteContext].
	Watch func(next http.Handler) http.Handler

	Limits  Limits         // nil: challenges may be asked for without end
	Reads   Limits         // nil: what is public may be read without end
	Proxies []netip.Prefix // whose X-Forwarded-For is believed

	Logger *slog.Logger // nil: silent
}

// root is the path that everything but the probes lies under.
const root = "/v1/mystery"

type server struct {
	Config
	router   chi.Router
	pages    *explorer.Pages
	underWay underWay

	lookout   *lookout
	kept      *lru.Cache[string, kept]
	headings  headings
	consents  *lru.Cache[string, signedConsent]
	reference *explorer.Reference // for people, of what is served to programs
}

// New returns the handler of the whole interface, with the probes /healthz and
// /readyz beside it.
func New(c Config) http.Handler {
	setUp()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func(ctx context.Context) string {
			if c.Reader.Ping(ctx) != nil {
				return "the database does not answer"
			}
			return ""
		}
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	answers, err := lru.New[string, kept](maxKept)
	if err != nil {
		panic(fmt.Sprintf("api: %v", err)) // the number is a good one
	}
	consents, err := lru.New[string, signedConsent](keptConsents)
	if err != nil {
		panic(fmt.Sprintf("api: %v", err)) // the same
	}
	if c.Ledger.Cache == nil {
		c.Ledger.Cache = new(publiclog.Cache)
	}
	s := &server{Config: c, router: chi.NewRouter(), kept: answers, lookout: &lookout{look: c.Reader.AsOf}, headings: newHeadings(), consents: consents}
	s.pages = s.explorer()
	if s.Watch != nil {
		s.router.Use(s.Watch)
	}
	s.router.Use(identify, s.locate, s.recover, s.secure, share, s.bound, s.readable, tag, s.export, s.asOf, choose, middleware.GetHead)
	s.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.turnAway(w, r, newProblem(r.Context(), http.StatusNotFound, "nothing is served at this path"))
	})
	s.router.MethodNotAllowed(s.methodNotAllowed)
	s.router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok\n") })
	s.router.Get("/readyz", s.ready)
	s.pages.Register(s.router)

	api := humachi.New(s.router, description())
	s.registerProgramme(api)
	s.registerConsents(api)
	s.registerOwners(api)
	s.registerShops(api)
	s.registerVerify(api)
	s.registerFindings(api)
	s.registerIncidents(api)
	s.registerStats(api)
	s.registerAgents(api)
	s.registerSurfaces(api)
	s.registerLedger(api)
	s.registerEvents(api)
	s.registerWitnesses(api)
	s.registerBundle(api)
	s.registerBatches(api)
	describeLists(api.OpenAPI())
	describeAnswers(api.OpenAPI())
	describeSizes(api.OpenAPI())
	s.reference = referenceOf(api.OpenAPI())
	return s.router
}

// setUp sets what huma keeps in variables of the package.
var setUp = sync.OnceFunc(func() {
	// Otherwise {"agent": …, "AGENT": …} is checked in one spelling and read in
	// the other.
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if ctx == nil {
			return newProblem(context.Background(), status, msg, errs...)
		}
		return newProblem(ctx.Context(), status, msg, errs...)
	}
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return newProblem(context.Background(), status, msg, errs...)
	}
})

func description() huma.Config {
	c := huma.DefaultConfig("Karatum Mystery Shopper", "1")
	c.Info.Description = "Consents to Mystery Shopping, the plans committed to, the tasks revealed and what came of them. " +
		"Everything here is public, and none of it tells whether a task was sent before that task is revealed."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Security = []map[string][]string{{}} // no authentication: writes carry the signature of an owner or a producer
	c.Servers = []*huma.Server{{URL: "/"}}
	c.OpenAPIPath = root + "/openapi"
	c.DocsPath = ""     // its renderers load from elsewhere
	c.SchemasPath = ""  // a "$schema" in a body would change
	c.CreateHooks = nil // bytes that people hash
	c.RejectUnknownQueryParameters = true
	return c
}

// Sizes of request bodies.
const (
	maxChallenge = 64 << 10 // 6 URLs and 64 skills, escaped at their worst
	maxGrant     = 64 << 10
	maxSmall     = 4 << 10
)

// get describes an operation that reads.
func get(id, path, summary string, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: root + path, Summary: summary, Tags: []string{"read"},
		Errors: append(errors, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable),
	}
}

// post describes an operation that an owner asks for.
func post(id, path, summary string, status int, limit int64, errors ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: root + path, Summary: summary, Tags: []string{"owner"},
		DefaultStatus: status, MaxBodyBytes: limit,
		Errors: append(errors, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestTimeout,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable),
	}
}

// ready answers whether requests can be served now. That batches are not attested
// keeps nobody from being served, and is shown.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	if why := s.Ready(r.Context()); why != "" {
		s.Logger.WarnContext(r.Context(), "not ready", "why", why)
		writeProblem(w, newProblem(r.Context(), http.StatusServiceUnavailable, why))
		return
	}
	text := "ok\n"
	if s.Attesting != nil {
		switch how, err := s.Attesting(r.Context()); {
		case err != nil:
			s.Logger.WarnContext(r.Context(), "it cannot be read how attesting goes", "err", err)
		case how != "":
			text += "attesting batches: " + how + "\n"
		}
	}
	writeText(w, text)
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
}

// methodNotAllowed answers a path with another method than it has, and names
// those it has (RFC 9110, section 15.5.6).
func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if !s.router.Match(chi.NewRouteContext(), method, r.URL.Path) {
			continue
		}
		w.Header().Add("Allow", method)
		if method == http.MethodGet {
			w.Header().Add("Allow", http.MethodHead)
		}
	}
	s.turnAway(w, r, newProblem(r.Context(), http.StatusMethodNotAllowed, "this path has no such method"))
}

// A request is what its handlers need to know of it beside the input.
type request struct {
	id   string
	path string
}

type requestKey struct{}

func requestOf(ctx context.Context) request {
	r, _ := ctx.Value(requestKey{}).(request) // zero outside a request
	return r
}

// identify gives each request an id, random so that it counts nothing.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var raw [16]byte
		_, _ = rand.Read(raw[:]) // never fails, see crypto/rand
		id := request{id: hex.EncodeToString(raw[:]), path: (&url.URL{Path: r.URL.Path}).EscapedPath()}
		w.Header().Set("X-Request-Id", id.id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, id)))
	})
}

// secure sets the headers that every answer has. Pages allow themselves a style
// sheet beyond that. Behind TLS browsers shall not come without it again (RFC 6797).
func (s *server) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		if strings.HasPrefix(s.PublicURL, "https://") {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// readable refuses a query that does not parse, as its broken parts would be dropped
// without a word, and a filter with them. It refuses bytes that are no text, which no
// database takes for one.
func (s *server) readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		for _, values := range q {
			if slices.ContainsFunc(values, func(v string) bool { return !isText(v) }) {
				err = errors.New("no text")
			}
		}
		if err != nil {
			s.turnAway(w, r, newProblem(r.Context(), http.StatusBadRequest, "the query of the URL cannot be read"))
			return
		}
		if !isText(r.URL.Path) {
			s.turnAway(w, r, newProblem(r.Context(), http.StatusBadRequest, "the path of the URL cannot be read"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isText reports whether s is UTF-8 without NUL.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// choose leaves of the header Accept of a request for programs the names of what is
// wanted. What chooses an answer looks at no weights, and panics at some that are malformed.
func choose(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") && r.Header["Accept"] != nil {
			names := accept.Names(r.Header, "Accept")
			r = r.Clone(r.Context())
			r.Header.Set("Accept", strings.Join(names, ", "))
		}
		next.ServeHTTP(w, r)
	})
}

// recover answers for a handler that panics.
func (s *server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				s.panicked(w, r, v)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *server) panicked(w http.ResponseWriter, r *http.Request, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // a value to panic with, never wrapped
		panic(v) // means to end the connection
	}
	s.Logger.ErrorContext(r.Context(), "a handler panicked", "requestId", requestOf(r.Context()).id,
		"method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	s.turnAway(w, r, newProblem(r.Context(), http.StatusInternalServerError, ""))
}

// caughtUp brings the read models up to what a request has just written, and says in the
// answer what to wait for where they are not seen to be. The
// write stands whatever comes of it, so a failure is logged and not answered.
func (s *server) caughtUp(ctx context.Context) {
	if err := s.CatchUp(ctx); err != nil {
		s.Logger.ErrorContext(ctx, "read models are behind a write", "requestId", requestOf(ctx).id, "err", err)
	}
	s.written(ctx, callerOf(ctx).answer)
}
