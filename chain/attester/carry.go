package attester

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// maxSteps is how many steps a batch takes in a row: being dropped, adopted, attested
// and finalised are four. It keeps a chain that changes its mind from holding up
// everything else.
const maxSteps = 6

// carryOn does what is to be done about a batch until it has to wait. Where another
// process was first, it looks again.
func (a *Attester) carryOn(ctx context.Context, n uint64) error {
	var overtaken error
	for range maxSteps {
		before, err := a.state(ctx, n-1)
		if err != nil {
			return err
		}
		s, err := a.state(ctx, n)
		if err != nil {
			return err
		}
		more, err := a.advance(ctx, s, before)
		switch {
		case errors.Is(err, domain.ErrConflict):
			overtaken = err
		case err != nil || !more:
			return unlessUnsettled(err)
		default:
			overtaken = nil
		}
	}
	return overtaken
}

// advance takes the next step with a batch and reports whether there may be another one
// at once.
func (a *Attester) advance(ctx context.Context, s, before *batch.State) (more bool, err error) {
	if done, err := a.idle(s, before); done || err != nil {
		return false, err
	}
	v, err := a.look(ctx, s)
	if err != nil {
		return false, err
	}
	switch step := batch.Next(a.Policy, *s, before, v).(type) {
	case batch.Record:
		if err := a.record(ctx, s.Sealed.Batch, step.Command); err != nil {
			return false, err
		}
		a.tell(ctx, step.Command)
		return true, nil
	case batch.Sign:
		if adopted, err := a.adopt(ctx, s, before); adopted || err != nil {
			return adopted, err
		}
		return false, a.submit(ctx, s, before, step.Nonce, step.RefUID)
	case batch.Resend:
		return false, a.resend(ctx, s, before)
	case batch.Raise:
		return false, a.submit(ctx, s, before, step.Nonce, step.RefUID)
	case batch.Wait:
	}
	return false, nil
}

// idle reports whether there is nothing to do about a batch, whatever the chain shows.
func (a *Attester) idle(s, before *batch.State) (bool, error) {
	here := s.Sealed.Chain == a.Chain.Chain()
	switch {
	case s.Final, s.Attested != nil && !here: // what another chain says cannot be seen from here
		return true, nil
	case s.Attested != nil:
		return false, nil
	case !here || s.Sealed.Schema != batch.Word(eas.SchemaUID(a.Resolver)):
		return false, stopped("it was sealed for chain %d and the schema %s, and those configured are %d and %s; configure them as they were until it is attested",
			s.Sealed.Chain, s.Sealed.Schema, a.Chain.Chain(), eas.SchemaUID(a.Resolver))
	case len(s.Round) > 0:
		return false, nil
	}
	return s.Sealed.Batch > 1 && before.Attested == nil, nil
}

// account returns whose transactions those of a batch are.
func (a *Attester) account(s *batch.State) common.Address {
	if len(s.Round) > 0 {
		return common.Address(s.Round[len(s.Round)-1].Attester)
	}
	return a.Key.Address()
}

// look returns what the chain shows of a batch. All of it comes from one node.
func (a *Attester) look(ctx context.Context, s *batch.State) (v batch.View, err error) {
	err = a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) error {
		v = batch.View{Now: a.Now(), Head: head.Number}
		if s.Attested != nil {
			return a.lookAfter(ctx, n, s, &v)
		}
		if err := a.findMined(ctx, n, s, &v); err != nil {
			return err
		}
		settled, err := n.Block(ctx, head.Number-min(head.Number, a.Policy.Confirmations))
		if err != nil {
			return err
		}
		account := a.account(s)
		if v.Nonce, err = n.NonceAt(ctx, account, head); err != nil {
			return err
		}
		if v.Settled, err = n.NonceAt(ctx, account, settled); err != nil {
			return err
		}
		if len(s.Round) == 0 {
			return nil
		}
		_, v.Pooled, err = n.Transaction(ctx, common.Hash(s.Round[len(s.Round)-1].Tx))
		return err
	}, ErrStopped)
	if err != nil || len(s.Round) == 0 || s.Attested != nil {
		return v, err
	}
	latest, ok, err := a.latest(ctx, s)
	if ok {
		v.Sent = latest.Signed
	}
	return v, err
}

