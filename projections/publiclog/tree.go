package publiclog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// A Cache remembers what has been checked: the nodes of full tiles, which never change,
// those of the right edge, and the signature of a checkpoint. It vouches for nothing by
// itself, as each tile is held against the tree that is read. It takes 4 MiB at most.
// The zero Cache is empty and ready, and may be used by several goroutines.
type Cache struct {
	mu    sync.Mutex
	full  map[merkle.TileID]*tile
	edge  map[merkle.TileID]*tile
	known tlog.Tree // that edge is of
	head  Head
}

// maxTiles is how many full tiles are remembered, of 16 KiB each.
const maxTiles = 240

// A tile has the hashes of a tile, and all nodes above them that are within it: nodes[1]
// is its root, and those below nodes[n] are nodes[2n] and nodes[2n+1].
type tile struct {
	nodes [2 * merkle.TileWidth]tlog.Hash
}

func newTile(hashes []byte) *tile {
	t := new(tile)
	width := len(hashes) / tlog.HashSize
	for i := range width {
		t.nodes[merkle.TileWidth+i] = tlog.Hash(hashes[i*tlog.HashSize:])
	}
	for row := 1; width>>row > 0; row++ {
		first := merkle.TileWidth >> row
		for n := first; n < first+width>>row; n++ {
			t.nodes[n] = tlog.NodeHash(t.nodes[2*n], t.nodes[2*n+1])
		}
	}
	return t
}

// at returns the n-th node of a row: row 0 is that of the hashes, row 8 that of the root.
func (t *tile) at(row int, n uint64) tlog.Hash { return t.nodes[merkle.TileWidth>>row+n] }

// of returns the tiles that are remembered among some of a tree.
func (c *Cache) of(t tlog.Tree, ids map[merkle.TileID]bool) map[merkle.TileID]*tile {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[merkle.TileID]*tile, len(ids))
	if c.known == t {
		maps.Copy(found, c.edge)
	}
	for id := range ids {
		if full := c.full[id]; full != nil && found[id] == nil && !onEdge(t, id) {
			found[id] = full
		}
	}
	return found
}

// add remembers tiles of a tree that were checked, all those of its edge among them.
func (c *Cache) add(t tlog.Tree, tiles map[merkle.TileID]*tile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edge := make(map[merkle.TileID]*tile)
	for id, one := range tiles {
		if onEdge(t, id) {
			edge[id] = one
			continue
		}
		if c.full == nil {
			c.full = make(map[merkle.TileID]*tile)
		}
		for other := range c.full { // any will do
			if len(c.full) < maxTiles {
				break
			}
			delete(c.full, other)
		}
		c.full[id] = one
	}
	if t.N >= c.known.N {
		c.known, c.edge = t, edge
	}
}

// scan reads the row of the latest checkpoint, and checks it unless it is the very one that
// was checked last.
func (c *Cache) scan(h *Head, row pgx.Row) error {
	var read Head
	var root []byte
	err := row.Scan(&read.Size, &root, &read.Note, &read.Key)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("no checkpoint has been published yet: %w", domain.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("read the latest checkpoint: %w", err)
	}
	read.Root = domain.Hash(root)
	c.mu.Lock()
	known := c.head
	c.mu.Unlock()
	if read.Size != known.Size || read.Root != known.Root || read.Key != known.Key || !bytes.Equal(read.Note, known.Note) {
		v, err := verifier(read.Key)
		if err != nil {
			return err
		}
		if err := openNote(v, read.Note, read.Size, read.Root); err != nil {
			return err
		}
		known = read
		known.Origin = v.Name()
		c.mu.Lock()
		c.head = known
		c.mu.Unlock()
	}
	*h = known
	return nil
}

// onEdge reports whether a tile is on the right edge of a tree: not full, that is.
func onEdge(t tlog.Tree, id merkle.TileID) bool { return id.Index == edgeIndex(t, id.Level) }

func edgeIndex(t tlog.Tree, level int) uint64 { return uint64(t.N) >> (8 * (level + 1)) } //nolint:gosec // not negative

// hashes returns a reader of the hashes of a tree that checks every tile against the
// root. What it returns is good for ctx only.
func hashes(ctx context.Context, q querier, t tlog.Tree) tlog.HashReader {
	return &treeReader{ctx: ctx, q: q, tree: t, cache: new(Cache)}
}

// A treeReader reads hashes of a tree out of its tiles. As every tile leads to the root
// by those above it, none that contradicts the tree is believed.
type treeReader struct {
	ctx   context.Context //nolint:containedctx // the interface has none
	q     querier
	tree  tlog.Tree
	cache *Cache
	ahead map[merkle.TileID][]byte // tiles that were read already
}

