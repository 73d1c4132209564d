package assembly_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

func TestParseSecrets(t *testing.T) {
	t.Parallel()
	older, newer := domain.Hash{1}, domain.Hash{2}
	for _, tt := range []struct {
		name, text string
		want       commands.Keyring
		err        error
		says       string
	}{
		{"one", older.String() + "\n", commands.Keyring{older}, nil, ""},
		{"one without a newline", older.String(), commands.Keyring{older}, nil, ""},
		{"two, the current one last", older.String() + "\n" + newer.String() + "\n", commands.Keyring{older, newer}, nil, ""},
		{"with comments, blanks and CRLF", "# 2026\r\n\r\n  " + older.String() + "\r\n#\n" + newer.String(), commands.Keyring{older, newer}, nil, ""},
		{"nothing", "", nil, domain.ErrInvalid, "64"},
		{"comments alone", "# soon\n", nil, domain.ErrInvalid, "64"},
		{"in upper case", older.String() + "\n" + strings.ToUpper(strings.Repeat("ab", 32)), nil, domain.ErrInvalid, "line 2"},
		{"cut short", older.String()[1:], nil, domain.ErrInvalid, "line 1"},
		{"two on a line", older.String() + " " + newer.String(), nil, domain.ErrInvalid, "line 1"},
		{"with a comment behind it", older.String() + " # the first", nil, domain.ErrInvalid, "line 1"},
		{"one twice", older.String() + "\n\n" + older.String(), nil, domain.ErrInvalid, "line 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := assembly.ParseSecrets([]byte(tt.text))
			if !errors.Is(err, tt.err) {
				t.Fatalf("ParseSecrets = %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff([]domain.Hash(tt.want), []domain.Hash(got)); diff != "" {
				t.Errorf("ParseSecrets (-want +got):\n%s", diff)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("ParseSecrets = %v, want %q in it", err, tt.says)
			}
			for line := range strings.FieldsSeq(tt.text) {
				if len(line) > 32 && strings.Contains(err.Error(), line) {
					t.Errorf("the error %q tells a secret", err)
				}
			}
		})
	}
}

func TestAddSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets")
	first := domain.Hash{1}
	if err := os.WriteFile(path, []byte("# the first\n"+first.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	second, err := assembly.AddSecret(link)
	if err != nil {
		t.Fatal(err)
	}
	third, err := assembly.AddSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "# the first\n" + first.String() + "\n" + second.String() + "\n" + third.String() + "\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v, want 0600", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link to it is gone: %v, %v", info, err)
	}
}

// A rotation that is under way, or was broken off, is not run over.
func TestAddSecretTwiceAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets")
	before := domain.Hash{1}.String() + "\n"
	for name, text := range map[string]string{path: before, path + ".new": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := assembly.AddSecret(path); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("AddSecret = %v, want ErrConflict", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != before {
		t.Errorf("the file holds %q, %v, want it as it was", text, err)
	}
	if _, err := os.Stat(path + ".new"); err != nil {
		t.Errorf("the draft of the other rotation: %v, want it left alone", err)
	}
	if _, err := assembly.AddSecret(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("AddSecret without a file = %v, want ErrNotExist", err)
	}
}
