// Package seal computes the hourly seals of a consent. A seal is the RFC 6962
// root over the 48 slots of yesterday and today; it pins what is known of each
// slot long before the slot is revealed. There is one every hour whether or not
// anything happened, and without the day secrets it says nothing.
package seal

import (
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
	salt := domain.MAC(daySecret, domain.NewEnc("salt").U64(hour).U32(slot))
	return domain.Sum(domain.NewEnc("karatum/mystery/seal/v1").U64(hour).U32(day).U32(slot).Hash(salt).Hash(head))
}
