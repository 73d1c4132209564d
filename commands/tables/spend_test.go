package tables_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
)

// priced returns a reservation of an amount under a consent that allows 100 a month.
func priced(shop, amount string) tables.Reservation {
	return tables.Reservation{
		Shop: shop, Consent: "cns_a", Month: "2027-03", Amount: amount, Limit: "100", Payers: []string{"0xA"},
	}
}

func TestSpends(t *testing.T) {
	t.Parallel()
	s := &tables.Spends{Pool: pgtest.Open(t)}
	other := func(r tables.Reservation, change func(*tables.Reservation)) tables.Reservation { change(&r); return r }
	reserve := func(name string, r tables.Reservation, want error) {
		t.Helper()
		payer, err := s.Reserve(t.Context(), r)
		if !errors.Is(err, want) || err == nil && payer != "0xA" {
			t.Errorf("Reserve %s = %q, %v, want %v", name, payer, err, want)
		}
	}
	reserve("more than a month allows", priced("shp_0", "101"), tables.ErrSpent)
	reserve("the first", priced("shp_1", "60"), nil)
	reserve("the first again", priced("shp_1", "1"), domain.ErrConflict)
	reserve("what no longer fits", priced("shp_2", "41"), tables.ErrSpent)
	reserve("what just fits", priced("shp_2", "40"), nil)
	reserve("the least", priced("shp_3", "1"), tables.ErrSpent)
	reserve("in another month", other(priced("shp_4", "100"), func(r *tables.Reservation) { r.Month = "2027-04" }), nil)
	reserve("under another consent", other(priced("shp_5", "100"), func(r *tables.Reservation) { r.Consent = "cns_b" }), nil)

	if err := s.Keep(t.Context(), "shp_1", []byte("signed")); err != nil {
		t.Errorf("Keep: %v", err)
	}
	if err := s.Keep(t.Context(), "shp_1", []byte("signed again")); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Keep again: %v, want ErrConflict", err)
	}
	if err := s.Keep(t.Context(), "shp_9", []byte("signed")); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Keep what was not reserved: %v, want ErrConflict", err)
	}
	for range 2 {
		if err := s.Release(t.Context(), "shp_2"); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	if err := s.Keep(t.Context(), "shp_2", []byte("signed")); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Keep what was released: %v, want ErrConflict", err)
	}
	reserve("what was released", priced("shp_2", "1"), domain.ErrConflict)
	reserve("the room of what was released", priced("shp_6", "40"), nil)
	reserve("and no more", priced("shp_7", "1"), tables.ErrSpent)
}

func TestPayersOnce(t *testing.T) {
	t.Parallel()
	s := &tables.Spends{Pool: pgtest.Open(t)}
	r := tables.Reservation{Consent: "cns_a", Month: "2027-03", Amount: "1", Limit: "100", Payers: []string{"0xA", "0xB"}, Once: true}
	unused := func(want bool) {
		t.Helper()
		if got, err := s.Unused(t.Context(), r.Payers); err != nil || got != want {
			t.Errorf("Unused = %t, %v, want %t", got, err, want)
		}
	}
	for i, want := range []string{"0xA", "0xB"} {
		unused(true)
		r.Shop = fmt.Sprint("shp_", i)
		payer, err := s.Reserve(t.Context(), r)
		if err != nil || payer != want {
			t.Errorf("Reserve = %q, %v, want %q", payer, err, want)
		}
		if err := s.Release(t.Context(), r.Shop); err != nil { // the seller has seen it all the same
			t.Error(err)
		}
	}
	unused(false)
	r.Shop = "shp_2"
	if payer, err := s.Reserve(t.Context(), r); !errors.Is(err, tables.ErrNoPayer) {
		t.Errorf("Reserve with nobody left = %q, %v, want ErrNoPayer", payer, err)
	}
}

// Many workers race for what one month allows, and for accounts that pay once.
func TestSpendsRace(t *testing.T) {
	t.Parallel()
	s := &tables.Spends{Pool: pgtest.Open(t)}
	payers := make([]string, 40)
	for i := range payers {
		payers[i] = fmt.Sprint("0x", i)
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		paid = make(map[string]bool)
	)
	for worker := range 8 {
		wg.Go(func() {
			for i := range 8 {
				payer, err := s.Reserve(t.Context(), tables.Reservation{
					Shop: fmt.Sprintf("shp_%d_%d", worker, i), Consent: "cns_a", Month: "2027-03", Amount: "7", Limit: "100",
					Payers: payers, Once: true,
				})
				mu.Lock()
				switch {
				case err == nil && paid[payer]:
					t.Errorf("%s pays twice", payer)
				case err == nil:
					paid[payer] = true
				case !errors.Is(err, tables.ErrSpent):
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(paid) != 14 { // 98 of 100
		t.Errorf("%d payments of 7 were reserved of 100, want 14", len(paid))
	}
}
