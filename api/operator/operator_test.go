package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
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
