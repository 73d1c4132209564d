package assembly

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

// secrets reads the operator's secrets. It makes the first if no file was named and
// none is known to the ledger yet.
func (c Config) secrets(registered bool) (commands.Keyring, error) {
	path, ours := c.SecretPath()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		switch {
		case registered:
			return nil, fmt.Errorf("the operator secret %s is missing, and the ledger was begun with one; "+
				"restore it from its copy: %w", path, domain.ErrUnavailable)
		case ours:
			if err := makeSecret(path); err != nil {
				return nil, fmt.Errorf("make an operator secret: %w", err)
			}
		}
	}
	return readSecrets(path)
}

func readSecrets(path string) (commands.Keyring, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("operator secret: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the operator secret %s can be read by others; chmod 600 it: %w", path, domain.ErrForbidden)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("operator secret: %w", err)
	}
	ring, err := parseSecrets(text)
	if err != nil {
		return nil, fmt.Errorf("operator secret %s: %w", path, err)
	}
	return ring, nil
}

// parseSecrets reads a file of secrets. Its errors hold nothing of it.
func parseSecrets(text []byte) (ring commands.Keyring, err error) {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		var s domain.Hash
		if s.UnmarshalText(line) != nil {
			return nil, fmt.Errorf("line %d must hold 64 lower-case hex digits, or a comment after #: %w", n, domain.ErrInvalid)
		}
		if slices.Contains(ring, s) {
			return nil, fmt.Errorf("line %d repeats an earlier one; leave it where it shall stand, the current secret last: %w", n, domain.ErrInvalid)
		}
		ring = append(ring, s)
	}
	if len(ring) == 0 {
		return nil, fmt.Errorf("the file must hold 64 lower-case hex digits on a line: %w", domain.ErrInvalid)
	}
	return ring, nil
}

func newSecret() (s domain.Hash, err error) {
	_, err = rand.Read(s[:])
	return s, err
}

// makeSecret puts a new secret at path, whole or not at all, unless there is one.
func makeSecret(path string) (err error) {
	s, err := newSecret()
	if err != nil {
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

// addSecret appends a new secret to the file at path, which is replaced as a whole
// or stays as it is, and keeps its owner. A second one at the same time is refused.
func addSecret(path string) (s domain.Hash, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return s, err
	}
	if s, err = newSecret(); err != nil {
		return s, err
	}
	draft := path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // beside the file that the operator names
	if errors.Is(err, fs.ErrExist) {
		return s, fmt.Errorf("%s is there: another rotation is under way, or one was broken off; "+
			"in that case remove it and try again: %w", draft, domain.ErrConflict)
	}
	if err != nil {
		return s, err
	}
	if err := writeWith(f, path, s); err != nil {
		return s, errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return s, errors.Join(err, os.Remove(draft))
	}
	return s, syncDir(filepath.Dir(path))
}

// writeWith writes to f what stands at path, and one more secret.
func writeWith(f *os.File, path string, s domain.Hash) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := keepOwner(f, info); err != nil {
		return err
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	if _, err := fmt.Fprintf(f, "%s%s\n", text, s); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // of the file that the operator names
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
