package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

const (
	hello = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	list  = `"result":{"tools":[{"name":"calc","description":"Calculates.","inputSchema":{"type":"object","properties":{"q":{"$ref":"#/$defs/nowhere"}}}}]}`
	none  = `"result":{"tools":[]}`
)

func text(s string) string { return `"result":{"content":[{"type":"text","text":"` + s + `"}]}` }

func TestClient(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Subject{
		Now: time.Now,
		New: func(n agents.Net) agenttest.Client { return mcp.Client{Net: n} },
		Ask: task.Ask{Tool: "calc", Arguments: json.RawMessage(`{"q":"6*7"}`)},
		Server: func(answer string) http.Handler {
			return &server{answers: map[string]string{"initialize": hello, "tools/list": list, "tools/call": text(answer)}}
		},
	})
}

// server is a scripted MCP server. Several answers parted by a newline are given
// one after the other; one that is a number is an HTTP status.
type server struct {
	answers map[string]string
	session string // handed out on initialize and demanded afterwards
	sse     bool   // answer with event streams
	notify  int    // status of the answer to a notification; 0: 202
	noise   string // messages on a stream before the answer

	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	calls  map[string]int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost {
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	if a := r.Header.Get("Accept"); !strings.Contains(a, "application/json") || !strings.Contains(a, "text/event-stream") {
		http.Error(w, "Not Acceptable", http.StatusNotAcceptable)
		return
	}
	body, err := io.ReadAll(r.Body)
	var frame struct {
		ID     json.RawMessage
		Method string
	}
	if err != nil || json.Unmarshal(body, &frame) != nil {
		http.Error(w, "not a frame", http.StatusBadRequest)
		return
	}
	s.bodies, s.heads = append(s.bodies, string(body)), append(s.heads, r.Header)
	if frame.ID == nil {
		if s.notify == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(s.notify)
		io.WriteString(w, "whatever")
		return
	}
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	all := strings.Split(s.answers[frame.Method], "\n")
	members := all[min(s.calls[frame.Method], len(all)-1)]
	s.calls[frame.Method]++
	var status int
	if n, _ := fmt.Sscanf(members, "%3d", &status); n == 1 {
		http.Error(w, "session not found", status)
		return
	}
	if s.session != "" {
		if frame.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", s.session)
		} else if r.Header.Get("Mcp-Session-Id") != s.session {
			http.Error(w, "no session", http.StatusBadRequest)
			return
		}
	} else if r.Header.Get("Mcp-Session-Id") != "" {
		http.Error(w, "which session", http.StatusBadRequest)
		return
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, frame.ID, members)
	if s.sse {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprintf(w, "%sevent: message\r\ndata: %s\r\n\r\n", s.noise, message)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a stream that stays open is no reason to wait
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, message)
}

