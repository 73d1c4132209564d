//go:build peers

package mcp_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/house"
)

// conforms are the scenarios of the suite for servers that the house agents must pass.
var conforms = []string{
	"server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
}

// excluded are the others, with the reason why the house agents cannot pass them.
var excluded = map[string]string{
	"tools-call-simple-text":        calls,
	"tools-call-image":              calls,
	"tools-call-audio":              calls,
	"tools-call-embedded-resource":  calls,
	"tools-call-mixed-content":      calls,
	"tools-call-with-logging":       calls,
	"tools-call-error":              calls,
	"tools-call-with-progress":      calls,
	"tools-call-sampling":           calls,
	"tools-call-elicitation":        calls,
	"json-schema-2020-12":           calls,
	"elicitation-sep1034-defaults":  calls,
	"elicitation-sep1330-enums":     calls,
	"resources-read-text":           reads,
	"resources-read-binary":         reads,
	"resources-templates-read":      reads,
	"resources-subscribe":           reads,
	"resources-unsubscribe":         reads,
	"prompts-get-simple":            gets,
	"prompts-get-with-args":         gets,
	"prompts-get-embedded-resource": gets,
	"prompts-get-with-image":        gets,
	"completion-complete":           "it completes arguments of prompts and resources, and the agents have none and do not offer completion",
	"server-sse-polling":            keeps,
	"server-sse-multiple-streams":   keeps,
}

const (
	calls = "it calls a tool that is made for the suite; that tools of the agents can be called is shown by the inspector and by our client"
	reads = "it reads a resource that is made for the suite, and the agents have none"
	gets  = "it gets a prompt that is made for the suite, and the agents have none"
	keeps = "it resumes the streams of a session, and the agents keep none"
)

// The house agents pass the conformance suite of the protocol, as far as it is about
// servers like them.
func TestPeerConformance(t *testing.T) {
	t.Parallel()
	suite := func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), node22(t), append([]string{
			filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
		}, args...)...)
		cmd.Dir, cmd.Stderr = filepath.Join(agenttest.Peers(t), "conformance"), t.Output()
		out, err := cmd.Output()
		return string(out), err
	}
	list, err := suite("list", "--server")
	if err != nil {
		t.Fatalf("the suite does not list its scenarios: %v\n%s", err, list)
	}
	named := make(map[string]bool)
	for _, name := range conforms {
		named[name] = true
	}
	for name, why := range excluded {
		named[name] = true
		t.Logf("%s is excluded: %s", name, why)
	}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "-" {
			continue
		}
		if !named[fields[1]] {
			t.Errorf("the scenario %s is neither demanded nor excluded", fields[1])
		}
		delete(named, fields[1])
	}
	for name := range named {
		t.Errorf("the suite has no scenario %s", name)
	}

	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String()
	server.Config.Handler = house.Handler(house.Options{Base: base})
	server.Start()
	defer server.Close()
	for _, agent := range []string{"steady", "exam-aware"} {
		dir := t.TempDir()
		// It ends as failed, for it runs those that are excluded as well: one run of all
		// takes less time than one of each.
		out, err := suite("server", "--url", base+"/demo-agents/"+agent+"/mcp", "--suite", "all", "--output-dir", dir)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		for _, name := range conforms {
			passed := 0
			for _, c := range checksIn(t, dir, name) {
				switch c.Status {
				case "SUCCESS":
					passed++
				case "INFO":
				default:
					t.Errorf("%s, %s: the check %s says %s: %s", agent, name, c.ID, c.Status, c.Message)
				}
			}
			if passed == 0 {
				t.Errorf("%s passes no check of %s:\n%s", agent, name, out)
			}
		}
	}
}

// A check is what the suite wrote down of one of its checks.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"errorMessage"`
}

// checksIn reads the checks of a scenario from the folder of results.
func checksIn(t *testing.T, dir, name string) (list []check) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "server-"+name+"-2*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the suite left the results %q of %s, %v", files, name, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// node22 returns a Node.js that the suite runs on: the one that is installed with it, or
// on other systems than Linux whatever there is.
func node22(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	own := filepath.Join("node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	own, err := filepath.Abs(filepath.Join(agenttest.Peers(t), "conformance", own))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own); err != nil {
		return "node"
	}
	return own
}
