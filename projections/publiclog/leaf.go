package publiclog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// A Leaf is a public record at its place in the log.
type Leaf struct {
	Index  uint64
	Record []byte      // its canonical form, as hashed
	Prev   domain.Hash // of the record before it in its stream, which may be a sealed one
	Hash   domain.Hash // the entry of the leaf
}

// LeafHash returns the hash that stands in the tree.
func (l Leaf) LeafHash() domain.Hash { return merkle.LeafHash(l.Hash[:]) }

// check returns an [ErrDamaged] if the leaf contradicts itself.
func (l Leaf) check() error {
	if hash := ledger.HashOf(l.Record, l.Prev); hash != l.Hash {
		return damaged("the record of leaf %d has the hash %s, and %s is stored", l.Index, hash, l.Hash)
	}
	return nil
}

const leafColumns = `index, record, prev, hash`

func scanLeaf(row pgx.CollectableRow) (l Leaf, err error) {
	var prev, hash []byte
	if err := row.Scan(&l.Index, &l.Record, &prev, &hash); err != nil {
		return l, err
	}
	l.Prev, l.Hash = domain.Hash(prev), domain.Hash(hash)
	return l, nil
}

// loadLeaves returns the leaves of a query, each of which agrees with itself.
func loadLeaves(ctx context.Context, q querier, sql string, args ...any) ([]Leaf, error) {
	rows, err := q.Query(ctx, `select `+leafColumns+` from tree_leaves `+sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	return scanLeaves(rows)
}

// scanLeaves reads rows of leaves, each of which agrees with itself.
func scanLeaves(rows pgx.Rows) ([]Leaf, error) {
	leaves, err := pgx.AppendRows([]Leaf{}, rows, scanLeaf)
	if err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	var errs []error
	for _, l := range leaves {
		if err := l.check(); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return leaves, errors.Join(errs...)
}

func loadLeaf(ctx context.Context, q querier, index uint64) (Leaf, error) {
	leaves, err := loadLeaves(ctx, q, `where index = $1`, index)
	switch {
	case err != nil:
		return Leaf{}, err
	case len(leaves) == 0:
		return Leaf{}, damaged("leaf %d is missing", index)
	}
	return leaves[0], nil
}

// loadRange returns the leaves from one index up to another, all of them.
func loadRange(ctx context.Context, q querier, from, to uint64) ([]Leaf, error) {
	leaves, err := loadLeaves(ctx, q, `where index >= $1 and index < $2 order by index`, from, to)
	if err != nil {
		return nil, err
	}
	for i := range leaves {
		if leaves[i].Index != from+uint64(i) {
			return nil, damaged("leaf %d is missing", from+uint64(i))
		}
	}
	if from+uint64(len(leaves)) < to {
		return nil, damaged("leaf %d is missing", from+uint64(len(leaves)))
	}
	return leaves, nil
}

// inTree returns an [ErrDamaged] unless all leaves stand in the tree that r reads.
func inTree(r tlog.HashReader, leaves []Leaf) error {
	if len(leaves) == 0 {
		return nil
	}
	indexes := make([]int64, len(leaves))
	for i, l := range leaves {
		indexes[i] = tlog.StoredHashIndex(0, int64(l.Index)) //nolint:gosec // within the tree
	}
	stored, err := r.ReadHashes(indexes)
	if err != nil {
		return err
	}
	for i, l := range leaves {
		if domain.Hash(stored[i]) != l.LeafHash() {
			return damaged("leaf %d is not the one in the tree", l.Index)
		}
	}
	return nil
}