func call(url string) agents.Call {
	return agents.Call{
		Target: agents.Target{URL: url}, Sender: agents.As(identity.Pool()[10]), Deadline: 5 * time.Second,
		Ask: task.Ask{Tool: "calc", Arguments: json.RawMessage(`{"q":"6*7"}`)},
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	plain := func(tools, result string) map[string]string {
		return map[string]string{"initialize": hello, "tools/list": tools, "tools/call": result}
	}
	for _, test := range []struct {
		name   string
		server *server
		want   agents.Reply
	}{
		{"without a session", &server{answers: plain(list, text("42"))}, agents.Reply{Status: 200, Text: "42"}},
		{"with a session", &server{session: "abc", answers: plain(list, text("42"))}, agents.Reply{Status: 200, Text: "42"}},
		{
			"on a stream with other messages, left open", &server{
				sse: true, answers: plain(list, text("42")),
				noise: ": ping\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}\n\n",
			}, agents.Reply{Status: 200, Text: "42"},
		},
		{"answer to the notification with a body", &server{notify: 200, answers: plain(list, text("42"))}, agents.Reply{Status: 200, Text: "42"}},
		{
			"protocol version of the future", &server{answers: map[string]string{
				"initialize": `"result":{"protocolVersion":"2031-01-01"}`, "tools/list": list, "tools/call": text("42"),
			}}, agents.Reply{Status: 200, Text: "42"},
		},
		{"session lost in the middle", &server{session: "abc", answers: plain("404\n"+list, text("42"))}, agents.Reply{Status: 200, Text: "42"}},
		{"session lost before the call", &server{session: "abc", answers: plain(list, "404\n"+text("42"))}, agents.Reply{Status: 200, Text: "42"}},
		{"session lost for good", &server{session: "abc", answers: plain(list, "404")}, agents.Reply{Outcome: task.Error, Code: "404", Status: 404}},
		{"internal error is final", &server{session: "abc", answers: plain(list, "500\n"+text("42"))}, agents.Reply{Outcome: task.Error, Code: "500", Status: 500}},
		{"tool gone from the list", &server{answers: plain(none, text("42"))}, agents.Reply{Outcome: task.Blocked, Code: agents.ToolGone}},
		{
			"tool unknown by a JSON-RPC error", &server{answers: plain(list, `"error":{"code":-32602,"message":"Unknown tool: calc"}`)},
			agents.Reply{Outcome: task.Blocked, Code: agents.ToolGone, Status: 200},
		},
		{
			"tool unknown by a result", &server{answers: plain(list, `"result":{"isError":true,"content":[{"type":"text","text":"MCP error -32602: Tool calc not found"}]}`)},
			agents.Reply{Outcome: task.Blocked, Code: agents.ToolGone, Status: 200, Text: "MCP error -32602: Tool calc not found"},
		},
		{
			"tool gone between list and call", &server{answers: plain(list+"\n"+none, `"error":{"code":-32603,"message":"internal"}`)},
			agents.Reply{Outcome: task.Blocked, Code: agents.ToolGone, Status: 200},
		},
		{
			"tool failed", &server{answers: plain(list, `"result":{"isError":true,"content":[{"type":"text","text":"division by zero"}]}`)},
			agents.Reply{Outcome: task.Error, Code: agents.Failed, Status: 200, Text: "division by zero"},
		},
		{
			"rate limit in the words of a tool", &server{answers: plain(list, `"result":{"isError":true,"content":[{"type":"text","text":"HTTP 429"}]}`)},
			agents.Reply{Outcome: task.Error, Code: agents.Failed, Status: 200, Text: "HTTP 429"},
		},
		{
			"invalid params", &server{answers: plain(list, `"error":{"code":-32602,"message":"invalid"}`)},
			agents.Reply{Outcome: task.Error, Code: "-32602", Status: 200},
		},
		{
			"content of many types", &server{answers: plain(list, `"result":{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"42"},
				{"type":"resource","resource":{"uri":"x:y","text":"43"}},{"type":"hologram"}],"structuredContent":{"n":42}}`)},
			agents.Reply{Status: 200, Text: "42\n43"},
		},
		{
			"structured content alone", &server{answers: plain(list, `"result":{"content":[],"structuredContent":{"n":42}}`)},
			agents.Reply{Status: 200, Text: `{"n":42}`},
		},
		{"result of another shape", &server{answers: plain(list, `"result":[42]`)}, agents.Reply{Outcome: task.Error, Code: agents.Protocol, Status: 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			hs := httptest.NewServer(flatten(test.server))
			defer hs.Close()
			got, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), call(hs.URL+"/mcp"))
			if err != nil {
				t.Fatal(err)
			}
			got.Raw, got.Latency = nil, 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Ask (-want +got):\n%s", diff)
			}
		})
	}
}

// flatten makes one line of the answers that are written over several here, as a
// newline parts answers.
func flatten(s *server) *server {
	for method, answer := range s.answers {
		s.answers[method] = strings.ReplaceAll(answer, "\n\t", "")
	}
	return s
}

