package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

// A chainReport is what came of walking the attestations of a ledger.
type chainReport struct {
	Batches      int         `json:"batches"`      // that the ledger shows
	Attestations int         `json:"attestations"` // that the chain has
	Faults       []eas.Fault `json:"faults"`
}

func newChain() *cobra.Command {
	var rpc string
	var from uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "chain URL --rpc URL",
		Short: "Walk all attestations of a ledger on its chain",
		Long: `Chain asks the service at URL for all its batches, and a node of their chain for every
attestation that their attesters ever made under their schemas, and compares: each batch
has one attestation at most, and one at least if the ledger shows it as attested; each
goes on behind the batch before; none is of a batch that the ledger does not show, or
shows otherwise. Attestations are looked for from the block of the first one that the
ledger shows; --from begins earlier.

` + exitCodes,
		Example: `  karatum-verify chain https://karatum.com --rpc https://mainnet.base.org`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rpc == "" {
				return usageError{cmd.CommandPath(), errors.New("--rpc must name a node of the chain")}
			}
			report, err := walkChain(cmd.Context(), args[0], rpc, from)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printWalk(cmd.OutOrStdout(), report)
			}
			if err == nil && len(report.Faults) > 0 {
				err = fmt.Errorf("%d faults: %w", len(report.Faults), verify.ErrFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&rpc, "rpc", "", "`URL` of a node of the chain (required)")
	cmd.Flags().Uint64Var(&from, "from", 0, "`number` of the block to begin with, if that is earlier")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A source is where attestations of batches are: those by one account, under one schema.
type source struct {
	chain         uint64
	eas, attester common.Address
	schema        common.Hash
}

func walkChain(ctx context.Context, base, rpc string, from uint64) (r chainReport, err error) {
	list, err := askBatches(ctx, base)
	if err != nil {
		return r, err
	}
	r = chainReport{Batches: len(list), Faults: []eas.Fault{}}
	claims := make(map[source][]eas.Claim)
	first := make(map[source]uint64) // block
	var order []source
	for _, p := range list {
		if p.Attested == nil {
			continue
		}
		s := source{p.Sealed.Chain, common.Address(p.Attested.EAS), common.Address(p.Attested.Attester), common.Hash(p.Sealed.Schema)}
		if _, known := claims[s]; !known {
			order, first[s] = append(order, s), p.Attested.Block
		}
		claims[s] = append(claims[s], eas.Claim{Sealed: p.Sealed, Attested: p.Attested})
	}
	for _, s := range order {
		begin := first[s]
		if from > 0 {
			begin = min(begin, from)
		}
		found, err := attestations(ctx, rpc, s, begin)
		if err != nil {
			return r, err
		}
		r.Attestations += len(found)
		r.Faults = append(r.Faults, eas.Walk(s.schema, s.attester, withOpen(claims[s], list, s), found)...)
	}
	return r, nil
}

// withOpen adds to the claims the batches under the same schema that are not attested: the
// chain may be ahead of what the ledger shows.
func withOpen(claims []eas.Claim, list []verify.PublishedBatch, s source) []eas.Claim {
	for _, p := range list {
		if p.Attested == nil && p.Sealed.Chain == s.chain && common.Hash(p.Sealed.Schema) == s.schema {
			claims = append(claims, eas.Claim{Sealed: p.Sealed})
		}
	}
	return claims
}

// walkBlocks is how many blocks are asked for at once; public nodes allow little more.
const walkBlocks = 5_000

// attestations returns all attestations of a source from a block on, in their order.
func attestations(ctx context.Context, rpc string, s source, from uint64) (list []eas.Attestation, err error) {
	n, err := dialChain(ctx, rpc, s.chain)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	head, err := n.Head(ctx)
	if err != nil {
		return nil, err
	}
	for ; from <= head.Number; from += walkBlocks {
		logs, err := n.Logs(ctx, eas.Logs(s.eas, s.schema, s.attester, from, min(from+walkBlocks-1, head.Number)))
		if err != nil {
			return nil, err
		}
		for _, uid := range eas.UIDs(logs, s.eas, s.schema, s.attester) {
			a, err := readAttestation(ctx, n, head, s, uid)
			if err != nil {
				return nil, err
			}
			list = append(list, a)
		}
	}
	return list, nil
}

func readAttestation(ctx context.Context, n *node.Client, head node.Block, s source, uid common.Hash) (eas.Attestation, error) {
	a, err := eas.Read(ctx, callAt(n, head), s.eas, uid)
	if err != nil {
		return a, fmt.Errorf("%s; try again if the chain has just changed: %w", domain.Sentence(err), domain.ErrUnavailable)
	}
	return a, nil
}

func printWalk(out io.Writer, r chainReport) error {
	if _, err := fmt.Fprintf(out, "%d batches, %d attestations, %d faults\n", r.Batches, r.Attestations, len(r.Faults)); err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.Faults {
		_, _ = fmt.Fprintf(t, "%s\tbatch %d\t%s\t%s\n", f.Kind, f.Batch, f.UID, f.Detail) // Flush returns the error
	}
	return t.Flush()
}
