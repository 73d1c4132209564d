package identity_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
)

// golden is the hash of pool version 1. It stands in signed consents: a change
// that alters it needs a new file and a new version.
const golden = "a9106fa4ecfc41e6977cf13481cfc50fcc7cee628d5e1bdc68fb23c513e6b1e8"

func TestHash(t *testing.T) {
	t.Parallel()
	if got := identity.Hash().String(); got != golden || identity.Version() != 1 {
		t.Errorf("version, Hash() = %d, %s, want 1, %s", identity.Version(), got, golden)
	}
	raw, err := os.ReadFile("pool_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := domain.Sum(canonical); got != identity.Hash() {
		t.Errorf("hash of the file = %s, want Hash() = %s: a field has no place in Identity", got, identity.Hash())
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	pool := identity.Pool()
	if len(pool) != identity.Size {
		t.Fatalf("len(Pool()) = %d, want %d", len(pool), identity.Size)
	}
	names, apps := map[string]bool{}, map[string]bool{}
	for _, id := range pool {
		if names[id.Name] || apps[id.ClientInfo.Name] {
			t.Errorf("%s: name or app name %q is used twice", id.Name, id.ClientInfo.Name)
		}
		names[id.Name], apps[id.ClientInfo.Name] = true, true
		check(t, id)
	}
}

// check tests one identity for sense: what a client reads from it must fit together.
func check(t *testing.T, id identity.Identity) {
	t.Helper()
	for what, v := range map[string]string{
		"name": id.Name, "library": id.Library, "library version": id.LibraryVersion, "content type": id.ContentType,
		"MCP version": id.MCPVersion, "app name": id.ClientInfo.Name, "app version": id.ClientInfo.Version,
	} {
		if v == "" {
			t.Errorf("%s: no %s", id.Name, what)
		}
	}
	if !strings.HasPrefix(id.ContentType, "application/json") {
		t.Errorf("%s: content type %q is not JSON", id.Name, id.ContentType)
	}
	if !slices.Contains([]identity.Body{identity.Compact, identity.Spaced, identity.Escaped}, id.Body) {
		t.Errorf("%s: body %q", id.Name, id.Body)
	}
	if !slices.Contains([]identity.IDStyle{identity.FromZero, identity.FromOne, identity.UUID, identity.Hex}, id.RPCIDs) {
		t.Errorf("%s: style %q of JSON-RPC ids", id.Name, id.RPCIDs)
	}
	if id.MessageIDs != identity.UUID && id.MessageIDs != identity.Hex {
		t.Errorf("%s: style %q of message ids", id.Name, id.MessageIDs)
	}
	if got, want := slices.Sorted(slices.Values(id.FrameOrder)), []string{"id", "jsonrpc", "method", "params"}; !slices.Equal(got, want) {
		t.Errorf("%s: frame order %q, want an order of %q", id.Name, id.FrameOrder, want)
	}
	for _, e := range slices.Concat(id.Encodings, id.PlainEncodings) {
		// compress is named by one library and no server writes it.
		if !slices.Contains([]string{"gzip", "deflate", "br", "compress"}, e) {
			t.Errorf("%s: encoding %q is one that we cannot read", id.Name, e)
		}
	}
	if slices.Contains(id.ALPN, "h2") {
		t.Errorf("%s: offers h2, which has no order of headers", id.Name)
	}
	checkOrder(t, id, id.HeaderOrder)
	if len(id.MCPOrder) > 0 {
		checkOrder(t, id, id.MCPOrder)
	}
	if len(id.StreamOrder) > 0 {
		checkOrder(t, id, append(id.StreamOrder, "Content-Type")) // a GET has none
	}
}

func checkOrder(t *testing.T, id identity.Identity, list []string) {
	t.Helper()
	order := map[string]bool{}
	for _, name := range list {
		if order[strings.ToLower(name)] {
			t.Errorf("%s: header order names %s twice", id.Name, name)
		}
		order[strings.ToLower(name)] = true
	}
	need := []string{identity.CallerHeaders, "Host", "Content-Length", "Content-Type"}
	for name, sent := range map[string]bool{
		"User-Agent": id.UserAgent != "", "Accept-Language": id.AcceptLanguage != "", "Accept-Encoding": len(id.Encodings) > 0,
	} {
		if sent {
			need = append(need, name)
		} else if order[strings.ToLower(name)] {
			t.Errorf("%s: header order names %s, which is not sent", id.Name, name)
		}
	}
	for _, h := range id.Headers {
		need = append(need, h.Name)
		if h.Value == "" {
			t.Errorf("%s: header %s is empty", id.Name, h.Name)
		}
	}
	for _, name := range need {
		if !order[strings.ToLower(name)] {
			t.Errorf("%s: header order does not name %s", id.Name, name)
		}
	}
}

func TestConstant(t *testing.T) {
	t.Parallel()
	pool := identity.Pool()
	for _, tt := range []struct {
		id   identity.Identity
		tls  bool
		want []identity.Header
	}{
		{pool[0], true, []identity.Header{
			{"User-Agent", "python-requests/2.34.2"},
			{"Accept-Encoding", "gzip, deflate"},
			{"Accept", "*/*"},
			{"Connection", "keep-alive"},
		}},
		{pool[11], true, []identity.Header{
			{"connection", "keep-alive"},
			{"accept", "*/*"},
			{"accept-language", "*"},
			{"sec-fetch-mode", "cors"},
			{"user-agent", "node"},
			{"accept-encoding", "br, gzip, deflate"},
		}},
		{pool[11], false, []identity.Header{
			{"connection", "keep-alive"},
			{"accept", "*/*"},
			{"accept-language", "*"},
			{"sec-fetch-mode", "cors"},
			{"user-agent", "node"},
			{"accept-encoding", "gzip, deflate"},
		}},
	} {
		if diff := cmp.Diff(tt.want, tt.id.Constant(tt.tls)); diff != "" {
			t.Errorf("Constant(%t) of %s (-want +got):\n%s", tt.tls, tt.id.Name, diff)
		}
	}
}

// A task that told who sends it would be an exam.
func TestNoMarks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("pool_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ToLower(string(raw))
	if identity.Marked(text) {
		t.Error("the pool bears a mark of Karatum")
	}
	// The makers of these did not consent to be imitated.
	for _, word := range []string{
		"karatum", "mystery", "shopper", "evaluation", "trial", "exam", "audit", "bot",
		"claude", "anthropic", "cursor", "visual studio", "vscode", "copilot", "cline", "codex", "openai", "chatgpt", "gemini",
		"windsurf", "inspector", "mcp-remote", "langchain", "zed", "goose", "postman", "insomnia", "mozilla", "chrome", "safari", "google",
	} {
		if strings.Contains(text, word) {
			t.Errorf("the pool contains the word %q", word)
		}
	}
}

func TestMarked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                     false,
		"python-requests/2.34.2":               false,
		"Host: karatum.com":                    false, // where the house agents live
		"User-Agent: KaratumBot/1.0":           true,
		"user-agent: karatum-trials":           true,
		"X-Karatum-Evaluation: 1":              true,
		"x-karatum-evaluation":                 true,
		"Mozilla/5.0 (compatible; KARATUMBOT)": true,
	} {
		if got := identity.Marked(text); got != want {
			t.Errorf("Marked(%q) = %t, want %t", text, got, want)
		}
	}
}
