package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func newBundle() *cobra.Command {
	var asJSON bool
	var key, rpc string
	cmd := &cobra.Command{
		Use:   "bundle [file | URL]",
		Short: "Check a bundle: consents, days and slots, without the service",
		Long: `Bundle checks what GET /v1/ledger/bundle answers: from the file, the URL, or standard
input if there is neither or it is "-". Nothing else is asked but the chain.

A bundle holds records of the public log, each with its proof, and the bytes that they
commit to. Bundle checks that it is written in its one form, that the log with the key
in it signed a checkpoint, that every record stands in the log of that checkpoint, and
that every reply and document is one that a record commits to. Then it makes every
check of consent, day and shop, and comes to the same verdict as they do.

Whose log it is, only the key tells: compare it with one that you got elsewhere, or
give that one with --key.

What the log says of attestations is checked as it says it. With --rpc a node of the
chain is asked for each, and what it does not tell is pending.

` + exitCodes,
		Example: `  curl -o bundle.json 'https://karatum.com/v1/ledger/bundle?consent=cns_mfzwizlsmjrxg43vmvzc'
  karatum-verify bundle bundle.json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := read(cmd, args, maxBundle, bundleTimeout)
			if err != nil {
				return err
			}
			x, err := openBundle(data, key)
			if err != nil {
				return err
			}
			x.Ask = asking(cmd.Context(), rpc)
			report, err := x.Report()
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printBundle(cmd.OutOrStdout(), report)
			}
			if err != nil {
				return err
			}
			if report.Verdict == verify.VerdictFail {
				return fmt.Errorf("the bundle: %w", verify.ErrFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the `vkey` that the log must have")
	addRPC(cmd, &rpc)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// openBundle opens a bundle, which must be one of the log with the given key if there
// is one.
func openBundle(data []byte, key string) (*verify.Excerpt, error) {
	x, err := verify.OpenBundle(data)
	if err != nil {
		return nil, err
	}
	if key != "" && x.Key != key {
		return nil, fmt.Errorf("the bundle is one of the log with the key %s: %w", x.Key, verify.ErrFailed)
	}
	return x, nil
}

func printBundle(out io.Writer, r *verify.BundleReport) error {
	var b strings.Builder
	fmt.Fprintf(&b, "bundle of %s, %d records of %d and %d replies: %s\nkey %s\n", r.Log, r.Records, r.Size, r.Replies, r.Verdict, r.Key)
	for _, c := range r.Consents {
		verdict := verify.VerdictOK
		if c.Failed() {
			verdict = verify.VerdictFail
		}
		fmt.Fprintf(&b, "consent %s: %s\n", c.Consent, verdict)
		for _, check := range c.Checks {
			if check.Status == verify.Fail {
				fmt.Fprintf(&b, "  %s %s: %s\n", check.Status, check.ID, check.Detail)
			}
		}
	}
	for _, d := range r.Days {
		fmt.Fprintf(&b, "day %s of %s (%s): %s\n", domain.DayString(d.Day), d.Consent, d.Phase, d.Verdict)
		printTroubles(&b, d.Checks)
	}
	for _, s := range r.Shops {
		fmt.Fprintf(&b, "shop %s (%s): %s\n", s.Shop, s.Phase, s.Verdict)
		if s.Phase != "sealed" {
			printTroubles(&b, s.Checks)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printTroubles prints the checks that do not pass.
func printTroubles(b *strings.Builder, checks []verify.SlotCheck) {
	for _, c := range checks {
		if c.Status == verify.Fail || c.Status == verify.Pending {
			fmt.Fprintf(b, "  %s %s: %s\n", c.Status, c.ID, c.Detail)
		}
	}
}

func newDay() *cobra.Command {
	var asJSON bool
	var key, rpc string
	cmd := &cobra.Command{
		Use:   "day URL",
		Short: "Check a day of a consent: its plan, its count, all its slots",
		Long: `Day checks a whole day of a consent. The URL is that of the day, below
/v1/mystery/consents/; a day is named by its number or its date. From the same host
comes the bundle of the day, and nothing else is asked but the chain.

It checks that the bundle holds (as bundle does), that the owner's consent covers the
day, that one plan of 24 commits was sealed before it began and every slot begins with
its own, that the key is the one that the owner accepted and gives cap, count and the
slots with tasks, that just these were revealed and each passes every check of shop and
came to one end, that the others are pads, that the day was opened in time, and that
all commits stand in batches that were attested, those of tasks before they were sent.

Before a day is opened most of it is pending.

What the log says of attestations is checked as it says it. With --rpc a node of the
chain is asked for each, and what it does not tell is pending.

` + exitCodes,
		Example: `  karatum-verify day https://karatum.com/v1/mystery/consents/cns_mfzwizlsmjrxg43vmvzc/days/2026-03-01`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			base, consent, day, err := parseDayURL(args[0])
			if err != nil {
				return err
			}
			url := fmt.Sprintf("%s/v1/ledger/bundle?consent=%s&day=%d", base, consent, day)
			data, err := fetchUpTo(cmd.Context(), url, maxBundle, bundleTimeout)
			if err != nil {
				return err
			}
			x, err := openBundle(data, key)
			if err != nil {
				return err
			}
			x.Ask = asking(cmd.Context(), rpc)
			report, err := x.Day(consent, day)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else if _, err = fmt.Fprintf(cmd.OutOrStdout(), "day %s of %s (%s): %s\n", domain.DayString(day), consent, report.Phase, report.Verdict); err == nil {
				err = printChecks(cmd.OutOrStdout(), report.Checks)
			}
			if err != nil {
				return err
			}
			if report.Verdict == verify.VerdictFail {
				return fmt.Errorf("day %s of %s: %w", domain.DayString(day), consent, verify.ErrFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the `vkey` that the log must have")
	addRPC(cmd, &rpc)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// parseDayURL reads the URL of a day, with or without the path of its checks.
func parseDayURL(url string) (base, consent string, day uint32, err error) {
	base, rest, ok := strings.Cut(url, "/v1/mystery/consents/")
	parts := strings.Split(strings.TrimSuffix(rest, "/verify"), "/")
	if ok && len(parts) == 3 && parts[1] == "days" {
		if n, err := strconv.ParseUint(parts[2], 10, 32); err == nil {
			return base, parts[0], uint32(n), nil
		}
		if date, err := time.Parse(time.DateOnly, parts[2]); err == nil && date.Unix() >= 0 {
			return base, parts[0], domain.DayOf(date), nil
		}
	}
	return "", "", 0, fmt.Errorf("%s is not the URL of a day, such as https://host/v1/mystery/consents/cns_…/days/2026-03-01: %w", url, domain.ErrInvalid)
}
