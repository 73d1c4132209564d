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
		Short: "Register agents, say who owns them and which identities and certificates are theirs",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.register(), p.transfer(), p.certificate(), p.verifyIdentity(), p.withdraw())
	return c
}

// A subject is the agent that a command is about, as its flags name it.
type subject struct{ build, ref string }

// subjectOf adds the flags to c.
func subjectOf(c *cobra.Command) *subject {
	s := new(subject)
	c.Flags().StringVar(&s.build, "build", "", "`ID` of a build, or")
	c.Flags().StringVar(&s.ref, "agent", "", "the `ref` of an agent: build:<id> or erc8004:<chain>:<registry>:<id>")
	c.MarkFlagsOneRequired("build", "agent")
	c.MarkFlagsMutuallyExclusive("build", "agent")
	return s
}

func (s *subject) parse() (agent.Ref, error) {
	if s.ref != "" {
		ref, err := agent.ParseRef(s.ref)
		if err != nil {
			return "", fmt.Errorf("--agent: %w", err)
		}
		return ref, nil
	}
	ref, err := agent.ParseRef("build:" + s.build)
	if err != nil {
		return "", fmt.Errorf("--build takes the id alone, in lower case and without leading zeros, such as 42; not %q: %w", s.build, domain.ErrInvalid)
	}
	return ref, nil
}

// act opens the programme and carries out commands on one agent.
func (p *program) act(cmd *cobra.Command, s *subject, commands ...agent.Command) error {
	ref, err := s.parse()
	if err != nil {
		return err
	}
	return p.onAgent(cmd, ref, func(*assembly.Programme) ([]agent.Command, error) { return commands, nil })
}

// onAgent is the same with commands that depend on what is known.
func (p *program) onAgent(cmd *cobra.Command, ref agent.Ref, commands func(*assembly.Programme) ([]agent.Command, error)) error {
	prog, err := p.join(cmd.Context())
	if err != nil {
		return err
	}
	defer prog.Close()
	list, err := commands(prog)
	if err != nil {
		return err
	}
	for _, c := range list {
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
	var wallet, certificate, identity string
	var demo bool
	c := &cobra.Command{
		Use:   "register (--build ID --wallet 0x… | --agent REF)",
		Short: "Make an agent and its owner known",
		Long: `Make an agent and its owner known. Of a build the operator says which wallet owns
it. The owner of an agent on an ERC-8004 identity registry is read there, now and
again at each consent and every hour.`,
		Example: `  karatum-mystery agent register --build 42 --wallet 0x9858EfFD232B4033E47d90003D41EC34EcaEda94 --certificate crt-7
  karatum-mystery agent register --agent erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0`,
		Args: cobra.NoArgs,
	}
	s := subjectOf(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		ref, err := s.parse()
		if err != nil {
			return err
		}
		token, onRegistry := ref.Token()
		register := agent.Register{Agent: ref, Demo: demo}
		switch {
		case onRegistry && wallet != "":
			return fmt.Errorf("--wallet goes with a build; the owner of %s is read from its registry: %w", ref, domain.ErrInvalid)
		case !onRegistry:
			if register.Wallet, err = eip191.ParseAddress(wallet); err != nil {
				return fmt.Errorf("--wallet: %w", err)
			}
		}
		var more []agent.Command
		if certificate != "" {
			more = append(more, agent.RecordCertificate{Certificate: certificate})
		}
		if identity != "" {
			if err := (agents.Net{}).CheckURL(identity); err != nil {
				return fmt.Errorf("--identity: %w", err)
			}
			more = append(more, agent.VerifyIdentity{URL: identity})
		}
		return p.onAgent(cmd, ref, func(prog *assembly.Programme) ([]agent.Command, error) {
			if onRegistry {
				owned, err := prog.Service.OwnerOf(cmd.Context(), token)
				if err != nil {
					return nil, err
				}
				if owned.Owner.IsZero() {
					return nil, fmt.Errorf("the registry has no agent %s: %w", token.ID, domain.ErrNotFound)
				}
				register.Wallet, register.At = owned.Owner, owned.At
			}
			return append([]agent.Command{register}, more...), nil
		})
	}
	c.Flags().StringVar(&wallet, "wallet", "", "`address` of the owner of a build, 0x…")
	c.Flags().StringVar(&certificate, "certificate", "", "`ID` of a certificate it holds")
	c.Flags().StringVar(&identity, "identity", "", "`URL` that was verified to be the agent's own")
	c.Flags().BoolVar(&demo, "demo", false, "one of Karatum's own demo agents, which need no certificate")
	return c
}

func (p *program) transfer() *cobra.Command {
	var build, wallet, reason string
	c := &cobra.Command{
		Use:   "transfer --build ID --wallet 0x…",
		Short: "Record that a build belongs to another wallet, which ends its consent",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := eip191.ParseAddress(wallet)
			if err != nil {
				return fmt.Errorf("--wallet: %w", err)
			}
			return p.act(cmd, &subject{build: build}, agent.ChangeOwner{To: to, Reason: reason})
		},
	}
	c.Flags().StringVar(&build, "build", "", "`ID` of the build (required)")
	c.Flags().StringVar(&wallet, "wallet", "", "`address` of the new owner (required)")
	c.Flags().StringVar(&reason, "reason", "transferred", "why, in a few `words` that everybody may read")
	must(c.MarkFlagRequired("build"))
	must(c.MarkFlagRequired("wallet"))
	return c
}

