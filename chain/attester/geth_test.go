//go:build peers

package attester_test

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/devchain/gethtest"
	"github.com/karatum/mystery/chain/node"
)

// On a geth that puts into its blocks only what pays a gwei for it, and suggests to pay
// less, a transaction waits until it is replaced by one that pays enough. That is mined.
func TestGethReplacesWhatIsStuck(t *testing.T) {
	t.Parallel()
	const suggested = params.GWei * 4 / 5 // two replacements, each an eighth more, make it more than a gwei
	ctx := t.Context()
	chain := gethtest.Start(t, "--miner.gasprice", big.NewInt(params.GWei).String(), "--gpo.maxprice", big.NewInt(suggested).String())
	w := &world{t: t, now: begin, key: chaintest.Key(1), chain: gethtest.ChainID, client: chain.Client(), nodes: dialled(t, chain.URL)}
	if err := chain.Fund(ctx, chaintest.Address(w.key)); err != nil {
		t.Fatal(err)
	}
	w.fill()
	var err error
	if w.eas, err = eascontracts.Deploy(ctx, chain, w.key); err != nil {
		t.Fatal(err)
	}
	a := w.attester()
	w.commit(3)
	w.pass(time.Hour)
	for round := 0; w.state(1).Attested == nil; round++ {
		if round > 20 {
			t.Fatalf("batch 1 is not attested; it is %+v, and the attester %+v", w.state(1), a.Status())
		}
		w.step(a)
		w.built(ctx, 3) // blocks that it could be in
		if round == 0 {
			w.stuck(ctx)
		}
		w.pass(w.policy.Patience)
	}
	w.audit(1)

	// The transaction that registers the schema was stuck as well, with the nonce before.
	nonces := make(map[uint64][]*types.Transaction)
	for _, s := range w.signed {
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(s.Raw); err != nil {
			t.Fatal(err)
		}
		nonces[tx.Nonce()] = append(nonces[tx.Nonce()], tx)
	}
	if len(nonces) != 2 {
		t.Errorf("transactions with %d nonces were signed, want 2", len(nonces))
	}
	for nonce, list := range nonces {
		if len(list) != 3 {
			t.Errorf("%d transactions with nonce %d were signed, want 3", len(list), nonce)
		}
		for i, tx := range list {
			receipt, err := chain.Node().Receipt(ctx, tx.Hash())
			if err != nil {
				t.Fatal(err)
			}
			if enough := tx.GasTipCapIntCmp(big.NewInt(params.GWei)) >= 0; enough != (i == len(list)-1) || enough != (receipt != nil) {
				t.Errorf("transaction %d of nonce %d pays %s and is mined: %t, want the last alone to pay a gwei and be mined", i+1, nonce, tx.GasTipCap(), receipt != nil)
			}
		}
	}
	if s := w.state(1); len(s.Submitted) != 3 || s.Attested.Tx != s.Submitted[2].Tx {
		t.Errorf("batch 1 is %+v, want attested by the last of three transactions", s)
	}
	if got := a.Status(); got.State != attester.Well {
		t.Errorf("Status = %+v, want %s", got, attester.Well)
	}
}

// built waits until so many blocks were built on the newest one.
func (w *world) built(ctx context.Context, blocks uint64) {
	w.t.Helper()
	n := w.nodes()[0]
	defer n.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for until := uint64(0); ; <-tick.C {
		head, err := n.Head(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if until == 0 {
			until = head.Number + blocks
		}
		if head.Number >= until {
			return
		}
	}
}

// stuck checks that the last transaction waits, and that the node does not let one take
// its place that pays a twentieth more, as nodes of other makes do.
func (w *world) stuck(ctx context.Context) {
	w.t.Helper()
	last := new(types.Transaction)
	if err := last.UnmarshalBinary(w.signed[len(w.signed)-1].Raw); err != nil {
		w.t.Fatal(err)
	}
	n := w.nodes()[0]
	defer n.Close()
	if tx, pending, err := n.Transaction(ctx, last.Hash()); err != nil || tx == nil || !pending {
		w.t.Fatalf("Transaction = %v, %t, %v, want that it waits", tx, pending, err)
	}
	more := func(fee *big.Int) *big.Int {
		return new(big.Int).Div(new(big.Int).Mul(fee, big.NewInt(21)), big.NewInt(20))
	}
	tx, err := types.SignNewTx(w.key, types.LatestSignerForChainID(last.ChainId()), &types.DynamicFeeTx{
		ChainID: last.ChainId(), Nonce: last.Nonce(), GasTipCap: more(last.GasTipCap()), GasFeeCap: more(last.GasFeeCap()),
		Gas: last.Gas(), To: last.To(), Data: last.Data(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := n.Send(ctx, raw); !errors.Is(err, node.ErrUnderpriced) {
		w.t.Errorf("Send of a replacement that pays a twentieth more = %v, want ErrUnderpriced", err)
	}
}
