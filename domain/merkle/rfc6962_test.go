package merkle_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// maxSize takes in the 24 slots of a plan, the 48 of a seal and the trees on
// both sides of 64 leaves.
const maxSize = 70

func someLeaves(n int) []domain.Hash {
	leaves := make([]domain.Hash, n)
	for i := range leaves {
		leaves[i] = domain.Sum([]byte("leaf"), []byte{byte(i)})
	}
	return leaves
}

// A foreignLog is the same tree in golang.org/x/mod/sumdb/tlog, which is tested
// against a real Certificate Transparency log and shares no code with ours.
type foreignLog []tlog.Hash

func (l foreignLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		hashes[i] = l[x]
	}
	return hashes, nil
}

func newForeignLog(t *testing.T, leaves []domain.Hash) foreignLog {
	t.Helper()
	var l foreignLog
	for i, leaf := range leaves {
		stored, err := tlog.StoredHashes(int64(i), leaf[:], l)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, stored...)
	}
	return l
}

func TestAgreesWithTlog(t *testing.T) {
	t.Parallel()
	all := someLeaves(maxSize)
	log := newForeignLog(t, all)
	for size := range maxSize + 1 {
		leaves := all[:size]
		root := merkle.Root(leaves)
		want, err := tlog.TreeHash(int64(size), log)
		if err != nil || root != domain.Hash(want) {
			t.Fatalf("Root of %d leaves = %s, want %x, %v", size, root, want, err)
		}
		for i, leaf := range leaves {
			path := merkle.Path(leaves, i)
			proof, err := tlog.ProveRecord(int64(size), int64(i), log)
			if err != nil {
				t.Fatal(err)
			}
			var foreign []domain.Hash
			for _, h := range proof {
				foreign = append(foreign, domain.Hash(h))
			}
			if !slices.Equal(path, foreign) {
				t.Errorf("Path of %d in %d: %s", i, size, cmp.Diff(foreign, path))
			}
			if got, want := merkle.LeafHash(leaf[:]), domain.Hash(tlog.RecordHash(leaf[:])); got != want {
				t.Errorf("LeafHash = %s, want %s", got, want)
			}
			if err := merkle.VerifyPath(leaf, uint64(i), uint64(size), path, root); err != nil {
				t.Errorf("VerifyPath of %d in %d: %v", i, size, err)
			}
		}
	}
}

func TestVerifyPathRefuses(t *testing.T) {
	t.Parallel()
	all := someLeaves(maxSize)
	refuse := func(what string, leaf domain.Hash, index, size uint64, path []domain.Hash, root domain.Hash) {
		t.Helper()
		if err := merkle.VerifyPath(leaf, index, size, path, root); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("VerifyPath with %s at %d of %d = %v, want ErrInvalid", what, index, size, err)
		}
	}
	for _, size := range []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 24, 33, 48, 63, 64, 65, maxSize} {
		leaves := all[:size]
		root := merkle.Root(leaves)
		for i := range size {
			leaf, path := leaves[i], merkle.Path(leaves, int(i))
			for j := range size + 2 {
				if j != i {
					refuse("the index of another", leaf, j, size, path, root)
				}
			}
			refuse("a longer path", leaf, i, size, append(slices.Clone(path), root), root)
			refuse("another root", leaf, i, size, path, leaf)
			refuse("another leaf", root, i, size, path, root)
			if len(path) > 0 {
				refuse("a shorter path", leaf, i, size, path[1:], root)
				refuse("a shorter path", leaf, i, size, path[:len(path)-1], root)
			}
			for k := range path {
				bad := slices.Clone(path)
				bad[k][(i+size)%32] ^= 1 << (k % 8)
				refuse("a flipped bit", leaf, i, size, bad, root)
			}
		}
	}
}

// A wrong size may leave the path of a leaf as it is, and then proves the same;
// a size that changes its shape must not pass.
func TestVerifyPathWrongSize(t *testing.T) {
	t.Parallel()
	leaves := someLeaves(maxSize)
	root := merkle.Root(leaves)
	for i, leaf := range leaves {
		path := merkle.Path(leaves, i)
		for size := uint64(0); size <= 3*maxSize; size++ {
			err := merkle.VerifyPath(leaf, uint64(i), size, path, root)
			if same := sameShape(uint64(i), size, maxSize); (err == nil) != same {
				t.Errorf("VerifyPath of %d in a tree of %d given as %d = %v, same shape %t", i, maxSize, size, err, same)
			}
		}
	}
}

// sameShape reports whether a leaf goes left and right at the same turns in two
// trees, by the recursive definition in RFC 6962.
func sameShape(index, a, b uint64) bool {
	return slices.Equal(turns(index, a), turns(index, b))
}

func turns(index, size uint64) []bool {
	if index >= size {
		return []bool{false, false, false, false, false, false, false, false, false, false} // no such leaf
	}
	if size == 1 {
		return nil
	}
	k := uint64(1)
	for 2*k < size {
		k *= 2
	}
	if index < k {
		return append(turns(index, k), false)
	}
	return append(turns(index-k, size-k), true)
}

func TestAbsurdSizes(t *testing.T) {
	t.Parallel()
	leaves := someLeaves(3)
	root := merkle.Root(leaves)
	path := merkle.Path(leaves, 1)
	numbers := []uint64{0, 3, 4, 1 << 31, 1 << 32, 1<<62 + 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	long := make([]domain.Hash, 200)
	for _, index := range numbers {
		if got := merkle.Path(leaves, int(index)); index != 0 && got != nil {
			t.Errorf("Path(leaves, %d) = %v, want nil", int(index), got)
		}
		for _, size := range numbers {
			for _, p := range [][]domain.Hash{nil, path, long[:63], long[:64], long[:65], long} {
				if err := merkle.VerifyPath(leaves[1], index, size, p, root); !errors.Is(err, domain.ErrInvalid) {
					t.Errorf("VerifyPath(%d of %d) = %v, want ErrInvalid", index, size, err)
				}
			}
		}
	}
	if merkle.Path(nil, 0) != nil {
		t.Error("a tree without leaves has a path")
	}
}

// A node is no leaf: the concatenation of two hashes never passes as one.
func TestNoSecondPreimage(t *testing.T) {
	t.Parallel()
	leaves := someLeaves(2)
	a, b := merkle.LeafHash(leaves[0][:]), merkle.LeafHash(leaves[1][:])
	if merkle.LeafHash(slices.Concat(a[:], b[:])) == merkle.Root(leaves) {
		t.Error("two leaf hashes pass for the data of one leaf")
	}
}

func BenchmarkRoot(b *testing.B) {
	leaves := someLeaves(48)
	b.ReportAllocs()
	for b.Loop() {
		merkle.Root(leaves)
	}
}
