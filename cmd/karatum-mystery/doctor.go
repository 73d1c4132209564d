package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
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
		Long: `Say what is missing for the service to run as it should, a line for each check. It
changes nothing in a database that was ever used, so it may run beside the service, and
before an upgrade. The exit code is 1 if a check fails, and 0 if all are ok or warnings.`,
		Args: cobra.NoArgs,
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
	ctx, c := cmd.Context(), assembly.ConfigFrom(p.getenv)
	checks := []check{publicURL(c), secret(c), logKey(c), witnesses(c), sources(c), proofAddress(c), egress(ctx, c), proxies(c)}
	prog, err := assembly.Open(ctx, c, assembly.Options{Join: true, AsIs: true, Keyless: c.AsksForKeys()})
	if err != nil {
		return append(checks, check{"start", "fail", domain.Sentence(err)})
	}
	defer prog.Close()
	checks = append(checks, database(ctx, c, prog), migrated(ctx, prog))
	state, err := prog.Service.CurrentProgramme(ctx)
	switch {
	case err != nil:
		checks = append(checks, check{"programme", "fail", domain.Sentence(err)})
	case len(state.Paused) > 0:
		checks = append(checks, check{"programme", "warn", "paused: " + scopes(state.Paused) + "; karatum-mystery programme resume ends a pause"})
	default:
		checks = append(checks, check{"programme", "ok", fmt.Sprintf("terms version %d, identity pool version %d, catalogue %s",
			state.Terms.Version, state.Pool.Version, state.Catalogue.Digest)})
	}
	checks = append(checks, operatorKeys(ctx, prog)...)
	checks = append(checks, keysSocket(ctx, c, prog)...)
	checks = append(checks, vitals(ctx, c, prog)...)
	checks = append(checks, chains(ctx, prog)...)
	checks = append(checks, attesting(ctx, prog)...)
	return append(checks, payers(ctx, prog))
}

// database says where the database is, and in the words of /readyz whether it answers.
func database(ctx context.Context, c assembly.Config, prog *assembly.Programme) check {
	const name = "database"
	if why := prog.Ready(ctx); why != "" {
		return check{name, "fail", why}
	}
	if c.DatabaseURL == "" {
		return check{name, "ok", "a private PostgreSQL in " + c.StateDir + "; one machine only, and its administrator can rewrite it"}
	}
	return check{name, "ok", "the server at MYSTERY_DATABASE_URL"}
}

// migrated says how far the database is migrated. One that is behind is not opened.
func migrated(ctx context.Context, prog *assembly.Programme) check {
	const name = "migrations"
	l, err := prog.Level(ctx)
	switch {
	case err != nil:
		return check{name, "fail", domain.Sentence(err)}
	case l.At > l.Known:
		return check{name, "warn", fmt.Sprintf("the database is at %d, and this program knows %d: a newer one was here; finish the upgrade", l.At, l.Known)}
	}
	return check{name, "ok", fmt.Sprintf("all %d are made", l.At)}
}

