package seal_test

import (
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
)

const hour = 24*20881 + 7

func days() (yesterday, today *seal.Day) {
	yesterday = &seal.Day{Day: 20880, Secret: domain.Hash{1}}
	today = &seal.Day{Day: 20881, Secret: domain.Hash{2}}
	for i := range plan.Slots {
		yesterday.Heads[i] = domain.Sum([]byte("yesterday"), []byte{byte(i)})
		today.Heads[i] = domain.Sum([]byte("today"), []byte{byte(i)})
	}
	return yesterday, today
}

// The head of every slot can be proven alone, from the leaf of its slot.
func TestSlotIsProven(t *testing.T) {
	t.Parallel()
	yesterday, today := days()
	root := seal.Root(hour, yesterday, today)
	leaves := seal.Leaves(hour, yesterday, today)
	for i, d := range []*seal.Day{yesterday, today} {
		for slot := range uint32(plan.Slots) {
			index := plan.Slots*i + int(slot)
			leaf := seal.Leaf(hour, d.Day, slot, d.Secret, d.Heads[slot])
			if err := merkle.VerifyPath(leaf, uint64(index), uint64(len(leaves)), merkle.Path(leaves[:], index), root); err != nil {
				t.Errorf("slot %d of day %d: %v", slot, d.Day, err)
			}
		}
	}
}

func TestEverySlotIsBound(t *testing.T) {
	t.Parallel()
	yesterday, today := days()
	root := seal.Root(hour, yesterday, today)
	for slot := range plan.Slots {
		for _, d := range []*seal.Day{yesterday, today} {
			d.Heads[slot][31] ^= 1
			if seal.Root(hour, yesterday, today) == root {
				t.Errorf("the head of slot %d of day %d is not in the root", slot, d.Day)
			}
			d.Heads[slot][31] ^= 1
		}
	}
	if seal.Root(hour+1, yesterday, today) == root {
		t.Error("the next hour has the same root although nothing in it is the same")
	}
}

// Equal heads in two slots, hours or days look unlike: a leaf says nothing.
func TestLeafSaysNothing(t *testing.T) {
	t.Parallel()
	head := domain.Hash{9}
	leaves := map[domain.Hash]bool{
		seal.Leaf(hour, 20881, 0, domain.Hash{1}, head):   true,
		seal.Leaf(hour, 20881, 1, domain.Hash{1}, head):   true,
		seal.Leaf(hour+1, 20881, 0, domain.Hash{1}, head): true,
		seal.Leaf(hour, 20880, 0, domain.Hash{1}, head):   true,
		seal.Leaf(hour, 20881, 0, domain.Hash{2}, head):   true,
	}
	if len(leaves) != 5 {
		t.Errorf("%d leaves of 5 are distinct", len(leaves))
	}
}

func TestDayWithoutPlan(t *testing.T) {
	t.Parallel()
	_, today := days()
	leaves := seal.Leaves(hour, nil, today)
	for i, leaf := range leaves {
		if leaf.IsZero() != (i < plan.Slots) {
			t.Errorf("leaf %d = %s", i, leaf)
		}
	}
	var none [2 * plan.Slots]domain.Hash
	if got, want := seal.Root(hour, nil, nil), merkle.Root(none[:]); got != want {
		t.Errorf("Root without plans = %s, want %s", got, want)
	}
}
