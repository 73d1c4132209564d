package assembly_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/migrations/pgtest"
)

const anAddress = "0x0000000000000000000000000000000000000001"

// openWith opens a programme with an environment.
func openWith(t *testing.T, schema string, env map[string]string) (*assembly.Programme, error) {
	t.Helper()
	c := assembly.ConfigFrom(func(name string) string { return env[name] })
	c.StateDir = t.TempDir()
	return assembly.Open(t.Context(), c, assembly.Options{Schema: schema})
}

// TestAttestingRefused gives settings that cannot be used. They are refused before
// anything is opened.
func TestAttestingRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"a chain that is not known", map[string]string{"MYSTERY_ATTEST_CHAIN": "777", "MYSTERY_RPC_777": "http://127.0.0.1:1"}, "MYSTERY_ATTEST_EAS"},
		{"a chain without a node", map[string]string{"MYSTERY_ATTEST_CHAIN": "8453"}, "MYSTERY_RPC_8453"},
		{"no chain id", map[string]string{"MYSTERY_ATTEST_CHAIN": "base"}, "MYSTERY_ATTEST_CHAIN"},
		{"no address", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_RESOLVER": "0x1"}, "MYSTERY_ATTEST_RESOLVER"},
		{"too large a size", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_BATCH_SIZE": "100001"}, "MYSTERY_BATCH_SIZE"},
		{"no number", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_CONFIRMATIONS": "-1"}, "MYSTERY_ATTEST_CONFIRMATIONS"},
		{"no fee", map[string]string{"MYSTERY_ATTEST_CHAIN": "84532", "MYSTERY_ATTEST_MAX_FEE": "0"}, "MYSTERY_ATTEST_MAX_FEE"},
		{"a key that is not there", map[string]string{"MYSTERY_ATTESTER_KEY_FILE": "/nowhere/key"}, "/nowhere/key"},
	} {
		tt.env["MYSTERY_DATABASE_URL"] = "postgres://nowhere.invalid/none"
		if _, err := openWith(t, "", tt.env); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Open = %v, want an error with %s", tt.name, err, tt.want)
		}
	}
}

