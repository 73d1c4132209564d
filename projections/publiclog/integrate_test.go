package publiclog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections/publiclog"
)

// foreignRoot is the root that tlog gives the public records.
func foreignRoot(tb testing.TB, records []ledger.Record) domain.Hash {
	tb.Helper()
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			list[i] = stored[x]
		}
		return list, nil
	})
	for i, r := range records {
		hashes, err := tlog.StoredHashes(int64(i), r.Hash[:], read)
		if err != nil {
			tb.Fatal(err)
		}
		stored = append(stored, hashes...)
	}
	root, err := tlog.TreeHash(int64(len(records)), read)
	if err != nil {
		tb.Fatal(err)
	}
	return domain.Hash(root)
}

func TestLeavesAreThePublicRecordsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, n := range []int{1, 2, 30, 500, 5000} { // more than a page in the end
		h := w.grow(n)
		want := w.public()
		if h.Size != uint64(len(want)) || h.Root != foreignRoot(t, want) {
			t.Fatalf("after %d records the log has %d leaves and root %s, want %d and %s", w.n, h.Size, h.Root, len(want), foreignRoot(t, want))
		}
	}
	want := w.public()
	for from := uint64(0); from < uint64(len(want)); from += 1000 {
		leaves, _, err := w.reader.Leaves(t.Context(), from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range leaves {
			r := want[from+uint64(i)]
			if l.Index != from+uint64(i) || l.Hash != r.Hash || string(l.Record) != string(r.AppendCanonical(nil)) {
				t.Fatalf("leaf %d is %s, want %s", l.Index, l.Record, r.AppendCanonical(nil))
			}
		}
	}
	if err := publiclog.Audit(t.Context(), w.pool); err != nil {
		t.Errorf("Audit = %v", err)
	}
}

// Sealed records must not show in anything that the public log consists of.
func TestSealedRecordsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	silent, busy := newWorld(t), newWorld(t)
	for _, w := range []*world{silent, busy} {
		for v := range uint64(40) {
			if w == busy {
				if err := w.log.Append(t.Context(), ledger.Stream(fmt.Sprint("sealed/", v)), 0, ledger.Meta{Command: "c"}, kept{1}, kept{2}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.log.Append(t.Context(), "test/1", v, ledger.Meta{Command: fmt.Sprint(v)}, told{1}); err != nil {
				t.Fatal(err)
			}
		}
		w.integrate()
		w.publish()
	}
	for _, table := range []string{"tree_leaves", "tree_tiles", "tree_checkpoints", "tree_published"} {
		_, a, _ := strings.Cut(dump(t, silent.pool), table+"\n")
		_, b, _ := strings.Cut(dump(t, busy.pool), table+"\n")
		if a != b {
			t.Errorf("%s differ", table)
		}
	}
}

// A stored byte that was changed is found before it enters the tree, wherever it is.
func TestTamperedRecordIsNeverIntegrated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := postgres.New(w.pool, postgres.Options{Now: w.clock})
	t.Cleanup(log.Close)
	w.integrator.Log = log
	version := make(map[ledger.Stream]uint64)
	appendOne := func(s ledger.Stream, e domain.Event) {
		t.Helper()
		m := ledger.Meta{Actor: "tester", Command: fmt.Sprint("c", version[s]), Correlation: "x"}
		if err := log.Append(t.Context(), s, version[s], m, e); err != nil {
			t.Fatal(err)
		}
		version[s]++
	}
	owner := tamper(t, w.pool)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	appendOne("test/1", told{0})
	w.integrate()
	w.publish()
	position := uint64(1)
	for _, tt := range []struct{ name, change string }{
		{"stream", `stream = 'test/9'`},
		{"version", `version = version + 1`},
		{"id", `id = gen_random_uuid()`},
		{"type", `type = 'test.told.v1'`},
		{"type of nobody", `type = 'test.other.v1'`},
		{"time", `time = time + interval '1 microsecond'`},
		{"actor", `actor = 'Tester'`},
		{"command", `command = command || ' '`},
		{"correlation", `correlation = ''`},
		{"data", `data = set_byte(data, 5, get_byte(data, 5) # 1)`},
		{"hash", `hash = set_byte(hash, 31, get_byte(hash, 31) # 1)`},
	} {
		for _, e := range []domain.Event{told{1}, kept{1}} {
			if tt.name == "type" && e == (told{1}) {
				continue
			}
			appendOne("test/2", told{2}) // good
			appendOne("test/1", e)
			appendOne("test/2", told{3}) // behind the bad one
			bad := position + 2
			exec(`create temporary table saved as select * from events where position = $1`, bad)
			exec(`update events set `+tt.change+` where position = $1`, bad)
			before, _, _ := w.sizes()
			err := w.integrator.Integrate(t.Context())
			if !errors.Is(err, publiclog.ErrDamaged) {
				t.Errorf("%s of %T: Integrate = %v, want ErrDamaged", tt.name, e, err)
			} else if s := fmt.Sprintf("position %d, version", bad); !strings.Contains(err.Error(), s) || !strings.Contains(err.Error(), "test/") {
				t.Errorf("%s of %T: Integrate = %v, want %q and the stream in it", tt.name, e, err, s)
			}
			if size, _, _ := w.sizes(); size != before+1 {
				t.Errorf("%s of %T: the tree has grown by %d leaves, want the one before the bad one", tt.name, e, size-before)
			}
			exec(`delete from events where position = $1`, bad)
			exec(`insert into events select * from saved`)
			exec(`drop table saved`)
			w.integrate() // put right, it goes on
			position += 3
		}
	}
	if err := publiclog.Audit(t.Context(), w.pool); err != nil {
		t.Errorf("Audit = %v", err)
	}
}

