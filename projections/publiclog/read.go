package publiclog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// A Reader answers from the public log as of the latest published checkpoint: what has
// a leaf but is not covered by a checkpoint yet is not there. Each answer is of one
// snapshot. Methods return [domain.ErrNotFound] as long as nothing is published.
type Reader struct {
	Pool  *pgxpool.Pool
	Cache *Cache // what it need not check again; nil remembers nothing
}

// cache returns the cache of r, or else one for a single answer.
func (r Reader) cache() *Cache {
	if r.Cache == nil {
		return new(Cache)
	}
	return r.Cache
}

// A Head is the latest published checkpoint.
type Head struct {
	Origin string
	Size   uint64
	Root   domain.Hash
	Note   []byte // signed by the log, and by witnesses if there are any
	Key    string // the vkey of the log
}

// Head returns the latest published checkpoint.
func (r Reader) Head(ctx context.Context) (h Head, err error) {
	err = r.cache().scan(&h, r.Pool.QueryRow(ctx, latest))
	return h, err
}

// latest selects the latest published checkpoint.
const latest = `
	select p.size, c.root, p.note, coalesce(h.vkey, '')
	from tree_published p join tree_checkpoints c using (size) cross join tree_head h
	order by p.size desc limit 1`

// A Standing is how far the public log is, whether that is published or not.
type Standing struct {
	Position  uint64 // of the last record of the ledger that was read
	Size      uint64
	Published uint64    // size of the latest published checkpoint; 0 before the first
	Signed    time.Time // when that was signed; zero before the first

	// The last leaf, if there is one: a version of a stream, and its hash.
	Stream  ledger.Stream
	Version uint64
	Hash    domain.Hash
}

// Standing returns how far the public log is.
func (r Reader) Standing(ctx context.Context) (s Standing, err error) {
	var signed *time.Time
	var hash []byte
	err = r.Pool.QueryRow(ctx, `
		select h.position, h.size, coalesce(p.size, 0), p.signed_at, coalesce(l.stream, ''), coalesce(l.version, 0), l.hash
		from tree_head h
		left join (select size, signed_at from tree_published join tree_checkpoints using (size) order by size desc limit 1) p on true
		left join (select stream, version, hash from tree_leaves order by index desc limit 1) l on true`).
		Scan(&s.Position, &s.Size, &s.Published, &signed, &s.Stream, &s.Version, &hash)
	if err != nil {
		return s, fmt.Errorf("read how far the public log is: %w", err)
	}
	if signed != nil {
		s.Signed = signed.UTC()
	}
	if hash != nil {
		s.Hash = domain.Hash(hash)
	}
	return s, nil
}

// A view is the log as of one checkpoint, in one snapshot.
type view struct {
	Head
	q     querier
	cache *Cache
}

// hashes returns a reader of the hashes of the log, for which some tiles were read ahead.
func (v view) hashes(ctx context.Context, ahead map[merkle.TileID][]byte) tlog.HashReader {
	return &treeReader{ctx: ctx, q: v.q, tree: tree(v.Size, v.Root), cache: v.cache, ahead: ahead}
}

// snapshot runs f on the latest published checkpoint. Queries that ahead adds to the batch
// which begins the snapshot are answered before, and cost no way to the server and back
// of their own.
func (r Reader) snapshot(ctx context.Context, f func(view) error, ahead ...func(*pgx.Batch)) (err error) {
	conn, err := r.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Release() // which closes the connection if the transaction did not end
	var b pgx.Batch
	b.Queue(`begin isolation level repeatable read read only`)
	var h Head
	var none error
	cache := r.cache()
	b.Queue(latest).QueryRow(func(row pgx.Row) error {
		none = cache.scan(&h, row)
		return nil
	})
	for _, queue := range ahead {
		queue(&b)
	}
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		_, _ = conn.Exec(ctx, `rollback`) // err says more
		return fmt.Errorf("read the latest checkpoint: %w", err)
	}
	if err = none; err == nil {
		err = f(view{h, conn, cache})
	}
	if _, end := conn.Exec(ctx, `commit`); err == nil && end != nil {
		err = fmt.Errorf("end a snapshot: %w", end)
	}
	return err
}

// noteAt returns the published checkpoint of a size, nil if there is none.
func (v view) noteAt(ctx context.Context, size uint64) (signed []byte, err error) {
	if size == v.Size {
		return v.Note, nil
	}
	var root []byte
	err = v.q.QueryRow(ctx, `select c.root, p.note from tree_published p join tree_checkpoints c using (size) where size = $1`, size).
		Scan(&root, &signed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a checkpoint: %w", err)
	}
	key, err := verifier(v.Key)
	if err != nil {
		return nil, err
	}
	return signed, openNote(key, signed, size, domain.Hash(root))
}

// proven returns leaves that were read, if all of them stand in the tree.
func (v view) proven(ctx context.Context, leaves []Leaf) ([]Leaf, error) {
	if err := inTree(v.hashes(ctx, nil), leaves); err != nil {
		return nil, err
	}
	return leaves, nil
}

