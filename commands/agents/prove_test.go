package agents_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

const proofPath = "/.well-known/karatum-mystery.json"

var (
	owner    = address("0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359")
	stranger = address("0x52908400098527886e0f7030069857d2e4169ee7")
)

func address(text string) eip191.Address {
	a, err := eip191.ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}

// A site is a host that serves a proof document, and writes down what it is asked.
type site struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string // method and path
}

// newSite returns a host that answers with h. The document and the paths below /at/
// are all that anybody may ask for.
func newSite(t *testing.T, h http.HandlerFunc) *site {
	t.Helper()
	s := new(site)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if got, want := r.UserAgent(), "KaratumBot/1.0 (+https://mystery.example/bot)"; got != want {
			t.Errorf("User-Agent = %q, want %q", got, want)
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func hostsOf(n agents.Net) agents.Hosts {
	return agents.Hosts{Net: n, About: "https://mystery.example/bot"}
}

// answer serves a body as JSON.
func answer(body string) http.HandlerFunc { return answerAs(http.StatusOK, "application/json", body) }

func answerAs(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{mediaType}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func zipped(t *testing.T, body string) http.HandlerFunc {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, body)
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	}
}

// codes are those of refusals, by what they say.
var codes = map[string]domain.Code{
	"does not list":                  domain.OwnerNotListed,
	"has no /.well-known":            domain.ProofMissing,
	"leads on and on":                domain.ProofMalformed,
	"leads to another host":          domain.ProofRedirected,
	"longer than 65536 bytes":        domain.ProofTooLarge,
	"not a list":                     domain.ProofMalformed,
	"not encoded as it says":         domain.ProofMalformed,
	"not one JSON object":            domain.ProofMalformed,
	"not public":                     domain.PrivateAddress,
	"not served as application/json": domain.ProofMalformed,
}

func TestProve(t *testing.T) {
	t.Parallel()
	listed := `{"owners":["` + owner.String() + `"]}`
	pad := func(size int) string {
		return strings.TrimSuffix(listed, "}") + `,"pad":"` + strings.Repeat("x", size) + `"}`
	}
	elsewhere := newSite(t, answer(listed))
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   error  // its kind
		says   string // in its sentence
	}{
		{"listed with checksum", answer(listed), nil, ""},
		{"in upper case among others", answer(`{"owners":["x","0x00","` + stranger.String() + `"," 0XFB6916095CA1DF60BB79CE92CE3EA74C37C5D359"]}`), nil, ""},
		{"members that mean nothing", answer(`{"version":2,"Owners":[],"nested":{"stop":true},"owners":["` + owner.String() + `"],"stop":false}`), nil, ""},
		{"stop is null", answer(strings.TrimSuffix(listed, "}") + `,"stop":null}`), nil, ""},
		{"as problem+json, with parameters", answerAs(200, "application/karatum+json; charset=utf-8", listed), nil, ""},
		{"zipped", zipped(t, listed), nil, ""},
		{"exactly as long as it may be", answer(pad(64<<10 - len(pad(0)))), nil, ""},

		{"another owner", answer(`{"owners":["` + stranger.String() + `"]}`), domain.ErrForbidden, "does not list " + owner.String()},
		{"without 0x", answer(`{"owners":["fb6916095ca1df60bb79ce92ce3ea74c37c5d359"]}`), domain.ErrForbidden, "does not list"},
		{"a byte too many", answer(`{"owners":["` + owner.String() + `00"]}`), domain.ErrForbidden, "does not list"},
		{"no owners", answer(`{}`), domain.ErrForbidden, "does not list"},
		{"owners in another spelling", answer(`{"OWNERS":["` + owner.String() + `"]}`), domain.ErrForbidden, "does not list"},
		{"owners is no list", answer(`{"owners":"` + owner.String() + `"}`), domain.ErrForbidden, "not a list"},
		{"an owner is a number", answer(`{"owners":["` + owner.String() + `",7]}`), domain.ErrForbidden, "not a list"},

		{"stopped", answer(strings.TrimSuffix(listed, "}") + `,"stop":true}`), commands.ErrStopped, "wants no tasks"},
		{"stopped by nobody in particular", answer(`{"stop":true}`), commands.ErrStopped, "wants no tasks"},
		{"stopped in other words", answer(`{"stop":"yes","owners":7}`), commands.ErrStopped, "wants no tasks"},

		{"HTML", answerAs(200, "text/html; charset=utf-8", `<!doctype html><p>hello`), domain.ErrForbidden, "not served as application/json"},
		{"HTML that says it is JSON", answer(`<!doctype html>`), domain.ErrForbidden, "not one JSON object"},
		{"JSON that says it is HTML", answerAs(200, "text/html", listed), domain.ErrForbidden, "not served as application/json"},
		{"JSON that says nothing of itself", answerAs(200, "", listed), domain.ErrForbidden, "not served as application/json"},
		{"a name twice", answer(`{"owners":[],"owners":["` + owner.String() + `"]}`), domain.ErrForbidden, "not one JSON object"},
		{"a name twice, once in disguise", answer(`{"owners":[],"\u006fwners":["` + owner.String() + `"]}`), domain.ErrForbidden, "not one JSON object"},
		{"something behind it", answer(listed + `{}`), domain.ErrForbidden, "not one JSON object"},
		{"cut short", answer(strings.TrimSuffix(listed, "}")), domain.ErrForbidden, "not one JSON object"},
		{"a byte that is not UTF-8", answer(strings.TrimSuffix(listed, "}") + ",\"x\":\"\xff\"}"), domain.ErrForbidden, "not one JSON object"},
		{"a list", answer(`[` + listed + `]`), domain.ErrForbidden, "not one JSON object"},
		{"nested without end", answer(strings.Repeat(`[`, 60000)), domain.ErrForbidden, "not one JSON object"},
		{"nothing", answer(``), domain.ErrForbidden, "not one JSON object"},

		{"a byte too long", answer(pad(64<<10 - len(pad(0)) + 1)), domain.ErrForbidden, "longer than 65536 bytes"},
		{"10 MB", answer(pad(10 << 20)), domain.ErrForbidden, "longer than 65536 bytes"},
		{"a gzip bomb", zipped(t, pad(64<<20)), domain.ErrForbidden, "longer than 65536 bytes"},
		{"an encoding that nobody asked for", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, listed)
		}, domain.ErrForbidden, "not encoded as it says"},

		{"no document", answerAs(404, "application/json", listed), domain.ErrForbidden, "has no /.well-known"},
		{"a document that is gone", answerAs(410, "application/json", listed), domain.ErrForbidden, "has no /.well-known"},
		{"an internal error", answerAs(500, "application/json", listed), domain.ErrUnavailable, "HTTP 500"},
		{"a long page about an internal error", answerAs(503, "text/html", strings.Repeat("x", 1<<20)), domain.ErrUnavailable, "could not be read"},
		{"a wall", answerAs(403, "application/json", listed), domain.ErrUnavailable, "HTTP 403"},
		{"part of it", answerAs(206, "application/json", listed), domain.ErrUnavailable, "HTTP 206"},

		{"a redirect on the same host", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == proofPath {
				http.Redirect(w, r, "/at/another/path", http.StatusTemporaryRedirect)
				return
			}
			answer(listed)(w, r)
		}, nil, ""},
		{"a redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+proofPath, http.StatusFound)
		}, domain.ErrForbidden, "leads to another host"},
		{"a redirect to the same address by another name", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://alias.example"+proofPath, http.StatusFound)
		}, domain.ErrForbidden, "leads to another host"},
		{"a redirect to a private address", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.0.0.1"+proofPath, http.StatusFound)
		}, domain.ErrForbidden, "not public"},
		{"redirects without end", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/at/"+strings.Repeat("x", len(r.URL.Path)), http.StatusFound)
		}, domain.ErrForbidden, "leads on and on"},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, domain.ErrUnavailable, "could not be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, test.answer)
			err := hostsOf(agents.Loopback(time.Now, nil)).Prove(t.Context(), s.URL+"/some/agent?x=1", owner)
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(domain.Sentence(err), test.says) {
				t.Errorf("Prove = %v, want %v that says %q", err, test.want, test.says)
			}
			if code := codes[test.says]; errors.Is(err, domain.ErrForbidden) && code != "" && domain.CodeOf(err) != code {
				t.Errorf("Prove has code %q, want %q", domain.CodeOf(err), code)
			}
			if stopped := errors.Is(err, commands.ErrStopped); stopped != errors.Is(test.want, commands.ErrStopped) {
				t.Errorf("Prove = %v, stopped: %t", err, stopped)
			}
			for i, request := range s.requests() {
				if i == 0 && request != "GET "+proofPath || i > 0 && !strings.HasPrefix(request, "GET /at/") || i > 3 {
					t.Errorf("the host was asked for %s", request)
				}
			}
			if got := elsewhere.requests(); len(got) != 0 {
				t.Errorf("another host was asked for %v", got)
			}
		})
	}
}

