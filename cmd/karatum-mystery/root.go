package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Exit codes.
const (
	exitError    = 1
	exitUsage    = 2
	exitDamaged  = 3
	exitNotFound = 4
	exitRefused  = 6
)

const manual = `karatum-mystery runs the Mystery Shopper: it asks agents, whose owners signed a
consent, ordinary questions with checkable answers, commits to them before, and
reveals them after.

Environment (all optional):
  MYSTERY_DATABASE_URL          PostgreSQL connection string; without it a private
                                PostgreSQL is run in the state directory
  MYSTERY_EVENTLOG              EventStoreDB cluster for the event log (esdb:// or
                                esdb+discover://); without it, it is in PostgreSQL
  MYSTERY_STATE_DIR             private database and generated secrets
                                (/var/lib/karatum-mystery for root, else
                                ~/.local/state/karatum-mystery)
  MYSTERY_PUBLIC_URL            where the API is reached; owners sign for its host
                                (http://localhost:8080)
  MYSTERY_OPERATOR_SECRET_FILE  the operator secrets, mode 0600: a line of 64 hex
                                digits each, the current one last; # begins a
                                comment. If unset, one is made in the state
                                directory at the first start
  MYSTERY_KEYS_SOCKET           Unix socket at which work answers for plan key roots, and a serve
                                of its own asks, which then reads no secret; if unset, each
                                reads it
  MYSTERY_KEYS_USER             account that may ask there besides that of work and root; the
                                group of work has to be one of its groups (none)
  MYSTERY_SOURCE_ADDRESSES      addresses that tasks come from, by commas; published
                                with reveals and nowhere before
  MYSTERY_ABUSE_CONTACT         where abuse is reported, mailto: or https:
                                (mailto:abuse@ the host of the public URL)
  MYSTERY_PROOF_ADDRESS         local address that host proofs and exams come from
  MYSTERY_SHARED_EGRESS         "allow" to shop although tasks may come from an address
                                of proofs, exams or the API; without it a service
                                with an https public URL does not
  MYSTERY_CHECK_INTERVAL        how often hosts are looked at, 5m to 24h (1h); beyond
                                2h tasks are missed
  MYSTERY_TRUSTED_PROXIES       networks of proxies in front of the API, by commas;
                                limits count by the address that these add to
                                X-Forwarded-For, and else by the peer
  MYSTERY_LOG_KEY_FILE          key that signs the public log, mode 0600; if unset, one
                                is made in the state directory when the log is begun
  MYSTERY_WITNESSES             file with witnesses of the public log: a line of key and
                                URL each, and "quorum N" for how many must cosign
  MYSTERY_CHECKPOINT_INTERVAL   how often a checkpoint of the public log is signed, 1s
                                to 24h (10m)
  MYSTERY_INCIDENT_SEVERITY     medium, or high to take wrong answers for more than the profile
                                does; a change goes on public record (as the ledger has it)
  MYSTERY_OPERATOR_ADDR         loopback address, such as localhost:8081, of metrics,
                                profiles and the interface to the read models; if
                                unset, none
  OTEL_EXPORTER_OTLP_ENDPOINT   OpenTelemetry collector that traces are sent to by OTLP over
                                HTTP, such as http://localhost:4318; if unset, none are.
                                Other OTEL_ variables mean what they always do
  MYSTERY_CHAIN                 chain id on which contract wallets of owners are (84532)
  MYSTERY_RPC_<chain id>        nodes of a chain, http(s) URLs by commas, such as
                                MYSTERY_RPC_84532; "none" asks none (public nodes of
                                84532 and 11155111)
  MYSTERY_ATTESTER_KEY_FILE     key of the account that attests batches of commits by way of
                                EAS, mode 0600: 64 hex digits, or a keystore, whose password
                                is in MYSTERY_ATTESTER_PASSWORD_FILE. If unset, nothing is
                                attested
  MYSTERY_ATTEST_CHAIN          chain that batches are attested on (MYSTERY_CHAIN); set without
                                a key, another process attests them
  MYSTERY_ATTEST_EAS            address of EAS, with MYSTERY_ATTEST_REGISTRY that of its schema
                                registry (known on Base, Optimism and Sepolia networks)
  MYSTERY_ATTEST_RESOLVER       address of the schema's resolver, see chain deploy (none)
  MYSTERY_ATTEST_CONFIRMATIONS  blocks on top of an attestation before it counts (5)
  MYSTERY_ATTEST_MAX_FEE        the most that a unit of gas may cost, in gwei (100)
  MYSTERY_BATCH_SIZE            commits that close a batch before five past the hour (1024)
  MYSTERY_X402_PRIVATE_KEY      key of an account that holds USDC on Base Sepolia and
                                pays for tasks at x402 resources (none: none is planned)
  MYSTERY_X402_KEY_FILE         in its place a file of such keys, one a line, each of
                                which pays for one task
  MYSTERY_HOUSE_OWNER           wallet of the demo agents, for serve --house

Exit codes: 0 ok, 1 error, 2 usage, 3 damage found, 4 not found, 6 refused.`

