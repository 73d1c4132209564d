// Package batch records how commits are rolled into Merkle roots and what became
// of these roots on a chain.
//
// Its streams are batch/<n>, n counting from 1. A batch holds the commits of a run
// of public leaves of the log, from where the batch before it ended, in their
// order and each commit once: whoever has the public log knows what is in it. A
// batch is sealed with its root ([merkle.BatchTree]), submitted to a chain in
// signed transactions, attested when one of them is mined, and finalised when its
// block is. If the block, or the chance to get into one, is lost, the batch is
// dropped and submitted anew. What is attested never changes, only the
// attestation that it refers to.
//
// Batches form a chain: each names the root of the one before it, and is signed
// only after that one is attested. [Next] says what is to be done, without doing it.
package batch

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Sealed](domain.Public),
	domain.Current[Submitted](domain.Public),
	domain.Current[Attested](domain.Public),
	domain.Current[Finalised](domain.Public),
	domain.Current[Dropped](domain.Public),
}

// StreamOf names the stream of a batch.
func StreamOf(batch uint64) ledger.Stream {
	return ledger.Stream("batch/" + strconv.FormatUint(batch, 10))
}

// MaxCount is the most commits that a batch may have.
const MaxCount = 100_000

// maxNumber bounds the numbers in events: in JSON they must be exact.
const maxNumber = 1<<53 - 1

// An Event is a step in the life of a batch.
//
//sumtype:decl
type Event interface {
	domain.Event
	batchEvent()
}

// NumberOf returns the batch that an event tells of.
func NumberOf(e Event) uint64 {
	switch e := e.(type) {
	case Sealed:
		return e.Batch
	case Submitted:
		return e.Batch
	case Attested:
		return e.Batch
	case Finalised:
		return e.Batch
	case Dropped:
		return e.Batch
	}
	return 0
}

// Sealed means that it is settled what the batch holds and says. Chain and Schema
// are those of the attestation to be; all leaves depend on them.
type Sealed struct {
	Batch        uint64      `json:"batch"`
	Chain        uint64      `json:"chain"`
	Schema       Word        `json:"schema"`
	Root         domain.Hash `json:"root"`
	Count        uint32      `json:"count"`        // of commits
	PreviousRoot domain.Hash `json:"previousRoot"` // zero for the first batch
	From         uint64      `json:"from"`         // index of the first public leaf
	To           uint64      `json:"to"`           // index behind the last
	LogSize      uint64      `json:"logSize"`      // of the public log, To at least
	LogRoot      domain.Hash `json:"logRoot"`
}

// ID returns what the leaves of the batch begin with.
func (s Sealed) ID() domain.Hash {
	return merkle.BatchID(s.Chain, domain.Hash(s.Schema), s.Batch, s.PreviousRoot)
}

// Submitted means that a transaction with the batch is signed and about to be
// sent. There may be several, any of which may be mined, but only one: those that
// follow each other without a [Dropped] in between share the nonce.
type Submitted struct {
	Batch    uint64         `json:"batch"`
	Attester eip191.Address `json:"attester"`
	EAS      eip191.Address `json:"eas"`
	Nonce    uint64         `json:"nonce"`
	Tx       Word           `json:"tx"`
	RefUID   Word           `json:"refUid"` // attestation of the batch before, if that is on the same chain under the same schema
}

// Attested means that the batch stands in a block that has been built upon.
type Attested struct {
	Batch     uint64         `json:"batch"`
	Attester  eip191.Address `json:"attester"`
	EAS       eip191.Address `json:"eas"`
	UID       Word           `json:"uid"`
	RefUID    Word           `json:"refUid"`
	Tx        Word           `json:"tx"`
	Block     uint64         `json:"block"`
	BlockHash Word           `json:"blockHash"`
	Time      time.Time      `json:"time"` // of the block
}

// same reports whether both are one attestation in one block.
func (a Attested) same(b Attested) bool {
	return a.Batch == b.Batch && a.UID == b.UID && a.Tx == b.Tx && a.Block == b.Block && a.BlockHash == b.BlockHash
}

// Finalised means that the block of the attestation is not going to change.
type Finalised struct {
	Batch uint64 `json:"batch"`
	UID   Word   `json:"uid"`
}

// Dropped means that what was submitted or attested so far does not hold.
type Dropped struct {
	Batch  uint64 `json:"batch"`
	Reason Reason `json:"reason"`
	UID    Word   `json:"uid,omitzero"` // of the attestation that is gone
}

// A Reason says why a batch was dropped.
type Reason string

// Reasons.
const (
	Reorganised Reason = "reorganised" // the block of the attestation left the chain
	Reverted    Reason = "reverted"    // the contract refused the transaction
	NonceTaken  Reason = "nonce_taken" // another transaction of the attester was mined in its place
	Superseded  Reason = "superseded"  // the batch before was attested anew
)

