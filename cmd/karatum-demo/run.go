package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
)

const manual = `karatum-demo shows the whole programme. Two house agents give their consent, are
examined, and are then shopped for twenty virtual days: "steady" behaves the same for
everybody, "exam-aware" is careful only when it recognises the examiner. Watch the
second one get caught; every revealed task is made again from its seed on the way, and its
commit proven to be attested on a chain that runs in this process.

It needs PostgreSQL's programs, or MYSTERY_DATABASE_URL for a server on which it may
make a schema of its own, which it drops at the end. Nothing leaves this machine.

Exit codes: 0 ok, 1 error, 2 usage, 130 interrupted before the end.`

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

// flags say what to run. Equal seeds give equal results but for durations.
type flags struct {
	once, json bool
	seed       string
	listen     string
	rpc        string // where the chain is served; empty: nowhere
	eventLog   string

	nodes    rpc.Set // of the chains that owners' contracts are on
	anchored bool    // batches are attested on a chain in this process

	watch    func(http.Handler) http.Handler // stands before the house agents; nil: nobody watches them
	patience time.Duration                   // with a database that says nothing; 0: that of the service
}

// Values of --eventlog beside addresses.
const (
	inPostgres = "postgres"
	inDouble   = "esdb-double"
)

// run is main without the process. It returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var f flags
	c := &cobra.Command{
		Use:           "karatum-demo",
		Short:         "Run the whole programme on a virtual clock",
		Long:          manual,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			f.anchored = true
			if f.once {
				f.rpc = "" // nobody is going to ask
			}
			start, err := f.start(time.Now())
			if err != nil {
				return err
			}
			return demonstrate(ctx, f, start, getenv, stdout, progress{stderr, isTerminal(stderr)})
		},
	}
	c.Flags().BoolVar(&f.once, "once", false, "exit when the weeks are over instead of staying up")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object and nothing else on standard output")
	c.Flags().StringVar(&f.seed, "seed", "1", "`number` that fixes everything drawn and starts the clock at 2026-01-01 and that many days, or \"now\" to end near now")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` of the API; a free port is taken if it is in use")
	c.Flags().StringVar(&f.rpc, "rpc", "127.0.0.1:8545", "`address` of the chain's JSON-RPC while the demo stays up; a free port is taken if it is in use")
	c.Flags().StringVar(&f.eventLog, "eventlog", inPostgres, "where the event log is: "+inPostgres+", "+inDouble+" (a stand-in for an EventStoreDB cluster in this process), or the esdb:// `address` of one")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.ExecuteContext(ctx)
	switch {
	case err == nil, errors.Is(err, errStayed):
		return 0
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "karatum-demo: interrupted before the end")
		return exitInterrupted
	}
	_, _ = fmt.Fprintln(stderr, "karatum-demo:", domain.Sentence(err))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// exitInterrupted is what a shell gives for Ctrl-C.
const exitInterrupted = 130

// epoch is where the clock starts with seed 0.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxSeed keeps the clock in years that have four digits.
const maxSeed = 1_000_000

// start returns the moment at which the virtual clock starts.
func (f flags) start(now time.Time) (time.Time, error) {
	if f.seed == "now" {
		return now.UTC().Truncate(24 * time.Hour).Add(-programmeDays * 24 * time.Hour), nil
	}
	n, err := strconv.ParseUint(f.seed, 10, 32)
	if err != nil || n > maxSeed {
		return time.Time{}, fmt.Errorf("%w: --seed is a number up to %d, or now", errUsage, maxSeed)
	}
	return epoch.AddDate(0, 0, int(n)), nil
}

// draw returns what the seed fixes for one purpose.
func (f flags) draw(purpose string) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/demo/v1").Str(f.seed).Str(purpose))
}

// progress tells people at a terminal how far the demo is, on one line, and
// everybody else what begins.
type progress struct {
	w        io.Writer
	terminal bool
}

// say begins a new line.
func (p progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, p.clear()+format+"\n", args...)
}

// at overwrites the last line, on a terminal only.
func (p progress) at(format string, args ...any) {
	if p.terminal {
		_, _ = fmt.Fprintf(p.w, p.clear()+format, args...)
	}
}

func (p progress) clear() string {
	if p.terminal {
		return "\r\x1b[K"
	}
	return ""
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
