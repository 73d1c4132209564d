package verify

import (
	"encoding/json"
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// A LogCheck reads a public log again from its first record: each record has the hash
// that is its entry, the hashes of each stream lead from record to record, over sealed
// ones where an event opens them, and all entries together make the tree that was
// signed, now and when it was last looked at. What does not hold is an [ErrFailed].
type LogCheck struct {
	seen checkpoint.Checkpoint // zero if there is none
	edge merkle.Edge
	tips map[ledger.Stream]tip
}

// NewLogCheck returns the check of a log of which nothing has been read. seen is a
// checkpoint of it that was signed before, the zero Checkpoint if there is none.
func NewLogCheck(seen checkpoint.Checkpoint) *LogCheck {
	return &LogCheck{seen: seen, tips: make(map[ledger.Stream]tip)}
}

// Size returns how many records have been read.
func (l *LogCheck) Size() uint64 { return l.edge.Size() }

// Streams returns how many streams they are of.
func (l *LogCheck) Streams() int { return len(l.tips) }

// Add reads the next record: its entry, as a tile has it, and the item of GET
// /v1/ledger/records that tells of it.
func (l *LogCheck) Add(entry domain.Hash, item []byte) error {
	if err := l.add(entry, item); err != nil {
		return fmt.Errorf("record %d of the log: %w: %w", l.edge.Size(), err, ErrFailed)
	}
	return l.compare()
}

func (l *LogCheck) add(entry domain.Hash, item []byte) error {
	var shown struct {
		Index    uint64          `json:"index"`
		Prev     domain.Hash     `json:"prevHash"`
		Hash     domain.Hash     `json:"hash"`
		LeafHash domain.Hash     `json:"leafHash"`
		Record   json.RawMessage `json:"record"`
	}
	if err := domain.Unmarshal(item, &shown); err != nil {
		return bad("it cannot be read: %v", err)
	}
	var r ledger.Record
	if err := json.Unmarshal(shown.Record, &r); err != nil {
		return bad("it cannot be read: %v", err)
	}
	leaf := merkle.LeafHash(entry[:])
	switch {
	case shown.Index != l.edge.Size():
		return bad("it is said to be record %d", shown.Index)
	case ledger.HashOf(shown.Record, shown.Prev) != entry || shown.Hash != entry || shown.LeafHash != leaf:
		return bad("its bytes do not have the hash %s, which is its entry", entry)
	}
	if err := l.follow(&r, shown.Prev, entry); err != nil {
		return err
	}
	l.edge.Append(leaf)
	if l.edge.Size()%merkle.TileWidth == 0 {
		l.edge.Flush() // nobody needs the tiles
	}
	return nil
}

// follow checks the place of a record in its stream.
func (l *LogCheck) follow(r *ledger.Record, prev, hash domain.Hash) error {
	last := l.tips[r.Stream]
	if r.Version <= last.version {
		return bad("version %d of %s stands behind version %d", r.Version, r.Stream, last.version)
	}
	if r.Version > last.version+1 {
		var opened struct {
			Records []ledger.Record `json:"records"`
		}
		if err := json.Unmarshal(r.Data, &opened); err != nil {
			return bad("the sealed records that it opens cannot be read: %v", err)
		}
		for i := range opened.Records {
			sealed := &opened.Records[i]
			if sealed.Stream != r.Stream || sealed.Version != last.version+1 {
				return bad("the sealed records that it opens are not those before it in %s", r.Stream)
			}
			last = tip{sealed.Version, sealed.ChainHash(last.hash)}
		}
	}
	switch {
	case r.Version != last.version+1:
		return bad("nothing opens what is between version %d of %s and version %d", last.version, r.Stream, r.Version)
	case prev != last.hash:
		return bad("the hashes of %s do not lead from version %d to version %d", r.Stream, last.version, r.Version)
	}
	l.tips[r.Stream] = tip{r.Version, hash}
	return nil
}

// compare holds what has been read against the checkpoint that was seen before.
func (l *LogCheck) compare() error {
	if l.edge.Size() == l.seen.Size && l.edge.Root() != l.seen.Root {
		return fmt.Errorf("the log was rewritten: its first %d records are not those that were signed when it was last looked at: %w", l.seen.Size, ErrFailed)
	}
	return nil
}

// End checks that what has been read is what was signed.
func (l *LogCheck) End(signed checkpoint.Checkpoint) error {
	switch {
	case l.edge.Size() != signed.Size:
		return fmt.Errorf("%d records were read, and %d were signed: %w", l.edge.Size(), signed.Size, ErrFailed)
	case signed.Size > 0 && l.edge.Root() != signed.Root:
		return fmt.Errorf("the %d records make a tree with the root %s, and %s was signed: %w", signed.Size, l.edge.Root(), signed.Root, ErrFailed)
	}
	return nil
}

// Grown returns an [ErrFailed] if a log cannot have grown from one checkpoint to
// another: it was set back, or has another root at the same size.
func Grown(seen, now checkpoint.Checkpoint) error {
	switch {
	case now.Size < seen.Size:
		return fmt.Errorf("the log was set back: it has %d records, and had %d when it was last looked at: %w", now.Size, seen.Size, ErrFailed)
	case now.Size == seen.Size && now.Root != seen.Root:
		return fmt.Errorf("the log signed two roots of %d records, %s and %s: %w", now.Size, seen.Root, now.Root, ErrFailed)
	}
	return nil
}