// The frames of the TypeScript SDK, which most clients are built on, byte for
// byte: keys in its order, ids from 0, no params where there are none.
func TestFrames(t *testing.T) {
	t.Parallel()
	s := &server{session: "abc", answers: map[string]string{"initialize": hello, "tools/list": list, "tools/call": text("42")}}
	hs := httptest.NewServer(s)
	defer hs.Close()
	if _, err := (mcp.Client{Net: agents.Loopback(time.Now, nil)}).Ask(t.Context(), call(hs.URL)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"note-sorter","version":"0.3.1"}},"jsonrpc":"2.0","id":0}`,
		`{"method":"notifications/initialized","jsonrpc":"2.0"}`,
		`{"method":"tools/list","jsonrpc":"2.0","id":1}`,
		`{"method":"tools/call","params":{"name":"calc","arguments":{"q":"6*7"}},"jsonrpc":"2.0","id":2}`,
	}
	if diff := cmp.Diff(want, s.bodies); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	for i, h := range s.heads {
		version, session := "2025-06-18", "abc"
		if i == 0 {
			version, session = "", ""
		}
		if h.Get("Mcp-Protocol-Version") != version || h.Get("Mcp-Session-Id") != session || h.Get("User-Agent") != "node" {
			t.Errorf("head %d = %v, want version %q, session %q and the user agent node", i, h, version, session)
		}
	}
}

// An older server offers an event stream by GET, says on it where to post, and
// answers on it.
func TestLegacy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, endpoint string
		want           agents.Reply
	}{
		{"same host", "/messages?session=1", agents.Reply{Status: 202, Text: "42"}},
		{"another host", "http://elsewhere.example/messages", agents.Reply{Outcome: task.Blocked, Code: agents.UnsupportedTransport}},
		{"a private address", "http://10.0.0.1/messages", agents.Reply{Outcome: task.Blocked, Code: agents.PrivateAddress}},
		{"where a server listens", "http://0.0.0.0:8000/messages", agents.Reply{Outcome: task.Blocked, Code: agents.PrivateAddress}},
		{"no URL", "http://[/messages", agents.Reply{Outcome: task.Error, Code: "405", Status: 405}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			frames := make(chan string, 10)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", test.endpoint)
				for {
					w.(http.Flusher).Flush()
					select {
					case f := <-frames:
						fmt.Fprintf(w, "event: message\ndata: %s\n\n", f)
					case <-r.Context().Done():
						return
					}
				}
			})
			mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
				var frame struct {
					ID     json.RawMessage
					Method string
				}
				if err := json.NewDecoder(r.Body).Decode(&frame); err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusAccepted)
				answers := map[string]string{"initialize": hello, "tools/list": list, "tools/call": text("42")}
				if a, ok := answers[frame.Method]; ok {
					frames <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, frame.ID, a)
				}
			})
			hs := httptest.NewServer(mux)
			defer hs.Close()
			got, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), call(hs.URL+"/sse"))
			if err != nil {
				t.Fatal(err)
			}
			got.Raw, got.Latency = nil, 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Ask (-want +got):\n%s", diff)
			}
		})
	}
}

// What a tool says of itself is heard where it is said as the protocol has it.
func TestObserveDestructive(t *testing.T) {
	t.Parallel()
	for annotations, want := range map[string]bool{
		`{}`:                         false,
		`{"readOnlyHint":false}`:     false,
		`{"destructiveHint":true}`:   true,
		`{"destructiveHint":"true"}`: false,
		`["destructiveHint"]`:        false,
		`null`:                       false,
		`{"readOnlyHint":true,"destructiveHint":true}`:  false, // which then means nothing
		`{"readOnlyHint":false,"destructiveHint":true}`: true,
	} {
		tools := `"result":{"tools":[{"name":"calc","annotations":` + annotations + `}]}`
		hs := httptest.NewServer(&server{answers: map[string]string{"initialize": hello, "tools/list": tools}})
		surface, _, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Observe(t.Context(), hs.URL, agents.As(identity.Pool()[0]))
		hs.Close()
		if err != nil || len(surface.Tools) != 1 || surface.Tools[0].Destructive != want {
			t.Errorf("a tool with annotations %s: %+v, %v, want destructive %t", annotations, surface.Tools, err, want)
		}
	}
}

func TestObservePages(t *testing.T) {
	t.Parallel()
	page := func(i int, next string) string {
		return fmt.Sprintf(`"result":{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"%s"}`, i, next)
	}
	for _, test := range []struct {
		name  string
		pages string
		want  int
	}{
		{"two pages", page(1, "a") + "\n" + page(2, ""), 2},
		{"the same cursor for ever", page(1, "a"), 2},
		{"pages without end", strings.Join([]string{
			page(1, "1"), page(2, "2"), page(3, "3"), page(4, "4"), page(5, "5"), page(6, "6"), page(7, "7"), page(8, "8"),
			page(9, "9"), page(10, "10"), page(11, "11"), page(12, "12"), page(13, "13"), page(14, "14"), page(15, "15"),
			page(16, "16"), page(17, "17"), page(18, "18"), page(19, "19"), page(20, "20"), page(21, "21"), page(22, "22"),
		}, "\n"), 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			hs := httptest.NewServer(&server{answers: map[string]string{"initialize": hello, "tools/list": test.pages}})
			defer hs.Close()
			surface, target, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Observe(t.Context(), hs.URL, agents.As(identity.Pool()[0]))
			if err != nil || len(surface.Tools) != test.want || target.URL != hs.URL || surface.Kind != task.MCP {
				t.Errorf("Observe = %d tools, %+v, %v, want %d tools", len(surface.Tools), target, err, test.want)
			}
		})
	}
}

// The servers of the Go SDK, with and without sessions, with streams and JSON.
func TestSDK(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "sums", Version: "1"}, nil)
	type in struct {
		Numbers []int `json:"numbers"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "sum"}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, map[string]int, error) {
		sum := 0
		for _, n := range in.Numbers {
			sum += n
		}
		return nil, map[string]int{"sum": sum}, nil
	})
	for _, o := range []sdk.StreamableHTTPOptions{{}, {Stateless: true}, {JSONResponse: true}, {Stateless: true, JSONResponse: true}} {
		hs := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &o))
		defer hs.Close()
		for _, id := range identity.Pool() {
			c := call(hs.URL)
			c.Sender, c.Ask = agents.As(id), task.Ask{Tool: "sum", Arguments: json.RawMessage(`{"numbers":[40,2]}`)}
			r, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), c)
			if err != nil || r.Outcome != "" || r.Text != `{"sum":42}` {
				t.Errorf("stateless %v, JSON %v, %s: Ask = %+v, %v, want {\"sum\":42}", o.Stateless, o.JSONResponse, id.Name, r, err)
			}
		}
	}
	hs := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil))
	defer hs.Close()
	c := call(hs.URL)
	c.Ask = task.Ask{Tool: "sum", Arguments: json.RawMessage(`{"numbers":[40,2]}`)}
	if r, err := (mcp.Client{Net: agents.Loopback(time.Now, nil)}).Ask(t.Context(), c); err != nil || r.Text != `{"sum":42}` {
		t.Errorf("older transport: Ask = %+v, %v, want {\"sum\":42}", r, err)
	}
}

