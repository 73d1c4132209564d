// Command bench measures how fast the ledger is written, read and proven, next to
// something of others that does the same, or to the least that it could take, in the same
// minute on the same machine. docs/PERFORMANCE.md explains the figures.
//
// Each figure is the median of some runs. Ours and the peers take turns in each run, and a
// ratio is taken within a run: rates mean nothing beyond the machine, the disk and the
// minute they were measured on. Compare the ratios.
//
// Writers work in a closed loop: each begins with the next as soon as the last is
// acknowledged. PostgreSQL is a private one with its durable defaults.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// A stage measures what takes the same preparations.
type stage struct {
	name string
	run  func(*bench, context.Context) error
}

// stages are what is measured if nothing else is asked for.
var stages = []stage{
	{"appends", (*bench).appends},
	{"leaves", (*bench).leaves},
	{"reads", (*bench).reads},
	{"proofs", (*bench).proofs},
	{"batches", (*bench).batches},
	{"tasks", (*bench).tasks},
	{"producers", (*bench).producers},
	{"api", (*bench).api},
}

// onDemand are what is measured besides, as it takes long or has no peers.
var onDemand = []stage{
	{"growth", (*bench).growth},
	{"footprint", (*bench).footprint},
	{"pages", (*bench).pages},
}

// A bench is a private server, and what was measured on it.
type bench struct {
	dir, bin string // of the server
	scratch  string // a directory on the same disk
	url      string
	length   time.Duration // of one measurement
	rounds   int
	largest  int // size that growth is measured at
	records  int // of the ledger that the footprint is measured on
	stderr   io.Writer

	schemas    int                   // made so far
	runs       int                   // of writers so far; names their streams apart
	connecting map[int]time.Duration // that pgbench takes, by number of clients
	stage      string
	lines      []line
}

// options are those of the command line.
type options struct {
	json      bool
	rounds    int
	largest   int
	records   int
	length    time.Duration
	what, dir string

	benchstat, check string // files
}

