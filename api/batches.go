package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/projections"
)

type batchBody struct {
	Batch        uint64           `json:"batch" doc:"Counted from 1."`
	State        string           `json:"state" enum:"sealed,submitted,attested,finalised"`
	SealedAt     time.Time        `json:"sealedAt"`
	Chain        uint64           `json:"chain" doc:"Id of the chain (EIP-155) that the root is attested on."`
	Schema       batch.Word       `json:"schema" doc:"UID of the EAS schema."`
	BatchID      domain.Hash      `json:"batchId" doc:"What every leaf begins with, behind its tag: keccak256 over chain, schema, batch and previousRoot, 32 bytes each."`
	Root         domain.Hash      `json:"root"`
	Count        uint32           `json:"count" doc:"How many commits it holds."`
	PreviousRoot domain.Hash      `json:"previousRoot" doc:"Root of the batch before; zeros for the first."`
	From         uint64           `json:"from" doc:"Index of the first public record that it takes commits from."`
	To           uint64           `json:"to" doc:"Index behind the last one."`
	LogSize      uint64           `json:"logSize" doc:"Size of the public log when it was sealed."`
	LogRoot      domain.Hash      `json:"logRoot"`
	Attestation  *attestationBody `json:"attestation,omitempty" doc:"Absent until a block with it has been built upon."`
}

type attestationBody struct {
	UID       batch.Word     `json:"uid"`
	RefUID    batch.Word     `json:"refUid" doc:"The attestation of the batch before; zeros for the first."`
	EAS       eip191.Address `json:"eas"`
	Attester  eip191.Address `json:"attester"`
	Tx        batch.Word     `json:"tx"`
	Block     uint64         `json:"block"`
	BlockHash batch.Word     `json:"blockHash"`
	Time      time.Time      `json:"time" doc:"Of the block."`
	Final     bool           `json:"final" doc:"False while the block may still be replaced, and the UID with it."`
}

func batchOf(b projections.Batch) batchBody {
	return batchBody{
		Batch: b.Batch, State: stateOf(b), SealedAt: b.SealedAt, Chain: b.Chain, Schema: b.Schema, BatchID: b.ID(), Root: b.Root, Count: b.Count,
		PreviousRoot: b.PreviousRoot, From: b.From, To: b.To, LogSize: b.LogSize, LogRoot: b.LogRoot, Attestation: attestationOf(b),
	}
}

func stateOf(b projections.Batch) string {
	switch {
	case b.Final:
		return "finalised"
	case b.Attested != nil:
		return "attested"
	case b.Submitted != nil:
		return "submitted"
	}
	return "sealed"
}

func attestationOf(b projections.Batch) *attestationBody {
	a := b.Attested
	if a == nil {
		return nil
	}
	return &attestationBody{
		UID: a.UID, RefUID: a.RefUID, EAS: a.EAS, Attester: a.Attester, Tx: a.Tx,
		Block: a.Block, BlockHash: a.BlockHash, Time: a.Time.UTC(), Final: b.Final,
	}
}

type batchesInput struct {
	Before uint64 `query:"before" minimum:"0" maximum:"9007199254740991" default:"0" doc:"Only those with a smaller number; 0 for the latest."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type batchesOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288); absent on the last one."`
	Body struct {
		Items []batchBody `json:"items" doc:"Latest first."`
	}
}

type batchInput struct {
	Batch uint64 `path:"n" minimum:"1" maximum:"9007199254740991"`
}

type batchOutput struct{ Body batchBody }

type commitInput struct {
	Commit string `path:"hash" pattern:"^[0-9a-f]{64}$" doc:"The commit of a slot."`
}

type commitOutput struct {
	Body struct {
		Commit      domain.Hash      `json:"commit"`
		Batch       uint64           `json:"batch"`
		BatchID     domain.Hash      `json:"batchId"`
		Index       uint64           `json:"index" doc:"Its place in the batch, from 0 on."`
		Count       uint32           `json:"count" doc:"How many commits the batch holds. Take it, and all but index and path, from the attestation when you check."`
		Leaf        domain.Hash      `json:"leaf" doc:"keccak256(keccak256(abi.encode(tag, batchId, index, count, commit))), tag being keccak256 of MysteryShopper.CommitLeaf.v1."`
		Path        []domain.Hash    `json:"path" doc:"Siblings, those of leaves first; each pair is hashed with keccak256, the smaller half first."`
		Root        domain.Hash      `json:"root"`
		State       string           `json:"state" enum:"sealed,submitted,attested,finalised"`
		Attestation *attestationBody `json:"attestation,omitempty"`
		Calldata    string           `json:"calldata" doc:"Calls verify(bytes32[],bytes32,bytes32), as OpenZeppelin's MerkleProof has it, with path, root and leaf."`
	}
}

func (s *server) registerBatches(api huma.API) {
	huma.Register(api, getLedger("list-batches", "/batches", "The batches that commits are rolled into, and their attestations"), s.listBatches)
	huma.Register(api, getLedger("get-batch", "/batches/{n}", "One batch"), s.getBatch)
	huma.Register(api, getLedger("prove-commit", "/commits/{hash}/proof", "The proof that a commit is in an attested batch"), s.proveCommit)
}

func (s *server) listBatches(ctx context.Context, in *batchesInput) (*batchesOutput, error) {
	list, err := s.Reader.Batches(ctx, in.Before, in.Limit+1)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &batchesOutput{}
	if len(list) > in.Limit {
		list = list[:in.Limit]
		out.Link = fmt.Sprintf(`<%s/batches?before=%d&limit=%d>; rel="next"`, ledgerRoot, list[in.Limit-1].Batch, in.Limit)
	}
	out.Body.Items = make([]batchBody, len(list))
	for i, b := range list {
		out.Body.Items[i] = batchOf(b)
	}
	return out, nil
}

func (s *server) getBatch(ctx context.Context, in *batchInput) (*batchOutput, error) {
	b, err := s.Reader.Batch(ctx, in.Batch)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &batchOutput{batchOf(b)}, nil
}

func (s *server) proveCommit(ctx context.Context, in *commitInput) (*commitOutput, error) {
	commit, err := domain.ParseHash(in.Commit)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	p, err := s.Reader.CommitProof(ctx, commit)
	switch {
	case err != nil:
		return nil, s.fail(ctx, err)
	case p.Batch == nil:
		return nil, newProblem(ctx, http.StatusNotFound, "the commit waits for its batch; try again after five past the hour")
	}
	b := *p.Batch
	leaf := merkle.BatchLeaf(b.ID(), commit, p.Index, uint64(b.Count))
	out := &commitOutput{}
	out.Body.Commit, out.Body.Batch, out.Body.BatchID, out.Body.Index, out.Body.Count = commit, b.Batch, b.ID(), p.Index, b.Count
	out.Body.Leaf, out.Body.Path, out.Body.Root = leaf, p.Path, b.Root
	out.Body.State, out.Body.Attestation = stateOf(b), attestationOf(b)
	out.Body.Calldata = "0x" + hex.EncodeToString(merkle.VerifyCall(p.Path, b.Root, leaf))
	return out, nil
}
