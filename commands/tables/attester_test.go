package tables_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/migrations/pgtest"
)

func TestTransactions(t *testing.T) {
	t.Parallel()
	x := &tables.Transactions{Pool: pgtest.Open(t)}
	at := time.Date(2026, 3, 1, 0, 5, 0, 0, time.UTC)
	first := tables.Transaction{Hash: batch.Word{2}, Chain: 84532, Account: eip191.Address{1}, Nonce: 7, Batch: 3, Raw: []byte{1, 2}, Signed: at}
	second, other := first, first
	second.Hash, second.Signed = batch.Word{1}, at.Add(time.Minute)
	other.Hash, other.Chain = batch.Word{3}, 1
	for _, tx := range []tables.Transaction{second, first, other, first} {
		if err := x.Keep(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	got, err := x.WithNonce(t.Context(), 84532, eip191.Address{1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]tables.Transaction{first, second}, got); diff != "" {
		t.Errorf("WithNonce (-want +got):\n%s", diff)
	}
	if got, err := x.WithNonce(t.Context(), 84532, eip191.Address{1}, 8); err != nil || len(got) > 0 {
		t.Errorf("WithNonce of another = %v, %v, want nothing", got, err)
	}
	if _, err := x.Pool.Exec(t.Context(), `delete from attester_transactions`); err == nil {
		t.Error("a transaction that may be mined could be deleted")
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	x := &tables.Transactions{Pool: pgtest.Open(t)}
	if _, err := x.Status(t.Context()); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Status before anything = %v, want ErrNotFound", err)
	}
	at := time.Date(2026, 3, 1, 0, 5, 0, 0, time.UTC)
	for i, s := range []tables.Status{{"ok", "", at}, {"stopped", "no funds", at.Add(time.Hour)}, {"stopped", "no code", at.Add(2 * time.Hour)}} {
		if err := x.Note(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		got, err := x.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			s.Since = at.Add(time.Hour) // it has been so since then
		}
		if diff := cmp.Diff(s, got); diff != "" {
			t.Errorf("Status (-want +got):\n%s", diff)
		}
	}
}
