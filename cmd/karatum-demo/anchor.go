package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/merkle"
)

// devChainID is the id of the chain in this process. It is that of development chains,
// so nobody takes it for a public one.
const devChainID = 1337

// An anchor is a chain in this process, with EAS on it, that batches are attested on. Its
// blocks follow the clock of the stage.
type anchor struct {
	*devchain.Chain
	key *attester.Key
	eas eas.Deployment
	due time.Time // of the next batch
	url string    // of its JSON-RPC; empty if it is not served
}

// openAnchor starts the chain.
func (s *stage) openAnchor(ctx context.Context) error {
	seed := s.flags.draw("attester")
	key, err := crypto.ToECDSA(seed[:])
	if err != nil {
		return fmt.Errorf("draw the attester's key: %w", err)
	}
	a := &anchor{key: attester.NewKey(key), due: s.start}
	a.Chain, err = devchain.New(devchain.Config{
		ChainID: devChainID, Rich: []common.Address{a.key.Address()}, Now: s.clock.Now, Finality: 1,
	})
	if err != nil {
		return err
	}
	s.onClose(func() { _ = a.Close() })
	if a.eas, err = eascontracts.Deploy(ctx, a.Chain, key); err != nil {
		return err
	}
	s.anchor = a
	if s.flags.rpc == "" {
		return nil
	}
	l, err := s.listenAt(ctx, "--rpc", s.flags.rpc)
	if err != nil {
		return err
	}
	s.serve(l, a.Handler())
	a.url = "http://" + l.Addr().String()
	return nil
}

// attesting has batches attested on the chain of a.
func (a *anchor) attesting(c *assembly.Config, o *assembly.Options) {
	c.Attest = assembly.Attesting{
		Chain: strconv.Itoa(devChainID), EAS: a.eas.EAS.Hex(), Registry: a.eas.Registry.Hex(), Confirmations: "1",
	}
	if o.Nodes == nil {
		o.Nodes = make(rpc.Set)
	}
	o.Nodes[devChainID] = rpc.New(devChainID, rpc.Config{Now: time.Now, Log: o.Log}, a.Node())
	o.AttesterKey = a.key
}

// Batches are closed at five past eleven, in the morning and in the evening. The
// programme does so every hour; here a day passes in a second, and what matters is
// that each plan is attested before its day begins.
const (
	anchorEvery = 12 * time.Hour
	anchorPhase = 11*time.Hour + 5*time.Minute
)

// attest closes the batch that is due by now, if any, and has it attested.
func (s *stage) attest(ctx context.Context) error {
	now := s.clock.Now()
	if s.anchor == nil || now.Before(s.anchor.due) {
		return nil
	}
	s.anchor.due = now.Add(-anchorPhase).Truncate(anchorEvery).Add(anchorEvery + anchorPhase)
	if err := s.prog.PublishLedger(ctx); err != nil {
		return err
	}
	for {
		if err := s.prog.Attester.Step(ctx); err != nil {
			return err
		}
		if err := s.prog.CatchUp(ctx); err != nil { // the worker reads there what is attested
			return err
		}
		open, _, err := s.prog.Reader.BatchNumbers(ctx)
		if err != nil || open == 0 {
			return err
		}
		for range 2 { // the second confirms the first
			if _, err := s.anchor.Mine(ctx); err != nil {
				return err
			}
		}
	}
}

// mine makes blocks at the pace of a public chain until ctx ends.
func (a *anchor) mine(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := a.Mine(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Batches are how many there are, and how far they have come.
type batchCounts struct {
	Sealed    int `json:"sealed"`
	Attested  int `json:"attested"` // finalised ones among them
	Finalised int `json:"finalised"`
}

// countBatches counts batches as the public API shows them.
func (s *stage) countBatches(ctx context.Context) (c batchCounts, err error) {
	query := map[string][]string{"limit": {"100"}}
	for {
		var page struct {
			Items []struct {
				Batch uint64 `json:"batch"`
				State string `json:"state"`
			} `json:"items"`
		}
		if err := s.api.get(ctx, "/v1/ledger/batches", query, &page); err != nil {
			return c, err
		}
		for _, b := range page.Items {
			c.Sealed++
			switch b.State {
			case "finalised":
				c.Finalised++
				c.Attested++
			case "attested":
				c.Attested++
			}
		}
		if len(page.Items) == 0 || page.Items[len(page.Items)-1].Batch == 1 {
			return c, nil
		}
		query["before"] = []string{strconv.FormatUint(page.Items[len(page.Items)-1].Batch, 10)}
	}
}

// anchored reports whether a commit is proven to be in a batch that the chain itself has
// an attestation of. Of the public API it takes index, path and the UID, and everything
// else from the chain.
func (s *stage) anchored(ctx context.Context, commit domain.Hash) (bool, error) {
	var proof struct {
		Index       uint64        `json:"index"`
		Path        []domain.Hash `json:"path"`
		Attestation *struct {
			UID batch.Word `json:"uid"`
		} `json:"attestation"`
	}
	if err := s.api.get(ctx, "/v1/ledger/commits/"+commit.String()+"/proof", nil, &proof); err != nil {
		return false, err
	}
	if proof.Attestation == nil {
		return false, nil
	}
	said, err := s.attested(ctx, proof.Attestation.UID)
	if err != nil {
		return false, err
	}
	id := merkle.BatchID(devChainID, domain.Hash(eas.SchemaUID(common.Address{})), said.Batch, said.PreviousRoot)
	return merkle.VerifyBatchPath(id, commit, proof.Index, uint64(said.Count), proof.Path, said.Root) == nil, nil
}

// attested asks the chain what an attestation says.
func (s *stage) attested(ctx context.Context, uid batch.Word) (said eas.Statement, err error) {
	n := s.anchor.Node()
	defer n.Close()
	head, err := n.Head(ctx)
	if err != nil {
		return said, err
	}
	call := func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		return n.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, head)
	}
	a, err := eas.Read(ctx, call, s.anchor.eas.EAS, common.Hash(uid))
	if err != nil {
		return said, err
	}
	return a.Check(eas.SchemaUID(common.Address{}), s.anchor.key.Address())
}
