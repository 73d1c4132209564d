package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A reading is how fast a ledger is read in one way, beside something that does the
// least that can be done with as many records.
type reading struct {
	What  string  `json:"what"`
	Rate  float64 `json:"recordsPerSecond"`
	CPU   float64 `json:"cpuMicrosecondsPerRecord"` // of this process, not of the server
	Peer  string  `json:"peer"`
	Other float64 `json:"peerPerSecond"`
	Ratio float64 `json:"ratio"`
}

// consentsRead is the number of consents in the ledger that is read.
const consentsRead = 20

// reads measures how fast a ledger of so many consents and days is replayed, folded into
// read models, and put into the public log: the best of the rounds.
func (b *bench) reads(ctx context.Context, consents, days, rounds int) ([]reading, error) {
	records, err := write(consents, days)
	if err != nil {
		return nil, err
	}
	log := postgres.New(b.pool, postgres.Options{})
	defer log.Close()
	if _, err := log.Import(ctx, func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}); err != nil {
		return nil, err
	}
	bytes := make([][]byte, len(records))
	for i := range records {
		bytes[i] = records[i].AppendCanonical(nil)
	}
	if err := b.psql(ctx, "vacuum analyze mystery.events"); err != nil {
		return nil, err
	}
	r := &reader{b: b, log: log, records: records, bytes: bytes}
	var list []reading
	for _, m := range []struct {
		what, peer string
		f, other   func(context.Context) error
	}{
		{"hash chains, in memory", "one SHA-256 of each", r.chains, r.sums},
		{"every check, in memory", "json.Unmarshal of each", r.replay, r.unmarshal},
		{"every check, from the log", "copy to /dev/null", r.replayLog, r.copyOut},
		{"all read models made anew", "create table as select", r.rebuild, r.copyTable},
		{"public log", "create table as select", r.integrate, r.copyTable},
	} {
		rate, cpu, err := r.best(ctx, rounds, m.f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
		other, _, err := r.best(ctx, rounds, m.other)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.peer, err)
		}
		list = append(list, reading{m.what, rate, cpu, m.peer, other, rate / other})
	}
	return list, nil
}

// A reader reads one ledger.
type reader struct {
	b       *bench
	log     *postgres.Log
	records []ledger.Record
	bytes   [][]byte // canonical forms
}

// best returns the rate of the fastest of some rounds, and the processor time a record that this
// process took in it.
func (r *reader) best(ctx context.Context, rounds int, f func(context.Context) error) (rate, cpu float64, err error) {
	n := float64(len(r.records))
	for range rounds {
		began, spent := time.Now(), processor()
		if err := f(ctx); err != nil {
			return 0, 0, err
		}
		if x := n / time.Since(began).Seconds(); x > rate {
			rate, cpu = x, float64((processor()-spent).Nanoseconds())/1000/n
		}
	}
	return rate, cpu, nil
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

func (r *reader) copyOut(ctx context.Context) error {
	conn, err := r.b.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyTo(ctx, io.Discard, "copy events to stdout (format binary)")
	return err
}

func (r *reader) rebuild(ctx context.Context) error {
	m := &projections.Runner{Log: r.log, Catalog: catalog(), Pool: r.b.pool, Projections: projections.All()}
	if err := m.Init(ctx); err != nil {
		return err
	}
	return m.Rebuild(ctx, nil, nil)
}

func (r *reader) integrate(ctx context.Context) error {
	err := r.b.psql(ctx, `set session_replication_role = replica; truncate mystery.tree_leaves, mystery.tree_tiles, mystery.tree_streams;
		update mystery.tree_head set position = 0, size = 0, root = sha256('')`)
	if err != nil {
		return err
	}
	i := &publiclog.Integrator{Log: r.log, Catalog: catalog(), Pool: r.b.pool}
	return i.Integrate(ctx)
}

func (r *reader) copyTable(ctx context.Context) error {
	return r.b.psql(ctx, "drop table if exists mystery.copied; create table mystery.copied as select * from mystery.events; drop table mystery.copied")
}

func printReadings(w io.Writer, list []reading) error {
	if len(list) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "reading\trecords/s\tCPU µs each\tpeer\tpeer/s\tratio")
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%s\t%.0f\t%.3f\n", r.What, r.Rate, r.CPU, r.Peer, r.Other, r.Ratio)
	}
	return t.Flush()
}
