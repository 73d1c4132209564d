package agents_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/a2a"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// said is one answer of a peer. In its body HOST stands for the URL of the peer
// and ID for the id of the request.
type said struct {
	status int // 0: 200
	header http.Header
	body   string
}

func rpc(member string) said { return said{body: `{"jsonrpc":"2.0","id":ID,` + member + `}`} }
func page(text string) said {
	return said{header: http.Header{"Content-Type": {"text/html"}}, body: text}
}

// A peer answers GETs by path ("GET /x") and JSON-RPC by method, several answers
// one after the other and the last for ever. A GET that it has none for is a 404,
// a notification is accepted, a method is not found.
type peer map[string][]said

func (p peer) serve(t *testing.T) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	calls := map[string]int{}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, id := r.Method+" "+r.URL.Path, ""
		if r.Method == http.MethodPost {
			var frame struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.NewDecoder(r.Body).Decode(&frame); err != nil {
				t.Errorf("a body that is no frame: %v", err)
			}
			key, id = frame.Method, string(frame.ID)
		}
		mu.Lock()
		n := calls[key]
		calls[key]++
		mu.Unlock()
		all, ok := p[key]
		switch {
		case ok:
		case r.Method == http.MethodGet:
			all = []said{{status: 404}}
		case id == "":
			all = []said{{status: 202}}
		default:
			all = []said{rpc(`"error":{"code":-32601,"message":"Method not found: ` + key + `"}`)}
		}
		s := all[min(n, len(all)-1)]
		w.Header().Set("Content-Type", "application/json")
		maps.Copy(w.Header(), s.header)
		if s.status != 0 {
			w.WriteHeader(s.status)
		}
		io.WriteString(w, strings.NewReplacer("HOST", server.URL, "ID", id).Replace(s.body))
	}))
	t.Cleanup(server.Close)
	return server
}

// with returns p with another answer or others.
func (p peer) with(key string, answers ...said) peer {
	q := peer{key: answers}
	for k, v := range p {
		if k != key {
			q[k] = v
		}
	}
	return q
}

func packed(encoding, text string) said {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	}
	io.WriteString(w, text)
	w.Close()
	return said{header: http.Header{"Content-Encoding": {encoding}}, body: b.String()}
}

