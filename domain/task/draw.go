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
	block   domain.Hash
	left    int // bytes of block that are not used yet
}

func (d *draw) word() uint64 {
	if d.left == 0 {
		var in [len(d.seed) + 4]byte
		copy(in[:], d.seed[:])
		binary.BigEndian.PutUint32(in[len(d.seed):], d.counter)
		d.counter++
		d.block, d.left = sha256.Sum256(in[:]), len(d.block)
	}
	w := binary.BigEndian.Uint64(d.block[len(d.block)-d.left:])
	d.left -= 8
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
