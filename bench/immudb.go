package main

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"github.com/codenotary/immudb/embedded/logger"
	"github.com/codenotary/immudb/embedded/store"

	"github.com/karatum/mystery/domain"
)

// immudb measures the embedded store of immudb, which chains transactions and keeps a
// Merkle tree over them as the ledger does, flushed at each commit. It is not made to wait
// for its index.
func (b *bench) immudb(ctx context.Context, writers int) (figures []figure, err error) {
	data, err := domain.Encode(event)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.scratch, "immudb")
	s, err := store.Open(dir, store.DefaultOptions().WithSynced(true).WithMaxConcurrency(writers+10).WithEmbeddedValues(true).
		WithLogger(logger.NewSimpleLoggerWithLevel("immudb", b.stderr, logger.LogError)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	figures, _, err = b.closedLoop(writers, func(w int, before uint64) error {
		tx, err := s.NewWriteOnlyTx(ctx)
		if err != nil {
			return err
		}
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(w)), before) //nolint:gosec // not negative
		if err := tx.Set(key, nil, data); err != nil {
			return errors.Join(err, tx.Cancel())
		}
		_, err = tx.AsyncCommit(ctx)
		return err
	})
	return figures, err
}
