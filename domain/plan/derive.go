package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// This file derives a day from its key. In the formulas H is SHA-256, HM is
// HMAC-SHA-256 with its key first, and enc is [domain.Enc] with its domain
// string first; a hash, key or seed goes in raw. Day D is a UTC day number.

const (
	// Slots is the number of slots in each day of a plan, real or pad.
	Slots = 24

	// MaxPerWeek is the most tasks in seven days that an agent is ever sent,
	// whatever its consents say. No day has more than Slots.
	MaxPerWeek = 100

	// Identities is the number of client identities in a pool.
	Identities = 12

	secondsPerDay = 86400
)

const consentPrefix = "cns_"

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ConsentID names the consent whose challenge drew nonce:
//
//	"cns_" + first 20 characters of base32(H(nonce)), lower case
func ConsentID(nonce domain.Hash) string {
	h := sha256.Sum256(nonce[:])
	return consentPrefix + lowerBase32.EncodeToString(h[:])[:20]
}

// Key is the operator's part of a day, secret until the day is opened:
//
//	planKey[D] = HM(operatorSecret, enc("karatum/mystery/plan-key/v1", nonce, u32 D))
func Key(operatorSecret, nonce domain.Hash, day uint32) domain.Hash {
	return domain.MAC(operatorSecret, domain.NewEnc("karatum/mystery/plan-key/v1").Hash(nonce).U32(day))
}

// KeyLeaf is the data of the leaf by which the plan key root binds the key of a
// day:
//
//	H(enc("karatum/mystery/plan-key-leaf/v1", u32 D) ‖ planKey[D])
func KeyLeaf(planKey domain.Hash, day uint32) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/plan-key-leaf/v1").U32(day).Hash(planKey))
}

// KeyRoot is the RFC 6962 root over the plan key leaves of a whole validity,
// one for each day. It stands in the message that the owner signs.
func KeyRoot(operatorSecret, nonce domain.Hash, firstDay, days uint32) domain.Hash {
	return merkle.Root(keyLeaves(operatorSecret, nonce, firstDay, days))
}

// KeyPath is the path of the key of day, at index day − firstDay, to [KeyRoot].
// It is nil for a day outside the validity.
func KeyPath(operatorSecret, nonce domain.Hash, firstDay, days, day uint32) []domain.Hash {
	if day < firstDay || day-firstDay >= days {
		return nil
	}
	return merkle.Path(keyLeaves(operatorSecret, nonce, firstDay, days), int(day-firstDay))
}

func keyLeaves(operatorSecret, nonce domain.Hash, firstDay, days uint32) []domain.Hash {
	leaves := make([]domain.Hash, days)
	for i := range days {
		leaves[i] = KeyLeaf(Key(operatorSecret, nonce, firstDay+i), firstDay+i)
	}
	return leaves
}

// VerifyKey checks that planKey is the key of day under a plan key root.
// firstDay, days and root must come from the signed message and never from
// where the key and its path came from. It returns [domain.ErrInvalid] if the
// day is outside the validity or path does not lead to root.
func VerifyKey(planKey domain.Hash, day, firstDay, days uint32, path []domain.Hash, root domain.Hash) error {
	if day < firstDay || day-firstDay >= days {
		return fmt.Errorf("day %d is not among the %d days from %d: %w", day, days, firstDay, domain.ErrInvalid)
	}
	err := merkle.VerifyPath(KeyLeaf(planKey, day), uint64(day-firstDay), uint64(days), path, root)
	if err != nil {
		return fmt.Errorf("plan key of day %d: %w", day, err)
	}
	return nil
}

// DaySecret mixes the owner's part into the key of a day, so that neither side
// alone steers it:
//
//	daySecret = HM(planKey[D], enc("karatum/mystery/day/v1") ‖ H(ownerEntropy))
//
// ownerEntropy is the 65 bytes of the canonical signature or, where the message
// holds an owner's nonce commitment, the 32 bytes of that nonce.
func DaySecret(planKey domain.Hash, ownerEntropy []byte) domain.Hash {
	return domain.MAC(planKey, domain.NewEnc("karatum/mystery/day/v1").Hash(sha256.Sum256(ownerEntropy)))
}

// U draws a number below n, each as likely as the other, for the purpose label:
//
//	K = HM(key, enc(label))
//	candidates: the first eight bytes, big-endian, of H(K ‖ u32 0), H(K ‖ u32 1), …
//	U = the first candidate below 2^64 − (2^64 mod n), mod n
//
// U panics if n is zero, for nothing can be drawn from nothing. Three labels draw
// from the eligible list: "endpoint", "template" and "tool", each with the number
// of choices that are left.
func U(key domain.Hash, label string, n uint64) uint64 {
	k := domain.MAC(key, domain.NewEnc(label))
	var buf [36]byte
	copy(buf[:], k[:])
	excess := -n % n // 2^64 mod n
	for i := uint32(0); ; i++ {
		binary.BigEndian.PutUint32(buf[32:], i)
		h := sha256.Sum256(buf[:])
		if v := binary.BigEndian.Uint64(h[:]); v <= ^excess {
			return v % n
		}
	}
}

