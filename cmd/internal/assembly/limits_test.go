package assembly_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A thousand strangers who ask for challenges leave nothing behind: no event, and no
// row but in the buckets, of which there is a fixed number.
func TestStrangersLeaveNothing(t *testing.T) {
	t.Parallel()
	schema := "test_" + strings.ToLower(rand.Text()[:16])
	p, err := assembly.Open(t.Context(), assembly.Config{
		DatabaseURL: pgtest.URL(t), PublicURL: "https://karatum.com", StateDir: t.TempDir(),
	}, assembly.Options{Schema: schema, Secrets: commands.Keyring{domain.Sum([]byte("operator"))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Drop(context.Background()) // what stays is small and named test_…
		p.Close()
	})
	const ref = agent.Ref("build:42")
	for i, c := range []agent.Command{
		agent.Register{Agent: ref, Wallet: eip191.Address{1}},
		agent.RecordCertificate{Certificate: "KC-1"},
	} {
		m := ledger.Meta{Actor: "operator", Command: fmt.Sprint(i)}
		if err := p.Service.Agent(t.Context(), m, ref, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{
		"agent": ref, "endpoints": []any{map[string]any{"kind": "mcp", "url": "https://agent.example/mcp"}},
		"kinds": []any{"mcp"}, "maxPerDay": 6, "maxPerWeek": 30, "validityDays": 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := rows(t, schema)
	h := p.Handler()
	for i := range 1000 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/mystery/consents/challenge", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 1).String()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("challenge %d: %d: %s", i, w.Code, w.Body)
		}
	}
	after := rows(t, schema)
	buckets := after[schema+".buckets"]
	if buckets == 0 || buckets > 2000 {
		t.Errorf("%d buckets are in use, want at most two for each of 1,000 strangers", buckets)
	}
	maps.DeleteFunc(after, func(name string, _ int) bool { return name == schema+".buckets" })
	maps.DeleteFunc(before, func(name string, _ int) bool { return name == schema+".buckets" })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("rows of all tables before and after (-before +after):\n%s", diff)
	}
	if before[schema+".events"] == 0 {
		t.Error("the events were not counted")
	}
}

// rows counts the rows of every table of an installation.
func rows(t *testing.T, schema string) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	list, err := conn.Query(t.Context(), `select schemaname || '.' || tablename from pg_tables where schemaname in ($1, $2)`, schema, schema+"_rm")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(list, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, name := range names {
		var n int
		if err := conn.QueryRow(t.Context(), "select count(*) from "+name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"MYSTERY_TRUSTED_PROXIES": "10.0.0.0/8, proxy.example",
		"MYSTERY_CHECK_INTERVAL":  "25h",
		"MYSTERY_PROOF_ADDRESS":   "proofs.example",
	} {
		env := map[string]string{name: value, "MYSTERY_STATE_DIR": t.TempDir()}
		_, err := assembly.Open(t.Context(), assembly.ConfigFrom(func(name string) string { return env[name] }), assembly.Options{})
		if !errors.Is(err, domain.ErrInvalid) || !strings.Contains(domain.Sentence(err), name) {
			t.Errorf("Open with %s=%s: %v, want ErrInvalid that names it", name, value, err)
		}
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	got, err := assembly.Config{TrustedProxies: []string{"10.1.2.3/8", "192.0.2.1", "2001:db8::/32", "::1"}}.Proxies()
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("::1/128"),
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
		t.Errorf("proxies (-want +got):\n%s", diff)
	}
}
