// Command karatum-verify is the independent verifier of the ledger. It checks
// what the ledger published by computing it again, and shares with the service
// only the pure packages that define the formats, and the questions to nodes of a
// chain. It keeps no state but what log remembers: the last checkpoint that it saw.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes, as the help text lists them.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitFailed = 3
)

const exitCodes = `Exit codes:
  0  everything was computed, and every check holds
  1  error: input that cannot be read, or output that cannot be written
  2  usage: an unknown command, flag or argument
  3  verification failed: a check could be made and does not hold`

// run is main without the process: tests call it with their own arguments and
// streams. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot() //nolint:contextcheck // the commands take it from ExecuteContext
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(stderr, "karatum-verify:", domain.Sentence(err))
	if usage, ok := errors.AsType[usageError](err); ok {
		_, _ = fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", usage.command)
		return exitUsage
	}
	if errors.Is(err, verify.ErrFailed) {
		return exitFailed
	}
	return exitError
}

// newRoot is the command line; each subcommand has a file of its own.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "karatum-verify",
		Short: "Check the Mystery Shopper ledger without trusting it",
		Long: `karatum-verify recomputes what the Mystery Shopper ledger published and compares.

It trusts no answer of the service: whatever follows from published bytes is
computed here again, by code that reads no database. Only log keeps something: the
last checkpoint that it saw.

` + exitCodes,
		Args:              usageArgs(cobra.NoArgs),
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{cmd.CommandPath(), err}
	})
	root.AddCommand(newBatch(), newBundle(), newChain(), newCompare(), newConsent(), newDay(), newDerive(), newGrade(), newLog(), newShop(), newSimulate(), newTask())
	return root
}

// A usageError says that the command line itself is wrong.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usageArgs turns what check says about the arguments into a usageError.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		return nil
	}
}
