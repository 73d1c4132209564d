// Package publiclog is the public log: a Merkle tree over all public records of the
// ledger, that anybody can check without trusting this service or its database.
//
// # The tree
//
// Each public record gets the next leaf index, in the order of the ledger. The entry
// of a leaf is the 32-byte hash of its record, which covers the record and all before
// it in its stream; the tree is that of RFC 6962 (see package domain/merkle). Sealed
// records have no leaf and leave no trace in any size or hash until an event opens
// them.
//
// # What is signed
//
// [Integrator] reads the whole ledger and hashes each stored record again, sealed or
// public, behind the one before it in its stream, before anything enters the tree: a
// bit that was flipped in the database is never signed. [Publisher] reads the tree
// back before it signs a checkpoint of it, keeps the signed note before anybody is
// shown it, and never signs two roots of one size, nor a smaller size. Tiles, tree
// head and leaves change in one transaction, so all of this may be killed at any
// moment and goes on where it was.
//
// # What is shown
//
// [Reader] answers at or below the latest published checkpoint, so all that it shows
// can be proven. It stops with [ErrDamaged] rather than show what contradicts the
// tree. The tiles are those of C2SP tlog-tiles.
package publiclog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// ErrDamaged means that the database holds what this package cannot have left
// behind. The error that wraps it says where.
var ErrDamaged = fmt.Errorf("the public log is %w", ledger.ErrDamaged)

// damaged returns an [ErrDamaged].
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// A querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A head is the row of the tree: how far the ledger has been read, and what came of
// it.
type head struct {
	vkey     string // "" as long as no key has claimed the log
	position uint64
	size     uint64
	root     domain.Hash
}

func (h head) tree() tlog.Tree { return tree(h.size, h.root) }

func tree(size uint64, root domain.Hash) tlog.Tree {
	return tlog.Tree{N: int64(size), Hash: tlog.Hash(root)} //nolint:gosec // far below 2^62
}

// lock reads the row of the tree, which then stays with tx until it ends.
func lock(ctx context.Context, tx pgx.Tx) (h head, err error) {
	return readHead(ctx, tx, ` for update`)
}

func readHead(ctx context.Context, tx pgx.Tx, locking string) (h head, err error) {
	var root []byte
	err = tx.QueryRow(ctx, `select coalesce(vkey, ''), position, size, root from tree_head`+locking).
		Scan(&h.vkey, &h.position, &h.size, &root)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return h, damaged("the head of the tree is missing")
	case err != nil:
		return h, fmt.Errorf("read the head of the tree: %w", err)
	}
	h.root = domain.Hash(root) // 32 bytes by a constraint of the table, like all hashes
	return h, nil
}

