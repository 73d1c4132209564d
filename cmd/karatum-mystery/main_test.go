package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	wallet = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"
	token  = "erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0"
)

// env returns an environment with a state directory of its own, which the
// database's account can enter.
func env(t *testing.T, more map[string]string) func(string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "karatum-mystery-test-") //nolint:usetesting // the server's account cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return func(name string) string {
		if v, ok := more[name]; ok {
			return v
		}
		if strings.HasPrefix(name, "MYSTERY_RPC_") {
			return "none" // of tests nobody else hears
		}
		return map[string]string{"MYSTERY_STATE_DIR": filepath.Join(dir, "state"), "HOME": dir}[name]
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown command", []string{"frobnicate"}, exitUsage, "unknown command"},
		{"unknown flag", []string{"serve", "--frobnicate"}, exitUsage, "unknown flag"},
		{"stray argument", []string{"work", "hard"}, exitUsage, "hard"},
		{"flag missing", []string{"agent", "register", "--build", "42"}, exitUsage, "wallet"},
		{"wallet with a bad checksum", []string{"agent", "register", "--build", "42", "--wallet", strings.Replace(wallet, "E", "e", 1)}, exitUsage, "--wallet"},
		{"no agent", []string{"agent", "register", "--wallet", wallet}, exitUsage, "agent"},
		{"a build and an agent", []string{"agent", "register", "--build", "42", "--agent", "build:42", "--wallet", wallet}, exitUsage, "none of the others"},
		{"a wallet for an agent on a registry", []string{"agent", "register", "--agent", token, "--wallet", wallet}, exitUsage, "registry"},
		{"an agent that is none", []string{"agent", "register", "--agent", "build:042", "--wallet", wallet}, exitUsage, "--agent"},
		{"transferred to nobody", []string{"agent", "transfer", "--build", "42"}, exitUsage, "wallet"},
		{"a certificate without a name", []string{"agent", "certificate", "record", "--build", "42"}, exitUsage, "certificate"},
		{"a certificate withdrawn without a reason", []string{"agent", "certificate", "withdraw", "--build", "42", "--certificate", "c", "--reason", ""}, exitUsage, "--reason"},
		{"build in upper case", []string{"agent", "register", "--build", "ABC", "--wallet", wallet}, exitUsage, "lower case"},
		{"nothing to withdraw", []string{"agent", "withdraw", "--build", "42", "--reason", "moved"}, exitUsage, "identity"},
		{"withdrawn without a reason", []string{"agent", "withdraw", "--build", "42", "--identity", "https://a.example", "--reason", ""}, exitUsage, "--reason"},
		{"erase nothing", []string{"ledger", "erase", "--reason", "x"}, exitUsage, "shop"},
		{"erase without a reason", []string{"ledger", "erase", "--shop", "shp_mfzwizlsmjrxg43vmvzc_20260301_07"}, exitUsage, "reason"},
		{"erase what is no shop", []string{"ledger", "erase", "--shop", "shp_1", "--reason", "x"}, exitUsage, "--shop"},
		{"export to nowhere", []string{"ledger", "export"}, exitUsage, "arg"},
		{"import from nowhere", []string{"ledger", "import"}, exitUsage, "arg"},
		{"park nothing", []string{"projections", "park", "--reason", "x"}, exitUsage, "arg"},
		{"park without a reason", []string{"projections", "park", "agents", "agent/build:42"}, exitUsage, "reason"},
		{"park for no reason", []string{"projections", "park", "agents", "agent/build:42", "--reason", " "}, exitUsage, "--reason"},
		{"retry too much", []string{"projections", "retry", "agents", "agent/build:42", "x"}, exitUsage, "arg"},
		{"a tail of nothing", []string{"ledger", "tail", "--lines", "-1"}, exitUsage, "--lines"},
		{"both and neither", []string{"serve", "--work", "--no-work"}, exitUsage, "none of the others"},
		{"two scopes at once", []string{"programme", "pause", "--host", "agent.example", "--identity", "1", "--reason", "x"}, exitUsage, "none of the others"},
		{"a pause without a reason", []string{"programme", "pause"}, exitUsage, "reason"},
		{"no host", []string{"programme", "pause", "--host", "https://agent.example", "--reason", "x"}, exitUsage, "host"},
		{"no template", []string{"programme", "pause", "--template", "unit", "--reason", "x"}, exitUsage, "unit"},
		{"no identity of the pool", []string{"programme", "resume", "--identity", "12", "--reason", "x"}, exitUsage, "0 to 11"},
		{"no key", []string{"programme", "retire-key", "current", "--reason", "x"}, exitUsage, "hex"},
		{"attempts out of range", []string{"exam", "run", "--agent", "build:42", "--name", "x", "--attempts", "0"}, exitUsage, "--attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			if code := run(t.Context(), tt.args, env(t, nil), io.Discard, &stderr); code != tt.code {
				t.Errorf("run(%v) = %d, want %d", tt.args, code, tt.code)
			}
			if !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("run(%v) says %q, want %q in it", tt.args, stderr.String(), tt.says)
			}
		})
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	if code := run(t.Context(), []string{"help"}, env(t, nil), &stdout, t.Output()); code != 0 {
		t.Fatalf("help = %d", code)
	}
	source, err := os.ReadFile(filepath.Join("..", "internal", "assembly", "config.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`MYSTERY_[A-Z_]+[A-Z]`).FindAllString(string(source), -1)
	if len(names) == 0 {
		t.Fatal("config.go names no variable")
	}
	for _, name := range names {
		if !strings.Contains(stdout.String(), name) {
			t.Errorf("help does not name %s", name)
		}
	}
}

// TestOperate runs the service on a private database and operates it from other
// processes meanwhile, as an operator does.
func TestOperate(t *testing.T) {
	t.Parallel()
	getenv := env(t, map[string]string{"MYSTERY_OPERATOR_ADDR": "127.0.0.1:0"})
	ctx, stop := context.WithCancel(t.Context())
	log := new(lines)
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, getenv, io.Discard, log) }()
	base := "http://" + log.find(t, serving)

	do := func(args ...string) (string, string, int) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, getenv, &stdout, &stderr)
		return stdout.String(), stderr.String(), code
	}
	out, _, code := do("agent", "register", "--build", "42", "--wallet", wallet, "--certificate", "cert-1", "--json")
	if code != 0 {
		t.Fatalf("register = %d", code)
	}
	var known struct {
		Agent        string   `json:"agent"`
		Wallet       string   `json:"wallet"`
		Certificates []string `json:"certificates"`
	}
	if err := json.Unmarshal([]byte(out), &known); err != nil || known.Agent != "build:42" || known.Wallet != wallet || len(known.Certificates) != 1 {
		t.Errorf("register --json printed %q (%v)", out, err)
	}
	if _, _, code := do("agent", "verify-identity", "--build", "42", "--identity", "https://agent.example/a2a"); code != 0 {
		t.Errorf("verify-identity = %d", code)
	}
	// The API of the serving process shows what another process recorded.
	body := eventually(t, base+"/v1/mystery/agents/build:42", "https://agent.example/a2a")
	if !strings.Contains(body, wallet) {
		t.Errorf("the agent is served without its owner: %s", body)
	}
	if _, _, code := do("agent", "withdraw", "--build", "42", "--identity", "https://agent.example/a2a", "--reason", "moved"); code != 0 {
		t.Errorf("withdraw = %d", code)
	}
	if _, msg, code := do("agent", "withdraw", "--build", "42", "--identity", "https://agent.example/a2a", "--reason", "moved"); code != exitNotFound {
		t.Errorf("withdrawing twice = %d (%s), want %d", code, msg, exitNotFound)
	}
	if _, msg, code := do("agent", "register", "--build", "42", "--wallet", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"); code != exitRefused {
		t.Errorf("registering with another wallet = %d (%s), want %d", code, msg, exitRefused)
	}
	owns(t, do)
	if _, msg, code := do("exam", "run", "--agent", "build:42", "--name", "one"); code != exitNotFound {
		t.Errorf("an exam without a consent = %d (%s), want %d", code, msg, exitNotFound)
	}
	pauses(t, do, base)
	eventually(t, base+"/ledger/checkpoint", "/ledger\n")
	rotates(t, do, base)
	eventually(t, "http://"+log.find(t, operating)+"/metrics", `mystery_projection_parked_streams{projection="shops"} 0`)
	eventually(t, base+"/metrics", "not-found")
	if body := eventually(t, base+"/readyz", "o"); strings.ContainsAny(body, "0123456789") {
		t.Errorf("/readyz shows numbers: %s", body)
	}
	stop()
	if code := <-served; code != 0 {
		t.Errorf("serve = %d after being stopped, want 0; it said %s", code, log)
	}
}

