//go:build peers

package mcp_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// Servers of others are understood over both transports, whoever asks.
func TestPeerServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("forty-two"), 0o600); err != nil {
		t.Fatal(err)
	}
	note, err := json.Marshal(map[string]string{"path": filepath.Join(dir, "note.txt")})
	if err != nil {
		t.Fatal(err)
	}
	everything := func(transport string) func(t *testing.T, port string) {
		return func(t *testing.T, port string) {
			t.Helper()
			agenttest.Node(t, []string{"PORT=" + port}, agenttest.Bin("mcp-server-everything"), transport)
		}
	}
	files := func(t *testing.T, port string) {
		t.Helper()
		agenttest.Node(t, nil, agenttest.Bin("mcp-proxy"), "--port", port, "--host", "127.0.0.1", "--",
			"node", agenttest.Bin("mcp-server-filesystem"), dir)
	}
	echo := task.Ask{Tool: "echo", Arguments: json.RawMessage(`{"message":"forty-two"}`)}
	read := task.Ask{Tool: "read_text_file", Arguments: note}
	for _, tt := range []struct {
		name, path string
		start      func(t *testing.T, port string)
		ask        task.Ask
	}{
		{"everything over HTTP", "/mcp", everything("streamableHttp"), echo},
		{"everything over SSE", "/sse", everything("sse"), echo},
		{"files behind a proxy over HTTP", "/mcp", files, read},
		{"files behind a proxy over SSE", "/sse", files, read},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			port := agenttest.FreePort(t)
			tt.start(t, port)
			agenttest.Listens(t, port)
			url := "http://127.0.0.1:" + port + tt.path
			c := mcp.Client{Net: agents.Loopback(time.Now, nil)}
			pool := identity.Pool()
			surface, target, err := c.Observe(t.Context(), url, agents.As(pool[0]))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(surface.Tools, func(tool task.Tool) bool { return tool.Name == tt.ask.Tool }) {
				t.Errorf("Observe finds no %s: %+v", tt.ask.Tool, surface.Tools)
			}
			for _, who := range pool {
				call := agents.Call{Target: target, Ask: tt.ask, Sender: agents.As(who), Deadline: time.Minute}
				reply, err := c.Ask(t.Context(), call)
				if err != nil || reply.Outcome != "" || !strings.Contains(reply.Text, "forty-two") {
					t.Errorf("%s = %+v, %v", who.Name, reply, err)
				}
			}
			gone := agents.Call{Target: target, Ask: task.Ask{Tool: "no_such_tool"}, Sender: agents.As(pool[1]), Deadline: time.Minute}
			if reply, err := c.Ask(t.Context(), gone); err != nil || reply.Outcome != task.Blocked || reply.Code != agents.ToolGone {
				t.Errorf("a tool that is gone = %+v, %v", reply, err)
			}
		})
	}
}

// The house agents are understood by the inspector of the protocol.
func TestPeerInspector(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(house.Handler(house.Options{}))
	defer server.Close()
	inspect := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "node", append([]string{
			agenttest.Bin("mcp-inspector"), "--cli", server.URL + "/demo-agents/steady/mcp", "--transport", "http",
		}, args...)...)
		cmd.Dir, cmd.Stderr = agenttest.Peers(t), t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("mcp-inspector %q: %v", args, err)
		}
		return string(out)
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal([]byte(inspect("--method", "tools/list")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) == 0 {
		t.Fatal("the inspector sees no tools")
	}
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	answer := inspect("--method", "tools/call", "--tool-name", "date_calculation", "--tool-arg",
		"question=Add 161 days to 2028-02-26. Which date is that? Write the date as YYYY-MM-DD and nothing else.")
	if err := json.Unmarshal([]byte(answer), &result); err != nil || result.IsError || len(result.Content) != 1 || result.Content[0].Text == "" {
		t.Errorf("the inspector is told %s (%v)", answer, err)
	}
}
