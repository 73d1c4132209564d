// Command bench measures how fast a ledger is read and written, next to something that
// does the least of it in the same minute on the same machine.
//
// # Reads
//
// A ledger of consents, days and tasks is replayed, its read models are made anew, and its
// public records are put into the public log. The processor time of this process stands
// beside each rate, as it says more than the rate where others use the machine.
//
// # Batches
//
// A batch of as many commits as it may hold is closed, next to as many plain hashes as its
// tree has nodes, and proofs are read out of it, next to single rows.
//
// # API
//
// One consent of a month is read over connections to this machine, next to a handler that
// answers with the same bytes out of memory. What asks runs beside what answers, and no
// limit of reading holds.
//
// # Appends
//
// How many appends per second the log acknowledges, next to pgbench inserting the same
// row. Both run in closed loops with the same number of writers, round about, on a
// private PostgreSQL with its durable defaults. pgbench inserts one row per
// transaction, in the order that the server's sequence gives, into a copy of the
// table with all its indexes; it is the rate that the machine allows for plain
// inserts. The log besides gives a gapless order, checks versions and chains hashes.
//
// Rates mean nothing beyond the disk and the minute they were measured on, so the
// rate of fdatasync stands beside them. Compare the ratio.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/privatepg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// payload is the size of the data of each row, as canonical JSON.
const payload = 486

type noted struct {
	Text string `json:"text"`
}

func (noted) EventType() domain.Type { return "bench.noted.v1" }

var event = noted{strings.Repeat("x", payload-len(`{"text":""}`))}

// A row is what was measured with one number of writers: medians over the rounds.
type row struct {
	Writers  int     `json:"writers"`
	Pgbench  float64 `json:"pgbenchPerSecond"`
	Appends  float64 `json:"appendsPerSecond"`
	Ratio    float64 `json:"ratio"`
	Fsyncs   float64 `json:"fsyncsPerSecond"`
	Lossless bool    `json:"lossless"` // all that was acknowledged is in the log
}

// A bench is one private server with both tables.
type bench struct {
	dir, bin string
	url      string
	pool     *pgxpool.Pool
	length   time.Duration // of one measurement
	runs     int           // so far; names the streams apart

	connecting map[int]time.Duration // that pgbench takes, by number of clients
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print JSON")
	rounds := flags.Int("rounds", 3, "measurements of each kind, of which the median counts")
	length := flags.Duration("length", 2*time.Second, "length of one measurement, in whole seconds")
	writers := flags.String("writers", "1,8,32,256", "numbers of concurrent writers")
	what := flags.String("what", "api,appends,batches,producers,reads", "what is measured")
	days := flags.Int("days", 30, fmt.Sprintf("days of the ledger that is read, of %d consents", consentsRead))
	parent := flags.String("dir", "/var/tmp", "where the server's directory is made; its disk is what is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	base, err := os.MkdirTemp(*parent, "mystery-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	if err := os.Chmod(base, 0o755); err != nil { // the server's account must be able to enter
		return err
	}
	dir := filepath.Join(base, "pg")
	server, err := privatepg.Start(ctx, privatepg.Options{Dir: dir, Settings: []string{"max_connections=300"}})
	if err != nil {
		return err
	}
	defer server.Stop()
	pool, err := migrations.Connect(ctx, server.URL(), "mystery")
	if err != nil {
		return err
	}
	defer pool.Close()

	b := &bench{dir: dir, bin: server.Bin(), url: server.URL(), pool: pool, length: *length, connecting: make(map[int]time.Duration)}
	var out results
	if strings.Contains(*what, "reads") {
		if out.Readings, err = b.reads(ctx, consentsRead, *days, *rounds); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "reads done")
	}
	if strings.Contains(*what, "batches") {
		if out.Batches, err = b.batches(ctx, *rounds); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "batches done")
	}
	if strings.Contains(*what, "producers") {
		if out.Intakes, err = b.producers(ctx, *rounds); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "producers done")
	}
	if strings.Contains(*what, "api") {
		if out.Servings, err = b.api(ctx, *rounds); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "api done")
	}
	if strings.Contains(*what, "appends") {
		if out.Appends, err = b.appendsOf(ctx, *writers, *rounds, stderr); err != nil {
			return err
		}
	}
	if *asJSON {
		return json.NewEncoder(stdout).Encode(out)
	}
	return errors.Join(printReadings(stdout, out.Readings), printTimings(stdout, out.Batches), printIntakes(stdout, out.Intakes), printServings(stdout, out.Servings), printTable(stdout, out.Appends))
}

// results is all that was measured.
type results struct {
	Readings []reading `json:"readings,omitempty"`
	Batches  []timing  `json:"batches,omitempty"`
	Intakes  []intake  `json:"intakes,omitempty"`
	Servings []serving `json:"servings,omitempty"`
	Appends  []row     `json:"appends,omitempty"`
}

// appendsOf measures appends with each of some numbers of writers.
func (b *bench) appendsOf(ctx context.Context, writers string, rounds int, stderr io.Writer) (rows []row, err error) {
	if err := b.psql(ctx, copyTable); err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(writers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 256 {
			return nil, fmt.Errorf("%q is not a number of writers from 1 to 256", text)
		}
		r, err := b.measure(ctx, n, rounds)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		fmt.Fprintf(stderr, "%d writers done\n", n)
	}
	return rows, nil
}

