package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// End returns the position of the last record, as appends go on from it.
func (l *Log) End(ctx context.Context) (position uint64, err error) {
	// The row is always there; Check says so if it is not.
	if err := l.pool.QueryRow(ctx, `select coalesce((select position from log_head), 0)`).Scan(&position); err != nil {
		return 0, fmt.Errorf("read the end of the log: %w", unavailable(err))
	}
	return position, nil
}

// Check compares what appends go on from, the end of the log and of each stream, with
// the records. It returns an error matching [ledger.ErrDamaged] that names the first
// that differs.
func (l *Log) Check(ctx context.Context) error {
	if err := l.CheckEnd(ctx); err != nil {
		return err
	}
	return l.checkStreams(ctx)
}

// CheckEnd is the part of [Log.Check] about the end of the log, which takes no time.
func (l *Log) CheckEnd(ctx context.Context) error {
	var head, last int64
	if err := l.pool.QueryRow(ctx, `
		select coalesce((select position from log_head), -1), coalesce((select max(position) from events), 0)`).Scan(&head, &last); err != nil {
		return fmt.Errorf("read the end of the log: %w", unavailable(err))
	}
	if head != last {
		return fmt.Errorf("the next record would stand behind position %d, and the last one has %d: %w", head, last, errDamaged)
	}
	return nil
}

func (l *Log) checkStreams(ctx context.Context) error {
	var streams []string
	err := l.pool.QueryRow(ctx, `
		select coalesce(array_agg(stream), '{}') from (
			select stream
			from heads h full join (select distinct on (stream) stream, version, hash from events order by stream, version desc) e using (stream)
			where (h.version, h.hash) is distinct from (e.version, e.hash)
			order by stream limit 1
		) as differ`).Scan(&streams)
	switch {
	case err != nil:
		return fmt.Errorf("read the ends of streams: %w", unavailable(err))
	case len(streams) > 0:
		return fmt.Errorf("the end of stream %s, behind which the next record would stand, is not that of its last one: %w", streams[0], errDamaged)
	}
	return nil
}

// importPage is how many records are copied at once.
const importPage = 2000

// Import fills an empty log with records that were read from another one, all of
// them or none: positions are given anew, everything else stays as it is. The caller
// has checked that they are a ledger. It returns an error matching
// [domain.ErrConflict] if the log holds something.
func (l *Log) Import(ctx context.Context, records iter.Seq2[ledger.Record, error]) (n uint64, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var some bool
		if err := tx.QueryRow(ctx, `select position from log_head for update`).Scan(&n); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `select exists (select from events) or exists (select from heads)`).Scan(&some); err != nil {
			return err
		}
		if n > 0 || some {
			return fmt.Errorf("the ledger is not empty; import into a new database: %w", domain.ErrConflict)
		}
		heads := make(map[ledger.Stream]head)
		page := make([]ledger.Record, 0, importPage)
		flush := func() error {
			err := insert(ctx, tx, n-uint64(len(page)), page)
			page = page[:0]
			return err
		}
		for r, err := range records {
			if err != nil {
				return err
			}
			n++
			heads[r.Stream] = head{r.Version, r.Hash}
			if page = append(page, r); len(page) == importPage {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if err := flush(); err != nil {
			return err
		}
		return closeImport(ctx, tx, n, heads)
	})
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	return n, nil
}

// insert copies records to the positions behind one.
func insert(ctx context.Context, tx pgx.Tx, position uint64, records []ledger.Record) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"events"},
		[]string{"position", "stream", "version", "id", "type", "time", "actor", "command", "correlation", "data", "hash"},
		pgx.CopyFromSlice(len(records), func(i int) ([]any, error) {
			r := &records[i]
			return []any{
				position + uint64(i) + 1, string(r.Stream), r.Version, [16]byte(r.ID), string(r.Type), r.Time, //nolint:gosec // not negative
				r.Actor, r.Cause.Command, r.Cause.Correlation, r.Data, r.Hash[:],
			}, nil
		}))
	return err
}

// closeImport writes what appends will go on from.
func closeImport(ctx context.Context, tx pgx.Tx, position uint64, heads map[ledger.Stream]head) error {
	rows := make([][]any, 0, len(heads))
	for s, h := range heads {
		rows = append(rows, []any{string(s), h.version, h.hash[:]})
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"heads"}, []string{"stream", "version", "hash"}, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `update log_head set position = $1`, position)
	return err
}
