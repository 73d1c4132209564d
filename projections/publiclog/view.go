package publiclog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// A View is the log as of the latest published checkpoint, for whoever needs many of
// its records with their proofs, all of one snapshot.
type View struct{ view }

// View calls f with the log as it is now. What f is given is good until it returns. View
// returns [domain.ErrNotFound] as long as nothing is published.
func (r Reader) View(ctx context.Context, f func(*View) error) error {
	return r.snapshot(ctx, func(v view) error { return f(&View{v}) })
}

// A Run is some leaves of a stream: up to Limit of them, from a version on.
type Run struct {
	Stream  ledger.Stream
	Version uint64
	Limit   int
}

// Runs returns the leaves of each of some runs, which are none where there are none. They
// are read at once.
func (v *View) Runs(ctx context.Context, runs ...Run) ([][]Leaf, error) {
	streams, versions, limits := make([]string, len(runs)), make([]uint64, len(runs)), make([]int, len(runs))
	for i, r := range runs {
		streams[i], versions[i], limits[i] = string(r.Stream), r.Version, r.Limit
	}
	rows, err := v.q.Query(ctx, `
		select n - 1, `+leafColumns+`
		from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as run (stream, since, most, n) cross join lateral (
			select * from tree_leaves l where l.stream = run.stream and version >= since and index < $4 order by version limit most) l
		order by n, version`, streams, versions, limits, v.Size)
	if err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	found := make([][]Leaf, len(runs))
	var all []Leaf
	var n int
	var l Leaf
	var prev, hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&n, &l.Index, &l.Record, &prev, &hash}, func() error {
		one := Leaf{l.Index, l.Record, domain.Hash(prev), domain.Hash(hash)}
		l.Record = nil // else the next row is read into it
		found[n], all = append(found[n], one), append(all, one)
		return one.check()
	}); err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	return found, inTree(v.hashes(ctx, nil), all)
}

// Stream returns up to limit leaves of a stream, from a version on, none if there are
// none.
func (v *View) Stream(ctx context.Context, s ledger.Stream, version uint64, limit int) ([]Leaf, error) {
	found, err := v.Runs(ctx, Run{s, version, limit})
	if err != nil {
		return nil, err
	}
	return found[0], nil
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
// indexes, which ascend. Those among known, by index, were read from this view before, and
// are not read again.
func (v *View) Proven(ctx context.Context, indexes []uint64, known map[uint64]Leaf) iter.Seq2[Inclusion, error] {
	return func(yield func(Inclusion, error) bool) {
		r := v.hashes(ctx, nil)
		for page := range slices.Chunk(indexes, provenPage) {
			leaves, err := v.leaves(ctx, page, known)
			if err != nil {
				yield(Inclusion{}, err)
				return
			}
			proofs, err := v.prove(r, leaves)
			if err != nil {
				yield(Inclusion{}, err)
				return
			}
			for _, p := range proofs {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// leaves returns the leaves with some indexes, in order.
func (v *View) leaves(ctx context.Context, indexes []uint64, known map[uint64]Leaf) ([]Leaf, error) {
	leaves := make([]Leaf, 0, len(indexes))
	var missing []uint64
	for _, index := range indexes {
		if l, ok := known[index]; ok {
			leaves = append(leaves, l)
		} else {
			missing = append(missing, index)
		}
	}
	if len(missing) > 0 {
		read, err := loadLeaves(ctx, v.q, `where index = any($1) order by index`, missing)
		if err == nil && len(read) != len(missing) {
			err = damaged("of %d leaves behind %d some are missing", len(missing), missing[0])
		}
		if err != nil {
			return nil, err
		}
		leaves = append(leaves, read...)
		slices.SortFunc(leaves, func(a, b Leaf) int { return cmp.Compare(a.Index, b.Index) })
	}
	return leaves, nil
}

// prove returns the proofs of leaves, for which the tree is read at once.
func (v *View) prove(r tlog.HashReader, leaves []Leaf) ([]Inclusion, error) {
	// What package tlog asks for, it asks for at once, and before it looks at any of it.
	var wanted []int64
	for _, l := range leaves {
		_, _ = inclusion(tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			wanted = append(wanted, indexes...)
			return make([]tlog.Hash, len(indexes)), nil
		}), l.Index, v.Size)
	}
	read, err := r.ReadHashes(wanted)
	if err != nil {
		return nil, err
	}
	proofs := make([]Inclusion, len(leaves))
	for i, l := range leaves {
		p := Inclusion{Leaf: l, Size: v.Size, Root: v.Root, Note: v.Note}
		if p.Path, err = inclusion(tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			own := read[:len(indexes)]
			read = read[len(indexes):]
			return own, nil
		}), l.Index, v.Size); err != nil {
			return nil, err
		}
		if err := merkle.VerifyPath(l.Hash, l.Index, v.Size, p.Path, v.Root); err != nil {
			return nil, damaged("%w", err)
		}
		proofs[i] = p
	}
	return proofs, nil
}
