package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/projections"
)

func (p *program) programme() *cobra.Command {
	c := &cobra.Command{
		Use:   "programme",
		Short: "Pause and resume sending, rotate the operator's keys, and name maintainers",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.pause(), p.resume(), p.status(), p.rotateKey(), p.retireKey(), p.maintainerKey(), p.addMaintainer(), p.retireMaintainer())
	return c
}

// operate opens the programme, lets do act on it, and prints what do says and how
// the programme stands then.
func (p *program) operate(cmd *cobra.Command, do func(*assembly.Programme) (done string, err error)) error {
	prog, err := p.join(cmd.Context())
	if err != nil {
		return err
	}
	defer prog.Close()
	done, err := do(prog)
	if err != nil {
		return err
	}
	if err := prog.CatchUp(cmd.Context()); err != nil {
		return err
	}
	s, err := prog.Reader.Programme(cmd.Context())
	if err != nil {
		return err
	}
	here, err := prog.KeysAtHand()
	if err != nil {
		return err
	}
	v := standingOf(s, here)
	return p.print(v, strings.TrimPrefix(done+"\n"+v.text(), "\n"))
}

// A scopeFlag is the choice of a scope on the command line: everything, unless a
// flag names a part.
type scopeFlag struct {
	host, consent, template string
	identity                uint32
}

func (f *scopeFlag) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.host, "host", "", "only tasks for this `host`, as agent.example (port 443) or agent.example:8443")
	c.Flags().StringVar(&f.consent, "consent", "", "only tasks under the consent with this `ID`")
	c.Flags().StringVar(&f.template, "template", "", "only tasks from the template with this `ID`, such as unit.convert")
	c.Flags().Uint32Var(&f.identity, "identity", 0, "only tasks under the client identity with this `number` in the pool")
	c.MarkFlagsMutuallyExclusive("host", "consent", "template", "identity")
}

// scope returns the scope that was chosen, if there can be tasks in it.
func (f *scopeFlag) scope(c *cobra.Command) (programme.Scope, error) {
	s := programme.Everything
	switch {
	case c.Flags().Changed("host"):
		host, err := agents.HostOf("https://" + f.host)
		if err != nil || strings.ContainsAny(f.host, "/?#@") {
			return "", fmt.Errorf("--host takes a host, as agent.example or agent.example:8443, and not %q: %w", f.host, domain.ErrInvalid)
		}
		s = programme.OfHost(host)
	case c.Flags().Changed("consent"):
		s = programme.OfConsent(f.consent)
	case c.Flags().Changed("template"):
		s = programme.OfTemplate(f.template)
	case c.Flags().Changed("identity"):
		s = programme.OfIdentity(f.identity)
	}
	return s, s.Check()
}

func (p *program) pause() *cobra.Command {
	return p.switchTo(&cobra.Command{
		Use:   "pause [--host HOST | --consent ID | --template ID | --identity N] --reason TEXT",
		Short: "Send no task of a scope until it is resumed; without a scope, none at all",
		Long: `Send no task of a scope until it is resumed; without a scope, none at all.

When the command has ended, no byte of a new task of that scope leaves. Tasks that
would be due meanwhile are missed, and say so in public; nothing is made up for.
Several scopes can be paused at a time. Host proofs and surfaces are read on.`,
		Example: `  karatum-mystery programme pause --reason "incident at our provider"
  karatum-mystery programme pause --host agent.example --reason "its operator asked us to"`,
	}, func(s programme.Scope, reason string) (programme.Command, string) {
		return programme.Pause{Scope: s, Reason: reason}, fmt.Sprintf("paused %s: no byte of a new task leaves", s)
	})
}

func (p *program) resume() *cobra.Command {
	return p.switchTo(&cobra.Command{
		Use:   "resume [--host HOST | --consent ID | --template ID | --identity N] --reason TEXT",
		Short: "Send tasks of a scope again; other scopes that are paused stay so",
	}, func(s programme.Scope, reason string) (programme.Command, string) {
		return programme.Resume{Scope: s, Reason: reason}, fmt.Sprintf("resumed %s", s)
	})
}

// switchTo completes a command that pauses or resumes a scope.
func (p *program) switchTo(c *cobra.Command, to func(programme.Scope, string) (programme.Command, string)) *cobra.Command {
	var flag scopeFlag
	var reason string
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		scope, err := flag.scope(cmd)
		if err != nil {
			return err
		}
		return p.operate(cmd, func(prog *assembly.Programme) (string, error) {
			if flag.consent != "" { // a slip of the pen must not pass for a pause
				if _, err := prog.Reader.Consent(cmd.Context(), flag.consent); err != nil {
					return "", err
				}
			}
			command, done := to(scope, reason)
			return done, prog.Service.Programme(cmd.Context(), operator(), command)
		})
	}
	flag.bind(c)
	p.reason(c, &reason)
	return c
}