// lookAfter looks for a batch that is on record as attested. That its block is still
// there says everything; a node that has not got so far says nothing.
func (a *Attester) lookAfter(ctx context.Context, n *node.Client, s *batch.State, v *batch.View) error {
	if v.Head < s.Attested.Block {
		return nil
	}
	at, err := n.Block(ctx, s.Attested.Block)
	if err != nil {
		return err
	}
	if at.Hash != common.Hash(s.Attested.BlockHash) {
		return a.findMined(ctx, n, s, v)
	}
	v.Mined = s.Attested
	if final, err := n.Finalised(ctx); err == nil { // many chains do not say
		v.Final = final.Number
	}
	return nil
}

// findMined looks for the receipts of all transactions that a batch ever had. A receipt
// counts if its block is part of the chain.
func (a *Attester) findMined(ctx context.Context, n *node.Client, s *batch.State, v *batch.View) error {
	for _, t := range s.Submitted {
		r, err := n.Receipt(ctx, common.Hash(t.Tx))
		if err != nil {
			return err
		}
		if r == nil || r.BlockNumber.Uint64() > v.Head {
			continue
		}
		at, err := n.Block(ctx, r.BlockNumber.Uint64())
		switch {
		case err != nil:
			return err
		case at.Hash != r.BlockHash:
			continue
		case r.Status != types.ReceiptStatusSuccessful:
			if slices.Contains(s.Round, t) { // others are of rounds that were dropped
				v.Failed = at.Number
			}
			continue
		}
		if v.Mined, err = a.attestation(ctx, n, s, t, r, at); err != nil {
			return err
		}
		return nil
	}
	return nil
}

// attestation reads what a mined transaction has made. If EAS has something else than
// what the batch says, nothing is to be built upon it.
func (a *Attester) attestation(
	ctx context.Context, n *node.Client, s *batch.State, t batch.Submitted, r *types.Receipt, at node.Block,
) (*batch.Attested, error) {
	uids := eas.UIDs(r.Logs, common.Address(t.EAS), common.Hash(s.Sealed.Schema), common.Address(t.Attester))
	if len(uids) != 1 {
		return nil, stopped("the transaction %s made %d attestations under its schema, not 1", t.Tx, len(uids))
	}
	made, err := eas.Read(ctx, caller(n, at), common.Address(t.EAS), uids[0])
	if err != nil {
		return nil, err
	}
	found := batch.Attested{
		Batch: s.Sealed.Batch, Attester: t.Attester, EAS: t.EAS, UID: batch.Word(uids[0]), RefUID: t.RefUID, Tx: t.Tx,
		Block: at.Number, BlockHash: batch.Word(at.Hash), Time: at.Time,
	}
	if err := made.CheckBatch(*s.Sealed, found); err != nil {
		return nil, stopped("the transaction %s has not attested what it should: %s", t.Tx, err)
	}
	return &found, nil
}

// adopt looks for an attestation of a batch that the ledger does not know of, as after a
// restore from a copy, and puts its transaction on record. It reports whether there is
// one. It is asked before a first transaction is signed.
func (a *Attester) adopt(ctx context.Context, s, before *batch.State) (adopted bool, err error) {
	var found []batch.Submitted
	err = a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
		found, err = a.search(ctx, n, head, s, before)
		return err
	}, ErrStopped)
	if err != nil {
		return false, err
	}
	for _, t := range found {
		if slices.ContainsFunc(s.Submitted, func(o batch.Submitted) bool { return o.Tx == t.Tx }) {
			continue // on record, and its receipt is still to come
		}
		a.Log.WarnContext(ctx, "a batch was attested without the ledger's knowledge", "batch", t.Batch, "tx", t.Tx.String())
		return true, a.record(ctx, t.Batch, batch.Submit{Submitted: t, Before: before, Seen: len(s.Submitted)})
	}
	if len(found) > 0 {
		return false, fmt.Errorf("EAS has an attestation of it already, whose receipt is still to come: %w", errUnsettled)
	}
	return false, nil
}

