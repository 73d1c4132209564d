//go:build peers

package agenttest

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Peers returns the folder of the programs of others.
func Peers(t *testing.T) string {
	t.Helper()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	return peers
}

// Node starts a program of Node.js in the folder of the peers until t ends and returns
// what it writes to its standard output.
func Node(t *testing.T, env []string, args ...string) io.Reader {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = Peers(t), append(os.Environ(), env...), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it starts itself ends with it
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
	})
	return out
}

// FirstLine returns the first line of out.
func FirstLine(t *testing.T, out io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("a peer said %q and ended: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// Bin is the program of a package of npm.
func Bin(name string) string { return filepath.Join("node_modules", ".bin", name) }

// FreePort returns a port that nobody listened on a moment ago.
func FreePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Listens waits until somebody listens on a port of this machine.
func Listens(t *testing.T, port string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			return
		}
	}
	t.Fatalf("nobody listens on port %s", port)
}