// A program is one run of the command.
type program struct {
	getenv         func(string) string
	stdout, stderr io.Writer
	json           bool
	began          bool // a command's own work, behind all checks of the command line

	world world // zero but in tests
}

// A world is what tests put in the place of the one that there is.
type world struct {
	net   agents.Net       // what can be reached
	now   func() time.Time // programme time; nil: that of the database
	pause time.Duration    // between two rounds of the cycle; 0: workEvery
}

// run is main without the process: tests call it with their own arguments,
// environment and context, and stop it by cancelling ctx. It returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return (&program{getenv: getenv, stdout: stdout, stderr: stderr}).run(ctx, args)
}

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root() //nolint:contextcheck // the commands take it from ExecuteContext
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(p.stderr, "karatum-mystery:", domain.Sentence(err))
	switch {
	case !p.began:
		return exitUsage
	case errors.Is(err, ledger.ErrDamaged):
		return exitDamaged
	case errors.Is(err, domain.ErrNotFound):
		return exitNotFound
	case errors.Is(err, domain.ErrConflict), errors.Is(err, domain.ErrForbidden):
		return exitRefused
	case errors.Is(err, domain.ErrInvalid):
		return exitUsage
	}
	return exitError
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "karatum-mystery",
		Short:         "Finds out whether an agent behaves in production as in its exam",
		Long:          manual,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().BoolVar(&p.json, "json", false, "print JSON")
	root.AddCommand(p.serve(), p.work(), p.agent(), p.programme(), p.exam(), p.incident(), p.finding(), p.producer(), p.ledger(), p.chain(), p.projections(), p.doctor())
	p.mark(root)
	return root
}

// mark lets every command below c say when its own work begins: an error before
// that is one of the command line.
func (p *program) mark(c *cobra.Command) {
	if do := c.RunE; do != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			p.began = true
			return do(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		p.mark(sub)
	}
}

// open assembles the programme as the environment says.
func (p *program) open(ctx context.Context, o assembly.Options) (*assembly.Programme, error) {
	o.Log, o.Version, o.Net, o.Now = p.logger(), version, p.world.net, p.world.now
	return assembly.Open(ctx, assembly.ConfigFrom(p.getenv), o)
}

// join is open for a command that ends again: it works on the private database of the
// process that owns it, and without operator secrets where these are asked for.
func (p *program) join(ctx context.Context) (*assembly.Programme, error) {
	return p.open(ctx, assembly.Options{Join: true, Keyless: assembly.ConfigFrom(p.getenv).AsksForKeys()})
}

func (p *program) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(p.stderr, nil))
}

// print writes one result: JSON if asked for, else the text.
func (p *program) print(v any, text string) error {
	if !p.json {
		_, err := fmt.Fprintln(p.stdout, text)
		return err
	}
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// operator returns the meta of one command of the operator.
func operator() ledger.Meta {
	return ledger.Meta{Actor: "operator", Command: uuid.NewString()}
}
