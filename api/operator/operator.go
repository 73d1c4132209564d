// Package operator is the interface for whoever runs the service: where the read models
// stand, and what can be done about it, metrics, and profiles of the process.
//
// It tells of sealed records too, by their number, their streams and when tasks are sent,
// so it is nothing for the public: serve it on a loopback address only, see [Loopback]. A request that a web
// page can have caused is refused, whatever address it comes from.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
)

// Root is the path that everything but the metrics lies under.
const Root = "/v1/operator"

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// A Config is what the interface stands on. ReadModels and Now are required.
type Config struct {
	ReadModels *projections.Runner
	Vitals     func(context.Context) (Vitals, error) // nil: there are none
	Counters   *Counters                             // nil: this process counts nothing
	Now        func() time.Time                      // programme time; the age of what waits is told by it
	Logger     *slog.Logger                          // nil: silent
}

// A Projection is where a read model stands.
type Projection struct {
	Name       string    `json:"name"`
	Visibility string    `json:"visibility"`
	Version    int       `json:"version"`
	Generation int64     `json:"generation"`
	Position   uint64    `json:"position"`
	Behind     uint64    `json:"behind"`               // positions
	Age        float64   `json:"ageSeconds"`           // of the oldest record that waits
	Rate       float64   `json:"recordsPerSecond"`     // while it was last behind
	Remaining  *float64  `json:"etaSeconds,omitempty"` // until it is not behind any more, if that can be told
	Rebuilding *Progress `json:"rebuilding,omitempty"`
	Parked     []Parked  `json:"parked"`
}

// A Progress is how far a rebuild is.
type Progress struct {
	Position uint64 `json:"position"`
	End      uint64 `json:"end"` // 0 if the log does not tell
}

// A Parked stream is one that a read model leaves out.
type Parked struct {
	Projection string        `json:"projection"`
	Stream     ledger.Stream `json:"stream"`
	Version    uint64        `json:"version"` // from which on
	Since      time.Time     `json:"since,omitzero"`
	Reason     string        `json:"reason"`
}

// Projections returns where read models stand, as it is shown.
func Projections(list []projections.Standing, now time.Time) []Projection {
	shown := make([]Projection, len(list))
	for i := range list {
		s := &list[i]
		p := Projection{
			Name: s.Name, Visibility: "public", Version: s.Version, Generation: s.Generation,
			Position: s.Position, Behind: s.Behind(), Rate: s.Rate, Parked: Streams(s.Parked),
		}
		if s.Visibility == domain.Sealed {
			p.Visibility = "sealed"
		}
		if !s.Oldest.IsZero() {
			p.Age = max(0, now.Sub(s.Oldest).Seconds())
		}
		if left, ok := s.Remaining(); ok {
			seconds := left.Seconds()
			p.Remaining = &seconds
		}
		if s.Rebuilding {
			p.Rebuilding = &Progress{s.Rebuilt, s.End}
		}
		shown[i] = p
	}
	return shown
}

// Streams returns parked streams as they are shown.
func Streams(list []projections.Parked) []Parked {
	shown := make([]Parked, len(list))
	for i, p := range list {
		shown[i] = Parked(p)
	}
	return shown
}

type server struct{ Config }

// New returns the handler of the interface:
//
//	GET  /metrics
//	GET  /debug/pprof/                           see net/http/pprof
//	GET  /v1/operator/projections
//	POST /v1/operator/projections/rebuild        {"projections": ["shops"]}: all if there are none
//	POST /v1/operator/projections/retry          {"projection": "shops", "stream": "shop/…"}: all if left out
//	POST /v1/operator/projections/{name}/park    {"stream": "shop/…", "reason": "…"}
//
// A rebuild is answered when it is over; if the caller goes away before, it is given up.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{c}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET "+Root+"/projections", s.status)
	mux.HandleFunc("POST "+Root+"/projections/rebuild", s.rebuild)
	mux.HandleFunc("POST "+Root+"/projections/retry", s.retry)
	mux.HandleFunc("POST "+Root+"/projections/{name}/park", s.park)
	return local(http.NewCrossOriginProtection().Handler(mux))
}

