package merkle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math/bits"

	"github.com/cbergoon/merkletree"
	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/domain"
)

// The tags that begin the leaves of a batch: a commit is never read as a pad, nor
// either as anything else that is hashed.
var (
	commitTag = keccak([]byte("MysteryShopper.CommitLeaf.v1"))
	padTag    = keccak([]byte("MysteryShopper.PadLeaf.v1"))
)

// BatchID returns what all leaves of a batch begin with, behind their tag:
//
//	keccak256(abi.encode(uint256 chain, bytes32 schema, uint256 batch, bytes32 previousRoot))
//
// It is known before the tree is, and no two batches share it: a leaf of one
// proves nothing in another, under another schema or on another chain.
func BatchID(chain uint64, schema domain.Hash, batch uint64, previousRoot domain.Hash) domain.Hash {
	var id [4 * 32]byte
	putWord(id[:], chain)
	copy(id[32:], schema[:])
	putWord(id[64:], batch)
	copy(id[96:], previousRoot[:])
	return keccak(id[:])
}

// A BatchTree is the tree over the commits of one batch, whose root is attested on
// a chain. It is made so that the proofs are those of OpenZeppelin's MerkleProof:
//
//	leaf = keccak256(keccak256(abi.encode(bytes32 tag, bytes32 batchID, uint256 index, uint256 count, bytes32 commit)))
//	node = keccak256(min(a, b) ‖ max(a, b))
//
// Leaves follow in the order of the commits. Behind them come pads, with a tag of
// their own and a commit of 32 zero bytes, up to the next power of two and to two
// leaves at least. So no node is ever doubled, and every path has the same length.
// The index in the leaf keeps the order, which sorted pairs alone would lose, and
// its 160 bytes keep a node from passing for a leaf.
//
// A BatchTree is not changed once it is made; it may be read by several
// goroutines.
type BatchTree struct {
	count int
	tree  *merkletree.MerkleTree
}

// NewBatchTree returns the tree over commits, of which there must be one at least.
// The same commit may stand in several places.
func NewBatchTree(id domain.Hash, commits []domain.Hash) (*BatchTree, error) {
	count := uint64(len(commits))
	if count == 0 {
		return nil, fmt.Errorf("a batch has one commit at least: %w", domain.ErrInvalid)
	}
	leaves := make([]batchLeaf, 1<<height(count))
	contents := make([]merkletree.Content, len(leaves))
	for i := range leaves {
		if at := uint64(i); at < count {
			leaves[i].hash = batchLeafHash(commitTag, id, at, count, commits[i])
		} else {
			leaves[i].hash = batchLeafHash(padTag, id, at, count, domain.Hash{})
		}
		contents[i] = &leaves[i]
	}
	tree, err := merkletree.NewTreeWithHashStrategy(contents, func() hash.Hash { return new(sortedKeccak) })
	if err != nil {
		return nil, fmt.Errorf("build the tree of %d commits: %w", count, err)
	}
	return &BatchTree{len(commits), tree}, nil
}

// Root returns the root of the tree.
func (t *BatchTree) Root() domain.Hash { return domain.Hash(t.tree.MerkleRoot()) }

// Path returns the siblings that prove the commit at index, those of leaves first.
// It is nil where there is no such commit.
func (t *BatchTree) Path(index int) []domain.Hash {
	if index < 0 || index >= t.count {
		return nil
	}
	// Nodes are told apart by their place. The library looks for contents, of which
	// the first that is equal need not be the right one.
	var path []domain.Hash
	for n := t.tree.Leafs[index]; n.Parent != nil; n = n.Parent {
		sibling := n.Parent.Left
		if sibling == n {
			sibling = n.Parent.Right
		}
		path = append(path, domain.Hash(sibling.Hash))
	}
	return path
}

// Levels returns the hashes of the tree, one behind the other, level by level and
// leaves first; the last level is the root. On the way to the root, the path of
// the commit at index takes from level n the hash at (index >> n) ^ 1.
func (t *BatchTree) Levels() [][]byte {
	var levels [][]byte
	for nodes := t.tree.Leafs; ; {
		flat := make([]byte, 0, len(nodes)*hashSize)
		for _, n := range nodes {
			flat = append(flat, n.Hash...)
		}
		levels = append(levels, flat)
		if len(nodes) == 1 {
			return levels
		}
		above := make([]*merkletree.Node, len(nodes)/2)
		for i := range above {
			above[i] = nodes[2*i].Parent
		}
		nodes = above
	}
}

