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
)

func (p *program) exam() *cobra.Command {
	c := &cobra.Command{
		Use:   "exam",
		Short: "Examine agents under the harness's own name",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.examRun())
	return c
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
			prog, err := p.open(cmd.Context(), false)
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
