package publiclog_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/torchwood"
	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/projections/publiclog"
)

func bytesOf(path []domain.Hash) [][]byte {
	list := make([][]byte, len(path))
	for i := range path {
		list[i] = path[i][:]
	}
	return list
}

// Every proof is checked by code of others, which shares nothing with what made it.
func TestProofsHoldForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var published []uint64
	for _, n := range []int{1, 2, 5, 370, 400, 3, 1} {
		published = append(published, w.grow(n).Size)
	}
	head := w.head()
	random := rand.New(rand.NewPCG(1, 2))
	sizes := append(slices.Clone(published), 255, 256, 257, 512)
	for range 20 {
		sizes = append(sizes, 1+random.Uint64N(head.Size))
	}
	for _, size := range sizes {
		for _, index := range []uint64{0, size / 2, size - 1, random.Uint64N(size)} {
			p, h, err := w.reader.Inclusion(t.Context(), index, size)
			if err != nil {
				t.Fatalf("Inclusion(%d, %d): %v", index, size, err)
			}
			if h.Size != head.Size || p.Leaf.Index != index || p.Size != size || slices.Contains(published, size) != (p.Note != nil) {
				t.Errorf("Inclusion(%d, %d) = %+v", index, size, p)
			}
			leaf := p.Leaf.LeafHash()
			if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf[:], bytesOf(p.Path), p.Root[:]); err != nil {
				t.Errorf("Inclusion(%d, %d): %v", index, size, err)
			}
			if err := merkle.VerifyPath(p.Leaf.Hash, index, size, p.Path, p.Root); err != nil {
				t.Errorf("Inclusion(%d, %d): %v", index, size, err)
			}
			from := 1 + random.Uint64N(size)
			c, _, err := w.reader.Consistency(t.Context(), from, size)
			if err != nil {
				t.Fatalf("Consistency(%d, %d): %v", from, size, err)
			}
			if err := proof.VerifyConsistency(rfc6962.DefaultHasher, from, size, bytesOf(c.Path), c.FromRoot[:], c.ToRoot[:]); err != nil {
				t.Errorf("Consistency(%d, %d): %v", from, size, err)
			}
			if c.ToRoot != p.Root {
				t.Errorf("the root of %d leaves is %s in one proof and %s in another", size, p.Root, c.ToRoot)
			}
		}
	}
	for _, size := range published[:len(published)-1] {
		p, _, err := w.reader.Inclusion(t.Context(), 0, size)
		if err != nil {
			t.Fatal(err)
		}
		if c, _, err := policy(t, w.vkey).Open(p.Note); err != nil || c.Size != size || c.Root != p.Root {
			t.Errorf("the checkpoint beside a proof for %d leaves is %+v, %v", size, c, err)
		}
	}
	if err := publiclog.Audit(t.Context(), w.pool); err != nil {
		t.Error(err)
	}
}

