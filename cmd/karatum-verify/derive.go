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

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func newDerive() *cobra.Command {
	var lines bool
	cmd := &cobra.Command{
		Use:   "derive [file]",
		Short: "Recompute a day of a plan from its key",
		Long: `Derive recomputes a day of a consent's plan: consent id, day secret, number of
tasks, real slots, and the seed, pad, send time and identity of every slot. Where
the ledger has a day's commits, a slot that is not real must have its pad there.

It reads one JSON object from the file, or from standard input if there is no
file or it is "-". In brackets: where GET /v1/mystery/consents/{id} has the field,
or GET /v1/mystery/consents/{id}/days/{day} if a slash stands before it. The object
always holds

  nonce            nonce of the consent's challenge   [payload.nonce]
  first_day        first UTC day of the validity, in days since 1970-01-01
                                                      [payload.firstDay]
  days             length of the validity, 1 to 365   [payload.validityDays]
  day              day to recompute, within it        [/day]
  cap              most tasks that the day could have, 0 to 24
                                                      [/opened.cap]

the key of the day, which everybody has once the day is opened,

  plan_key         the key                            [/opened.key]
  plan_key_path    its Merkle path, a list of hashes  [/opened.path]
  plan_key_root    the plan key root of the message that the owner signed
                                                      [payload.planKeyRoot]

or in place of these three what only the operator has,

  operator_secret  content of the operator secret file

and the owner's part, which is one of

  signature        of the consent, with or without 0x [signature]
  owner_nonce      where the message has a commitment to one
                                                      [ownerNonce]

It may hold a sample, one slot for which shop id, commit and deferred hash (of
rule block_hash, depth 12 + slot) are computed too. In brackets: where GET
/v1/mystery/shops/{id} has the field.

  sample.slot              0 to 23                    [slot]
  sample.template          id of the template         [revealed.event.template]
  sample.template_version                             [….templateVersion]
  sample.endpoint          such as ep_0               [….endpoint]
  sample.ask_hash          SHA-256 of the canonical JSON (RFC 8785) of the shop's
                           ask                        [….ask]
  sample.expected_hash     SHA-256 of the canonical JSON (RFC 8785) of the shop's
                           expected                   [….expected]

The sample may hold a reply, for the reply hash. It is computed from the fields
of the record shop.replied.v1 among the shop's sealed records, and from the reply.

  sample.reply.yyyymmdd        date of the day
  sample.reply.received_at_ms  [….records[].data.receivedAtMs]
  sample.reply.status          [….records[].data.status]
  sample.reply.latency_ms      [….records[].data.latencyMs]
  sample.reply.salt            [revealed.reply.salt]
  sample.reply.body            [revealed.reply.text]

And it may hold a seal, for the root of an hourly seal in which no other slot has
a record and the day before has no plan. No seal of the ledger is like that: what
pins a slot is checked by karatum-verify shop.

  sample.seal.hour_of_day      0 to 23
  sample.seal.head_hash        hash of the last record of the slot

Hashes, keys, nonces and salts are 64 lower-case hex digits. Nothing else may be
in the object. A plan_key whose path does not lead from index day - first_day in a
tree of days leaves to plan_key_root fails verification.

With --jsonl every line of the input is such an object, and every line of the
output the result for the same line of the input. A line that cannot be read or
fails gives {"error": "..."} and the next line follows.

` + exitCodes + `

With --jsonl, 3 if any line failed verification, else 1 if any could not be read.`,
		Example: `  karatum-verify derive day.json
  karatum-verify derive --jsonl days.jsonl > derived.jsonl`,
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
	return os.Open(args[0])
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
		if err != nil && !errors.Is(err, io.EOF) {
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
			answer = lineError{domain.Sentence(err)}
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
		return fmt.Errorf("%w: %d of %d lines do not hold and %d cannot be read", verify.ErrFailed, failed, total, unreadable)
	case unreadable > 0:
		return fmt.Errorf("%d of %d lines cannot be read", unreadable, total)
	}
	return nil
}
