package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain/verify"
)

func newDerive() *cobra.Command {
	var lines bool
	cmd := &cobra.Command{
		Use:   "derive [file]",
		Short: "Recompute a day of a plan from its key",
		Long: `Derive recomputes a day of a consent's plan: consent id, day secret, number of
tasks, real slots, and the seed, pad, send time and identity of every slot.

It reads one JSON object from the file, or from standard input if there is no
file or it is "-". The object always holds

  nonce            nonce of the consent's challenge
  first_day days   validity of the consent: UTC day number, and 1 to 365 days
  day              UTC day number to recompute, within the validity
  cap              most tasks that the day could have, 0 to 24

the key of the day, as published when the day was opened,

  plan_key         the key
  plan_key_path    its Merkle path, a list of hashes
  plan_key_root    the plan key root of the message that the owner signed

or, for the operator, operator_secret in place of these three; and

  signature        of the consent, without 0x
  owner_nonce      in its place where the signed message has a commitment to one

It may hold a sample, one slot for which shop id, seal root, reply hash, deferred
hash and commit are computed too:

  sample           {slot, template, template_version, endpoint, ask_hash,
                   expected_hash, seal {hour_of_day, head_hash}, reply {yyyymmdd,
                   received_at_ms, status, latency_ms, salt, body}}

Hashes, keys and nonces are 64 lower-case hex digits. Nothing else may be in the
object. A plan_key whose path does not lead from index day - first_day in a tree of
days leaves to plan_key_root fails verification.

With --jsonl every line of the input is such an object, and every line of the
output the result for the same line of the input. A line that cannot be read or
fails gives {"error": "..."} and the next line follows.

` + exitCodes + `

With --jsonl, 3 if any line failed verification, else 1 if any could not be read.`,
		Example: `  karatum-verify derive day.json
  karatum-verify derive --jsonl < days.jsonl`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			if lines {
				return deriveLines(cmd.Context(), in, cmd.OutOrStdout())
			}
			return deriveOne(in, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&lines, "jsonl", false, "read an object and print a result per line")
	return cmd
}

// openInput opens the file that args name, or standard input.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(args[0]) //nolint:gosec // the caller may name any file
}

func deriveOne(in io.Reader, out io.Writer) error {
	row, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	day, err := verify.Derive(row)
	if err != nil {
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(day)
}

// deriveLines writes a line for each line of in, as soon as it can. Lines may be
// of any length. An empty line is no JSON value and thus an error, as the answer
// to line n must stand in line n.
func deriveLines(ctx context.Context, in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	var total, unreadable, failed int
	for ctx.Err() == nil {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(line) == 0 {
			return outcome(total, unreadable, failed)
		}
		total++
		day, err := verify.Derive(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case errors.Is(err, verify.ErrFailed):
			failed++
		case err != nil:
			unreadable++
		}
		var answer any = day
		if err != nil {
			answer = lineError{err.Error()}
		}
		if err := e.Encode(answer); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A lineError stands in the place of the result of a line.
type lineError struct {
	Error string `json:"error"`
}

func outcome(total, unreadable, failed int) error {
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d lines do not hold and %d cannot be read: %w", failed, total, unreadable, verify.ErrFailed)
	case unreadable > 0:
		return fmt.Errorf("%d of %d lines cannot be read", unreadable, total)
	}
	return nil
}
