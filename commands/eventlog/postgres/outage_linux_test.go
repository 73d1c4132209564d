package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/migrations/privatepg"
)

// persist repeats an append until its outcome is known, as a caller should.
func persist(ctx context.Context, log ledger.Log, s ledger.Stream, version uint64, m ledger.Meta, e domain.Event) error {
	for {
		err := log.Append(ctx, s, version, m, e)
		if !errors.Is(err, domain.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func TestTerminatedBackends(t *testing.T) {
	t.Parallel()
	plain := pgtest.Open(t)
	name := pgtest.Schema(plain)
	cfg := plain.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	log := open(t, pool)
	owner := pgtest.Owner(t, plain)

	const writers, each = 8, 12
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/", w))
			for v := range uint64(each) {
				if err := persist(t.Context(), log, s, v, command(fmt.Sprint(v)), noted{w}); err != nil {
					t.Errorf("append with repetitions: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for kills := 0; ; kills++ {
		if _, err := owner.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", name); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			if got := len(ledgertest.Audit(t, open(t, plain))); got != writers*each {
				t.Errorf("the log has %d records after %d kills, want %d", got, kills, writers*each)
			}
			return
		// Each pause is longer than the one before: however slow the machine, one of
		// them is long enough to connect and append in.
		case <-time.After(time.Duration(5+kills) * time.Millisecond):
		}
	}
}

// crash kills a server and all its children at once, as a power cut would.
func crash(t *testing.T, s *privatepg.Server, dir string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(file), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	pids := append(children(t, line), postmaster)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.Done()
	s.Stop()
}

// children returns the processes whose parent is pid.
func children(t *testing.T, pid string) (found []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // gone
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, …
		if fields[1] == pid {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, child)
		}
	}
	return found
}

// TestCrashUnderLoad kills the database again and again while many write. What was
// acknowledged is there, what was not can be repeated, and no position is missing.
func TestCrashUnderLoad(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "crash") //nolint:usetesting // the server's account cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "pg")
	start := func() *privatepg.Server {
		s, err := privatepg.Start(t.Context(), privatepg.Options{Dir: dir}) // with fsync, as in production
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return s
	}
	server := start()
	pool, err := migrations.Connect(t.Context(), server.URL(), "mystery")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	log := postgres.New(pool, postgres.Options{}) // one for all: it must live on
	t.Cleanup(log.Close)

	const writers = 32
	var mu sync.Mutex
	acknowledged := make(map[ledger.Stream]uint64)
	failures := 0
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/", w))
			for v := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				err := log.Append(t.Context(), s, v, command(fmt.Sprint(v)), noted{w})
				switch {
				case err == nil:
					v++
					mu.Lock()
					acknowledged[s] = v
					mu.Unlock()
				case errors.Is(err, domain.ErrUnavailable):
					mu.Lock()
					failures++
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				default:
					t.Errorf("Append: %v, want ErrUnavailable or nothing", err)
					return
				}
			}
		})
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		crash(t, server, dir)
		mu.Lock()
		var want uint64
		for _, v := range acknowledged {
			want += v
		}
		mu.Unlock()
		time.Sleep(50 * time.Millisecond) // callers meet the outage
		server = start()
		if got := uint64(len(ledgertest.Audit(t, log))); got < want {
			t.Fatalf("%d records after the crash, %d were acknowledged", got, want)
		}
	}
	time.Sleep(100 * time.Millisecond)
	close(stop)
	wg.Wait()
	if failures == 0 {
		t.Error("no caller heard of the crashes")
	}

	all := ledgertest.Audit(t, log)
	versions := make(map[ledger.Stream]uint64)
	for i, r := range all {
		if r.Position != uint64(i)+1 {
			t.Fatalf("record %d has position %d", i, r.Position)
		}
		versions[r.Stream] = r.Version
	}
	for s, v := range acknowledged {
		if versions[s] < v {
			t.Errorf("%s has %d records, %d were acknowledged", s, versions[s], v)
		}
	}
	t.Logf("%d records, %d failures", len(all), failures)
}