func printTable(w io.Writer, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "writers\tpgbench/s\tappends/s\tratio\tfsyncs/s\tlossless\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.2f\t%.0f\t%t\t\n", r.Writers, r.Pgbench, r.Appends, r.Ratio, r.Fsyncs, r.Lossless)
	}
	return t.Flush()
}

func (b *bench) measure(ctx context.Context, writers, rounds int) (row, error) {
	var inserts, appends, fsyncs []float64
	lossless := true
	for range rounds {
		// Each begins behind a checkpoint, so that both pay alike for whole pages
		// in the write-ahead log.
		if err := b.psql(ctx, "checkpoint"); err != nil {
			return row{}, err
		}
		tps, err := b.pgbench(ctx, writers)
		if err != nil {
			return row{}, err
		}
		syncs, err := b.fsyncRate()
		if err != nil {
			return row{}, err
		}
		if err := b.psql(ctx, "checkpoint"); err != nil {
			return row{}, err
		}
		rate, kept, err := b.appends(ctx, writers)
		if err != nil {
			return row{}, err
		}
		inserts, fsyncs, appends = append(inserts, tps), append(fsyncs, syncs), append(appends, rate)
		lossless = lossless && kept
	}
	r := row{Writers: writers, Pgbench: median(inserts), Appends: median(appends), Fsyncs: median(fsyncs), Lossless: lossless}
	r.Ratio = r.Appends / r.Pgbench
	return r, nil
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return (xs[len(xs)/2] + xs[(len(xs)-1)/2]) / 2
}

// appends measures the log. It counts what was acknowledged and compares it with
// what is in the log.
func (b *bench) appends(ctx context.Context, writers int) (rate float64, lossless bool, err error) {
	b.runs++
	log := postgres.New(b.pool, postgres.Options{})
	defer log.Close()
	if err := log.Append(ctx, b.stream("warm"), 0, ledger.Meta{Command: "0"}, event); err != nil { // connects
		return 0, false, err
	}
	var acknowledged atomic.Int64
	errs := make([]error, writers)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := b.stream(strconv.Itoa(w))
			for v := uint64(0); time.Since(began) < b.length; v++ {
				m := ledger.Meta{Actor: "bench", Command: strconv.FormatUint(v, 10), Correlation: "bench"}
				if errs[w] = log.Append(ctx, s, v, m, event); errs[w] != nil {
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return 0, false, err
	}
	var kept int64
	err = b.pool.QueryRow(ctx, "select count(*) from events where starts_with(stream, $1)", string(b.stream(""))).Scan(&kept)
	if err != nil {
		return 0, false, err
	}
	return float64(acknowledged.Load()) / took.Seconds(), kept == acknowledged.Load()+1, nil
}

func (b *bench) stream(name string) ledger.Stream {
	return ledger.Stream(fmt.Sprintf("bench/%d/%s", b.runs, name))
}

// copyTable makes the table for pgbench: the same columns and indexes, with
// positions from a sequence.
const copyTable = `
create table mystery.inserts (like mystery.events including all);
alter table mystery.inserts alter column position add generated always as identity`

const script = `\set version :version + 1
insert into mystery.inserts (stream, version, id, type, time, actor, command, correlation, data, hash) values (
  concat('bench/', cast(:run as text), '/', cast(:client_id as text)), cast(:version as bigint), gen_random_uuid(),
  'bench.noted.v1', clock_timestamp(), 'bench', cast(:version as text), 'bench', cast(:data as bytea), cast(:hash as bytea));
`

var (
	tpsLine     = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)
	connectLine = regexp.MustCompile(`(?m)^initial connection time = ([0-9.]+) ms`)
)

// pgbench returns the rate of inserts. pgbench leaves out of its rate the time that
// its clients take to connect, but not of the time it runs: the first run tells how
// much to add.
func (b *bench) pgbench(ctx context.Context, writers int) (float64, error) {
	file := filepath.Join(filepath.Dir(b.dir), "insert.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	data, err := domain.Encode(event)
	if err != nil {
		return 0, err
	}
	for range 4 {
		b.runs++
		length := b.length + b.connecting[writers]
		cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "pgbench"), "-n", "-M", "prepared", "-j", "2",
			"-c", strconv.Itoa(writers), "-T", strconv.Itoa(int((length + time.Second - 1).Seconds())), "-f", file,
			"-D", "version=0", "-D", "run="+strconv.Itoa(b.runs), "-D", "data="+string(data), "-D", "hash="+strings.Repeat("h", 32),
			"-h", b.dir, "-p", "5432", "-U", "mystery", "postgres")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return 0, fmt.Errorf("pgbench: %w: %s", err, stderr.Bytes())
		}
		connecting := time.Duration(number(connectLine, out)) * time.Millisecond
		if tps := number(tpsLine, out); tps > 0 && length-connecting > b.length/2 {
			return tps, nil
		}
		b.connecting[writers] = max(length, connecting) * 3 / 2
	}
	return 0, fmt.Errorf("pgbench does not get to insert with %d clients: the machine is too busy", writers)
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

// psql runs statements as the superuser.
func (b *bench) psql(ctx context.Context, sql string) error {
	cfg, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	for statement := range strings.SplitSeq(sql, ";") {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
