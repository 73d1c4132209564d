package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
)

// block is where the contract wallet of the tests was asked.
var block = agent.Block{Chain: 84532, Number: 7, Hash: agent.BlockHash(domain.Sum([]byte("block")))}

// published returns a consent as the API shows it, signed by a key or, if wallet is
// set, by a contract wallet.
func published(t *testing.T, wallet bool) map[string]any {
	t.Helper()
	key := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{0x11}, 32))
	nonce := domain.Sum([]byte("the owner's nonce"))
	issued := time.Date(2026, 10, 16, 9, 30, 0, 0, time.UTC)
	first := consent.FirstDay(issued.Add(consent.ChallengeLife))
	p := consent.Payload{
		Request: consent.Request{
			Agent: "build:42", Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://agent.example/a2a"}}, Kinds: []task.Kind{task.A2A},
			MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 7, OwnerNonceHash: domain.Sum(nonce[:]),
		},
		Terms: consent.Terms{
			Domain: "karatum.com", Owner: eip191.AddressOf(key.PubKey()), Chain: block.Chain, FirstDay: first, LastDay: first + 6,
			TermsVersion: terms.Current().Number, TermsHash: terms.Current().Hash(), PoolVersion: identity.Version(), PoolHash: identity.Hash(),
			CatalogueDigest: task.Digest(), Nonce: domain.Sum([]byte("nonce")), IssuedAt: issued,
		},
	}
	message, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]any{
		"id": plan.ConsentID(p.Nonce), "state": "active", "agent": p.Agent, "owner": p.Owner, "firstDay": p.FirstDay, "lastDay": p.LastDay,
		"message": message, "payload": p, "payloadHash": hash, "ownerNonce": nonce,
		"signature": eip191.Sign(message, key), "verified": map[string]any{"method": "eip191"},
	}
	if wallet {
		shown["signature"], shown["verified"] = "0x"+strings.Repeat("ab", 100), map[string]any{"method": "erc1271", "at": block}
	}
	return shown
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// words writes what was printed with one blank between words.
func words(out *bytes.Buffer) string { return strings.Join(strings.Fields(out.String()), " ") }

func TestConsent(t *testing.T) {
	t.Parallel()
	good := encode(t, published(t, false))
	tampered := published(t, false)
	tampered["payloadHash"] = domain.Hash{}
	file := filepath.Join(t.TempDir(), "consent.json")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/mystery/consents/cns_x" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, good)
	}))
	t.Cleanup(api.Close)
	for _, tt := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		says  string
	}{
		{"from a file", []string{file}, "", exitOK, "pass signature"},
		{"from standard input", nil, good, exitOK, "pass terms"},
		{"from standard input by name", []string{"-"}, good, exitOK, "pass owner_nonce"},
		{"from a URL", []string{api.URL + "/v1/mystery/consents/cns_x"}, "", exitOK, "pass consent_id"},
		{"as JSON", []string{"--json", file}, "", exitOK, `"verdict": "ok"`},
		{"tampered", nil, encode(t, tampered), exitFailed, "fail payload_hash"},
		{"tampered, as JSON", []string{"--json"}, encode(t, tampered), exitFailed, `"verdict": "fail"`},
		{"of a contract wallet without a node", nil, encode(t, published(t, true)), exitOK, "skipped signature"},
		{"from a file that is not there", []string{file + "x"}, "", exitError, "no such file"},
		{"from a URL that is not there", []string{api.URL + "/x"}, "", exitError, "404"},
		{"that is none", nil, `{"type":"about:blank"}`, exitError, "id is missing"},
		{"two of them", []string{file, file}, "", exitUsage, "at most 1"},
		{"with a node that is none", []string{"--rpc", "ftp://node.example", file}, "", exitError, "http or https"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			args := append([]string{"consent"}, tt.args...)
			if code := run(t.Context(), args, strings.NewReader(tt.stdin), &out, &out); code != tt.code {
				t.Errorf("consent = %d, want %d", code, tt.code)
			}
			if !strings.Contains(words(&out), tt.says) {
				t.Errorf("it says %s, want %q in it", &out, tt.says)
			}
		})
	}
}

// A chain is a node over JSON-RPC with one contract wallet, which accepts one
// signature in the one block that the node knows.
type chain struct {
	id     uint64
	block  agent.Block
	wallet string // its address in lower case
	yes    bool
}

func (c chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var result any
	switch ask.Method {
	case "eth_chainId":
		result = fmt.Sprintf("%#x", c.id)
	case "eth_getBlockByNumber":
		result = map[string]any{"number": fmt.Sprintf("%#x", c.block.Number), "hash": c.block.Hash, "timestamp": "0x1"}
	case "eth_getCode":
		result = "0x"
		if strings.EqualFold(strings.Trim(string(ask.Params[0]), `"`), c.wallet) {
			result = "0x6001"
		}
	case "eth_call":
		result = "0x" + strings.Repeat("0", 64)
		if c.yes {
			result = "0x1626ba7e" + strings.Repeat("0", 56)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": ask.ID, "result": result})
}

// With a node the wallet is asked again. Only its answer settles the check: a node
// that has another chain or block says nothing.
func TestConsentOfContractWallet(t *testing.T) {
	t.Parallel()
	shown := published(t, true)
	wallet := fmt.Sprint(shown["owner"])
	other := block
	other.Hash[0]++
	for _, tt := range []struct {
		name string
		node chain
		code int
		says string
	}{
		{"accepted", chain{block.Chain, block, wallet, true}, exitOK, "pass signature"},
		{"refused", chain{block.Chain, block, wallet, false}, exitFailed, "fail signature"},
		{"no wallet there", chain{block.Chain, block, "0x", true}, exitFailed, "no contract wallet"},
		{"another chain", chain{1, block, wallet, true}, exitOK, "the node serves chain 1"},
		{"another block", chain{block.Chain, other, wallet, true}, exitOK, "skipped signature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.node)
			defer server.Close()
			var out bytes.Buffer
			code := run(t.Context(), []string{"consent", "--rpc", server.URL}, strings.NewReader(encode(t, shown)), &out, &out)
			if code != tt.code || !strings.Contains(words(&out), tt.says) {
				t.Errorf("consent = %d and says %s, want %d and %q", code, &out, tt.code, tt.says)
			}
		})
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"consent", "--rpc", "http://127.0.0.1:1"}, strings.NewReader(encode(t, shown)), &out, &out); code != exitOK ||
		!strings.Contains(words(&out), "skipped signature") {
		t.Errorf("with a node that is down: %d, %s", code, &out)
	}
}
