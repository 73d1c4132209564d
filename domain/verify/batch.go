package verify

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// A PublishedBatch is a batch as the ledger shows it. Attested is nil while it is not
// attested, and what only the record of the attestation tells is not in it.
type PublishedBatch struct {
	Sealed   batch.Sealed
	Attested *batch.Attested
	Final    bool
}

// ParseBatch reads the body of GET /v1/ledger/batches/{n}, or an item of the list of
// batches. What cannot be read is a [domain.ErrInvalid].
func ParseBatch(body []byte) (p PublishedBatch, err error) {
	var b struct {
		batch.Sealed
		Attestation *struct {
			UID       batch.Word     `json:"uid"`
			RefUID    batch.Word     `json:"refUid"`
			EAS       eip191.Address `json:"eas"`
			Attester  eip191.Address `json:"attester"`
			Tx        batch.Word     `json:"tx"`
			Block     uint64         `json:"block"`
			BlockHash batch.Word     `json:"blockHash"`
			Time      time.Time      `json:"time"`
			Final     bool           `json:"final"`
		} `json:"attestation"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return p, fmt.Errorf("this is not a batch (%w): %w", err, domain.ErrInvalid)
	}
	p.Sealed = b.Sealed
	if b.Batch == 0 || b.Count == 0 || b.Count > batch.MaxCount || b.To <= b.From {
		return p, fmt.Errorf("this is not a batch: it needs a number, 1 to %d commits and a run of records: %w", batch.MaxCount, domain.ErrInvalid)
	}
	if a := b.Attestation; a != nil {
		p.Final = a.Final
		p.Attested = &batch.Attested{
			Batch: b.Batch, Attester: a.Attester, EAS: a.EAS, UID: a.UID, RefUID: a.RefUID, Tx: a.Tx,
			Block: a.Block, BlockHash: a.BlockHash, Time: a.Time.UTC(),
		}
	}
	return p, nil
}

// Members checks that a batch holds just the commits of its run of the public log: the
// tree over those that records hold, in their order, must have its root. Records are
// the canonical ones of the run, from and to as the batch says. A commit that is made
// twice counts where it stands first; one that an earlier batch took already, which
// takes two equal commits, would be reported as a difference.
func (p PublishedBatch) Members(records [][]byte) Check {
	s := p.Sealed
	fail := func(format string, args ...any) Check { return Check{"members", Fail, fmt.Sprintf(format, args...)} }
	if uint64(len(records)) != s.To-s.From {
		return fail("the log shows %d records where batch %d takes %d", len(records), s.Batch, s.To-s.From)
	}
	var commits []domain.Hash
	seen := make(map[domain.Hash]bool)
	for i, r := range records {
		c, ok, err := commitOf(r)
		switch {
		case err != nil:
			return fail("record %d cannot be read: %s", s.From+uint64(i), domain.Sentence(err))
		case ok && !seen[c]:
			seen[c], commits = true, append(commits, c)
		}
	}
	if len(commits) != int(s.Count) {
		return fail("the records from %d to %d hold %d commits, and batch %d says %d", s.From, s.To, len(commits), s.Batch, s.Count)
	}
	tree, err := merkle.NewBatchTree(s.ID(), commits)
	if err != nil {
		return fail("%s", domain.Sentence(err))
	}
	if root := tree.Root(); root != s.Root {
		return fail("the %d commits of the records from %d to %d have the root %s and not %s", s.Count, s.From, s.To, root, s.Root)
	}
	return Check{"members", Pass, fmt.Sprintf("the %d commits of the records from %d to %d have the root %s", s.Count, s.From, s.To, s.Root)}
}

// commitOf returns what a record commits to, if it does.
func commitOf(record []byte) (c domain.Hash, ok bool, err error) {
	var r struct {
		Type domain.Type `json:"type"`
		Data struct {
			Commit domain.Hash `json:"commit"`
			Root   domain.Hash `json:"root"`
		} `json:"data"`
	}
	var kind struct {
		Type domain.Type `json:"type"`
	}
	if err := json.Unmarshal(record, &kind); err != nil {
		return c, false, fmt.Errorf("%w: %w", err, domain.ErrInvalid)
	}
	committed, sealed := shop.Committed{}.EventType(), seal.Sealed{}.EventType()
	if kind.Type != committed && kind.Type != sealed {
		return c, false, nil
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return c, false, fmt.Errorf("%w: %w", err, domain.ErrInvalid)
	}
	if kind.Type == sealed {
		return r.Data.Root, true, nil
	}
	return r.Data.Commit, true, nil
}