// An identity on the TypeScript SDK opens its stream between the notification and
// the list, and does not wait for what comes on it; others open none.
func TestListens(t *testing.T) {
	t.Parallel()
	for i, want := range map[int][]string{
		0:  {"initialize", "notifications/initialized", "tools/list", "tools/call"},
		10: {"initialize", "notifications/initialized", "GET text/event-stream abc 2025-06-18", "tools/list", "tools/call"},
	} {
		s := &server{session: "abc", answers: map[string]string{"initialize": hello, "tools/list": list, "tools/call": text("42")}}
		var mu sync.Mutex
		var got []string
		open := make(chan struct{})
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				mu.Lock()
				got = append(got, strings.Join([]string{"GET", r.Header.Get("Accept"), r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version")}, " "))
				mu.Unlock()
				close(open)
				<-r.Context().Done() // not even a head
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			var frame struct{ Method string }
			if err := json.Unmarshal(body, &frame); err != nil {
				t.Error(err)
			}
			if i == 10 && frame.Method == "tools/list" {
				<-open // written before, and perhaps not read before
			}
			mu.Lock()
			got = append(got, frame.Method)
			mu.Unlock()
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			s.ServeHTTP(w, r)
		}))
		defer hs.Close()
		c := call(hs.URL)
		c.Sender, c.Deadline = agents.As(identity.Pool()[i]), 30*time.Second
		if r, err := (mcp.Client{Net: agents.Loopback(time.Now, nil)}).Ask(t.Context(), c); err != nil || r.Text != "42" {
			t.Errorf("identity %d: Ask = %+v, %v, want 42", i, r, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests of identity %d (-want +got):\n%s", i, diff)
		}
	}
}

// A server without sessions knows no initialize, in one way or another, and takes
// the same tool call all the same.
func TestStateless(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "sums", Version: "1"}, nil)
	type in struct {
		Numbers []int `json:"numbers"`
	}
	for _, name := range []string{"sum", "Ünits"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in in
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(in.Numbers[0] + in.Numbers[1])}}}, nil
		})
	}
	modern := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	for _, test := range []struct {
		name    string
		status  int
		refusal string // of initialize
		tool    string
	}{
		{"method not found", 404, `{"code":-32601,"message":"Method not found"}`, "sum"},
		{"version not supported", 400, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}`, "sum"},
		{"a name beyond ASCII", 200, `{"code":-32601,"message":"Method not found"}`, "Ünits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if strings.Contains(string(body), "initialize") {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(test.status)
					io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":`+test.refusal+`}`)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				modern.ServeHTTP(w, r)
			}))
			defer hs.Close()
			for _, id := range identity.Pool() {
				c := call(hs.URL)
				c.Sender, c.Ask = agents.As(id), task.Ask{Tool: test.tool, Arguments: json.RawMessage(`{"numbers":[40,2]}`)}
				r, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), c)
				if err != nil || r.Outcome != "" || r.Text != "42" {
					t.Errorf("%s: Ask = %+v %s, %v, want 42", id.Name, r, r.Raw, err)
				}
			}
		})
	}
	t.Run("another version still", func(t *testing.T) {
		t.Parallel()
		hs := httptest.NewServer(&server{answers: map[string]string{
			"initialize": `"error":{"code":-32022,"message":"no"}`, "server/discover": `"result":{"supportedVersions":["2031-01-01"]}`,
		}})
		defer hs.Close()
		r, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), call(hs.URL))
		if err != nil || r.Outcome != task.Error || r.Code != agents.Protocol {
			t.Errorf("Ask = %+v, %v, want error protocol", r, err)
		}
	})
}

