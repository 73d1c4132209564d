package assembly

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/karatum/mystery/domain"
)

// A Config says how to run the programme. Its zero value works: everything that
// is not set has a default, which the comment of the field names.
type Config struct {
	// DatabaseURL (MYSTERY_DATABASE_URL) is a PostgreSQL connection string. If
	// empty, the programme runs a PostgreSQL of its own in the state directory.
	DatabaseURL string

	// StateDir (MYSTERY_STATE_DIR) holds the private database and generated
	// secrets. If empty: /var/lib/karatum-mystery for root, else
	// ~/.local/state/karatum-mystery.
	StateDir string

	// PublicURL (MYSTERY_PUBLIC_URL) is where the API is reached from outside. Its
	// host is the domain that owners sign for. If empty: http://localhost:8080.
	PublicURL string

	// SecretFile (MYSTERY_OPERATOR_SECRET_FILE) holds the operator secret, 64 hex
	// digits. If empty, it is operator.secret in the state directory, and is made
	// there, readable by its owner only, when it is missing.
	SecretFile string

	// Sources (MYSTERY_SOURCE_ADDRESSES, separated by commas) are the addresses
	// that tasks come from. They are published with each reveal and nowhere before.
	Sources []string
}

// ConfigFrom reads the configuration from the environment.
func ConfigFrom(getenv func(string) string) Config {
	c := Config{
		DatabaseURL: getenv("MYSTERY_DATABASE_URL"),
		StateDir:    getenv("MYSTERY_STATE_DIR"),
		PublicURL:   getenv("MYSTERY_PUBLIC_URL"),
		SecretFile:  getenv("MYSTERY_OPERATOR_SECRET_FILE"),
	}
	for a := range strings.SplitSeq(getenv("MYSTERY_SOURCE_ADDRESSES"), ",") {
		if a = strings.TrimSpace(a); a != "" {
			c.Sources = append(c.Sources, a)
		}
	}
	if c.PublicURL == "" {
		c.PublicURL = "http://localhost:8080"
	}
	if c.StateDir == "" {
		c.StateDir = "/var/lib/karatum-mystery"
		if os.Geteuid() != 0 {
			c.StateDir = filepath.Join(getenv("HOME"), ".local", "state", "karatum-mystery")
		}
	}
	if c.SecretFile == "" {
		c.SecretFile = filepath.Join(c.StateDir, "operator.secret")
	}
	return c
}

// Domain returns the host of the public URL, which owners sign for.
func (c Config) Domain() (string, error) {
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", fmt.Errorf("MYSTERY_PUBLIC_URL %q is not an absolute http(s) URL: %w", c.PublicURL, domain.ErrInvalid)
	}
	return u.Host, nil
}

// secret reads the operator secret, or makes one if the file does not exist.
// Losing it makes every sealed plan of the past impossible to open.
func (c Config) secret() (s domain.Hash, err error) {
	text, err := os.ReadFile(c.SecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		return newSecret(c.SecretFile)
	}
	if err != nil {
		return s, fmt.Errorf("operator secret: %w", err)
	}
	if s, err = domain.ParseHash(strings.TrimSpace(string(text))); err != nil {
		return s, fmt.Errorf("operator secret %s must hold 64 lower-case hex digits: %w", c.SecretFile, domain.ErrInvalid)
	}
	return s, nil
}

func newSecret(path string) (s domain.Hash, err error) {
	if _, err := rand.Read(s[:]); err != nil {
		return s, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the database's account must enter it; the secret itself is 0600
		return s, fmt.Errorf("operator secret: %w", err)
	}
	// O_EXCL: of two processes that start together one makes the secret.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s, fmt.Errorf("operator secret: %w", err)
	}
	_, err = f.WriteString(hex.EncodeToString(s[:]) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return s, fmt.Errorf("operator secret: %w", err)
	}
	return s, nil
}
