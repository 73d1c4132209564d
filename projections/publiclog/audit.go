package publiclog

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// How much is read at a time: tiles of 256 leaves each, and checkpoints.
const (
	auditTiles = 64
	auditNotes = 64
)

// How much of what was signed before is read again with each signature, besides what is
// new.
const (
	turnTiles = 4
	turnNotes = 4
)

// A turn is how far the reading again of old things has come.
type turn struct {
	tile uint64 // of level 0
	size uint64 // of the last checkpoint
}

// next reads again what is next in turn of the tree that r reads, of which the first
// signed leaves were signed. The row of the tree must be locked.
func (t *turn) next(ctx context.Context, tx pgx.Tx, v note.Verifier, h head, signed uint64, r tlog.HashReader) error {
	old := signed / merkle.TileWidth
	if t.tile >= old {
		t.tile = 0
	}
	end := min(t.tile+turnTiles, old)
	if err := auditTiles0(ctx, tx, h.size, t.tile, end); err != nil {
		return err
	}
	last, err := auditCheckpoints(ctx, tx, v, r, h.size, t.size, turnNotes)
	if err != nil {
		return err
	}
	t.tile, t.size = end, last
	return nil
}

// Audit reads the whole public log again and returns an [ErrDamaged] that names the
// first thing that does not follow from the rest: leaves, tiles, head, checkpoints.
// The log does not grow meanwhile.
func Audit(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		h, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		return audit(ctx, tx, h)
	})
}

// audit reads the log with a head again. It must not change in tx.
func audit(ctx context.Context, tx pgx.Tx, h head) error {
	if _, err := loadEdge(ctx, tx, h); err != nil {
		return err
	}
	for from := uint64(0); from < tilesOf(h.size); from += auditTiles {
		if err := auditTiles0(ctx, tx, h.size, from, min(from+auditTiles, tilesOf(h.size))); err != nil {
			return err
		}
	}
	if err := auditPublished(ctx, tx, h); err != nil || h.vkey == "" {
		return err
	}
	v, err := verifier(h.vkey)
	if err != nil {
		return err
	}
	r := hashes(ctx, tx, h.tree())
	for last := uint64(0); ; {
		if last, err = auditCheckpoints(ctx, tx, v, r, h.size, last, auditNotes); err != nil || last == 0 {
			return err
		}
	}
}

// auditPublished returns an [ErrDamaged] unless everything that was published was
// signed, and everything signed has a key.
func auditPublished(ctx context.Context, q querier, h head) error {
	var signed, unsigned bool
	if err := q.QueryRow(ctx, `
		select exists (select from tree_checkpoints),
			exists (select from tree_published p where not exists (select from tree_checkpoints c where c.size = p.size))`).Scan(&signed, &unsigned); err != nil {
		return fmt.Errorf("read the checkpoints: %w", err)
	}
	switch {
	case unsigned:
		return damaged("a checkpoint was published that is not among the signed ones")
	case signed && h.vkey == "":
		return damaged("checkpoints were signed, and the log has no key")
	}
	return nil
}

// tilesOf returns how many tiles of level 0 a tree has, a partial one included.
func tilesOf(size uint64) uint64 { return (size + merkle.TileWidth - 1) / merkle.TileWidth }

// auditTiles0 compares the tiles of level 0 from one index up to another with the
// leaves, and all tiles above them with what is below.
func auditTiles0(ctx context.Context, q querier, size, from, to uint64) error {
	var beyond bool
	if err := q.QueryRow(ctx, `select exists (select from tree_leaves where index >= $1 or index < 0)`, size).Scan(&beyond); err != nil {
		return fmt.Errorf("read leaves: %w", err)
	}
	if beyond {
		return damaged("there are leaves beyond the %d of the tree", size)
	}
	for level := 0; from < to; level++ {
		for index := from; index < to; index++ {
			if err := auditTile(ctx, q, size, merkle.TileID{Level: level, Index: index}); err != nil {
				return err
			}
		}
		// Above are the hashes of full tiles only.
		full := size >> (8 * (level + 1))
		from, to = min(from, full), min(to, full)
		if from < to {
			from, to = from/merkle.TileWidth, (to-1)/merkle.TileWidth+1
		}
	}
	return nil
}

