package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
	"github.com/karatum/mystery/migrations/pgtest"
)

type noted struct{ N int }

func (noted) EventType() domain.Type { return "postgres.noted.v1" }

func command(id string) ledger.Meta { return ledger.Meta{Actor: "tester", Command: id} }

func open(t *testing.T, pool *pgxpool.Pool) *postgres.Log {
	t.Helper()
	log := postgres.New(pool, postgres.Options{})
	t.Cleanup(log.Close)
	return log
}

func TestLog(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Log {
		t.Helper()
		return open(t, pgtest.Open(t))
	})
}

// several is a log that hands each call to another one of several on one database.
type several struct {
	logs []ledger.Log
	next atomic.Uint64
}

func (s *several) one() ledger.Log { return s.logs[s.next.Add(1)%uint64(len(s.logs))] }

func (s *several) Append(ctx context.Context, to ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	return s.one().Append(ctx, to, version, m, events...)
}

func (s *several) Stream(ctx context.Context, from ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return s.one().Stream(ctx, from, version)
}

func (s *several) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return s.one().After(ctx, position)
}

func TestSeveralLogsOnOneDatabase(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Log {
		t.Helper()
		pool := pgtest.Open(t)
		return &several{logs: []ledger.Log{open(t, pool), open(t, pool), open(t, pool)}}
	})
}

func TestPositionsHaveNoGaps(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	logs := []*postgres.Log{open(t, pool), open(t, pool)}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for v := range uint64(20) {
				_ = logs[w%2].Append(t.Context(), "a/taken", v/2, command(fmt.Sprint(w, "-", v)), noted{}) // most are conflicts
				if err := logs[w%2].Append(t.Context(), ledger.Stream(fmt.Sprint("a/", w)), v, command(fmt.Sprint(v)), noted{w}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, r := range ledgertest.Audit(t, logs[0]) {
		if r.Position != uint64(i)+1 {
			t.Fatalf("record %d has position %d", i, r.Position)
		}
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678901999, time.FixedZone("", 3600))
	log := postgres.New(pgtest.Open(t), postgres.Options{Now: func() time.Time { return moment }})
	t.Cleanup(log.Close)
	if err := log.Append(t.Context(), "a/1", 0, command("c"), noted{}); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 1, 2, 2, 4, 5, 678901000, time.UTC)
	if got := ledgertest.Audit(t, log)[0].Time; got != want {
		t.Errorf("time = %v, want %v", got, want)
	}
}

func TestLinger(t *testing.T) {
	t.Parallel()
	for commit, want := range map[time.Duration]time.Duration{
		0:                       0,
		1999 * time.Microsecond: 0,
		2 * time.Millisecond:    500 * time.Microsecond,
		3 * time.Millisecond:    750 * time.Microsecond,
		4 * time.Millisecond:    time.Millisecond,
		time.Second:             time.Millisecond,
	} {
		if got := postgres.Linger(commit); got != want {
			t.Errorf("linger(%v) = %v, want %v", commit, got, want)
		}
	}
}

// A row that the database refuses is known only once it has refused the batch.
func TestRefusedRowDoesNotHarmOthers(t *testing.T) {
	t.Parallel()
	log := open(t, pgtest.Open(t))
	var long strings.Builder // beyond the size of an index entry, and not to be compressed below it
	for long.Len() < 20000 {
		fmt.Fprintf(&long, "%x", rand.Uint64())
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for v := range uint64(10) {
				if err := log.Append(t.Context(), ledger.Stream(fmt.Sprint("a/", w)), v, command(fmt.Sprint(v)), noted{w}); err != nil {
					t.Errorf("good append: %v", err)
				}
			}
		})
	}
	for i := range 10 {
		err := log.Append(t.Context(), ledger.Stream("a/"+long.String()), 0, command(fmt.Sprint(i)), noted{})
		if err == nil || errors.Is(err, domain.ErrUnavailable) || errors.Is(err, ledger.ErrConflict) {
			t.Errorf("append to a stream with a very long name: %v, want a refusal of no kind", err)
		}
	}
	wg.Wait()
	if got := len(ledgertest.Audit(t, log)); got != 80 {
		t.Errorf("the log has %d records, want 80", got)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	log := open(t, pool)
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "select from log_head for update"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 { // one in the hands of the writer, the others before its door
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := log.Append(ctx, ledger.Stream(fmt.Sprint("a/", i)), 0, command("c"), noted{i})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
				t.Errorf("Append: %v after %v, want context.DeadlineExceeded at once", err, time.Since(began))
			}
		})
	}
	wg.Wait()
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := log.Append(t.Context(), ledger.Stream(fmt.Sprint("a/", i)), 0, command("c"), noted{i}); err != nil {
			t.Errorf("repetition: %v", err)
		}
	}
	if got := len(ledgertest.Audit(t, log)); got != 4 {
		t.Errorf("the log has %d records, want 4", got)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	log := postgres.New(pgtest.Open(t), postgres.Options{})
	if err := log.Append(t.Context(), "a/1", 0, command("c"), noted{}); err != nil {
		t.Fatal(err)
	}
	log.Close()
	log.Close()
	if err := log.Append(t.Context(), "a/1", 1, command("d"), noted{}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Append after Close: %v, want ErrUnavailable", err)
	}
	if got := len(ledgertest.Audit(t, log)); got != 1 {
		t.Errorf("the log has %d records, want 1", got)
	}
}

func TestAppendOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	log := open(t, pool)
	if err := log.Append(t.Context(), "a/1", 0, command("c"), noted{}); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.Owner(t, pool)
	for _, sql := range []string{"update events set data = '{}'", "delete from events", "truncate events"} {
		for who, want := range map[string]string{"service": "42501", "owner": "55000"} {
			var err error
			if who == "service" {
				_, err = pool.Exec(t.Context(), sql)
			} else {
				_, err = owner.Exec(t.Context(), sql)
			}
			if e := new(pgconn.PgError); !errors.As(err, &e) || e.Code != want {
				t.Errorf("%s by the %s: %v, want SQLSTATE %s", sql, who, err, want)
			}
		}
	}
	ledgertest.Audit(t, log)
}

// Whoever stands above the role and the triggers can take a record out. Reading
// notices.
func TestGapIsDamage(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	log := open(t, pool)
	for v := range uint64(3) {
		if err := log.Append(t.Context(), "a/1", v, command(fmt.Sprint(v)), noted{}); err != nil {
			t.Fatal(err)
		}
	}
	owner := pgtest.Owner(t, pool)
	for _, sql := range []string{"set session_replication_role = replica", "delete from events where position = 2"} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, seq := range map[string]iter.Seq2[ledger.Record, error]{
		"After": log.After(t.Context(), 0), "Stream": log.Stream(t.Context(), "a/1", 0),
	} {
		n := 0
		var last error
		for _, err := range seq {
			n, last = n+1, err
		}
		if n != 2 || last == nil || !strings.Contains(last.Error(), "damaged") {
			t.Errorf("%s over a gap ends after %d yields with %v, want one record and the damage", name, n, last)
		}
	}
}