// loadEdge returns the right edge of the tree, as its tiles say, if they say what
// the head does.
func loadEdge(ctx context.Context, q querier, h head) (*merkle.Edge, error) {
	ids, _ := merkle.EdgeTiles(h.size)
	stored, err := loadTiles(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	tiles := make([]merkle.Tile, 0, len(stored))
	for id, hashes := range stored {
		tiles = append(tiles, merkle.Tile{TileID: id, Hashes: hashes})
	}
	edge, err := merkle.ResumeEdge(h.size, tiles)
	if err != nil {
		return nil, damaged("%w", err)
	}
	if edge.Root() == h.root {
		return edge, nil
	}
	// Which of them is wrong, the root does not tell.
	for _, id := range ids {
		if err := auditTile(ctx, q, h.size, id); err != nil {
			return nil, err
		}
	}
	return nil, damaged("the root of %d leaves in the head of the tree is not that of its tiles", h.size)
}

// loadTiles returns the tiles of ids that are stored.
func loadTiles(ctx context.Context, q querier, ids []merkle.TileID) (map[merkle.TileID][]byte, error) {
	levels, indexes := make([]int16, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		levels[i], indexes[i] = int16(id.Level), int64(id.Index) //nolint:gosec // levels are below 8, and no log has 2^63 tiles
	}
	rows, err := q.Query(ctx, `
		select level, n, hashes from tree_tiles join unnest($1::smallint[], $2::bigint[]) as wanted (level, n) using (level, n)`,
		levels, indexes)
	if err != nil {
		return nil, fmt.Errorf("read tiles: %w", err)
	}
	return scanTiles(rows)
}

func scanTiles(rows pgx.Rows) (map[merkle.TileID][]byte, error) {
	tiles := make(map[merkle.TileID][]byte)
	var id merkle.TileID
	var hashes []byte
	if _, err := pgx.ForEachRow(rows, []any{&id.Level, &id.Index, &hashes}, func() error {
		tiles[id] = hashes
		hashes = nil // else the next row is read into it
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read tiles: %w", err)
	}
	return tiles, nil
}

// rootAt returns the root of the first size leaves of the tree that r reads.
func rootAt(r tlog.HashReader, size uint64) (domain.Hash, error) {
	if size == 0 {
		return merkle.Root(nil), nil
	}
	root, err := tlog.TreeHash(int64(size), r) //nolint:gosec // a size within the tree
	return domain.Hash(root), err
}

// inclusion returns the path of a leaf to the root of the first size leaves.
func inclusion(r tlog.HashReader, index, size uint64) ([]domain.Hash, error) {
	proof, err := tlog.ProveRecord(int64(size), int64(index), r) //nolint:gosec // within the tree
	return toHashes(proof), err
}

// consistency returns the proof that the first from leaves are those of the tree of
// to leaves. It is empty for the empty tree, which begins every other one.
func consistency(r tlog.HashReader, from, to uint64) ([]domain.Hash, error) {
	if from == 0 || from == to {
		return []domain.Hash{}, nil
	}
	proof, err := tlog.ProveTree(int64(to), int64(from), r) //nolint:gosec // within the tree
	return toHashes(proof), err
}

func toHashes(proof []tlog.Hash) []domain.Hash {
	list := make([]domain.Hash, len(proof))
	for i := range proof {
		list[i] = domain.Hash(proof[i])
	}
	return list
}

// verifier reads the vkey of a log.
func verifier(vkey string) (note.Verifier, error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, damaged("the key of the log: %w", err)
	}
	return v, nil
}

// Claim makes the log that of a key, unless it is that of one already, and returns
// the vkey of the log, or "" if it still has none. choose is called for a log without
// a key, and at most once; no other process can choose another meanwhile. If it
// returns "" the log stays without one.
func Claim(ctx context.Context, pool *pgxpool.Pool, choose func() (vkey string, err error)) (vkey string, err error) {
	const known = `select coalesce(vkey, '') from tree_head`
	if err := pool.QueryRow(ctx, known).Scan(&vkey); err != nil {
		return "", fmt.Errorf("read the key of the public log: %w", err)
	}
	if vkey == "" {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, known+` for update`).Scan(&vkey); err != nil || vkey != "" {
				return err
			}
			if vkey, err = choose(); vkey == "" || err != nil {
				return err
			}
			if _, err := note.NewVerifier(vkey); err != nil {
				return fmt.Errorf("%w: %w", err, domain.ErrInvalid)
			}
			_, err := tx.Exec(ctx, `update tree_head set vkey = $1`, vkey)
			return err
		})
	}
	if err == nil && vkey != "" {
		_, err = verifier(vkey)
	}
	if err != nil {
		return "", fmt.Errorf("the key of the public log: %w", err)
	}
	return vkey, nil
}

// openNote returns an [ErrDamaged] unless a note of the database is signed by the log
// and says what the row beside it says.
func openNote(v note.Verifier, signed []byte, size uint64, root domain.Hash) error {
	c, _, err := checkpoint.Policy{Log: v}.Open(signed)
	switch {
	case err != nil:
		return damaged("the checkpoint of %d leaves: %w", size, err)
	case c.Size != size || c.Root != root:
		return damaged("the checkpoint of %d leaves is signed for %d leaves with root %s, and stored with root %s",
			size, c.Size, c.Root, root)
	}
	return nil
}
