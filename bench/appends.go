package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// payload is the size of the data of each record, as canonical JSON.
const payload = 486

type noted struct {
	Text string `json:"text"`
}

func (noted) EventType() domain.Type { return "bench.noted.v1" }

var event = noted{strings.Repeat("x", payload-len(`{"text":""}`))}

// messageDB is what of message-db 1.3.1 takes part in writing a message, as its authors
// publish it (npm, @eventide/message-db); the licence lies beside it.
//
//go:embed messagedb/*/*.sql
var messageDB embed.FS

// appends measures how often appends are acknowledged.
//
// pgbench inserts one row per transaction, in the order that the server's sequence gives,
// into a copy of the table with all its indexes: the rate that the machine allows for
// plain inserts. The log besides gives an order without gaps, checks versions and chains
// hashes. message-db checks versions and keeps an order within a category; with one
// category it promises what the log promises.
func (b *bench) appends(ctx context.Context) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	if err := errors.Join(b.sql(ctx, s.name, copyTable), b.installMessageDB(ctx)); err != nil {
		return err
	}
	ours := func(writers int) side {
		return side{run: func(ctx context.Context) ([]figure, error) { return b.appendsTo(ctx, s, writers) }}
	}
	scripted := func(name, script, path string, writers int) side {
		return side{name, func(ctx context.Context) ([]figure, error) { return b.pgbench(ctx, script, path, writers) }}
	}
	plain := func(writers int) side { return scripted("pgbench, insert", insertScript, s.name, writers) }
	message := func(name, stream string, writers int) side {
		return scripted("message-db, "+name, fmt.Sprintf(messageScript, stream), "message_store", writers)
	}
	return b.hold(ctx,
		doing("append, 1 writer", ours(1), plain(1), side{"fdatasync of a page", b.flushes}),
		doing("append, 32 writers", ours(32), plain(32),
			message("one category", "concat('bench-', cast(:run as text), 'x', cast(:client_id as text))", 32),
			message("a category for each writer", "concat('bench', cast(:client_id as text), '-', cast(:run as text))", 32)),
		doing("append, 100 writers", ours(100), side{"immudb embedded, synced", func(ctx context.Context) ([]figure, error) { return b.immudb(ctx, 100) }}),
		doing("append, 256 writers", ours(256), plain(256)),
	)
}

