package merkle

import (
	"fmt"

	"github.com/karatum/mystery/domain"
)

// TileWidth is how many hashes a full tile holds.
const TileWidth = 1 << tileHeight

const (
	tileHeight = 8
	tileLevels = 8 // enough for 2^64 leaves
	hashSize   = len(domain.Hash{})
)

// A TileID names a tile of C2SP tlog-tiles, which has height 8: at level 0 the
// tile with index n holds the hashes of the leaves from 256·n on, and at any level
// above each hash is the root over a full tile of the level below.
type TileID struct {
	Level int
	Index uint64
}

// String returns the name of a tile for people.
func (id TileID) String() string { return fmt.Sprintf("tile %d of level %d", id.Index, id.Level) }

// A Tile is a run of at most [TileWidth] hashes, which only ever grows.
type Tile struct {
	TileID
	Hashes []byte // one behind the other
}

// TileRoot returns the root over the hashes of a tile, the width of which must be
// a power of two.
func TileRoot(hashes []byte) domain.Hash {
	work := make([]domain.Hash, len(hashes)/hashSize)
	for i := range work {
		work[i] = domain.Hash(hashes[i*hashSize:])
	}
	return fold(work)
}

// fold returns the root over a run of hashes, as many as a power of two. It
// overwrites them.
func fold(run []domain.Hash) domain.Hash {
	for len(run) > 1 {
		half := len(run) / 2
		for i := range half {
			run[i] = nodeHash(run[2*i], run[2*i+1])
		}
		run = run[:half]
	}
	return run[0]
}

// An Edge is the right edge of a growing tree: the one tile of each level that is
// not full. It is all that appending needs, so a tree grows without reading what
// was stored before. The zero Edge is that of the empty tree.
type Edge struct {
	size    uint64
	levels  [tileLevels][]domain.Hash
	changed [tileLevels]bool // since the last Flush
	full    []Tile           // filled since then
}

// EdgeTiles returns the tiles that make up the edge of a tree with size leaves,
// lowest level first, with the number of hashes in each.
func EdgeTiles(size uint64) (ids []TileID, widths []int) {
	for level := range tileLevels {
		nodes := size >> (tileHeight * level) // of this level
		if width := int(nodes % TileWidth); width > 0 {
			ids = append(ids, TileID{level, nodes / TileWidth})
			widths = append(widths, width)
		}
	}
	return ids, widths
}

// ResumeEdge returns the edge of a tree with size leaves, made of the tiles that
// [EdgeTiles] names, in any order. It returns [domain.ErrInvalid] and names the
// tile if one is missing or has another width. Whether the hashes are right shows
// in the root.
func ResumeEdge(size uint64, tiles []Tile) (*Edge, error) {
	e := &Edge{size: size}
	ids, widths := EdgeTiles(size)
	for i, id := range ids {
		stored := -1
		for k := range tiles {
			if tiles[k].TileID == id {
				stored = k
			}
		}
		if stored < 0 {
			return nil, fmt.Errorf("%s is missing from a tree of %d leaves: %w", id, size, domain.ErrInvalid)
		}
		hashes := tiles[stored].Hashes
		if len(hashes) != widths[i]*hashSize {
			return nil, fmt.Errorf("%s has %d bytes and not the %d hashes of a tree of %d leaves: %w",
				id, len(hashes), widths[i], size, domain.ErrInvalid)
		}
		for ; len(hashes) > 0; hashes = hashes[hashSize:] {
			e.levels[id.Level] = append(e.levels[id.Level], domain.Hash(hashes))
		}
	}
	return e, nil
}

// Size returns how many leaves the tree has.
func (e *Edge) Size() uint64 { return e.size }

// Append adds a leaf with the given hash, which is that of [LeafHash].
func (e *Edge) Append(hash domain.Hash) {
	for level := range tileLevels {
		e.levels[level] = append(e.levels[level], hash)
		e.changed[level] = true
		if len(e.levels[level]) < TileWidth {
			break
		}
		e.full = append(e.full, Tile{TileID{level, e.size >> (tileHeight * (level + 1))}, flatten(e.levels[level])})
		hash = fold(e.levels[level])
		e.levels[level] = e.levels[level][:0]
		e.changed[level] = false
	}
	e.size++
}

// Root returns the root over all leaves.
func (e *Edge) Root() domain.Hash {
	if e.size == 0 {
		return Root(nil)
	}
	// The tree is the perfect subtrees of its edge, the largest leftmost: each bit of
	// a width is one, and those of a higher level are larger.
	var root *domain.Hash
	for level := range tileLevels {
		rest := e.levels[level]
		for n := 1; n <= len(rest); n *= 2 {
			if len(rest)&n == 0 {
				continue
			}
			subtree := fold(append([]domain.Hash(nil), rest[len(rest)-n:]...))
			rest = rest[:len(rest)-n]
			if root != nil {
				subtree = nodeHash(subtree, *root)
			}
			root = &subtree
		}
	}
	return *root
}

// Flush returns the tiles that are new or have grown since the last Flush.
func (e *Edge) Flush() []Tile {
	tiles := e.full
	e.full = nil
	for level, hashes := range e.levels {
		if e.changed[level] {
			tiles = append(tiles, Tile{TileID{level, e.size >> (tileHeight * (level + 1))}, flatten(hashes)})
			e.changed[level] = false
		}
	}
	return tiles
}

func flatten(hashes []domain.Hash) []byte {
	flat := make([]byte, 0, len(hashes)*hashSize)
	for i := range hashes {
		flat = append(flat, hashes[i][:]...)
	}
	return flat
}
