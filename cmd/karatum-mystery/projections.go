package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	operatorapi "github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
)

func (p *program) projections() *cobra.Command {
	c := &cobra.Command{
		Use:   "projections",
		Short: "Look after the read models, which follow from the ledger",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.projectionsStatus(), p.projectionsRebuild(), p.projectionsPark(), p.projectionsRetry())
	return c
}

func (p *program) projectionsStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how far each read model is, and what it leaves out",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := s.ReadModels().Status(cmd.Context())
			if err != nil {
				return err
			}
			shown := operatorapi.Projections(list, s.Now())
			return p.print(map[string]any{"projections": shown}, table(shown))
		},
	}
}

// table returns where read models stand as text.
func table(list []operatorapi.Projection) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "PROJECTION\tVERSION\tPOSITION\tBEHIND\tAGE\tRATE\tETA\tPARKED\tREBUILD")
	for _, r := range list {
		rate, eta, rebuild := "-", "-", "-"
		if r.Rate > 0 {
			rate = fmt.Sprintf("%.0f/s", r.Rate)
		}
		if r.Remaining != nil {
			eta = seconds(*r.Remaining)
		}
		if b := r.Rebuilding; b != nil {
			rebuild = fmt.Sprintf("at %d", b.Position)
			if b.End > 0 {
				rebuild = fmt.Sprintf("%d %%", min(b.Position, b.End)*100/b.End)
			}
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%s\n",
			r.Name, r.Version, r.Position, r.Behind, seconds(r.Age), rate, eta, len(r.Parked), rebuild)
	}
	_ = w.Flush() // into memory
	for _, r := range list {
		for _, k := range r.Parked {
			fmt.Fprintf(&text, "%s leaves out %s from version %d on, since %s: %s\n",
				r.Name, k.Stream, k.Version, k.Since.Format(time.RFC3339), k.Reason)
		}
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func (p *program) projectionsRebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild [PROJECTION...]",
		Short: "Make read models anew from the ledger, all of them unless some are named",
		Long: `Make read models anew from the ledger, beside those that are in use, and put them in
their place at once when they are complete. The service runs on meanwhile. Streams that
are parked are tried again. While one rebuild is under way another is refused with exit code
6; one that was interrupted leaves everything as it was.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			bar := p.bar("read")
			err = s.ReadModels().Rebuild(cmd.Context(), args, bar.show)
			bar.end()
			if err != nil {
				return err
			}
			list, err := s.ReadModels().Status(cmd.Context())
			if err != nil {
				return err
			}
			shown := operatorapi.Projections(list, s.Now())
			return p.print(map[string]any{"projections": shown}, table(shown))
		},
	}
}

func (p *program) projectionsPark() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "park PROJECTION STREAM --reason TEXT",
		Short: "Let a read model leave out what comes in a stream, until it is tried again",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return fmt.Errorf("--reason must say something: %w", domain.ErrInvalid)
			}
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			k, err := s.ReadModels().Park(cmd.Context(), args[0], ledger.Stream(args[1]), reason)
			if err != nil {
				return err
			}
			return p.print(operatorapi.Parked(k), fmt.Sprintf("%s leaves out %s from version %d on", k.Projection, k.Stream, k.Version))
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words` for other operators (required)")
	must(c.MarkFlagRequired("reason"))
	return c
}

func (p *program) projectionsRetry() *cobra.Command {
	return &cobra.Command{
		Use:   "retry [PROJECTION [STREAM]]",
		Short: "Try parked streams again, all of them unless some are named",
		Long: `Try parked streams again, in their order: all of them, those of one read model, or one
stream. A read model in which streams depend on each other is made anew for that, as by
rebuild. What still cannot be applied stays parked, is listed, and the exit code is 6.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			return p.retry(cmd, s, append(args, "", ""))
		},
	}
}

func (p *program) retry(cmd *cobra.Command, s *assembly.Store, args []string) error {
	still, err := s.ReadModels().Retry(cmd.Context(), args[0], ledger.Stream(args[1]))
	if err != nil {
		return err
	}
	if err := p.print(map[string]any{"parked": operatorapi.Streams(still)}, left(still)); err != nil {
		return err
	}
	if len(still) > 0 {
		return fmt.Errorf("still parked: %d; see projections status for the reasons: %w", len(still), domain.ErrConflict)
	}
	return nil
}

// left returns what is still parked as text.
func left(still []projections.Parked) string {
	if len(still) == 0 {
		return "nothing is parked any more of what was tried"
	}
	var text strings.Builder
	for _, k := range still {
		fmt.Fprintf(&text, "%s still leaves out %s from version %d on: %s\n", k.Projection, k.Stream, k.Version, k.Reason)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
