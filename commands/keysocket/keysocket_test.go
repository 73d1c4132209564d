package keysocket_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/keysocket"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
)

var (
	ring  = commands.Keyring{{1}, {2}}
	nonce = domain.Hash{7}
	want  = commands.KeyRoot{OperatorKey: programme.OperatorKey(ring[1]), PlanKeyRoot: plan.KeyRoot(ring[1], nonce, 20600, 90)}
)

// socket returns a path that is short enough for one.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keys-") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "keys.sock")
}

// answering runs a server until the test ends or what it returns is called.
func answering(t *testing.T, s keysocket.Server) (stop func()) {
	t.Helper()
	s.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

func client(path string) *keysocket.Client {
	return &keysocket.Client{Path: path, Log: slog.New(slog.DiscardHandler)}
}

// eventually asks until there is an answer.
func eventually(t *testing.T, path string) {
	t.Helper()
	var err error
	for range 600 {
		var got commands.KeyRoot
		if got, err = client(path).KeyRoot(t.Context(), nonce, 20600, 90); err == nil {
			if got != want {
				t.Errorf("KeyRoot = %+v, want %+v", got, want)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("nobody answers: %v", err)
}

func TestKeyRoot(t *testing.T) {
	t.Parallel()
	path := socket(t)
	_, err := client(path).KeyRoot(t.Context(), nonce, 20600, 90)
	if !errors.Is(err, domain.ErrUnavailable) || domain.CodeOf(err) != domain.KeysUnavailable {
		t.Errorf("KeyRoot while nobody answers = %v, want %s", err, domain.KeysUnavailable)
	}
	if strings.Contains(fmt.Sprint(err), path) {
		t.Errorf("KeyRoot = %v, which tells strangers of the machine", err)
	}
	answering(t, keysocket.Server{Path: path, Roots: ring})
	eventually(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestOthersMayAsk(t *testing.T) {
	t.Parallel()
	path := socket(t)
	answering(t, keysocket.Server{Path: path, Roots: ring, Others: []int{4711}})
	eventually(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket has mode %v, %v, want 0660", info.Mode(), err)
	}
}

// One process answers; when it is gone, or there is a socket that nobody listens at,
// another one does.
func TestAnotherProcessTakesOver(t *testing.T) {
	t.Parallel()
	path := socket(t)
	dead, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := dead.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	first := answering(t, keysocket.Server{Path: path, Roots: ring})
	eventually(t, path)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	answering(t, keysocket.Server{Path: path, Roots: ring})
	first()
	eventually(t, path)
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
		t.Errorf("the socket of the process that is gone still stands there: %v", err)
	}
}

func TestNoSuchFolder(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"no folder": filepath.Join(filepath.Dir(socket(t)), "none", "keys.sock"), "a long path": "/tmp/" + strings.Repeat("x", 100),
	} {
		s := keysocket.Server{Path: path, Roots: ring, Log: slog.New(slog.DiscardHandler)}
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("Run with %s = nil", name)
		}
	}
}

// What is no question for the keys of a consent is refused, and so is a flood.
func TestBadQuestions(t *testing.T) {
	t.Parallel()
	path := socket(t)
	answering(t, keysocket.Server{Path: path, Roots: ring})
	eventually(t, path)
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	for _, tt := range []struct{ name, body string }{
		{"nothing", ""},
		{"no object", "[]"},
		{"no nonce", `{"firstDay":20600,"days":90}`},
		{"a short nonce", `{"nonce":"07","firstDay":20600,"days":90}`},
		{"no days", `{"nonce":"` + nonce.String() + `","firstDay":20600,"days":0}`},
		{"too many days", `{"nonce":"` + nonce.String() + `","firstDay":20600,"days":366}`},
		{"days beyond the last one", `{"nonce":"` + nonce.String() + `","firstDay":4294967295,"days":90}`},
		{"far too much", `{"nonce":"` + nonce.String() + `","firstDay":20600,"days":90}` + strings.Repeat(" ", 1<<20)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://keys/v1/plan-key-root", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			if tt.name != "far too much" { // the connection is ended while it is sent
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", tt.name, res.Status)
		}
	}
	eventually(t, path)
}

// A process that hangs is not waited for without end, and what is no answer is none.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing": "", "no root": `{"operatorKey":"` + nonce.String() + `"}`, "no object": "7", "a flood": strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(body))
			})}
			go func() { _ = s.Serve(l) }()
			defer s.Close()
			if root, err := client(path).KeyRoot(t.Context(), nonce, 20600, 90); !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("KeyRoot = %+v, %v, want ErrUnavailable", root, err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		path := socket(t)
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if root, err := client(path).KeyRoot(t.Context(), nonce, 20600, 90); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("KeyRoot = %+v, %v, want ErrUnavailable", root, err)
		}
	})
}
