package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/verify"
)

// batches is where a service shows its batches.
const batches = "/v1/ledger/batches"

// A batchReport is what came of checking a batch.
type batchReport struct {
	Batch  uint64         `json:"batch"`
	Checks []verify.Check `json:"checks"`
}

func (r batchReport) failed() bool {
	for _, c := range r.Checks {
		if c.Status == verify.Fail {
			return true
		}
	}
	return false
}

func newBatch() *cobra.Command {
	var rpc string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "batch URL",
		Short: "Check a batch: the commits in it, and its attestation",
		Long: `Batch checks one batch of commits. The URL is that of the batch, below
/v1/ledger/batches/. From the same host come the records of the public log that the
batch is made of.

It checks that the commits in these records make just the root of the batch and, with
--rpc, at a node of the chain, that the block of the attestation is part of the chain,
and that EAS holds an attestation there with the schema, attester, reference, time and
all six fields that the ledger shows.

Without --rpc, and while the batch is not attested, these checks read skipped or
pending: then the ledger's word is all there is.

` + exitCodes,
		Example: `  karatum-verify batch https://karatum.com/v1/ledger/batches/12 --rpc https://mainnet.base.org`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := checkBatch(cmd.Context(), args[0], rpc)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printBatch(cmd.OutOrStdout(), report)
			}
			if err == nil && report.failed() {
				err = fmt.Errorf("batch %d: %w", report.Batch, verify.ErrFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&rpc, "rpc", "", "`URL` of a node of the chain that the batch is attested on")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func checkBatch(ctx context.Context, at, rpc string) (r batchReport, err error) {
	base, number, ok := strings.Cut(at, batches+"/")
	n, bad := strconv.ParseUint(number, 10, 64)
	if !ok || bad != nil {
		return r, fmt.Errorf("%s is not the URL of a batch, such as https://host%s/12: %w", at, batches, domain.ErrInvalid)
	}
	body, err := fetch(ctx, at)
	if err != nil {
		return r, err
	}
	p, err := verify.ParseBatch(body)
	switch {
	case err != nil:
		return r, fmt.Errorf("%s: %w", at, err)
	case p.Sealed.Batch != n:
		return r, fmt.Errorf("%s shows batch %d: %w", at, p.Sealed.Batch, domain.ErrInvalid)
	}
	records, err := askRecords(ctx, base, p.Sealed.From, p.Sealed.To)
	if err != nil {
		return r, err
	}
	r = batchReport{n, []verify.Check{p.Members(records)}}
	const id = "attestation"
	switch {
	case p.Attested == nil:
		r.Checks = append(r.Checks, verify.Check{ID: id, Status: verify.Pending, Detail: "the batch is not attested yet"})
	case rpc == "":
		r.Checks = append(r.Checks, verify.Check{ID: id, Status: verify.Skipped, Detail: "only its chain can say; name a node by --rpc"})
	default:
		status, detail := askAttestation(ctx, rpc, p.Sealed, *p.Attested)
		r.Checks = append(r.Checks, verify.Check{ID: id, Status: status, Detail: detail})
	}
	return r, nil
}

// recordsPage is how many records the service gives at once.
const recordsPage = 1000

// askRecords asks for the canonical records of a run of the public log.
func askRecords(ctx context.Context, base string, from, to uint64) (records [][]byte, err error) {
	for from < to {
		page, err := fetch(ctx, fmt.Sprintf("%s/v1/ledger/records?from=%d&limit=%d", base, from, min(to-from, recordsPage)))
		if err != nil {
			return nil, err
		}
		var list struct {
			Items []struct {
				Index  uint64          `json:"index"`
				Record json.RawMessage `json:"record"`
			} `json:"items"`
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return nil, fmt.Errorf("the records of the public log cannot be read: %w: %w", err, domain.ErrInvalid)
		}
		if len(list.Items) == 0 {
			return records, nil // the signed log does not cover them, which is for the check to say
		}
		for _, item := range list.Items {
			if item.Index != from || from >= to {
				return nil, fmt.Errorf("the public log shows record %d where %d was asked for: %w", item.Index, from, domain.ErrInvalid)
			}
			records = append(records, item.Record)
			from++
		}
	}
	return records, nil
}

// addRPC gives the commands that come upon batches their flag.
func addRPC(cmd *cobra.Command, rpc *string) {
	cmd.Flags().StringVar(rpc, "rpc", "", "`URL` of a node of the chain that commits are attested on")
}

// asking returns the way to ask a node for attestations, nil if none is named.
func asking(ctx context.Context, rpc string) verify.Ask {
	if rpc == "" {
		return nil
	}
	return func(s batch.Sealed, a batch.Attested) (verify.Status, string) { return askAttestation(ctx, rpc, s, a) }
}

// askAttestation asks a node for the attestation of a batch. A node that does not answer or
// serves another chain settles nothing.
func askAttestation(ctx context.Context, rpc string, s batch.Sealed, a batch.Attested) (verify.Status, string) {
	n, err := dialChain(ctx, rpc, s.Chain)
	if err != nil {
		return verify.Skipped, domain.Sentence(err)
	}
	defer n.Close()
	block := node.Block{Number: a.Block, Hash: common.Hash(a.BlockHash)}
	made, err := eas.Read(ctx, callAt(n, block), common.Address(a.EAS), common.Hash(a.UID))
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return verify.Fail, domain.Sentence(err)
	case err != nil:
		return verify.Skipped, domain.Sentence(err)
	}
	if err := made.CheckBatch(s, a); err != nil {
		return verify.Fail, domain.Sentence(err)
	}
	return verify.Pass, fmt.Sprintf("%s attested it on chain %d in block %d, at %s", a.Attester, s.Chain, block.Number, a.Time.Format("2006-01-02 15:04:05 MST"))
}

