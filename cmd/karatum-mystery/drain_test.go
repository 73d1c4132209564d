package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/migrations/pgtest"
)

// playsProgram makes the test binary the program itself, a process that can be sent signals.
const playsProgram = "KARATUM_MYSTERY_IS_MAIN"

func TestMain(m *testing.M) {
	if text := os.Getenv(scaleWorld); text != "" {
		os.Exit(playScale(text))
	}
	if os.Getenv(playsProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process starts the program as a process of its own. It is killed at the end of the test
// if it has not ended before.
func process(t *testing.T, getenv func(string) string, log io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return processOf(t, self, getenv, log, args...)
}

// processOf starts a program like process.
func processOf(t *testing.T, program string, getenv func(string) string, log io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = []string{playsProgram + "=1", "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{
		"HOME", "MYSTERY_STATE_DIR", "MYSTERY_DATABASE_URL", "MYSTERY_CHECKPOINT_INTERVAL", "MYSTERY_KEYS_SOCKET",
		"MYSTERY_RPC_84532", "MYSTERY_RPC_11155111",
	} {
		if v := getenv(name); v != "" {
			c.Env = append(c.Env, name+"="+v)
		}
	}
	c.Stderr, c.Stdout = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEndsWithoutDroppingAnybody tells a process to end while a request is under way.
func TestEndsWithoutDroppingAnybody(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": newDatabase(t, admin, "drain")})
	log := new(lines)
	serve := process(t, getenv, log, "serve", "--work", "--listen", "127.0.0.1:0", "--drain", "15s")
	address := log.find(t, serving)
	eventually(t, "http://"+address+"/readyz", "ok")

	// The server asks for the body once its handler wants it: then the request is under way.
	const body = `{"agent":"build:42"}`
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := fmt.Fprintf(conn, "POST /v1/mystery/consents/challenge HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body)); err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the body is not asked for: %q, %v", line, err)
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "http://"+address+"/readyz", "about to end")
	if text := eventually(t, "http://"+address+"/v1/mystery", "terms"); !strings.Contains(text, `"paused"`) {
		t.Errorf("while it says that it ends, it answers %s", text)
	}
	for range 600 { // until nobody is let in any more
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			_ = c.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.ReadString('\n'); err != nil { // the line behind 100 Continue
		t.Fatal(err)
	}
	res, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatalf("the request under way is not answered: %v; it said %s", err, log)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	// What is said depends on how long the server was willing to wait for the body.
	if err != nil || res.StatusCode/100 != 4 || !bytes.Contains(text, []byte("problems/")) {
		t.Errorf("the request under way is answered with %d, %s, %v", res.StatusCode, text, err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("it ended with %v; it said %s", err, log)
	}
	if code := run(t.Context(), []string{"ledger", "verify"}, getenv, io.Discard, t.Output()); code != 0 {
		t.Errorf("verify afterwards = %d", code)
	}
}

// What the parts in front rest on must be there until they have ended.
func TestPartsEndInTheirOrder(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, stop := context.WithCancel(t.Context())
	finish, ended, begun := make(chan struct{}), make(chan error, 1), make(chan func() error, 1)
	go func() {
		ended <- together(ctx, []part{func(ctx context.Context) error {
			<-ctx.Done()
			<-finish
			return nil
		}}, []part{func(ctx context.Context) error {
			begun <- ctx.Err
			<-ctx.Done()
			return nil
		}})
	}()
	base := <-begun
	stop()
	if base() != nil {
		t.Error("what the parts in front rest on ends before them")
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Errorf("together = %v, want nil", err)
	}
	for name, parts := range map[string][2][]part{
		"in front": {{waits, func(context.Context) error { return failed }}, {waits}},
		"beneath":  {{waits}, {waits, func(context.Context) error { return failed }}},
	} {
		if err := together(t.Context(), parts[0], parts[1]); !errors.Is(err, failed) {
			t.Errorf("a part %s fails: together = %v, want %v", name, err, failed)
		}
	}
	if err := together(t.Context(), []part{func(context.Context) error { return nil }}, []part{waits}); !errors.Is(err, context.Canceled) {
		t.Errorf("the part in front ends by itself: together = %v, want that the others are told", err)
	}
}
