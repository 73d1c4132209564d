package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/projections"
)

// rowsRead is how many rows or proofs are read, one after the other, to learn how long one
// takes.
const rowsRead = 1000

// batches measures how long it takes to close a batch of the largest size, until its tree
// is stored, and to read a proof out of it.
func (b *bench) batches(ctx context.Context) (err error) {
	records, commits, err := commit(batch.MaxCount)
	if err != nil {
		return err
	}
	s, err := b.committed(ctx, records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	if _, err := s.closeBatch(ctx, commits); err != nil {
		return err
	}
	reader := projections.Reader{Pool: s.pool}
	proof := func(ctx context.Context) error {
		p, err := reader.CommitProof(ctx, commits[rand.IntN(len(commits))].Commit)
		if err == nil && p.Batch == nil {
			err = errors.New("a commit is in no batch")
		}
		return err
	}
	row := func(ctx context.Context) error {
		var commit []byte
		return s.pool.QueryRow(ctx, "select commit from batch_commits where n = $1", rand.IntN(len(commits))).Scan(&commit)
	}
	return b.hold(ctx,
		doing(fmt.Sprintf("batch of %d commits, closed and stored", batch.MaxCount),
			side{run: func(ctx context.Context) ([]figure, error) { return b.closeNew(ctx, records, commits) }},
			side{"keccak-256 of each of its nodes", func(context.Context) ([]figure, error) {
				return []figure{{milliseconds, hashTree(batch.MaxCount)}}, nil
			}}),
		doing(fmt.Sprintf("proof out of a batch of %d", batch.MaxCount), side{run: each(proof)}, side{"select of one row", each(row)}),
	)
}

// A ready is a schema that holds commits that wait for a batch.
type ready struct {
	*schema

	log    *postgres.Log
	runner *projections.Runner
}

// committed returns a schema with records, and the read model of batches up to date.
func (b *bench) committed(ctx context.Context, records []ledger.Record) (*ready, error) {
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	r := &ready{schema: s, log: postgres.New(s.pool, postgres.Options{})}
	r.runner = &projections.Runner{Log: r.log, Catalog: catalog(), Pool: s.pool, Projections: []projections.Projection{projections.Batches}}
	if err := firstOf(fill(ctx, r.log, records), r.runner.Init(ctx), r.runner.CatchUp(ctx)); err != nil {
		return nil, errors.Join(err, r.drop())
	}
	return r, nil
}

func (r *ready) drop() error {
	r.log.Close()
	return r.schema.drop()
}

// closeBatch rolls all commits into a batch, and returns how long it took until its tree
// was stored.
func (r *ready) closeBatch(ctx context.Context, commits []batch.Open) (took time.Duration, err error) {
	began := time.Now()
	sealed, _, err := batch.Close(nil, 84532, batch.Word{}, commits, uint64(len(commits)), domain.Hash{})
	if err != nil {
		return 0, err
	}
	if err := r.log.Append(ctx, batch.StreamOf(sealed.Batch), 0, ledger.Meta{Actor: "bench", Command: "seal"}, sealed); err != nil {
		return 0, err
	}
	if err := r.runner.CatchUp(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// closeNew closes a batch in a schema of its own.
func (b *bench) closeNew(ctx context.Context, records []ledger.Record, commits []batch.Open) (figures []figure, err error) {
	r, err := b.committed(ctx, records)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.drop()) }()
	took, err := r.closeBatch(ctx, commits)
	return []figure{{milliseconds, inMilliseconds(took)}}, err
}

// commit returns n records of a commit each.
func commit(n int) ([]ledger.Record, []batch.Open, error) {
	const id = "bench"
	h := &history{tips: make(map[ledger.Stream]tip), now: time.Unix(int64(firstDay)*86400, 0).UTC()}
	commits := make([]batch.Open, n)
	for i := range commits {
		s := seal.Sealed{Consent: id, Hour: uint64(i), Root: hashOf(strconv.Itoa(i))}
		if err := h.add(seal.StreamOf(id), s); err != nil {
			return nil, nil, err
		}
		commits[i] = batch.Open{Commit: s.Root, Index: uint64(i)}
	}
	return h.records, commits, nil
}

// hashTree hashes as often as the tree of a batch of n commits has nodes, and returns how
// many milliseconds it took.
func hashTree(n int) float64 {
	nodes := 2
	for nodes/2 < n {
		nodes *= 2
	}
	began := time.Now()
	var pair [64]byte
	d := sha3.NewLegacyKeccak256()
	for range nodes - 1 {
		d.Reset()
		d.Write(pair[:])
		d.Sum(pair[:0])
	}
	return inMilliseconds(time.Since(began))
}

// each returns a run that tells how long f takes, of the many times that it calls it.
func each(f func(context.Context) error) func(context.Context) ([]figure, error) {
	return func(ctx context.Context) ([]figure, error) {
		took := make([]float64, rowsRead)
		for i := range took {
			began := time.Now()
			if err := f(ctx); err != nil {
				return nil, err
			}
			took[i] = inMilliseconds(time.Since(began))
		}
		return []figure{{p50, median(took)}}, nil
	}
}
