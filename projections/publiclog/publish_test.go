package publiclog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections/publiclog"
)

func TestCadence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	publish := func(wantSigned, wantPublished uint64) {
		t.Helper()
		w.integrate()
		if err := w.publisher.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, signed, published := w.sizes(); signed != wantSigned || published != wantPublished {
			t.Fatalf("at %s %d leaves are signed and %d published, want %d and %d", w.clock().Format(time.TimeOnly), signed, published, wantSigned, wantPublished)
		}
	}
	if _, err := w.reader.Head(t.Context()); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Head before the first checkpoint = %v, want ErrNotFound", err)
	}
	publish(0, 0) // of an empty log nothing is signed
	w.add(3)      // two public ones
	publish(2, 2) // the first at once
	w.add(3)
	publish(2, 2)
	w.pass(every - time.Second)
	publish(2, 2)
	w.pass(time.Second) // at the next full multiple
	publish(4, 4)
	w.pass(5 * every)
	publish(4, 4) // nothing is new
	w.add(3)
	w.pass(time.Second)
	publish(6, 6)
	if h := w.head(); h.Origin != origin || h.Key != w.vkey || h.Size != 6 {
		t.Errorf("Head = %+v", h)
	}
}

func TestCheckpointIsSignedByTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.grow(100)
	c, _, err := policy(t, w.vkey).Open(h.Note)
	if err != nil || c.Size != h.Size || c.Root != h.Root || c.Origin != origin {
		t.Errorf("the checkpoint is %+v, %v; want %d leaves with root %s", c, err, h.Size, h.Root)
	}
	_, stranger := newKey(t, 2)
	if _, _, err := policy(t, stranger).Open(h.Note); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("opened with another key: %v, want ErrInvalid", err)
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	claim := func(choice string) (string, error) {
		return publiclog.Claim(t.Context(), pool, func() (string, error) { return choice, nil })
	}
	_, one := newKey(t, 1)
	_, two := newKey(t, 2)
	if key, err := claim(""); key != "" || err != nil {
		t.Errorf("Claim without a choice = %q, %v", key, err)
	}
	if key, err := claim("no key"); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("Claim of no key = %q, %v; want ErrInvalid", key, err)
	}
	for _, choice := range []string{one, two, ""} {
		if key, err := claim(choice); key != one || err != nil {
			t.Errorf("Claim = %q, %v; want the first key that was chosen", key, err)
		}
	}
}

func TestAnotherKeySignsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(10)
	skey, _ := newKey(t, 2)
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	w.publisher.Signer = signer
	w.add(10)
	w.integrate()
	w.pass(every)
	if err := w.publisher.Publish(t.Context()); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Publish with another key = %v, want ErrForbidden", err)
	}
	if tree, signed, _ := w.sizes(); signed >= tree {
		t.Error("something was signed")
	}
}

// The last statements of a transaction matter as much as its first.
func TestKilledAtEveryStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(400)
	steps := func() {
		t.Helper()
		w.integrate()
		w.publish()
	}
	start := w.now
	steps()
	want := dump(t, w.pool)
	firstSize := w.head().Size

	plain := w.pool
	owner := tamper(t, plain)
	dying, k := pgtest.Mortal(t, plain)
	signed := make(map[uint64]string) // every note that was ever seen by anybody
	for n := 0; ; n++ {
		reset(t, owner)
		w.now = start
		w.use(dying)
		k.Arm(n)
		err := w.integrator.Integrate(t.Context())
		if err == nil {
			w.pass(every)
			err = w.publisher.Publish(t.Context())
		}
		died := k.Disarm()
		if died != (err != nil) {
			t.Fatalf("killed at statement %d: %t, and the error is %v", n, died, err)
		}
		if h, err := (publiclog.Reader{Pool: plain}).Head(t.Context()); err == nil {
			if before, ok := signed[h.Size]; ok && before != string(h.Note) {
				t.Fatalf("two checkpoints of %d leaves were shown", h.Size)
			}
			signed[h.Size] = string(h.Note)
		}
		w.use(plain)
		w.now = start
		steps()
		if got := dump(t, plain); got != want {
			t.Fatalf("killed at statement %d and started again:\n%s\nundisturbed:\n%s", n, got, want)
		}
		if !died {
			if n < 25 {
				t.Errorf("it took %d statements only; the test has lost its subject", n)
			}
			break
		}
	}
	if len(signed) != 1 || firstSize == 0 {
		t.Errorf("checkpoints of %d sizes were shown, want one", len(signed))
	}
}

