package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	rollup "github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// Batches is every commit in the order of the log, the batches that they were rolled
// into, and what became of these on a chain.
//
// A batch takes the commits that no batch before it took, from the first on, so a
// number for each commit says where it is. Its tree is kept level by level, in one
// row each: a path is a few bytes out of each level, which are read without the
// rest.
var Batches = Projection{
	Name: "batches", Version: 1, Visibility: domain.Public,
	Tables: `
		create table batch_commits (
			n        bigint      primary key, -- from 0, without gaps
			commit   bytea       not null unique,
			stream   text        not null, -- of the record that holds it
			version  bigint      not null,
			recorded timestamptz not null
		);
		create table batches (
			batch     bigint      primary key,
			first     bigint      not null unique, -- n of its first commit
			count     bigint      not null,
			sealed_at timestamptz not null,
			sealed    bytea       not null, -- the events
			submitted bytea,
			attested  bytea,
			final     boolean     not null default false
		);
		create table batch_levels (
			batch  bigint   not null,
			level  smallint not null, -- 0 is that of the leaves
			hashes bytea    not null,
			primary key (batch, level)
		);
		alter table batch_levels alter column hashes set storage external`,
	Apply: applyBatches,
}

func applyBatches(ctx context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case shop.Committed:
		return addCommit(tx, r, e.Commit)
	case seal.Sealed:
		return addCommit(tx, r, e.Root)
	case rollup.Sealed:
		return sealBatch(ctx, tx, r, e)
	case rollup.Submitted:
		return setBatch(ctx, tx, `update batches set submitted = $2 where batch = $1`, e.Batch, e)
	case rollup.Attested:
		return setBatch(ctx, tx, `update batches set attested = $2 where batch = $1`, e.Batch, e)
	case rollup.Finalised:
		return tx.Exec(ctx, `update batches set final = true where batch = $1`, e.Batch)
	case rollup.Dropped:
		return tx.Exec(ctx, `update batches set submitted = null, attested = null where batch = $1`, e.Batch)
	}
	return nil
}

// addCommit gives a commit the next number. One that is there already is proven by
// where it stands.
func addCommit(tx Tx, r ledger.Record, commit domain.Hash) error {
	return tx.Do(numberCommit, commit[:], string(r.Stream), r.Version, r.Time)
}

var numberCommit = &Change{Table: "batch_commits", Gathers: true, Copies: []string{"commit", "stream", "version", "recorded"}, Numbers: "n", SQL: `
	insert into batch_commits (n, commit, stream, version, recorded)
	select coalesce((select max(n) from batch_commits), -1) + row_number() over (order by v.place), v.commit, v.stream, v.version, v.recorded
	from (
		select distinct on (commit) *
		from unnest($1::bytea[], $2::text[], $3::bigint[], $4::timestamptz[])
			with ordinality as v (commit, stream, version, recorded, place)
		order by commit, place
	) v
	where not exists (select from batch_commits b where b.commit = v.commit)`}

// sealBatch builds the tree of a batch, which must have the root that is on
// record.
func sealBatch(ctx context.Context, tx Tx, r ledger.Record, e rollup.Sealed) error {
	data, err := domain.Encode(e)
	if err != nil {
		return err
	}
	var first int64
	var raw [][]byte
	if err := tx.QueryRow(ctx, `
		with next as (select coalesce(max(first + count), 0) as n from batches)
		select next.n, coalesce((select array_agg(c.commit order by c.n) from batch_commits c where c.n >= next.n and c.n < next.n + $1), '{}')
		from next`, e.Count).Scan(&first, &raw); err != nil {
		return fmt.Errorf("read the commits of batch %d: %w", e.Batch, err)
	}
	if len(raw) != int(e.Count) {
		return fmt.Errorf("batch %d has %d commits and %d are open: %w", e.Batch, e.Count, len(raw), domain.ErrInvalid)
	}
	commits := make([]domain.Hash, len(raw))
	for i := range raw {
		commits[i] = domain.Hash(raw[i])
	}
	tree, err := merkle.NewBatchTree(e.ID(), commits)
	if err != nil {
		return err
	}
	if root := tree.Root(); root != e.Root {
		return fmt.Errorf("the commits of batch %d have the root %s and not %s: %w", e.Batch, root, e.Root, domain.ErrInvalid)
	}
	for level, hashes := range tree.Levels() {
		if err := tx.Do(addLevel, e.Batch, level, hashes); err != nil {
			return err
		}
	}
	return tx.Do(addBatch, e.Batch, first, e.Count, r.Time, data)
}

