package replay

import (
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// batches are the batches of a ledger, and the commits that wait for one.
type batches struct {
	states map[uint64]*batch.State
	public uint64 // records so far
	open   []openCommit
	known  map[domain.Hash]struct{} // commits that a batch takes no second time
}

// An openCommit is a commit that no batch has taken yet.
type openCommit struct {
	commit domain.Hash
	leaf   uint64 // index of its public record
}

// count takes note of a record of the public log.
func (b *batches) count(e domain.Event) {
	leaf := b.public
	b.public++
	var commit domain.Hash
	switch e := e.(type) {
	case shop.Committed:
		commit = e.Commit
	case seal.Sealed:
		commit = e.Root
	default:
		return
	}
	if _, ok := b.known[commit]; !ok {
		b.known[commit] = struct{}{}
		b.open = append(b.open, openCommit{commit, leaf})
	}
}

// take removes the commits of a batch from those that wait, or says why it cannot hold
// them.
func (b *batches) take(e batch.Sealed) error {
	n := int(e.Count)
	if n > len(b.open) || b.open[n-1].leaf+1 != e.To {
		return bad("the commits that wait are not those of the leaves up to %d", e.To)
	}
	commits := make([]domain.Hash, n)
	for i := range commits {
		commits[i] = b.open[i].commit
	}
	tree, err := merkle.NewBatchTree(e.ID(), commits)
	if err != nil {
		return err
	}
	if root := tree.Root(); root != e.Root {
		return bad("its commits have the root %s, and it has %s", root, e.Root)
	}
	if e.LogSize > b.public {
		return bad("it was sealed as of a log of %d records, and there were %d", e.LogSize, b.public)
	}
	b.open = b.open[n:]
	return nil
}

// A rolled is the aggregate of a batch.
type rolled struct {
	all    *batches
	stream ledger.Stream
}

func (r *rolled) add(events []domain.Event, _ []ledger.Record) error {
	own := make([]batch.Event, len(events))
	for i, e := range events {
		var ok bool
		if own[i], ok = e.(batch.Event); !ok {
			return &misfit{i, bad("%s has no place in this stream", e.EventType())}
		}
		if n := batch.NumberOf(own[i]); batch.StreamOf(n) != r.stream {
			return &misfit{i, bad("%s is of batch %d, which has another stream", e.EventType(), n)}
		}
	}
	n := batch.NumberOf(own[0])
	state := r.all.states[n]
	if state == nil {
		state = new(batch.State)
	}
	if err := batch.Check(*state, r.all.states[n-1], own); err != nil {
		return err
	}
	if e, ok := own[0].(batch.Sealed); ok {
		if err := r.all.take(e); err != nil {
			return err
		}
	}
	*state = batch.Decider.Evolve(*state, own[0])
	r.all.states[n] = state
	return nil
}
