package seal_test

import (
	"os"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	sealed := func(hour uint64, root byte) seal.Sealed {
		return seal.Sealed{Consent: "cns_a", Hour: hour, Root: domain.Hash{root}}
	}
	ask := func(hour uint64, root byte) seal.Seal { return seal.Seal(sealed(hour, root)) }
	type events = []seal.Event
	domaintest.Decide(t, seal.Decider, []domaintest.Case[seal.Command, seal.Event]{
		{Name: "the first hour", When: ask(48, 1), Then: events{sealed(48, 1)}},
		{Name: "the next hour", Given: events{sealed(48, 1)}, When: ask(49, 2), Then: events{sealed(49, 2)}},
		{Name: "after a gap", Given: events{sealed(48, 1)}, When: ask(60, 2), Then: events{sealed(60, 2)}},
		{Name: "the same seal again", Given: events{sealed(48, 1)}, When: ask(48, 1)},
		{Name: "another root", Given: events{sealed(48, 1)}, When: ask(48, 2), Err: domain.ErrConflict},
		{Name: "an hour that has passed", Given: events{sealed(48, 1), sealed(50, 2)}, When: ask(49, 3), Err: domain.ErrConflict},
	})
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, seal.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, seal.Events, os.DirFS("testdata"))
}

func TestHours(t *testing.T) {
	t.Parallel()
	start := domain.DayStart(20881)
	if got, want := seal.HourOf(start.Add(7*time.Hour+59*time.Minute)), uint64(hour); got != want {
		t.Errorf("HourOf = %d, want %d", got, want)
	}
	if got, want := seal.HourStart(hour), start.Add(7*time.Hour); !got.Equal(want) {
		t.Errorf("HourStart(%d) = %s, want %s", uint64(hour), got, want)
	}
	if first, last := seal.FirstHour(20881), seal.LastHour(20881); first != 24*20881 || last != first+24 {
		t.Errorf("the seals of a consent of one day are from %d to %d", first, last)
	}
}

// What a reveal shows of its seal leads to the root, and nothing else does.
func TestVerifyPath(t *testing.T) {
	t.Parallel()
	yesterday, today := days()
	leaves := seal.Leaves(hour, yesterday, today)
	root := merkle.Root(leaves[:])
	for i, d := range []*seal.Day{yesterday, today} {
		const slot = 5
		salt := seal.Salt(d.Secret, hour, slot)
		index := seal.Index(hour, d.Day, slot)
		if want := plan.Slots*i + slot; index != want {
			t.Fatalf("Index = %d, want %d", index, want)
		}
		path := merkle.Path(leaves[:], index)
		head := d.Heads[slot]
		if err := seal.VerifyPath(root, hour, d.Day, slot, salt, head, path); err != nil {
			t.Errorf("VerifyPath: %v", err)
		}
		for name, err := range map[string]error{
			"another root":   seal.VerifyPath(domain.Hash{1}, hour, d.Day, slot, salt, head, path),
			"another hour":   seal.VerifyPath(root, hour+1, d.Day, slot, salt, head, path),
			"another day":    seal.VerifyPath(root, hour, d.Day^1, slot, salt, head, path),
			"a day too old":  seal.VerifyPath(root, hour, d.Day-2, slot, salt, head, path),
			"another slot":   seal.VerifyPath(root, hour, d.Day, slot+1, salt, head, path),
			"a slot too far": seal.VerifyPath(root, hour, d.Day, plan.Slots, salt, head, path),
			"another salt":   seal.VerifyPath(root, hour, d.Day, slot, domain.Hash{1}, head, path),
			"another head":   seal.VerifyPath(root, hour, d.Day, slot, salt, domain.Hash{1}, path),
			"a short path":   seal.VerifyPath(root, hour, d.Day, slot, salt, head, path[1:]),
		} {
			if err == nil {
				t.Errorf("VerifyPath with %s holds", name)
			}
		}
	}
}
