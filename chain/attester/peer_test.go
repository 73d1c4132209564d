//go:build peers

package attester_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain/eip191"
)

// dialled returns the nodes of a world that has one, at url.
func dialled(t *testing.T, url string) func() []*node.Client {
	t.Helper()
	return func() []*node.Client {
		n, err := node.Dial(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return []*node.Client{n}
	}
}

// What is attested on a node that others wrote is read and decoded by the SDK of EAS,
// which knows nothing of us.
func TestPeerEASSDK(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	const batches = 3
	ctx := t.Context()
	chain := anviltest.Start(t, chaintest.ID, "--slots-in-an-epoch", "1") // final are blocks with two on top
	w := &world{t: t, now: begin, key: chaintest.Key(1), client: chain.Client(), nodes: dialled(t, chain.URL)}
	if err := chain.Fund(ctx, chaintest.Address(w.key)); err != nil {
		t.Fatal(err)
	}
	w.fill()
	var err error
	if w.eas, err = eascontracts.Deploy(ctx, chain, w.key); err != nil {
		t.Fatal(err)
	}
	a := w.attester()
	for n := uint64(1); n <= batches; n++ {
		w.commit(int(n))
		w.pass(time.Hour)
		for step := 0; !w.state(n).Final; step++ {
			if step > 20 {
				t.Fatalf("batch %d is not final; the attester is %+v", n, a.Status())
			}
			w.step(a)
			if err := chain.Mine(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := a.Status(); got.State != attester.Well {
		t.Fatalf("Status = %+v, want %s", got, attester.Well)
	}
	w.audit(batches)

	type attestation struct {
		UID       string            `json:"uid"`
		Attester  string            `json:"attester"`
		RefUID    string            `json:"refUid"`
		Time      string            `json:"time"`
		Valid     bool              `json:"valid"`
		SchemaUID string            `json:"schemaUid"`
		Revocable bool              `json:"revocable"`
		Fields    map[string]string `json:"fields"`
	}
	var want []attestation
	args := []string{filepath.Join(peers, "batches", "attestations.cjs"), chain.URL, w.eas.EAS.Hex(), w.eas.Registry.Hex()}
	for n := uint64(1); n <= batches; n++ {
		s := w.state(n)
		want = append(want, attestation{
			UID: s.Attested.UID.String(), Attester: eip191.Address(chaintest.Address(w.key)).String(), RefUID: s.Attested.RefUID.String(),
			Time: strconv.FormatInt(s.Attested.Time.Unix(), 10), Valid: true, SchemaUID: eas.SchemaUID(common.Address{}).Hex(),
			Fields: map[string]string{
				"commitRoot": "0x" + s.Sealed.Root.String(), "batch": strconv.FormatUint(n, 10), "leafCount": strconv.Itoa(int(s.Sealed.Count)),
				"previousRoot": "0x" + s.Sealed.PreviousRoot.String(), "logSize": strconv.FormatUint(s.Sealed.LogSize, 10),
				"logRoot": "0x" + s.Sealed.LogRoot.String(),
			},
		})
		args = append(args, s.Attested.UID.String())
	}
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []attestation
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the SDK of EAS reads something else (-want +got):\n%s", diff)
	}
}
