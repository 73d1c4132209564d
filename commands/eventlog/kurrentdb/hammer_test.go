package kurrentdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
)

// TestServer runs the checks of the contract against the database that ESDB_URL
// names. Each check works behind a prefix of its own, which stays there.
func TestServer(t *testing.T) {
	t.Parallel()
	url := os.Getenv("ESDB_URL")
	if url == "" {
		t.Skip("ESDB_URL names no EventStoreDB")
	}
	ledgertest.Run(t, func(t *testing.T) ledger.Log {
		t.Helper()
		return open(t, url, kurrentdb.Options{Prefix: fmt.Sprintf("ledgertest%s-", strings.ReplaceAll(uuid.NewString(), "-", ""))})
	})
}

// TestTroubledCluster has writers and readers while nodes go down, leaders change,
// and calls fail at any moment, before and after they had their effect.
func TestTroubledCluster(t *testing.T) {
	t.Parallel()
	const nodes, writers, each = 3, 6, 10
	c := cluster(t, nodes)
	logs := []*kurrentdb.Log{open(t, c.URL(), kurrentdb.Options{}), open(t, c.URL(), kurrentdb.Options{Connections: 2})}

	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			s := ledger.Stream(fmt.Sprint("a/", w))
			for v := range uint64(each) {
				for {
					err := logs[w%2].Append(t.Context(), s, v, command(fmt.Sprint(v)), noted{w})
					if err == nil {
						break
					}
					if !errors.Is(err, domain.ErrUnavailable) {
						t.Errorf("Append: %v, want ErrUnavailable or nothing", err)
						return
					}
				}
			}
		})
	}
	for i, log := range logs {
		reading.Go(func() {
			seen := 0
			if i == 0 {
				for _, err := range log.Follow(t.Context(), 0) {
					if err != nil {
						t.Errorf("Follow: %v", err)
						return
					}
					if seen++; seen == writers*each {
						return
					}
				}
			}
			for last := uint64(0); seen < writers*each; time.Sleep(5 * time.Millisecond) {
				for r, err := range log.After(t.Context(), last) {
					if errors.Is(err, domain.ErrUnavailable) {
						break
					}
					if err != nil {
						t.Errorf("After: %v", err)
						return
					}
					last, seen = r.Position, seen+1
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); reading.Wait(); close(done) }()

	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	chance := func(n int) bool { mu.Lock(); defer mu.Unlock(); return random.IntN(n) == 0 }
	for round := 0; ; round++ {
		odds := 4 + 2*round // trouble wanes, so that however slow the machine, all get on
		c.SetFault(func(_ context.Context, _ double.Moment) error {
			if chance(odds) {
				return status.Error(codes.Unavailable, "trouble")
			}
			return nil
		})
		down := round % nodes
		switch round % 4 {
		case 0:
			c.Lead(-1)
		case 1:
			c.Down(down)
		case 2:
			c.Lead((down + 1) % nodes)
			c.Freeze(down)
		}
		finished := false
		select {
		case <-done:
			finished = true
		case <-time.After(time.Duration(10+5*round) * time.Millisecond):
		}
		c.Up(down)
		c.Thaw(down)
		c.Lead((down + 1) % nodes)
		if finished {
			c.SetFault(nil)
			if got := len(ledgertest.Audit(t, logs[0])); got != writers*each {
				t.Errorf("the log has %d records after %d rounds of trouble, want %d", got, round, writers*each)
			}
			return
		}
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678901999, time.FixedZone("", 3600))
	log := open(t, cluster(t, 1).URL(), kurrentdb.Options{Now: func() time.Time { return moment }})
	mustAppend(t, log, "a/1", 0)
	want := time.Date(2026, 1, 2, 2, 4, 5, 678901000, time.UTC)
	if got := ledgertest.Audit(t, log)[0].Time; got != want {
		t.Errorf("time = %v, want %v", got, want)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	log := open(t, cluster(t, 1).URL(), kurrentdb.Options{})
	mustAppend(t, log, "a/1", 0)
	log.Close()
	log.Close()
	if err := log.Append(t.Context(), "a/1", 1, command("d"), noted{}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Append after Close: %v, want ErrUnavailable", err)
	}
	for _, err := range log.After(t.Context(), 0) {
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("After after Close: %v, want ErrUnavailable", err)
		}
	}
}

// More streams and records than are remembered, so that all is read again.
func TestLongStream(t *testing.T) {
	t.Parallel()
	url := cluster(t, 1).URL()
	log := open(t, url, kurrentdb.Options{})
	events := make([]domain.Event, 1300) // more than two pages
	for i := range events {
		events[i] = noted{i}
	}
	if err := log.Append(t.Context(), "a/1", 0, command("many"), events...); err != nil {
		t.Fatal(err)
	}
	other := open(t, url, kurrentdb.Options{})
	if err := other.Append(t.Context(), "a/1", 1300, command("many"), events...); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("the same command behind itself: %v, want ErrConflict", err)
	}
	if err := other.Append(t.Context(), "a/1", 2000, command("x"), noted{}); !errors.Is(err, ledger.ErrConflict) || !strings.Contains(err.Error(), "is at 1300") {
		t.Errorf("Append behind the end: %v, want ErrConflict at 1300", err)
	}
	mustAppend(t, other, "a/1", 1300)
	mustAppend(t, log, "a/1", 1301)
	if got := len(ledgertest.Audit(t, log)); got != 1302 {
		t.Errorf("the log has %d records, want 1302", got)
	}
}
