package batch

import (
	"fmt"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
)

// A Policy says when batches are closed, and what is to be thought of a chain.
type Policy struct {
	// After is how long after each full hour a batch is closed.
	After time.Duration

	// Size is how many commits close a batch before its hour; MaxCount at most.
	Size int

	// Confirmations is how many blocks stand on top of that of an attestation
	// before the batch counts as attested, and the next one is signed.
	Confirmations uint64

	// Depth is how many blocks on top make it final on a chain that does not say
	// itself which blocks are. 0: nothing but the chain's word counts.
	Depth uint64

	// Patience is how long a transaction may wait in the pool before its fee is
	// raised.
	Patience time.Duration
}

// An Open commit waits for its batch. Index is that of its public leaf.
type Open struct {
	Commit domain.Hash
	Index  uint64
	Time   time.Time // when it was recorded
}

// Members returns how many of the open commits, which are in the order of their
// leaves, make the next batch at now: none if it is not time yet. A batch is closed
// once in every hour if any commit is older than the moment of that hour, and
// early if there are enough commits. So it does not matter how often or when
// exactly Members is asked, nor whether the program was down meanwhile.
func Members(p Policy, open []Open, now time.Time) int {
	moment := now.Add(-p.After).Truncate(time.Hour).Add(p.After)
	if len(open) == 0 || !open[0].Time.Before(moment) && len(open) < p.Size {
		return 0
	}
	if len(open) >= p.Size {
		return min(p.Size, MaxCount)
	}
	n := 0
	for n < len(open) && open[n].Time.Before(moment) {
		n++
	}
	return min(n, MaxCount)
}

// Close returns the batch of commits behind the batch before, and its tree. The
// log is that of the latest checkpoint, and holds all commits. The batch ends
// behind the leaf of its last commit. That a member stands before the batch is a
// [domain.ErrConflict]: it is in the batch before.
func Close(before *State, chain uint64, schema Word, members []Open, logSize uint64, logRoot domain.Hash) (Sealed, *merkle.BatchTree, error) {
	s := Sealed{Batch: 1, Chain: chain, Schema: schema, Count: uint32(len(members)), LogSize: logSize, LogRoot: logRoot} //nolint:gosec // at most MaxCount
	if before != nil {
		s.Batch, s.PreviousRoot, s.From = before.Sealed.Batch+1, before.Sealed.Root, before.Sealed.To
	}
	if len(members) > 0 && members[0].Index < s.From {
		return Sealed{}, nil, fmt.Errorf("the commit at leaf %d is in batch %d already: %w", members[0].Index, s.Batch-1, domain.ErrConflict)
	}
	commits := make([]domain.Hash, len(members))
	for i, m := range members {
		commits[i], s.To = m.Commit, m.Index+1
	}
	tree, err := merkle.NewBatchTree(s.ID(), commits)
	if err != nil {
		return Sealed{}, nil, err
	}
	s.Root = tree.Root()
	return s, tree, nil
}

// A View is what a chain shows of a batch, and of the account that attests. All of
// it is as of one head.
type View struct {
	Now  time.Time
	Head uint64 // number of the newest block

	// Final is the number of the newest block that the chain itself calls
	// finalised; 0 if it does not say.
	Final uint64

	// Nonce is that of the account's next transaction behind Head, and Settled the
	// same at the block that has [Policy.Confirmations] on top.
	Nonce, Settled uint64

	// Mined is the attestation of the batch that stands in a block of the chain
	// now, whichever of its transactions that came of. Nil if there is none.
	Mined *Attested

	// Failed is the number of the block in which a transaction of the batch was
	// mined and refused by the contract; 0 if there is none.
	Failed uint64

	// Sent is when the latest transaction was signed, and Pooled whether a node
	// still has it waiting.
	Sent   time.Time
	Pooled bool
}

// A Step is what is to be done next about a batch.
//
//sumtype:decl
type Step interface{ step() }

// The steps.
type (
	// Wait is to do nothing until the chain shows something else.
	Wait struct{}

	// Sign is to sign a first transaction, with this nonce and reference, and to send it.
	Sign struct {
		Nonce  uint64
		RefUID Word
	}

	// Resend is to send the latest transaction again, bytes and all.
	Resend struct{}

	// Raise is to raise the fees: to sign another transaction that says the same with the same
	// nonce, and to send it.
	Raise struct {
		Nonce  uint64
		RefUID Word
	}

	// Record is to carry out a command on the batch.
	Record struct{ Command Command }
)

func (Wait) step()   {}
func (Sign) step()   {}
func (Resend) step() {}
func (Raise) step()  {}
func (Record) step() {}

// Next returns what is to be done about the sealed batch in state s, behind the
// batch before, which is nil for the first. The chain is looked at first, whatever
// was meant to be done: v must be what it shows now.
//
// A head that lies behind an attestation's block says nothing about it, for a node
// may have fallen behind. That another transaction took the nonce counts only when
// that one is confirmed, since a second transaction with another nonce would attest
// the batch twice.
func Next(p Policy, s State, before *State, v View) Step {
	switch {
	case s.Final:
		return Wait{}
	case s.Attested != nil:
		return follow(p, s, v)
	case v.Mined != nil:
		if v.Head < v.Mined.Block+p.Confirmations {
			return Wait{}
		}
		return Record{Attest(*v.Mined)}
	case s.Sealed.Batch > 1 && (before == nil || before.Attested == nil):
		return Wait{}
	}
	ref := before.RefUID(s.Sealed)
	if len(s.Round) == 0 {
		return Sign{v.Nonce, ref}
	}
	sent := s.Round[len(s.Round)-1]
	dropped := func(r Reason) Step { return Record{Drop{Dropped{Batch: sent.Batch, Reason: r}, len(s.Submitted)}} }
	switch {
	case v.Failed > 0 && v.Head >= v.Failed+p.Confirmations:
		return dropped(Reverted)
	case v.Failed > 0:
		return Wait{}
	case v.Settled > sent.Nonce:
		return dropped(NonceTaken)
	case v.Nonce > sent.Nonce: // mined, but the receipt is still to come
		return Wait{}
	case sent.RefUID != ref:
		return dropped(Superseded)
	case !v.Sent.IsZero() && v.Now.Sub(v.Sent) >= p.Patience:
		return Raise{sent.Nonce, ref}
	case !v.Pooled:
		return Resend{}
	}
	return Wait{}
}

// follow says what becomes of an attestation until it is final.
func follow(p Policy, s State, v View) Step {
	switch a := *s.Attested; {
	case v.Head < a.Block:
		return Wait{}
	case v.Mined == nil || !v.Mined.same(a):
		return Record{Drop{Dropped{Batch: a.Batch, Reason: Reorganised, UID: a.UID}, len(s.Submitted)}}
	case v.Final >= a.Block, p.Depth > 0 && v.Head >= a.Block+p.Depth:
		return Record{Finalise{Batch: a.Batch, UID: a.UID}}
	}
	return Wait{}
}