// attesting says whether batches can be attested, and how it went last.
func attesting(ctx context.Context, prog *assembly.Programme) []check {
	const name = "attesting"
	if prog.Attester == nil {
		return []check{{name, "warn", "MYSTERY_ATTESTER_KEY_FILE is not set: commits stand in the public log alone, and nowhere that we could not rewrite"}}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := check{name, "ok", ""}
	found, err := prog.Attester.Examine(ctx)
	switch {
	case errors.Is(err, attester.ErrStopped):
		c.Status, found = "fail", domain.Sentence(err)
	case err != nil:
		c.Status, found = "warn", domain.Sentence(err)
	}
	how, err := prog.Attesting(ctx)
	switch {
	case err != nil:
		how = domain.Sentence(err)
	case strings.HasPrefix(how, attester.Stopped):
		c.Status = "fail"
	case strings.HasPrefix(how, attester.Unreachable) && c.Status == "ok":
		c.Status = "warn"
	}
	c.Detail = found + "; last step: " + how
	return []check{c}
}

// payers says who pays for tasks. That nobody does is no fault: what is for sale is
// not shopped then.
func payers(ctx context.Context, prog *assembly.Programme) check {
	const name = "payments"
	if prog.Worker.Purse == nil {
		return check{name, "ok", "none; tasks at x402 resources are not planned without MYSTERY_X402_PRIVATE_KEY or MYSTERY_X402_KEY_FILE"}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ready, err := prog.Worker.Purse.Ready(ctx)
	if err != nil {
		return check{name, "fail", domain.Sentence(err)}
	}
	list, err := prog.Payers(ctx)
	if err != nil {
		return check{name, "warn", "what the accounts that pay hold cannot be read: " + domain.Sentence(err)}
	}
	var held []string
	funded := false
	for _, p := range list {
		funded = funded || p.Balance.Sign() > 0
		held = append(held, fmt.Sprintf("%s holds %s", p.Account, p.Balance))
	}
	detail := strings.Join(held, ", ") + " millionths of a USDC"
	switch {
	case !ready:
		return check{name, "warn", detail + "; each has paid for a task already, so add fresh keys to MYSTERY_X402_KEY_FILE"}
	case !funded:
		return check{name, "warn", detail + "; without money on Base Sepolia, tasks that are paid for come out as blocked"}
	}
	return check{name, "ok", detail + "; who funded them stands on the chain, so agents may tell them apart"}
}

// chains says which chains can be read. None has to be: without one its contract
// wallets are refused and its tasks blocked, which the agent is not counted for.
func chains(ctx context.Context, prog *assembly.Programme) (checks []check) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	health := prog.AskNodes(ctx)
	for _, id := range slices.Sorted(maps.Keys(health)) {
		name, good := fmt.Sprintf("chain %d", id), 0
		var nodes []string
		for _, n := range health[id] {
			if n.State == rpc.OK {
				good++
			}
			nodes = append(nodes, strings.TrimSuffix(fmt.Sprintf("%s: %s, %s", n.Node, n.State, n.Error), ", "))
		}
		c := check{name, "ok", strings.Join(nodes, "; ")}
		if good == 0 {
			c.Status = "warn"
			c.Detail += fmt.Sprintf("; set MYSTERY_RPC_%d to a node of it that answers, or to none", id)
		}
		checks = append(checks, c)
	}
	return checks
}

func scopes(pauses []programme.Paused) string {
	list := make([]string, len(pauses))
	for i, p := range pauses {
		list[i] = string(p.Scope)
	}
	return strings.Join(list, ", ")
}

// operatorKeys says which secrets are missing, if any is needed.
func operatorKeys(ctx context.Context, prog *assembly.Programme) (checks []check) {
	const name = "operator keys"
	if prog.Keyless() {
		return nil // who holds the secrets knows
	}
	missing, err := prog.MissingKeys(ctx)
	if err != nil {
		return []check{{name, "fail", domain.Sentence(err)}}
	}
	for _, k := range missing {
		checks = append(checks, check{name, "fail", fmt.Sprintf("the secret of key %s is missing, and nothing is planned, sent or opened without it under %s; "+
			"restore it into the file of operator secrets, above the last one", k.Key, strings.Join(k.Consents, ", "))})
	}
	if len(missing) == 0 {
		keys := prog.Service.Secrets.Keys()
		checks = append(checks, check{name, "ok", fmt.Sprintf("%d at hand, none that is needed is missing; new consents are given under %s", len(keys), keys[len(keys)-1])})
	}
	return checks
}

// keysSocket says whether plan key roots are answered for, if a socket is named.
func keysSocket(ctx context.Context, c assembly.Config, prog *assembly.Programme) []check {
	const name = "keys socket"
	if c.KeysSocket == "" {
		return nil
	}
	key, err := prog.KeyHolder(ctx)
	if err != nil {
		return []check{{name, "fail", "nobody answers at " + c.KeysSocket + ", so owners get no challenges from a serve without secrets; " +
			"see that work runs on this machine and lets this account ask (MYSTERY_KEYS_USER)"}}
	}
	return []check{{name, "ok", fmt.Sprintf("%s is answered; new consents are given under %s", c.KeysSocket, key)}}
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
	if c.AsksForKeys() {
		return check{name, "ok", "not for this account to read; plan key roots are asked for at MYSTERY_KEYS_SOCKET"}
	}
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

// proofAddress warns where a host that keeps an eye on KaratumBot would know tasks
// by their address.
func proofAddress(c assembly.Config) check {
	const name = "proof address"
	switch {
	case c.ProofAddress == "":
		return check{name, "warn", "MYSTERY_PROOF_ADDRESS is not set: KaratumBot and tasks may come from one address, and tasks be known by it"}
	case slices.Contains(c.Sources, c.ProofAddress):
		return check{name, "warn", c.ProofAddress + " is one of MYSTERY_SOURCE_ADDRESSES too: tasks can be known by it"}
	}
	return check{name, "ok", c.ProofAddress}
}

// egress says whether work would refuse to shop.
func egress(ctx context.Context, c assembly.Config) check {
	const name = "egress"
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.CheckEgress(ctx); err != nil {
		return check{name, "fail", domain.Sentence(err)}
	}
	if !strings.HasPrefix(c.PublicURL, "https://") {
		return check{name, "ok", "not looked at before the public URL is https"}
	}
	c.SharedEgress = "" // what would it say if it were not told to?
	if err := c.CheckEgress(ctx); err != nil {
		return check{name, "warn", domain.Sentence(err)}
	}
	return check{name, "ok", "tasks come from addresses of their own"}
}

func proxies(c assembly.Config) check {
	const name = "trusted proxies"
	switch list, err := c.Proxies(); {
	case err != nil:
		return check{name, "fail", domain.Sentence(err)}
	case len(list) == 0:
		return check{name, "ok", "none; behind a proxy all callers would count as one, so name it in MYSTERY_TRUSTED_PROXIES if there is one"}
	}
	return check{name, "ok", strings.Join(c.TrustedProxies, ", ")}
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