// Where a proof is looked for, and in which way it may not be reached.
func TestProveReaches(t *testing.T) {
	t.Parallel()
	listed := `{"owners":["` + owner.String() + `"]}`
	s := newSite(t, answer(listed))
	secure := httptest.NewTLSServer(answer(listed))
	t.Cleanup(secure.Close)
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + open.Addr().String()
	open.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	lab := agents.Loopback(time.Now, map[string]string{"public.example:80": at, "inside.example:80": "10.0.0.1:80", "meta.example:80": "169.254.169.254:80"})
	for _, test := range []struct {
		name     string
		net      agents.Net
		endpoint string
		want     error
		says     string
	}{
		{"by a name", lab, "http://public.example/mcp", nil, ""},
		{"a name that leads to a private address", lab, "http://inside.example/mcp", domain.ErrForbidden, "not public"},
		{"a name that leads to a cloud's own service", lab, "http://meta.example/mcp", domain.ErrForbidden, "not public"},
		{"a private address", lab, "http://10.0.0.1/mcp", domain.ErrInvalid, "not a public address"},
		{"http in production", agents.Net{}, s.URL, domain.ErrInvalid, ""},
		{"another port in production", agents.Net{}, secure.URL, domain.ErrInvalid, ""},
		{"a certificate that nobody vouches for", lab, secure.URL, domain.ErrUnavailable, "could not be read"},
		{"a port that nobody listens at", lab, closed, domain.ErrUnavailable, "could not be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := hostsOf(test.net).Prove(t.Context(), test.endpoint, owner)
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(domain.Sentence(err), test.says) {
				t.Errorf("Prove(%s) = %v, want %v that says %q", test.endpoint, err, test.want, test.says)
			}
		})
	}
}

