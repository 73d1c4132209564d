package publiclog

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// A View is the log as of the latest published checkpoint, for whoever needs many of
// its records with their proofs, all of one snapshot.
type View struct {
	view

	tiles *tileReader
}

// View calls f with the log as it is now. What f is given is good until it returns. View
// returns [domain.ErrNotFound] as long as nothing is published.
func (r Reader) View(ctx context.Context, f func(*View) error) error {
	return r.snapshot(ctx, func(v view) error {
		return f(&View{v, &tileReader{ctx: ctx, q: v.q}})
	})
}

// Stream returns up to limit leaves of a stream, from a version on, none if there are
// none.
func (v *View) Stream(ctx context.Context, s ledger.Stream, version uint64, limit int) ([]Leaf, error) {
	leaves, err := loadLeaves(ctx, v.q, `where stream = $1 and version >= $2 and index < $3 order by version limit $4`, string(s), version, v.Size, limit)
	if err != nil {
		return nil, err
	}
	return leaves, inTree(v.tiles.hashes(tree(v.Size, v.Root)), leaves)
}

// Indexes returns where the leaves of each of some streams are, in ascending order.
func (v *View) Indexes(ctx context.Context, streams []ledger.Stream) (map[ledger.Stream][]uint64, error) {
	names := make([]string, len(streams))
	for i, s := range streams {
		names[i] = string(s)
	}
	rows, err := v.q.Query(ctx, `select stream, index from tree_leaves where stream = any($1) and index < $2 order by index`, names, v.Size)
	if err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	found := make(map[ledger.Stream][]uint64, len(streams))
	var s ledger.Stream
	var index uint64
	if _, err := pgx.ForEachRow(rows, []any{&s, &index}, func() error {
		found[s] = append(found[s], index)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	return found, nil
}

// provenPage is how many leaves are read at a time.
const provenPage = 200

// Proven yields leaves with the proofs that they are in the log, in the order of
// indexes, which ascend.
func (v *View) Proven(ctx context.Context, indexes []uint64) iter.Seq2[Inclusion, error] {
	return func(yield func(Inclusion, error) bool) {
		r := v.tiles.hashes(tree(v.Size, v.Root))
		for page := range slices.Chunk(indexes, provenPage) {
			leaves, err := loadLeaves(ctx, v.q, `where index = any($1) order by index`, page)
			if err == nil && len(leaves) != len(page) {
				err = damaged("of %d leaves behind %d some are missing", len(page), page[0])
			}
			if err != nil {
				yield(Inclusion{}, err)
				return
			}
			for _, l := range leaves {
				p, err := v.prove(r, l)
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

func (v *View) prove(r tlog.HashReader, l Leaf) (p Inclusion, err error) {
	p = Inclusion{Leaf: l, Size: v.Size, Root: v.Root, Note: v.Note}
	if p.Path, err = inclusion(r, l.Index, v.Size); err != nil {
		return p, err
	}
	if err := merkle.VerifyPath(l.Hash, l.Index, v.Size, p.Path, v.Root); err != nil {
		return p, damaged("%w", err)
	}
	return p, nil
}
