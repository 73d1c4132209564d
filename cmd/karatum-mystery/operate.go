package main

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/exam"
)

func (p *program) exam() *cobra.Command {
	c := &cobra.Command{
		Use:   "exam",
		Short: "Examine agents under the harness's own name",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.examRun(), p.examRecord(), p.examWithdraw())
	return c
}

func (p *program) examRecord() *cobra.Command {
	var ref, outcome string
	var e exam.RecordAttempt
	c := &cobra.Command{
		Use:   "record ATTEMPT --agent REF --family NAME --outcome OUTCOME",
		Short: "Record a trial attempt of an agent's certification",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.Attempt, e.Outcome = args[0], exam.TrialOutcome(outcome)
			return p.examine(cmd, ref, func(ref agent.Ref) exam.Command { e.Agent = ref; return e }, "recorded")
		},
	}
	c.Flags().StringVar(&ref, "agent", "", "the `agent`, such as build:42 (required)")
	c.Flags().StringVar(&e.Family, "family", "", "`family` of its task (required)")
	c.Flags().StringVar(&outcome, "outcome", "", "SUCCESS, PARTIAL, FAILURE, UNKNOWN, DISPUTED or REVOKED (required)")
	c.Flags().Int64Var(&e.LatencyMs, "latency-ms", 0, "how long it took, in `milliseconds`")
	must(c.MarkFlagRequired("agent"))
	must(c.MarkFlagRequired("family"))
	must(c.MarkFlagRequired("outcome"))
	return c
}

func (p *program) examWithdraw() *cobra.Command {
	var ref string
	var e exam.WithdrawAttempt
	c := &cobra.Command{
		Use:   "withdraw ATTEMPT --agent REF --reason TEXT",
		Short: "Let a trial attempt count no more",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.Attempt = args[0]
			return p.examine(cmd, ref, func(ref agent.Ref) exam.Command { e.Agent = ref; return e }, "withdrawn")
		},
	}
	c.Flags().StringVar(&ref, "agent", "", "the `agent`, such as build:42 (required)")
	p.reason(c, &e.Reason)
	must(c.MarkFlagRequired("agent"))
	return c
}

// examine carries out a command on a trial attempt of a registered agent.
func (p *program) examine(cmd *cobra.Command, text string, of func(agent.Ref) exam.Command, done string) error {
	ref, err := agent.ParseRef(text)
	if err != nil {
		return fmt.Errorf("--agent: %w", err)
	}
	prog, err := p.join(cmd.Context())
	if err != nil {
		return err
	}
	defer prog.Close()
	switch known, err := prog.Service.KnownAgent(cmd.Context(), ref); {
	case err != nil:
		return err
	case !known.Registered:
		return fmt.Errorf("agent %s is not registered: %w", ref, domain.ErrNotFound)
	}
	if err := prog.Service.Exam(cmd.Context(), operator(), ref, of(ref)); err != nil {
		return err
	}
	attempt := cmd.Flags().Arg(0)
	return p.print(map[string]any{"agent": ref, "attempt": attempt, "is": done}, fmt.Sprintf("attempt %s of %s is %s", attempt, ref, done))
}

func (p *program) examRun() *cobra.Command {
	var ref, name string
	var attempts int
	c := &cobra.Command{
		Use:   "run --agent REF --name NAME",
		Short: "Put tasks to the endpoints of an agent's active consent, as the harness, and record the run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parsed, err := agent.ParseRef(ref)
			if err != nil {
				return fmt.Errorf("--agent: %w", err)
			}
			if attempts < 1 || attempts > 1000 {
				return fmt.Errorf("--attempts must be 1 to 1000: %w", domain.ErrInvalid)
			}
			prog, err := p.join(cmd.Context())
			if err != nil {
				return err
			}
			defer prog.Close()
			granted, err := prog.Service.ActiveConsent(cmd.Context(), parsed)
			if err != nil {
				return err
			}
			e := worker.Exam{Run: name, Source: "harness", Attempts: attempts, Payload: granted.Payload}
			if _, err := rand.Read(e.Seed[:]); err != nil {
				return err
			}
			if err := prog.Worker.Examine(cmd.Context(), e); err != nil {
				return err
			}
			return p.print(map[string]any{"agent": ref, "run": name, "attempts": attempts},
				fmt.Sprintf("%s examined: run %s, %d attempts", ref, name, attempts))
		},
	}
	c.Flags().StringVar(&ref, "agent", "", "the `agent`, such as build:42 (required)")
	c.Flags().StringVar(&name, "name", "", "`name` of the run, unique for the agent (required)")
	c.Flags().IntVar(&attempts, "attempts", 40, "`number` of tasks")
	must(c.MarkFlagRequired("agent"))
	must(c.MarkFlagRequired("name"))
	return c
}

func sorted(set map[string]bool) []string {
	list := slices.Sorted(maps.Keys(set))
	if list == nil {
		return []string{}
	}
	return list
}