func TestHouse(t *testing.T) {
	t.Parallel()
	hs := httptest.NewServer(house.Handler(house.Options{Base: "http://house.example"}))
	defer hs.Close()
	// A name as it would stand in a consent, and not the listener's own.
	client := mcp.Client{Net: agents.Loopback(time.Now, map[string]string{"house.example:80": hs.Listener.Addr().String()})}
	const endpoint = "http://house.example/demo-agents/steady/mcp"
	surface, target, err := client.Observe(t.Context(), endpoint, agents.As(identity.Pool()[0]))
	if err != nil || len(surface.Tools) != 6 || target.URL != endpoint {
		t.Fatalf("Observe = %+v, %+v, %v, want 6 tools", surface, target, err)
	}
	for _, sender := range []agents.Sender{agents.As(identity.Pool()[0]), agents.Harness()} {
		c := call(endpoint)
		c.Sender, c.Ask = sender, task.Ask{Tool: "convert_units", Arguments: json.RawMessage(`{"value":26.2,"from":"miles","to":"kilometers"}`)}
		if r, err := client.Ask(t.Context(), c); err != nil || r.Text != "42.164813" {
			t.Errorf("%s: Ask = %+v, %v, want 42.164813", sender.Name, r, err)
		}
	}
}

// FuzzResult reads results that a server made up.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1},"isError":true}`))
	f.Add([]byte(`{"content":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, result []byte) {
		_, _, err := mcp.ParseResult(&agents.Answer{Result: result})
		var e *agents.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%q: %v is not about the agent", result, err)
		}
	})
}

// TestGateClosesBeforeTheCall closes the gate between the session and the call:
// the server gets to know the client, and never the question.
func TestGateClosesBeforeTheCall(t *testing.T) {
	t.Parallel()
	s := &server{answers: map[string]string{"initialize": hello, "tools/list": list, "tools/call": text("42")}}
	listener := httptest.NewServer(s)
	defer listener.Close()
	revoked := errors.New("revoked meanwhile")
	asked, held := 0, 0
	_, err := mcp.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), agents.Call{
		Target:   agents.Target{URL: listener.URL},
		Ask:      task.Ask{Tool: "calc", Arguments: json.RawMessage(`{"q":"6*7"}`)},
		Sender:   agents.As(identity.Pool()[0]),
		Deadline: 10 * time.Second,
		Gate: func(context.Context) (func(), error) {
			if asked++; asked > 1 {
				return nil, revoked
			}
			held++
			return func() { held-- }, nil
		},
	})
	if !errors.Is(err, revoked) || asked != 2 || held != 0 {
		t.Errorf("Ask: %v after the gate was asked %d times, held %d times; want its refusal at the second", err, asked, held)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls["tools/list"] != 1 || s.calls["tools/call"] != 0 {
		t.Errorf("%d lists and %d calls reached the server, want one and none", s.calls["tools/list"], s.calls["tools/call"])
	}
}
