package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
)

func newGrade() *cobra.Command {
	var c task.Case
	var lines bool
	cmd := &cobra.Command{
		Use:   "grade --family F --expected V (--reply TEXT | [file]) | --jsonl [file]",
		Short: "Mark a reply again",
		Long: `Grade marks a reply by the rules of the programme and prints

  id       that of the case
  outcome  pass, fail or refused, by the value that the reply commits to; this counts
  literal  by the plain rule: a right value anywhere among the first twelve
  reason   the rule that decided
  token    {"offset", "length"} of the value that decided, in bytes of the reply, or
           null if none did

The reply is that of --reply, or the content of the file, or standard input if
there is no file or it is "-": all of it, with the last end of line.

With --jsonl every line of the input is a case, and every line of the output the
mark of the same line of the input. A case is an object with the members

  id              any text
  family          of the task, such as arith.percent_of or selector
  prompt_sketch   the question; numbers that the reply repeats from it are no answer
  expected_value  decimal, ISO date, weekday, hex, base64, address or token
  decimals_asked  a count, "exact", or "" where no number is asked
  reply           what the agent answered

and, without influence, right_outcome, debatable, literal_first12_outcome,
clear_under_spec, why and source. The input is read whole before anything is
printed: a line that cannot be read is a usage error, and nothing is printed.

` + exitCodes + `

A reply that fails is no failure of verification: grade checks no claim.`,
		Example: `  karatum-verify grade --family arith.percent_of --prompt "20% of 40,000" \
    --expected 8000 --decimals 2 --reply "The share is 8,000."
  karatum-verify grade --jsonl cases.jsonl > marks.jsonl`,
		Args: usageArgs(func(cmd *cobra.Command, args []string) error {
			switch {
			case lines:
				return linesArgs(cmd, args)
			case cmd.Flags().Changed("reply"):
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines {
				return answerLines(cmd, args, verify.Grade)
			}
			if !cmd.Flags().Changed("reply") {
				reply, err := readInput(cmd, args)
				if err != nil {
					return err
				}
				c.Reply = string(reply)
			}
			g, err := verify.GradeCase(c)
			if err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			return printJSON(cmd.OutOrStdout(), g)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.ID, "id", "", "id to print with the mark")
	flags.StringVar(&c.Family, "family", "", "family of the task")
	flags.StringVar(&c.PromptSketch, "prompt", "", "the question")
	flags.StringVar(&c.ExpectedValue, "expected", "", "the right answer")
	flags.StringVar(&c.DecimalsAsked, "decimals", "", "decimals asked for: a count, exact, or nothing where no number is asked")
	flags.StringVar(&c.Reply, "reply", "", "the reply")
	flags.BoolVar(&lines, "jsonl", false, "read a case and print a mark per line")
	return cmd
}

// readInput returns the content of the file that args name, or standard input.
func readInput(cmd *cobra.Command, args []string) ([]byte, error) {
	in, err := openInput(cmd, args)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}