// Leaves returns up to limit leaves from an index on, and the checkpoint that covers
// them. There are none at its size and beyond.
func (r Reader) Leaves(ctx context.Context, from uint64, limit int) (leaves []Leaf, h Head, err error) {
	err = r.snapshot(ctx, func(v view) (err error) {
		h = v.Head
		end := min(from+uint64(limit), h.Size) //nolint:gosec // not negative
		if from >= end {
			leaves = []Leaf{}
			return nil
		}
		if leaves, err = loadRange(ctx, v.q, from, end); err != nil {
			return err
		}
		leaves, err = v.proven(ctx, leaves)
		return err
	})
	return leaves, h, err
}

// Leaf returns the leaf with an index, or [domain.ErrNotFound] if the latest published
// checkpoint does not cover it.
func (r Reader) Leaf(ctx context.Context, index uint64) (l Leaf, h Head, err error) {
	leaves, h, err := r.Leaves(ctx, index, 1)
	if err != nil {
		return l, h, err
	}
	if len(leaves) == 0 {
		return l, h, fmt.Errorf("the log has %d records, from 0 on, and no %d: %w", h.Size, index, domain.ErrNotFound)
	}
	return leaves[0], h, nil
}

// Stream returns up to limit leaves of one stream, from a version on. It returns
// [domain.ErrNotFound] for a stream without any: whether it has sealed records, nothing
// tells.
func (r Reader) Stream(ctx context.Context, s ledger.Stream, version uint64, limit int) (leaves []Leaf, h Head, err error) {
	err = r.snapshot(ctx, func(v view) (err error) {
		h = v.Head
		leaves, err = loadLeaves(ctx, v.q, `where stream = $1 and version >= $2 and index < $3 order by version limit $4`,
			string(s), version, h.Size, limit)
		if err != nil {
			return err
		}
		if len(leaves) == 0 {
			var exists bool
			err := v.q.QueryRow(ctx, `select exists (select from tree_leaves where stream = $1 and index < $2)`, string(s), h.Size).Scan(&exists)
			if err == nil && !exists {
				err = fmt.Errorf("the log has no such stream: %w", domain.ErrNotFound)
			}
			return err
		}
		leaves, err = v.proven(ctx, leaves)
		return err
	})
	return leaves, h, err
}

// An Inclusion proves that a leaf stands in the first Size leaves of the log.
type Inclusion struct {
	Leaf Leaf
	Size uint64
	Root domain.Hash // of that many leaves
	Path []domain.Hash
	Note []byte // the published checkpoint of Size, nil if there is none
}

// Inclusion returns the proof that leaf index is one of the first size leaves; a size
// of 0 means all of the latest published checkpoint. It returns [domain.ErrInvalid] if
// it cannot be one of them, and [domain.ErrNotFound] for a size that no published
// checkpoint covers.
func (r Reader) Inclusion(ctx context.Context, index, size uint64) (p Inclusion, h Head, err error) {
	if size > 0 && index >= size {
		return p, h, fmt.Errorf("there is no leaf %d among the first %d: %w", index, size, domain.ErrInvalid)
	}
	var leaves []Leaf
	var tiles map[merkle.TileID][]byte
	var unread error
	ahead := func(b *pgx.Batch) {
		index := min(index, math.MaxInt64) // as the database has it; it is refused below
		b.Queue(`select `+leafColumns+` from tree_leaves where index = $1`, index).Query(func(rows pgx.Rows) (err error) {
			leaves, unread = scanLeaves(rows)
			return nil
		})
		// Those above the leaf and those of the right edge, which lead to the latest
		// checkpoint. What an earlier one needs besides is read when it is asked for.
		b.Queue(`
			select t.level, t.n, t.hashes
			from (select max(size) as size from tree_published) p cross join generate_series(0, 7) l
			cross join unnest(array[$1::bigint >> 8 * (l + 1), p.size >> 8 * (l + 1)]) n
			join tree_tiles t on t.level = l::smallint and t.n = n.n
			where p.size >> 8 * l > 0`, index).Query(func(rows pgx.Rows) error {
			var err error
			tiles, err = scanTiles(rows)
			unread = errors.Join(unread, err)
			return nil
		})
	}
	err = r.snapshot(ctx, func(v view) (err error) {
		h = v.Head
		if p.Size = size; size == 0 {
			p.Size = h.Size
		}
		if p.Size > h.Size || index >= h.Size {
			return fmt.Errorf("the log has %d records so far: %w", h.Size, domain.ErrNotFound)
		}
		switch {
		case unread != nil:
			return unread
		case len(leaves) == 0:
			return damaged("leaf %d is missing", index)
		}
		p.Leaf = leaves[0]
		reader := v.hashes(ctx, tiles)
		if p.Root = h.Root; p.Size < h.Size {
			if p.Root, err = rootAt(reader, p.Size); err != nil {
				return err
			}
		}
		if p.Path, err = inclusion(reader, index, p.Size); err != nil {
			return err
		}
		if err := merkle.VerifyPath(p.Leaf.Hash, index, p.Size, p.Path, p.Root); err != nil {
			return damaged("%w", err)
		}
		p.Note, err = v.noteAt(ctx, p.Size)
		return err
	}, ahead)
	return p, h, err
}

