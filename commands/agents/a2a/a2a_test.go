package a2a_test

import (
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

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/a2a"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

func newClient(n agents.Net) agenttest.Client { return a2a.Client{Net: n} }

func TestClient(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{a2a.V0, a2a.V1} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			agenttest.Run(t, agenttest.Subject{
				Now:     time.Now,
				New:     newClient,
				Ask:     task.Ask{Text: "What is six times seven?"},
				Dialect: dialect,
				Server: func(text string) http.Handler {
					return script(map[string]string{
						"message/send": `"result":{"kind":"message","role":"agent","parts":[{"kind":"text","text":"` + text + `"}]}`,
						"SendMessage":  `"result":{"message":{"role":"ROLE_AGENT","parts":[{"text":"` + text + `"}]}}`,
					})
				},
			})
		})
	}
}

// script answers JSON-RPC methods with fixed members. A method it does not know
// is -32601. Several answers parted by a newline are given one after the other.
func script(answers map[string]string) http.Handler {
	var mu sync.Mutex
	calls := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var frame struct {
			ID     json.RawMessage
			Method string
		}
		if err != nil || json.Unmarshal(body, &frame) != nil {
			http.Error(w, "not a frame", http.StatusBadRequest)
			return
		}
		mu.Lock()
		n := calls[frame.Method]
		calls[frame.Method]++
		mu.Unlock()
		members := `"error":{"code":-32601,"message":"Method not found: ` + frame.Method + `"}`
		if all := strings.Split(answers[frame.Method], "\n"); all[0] != "" {
			members = all[min(n, len(all)-1)]
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, frame.ID, members)
	})
}

