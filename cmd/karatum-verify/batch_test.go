package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// attestedBatches attests batches of one commit each and returns them as the service shows
// them, latest first, with the address of a node of their chain. The last transaction
// is made again if twice is set.
func attestedBatches(t *testing.T, n int, twice bool) (items []string, node string) {
	t.Helper()
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	attester := crypto.PubkeyToAddress(key.PublicKey)
	chain, err := devchain.New(devchain.Config{ChainID: 1337, Rich: []common.Address{attester}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(chain.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := eascontracts.Deploy(t.Context(), chain, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Transact(t.Context(), key, devchain.Tx{To: &d.Registry, Data: eas.RegisterCall(common.Address{})}); err != nil {
		t.Fatal(err)
	}
	schema := eas.SchemaUID(common.Address{})
	var before *batch.State
	var ref common.Hash
	for i := range n {
		open := []batch.Open{{Commit: domain.Hash{byte(i + 1)}, Index: uint64(i)}}
		s, _, err := batch.Close(before, 1337, batch.Word(schema), open, uint64(n), domain.Hash{1})
		if err != nil {
			t.Fatal(err)
		}
		tx := devchain.Tx{To: &d.EAS, Data: eas.AttestCall(schema, eas.StatementOf(s), ref)}
		r, err := chain.Transact(t.Context(), key, tx)
		if err != nil {
			t.Fatal(err)
		}
		if twice && i == n-1 {
			if _, err := chain.Transact(t.Context(), key, tx); err != nil {
				t.Fatal(err)
			}
		}
		block, err := chain.Client().HeaderByNumber(t.Context(), r.BlockNumber)
		if err != nil {
			t.Fatal(err)
		}
		a := batch.Attested{
			UID: batch.Word(eas.UIDs(r.Logs, d.EAS, schema, attester)[0]), RefUID: batch.Word(ref), EAS: eip191.Address(d.EAS), Attester: eip191.Address(attester),
			Tx: batch.Word(r.TxHash), Block: r.BlockNumber.Uint64(), BlockHash: batch.Word(r.BlockHash), Time: eas.Attestation{Time: block.Time}.Moment(),
		}
		sealed, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		attested, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		item := strings.TrimSuffix(string(sealed), "}") + `,"state":"attested","attestation":` + string(attested) + "}"
		items = append([]string{item}, items...)
		before, ref = &batch.State{Sealed: &s}, common.Hash(a.UID)
	}
	return items, server.URL
}

// ledgerOf serves batches of one commit each, and the records that they are made of.
func ledgerOf(t *testing.T, items []string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, one := strings.CutPrefix(r.URL.Path, batches+"/")
		switch {
		case one:
			var i int
			if _, err := fmt.Sscan(n, &i); err != nil || i < 1 || i > len(items) {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(items[len(items)-i]))
		case r.URL.Path == batches:
			_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
		case r.URL.Path == "/v1/ledger/records":
			var from int
			if _, err := fmt.Sscan(r.FormValue("from"), &from); err != nil {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprintf(w, `{"items":[{"index":%d,"record":{"type":"shop.committed.v1","data":{"commit":"%s"}}}]}`, from, domain.Hash{byte(from + 1)})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func verifies(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &out)
	return code, out.String()
}

func TestBatchAndChain(t *testing.T) {
	t.Parallel()
	items, node := attestedBatches(t, 3, false)
	url := ledgerOf(t, items)
	tampered := append([]string{strings.Replace(items[0], `"logSize":3`, `"logSize":4`, 1)}, items[1:]...)
	pending := append([]string{items[0][:strings.Index(items[0], `,"state"`)] + "}"}, items[1:]...)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"a batch", []string{"batch", url + batches + "/2", "--rpc", node}, exitOK, []string{"pass", "members", "attested it on chain 1337"}},
		{"a batch without a node", []string{"batch", url + batches + "/2"}, exitOK, []string{"skipped  attestation"}},
		{"a batch at a node of another chain", []string{"batch", url + batches + "/2", "--rpc", ledgerOf(t, nil)}, exitOK, []string{"skipped  attestation"}},
		{"a batch that is not attested", []string{"batch", ledgerOf(t, pending) + batches + "/3", "--rpc", node}, exitOK, []string{"pending  attestation"}},
		{"a batch with another content", []string{"batch", ledgerOf(t, tampered) + batches + "/3", "--rpc", node}, exitFailed, []string{"says something else"}},
		{"a batch that is not there", []string{"batch", url + batches + "/4", "--rpc", node}, exitError, []string{"404"}},
		{"no batch", []string{"batch", url}, exitError, []string{"not the URL of a batch"}},
		{"the chain", []string{"chain", url, "--rpc", node}, exitOK, []string{"3 batches, 3 attestations, 0 faults"}},
		{"the chain as JSON", []string{"chain", url, "--rpc", node, "--json"}, exitOK, []string{`"faults": []`}},
		{"a ledger that hides a batch", []string{"chain", ledgerOf(t, items[1:]), "--rpc", node}, exitFailed, []string{"orphan", "batch 3"}},
		{"a ledger that lags behind", []string{"chain", ledgerOf(t, pending), "--rpc", node}, exitOK, []string{"3 batches, 3 attestations, 0 faults"}},
		{"a ledger that changed one", []string{"chain", ledgerOf(t, tampered), "--rpc", node}, exitFailed, []string{"orphan", "another content"}},
		{"a chain without a node", []string{"chain", url}, exitUsage, []string{"--rpc"}},
	} {
		code, out := verifies(t, tt.args...)
		if code != tt.code {
			t.Errorf("%s: exit code %d, want %d\n%s", tt.name, code, tt.code, out)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", tt.name, want, out)
			}
		}
	}
}

func TestTwinOnTheChain(t *testing.T) {
	t.Parallel()
	items, node := attestedBatches(t, 2, true)
	if code, out := verifies(t, "chain", ledgerOf(t, items), "--rpc", node); code != exitFailed || !strings.Contains(out, "twin") {
		t.Errorf("exit code %d, want %d and a twin in\n%s", code, exitFailed, out)
	}
}