func (p *program) certificate() *cobra.Command {
	c := &cobra.Command{
		Use:   "certificate",
		Short: "Record and withdraw certificates; without one an agent has no consent",
		Args:  cobra.NoArgs,
	}
	record := &cobra.Command{
		Use:   "record (--build ID | --agent REF) --certificate ID",
		Short: "Record that an agent holds a certificate",
		Args:  cobra.NoArgs,
	}
	s, id := subjectOf(record), certificateFlag(record)
	record.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.act(cmd, s, agent.RecordCertificate{Certificate: *id})
	}
	withdraw := &cobra.Command{
		Use:   "withdraw (--build ID | --agent REF) --certificate ID --reason TEXT",
		Short: "Record that a certificate is void; the last one ends the agent's consent",
		Args:  cobra.NoArgs,
	}
	from, void, reason := subjectOf(withdraw), certificateFlag(withdraw), reasonFlag(withdraw)
	withdraw.RunE = func(cmd *cobra.Command, _ []string) error {
		if *reason == "" {
			return errNoReason
		}
		return p.act(cmd, from, agent.WithdrawCertificate{Certificate: *void, Reason: *reason})
	}
	c.AddCommand(record, withdraw)
	return c
}

func certificateFlag(c *cobra.Command) *string {
	id := c.Flags().String("certificate", "", "`ID` of the certificate (required)")
	must(c.MarkFlagRequired("certificate"))
	return id
}

func reasonFlag(c *cobra.Command) *string {
	reason := c.Flags().String("reason", "", "why, in a few `words` that everybody may read (required)")
	must(c.MarkFlagRequired("reason"))
	return reason
}

var errNoReason = fmt.Errorf("--reason says to everybody why; it must not be empty: %w", domain.ErrInvalid)

func (p *program) verifyIdentity() *cobra.Command {
	var identity string
	c := &cobra.Command{
		Use:   "verify-identity (--build ID | --agent REF) --identity URL",
		Short: "Record that a URL is the agent's own: as an endpoint it needs no host proof",
		Args:  cobra.NoArgs,
	}
	s := subjectOf(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := (agents.Net{}).CheckURL(identity); err != nil {
			return fmt.Errorf("--identity: %w", err)
		}
		return p.act(cmd, s, agent.VerifyIdentity{URL: identity})
	}
	c.Flags().StringVar(&identity, "identity", "", "the `URL` (required)")
	must(c.MarkFlagRequired("identity"))
	return c
}

func (p *program) withdraw() *cobra.Command {
	var identity, certificate string
	c := &cobra.Command{
		Use:   "withdraw (--build ID | --agent REF) (--identity URL | --certificate ID) --reason TEXT",
		Short: "Record that an identity or a certificate does not hold any more",
		Args:  cobra.NoArgs,
	}
	s, reason := subjectOf(c), reasonFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *reason == "" {
			return errNoReason
		}
		if certificate != "" {
			return p.act(cmd, s, agent.WithdrawCertificate{Certificate: certificate, Reason: *reason})
		}
		return p.act(cmd, s, agent.WithdrawIdentity{URL: identity, Reason: *reason})
	}
	c.Flags().StringVar(&identity, "identity", "", "the `URL`")
	c.Flags().StringVar(&certificate, "certificate", "", "`ID` of the certificate")
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
