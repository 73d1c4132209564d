package assembly_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A receiver is an OpenTelemetry collector: OTLP over HTTP, in protobuf.
type receiver struct {
	mu    sync.Mutex
	about map[string]string // of the process
	spans []*tracepb.Span
	bad   []error
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.URL.Path != "/v1/traces" {
		c.bad = append(c.bad, errors.Join(err, errors.New(r.URL.Path)))
	}
	for _, s := range in.GetResourceSpans() {
		for _, a := range s.GetResource().GetAttributes() {
			c.about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, of := range s.GetScopeSpans() {
			c.spans = append(c.spans, of.GetSpans()...)
		}
	}
}

// named returns the spans of a name.
func (c *receiver) named(name string) (list []*tracepb.Span) {
	for _, s := range c.spans {
		if s.GetName() == name {
			list = append(list, s)
		}
	}
	return list
}

func TestTraces(t *testing.T) {
	t.Parallel()
	c := &receiver{about: make(map[string]string)}
	server := httptest.NewServer(c)
	defer server.Close()
	p, err := assembly.Open(t.Context(), assembly.Config{
		DatabaseURL: pgtest.URL(t), PublicURL: "https://karatum.com", StateDir: t.TempDir(), TracesTo: server.URL,
		Nodes: map[uint64][]string{84532: {"http://127.0.0.1:1/secret-path"}},
	}, assembly.Options{Schema: pgtest.Schema(pgtest.Open(t)), Secrets: commands.Keyring{domain.Sum([]byte("operator"))}, Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	h := p.Handler()
	get(t.Context(), h, "GET", "/v1/mystery?format=json")
	stranger := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/mystery/consents/cns_aaaaaaaaaaaaaaaaaaaa", nil)
	stranger.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	h.ServeHTTP(httptest.NewRecorder(), stranger)
	ctx := assembly.Traced(p, t.Context())
	if _, err := p.Worker.Step(ctx); err != nil {
		t.Fatal(err)
	}
	register := func(wallet byte) error {
		m := ledger.Meta{Actor: "operator", Command: string('a' + rune(wallet))}
		return p.Service.Agent(ctx, m, "build:42", agent.Register{Agent: "build:42", Wallet: eip191.Address{wallet}})
	}
	if err := errors.Join(register(1), p.Service.Agent(t.Context(), ledger.Meta{Actor: "operator", Command: "untraced"}, "build:42", agent.RecordCertificate{Certificate: "KC-1"})); err != nil {
		t.Fatal(err)
	}
	if register(2) == nil {
		t.Error("an agent is registered twice")
	}
	p.AskNodes(ctx)
	p.Close() // sends what is left

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bad) > 0 {
		t.Errorf("the collector was sent %v", c.bad)
	}
	if c.about["service.name"] != "karatum-mystery" || c.about["service.version"] != "v1.2.3" {
		t.Errorf("the process is called %v", c.about)
	}
	counts := make(map[string]int)
	for _, s := range c.spans {
		counts[s.GetName()]++
	}
	if diff := cmp.Diff(map[string]int{"GET /v1/mystery": 1, "GET /v1/mystery/consents/{id}": 1, "cycle": 1, "command": 2, "rpc": 1}, counts); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range c.named("GET /v1/mystery/consents/{id}") {
		if len(s.GetParentSpanId()) > 0 {
			t.Error("a stranger has put a request into a trace of theirs")
		}
	}
	failed := 0
	for _, s := range append(c.named("command"), c.named("rpc")...) {
		if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d spans have failed, want that of the second registration and that of the node", failed)
	}
	// Whatever is traced later, no text of a task gets in: only these are told, and none of
	// them can hold one.
	told := []string{
		"http.request.method", "http.response.status_code", "http.route",
		"mystery.chain", "mystery.command", "mystery.consent", "mystery.shop", "mystery.stream", "server.address",
	}
	for _, s := range c.spans {
		if len(s.GetEvents()) > 0 || s.GetStatus().GetMessage() != "" {
			t.Errorf("span %s tells more than that it has failed: %v %q", s.GetName(), s.GetEvents(), s.GetStatus().GetMessage())
		}
		for _, a := range s.GetAttributes() {
			if !slices.Contains(told, a.GetKey()) {
				t.Errorf("span %s tells %s: %v", s.GetName(), a.GetKey(), a.GetValue())
			}
		}
	}
}

func TestNoTracesUnlessAskedFor(t *testing.T) {
	t.Parallel()
	if p := opened(t); assembly.Traced(p, t.Context()) != t.Context() {
		t.Error("a programme without a collector traces")
	}
	for _, to := range []string{"localhost:4318", "ftp://localhost", "http://"} {
		_, err := assembly.Open(t.Context(), assembly.Config{PublicURL: "https://karatum.com", DatabaseURL: pgtest.URL(t), TracesTo: to}, assembly.Options{})
		if !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("traces to %q: %v, want %v", to, err, domain.ErrInvalid)
		}
	}
}
