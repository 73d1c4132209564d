package keysocket_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/karatum/mystery/commands/keysocket"
)

const asks = "KEYSOCKET_TEST_ASKS"

// TestStranger is the process of another account that [TestStrangersAreCutOff] starts.
func TestStranger(t *testing.T) {
	t.Parallel()
	path := os.Getenv(asks)
	if path == "" {
		t.Skip("it is started by TestStrangersAreCutOff")
	}
	if _, err := client(path).KeyRoot(context.Background(), nonce, 20600, 90); err != nil {
		os.Exit(3)
	}
	os.Exit(4)
}

// The mode of a socket and its folder may let somebody in; the kernel says who it is.
func TestStrangersAreCutOff(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another account")
	}
	const stranger, friend = 65001, 65002
	path := socket(t)
	answering(t, keysocket.Server{Path: path, Roots: ring, Others: []int{friend}})
	eventually(t, path)
	dir := strings.TrimSuffix(path, "/keys.sock")
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := dir + "/test" // where everybody may run it
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		uid  uint32
		code int
	}{"a stranger": {stranger, 3}, "a friend": {friend, 4}} {
		c := exec.CommandContext(t.Context(), program, "-test.run=^TestStranger$")
		c.Dir, c.Env = dir, []string{asks + "=" + path}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.uid, Gid: tt.uid}}
		out, err := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%s: exit code %d, want %d: %v, %s", name, code, tt.code, err, out)
		}
	}
}
