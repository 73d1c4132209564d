package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/programme"
)

func (p *program) maintainerKey() *cobra.Command {
	return &cobra.Command{
		Use:   "maintainer-key FILE",
		Short: "Make the personal key of a maintainer, in a new file, and print its public half",
		Long: `Make the personal key of a maintainer (Ed25519), in a new file that only you can read,
and print its public half. Nobody else needs the file, not the service either: whoever
runs the service registers the public half with programme add-maintainer.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("the key of a maintainer goes into a new file: %w", err)
			}
			_, err = fmt.Fprintln(f, hex.EncodeToString(private.Seed()))
			if closed := f.Close(); err == nil {
				err = closed
			}
			if err != nil {
				return err
			}
			key := hex.EncodeToString(public)
			return p.print(map[string]string{"key": key, "file": args[0]}, key)
		},
	}
}

// readMaintainerKey reads a file that maintainer-key made.
func readMaintainerKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key of a maintainer: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the key %s can be read by others; chmod 600 it: %w", path, domain.ErrForbidden)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the maintainer names the file
	if err != nil {
		return nil, fmt.Errorf("the key of a maintainer: %w", err)
	}
	seed, err := domain.ParseHash(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s is no key that programme maintainer-key made: %w", path, err)
	}
	return ed25519.NewKeyFromSeed(seed[:]), nil
}

// approve signs an action with the keys in some files, each under the name that its key
// is registered with.
func approve(state programme.State, a maintainer.Action, files ...string) (by []maintainer.Approval, err error) {
	for _, file := range files {
		key, err := readMaintainerKey(file)
		if err != nil {
			return nil, err
		}
		approval := maintainer.Approve("", key, a)
		i := slices.IndexFunc(state.Maintainers, func(m programme.Maintainer) bool { return m.Key == approval.Key })
		switch {
		case i < 0:
			return nil, fmt.Errorf("the key in %s is not registered; programme add-maintainer NAME --key %s does that: %w", file, approval.Key, domain.ErrForbidden)
		case state.Maintainers[i].Retired:
			return nil, fmt.Errorf("the key in %s is retired, and nothing that it signs counts; programme maintainer-key makes another: %w", file, domain.ErrForbidden)
		}
		approval.Name = state.Maintainers[i].Name
		by = append(by, approval)
	}
	return by, nil
}

func (p *program) addMaintainer() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use:   "add-maintainer NAME --key KEY",
		Short: "Let a person act on incidents and correct findings, under a key of their own",
		Long: `Let a person act on incidents and correct findings, under a personal key whose public
half programme maintainer-key printed. Name and key stand in public.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			parsed, err := domain.ParseHash(key)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			return p.operate(cmd, func(prog *assembly.Programme) (string, error) {
				c := programme.RegisterMaintainer{Name: args[0], Key: parsed}
				return args[0] + " is a maintainer", prog.Service.Programme(cmd.Context(), operator(), c)
			})
		},
	}
	c.Flags().StringVar(&key, "key", "", "`public` key (required)")
	must(c.MarkFlagRequired("key"))
	return c
}

func (p *program) retireMaintainer() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "retire-maintainer NAME --reason TEXT",
		Short: "Let nothing count any more that is signed with the key of a maintainer",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.operate(cmd, func(prog *assembly.Programme) (string, error) {
				c := programme.RetireMaintainer{Name: args[0], Reason: reason}
				return args[0] + " is no maintainer any more", prog.Service.Programme(cmd.Context(), operator(), c)
			})
		},
	}
	p.reason(c, &reason)
	return c
}
