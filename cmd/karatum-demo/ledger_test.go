package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
)

// publicLog publishes what there is, for the first time, and returns all that the
// public log then answers: checkpoint, tiles, records, proofs, bundles, the checks that
// are made from them, and refusals.
func (s *stage) publicLog(t *testing.T, consents map[string]consent.Payload) map[string]string {
	t.Helper()
	if err := s.prog.PublishLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := s.prog.Ledger.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{
		"/ledger/checkpoint", "/ledger/key", "/ledger/tile/0/999", "/ledger/tile/9/000", "/ledger/tile/x",
		"/v1/ledger", "/v1/ledger/streams/programme", "/v1/ledger/streams/agent/build:steady", "/v1/ledger/proofs/inclusion?index=3",
		"/v1/ledger/proofs/inclusion?index=999999", "/v1/ledger/proofs/consistency?from=7", "/v1/ledger/records/999999",
	}
	for _, name := range slices.Sorted(maps.Keys(consents)) {
		id, day := plan.ConsentID(consents[name].Nonce), consents[name].FirstDay
		paths = append(paths, "/v1/ledger/bundle?consent="+id, fmt.Sprintf("/v1/ledger/bundle?consent=%s&day=%d", id, day),
			fmt.Sprintf("/v1/mystery/consents/%s/days/%d/verify", id, day), fmt.Sprintf("/v1/mystery/consents/%s/days/%d/verify", id, day+1))
		for slot := range uint32(plan.Slots) {
			paths = append(paths, "/v1/ledger/bundle?shop="+plan.ShopID(id, day, slot), "/v1/mystery/shops/"+plan.ShopID(id, day, slot)+"/verify")
		}
	}
	for from := uint64(0); from < h.Size; from += 1000 {
		paths = append(paths, fmt.Sprintf("/v1/ledger/records?limit=1000&from=%d", from))
	}
	ids, widths := merkle.EdgeTiles(h.Size)
	for i, id := range ids {
		for full := range id.Index {
			paths = append(paths, fmt.Sprintf("/ledger/tile/%d/%03d", id.Level, full))
		}
		paths = append(paths, fmt.Sprintf("/ledger/tile/%d/%03d.p/%d", id.Level, id.Index, widths[i]))
	}
	return s.answers(t, "", paths, func(path string, body []byte) string { return blind(t, path, body) })
}

// derived matches hashes and signatures, in hex or base64.
var derived = regexp.MustCompile(`[0-9a-f]{64}|[0-9A-Za-z+/]{43,}={0,2}`)

// blind takes out of an answer of the public log what the roots of seals change, which
// differ by design from run to run: the records of seals but for their shape, and
// hashes over all records. What is left must not depend on what was sent.
func blind(t *testing.T, path string, body []byte) string {
	t.Helper()
	mask := func(b []byte) string {
		return string(derived.ReplaceAllFunc(b, func(m []byte) []byte { return bytes.Repeat([]byte("*"), len(m)) }))
	}
	switch {
	case strings.HasPrefix(path, "/ledger/tile/"):
		return fmt.Sprintf("%d bytes", len(body))
	case !strings.HasPrefix(path, "/v1/ledger/records?"):
		return mask(body)
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatal(err)
	}
	var left strings.Builder
	for _, item := range page.Items {
		if bytes.Contains(item, []byte(`"stream":"seal/`)) {
			left.WriteString(mask(item) + "\n")
		} else {
			left.WriteString(string(item) + "\n")
		}
	}
	return left.String()
}