// owns transfers an agent, withdraws its certificate and records another, and asks
// for the owner of an agent on a registry, which no node can tell here.
func owns(t *testing.T, do func(args ...string) (string, string, int)) {
	t.Helper()
	const other = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	if out, _, code := do("agent", "transfer", "--build", "42", "--wallet", other, "--json"); code != 0 || !strings.Contains(out, other) {
		t.Errorf("transfer = %d, %s", code, out)
	}
	if out, _, code := do("agent", "transfer", "--build", "42", "--wallet", wallet, "--reason", "a slip"); code != 0 || !strings.Contains(out, wallet) {
		t.Errorf("transfer back = %d, %s", code, out)
	}
	if out, _, code := do("agent", "certificate", "record", "--agent", "build:42", "--certificate", "cert-2"); code != 0 || !strings.Contains(out, "cert-1, cert-2") {
		t.Errorf("certificate record = %d, %s", code, out)
	}
	if out, _, code := do("agent", "certificate", "withdraw", "--build", "42", "--certificate", "cert-1", "--reason", "expired"); code != 0 || strings.Contains(out, "cert-1") {
		t.Errorf("certificate withdraw = %d, %s", code, out)
	}
	if _, msg, code := do("agent", "transfer", "--build", "7", "--wallet", wallet); code != exitNotFound {
		t.Errorf("transfer of a stranger = %d (%s), want %d", code, msg, exitNotFound)
	}
	if _, msg, code := do("agent", "register", "--agent", token); code != exitUsage || !strings.Contains(msg, "node of chain 84532") {
		t.Errorf("register on a registry without a node = %d (%s), want %d", code, msg, exitUsage)
	}
}

