package checkpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
)

const origin = "log.example/ledger"

var root = domain.Sum([]byte("root"))

func key(tb testing.TB, name string) (note.Signer, note.Verifier, string) {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8(domain.Sum([]byte(name))), name)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := note.NewSigner(skey)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		tb.Fatal(err)
	}
	if got, err := checkpoint.VerifierKey(skey); err != nil || got != vkey {
		tb.Errorf("VerifierKey = %q, %v; want %q", got, err, vkey)
	}
	return s, v, vkey
}

func sign(tb testing.TB, c checkpoint.Checkpoint, s note.Signer) []byte {
	tb.Helper()
	signed, err := checkpoint.Sign(c, s)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{0, 1, 923748, checkpoint.MaxSize} {
		c := checkpoint.Checkpoint{Origin: origin, Size: size, Root: root}
		foreign := torchwood.Checkpoint{Origin: origin, Tree: tlog.Tree{N: int64(size), Hash: tlog.Hash(root)}}.String()
		if c.Text() != foreign {
			t.Errorf("Text = %q, and torchwood has %q", c.Text(), foreign)
		}
		if got, err := checkpoint.Parse(foreign); err != nil || got != c {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", foreign, got, err, c)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := strings.Split(checkpoint.Checkpoint{Origin: origin, Size: 5, Root: root}.Text(), "\n")
	with := func(line int, text string) string {
		lines := append([]string(nil), good...)
		lines[line] = text
		return strings.Join(lines, "\n")
	}
	padded := []byte(good[2]) // the last digit before = has two bits that mean nothing
	padded[len(padded)-2]++
	for name, text := range map[string]string{
		"nothing":             "",
		"size beyond int64":   with(1, "9223372036854775808"),
		"size beyond 2^62":    with(1, "4611686018427387905"),
		"negative size":       with(1, "-1"),
		"leading zero":        with(1, "01"),
		"plus":                with(1, "+1"),
		"no size":             with(1, ""),
		"size with a space":   with(1, "5 "),
		"short root":          with(2, base64.StdEncoding.EncodeToString(root[:31])),
		"long root":           with(2, base64.StdEncoding.EncodeToString(append(root[:], 0))),
		"no base64":           with(2, strings.Repeat("!", 44)),
		"base64 for URLs":     with(2, base64.RawURLEncoding.EncodeToString(root[:])),
		"other padding bits":  with(2, string(padded)),
		"empty origin":        with(0, ""),
		"extension line":      strings.Join(good, "\n") + "more\n",
		"no last line feed":   strings.TrimSuffix(strings.Join(good, "\n"), "\n"),
		"carriage returns":    strings.ReplaceAll(strings.Join(good, "\n"), "\n", "\r\n"),
		"empty line in front": "\n" + strings.Join(good, "\n"),
	} {
		if got, err := checkpoint.Parse(text); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: Parse = %+v, %v; want ErrInvalid", name, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(checkpoint.Checkpoint{Origin: origin, Size: 5, Root: root}.Text())
	f.Add("a\n1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := checkpoint.Parse(text)
		if err != nil {
			return
		}
		if c.Text() != text {
			t.Errorf("Parse(%q) is the checkpoint %q", text, c.Text())
		}
		if foreign, err := torchwood.ParseCheckpoint(text); err != nil || foreign.N != int64(c.Size) || foreign.Origin != c.Origin {
			t.Errorf("torchwood reads %q as %+v, %v", text, foreign, err)
		}
	})
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	s, _, _ := key(t, origin)
	for name, c := range map[string]checkpoint.Checkpoint{
		"another log":   {Origin: "log.example/other", Size: 5, Root: root},
		"size too high": {Origin: origin, Size: checkpoint.MaxSize + 1, Root: root},
	} {
		if signed, err := checkpoint.Sign(c, s); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: Sign = %q, %v; want ErrInvalid", name, signed, err)
		}
	}
}

// A witness is one of torchwood, and ours reads its key.
func newWitness(tb testing.TB, name string) (note.Signer, note.Verifier) {
	tb.Helper()
	s, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%-32s", name))))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := checkpoint.NewWitness(s.Verifier().String())
	if err != nil {
		tb.Fatal(err)
	}
	if v.Name() != name || v.KeyHash() != s.KeyHash() {
		tb.Errorf("NewWitness = %s+%08x, want %s+%08x", v.Name(), v.KeyHash(), name, s.KeyHash())
	}
	return s, v
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	s, v, vkey := key(t, origin)
	other, _, _ := key(t, "log.example/other")
	w1, v1 := newWitness(t, "witness.example/1")
	w2, v2 := newWitness(t, "witness.example/2")
	stranger, _ := newWitness(t, "witness.example/3")
	c := checkpoint.Checkpoint{Origin: origin, Size: 5, Root: root}
	by := func(text string, signers ...note.Signer) []byte {
		signed, err := note.Sign(&note.Note{Text: text}, signers...)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	good := by(c.Text(), s, w1, w2)
	for _, tt := range []struct {
		name   string
		signed []byte
		quorum int
		lines  int
		err    error
	}{
		{"signed by the log", sign(t, c, s), 0, 0, nil},
		{"by witnesses too", good, 2, 2, nil},
		{"by fewer than must", by(c.Text(), s, w1), 2, 1, domain.ErrForbidden},
		{"by a stranger too", by(c.Text(), s, w1, stranger), 1, 1, nil},
		{"a stranger does not count", by(c.Text(), s, stranger), 1, 0, domain.ErrForbidden},
		{"by witnesses alone", by(c.Text(), w1, w2), 0, 0, domain.ErrInvalid},
		{"by another log", by(c.Text(), other), 0, 0, domain.ErrInvalid},
		{"by another log and a witness", by(c.Text(), other, w1), 0, 0, domain.ErrInvalid},
		{"another log by our key", by(strings.Replace(c.Text(), "ledger", "lodger", 1), s), 0, 0, domain.ErrInvalid},
		{"no checkpoint", by("something else\n", s), 0, 0, domain.ErrInvalid},
		{"an extension line", by(c.Text()+"more\n", s), 0, 0, domain.ErrInvalid},
		{"text changed", bytes.Replace(good, []byte("\n5\n"), []byte("\n6\n"), 1), 0, 0, domain.ErrInvalid},
		{"one line twice", append(by(c.Text(), s, w1), lastLine(by(c.Text(), w1))...), 2, 1, domain.ErrForbidden},
		{"nothing", nil, 0, 0, domain.ErrInvalid},
	} {
		got, lines, err := checkpoint.Policy{Log: v, Witnesses: []note.Verifier{v1, v2}, Quorum: tt.quorum}.Open(tt.signed)
		if !errors.Is(err, tt.err) || len(lines) != tt.lines || err == nil && got != c {
			t.Errorf("%s: Open = %+v, %d lines, %v; want %d lines, %v", tt.name, got, len(lines), err, tt.lines, tt.err)
		}
	}
	// Of a single changed byte nothing comes through.
	p := checkpoint.Policy{Log: v, Witnesses: []note.Verifier{v1, v2}, Quorum: 2}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if got, _, err := p.Open(bad); err == nil {
			t.Errorf("byte %d changed: Open = %+v", i, got)
		}
	}
	// The lines can be put under the log's own note.
	_, lines, err := p.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	if again := append(sign(t, c, s), strings.Join(lines, "")...); !bytes.Equal(again, good) {
		t.Errorf("put together: %q, want %q", again, good)
	}
	if _, err := checkpoint.NewWitness(vkey); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("NewWitness of the key of a log = %v, want ErrInvalid", err)
	}
}