// local refuses what was sent to another name than that of this machine: a name that
// somebody else points to the loopback address is how a web page gets there.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !isLoopback(host) {
			write(w, http.StatusForbidden, "application/problem+json", problem{Type: "forbidden", Detail: "ask for it by a loopback address or as localhost"})
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Loopback returns a listener on an address of this machine alone, such as
// localhost:8081. It returns [domain.ErrInvalid] for any other one.
func Loopback(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isLoopback(host) {
		return nil, fmt.Errorf("%q is not a loopback address and port, such as localhost:8081: %w", address, domain.ErrInvalid)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	// What localhost means is for the system to say.
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s is at %s, which others reach: %w", address, l.Addr(), domain.ErrInvalid), l.Close())
	}
	return l, nil
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	list, err := s.ReadModels.Status(r.Context())
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	write(w, http.StatusOK, "application/json", map[string]any{"projections": Projections(list, s.Now())})
}

func (s *server) rebuild(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Projections []string `json:"projections"`
	}
	err := read(w, r, &in)
	if err == nil {
		err = s.ReadModels.Rebuild(r.Context(), in.Projections, nil)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.Logger.InfoContext(r.Context(), "read models were rebuilt", "projections", in.Projections)
	s.status(w, r)
}

func (s *server) retry(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Projection string        `json:"projection"`
		Stream     ledger.Stream `json:"stream"`
	}
	var still []projections.Parked
	err := read(w, r, &in)
	if err == nil {
		still, err = s.ReadModels.Retry(r.Context(), in.Projection, in.Stream)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	write(w, http.StatusOK, "application/json", map[string]any{"parked": Streams(still)})
}

func (s *server) park(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Stream ledger.Stream `json:"stream"`
		Reason string        `json:"reason"`
	}
	err := read(w, r, &in)
	if err == nil && (in.Stream == "" || in.Reason == "") {
		err = fmt.Errorf("say which stream, and the reason: %w", domain.ErrInvalid)
	}
	var p projections.Parked
	if err == nil {
		p, err = s.ReadModels.Park(r.Context(), r.PathValue("name"), in.Stream, in.Reason)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	write(w, http.StatusOK, "application/json", Parked(p))
}

// read reads the body of a request; none is as good as an empty object.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("the body cannot be read: %w: %w", err, domain.ErrInvalid)
	}
	if len(data) == 0 {
		return nil
	}
	if err := domain.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the body is not what is asked for here: %w: %w", err, domain.ErrInvalid)
	}
	return nil
}

// A problem is a refusal as of RFC 9457. Type is relative to the list of problems.
type problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem{"internal", http.StatusInternalServerError, domain.Sentence(err)}
	switch {
	case errors.Is(err, domain.ErrInvalid):
		p.Type, p.Status = "invalid", http.StatusUnprocessableEntity
	case errors.Is(err, domain.ErrNotFound):
		p.Type, p.Status = "not-found", http.StatusNotFound
	case errors.Is(err, domain.ErrConflict):
		p.Type, p.Status = "conflict", http.StatusConflict
	case projections.Unreachable(err), errors.Is(err, domain.ErrUnavailable):
		p.Type, p.Status = "unavailable", http.StatusServiceUnavailable
	default:
		s.Logger.ErrorContext(r.Context(), "a request of the operator failed", "path", r.URL.Path, "err", err)
	}
	write(w, p.Status, "application/problem+json", p)
}

func write(w http.ResponseWriter, status int, mediaType string, v any) {
	if p, ok := v.(problem); ok {
		p.Type, p.Status = "https://karatum.com/problems/"+p.Type, status
		v = p
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the caller has gone
}
