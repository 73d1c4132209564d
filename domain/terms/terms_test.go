package terms_test

import (
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/terms"
)

// Owners have signed these hashes: a changed hash means that a published
// version was edited in place of adding a new one.
func TestHash(t *testing.T) {
	t.Parallel()
	const want = "5c7a1f0b52bda3c4c874090be33a072fb0a7a242fef5a02da3799a818d13a72a"
	v := terms.Current()
	if got := v.Hash().String(); v.Number != 1 || got != want {
		t.Errorf("Current() = version %d, hash %s, want 1, %s", v.Number, got, want)
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	list := terms.Current().Terms
	if len(list) != 10 {
		t.Fatalf("there are %d terms, want 10", len(list))
	}
	titles := map[string]bool{}
	for i, term := range list {
		if int(term.N) != i+1 {
			t.Errorf("term at index %d has number %d", i, term.N)
		}
		if term.Title == "" || titles[term.Title] {
			t.Errorf("term %d: title %q is empty or used twice", term.N, term.Title)
		}
		titles[term.Title] = true
		if strings.TrimSpace(term.Text) != term.Text || strings.Contains(term.Text, "  ") || !strings.HasSuffix(term.Text, ".") {
			t.Errorf("term %d is not clean prose: %q", term.N, term.Text)
		}
		if strings.ContainsFunc(term.Text, func(r rune) bool { return r > '~' }) {
			t.Errorf("term %d is not ASCII", term.N)
		}
	}
}

func TestCurrentIsACopy(t *testing.T) {
	t.Parallel()
	before := terms.Current().Hash()
	terms.Current().Terms[0].Text = "Anything goes."
	if got := terms.Current().Hash(); got != before {
		t.Errorf("Hash() = %s after a caller changed its copy, want %s", got, before)
	}
}
