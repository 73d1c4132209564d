package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// consentsRead and daysRead are the size of the ledger that is read.
const (
	consentsRead = 20
	daysRead     = 30
)

// reads measures how fast a ledger is replayed, folded into read models, and put into the
// public log, each next to something that does the least that can be done with as many
// records.
func (b *bench) reads(ctx context.Context) (err error) {
	records, err := write(consentsRead, daysRead)
	if err != nil {
		return err
	}
	r, err := b.openReader(ctx, records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	here := func(name string, f func(context.Context) error) side { return side{name, r.rate(f, true)} }
	there := func(name string, f func(context.Context) error) side { return side{name, r.rate(f, false)} }
	return b.hold(ctx,
		doing("hash chains, in memory", here("", r.chains), here("one SHA-256 of each", r.sums)),
		doing("every check, in memory", here("", r.replay), here("encoding/json of each", r.unmarshal)),
		doing("every check, from the log", here("", r.replayLog),
			there("copy to /dev/null", r.copyOut), there("as many bytes from the disk", r.readDisk)),
		doing("all read models made anew", here("", r.rebuild), there("create table as select", r.copyTable)),
		doing("records put into the public log", here("", r.integrate), there("create table as select", r.copyTable)),
	)
}

// A reader reads one ledger.
type reader struct {
	b       *bench
	schema  *schema
	log     *postgres.Log
	records []ledger.Record
	bytes   [][]byte // canonical forms
	file    string   // holds them
}

// openReader puts records into a schema of its own, and into a file.
func (b *bench) openReader(ctx context.Context, records []ledger.Record) (*reader, error) {
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	r := &reader{b: b, schema: s, log: postgres.New(s.pool, postgres.Options{}), records: records, file: filepath.Join(b.scratch, s.name)}
	if err := r.fill(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *reader) fill(ctx context.Context) error {
	if err := fill(ctx, r.log, r.records); err != nil {
		return err
	}
	r.bytes = make([][]byte, len(r.records))
	for i := range r.records {
		r.bytes[i] = r.records[i].AppendCanonical(nil)
	}
	f, err := os.Create(r.file)
	if err != nil {
		return err
	}
	for _, record := range r.bytes {
		if _, err := f.Write(record); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close(), r.b.sql(ctx, r.schema.name, "vacuum analyze events"))
}

func (r *reader) close() error {
	r.log.Close()
	return errors.Join(r.schema.drop(), os.RemoveAll(r.file))
}

// fill puts records into an empty log.
func fill(ctx context.Context, log *postgres.Log, records []ledger.Record) error {
	_, err := log.Import(ctx, listed(records).After(ctx, 0))
	return err
}

// rate returns a run of f that tells how many records a second it deals with, and, where
// this process does the work, how much of the processor a record takes.
func (r *reader) rate(f func(context.Context) error, here bool) func(context.Context) ([]figure, error) {
	return func(ctx context.Context) ([]figure, error) {
		n := float64(len(r.records))
		began, spent := time.Now(), processor()
		if err := f(ctx); err != nil {
			return nil, err
		}
		figures := []figure{{perSecond, n / time.Since(began).Seconds()}}
		if here {
			figures = append(figures, figure{microCPU, float64((processor() - spent).Nanoseconds()) / 1000 / n})
		}
		return figures, nil
	}
}

// processor returns the processor time that this process has taken.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *reader) chains(context.Context) error {
	tips := make(map[ledger.Stream]domain.Hash)
	for i := range r.records {
		rec := &r.records[i]
		hash := rec.ChainHash(tips[rec.Stream])
		if hash != rec.Hash {
			return fmt.Errorf("record %d has another hash", i)
		}
		tips[rec.Stream] = hash
	}
	return nil
}

func (r *reader) sums(context.Context) error {
	var all byte
	for _, b := range r.bytes {
		sum := sha256.Sum256(b)
		all |= sum[0]
	}
	if all == 0 {
		return errors.New("no record was summed")
	}
	return nil
}

func check(records iter.Seq2[ledger.Record, error]) error {
	p := replay.New(catalog())
	for rec, err := range records {
		if err != nil {
			return err
		}
		if err := p.Add(rec); err != nil {
			return err
		}
	}
	return p.End()
}

func (r *reader) replay(context.Context) error {
	return check(func(yield func(ledger.Record, error) bool) {
		for _, rec := range r.records {
			if !yield(rec, nil) {
				return
			}
		}
	})
}

func (r *reader) unmarshal(context.Context) error {
	for i := range r.records {
		var v map[string]any
		if err := json.Unmarshal(r.records[i].Data, &v); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) replayLog(ctx context.Context) error { return check(r.log.After(ctx, 0)) }

func (r *reader) readDisk(context.Context) error { return readFile(r.file) }

func (r *reader) copyOut(ctx context.Context) error {
	conn, err := r.schema.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyTo(ctx, io.Discard, "copy events to stdout (format binary)")
	return err
}

func (r *reader) rebuild(ctx context.Context) error {
	m := &projections.Runner{Log: r.log, Catalog: catalog(), Pool: r.schema.pool, Projections: projections.All()}
	if err := m.Init(ctx); err != nil {
		return err
	}
	return m.Rebuild(ctx, nil, nil)
}

func (r *reader) integrate(ctx context.Context) error {
	err := r.b.sql(ctx, r.schema.name, `set session_replication_role = replica; truncate tree_leaves, tree_tiles, tree_streams;
		update tree_head set position = 0, size = 0, root = sha256('')`)
	if err != nil {
		return err
	}
	i := &publiclog.Integrator{Log: r.log, Catalog: catalog(), Pool: r.schema.pool}
	return i.Integrate(ctx)
}

func (r *reader) copyTable(ctx context.Context) error {
	return r.b.sql(ctx, r.schema.name, "create table copied as select * from events; drop table copied")
}
