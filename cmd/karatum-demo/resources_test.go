package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/migrations/privatepg"
	"github.com/karatum/mystery/projections"
)

// hourly asks for as many tasks as there can be, which are revealed soon, for a week.
func hourly(r *consent.Request) {
	r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds, r.ValidityDays = 24, 100, 3600, 7
}

// ready looks whether the service says that it can serve. It waits for that to change: a
// refusal is kept in mind for some seconds.
func (s *stage) ready(t *testing.T, want bool) {
	t.Helper()
	var said string
	for range 300 {
		status, body := s.probe(t, "/readyz")
		if said = body; (status == http.StatusOK) == want {
			t.Logf("/readyz: %d %s", status, strings.TrimSpace(body))
			return
		}
		time.Sleep(100 * time.Millisecond) // it is asked again
	}
	t.Fatalf("/readyz says %q; want ready: %t", said, want)
}

func (s *stage) probe(t *testing.T, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// sendOne lets time pass until another task has been sent.
func (s *stage) sendOne(t *testing.T) {
	t.Helper()
	before := sent(t, s)
	for range 1000 {
		next, err := s.prog.Worker.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sent(t, s) > before {
			return
		}
		s.clock.Jump(next)
	}
	t.Fatal("no task is sent any more")
}

// TestConnectionStorm has others take every connection that the server has, when the
// service has just lost its own. It says that it cannot serve, and goes on when they are
// gone.
func TestConnectionStorm(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "storm") //nolint:usetesting // the server's account cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := privatepg.Start(t.Context(), privatepg.Options{
		Dir: filepath.Join(base, "pg"), Settings: []string{"fsync=off", "max_connections=40"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	w := lay(t, server.URL())
	s := emptyOn(t, flags{seed: "85", listen: "127.0.0.1:0"}, w.url())
	s.register(t, edge, s.owner)
	s.give(t, hourly)
	s.days(t, 1.2)
	s.ready(t, true)

	var others []*pgx.Conn
	storm := func() error {
		for {
			c, err := pgx.Connect(t.Context(), server.URL())
			if err != nil {
				return err
			}
			others = append(others, c)
		}
	}
	for range 50 { // the service's own end when the server has seen that they were cut
		w.down.Store(true)
		w.cut()
		refused := new(pgconn.PgError)
		if err := storm(); !errors.As(err, &refused) || refused.Code != "53300" {
			t.Fatalf("the storm ends with %v", err)
		}
		w.down.Store(false)
		if len(others) == 40 {
			break
		}
		time.Sleep(100 * time.Millisecond) // and the storm goes on
	}
	if _, err := s.prog.Worker.Step(t.Context()); !errors.Is(err, domain.ErrUnavailable) && !projections.Unreachable(err) {
		t.Errorf("without a connection, a step ends with %v", err)
	}
	s.ready(t, false)
	if status, body := s.probe(t, "/v1/mystery/consents?limit=7"); status != http.StatusServiceUnavailable {
		t.Errorf("without a connection, the API answers %d: %s", status, body)
	}
	if status, _ := s.probe(t, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz is %d", status)
	}
	for _, c := range others {
		_ = c.Close(t.Context())
	}
	s.ready(t, true)
	s.sendOne(t)
	s.history(t).check(t)
}

// TestSlowDatabase holds every statement up. What takes time gets it; a database that
// takes longer than anybody waits for is one that does not answer.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	w := lay(t, pgtest.URL(t))
	s := emptyOn(t, flags{seed: "87", listen: "127.0.0.1:0"}, w.url())
	s.register(t, edge, s.owner)
	s.give(t, hourly)
	s.days(t, 1)
	w.delay.Store(int64(20 * time.Millisecond))
	before := w.ways.Load()
	s.sendOne(t)
	if n := w.ways.Load() - before; n < 20 {
		t.Errorf("%d statements were held up", n)
	}
	s.ready(t, true)
	w.delay.Store(int64(10 * time.Second))
	s.ready(t, false)
	w.delay.Store(0)
	s.ready(t, true)
	s.days(t, 3)
	s.history(t).check(t)
}

// TestDatabaseHalfOpen has the way to the database forward nothing any more, and close
// nothing. What waits for an answer gives up, and the next tasks go on when there is a
// way again.
func TestDatabaseHalfOpen(t *testing.T) {
	t.Parallel()
	w := lay(t, pgtest.URL(t))
	s := emptyOn(t, flags{seed: "89", listen: "127.0.0.1:0", patience: 3 * time.Second}, w.url())
	s.register(t, edge, s.owner)
	s.give(t, hourly)
	s.days(t, 1.2)
	w.silent.Store(true)
	began := time.Now()
	if _, err := s.prog.Worker.Step(t.Context()); err == nil {
		t.Error("a step succeeds without a database")
	} else {
		t.Logf("given up after %s: %v", time.Since(began), err)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("a step was stuck for %s", took)
	}
	s.ready(t, false)
	w.silent.Store(false)
	s.ready(t, true)
	s.sendOne(t)
	s.days(t, 3)
	s.history(t).check(t)
}

// TestAgentHalfOpen has an agent's host take a task and never close the connection. The
// task times out, and the next one is sent.
func TestAgentHalfOpen(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	s := emptyOn(t, flags{seed: "91", listen: "127.0.0.1:0", watch: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if silent.Load() && r.Method == http.MethodPost {
				keep(t, w)
				return
			}
			next.ServeHTTP(w, r)
		})
	}}, pgtest.URL(t))
	s.register(t, edge, s.owner)
	s.give(t, hourly)
	s.prog.Worker.Deadline = 5 * time.Second
	s.days(t, 1)
	silent.Store(true)
	s.sendOne(t)
	lost := lastSent(t, s)
	silent.Store(false)
	s.sendOne(t)
	for _, e := range s.eventsOf(t, lost) {
		if e, ok := e.(shop.Judged); ok && e.Outcome != task.Timeout {
			t.Errorf("%s ended as %s (%s), want a timeout", lost, e.Outcome, e.Rule)
		}
	}
	s.days(t, 3)
	s.history(t).check(t)
}

// keep takes over the connection of a request and says nothing on it any more.
func keep(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = c.Close() })
}

// TestNodeHalfOpen has the node of the chain take questions and never close. Attesting
// gives up and says so, and goes on when the node answers.
func TestNodeHalfOpen(t *testing.T) {
	t.Parallel()
	s := emptyOn(t, flags{seed: "93", listen: "127.0.0.1:0", anchored: true}, pgtest.URL(t))
	var silent atomic.Bool
	next := s.anchor.Handler()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			keep(t, w)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	var err error
	s.prog.Attester.Chain, err = rpc.Dial(t.Context(), devChainID, []string{front.URL}, rpc.Config{Now: time.Now, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.prog.Attester.Chain.Close)
	s.register(t, edge, s.owner)
	s.give(t, hourly)
	s.days(t, 1.5)
	for range 2 { // what is sealed now is to be attested an hour later
		if _, err := s.prog.Worker.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.clock.Jump(s.clock.Now().Add(time.Hour))
		if err := s.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	silent.Store(true)
	began := time.Now()
	if err := s.prog.Attester.Step(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("without a node, a step ends with %v", err)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("a step was stuck for %s", took)
	}
	silent.Store(false)
	s.days(t, 3)
	s.history(t).check(t)
	if open, last, err := s.prog.Reader.BatchNumbers(context.WithoutCancel(t.Context())); open != 0 || last == 0 || err != nil {
		t.Errorf("of %d batches the first that is not final is %d, %v", last, open, err)
	}
}
