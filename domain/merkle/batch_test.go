package merkle_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

func keccak(parts ...[]byte) (h domain.Hash) {
	d := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		d.Write(p)
	}
	d.Sum(h[:0])
	return h
}

func hashOf(tb testing.TB, s string) domain.Hash {
	tb.Helper()
	h, err := domain.ParseHash(s)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func commitAt(i int) domain.Hash {
	return keccak([]byte("commit"), binary.BigEndian.AppendUint64(nil, uint64(i)))
}

func commitsOf(n int) []domain.Hash {
	list := make([]domain.Hash, n)
	for i := range list {
		list[i] = commitAt(i)
	}
	return list
}

// pick returns the commits with the given numbers.
func pick(numbers ...int) []domain.Hash {
	list := make([]domain.Hash, len(numbers))
	for i, n := range numbers {
		list[i] = commitAt(n)
	}
	return list
}

func schemaUID(tb testing.TB) domain.Hash {
	tb.Helper()
	return hashOf(tb, "e85ecd4945da63b9dba7113d2e4ad9f4888b43a788b5e3db1215ff4a6b1d9c92")
}

func firstBatch(tb testing.TB) domain.Hash {
	tb.Helper()
	return merkle.BatchID(84532, schemaUID(tb), 1, domain.Hash{})
}

func batchTree(tb testing.TB, id domain.Hash, commits []domain.Hash) *merkle.BatchTree {
	tb.Helper()
	tree, err := merkle.NewBatchTree(id, commits)
	if err != nil {
		tb.Fatal(err)
	}
	return tree
}

func TestBatchID(t *testing.T) {
	t.Parallel()
	root3 := hashOf(t, "3852a6f8e70976342daab0ed71ff318a38789cc11079bdb1660e094913572532")
	for _, tt := range []struct {
		batch    uint64
		previous domain.Hash
		want     string
	}{
		{1, domain.Hash{}, "cfe259615a7c998c5e9e60a99bb602608856f5540b772c5347004939fd106dc8"},
		{2, root3, "130e3a3e98f2502fcd05e8623873945ff46746332fc2229170a1cb85f3e7fcb1"},
	} {
		if got := merkle.BatchID(84532, schemaUID(t), tt.batch, tt.previous); got != hashOf(t, tt.want) {
			t.Errorf("BatchID of batch %d = %s, want %s", tt.batch, got, tt.want)
		}
	}
	one := firstBatch(t)
	for name, other := range map[string]domain.Hash{
		"chain":         merkle.BatchID(8453, schemaUID(t), 1, domain.Hash{}),
		"schema":        merkle.BatchID(84532, domain.Hash{1}, 1, domain.Hash{}),
		"batch":         merkle.BatchID(84532, schemaUID(t), 2, domain.Hash{}),
		"previous root": merkle.BatchID(84532, schemaUID(t), 1, domain.Hash{1}),
	} {
		if other == one {
			t.Errorf("another %s makes the same id", name)
		}
	}
}

// Roots that @openzeppelin/merkle-tree 1.0.8 finds for the same padded values.
func TestBatchRoot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		commits []domain.Hash
		want    string
	}{
		{"two", commitsOf(2), "2d8871c78899393183ac6bf1536e6829414dd5e05060a6dd46eb3806aaca0d20"},
		{"two the other way round", pick(1, 0), "2767db45af10dc94c46100476c0d886ddd15a0ea0f5cf5aae0fd8454f7be725f"},
		{"three", commitsOf(3), "3852a6f8e70976342daab0ed71ff318a38789cc11079bdb1660e094913572532"},
		{"three and the last again", pick(0, 1, 2, 2), "6d56862ea2f19591ba49c54ba73735e953cf47d2abdbc7a29509a8dd7480af29"},
		{"one twice", pick(0, 1, 0), "530a8711e5767d74a3aba9871428d6d6485e347bffd1085c14a07658812919c7"},
		{"five", commitsOf(5), "1c066a9437167d1002eeb88ed14c62572eeb0879acd286f71ba05eb6910d9f44"},
		{"six", commitsOf(6), "9e2882bf4ae6958d954276c9f9eadabe56be741fce3fccd58ad4fdfccaa26110"},
		{"six and the last two again", pick(0, 1, 2, 3, 4, 5, 4, 5), "fcb697bf69cad5275606063709bdf8a3ef199e1cd187c807f7360edc5ab7429b"},
		{"seven", commitsOf(7), "577e9063e2b3b15c2b413204b02ba5fe7049cb56403c781b62e53a756ab12a0b"},
		{"eight", commitsOf(8), "a181fe0f0514e674854bce8e808a4a135c04aa482ef3274d7f6bf35b4c36b3aa"},
		{"thirteen", commitsOf(13), "0ec48684dba80ef85f2c0b719f7c2612d9c1f159c0f7748fa2823cc0e5c213ec"},
		{"a thousand", commitsOf(1000), "13c05579a094b2abdf55b81594bcc32d5fc685da1da114b72eef0be2fbcab08c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := batchTree(t, firstBatch(t), tt.commits).Root(); got != hashOf(t, tt.want) {
				t.Errorf("Root = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBatchOfThree(t *testing.T) {
	t.Parallel()
	for i, want := range []string{
		"5007d64b8ef841cb66a77a0c885a7c18cdcd60a2e575967437e23824bb82891b",
		"f8e16c9dfb75ea38a2d4e33097fd32d66b4b1248f26e6054a5d11006dc939824",
		"654e23eba1721aa5376708906dcfed4bddb9d79b983694de67ff030d1165817d",
	} {
		if commitAt(i) != hashOf(t, want) {
			t.Fatalf("commit %d = %s, want %s", i, commitAt(i), want)
		}
	}
	tree := batchTree(t, firstBatch(t), commitsOf(3))
	var leaves []domain.Hash
	for flat := tree.Levels()[0]; len(flat) > 0; flat = flat[32:] {
		leaves = append(leaves, domain.Hash(flat))
	}
	if diff := cmp.Diff([]domain.Hash{
		hashOf(t, "fd50ee76cc5f49b2bfb594838c68fd5c86312340d744ae8c9a38937ed6e48b41"),
		hashOf(t, "437445671c7d58b7399245ba9b38ac5f2f574ce6459ca540fca91265788bc91c"),
		hashOf(t, "c08dc8e50d4fdfda88a5c80a12b1875ec2605e1076686592562f72dc0dc08f07"),
		hashOf(t, "16564bc9ae301e4f86fb5ddd99b909ddfb62a1148bb8e33fd19628ebd7f733fe"),
	}, leaves); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	path := []domain.Hash{
		hashOf(t, "16564bc9ae301e4f86fb5ddd99b909ddfb62a1148bb8e33fd19628ebd7f733fe"),
		hashOf(t, "7985498d9c358e9a3e8d579d43f9237f2f42bb80f49ff6d1c431d10535d3acaf"),
	}
	if diff := cmp.Diff(path, tree.Path(2)); diff != "" {
		t.Errorf("Path(2) (-want +got):\n%s", diff)
	}
	// A commit that stands in two places has a path of its own for each.
	if diff := cmp.Diff(path, batchTree(t, firstBatch(t), pick(0, 1, 0)).Path(2)); diff != "" {
		t.Errorf("Path(2) of a commit that stands at 0 too (-want +got):\n%s", diff)
	}
	for _, index := range []int{-1, 3, 4} {
		if got := tree.Path(index); got != nil {
			t.Errorf("Path(%d) = %v, want none", index, got)
		}
	}
}

// The selector is that of the signature, 0x5a9a49c7.
func TestVerifyCall(t *testing.T) {
	t.Parallel()
	tree := batchTree(t, firstBatch(t), commitsOf(3))
	leaf := merkle.BatchLeaf(firstBatch(t), commitAt(2), 2, 3)
	const want = "5a9a49c7" +
		"0000000000000000000000000000000000000000000000000000000000000060" +
		"3852a6f8e70976342daab0ed71ff318a38789cc11079bdb1660e094913572532" +
		"c08dc8e50d4fdfda88a5c80a12b1875ec2605e1076686592562f72dc0dc08f07" +
		"0000000000000000000000000000000000000000000000000000000000000002" +
		"16564bc9ae301e4f86fb5ddd99b909ddfb62a1148bb8e33fd19628ebd7f733fe" +
		"7985498d9c358e9a3e8d579d43f9237f2f42bb80f49ff6d1c431d10535d3acaf"
	if got := hex.EncodeToString(merkle.VerifyCall(tree.Path(2), tree.Root(), leaf)); got != want {
		t.Errorf("VerifyCall = %s, want %s", got, want)
	}
}

func TestEmptyBatch(t *testing.T) {
	t.Parallel()
	if _, err := merkle.NewBatchTree(domain.Hash{}, nil); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("NewBatchTree of nothing = %v, want ErrInvalid", err)
	}
}

// Sizes around powers of two, with one commit in two places.
func TestVerifyBatchPath(t *testing.T) {
	t.Parallel()
	id := firstBatch(t)
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33} {
		commits := commitsOf(n)
		commits[n-1] = commits[0]
		tree := batchTree(t, id, commits)
		levels := tree.Levels()
		root, count := tree.Root(), uint64(n)
		if got := domain.Hash(levels[len(levels)-1]); got != root {
			t.Fatalf("n = %d: the last level is %s and the root %s", n, got, root)
		}
		for i, c := range commits {
			index, path := uint64(i), tree.Path(i)
			if err := merkle.VerifyBatchPath(id, c, index, count, path, root); err != nil {
				t.Fatalf("n = %d: %v", n, err)
			}
			for level, p := range path {
				at := 32 * ((i >> level) ^ 1)
				if got := domain.Hash(levels[level][at:]); got != p {
					t.Fatalf("n = %d: level %d has %s beside commit %d, want %s", n, level, got, i, p)
				}
			}
			longer := append(slices.Clone(path), path[0])
			for name, err := range map[string]error{
				"the next index":   merkle.VerifyBatchPath(id, c, index+1, count, path, root),
				"an index outside": merkle.VerifyBatchPath(id, c, count, count, path, root),
				"a larger count":   merkle.VerifyBatchPath(id, c, index, count+1, path, root),
				"no count":         merkle.VerifyBatchPath(id, c, index, 0, path, root),
				"a shorter path":   merkle.VerifyBatchPath(id, c, index, count, path[:len(path)-1], root),
				"a longer path":    merkle.VerifyBatchPath(id, c, index, count, longer, root),
				"no path":          merkle.VerifyBatchPath(id, c, index, count, nil, root),
				"another commit":   merkle.VerifyBatchPath(id, commitAt(n), index, count, path, root),
				"another batch":    merkle.VerifyBatchPath(domain.Hash{1}, c, index, count, path, root),
				"another root":     merkle.VerifyBatchPath(id, c, index, count, path, domain.Hash{1}),
			} {
				if !errors.Is(err, domain.ErrInvalid) {
					t.Fatalf("n = %d, commit %d with %s: %v, want ErrInvalid", n, i, name, err)
				}
			}
		}
	}
}

