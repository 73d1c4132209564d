package publiclog

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A Comparison holds the leaves of the tree, and what it remembers of streams, against
// the ledger, while somebody else reads that. It begins with a view of the tree, and
// tells nothing of what enters the tree later. [Audit] looks at all else.
type Comparison struct {
	pool    *pgxpool.Pool
	head    head
	streams map[ledger.Stream]tip
	next    uint64 // leaf
	page    []storedLeaf
}

// A storedLeaf is a row of the table, as it stands there.
type storedLeaf struct {
	index, version     int64
	stream             string
	record, prev, hash []byte
}

// Compare begins a comparison with the tree as it is now.
func Compare(ctx context.Context, pool *pgxpool.Pool) (*Comparison, error) {
	c := &Comparison{pool: pool, streams: make(map[ledger.Stream]tip)}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if c.head, err = lock(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `select stream, version, hash from tree_streams`)
		if err != nil {
			return err
		}
		var name string
		var version int64
		var hash []byte
		_, err = pgx.ForEachRow(rows, []any{&name, &version, &hash}, func() error {
			if version <= 0 || len(hash) != len(domain.Hash{}) {
				return damaged("the end of stream %s is none", name)
			}
			c.streams[ledger.Stream(name)] = tip{uint64(version), domain.Hash(hash)}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return c, nil
}

// Add compares the next record of the ledger, behind one with hash prev in its stream.
func (c *Comparison) Add(ctx context.Context, r *ledger.Record, prev domain.Hash, v domain.Visibility) error {
	if r.Position > c.head.position {
		return nil
	}
	if end := c.streams[r.Stream]; r.Version > end.version {
		return damaged("the tree remembers %d records of %s, and has read version %d", end.version, r.Stream, r.Version)
	} else if r.Version == end.version {
		if r.Hash != end.hash {
			return damaged("the tree remembers another version %d of %s", r.Version, r.Stream)
		}
		delete(c.streams, r.Stream)
	}
	if v != domain.Public {
		return nil
	}
	l, err := c.leaf(ctx)
	if err != nil {
		return err
	}
	if l == nil || l.index != int64(c.next) || l.stream != string(r.Stream) || l.version != int64(r.Version) || //nolint:gosec // far below 2^63
		!bytes.Equal(l.record, r.AppendCanonical(nil)) || !bytes.Equal(l.prev, prev[:]) || !bytes.Equal(l.hash, r.Hash[:]) {
		return damaged("leaf %d is not the record at position %d, version %d of %s", c.next, r.Position, r.Version, r.Stream)
	}
	c.next++
	return nil
}

// leaf returns the row of the next leaf, nil if there is none.
func (c *Comparison) leaf(ctx context.Context) (*storedLeaf, error) {
	if len(c.page) == 0 {
		rows, err := c.pool.Query(ctx, `
			select index, version, stream, record, prev, hash from tree_leaves
			where index >= $1 and index < $2 order by index limit 500`, c.next, c.head.size)
		if err != nil {
			return nil, fmt.Errorf("read leaves: %w", err)
		}
		c.page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l storedLeaf, err error) {
			return l, row.Scan(&l.index, &l.version, &l.stream, &l.record, &l.prev, &l.hash)
		})
		if err != nil {
			return nil, fmt.Errorf("read leaves: %w", err)
		}
		if len(c.page) == 0 {
			return nil, nil //nolint:nilnil // no leaf is an answer
		}
	}
	l := &c.page[0]
	c.page = c.page[1:]
	return l, nil
}

// End ends the comparison with a ledger whose last record has the given position.
func (c *Comparison) End(position uint64) error {
	switch {
	case c.head.position > position:
		return damaged("the tree has read up to position %d, and the ledger ends at %d", c.head.position, position)
	case c.next != c.head.size:
		return damaged("the tree has %d leaves, and the ledger %d public records up to there", c.head.size, c.next)
	}
	var left []ledger.Stream
	for s := range c.streams {
		left = append(left, s)
	}
	if len(left) > 0 {
		return damaged("the tree remembers more of stream %s than the ledger has", slices.Min(left))
	}
	return nil
}
