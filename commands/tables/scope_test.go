package tables_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/programme"
)

func TestPauseOfAScope(t *testing.T) {
	t.Parallel()
	task := taskOf("cns_a")
	for _, tt := range []struct {
		scope programme.Scope
		other programme.Task // that the scope does not hold back
	}{
		{programme.OfHost("agent.example:443"), programme.Task{Consent: "cns_a", Host: "agent.example:8443", Template: task.Template, Identity: 3}},
		{programme.OfConsent("cns_a"), taskOf("cns_b")},
		{programme.OfTemplate("unit.convert"), programme.Task{Consent: "cns_a", Host: task.Host, Template: "hash.sha256", Identity: 3}},
		{programme.OfIdentity(3), programme.Task{Consent: "cns_a", Host: task.Host, Template: task.Template, Identity: 4}},
	} {
		t.Run(string(tt.scope), func(t *testing.T) {
			t.Parallel()
			g, _ := open(t)
			if err := g.Open(t.Context(), "cns_b"); err != nil {
				t.Fatal(err)
			}
			want := func(when string, task programme.Task, paused bool) {
				t.Helper()
				release, err := g.Hold(t.Context(), task)
				if err == nil {
					release()
				}
				if errors.Is(err, tables.ErrPaused) != paused || (err != nil) != paused {
					t.Errorf("%s, Hold(%v) = %v, want it paused: %t", when, task, err, paused)
				}
			}
			do := func(act func(context.Context, programme.Scope, func(context.Context) error) error, s programme.Scope) {
				t.Helper()
				if err := act(t.Context(), s, nothing); err != nil {
					t.Fatal(err)
				}
			}
			do(g.Resume, tt.scope) // which was never paused
			want("resumed though not paused", task, false)
			do(g.Pause, tt.scope)
			do(g.Pause, tt.scope) // once more is harmless
			want("paused", task, true)
			want("paused", tt.other, false)
			do(g.Pause, programme.Everything)
			want("everything paused", tt.other, true)
			do(g.Resume, programme.Everything)
			want("everything resumed", tt.other, false)
			want("everything resumed", task, true)
			do(g.Resume, tt.scope)
			want("resumed", task, false)

			// A pause of the consent says nothing of its revocation, and the other
			// way round.
			if err := g.Close(t.Context(), "cns_a", nothing); err != nil {
				t.Fatal(err)
			}
			do(g.Pause, programme.OfConsent("cns_a"))
			do(g.Resume, programme.OfConsent("cns_a"))
			if _, err := g.Hold(t.Context(), task); !errors.Is(err, domain.ErrForbidden) || errors.Is(err, tables.ErrPaused) {
				t.Errorf("Hold after Close = %v, want ErrForbidden and not paused", err)
			}
		})
	}
}

