//go:build peers

package api_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
)

// A contract that uses OpenZeppelin's MerkleProof takes the proofs that are served, with
// the calldata that comes along, and no others.
func TestPeerOpenZeppelinMerkleProof(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	const chainID = 84532
	ctx := t.Context()
	compile := exec.CommandContext(ctx, "node", filepath.Join(peers, "batches", "verifier.cjs"))
	compile.Stderr = t.Output()
	out, err := compile.Output()
	if err != nil {
		t.Fatal(err)
	}
	code, err := hex.DecodeString(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	chain := anviltest.Start(t, chainID)
	if err := chain.Fund(ctx, crypto.PubkeyToAddress(key.PublicKey)); err != nil {
		t.Fatal(err)
	}
	verifier, err := chain.Transact(ctx, key, devchain.Tx{Data: code})
	if err != nil {
		t.Fatal(err)
	}
	holds := func(calldata []byte) bool {
		t.Helper()
		out, err := chain.Client().CallContract(ctx, ethereum.CallMsg{To: &verifier.ContractAddress, Data: calldata}, nil)
		if err != nil || len(out) != 32 {
			t.Fatalf("the contract answers %x, %v", out, err)
		}
		return common.BytesToHash(out) == common.BigToHash(common.Big1)
	}

	w := newWorld(t).furnish()
	open := w.commit(14)
	first, _, err := batch.Close(nil, chainID, batch.Word{1}, open[:13], 30, domain.Hash{2})
	w.ok(err)
	w.batch(1, batch.Seal{Sealed: first})
	second, _, err := batch.Close(&batch.State{Sealed: &first}, chainID, batch.Word{1}, open[13:], 30, domain.Hash{2})
	w.ok(err)
	w.batch(2, batch.Seal{Sealed: second, Before: &batch.State{Sealed: &first}})
	for _, o := range open {
		text, ok := w.get("/v1/ledger/commits/" + o.Commit.String() + "/proof")["calldata"].(string)
		digits, prefixed := strings.CutPrefix(text, "0x")
		calldata, err := hex.DecodeString(digits)
		if !ok || !prefixed || err != nil {
			t.Fatalf("the calldata of %s is %q", o.Commit, text)
		}
		if !holds(calldata) {
			t.Errorf("the contract refuses the proof of %s", o.Commit)
		}
		for name, at := range map[string]int{"root": 4 + 32, "leaf": 4 + 2*32, "path": len(calldata) - 1} {
			forged := bytes.Clone(calldata)
			forged[at]++
			if holds(forged) {
				t.Errorf("the contract takes the proof of %s with another %s", o.Commit, name)
			}
		}
	}
}
