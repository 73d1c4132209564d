package kurrentdb

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// maxRemembered is how many records are remembered before all are forgotten.
const maxRemembered = 1 << 16

// histories remembers how streams begin, as far as this process has read them. That
// part of a stream never changes, so nothing here goes stale.
type histories struct {
	mu   sync.Mutex
	of   map[ledger.Stream]*history
	size int // records in all
}

// A history is how one stream begins. Its lock is that of its histories.
type history struct {
	hashes []domain.Hash // by version, from 1
	ids    map[uuid.UUID]uint64
}

// get returns the history of s, empty if nothing is known. The caller holds h.mu.
func (h *histories) get(s ledger.Stream) *history {
	if known := h.of[s]; known != nil {
		return known
	}
	return new(history)
}

// known returns how many records of s are known, and the hash of the last.
func (h *histories) known(s ledger.Stream) (length uint64, last domain.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hashes := h.get(s).hashes
	if len(hashes) > 0 {
		last = hashes[len(hashes)-1]
	}
	return uint64(len(hashes)), last
}

// extend adds the records that follow the first length ones, unless they came in
// from elsewhere meanwhile.
func (h *histories) extend(s ledger.Stream, length uint64, records []ledger.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.get(s)
	if uint64(len(one.hashes)) != length || len(records) == 0 {
		return
	}
	if h.of == nil || h.size+len(records) > maxRemembered {
		h.of, h.size = make(map[ledger.Stream]*history), len(one.hashes)
	}
	if one.ids == nil {
		one.ids = make(map[uuid.UUID]uint64)
	}
	for i := range records {
		one.hashes = append(one.hashes, records[i].Hash)
		one.ids[records[i].ID] = records[i].Version
	}
	h.of[s] = one
	h.size += len(records)
}

// A beginning is what an append must know of the records before it.
type beginning struct {
	length  uint64      // as many as expected, or all that there are
	hash    domain.Hash // of the last of them
	command bool        // whether the command of the append is among them
}

// at returns the beginning of s up to version, and whether that much is known.
func (h *histories) at(s ledger.Stream, version uint64, id uuid.UUID) (beginning, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.get(s)
	if version > uint64(len(one.hashes)) {
		return beginning{}, false
	}
	b := beginning{length: version}
	if version > 0 {
		b.hash = one.hashes[version-1]
	}
	at, stored := one.ids[id]
	b.command = stored && at <= version
	return b, true
}

// before returns how s begins, up to version, for a command whose first record has
// the given id. It reads what it does not know, and refuses to build on a chain that
// is broken.
func (l *Log) before(ctx context.Context, s ledger.Stream, version uint64, id uuid.UUID) (beginning, error) {
	for {
		b, known := l.histories.at(s, version, id)
		if known {
			return b, nil
		}
		length, last := l.histories.known(s)
		if length >= version {
			continue // another append has read it just now
		}
		r, err := l.readStream(ctx, s, length, version-length)
		if err != nil {
			return beginning{}, err
		}
		for i := range r.records {
			if got := r.records[i].ChainHash(last); got != r.records[i].Hash {
				return beginning{}, fmt.Errorf("its chain breaks at %d: %w", r.records[i].Version, errDamaged)
			}
			last = r.records[i].Hash
		}
		l.histories.extend(s, length, r.records)
		if end := length + uint64(len(r.records)); r.ended && end < version {
			return beginning{length: end}, nil
		}
	}
}