// pauses pauses and resumes two scopes while the service runs.
func pauses(t *testing.T, do func(args ...string) (string, string, int), base string) {
	t.Helper()
	if _, _, code := do("programme", "pause", "--reason", "maintenance"); code != 0 {
		t.Errorf("pause = %d", code)
	}
	eventually(t, base+"/v1/mystery", `"paused":true`)
	if _, _, code := do("programme", "pause", "--host", "Agent.example", "--reason", "it complains"); code != 0 {
		t.Errorf("pause of a host = %d", code)
	}
	if out, _, code := do("doctor"); code != 0 || !strings.Contains(out, "paused: everything, host/agent.example:443") {
		t.Errorf("doctor = %d, %s", code, out)
	}
	if out, _, code := do("programme", "resume", "--reason", "done"); code != 0 || !strings.Contains(out, "host/agent.example:443") {
		t.Errorf("resume = %d, %s, want what is still paused", code, out)
	}
	body := eventually(t, base+"/v1/mystery", `"paused":false`)
	if !strings.Contains(body, `"scope":"host/agent.example:443"`) || !strings.Contains(body, "it complains") {
		t.Errorf("the pause of a host is not public: %s", body)
	}
	out, _, code := do("programme", "resume", "--host", "agent.example:443", "--reason", "settled", "--json")
	if code != 0 || !strings.Contains(out, `"paused":false,"pauses":[]`) {
		t.Errorf("resume of a host = %d, %s", code, out)
	}
	if _, msg, code := do("programme", "pause", "--consent", "cns_aaaaaaaaaaaaaaaaaaaa", "--reason", "x"); code != exitNotFound {
		t.Errorf("pause of a consent that never was = %d (%s), want %d", code, msg, exitNotFound)
	}
}

// rotates goes over to another operator secret while the service runs.
func rotates(t *testing.T, do func(args ...string) (string, string, int), base string) {
	t.Helper()
	type standing struct {
		Keys []struct {
			Key             string
			Retired         string
			Secret, Current bool
		} `json:"operatorKeys"`
	}
	keys := func(args ...string) (s standing) {
		out, msg, code := do(append(args, "--json")...)
		if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil {
			t.Fatalf("%v = %d, %v (%s)", args, code, err, msg)
		}
		return s
	}
	first := keys("programme", "status").Keys
	if len(first) != 1 || !first[0].Current || !first[0].Secret {
		t.Fatalf("before a rotation the keys are %+v", first)
	}
	if _, msg, code := do("programme", "retire-key", first[0].Key, "--reason", "x"); code != exitRefused {
		t.Errorf("retiring the only key = %d (%s), want %d", code, msg, exitRefused)
	}
	rotated := keys("programme", "rotate-key").Keys
	s := keys("programme", "status").Keys
	if len(s) != 2 || s[0].Key != first[0].Key || s[0].Current || !s[1].Current || !s[0].Secret || !s[1].Secret {
		t.Fatalf("after a rotation the keys are %+v", s)
	}
	if diff := cmp.Diff(s, rotated); diff != "" {
		t.Errorf("rotate-key shows other keys than status does afterwards (-status +rotate-key):\n%s", diff)
	}
	if out, _, code := do("doctor"); code != 0 || !strings.Contains(out, "2 at hand") || !strings.Contains(out, s[1].Key) {
		t.Errorf("doctor = %d, %s", code, out)
	}
	if s = keys("programme", "retire-key", first[0].Key, "--reason", "a year is over").Keys; s[0].Retired == "" || s[1].Retired != "" {
		t.Errorf("after the first was retired the keys are %+v", s)
	}
	eventually(t, base+"/v1/mystery", "a year is over")
}

// eventually waits for a GET answer that holds text.
func eventually(t *testing.T, url, text string) string {
	t.Helper()
	var body string
	for range 100 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if body = string(data); strings.Contains(body, text) {
			return body
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("GET %s = %s, want %q in it", url, body, text)
	return ""
}

// lines is the log of a serving process.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var (
	serving   = regexp.MustCompile(`"msg":"serving","address":"([^"]+)"`)
	operating = regexp.MustCompile(`"msg":"the operator is served","address":"([^"]+)"`)
)

// find waits for a line of the log, and returns the address in it.
func (l *lines) find(t *testing.T, line *regexp.Regexp) string {
	t.Helper()
	for range 300 {
		if m := line.FindStringSubmatch(l.String()); m != nil {
			return m[1]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("serve does not listen; it said %s", l)
	return ""
}
