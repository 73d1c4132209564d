package task

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/karatum/mystery/domain"
)

// A draw is the stream of choices behind one task: the bytes
//
//	H(seed ‖ u32be 0) ‖ H(seed ‖ u32be 1) ‖ …
//
// read as big-endian 64-bit words. Every parameter and every turn of phrase
// comes from it, in a fixed order, so a seed has one task.
type draw struct {
	seed    domain.Hash
	counter uint32
	left    []byte
}

func (d *draw) word() uint64 {
	if len(d.left) == 0 {
		block := sha256.Sum256(binary.BigEndian.AppendUint32(append(make([]byte, 0, 36), d.seed[:]...), d.counter))
		d.counter++
		d.left = block[:]
	}
	w := binary.BigEndian.Uint64(d.left)
	d.left = d.left[8:]
	return w
}

// below returns a number from 0 to n-1, all equally likely: words of the last,
// incomplete round of n are skipped.
func (d *draw) below(n int) int {
	m := uint64(n) //nolint:gosec // n is a positive constant or the length of a list
	for {
		w := d.word()
		if w < -m || w <= math.MaxUint64-(-m%m) { // -m%m is 2^64 mod m; most words need not know
			return int(w % m) //nolint:gosec // below n
		}
	}
}

// between returns a number from lo to hi, both included.
func (d *draw) between(lo, hi int) int { return lo + d.below(hi-lo+1) }

// chance reports true once in n times.
func (d *draw) chance(n int) bool { return d.below(n) == 0 }

func pick[T any](d *draw, list []T) T { return list[d.below(len(list))] }
