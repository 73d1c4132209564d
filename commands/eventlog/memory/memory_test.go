package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
)

type noted struct{ N int }

func (noted) EventType() domain.Type { return "memory.noted.v1" }

func TestLog(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledger.Log { return new(memory.Log) })
}

func TestNow(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 3600))
	log := &memory.Log{Now: func() time.Time { return moment }}
	if err := log.Append(t.Context(), "a/1", 0, ledger.Meta{Command: "c"}, noted{}); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 1, 2, 2, 4, 5, 678901000, time.UTC)
	if got := ledgertest.Audit(t, log)[0].Time; got != want {
		t.Errorf("time = %v, want %v", got, want)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	failure := errors.New("pulled the plug")
	for _, tt := range []struct {
		name string
		at   bool // where it fails
		want int  // records after the failure
	}{
		{"before anything is stored", false, 0},
		{"after all is stored, a lost reply", true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var broken bool
			log := &memory.Log{Fault: func(persisted bool) error {
				if broken && persisted == tt.at {
					return failure
				}
				return nil
			}}
			add := func() error {
				return log.Append(t.Context(), "a/1", 0, ledger.Meta{Command: "c"}, noted{1}, noted{2})
			}
			broken = true
			if err := add(); !errors.Is(err, failure) {
				t.Fatalf("Append: %v, want the fault", err)
			}
			if got := len(ledgertest.Audit(t, log)); got != tt.want {
				t.Errorf("%d records after the fault, want %d", got, tt.want)
			}
			broken = false
			if err := add(); err != nil {
				t.Errorf("the repetition: %v", err)
			}
			if got := len(ledgertest.Audit(t, log)); got != 2 {
				t.Errorf("%d records after the repetition, want 2", got)
			}
		})
	}
}