// dialChain returns a client of a node that serves a chain.
func dialChain(ctx context.Context, rpc string, chain uint64) (*node.Client, error) {
	n, err := node.Dial(ctx, rpc)
	if err != nil {
		return nil, err
	}
	id, err := n.ChainID(ctx)
	if err == nil && id != chain {
		err = fmt.Errorf("the node serves chain %d, and the batches are on chain %d: %w", id, chain, domain.ErrInvalid)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// callAt runs contracts on the state behind a block, which must be part of the chain.
func callAt(n *node.Client, block node.Block) eas.Call {
	return func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		return n.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, block)
	}
}

func printBatch(out io.Writer, r batchReport) error {
	if _, err := fmt.Fprintf(out, "batch %d\n", r.Batch); err != nil {
		return err
	}
	checks := make([]verify.SlotCheck, len(r.Checks))
	for i, c := range r.Checks {
		checks[i] = verify.SlotCheck{ID: c.ID, Status: c.Status, Detail: c.Detail}
	}
	return printChecks(out, checks)
}

// askBatches asks a service for all its batches, first to last.
func askBatches(ctx context.Context, base string) (list []verify.PublishedBatch, err error) {
	query := url.Values{"limit": {"100"}}
	for {
		body, err := fetch(ctx, strings.TrimSuffix(base, "/")+batches+"?"+query.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("the batches cannot be read: %w: %w", err, domain.ErrInvalid)
		}
		for _, item := range page.Items {
			p, err := verify.ParseBatch(item)
			if err != nil {
				return nil, err
			}
			if len(list) > 0 && p.Sealed.Batch >= list[0].Sealed.Batch {
				return nil, fmt.Errorf("the list of batches shows %d behind %d: %w", p.Sealed.Batch, list[0].Sealed.Batch, domain.ErrInvalid)
			}
			list = append([]verify.PublishedBatch{p}, list...)
		}
		if len(page.Items) == 0 || list[0].Sealed.Batch == 1 {
			return list, nil
		}
		query.Set("before", strconv.FormatUint(list[0].Sealed.Batch, 10))
	}
}
