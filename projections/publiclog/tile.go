package publiclog

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// A Tile names a tile of C2SP tlog-tiles as it is asked for: with the number of its
// hashes, or of its entries.
type Tile struct {
	merkle.TileID
	Width   int
	Entries bool // of the leaves themselves; Level is 0
}

// ParseTile reads the path of a tile below the prefix of the log: "tile/0/x001/234" or
// "tile/entries/000.p/5". It returns [domain.ErrInvalid] for what is no such path in
// its one form.
func ParseTile(path string) (t Tile, err error) {
	rest, ok := strings.CutPrefix(path, "tile/")
	t.Entries = ok && strings.HasPrefix(rest, "entries/")
	if t.Entries {
		rest = "data/" + strings.TrimPrefix(rest, "entries/") // as package tlog has it
	}
	parsed, err := tlog.ParseTilePath("tile/8/" + rest)
	// Package tlog knows level 0 of the entries by another name in the same place.
	if !ok || err != nil || parsed.L < 0 != t.Entries || parsed.L > 63 {
		return Tile{}, fmt.Errorf("%q is not the path of a tile, such as tile/0/x001/234.p/56: %w", path, domain.ErrInvalid)
	}
	t.TileID = merkle.TileID{Level: max(parsed.L, 0), Index: uint64(parsed.N)} //nolint:gosec // not negative
	t.Width = parsed.W
	return t, nil
}

// nodes returns how many nodes of its level a tree has at least, if it has the tile,
// and false if no tree can be so large.
func (t Tile) nodes() (n uint64, ok bool) {
	n = t.Index*merkle.TileWidth + uint64(t.Width) //nolint:gosec // at most 256
	ok = t.Level < 8 && t.Index < 1<<54 && n < 1<<(62-8*t.Level)
	return n, ok
}

// appendEntry appends the entry of a leaf to an entry bundle.
func appendEntry(bundle []byte, entry domain.Hash) []byte {
	bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(entry)))
	return append(bundle, entry[:]...)
}
