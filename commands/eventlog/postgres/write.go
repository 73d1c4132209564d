package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

const (
	maxBatch      = 1024    // appends in one transaction
	maxBatchBytes = 8 << 20 // and bytes, but for a single append that is larger

	// batchTimeout bounds the writing of one batch with all its tries.
	batchTimeout = 30 * time.Second

	// maxTries is how often a batch is tried. To repeat it is always safe: what
	// an earlier try did commit is found by its ids.
	maxTries = 4

	// A waiting moment lets a batch grow, which pays only where commits are slow:
	// timers are not finer than a millisecond or so.
	slowCommit = 2 * time.Millisecond
	maxLinger  = time.Millisecond
)

// errNoAnswer ends the tries of a batch.
var errNoAnswer = fmt.Errorf("no answer from the database within %v", batchTimeout)

// A writer appends what waits in the queue of its log. Its goroutine alone uses it.
type writer struct {
	log  *Log
	now  func() time.Time // nil for the clock of the database
	conn *pgx.Conn        // nil before the first batch and after a failure
	last time.Duration    // how long the last commit took
}

// run serves requests until the log is closed.
func (w *writer) run() {
	defer close(w.log.closed)
	defer w.disconnect()
	for {
		select {
		case r := <-w.log.queue:
			w.serve(w.gather(r))
		case <-w.log.closing:
			return
		}
	}
}

// gather takes what waits behind first.
func (w *writer) gather(first *request) []*request {
	if d := linger(w.last); d > 0 {
		time.Sleep(d) //nolint:forbidigo // real time by its nature
	}
	batch, size := []*request{first}, first.size
	for len(batch) < maxBatch && size < maxBatchBytes {
		select {
		case r := <-w.log.queue:
			batch, size = append(batch, r), size+r.size
		default:
			return batch
		}
	}
	return batch
}

func linger(commit time.Duration) time.Duration {
	if commit < slowCommit {
		return 0
	}
	return min(maxLinger, commit/4)
}

// serve writes a batch and tells each caller its verdict, after the commit.
func (w *writer) serve(batch []*request) {
	verdicts, err := w.write(batch)
	if isRefusal(err) && len(batch) > 1 {
		for _, r := range batch { // one of them is to blame
			w.serve([]*request{r})
		}
		return
	}
	for i, r := range batch {
		if err != nil {
			r.done <- fmt.Errorf("append to %s: %w", r.records[0].Stream, unavailable(err))
		} else {
			r.done <- verdicts[i]
		}
	}
}

// write tries a batch until it is committed. A lost connection is worth another
// try, as it may have been lost long before; so is a serialisation failure.
func (w *writer) write(batch []*request) (verdicts []error, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), batchTimeout, errNoAnswer)
	defer cancel()
	for range maxTries {
		if err = w.connect(ctx); err != nil {
			break // the pool has tried what there is
		}
		if verdicts, err = w.transact(ctx, batch); err == nil {
			return verdicts, nil
		}
		w.disconnect()
		if isRefusal(err) {
			break
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // and not an error that the callers would take for their own context's
	}
	return nil, err
}

// connect takes a living connection out of the pool, which the writer then owns.
func (w *writer) connect(ctx context.Context) (err error) {
	// An idle connection may be of a server that has gone since: then the next.
	for range w.log.pool.Config().MaxConns + 1 {
		if w.conn != nil {
			return nil
		}
		var c *pgxpool.Conn
		if c, err = w.log.pool.Acquire(ctx); err != nil {
			return err
		}
		// A frozen process must not hold the lock of the log for ever.
		if _, err = c.Exec(ctx, "set idle_in_transaction_session_timeout = '10s'"); err != nil {
			c.Release() // drops it if it is broken
			continue
		}
		w.conn = c.Hijack()
	}
	return err
}

func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // an open transaction is rolled back by that
	w.conn = nil
}

// A head is the last record of a stream.
type head struct {
	version uint64
	hash    domain.Hash
}

// A state is what a batch meets in the log, read under the lock of log_head.
type state struct {
	position uint64
	time     time.Time
	heads    map[ledger.Stream]head
	versions map[uuid.UUID]uint64 // of those ids of the batch that are in the log
}

// transact writes a batch in one transaction and returns the verdicts.
func (w *writer) transact(ctx context.Context, batch []*request) ([]error, error) {
	st, err := w.begin(ctx, batch)
	if err != nil {
		return nil, err
	}
	if w.now != nil {
		st.time = w.now()
	}
	first := st.position
	changed := make(map[ledger.Stream]bool)
	var added []ledger.Record
	verdicts := make([]error, len(batch))
	for i, r := range batch {
		var isNew bool
		isNew, verdicts[i] = st.judge(r)
		if isNew {
			added = append(added, st.add(r)...)
			changed[r.records[0].Stream] = true
		}
	}
	if err := w.commit(ctx, st, first, added, changed); err != nil {
		return nil, err
	}
	return verdicts, nil
}