// A name may lead elsewhere a moment after it was looked at: what counts is the
// address that is dialled.
func TestProveSeesThroughRebinding(t *testing.T) {
	t.Parallel()
	s := newSite(t, answer(`{"owners":["`+owner.String()+`"]}`))
	names := map[string]string{"agent.example:80": strings.TrimPrefix(s.URL, "http://")}
	h := hostsOf(agents.Loopback(time.Now, names))
	const endpoint = "http://agent.example/mcp"
	if err := errors.Join(h.Check(endpoint), h.Prove(t.Context(), endpoint, owner)); err != nil {
		t.Fatal(err)
	}
	names["agent.example:80"] = "192.168.1.1:80"
	if err := h.Check(endpoint); err != nil {
		t.Errorf("Check = %v, which looks at no address", err)
	}
	if err := h.Prove(t.Context(), endpoint, owner); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Prove = %v, want ErrForbidden", err)
	}
	if got := s.requests(); len(got) != 1 {
		t.Errorf("the host was asked for %v, want one request before the name led elsewhere", got)
	}
}

// A host that sends its document byte by byte has ten seconds for all of it.
func TestProveOfASlowHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	err := hostsOf(agents.Loopback(time.Now, nil)).Within(300*time.Millisecond).Prove(t.Context(), s.URL, owner)
	if !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Prove = %v, want ErrUnavailable", err)
	}
}

