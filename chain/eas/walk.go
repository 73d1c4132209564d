package eas

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
)

// A Fault is what is wrong between a ledger and a chain, or on the chain itself.
type Fault struct {
	Kind   FaultKind   `json:"kind"`
	Batch  uint64      `json:"batch,omitempty"` // 0: it cannot be told
	UID    common.Hash `json:"uid"`
	Detail string      `json:"detail"`
}

// A FaultKind says what kind of fault it is.
type FaultKind string

// Kinds of faults.
const (
	Unreadable FaultKind = "unreadable" // an attestation by the attester that is none of a batch
	Twin       FaultKind = "twin"       // a second attestation of one batch
	Gap        FaultKind = "gap"        // a batch that was passed over
	Broken     FaultKind = "broken"     // an attestation that does not go on behind the one before
	Orphan     FaultKind = "orphan"     // an attestation of a batch that the ledger does not show so
	Missing    FaultKind = "missing"    // one that the ledger shows and the chain does not have
)

// A Claim is a batch as a ledger shows it; Attested is nil if it is not attested.
type Claim struct {
	Sealed   batch.Sealed
	Attested *batch.Attested
}

// Walk compares what a ledger shows, the batches under a schema, with all attestations
// by attester under that schema, in the order of the chain. Each batch has one
// attestation there at most, one at least if the ledger shows it as attested, and goes
// on behind the batch before.
func Walk(schema common.Hash, attester common.Address, claims []Claim, found []Attestation) (faults []Fault) {
	tell := func(kind FaultKind, n uint64, uid common.Hash, format string, args ...any) {
		faults = append(faults, Fault{kind, n, uid, fmt.Sprintf(format, args...)})
	}
	byNumber := make(map[uint64]Claim, len(claims))
	for _, c := range claims {
		byNumber[c.Sealed.Batch] = c
	}
	var (
		stands = make(map[uint64]common.Hash) // the attestation of each batch
		last   *Statement
		ref    common.Hash
	)
	for _, a := range found {
		said, err := a.Check(schema, attester)
		if err != nil {
			tell(Unreadable, 0, a.Uid, "%s", domain.Sentence(err))
			continue
		}
		if first, twice := stands[said.Batch]; twice {
			tell(Twin, said.Batch, a.Uid, "batch %d is attested by %s as well", said.Batch, first)
			continue
		}
		stands[said.Batch] = a.Uid
		switch {
		case last != nil && said.Batch > last.Batch+1:
			tell(Gap, last.Batch+1, a.Uid, "batch %d is followed by batch %d", last.Batch, said.Batch)
		case last != nil && said.Batch < last.Batch:
			tell(Broken, said.Batch, a.Uid, "batch %d is attested behind batch %d", said.Batch, last.Batch)
		case last != nil && (said.PreviousRoot != last.Root || a.RefUID != ref):
			tell(Broken, said.Batch, a.Uid, "it goes on behind the root %s and the attestation %s, and not behind %s and %s", said.PreviousRoot, a.RefUID, last.Root, ref)
		}
		last, ref = &said, a.Uid
		switch c, known := byNumber[said.Batch]; {
		case !known:
			tell(Orphan, said.Batch, a.Uid, "the ledger does not show batch %d", said.Batch)
		case said != StatementOf(c.Sealed):
			tell(Orphan, said.Batch, a.Uid, "the ledger shows batch %d with another content", said.Batch)
		case c.Attested != nil && c.Attested.UID != batch.Word(a.Uid):
			tell(Orphan, said.Batch, a.Uid, "the ledger shows batch %d as attested by %s", said.Batch, c.Attested.UID)
		}
	}
	for _, c := range claims {
		if _, ok := stands[c.Sealed.Batch]; c.Attested != nil && !ok {
			tell(Missing, c.Sealed.Batch, common.Hash(c.Attested.UID), "the chain has no attestation of batch %d", c.Sealed.Batch)
		}
	}
	return faults
}