// begin opens the transaction, takes the lock and reads the state, in one round
// trip. Each statement after the lock sees all that was committed before it was
// granted, for at READ COMMITTED each has a snapshot of its own.
func (w *writer) begin(ctx context.Context, batch []*request) (*state, error) {
	st := &state{heads: make(map[ledger.Stream]head), versions: make(map[uuid.UUID]uint64)}
	streams := make([]string, 0, len(batch))
	ids := make([][16]byte, 0, len(batch))
	for _, r := range batch {
		s := r.records[0].Stream
		if _, seen := st.heads[s]; !seen {
			st.heads[s] = head{}
			streams = append(streams, string(s))
		}
		// The records of a command stand together: its first and last suffice.
		ids = append(ids, r.records[0].ID)
		if n := len(r.records); n > 1 {
			ids = append(ids, r.records[n-1].ID)
		}
	}
	b := new(pgx.Batch)
	b.Queue("begin isolation level read committed")
	b.Queue("select position from log_head for update").QueryRow(func(row pgx.Row) error {
		return row.Scan(&st.position)
	})
	b.Queue("select clock_timestamp()").QueryRow(func(row pgx.Row) error {
		return row.Scan(&st.time)
	})
	b.Queue("select stream, version, hash from heads where stream = any($1)", streams).Query(func(rows pgx.Rows) error {
		var s ledger.Stream
		var version uint64
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{(*string)(&s), &version, &hash}, func() error {
			st.heads[s] = head{version, domain.Hash(hash)}
			return nil
		})
		return err
	})
	b.Queue("select id, version from events where id = any($1)", ids).Query(func(rows pgx.Rows) error {
		var id [16]byte
		var version uint64
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			st.versions[id] = version
			return nil
		})
		return err
	})
	return st, w.conn.SendBatch(ctx, b).Close()
}

// judge gives the verdict on a request: nil if its records are new and may be
// added, or are all in the log at just that place.
func (st *state) judge(r *request) (isNew bool, verdict error) {
	first, last := r.records[0], r.records[len(r.records)-1]
	actual := st.heads[first.Stream].version
	if at, known := st.versions[first.ID]; known {
		if at == r.version+1 && st.versions[last.ID] == r.version+uint64(len(r.records)) {
			return false, nil
		}
		return false, fmt.Errorf("append to %s at %d: the command %s is in the log, and the stream is at %d: %w",
			first.Stream, r.version, first.Cause.Command, actual, ledger.ErrConflict)
	}
	if actual != r.version {
		return false, fmt.Errorf("append to %s at %d, which is at %d: %w", first.Stream, r.version, actual, ledger.ErrConflict)
	}
	return true, nil
}

// add links the records of a request to the state. It returns copies: the request
// stays as it was, for another try.
func (st *state) add(r *request) []ledger.Record {
	added := append([]ledger.Record(nil), r.records...)
	h := st.heads[added[0].Stream]
	for i := range added {
		st.position++
		added[i].Position = st.position
		added[i].Link(h.hash, h.version+1, st.time)
		h = head{added[i].Version, added[i].Hash}
		st.versions[added[i].ID] = h.version
	}
	st.heads[added[0].Stream] = h
	return added
}

const insertEvents = `
insert into events (position, stream, version, id, type, time, actor, command, correlation, data, hash)
select $1::bigint + o, s, v, i, t, $2::timestamptz, a, c, k, d, h
from unnest($3::text[], $4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::bytea[])
  with ordinality as r (s, v, i, t, a, c, k, d, h, o)`

const upsertHeads = `
insert into heads (stream, version, hash)
select * from unnest($1::text[], $2::bigint[], $3::bytea[])
on conflict (stream) do update set version = excluded.version, hash = excluded.hash`

// commit stores what was added behind position first and ends the transaction, in
// one round trip.
func (w *writer) commit(ctx context.Context, st *state, first uint64, added []ledger.Record, changed map[ledger.Stream]bool) error {
	b := new(pgx.Batch)
	if len(added) > 0 {
		b.Queue(insertEvents, columns(first, st.time, added)...)
		var streams []string
		var versions []uint64
		var hashes [][]byte
		for s := range changed { // each stream once: a statement cannot update a row twice
			h := st.heads[s]
			streams, versions, hashes = append(streams, string(s)), append(versions, h.version), append(hashes, h.hash[:])
		}
		b.Queue(upsertHeads, streams, versions, hashes)
		b.Queue("update log_head set position = $1", st.position)
	}
	b.Queue("commit")
	began := time.Now() //nolint:forbidigo // measures a duration
	if err := w.conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if len(added) > 0 {
		w.last = time.Since(began)
	}
	return nil
}

// columns returns the arguments of insertEvents.
func columns(first uint64, at time.Time, records []ledger.Record) []any {
	n := len(records)
	var (
		streams, types, actors = make([]string, n), make([]string, n), make([]string, n)
		commands, correlations = make([]string, n), make([]string, n)
		versions, ids          = make([]uint64, n), make([][16]byte, n)
		data, hashes           = make([][]byte, n), make([][]byte, n)
	)
	for i := range records {
		r := &records[i]
		streams[i], types[i], actors[i] = string(r.Stream), string(r.Type), r.Actor
		commands[i], correlations[i] = r.Cause.Command, r.Cause.Correlation
		versions[i], ids[i] = r.Version, r.ID
		data[i], hashes[i] = r.Data, r.Hash[:]
	}
	return []any{first, at, streams, versions, ids, types, actors, commands, correlations, data, hashes}
}
