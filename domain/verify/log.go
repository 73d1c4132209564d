package verify

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/producer"
)

// A LogCheck reads a public log again from its first record: each record has the hash
// that is its entry, the hashes of each stream lead from record to record, over sealed
// ones where an event opens them, what a producer wrote carries its signature and stands
// there once, what maintainers signed can follow on what was there and is signed with keys
// that were theirs then, and all entries together make the tree that was signed, now and when it was
// last looked at. What does not hold is an [ErrFailed].
type LogCheck struct {
	seen      checkpoint.Checkpoint // zero if there is none
	edge      merkle.Edge
	tips      map[ledger.Stream]tip
	producers map[ledger.Stream]producer.State
	signed    map[producer.Signature]struct{} // of events of producers
	people    *signers
}

// NewLogCheck returns the check of a log of which nothing has been read. seen is a
// checkpoint of it that was signed before, the zero Checkpoint if there is none.
func NewLogCheck(seen checkpoint.Checkpoint) *LogCheck {
	return &LogCheck{
		seen: seen, tips: make(map[ledger.Stream]tip),
		producers: make(map[ledger.Stream]producer.State), signed: make(map[producer.Signature]struct{}), people: newSigners(),
	}
}

// Size returns how many records have been read.
func (l *LogCheck) Size() uint64 { return l.edge.Size() }

// Streams returns how many streams they are of.
func (l *LogCheck) Streams() int { return len(l.tips) }

// Next says what is to be read next of a log with the given size: a tile of entries, by
// its path as C2SP tlog-tiles has it, and the n records from one on.
func (l *LogCheck) Next(size uint64) (tile string, from, n uint64) {
	from = l.edge.Size()
	n = min(merkle.TileWidth, size-from)
	path := tlog.Tile{H: 8, L: -1, N: int64(from / merkle.TileWidth), W: int(n)}.Path() //nolint:gosec // below checkpoint.MaxSize
	return strings.Replace(path, "tile/8/data/", "tile/entries/", 1), from, n
}

// Add reads what Next asked for: the tile, and the items of GET /v1/ledger/records that
// tell of its entries.
func (l *LogCheck) Add(tile []byte, items []json.RawMessage) error {
	for _, item := range items {
		entry, rest, ok := nextEntry(tile)
		if !ok {
			return fmt.Errorf("the tile with the entry of record %d is damaged: %w", l.edge.Size(), ErrFailed)
		}
		if err := l.add(entry, item); err != nil {
			return fmt.Errorf("record %d of the log: %w: %w", l.edge.Size(), err, ErrFailed)
		}
		if err := l.compare(); err != nil {
			return err
		}
		tile = rest
	}
	if len(tile) > 0 {
		return fmt.Errorf("the tile with the entry of record %d has more than it should: %w", l.edge.Size(), ErrFailed)
	}
	return nil
}

// nextEntry takes an entry off a tile: two bytes of length, and in this log 32 bytes of
// hash.
func nextEntry(tile []byte) (entry domain.Hash, rest []byte, ok bool) {
	const frame = 2
	if len(tile) < frame+len(entry) || int(binary.BigEndian.Uint16(tile)) != len(entry) {
		return entry, nil, false
	}
	return domain.Hash(tile[frame : frame+len(entry)]), tile[frame+len(entry):], true
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
	if err := l.vouch(&r); err != nil {
		return err
	}
	if err := l.people.add(&r); err != nil {
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

// vouch checks that an event of a producer is its own, and keeps what producers may do.
func (l *LogCheck) vouch(r *ledger.Record) error {
	if r.Stream.Category() == "producer" {
		e, err := domain.NewCatalog(producer.Events).Decode(r.Type, r.Data)
		if err != nil {
			return bad("it cannot be read: %v", err)
		}
		if e, ok := e.(producer.Event); ok {
			l.producers[r.Stream] = producer.Decider.Evolve(l.producers[r.Stream], e)
		}
		return nil
	}
	_, signed, err := producer.Split(r.Data)
	if err != nil {
		return bad("it cannot be read: %v", err)
	}
	if signed == (producer.Signed{}) {
		if producer.Only(r.Type) {
			return bad("no producer has signed it, and nobody else writes %s", r.Type)
		}
		return nil
	}
	if _, twice := l.signed[signed.Signature]; twice {
		return bad("the signature of its producer stands in the log before")
	}
	l.signed[signed.Signature] = struct{}{}
	states := func(id string) producer.State { return l.producers[producer.StreamOf(id)] }
	if err := producer.Verify(states, r.Stream, r.Type, r.Data, r.Time); err != nil {
		return bad("%s", domain.Sentence(err))
	}
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

// GrownBy returns an [ErrFailed] unless path proves that the log of one checkpoint, of
// one record at least, is the beginning of the larger one of another (RFC 6962, section
// 2.1.2).
func GrownBy(path []domain.Hash, seen, now checkpoint.Checkpoint) error {
	proof := make(tlog.TreeProof, len(path))
	for i, h := range path {
		proof[i] = tlog.Hash(h)
	}
	if err := tlog.CheckTree(proof, int64(now.Size), tlog.Hash(now.Root), int64(seen.Size), tlog.Hash(seen.Root)); err != nil { //nolint:gosec // below checkpoint.MaxSize
		return fmt.Errorf("the log does not prove that its %d records continue the %d of the last time: %w: %w", now.Size, seen.Size, err, ErrFailed)
	}
	return nil
}
