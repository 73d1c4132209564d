//go:build peers

package assembly_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/migrations/pgtest"
)

// What the process that attests is told besides its configuration.
const (
	processSchema = "TEST_CHAIN_SCHEMA" // in the database
	processNow    = "TEST_CHAIN_NOW"    // its time, in seconds since 1970
)

// TestChainProcess is the process that [TestChainKilled] starts: the programme on its
// database, which attests what there is to attest and says so after each step.
func TestChainProcess(t *testing.T) {
	t.Parallel()
	schema := os.Getenv(processSchema)
	if schema == "" {
		t.Skip("it is started by TestChainKilled")
	}
	seconds, err := strconv.ParseInt(os.Getenv(processNow), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p, err := assembly.Open(t.Context(), assembly.ConfigFrom(os.Getenv), assembly.Options{
		Schema: schema, Now: func() time.Time { return time.Unix(seconds, 0).UTC() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Attester.Leases = nil // those of processes that were killed before would be waited for
	for {
		_ = p.Attester.Step(t.Context()) // what hinders it is in its status
		s := p.Attester.Status()
		fmt.Fprintln(os.Stdout, "step:", s.State, s.Detail)
	}
}

// A killing is a programme whose attesting processes are killed, and its chain.
type killing struct {
	*assembly.Programme
	chain   *anviltest.Chain
	env     []string
	r       *rand.Rand
	commits []domain.Hash

	mu  sync.Mutex
	now time.Time

	kills, reorganisations int
}

// TestChainKilled has batches of all sizes attested on a node that others wrote, while
// the process that attests is killed at random and the chain loses its newest blocks.
// Each batch ends up with one attestation behind that of the batch before, and every
// commit is proven by it.
func TestChainKilled(t *testing.T) {
	t.Parallel()
	const (
		batches = 50
		size    = 64 // of the largest
		chainID = 84532
	)
	ctx := t.Context()
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	account := crypto.PubkeyToAddress(key.PublicKey)
	chain := anviltest.Start(t, chainID, "--slots-in-an-epoch", "3") // final are blocks with six on top
	if err := chain.Fund(ctx, account); err != nil {
		t.Fatal(err)
	}
	deployment, err := eascontracts.Deploy(ctx, chain, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := chain.Hold(ctx); err != nil {
		t.Fatal(err)
	}
	if err := chain.Mine(ctx, 10); err != nil { // EAS itself is not to be lost
		t.Fatal(err)
	}
	k := startKilling(t, chain, map[string]string{
		"MYSTERY_ATTESTER_KEY_FILE":    keyFile(t, crypto.FromECDSA(key)),
		"MYSTERY_ATTEST_CHAIN":         strconv.Itoa(chainID),
		"MYSTERY_RPC_84532":            chain.URL,
		"MYSTERY_ATTEST_EAS":           deployment.EAS.Hex(),
		"MYSTERY_ATTEST_REGISTRY":      deployment.Registry.Hex(),
		"MYSTERY_ATTEST_CONFIRMATIONS": "1",
		"MYSTERY_BATCH_SIZE":           strconv.Itoa(size),
	})
	k.commit(t, 1)
	var last uint64
	for round := 0; ; round++ {
		if err := k.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		var open uint64
		if open, last, err = k.Reader.BatchNumbers(ctx); err != nil {
			t.Fatal(err)
		}
		if waiting := k.waiting(t); last >= batches && open == 0 && !waiting {
			break
		} else if round > 40*batches {
			t.Fatalf("after %d rounds the first batch that is not final is %d of %d, commits wait: %t", round, open, last, waiting)
		}
		if last < batches {
			k.commit(t, 1+k.r.IntN(size*5/4))
		}
		k.pass(time.Hour + time.Duration(k.r.IntN(300))*time.Second) // no less than the fees wait to be raised
		k.life(t, k.r.IntN(5))
	}
	t.Logf("%d batches after %d kills and %d reorganisations", last, k.kills, k.reorganisations)
	k.audit(t, deployment, account, last)
}

func keyFile(t *testing.T, key []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "attester.key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startKilling opens the programme without what attests, which is in env.
func startKilling(t *testing.T, chain *anviltest.Chain, env map[string]string) *killing {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killing{
		chain: chain, env: os.Environ(), r: rand.New(rand.NewPCG(seed, 0)),
		now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	}
	config := assembly.ConfigFrom(func(string) string { return "" })
	config.DatabaseURL, config.StateDir = pgtest.URL(t), t.TempDir()
	schema := pgtest.Schema(pgtest.Open(t))
	var err error
	k.Programme, err = assembly.Open(t.Context(), config, assembly.Options{Schema: schema, Now: k.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	env["MYSTERY_DATABASE_URL"], env["MYSTERY_STATE_DIR"], env[processSchema] = config.DatabaseURL, config.StateDir, schema
	for name, value := range env {
		k.env = append(k.env, name+"="+value)
	}
	return k
}

func (k *killing) clock() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *killing) pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

// commit puts n commits on record, and publishes them.
func (k *killing) commit(t *testing.T, n int) {
	t.Helper()
	k.commits = append(k.commits, seals(t, k.Programme, uint64(len(k.commits)), n)...)
}

// waiting reports whether commits are in no batch.
func (k *killing) waiting(t *testing.T) bool {
	t.Helper()
	open, err := k.Reader.OpenCommits(t.Context(), uint64(len(k.commits))*1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	return len(open) > 0
}

// life starts a process that attests, and kills it somewhere in the step behind the
// given number of whole ones. The chain changes meanwhile.
func (k *killing) life(t *testing.T, steps int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChainProcess$")
	cmd.Env = append(k.env, fmt.Sprintf("%s=%d", processNow, k.clock().Unix()))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range steps {
		said := stepped(lines)
		if said == "" || strings.HasPrefix(said, attester.Stopped) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the process has ended, or stopped attesting: %q\n%s", said, stderr.String())
		}
		k.move(t)
	}
	time.Sleep(time.Duration(k.r.IntN(60)) * time.Millisecond) // where in the step does not matter
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	k.kills++
	k.move(t)
}

// stepped returns what the process says of its next step, or nothing if it ends before.
func stepped(lines *bufio.Scanner) string {
	for lines.Scan() { // the package testing may say something as well
		if said, ok := strings.CutPrefix(lines.Text(), "step: "); ok {
			return said
		}
	}
	return ""
}

// move has the chain go on, or lose blocks.
func (k *killing) move(t *testing.T) {
	t.Helper()
	if n := k.r.IntN(4); n > 0 {
		if err := k.chain.Mine(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if k.r.IntN(8) == 0 {
		if err := k.chain.Reorganise(t.Context(), 1+k.r.IntN(5)); err != nil {
			t.Fatal(err)
		}
		k.reorganisations++
	}
}

// audit compares all that stands on the chain with all that was committed.
func (k *killing) audit(t *testing.T, d eas.Deployment, account common.Address, batches uint64) {
	t.Helper()
	ctx, n, schema := t.Context(), k.chain.Node(), eas.SchemaUID(common.Address{})
	head, err := n.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := n.Logs(ctx, eas.Logs(d.EAS, schema, account, 0, head.Number))
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		return n.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, head)
	}
	var found []eas.Attestation
	for _, uid := range eas.UIDs(logs, d.EAS, schema, account) {
		a, err := eas.Read(ctx, call, d.EAS, uid)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, a)
	}
	if uint64(len(found)) != batches {
		t.Errorf("%d attestations stand on the chain, want one of each of %d batches", len(found), batches)
	}
	list, err := k.Reader.Batches(ctx, 0, int(batches))
	if err != nil {
		t.Fatal(err)
	}
	claims := make([]eas.Claim, len(list))
	for i, b := range list {
		claims[i] = eas.Claim{Sealed: b.Sealed, Attested: b.Attested}
	}
	for _, fault := range eas.Walk(schema, account, claims, found) {
		t.Errorf("%+v", fault)
	}
	for _, commit := range k.commits {
		p, err := k.Reader.CommitProof(ctx, commit)
		if err != nil || p.Batch == nil || !p.Batch.Final || p.Batch.Batch > uint64(len(found)) {
			t.Fatalf("CommitProof = %+v, %v, want one of a batch that is final", p, err)
		}
		said, err := found[p.Batch.Batch-1].Check(schema, account)
		if err != nil {
			t.Fatal(err)
		}
		if err := merkle.VerifyBatchPath(p.Batch.ID(), commit, p.Index, uint64(said.Count), p.Path, said.Root); err != nil {
			t.Error(err)
		}
	}
}