// ReadHashes implements [tlog.HashReader].
func (r *treeReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	wanted := make(map[merkle.TileID]bool)
	for _, index := range indexes {
		if level, n := tlog.SplitStoredHashIndex(index); n >= r.tree.N>>level {
			return nil, fmt.Errorf("a tree of %d leaves has no node %d of level %d: %w", r.tree.N, n, level, domain.ErrInvalid)
		}
		for id, _, _ := placeOf(index); !wanted[id]; id = above(id) {
			wanted[id] = true
			if onEdge(r.tree, id) {
				break
			}
		}
	}
	tiles, err := r.tiles(wanted)
	if err != nil {
		return nil, err
	}
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		id, row, n := placeOf(index)
		found[i] = tiles[id].at(row, n)
	}
	return found, nil
}

// placeOf returns where the hash with an index of package tlog is: in a tile, there in a
// row, and there at a place.
func placeOf(index int64) (id merkle.TileID, row int, n uint64) {
	level, at := tlog.SplitStoredHashIndex(index)
	row = level % 8
	n = uint64(at) //nolint:gosec // not negative
	return merkle.TileID{Level: level / 8, Index: n >> (8 - row)}, row, n & (merkle.TileWidth>>row - 1)
}

// above returns the tile that has the root of another one.
func above(id merkle.TileID) merkle.TileID {
	return merkle.TileID{Level: id.Level + 1, Index: id.Index / merkle.TileWidth}
}

// tiles returns the wanted tiles, with each of which those above it are wanted, and reads
// what is not remembered of them, and of the edge, at once.
func (r *treeReader) tiles(wanted map[merkle.TileID]bool) (map[merkle.TileID]*tile, error) {
	tiles := r.cache.of(r.tree, wanted)
	edge, widths := merkle.EdgeTiles(uint64(r.tree.N)) //nolint:gosec // not negative
	var missing []merkle.TileID
	for _, id := range edge {
		if tiles[id] == nil {
			missing = append(missing, id)
		}
	}
	edgeMissing := len(missing) > 0
	for id := range wanted {
		if tiles[id] == nil && !onEdge(r.tree, id) {
			missing = append(missing, id)
		}
	}
	stored, err := r.load(missing)
	if err != nil {
		return nil, err
	}
	if edgeMissing {
		if err := r.checkEdge(edge, widths, stored); err != nil {
			return nil, err
		}
		for i, id := range edge {
			tiles[id] = newTile(stored[id][:widths[i]*tlog.HashSize])
		}
	}
	for id := range wanted {
		if tiles[id] != nil {
			continue
		}
		if len(stored[id]) != merkle.TileWidth*tlog.HashSize {
			return nil, r.wrong("%s has %d hashes, and must have %d", id, len(stored[id])/tlog.HashSize, merkle.TileWidth)
		}
		tiles[id] = newTile(stored[id])
	}
	for id := range wanted {
		if over := above(id); !onEdge(r.tree, id) && tiles[id].at(8, 0) != tiles[over].at(0, id.Index%merkle.TileWidth) {
			return nil, r.wrong("%s does not lead to %s", id, over)
		}
	}
	if len(missing) > 0 {
		r.cache.add(r.tree, tiles)
	}
	return tiles, nil
}

// load returns tiles that are stored.
func (r *treeReader) load(ids []merkle.TileID) (map[merkle.TileID][]byte, error) {
	stored := make(map[merkle.TileID][]byte, len(ids))
	var rest []merkle.TileID
	for _, id := range ids {
		if hashes, ok := r.ahead[id]; ok {
			stored[id] = hashes
		} else {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return stored, nil
	}
	read, err := loadTiles(r.ctx, r.q, rest)
	maps.Copy(stored, read)
	return stored, err
}

// checkEdge returns an [ErrDamaged] unless stored tiles, which may have grown since, have
// the root of the tree.
func (r *treeReader) checkEdge(ids []merkle.TileID, widths []int, stored map[merkle.TileID][]byte) error {
	tiles := make([]merkle.Tile, len(ids))
	for i, id := range ids {
		size := widths[i] * tlog.HashSize
		if len(stored[id]) < size {
			return r.wrong("%s has %d hashes, and must have %d", id, len(stored[id])/tlog.HashSize, widths[i])
		}
		tiles[i] = merkle.Tile{TileID: id, Hashes: stored[id][:size]}
	}
	edge, err := merkle.ResumeEdge(uint64(r.tree.N), tiles) //nolint:gosec // not negative
	if err != nil {
		return r.wrong("%w", err)
	}
	if root := edge.Root(); root != domain.Hash(r.tree.Hash) {
		return r.wrong("the root of its right edge is %s, and must be %s", root, domain.Hash(r.tree.Hash))
	}
	return nil
}

func (r *treeReader) wrong(format string, args ...any) error {
	return damaged("the tiles of the tree of %d leaves: %w", r.tree.N, fmt.Errorf(format, args...))
}