// A list is a log of records that need not be good.
type list struct {
	ledger.Log
	records []ledger.Record
}

func (l list) After(_ context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range l.records {
			if r.Position > position && !yield(r, nil) {
				return
			}
		}
	}
}

func TestRecordsOutOfPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(20)
	var good []ledger.Record
	for r := range w.log.After(t.Context(), 0) {
		r.Position *= 3 // gaps are allowed
		good = append(good, r)
	}
	owner := tamper(t, w.pool)
	for _, tt := range []struct {
		name   string
		change func(records []ledger.Record) []ledger.Record
		size   uint64
		kind   error
	}{
		{"as they are", func(r []ledger.Record) []ledger.Record { return r }, 13, nil},
		{"one deleted", func(r []ledger.Record) []ledger.Record { return append(r[:3], r[4:]...) }, 4, publiclog.ErrDamaged},
		{"one twice", func(r []ledger.Record) []ledger.Record {
			again := r[4]
			again.Position++
			return append(r[:5], append([]ledger.Record{again}, r[5:]...)...)
		}, 3, publiclog.ErrDamaged},
		{"two swapped, positions too", func(r []ledger.Record) []ledger.Record {
			r[2], r[7] = r[7], r[2]
			r[2].Position, r[7].Position = r[7].Position, r[2].Position
			return r
		}, 1, publiclog.ErrDamaged},
		{"position that goes back", func(r []ledger.Record) []ledger.Record {
			r[5].Position, r[6].Position = r[6].Position, r[5].Position
			return r
		}, 4, publiclog.ErrDamaged},
		{"type that nobody knows", func(r []ledger.Record) []ledger.Record {
			r[3].Type = "test.newer.v1"
			r[3].Hash = r[3].ChainHash(domain.Hash{})
			return r
		}, 2, domain.ErrUnknownType},
	} {
		reset(t, owner)
		w.integrator.Log = list{records: tt.change(append([]ledger.Record(nil), good...))}
		err := w.integrator.Integrate(t.Context())
		if !errors.Is(err, tt.kind) {
			t.Errorf("%s: Integrate = %v, want %v", tt.name, err, tt.kind)
		}
		if size, _, _ := w.sizes(); size != tt.size {
			t.Errorf("%s: the tree has %d leaves, want %d", tt.name, size, tt.size)
		}
		again := w.integrator.Integrate(t.Context())
		if !errors.Is(again, tt.kind) {
			t.Errorf("%s: Integrate once more = %v, want %v", tt.name, again, tt.kind)
		}
	}
}

func TestSeveralIntegratorsAndPublishers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alone := newWorld(t)
	for range 5 {
		w.add(300)
		alone.add(300)
		w.pass(every)
		var wg sync.WaitGroup
		for range 4 {
			i := *w.integrator
			wg.Go(func() {
				if err := i.Integrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for range 4 {
			p := &publiclog.Publisher{Pool: w.pool, Signer: w.publisher.Signer, Every: every, Now: w.clock}
			wg.Go(func() {
				if err := p.Publish(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		alone.integrate()
		alone.publish()
	}
	if got, want := dump(t, w.pool), dump(t, alone.pool); got != want {
		t.Errorf("together they made\n%s\none alone\n%s", got, want)
	}
}

func TestTheTreeOnlyGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(400)
	owner := pgtest.Owner(t, w.pool)
	for _, sql := range []string{
		`update tree_head set size = size - 1`,
		`update tree_head set root = sha256('x')`,
		`update tree_head set position = 0`,
		`update tree_head set vkey = null`,
		`update tree_head set vkey = 'other'`,
		`delete from tree_head`,
		`truncate tree_head`,
		`update tree_streams set hash = sha256('x')`,
		`update tree_streams set version = version - 1`,
		`delete from tree_streams`,
		`truncate tree_streams`,
		`update tree_leaves set record = 'x'`,
		`delete from tree_leaves`,
		`truncate tree_leaves`,
		`update tree_tiles set hashes = sha256('x') where level = 0`,
		`update tree_tiles set hashes = substring(hashes from 1 for 32) where level = 0`,
		`update tree_tiles set hashes = sha256('x') || substring(hashes from 33) || sha256('x') where level = 0 and n = 1`,
		`update tree_tiles set n = n + 10`,
		`delete from tree_tiles`,
		`truncate tree_tiles`,
		`update tree_checkpoints set note = 'x'`,
		`delete from tree_checkpoints`,
		`truncate tree_checkpoints, tree_published`,
		`update tree_published set note = 'x'`,
		`delete from tree_published`,
		`truncate tree_published`,
	} {
		for name, db := range map[string]interface {
			Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		}{"the service": w.pool, "the owner": owner} {
			if _, err := db.Exec(t.Context(), sql); err == nil {
				t.Errorf("%s by %s is let through", sql, name)
			}
		}
	}
	w.grow(400)
}
