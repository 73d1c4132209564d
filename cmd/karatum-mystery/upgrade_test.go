package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/migrations/pgtest"
)

// successor builds the program as a later version of it: with one more migration, and
// with what edit makes of a file of the read models. It returns where it is.
func successor(t *testing.T, name string, edit func(agents string) string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	known, err := filepath.Glob(filepath.Join(root, "migrations", "[0-9]*.sql"))
	if err != nil || len(known) == 0 {
		t.Fatalf("there are no migrations: %v", err)
	}
	agents := filepath.Join(root, "projections", "agents.go")
	source, err := os.ReadFile(agents)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range map[string]string{
		filepath.Join(root, "migrations", fmt.Sprintf("%04d_successor.sql", len(known)+1)): `
			alter table {{.schema}}.events add column region text not null default 'here';
			create table {{.schema}}.novelties (n int primary key);
			grant select on {{.schema}}.novelties to mystery_app;`,
		agents: edit(string(source)),
	} {
		replace[file] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

// A service is upgraded under load, twice: to a version that adds to the database, and to
// one that in addition makes a read model anew. Nobody is turned away meanwhile, and
// nothing is lost.
func TestUpgrade(t *testing.T) {
	if raceDetector {
		t.Skip("other processes do it; run it without the race detector")
	}
	t.Parallel()
	adds := successor(t, "adds", func(agents string) string { return agents })
	version := regexp.MustCompile(`Name: "agents", Version: \d+`)
	renews := successor(t, "renews", func(agents string) string {
		raised := version.ReplaceAllString(agents, `${0}0`)
		if raised == agents {
			t.Fatal("the version of the agents' read model is not where it was")
		}
		return raised
	})

	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	url := newDatabase(t, admin, "upgrade")
	getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": url, "MYSTERY_CHECKPOINT_INTERVAL": "1s"})
	key := ed25519.NewKeyFromSeed([]byte("the key of one that writes on..."))
	begin := func(program string, args ...string) (*exec.Cmd, *lines) {
		log := new(lines)
		return processOf(t, program, getenv, log, append(args, "--listen", "127.0.0.1:0", "--drain", "1s")...), log
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	now, log := begin(self, "serve", "--work")
	var base atomic.Value // of the URLs of the process that is written to
	base.Store("http://" + log.find(t, serving))
	for _, args := range [][]string{
		{"agent", "register", "--build", "42", "--wallet", wallet},
		{"producer", "register", "--id", "recorder", "--key-id", "k", "--public-key", publicKey(t, key), "--type", "session.*", "--stream", "session/"},
	} {
		if code := run(t.Context(), args, getenv, t.Output(), t.Output()); code != 0 {
			t.Fatalf("%v = %d", args, code)
		}
	}

	// One writes and reads on, session after session.
	var written atomic.Int64
	var enough atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			for n := int64(1); !enough.Load(); n++ {
				c := producers.Client{
					URL: base.Load().(string), Authority: "localhost:8080", Signer: producer.Signer{Producer: "recorder", Key: "k", Private: key}, Now: time.Now,
				}
				opened := session.Opened{Session: fmt.Sprintf("ses_%d", n), Agent: "build:42", Kind: session.Runtime, StartedAt: "2026-10-16T10:00:00Z"}
				event, err := c.Sign(ledger.Stream("session/"+opened.Session), opened, opened.Session, time.Now())
				if err != nil {
					return err
				}
				if _, err := c.Send(t.Context(), event); err != nil {
					return fmt.Errorf("write session %d: %w", n, err)
				}
				written.Store(n)
				if err := answers(t.Context(), c.URL+"/v1/mystery/agents/build:42"); err != nil {
					return fmt.Errorf("read behind session %d: %w", n, err)
				}
			}
			return nil
		}()
	}()
	// another waits until a session was begun and written, and returns its path.
	another := func() string {
		t.Helper()
		from := written.Load()
		for range 1200 {
			if n := written.Load(); n >= from+2 {
				return fmt.Sprintf("/v1/ledger/sessions/ses_%d", n)
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("nothing is written any more behind session %d; it said %s", from, log)
		return ""
	}

	for _, step := range []struct {
		program, doctor string
		returns         bool // the version before can be started again
	}{
		{adds, "start serve or work, which does that", true},
		{renews, "start serve or work, which makes them anew", false},
	} {
		name := filepath.Base(step.program)
		doctor := new(lines)
		if err := processOf(t, step.program, getenv, doctor, "doctor").Wait(); err == nil || !strings.Contains(doctor.String(), step.doctor) {
			t.Errorf("%s: doctor beside the version before does not say %q: %v: %s", name, step.doctor, err, doctor)
		}
		old, was, oldLog := now, base.Load().(string), log
		now, log = begin(step.program, "serve", "--work")
		next := "http://" + log.find(t, serving)
		eventually(t, next+"/readyz", "ok")
		eventually(t, next+"/v1/mystery/agents/build:42", "build:42")
		// What is written at either is read at both.
		eventually(t, next+another(), "ses_")
		base.Store(next)
		last := another()
		eventually(t, was+last, "ses_")

		if err := old.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := old.Wait(); err != nil {
			t.Errorf("%s: the version before ended with %v; it said %s", name, err, oldLog)
		}
		again, said := begin(old.Path, "serve", "--no-work")
		if !step.returns {
			if err := again.Wait(); err == nil || !strings.Contains(said.String(), "this program knows version") {
				t.Errorf("%s: the version before starts on read models that it does not know: %v; it said %s", name, err, said)
			}
			continue
		}
		eventually(t, "http://"+said.find(t, serving)+last, "ses_")
		if err := again.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := again.Wait(); err != nil {
			t.Errorf("%s: the version before, started again, ended with %v; it said %s", name, err, said)
		}
	}
	enough.Store(true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, fmt.Sprintf("%s/v1/ledger/sessions/ses_%d", base.Load(), written.Load()), "ses_")
	said := new(lines)
	if err := processOf(t, renews, getenv, said, "ledger", "verify").Wait(); err != nil {
		t.Errorf("ledger verify afterwards: %v: %s", err, said)
	}
	t.Logf("%d sessions were written and read meanwhile", written.Load())
}

// answers returns nil if url is answered with what was asked for.
func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, res.Status)
	}
	return err
}
