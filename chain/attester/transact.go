package attester

import (
	"context"
	"errors"
	"fmt"
	"math/big"
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

// errUnsettled says that the chain is about to show more, which is nothing unusual.
var errUnsettled = errors.New("not settled yet")

// submit signs a transaction with a batch, puts it on record, and sends it.
func (a *Attester) submit(ctx context.Context, s, before *batch.State, nonce uint64, ref batch.Word) error {
	if account := a.account(s); account != a.Key.Address() {
		return stopped("it was submitted by %s, whose transactions the key of %s cannot replace; put the former key back until it is attested", account, a.Key.Address())
	}
	if err := a.prepare(ctx); err != nil { // a reorganisation takes back the schema as well
		return err
	}
	data := eas.AttestCall(common.Hash(s.Sealed.Schema), eas.StatementOf(*s.Sealed), common.Hash(ref))
	t, err := a.sign(ctx, s.Sealed.Batch, nonce, &a.EAS.EAS, data)
	if err != nil {
		return err
	}
	submitted := batch.Submitted{
		Batch: t.Batch, Attester: t.Account, EAS: eip191.Address(a.EAS.EAS), Nonce: nonce, Tx: t.Hash, RefUID: ref,
	}
	if err := a.record(ctx, t.Batch, batch.Submit{Submitted: submitted, Before: before, Seen: len(s.Submitted)}); err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "a batch is submitted", "batch", t.Batch, "tx", t.Hash.String(), "nonce", nonce)
	return a.send(ctx, t)
}

// resend sends the latest transaction of a batch again. If it is not here, as on a
// database that was restored, another one with its nonce says the same.
func (a *Attester) resend(ctx context.Context, s, before *batch.State) error {
	t, ok, err := a.latest(ctx, s)
	if err != nil {
		return err
	}
	if !ok {
		sent := s.Round[len(s.Round)-1]
		return a.submit(ctx, s, before, sent.Nonce, sent.RefUID)
	}
	return a.send(ctx, t)
}

// latest returns the transaction of a batch that was signed last, as far as it is
// stored here.
func (a *Attester) latest(ctx context.Context, s *batch.State) (t Transaction, ok bool, err error) {
	sent := s.Round[len(s.Round)-1]
	list, err := a.Transactions.WithNonce(ctx, s.Sealed.Chain, sent.Attester, sent.Nonce)
	if err != nil {
		return t, false, err
	}
	i := slices.IndexFunc(list, func(t Transaction) bool { return t.Hash == sent.Tx })
	if i < 0 {
		return t, false, nil
	}
	return list[i], true, nil
}

// send hands a transaction to a node. That its nonce is taken, or that the node has one
// that pays more, is for the chain to show when it is looked at again.
func (a *Attester) send(ctx context.Context, t Transaction) error {
	err := a.on(ctx, func(ctx context.Context, n *node.Client, _ node.Block) error {
		return n.Send(ctx, t.Raw)
	}, node.ErrNonceTooLow, node.ErrUnderpriced, node.ErrFunds)
	switch {
	case errors.Is(err, node.ErrFunds):
		return a.poor("it cannot pay for the transaction %s", t.Hash)
	case errors.Is(err, node.ErrNonceTooLow), errors.Is(err, node.ErrUnderpriced):
		a.Log.WarnContext(ctx, "a node does not take a transaction", "tx", t.Hash.String(), "reason", err)
		return nil
	}
	return err
}