func TestProofsAtTheEdges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.reader.Inclusion(t.Context(), 0, 0); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Inclusion in an empty log = %v, want ErrNotFound", err)
	}
	h := w.grow(30) // 20 leaves
	for _, tt := range []struct {
		index, size uint64
		kind        error
	}{
		{0, 0, nil},
		{19, 0, nil},
		{19, 20, nil},
		{0, 1, nil},
		{20, 0, domain.ErrNotFound},
		{0, 21, domain.ErrNotFound},
		{0, math.MaxInt64, domain.ErrNotFound},
		{20, 20, domain.ErrInvalid},
		{5, 5, domain.ErrInvalid},
		{7, 5, domain.ErrInvalid},
		{30, 21, domain.ErrInvalid},
	} {
		if _, _, err := w.reader.Inclusion(t.Context(), tt.index, tt.size); !errors.Is(err, tt.kind) {
			t.Errorf("Inclusion(%d, %d) = %v, want %v", tt.index, tt.size, err, tt.kind)
		}
	}
	for _, tt := range []struct {
		from, to uint64
		path     int
		kind     error
	}{
		{0, 20, 0, nil},
		{0, 0, 0, nil},
		{20, 20, 0, nil},
		{7, 7, 0, nil},
		{16, 20, 1, nil},
		{8, 7, 0, domain.ErrInvalid},
		{0, 21, 0, domain.ErrNotFound},
		{21, 21, 0, domain.ErrNotFound},
		{21, 0, 0, domain.ErrNotFound},
	} {
		p, _, err := w.reader.Consistency(t.Context(), tt.from, tt.to)
		if !errors.Is(err, tt.kind) || err == nil && len(p.Path) != tt.path {
			t.Errorf("Consistency(%d, %d) = %d hashes, %v; want %d, %v", tt.from, tt.to, len(p.Path), err, tt.path, tt.kind)
		}
		if err != nil {
			continue
		}
		if tt.from == 0 && p.FromRoot != merkle.Root(nil) || tt.from == tt.to && p.FromRoot != p.ToRoot && tt.to > 0 {
			t.Errorf("Consistency(%d, %d) has the roots %s and %s", tt.from, tt.to, p.FromRoot, p.ToRoot)
		}
		if tt.to == 0 && (p.To != h.Size || p.ToRoot != h.Root) {
			t.Errorf("Consistency(%d, 0) is of %d leaves, want the latest", tt.from, p.To)
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(60)
	w.add(15)
	w.integrate() // not published
	want := make(map[ledger.Stream][]string)
	for _, r := range w.public()[:w.head().Size] {
		want[r.Stream] = append(want[r.Stream], string(r.AppendCanonical(nil)))
	}
	got := make(map[ledger.Stream][]string)
	for n := range 5 {
		s := ledger.Stream(fmt.Sprint("test/", n))
		for version := uint64(0); ; {
			leaves, h, err := w.reader.Stream(t.Context(), s, version, 3)
			if err != nil || h.Size != w.head().Size {
				t.Fatal(err)
			}
			if len(leaves) == 0 {
				break
			}
			for _, l := range leaves {
				got[s] = append(got[s], string(l.Record))
				var r ledger.Record
				if err := r.UnmarshalJSON(l.Record); err != nil {
					t.Fatal(err)
				}
				version = r.Version + 1
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("streams differ (-want +got):\n%s", diff)
	}
	for _, s := range []ledger.Stream{"test/9", "", "test/1 "} {
		if _, _, err := w.reader.Stream(t.Context(), s, 0, 3); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("Stream(%q) = %v, want ErrNotFound", s, err)
		}
	}
}

func TestParseTile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path string
		want publiclog.Tile
	}{
		{"tile/0/000", publiclog.Tile{Width: 256}},
		{"tile/0/x001/x234/067", publiclog.Tile{TileID: merkle.TileID{Index: 1234067}, Width: 256}},
		{"tile/63/000.p/1", publiclog.Tile{TileID: merkle.TileID{Level: 63}, Width: 1}},
		{"tile/1/005.p/255", publiclog.Tile{TileID: merkle.TileID{Level: 1, Index: 5}, Width: 255}},
		{"tile/entries/x001/000", publiclog.Tile{TileID: merkle.TileID{Index: 1000}, Width: 256, Entries: true}},
		{"tile/entries/000.p/7", publiclog.Tile{Width: 7, Entries: true}},
	} {
		if got, err := publiclog.ParseTile(tt.path); err != nil || got != tt.want {
			t.Errorf("ParseTile(%q) = %+v, %v; want %+v", tt.path, got, err, tt.want)
		}
	}
	for _, path := range []string{
		"", "tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/1234", "tile/0/001/234", "tile/0/x1/234",
		"tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/000.p", "tile/0/000.p/-1", "tile/0/000/", "tile/0//000",
		"tile/64/000", "tile/-1/000", "tile/+1/000", "tile/01/000", "tile/data/000", "tile/0/-01", "tile/0/x000/001",
		"tile/entries", "tile/entries/", "tile/entries/0", "tile/entries/data/000", "tile/8/0/000", "/tile/0/000", "TILE/0/000", "tile/0/000.P/1",
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999", "tile/ 0/000", "tile/0/0 0",
	} {
		if got, err := publiclog.ParseTile(path); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("ParseTile(%q) = %+v, %v; want ErrInvalid", path, got, err)
		}
	}
}

