package publiclog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections/publiclog"
)

// Two events, one for everybody and one for nobody yet.
type (
	told struct {
		N int `json:"n"`
	}
	kept struct {
		N int `json:"n"`
	}
)

func (told) EventType() domain.Type { return "test.told.v1" }
func (kept) EventType() domain.Type { return "test.kept.v1" }

var catalog = domain.NewCatalog([]domain.Entry{domain.Current[told](domain.Public), domain.Current[kept](domain.Sealed)})

const (
	origin = "log.example/ledger"
	every  = 10 * time.Minute
)

// newKey returns a key of a log, the same for the same seed.
func newKey(tb testing.TB, seed byte) (skey, vkey string) {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{seed}), origin)
	if err != nil {
		tb.Fatal(err)
	}
	return skey, vkey
}

// A world is a ledger in memory and its public log.
type world struct {
	tb         testing.TB
	log        *memory.Log
	pool       *pgxpool.Pool
	vkey       string
	integrator *publiclog.Integrator
	publisher  *publiclog.Publisher
	reader     publiclog.Reader

	n        int // records added
	versions map[ledger.Stream]uint64

	mu  sync.Mutex
	now time.Time
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, log: new(memory.Log), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), versions: make(map[ledger.Stream]uint64)}
	w.log.Now = func() time.Time { return time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC) }
	w.use(pgtest.Open(tb))
	return w
}

// use makes a public log on the pool the one of w.
func (w *world) use(pool *pgxpool.Pool) {
	w.tb.Helper()
	w.pool = pool
	skey, vkey := newKey(w.tb, 1)
	signer, err := note.NewSigner(skey)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.vkey, err = publiclog.Claim(w.tb.Context(), pool, func() (string, error) { return vkey, nil })
	if err != nil {
		w.tb.Fatal(err)
	}
	w.integrator = &publiclog.Integrator{Log: w.log, Catalog: catalog, Pool: pool}
	w.publisher = &publiclog.Publisher{Pool: pool, Signer: signer, Every: every, Now: w.clock}
	w.reader = publiclog.Reader{Pool: pool}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// event returns the n-th event: every third one is sealed, in a stream with public ones.
func event(n int) (ledger.Stream, domain.Event) {
	s := ledger.Stream(fmt.Sprintf("test/%d", n%5))
	if n%3 == 1 {
		return s, kept{n}
	}
	return s, told{n}
}

// add appends n records.
func (w *world) add(n int) {
	w.tb.Helper()
	for range n {
		s, e := event(w.n)
		if err := w.log.Append(context.Background(), s, w.versions[s], ledger.Meta{Actor: "tester", Command: fmt.Sprint(w.n)}, e); err != nil {
			w.tb.Fatal(err)
		}
		w.versions[s]++
		w.n++
	}
}

// public returns the public records of the ledger in order.
func (w *world) public() (records []ledger.Record) {
	w.tb.Helper()
	for r, err := range w.log.After(context.Background(), 0) {
		if err != nil {
			w.tb.Fatal(err)
		}
		if catalog.Visibility(r.Type) == domain.Public {
			records = append(records, r)
		}
	}
	return records
}

func (w *world) integrate() {
	w.tb.Helper()
	if err := w.integrator.Integrate(w.tb.Context()); err != nil {
		w.tb.Fatal(err)
	}
}

// publish publishes what is integrated, at the next moment that it is due.
func (w *world) publish() {
	w.tb.Helper()
	w.pass(every)
	if err := w.publisher.Publish(w.tb.Context()); err != nil {
		w.tb.Fatal(err)
	}
}

// grow adds n records and publishes them.
func (w *world) grow(n int) publiclog.Head {
	w.tb.Helper()
	w.add(n)
	w.integrate()
	w.publish()
	return w.head()
}

func (w *world) head() publiclog.Head {
	w.tb.Helper()
	h, err := w.reader.Head(w.tb.Context())
	if err != nil {
		w.tb.Fatal(err)
	}
	return h
}

// sizes returns how many leaves the tree has, and how many were signed and published.
func (w *world) sizes() (tree, signed, published uint64) {
	w.tb.Helper()
	err := w.pool.QueryRow(context.Background(), `
		select size, coalesce((select max(size) from tree_checkpoints), 0), coalesce((select max(size) from tree_published), 0)
		from tree_head`).Scan(&tree, &signed, &published)
	if err != nil {
		w.tb.Fatal(err)
	}
	return tree, signed, published
}

// policy opens checkpoints of the log.
func policy(tb testing.TB, vkey string) checkpoint.Policy {
	tb.Helper()
	v, err := note.NewVerifier(vkey)
	if err != nil {
		tb.Fatal(err)
	}
	return checkpoint.Policy{Log: v}
}

var tables = []string{"tree_head", "tree_streams", "tree_leaves", "tree_tiles", "tree_checkpoints", "tree_published"}

// dump returns everything in the tables of the public log.
func dump(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	var text strings.Builder
	for _, table := range tables {
		rows, err := pool.Query(context.Background(), `select t::text from `+table+` t order by 1`)
		if err != nil {
			tb.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&text, "%s\n%s\n", table, strings.Join(lines, "\n"))
	}
	return text.String()
}

// tamper returns a connection that triggers and constraints do not hold back, as an
// administrator of the database has one.
func tamper(tb testing.TB, pool *pgxpool.Pool) *pgx.Conn {
	tb.Helper()
	conn := pgtest.Owner(tb, pool)
	if _, err := conn.Exec(tb.Context(), "set session_replication_role = replica"); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// reset empties the tables of the public log.
func reset(tb testing.TB, owner *pgx.Conn) {
	tb.Helper()
	for _, sql := range []string{
		"truncate tree_streams, tree_leaves, tree_tiles, tree_checkpoints, tree_published",
		"update tree_head set position = 0, size = 0, root = sha256('')",
	} {
		if _, err := owner.Exec(tb.Context(), sql); err != nil {
			tb.Fatal(err)
		}
	}
}
