package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func newShop() *cobra.Command {
	var asJSON bool
	var rpc string
	cmd := &cobra.Command{
		Use:   "shop URL",
		Short: "Check a slot: its commit, its task, its reply and its grade",
		Long: `Shop checks one slot from public answers alone. The URL is that of the slot, below
/v1/mystery/shops/. From the same host come the consent, the records of the slot and
of its seal in the public log, and the bundle that proves that all of it stands there.

It checks that the owner's consent covers the day, that the commit stands in a plan
sealed before the day began, that day key, seed, moment, identity, endpoint, question
and right answer follow from each other, that the day had no more tasks than
were left, that the sealed records lead from the commit to the reveal, that what was
planned was sent within its window to a host shown to be the owner's, that the reply
is the one that was committed to and is marked as this program marks it, that an
hourly seal found all this complete before the reveal, that the reveal came in time,
that all that is public stands in the signed log, and that commit and seal stand in
batches that were attested, the one before the task was sent, the other before the
reveal.

Each check is pass, fail, pending (it takes what is not published yet), or skipped (it
takes what there is not, such as a reply). A sealed slot is pending.

What the log says of attestations is checked as it says it. With --rpc a node of the
chain is asked for each, and what it does not tell is pending.

` + exitCodes,
		Example: `  karatum-verify shop https://karatum.com/v1/mystery/shops/shp_mfzwizlsmjrxg43vmvzc_20260301_07`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			answers, err := askShop(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			answers.Ask = asking(cmd.Context(), rpc)
			report, err := verify.Shop(answers)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printShop(cmd.OutOrStdout(), report)
			}
			if err != nil {
				return err
			}
			if report.Verdict == verify.VerdictFail {
				return fmt.Errorf("shop %s: %w", report.Shop, verify.ErrFailed)
			}
			return nil
		},
	}
	addRPC(cmd, &rpc)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A day may be opened while its slot is asked for, which is asked for again then. It is
// opened once.
const shopTries = 3

// askShop asks for all that a slot is checked from. What it returns belongs together.
func askShop(ctx context.Context, url string) (a verify.Answers, err error) {
	base, id, ok := strings.Cut(url, "/v1/mystery/shops/")
	consent, rest, _ := strings.Cut(strings.TrimPrefix(id, "shp_"), "_")
	date, _, numbered := strings.Cut(rest, "_")
	day, dateErr := time.Parse("20060102", date)
	if !ok || !numbered || dateErr != nil || strings.ContainsAny(id, "/?#") {
		return a, fmt.Errorf("%s is not the URL of a slot, such as https://host/v1/mystery/shops/shp_…: %w", url, domain.ErrInvalid)
	}
	consent = "cns_" + consent
	plan := fmt.Sprintf("/v1/mystery/consents/%s/days/%d", consent, domain.DayOf(day))
	for range shopTries {
		if a, err = askSlot(ctx, base, consent, plan, id); err != nil {
			return a, err
		}
		var now []byte
		if now, err = fetch(ctx, base+plan); err != nil || bytes.Equal(now, a.Day) {
			break
		}
	}
	return a, err
}

// askSlot asks for all that the slot id is checked from, one after the other. The plan of
// its day is at a path.
func askSlot(ctx context.Context, base, consent, plan, id string) (a verify.Answers, err error) {
	// The consent first: of what is asked for later, nothing may be missing in it.
	for _, part := range []struct {
		into *[]byte
		path string
	}{
		{&a.Consent, "/v1/mystery/consents/" + consent},
		{&a.Day, plan},
		{&a.Shop, "/v1/mystery/shops/" + id},
		{&a.Stream, "/v1/ledger/streams/shop/" + id},
	} {
		*part.into, err = fetch(ctx, base+part.path)
		if absent := new(absentError); errors.As(err, &absent) && part.into == &a.Stream {
			*part.into, err = []byte(`{"items":[]}`), nil // the signed log does not cover it yet
		}
		if err != nil {
			return a, err
		}
	}
	a.Seal, err = verify.SealOf(a, func(version uint64) ([]byte, error) {
		page, err := fetch(ctx, fmt.Sprintf("%s/v1/ledger/streams/seal/%s?limit=1&from=%d", base, consent, version))
		if absent := new(absentError); errors.As(err, &absent) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return nil, fmt.Errorf("the seals of %s cannot be read: %w: %w", consent, err, domain.ErrInvalid)
		}
		if len(list.Items) == 0 {
			return nil, nil
		}
		return list.Items[0], nil
	})
	if err != nil {
		return a, err
	}
	// The bundle last: what was shown before, it has.
	a.Bundle, err = fetchUpTo(ctx, base+"/v1/ledger/bundle?shop="+id, maxBundle, bundleTimeout)
	if absent := new(absentError); errors.As(err, &absent) {
		a.Bundle, err = nil, nil
	}
	return a, err
}

func printShop(out io.Writer, r *verify.ShopReport) error {
	if _, err := fmt.Fprintf(out, "shop %s (%s): %s\n", r.Shop, r.Phase, r.Verdict); err != nil {
		return err
	}
	return printChecks(out, r.Checks)
}

func printChecks(out io.Writer, checks []verify.SlotCheck) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", c.Status, c.ID, c.Detail) // Flush returns the error
	}
	return t.Flush()
}