// A sender may be waiting for the row that a pause holds. When it gets there, it
// sees what was paused meanwhile, though its statement is older than that.
func TestHoldLooksBehindTheLock(t *testing.T) {
	t.Parallel()
	g, pool := open(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) // once committed, it does nothing
	if _, err := tx.Exec(t.Context(), "select from gate where key = 'programme' for update"); err != nil {
		t.Fatal(err)
	}
	held := make(chan error)
	go func() {
		release, err := g.Hold(t.Context(), taskOf("cns_a"))
		if err == nil {
			release()
		}
		held <- err
	}()
	waits := func() (waits bool) {
		err := pool.QueryRow(t.Context(), "select exists (select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)))",
			tx.Conn().PgConn().PID()).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	for !waits() {
		time.Sleep(time.Millisecond)
	}
	if _, err := tx.Exec(t.Context(), "insert into gate (key, open, closed_at) values ('identity/3', false, now())"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-held; !errors.Is(err, tables.ErrPaused) {
		t.Errorf("Hold = %v, want ErrPaused", err)
	}
}

// Traffic counts, by scope, what has passed the gate and what has arrived.
type traffic struct {
	mu      sync.Mutex
	passed  map[programme.Scope]int
	arrived map[programme.Scope]int
	refused map[programme.Scope]int
}

func count(mu *sync.Mutex, m map[programme.Scope]int, t programme.Task) {
	mu.Lock()
	defer mu.Unlock()
	for _, s := range t.Scopes() {
		m[s]++
	}
}

func (tr *traffic) of(s programme.Scope) (passed, arrived, refused int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.passed[s], tr.arrived[s], tr.refused[s]
}

// The promise of a pause, as agents see it: from the moment that it has returned no
// byte of a new task of its scope arrives, whatever else is sent meanwhile and
// however often other scopes are paused and resumed.
func TestNothingArrivesInAPausedScope(t *testing.T) {
	t.Parallel()
	g, pool := open(t)
	tr := &traffic{
		passed: make(map[programme.Scope]int), arrived: make(map[programme.Scope]int), refused: make(map[programme.Scope]int),
	}
	var tasks []programme.Task
	for h := range 2 {
		agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var i int
			if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil {
				t.Errorf("%s was asked for: %v", r.URL.Path, err)
				return
			}
			count(&tr.mu, tr.arrived, tasks[i])
		}))
		t.Cleanup(agent.Close)
		for n := range uint32(4) {
			task := programme.Task{
				Consent: fmt.Sprint("cns_", h), Host: strings.TrimPrefix(agent.URL, "http://"),
				Template: fmt.Sprint("template.", n/2), Identity: n % 2,
			}
			tasks = append(tasks, task)
			if err := g.Open(t.Context(), task.Consent); err != nil {
				t.Fatal(err)
			}
		}
	}
	var scopes []programme.Scope
	for _, task := range tasks {
		scopes = append(scopes, task.Scopes()...)
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)

	var stop atomic.Bool
	var senders sync.WaitGroup
	for i := range 5 {
		gate := &tables.Gate{Pool: pool}
		draw := rand.New(rand.NewPCG(1, uint64(i)))
		senders.Go(func() {
			for !stop.Load() {
				if err := sendOne(t, gate, tasks, draw.IntN(len(tasks)), tr); err != nil {
					t.Errorf("send: %v", err)
					return
				}
			}
		})
	}
	// Two who pause and resume, each its own scopes.
	var operators sync.WaitGroup
	for half := range 2 {
		draw := rand.New(rand.NewPCG(2, uint64(half)))
		operators.Go(func() {
			for range 10 {
				if !pauseOnce(t, &tables.Gate{Pool: pool}, scopes[2*draw.IntN(len(scopes)/2)+half], tr) {
					return
				}
			}
		})
	}
	operators.Wait()
	stop.Store(true)
	senders.Wait()
	if _, arrived, _ := tr.of(programme.Everything); arrived == 0 {
		t.Error("nothing arrived at all, which proves nothing")
	}
}

// sendOne sends one task over the wire as the shopper does.
func sendOne(t *testing.T, g *tables.Gate, tasks []programme.Task, i int, tr *traffic) error {
	t.Helper()
	task := tasks[i]
	line := agents.Loopback(time.Now, nil).Line(t.Context(), agents.As(identity.Pool()[task.Identity]), func(ctx context.Context) (func(), error) {
		release, err := g.Hold(ctx, task)
		switch {
		case err == nil:
			count(&tr.mu, tr.passed, task)
		case errors.Is(err, tables.ErrPaused):
			count(&tr.mu, tr.refused, task)
		}
		return release, err
	})
	defer line.Close()
	_, err := line.Get(t.Context(), fmt.Sprintf("http://%s/%d", task.Host, i), http.Header{}, 1024)
	if errors.Is(err, tables.ErrPaused) || errors.Is(err, domain.ErrUnavailable) {
		return nil
	}
	return err
}

// pauseOnce pauses a scope, waits until the gate has turned away tasks of it, holds
// what has arrived against what had passed by then, and resumes it.
func pauseOnce(t *testing.T, g *tables.Gate, scope programme.Scope, tr *traffic) bool {
	t.Helper()
	if err := g.Pause(t.Context(), scope, nothing); err != nil {
		t.Errorf("Pause(%s): %v", scope, err)
		return false
	}
	passed, _, refused := tr.of(scope)
	for {
		after, arrived, now := tr.of(scope)
		if after != passed || arrived > passed {
			t.Errorf("after Pause(%s) %d more tasks passed the gate, and %d of %d arrived", scope, after-passed, arrived, passed)
			return false
		}
		if now >= refused+5 || t.Context().Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := g.Resume(t.Context(), scope, nothing); err != nil {
		t.Errorf("Resume(%s): %v", scope, err)
		return false
	}
	return true
}