// auditTile compares a tile of a tree with what it is made of: the leaves or the
// tiles below it.
func auditTile(ctx context.Context, q querier, size uint64, id merkle.TileID) error {
	nodes := size >> (8 * id.Level)
	width := min(nodes-id.Index*merkle.TileWidth, merkle.TileWidth)
	stored, err := loadTiles(ctx, q, []merkle.TileID{id})
	if err != nil {
		return err
	}
	hashes := stored[id]
	if uint64(len(hashes)) != width*tlog.HashSize {
		return damaged("%s has %d bytes and not the %d hashes of a tree of %d leaves", id, len(hashes), width, size)
	}
	below, err := hashesBelow(ctx, q, id, width)
	if err != nil {
		return err
	}
	for i, want := range below {
		if !bytes.Equal(want[:], hashes[i*tlog.HashSize:][:tlog.HashSize]) {
			return damaged("hash %d of %s does not follow from what is below it", i, id)
		}
	}
	return nil
}

// hashesBelow returns the first hashes of a tile, made from what is below it.
func hashesBelow(ctx context.Context, q querier, id merkle.TileID, width uint64) ([]domain.Hash, error) {
	below := make([]domain.Hash, 0, width)
	first := id.Index * merkle.TileWidth
	if id.Level == 0 {
		leaves, err := loadRange(ctx, q, first, first+width)
		for _, l := range leaves {
			below = append(below, l.LeafHash())
		}
		return below, err
	}
	ids := make([]merkle.TileID, width)
	for i := range ids {
		ids[i] = merkle.TileID{Level: id.Level - 1, Index: first + uint64(i)}
	}
	tiles, err := loadTiles(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	for _, child := range ids {
		if len(tiles[child]) != merkle.TileWidth*tlog.HashSize {
			return nil, damaged("%s has %d bytes, and is full", child, len(tiles[child]))
		}
		below = append(below, merkle.TileRoot(tiles[child]))
	}
	return below, nil
}

// auditCheckpoints checks limit checkpoints behind the one of size after: that they are
// signed, that their root is that of the tree at their size, and that what was
// published is the same. It returns the size of the last one, 0 if there is none left.
func auditCheckpoints(ctx context.Context, q querier, v note.Verifier, r tlog.HashReader, size, after uint64, limit int) (last uint64, err error) {
	rows, err := q.Query(ctx, `
		select c.size, c.root, c.note, p.note from tree_checkpoints c left join tree_published p using (size)
		where c.size > $1 order by c.size limit $2`, after, limit)
	if err != nil {
		return 0, fmt.Errorf("read the checkpoints: %w", err)
	}
	type row struct {
		size                    uint64
		root, signed, published []byte
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c row, err error) {
		return c, r.Scan(&c.size, &c.root, &c.signed, &c.published)
	})
	if err != nil {
		return 0, fmt.Errorf("read the checkpoints: %w", err)
	}
	for _, c := range list {
		if c.size > size {
			return 0, damaged("%d leaves were signed, and the tree has %d", c.size, size)
		}
		if err := openNote(v, c.signed, c.size, domain.Hash(c.root)); err != nil {
			return 0, err
		}
		if c.published != nil {
			if err := openNote(v, c.published, c.size, domain.Hash(c.root)); err != nil {
				return 0, fmt.Errorf("as published: %w", err)
			}
		}
		root, err := rootAt(r, c.size)
		if err != nil {
			return 0, err
		}
		if root != domain.Hash(c.root) {
			return 0, damaged("the checkpoint of %d leaves has the root %s, and the tree has %s", c.size, domain.Hash(c.root), root)
		}
		last = c.size
	}
	if len(list) < limit {
		return 0, nil
	}
	return last, nil
}