// Whatever byte of the public log is changed in the database, nothing is signed on
// top of it, and the error says where it is.
func TestTamperedTreeIsNeverSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(100)
	w.grow(900) // 667 leaves: two full tiles and a partial one
	w.add(60)
	w.integrate() // and something new to sign
	owner := tamper(t, w.pool)
	flip := func(column, at string) string {
		return fmt.Sprintf("%s = set_byte(%[1]s, %[2]s, get_byte(%[1]s, %[2]s) # 1)", column, at)
	}
	for _, tt := range []struct{ name, table, set, where, says string }{
		{"record of the first leaf", "tree_leaves", flip("record", "20"), "index = 0", "leaf 0"},
		{"record of a leaf between", "tree_leaves", flip("record", "7"), "index = 300", "leaf 300"},
		{"prev of a leaf", "tree_leaves", flip("prev", "0"), "index = 301", "leaf 301"},
		{"hash of a leaf", "tree_leaves", flip("hash", "31"), "index = 511", "leaf 511"},
		{"hash of the last leaf", "tree_leaves", flip("hash", "0"), "index = 706", "leaf 706"},
		{"index of a leaf", "tree_leaves", "index = 5000", "index = 400", "leaves beyond"},
		{
			"a whole leaf that agrees with itself", "tree_leaves", "record = o.record, prev = o.prev, hash = o.hash from tree_leaves o",
			"tree_leaves.index = 17 and o.index = 18", "hash 17 of tile 0 of level 0",
		},
		{"full tile", "tree_tiles", flip("hashes", "100"), "level = 0 and n = 0", "hash 3 of tile 0 of level 0"},
		{"other full tile", "tree_tiles", flip("hashes", "8191"), "level = 0 and n = 1", "hash 255 of tile 1 of level 0"},
		{"partial tile", "tree_tiles", flip("hashes", "33"), "level = 0 and n = 2", "hash 1 of tile 2 of level 0"},
		{"tile above", "tree_tiles", flip("hashes", "32"), "level = 1", "hash 1 of tile 0 of level 1"},
		{"tile cut", "tree_tiles", "hashes = substring(hashes from 1 for 64)", "level = 0 and n = 2", "tile 2 of level 0"},
		{"tile grown", "tree_tiles", "hashes = hashes || sha256('x')", "level = 0 and n = 2", "tile 2 of level 0"},
		{"full tile cut", "tree_tiles", "hashes = substring(hashes from 1 for 8160)", "level = 0 and n = 0", "tile 0 of level 0"},
		{"tile at another place", "tree_tiles", "n = 9", "level = 0 and n = 1", "tile 1 of level 0"},
		{"tile at another level", "tree_tiles", "level = 3", "level = 1", "tile 0 of level 1"},
		{"root of the head", "tree_head", flip("root", "9"), "one", "the head of the tree"},
		{"size of the head", "tree_head", "size = size - 1", "one", "tile 2 of level 0"},
		{"size of the head, far back", "tree_head", "size = 512", "one", "667 leaves were signed"},
		{"size of the head, far ahead", "tree_head", "size = 1000000", "one", "tile 3906 of level 0"},
		{"key of the log", "tree_head", "vkey = 'other+' || substring(vkey from length('log.example/ledger+') + 1)", "one", "key of the log"},
		{"root of the last checkpoint", "tree_checkpoints", flip("root", "0"), "size = 667", "checkpoint of 667 leaves"},
		{"root of an old checkpoint", "tree_checkpoints", flip("root", "0"), "size = 67", "checkpoint of 67 leaves"},
		{"note of an old checkpoint", "tree_checkpoints", flip("note", "30"), "size = 67", "checkpoint of 67 leaves"},
		{"signature of the last checkpoint", "tree_checkpoints", flip("note", "length(note) - 10"), "size = 667", "checkpoint of 667 leaves"},
		{"size of an old checkpoint", "tree_checkpoints", "size = 68", "size = 67", "not among the signed ones"},
		{"size of the last checkpoint", "tree_checkpoints", "size = 100000", "size = 667", "100000 leaves"},
		{"note of what was published", "tree_published", flip("note", "2"), "size = 667", "checkpoint of 667 leaves"},
		{"another note published", "tree_published", "note = (select note from tree_published where size = 667)", "size = 67", "checkpoint of 67 leaves"},
	} {
		w.inTransaction(owner, execute(t, "update "+tt.table+" set "+tt.set+" where "+tt.where))
		before := dump(t, w.pool)
		w.pass(every)
		fresh := &publiclog.Publisher{Pool: w.pool, Signer: w.publisher.Signer, Every: every, Now: w.clock}
		err := fresh.Publish(t.Context())
		if !errors.Is(err, publiclog.ErrDamaged) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Publish = %v, want ErrDamaged with %q", tt.name, err, tt.says)
		}
		if after := dump(t, w.pool); after != before {
			t.Errorf("%s: something was written", tt.name)
		}
		if err := publiclog.Audit(t.Context(), w.pool); !errors.Is(err, publiclog.ErrDamaged) {
			t.Errorf("%s: Audit = %v, want ErrDamaged", tt.name, err)
		}
		w.restore(owner)
	}
	w.publish()
	if tree, signed, published := w.sizes(); signed != tree || published != tree {
		t.Errorf("put right, %d of %d leaves are signed and %d published", signed, tree, published)
	}
}

