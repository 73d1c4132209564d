package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
)

func (p *program) ledger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Look after the ledger and the public log",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.ledgerVerify(), p.ledgerExport(), p.ledgerImport(), p.ledgerStat(), p.ledgerTail(), p.ledgerErase())
	return c
}

var shopID = regexp.MustCompile(`\Ashp_[a-z2-7]{20}_[0-9]{8}_[0-9]{2}\z`)

func (p *program) ledgerErase() *cobra.Command {
	var shop, found, reason string
	c := &cobra.Command{
		Use:   "erase --shop ID|--finding ID --reason TEXT",
		Short: "Delete the reply of a revealed shop, or that of an owner to a finding, for good",
		Long: `Delete the reply of a revealed shop, or what an owner replied to a finding, and the salt
that it was committed to with. The ledger records that and why, for everybody to read.
All its records and proofs stay as they are; what the reply was can no longer be shown.
Repeat the command if it fails.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := finding.ParseID(found); found != "" && err != nil {
				return fmt.Errorf("--finding: %w", err)
			}
			if found == "" && !shopID.MatchString(shop) {
				return fmt.Errorf("--shop %q is not the id of a shop, such as shp_mfzwizlsmjrxg43vmvzc_20260301_07: %w", shop, domain.ErrInvalid)
			}
			prog, err := p.join(cmd.Context())
			if err != nil {
				return err
			}
			defer prog.Close()
			what, id, erase := "shop", shop, prog.Erase
			if found != "" {
				what, id, erase = "finding", found, prog.EraseReply
			}
			if err := erase(cmd.Context(), operator(), id, reason); err != nil {
				return err
			}
			return p.print(map[string]string{what: id, "erased": reason}, id+": the reply is erased")
		},
	}
	c.Flags().StringVar(&shop, "shop", "", "the `shop` whose reply goes")
	c.Flags().StringVar(&found, "finding", "", "the `finding` to which the owner's reply goes")
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words` that everybody may read (required)")
	c.MarkFlagsMutuallyExclusive("shop", "finding")
	c.MarkFlagsOneRequired("shop", "finding")
	must(c.MarkFlagRequired("reason"))
	return c
}

// logKey says whether checkpoints can be signed here.
func logKey(c assembly.Config) check {
	const name = "log key"
	path, ours := c.LogKeyPath()
	skey, err := c.LogKey()
	_, missing := os.Stat(path)
	switch {
	case err != nil:
		return check{name, "fail", domain.Sentence(err)}
	case skey == "" && errors.Is(missing, fs.ErrNotExist):
		return check{name, "warn", "there is none here; one is made in " + path + " at the first start, and for a log that has one already, checkpoints are signed where that is"}
	case ours:
		return check{name, "ok", path + " (generated; keep a copy elsewhere, for without it no checkpoint can be signed)"}
	}
	return check{name, "ok", path}
}

// witnesses says who watches the public log.
func witnesses(c assembly.Config) check {
	const name = "witnesses"
	list, quorum, err := c.Witnesses()
	switch {
	case err != nil:
		return check{name, "fail", domain.Sentence(err)}
	case len(list) == 0:
		return check{name, "warn", "MYSTERY_WITNESSES is not set: nobody else vouches that there is one public log and not two"}
	}
	return check{name, "ok", fmt.Sprintf("%d are asked, %d must cosign each checkpoint", len(list), quorum)}
}
