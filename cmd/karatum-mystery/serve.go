package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	operatorapi "github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
)

const (
	workEvery     = 10 * time.Second
	shutdownGrace = 10 * time.Second
	maxDrain      = 5 * time.Minute
)

func (p *program) serve() *cobra.Command {
	var listen string
	var house, alone, both bool
	var drain time.Duration
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API; on a private database run the shopper's cycle too",
		Long: `Serve the API. On a private database, which one process owns, the shopper's cycle
runs in the same process; with MYSTERY_DATABASE_URL set it is a process of its own,
karatum-mystery work, unless --work asks for both in one. With MYSTERY_KEYS_SOCKET set
too, a serve that does not run the cycle reads no secret and asks work for what owners
sign.

Told to end (SIGTERM or SIGINT), it says on /readyz that it is not ready, goes on for
as long as --drain says, lets requests under way finish, waits for tasks that were sent,
and ends. A second signal ends it at once.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&listen, "listen", "localhost:8080", "`address` of the API")
	c.Flags().BoolVar(&both, "work", false, "run the shopper's cycle in this process too")
	c.Flags().BoolVar(&alone, "no-work", false, "never run the shopper's cycle in this process")
	c.Flags().BoolVar(&house, "house", false, "serve the two demo agents below /demo-agents/ too")
	c.Flags().DurationVar(&drain, "drain", 0, "how long requests are still taken while /readyz says that this process ends, as a `duration` such as 5s")
	c.MarkFlagsMutuallyExclusive("work", "no-work")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if drain < 0 || drain > maxDrain {
			return fmt.Errorf("--drain must be from 0s to %s: %w", maxDrain, domain.ErrInvalid)
		}
		c := assembly.ConfigFrom(p.getenv)
		keyless := c.KeysSocket != "" && !both && (alone || c.DatabaseURL != "")
		prog, err := p.open(cmd.Context(), assembly.Options{Keyless: keyless})
		if err != nil {
			return err
		}
		defer prog.Close()
		api := prog.Handler()
		if house {
			if api, err = withHouse(api, p.getenv); err != nil {
				return err
			}
		}
		front, base := []part{func(ctx context.Context) error { return p.listen(ctx, prog, listen, drain, api) }}, p.base(prog)
		if both || prog.Private && !alone {
			front = append(front, func(ctx context.Context) error { return p.shop(ctx, prog) })
			base = append(base, prog.AnswerForKeys)
		}
		return together(cmd.Context(), front, base)
	}
	return c
}

func (p *program) work() *cobra.Command {
	return &cobra.Command{
		Use:   "work",
		Short: "Run the shopper's cycle: observe, plan, send, reveal, compare, and attest batches",
		Long: `Run the shopper's cycle: observe, plan, send, reveal, compare, and attest batches.

Told to end (SIGTERM or SIGINT), it sends nothing any more, waits for the tasks that were
sent, a minute or so at most, and ends. A second signal ends it at once; a task that was
under way then comes out as lost.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prog, err := p.open(cmd.Context(), assembly.Options{})
			if err != nil {
				return err
			}
			defer prog.Close()
			front := []part{func(ctx context.Context) error { return p.shop(ctx, prog) }}
			return together(cmd.Context(), front, append(p.base(prog), prog.AnswerForKeys))
		},
	}
}

// base returns what serve and work rest on: read models, clock and private database, and
// the interface for the operator, who wants to look on until the end.
func (p *program) base(prog *assembly.Programme) []part {
	return []part{prog.Follow, func(ctx context.Context) error { return p.operator(ctx, prog) }}
}

// A part of a process runs until its context ends.
type part func(context.Context) error

// together runs parts until ctx ends: then those in front end, and when the last of them
// has, those that they rest on. An error of one ends all.
func together(ctx context.Context, front, base []part) error {
	rest, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, rest := errgroup.WithContext(rest)
	for _, run := range base {
		g.Go(func() error { return run(rest) })
	}
	g.Go(func() error {
		defer end()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(rest, cancel)()
		g, ctx := errgroup.WithContext(ctx)
		for _, run := range front {
			g.Go(func() error { return run(ctx) })
		}
		return g.Wait()
	})
	return g.Wait()
}

// shop runs the cycle until ctx ends, unless agents could know tasks by where they
// come from.
func (p *program) shop(ctx context.Context, prog *assembly.Programme) error {
	if err := assembly.ConfigFrom(p.getenv).CheckEgress(ctx); err != nil {
		return err
	}
	return prog.Work(ctx, cmp.Or(p.world.pause, workEvery))
}

// listen serves h until ctx ends. Then the process says that it is not ready, goes on for
// the time that drain says, so that balancers see it, and lets requests under way finish.
func (p *program) listen(ctx context.Context, prog *assembly.Programme, addr string, drain time.Duration, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	p.logger().InfoContext(ctx, "serving", "address", l.Addr().String(), "url", "http://"+l.Addr().String()+"/v1/mystery")
	open, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		prog.Drain()
		p.logger().InfoContext(ctx, "told to end", "drain", drain.String())
		time.AfterFunc(drain, end)
	})()
	return serve(open, l, assembly.Server(h))
}

// operator serves the interface for the operator until ctx ends, if there is to be one.
func (p *program) operator(ctx context.Context, prog *assembly.Programme) error {
	l, err := prog.OperatorListener(ctx)
	if err != nil {
		return fmt.Errorf("MYSTERY_OPERATOR_ADDR: %w", err)
	}
	if l == nil {
		return nil
	}
	p.logger().InfoContext(ctx, "the operator is served", "address", l.Addr().String(), "url", "http://"+l.Addr().String()+operatorapi.Root+"/projections")
	s := assembly.Server(prog.Operator())
	s.WriteTimeout = 0 // a rebuild takes what it takes
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	return serve(ctx, l, s)
}

// serve lets s serve l until ctx ends, and requests under way finish.
func serve(ctx context.Context, l net.Listener, s *http.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := s.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