// outcome observes the agent at a URL and asks it what was found to be asked,
// and returns what came of it in short: the text, or outcome and code.
func outcome(ctx context.Context, t *testing.T, client agenttest.Client, url string, ask task.Ask, as agents.Sender, deadline time.Duration) string {
	t.Helper()
	_, target, err := client.Observe(ctx, url, as)
	if e, ok := errors.AsType[*agents.Error](err); ok {
		return strings.TrimSpace(string(e.Outcome) + " " + e.Code)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Ask(ctx, agents.Call{Target: target, Ask: ask, Sender: as, Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome == "" {
		return r.Text
	}
	return strings.TrimSpace(string(r.Outcome) + " " + r.Code)
}

// The odd things that agents do in the field, and what each comes to.
func TestCasesOfA2A(t *testing.T) {
	t.Parallel()
	const (
		card0   = "GET /.well-known/agent-card.json"
		message = `"result":{"kind":"message","role":"agent","parts":[{"kind":"text","text":"42"}]}`
	)
	card := func(rest string) said { return said{body: `{"name":"x","skills":[],` + rest + `}`} }
	v0 := peer{card0: {card(`"protocolVersion":"0.3.0","url":"HOST/a2a"`)}, "message/send": {rpc(message)}}
	v1 := v0.with(card0, card(`"supportedInterfaces":[{"url":"HOST/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]`))
	taskIn := func(state string) said {
		return rpc(`"result":{"kind":"task","id":"t","status":{"state":"` + state + `"}}`)
	}
	for _, test := range []struct {
		name string
		peer peer
		want string
	}{
		{"P01 card under its old name without a version", peer{
			"GET /.well-known/agent.json": {card(`"url":"HOST/a2a"`)}, "message/send": {rpc(message)},
		}, "42"},
		{"P02 relative URL", v0.with(card0, card(`"protocolVersion":"0.3.0","url":"/a2a"`)), "42"},
		{"P03 URL 0.0.0.0", v0.with(card0, card(`"url":"http://0.0.0.0:8000"`)), "blocked private_address"},
		{"P03 URL in a private network", v0.with(card0, card(`"url":"http://10.1.2.3/"`)), "blocked private_address"},
		{"P04 page in place of a card, a card behind it", v0.with(card0, page("<title>app</title>")).with("GET /.well-known/agent.json", card(`"url":"HOST/a2a"`)), "42"},
		{"P04 pages only", peer{card0: {page("<title>app</title>")}, "GET /.well-known/agent.json": {page("<title>app</title>")}}, "error no_card"},
		{"P05 gRPC only", v0.with(card0, card(`"url":"HOST/a2a","preferredTransport":"GRPC"`)), "blocked unsupported_transport"},
		{"P05 HTTP+JSON only", v0.with(card0, card(`"url":"HOST/a2a","preferredTransport":"HTTP+JSON"`)), "blocked unsupported_transport"},
		{"P06 card says 1.0, agent speaks 0.3", v1, "42"},
		{"P06 neither is spoken", v1.with("message/send", rpc(`"error":{"code":-32601,"message":"no"}`)), "error -32601"},
		{"P07 task that gets done", v0.with("message/send", taskIn("working")).with("tasks/get", taskIn("working"),
			rpc(`"result":{"kind":"task","id":"t","status":{"state":"completed"},"artifacts":[{"parts":[{"kind":"text","text":"42"}]}]}`)), "42"},
		{"P07 task that does not", v0.with("message/send", taskIn("working")).with("tasks/get", taskIn("working")), "timeout"},
		{"P08 task that a replica does not know", v0.with("message/send", taskIn("submitted")).with("tasks/get", rpc(`"error":{"code":-32001,"message":"Task not found"}`)), "error -32001"},
		{"P09 text in the status", v0.with("message/send", rpc(
			`"result":{"kind":"task","id":"t","status":{"state":"completed","message":{"parts":[{"kind":"text","text":"42"}]}},"artifacts":[]}`)), "42"},
		{"P09 text in both", v0.with("message/send", rpc(
			`"result":{"kind":"task","id":"t","status":{"state":"completed","message":{"parts":[{"text":"Done."}]}},"artifacts":[{"parts":[{"text":"42"}]}]}`)), "42\nDone."},
		{"P10 message told by its shape", v0.with("message/send", rpc(`"result":{"role":"agent","parts":[{"type":"text","text":"42"}]}`)), "42"},
		{"P11 rejected", v0.with("message/send", taskIn("rejected")), "refused"},
		{"P11 failed", v0.with("message/send", taskIn("failed")), "error failed"},
		{"P11 credentials wanted", v0.with("message/send", taskIn("auth-required")), "blocked auth_wall"},
		{"P12 error in a 200", v0.with("message/send", rpc(`"error":{"code":-32603,"message":"no"}`)), "error -32603"},
		{"P12 error in a 400", v0.with("message/send", said{status: 400, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}`}), "error -32602"},
		{"P12 error in a 500", v0.with("message/send", said{status: 500, body: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no"}}`}), "error -32000"},
		{"P13 rate limit, though it would be over at once", v0.with("message/send", said{status: 429, header: http.Header{"Retry-After": {"0"}}}, rpc(message)), "blocked rate_limited"},
		{"P14 internal error, and well again after it", v0.with("message/send", said{status: 500, body: "oops"}, rpc(message)), "error 500"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := a2a.Client{Net: agents.Loopback(time.Now, nil)}
			deadline := 30 * time.Second
			if test.want == "timeout" {
				deadline = time.Second
			}
			got := outcome(t.Context(), t, client, test.peer.serve(t).URL, task.Ask{Text: "6*7"}, agents.As(identity.Pool()[8]), deadline)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCasesOfMCP(t *testing.T) {
	t.Parallel()
	const (
		hello  = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		answer = `"result":{"content":[{"type":"text","text":"42"}]}`
	)
	list := func(schema string) said {
		return rpc(`"result":{"tools":[{"name":"calc","inputSchema":` + schema + `}]}`)
	}
	failing := func(words string) said {
		return rpc(`"result":{"isError":true,"content":[{"type":"text","text":"` + words + `"}]}`)
	}
	session := http.Header{"Mcp-Session-Id": {"s1"}}
	plain := peer{"initialize": {rpc(hello)}, "tools/list": {list(`{"type":"object"}`)}, "tools/call": {rpc(answer)}}
	kept := plain.with("initialize", said{header: session, body: rpc(hello).body})
	events := http.Header{"Content-Type": {"text/event-stream"}}
	for _, test := range []struct {
		name string
		peer peer
		as   int // identity: 6 takes br, 10 listens
		want string
	}{
		{"P13 rate limit in words", plain.with("tools/call", failing("HTTP 429")), 0, "error failed"},
		{"P14 internal error", plain.with("tools/call", said{status: 502}, rpc(answer)), 0, "error 502"},
		{"P15 no session", plain, 0, "42"},
		{"P16 session lost, 404", kept.with("tools/call", said{status: 404}, rpc(answer)), 0, "42"},
		{"P16 session lost, 400", kept.with("tools/call", said{status: 400, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session"}}`}, rpc(answer)), 0, "42"},
		{"P16 session lost, 401", kept.with("tools/call", said{status: 401}, rpc(answer)), 0, "42"},
		{"P16 400 without a session is an answer", plain.with("tools/call", said{status: 400}, rpc(answer)), 0, "error 400"},
		{"P17 tool gone from the list", plain.with("tools/list", rpc(`"result":{"tools":[]}`)), 0, "blocked tool_gone"},
		{"P17 tool unknown by an error", plain.with("tools/call", rpc(`"error":{"code":-32602,"message":"Unknown tool: calc"}`)), 0, "blocked tool_gone"},
		{"P17 tool unknown by a result", plain.with("tools/call", failing("MCP error -32602: Tool calc not found")), 0, "blocked tool_gone"},
		{"P18 tool failed", plain.with("tools/call", failing("division by zero")), 0, "error failed"},
		{"P19 schema with all there is", plain.with("tools/list", list(
			`{"$defs":{"n":{"type":["number","null"]}},"anyOf":[{"$ref":"#/$defs/n"},{"enum":[1,null]}],"properties":null,"not":{"$ref":"#/$defs/nowhere"}}`)), 0, "42"},
		{"P20 version of the past", plain.with("initialize", rpc(`"result":{"protocolVersion":"2024-10-07"}`)), 0, "42"},
		{"P20 version of the future", plain.with("initialize", rpc(`"result":{"protocolVersion":"2027-01-01"}`)), 0, "42"},
		{"P21 not acceptable", plain.with("tools/call", said{status: 406, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Not Acceptable"}}`}), 0, "error -32000"},
		{"P22 no older transport after a 5xx", plain.with("initialize", said{status: 503}).with("GET /", said{header: events, body: "event: endpoint\ndata: /post\n\n"}), 0, "error 503"},
		{"P23 gzip", plain.with("tools/list", packed("gzip", `{"result":{"tools":[{"name":"calc"}]}}`)), 0, "42"},
		{"P23 deflate", plain.with("tools/list", packed("deflate", `{"result":{"tools":[{"name":"calc"}]}}`)), 0, "42"},
		{"P23 br that was asked for", plain.with("tools/list", packed("br", `{"result":{"tools":[{"name":"calc"}]}}`)), 6, "42"},
		{"P23 br that is none", plain.with("tools/list", said{header: http.Header{"Content-Encoding": {"br"}}, body: "{}, not br at all"}), 6, "error protocol"},
		{"P23 br that was not asked for", plain.with("tools/list", packed("br", `{"result":{"tools":[{"name":"calc"}]}}`)), 0, "error protocol"},
		{"P24 notification with a body", plain.with("notifications/initialized", said{header: http.Header{"Content-Type": {"text/plain"}}, body: "ok"}), 0, "42"},
		{"P24 notification refused", plain.with("notifications/initialized", said{status: 500}), 0, "42"},
		{"P25 no stream, 400", plain.with("GET /", said{status: 400}), 10, "42"},
		{"P25 no stream, 404", plain, 10, "42"},
		{"P25 no stream, 405", plain.with("GET /", said{status: 405}), 10, "42"},
		{"P25 a stream that ends", kept.with("GET /", said{header: events, body: ": hello\n\n"}), 10, "42"},
		{"P27 reply over the limit", plain.with("tools/call", rpc(`"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 3<<20)+`"}]}`)), 0, "error too_large"},
		{"P27 compression bomb", plain.with("tools/call", packed("gzip", strings.Repeat("0", 8<<20))), 0, "error too_large"},
		{"P27 bomb in br", plain.with("tools/list", packed("br", strings.Repeat("0", 8<<20))), 6, "error too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := mcp.Client{Net: agents.Loopback(time.Now, nil)}
			got := outcome(t.Context(), t, client, test.peer.serve(t).URL, task.Ask{Tool: "calc"}, agents.As(identity.Pool()[test.as]), 30*time.Second)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const now = "Mon, 30 Nov 2026 10:00:00 GMT"
	for _, test := range []struct {
		name  string
		value string
		want  time.Duration
	}{
		{"none", "", 0},
		{"seconds", "120", 2 * time.Minute},
		{"a moment", "Mon, 30 Nov 2026 10:05:00 GMT", 5 * time.Minute},
		{"a moment that is over", "Mon, 30 Nov 2026 09:05:00 GMT", 0},
		{"a year", "31536000", 24 * time.Hour},
		{"no time at all", "soon", 0},
		{"less than nothing", "-5", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{429, 503} {
				server := httptest.NewServer(agenttest.Body(status, http.Header{"Retry-After": {test.value}, "Date": {now}}, nil))
				r, err := a2a.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), agents.Call{
					Target: agents.Target{URL: server.URL, Dialect: a2a.V1}, Sender: agents.As(identity.Pool()[0]), Deadline: 30 * time.Second,
				})
				server.Close()
				if err != nil || r.Status != status || r.RetryAfter != test.want {
					t.Errorf("Ask = %+v, %v, want %d and %v", r, err, status, test.want)
				}
			}
		})
	}
}