// inTransaction keeps a copy of all tables, and then runs f.
func (w *world) inTransaction(owner *pgx.Conn, f func(pgx.Tx)) {
	w.tb.Helper()
	err := pgx.BeginFunc(w.tb.Context(), owner, func(tx pgx.Tx) error {
		for _, table := range tables {
			if _, err := tx.Exec(w.tb.Context(), "create temporary table saved_"+table+" as select * from "+table); err != nil {
				return err
			}
		}
		f(tx)
		return nil
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// restore puts the copies back.
func (w *world) restore(owner *pgx.Conn) {
	w.tb.Helper()
	err := pgx.BeginFunc(w.tb.Context(), owner, func(tx pgx.Tx) error {
		for _, table := range tables {
			for _, sql := range []string{"delete from " + table, "insert into " + table + " select * from saved_" + table, "drop table saved_" + table} {
				if _, err := tx.Exec(w.tb.Context(), sql); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// A process reads the whole log before it signs anything, then what is new, and all the
// rest in turns.
func TestEverythingIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log.Now = nil
	w.grow(12_000) // 8,000 leaves, 32 tiles
	owner := tamper(t, w.pool)
	publish := func(p *publiclog.Publisher) error {
		w.add(3)
		w.integrate()
		w.pass(every)
		return p.Publish(t.Context())
	}
	fresh := func() *publiclog.Publisher {
		return &publiclog.Publisher{Pool: w.pool, Signer: w.publisher.Signer, Every: every, Now: w.clock}
	}
	set := func(leaf int, set string) {
		t.Helper()
		if tag, err := owner.Exec(t.Context(), "update tree_leaves set record = "+set+" where index = $1", leaf); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s, %v", tag, err)
		}
	}
	const change, back = `record || ' '`, `substring(record from 1 for length(record) - 1)`

	w.add(600)
	w.integrate()
	set(8100, change) // new and unsigned
	w.pass(every)
	if err := w.publisher.Publish(t.Context()); !errors.Is(err, publiclog.ErrDamaged) || !strings.Contains(err.Error(), "leaf 8100") {
		t.Errorf("Publish over a new leaf = %v, want leaf 8100", err)
	}
	set(8100, back)

	set(5000, change) // read and signed long ago
	begun := fresh()
	if err := publish(begun); !errors.Is(err, publiclog.ErrDamaged) || !strings.Contains(err.Error(), "leaf 5000") {
		t.Errorf("the first Publish of a process = %v, want leaf 5000", err)
	}
	var found error
	rounds := 0
	for ; found == nil && rounds < 12; rounds++ {
		found = publish(w.publisher)
	}
	if !errors.Is(found, publiclog.ErrDamaged) || !strings.Contains(found.Error(), "leaf 5000") || rounds < 2 {
		t.Errorf("after %d checkpoints: %v, want leaf 5000 found", rounds, found)
	}
	set(5000, back)
	if err := publish(begun); err != nil {
		t.Errorf("put right: %v", err)
	}
}

func TestPublishIsAllOrNothingForReaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.grow(30)
	w.add(30)
	w.integrate() // not covered yet
	if again := w.head(); again.Size != h.Size || !bytes.Equal(again.Note, h.Note) {
		t.Errorf("Head = %d leaves, want the published %d", again.Size, h.Size)
	}
	if _, _, err := w.reader.Leaf(context.Background(), h.Size); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Leaf beyond the checkpoint = %v, want ErrNotFound", err)
	}
	if leaves, _, err := w.reader.Leaves(context.Background(), h.Size-1, 10); err != nil || len(leaves) != 1 {
		t.Errorf("Leaves at the end of the checkpoint = %d, %v; want 1", len(leaves), err)
	}
}

func execute(t *testing.T, sql string) func(pgx.Tx) {
	t.Helper()
	return func(tx pgx.Tx) {
		if tag, err := tx.Exec(t.Context(), sql); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s: %s, %v", sql, tag, err)
		}
	}
}