var (
	addLevel = &Change{Table: "batch_levels", Key: 2, SQL: `
		insert into batch_levels (batch, level, hashes) select * from unnest($1::bigint[], $2::smallint[], $3::bytea[])`}
	addBatch = &Change{Table: "batches", Key: 1, SQL: `
		insert into batches (batch, first, count, sealed_at, sealed)
		select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::bytea[])`}
)

func setBatch(ctx context.Context, tx Tx, sql string, n uint64, e domain.Event) error {
	data, err := domain.Encode(e)
	if err != nil {
		return err
	}
	return tx.Exec(ctx, sql, n, data)
}

// A Batch is where a batch stands.
type Batch struct {
	rollup.Sealed
	SealedAt  time.Time
	Submitted *rollup.Submitted // the latest since it was last dropped; nil if there is none
	Attested  *rollup.Attested  // nil if it is not
	Final     bool
}

const batchColumns = `b.sealed_at, b.sealed, b.submitted, b.attested, b.final`

// Batches returns batches, the latest first, from those below the number before,
// or from the very latest if that is 0.
func (r Reader) Batches(ctx context.Context, before uint64, limit int) ([]Batch, error) {
	return collect(ctx, r.Pool, scanBatch, `
		select `+batchColumns+` from batches b where $1::bigint = 0 or batch < $1 order by batch desc limit $2`, before, limit)
}

// Batch returns a batch; one that is not sealed is a [domain.ErrNotFound].
func (r Reader) Batch(ctx context.Context, n uint64) (Batch, error) {
	return one(ctx, r.Pool, scanBatch, fmt.Sprintf("batch %d", n), `select `+batchColumns+` from batches b where batch = $1`, n)
}

// BatchNumbers returns the number of the first batch that is not final, 0 if all
// are, and of the last batch, 0 if there is none.
func (r Reader) BatchNumbers(ctx context.Context) (open, last uint64, err error) {
	err = r.Pool.QueryRow(ctx, `
		select coalesce(min(batch) filter (where not final), 0), coalesce(max(batch), 0) from batches`).Scan(&open, &last)
	return open, last, err
}

func scanBatch(row pgx.CollectableRow) (b Batch, err error) {
	var sealed, submitted, attested []byte
	if err = row.Scan(&b.SealedAt, &sealed, &submitted, &attested, &b.Final); err != nil {
		return b, err
	}
	return b, b.decode(sealed, submitted, attested)
}

func (b *Batch) decode(sealed, submitted, attested []byte) (err error) {
	b.SealedAt = b.SealedAt.UTC()
	if b.Submitted, err = decode[rollup.Submitted](submitted); err != nil {
		return err
	}
	if b.Attested, err = decode[rollup.Attested](attested); err != nil {
		return err
	}
	return domain.Unmarshal(sealed, &b.Sealed)
}

// A CommitProof proves that a commit is in a batch. Batch is nil, and the rest
// without meaning, while the commit waits for one.
type CommitProof struct {
	Batch *Batch
	Index uint64 // among the commits of the batch
	Path  []domain.Hash
}

// CommitProof returns where a commit is, with its path. A commit that was never
// made is a [domain.ErrNotFound].
func (r Reader) CommitProof(ctx context.Context, commit domain.Hash) (CommitProof, error) {
	proofs, err := r.CommitProofs(ctx, []domain.Hash{commit})
	if err != nil {
		return CommitProof{}, err
	}
	p, ok := proofs[commit]
	if !ok {
		return p, fmt.Errorf("there is no commit %s: %w", commit, domain.ErrNotFound)
	}
	return p, nil
}

