package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

const stream = "agent/build:42"

// open returns the interface over a ledger with one agent, and its read models.
func open(t *testing.T) (http.Handler, *projections.Runner) {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	log := &memory.Log{Now: func() time.Time { return now }}
	err := log.Append(t.Context(), stream, 0, ledger.Meta{Actor: "test", Command: "1"}, agent.Registered{Agent: "build:42", Wallet: eip191.Address{1}})
	if err != nil {
		t.Fatal(err)
	}
	r := &projections.Runner{
		Log: log, Catalog: domain.NewCatalog(agent.Events), Pool: pgtest.Open(t),
		Projections: []projections.Projection{projections.Agents, projections.DueWork},
	}
	if err := r.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return operator.New(operator.Config{ReadModels: r, Now: func() time.Time { return now.Add(time.Minute) }}), r
}

// ask sends a request, as a program on this machine does.
func ask(t *testing.T, h http.Handler, method, path, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost:8081"+path, strings.NewReader(body))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

// status returns where the read models stand.
func status(t *testing.T, h http.Handler) (list []operator.Projection) {
	t.Helper()
	code, body := ask(t, h, "GET", "/v1/operator/projections", "", nil)
	var out struct{ Projections []operator.Projection }
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK || len(out.Projections) != 2 {
		t.Fatalf("status = %d, %s (%v)", code, body, err)
	}
	return out.Projections
}

func TestStatusAndMetrics(t *testing.T) {
	t.Parallel()
	h, r := open(t)
	for _, p := range status(t, h) {
		if p.Age != 60 || p.Position != 0 || p.Parked == nil {
			t.Errorf("before anything is applied: %+v, want an age of 60 seconds", p)
		}
	}
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := status(t, h)
	if p := list[0]; p.Name != "agents" || p.Visibility != "public" || p.Age != 0 || p.Position == 0 || p.Remaining == nil || *p.Remaining != 0 {
		t.Errorf("when everything is applied: %+v", p)
	}
	if list[1].Visibility != "sealed" {
		t.Errorf("the work due is said to be %s", list[1].Visibility)
	}
	code, body := ask(t, h, "GET", "/metrics", "", nil)
	for _, want := range []string{
		"mystery_projections_up 1", `mystery_projection_behind{projection="agents"} 0`, `mystery_projection_parked_streams{projection="due"} 0`,
		`mystery_projection_age_seconds{projection="due"} 0`, "go_goroutines ",
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics = %d without %q", code, want)
		}
	}
}