func TestAsk(t *testing.T) {
	t.Parallel()
	message := func(m string) map[string]string { return map[string]string{"message/send": m} }
	for _, test := range []struct {
		name    string
		dialect string
		server  http.Handler
		want    agents.Reply
	}{
		{
			"card says 1.0, agent speaks 0.3", a2a.V1,
			script(message(`"result":{"kind":"message","parts":[{"kind":"text","text":"42"}]}`)),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"card says 0.3, agent speaks 1.0", a2a.V0,
			script(map[string]string{
				"message/send": `"error":{"code":-32009,"message":"version not supported"}`,
				"SendMessage":  `"result":{"message":{"parts":[{"text":"42"}]}}`,
			}),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"neither dialect is spoken", a2a.V1, script(nil),
			agents.Reply{Outcome: task.Error, Code: "-32601", Status: 200},
		},
		{
			"task that is done after two looks", a2a.V0,
			script(map[string]string{
				"message/send": `"result":{"kind":"task","id":"t1","status":{"state":"submitted"}}`,
				"tasks/get": `"result":{"kind":"task","id":"t1","status":{"state":"working"}}` + "\n" +
					`"result":{"kind":"task","id":"t1","status":{"state":"completed"},"artifacts":[{"parts":[{"kind":"text","text":"42"}]}]}`,
			}),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"task of 1.0 that is done after a look", a2a.V1,
			script(map[string]string{
				"SendMessage": `"result":{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}}}`,
				"GetTask":     `"result":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"text":"42"}]}]}`,
			}),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"task that a replica does not know", a2a.V0,
			script(map[string]string{
				"message/send": `"result":{"kind":"task","id":"t1","status":{"state":"submitted"}}`,
				"tasks/get":    `"error":{"code":-32001,"message":"task not found"}`,
			}),
			agents.Reply{Outcome: task.Error, Code: "-32001", Status: 200},
		},
		{
			"task that is never done", a2a.V0,
			script(map[string]string{
				"message/send": `"result":{"kind":"task","id":"t1","status":{"state":"working"}}`,
				"tasks/get":    `"result":{"kind":"task","id":"t1","status":{"state":"working"}}`,
			}),
			agents.Reply{Outcome: task.Timeout, Status: 200},
		},
		{
			"pending task without an id", a2a.V0,
			script(message(`"result":{"kind":"task","status":{"state":"working"}}`)),
			agents.Reply{Outcome: task.Error, Code: agents.Protocol, Status: 200},
		},
		{
			"text in the status only", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"completed","message":{"parts":[{"kind":"text","text":"42"}]}},"artifacts":[]}`)),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"text in artifact and status", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"completed","message":{"parts":[{"text":"Done."}]}},"artifacts":[{"parts":[{"text":"42"}]}]}`)),
			agents.Reply{Status: 200, Text: "42\nDone."},
		},
		{
			"message of an old server, told by its shape", a2a.V0,
			script(message(`"result":{"role":"agent","parts":[{"type":"text","text":"42"}]}`)),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"data instead of text", a2a.V0,
			script(message(`"result":{"kind":"message","parts":[{"kind":"data","data":{"answer":42}}]}`)),
			agents.Reply{Status: 200, Text: `{"answer":42}`},
		},
		{
			"rejected", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"rejected"}}`)),
			agents.Reply{Outcome: task.Refused, Status: 200},
		},
		{
			"failed", a2a.V1,
			script(map[string]string{"SendMessage": `"result":{"task":{"id":"t","status":{"state":"TASK_STATE_FAILED"}}}`}),
			agents.Reply{Outcome: task.Error, Code: agents.Failed, Status: 200},
		},
		{
			"cancelled in the other spelling", a2a.V1,
			script(map[string]string{"SendMessage": `"result":{"task":{"id":"t","status":{"state":"TASK_STATE_CANCELLED"}}}`}),
			agents.Reply{Outcome: task.Error, Code: agents.Failed, Status: 200},
		},
		{
			"credentials wanted", a2a.V1,
			script(map[string]string{"SendMessage": `"result":{"task":{"id":"t","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}}`}),
			agents.Reply{Outcome: task.Blocked, Code: agents.AuthWall, Status: 200},
		},
		{
			"asked back with the answer in it", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"input-required","message":{"parts":[{"text":"42. Anything else?"}]}}}`)),
			agents.Reply{Status: 200, Text: "42. Anything else?"},
		},
		{
			"asked back without a word", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"input-required"}}`)),
			agents.Reply{Outcome: task.Refused, Status: 200},
		},
		{
			"a state that does not exist", a2a.V0,
			script(message(`"result":{"kind":"task","id":"t","status":{"state":"meditating"}}`)),
			agents.Reply{Outcome: task.Error, Code: agents.Protocol, Status: 200},
		},
		{
			"a result of another shape", a2a.V0, script(message(`"result":"42"`)),
			agents.Reply{Outcome: task.Error, Code: agents.Protocol, Status: 200},
		},
		{
			"an error in a 400", a2a.V0,
			agenttest.Body(400, nil, []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)),
			agents.Reply{Outcome: task.Error, Code: "-32700", Status: 400},
		},
		{
			"a byte order mark", a2a.V0,
			agenttest.Body(200, nil, []byte("\xef\xbb\xbf"+`{"jsonrpc":"2.0","id":"x","result":{"parts":[{"text":"42"}]}}`)),
			agents.Reply{Status: 200, Text: "42"},
		},
		{
			"an event stream", a2a.V0,
			agenttest.Body(200, http.Header{"Content-Type": {"text/event-stream"}},
				[]byte(": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"kind\":\"message\",\"parts\":[{\"text\":\"42\"}]}}\n\n")),
			agents.Reply{Status: 200, Text: "42"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.server)
			defer server.Close()
			got, err := a2a.Client{Net: agents.Loopback(time.Now, nil)}.Ask(t.Context(), agents.Call{
				Target:   agents.Target{URL: server.URL, Dialect: test.dialect},
				Ask:      task.Ask{Text: "six times seven"},
				Sender:   agents.As(identity.Pool()[1]),
				Deadline: 1500 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Raw) == 0 {
				t.Error("Raw is empty")
			}
			got.Raw, got.Latency = nil, 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Ask (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	const skills = `"skills":[{"id":"conv","name":"Convert","description":"Units.","tags":["units"]}]`
	surface := task.Surface{Kind: task.A2A, Skills: []task.Skill{{ID: "conv", Name: "Convert", Description: "Units.", Tags: []string{"units"}}}}
	spa := "<!doctype html><title>app</title>"
	for _, test := range []struct {
		name  string
		at    string            // registered path
		files map[string]string // HOST stands for the server; any other path is a page
		want  agents.Target     // its URL relative to the server
		code  string            // of the error, with the outcome
	}{
		{
			"0.2 card under its old name", "/bot",
			map[string]string{"/bot/.well-known/agent.json": `{"name":"x","url":"HOST/bot/rpc",` + skills + `}`},
			agents.Target{URL: "/bot/rpc", Dialect: a2a.V0},
			"",
		},
		{
			"relative URL", "/bot/",
			map[string]string{"/bot/.well-known/agent-card.json": `{"name":"x","protocolVersion":"0.3.0","url":"/a2a",` + skills + `}`},
			agents.Target{URL: "/a2a", Dialect: a2a.V0},
			"",
		},
		{
			"1.0 card", "",
			map[string]string{"/.well-known/agent-card.json": `{"name":"x","supportedInterfaces":[
				{"url":"HOST/grpc","protocolBinding":"GRPC","protocolVersion":"1.0"},
				{"url":"HOST/v1","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` + skills + `}`},
			agents.Target{URL: "/v1", Dialect: a2a.V1},
			"",
		},
		{
			"merged card prefers 1.0", "",
			map[string]string{"/.well-known/agent-card.json": `{"name":"x","url":"HOST/v0","protocolVersion":"0.3.0","preferredTransport":"JSONRPC",
				"additionalInterfaces":[{"url":"HOST/v0","transport":"JSONRPC"}],
				"supportedInterfaces":[{"url":"HOST/v0","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
				{"url":"HOST/v1","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` + skills + `}`},
			agents.Target{URL: "/v1", Dialect: a2a.V1},
			"",
		},
		{
			"JSON-RPC among the additional interfaces", "",
			map[string]string{"/.well-known/agent-card.json": `{"url":"HOST/grpc","protocolVersion":"0.3.0","preferredTransport":"GRPC",
				"additionalInterfaces":[{"url":"HOST/rpc","transport":"JSONRPC"}],` + skills + `}`},
			agents.Target{URL: "/rpc", Dialect: a2a.V0},
			"",
		},
		{
			"card at the root that names the endpoint", "/bot",
			map[string]string{"/.well-known/agent-card.json": `{"url":"HOST/bot/rpc","protocolVersion":"0.3.0",` + skills + `}`},
			agents.Target{URL: "/bot/rpc", Dialect: a2a.V0},
			"",
		},
		{
			"card at the root of somebody else", "/bot",
			map[string]string{"/.well-known/agent-card.json": `{"url":"HOST/other/rpc","protocolVersion":"0.3.0",` + skills + `}`},
			agents.Target{},
			"error no_card",
		},
		{
			"URL of the card itself", "/cards/x.json",
			map[string]string{"/cards/x.json": "\xef\xbb\xbf" + `{"url":"HOST/rpc","protocolVersion":"0.3.0",` + skills + `}`},
			agents.Target{URL: "/rpc", Dialect: a2a.V0},
			"",
		},
		{"pages everywhere", "", nil, agents.Target{}, "error no_card"},
		{
			"only gRPC", "",
			map[string]string{"/.well-known/agent-card.json": `{"url":"HOST/","preferredTransport":"GRPC",` + skills + `}`},
			agents.Target{},
			"blocked unsupported_transport",
		},
		{
			"only a version of the future", "",
			map[string]string{"/.well-known/agent-card.json": `{"supportedInterfaces":[{"url":"HOST/","protocolBinding":"JSONRPC","protocolVersion":"2.0"}],` + skills + `}`},
			agents.Target{},
			"blocked unsupported_transport",
		},
		{
			"a URL made on a developer's machine", "",
			map[string]string{"/.well-known/agent-card.json": `{"url":"http://0.0.0.0:8000/","protocolVersion":"0.3.0",` + skills + `}`},
			agents.Target{},
			"blocked private_address",
		},
		{
			"a URL on another host", "",
			map[string]string{"/.well-known/agent-card.json": `{"url":"http://elsewhere.example/","protocolVersion":"0.3.0",` + skills + `}`},
			agents.Target{},
			"blocked unsupported_transport",
		},
		{
			"a card over the limit", "",
			map[string]string{"/.well-known/agent-card.json": `{"url":"HOST/","pad":"` + strings.Repeat("x", 1<<20) + `"}`},
			agents.Target{},
			"error too_large",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var base string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				file, ok := test.files[r.URL.Path]
				if !ok {
					w.Header().Set("Content-Type", "text/html")
					file = spa
				}
				io.WriteString(w, strings.ReplaceAll(file, "HOST", base))
			}))
			defer server.Close()
			base = server.URL
			client := a2a.Client{Net: agents.Loopback(time.Now, nil)}
			gotSurface, target, err := client.Observe(t.Context(), base+test.at, agents.As(identity.Pool()[3]))
			if test.code != "" {
				var e *agents.Error
				if !errors.As(err, &e) || string(e.Outcome)+" "+e.Code != test.code {
					t.Fatalf("Observe = %v, %v, want %s", target, err, test.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			target.URL = strings.TrimPrefix(target.URL, base)
			if diff := cmp.Diff(test.want, target); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(surface, gotSurface); diff != "" {
				t.Errorf("surface (-want +got):\n%s", diff)
			}
		})
	}
}

// The house agents are served by the SDK of the protocol's authors.
func TestHouse(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String()
	server.Config.Handler = house.Handler(house.Options{Base: base})
	server.Start()
	defer server.Close()
	client := a2a.Client{Net: agents.Loopback(time.Now, nil)}
	surface, target, err := client.Observe(t.Context(), base+"/demo-agents/steady/", agents.As(identity.Pool()[0]))
	if err != nil {
		t.Fatal(err)
	}
	if want := (agents.Target{URL: base + "/demo-agents/steady/a2a", Dialect: a2a.V1}); target != want || len(surface.Skills) == 0 {
		t.Errorf("Observe = %+v, %+v, want skills and %+v", surface, target, want)
	}
	for _, dialect := range []string{a2a.V0, a2a.V1} {
		target.Dialect = dialect
		for _, id := range identity.Pool() {
			r, err := client.Ask(t.Context(), agents.Call{
				Target: target, Sender: agents.As(id), Deadline: 10 * time.Second,
				Ask: task.Ask{Text: "What is 15% of 1,240? Round to 2 decimals."},
			})
			if err != nil || r.Outcome != "" || r.Text != "186.00" {
				t.Errorf("%s as %s: Ask = %+v, %v, want 186.00", dialect, id.Name, r, err)
			}
		}
	}
}

// FuzzResult reads results that an agent made up.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"kind":"task","id":"t","status":{"state":"completed","message":{"parts":[{"text":"x"}]}},"artifacts":[{"parts":[{"data":{}}]}]}`))
	f.Add([]byte(`{"task":{"status":{"state":"TASK_STATE_REJECTED"}}}`))
	f.Add([]byte(`{"message":{"parts":null}}`))
	f.Fuzz(func(t *testing.T, result []byte) {
		text, err := a2a.ReadResult(result)
		var e *agents.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%q: %v is not about the agent", result, err)
		}
		if err == nil && !json.Valid(result) {
			t.Errorf("%q is not JSON but has text %q", result, text)
		}
	})
}
