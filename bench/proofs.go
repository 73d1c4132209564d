package main

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/projections/publiclog"
)

// leavesProven is the size of the public log out of which proofs are read.
const leavesProven = 1_000_000

// proofs measures how long it takes to prove that a leaf is in the public log, out of the
// database and in a snapshot of its own.
func (b *bench) proofs(ctx context.Context) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	if err := s.grow(ctx, leavesProven); err != nil {
		return err
	}
	return b.hold(ctx, doing(fmt.Sprintf("inclusion proof out of %d leaves", leavesProven),
		side{run: each(func(ctx context.Context) error { return s.prove(ctx, leavesProven) })},
		side{"select of one row", each(func(ctx context.Context) error {
			var hash []byte
			return s.pool.QueryRow(ctx, "select hash from tree_leaves where index = $1", someLeaf(leavesProven)).Scan(&hash)
		})},
	))
}

// leafStored is such that one of so many leaves has its record beside it, for the tree
// does not need them.
const leafStored = 997

// someLeaf returns the index of one of the first n leaves that has a record.
func someLeaf(n int) uint64 { return uint64(rand.IntN((n+leafStored-1)/leafStored)) * leafStored } //nolint:gosec // not negative

// prove reads the proof of one of n leaves.
func (s *schema) prove(ctx context.Context, n int) error {
	_, _, err := publiclog.Reader{Pool: s.pool}.Inclusion(ctx, someLeaf(n), 0)
	return err
}

// grow makes a public log of n leaves with a published checkpoint, as an integrator would
// leave it behind.
func (s *schema) grow(ctx context.Context, n int) error {
	const origin = "log.example/ledger"
	now := time.Now()
	key, vkey, err := note.GenerateKey(crypto.Reader, origin)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		return err
	}
	if _, err := publiclog.Claim(ctx, s.pool, func() (string, error) { return vkey, nil }); err != nil {
		return err
	}
	var edge merkle.Edge
	var leaves, tiles [][]any
	for i := range n {
		record := fmt.Appendf(nil, `{"n":%d}`, i)
		hash := ledger.HashOf(record, domain.Hash{})
		edge.Append(merkle.LeafHash(hash[:]))
		if i%leafStored == 0 {
			leaves = append(leaves, []any{int64(i), "bench/1", int64(i), record, make([]byte, 32), hash[:]})
		}
	}
	for _, t := range edge.Flush() {
		tiles = append(tiles, []any{int16(t.Level), int64(t.Index), t.Hashes}) //nolint:gosec // small
	}
	root := edge.Root()
	signed, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: origin, Size: uint64(n), Root: root}, signer) //nolint:gosec // not negative
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, t := range []struct {
			name    string
			columns []string
			rows    [][]any
		}{
			{"tree_tiles", []string{"level", "n", "hashes"}, tiles},
			{"tree_leaves", []string{"index", "stream", "version", "record", "prev", "hash"}, leaves},
			{"tree_checkpoints", []string{"size", "root", "note", "signed_at"}, [][]any{{n, root[:], signed, now}}},
			{"tree_published", []string{"size", "note"}, [][]any{{n, signed}}},
		} {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromRows(t.rows)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `update tree_head set size = $1, position = 1, root = $2`, n, root[:])
		return err
	})
}
