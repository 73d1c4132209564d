//go:build peers

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The script of docs/PRODUCERS.md, which knows nothing of our code, appends an event.
func TestPeerShellProducer(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "PRODUCERS.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(doc)
	if script == nil {
		t.Fatal("docs/PRODUCERS.md has no script")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"genpkey", "-algorithm", "ed25519", "-out", "recorder.key"},
		{"pkey", "-in", "recorder.key", "-pubout", "-out", "recorder.pub"},
	} {
		cmd := exec.CommandContext(t.Context(), "openssl", args...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	getenv := env(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	log := new(lines)
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, getenv, io.Discard, log) }()
	base := "http://" + log.find(t, serving)
	args := []string{
		"producer", "register", "--id", "session-recorder", "--key-id", "2026-10", "--public-key", filepath.Join(dir, "recorder.pub"),
		"--type", "session.*", "--stream", "session/",
	}
	if code := run(t.Context(), args, getenv, io.Discard, t.Output()); code != 0 {
		t.Fatalf("register = %d", code)
	}
	for _, authority := range []string{"localhost:8080", "other.example"} {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "sh")
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(script[1]), &out, t.Output()
		cmd.Env = append(os.Environ(), "URL="+base, "AUTHORITY="+authority)
		failed := cmd.Run()
		var answer struct {
			Type   string
			Events []struct{ Status string }
		}
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("for %s the script ends with %v and prints %s", authority, failed, &out)
		}
		if ok := failed == nil && len(answer.Events) == 1 && answer.Events[0].Status == "recorded"; ok != (authority == "localhost:8080") {
			t.Errorf("for %s the script ends with %v and prints %s", authority, failed, &out)
		}
	}
	stop()
	if code := <-served; code != 0 {
		t.Errorf("serve = %d after being stopped, want 0; it said %s", code, log)
	}
}