// sign makes a transaction at the fees of the day and stores it. It must be on record
// before it is sent. One to nobody deploys a contract.
func (a *Attester) sign(ctx context.Context, n, nonce uint64, to *common.Address, data []byte) (t Transaction, err error) {
	account, chain := a.Key.Address(), a.Chain.Chain()
	earlier, err := a.earlier(ctx, nonce)
	if err != nil {
		return t, err
	}
	var (
		base, tip, balance *big.Int
		gas                uint64
	)
	err = a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
		if base, tip, err = n.Fees(ctx); err != nil {
			return err
		}
		if balance, err = n.BalanceAt(ctx, account, head); err != nil {
			return err
		}
		gas, err = n.EstimateGas(ctx, ethereum.CallMsg{From: account, To: to, Data: data})
		return err
	})
	switch selector, gaveUp := refused(err); {
	case gaveUp && (selector == eas.NotFound || selector == eas.InvalidSchema):
		// Both were there when the chain was looked at, so it is about to show otherwise.
		return t, fmt.Errorf("EAS does not know the schema or the batch before any more: %w", errUnsettled)
	case gaveUp:
		return t, stopped("the transaction to %s is refused: %w", to, err)
	case err != nil:
		return t, err
	}
	f, ok := feesFor(base, tip, earlier, a.Ceiling)
	if !ok {
		return t, fmt.Errorf("a unit of gas would cost %s wei, above the ceiling of %s; waiting until it is cheaper: %w", f.most, a.Ceiling, domain.ErrUnavailable)
	}
	gas += gas / 4 // more may be stored by then than now
	if cost := new(big.Int).Mul(f.most, new(big.Int).SetUint64(gas)); balance.Cmp(cost) < 0 {
		return t, a.poor("it has %s wei, and a transaction may cost %s", balance, cost)
	}
	tx, err := a.Key.sign(chain, &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(chain), Nonce: nonce, GasTipCap: f.tip, GasFeeCap: f.most, Gas: gas, To: to, Data: data,
	})
	if err != nil {
		return t, fmt.Errorf("sign a transaction: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return t, fmt.Errorf("encode a transaction: %w", err)
	}
	t = Transaction{
		Hash: batch.Word(tx.Hash()), Chain: chain, Account: eip191.Address(account), Nonce: nonce, Batch: n, Raw: raw, Signed: a.Now(),
	}
	return t, a.Transactions.Keep(ctx, t)
}

// earlier returns the transactions that were signed with a nonce before.
func (a *Attester) earlier(ctx context.Context, nonce uint64) ([]*types.Transaction, error) {
	list, err := a.Transactions.WithNonce(ctx, a.Chain.Chain(), eip191.Address(a.Key.Address()), nonce)
	if err != nil {
		return nil, err
	}
	txs := make([]*types.Transaction, len(list))
	for i, t := range list {
		txs[i] = new(types.Transaction)
		if err := txs[i].UnmarshalBinary(t.Raw); err != nil {
			return nil, fmt.Errorf("the stored transaction %s cannot be read: %w", t.Hash, err)
		}
	}
	return txs, nil
}

func (a *Attester) poor(format string, args ...any) error {
	return stopped("the account %s holds too little on chain %d: %s; send it more", a.Key.Address(), a.Chain.Chain(), fmt.Sprintf(format, args...))
}

// prepare makes sure that EAS is there and knows the schema.
func (a *Attester) prepare(ctx context.Context) error {
	var (
		registered bool
		nonce      uint64
	)
	err := a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
		if registered, err = a.registered(ctx, n, head); err != nil || registered {
			return err
		}
		nonce, err = n.NonceAt(ctx, a.Key.Address(), head)
		return err
	}, ErrStopped)
	if err != nil || registered {
		return err
	}
	if err := a.register(ctx, nonce); err != nil {
		return err
	}
	return fmt.Errorf("the schema is being registered: %w", errUnsettled)
}

