package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/verify"
)

func newCompare() *cobra.Command {
	var exam, field string
	var blocked int
	var asJSON, lines bool
	cmd := &cobra.Command{
		Use:   "compare --exam x/n --field x/n | --jsonl [file]",
		Short: "Recompute a verdict and all its figures",
		Long: `Compare recomputes a comparison of exam and field: the verdict with its test, p
and intervals, and what stands beside it. Of --exam and --field, x is the number
of passes and n that of counted tasks; whatever came of a task but a pass counts
as not passed, and a blocked task is in neither number. With --blocked, the number
of planned field tasks that were blocked or missed, the gated verdict is
insufficient above 30 % of them, and the band says what they could have changed.

With --jsonl every line of the file, or of standard input if there is none or it
is "-", is an object with one of these sets of members, and every line of the
output the answer to the same line of the input:

  x_exam, n_exam, x_field, n_field, and blocked or not
                     all figures of a comparison
  x_exam, n_exam, field_success_per_cycle
                     looks: one after each cycle of 3 tasks, of which so many passed
  tables             strata_used, z, p_one_sided, mh_risk_difference, mh_odds_ratio,
                     crude_p of [x_exam, n_exam, x_field, n_field] per family
  sample             median, p90 of a list of numbers
  exam, field        ratio_median, ratio_p90 of lists of latencies, and the tests of
                     Mann and Whitney and of Brunner and Munzel
  blocks             log_e after each block of [exam passes of 3, field passes of 3]
  x, n               lo, hi of the rate, valid at every look

A figure that does not exist for these counts is null. The input is read whole
before anything is printed: a line that cannot be read is a usage error, and
nothing is printed.

` + exitCodes,
		Example: `  karatum-verify compare --exam 40/40 --field 18/40
  karatum-verify compare --jsonl counts.jsonl > figures.jsonl`,
		Args: usageArgs(func(cmd *cobra.Command, args []string) error {
			if lines {
				return linesArgs(cmd, args)
			}
			return cobra.NoArgs(cmd, args)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines {
				return answerLines(cmd, args, verify.Compare)
			}
			f, err := compareFlags(exam, field, blocked)
			if err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), f)
			}
			return printFigures(cmd.OutOrStdout(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&exam, "exam", "", "passes and tasks of the exam, as `x/n`")
	flags.StringVar(&field, "field", "", "passes and counted tasks of the field, as `x/n`")
	flags.IntVar(&blocked, "blocked", 0, "field tasks that were blocked or missed")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.BoolVar(&lines, "jsonl", false, "read an object and print an answer per line")
	return cmd
}

func compareFlags(exam, field string, blocked int) (verify.Figures, error) {
	e, err := parseCounts("--exam", exam)
	if err != nil {
		return verify.Figures{}, err
	}
	f, err := parseCounts("--field", field)
	if err != nil {
		return verify.Figures{}, err
	}
	if limit := stats.MaxCount - f.N; blocked < 0 || blocked > limit {
		return verify.Figures{}, fmt.Errorf("--blocked is %d and can be 0 to %d", blocked, limit)
	}
	return verify.CompareCounts(e, f, blocked), nil
}

// parseCounts reads the value of a flag, passes/tasks.
func parseCounts(flag, text string) (stats.Counts, error) {
	if text == "" {
		return stats.Counts{}, fmt.Errorf("%s is missing: passes/tasks, such as 18/40", flag)
	}
	passes, tasks, ok := strings.Cut(text, "/")
	x, err1 := strconv.ParseUint(passes, 10, 63)
	n, err2 := strconv.ParseUint(tasks, 10, 63)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return stats.Counts{}, fmt.Errorf("%s is %q, not passes/tasks, such as 18/40", flag, text)
	case n > stats.MaxCount:
		return stats.Counts{}, fmt.Errorf("%s is %s, and there can be %d tasks at most", flag, text, stats.MaxCount)
	case x > n:
		return stats.Counts{}, fmt.Errorf("%s is %s, more passes than tasks", flag, text)
	}
	return stats.Counts{N: int(n), Passes: int(x)}, nil
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printFigures prints f for people, rounded.
func printFigures(out io.Writer, f verify.Figures) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...) // Flush returns the error
	}
	line("exam", "%d of %d, 95 %% %s", f.ExamPasses, f.ExamN, percents(f.Exam))
	line("field", "%d of %d, 95 %% %s", f.FieldPasses, f.FieldN, percents(f.Field))
	if f.Test == nil {
		line("test", "none, an arm is empty")
	} else {
		line("drop", "%.1f points, 95 %% [%.1f, %.1f]", 100*(f.ExamRate-f.FieldRate), 100*f.Newcombe[0], 100*f.Newcombe[1])
		line("test", "%s, one-sided p %s", *f.Test, rounded(f.P))
	}
	line("verdict", "%s", f.Verdict)
	line("gated verdict", "%s (E %.3g, p at every look %s)", f.Gated, f.E, rounded(f.PAlways))
	line("blocked or missed", "%d: %s if all had passed, %s if none had", f.Blocked, f.Band.Passed, f.Band.Failed)
	line("field / exam", "%s", conformity(f))
	line("smallest drop seen", "%s", detectable(f))
	return t.Flush()
}

// rounded returns p with three digits, and never as 0.
func rounded(p float64) string {
	if p < 1e-300 {
		return "< 1e-300"
	}
	return strconv.FormatFloat(p, 'g', 3, 64)
}

func percents(i verify.Interval) string {
	return fmt.Sprintf("[%.1f %%, %.1f %%]", 100*i[0], 100*i[1])
}

func conformity(f verify.Figures) string {
	switch {
	case f.Conformity != f.Conformity: // NaN
		return "none"
	case f.ConformityInterval[0] != f.ConformityInterval[0]:
		return fmt.Sprintf("%.3f, no interval", f.Conformity)
	}
	return fmt.Sprintf("%.3f, 95 %% [%.3f, %.3f]", f.Conformity, f.ConformityInterval[0], f.ConformityInterval[1])
}

func detectable(f verify.Figures) string {
	if f.Detectable != f.Detectable { // NaN
		return "none"
	}
	return fmt.Sprintf("%.1f points, with a chance of 80 %%", 100*f.Detectable)
}

// linesArgs checks the arguments of --jsonl, which takes a file at most and goes
// with no other flag.
func linesArgs(cmd *cobra.Command, args []string) error {
	if cmd.Flags().NFlag() > 1 {
		return errors.New("--jsonl goes with no other flag")
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// answerLines answers each line of the input that args name. It prints nothing
// unless every line can be answered.
func answerLines[A any](cmd *cobra.Command, args []string, answer func(row []byte) (A, error)) error {
	in, err := openInput(cmd, args)
	if err != nil {
		return err
	}
	defer in.Close()
	answers, err := readLines(cmd.Context(), in, answer)
	if errors.Is(err, domain.ErrInvalid) {
		return usageError{cmd.CommandPath(), err}
	}
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(answers)
	return err
}

// readLines returns a line of JSON for each line of in. Lines may be of any length;
// an empty one is no object and thus an error, and so is an input without lines.
func readLines[A any](ctx context.Context, in io.Reader, answer func(row []byte) (A, error)) ([]byte, error) {
	r := bufio.NewReader(in)
	var answers bytes.Buffer
	e := json.NewEncoder(&answers)
	e.SetEscapeHTML(false)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(line) == 0 {
			if n == 1 {
				return nil, fmt.Errorf("the input is empty, where each line should be a JSON object: %w", domain.ErrInvalid)
			}
			return answers.Bytes(), nil
		}
		a, err := answer(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := e.Encode(a); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}