// everything returns the interface of a process that has counted everything there is to
// count, with all signs of life.
func everything(t *testing.T) http.Handler {
	t.Helper()
	_, r := open(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := operator.NewCounters("v1.2.3")
	c.Request("/v1/mystery/consents/{id}", "GET", 200, 3*time.Millisecond)
	c.Submission("recorded", 2)
	c.Cycle(now, nil)
	c.Cycle(now.Add(time.Second), errors.New("no answer"))
	return operator.New(operator.Config{
		ReadModels: r, Now: func() time.Time { return now }, Counters: c,
		Vitals: func(context.Context) (operator.Vitals, error) {
			return operator.Vitals{
				Shopper: projections.Vitals{
					Consents: 3, Unplanned: 1, InFlight: 2, LastSent: now.Add(-time.Minute), LastEnded: now.Add(-time.Hour),
					Due: 4, OldestDue: now.Add(-90 * time.Second),
				},
				PublicLog: publiclog.Standing{Size: 12, Published: 10, Signed: now.Add(-5 * time.Minute)},
				Open:      now.Add(-30 * time.Minute), Attesting: "ok", Pauses: 1, Clock: 1500 * time.Millisecond, Conns: 2, IdleConns: 5, MaxConns: 24,
			}, nil
		},
	})
}

// The list in the manual is what dashboards and alarms are made from.
func TestMetricsAreThoseOfTheManual(t *testing.T) {
	t.Parallel()
	code, body := ask(t, everything(t), "GET", "/metrics", "", nil)
	if code != http.StatusOK {
		t.Fatalf("metrics = %d, %s", code, body)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "mystery_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	served := names(`(?m)^# TYPE (mystery_\w+) `, body)
	if diff := cmp.Diff(names("(?m)^\\| `(mystery_\\w+)", string(manual)), served); diff != "" {
		t.Errorf("metrics (-manual +served):\n%s", diff)
	}
	for _, want := range []string{
		`mystery_build_info{version="v1.2.3"} 1`,
		`mystery_http_request_duration_seconds_count{method="GET",route="/v1/mystery/consents/{id}",status="200"} 1`,
		`mystery_producer_events_total{outcome="recorded"} 2`,
		`mystery_worker_cycles_total{outcome="failed"} 1`,
		"mystery_worker_last_cycle_timestamp_seconds 1.7723664e+09",
		"mystery_shopper_last_send_timestamp_seconds 1.77236634e+09",
		"mystery_shopper_oldest_due_seconds 90",
		"mystery_commits_oldest_unsealed_seconds 1800",
		`mystery_attester_state{state="ok"} 1`,
		"mystery_database_clock_offset_seconds 1.5",
		"mystery_vitals_up 1",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %q:\n%s", want, body)
		}
	}
}

// names returns what the first group of a pattern matches in text, sorted.
func names(pattern, text string) (list []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return list
}

// When the database does not answer, what the process knows by itself is still told,
// and nothing that would pass for a measurement.
func TestMetricsWithoutADatabase(t *testing.T) {
	t.Parallel()
	_, r := open(t)
	r.Pool.Close()
	h := operator.New(operator.Config{
		ReadModels: r, Now: time.Now, Counters: operator.NewCounters("devel"),
		Vitals: func(context.Context) (operator.Vitals, error) {
			return operator.Vitals{MaxConns: 24}, errors.New("no answer")
		},
	})
	code, body := ask(t, h, "GET", "/metrics", "", nil)
	for _, want := range []string{"mystery_vitals_up 0", "mystery_projections_up 0", "mystery_database_max_connections 24", "mystery_build_info"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics = %d without %q", code, want)
		}
	}
	for _, never := range []string{"mystery_shopper_", "mystery_worker_last_cycle", "mystery_commits_"} {
		if strings.Contains(body, never) {
			t.Errorf("metrics hold %q, which cannot be known", never)
		}
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	h, _ := open(t)
	for path, says := range map[string]string{"": "goroutine", "goroutine?debug=1": "TestProfiles", "heap?debug=1": "heap profile"} {
		code, body := ask(t, h, "GET", "/debug/pprof/"+path, "", nil)
		if code != http.StatusOK || !strings.Contains(body, says) {
			t.Errorf("GET /debug/pprof/%s = %d, want %q in it", path, code, says)
		}
	}
	far := func(r *http.Request) { r.Host = "rebound.example:8081" }
	if code, _ := ask(t, h, "GET", "/debug/pprof/heap", "", far); code != http.StatusForbidden {
		t.Errorf("a profile for a web page = %d, want 403", code)
	}
}

func TestParkRetryRebuild(t *testing.T) {
	t.Parallel()
	h, r := open(t)
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	park := `{"stream":"` + stream + `","reason":"under review"}`
	for _, tt := range []struct {
		name, path, body string
		code             int
		says             string
	}{
		{"nothing is parked", "retry", `{}`, 404, "no such stream is parked"},
		{"park", "agents/park", park, 200, `"version":2`},
		{"park twice", "agents/park", park, 409, "leaves out"},
		{"park without a reason", "agents/park", `{"stream":"x"}`, 422, "reason"},
		{"park what is no stream", "agents/park", `{"stream":"agent/build:7","reason":"x"}`, 404, "no stream"},
		{"park for nobody", "nosuch/park", park, 404, "nosuch"},
		{"retry", "retry", `{"projection":"agents"}`, 200, `{"parked":[]}`},
		{"retry all that is left", "retry", ``, 404, "parked"},
		{"rebuild one", "rebuild", `{"projections":["agents"]}`, 200, `"name":"agents"`},
		{"rebuild all", "rebuild", ``, 200, `"name":"due"`},
		{"rebuild nobody", "rebuild", `{"projections":["nosuch"]}`, 404, "nosuch"},
		{"a field too many", "rebuild", `{"all":true}`, 422, "unknown field"},
		{"no JSON", "rebuild", `all`, 422, "invalid"},
		{"more than anybody asks", "rebuild", strings.Repeat(" ", 1<<17), 422, "too large"},
	} {
		code, body := ask(t, h, "POST", "/v1/operator/projections/"+tt.path, tt.body, nil)
		if code != tt.code || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d, %s, want %d and %q", tt.name, code, body, tt.code, tt.says)
		}
	}
	if p := status(t, h)[0]; p.Generation != 5 { // parked, tried again, made anew twice
		t.Errorf("the generation is %d, want 5", p.Generation)
	}
}

// A web page must not get through to what only the machine may reach.
func TestWebPagesAreRefused(t *testing.T) {
	t.Parallel()
	h, _ := open(t)
	for name, change := range map[string]func(*http.Request){
		"a name that leads here": func(r *http.Request) { r.Host = "rebound.example:8081" },
		"a page elsewhere":       func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a page of an old browser": func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
		},
	} {
		if code, body := ask(t, h, "POST", "/v1/operator/projections/rebuild", "", change); code != http.StatusForbidden {
			t.Errorf("%s: %d, %s, want 403", name, code, body)
		}
	}
	for _, host := range []string{"127.0.0.1:8081", "[::1]:8081", "localhost", "127.8.9.1"} {
		if code, body := ask(t, h, "GET", "/v1/operator/projections", "", func(r *http.Request) { r.Host = host }); code != http.StatusOK {
			t.Errorf("asked as %s: %d, %s", host, code, body)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1", "", "localhost.example:0"} {
		if l, err := operator.Loopback(t.Context(), address); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Loopback(%q) = %v, %v, want %v", address, l, err, domain.ErrInvalid)
		}
	}
	l, err := operator.Loopback(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := operator.Loopback(ctx, l.Addr().String()); err == nil {
		t.Error("two listeners have one address")
	}
}
