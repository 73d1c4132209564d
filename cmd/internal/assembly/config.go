package assembly

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

// A Config says how to run the programme. Its zero value works: everything that
// is not set has a default, which the comment of the field names.
type Config struct {
	// DatabaseURL (MYSTERY_DATABASE_URL) is a PostgreSQL connection string. If
	// empty, the programme runs a PostgreSQL of its own in the state directory.
	DatabaseURL string

	// EventLog (MYSTERY_EVENTLOG) is the connection string of an EventStoreDB cluster
	// (esdb:// or esdb+discover://) that holds the event log. If empty, it is in the
	// database, which holds everything else in either case.
	EventLog string

	// StateDir (MYSTERY_STATE_DIR) holds the private database and generated
	// secrets. If empty: /var/lib/karatum-mystery for root, else
	// ~/.local/state/karatum-mystery.
	StateDir string

	// PublicURL (MYSTERY_PUBLIC_URL) is where the API is reached from outside. Its
	// host is the domain that owners sign for. If empty: http://localhost:8080.
	PublicURL string

	// SecretFile (MYSTERY_OPERATOR_SECRET_FILE) holds the operator secrets, readable
	// by its owner only: each a line of 64 hex digits, the current one last. Lines
	// that begin with # are comments. If empty, it is operator.secret in the state
	// directory, and is made there with one secret at the first start.
	SecretFile string

	// KeysSocket (MYSTERY_KEYS_SOCKET) is the path of a Unix socket at which processes
	// that run the shopper's cycle answer for plan key roots, and others ask for them.
	// A serve that does not run the cycle then reads no operator secret, no key that
	// attests or pays, and signs no checkpoint. It works on the database that DatabaseURL
	// names. If empty, each process reads the secret.
	KeysSocket string

	// KeysUser (MYSTERY_KEYS_USER) is the name or id of the account that may ask at the
	// socket besides the one that answers and root. The group of the socket, that of the
	// process which answers, has to be one of its groups.
	KeysUser string

	// Sources (MYSTERY_SOURCE_ADDRESSES, separated by commas) are the addresses
	// that tasks come from. They are published with each reveal and nowhere before.
	Sources []string

	// ProofAddress (MYSTERY_PROOF_ADDRESS) is the local IP address that host proofs
	// are fetched and exams held from, so that hosts know no task by it. If empty, the
	// system chooses, as it does for tasks.
	ProofAddress string

	// SharedEgress (MYSTERY_SHARED_EGRESS) is "allow" to shop although tasks come, or
	// may come, from an address that proofs, exams or the API have too. If empty, a
	// service whose public URL is https does not.
	SharedEgress string

	// AbuseContact (MYSTERY_ABUSE_CONTACT) is where abuse is reported: a mailto: or
	// https: URI, which stands on the pages and in security.txt. If empty, it is
	// abuse@ the domain of the public URL.
	AbuseContact string

	// CheckInterval (MYSTERY_CHECK_INTERVAL) is how often host proofs and surfaces
	// are read, such as 30m: from 5m to 24h, an hour if empty. Nothing is sent on a
	// proof of two hours before, so with a longer interval tasks are missed.
	CheckInterval string

	// TrustedProxies (MYSTERY_TRUSTED_PROXIES, separated by commas) are addresses and
	// networks of proxies in front of the API. Limits count by the address that
	// such a proxy adds to X-Forwarded-For. From others that header means nothing,
	// and the peer is who is counted.
	TrustedProxies []string

	// LogKeyFile (MYSTERY_LOG_KEY_FILE) holds the private key that signs checkpoints of
	// the public log, readable by its owner only: one line as golang.org/x/mod/sumdb/note
	// writes it, whose name is the origin of the log. If empty, it is log.key in the
	// state directory, and is made there when the log is begun, for the host of the
	// public URL.
	LogKeyFile string

	// WitnessFile (MYSTERY_WITNESSES) lists the witnesses that are asked to cosign
	// checkpoints, a line each of key and URL, and with a line such as "quorum 2" how
	// many of them must before a checkpoint is published. If empty, nobody is asked.
	WitnessFile string

	// CheckpointInterval (MYSTERY_CHECKPOINT_INTERVAL) is the cadence of checkpoints,
	// such as 10m: from 1s to 24h, 10m if empty.
	CheckpointInterval string

	// IncidentSeverity (MYSTERY_INCIDENT_SEVERITY) is medium, or high to take a wrong
	// answer of an agent for more than the profile of severities does: incidents are then
	// grave enough for a recall. A change is put on public record. If empty, it stays as
	// the ledger has it, which is medium at first.
	IncidentSeverity string

	// OperatorAddr (MYSTERY_OPERATOR_ADDR) is the loopback address and port, such as
	// localhost:8081, of the interface for the operator: metrics, and where the read
	// models stand. If empty, there is none.
	OperatorAddr string

	// TracesTo (OTEL_EXPORTER_OTLP_ENDPOINT) is the base URL of the OpenTelemetry collector
	// that traces are sent to by OTLP over HTTP, such as http://localhost:4318. If empty,
	// nothing is traced. Other variables of OpenTelemetry, such as
	// OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER, mean what they always do.
	TracesTo string

	// Chain (MYSTERY_CHAIN) is the id of the chain on which the contract wallets of
	// owners are. If empty, it is 84532, Base Sepolia.
	Chain string

	// Nodes (MYSTERY_RPC_<chain id>, separated by commas) are the http(s) URLs of the
	// nodes that are asked about a chain, the best first; with several, what matters
	// is read from two of them. Without any, public nodes of the two test networks
	// of the catalogue are asked; "none" asks none. A chain without a node has no
	// contract wallets, no agents on its registry, and no tasks that read it.
	Nodes map[uint64][]string

	// Attest says where batches of commits are attested, and by whom.
	Attest Attesting

	// PayKey (MYSTERY_X402_PRIVATE_KEY) is the private key of an account that holds
	// USDC on Base Sepolia and pays for tasks at x402 resources. PayKeyFile
	// (MYSTERY_X402_KEY_FILE), in its place, names a file that its owner alone can read
	// with a key on each line, each of which pays for one task and then never again.
	// Without either no such task is planned.
	PayKey, PayKeyFile string
}

