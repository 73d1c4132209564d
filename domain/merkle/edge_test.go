package merkle_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

func numbered(n uint64) domain.Hash {
	return domain.Sum(binary.BigEndian.AppendUint64(nil, n))
}

// tiles is a store that only lets tiles grow.
type tiles map[merkle.TileID][]byte

func (s tiles) put(t *testing.T, flushed []merkle.Tile) {
	t.Helper()
	for _, tile := range flushed {
		if !bytes.HasPrefix(tile.Hashes, s[tile.TileID]) {
			t.Fatalf("%s was changed and not appended to", tile.TileID)
		}
		s[tile.TileID] = tile.Hashes
	}
}

func (s tiles) edge(size uint64) (list []merkle.Tile) {
	ids, widths := merkle.EdgeTiles(size)
	for i, id := range ids {
		list = append(list, merkle.Tile{TileID: id, Hashes: s[id][:32*widths[i]]})
	}
	return list
}

// Every size around the borders of tiles, appended in runs of several lengths.
func TestEdgeAgreesWithTlog(t *testing.T) {
	t.Parallel()
	const last = 256*256 + 600
	var foreign foreignLog
	stored, edge := tiles{}, new(merkle.Edge)
	interesting := func(n int) bool {
		return n < 70 || n%256 < 2 || n%256 > 254 || n%97 == 0
	}
	for n := range last {
		leaf := numbered(uint64(n))
		hashes, err := tlog.StoredHashes(int64(n), leaf[:], foreign)
		if err != nil {
			t.Fatal(err)
		}
		foreign = append(foreign, hashes...)
		edge.Append(merkle.LeafHash(leaf[:]))
		if !interesting(n + 1) {
			continue
		}
		want, err := tlog.TreeHash(int64(n+1), foreign)
		if err != nil || edge.Root() != domain.Hash(want) || edge.Size() != uint64(n+1) {
			t.Fatalf("Root of %d leaves = %s, want %x, %v", n+1, edge.Root(), want, err)
		}
		if n%3 > 0 {
			continue // several pages between two flushes
		}
		stored.put(t, edge.Flush())
		if edge, err = merkle.ResumeEdge(edge.Size(), stored.edge(edge.Size())); err != nil {
			t.Fatal(err)
		}
		if edge.Root() != domain.Hash(want) {
			t.Fatalf("Root of %d leaves after resuming = %s, want %x", n+1, edge.Root(), want)
		}
		if again := edge.Flush(); len(again) > 0 {
			t.Fatalf("Flush without an Append returns %d tiles", len(again))
		}
	}
	stored.put(t, edge.Flush())
	for _, tile := range tlog.NewTiles(8, 0, last) {
		want, err := tlog.ReadTileData(tile, foreign)
		if err != nil {
			t.Fatal(err)
		}
		id := merkle.TileID{Level: tile.L, Index: uint64(tile.N)}
		if !bytes.Equal(stored[id], want) {
			t.Errorf("%s differs from that of tlog", id)
		}
		if tile.W == merkle.TileWidth {
			above := stored[merkle.TileID{Level: tile.L + 1, Index: uint64(tile.N) / 256}]
			if root := merkle.TileRoot(want); !bytes.Equal(root[:], above[32*(tile.N%256):][:32]) {
				t.Errorf("TileRoot of %s = %s, which is not in the tile above", id, root)
			}
		}
		delete(stored, id)
	}
	for id := range stored {
		t.Errorf("%s is none that tlog has", id)
	}
}

// Published vectors: entry i is the SHA-256 of the decimal text of i.
func TestEdgeVectors(t *testing.T) {
	t.Parallel()
	roots := map[uint64]string{
		0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		2: "bbb441530bdded54e6e2bfcdc829819ff39b30768eb9f023071dffc16b410f10",
		3: "8be871f13785b4c81a1700459c76ac2b3ae2caebb7876c376e223c6adff98c47",
		5: "4e23fb40d8876f1299cca9b3c28432a01b11d1a20126606914612892ff2e09a7",
		8: "da17ac5d45a1b0c50260c7e411bf342ba2a41c9c824bb3b6404e5330a585a057",
	}
	var edge merkle.Edge
	for n := uint64(0); ; n++ {
		if want, ok := roots[n]; ok && edge.Root().String() != want {
			t.Errorf("Root of %d leaves = %s, want %s", n, edge.Root(), want)
		}
		if n == 8 {
			break
		}
		entry := domain.Sum([]byte(strconv.FormatUint(n, 10)))
		edge.Append(merkle.LeafHash(entry[:]))
	}
}

func TestResumeEdgeRefuses(t *testing.T) {
	t.Parallel()
	var edge merkle.Edge
	for n := range uint64(300) {
		edge.Append(numbered(n))
	}
	good := slices.DeleteFunc(edge.Flush(), func(tile merkle.Tile) bool { return len(tile.Hashes) == 256*32 })
	for _, tt := range []struct {
		name  string
		size  uint64
		tiles []merkle.Tile
	}{
		{"a tile missing", 300, good[:1]},
		{"no tiles", 300, nil},
		{"a smaller tree", 299, good},
		{"a larger tree", 301, good},
		{"a tree with another level", 1 << 40, good},
		{"half a hash", 300, []merkle.Tile{good[1], {TileID: good[0].TileID, Hashes: good[0].Hashes[16:]}}},
	} {
		if _, err := merkle.ResumeEdge(tt.size, tt.tiles); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: ResumeEdge = %v, want ErrInvalid", tt.name, err)
		}
	}
	if e, err := merkle.ResumeEdge(300, good); err != nil || e.Root() != edge.Root() {
		t.Errorf("ResumeEdge with the right tiles: %v", err)
	}
}

func BenchmarkEdge(b *testing.B) {
	b.ReportAllocs()
	var edge merkle.Edge
	leaf := numbered(1)
	for b.Loop() {
		edge.Append(leaf)
		if edge.Size()%4096 == 0 {
			edge.Flush()
			edge.Root()
		}
	}
}