func FuzzParseTile(f *testing.F) {
	f.Add("tile/0/x001/234.p/5")
	f.Add("tile/entries/000")
	f.Fuzz(func(t *testing.T, path string) {
		got, err := publiclog.ParseTile(path)
		if err != nil {
			return
		}
		tile := tlog.Tile{H: 8, L: got.Level, N: int64(got.Index), W: got.Width}
		if got.Entries {
			tile.L = -1
		}
		if again := torchwood.TilePath(tile); again != path {
			t.Errorf("ParseTile(%q) is the tile at %q", path, again)
		}
	})
}

// Only tiles that some checkpoint needs are there, as they were then.
func TestTiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var published []uint64
	for _, n := range []int{4, 500, 300, 400} { // 3, 336, 536, 803 leaves, or so
		published = append(published, w.grow(n).Size)
	}
	w.add(500)
	w.integrate() // not published
	var leaves []domain.Hash
	for _, r := range w.public() {
		leaves = append(leaves, r.Hash)
	}
	last := published[len(published)-1]
	for index := uint64(0); index <= last/256+2; index++ {
		for width := 1; width <= 256; width++ {
			needed := width == 256 && (index+1)*256 <= last
			for _, size := range published {
				needed = needed || width < 256 && size == index*256+uint64(width)
			}
			if !needed && width%17 > 0 && width < 250 {
				continue
			}
			for _, entries := range []bool{false, true} {
				data, err := w.reader.Tile(t.Context(), publiclog.Tile{TileID: merkle.TileID{Index: index}, Width: width, Entries: entries})
				if needed != (err == nil) || err != nil && !errors.Is(err, domain.ErrNotFound) {
					t.Fatalf("Tile %d of width %d: %v, needed %t", index, width, err, needed)
				}
				if err != nil {
					continue
				}
				var want []byte
				for _, h := range leaves[index*256:][:width] {
					if entries {
						want = append(append(want, 0, 32), h[:]...)
					} else {
						leaf := merkle.LeafHash(h[:])
						want = append(want, leaf[:]...)
					}
				}
				if string(data) != string(want) {
					t.Errorf("Tile %d of width %d, entries %t: other bytes than expected", index, width, entries)
				}
			}
		}
	}
	for _, id := range []merkle.TileID{
		{Level: 1, Index: 1}, {Level: 2}, {Level: 7}, {Level: 8}, {Level: 63}, {Index: math.MaxInt64}, {Level: 7, Index: 1 << 54}, {Level: 3, Index: 1 << 53},
	} {
		if _, err := w.reader.Tile(t.Context(), publiclog.Tile{TileID: id, Width: 1}); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("Tile %s = %v, want ErrNotFound", id, err)
		}
	}
}

