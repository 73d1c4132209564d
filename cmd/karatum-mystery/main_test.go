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
)

const wallet = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"

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
		{"build in upper case", []string{"agent", "register", "--build", "ABC", "--wallet", wallet}, exitUsage, "lower case"},
		{"nothing to withdraw", []string{"agent", "withdraw", "--build", "42", "--reason", "moved"}, exitUsage, "identity"},
		{"withdrawn without a reason", []string{"agent", "withdraw", "--build", "42", "--identity", "https://a.example", "--reason", ""}, exitUsage, "--reason"},
		{"both and neither", []string{"serve", "--work", "--no-work"}, exitUsage, "none of the others"},
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
	getenv := env(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	log := new(lines)
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, getenv, io.Discard, log) }()
	base := "http://" + log.address(t)

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
	if _, msg, code := do("exam", "run", "--agent", "build:42", "--name", "one"); code != exitNotFound {
		t.Errorf("an exam without a consent = %d (%s), want %d", code, msg, exitNotFound)
	}
	if _, _, code := do("programme", "pause", "--reason", "maintenance"); code != 0 {
		t.Errorf("pause = %d", code)
	}
	eventually(t, base+"/v1/mystery", `"paused":true`)
	if out, _, code := do("doctor"); code != 0 || !strings.Contains(out, "paused") {
		t.Errorf("doctor = %d, %s", code, out)
	}
	if _, _, code := do("programme", "resume", "--reason", "done"); code != 0 {
		t.Errorf("resume = %d", code)
	}
	stop()
	if code := <-served; code != 0 {
		t.Errorf("serve = %d after being stopped, want 0; it said %s", code, log)
	}
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

var serving = regexp.MustCompile(`"msg":"serving","address":"([^"]+)"`)

func (l *lines) address(t *testing.T) string {
	t.Helper()
	for range 300 {
		if m := serving.FindStringSubmatch(l.String()); m != nil {
			return m[1]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("serve does not listen; it said %s", l)
	return ""
}