// rootAt returns the root of the first size leaves.
func (v view) rootAt(ctx context.Context, size uint64) (domain.Hash, error) {
	if size == v.Size {
		return v.Root, nil
	}
	return rootAt(v.hashes(ctx, nil), size)
}

// Find returns the record that hash is of, as an entry or as a leaf of the tree; nil if
// the latest published checkpoint covers none, or if nothing is published yet.
func (r Reader) Find(ctx context.Context, hash domain.Hash) (l *Leaf, err error) {
	err = r.snapshot(ctx, func(v view) error {
		found, err := loadLeaves(ctx, v.q,
			`where (hash = $1 or sha256('\x00'::bytea || hash) = $1) and index < $2 order by index limit 1`, hash[:], v.Size)
		if err != nil || len(found) == 0 {
			return err
		}
		if _, err := v.proven(ctx, found); err != nil {
			return err
		}
		l = &found[0]
		return nil
	})
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	return l, err
}

// IsRoot reports whether hash is the root of a published checkpoint.
func (r Reader) IsRoot(ctx context.Context, hash domain.Hash) (is bool, err error) {
	err = r.Pool.QueryRow(ctx, `
		select exists (select from tree_published p join tree_checkpoints c using (size) where c.root = $1)`, hash[:]).Scan(&is)
	return is, err
}

// A Consistency proves that the first From leaves of the log are the first of To.
type Consistency struct {
	From, To         uint64
	FromRoot, ToRoot domain.Hash
	Path             []domain.Hash
	Note             []byte // the published checkpoint of To, nil if there is none
}

// Consistency returns the proof that the log of to leaves continues that of from; a
// to of 0 means all of the latest published checkpoint. It returns [domain.ErrInvalid]
// if from is the larger one, and [domain.ErrNotFound] for a size that no published
// checkpoint covers.
func (r Reader) Consistency(ctx context.Context, from, to uint64) (p Consistency, h Head, err error) {
	if to > 0 && from > to {
		return p, h, fmt.Errorf("a log of %d records does not continue one of %d: %w", to, from, domain.ErrInvalid)
	}
	err = r.snapshot(ctx, func(v view) (err error) {
		h = v.Head
		if p.From, p.To = from, to; to == 0 {
			p.To = h.Size
		}
		if p.From > h.Size || p.To > h.Size {
			return fmt.Errorf("the log has %d records so far: %w", h.Size, domain.ErrNotFound)
		}
		if p.FromRoot, err = v.rootAt(ctx, p.From); err != nil {
			return err
		}
		if p.ToRoot, err = v.rootAt(ctx, p.To); err != nil {
			return err
		}
		if p.Path, err = consistency(v.hashes(ctx, nil), p.From, p.To); err != nil {
			return err
		}
		p.Note, err = v.noteAt(ctx, p.To)
		return err
	})
	return p, h, err
}

// Tile returns the bytes of a tile as clients fetch them. It returns
// [domain.ErrNotFound] for a tile that no published checkpoint needs: a full one beyond
// the latest of them, or a partial one that is the edge of none.
func (r Reader) Tile(ctx context.Context, t Tile) (data []byte, err error) {
	missing := fmt.Errorf("no checkpoint needs this tile: %w", domain.ErrNotFound)
	nodes, ok := t.nodes()
	if !ok {
		return nil, missing
	}
	err = r.snapshot(ctx, func(v view) error {
		needed := nodes <= v.Size>>(8*t.Level)
		if needed && t.Width < 1<<8 {
			err := v.q.QueryRow(ctx, `select exists (select from tree_published where size >= $1 and size < $2)`,
				nodes<<(8*t.Level), (nodes+1)<<(8*t.Level)).Scan(&needed)
			if err != nil {
				return fmt.Errorf("read the checkpoints: %w", err)
			}
		}
		if !needed {
			return missing
		}
		if t.Entries {
			data, err = v.entries(ctx, nodes-uint64(t.Width), nodes) //nolint:gosec // at most 256
			return err
		}
		stored, err := loadTiles(ctx, v.q, []merkle.TileID{t.TileID})
		if err != nil {
			return err
		}
		size := 32 * t.Width
		if len(stored[t.TileID]) < size {
			return damaged("%s has %d bytes, and must have %d", t.TileID, len(stored[t.TileID]), size)
		}
		data = stored[t.TileID][:size]
		return nil
	})
	return data, err
}

// entries returns the bundle of the entries from one index up to another.
func (v view) entries(ctx context.Context, from, to uint64) (bundle []byte, err error) {
	leaves, err := loadRange(ctx, v.q, from, to)
	if err != nil {
		return nil, err
	}
	if leaves, err = v.proven(ctx, leaves); err != nil {
		return nil, err
	}
	for _, l := range leaves {
		bundle = appendEntry(bundle, l.Hash)
	}
	return bundle, nil
}