// Cap is the most tasks that a day may have:
//
//	max(0, min(24, maxPerDay, maxPerWeek − sixDays, 100 − sixDays))
//
// where sixDays is the number of tasks planned on the six days before, summed
// over all consents that the agent ever had.
func Cap(maxPerDay, maxPerWeek, sixDays int) int {
	return max(0, min(Slots, maxPerDay, maxPerWeek-sixDays, MaxPerWeek-sixDays))
}

// Count is the number of tasks on a day, from 0 to limit, which is [Cap] of it:
//
//	n = U(daySecret, "count", cap + 1)
func Count(daySecret domain.Hash, limit int) int {
	limit = max(0, min(Slots, limit))
	return int(U(daySecret, "count", uint64(limit)+1)) //nolint:gosec // at most Slots
}

// A SlotSet says which slots of a day are real. The others are pads.
type SlotSet [Slots]bool

// RealSlots picks n of the slots of a day by Fisher-Yates: over 0..23, for i in
// 0..n−1, swap i with i + U(daySecret, "slot:i", 24 − i); the first n are real.
// More than 24 are 24.
func RealSlots(daySecret domain.Hash, n int) (slots SlotSet) {
	var order [Slots]int
	for i := range order {
		order[i] = i
	}
	label := make([]byte, 0, len("slot:23"))
	for i := range min(n, Slots) {
		label = strconv.AppendInt(append(label[:0], "slot:"...), int64(i), 10)
		j := i + int(U(daySecret, string(label), uint64(Slots-i))) //nolint:gosec // below Slots
		order[i], order[j] = order[j], order[i]
		slots[order[i]] = true
	}
	return slots
}

// Ascending returns the real slots from the lowest to the highest. It is never
// nil.
func (s *SlotSet) Ascending() []uint32 {
	slots := make([]uint32, 0, Slots)
	for i := range uint32(Slots) {
		if s[i] {
			slots = append(slots, i)
		}
	}
	return slots
}

// Seed is what everything about a slot follows from. It is opened with the slot:
//
//	seed[i] = HM(daySecret, enc("karatum/mystery/seed/v1", consentId, u64 86400·D, u32 i))
func Seed(daySecret domain.Hash, consentID string, day, slot uint32) domain.Hash {
	return domain.MAC(daySecret, domain.NewEnc("karatum/mystery/seed/v1").Str(consentID).U64(secondsPerDay*uint64(day)).U32(slot))
}

// SendAt is the Unix time, in seconds, at which the task of a slot is due:
//
//	86400·D + U(seed[i], "sendAt", 86400)
func SendAt(seed domain.Hash, day uint32) int64 {
	return secondsPerDay*int64(day) + int64(U(seed, "sendAt", secondsPerDay)) //nolint:gosec // below a day
}

// Identity is the index in the pool of the client identity that sends the task:
//
//	U(seed[i], "identity", 12)
func Identity(seed domain.Hash) uint32 {
	return uint32(U(seed, "identity", Identities)) //nolint:gosec // below Identities
}

// CommitFields is everything that the commitment to a real slot binds.
type CommitFields struct {
	Consent         string
	Day             uint32
	Slot            uint32
	Template        string
	TemplateVersion uint32
	Endpoint        string
	Identity        uint32
	SendAt          int64 // Unix seconds
	Seed            domain.Hash
	AskHash         domain.Hash // H of the RFC 8785 JSON of what is asked
	ExpectedHash    domain.Hash // H of the RFC 8785 JSON of the expected answer, or a deferred hash
}

// Commit is the commitment to a real slot:
//
//	H(enc("karatum/mystery/commit/v1", consentId, u32 D, u32 i, templateId, u32 templateVersion,
//	  endpointId, u32 identity, u64 sendAt) ‖ seed[i] ‖ askHash ‖ expectedHash)
func Commit(f CommitFields) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/commit/v1").
		Str(f.Consent).U32(f.Day).U32(f.Slot).
		Str(f.Template).U32(f.TemplateVersion).
		Str(f.Endpoint).U32(f.Identity).U64(uint64(f.SendAt)). //nolint:gosec // no task was due before 1970
		Hash(f.Seed).Hash(f.AskHash).Hash(f.ExpectedHash))
}

// Pad is the commitment to a slot without a task. Until its seed is opened
// nothing tells it from one with a task:
//
//	H(enc("karatum/mystery/pad/v1", consentId, u32 D, u32 i) ‖ seed[i])
func Pad(consentID string, day, slot uint32, seed domain.Hash) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/pad/v1").Str(consentID).U32(day).U32(slot).Hash(seed))
}

// ShopID names a slot and says nothing about it: "shp_", the consent id without
// its prefix, the date as yyyymmdd and the slot in two digits, joined by "_".
func ShopID(consentID string, day, slot uint32) string {
	return fmt.Sprintf("shp_%s_%s_%02d", strings.TrimPrefix(consentID, consentPrefix), domain.DayStart(day).Format("20060102"), slot)
}