// What contradicts the tree is not shown.
func TestTamperedLeavesAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(500)
	w.grow(3)
	owner := tamper(t, w.pool)
	for _, sql := range []string{
		`update tree_leaves set record = record || ' ' where index = 5`,
		`update tree_leaves set prev = sha256('x') where index = 5`,
		`update tree_leaves set hash = sha256('x') where index = 5`,
		`update tree_leaves t set record = o.record, prev = o.prev, hash = o.hash from tree_leaves o where t.index = 5 and o.index = 6`,
		`update tree_leaves set index = 9999 where index = 5`,
		`update tree_tiles set hashes = set_byte(hashes, 170, get_byte(hashes, 170) # 1) where level = 0 and n = 0`,
		`update tree_tiles set hashes = set_byte(hashes, 10, get_byte(hashes, 10) # 1) where level = 1`,
		`update tree_checkpoints set root = sha256('x') where size = (select max(size) from tree_checkpoints)`,
		`update tree_published set note = set_byte(note, 0, 65) where size = (select max(size) from tree_published)`,
		`update tree_head set vkey = 'x'`,
	} {
		w.inTransaction(owner, execute(t, sql))
		for name, read := range map[string]func() error{
			"Leaves":    func() error { _, _, err := w.reader.Leaves(t.Context(), 0, 10); return err },
			"Leaf":      func() error { _, _, err := w.reader.Leaf(t.Context(), 5); return err },
			"Inclusion": func() error { _, _, err := w.reader.Inclusion(t.Context(), 5, 300); return err },
			"entries": func() error {
				_, err := w.reader.Tile(t.Context(), publiclog.Tile{Width: 256, Entries: true})
				return err
			},
		} {
			if err := read(); !errors.Is(err, publiclog.ErrDamaged) {
				t.Errorf("%s: %s = %v, want ErrDamaged", sql, name, err)
			}
		}
		w.restore(owner)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if l, err := w.reader.Find(t.Context(), domain.Sum([]byte("x"))); l != nil || err != nil {
		t.Errorf("Find before the first checkpoint = %v, %v", l, err)
	}
	head := w.grow(40)
	w.add(3)
	w.integrate() // and not published
	var hidden domain.Hash
	for i, r := range w.public() {
		leaf := merkle.LeafHash(r.Hash[:])
		covered := uint64(i) < head.Size
		for _, hash := range []domain.Hash{r.Hash, leaf} {
			l, err := w.reader.Find(t.Context(), hash)
			if err != nil || (l != nil) != covered || covered && l.Index != uint64(i) {
				t.Fatalf("Find(%s) = %v, %v; record %d of %d", hash, l, err, i, head.Size)
			}
		}
		hidden = r.Hash
	}
	for hash, want := range map[domain.Hash]bool{head.Root: true, hidden: false} {
		if is, err := w.reader.IsRoot(t.Context(), hash); is != want || err != nil {
			t.Errorf("IsRoot(%s) = %t, %v, want %t", hash, is, err, want)
		}
	}
}

// What is remembered changes no answer, and makes nobody believe what contradicts the tree:
// tiles that lead to it are as good as read, and others are read and refused.
func TestCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cached := publiclog.Reader{Pool: w.pool, Cache: new(publiclog.Cache)}
	for _, n := range []int{1, 400, 3, 770} {
		size := w.grow(n).Size
		for range 2 {
			for _, index := range []uint64{0, size / 2, size - 1} {
				want, wantHead, err := w.reader.Inclusion(t.Context(), index, 0)
				if err != nil {
					t.Fatal(err)
				}
				got, gotHead, err := cached.Inclusion(t.Context(), index, 0)
				if err != nil {
					t.Fatalf("Inclusion(%d) of %d leaves: %v", index, size, err)
				}
				if diff := cmp.Diff(want, got) + cmp.Diff(wantHead, gotHead); diff != "" {
					t.Errorf("Inclusion(%d) of %d leaves is another one with a cache:\n%s", index, size, diff)
				}
			}
			want, _, err := w.reader.Consistency(t.Context(), size/3, size)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := cached.Consistency(t.Context(), size/3, size); err != nil || !cmp.Equal(want, got) {
				t.Errorf("Consistency(%d, %d) = %+v, %v with a cache, want %+v", size/3, size, got, err, want)
			}
		}
	}
	fresh := publiclog.Reader{Pool: w.pool, Cache: new(publiclog.Cache)}
	if _, _, err := fresh.Leaf(t.Context(), 700); err != nil {
		t.Fatal(err)
	}
	w.inTransaction(tamper(t, w.pool), execute(t,
		`update tree_tiles set hashes = set_byte(hashes, 170, get_byte(hashes, 170) # 1) where level = 0 and n = 0`))
	if _, _, err := cached.Inclusion(t.Context(), 5, 0); err != nil {
		t.Errorf("Inclusion(5) = %v where the tile is remembered that was changed since, want what it was", err)
	}
	if _, _, err := fresh.Inclusion(t.Context(), 5, 0); !errors.Is(err, publiclog.ErrDamaged) {
		t.Errorf("Inclusion(5) = %v where another tile is remembered, want ErrDamaged", err)
	}
}
