package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/commands/keysocket"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
)

// The process that strangers talk to holds no secret: what owners sign it asks of work,
// and while that is away all else goes on.
func TestServeHoldsNoSecret(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	url := newDatabase(t, admin, "keys")
	socket := filepath.Join(filepath.Dir(env(t, nil)("MYSTERY_STATE_DIR")), "keys.sock")
	more := map[string]string{"MYSTERY_DATABASE_URL": url, "MYSTERY_KEYS_SOCKET": socket}
	worker, server := env(t, more), env(t, more)

	var refused bytes.Buffer
	if code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0"}, server, io.Discard, &refused); code != exitError ||
		!strings.Contains(refused.String(), "start karatum-mystery work first") {
		t.Errorf("serve on a ledger that is not begun = %d, %s, want that it leaves that to work", code, &refused)
	}
	work := process(t, worker, io.Discard, "work")
	log := new(lines)
	var front func() answered // asks for a challenge
	for range 100 {           // until work has begun the ledger
		again := process(t, server, log, "serve", "--listen", "127.0.0.1:0")
		ended := make(chan error, 1)
		go func() { ended <- again.Wait() }()
		for front == nil {
			if m := serving.FindStringSubmatch(log.String()); m != nil {
				front = challenger(t, "http://"+m[1])
				break
			}
			select {
			case <-ended:
			case <-time.After(100 * time.Millisecond):
				continue
			}
			break
		}
		if front != nil {
			break
		}
	}
	if front == nil {
		t.Fatalf("serve does not serve: %s", log)
	}
	if code := run(t.Context(), []string{"agent", "register", "--build", "42", "--wallet", wallet, "--certificate", "KC-1"}, server, io.Discard, t.Output()); code != 0 {
		t.Fatalf("register, where no secret is = %d", code)
	}
	challenged := func(status int) string {
		t.Helper()
		for range 300 { // challenges themselves are limited, so they are no way to find out
			c := keysocket.Client{Path: socket, Log: slog.New(slog.DiscardHandler)}
			if _, err := c.KeyRoot(t.Context(), domain.Hash{1}, 20600, 30); (err == nil) == (status == http.StatusOK) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		a := front()
		if a.status != status || (status == http.StatusServiceUnavailable) != (a.retryAfter != "") {
			t.Fatalf("a challenge is answered with %+v, want %d; serve said %s", a, status, log)
		}
		return a.text
	}
	var c struct {
		Payload struct{ OperatorKey, PlanKeyRoot string }
	}
	if err := json.Unmarshal([]byte(challenged(http.StatusOK)), &c); err != nil || c.Payload.OperatorKey == "" || c.Payload.PlanKeyRoot == "" {
		t.Errorf("the challenge holds %+v, %v", c, err)
	}
	doctor := func() string {
		var out bytes.Buffer
		run(t.Context(), []string{"doctor"}, server, &out, t.Output())
		return out.String()
	}
	if text := doctor(); !strings.Contains(text, c.Payload.OperatorKey) || !strings.Contains(text, "not for this account to read") {
		t.Errorf("doctor does not say that work is asked, and has the key %s:\n%s", c.Payload.OperatorKey, text)
	}

	if err := work.Process.Signal(syscall.SIGSTOP); err != nil { // it hangs
		t.Fatal(err)
	}
	if text := challenged(http.StatusServiceUnavailable); !strings.Contains(text, "problems/keys-unavailable") {
		t.Errorf("while work hangs, a challenge is answered with %s", text)
	}
	if err := work.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = work.Wait() // it was killed
	challenged(http.StatusServiceUnavailable)
	if text := doctor(); !strings.Contains(text, "nobody answers at "+socket) {
		t.Errorf("doctor does not say that nobody answers:\n%s", text)
	}
	base := "http://" + serving.FindStringSubmatch(log.String())[1]
	eventually(t, base+"/readyz", "ok")
	eventually(t, base+"/v1/mystery", "terms")
	process(t, worker, io.Discard, "work")
	challenged(http.StatusOK)

	for _, name := range []string{"operator.secret", "log.key"} {
		if _, err := os.Stat(filepath.Join(server("MYSTERY_STATE_DIR"), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("serve has %s: %v", name, err)
		}
	}
}

// answered is what came of a request.
type answered struct {
	status           int
	retryAfter, text string
}

// challenger returns what asks the service at base for a challenge.
func challenger(t *testing.T, base string) func() answered {
	t.Helper()
	const body = `{"agent":"build:42","endpoints":[{"kind":"mcp","url":"https://agent.example/mcp"}],"kinds":["mcp"],
		"maxPerDay":6,"maxPerWeek":30,"validityDays":30,"revealDelaySeconds":3600}`
	return func() answered {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/mystery/consents/challenge", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answered{res.StatusCode, res.Header.Get("Retry-After"), string(text)}
	}
}
