package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"golang.org/x/sync/errgroup"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// The names that are signed. What they lead to is decided by [agents.Loopback]
// and the listeners, so that signatures do not depend on free ports.
const (
	houseHost = "agents.demo.karatum.test:8081"
	houseURL  = "http://" + houseHost
	publicURL = "http://mystery.demo.karatum.test:8080"
)

// The programme of the demo.
const (
	programmeDays = 20 // on the virtual clock
	validityDays  = 60
	perDay        = 12
	perWeek       = 60
	examAttempts  = 40
	revealDelay   = 24 * time.Hour
)

var agentNames = []string{"steady", "exam-aware"}

// A stage is everything that the demo runs.
type stage struct {
	flags  flags
	start  time.Time
	clock  *clock
	prog   *assembly.Programme
	wallet *secp256k1.PrivateKey
	owner  eip191.Address
	api    *client
	anchor *anchor // nil: batches are not attested
	tell   progress

	closers []func()
}

// demonstrate runs the demo from the given virtual moment.
func demonstrate(ctx context.Context, f flags, start time.Time, getenv func(string) string, stdout io.Writer, tell progress) error {
	began := time.Now()
	tell.say("starting PostgreSQL, a chain with EAS, the house agents and the service")
	s, err := openStage(ctx, f, start, getenv, tell)
	if err != nil {
		return err
	}
	defer s.close()
	consents, err := s.enrol(ctx)
	if err != nil {
		return err
	}
	if err := s.examine(ctx, consents); err != nil {
		return err
	}
	end := start.AddDate(0, 0, programmeDays)
	tell.say("%d days pass until %s", programmeDays, end.Format(time.DateOnly))
	if err := s.pass(ctx, end); err != nil {
		return err
	}
	tell.say("making every revealed task again from its seed")
	r, err := s.report(ctx, consents)
	if err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	if err := r.print(stdout, f.json); err != nil || f.once {
		return err
	}
	return s.stay(ctx, stdout)
}

// errStayed says that the demo ran to its end and then stayed up until it was
// told to stop.
var errStayed = errors.New("stopped")

// openStage starts the database, the house and the service. The names that are
// signed lead to their real listeners.
func openStage(ctx context.Context, f flags, start time.Time, getenv func(string) string, tell progress) (_ *stage, err error) {
	s := &stage{flags: f, start: start, clock: &clock{now: start}, tell: tell}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	key := f.draw("wallet")
	s.wallet = secp256k1.PrivKeyFromBytes(key[:])
	s.owner = eip191.AddressOf(s.wallet.PubKey())

	if f.anchored {
		if err := s.openAnchor(ctx); err != nil {
			return nil, fmt.Errorf("the development chain: %w", err)
		}
	}
	agentsAt, err := s.listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	apiAt, err := s.listenAt(ctx, "--listen", f.listen)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, getenv, agentsAt.Addr().String()); err != nil {
		return nil, err
	}
	agents := house.Handler(house.Options{Base: houseURL, Owner: s.owner})
	if f.watch != nil {
		agents = f.watch(agents)
	}
	s.serve(agentsAt, agents)
	s.serve(apiAt, s.prog.Handler())
	s.api = &client{base: "http://" + apiAt.Addr().String()}
	return s, nil
}

func (s *stage) listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err == nil {
		s.onClose(func() { _ = l.Close() })
	}
	return l, err
}