// CommitProofs does what [Reader.CommitProof] does for many commits at once. Those that
// were never made are not in what it returns.
func (r Reader) CommitProofs(ctx context.Context, commits []domain.Hash) (map[domain.Hash]CommitProof, error) {
	rows, err := r.Pool.Query(ctx, `
		select c.commit, c.n - b.first, b.batch, `+batchColumns+`, array(
			select substring(l.hashes from (32 * (((c.n - b.first) >> l.level) # 1) + 1)::int for 32)
			from batch_levels l where l.batch = b.batch and length(l.hashes) > 32 order by l.level)
		from batch_commits c left join lateral (
			select * from batches where first <= c.n order by first desc limit 1) b on c.n < b.first + b.count
		where c.commit = any($1)`, rawHashes(commits))
	if err != nil {
		return nil, err
	}
	var (
		commit                      []byte
		index, number               *int64
		final                       *bool
		sealedAt                    *time.Time
		sealed, submitted, attested []byte
		path                        [][]byte
	)
	proofs, batches := make(map[domain.Hash]CommitProof, len(commits)), make(map[int64]*Batch)
	_, err = pgx.ForEachRow(rows, []any{&commit, &index, &number, &sealedAt, &sealed, &submitted, &attested, &final, &path}, func() error {
		var p CommitProof
		if index != nil {
			b := batches[*number]
			if b == nil {
				b = &Batch{SealedAt: *sealedAt, Final: *final}
				if err := b.decode(sealed, submitted, attested); err != nil {
					return err
				}
				batches[*number] = b
			}
			p.Batch, p.Index = b, uint64(*index) //nolint:gosec // not negative
			for _, hash := range path {
				p.Path = append(p.Path, domain.Hash(hash))
			}
		}
		proofs[domain.Hash(commit)] = p
		return nil
	})
	return proofs, err
}

// rawHashes are hashes as a query takes them.
func rawHashes(hashes []domain.Hash) [][]byte {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return raw
}

// Attested reports whether all of the commits, which are different ones, stand in
// batches that are attested now.
func (r Reader) Attested(ctx context.Context, commits []domain.Hash) (bool, error) {
	var n int
	err := r.Pool.QueryRow(ctx, `
		select count(*) from batch_commits c join lateral (
			select * from batches where first <= c.n order by first desc limit 1) b on c.n < b.first + b.count
		where c.commit = any($1) and b.attested is not null`, rawHashes(commits)).Scan(&n)
	return n == len(commits), err
}

// OpenCommits returns commits that are in no batch yet, in the order of the log and
// limit at most: those among the first size leaves of the public log, which is the
// size of a checkpoint.
func (r Reader) OpenCommits(ctx context.Context, size uint64, limit int) ([]rollup.Open, error) {
	return collect(ctx, r.Pool, scanOpen, `
		select c.commit, l.index, c.recorded from batch_commits c join tree_leaves l using (stream, version)
		where c.n >= (select coalesce(max(first + count), 0) from batches) and l.index < $1
		order by c.n limit $2`, size, limit)
}

// OldestOpenCommit returns when the first commit that is in no batch yet was recorded, the
// zero time if there is none.
func (r Reader) OldestOpenCommit(ctx context.Context) (t time.Time, err error) {
	err = r.Pool.QueryRow(ctx, `
		select recorded from batch_commits
		where n >= (select coalesce(max(first + count), 0) from batches) order by n limit 1`).Scan(&t)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, nil
	}
	return t.UTC(), err
}

func scanOpen(row pgx.CollectableRow) (o rollup.Open, err error) {
	var commit []byte
	if err = row.Scan(&commit, &o.Index, &o.Time); err != nil {
		return o, err
	}
	o.Commit, o.Time = domain.Hash(commit), o.Time.UTC()
	return o, nil
}
