package terms_test

import (
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/terms"
)

// golden holds the hash of every version that was published. Owners have signed
// them, so a line is added and none is changed.
var golden = map[uint32]string{
	1: "20805e3e2699395b557dc52a02d5a0a279fe0cc28599c985016f29466430beda",
}

func TestHash(t *testing.T) {
	t.Parallel()
	v := terms.Current()
	if got, want := v.Hash().String(), golden[v.Number]; got != want {
		t.Errorf("the text of the terms has changed, so it needs a new version:\n"+
			"terms.Current() is version %d with hash %s, want %s", v.Number, got, want)
	}
}

func TestOneLetterChangesTheHash(t *testing.T) {
	t.Parallel()
	before := terms.Current().Hash()
	for i := range terms.Current().Terms {
		v := terms.Current()
		v.Terms[i].Text = strings.Replace(v.Terms[i].Text, "e", "a", 1)
		if v.Hash() == before {
			t.Errorf("term %d: the hash does not cover its text", i+1)
		}
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