// listenAt listens at the address that a flag names, or at a free port if that is in use.
func (s *stage) listenAt(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := s.listen(ctx, addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		s.tell.say("%s %s is in use; another port is taken", flag, addr)
		l, err = s.listen(ctx, "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

func (s *stage) serve(l net.Listener, h http.Handler) {
	server := assembly.Server(h)
	s.onClose(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // until it is closed
}

func (s *stage) onClose(f func()) { s.closers = append(s.closers, f) }

// close ends everything, last things first.
func (s *stage) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
	s.closers = nil
}

// open assembles the programme on a database of its own, which is removed in the
// end.
func (s *stage) open(ctx context.Context, getenv func(string) string, house string) (err error) {
	c := assembly.Config{
		DatabaseURL: getenv("MYSTERY_DATABASE_URL"),
		PublicURL:   publicURL,

		IncidentSeverity: getenv("MYSTERY_INCIDENT_SEVERITY"),

		Sources: []string{"127.0.0.1"},
	}
	if c.EventLog, err = s.openEventLog(ctx); err != nil {
		return err
	}
	schema := ""
	logKey, err := checkpoint.PrivateKey(strings.TrimPrefix(publicURL, "http://")+"/ledger", s.flags.draw("log key"))
	if err != nil {
		return err
	}
	if c.DatabaseURL == "" {
		if c.StateDir, err = os.MkdirTemp("", "karatum-demo-"); err != nil {
			return err
		}
		s.onClose(func() { _ = os.RemoveAll(c.StateDir) })
		if err := os.Chmod(c.StateDir, 0o711); err != nil { //nolint:gosec // the database's account must pass
			return err
		}
	} else {
		schema = fmt.Sprintf("demo_%d_%d", os.Getpid(), schemas.Add(1))
	}
	o := assembly.Options{
		Schema:  schema,
		Now:     s.clock.Now,
		Rand:    rand.NewChaCha8(s.flags.draw("random")),
		Secrets: commands.Keyring{s.flags.draw("operator secret")},
		LogKey:  logKey,
		Nodes:   s.flags.nodes,
		Net:     agents.Loopback(time.Now, map[string]string{houseHost: house}),
		Log:     slog.New(slog.NewJSONHandler(s.tell.w, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Demo:    true,
		// Whoever plays with it is one person.
		Unlimited: true,
		// What is thrown away in a minute need not survive a power cut.
		Settings: []string{"fsync=off"},
		Patience: s.flags.patience,
	}
	if s.anchor != nil {
		s.anchor.attesting(&c, &o)
	}
	if s.prog, err = assembly.Open(ctx, c, o); err != nil {
		return err
	}
	s.onClose(func() {
		if schema != "" {
			_ = s.prog.Drop(context.WithoutCancel(ctx)) // what stays is small and named demo_…
		}
		s.prog.Close()
	})
	// Everything happens in one order, and the clock stands while a task is out.
	s.prog.Worker.Parallel, s.prog.Worker.Async = 1, false
	return nil
}

// openEventLog returns the address of the event log, "" for the database.
func (s *stage) openEventLog(ctx context.Context) (string, error) {
	switch s.flags.eventLog {
	case inPostgres, "":
		return "", nil
	case inDouble:
		cluster, err := double.New(ctx, double.Options{Now: s.clock.Now, Nodes: 3})
		if err != nil {
			return "", err
		}
		s.onClose(cluster.Close)
		return cluster.URL(), nil
	}
	return s.flags.eventLog, nil
}

// schemas numbers the schemas of this process.
var schemas atomic.Int64

// enrol registers the agents and gives their consents through the public API, as
// an owner would. The A2A endpoint is a verified identity of the agent; for the
// MCP endpoint the host says who its owner is.
func (s *stage) enrol(ctx context.Context) (map[string]consent.Payload, error) {
	consents := make(map[string]consent.Payload)
	for _, name := range agentNames {
		ref := agent.Ref("build:" + name)
		base := houseURL + "/demo-agents/" + name
		for _, c := range []agent.Command{
			agent.Register{Agent: ref, Wallet: s.owner, Demo: true},
			agent.VerifyIdentity{URL: base},
		} {
			m := ledger.Meta{Actor: "operator", Command: fmt.Sprintf("demo/%T/%s", c, name)}
			if err := s.prog.Service.Agent(ctx, m, ref, c); err != nil {
				return nil, err
			}
		}
		if err := s.prog.CatchUp(ctx); err != nil {
			return nil, err
		}
		p, err := s.api.grant(ctx, consent.Request{
			Agent: ref,
			Endpoints: []consent.Endpoint{
				{Kind: task.A2A, URL: base},
				{Kind: task.MCP, URL: base + "/mcp"},
			},
			Kinds:              []task.Kind{task.A2A, task.MCP},
			MaxPerDay:          perDay,
			MaxPerWeek:         perWeek,
			RevealDelaySeconds: int64(revealDelay / time.Second),
			ValidityDays:       validityDays,
		}, s.wallet)
		if err != nil {
			return nil, fmt.Errorf("consent of %s: %w", name, err)
		}
		consents[name] = p
		s.tell.say("%s: the owner %s has signed a consent", name, s.owner)
	}
	return consents, nil
}

func (s *stage) examine(ctx context.Context, consents map[string]consent.Payload) error {
	for _, name := range agentNames {
		s.tell.say("%s: %d exam tasks under the harness's own name", name, examAttempts)
		e := worker.Exam{
			Run: "demo-1", Source: "demo-harness", Seed: s.flags.draw("exam " + name),
			Attempts: examAttempts, Payload: consents[name],
		}
		if err := s.prog.Worker.Examine(ctx, e); err != nil {
			return fmt.Errorf("exam of %s: %w", name, err)
		}
	}
	return nil
}

// pass lets the weeks pass: the clock jumps from one due moment to the next.
func (s *stage) pass(ctx context.Context, end time.Time) error {
	for {
		next, err := s.prog.Worker.Step(ctx)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.attest(ctx); err != nil {
			return err
		}
		if s.anchor != nil && s.anchor.due.Before(next) {
			next = s.anchor.due
		}
		if !next.Before(end) {
			s.clock.Jump(end)
			return s.prog.CatchUp(ctx)
		}
		s.clock.Jump(next)
		s.tell.at("%s", next.Format("Mon 2 Jan 2006 15:04"))
	}
}

// stay keeps everything up, the clock at real speed, until ctx ends.
func (s *stage) stay(ctx context.Context, stdout io.Writer) error {
	s.clock.Release()
	notice := stdout
	if s.flags.json {
		notice = s.tell.w // standard output holds the object and nothing else
	}
	_, err := fmt.Fprintf(notice, "\nThe API stays up; its clock goes on from %s. Look at\n"+
		"  %[2]s/v1/mystery\n  %[2]s/v1/mystery/agents/build:exam-aware\n  %[2]s/v1/mystery/findings\n"+
		"Links in its answers name %[3]s, which is what was signed. Ctrl-C ends it.\n",
		s.clock.Now().Format(time.DateOnly), s.api.base, publicURL)
	if err == nil && s.anchor != nil && s.anchor.url != "" {
		_, err = fmt.Fprintf(notice, "The chain that its batches are attested on answers at %s:\n"+
			"  karatum-verify chain %s --rpc %[1]s\n", s.anchor.url, s.api.base)
	}
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.prog.Follow(ctx) })
	g.Go(func() error { return s.prog.Work(ctx, time.Second) })
	if s.anchor != nil {
		g.Go(func() error { return s.anchor.mine(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errStayed
}
