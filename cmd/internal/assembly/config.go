package assembly

import (
	"crypto/rand"
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
	// digits, readable by its owner only. If empty, it is operator.secret in the
	// state directory, and is made there at the first start.
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
	return c
}

// SecretPath returns where the operator secret is, and whether it may be made.
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

// secret reads the operator secret. It makes one if none was named, and none is
// known to the ledger yet.
func (c Config) secret(registered bool) (s domain.Hash, err error) {
	path, ours := c.SecretPath()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && registered:
		return s, fmt.Errorf("the operator secret %s is missing, and the ledger was begun with one; "+
			"restore it from its copy: %w", path, domain.ErrUnavailable)
	case errors.Is(err, fs.ErrNotExist) && ours:
		if err := makeSecret(path); err != nil {
			return s, fmt.Errorf("make an operator secret: %w", err)
		}
	case err != nil:
		return s, fmt.Errorf("operator secret: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return s, fmt.Errorf("the operator secret %s can be read by others; chmod 600 it: %w", path, domain.ErrForbidden)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return s, fmt.Errorf("operator secret: %w", err)
	}
	if s, err = domain.ParseHash(strings.TrimSpace(string(text))); err != nil {
		return s, fmt.Errorf("operator secret %s must hold 64 lower-case hex digits: %w", path, domain.ErrInvalid)
	}
	return s, nil
}

// makeSecret puts a new secret at path, whole or not at all, unless there is one.
func makeSecret(path string) (err error) {
	var s domain.Hash
	if _, err := rand.Read(s[:]); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database's account must enter it; the secret itself is 0600
		return err
	}
	f, err := os.CreateTemp(dir, ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(s.String() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