// What a bare fold over sorted pairs takes for proven.
func TestBatchForgeries(t *testing.T) {
	t.Parallel()
	id := firstBatch(t)
	tree := batchTree(t, id, commitsOf(5))
	levels, root := tree.Levels(), tree.Root()
	node := domain.Hash(levels[1]) // above the first two leaves
	for _, tt := range []struct {
		name         string
		commit       domain.Hash
		index, count uint64
		path         []domain.Hash
	}{
		{"a node as a commit", node, 0, 5, tree.Path(0)[1:]},
		{"a node as a commit in a smaller batch", node, 0, 4, tree.Path(0)[1:]},
		{"a leaf as a commit", domain.Hash(levels[0]), 0, 5, tree.Path(0)},
		{"the root as a commit", root, 0, 1, nil},
		{"the root as a commit beside itself", root, 0, 1, []domain.Hash{root}},
		{"a pad as a commit", domain.Hash{}, 5, 6, tree.Path(4)},
		{"a pad within the count", domain.Hash{}, 5, 8, []domain.Hash{domain.Hash(levels[0][4*32:]), domain.Hash(levels[1][3*32:]), domain.Hash(levels[2])}},
		{"a count that wraps", commitAt(0), 0, 1 << 63, tree.Path(0)},
		{"a count beyond", commitAt(0), 1<<64 - 2, 1<<64 - 1, tree.Path(0)},
	} {
		if err := merkle.VerifyBatchPath(id, tt.commit, tt.index, tt.count, tt.path, root); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", tt.name, err)
		}
	}
}

