package tables_test

import (
	"errors"
	"testing"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/migrations/pgtest"
)

func TestChallengeKeys(t *testing.T) {
	t.Parallel()
	keys := &tables.ChallengeKeys{Pool: pgtest.Open(t)}
	operatorKey, want := domain.Hash{1}, consent.ChallengeKey{2}
	if _, err := keys.ChallengeKey(t.Context(), operatorKey); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("ChallengeKey before any was left = %v, want ErrNotFound", err)
	}
	for _, key := range []consent.ChallengeKey{want, {3}} { // the first stays
		if err := keys.Leave(t.Context(), operatorKey, key); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := keys.ChallengeKey(t.Context(), operatorKey); err != nil || got != want {
		t.Errorf("ChallengeKey = %x, %v, want %x", got, err, want)
	}
}
