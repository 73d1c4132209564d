package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/producer"
)

func (p *program) producer() *cobra.Command {
	c := &cobra.Command{
		Use:   "producer",
		Short: "Say who outside of the service may write to the ledger",
		Long: `Say who outside of the service may write to the ledger: the Shield runner, recorders
of sessions, the trial harness, the registry. A producer has an Ed25519 key of its own,
of which the ledger knows the public half:

  openssl genpkey -algorithm ed25519 -out runner.key
  openssl pkey -in runner.key -pubout -out runner.pub`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(p.producerRegister(), p.producerRotate(), p.producerRevoke(), p.producerList())
	return c
}

// keyFlags are the flags that describe a key.
type keyFlags struct {
	id, file string
	days     int
}

func keyFlagsOf(c *cobra.Command) *keyFlags {
	f := new(keyFlags)
	c.Flags().StringVar(&f.id, "key-id", "", "`name` of the key, such as 2026-10 (required)")
	c.Flags().StringVar(&f.file, "public-key", "", "`file` with the public key, as openssl pkey -pubout writes it (required)")
	c.Flags().IntVar(&f.days, "days", 365, "`number` of days that the key holds from now on")
	must(c.MarkFlagRequired("key-id"))
	must(c.MarkFlagRequired("public-key"))
	return f
}

// read returns the key, which holds from now on.
func (f *keyFlags) read(now time.Time) (k producer.Key, err error) {
	const most = 3650
	if f.days < 1 || f.days > most {
		return k, fmt.Errorf("--days must be 1 to %d: %w", most, domain.ErrInvalid)
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return k, fmt.Errorf("--public-key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return k, fmt.Errorf("--public-key: %s is not in PEM; make it with openssl pkey -in KEY -pubout: %w", f.file, domain.ErrInvalid)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return k, fmt.Errorf("--public-key: %s holds no public key: %w: %w", f.file, err, domain.ErrInvalid)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return k, fmt.Errorf("--public-key: %s holds a %T, and must hold an Ed25519 key: %w", f.file, parsed, domain.ErrInvalid)
	}
	now = now.UTC().Truncate(time.Second)
	return producer.Key{ID: f.id, Public: producer.PublicKey(public), NotBefore: now, NotAfter: now.AddDate(0, 0, f.days)}, nil
}

// withProducer opens the programme, carries out a command on a producer, and prints what
// it may do then.
func (p *program) withProducer(ctx context.Context, id string, command func(now time.Time) (producer.Command, error)) error {
	prog, err := p.join(ctx)
	if err != nil {
		return err
	}
	defer prog.Close()
	c, err := command(prog.Now())
	if err != nil {
		return err
	}
	if err := prog.Service.Producer(ctx, operator(), id, c); err != nil {
		return err
	}
	if err := prog.CatchUp(ctx); err != nil {
		return err
	}
	shown, err := showProducer(ctx, prog, id)
	if err != nil {
		return err
	}
	return p.print(shown, shown.text())
}

// A shownProducer is what is told of a producer.
type shownProducer struct {
	Producer string         `json:"producer"`
	State    string         `json:"state"` // active, expired or revoked
	Keys     []producer.Key `json:"keys"`
	Types    []domain.Type  `json:"types"`
	Streams  []string       `json:"streams"`
}

func showProducer(ctx context.Context, prog *assembly.Programme, id string) (shown shownProducer, err error) {
	s, err := prog.Service.ProducerState(ctx, id)
	if err != nil {
		return shown, err
	}
	shown = shownProducer{Producer: s.ID, State: "expired", Keys: s.Keys, Types: s.Types, Streams: s.Streams}
	for _, k := range s.Keys {
		if k.HoldsAt(prog.Now()) {
			shown.State = "active"
		}
	}
	if s.Revoked {
		shown.State = "revoked"
	}
	return shown, nil
}

func (s shownProducer) text() string {
	last := s.Keys[len(s.Keys)-1]
	types := make([]string, len(s.Types))
	for i, t := range s.Types {
		types[i] = string(t)
	}
	return fmt.Sprintf("%s  %s  key %s until %s  streams: %s  types: %s",
		s.Producer, s.State, last.ID, last.NotAfter.UTC().Format(time.DateOnly), strings.Join(s.Streams, ", "), strings.Join(types, ", "))
}

func (p *program) producerRegister() *cobra.Command {
	var id string
	var types, streams []string
	c := &cobra.Command{
		Use:   "register --id NAME --key-id NAME --public-key FILE --type TYPE … --stream PREFIX …",
		Short: "Let somebody write to the ledger",
		Example: `  karatum-mystery producer register --id shield-runner --key-id 2026-10 --public-key runner.pub \
    --type 'shield.*' --stream shield-case/`,
		Args: cobra.NoArgs,
	}
	key := keyFlagsOf(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		allowed, err := typesOf(types)
		if err != nil {
			return err
		}
		return p.withProducer(cmd.Context(), id, func(now time.Time) (producer.Command, error) {
			k, err := key.read(now)
			return producer.Register{Producer: id, Key: k, Types: allowed, Streams: streams}, err
		})
	}
	c.Flags().StringVar(&id, "id", "", "`name` of the producer (required)")
	c.Flags().StringSliceVar(&types, "type", nil, "`type` that it may write, such as shield.case_opened.v1, or shield.* for all of them (required)")
	c.Flags().StringSliceVar(&streams, "stream", nil, "`beginning` of the names of streams that it may write to, such as shield-case/ (required)")
	for _, flag := range []string{"id", "type", "stream"} {
		must(c.MarkFlagRequired(flag))
	}
	return c
}

// typesOf returns the types that words stand for.
func typesOf(words []string) (list []domain.Type, err error) {
	for _, word := range words {
		family, all := strings.CutSuffix(word, "*")
		n := len(list)
		for _, t := range producer.Types() {
			if string(t) == word || all && strings.HasPrefix(string(t), family) {
				list = append(list, t)
			}
		}
		if len(list) == n {
			return nil, fmt.Errorf("--type: %q is none of %v: %w", word, producer.Types(), domain.ErrInvalid)
		}
	}
	return list, nil
}

func (p *program) producerRotate() *cobra.Command {
	var id string
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate --id NAME --key-id NAME --public-key FILE",
		Short: "Give a producer another key; the one before holds for a while longer",
		Args:  cobra.NoArgs,
	}
	key := keyFlagsOf(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if overlap < 0 {
			return fmt.Errorf("--overlap must not be negative: %w", domain.ErrInvalid)
		}
		return p.withProducer(cmd.Context(), id, func(now time.Time) (producer.Command, error) {
			k, err := key.read(now)
			return producer.RotateKey{Key: k, Until: now.UTC().Truncate(time.Second).Add(overlap)}, err
		})
	}
	c.Flags().StringVar(&id, "id", "", "`name` of the producer (required)")
	c.Flags().DurationVar(&overlap, "overlap", time.Hour, "for how `long` the key before holds from now on; 0 ends it")
	must(c.MarkFlagRequired("id"))
	return c
}

func (p *program) producerRevoke() *cobra.Command {
	var id, reason string
	c := &cobra.Command{
		Use:   "revoke --id NAME --reason TEXT",
		Short: "Take nothing more from a producer, for good",
		Long: `Take nothing more from a producer, for good. When the command has ended well, not even
what the producer had under way is taken any more. What it wrote before stays.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withProducer(cmd.Context(), id, func(time.Time) (producer.Command, error) {
				return producer.Revoke{Reason: reason}, nil
			})
		},
	}
	c.Flags().StringVar(&id, "id", "", "`name` of the producer (required)")
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words` that everybody may read (required)")
	must(c.MarkFlagRequired("id"))
	must(c.MarkFlagRequired("reason"))
	return c
}

func (p *program) producerList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the producers, their keys and what they may write",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prog, err := p.join(cmd.Context())
			if err != nil {
				return err
			}
			defer prog.Close()
			if err := prog.CatchUp(cmd.Context()); err != nil {
				return err
			}
			names, err := prog.Reader.Producers(cmd.Context())
			if err != nil {
				return err
			}
			list := make([]shownProducer, len(names))
			lines := make([]string, len(names))
			for i, name := range names {
				if list[i], err = showProducer(cmd.Context(), prog, name); err != nil {
					return err
				}
				lines[i] = list[i].text()
			}
			if len(list) == 0 {
				lines = []string{"there are no producers"}
			}
			return p.print(map[string]any{"producers": list}, strings.Join(lines, "\n"))
		},
	}
}