// EventType implements [domain.Event].
func (Sealed) EventType() domain.Type { return "batch.sealed.v1" }

// EventType implements [domain.Event].
func (Submitted) EventType() domain.Type { return "batch.submitted.v1" }

// EventType implements [domain.Event].
func (Attested) EventType() domain.Type { return "batch.attested.v1" }

// EventType implements [domain.Event].
func (Finalised) EventType() domain.Type { return "batch.finalised.v1" }

// EventType implements [domain.Event].
func (Dropped) EventType() domain.Type { return "batch.dropped.v1" }

func (Sealed) batchEvent()    {}
func (Submitted) batchEvent() {}
func (Attested) batchEvent()  {}
func (Finalised) batchEvent() {}
func (Dropped) batchEvent()   {}

// A Command asks for a step.
//
//sumtype:decl
type Command interface{ batchCommand() }

// Seal asks to settle a batch behind the batch Before, which is nil for the first.
type Seal struct {
	Sealed Sealed
	Before *State
}

// Submit asks to take down a signed transaction. Before is the batch before, nil
// for the first. Seen is how many transactions of the batch were on record when it was
// decided to sign this one: if others have come since, it was not called for.
type Submit struct {
	Submitted Submitted
	Before    *State
	Seen      int
}

// Attest asks to take down that a transaction was mined.
type Attest Attested

// Finalise asks to take down that an attestation is final.
type Finalise Finalised

// Drop asks to take back what was submitted or attested. Seen is as with [Submit].
type Drop struct {
	Dropped Dropped
	Seen    int
}

func (Seal) batchCommand()     {}
func (Submit) batchCommand()   {}
func (Attest) batchCommand()   {}
func (Finalise) batchCommand() {}
func (Drop) batchCommand()     {}

// State is where a batch stands. Its zero value is a batch that is not sealed.
type State struct {
	Sealed    *Sealed
	Submitted []Submitted // all there ever were
	Round     []Submitted // those since the batch was last dropped
	Attested  *Attested
	Final     bool
}

// RefUID returns what the attestation of the batch next refers to, which goes on
// behind s. The first batch, where s is nil, and the first on another chain or
// under another schema refer to nothing.
func (s *State) RefUID(next *Sealed) Word {
	if s == nil || s.Attested == nil || s.Sealed.Chain != next.Chain || s.Sealed.Schema != next.Schema {
		return Word{}
	}
	return s.Attested.UID
}

// Decider is the life of one batch.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	if _, first := c.(Seal); !first && s.Sealed == nil {
		return nil, fmt.Errorf("the batch is not sealed: %w", domain.ErrNotFound)
	}
	switch c := c.(type) {
	case Seal:
		return seal(s, c.Sealed, c.Before)
	case Submit:
		return submit(s, c)
	case Attest:
		return attest(s, Attested(c))
	case Finalise:
		switch {
		case c.Batch != s.Sealed.Batch || s.Attested == nil || c.UID != s.Attested.UID:
			return nil, fmt.Errorf("batch %d is not attested by %s: %w", c.Batch, c.UID, domain.ErrConflict)
		case s.Final:
			return nil, nil
		}
		return []Event{Finalised(c)}, nil
	case Drop:
		return drop(s, c.Dropped, c.Seen)
	}
	panic(fmt.Sprintf("batch: unreachable command %T", c))
}

func seal(s State, c Sealed, last *State) ([]Event, error) {
	if s.Sealed != nil {
		if *s.Sealed == c {
			return nil, nil
		}
		return nil, fmt.Errorf("batch %d is sealed with other commits: %w", c.Batch, domain.ErrConflict)
	}
	before := Sealed{}
	if last != nil && last.Sealed != nil {
		before = *last.Sealed
	}
	switch {
	case c.Batch != before.Batch+1:
		return nil, fmt.Errorf("the batch behind %d is %d and not %d: %w", before.Batch, before.Batch+1, c.Batch, domain.ErrConflict)
	case c.PreviousRoot != before.Root:
		return nil, fmt.Errorf("batch %d names %s as the root of the batch before, which is %s: %w", c.Batch, c.PreviousRoot, before.Root, domain.ErrConflict)
	case c.From != before.To || c.LogSize < before.LogSize:
		return nil, fmt.Errorf("batch %d does not begin where batch %d ended: %w", c.Batch, before.Batch, domain.ErrConflict)
	case c.Count == 0 || c.Count > MaxCount:
		return nil, fmt.Errorf("a batch has 1 to %d commits, not %d: %w", MaxCount, c.Count, domain.ErrInvalid)
	case c.To <= c.From || uint64(c.Count) > c.To-c.From:
		return nil, fmt.Errorf("%d commits do not fit into the leaves from %d to %d: %w", c.Count, c.From, c.To, domain.ErrInvalid)
	case c.LogSize < c.To:
		return nil, fmt.Errorf("batch %d ends at leaf %d of a log that has %d: %w", c.Batch, c.To, c.LogSize, domain.ErrInvalid)
	case c.Chain == 0 || c.Chain > maxNumber || c.LogSize > maxNumber:
		return nil, fmt.Errorf("batch %d has a number that JSON cannot hold: %w", c.Batch, domain.ErrInvalid)
	}
	return []Event{c}, nil
}