// registered reports whether the registry knows the schema, behind a block. Without the
// contracts, or with others in their place, it stops.
func (a *Attester) registered(ctx context.Context, n *node.Client, at node.Block) (bool, error) {
	for _, c := range []struct {
		name, setting string
		address       common.Address
		needed        bool
	}{
		{"EAS", "MYSTERY_ATTEST_EAS", a.EAS.EAS, true},
		{"the schema registry", "MYSTERY_ATTEST_REGISTRY", a.EAS.Registry, true},
		{"the resolver", "MYSTERY_ATTEST_RESOLVER", a.Resolver, a.Resolver != common.Address{}},
	} {
		if !c.needed {
			continue
		}
		code, err := n.CodeAt(ctx, c.address, at)
		if err != nil {
			return false, err
		}
		if len(code) == 0 {
			return false, stopped("chain %d has no contract at %s, where %s should be; set %s to its address", a.Chain.Chain(), c.address, c.name, c.setting)
		}
	}
	registry, err := eas.RegistryOf(ctx, caller(n, at), a.EAS.EAS)
	if _, gaveUp := refused(err); gaveUp {
		return false, stopped("what is at %s on chain %d is not EAS; set MYSTERY_ATTEST_EAS to its address", a.EAS.EAS, a.Chain.Chain())
	}
	if err != nil {
		return false, err
	}
	if registry != a.EAS.Registry {
		return false, stopped("EAS at %s on chain %d has its schemas in the registry at %s and not in %s; set MYSTERY_ATTEST_REGISTRY to that address",
			a.EAS.EAS, a.Chain.Chain(), registry, a.EAS.Registry)
	}
	ok, err := eas.Registered(ctx, caller(n, at), a.EAS.Registry, a.Resolver)
	if errors.Is(err, eas.ErrSchema) {
		return false, stopped("%s", err)
	}
	return ok, err
}

// register has the schema registered by a transaction with the next nonce, sending the
// same one again until its patience is over. Somebody else may register it as well.
func (a *Attester) register(ctx context.Context, nonce uint64) error {
	list, err := a.Transactions.WithNonce(ctx, a.Chain.Chain(), eip191.Address(a.Key.Address()), nonce)
	if err != nil {
		return err
	}
	if n := len(list); n > 0 && list[n-1].Batch == 0 && a.Now().Sub(list[n-1].Signed) < a.Policy.Patience {
		return a.send(ctx, list[n-1])
	}
	t, err := a.sign(ctx, 0, nonce, &a.EAS.Registry, eas.RegisterCall(a.Resolver))
	if selector, _ := refused(err); selector == eas.AlreadyExists {
		return nil
	}
	if err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "the schema is being registered", "schema", eas.SchemaUID(a.Resolver).Hex(), "tx", t.Hash.String())
	return a.send(ctx, t)
}

// tell logs what was recorded of a batch.
func (a *Attester) tell(ctx context.Context, c batch.Command) {
	switch c := c.(type) {
	case batch.Attest:
		a.Log.InfoContext(ctx, "a batch is attested", "batch", c.Batch, "uid", c.UID.String(), "block", c.Block)
	case batch.Drop:
		a.Log.WarnContext(ctx, "a batch is dropped and submitted anew", "batch", c.Dropped.Batch, "reason", string(c.Dropped.Reason))
	case batch.Seal, batch.Submit, batch.Finalise:
	}
}

// Examine says what attesting needs and whether that is there: account and balance, the
// contracts, the schema. What is missing is an [ErrStopped]. It signs nothing.
func (a *Attester) Examine(ctx context.Context) (found string, err error) {
	if a.Key == nil {
		return fmt.Sprintf("batches are sealed here for chain %d, and attested by a process that has the key", a.Chain.Chain()), nil
	}
	var (
		registered bool
		balance    *big.Int
	)
	err = a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
		if registered, err = a.registered(ctx, n, head); err != nil {
			return err
		}
		balance, err = n.BalanceAt(ctx, a.Key.Address(), head)
		return err
	}, ErrStopped)
	switch {
	case err != nil:
		return "", err
	case balance.Sign() == 0:
		return "", a.poor("it has nothing")
	}
	found = fmt.Sprintf("%s with %s wei attests on chain %d by way of EAS at %s; its schema %s is registered",
		a.Key.Address(), balance, a.Chain.Chain(), a.EAS.EAS, eas.SchemaUID(a.Resolver))
	if !registered {
		found += " with the first batch"
	}
	return found, nil
}
