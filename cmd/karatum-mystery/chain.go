package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
)

func (p *program) chain() *cobra.Command {
	c := &cobra.Command{
		Use:   "chain",
		Short: "Prepare the chain that batches are attested on",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.chainDeploy())
	return c
}

func (p *program) chainDeploy() *cobra.Command {
	return &cobra.Command{
		Use:   "deploy",
		Short: "Deploy a resolver that takes each batch once and in order, and register the schema with it",
		Long: `Deploy a resolver that takes attestations of batches from the account of
MYSTERY_ATTESTER_KEY_FILE alone, each once and in order, and register the schema with
it. It goes on behind the last batch that is sealed, which must be attested. Both
transactions are paid by that account. Afterwards set MYSTERY_ATTEST_RESOLVER to what
is printed and start the service again; stop it before, so that no batch is sealed in
between.

Without a resolver nothing has to be deployed: the schema is registered with the first
batch.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prog, err := p.join(cmd.Context())
			if err != nil {
				return err
			}
			defer prog.Close()
			if prog.Attester == nil {
				return fmt.Errorf("MYSTERY_ATTESTER_KEY_FILE is not set, so nothing is attested and nothing to be deployed: %w", domain.ErrInvalid)
			}
			d, err := prog.Attester.Deploy(cmd.Context(), deployEvery)
			if err != nil {
				return err
			}
			return p.print(map[string]any{"resolver": d.Resolver, "schema": d.Schema, "behind": d.Behind},
				fmt.Sprintf("deployed behind batch %d; the schema with it is %s\nMYSTERY_ATTEST_RESOLVER=%s", d.Behind, d.Schema, d.Resolver))
		},
	}
}

// deployEvery is how often the chain is looked at meanwhile.
const deployEvery = 2 * time.Second