func submit(s State, asked Submit) ([]Event, error) {
	c, before := asked.Submitted, asked.Before
	if slices.Contains(s.Submitted, c) {
		return nil, nil
	}
	switch {
	case c.Batch != s.Sealed.Batch:
		return nil, fmt.Errorf("the transaction is of batch %d and not of %d: %w", c.Batch, s.Sealed.Batch, domain.ErrConflict)
	case s.Attested != nil:
		return nil, fmt.Errorf("batch %d is attested already: %w", c.Batch, domain.ErrConflict)
	case c.Batch > 1 && (before == nil || before.Sealed == nil || before.Sealed.Root != s.Sealed.PreviousRoot || before.Attested == nil):
		return nil, fmt.Errorf("batch %d is signed after batch %d is attested: %w", c.Batch, c.Batch-1, domain.ErrConflict)
	case c.RefUID != before.RefUID(s.Sealed):
		return nil, fmt.Errorf("the attestation of batch %d refers to %s and not to that of the batch before: %w", c.Batch, c.RefUID, domain.ErrConflict)
	case c.Nonce > maxNumber:
		return nil, fmt.Errorf("the nonce %d is too large: %w", c.Nonce, domain.ErrInvalid)
	case len(s.Round) > 0 && !s.Round[0].replacedBy(c):
		return nil, fmt.Errorf("batch %d has a transaction with nonce %d under way, which another one can only replace: %w", c.Batch, s.Round[0].Nonce, domain.ErrConflict)
	case len(s.Submitted) != asked.Seen:
		return nil, overtaken(s, asked.Seen)
	}
	return []Event{c}, nil
}

func overtaken(s State, seen int) error {
	return fmt.Errorf("batch %d has %d transactions by now and not %d: %w", s.Sealed.Batch, len(s.Submitted), seen, domain.ErrConflict)
}

// replacedBy reports whether at most one of the two transactions can be mined, and
// both say the same.
func (s Submitted) replacedBy(other Submitted) bool {
	s.Tx = other.Tx
	return s == other
}

func attest(s State, a Attested) ([]Event, error) {
	if s.Attested != nil {
		if s.Attested.same(a) {
			return nil, nil
		}
		return nil, fmt.Errorf("batch %d is attested by %s already: %w", a.Batch, s.Attested.UID, domain.ErrConflict)
	}
	switch {
	case a.UID == Word{}:
		return nil, fmt.Errorf("an attestation has a UID: %w", domain.ErrInvalid)
	case a.Block > maxNumber:
		return nil, fmt.Errorf("the block %d has too large a number: %w", a.Block, domain.ErrInvalid)
	}
	for _, t := range s.Submitted {
		if t.Batch == a.Batch && t.Attester == a.Attester && t.EAS == a.EAS && t.Tx == a.Tx && t.RefUID == a.RefUID {
			return []Event{a}, nil
		}
	}
	return nil, fmt.Errorf("the transaction %s is none of batch %d: %w", a.Tx, s.Sealed.Batch, domain.ErrConflict)
}

func drop(s State, d Dropped, seen int) ([]Event, error) {
	var uid Word
	if s.Attested != nil {
		uid = s.Attested.UID
	}
	switch {
	case d.Batch != s.Sealed.Batch || d.UID != uid:
		return nil, fmt.Errorf("batch %d is not what is to be dropped: %w", s.Sealed.Batch, domain.ErrConflict)
	case s.Final:
		return nil, fmt.Errorf("batch %d is final: %w", d.Batch, domain.ErrConflict)
	case s.Attested == nil && len(s.Round) == 0:
		return nil, nil
	case len(s.Submitted) != seen:
		return nil, overtaken(s, seen)
	}
	switch d.Reason {
	case Reorganised, Reverted, NonceTaken, Superseded:
		return []Event{d}, nil
	}
	return nil, fmt.Errorf("a batch is not dropped for the reason %q: %w", d.Reason, domain.ErrInvalid)
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case Sealed:
		s.Sealed = &e
	case Submitted:
		s.Submitted = append(slices.Clip(s.Submitted), e)
		s.Round = append(slices.Clip(s.Round), e)
	case Attested:
		s.Attested = &e
	case Finalised:
		s.Final = true
	case Dropped:
		s.Round, s.Attested = nil, nil
	}
	return s
}
