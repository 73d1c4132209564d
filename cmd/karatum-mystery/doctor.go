package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
)

// A finding of the doctor.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail"`
}

func (p *program) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what is missing for the service to run as it should",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := p.examineSelf(cmd)
			var text strings.Builder
			w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
			failed := false
			for _, c := range checks {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", c.Status, c.Name, c.Detail)
				failed = failed || c.Status == "fail"
			}
			_ = w.Flush() // into memory
			if err := p.print(checks, strings.TrimRight(text.String(), "\n")); err != nil {
				return err
			}
			if failed {
				return errors.New("at least one check failed")
			}
			return nil
		},
	}
}

func (p *program) examineSelf(cmd *cobra.Command) []check {
	c := assembly.ConfigFrom(p.getenv)
	checks := []check{publicURL(c), secret(c), sources(c)}
	prog, err := assembly.Open(cmd.Context(), c, assembly.Options{Join: true})
	if err != nil {
		return append(checks, check{"start", "fail", domain.Sentence(err)})
	}
	defer prog.Close()
	where := "the server at MYSTERY_DATABASE_URL"
	if c.DatabaseURL == "" {
		where = "a private PostgreSQL in " + c.StateDir + "; one machine only, and its administrator can rewrite it"
	}
	checks = append(checks, check{"database", "ok", where})
	state, err := prog.Service.CurrentProgramme(cmd.Context())
	switch {
	case err != nil:
		checks = append(checks, check{"programme", "fail", err.Error()})
	case state.Paused:
		checks = append(checks, check{"programme", "warn", "paused: nothing is sent; karatum-mystery programme resume ends it"})
	default:
		checks = append(checks, check{"programme", "ok", fmt.Sprintf("terms version %d, identity pool version %d, catalogue %s",
			state.Terms.Version, state.Pool.Version, state.Catalogue.Digest)})
	}
	return checks
}

func publicURL(c assembly.Config) check {
	switch d, err := c.Domain(); {
	case err != nil:
		return check{"public url", "fail", err.Error()}
	case strings.HasPrefix(c.PublicURL, "http://"):
		return check{"public url", "warn", c.PublicURL + " is not https; set MYSTERY_PUBLIC_URL before owners sign for " + d}
	}
	return check{"public url", "ok", c.PublicURL}
}

func secret(c assembly.Config) check {
	const name = "operator secret"
	path, ours := c.SecretPath()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && ours:
		return check{name, "warn", "there is none yet; one is made in " + path + " at the first start"}
	case err != nil:
		return check{name, "fail", err.Error()}
	case info.Mode().Perm()&0o077 != 0:
		return check{name, "fail", path + " can be read by others; chmod 600 it"}
	case ours:
		return check{name, "ok", path + " (generated; keep a copy elsewhere, for without it no sealed plan can be opened)"}
	}
	return check{name, "ok", path}
}

func sources(c assembly.Config) check {
	if len(c.Sources) == 0 {
		return check{"source addresses", "warn", "MYSTERY_SOURCE_ADDRESSES is not set: reveals cannot say where tasks came from"}
	}
	for _, a := range c.Sources {
		if _, err := netip.ParseAddr(a); err != nil {
			return check{"source addresses", "fail", fmt.Sprintf("MYSTERY_SOURCE_ADDRESSES: %q is not an IP address", a)}
		}
	}
	return check{"source addresses", "ok", strings.Join(c.Sources, ", ")}
}
