package mcp_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
)

// What an agent shows is hashed in canonical form. One tool whose schema has none
// must not take the others with it.
func TestSchemaWithoutCanonicalForm(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"a key twice":         `{"type":"object","type":"array"}`,
		"half a surrogate":    `{"title":"\ud800"}`,
		"a number beyond all": `{"maximum":1e400}`,
		"no UTF-8":            "{\"title\":\"\xff\"}",
		"deep":                strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hs := httptest.NewServer(&server{answers: map[string]string{
				"initialize": hello,
				"tools/list": `"result":{"tools":[{"name":"bad","inputSchema":` + schema + `},{"name":"good","inputSchema":{"type":"object"}}]}`,
			}})
			defer hs.Close()
			surface, _, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Observe(t.Context(), hs.URL, agents.As(identity.Pool()[0]))
			if err != nil || len(surface.Tools) != 2 {
				t.Fatalf("Observe = %d tools, %v, want 2", len(surface.Tools), err)
			}
			if _, err := domain.Canonical(surface); err != nil {
				t.Errorf("the surface has no canonical form: %v", err)
			}
			if got := string(surface.Tools[1].InputSchema); got != `{"type":"object"}` {
				t.Errorf("the schema of the other tool is %s", got)
			}
		})
	}
}
