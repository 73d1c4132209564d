package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"text/tabwriter"
	"time"

	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/projections"
)

// A timing is how long something takes, beside the least that can be done about as much.
type timing struct {
	What  string  `json:"what"`
	Took  float64 `json:"milliseconds"`
	Peer  string  `json:"peer"`
	Other float64 `json:"peerMilliseconds"`
	Ratio float64 `json:"ratio"`
}

// proofsRead is how many proofs are read, each of another commit.
const proofsRead = 2000

// batches measures how long it takes to close a batch of the largest size, until its tree
// is stored, and to read a proof out of it: medians.
func (b *bench) batches(ctx context.Context, rounds int) ([]timing, error) {
	pool, err := migrations.Connect(ctx, b.url, "batches")
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	log := postgres.New(pool, postgres.Options{})
	defer log.Close()
	commits, err := commit(ctx, log, rounds*batch.MaxCount)
	if err != nil {
		return nil, err
	}
	runner := &projections.Runner{Log: log, Catalog: catalog(), Pool: pool, Projections: []projections.Projection{projections.Batches}}
	if err := errors.Join(runner.Init(ctx), runner.CatchUp(ctx)); err != nil {
		return nil, err
	}
	var (
		closing, hashing []float64
		last             *batch.State
	)
	for n := range rounds {
		began := time.Now()
		sealed, _, err := batch.Close(last, 84532, batch.Word{}, commits[n*batch.MaxCount:(n+1)*batch.MaxCount], uint64(len(commits)), domain.Hash{})
		if err != nil {
			return nil, err
		}
		if err := log.Append(ctx, batch.StreamOf(sealed.Batch), 0, ledger.Meta{Actor: "bench", Command: "seal"}, sealed); err != nil {
			return nil, err
		}
		if err := runner.CatchUp(ctx); err != nil {
			return nil, err
		}
		closing = append(closing, milliseconds(began))
		last = &batch.State{Sealed: &sealed}
		hashing = append(hashing, hashTree())
	}
	reader := projections.Reader{Pool: pool}
	proofs, err := each(func() error {
		p, err := reader.CommitProof(ctx, commits[rand.IntN(len(commits))].Commit)
		if err == nil && p.Batch == nil {
			err = errors.New("a commit is in no batch")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err := each(func() error {
		var commit []byte
		return pool.QueryRow(ctx, "select commit from batch_commits where n = $1", rand.IntN(len(commits))).Scan(&commit)
	})
	if err != nil {
		return nil, err
	}
	took, hashed := median(closing), median(hashing)
	return []timing{
		{fmt.Sprintf("a batch of %d commits, until its tree is stored", batch.MaxCount), took, "keccak-256 of each of its nodes", hashed, took / hashed},
		{"a proof from the database", proofs, "select of one row", rows, proofs / rows},
	}, nil
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e6 }

// commit puts n commits on record.
func commit(ctx context.Context, log *postgres.Log, n int) ([]batch.Open, error) {
	const id = "bench"
	h := &history{tips: make(map[ledger.Stream]tip), now: time.Unix(int64(firstDay)*86400, 0).UTC()}
	commits := make([]batch.Open, n)
	for i := range commits {
		s := seal.Sealed{Consent: id, Hour: uint64(i), Root: hashOf(strconv.Itoa(i))} //nolint:gosec // not negative
		if err := h.add(seal.StreamOf(id), s); err != nil {
			return nil, err
		}
		commits[i] = batch.Open{Commit: s.Root, Index: uint64(i)} //nolint:gosec // not negative
	}
	_, err := log.Import(ctx, func(yield func(ledger.Record, error) bool) {
		for _, r := range h.records {
			if !yield(r, nil) {
				return
			}
		}
	})
	return commits, err
}

// hashTree hashes as often as the tree of a batch of the largest size has nodes, and
// returns how long it took.
func hashTree() float64 {
	nodes := 2
	for nodes/2 < batch.MaxCount {
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
	return milliseconds(began)
}

// each returns how long f takes, which is called many times: the median.
func each(f func() error) (float64, error) {
	took := make([]float64, proofsRead)
	for i := range took {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took[i] = milliseconds(began)
	}
	return median(took), nil
}

func printTimings(w io.Writer, list []timing) error {
	if len(list) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "batches\tms\tpeer\tpeer ms\tratio")
	for _, x := range list {
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%.3f\t%.2f\n", x.What, x.Took, x.Peer, x.Other, x.Ratio)
	}
	return t.Flush()
}
