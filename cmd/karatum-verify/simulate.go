package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/verify"
)

// A scenario is an agent that is looked at after every task, over and over, and how
// often an incident may come of it.
type scenario struct {
	Agent     string `json:"agent"`
	Exam      int    `json:"examPercent"`  // chance to pass a task of the exam
	Field     int    `json:"fieldPercent"` // and one of the field
	ExamTasks int    `json:"examTasks"`
	Tasks     int    `json:"fieldTasks"`
	Runs      int    `json:"runs"`
	Incidents int    `json:"incidents"` // runs that ever opened one
	Bound     string `json:"bound"`
	Holds     bool   `json:"holds"`

	within func(incidents, runs int) bool
}

func scenarios(runs int) []scenario {
	return []scenario{
		{
			Agent: "steady", Exam: 94, Field: 94, ExamTasks: 40, Tasks: 200, Runs: runs, Bound: "fewer than 1 %",
			within: func(n, runs int) bool { return 100*n < runs },
		},
		{
			Agent: "exam-only", Exam: 94, Field: 45, ExamTasks: 40, Tasks: 39, Runs: runs, Bound: "at least 90 %",
			within: func(n, runs int) bool { return 100*n >= 90*runs },
		},
	}
}

func newSimulate() *cobra.Command {
	var runs int
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "simulate [--runs N] [--seed N]",
		Short: "Let chance play agents, and count how often an incident comes of it",
		Long: `Simulate lets chance play two agents. Each takes an exam of 40 tasks, and is then
shopped one task at a time, with a comparison after every single one: more looks than
there are in the programme. An incident is opened at the first look whose gated verdict
is exam_only.

A steady agent passes 94 of 100 tasks wherever it is asked: over 200 tasks fewer than
1 % of the runs may ever open an incident. One that passes 94 of 100 in its exam and 45
in the field has to be caught within 39 tasks in 90 % of the runs.

` + exitCodes,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 || runs > 1_000_000 {
				return usageError{cmd.CommandPath(), errors.New("--runs is a number from 1 to 1000000")}
			}
			list := scenarios(runs)
			for i := range list {
				list[i].play(seed + uint64(i))
			}
			err := printScenarios(cmd.OutOrStdout(), list, asJSON)
			for _, s := range list {
				if err == nil && !s.Holds {
					err = fmt.Errorf("%s opened an incident in %d of %d runs, and %s may: %w", s.Agent, s.Incidents, s.Runs, s.Bound, verify.ErrFailed)
				}
			}
			return err
		},
	}
	cmd.Flags().IntVar(&runs, "runs", 1000, "`number` of runs of each agent")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`number` that fixes what chance does")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// play lets all runs happen, side by side. What comes of a run follows from the seed
// and its number alone.
func (s *scenario) play(seed uint64) {
	opened := make([]bool, s.Runs)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wg.Go(func() {
			for run := first; run < s.Runs; run += workers {
				opened[run] = s.run(rand.New(rand.NewPCG(seed, uint64(run)))) //nolint:gosec // chance, not secrets; not negative
			}
		})
	}
	wg.Wait()
	for _, o := range opened {
		if o {
			s.Incidents++
		}
	}
	s.Holds = s.within(s.Incidents, s.Runs)
}

// run reports whether one agent ever had an incident.
func (s *scenario) run(chance *rand.Rand) bool {
	take := func(c *stats.Counts, percent int) {
		c.N++
		if chance.IntN(100) < percent {
			c.Passes++
		}
	}
	var exam, field stats.Counts
	for range s.ExamTasks {
		take(&exam, s.Exam)
	}
	for range s.Tasks {
		take(&field, s.Field)
		if stats.Gated(exam, field, 0) == stats.ExamOnly {
			return true
		}
	}
	return false
}

func printScenarios(w io.Writer, list []scenario, asJSON bool) error {
	if asJSON {
		return printJSON(w, list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "agent\texam\tfield\ttasks\truns\tincidents\tof which\tallowed")
	for _, s := range list {
		tenths := (2000*s.Incidents + s.Runs) / (2 * s.Runs)
		_, _ = fmt.Fprintf(t, "%s\t%d %%\t%d %%\t%d\t%d\t%d\t%d.%d %%\t%s\n",
			s.Agent, s.Exam, s.Field, s.Tasks, s.Runs, s.Incidents, tenths/10, tenths%10, s.Bound)
	}
	return t.Flush()
}