func (b *bench) installMessageDB(ctx context.Context) error {
	for _, folder := range []string{"schema", "tables", "functions", "indexes"} {
		files, err := fs.Glob(messageDB, "messagedb/"+folder+"/*.sql")
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := messageDB.ReadFile(file)
			if err != nil {
				return err
			}
			if err := b.sql(ctx, "message_store", string(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// closedLoop has writers write for the length of a measurement, each of them one after the
// other, and returns how many a second that were, half of how long one took, and how many
// there were. Each write is told its writer and how many that one wrote before.
func (b *bench) closedLoop(writers int, write func(writer int, before uint64) error) (figures []figure, n int, err error) {
	took := make([][]float64, writers)
	errs := make([]error, writers)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for now := time.Now(); now.Sub(began) < b.length; {
				if errs[w] = write(w, uint64(len(took[w]))); errs[w] != nil {
					return
				}
				end := time.Now()
				took[w] = append(took[w], inMilliseconds(end.Sub(now)))
				now = end
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	all := slices.Concat(took...)
	if err := errors.Join(errs...); err != nil {
		return nil, 0, err
	}
	return []figure{{perSecond, float64(len(all)) / elapsed.Seconds()}, {p50, median(all)}}, len(all), nil
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// appendsTo measures the log. It fails unless all that was acknowledged is in the log.
func (b *bench) appendsTo(ctx context.Context, s *schema, writers int) ([]figure, error) {
	// Each begins behind a checkpoint, so that all pay alike for whole pages in the
	// write-ahead log.
	if err := b.sql(ctx, s.name, "checkpoint"); err != nil {
		return nil, err
	}
	log := postgres.New(s.pool, postgres.Options{})
	defer log.Close()
	streams := b.streams(writers)
	if err := log.Append(ctx, streams(writers), 0, ledger.Meta{Command: "0"}, event); err != nil { // connects
		return nil, err
	}
	from, err := log.End(ctx)
	if err != nil {
		return nil, err
	}
	figures, n, err := b.closedLoop(writers, func(w int, before uint64) error {
		return log.Append(ctx, streams(w), before, noting(before), event)
	})
	if err != nil {
		return nil, err
	}
	var kept int
	err = s.pool.QueryRow(ctx, "select count(*) from events where position > $1", from).Scan(&kept)
	if err == nil && kept != n {
		err = fmt.Errorf("%d appends were acknowledged, and %d are in the log", n, kept)
	}
	return figures, err
}

// streams returns the names of new streams, one for each writer and one more.
func (b *bench) streams(writers int) func(writer int) ledger.Stream {
	b.runs++
	list := make([]ledger.Stream, writers+1)
	for w := range list {
		list[w] = ledger.Stream(fmt.Sprintf("bench/%d/%d", b.runs, w))
	}
	return func(writer int) ledger.Stream { return list[writer] }
}

func noting(n uint64) ledger.Meta {
	return ledger.Meta{Actor: "bench", Command: strconv.FormatUint(n, 10), Correlation: "bench"}
}

// copyTable makes the table for pgbench: the same columns and indexes, with positions
// from a sequence.
const copyTable = `
create table inserts (like events including all);
alter table inserts alter column position add generated always as identity`

const insertScript = `\set version :version + 1
insert into inserts (stream, version, id, type, time, actor, command, correlation, data, hash) values (
  concat('bench/', cast(:run as text), '/', cast(:client_id as text)), cast(:version as bigint), gen_random_uuid(),
  'bench.noted.v1', clock_timestamp(), 'bench', cast(:version as text), 'bench', cast(:data as bytea), cast(:hash as bytea));
`

const messageScript = `\set version :version + 1
select write_message(cast(gen_random_uuid() as text), %s, 'bench.noted.v1', cast(:data as jsonb), null, cast(:version as bigint) - 2);
`

var (
	tpsLine     = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)
	connectLine = regexp.MustCompile(`(?m)^initial connection time = ([0-9.]+) ms`)
)

// pgbench returns the rate at which pgbench carries out a script. It leaves out of its
// rate the time that its clients take to connect, but not of the time it runs: the run
// before tells how much to add. It does not say how long that was unless something was
// done after it.
func (b *bench) pgbench(ctx context.Context, script, searchPath string, writers int) ([]figure, error) {
	file := filepath.Join(b.scratch, "pgbench.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return nil, err
	}
	data, err := domain.Encode(event)
	if err != nil {
		return nil, err
	}
	for range 8 {
		if err := b.sql(ctx, searchPath, "checkpoint"); err != nil {
			return nil, err
		}
		b.runs++
		length := b.length + b.connecting[writers]
		cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "pgbench"), "-n", "-M", "prepared", "-j", "2", //nolint:gosec // found by privatepg
			"-c", strconv.Itoa(writers), "-T", strconv.Itoa(int((length + time.Second - 1).Seconds())), "-f", file,
			"-D", "version=0", "-D", "run="+strconv.Itoa(b.runs), "-D", "data="+string(data), "-D", "hash="+strings.Repeat("h", 32),
			"-h", b.dir, "-p", "5432", "-U", "mystery", "postgres")
		cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+searchPath)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("pgbench: %w: %s", err, stderr.Bytes())
		}
		connecting := time.Duration(number(connectLine, out)) * time.Millisecond
		if tps := number(tpsLine, out); tps > 0 && length-connecting > b.length/2 {
			b.connecting[writers] = connecting * 5 / 4
			return []figure{{perSecond, tps}}, nil
		}
		b.connecting[writers] = 2 * max(length, connecting)
	}
	return nil, fmt.Errorf("pgbench does not get to insert with %d clients: the machine is too busy", writers)
}

// number returns what the first group of re matches in out, or 0.
func number(re *regexp.Regexp, out []byte) float64 {
	m := re.FindSubmatch(out)
	if m == nil {
		return 0
	}
	f, _ := strconv.ParseFloat(string(m[1]), 64) // digits by the expression
	return f
}