func lastLine(signed []byte) []byte {
	signed = bytes.TrimSuffix(signed, []byte("\n"))
	return append(signed[bytes.LastIndexByte(signed, '\n')+1:], '\n')
}

func TestNewWitnessRefuses(t *testing.T) {
	t.Parallel()
	s, err := torchwood.NewCosignatureSigner("w", ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	good := s.Verifier().String()
	if _, err := checkpoint.NewWitness(good); err != nil {
		t.Fatal(err)
	}
	for _, vkey := range []string{
		"", "w", "w+", "w++", good[1:], "x" + good, good + "=", good[:len(good)-1], "w w" + good[1:], strings.ToUpper(good), "\n" + good, good + "\n",
		strings.Replace(good, "+", "+0", 1),
	} {
		if _, err := checkpoint.NewWitness(vkey); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("NewWitness(%q) = %v, want ErrInvalid", vkey, err)
		}
	}
	for _, skey := range []string{"", good, "PRIVATE+KEY", "PRIVATE+KEY+a+b+c"} {
		if got, err := checkpoint.VerifierKey(skey); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("VerifierKey(%q) = %q, %v; want ErrInvalid", skey, got, err)
		}
	}
}

func TestPrivateKey(t *testing.T) {
	t.Parallel()
	seed := domain.Sum([]byte("seed"))
	skey, err := checkpoint.PrivateKey(origin, seed)
	if err != nil {
		t.Fatal(err)
	}
	foreign, vkey, err := note.GenerateKey(bytes.NewReader(seed[:]), origin)
	if err != nil || skey != foreign {
		t.Errorf("PrivateKey = %q, and package note makes %q of the seed, %v", skey, foreign, err)
	}
	if got, err := checkpoint.VerifierKey(skey); err != nil || got != vkey {
		t.Errorf("VerifierKey = %q, %v; want %q", got, err, vkey)
	}
	for _, name := range []string{"", "a b", "a+b", "a\n"} {
		if skey, err := checkpoint.PrivateKey(name, seed); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("PrivateKey of %q = %q, %v; want ErrInvalid", name, skey, err)
		}
	}
}

func TestProofText(t *testing.T) {
	t.Parallel()
	got := checkpoint.Proof{Index: 42, Path: []domain.Hash{root, {}}, Note: []byte("the note\n")}.Text()
	want := "c2sp.org/tlog-proof@v1\nindex 42\n" + base64.StdEncoding.EncodeToString(root[:]) + "\n" +
		strings.Repeat("A", 43) + "=\n\nthe note\n"
	if string(got) != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}