func TestProveFromAnAddress(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only 127.0.0.1 is there to dial from")
	}
	var from atomic.Value
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		from.Store(r.RemoteAddr)
		answer(`{"owners":["`+owner.String()+`"]}`)(w, r)
	})
	n := agents.Loopback(time.Now, nil).From(netip.MustParseAddr("127.0.0.9"))
	if err := hostsOf(n).Prove(t.Context(), s.URL, owner); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(from.Load()); !strings.HasPrefix(got, "127.0.0.9:") {
		t.Errorf("the document was fetched from %s, want 127.0.0.9", got)
	}
}

// memory is a [agents.Recent] that forgets when it is told to.
type memory struct {
	kept  map[string][]byte
	fresh map[string]bool
}

func (m *memory) Fetch(ctx context.Context, key string, fetch func(context.Context, []byte) []byte) ([]byte, error) {
	if !m.fresh[key] {
		m.kept[key], m.fresh[key] = fetch(ctx, m.kept[key]), true
	}
	return m.kept[key], nil
}

// What a host said lately answers for all who ask about it, and what it said about
// stopping holds until it says otherwise.
func TestProveRemembers(t *testing.T) {
	t.Parallel()
	var now atomic.Value
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { now.Load().(http.HandlerFunc)(w, r) })
	m := &memory{make(map[string][]byte), make(map[string]bool)}
	h := hostsOf(agents.Loopback(time.Now, nil))
	h.Recent = m
	for i, step := range []struct {
		answer http.HandlerFunc // nil: nothing is asked
		owner  eip191.Address
		path   string
		want   error
	}{
		{answer(`{"owners":["` + owner.String() + `"]}`), owner, "/a2a", nil},
		{nil, owner, "/mcp", nil},
		{nil, stranger, "/mcp", domain.ErrForbidden},
		{answer(`{"owners":["` + owner.String() + `"],"stop":true}`), owner, "/a2a", commands.ErrStopped},
		{answerAs(500, "text/html", ""), owner, "/a2a", commands.ErrStopped},
		{nil, owner, "/a2a", commands.ErrStopped},
		{answerAs(404, "text/html", ""), owner, "/a2a", domain.ErrForbidden},
		{answerAs(500, "text/html", ""), owner, "/a2a", domain.ErrUnavailable},
		{answer(`{"owners":["` + owner.String() + `"],"stop":false}`), owner, "/a2a", nil},
	} {
		before := len(s.requests())
		if step.answer != nil {
			now.Store(step.answer)
			clear(m.fresh)
		}
		if err := h.Prove(t.Context(), s.URL+step.path, step.owner); !errors.Is(err, step.want) {
			t.Errorf("step %d: Prove = %v, want %v", i, err, step.want)
		}
		if asked := len(s.requests()) > before; asked != (step.answer != nil) {
			t.Errorf("step %d: the host was asked: %t", i, asked)
		}
	}
	if len(m.kept) != 1 {
		t.Errorf("%d hosts are remembered, want 1", len(m.kept))
	}
}

// FuzzProve reads what a host may serve.
func FuzzProve(f *testing.F) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}))
	f.Cleanup(server.Close)
	f.Add([]byte(`{"owners":["0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"],"stop":false}`))
	f.Add([]byte(`{"stop":1e999}`))
	f.Add([]byte(`{"owners":["\ud800"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		body = b
		err := hostsOf(agents.Loopback(time.Now, nil)).Prove(t.Context(), server.URL, owner)
		switch {
		case err == nil && !bytes.Contains(bytes.ToLower(b), []byte("5d359")) && !bytes.Contains(b, []byte(`\u`)):
			t.Errorf("%q proves an owner that it does not name", b)
		case err != nil && !errors.Is(err, domain.ErrForbidden):
			t.Errorf("%q: %v, want ErrForbidden", b, err)
		}
	})
}
