package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/wallet"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

func newConsent() *cobra.Command {
	var rpc string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "consent [file | URL]",
		Short: "Check a published consent: what was signed, and by whom",
		Long: `Consent checks the body of GET /v1/mystery/consents/{id}: from the file, the URL, or
standard input if there is neither or it is "-". It rebuilds the message from the
payload, recomputes both hashes and the consent id, compares terms, identity pool
and catalogue with its own, recovers the signer, opens the owner's nonce, and does
the same with the revocation, if there is one.

A signature of a contract wallet means nothing without its chain. With --rpc a node
of that chain is asked again, at the block that the consent names; it has to know
the state of that block. Without, that check reads skipped.

Each check is pass, fail, or skipped: it takes a version or a chain that is not at
hand.

` + exitCodes,
		Example: `  karatum-verify consent consent.json
  karatum-verify consent https://karatum.com/v1/mystery/consents/cns_mfzwizlsmjrxg43vmvzc --rpc https://sepolia.base.org`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := read(cmd, args, maxAnswer, fetchTimeout)
			if err != nil {
				return err
			}
			report, err := verify.Consent(data)
			if err != nil {
				return err
			}
			if rpc != "" {
				if err := askWallets(cmd.Context(), rpc, report); err != nil {
					return err
				}
			}
			if err := printReport(cmd.OutOrStdout(), report, asJSON); err != nil {
				return err
			}
			if report.Failed() {
				return fmt.Errorf("consent %s: %w", report.Consent, verify.ErrFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&rpc, "rpc", "", "`URL` of a node of the chain that the consent names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// askWallets puts to a node what only a chain can say.
func askWallets(ctx context.Context, rpc string, r *verify.ConsentReport) error {
	n, err := node.Dial(ctx, rpc)
	if err != nil {
		return err
	}
	defer n.Close()
	for _, c := range r.Wallets {
		status, detail := askWallet(ctx, n, c)
		r.Settle(c, status, detail)
	}
	return nil
}

// askWallet asks a wallet again at its block. A node that does not answer, serves
// another chain or does not know the block settles nothing.
func askWallet(ctx context.Context, n *node.Client, c verify.WalletClaim) (verify.Status, string) {
	where := fmt.Sprintf("block %d of chain %d", c.At.Number, c.At.Chain)
	chain, err := n.ChainID(ctx)
	if err != nil {
		return verify.Skipped, domain.Sentence(err)
	}
	if chain != c.At.Chain {
		return verify.Skipped, fmt.Sprintf("the node serves chain %d, and the wallet is on chain %d", chain, c.At.Chain)
	}
	block := node.Block{Number: c.At.Number, Hash: common.Hash(c.At.Hash)}
	v, err := wallet.VerifyAt(ctx, n, block, c.Owner, c.Hash, c.Signature)
	switch {
	case errors.Is(err, domain.ErrForbidden):
		return verify.Fail, domain.Sentence(err)
	case err != nil:
		return verify.Skipped, domain.Sentence(err)
	case string(v.Method) != string(c.Method):
		return verify.Fail, fmt.Sprintf("the wallet accepts it in %s by %s, and not by %s", where, v.Method, c.Method)
	}
	return verify.Pass, fmt.Sprintf("the contract wallet %s accepts it in %s (%s)", c.Owner, where, c.Method)
}

func printReport(out io.Writer, r *verify.ConsentReport, asJSON bool) error {
	if asJSON {
		verdict := "ok"
		if r.Failed() {
			verdict = "fail"
		}
		return printJSON(out, struct {
			Verdict string `json:"verdict"`
			*verify.ConsentReport
		}{verdict, r})
	}
	if _, err := fmt.Fprintf(out, "consent %s\n", r.Consent); err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", c.Status, c.ID, c.Detail) // Flush returns the error
	}
	return t.Flush()
}
