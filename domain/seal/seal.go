// Package seal computes and records the hourly seals of a consent. A seal is the
// RFC 6962 root over the 48 slots of yesterday and today; it pins what is known of
// each slot long before the slot is revealed. There is one every hour whether or
// not anything happened, and without the day secrets it says nothing.
//
// Their stream is seal/<consent>. The first seal is that of midnight when the first
// day begins. The last is that of midnight when the last day is over, or the one before
// the consent came to its end; but as long as a plan is not opened, because a task was
// still on its way, there is one every hour that covers it. An hour in which nobody was
// there to make its seal has none, and is never sealed later: what a late seal says would
// be worth nothing.
package seal

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
)

// A Day is a day with a plan, as a seal sees it.
type Day struct {
	Day    uint32                  // UTC day number
	Secret domain.Hash             // the day secret
	Heads  [plan.Slots]domain.Hash // hash of the last record of each slot's stream
}

// Root returns the root of the seal of the given hour, counted from 1970. The 24
// leaves of yesterday come first, then those of today, each by slot. A day that
// is nil had no plan: its leaves are 32 zero bytes.
func Root(hour uint64, yesterday, today *Day) domain.Hash {
	leaves := Leaves(hour, yesterday, today)
	return merkle.Root(leaves[:])
}

// Leaves returns the data of the leaves under [Root]:
//
//	H(enc("karatum/mystery/seal/v1", u64 hour, u32 day, u32 slot) ‖ salt ‖ head)
//	salt = HM(daySecret[day], enc("salt", u64 hour, u32 slot))
func Leaves(hour uint64, yesterday, today *Day) (leaves [2 * plan.Slots]domain.Hash) {
	rest := leaves[:]
	for _, d := range []*Day{yesterday, today} {
		for slot := range uint32(plan.Slots) {
			if d != nil {
				rest[slot] = Leaf(hour, d.Day, slot, d.Secret, d.Heads[slot])
			}
		}
		rest = rest[plan.Slots:]
	}
	return leaves
}

// Leaf returns the data of a single leaf, as [Leaves] describes it.
func Leaf(hour uint64, day, slot uint32, daySecret, head domain.Hash) domain.Hash {
	return leaf(hour, day, slot, Salt(daySecret, hour, slot), head)
}

func leaf(hour uint64, day, slot uint32, salt, head domain.Hash) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/seal/v1").U64(hour).U32(day).U32(slot).Hash(salt).Hash(head))
}

// Salt returns what blinds the leaf of a slot in the seal of an hour. To open it
// opens this leaf and no other.
func Salt(daySecret domain.Hash, hour uint64, slot uint32) domain.Hash {
	return domain.MAC(daySecret, domain.NewEnc("salt").U64(hour).U32(slot))
}

const hoursPerDay = 24

// Covers reports whether the seal of an hour is over the slots of a day: those of
// the day's own hours and of the next day's are.
func Covers(hour uint64, day uint32) bool {
	sealed := hour / hoursPerDay
	return sealed == uint64(day) || sealed == uint64(day)+1
}

// Index returns the place of a slot among the leaves of the seal of an hour, which
// must cover its day.
func Index(hour uint64, day, slot uint32) int {
	if hour/hoursPerDay == uint64(day) {
		return plan.Slots + int(slot)
	}
	return int(slot)
}

// VerifyPath checks that the seal of an hour with the given root found a slot's
// stream at head. It returns [domain.ErrInvalid] if it did not, or does not cover
// the day.
func VerifyPath(root domain.Hash, hour uint64, day, slot uint32, salt, head domain.Hash, path []domain.Hash) error {
	if !Covers(hour, day) || slot >= plan.Slots {
		return fmt.Errorf("the seal of hour %d is not over slot %d of day %d: %w", hour, slot, day, domain.ErrInvalid)
	}
	err := merkle.VerifyPath(leaf(hour, day, slot, salt, head), uint64(Index(hour, day, slot)), 2*plan.Slots, path, root) //nolint:gosec // below 48
	if err != nil {
		return fmt.Errorf("seal of hour %d: %w", hour, err)
	}
	return nil
}
