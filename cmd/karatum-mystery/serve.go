package main

import (
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
)

const (
	workEvery     = 10 * time.Second
	shutdownGrace = 10 * time.Second
)

func (p *program) serve() *cobra.Command {
	var listen string
	var house, alone bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API; on a private database run the shopper's cycle too",
		Long: `Serve the API. On a private database, which one process owns, the shopper's cycle
runs in the same process; with MYSTERY_DATABASE_URL set it is a process of its own,
karatum-mystery work, unless --work asks for both in one.`,
		Args: cobra.NoArgs,
	}
	var both bool
	c.Flags().StringVar(&listen, "listen", "localhost:8080", "`address` of the API")
	c.Flags().BoolVar(&both, "work", false, "run the shopper's cycle in this process too")
	c.Flags().BoolVar(&alone, "no-work", false, "never run the shopper's cycle in this process")
	c.Flags().BoolVar(&house, "house", false, "serve the two demo agents below /demo-agents/ too")
	c.MarkFlagsMutuallyExclusive("work", "no-work")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		prog, err := p.open(cmd.Context(), true)
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
		g, ctx := errgroup.WithContext(cmd.Context())
		g.Go(func() error { return prog.Follow(ctx) })
		g.Go(func() error { return p.listen(ctx, listen, api) })
		g.Go(func() error { return p.operator(ctx, prog) })
		if both || prog.Private && !alone {
			g.Go(func() error { return p.shop(ctx, prog) })
		}
		return g.Wait()
	}
	return c
}

func (p *program) work() *cobra.Command {
	return &cobra.Command{
		Use:   "work",
		Short: "Run the shopper's cycle: observe, plan, send, reveal, compare, and attest batches",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prog, err := p.open(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer prog.Close()
			g, ctx := errgroup.WithContext(cmd.Context())
			g.Go(func() error { return prog.Follow(ctx) })
			g.Go(func() error { return p.shop(ctx, prog) })
			g.Go(func() error { return p.operator(ctx, prog) })
			return g.Wait()
		},
	}
}

// shop runs the cycle until ctx ends, unless agents could know tasks by where they
// come from.
func (p *program) shop(ctx context.Context, prog *assembly.Programme) error {
	if err := assembly.ConfigFrom(p.getenv).CheckEgress(ctx); err != nil {
		return err
	}
	return prog.Work(ctx, workEvery)
}

// listen serves h until ctx ends, then lets requests under way finish.
func (p *program) listen(ctx context.Context, addr string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	p.logger().InfoContext(ctx, "serving", "address", l.Addr().String(), "url", "http://"+l.Addr().String()+"/v1/mystery")
	return serve(ctx, l, assembly.Server(h))
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
