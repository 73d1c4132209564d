package contracts_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
)

func keyOf(b byte) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		panic(err)
	}
	return key
}

// EAS and the resolver together take each batch once, in order.
func TestBatchResolver(t *testing.T) {
	t.Parallel()
	key, stranger := keyOf(1), keyOf(2)
	attester, other := crypto.PubkeyToAddress(key.PublicKey), crypto.PubkeyToAddress(stranger.PublicKey)
	chain, err := devchain.New(devchain.Config{Rich: []common.Address{attester, other}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	d, err := eascontracts.Deploy(ctx, chain, key)
	if err != nil {
		t.Fatal(err)
	}
	before := domain.Hash{6}
	deployed, err := chain.Transact(ctx, key, devchain.Tx{Data: contracts.BatchResolver().Deploy(d.EAS, attester, uint64(6), before)})
	if err != nil {
		t.Fatal(err)
	}
	resolver := deployed.ContractAddress
	schema := eas.SchemaUID(resolver)
	if _, err := chain.Transact(ctx, key, devchain.Tx{To: &d.Registry, Data: eas.RegisterCall(resolver)}); err != nil {
		t.Fatal(err)
	}
	nodes := chain.Node()
	t.Cleanup(nodes.Close)
	call := func(ctx context.Context, from, to common.Address, data []byte) error {
		head, err := nodes.Head(ctx)
		if err != nil {
			return err
		}
		_, err = nodes.CallAt(ctx, ethereum.CallMsg{From: from, To: &to, Data: data}, head)
		return err
	}

	seven := eas.Statement{Root: domain.Hash{7}, Batch: 7, Count: 3, PreviousRoot: before}
	eight := eas.Statement{Root: domain.Hash{8}, Batch: 8, Count: 5, PreviousRoot: seven.Root}
	attest := func(s eas.Statement, ref common.Hash) []byte { return eas.AttestCall(schema, s, ref) }
	refused := func(name string, from common.Address, data []byte, reason string) {
		t.Helper()
		err := call(ctx, from, d.EAS, data)
		var revert *node.RevertError
		want := contracts.BatchResolver().ABI.Errors[reason].ID
		if !errors.As(err, &revert) || !bytes.HasPrefix(revert.Data, want[:4]) {
			t.Errorf("%s: %v, want %s", name, err, reason)
		}
	}
	refused("a batch of a stranger", other, attest(seven, common.Hash{}), "NotAttester")
	refused("a batch left out", attester, attest(eight, common.Hash{}), "NotTheNext")
	refused("another root before", attester, attest(eas.Statement{Root: seven.Root, Batch: 7, Count: 3}, common.Hash{}), "NotTheNext")
	receipt, err := chain.Transact(ctx, key, devchain.Tx{To: &d.EAS, Data: attest(seven, common.Hash{})})
	if err != nil {
		t.Fatal(err)
	}
	uids := eas.UIDs(receipt.Logs, d.EAS, schema, attester)
	if len(uids) != 1 {
		t.Fatalf("%d attestations, want 1", len(uids))
	}
	refused("the same batch again", attester, attest(seven, common.Hash{}), "NotTheNext")
	refused("the same batch behind itself", attester, attest(seven, uids[0]), "NotTheNext")
	refused("the next without a reference", attester, attest(eight, common.Hash{}), "NotTheNext")
	if _, err := chain.Transact(ctx, key, devchain.Tx{To: &d.EAS, Data: attest(eight, uids[0])}); err != nil {
		t.Errorf("the next batch: %v", err)
	}
	// A block that is dropped takes what the resolver knew of it along.
	if err := chain.Rewind(1); err != nil {
		t.Fatal(err)
	}
	if err := call(ctx, attester, d.EAS, attest(eight, uids[0])); err != nil {
		t.Errorf("the batch of a block that was dropped: %v", err)
	}
}