// A tree is read by many at once, and building one does not write into another.
func TestBatchTreeIsShared(t *testing.T) {
	t.Parallel()
	tree := batchTree(t, firstBatch(t), commitsOf(100))
	want, path := tree.Root(), tree.Path(7)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if tree.Root() != want || !slices.Equal(tree.Path(7), path) || len(tree.Levels()) != 8 {
				t.Error("a tree changes while it is read")
			}
		})
	}
	wg.Wait()
}

// No path is accepted that is not the one of the tree.
func FuzzVerifyBatchPath(f *testing.F) {
	const n = 11
	id := merkle.BatchID(1, domain.Hash{2}, 3, domain.Hash{4})
	tree := batchTree(f, id, commitsOf(n))
	root := tree.Root()
	flat := func(path []domain.Hash) (b []byte) {
		for _, p := range path {
			b = append(b, p[:]...)
		}
		return b
	}
	for _, i := range []int{0, 6, 10} {
		c := commitAt(i)
		f.Add(c[:], uint64(i), uint64(n), flat(tree.Path(i)))
	}
	f.Fuzz(func(t *testing.T, commit []byte, index, count uint64, bytes []byte) {
		if len(commit) != 32 || len(bytes)%32 != 0 {
			return
		}
		var path []domain.Hash
		for ; len(bytes) > 0; bytes = bytes[32:] {
			path = append(path, domain.Hash(bytes))
		}
		c := domain.Hash(commit)
		if merkle.VerifyBatchPath(id, c, index, count, path, root) != nil {
			return
		}
		if count != n || index >= n || c != commitAt(int(index)) || !slices.Equal(path, tree.Path(int(index))) {
			t.Fatalf("commit %s is accepted at %d of %d", c, index, count)
		}
	})
}

func BenchmarkBatchTree(b *testing.B) {
	id, commits := firstBatch(b), commitsOf(100_000)
	b.ReportAllocs()
	for b.Loop() {
		batchTree(b, id, commits).Levels()
	}
}
