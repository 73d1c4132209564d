package publiclog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// BenchmarkIntegrate puts a ledger of public records with some 500 bytes each, in
// streams of 25, into an empty tree. It reports leaves per second.
func BenchmarkIntegrate(b *testing.B) {
	const n = 40_960
	w := newWorld(b)
	owner := tamper(b, w.pool)
	records := make([]ledger.Record, 0, n)
	var prev domain.Hash
	for i := range n {
		s := ledger.Stream(fmt.Sprintf("shop/shp_mfzwizlsmjrxg43vmvzc_20260301_%06d", i/25))
		prepared, err := ledger.Prepare(s, ledger.Meta{Actor: "worker", Command: fmt.Sprint(i), Correlation: fmt.Sprintf("%0420d", i)}, told{i})
		if err != nil {
			b.Fatal(err)
		}
		if i%25 == 0 {
			prev = domain.Hash{}
		}
		r := prepared[0]
		r.Position = uint64(i) + 1
		r.Link(prev, uint64(i%25)+1, w.now)
		prev = r.Hash
		records = append(records, r)
	}
	w.integrator.Log = list{records: records}
	b.ReportAllocs()
	var spent time.Duration
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		reset(b, owner)
		b.StartTimer()
		began := time.Now()
		w.integrate()
		spent += time.Since(began)
		rounds++
	}
	b.ReportMetric(float64(n*rounds)/spent.Seconds(), "leaves/s")
}

// BenchmarkInclusion proves random leaves of a log of a million, each in a snapshot
// of its own.
func BenchmarkInclusion(b *testing.B) {
	const (
		n      = 1_000_000
		stored = 997 // every so many leaves there is a record too
	)
	w := newWorld(b)
	var edge merkle.Edge
	var leaves, tiles [][]any
	for i := range n {
		record := fmt.Appendf(nil, `{"n":%d}`, i)
		hash := ledger.HashOf(record, domain.Hash{})
		edge.Append(merkle.LeafHash(hash[:]))
		if i%stored == 0 {
			leaves = append(leaves, []any{int64(i), "test/1", int64(i), record, make([]byte, 32), hash[:]})
		}
	}
	for _, t := range edge.Flush() {
		tiles = append(tiles, []any{int16(t.Level), int64(t.Index), t.Hashes})
	}
	root := edge.Root()
	signed, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: origin, Size: n, Root: root}, w.publisher.Signer)
	if err != nil {
		b.Fatal(err)
	}
	err = pgx.BeginFunc(b.Context(), w.pool, func(tx pgx.Tx) error {
		for _, c := range []struct {
			table   string
			columns []string
			rows    [][]any
		}{
			{"tree_tiles", []string{"level", "n", "hashes"}, tiles},
			{"tree_leaves", []string{"index", "stream", "version", "record", "prev", "hash"}, leaves},
			{"tree_checkpoints", []string{"size", "root", "note", "signed_at"}, [][]any{{n, root[:], signed, w.now}}},
			{"tree_published", []string{"size", "note"}, [][]any{{n, signed}}},
		} {
			if _, err := tx.CopyFrom(b.Context(), pgx.Identifier{c.table}, c.columns, pgx.CopyFromRows(c.rows)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(b.Context(), `update tree_head set size = $1, position = 1, root = $2`, n, root[:])
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		index := random.Uint64N(n/stored) * stored
		began := time.Now()
		if _, _, err := w.reader.Inclusion(b.Context(), index, 0); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
