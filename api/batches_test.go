package api_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
)

// commit makes n slots with commits and returns them as open.
func (w *world) commit(n int) (open []batch.Open) {
	w.t.Helper()
	for i := range n {
		o := batch.Open{Commit: domain.Sum([]byte(fmt.Sprint("commit ", i))), Index: uint64(w.records()), Time: w.clock()}
		w.ok(w.log.Append(w.t.Context(), shop.StreamOf(fmt.Sprint("slot-", i)), 0, w.meta("commit"), shop.Committed{Slot: i, Commit: o.Commit}))
		open = append(open, o)
	}
	return open
}

// batch has the service carry out commands on a batch, and shows it.
func (w *world) batch(n uint64, commands ...batch.Command) {
	w.t.Helper()
	for i, c := range commands {
		w.ok(w.service.Batch(w.t.Context(), w.meta(fmt.Sprintf("batch %d at %s: %d", n, w.clock(), i)), n, c))
	}
	w.pass(time.Second)
	w.ok(w.runner.CatchUp(w.t.Context()))
}

func TestBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	open := w.commit(6)
	first, tree, err := batch.Close(nil, 84532, batch.Word{1}, open[:3], 20, domain.Hash{2})
	w.ok(err)
	second, _, err := batch.Close(&batch.State{Sealed: &first}, 84532, batch.Word{1}, open[3:5], 20, domain.Hash{2})
	w.ok(err)
	w.batch(1, batch.Seal{Sealed: first})
	w.batch(2, batch.Seal{Sealed: second, Before: &batch.State{Sealed: &first}})

	one := func() map[string]any { return w.get("/v1/ledger/batches/1") }
	if got := one(); got["state"] != "sealed" || got["attestation"] != nil || got["root"] != first.Root.String() || got["batchId"] != first.ID().String() || got["count"] != 3.0 {
		t.Errorf("a sealed batch is %v", got)
	}
	submitted := batch.Submitted{Batch: 1, Attester: eip191.Address{1}, EAS: eip191.Address{2}, Tx: batch.Word{3}}
	w.batch(1, batch.Submit{Submitted: submitted})
	if got := one(); got["state"] != "submitted" {
		t.Errorf("a submitted batch is %v", got)
	}
	attested := batch.Attested{
		Batch: 1, Attester: submitted.Attester, EAS: submitted.EAS, UID: batch.Word{4}, Tx: submitted.Tx, Block: 5, BlockHash: batch.Word{6}, Time: w.clock(),
	}
	w.batch(1, batch.Attest(attested))
	if got := one(); got["state"] != "attested" || got["attestation"].(map[string]any)["uid"] != attested.UID.String() || got["attestation"].(map[string]any)["final"] != false {
		t.Errorf("an attested batch is %v", got)
	}
	w.batch(1, batch.Finalise{Batch: 1, UID: attested.UID})
	if got := one(); got["state"] != "finalised" || got["attestation"].(map[string]any)["final"] != true {
		t.Errorf("a final batch is %v", got)
	}

	a := w.do(http.MethodGet, "/v1/ledger/batches?limit=1", "")
	if !strings.Contains(a.body, `"batch":2`) || a.header.Get("Link") != `</v1/ledger/batches?before=2&limit=1>; rel="next"` {
		t.Errorf("the first page is %s with the link %s", a.body, a.header.Get("Link"))
	}
	if a := w.do(http.MethodGet, "/v1/ledger/batches?before=2&limit=1", ""); !strings.Contains(a.body, `"batch":1`) || a.header.Get("Link") != "" {
		t.Errorf("the second page is %s with the link %s", a.body, a.header.Get("Link"))
	}

	// A commit is proven by nothing but what is served, and what is attested.
	proof := w.get("/v1/ledger/commits/" + open[1].Commit.String() + "/proof")
	var path []domain.Hash
	for _, p := range proof["path"].([]any) {
		h, err := domain.ParseHash(p.(string))
		w.ok(err)
		path = append(path, h)
	}
	index := uint64(proof["index"].(float64))
	w.ok(merkle.VerifyBatchPath(first.ID(), open[1].Commit, index, 3, path, first.Root))
	leaf := merkle.BatchLeaf(first.ID(), open[1].Commit, 1, 3)
	if call := "0x" + hex.EncodeToString(merkle.VerifyCall(path, first.Root, leaf)); proof["calldata"] != call || proof["leaf"] != leaf.String() || proof["state"] != "finalised" {
		t.Errorf("the proof is %v", proof)
	}
	if !slices.Equal(path, tree.Path(1)) {
		t.Errorf("the path is %v, want %v", path, tree.Path(1))
	}
}

func TestNoSuchBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	open := w.commit(1)
	w.ok(w.runner.CatchUp(t.Context()))
	for path, want := range map[string]int{
		"/v1/ledger/batches/1":                                     http.StatusNotFound,
		"/v1/ledger/batches/0":                                     http.StatusUnprocessableEntity,
		"/v1/ledger/batches/-1":                                    http.StatusUnprocessableEntity,
		"/v1/ledger/batches/9007199254740992":                      http.StatusUnprocessableEntity,
		"/v1/ledger/batches?limit=0":                               http.StatusUnprocessableEntity,
		"/v1/ledger/batches?before=x":                              http.StatusUnprocessableEntity,
		"/v1/ledger/commits/" + open[0].Commit.String() + "/proof": http.StatusNotFound, // it waits
		"/v1/ledger/commits/" + strings.Repeat("0", 64) + "/proof": http.StatusNotFound,
		"/v1/ledger/commits/" + strings.Repeat("A", 64) + "/proof": http.StatusUnprocessableEntity,
		"/v1/ledger/commits/0x00/proof":                            http.StatusUnprocessableEntity,
	} {
		if a := w.do(http.MethodGet, path, ""); a.status != want || a.header.Get("Content-Type") != problem {
			t.Errorf("GET %s: %d %s, want %d", path, a.status, a.body, want)
		}
	}
	if a := w.do(http.MethodGet, "/v1/ledger/batches", ""); a.status != http.StatusOK || !strings.Contains(a.body, `"items":[]`) {
		t.Errorf("no batches are %d %s", a.status, a.body)
	}
}

// A bundle has the places of its commits as soon as the signed log covers the batch,
// and the checks of a slot and of a day come to say so, of a task as of a pad.
func TestBundleOfBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	l := w.publicLog()
	d := w.seal(w.grant(house), house)
	var open []batch.Open
	for i := range plan.Slots {
		open = append(open, batch.Open{Commit: domain.Sum([]byte(d.shop(i))), Index: uint64(i)})
	}
	first, _, err := batch.Close(nil, 84532, batch.Word{1}, open, uint64(len(open)), domain.Hash{2})
	w.ok(err)
	of := func(b map[string]any, id string) (status string) {
		for _, c := range b["checks"].([]any) {
			if c := c.(map[string]any); c["id"] == id {
				status = c["status"].(string)
			}
		}
		return status
	}
	check := func(when, batches, attestations string) {
		t.Helper()
		for _, path := range []string{
			root + "/shops/" + d.shop(d.tasks[0]) + "/verify", root + "/shops/" + d.shop(d.pads[0]) + "/verify",
			fmt.Sprintf("%s/consents/%s/days/%d/verify", root, d.consent, d.day),
		} {
			b := w.get(path)
			if of(b, "batch") != batches || of(b, "attestation") != attestations {
				t.Errorf("%s %s: batch %s, attestation %s; want %s, %s", path, when, of(b, "batch"), of(b, "attestation"), batches, attestations)
			}
		}
		if a := w.do(http.MethodGet, "/v1/ledger/bundle?consent="+d.consent, ""); strings.Count(a.body, `"type":"batch.`) > 3 {
			t.Errorf("%s the bundle has a record more than once", when)
		} else if _, err := verify.OpenBundle([]byte(a.body)); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	w.ok(w.runner.CatchUp(t.Context()))
	l.publish()
	check("before there is a batch", "pending", "pending")
	w.batch(1, batch.Seal{Sealed: first})
	check("before the signed log covers the batch", "pending", "pending")
	l.publish()
	check("when it is sealed", "pass", "pending")
	submitted := batch.Submitted{Batch: 1, Attester: eip191.Address{1}, EAS: eip191.Address{2}, Tx: batch.Word{3}}
	w.batch(1, batch.Submit{Submitted: submitted})
	w.batch(1, batch.Attest(batch.Attested{
		Batch: 1, Attester: submitted.Attester, EAS: submitted.EAS, UID: batch.Word{4}, Tx: submitted.Tx, Block: 5, BlockHash: batch.Word{6}, Time: w.clock(),
	}))
	l.publish()
	check("when it is attested", "pass", "pass")
}
