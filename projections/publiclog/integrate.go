package publiclog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// pageSize is how many records are read, checked and put into the tree in one
// transaction.
const pageSize = 4096

// An Integrator puts the public records of a ledger into the tree. Several may work
// on one database, at the same time too. All fields are required.
type Integrator struct {
	Log     ledger.Log
	Catalog domain.Catalog
	Pool    *pgxpool.Pool
}

// Integrate brings the tree to the present end of the ledger.
//
// A record whose hash does not follow from its bytes and the record before it in its
// stream, or that stands where no append can have put it, is where Integrate stops,
// with an error that matches [ErrDamaged] and names position and stream. What came
// before is in the tree; neither that record nor anything behind it is, until the
// database is put right. It stops in the same way, with [domain.ErrUnknownType], at a
// type that the catalog does not have: only a newer program knows whether it is public.
func (i *Integrator) Integrate(ctx context.Context) error {
	for {
		moved, err := i.follow(ctx)
		if err != nil || !moved {
			return err
		}
	}
}

// follow integrates what there is, page by page, while the next page is read and checked.
// It reports whether another integrator has moved the tree meanwhile.
func (i *Integrator) follow(ctx context.Context) (moved bool, err error) {
	var from uint64
	if err := i.Pool.QueryRow(ctx, `select position from tree_head`).Scan(&from); err != nil {
		return false, fmt.Errorf("read the tree: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan *page)
	var unread error
	go func() {
		defer close(pages)
		unread = i.read(ctx, from, pages)
	}()
	defer func() {
		cancel()
		for range pages { // until the reader has ended
		}
	}()
	for p := range pages {
		if moved, err = i.integrate(ctx, p); moved || err != nil {
			return moved, err
		}
	}
	return false, unread
}

// read sends the records behind a position, by pages. It returns why it has ended before
// the end of the ledger; what came before that was sent, and is good.
func (i *Integrator) read(ctx context.Context, from uint64, pages chan<- *page) error {
	next := func(before *page) *page {
		return &page{catalog: i.Catalog, from: from, position: from, before: before.ends()}
	}
	p := next(nil)
	records := make([]ledger.Record, 0, 64)
	send := func() error {
		if len(records) == 0 {
			return nil
		}
		if err := p.check(ctx, i.Pool, records); err != nil {
			return err
		}
		select {
		case pages <- p:
			bad := p.bad
			from, records = p.position, records[:0]
			p = next(p)
			return bad
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for r, err := range i.Log.After(ctx, from) {
		if err != nil {
			return errors.Join(send(), fmt.Errorf("read the ledger: %w", err))
		}
		if records = append(records, r); len(records) == pageSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// integrate puts a page into the tree, unless the tree is not there any more.
func (i *Integrator) integrate(ctx context.Context, p *page) (moved bool, err error) {
	err = pgx.BeginFunc(ctx, i.Pool, func(tx pgx.Tx) error {
		// All of it follows from the ledger, so what a crash takes is done again;
		// whatever is signed is flushed along with the checkpoint.
		if _, err := tx.Exec(ctx, `set local synchronous_commit to off`); err != nil {
			return err
		}
		h, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		if moved = h.position != p.from; moved || p.position == p.from {
			return nil // another integrator was here, or there is nothing good in the page
		}
		edge, err := loadEdge(ctx, tx, h)
		if err != nil {
			return err
		}
		if err := p.store(ctx, tx, edge); err != nil {
			return fmt.Errorf("store the tree: %w", err)
		}
		h.size, h.root = edge.Size(), edge.Root()
		return readBack(ctx, tx, h, uint64(len(p.leaves)))
	})
	return moved, err
}

// A tip is the last record of a stream.
type tip struct {
	version uint64
	hash    domain.Hash
}

// A page is what one transaction adds to the tree. It is checked while the page before
// it is stored, before anybody holds the tree: against the ends of streams as the
// database has them, and those that the page before it will leave behind. They are right
// if the tree is still where the page begins once it is locked, and else the page counts
// for nothing.
type page struct {
	catalog  domain.Catalog
	from     uint64                // position that it stands behind
	before   map[ledger.Stream]tip // where the streams of the page before it end
	streams  map[ledger.Stream]tip // where its own end
	leaves   []leaf
	position uint64 // of the last record that is good
	bad      error  // what is wrong with the one behind that
}

// A leaf is what is stored of a public record.
type leaf struct {
	stream    ledger.Stream
	version   uint64
	canonical []byte
	prev      domain.Hash
	hash      domain.Hash
}

// ends returns where the streams of p end.
func (p *page) ends() map[ledger.Stream]tip {
	if p == nil {
		return nil
	}
	return p.streams
}

// check fills p with records that were read, up to the first one that is not as it must
// be.
func (p *page) check(ctx context.Context, q querier, records []ledger.Record) error {
	if err := p.loadStreams(ctx, q, records); err != nil {
		return err
	}
	p.bad = p.addAll(records)
	return nil
}

func (p *page) addAll(records []ledger.Record) error {
	var canonical []byte
	for k := range records {
		r := &records[k]
		canonical = r.AppendCanonical(canonical[:0])
		if err := p.add(r, canonical); err != nil {
			return err
		}
	}
	return nil
}

// loadStreams finds out where the streams of records end before p.
func (p *page) loadStreams(ctx context.Context, q querier, records []ledger.Record) error {
	p.streams = make(map[ledger.Stream]tip)
	var names []string
	for k := range records {
		s := records[k].Stream
		if _, ok := p.streams[s]; ok {
			continue
		}
		end, ok := p.before[s]
		p.streams[s] = end // that of a stream which is new, if there is none
		if !ok {
			names = append(names, string(s))
		}
	}
	p.before = nil
	rows, err := q.Query(ctx, `select stream, version, hash from tree_streams where stream = any($1)`, names)
	if err != nil {
		return fmt.Errorf("read the ends of streams: %w", err)
	}
	var name string
	var version uint64
	var hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &version, &hash}, func() error {
		p.streams[ledger.Stream(name)] = tip{version, domain.Hash(hash)}
		return nil
	}); err != nil {
		return fmt.Errorf("read the ends of streams: %w", err)
	}
	return nil
}

// add checks a record, and gives it a leaf if it is public.
func (p *page) add(r *ledger.Record, canonical []byte) error {
	at := func(err error) error {
		return fmt.Errorf("the ledger at position %d, version %d of %s: %w", r.Position, r.Version, r.Stream, err)
	}
	before := p.streams[r.Stream]
	switch {
	case r.Position <= p.position:
		return at(damaged("it stands behind position %d", p.position))
	case r.Version != before.version+1:
		return at(damaged("it stands behind version %d of its stream", before.version))
	}
	if hash := ledger.HashOf(canonical, before.hash); hash != r.Hash {
		return at(damaged("its hash is %s, and its bytes behind those before it have %s", r.Hash, hash))
	}
	if _, known := p.catalog[r.Type]; !known {
		return at(fmt.Errorf("%s: %w", r.Type, domain.ErrUnknownType))
	}
	if p.catalog.Visibility(r.Type) == domain.Public {
		p.leaves = append(p.leaves, leaf{r.Stream, r.Version, bytes.Clone(canonical), before.hash, r.Hash})
	}
	p.streams[r.Stream] = tip{r.Version, r.Hash}
	p.position = r.Position
	return nil
}

// store adds what is good of p behind the edge of the tree.
func (p *page) store(ctx context.Context, tx pgx.Tx, edge *merkle.Edge) error {
	if len(p.leaves) > 0 {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"tree_leaves"},
			[]string{"index", "stream", "version", "record", "prev", "hash"},
			pgx.CopyFromSlice(len(p.leaves), func(i int) ([]any, error) {
				l := &p.leaves[i]
				row := []any{edge.Size(), string(l.stream), l.version, l.canonical, l.prev[:], l.hash[:]}
				edge.Append(merkle.LeafHash(l.hash[:]))
				return row, nil
			})); err != nil {
			return err
		}
	}
	var b pgx.Batch
	for _, t := range edge.Flush() {
		b.Queue(`
			insert into tree_tiles (level, n, hashes) values ($1, $2, $3)
			on conflict (level, n) do update set hashes = excluded.hashes`, t.Level, t.Index, t.Hashes)
	}
	var names []string
	var versions []uint64
	var hashes [][]byte
	for s, end := range p.streams {
		if end.version > 0 { // else its only records are behind a bad one
			names, versions, hashes = append(names, string(s)), append(versions, end.version), append(hashes, end.hash[:])
		}
	}
	b.Queue(`
		insert into tree_streams as t (stream, version, hash)
		select * from unnest($1::text[], $2::bigint[], $3::bytea[])
		on conflict (stream) do update set version = excluded.version, hash = excluded.hash
		where t.version < excluded.version`, names, versions, hashes)
	root := edge.Root()
	b.Queue(`update tree_head set position = $1, size = $2, root = $3`, p.position, edge.Size(), root[:])
	return tx.SendBatch(ctx, &b).Close()
}

// readBack proves the newest leaves from what is stored of them: the first and the
// last of the added ones.
func readBack(ctx context.Context, tx pgx.Tx, h head, added uint64) error {
	if added == 0 {
		return nil
	}
	r := hashes(ctx, tx, h.tree())
	for _, index := range []uint64{h.size - added, h.size - 1} {
		leaf, err := loadLeaf(ctx, tx, index)
		if err != nil {
			return err
		}
		path, err := inclusion(r, index, h.size)
		if err != nil {
			return err
		}
		if err := merkle.VerifyPath(leaf.Hash, index, h.size, path, h.root); err != nil {
			return damaged("read back: %w", err)
		}
	}
	return nil
}
