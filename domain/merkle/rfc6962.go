// Package merkle computes the trees that stand behind the ledger's roots, and
// checks that one leaf is in them.
//
// The trees of the public log, of seals and of keys are the Merkle Hash Tree of
// RFC 6962, section 2.1, with SHA-256. A batch of commits, whose root is attested
// on a chain, has another one, which contracts can verify: see [BatchTree].
//
// In a tree of RFC 6962 the data of a leaf is 32 bytes, itself a hash over what
// the leaf says:
//
//	leaf = SHA-256(0x00 ‖ data)
//	node = SHA-256(0x01 ‖ left ‖ right)
//
// Such a tree of n leaves splits at the largest power of two smaller than n; nothing
// is padded or repeated. The two prefixes keep a node from passing for a leaf.
//
// A proof consists of sibling hashes alone. Which index it is for and how many
// leaves the tree has must be known from elsewhere, such as a signed message:
// a checker that takes them from the proof proves nothing.
package merkle

import (
	"crypto/sha256"
	"fmt"
	"math/bits"

	"github.com/karatum/mystery/domain"
)

// LeafHash returns the hash of a leaf with the given data.
func LeafHash(leaf []byte) domain.Hash {
	var buf [64]byte
	return sha256.Sum256(append(append(buf[:0], 0x00), leaf...))
}

// nodeHash returns the hash of the node above left and right.
func nodeHash(left, right domain.Hash) domain.Hash {
	var buf [65]byte
	buf[0] = 0x01
	copy(buf[1:], left[:])
	copy(buf[33:], right[:])
	return sha256.Sum256(buf[:])
}

// Root returns MTH of RFC 6962 over the data of the leaves. The root of an empty
// tree is the SHA-256 of nothing.
func Root(leaves []domain.Hash) domain.Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return LeafHash(leaves[0][:])
	}
	k := split(len(leaves))
	return nodeHash(Root(leaves[:k]), Root(leaves[k:]))
}

// Path returns PATH of RFC 6962, section 2.1.1, for the leaf with the given
// index, siblings of leaves first. It is empty for a tree of one leaf, and nil
// where there is no such leaf.
func Path(leaves []domain.Hash, index int) []domain.Hash {
	if index < 0 || index >= len(leaves) {
		return nil
	}
	return appendPath([]domain.Hash{}, leaves, index)
}

func appendPath(path, leaves []domain.Hash, index int) []domain.Hash {
	if len(leaves) == 1 {
		return path
	}
	k := split(len(leaves))
	if index < k {
		return append(appendPath(path, leaves[:k], index), Root(leaves[k:]))
	}
	return append(appendPath(path, leaves[k:], index-k), Root(leaves[:k]))
}

// split returns the largest power of two smaller than n, which is at least 2.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// VerifyPath checks that a leaf with data leaf is at index in the tree with size
// leaves and the given root: RFC 9162, section 2.1.3.2, which holds for the
// trees of RFC 6962. It returns [domain.ErrInvalid] if it is not.
func VerifyPath(leaf domain.Hash, index, size uint64, path []domain.Hash, root domain.Hash) error {
	if index >= size {
		return fmt.Errorf("there is no leaf %d in a tree of %d: %w", index, size, domain.ErrInvalid)
	}
	fn, sn := index, size-1
	hash := LeafHash(leaf[:])
	for _, p := range path {
		if sn == 0 {
			return fmt.Errorf("the path of leaf %d in a tree of %d is shorter than %d: %w", index, size, len(path), domain.ErrInvalid)
		}
		if fn&1 == 0 && fn != sn {
			hash = nodeHash(hash, p)
		} else {
			hash = nodeHash(p, hash)
			// A last node without a right sibling rises until it has a left one.
			up := bits.TrailingZeros64(fn)
			fn, sn = fn>>up, sn>>up
		}
		fn, sn = fn>>1, sn>>1
	}
	switch {
	case sn != 0:
		return fmt.Errorf("the path of leaf %d in a tree of %d is longer than %d: %w", index, size, len(path), domain.ErrInvalid)
	case hash != root:
		return fmt.Errorf("the path of leaf %d in a tree of %d leads to %s and not to the root %s: %w", index, size, hash, root, domain.ErrInvalid)
	}
	return nil
}