// unlessUnsettled returns err, or nil if the chain only has to be looked at again.
func unlessUnsettled(err error) error {
	if errors.Is(err, errUnsettled) {
		return nil
	}
	return err
}

// firstSearch is how many blocks back the first batch on a chain is looked for, for
// which nothing says where to begin. Later ones cannot stand before the batch that
// they refer to.
const firstSearch = 50_000

// searchBlocks is how many blocks are searched at once. Public nodes do not allow much
// more.
const searchBlocks = 5_000

// search returns the transactions that attested a batch, as EAS tells.
func (a *Attester) search(ctx context.Context, n *node.Client, head node.Block, s, before *batch.State) (list []batch.Submitted, err error) {
	ref := before.RefUID(s.Sealed)
	from := head.Number - min(head.Number, firstSearch)
	if !ref.IsZero() {
		from = before.Attested.Block
	}
	account, schema := a.Key.Address(), common.Hash(s.Sealed.Schema)
	for ; from <= head.Number; from += searchBlocks {
		logs, err := n.Logs(ctx, eas.Logs(a.EAS.EAS, schema, account, from, min(from+searchBlocks-1, head.Number)))
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			for _, uid := range eas.UIDs([]*types.Log{l}, a.EAS.EAS, schema, account) {
				t, err := a.recognise(ctx, n, head, s, uid, l.TxHash)
				if err != nil {
					return nil, err
				}
				if t == nil {
					continue
				}
				if t.RefUID != ref {
					return nil, stopped("the attestation %s of it refers to %s and not to that of the batch before", uid, t.RefUID)
				}
				list = append(list, *t)
			}
		}
	}
	return list, nil
}

// recognise returns the transaction behind an attestation if that is of the batch, and
// nil if it is of another one or of none.
func (a *Attester) recognise(ctx context.Context, n *node.Client, head node.Block, s *batch.State, uid, hash common.Hash) (*batch.Submitted, error) {
	made, err := eas.Read(ctx, caller(n, head), a.EAS.EAS, uid)
	if err != nil {
		return nil, err
	}
	said, err := made.Check(common.Hash(s.Sealed.Schema), a.Key.Address())
	if err != nil || said.Batch != s.Sealed.Batch {
		return nil, nil //nolint:nilerr,nilnil // EAS takes anything; what is no batch proves none
	}
	if said != eas.StatementOf(*s.Sealed) {
		return nil, stopped("it was attested by %s with another content; the key of the attester is used elsewhere, or this ledger is not the one that was attested", uid)
	}
	tx, _, err := n.Transaction(ctx, hash)
	if err != nil {
		return nil, err
	}
	if tx == nil {
		return nil, fmt.Errorf("the transaction %s of the attestation %s is not there yet: %w", hash, uid, errUnsettled)
	}
	return &batch.Submitted{
		Batch: s.Sealed.Batch, Attester: eip191.Address(a.Key.Address()), EAS: eip191.Address(a.EAS.EAS),
		Nonce: tx.Nonce(), Tx: batch.Word(hash), RefUID: batch.Word(made.RefUID),
	}, nil
}

// caller runs contracts on the state behind a block.
func caller(n *node.Client, at node.Block) eas.Call {
	return func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		return n.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, at)
	}
}

// refused returns the selector with which a contract gave up, if err says that one did.
func refused(err error) (selector [4]byte, ok bool) {
	revert, ok := errors.AsType[*node.RevertError](err)
	if !ok {
		return selector, false
	}
	copy(selector[:], revert.Data)
	return selector, true
}
