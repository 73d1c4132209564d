package assembly_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
)

// opened returns a programme on a schema of its own.
func opened(t *testing.T) *assembly.Programme {
	t.Helper()
	p, err := assembly.Open(t.Context(), assembly.Config{
		DatabaseURL: pgtest.URL(t), PublicURL: "https://karatum.com", StateDir: t.TempDir(),
	}, assembly.Options{Schema: pgtest.Schema(pgtest.Open(t)), Secrets: commands.Keyring{domain.Sum([]byte("operator"))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// get asks a handler, as a stranger or as a program on this machine.
func get(ctx context.Context, h http.Handler, method, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, url, nil))
	return w
}

func TestReadyUntilItEnds(t *testing.T) {
	t.Parallel()
	p := opened(t)
	h := p.Handler()
	if w := get(t.Context(), h, "GET", "/readyz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("readyz = %d, %s", w.Code, w.Body)
	}
	p.Drain()
	if w := get(t.Context(), h, "GET", "/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), p.Ready(t.Context())) {
		t.Errorf("readyz of a process that is to end = %d, %s, want 503 and %q", w.Code, w.Body, p.Ready(t.Context()))
	}
	for _, path := range []string{"/healthz", "/v1/mystery"} {
		if w := get(t.Context(), h, "GET", path); w.Code != http.StatusOK {
			t.Errorf("GET %s meanwhile = %d, %s", path, w.Code, w.Body)
		}
	}
}

func TestReadyWithoutADatabase(t *testing.T) {
	t.Parallel()
	p := opened(t)
	h := p.Handler()
	p.Close()
	if w := get(t.Context(), h, "GET", "/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the database does not answer") {
		t.Errorf("readyz = %d, %s, want 503", w.Code, w.Body)
	}
	if _, err := p.Vitals(t.Context()); err == nil {
		t.Error("there are signs of life without a database")
	}
}

// Metrics name routes and never paths, of which strangers make as many as they like.
func TestRequestsAreCountedByRoute(t *testing.T) {
	t.Parallel()
	p := opened(t)
	h := p.Handler()
	for _, r := range [][2]string{
		{"GET", "/v1/mystery"},
		{"GET", "/v1/mystery/consents/cns_aaaaaaaaaaaaaaaaaaaa"},
		{"GET", "/v1/mystery/consents/cns_bbbbbbbbbbbbbbbbbbbb"},
		{"GET", "/nothing/here"},
		{"MAKEUP", "/v1/mystery"},
		{"HEAD", "/healthz"},
	} {
		get(t.Context(), h, r[0], r[1])
	}
	page := get(t.Context(), p.Operator(), "GET", "http://localhost/metrics").Body.String()
	for _, want := range []string{
		`_count{method="GET",route="/v1/mystery",status="200"} 1`,
		`_count{method="GET",route="/v1/mystery/consents/{id}",status="404"} 2`,
		`_count{method="GET",route="none",status="404"} 1`,
		`_count{method="other",route="none",status="405"} 1`,
		`_count{method="HEAD",route="/healthz",status="200"} 1`,
		"mystery_vitals_up 1", `mystery_projections_up 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics lack %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "cns_") || strings.Contains(page, "MAKEUP") {
		t.Error("the metrics name what strangers have asked for")
	}
}

// Of two stores that were restored from backups of different age, the younger is found out.
func TestHeadsThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	p, err := assembly.Open(t.Context(), assembly.Config{
		DatabaseURL: pgtest.URL(t), PublicURL: "https://karatum.com", StateDir: t.TempDir(),
	}, assembly.Options{Schema: pgtest.Schema(pool), Secrets: commands.Keyring{domain.Sum([]byte("operator"))}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m := ledger.Meta{Actor: "operator", Command: "1"}
	if err := p.Service.Agent(t.Context(), m, "build:42", agent.Register{Agent: "build:42", Wallet: eip191.Address{1}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.CatchUp(t.Context()), p.PublishLedger(t.Context())); err != nil {
		t.Fatal(err)
	}
	end, err := p.CompareHeads(t.Context())
	if err != nil || end == 0 {
		t.Fatalf("CompareHeads = %d, %v, want that all is well", end, err)
	}
	if s, err := p.Ledger.Standing(t.Context()); err != nil || s.Size == 0 || s.Published != s.Size || s.Position != end || s.Stream != "agent/build:42" || s.Version != 1 || s.Signed.IsZero() {
		t.Errorf("Standing = %+v, %v", s, err)
	}
	owner := pgtest.Owner(t, pool)
	const younger = `
		set session_replication_role = replica;
		delete from events where stream = 'agent/build:42';
		delete from heads where stream = 'agent/build:42';
		update log_head set position = (select max(position) from events);`
	for _, step := range []struct{ name, sql, says string }{
		{"the log lacks a record", younger, "restored from another backup"},
		{"and the read models have forgotten it", `update checkpoints set position = 0`, "the public log is at position"},
		{"and the public log its position", `update tree_head set position = 0`, "which was restored from an older backup"},
		{"the log has another record there", `
			insert into events select 1000, 'agent/build:42', 1, gen_random_uuid(), type, time, actor, command, correlation, data, hash from events limit 1;
			update log_head set position = 1000`, "another record"},
	} {
		if _, err := owner.Exec(t.Context(), step.sql); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if _, err := p.CompareHeads(t.Context()); !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: CompareHeads = %v, want %q", step.name, err, step.says)
		}
	}
}
