package domain_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/karatum/mystery/domain"
)

// A code changes neither the text nor the kind of an error, and is found through
// what is wrapped around it.
func TestCode(t *testing.T) {
	t.Parallel()
	plain := fmt.Errorf("the agent is sold: %w", domain.ErrForbidden)
	err := fmt.Errorf("grant: %w", domain.WithCode(domain.OwnerChanged, plain))
	if got := domain.CodeOf(err); got != domain.OwnerChanged {
		t.Errorf("CodeOf = %q, want %q", got, domain.OwnerChanged)
	}
	if !errors.Is(err, domain.ErrForbidden) || domain.Sentence(err) != "grant: the agent is sold" {
		t.Errorf("the error reads %q and is of kind ErrForbidden: %t", domain.Sentence(err), errors.Is(err, domain.ErrForbidden))
	}
	for _, err := range []error{nil, plain, errors.New("x")} {
		if got := domain.CodeOf(err); got != "" {
			t.Errorf("CodeOf(%v) = %q, want none", err, got)
		}
	}
}
