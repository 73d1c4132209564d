package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
)

func (p *program) agent() *cobra.Command {
	c := &cobra.Command{
		Use:   "agent",
		Short: "Register agents and say which identities are theirs",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.register(), p.verifyIdentity(), p.withdraw())
	return c
}

// act opens the programme and carries out commands on one agent.
func (p *program) act(cmd *cobra.Command, build string, commands ...agent.Command) error {
	ref, err := agent.ParseRef("build:" + build)
	if err != nil {
		return fmt.Errorf("--build takes the id alone, in lower case and without leading zeros, such as 42; not %q: %w", build, domain.ErrInvalid)
	}
	prog, err := p.open(cmd.Context(), false)
	if err != nil {
		return err
	}
	defer prog.Close()
	for _, c := range commands {
		if err := prog.Service.Agent(cmd.Context(), operator(), ref, c); err != nil {
			return err
		}
	}
	if err := prog.CatchUp(cmd.Context()); err != nil {
		return err
	}
	return p.printAgent(cmd, prog, ref)
}

func (p *program) printAgent(cmd *cobra.Command, prog *assembly.Programme, ref agent.Ref) error {
	s, err := prog.Service.KnownAgent(cmd.Context(), ref)
	if err != nil {
		return err
	}
	v := struct {
		Agent        agent.Ref      `json:"agent"`
		Wallet       eip191.Address `json:"wallet"`
		Demo         bool           `json:"demo"`
		Identities   []string       `json:"identities"`
		Certificates []string       `json:"certificates"`
	}{s.Ref, s.Wallet, s.Demo, sorted(s.Identities), sorted(s.Certificates)}
	return p.print(v, fmt.Sprintf("%s  owner %s  verified identities: %s  certificates: %s",
		v.Agent, v.Wallet, orNone(v.Identities), orNone(v.Certificates)))
}

func (p *program) register() *cobra.Command {
	var build, wallet, certificate, identity string
	var demo bool
	c := &cobra.Command{
		Use:     "register --build ID --wallet 0x…",
		Short:   "Make a Karatum build and its owner wallet known",
		Example: "  karatum-mystery agent register --build 42 --wallet 0x9858EfFD232B4033E47d90003D41EC34EcaEda94",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			owner, err := eip191.ParseAddress(wallet)
			if err != nil {
				return fmt.Errorf("--wallet: %w", err)
			}
			commands := []agent.Command{agent.Register{Agent: agent.Ref("build:" + build), Wallet: owner, Demo: demo}}
			if certificate != "" {
				commands = append(commands, agent.RecordCertificate{Certificate: certificate})
			}
			if identity != "" {
				if err := (agents.Net{}).CheckURL(identity); err != nil {
					return fmt.Errorf("--identity: %w", err)
				}
				commands = append(commands, agent.VerifyIdentity{URL: identity})
			}
			return p.act(cmd, build, commands...)
		},
	}
	c.Flags().StringVar(&build, "build", "", "`ID` of the build (required)")
	c.Flags().StringVar(&wallet, "wallet", "", "`address` of the owner, 0x… (required)")
	c.Flags().StringVar(&certificate, "certificate", "", "`ID` of a certificate it holds")
	c.Flags().StringVar(&identity, "identity", "", "`URL` that was verified to be the agent's own")
	c.Flags().BoolVar(&demo, "demo", false, "one of Karatum's own demo agents")
	must(c.MarkFlagRequired("build"))
	must(c.MarkFlagRequired("wallet"))
	return c
}

func (p *program) verifyIdentity() *cobra.Command {
	var build, identity string
	c := &cobra.Command{
		Use:   "verify-identity --build ID --identity URL",
		Short: "Record that a URL is the agent's own: as an endpoint it needs no host proof",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := (agents.Net{}).CheckURL(identity); err != nil {
				return fmt.Errorf("--identity: %w", err)
			}
			return p.act(cmd, build, agent.VerifyIdentity{URL: identity})
		},
	}
	c.Flags().StringVar(&build, "build", "", "`ID` of the build (required)")
	c.Flags().StringVar(&identity, "identity", "", "the `URL` (required)")
	must(c.MarkFlagRequired("build"))
	must(c.MarkFlagRequired("identity"))
	return c
}

func (p *program) withdraw() *cobra.Command {
	var build, identity, certificate, reason string
	c := &cobra.Command{
		Use:   "withdraw --build ID (--identity URL | --certificate ID) --reason TEXT",
		Short: "Record that an identity or a certificate does not hold any more",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return fmt.Errorf("--reason says to everybody why; it must not be empty: %w", domain.ErrInvalid)
			}
			if certificate != "" {
				return p.act(cmd, build, agent.WithdrawCertificate{Certificate: certificate, Reason: reason})
			}
			return p.act(cmd, build, agent.WithdrawIdentity{URL: identity, Reason: reason})
		},
	}
	c.Flags().StringVar(&build, "build", "", "`ID` of the build (required)")
	c.Flags().StringVar(&identity, "identity", "", "the `URL`")
	c.Flags().StringVar(&certificate, "certificate", "", "`ID` of the certificate")
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words` that everybody may read (required)")
	must(c.MarkFlagRequired("build"))
	must(c.MarkFlagRequired("reason"))
	c.MarkFlagsOneRequired("identity", "certificate")
	c.MarkFlagsMutuallyExclusive("identity", "certificate")
	return c
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// must panics: a flag that is marked and does not exist is a bug.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
