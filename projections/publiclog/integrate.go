package publiclog

import (
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

// A read record is one with its canonical form.
type readRecord struct {
	ledger.Record

	canonical []byte
}

// follow integrates what there is, page by page, while the next page is read. It reports
// whether another integrator has moved the tree meanwhile.
func (i *Integrator) follow(ctx context.Context) (moved bool, err error) {
	var from uint64
	if err := i.Pool.QueryRow(ctx, `select position from tree_head`).Scan(&from); err != nil {
		return false, fmt.Errorf("read the tree: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan []readRecord)
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
	for page := range pages {
		if moved, err = i.integrate(ctx, from, page); moved || err != nil {
			return moved, err
		}
		from = page[len(page)-1].Position
	}
	return false, unread
}

// read sends the records behind a position, by pages. It returns why it has ended before
// the end of the ledger; what came before that was sent, and is good.
func (i *Integrator) read(ctx context.Context, from uint64, pages chan<- []readRecord) error {
	page := make([]readRecord, 0, 64)
	send := func() error {
		if len(page) == 0 {
			return nil
		}
		select {
		case pages <- page:
			page = make([]readRecord, 0, pageSize)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for r, err := range i.Log.After(ctx, from) {
		if err != nil {
			return errors.Join(send(), fmt.Errorf("read the ledger: %w", err))
		}
		page = append(page, readRecord{r, r.AppendCanonical(nil)})
		if len(page) == pageSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// integrate puts the records behind from into the tree, up to the first one that is
// not as it must be, unless the tree is not there any more.
func (i *Integrator) integrate(ctx context.Context, from uint64, records []readRecord) (moved bool, err error) {
	var bad error
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
		if moved = h.position != from; moved {
			return nil // another integrator was here
		}
		edge, err := loadEdge(ctx, tx, h)
		if err != nil {
			return err
		}
		p := page{edge: edge, catalog: i.Catalog, position: from}
		if p.streams, err = loadStreams(ctx, tx, records); err != nil {
			return err
		}
		for k := range records {
			if bad = p.add(&records[k]); bad != nil {
				break
			}
		}
		if p.position == from {
			return nil
		}
		if err := p.store(ctx, tx); err != nil {
			return fmt.Errorf("store the tree: %w", err)
		}
		h.size, h.root = edge.Size(), edge.Root()
		return readBack(ctx, tx, h, uint64(len(p.leaves)))
	})
	return moved, errors.Join(err, bad)
}

// A tip is the last record of a stream.
type tip struct {
	version uint64
	hash    domain.Hash
}

func loadStreams(ctx context.Context, q querier, records []readRecord) (map[ledger.Stream]tip, error) {
	streams := make(map[ledger.Stream]tip)
	var names []string
	for k := range records {
		s := records[k].Stream
		if _, ok := streams[s]; !ok {
			streams[s] = tip{} // of a stream that is new
			names = append(names, string(s))
		}
	}
	rows, err := q.Query(ctx, `select stream, version, hash from tree_streams where stream = any($1)`, names)
	if err != nil {
		return nil, fmt.Errorf("read the ends of streams: %w", err)
	}
	var name string
	var version uint64
	var hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &version, &hash}, func() error {
		streams[ledger.Stream(name)] = tip{version, domain.Hash(hash)}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the ends of streams: %w", err)
	}
	return streams, nil
}

// A page is what one transaction adds to the tree.
type page struct {
	edge     *merkle.Edge
	catalog  domain.Catalog
	streams  map[ledger.Stream]tip
	leaves   [][]any // rows of tree_leaves
	position uint64  // of the last record added
}

// add checks a record, and gives it a leaf if it is public.
func (p *page) add(r *readRecord) error {
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
	if hash := ledger.HashOf(r.canonical, before.hash); hash != r.Hash {
		return at(damaged("its hash is %s, and its bytes behind those before it have %s", r.Hash, hash))
	}
	if _, known := p.catalog[r.Type]; !known {
		return at(fmt.Errorf("%s: %w", r.Type, domain.ErrUnknownType))
	}
	if p.catalog.Visibility(r.Type) == domain.Public {
		p.leaves = append(p.leaves, []any{p.edge.Size(), string(r.Stream), r.Version, r.canonical, before.hash[:], r.Hash[:]})
		p.edge.Append(merkle.LeafHash(r.Hash[:]))
	}
	p.streams[r.Stream] = tip{r.Version, r.Hash}
	p.position = r.Position
	return nil
}

func (p *page) store(ctx context.Context, tx pgx.Tx) error {
	if len(p.leaves) > 0 {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"tree_leaves"},
			[]string{"index", "stream", "version", "record", "prev", "hash"}, pgx.CopyFromRows(p.leaves)); err != nil {
			return err
		}
	}
	var b pgx.Batch
	for _, t := range p.edge.Flush() {
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
	root := p.edge.Root()
	b.Queue(`update tree_head set position = $1, size = $2, root = $3`, p.position, p.edge.Size(), root[:])
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
