package assembly_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/migrations/pgtest"
)

// TestLogKey begins a log, loses its key, and comes with another one.
func TestLogKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	dir := t.TempDir()
	c := assembly.Config{DatabaseURL: pgtest.URL(t), StateDir: dir, PublicURL: "https://log.example:8443"}
	var logged bytes.Buffer
	open := func() (*assembly.Programme, error) {
		return assembly.Open(t.Context(), c, assembly.Options{
			Schema: pgtest.Schema(pool), Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	}
	step := func() error {
		p, err := open()
		if err != nil {
			return err
		}
		defer p.Close()
		if err := p.PublishLedger(t.Context()); err != nil {
			return err
		}
		h, err := p.Ledger.Head(t.Context())
		if err == nil && h.Origin != "log.example:8443/ledger" {
			t.Errorf("the log is called %s", h.Origin)
		}
		return err
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	path, ours := c.LogKeyPath()
	info, err := os.Stat(path)
	if err != nil || !ours || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key is at %s: %v, %v; want a file of mode 600", path, info, err)
	}
	if err := step(); err != nil {
		t.Errorf("a second start: %v", err)
	}

	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := step(); err != nil {
		t.Errorf("without its key the log is not served: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a second key was made: %v", err)
	}
	if !strings.Contains(logged.String(), "the key of the public log is not here") {
		t.Errorf("logged was %s", logged.String())
	}

	other, err := checkpoint.PrivateKey("log.example:8443/ledger", domain.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		err        error
	}{
		{"another key", other, 0o600, domain.ErrForbidden},
		{"no key", "secret", 0o600, domain.ErrInvalid},
		{"a key that others can read", string(kept), 0o644, domain.ErrForbidden},
		{"its key again", string(kept), 0o600, nil},
	} {
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := step(); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
		if strings.Contains(logged.String(), tt.text) {
			t.Errorf("%s: it was logged", tt.name)
		}
	}
	c.LogKeyFile = filepath.Join(dir, "nowhere")
	if err := step(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v, want that it is not", err)
	}
}

func TestPublicLogConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "10m0s", "1s": "1s", "90m": "1h30m0s", "24h": "24h0m0s"} {
		if d, err := (assembly.Config{CheckpointInterval: text}).CheckpointEvery(); err != nil || d.String() != want {
			t.Errorf("CheckpointEvery of %q = %s, %v; want %s", text, d, err, want)
		}
	}
	for _, text := range []string{"0", "999ms", "25h", "-10m", "10", "often"} {
		if d, err := (assembly.Config{CheckpointInterval: text}).CheckpointEvery(); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("CheckpointEvery of %q = %s, %v; want ErrInvalid", text, d, err)
		}
	}
	file := filepath.Join(t.TempDir(), "witnesses")
	if err := os.WriteFile(file, []byte("quorum 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (assembly.Config{WitnessFile: file}).Witnesses(); !errors.Is(err, domain.ErrInvalid) || !strings.Contains(err.Error(), file) {
		t.Errorf("Witnesses with a quorum of nobody = %v, want ErrInvalid and the file named", err)
	}
	if _, _, err := (assembly.Config{WitnessFile: file + "x"}).Witnesses(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Witnesses from nowhere = %v", err)
	}
}
