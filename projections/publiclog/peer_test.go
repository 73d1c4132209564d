//go:build peers

package publiclog_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections/publiclog"
)

// litewitness is the witness that public logs use today.
const litewitness = "filippo.io/torchwood/cmd/litewitness@v0.6.1"

// TestPeerLitewitness has a real witness cosign a real run, and refuse a log of
// another history under the same key.
func TestPeerLitewitness(t *testing.T) {
	t.Parallel()
	const name = "witness.example/lite"
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("sqlite3 is missing, which tells litewitness of logs (Debian: apt-get install sqlite3)")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", litewitness)
	install.Dir = dir // not in this module, whose go.sum does not know it
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", litewitness, err, out)
	}
	w, fork := newWorld(t), newWorld(t)

	key := ed25519.NewKeyFromSeed([]byte("a key of a witness, for tests..."))
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	database := filepath.Join(dir, "w.db")
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "litewitness"), "-name", name, "-key", ssh.FingerprintSHA256(signer.PublicKey()),
		"-ssh-agent", serveKey(t, key), "-db", database, "-listen", address)
	run.Stdout, run.Stderr = t.Output(), t.Output()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	waitFor(t, "http://"+address+"/")
	empty := "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" // SHA-256 of nothing
	tell := exec.CommandContext(t.Context(), sqlite, "-cmd", ".timeout 10000", database, fmt.Sprintf(
		`insert into log values ('%[1]s', 0, '%[2]s'); insert into key values ('%[1]s', '%[3]s');`, origin, empty, w.vkey))
	if out, err := tell.CombinedOutput(); err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}

	cosigner, err := torchwood.NewCosignatureSigner(name, key)
	if err != nil {
		t.Fatal(err)
	}
	list := cosigner.Verifier().String() + " http://" + address + "\nquorum 1\n"
	for _, world := range []*world{w, fork} {
		if world.publisher.Witnesses, world.publisher.Quorum, err = publiclog.ParseWitnesses(strings.NewReader(list)); err != nil {
			t.Fatal(err)
		}
	}
	p := policy(t, w.vkey)
	p.Witnesses, p.Quorum = append(p.Witnesses, cosigner.Verifier()), 1
	for _, n := range []int{1, 1, 10, 700, 3} {
		h := w.grow(n)
		if c, _, err := p.Open(h.Note); err != nil || c.Size != h.Size {
			t.Fatalf("the checkpoint of %d leaves, cosigned by litewitness: %v", h.Size, err)
		}
	}

	fork.n = 1 // begins with another record
	fork.add(3000)
	fork.integrate()
	fork.pass(every)
	if err := fork.publisher.Publish(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Publish of another history = %v, want ErrUnavailable", err)
	}
	if _, err := fork.reader.Head(t.Context()); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Head of another history = %v, want ErrNotFound", err)
	}
	w.grow(5) // the true one goes on
}

// serveKey runs an SSH agent that holds a key, and returns its socket.
func serveKey(t *testing.T, key ed25519.PrivateKey) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: &key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn) }() // until the other end is closed
		}
	}()
	return socket
}

// freeAddress returns an address that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waitFor waits until something answers at url.
func waitFor(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return
		}
	}
	t.Fatalf("nobody answers at %s", url)
}