// ConfigFrom reads the configuration from the environment.
func ConfigFrom(getenv func(string) string) Config {
	c := Config{
		DatabaseURL: getenv("MYSTERY_DATABASE_URL"),
		EventLog:    getenv("MYSTERY_EVENTLOG"),
		StateDir:    getenv("MYSTERY_STATE_DIR"),
		PublicURL:   getenv("MYSTERY_PUBLIC_URL"),
		SecretFile:  getenv("MYSTERY_OPERATOR_SECRET_FILE"),
		KeysSocket:  getenv("MYSTERY_KEYS_SOCKET"),
		KeysUser:    getenv("MYSTERY_KEYS_USER"),
		Sources:     list(getenv("MYSTERY_SOURCE_ADDRESSES")),

		ProofAddress:   getenv("MYSTERY_PROOF_ADDRESS"),
		SharedEgress:   getenv("MYSTERY_SHARED_EGRESS"),
		AbuseContact:   getenv("MYSTERY_ABUSE_CONTACT"),
		CheckInterval:  getenv("MYSTERY_CHECK_INTERVAL"),
		TrustedProxies: list(getenv("MYSTERY_TRUSTED_PROXIES")),

		LogKeyFile:         getenv("MYSTERY_LOG_KEY_FILE"),
		WitnessFile:        getenv("MYSTERY_WITNESSES"),
		CheckpointInterval: getenv("MYSTERY_CHECKPOINT_INTERVAL"),

		IncidentSeverity: getenv("MYSTERY_INCIDENT_SEVERITY"),

		OperatorAddr: getenv("MYSTERY_OPERATOR_ADDR"),
		TracesTo:     getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),

		Chain:  getenv("MYSTERY_CHAIN"),
		Attest: attestingFrom(getenv),

		PayKey:     getenv("MYSTERY_X402_PRIVATE_KEY"),
		PayKeyFile: getenv("MYSTERY_X402_KEY_FILE"),
	}
	home, err := c.home()
	if err != nil {
		home = commands.HomeChain // Open says what is wrong
	}
	attest, err := c.attestChain()
	if err != nil || attest == 0 {
		attest = home
	}
	c.Nodes = nodesFrom(getenv, home, attest)
	if c.PublicURL == "" {
		c.PublicURL = "http://localhost:8080"
	}
	if c.StateDir == "" {
		c.StateDir = "/var/lib/karatum-mystery"
		if os.Geteuid() != 0 {
			c.StateDir = filepath.Join(getenv("HOME"), ".local", "state", "karatum-mystery")
		}
	}
	return c
}

// SecretPath returns where the operator secrets are, and whether the file may be
// made.
func (c Config) SecretPath() (path string, ours bool) {
	if c.SecretFile != "" {
		return c.SecretFile, false
	}
	return filepath.Join(c.StateDir, "operator.secret"), true
}

// Domain returns the host of the public URL, which owners sign for.
func (c Config) Domain() (string, error) {
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", fmt.Errorf("MYSTERY_PUBLIC_URL %q is not an absolute http(s) URL: %w", c.PublicURL, domain.ErrInvalid)
	}
	return u.Host, nil
}