func (p *program) reason(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, in a few `words` that everybody may read (required)")
	must(c.MarkFlagRequired("reason"))
}

func (p *program) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what is paused, and which operator keys and maintainers there are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, func(*assembly.Programme) (string, error) { return "", nil })
		},
	}
}

func (p *program) rotateKey() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-key",
		Short: "Make a new operator secret, add it to the file, and register what stands for it",
		Long: `Make a new operator secret, add it to the file, and register what stands for it.

New consents are given under it once serve and work have been started again with the
new file. Consents that were given before keep the secret that they were signed for,
so the older secrets stay in the file until their keys are retired.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, func(prog *assembly.Programme) (string, error) {
				key, err := prog.RotateKey(cmd.Context(), operator())
				path, _ := assembly.ConfigFrom(p.getenv).SecretPath()
				return fmt.Sprintf("operator key %s is registered; back %s up, take it to every machine, and start the service again", key, path), err
			})
		},
	}
}

func (p *program) retireKey() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "retire-key KEY --reason TEXT",
		Short: "Give up an operator key that nothing is left to do under",
		Long: `Give up an operator key that nothing is left to do under.

Refused for the newest key, and while a consent needs it: one that is in force, or one
that is over and has days that are not opened yet. Afterwards its secret may be taken
out of the file.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := domain.ParseHash(args[0])
			if err != nil {
				return fmt.Errorf("the key: %w", err)
			}
			return p.operate(cmd, func(prog *assembly.Programme) (string, error) {
				return fmt.Sprintf("operator key %s is retired", key), prog.RetireKey(cmd.Context(), operator(), key, reason)
			})
		},
	}
	p.reason(c, &reason)
	return c
}

// A standing is how the programme stands, for its operator.
type standing struct {
	Paused bool        `json:"paused"` // everything is
	Pauses []paused    `json:"pauses"`
	Keys   []keyStands `json:"operatorKeys"`

	Maintainers []maintains `json:"maintainers"`
}

type maintains struct {
	Name    string      `json:"name"`
	Key     domain.Hash `json:"key"`
	Since   time.Time   `json:"since"`
	Retired time.Time   `json:"retired,omitzero"`
	Reason  string      `json:"reason,omitempty"`
}

type paused struct {
	Scope  programme.Scope `json:"scope"`
	Since  time.Time       `json:"since"`
	Reason string          `json:"reason"`
}

type keyStands struct {
	Key     domain.Hash `json:"key"`
	Since   time.Time   `json:"since"`
	Retired time.Time   `json:"retired,omitzero"`
	Reason  string      `json:"reason,omitempty"`
	Secret  bool        `json:"secret"`  // is at hand
	Current bool        `json:"current"` // of new consents, as far as this machine's file says
}

func standingOf(s projections.Status, here []domain.Hash) standing {
	v := standing{Paused: s.Paused(), Pauses: []paused{}, Keys: []keyStands{}, Maintainers: []maintains{}}
	for _, p := range s.Pauses {
		v.Pauses = append(v.Pauses, paused{p.Scope, p.Since, p.Reason})
	}
	for _, k := range s.Keys {
		v.Keys = append(v.Keys, keyStands{
			k.Key, k.Since, k.Retired, k.Reason, slices.Contains(here, k.Key), here[len(here)-1] == k.Key,
		})
	}
	for _, m := range s.Maintainers {
		v.Maintainers = append(v.Maintainers, maintains{m.Name, m.Key, m.Since, m.Retired, m.Reason})
	}
	return v
}

func (s standing) text() string {
	var b strings.Builder
	if len(s.Pauses) == 0 {
		b.WriteString("nothing is paused\n")
	}
	for _, p := range s.Pauses {
		fmt.Fprintf(&b, "paused        %s since %s: %s\n", p.Scope, p.Since.Format(time.RFC3339), p.Reason)
	}
	for _, k := range s.Keys {
		stands := "in force"
		switch {
		case !k.Retired.IsZero():
			stands = "retired " + k.Retired.Format(time.RFC3339) + ": " + k.Reason
		case k.Current:
			stands = "current"
		case !k.Secret:
			stands = "in force, and its secret is not in the file"
		}
		fmt.Fprintf(&b, "operator key  %s since %s, %s\n", k.Key, k.Since.Format(time.RFC3339), stands)
	}
	for _, m := range s.Maintainers {
		stands := "in force"
		if !m.Retired.IsZero() {
			stands = "retired " + m.Retired.Format(time.RFC3339) + ": " + m.Reason
		}
		fmt.Fprintf(&b, "maintainer    %s, key %s since %s, %s\n", m.Name, m.Key, m.Since.Format(time.RFC3339), stands)
	}
	return strings.TrimRight(b.String(), "\n")
}
