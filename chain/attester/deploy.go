package attester

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// A Deployment is what [Attester.Deploy] has put on the chain.
type Deployment struct {
	Resolver common.Address
	Schema   common.Hash // UID of the schema with that resolver, which is registered
	Behind   uint64      // number of the batch that the resolver goes on behind
}

// Deploy puts a resolver on the chain that takes batches from the account of the key
// alone, in order and behind the last one that is sealed, and registers the schema with
// it. It returns when both are confirmed, looking once in each interval. As long as
// anything is under way to be attested it is refused, for that would meet it.
func (a *Attester) Deploy(ctx context.Context, interval time.Duration) (d Deployment, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Key == nil {
		return d, fmt.Errorf("a resolver is deployed with the key of the attester, which is not here: %w", domain.ErrInvalid)
	}
	if err := a.Reads.CatchUp(ctx); err != nil {
		return d, err
	}
	_, last, err := a.Reads.BatchNumbers(ctx)
	if err != nil {
		return d, err
	}
	before, err := a.state(ctx, last)
	if err != nil {
		return d, err
	}
	var root domain.Hash
	if before != nil {
		if before.Attested == nil {
			return d, fmt.Errorf("batch %d is still to be attested; try again when it is: %w", last, domain.ErrConflict)
		}
		root = before.Sealed.Root
	}
	receipt, err := a.create(ctx, interval, contracts.BatchResolver().Deploy(a.EAS.EAS, a.Key.Address(), last, root))
	if err != nil {
		return d, fmt.Errorf("deploy the resolver: %w", err)
	}
	with := &Attester{
		Transactions: a.Transactions, Chain: a.Chain, EAS: a.EAS, Resolver: receipt.ContractAddress, Key: a.Key,
		Policy: a.Policy, Ceiling: a.Ceiling, Now: a.Now, Log: a.Log,
	}
	for {
		if err := with.prepare(ctx); err == nil {
			return Deployment{with.Resolver, eas.SchemaUID(with.Resolver), last}, nil
		} else if !errors.Is(err, errUnsettled) {
			return d, fmt.Errorf("register the schema with the resolver %s: %w", with.Resolver, err)
		}
		if err := pause(ctx, interval); err != nil {
			return d, err
		}
	}
}

// create sends a transaction that makes a contract, or sends again the one that was
// broken off, and waits until it is confirmed.
func (a *Attester) create(ctx context.Context, interval time.Duration, code []byte) (*types.Receipt, error) {
	t, err := a.creation(ctx, code)
	if err != nil {
		return nil, err
	}
	for {
		var receipt *types.Receipt
		err := a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
			receipt, err = n.Receipt(ctx, common.Hash(t.Hash))
			if receipt != nil && receipt.BlockNumber.Uint64()+a.Policy.Confirmations > head.Number {
				receipt = nil
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case receipt == nil:
		case receipt.Status != types.ReceiptStatusSuccessful:
			return nil, fmt.Errorf("the transaction %s failed on the chain: %w", t.Hash, domain.ErrConflict)
		default:
			return receipt, nil
		}
		if err := a.send(ctx, t); err != nil {
			return nil, err
		}
		if err := pause(ctx, interval); err != nil {
			return nil, err
		}
	}
}

// creation returns the transaction that makes a contract, which has the next nonce. It
// is stored.
func (a *Attester) creation(ctx context.Context, code []byte) (Transaction, error) {
	var nonce uint64
	err := a.on(ctx, func(ctx context.Context, n *node.Client, head node.Block) (err error) {
		nonce, err = n.NonceAt(ctx, a.Key.Address(), head)
		return err
	})
	if err != nil {
		return Transaction{}, err
	}
	list, err := a.Transactions.WithNonce(ctx, a.Chain.Chain(), eip191.Address(a.Key.Address()), nonce)
	if err != nil {
		return Transaction{}, err
	}
	if len(list) > 0 {
		t, tx := list[len(list)-1], new(types.Transaction)
		if err := tx.UnmarshalBinary(t.Raw); err != nil {
			return t, fmt.Errorf("the stored transaction %s cannot be read: %w", t.Hash, err)
		}
		if tx.To() != nil || string(tx.Data()) != string(code) {
			return t, fmt.Errorf("the transaction %s is still under way; try again when it is mined: %w", t.Hash, domain.ErrConflict)
		}
		return t, nil
	}
	return a.sign(ctx, 0, nonce, nil, code)
}

// pause waits for an interval, or returns the error of a context that ends before.
func pause(ctx context.Context, interval time.Duration) error {
	wait := time.NewTimer(interval)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return nil
	}
}
