package shop

import (
	"crypto/sha256"

	"github.com/karatum/mystery/domain"
)

// ReplyHash commits to a reply before anything looks at it. The salt keeps a
// short reply from being guessed, and lets the reply be erased for good:
//
//	H(enc("karatum/mystery/reply/v1", shopId, u64 receivedAtMs, u32 status, u32 latencyMs) ‖ salt ‖ H(body))
//
// receivedAtMs is Unix time in milliseconds; status is the HTTP status, 0 where
// there was none.
func ReplyHash(shopID string, receivedAtMs int64, status, latencyMs uint32, salt domain.Hash, body []byte) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/reply/v1").
		Str(shopID).U64(uint64(receivedAtMs)).U32(status).U32(latencyMs). //nolint:gosec // no reply came before 1970
		Hash(salt).Hash(sha256.Sum256(body)))
}

// CommitsTo reports whether e commits to a body with a salt as the reply in a slot.
func (e Replied) CommitsTo(shopID string, salt domain.Hash, body []byte) bool {
	return len(body) == e.Size &&
		e.Hash == ReplyHash(shopID, e.ReceivedAtMs, uint32(e.Status), uint32(e.LatencyMs), salt, body) //nolint:gosec // as they were hashed
}

// DeferredHash stands in for the hash of an expected answer that is known only
// when the task is sent, such as the hash of a block:
//
//	H(enc("karatum/mystery/deferred/v1", rule, u32 depth))
//
// depth is how many blocks behind the head the rule reads, 0 where it reads none.
func DeferredHash(rule string, depth uint32) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/deferred/v1").Str(rule).U32(depth))
}