// TestAttestingOpens needs no node, as none is asked at the start. The first step tells
// what is missing.
func TestAttestingOpens(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "attester.key")
	if err := os.WriteFile(key, []byte(hex.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openWith(t, pgtest.Schema(pgtest.Open(t)), map[string]string{
		"MYSTERY_DATABASE_URL": pgtest.URL(t), "MYSTERY_ATTESTER_KEY_FILE": key, "MYSTERY_ATTEST_CHAIN": "777",
		"MYSTERY_RPC_777": "http://127.0.0.1:1", "MYSTERY_ATTEST_EAS": anAddress, "MYSTERY_ATTEST_REGISTRY": anAddress,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Attester == nil || p.Attester.Key == nil {
		t.Fatal("there is no attester with a key")
	}
	if how, err := p.Attesting(t.Context()); err != nil || how != "not begun" {
		t.Errorf("Attesting = %q, %v, want that it is not begun", how, err)
	}
	if err := p.Attester.Step(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Step = %v, want ErrUnavailable, before there is anything to attest", err)
	}
	if how, err := p.Attesting(t.Context()); err != nil || !strings.HasPrefix(how, "unreachable since ") || !strings.Contains(how, "127.0.0.1:1") {
		t.Errorf("Attesting = %q, %v, want which node does not answer", how, err)
	}
}

// seals puts n seals behind so many earlier ones on record, publishes them, and returns
// their roots.
func seals(t *testing.T, p *assembly.Programme, behind uint64, n int) []domain.Hash {
	t.Helper()
	const id = "cns_sealed"
	events, roots := make([]domain.Event, n), make([]domain.Hash, n)
	for i := range events {
		hour := behind + uint64(i)
		roots[i] = domain.Sum([]byte(strconv.FormatUint(hour, 10)))
		events[i] = seal.Sealed{Consent: id, Hour: hour, Root: roots[i]}
	}
	m := ledger.Meta{Actor: "worker", Command: strconv.FormatUint(behind, 10)}
	if err := p.Service.Log.Append(t.Context(), seal.StreamOf(id), behind, m, events...); err != nil {
		t.Fatal(err)
	}
	if err := p.PublishLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	return roots
}

// TestTwoProcessesAttest has two processes with one key on one database. One of them
// attests, and the other one goes on when that loses its node. What the operator sees
// is that batches are attested.
func TestTwoProcessesAttest(t *testing.T) {
	t.Parallel()
	const chainID = 1337
	var hours atomic.Int64
	now := func() time.Time {
		return time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC).Add(time.Duration(hours.Load()) * time.Hour)
	}
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	account := crypto.PubkeyToAddress(key.PublicKey)
	chain, err := devchain.New(devchain.Config{ChainID: chainID, Rich: []common.Address{account}, Now: now, Finality: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer chain.Close()
	deployed, err := eascontracts.Deploy(t.Context(), chain, key)
	if err != nil {
		t.Fatal(err)
	}
	schema := pgtest.Schema(pgtest.Open(t))
	config := assembly.Config{
		DatabaseURL: pgtest.URL(t), StateDir: t.TempDir(), PublicURL: "http://localhost:8080",
		Attest: assembly.Attesting{
			Chain: strconv.Itoa(chainID), EAS: deployed.EAS.Hex(), Registry: deployed.Registry.Hex(), Confirmations: "1",
		},
	}
	open := func(nodes rpc.Set) *assembly.Programme {
		p, err := assembly.Open(t.Context(), config, assembly.Options{Schema: schema, Now: now, Nodes: nodes, AttesterKey: attester.NewKey(key)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	nodes := func() rpc.Set {
		return rpc.Set{chainID: rpc.New(chainID, rpc.Config{Now: time.Now, Timeout: time.Minute}, chain.Node())}
	}
	failing, other := nodes(), nodes()
	defer other.Close()
	first, second := open(failing), open(other)

	// attest has a batch made of n commits and attested, and returns how the steps of both
	// processes ended last.
	commits, batches := 0, uint64(0)
	attest := func(n int) (states [2]string) {
		t.Helper()
		seals(t, first, uint64(commits), n)
		commits, batches = commits+n, batches+1
		hours.Add(1)
		for round := 0; ; round++ {
			switch s, err := second.Service.BatchState(t.Context(), batches); {
			case err != nil:
				t.Fatal(err)
			case s.Attested != nil && len(s.Submitted) == 1:
				return states
			case s.Attested != nil || round > 20:
				t.Fatalf("batch %d is %+v, the processes are %v, want it attested by one transaction", batches, s, states)
			}
			for i, p := range []*assembly.Programme{first, second} {
				_ = p.Attester.Step(t.Context()) // what hinders it is in its status
				states[i] = p.Attester.Status().State
			}
			for range 2 {
				if _, err := chain.Mine(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 2 {
		if got, want := attest(2), [2]string{attester.Well, attester.Idle}; got != want {
			t.Errorf("the processes are %v, want %v", got, want)
		}
	}
	failing.Close()
	for range 2 {
		if got, want := attest(2), [2]string{attester.Idle, attester.Well}; got != want {
			t.Errorf("the processes are %v, want %v", got, want)
		}
		if how, err := first.Attesting(t.Context()); err != nil || how != attester.Well {
			t.Errorf("Attesting = %q, %v, want %s", how, err, attester.Well)
		}
	}
	n := chain.Node()
	defer n.Close()
	head, err := n.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	logs, err := n.Logs(t.Context(), eas.Logs(deployed.EAS, eas.SchemaUID(common.Address{}), account, 0, head.Number))
	if err != nil || uint64(len(logs)) != batches {
		t.Errorf("%d attestations stand on the chain (%v), want one of each of %d batches", len(logs), err, batches)
	}
}