// VerifyBatchPath checks that commit is the one at index in the batch of count
// commits with the given root. All but index, commit and path must come from the
// attestation and never from the proof. The leaf is made anew, from the commit:
// whoever takes the hash of a leaf from a proof may be shown a node. It returns
// [domain.ErrInvalid] if the commit is not there.
func VerifyBatchPath(id domain.Hash, commit domain.Hash, index, count uint64, path []domain.Hash, root domain.Hash) error {
	if index >= count {
		return fmt.Errorf("there is no commit %d in a batch of %d: %w", index, count, domain.ErrInvalid)
	}
	if len(path) != height(count) {
		return fmt.Errorf("the path of a commit in a batch of %d has %d hashes and not %d: %w", count, height(count), len(path), domain.ErrInvalid)
	}
	h := BatchLeaf(id, commit, index, count)
	for _, p := range path {
		h = sortedNode(h, p)
	}
	if h != root {
		return fmt.Errorf("the path of commit %d in a batch of %d leads to %s and not to the root %s: %w", index, count, h, root, domain.ErrInvalid)
	}
	return nil
}

// BatchLeaf returns the leaf of the commit at index in a batch of count commits, as
// [BatchTree] says. It is for showing, and for contracts that make it anew; a
// checker uses [VerifyBatchPath].
func BatchLeaf(id, commit domain.Hash, index, count uint64) domain.Hash {
	return batchLeafHash(commitTag, id, index, count, commit)
}

// VerifyCall returns the data of a call of
//
//	verify(bytes32[] proof, bytes32 root, bytes32 leaf)
//
// which is the signature of OpenZeppelin's MerkleProof, in the Solidity ABI.
func VerifyCall(path []domain.Hash, root, leaf domain.Hash) []byte {
	selector := keccak([]byte("verify(bytes32[],bytes32,bytes32)"))
	data := make([]byte, 4+(4+len(path))*hashSize)
	copy(data, selector[:4])
	args := data[4:]
	putWord(args, 3*uint64(hashSize)) // where the proof begins
	copy(args[1*hashSize:], root[:])
	copy(args[2*hashSize:], leaf[:])
	putWord(args[3*hashSize:], uint64(len(path)))
	for i, p := range path {
		copy(args[(4+i)*hashSize:], p[:])
	}
	return data
}

// height returns the length of every path in the tree over count commits.
func height(count uint64) int { return max(1, bits.Len64(count-1)) }

func batchLeafHash(tag, id domain.Hash, index, count uint64, commit domain.Hash) domain.Hash {
	var leaf [5 * 32]byte // abi.encode of five words
	copy(leaf[:], tag[:])
	copy(leaf[32:], id[:])
	putWord(leaf[64:], index)
	putWord(leaf[96:], count)
	copy(leaf[128:], commit[:])
	inner := keccak(leaf[:])
	return keccak(inner[:])
}

func sortedNode(a, b domain.Hash) domain.Hash {
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	return keccak(a[:], b[:])
}

// putWord writes n as a uint256 of the Solidity ABI into the zeros at the start of b.
func putWord(b []byte, n uint64) { binary.BigEndian.PutUint64(b[24:], n) }

func keccak(parts ...[]byte) (h domain.Hash) {
	d := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		d.Write(p)
	}
	d.Sum(h[:0])
	return h
}

// A batchLeaf hands its hash to the library, which does not hash leaves itself.
type batchLeaf struct{ hash domain.Hash }

// CalculateHash implements [merkletree.Content]. The library appends to what it
// gets, so it gets a copy without room for more.
func (l *batchLeaf) CalculateHash() ([]byte, error) {
	return bytes.Clone(l.hash[:])[:hashSize:hashSize], nil
}

// Equals implements [merkletree.Content].
func (l *batchLeaf) Equals(other merkletree.Content) (bool, error) {
	o, ok := other.(*batchLeaf)
	if !ok {
		return false, errors.New("a leaf is compared with something that is none")
	}
	return l.hash == o.hash, nil
}

// A sortedKeccak is the hash of a node as a [hash.Hash], which is the form in which
// the library takes it: of what is written, it hashes the two halves in order of
// size. There must be 64 bytes.
type sortedKeccak struct{ pair []byte }

func (s *sortedKeccak) Write(p []byte) (int, error) {
	s.pair = append(s.pair, p...)
	return len(p), nil
}

func (s *sortedKeccak) Sum(b []byte) []byte {
	if len(s.pair) != 2*hashSize {
		panic(fmt.Sprintf("merkle: a node over %d bytes", len(s.pair)))
	}
	h := sortedNode(domain.Hash(s.pair[:hashSize]), domain.Hash(s.pair[hashSize:]))
	return append(b, h[:]...)
}

func (s *sortedKeccak) Reset()         { s.pair = s.pair[:0] }
func (s *sortedKeccak) Size() int      { return hashSize }
func (s *sortedKeccak) BlockSize() int { return 136 } // the rate of keccak-256
