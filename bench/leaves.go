package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections/publiclog"
)

// leafWriters is how many write leaves at once.
const leafWriters = 256

// leaves measures how many records become leaves of the public log. Tessera on files
// acknowledges an entry when it is durable, has its index, and the tree covers it. An
// append that the log acknowledges is durable, and so is its place among the leaves, which
// follows from the order of the log; the tree follows behind. So there are two lines: one
// whose writers go on when their record is durable, with an integrator that looks as often
// as that of the service, counted until the tree has them all; and one whose writers wait
// each time until the tree covers their record, with an integrator that never rests.
func (b *bench) leaves(ctx context.Context) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	for _, m := range []struct {
		what  string
		every time.Duration
	}{
		{"durable leaf", 500 * time.Millisecond},
		{"leaf waited for in the tree", 0},
	} {
		err := b.hold(ctx, doing(fmt.Sprintf("%s, %d writers", m.what, leafWriters),
			side{run: func(ctx context.Context) ([]figure, error) { return b.leaf(ctx, s, m.every) }}, side{"Tessera, files", b.tessera}))
		if err != nil {
			return err
		}
	}
	return nil
}

// leaf measures appends while an integrator follows the log, every so often; if that is
// always, writers wait for it.
func (b *bench) leaf(ctx context.Context, s *schema, every time.Duration) ([]figure, error) {
	if err := b.sql(ctx, s.name, "checkpoint"); err != nil {
		return nil, err
	}
	log := postgres.New(s.pool, postgres.Options{})
	defer log.Close()
	f := follow(ctx, log, s.pool, every)
	defer f.end()
	streams := b.streams(leafWriters)
	versions := make([]uint64, leafWriters)
	began := time.Now()
	figures, n, err := b.closedLoop(leafWriters, func(w int, before uint64) error {
		if err := log.Append(ctx, streams(w), before, noting(before), event); err != nil {
			return err
		}
		versions[w] = before + 1
		if every == 0 {
			return f.wait(streams(w), versions[w])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	close(f.hurry)
	for w, version := range versions {
		if err := f.wait(streams(w), version); err != nil {
			return nil, err
		}
	}
	figures[0] = figure{perSecond, float64(n) / time.Since(began).Seconds()}
	return figures, nil
}

// A follower keeps the tree at the end of the ledger, and tells when it covers a record.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}
	hurry  chan struct{} // closed when it shall not rest any more

	mu      sync.Mutex
	moved   sync.Cond
	covered map[ledger.Stream]uint64 // the last version of each stream that is in the tree
	err     error                    // why it has ended
}

// follow starts a follower of log, whose tree is kept in pool. It rests for a while after
// each look at the log.
func follow(ctx context.Context, log ledger.Log, pool *pgxpool.Pool, every time.Duration) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{cancel: cancel, done: make(chan struct{}), hurry: make(chan struct{}), covered: make(map[ledger.Stream]uint64)}
	f.moved.L = &f.mu
	go func() {
		defer close(f.done)
		f.run(ctx, log, pool, every)
	}()
	return f
}

// end stops it, and returns when it has stopped.
func (f *follower) end() {
	f.cancel()
	<-f.done
}

func (f *follower) run(ctx context.Context, log ledger.Log, pool *pgxpool.Pool, every time.Duration) {
	seen := &tapped{Log: log}
	i := &publiclog.Integrator{Log: seen, Catalog: domain.NewCatalog([]domain.Entry{domain.Current[noted](domain.Public)}), Pool: pool}
	for {
		seen.versions = make(map[ledger.Stream]uint64)
		err := i.Integrate(ctx)
		f.mu.Lock()
		if f.err = err; err == nil {
			maps.Copy(f.covered, seen.versions)
		}
		f.moved.Broadcast()
		f.mu.Unlock()
		if err != nil {
			return
		}
		rest := time.NewTimer(every)
		select {
		case <-rest.C:
		case <-f.hurry:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

// wait returns when the tree covers a version of a stream.
func (f *follower) wait(s ledger.Stream, version uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.covered[s] < version && f.err == nil {
		f.moved.Wait()
	}
	return f.err
}

// A tapped log keeps which records were read from it.
type tapped struct {
	ledger.Log

	versions map[ledger.Stream]uint64
}

func (l *tapped) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range l.Log.After(ctx, position) {
			if err == nil {
				l.versions[r.Stream] = r.Version
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// tessera measures Tessera on files, with batches as large as it has writers, which is as
// large as they can get.
func (b *bench) tessera(ctx context.Context) (figures []figure, err error) {
	data, err := domain.Encode(event)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.scratch, "tessera")
	key, _, err := note.GenerateKey(rand.Reader, "log.example")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		return nil, err
	}
	klog.LogToStderr(false)
	klog.SetOutputBySeverity("INFO", io.Discard) // which is all that each new log says
	klog.SetOutputBySeverity("WARNING", io.Discard)
	klog.SetOutputBySeverity("ERROR", b.stderr)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		return nil, err
	}
	appender, shutdown, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).WithCheckpointInterval(time.Second).WithBatching(leafWriters, tesseraAge))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shutdown(ctx), os.RemoveAll(dir)) }()
	figures, _, err = b.closedLoop(leafWriters, func(int, uint64) error {
		_, err := appender.Add(ctx, tessera.NewEntry(data))()
		return err
	})
	return figures, err
}

// tesseraAge is how long an entry may wait for others. Less than the default of 250 ms
// serves writers better who wait for their entry.
const tesseraAge = 10 * time.Millisecond