func parse(args []string, stderr io.Writer) (o options, chosen []stage, err error) {
	names := make([]string, len(stages))
	for i, s := range stages {
		names[i] = s.name
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.benchstat, "benchstat", "", "write to this `file`, too, what benchstat and -check read")
	flags.IntVar(&o.rounds, "rounds", 10, "runs of each kind, of which the median counts")
	flags.IntVar(&o.largest, "largest", 1e6, "number up to which growth is measured")
	flags.DurationVar(&o.length, "length", 2*time.Second, "length of one measurement, in whole seconds")
	flags.StringVar(&o.what, "what", strings.Join(names, ","), "what is measured; growth besides shows how figures change with size, footprint how long a start takes and how much memory the service, and pages after how long the first byte of a page comes")
	flags.IntVar(&o.records, "records", 1e6, "records of the ledger of footprint")
	flags.StringVar(&o.check, "check", "", "fail if ratios are more than 20 % below those in this `file`")
	flags.StringVar(&o.dir, "dir", "/var/tmp", "where the directory of the servers is made; its disk is what is measured")
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	if o.rounds < 1 || o.length < time.Second {
		return o, nil, errors.New("measure once at least, for a second at least")
	}
	for name := range strings.SplitSeq(o.what, ",") {
		all := slices.Concat(stages, onDemand)
		i := slices.IndexFunc(all, func(s stage) bool { return s.name == name })
		if i < 0 {
			return o, nil, fmt.Errorf("nothing called %q is measured; choose from %s, growth, footprint and pages", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return o, chosen, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, chosen, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var baseline ratios
	if o.check != "" { // first, as it takes a while until it is needed
		if baseline, err = readBaseline(o.check); err != nil {
			return err
		}
	}
	base, err := os.MkdirTemp(o.dir, "mystery-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	if err := os.Chmod(base, 0o755); err != nil { //nolint:gosec // the server's account must be able to enter
		return err
	}
	dir := filepath.Join(base, "pg")
	server, err := privatepg.Start(ctx, privatepg.Options{Dir: dir, Settings: []string{"max_connections=300"}})
	if err != nil {
		return err
	}
	defer server.Stop()
	b := &bench{
		dir: dir, bin: server.Bin(), scratch: base, url: server.URL(), length: o.length, rounds: o.rounds, largest: o.largest, records: o.records, stderr: stderr,
		connecting: make(map[int]time.Duration),
	}
	conditions, err := b.conditions(ctx)
	if err != nil {
		return err
	}
	if err := b.measure(ctx, chosen); err != nil {
		return err
	}
	if err := (report{conditions, b.lines}).write(o, stdout); err != nil || o.check == "" {
		return err
	}
	return b.compare(ctx, baseline, chosen)
}

// write prints a report, and writes it to a file if that is asked for.
func (r report) write(o options, stdout io.Writer) error {
	show := r.writeTable
	if o.json {
		show = r.writeJSON
	}
	if err := show(stdout); err != nil || o.benchstat == "" {
		return err
	}
	var text bytes.Buffer
	if err := r.writeBenchmarks(&text); err != nil {
		return err
	}
	return os.WriteFile(o.benchstat, text.Bytes(), 0o644) //nolint:gosec // for everybody to compare with
}

func (b *bench) measure(ctx context.Context, chosen []stage) error {
	for _, s := range chosen {
		began := time.Now()
		b.stage = s.name
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(b.stderr, "%s: measured in %s\n", s.name, time.Since(began).Round(time.Second))
	}
	return nil
}

// compare returns an error that names the ratios that are worse than those of a
// baseline. What seems worse is measured once more, and counts if it is worse again:
// another program that wakes up must not be taken for a regression.
func (b *bench) compare(ctx context.Context, baseline ratios, chosen []stage) error {
	if len(chosen) < len(stages) { // of the others nothing can be said
		now := ratiosOf(b.lines)
		maps.DeleteFunc(baseline, func(key string, _ []float64) bool { return now[key] == nil })
	}
	worse := regressions(baseline, ratiosOf(b.lines))
	if len(worse) == 0 {
		return nil
	}
	suspects := make(map[string]bool)
	doubtful := make(ratios)
	for _, r := range worse {
		fmt.Fprintf(b.stderr, "%s; measuring it again\n", r)
		doubtful[r.key] = baseline[r.key]
		for _, l := range b.lines {
			suspects[l.stage] = suspects[l.stage] || l.key() == r.key
		}
	}
	b.lines = nil
	if err := b.measure(ctx, slices.DeleteFunc(slices.Clone(chosen), func(s stage) bool { return !suspects[s.name] })); err != nil {
		return err
	}
	if worse = regressions(doubtful, ratiosOf(b.lines)); len(worse) == 0 {
		return nil
	}
	list := make([]string, len(worse))
	for i, r := range worse {
		list[i] = r.String()
	}
	return fmt.Errorf("slower than the baseline, twice:\n%s", strings.Join(list, "\n"))
}

func readBaseline(name string) (ratios, error) {
	f, err := os.Open(name) //nolint:gosec // named by who calls
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRatios(f, name)
}

// A contest is between sides that do the same.
type contest struct {
	what  string
	sides []side
}

func doing(what string, sides ...side) contest { return contest{what, sides} }

// hold holds contests, one after the other, and adds lines to the table that compare the
// first side of each with its others. There are as many runs as rounds, and sides take
// turns at being first.
func (b *bench) hold(ctx context.Context, contests ...contest) error {
	for _, c := range contests {
		samples := make([][][]figure, len(c.sides))
		for round := range b.rounds {
			for i := range c.sides {
				n := (round + i) % len(c.sides)
				figures, err := c.sides[n].run(ctx)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.what, c.sides[n].name, err)
				}
				samples[n] = append(samples[n], figures)
			}
		}
		for _, l := range linesOf(c.what, c.sides, samples) {
			l.stage = b.stage
			b.lines = append(b.lines, l)
			fmt.Fprintf(b.stderr, "%s: %s %s\n", l.What, digits(l.Ours.Median), l.Unit)
		}
	}
	return nil
}

// A schema is a database of its own, as far as the service can tell.
type schema struct {
	name string
	pool *pgxpool.Pool
	drop func() error
}

// open makes a schema.
func (b *bench) open(ctx context.Context) (*schema, error) {
	b.schemas++
	name := fmt.Sprintf("bench%d", b.schemas)
	pool, err := migrations.Connect(ctx, b.url, name)
	if err != nil {
		return nil, err
	}
	return &schema{name, pool, func() error {
		pool.Close()
		return migrations.Drop(context.WithoutCancel(ctx), b.url, name)
	}}, nil
}

// sql carries statements out as the superuser, in one transaction, with the tables of the
// schema in its search path.
func (b *bench) sql(ctx context.Context, schema, statements string) error {
	cfg, err := pgx.ParseConfig(b.url)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["search_path"] = schema + "," + schema + "_rm"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, statements).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

func (b *bench) conditions(ctx context.Context) (c conditions, err error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return c, err
	}
	version, err := exec.CommandContext(ctx, filepath.Join(b.bin, "postgres"), "--version").Output() //nolint:gosec // found by privatepg
	if err != nil {
		return c, err
	}
	return conditions{
		Cores: runtime.NumCPU(), Go: runtime.Version(), Rounds: b.rounds,
		PostgreSQL: strings.Fields(string(version))[2], Load: strings.Join(strings.Fields(string(load))[:3], " "),
	}, nil
}
