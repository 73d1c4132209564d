package attester_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
)

var (
	begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	gwei  = big.NewInt(1e9)
)

// A world is what outlives an attester: the ledger, the tables and the chain.
type world struct {
	t       *testing.T
	now     time.Time
	service *commands.Service
	key     *ecdsa.PrivateKey
	chain   uint64            // id; chaintest.ID if 0
	client  *ethclient.Client // of the test itself
	nodes   func() []*node.Client
	eas     eas.Deployment
	policy  batch.Policy
	config  rpc.Config

	mu      sync.Mutex
	commits []batch.Open // all there ever were
	signed  []attester.Transaction
	status  attester.Status
	fault   func() (before, after bool) // asked at each step that leaves a trace; nil: none happens
}

// errKilled is what a port answers when the process would be gone.
var errKilled = errors.New("killed")

// newWorld returns a world on a development chain.
func newWorld(t *testing.T) (*world, *devchain.Chain) {
	t.Helper()
	w := &world{t: t, now: begin, key: chaintest.Key(1)}
	chain, err := devchain.New(devchain.Config{
		ChainID: chaintest.ID, Rich: []common.Address{chaintest.Address(chaintest.Key(1)), chaintest.Address(chaintest.Key(2))}, Now: w.clock, Finality: 6,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	w.client = chain.Client()
	w.nodes = func() []*node.Client { return []*node.Client{chain.Node()} }
	w.fill()
	if w.eas, err = eascontracts.Deploy(t.Context(), chain, chaintest.Key(2)); err != nil {
		t.Fatal(err)
	}
	return w, chain
}

// fill gives w what does not depend on the chain.
func (w *world) fill() {
	w.policy = batch.Policy{After: 5 * time.Minute, Size: 64, Confirmations: 2, Patience: 5 * time.Minute}
	w.config = rpc.Config{Now: time.Now, Timeout: time.Minute}
	log := &memory.Log{Now: w.clock}
	w.service = &commands.Service{Log: log, Catalog: commands.Catalog(), Now: w.clock}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// commit adds commits that are due in the hour to come.
func (w *world) commit(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		i := uint64(len(w.commits))
		w.commits = append(w.commits, batch.Open{
			Commit: domain.Hash(crypto.Keccak256(binary.BigEndian.AppendUint64([]byte("commit"), i))), Index: 3 * i, Time: w.now,
		})
	}
}

// attester returns a new process.
func (w *world) attester() *attester.Attester {
	c := rpc.New(cmp.Or(w.chain, chaintest.ID), w.config, w.nodes()...)
	w.t.Cleanup(c.Close)
	return &attester.Attester{
		Ledger: faulty{w}, Reads: reads{w}, Transactions: faulty{w}, Chain: c, EAS: w.eas, Key: attester.NewKey(w.key), Policy: w.policy,
		Ceiling: new(big.Int).Mul(gwei, big.NewInt(1000)), Now: w.clock, Rand: rand.NewChaCha8([32]byte{byte(len(w.signed)), 1}),
		Log: slog.New(slog.DiscardHandler),
	}
}

func (w *world) step(a *attester.Attester) {
	w.t.Helper()
	if err := a.Step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) state(n uint64) batch.State {
	w.t.Helper()
	s, err := w.service.BatchState(w.t.Context(), n)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// copied returns the ledger as a backup would have it.
func (w *world) copied() *commands.Service {
	w.t.Helper()
	s := &commands.Service{Log: &memory.Log{Now: w.clock}, Catalog: commands.Catalog(), Now: w.clock}
	for r, err := range w.service.Log.After(w.t.Context(), 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		e, err := s.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := s.Log.Append(w.t.Context(), r.Stream, r.Version-1, ledger.Meta{Actor: r.Actor, Command: r.Cause.Command}, e); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// faulty are the ports that leave a trace.
type faulty struct{ *world }

func (f faulty) strike(ctx context.Context, do func() error) error {
	var before, after bool
	if f.fault != nil {
		before, after = f.fault()
	}
	if before || ctx.Err() != nil {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	if after {
		return errKilled
	}
	return nil
}

func (f faulty) Batch(ctx context.Context, m ledger.Meta, n uint64, c batch.Command) error {
	return f.strike(ctx, func() error { return f.service.Batch(ctx, m, n, c) })
}

func (f faulty) BatchState(ctx context.Context, n uint64) (batch.State, error) {
	return f.service.BatchState(ctx, n)
}

func (f faulty) Keep(ctx context.Context, t attester.Transaction) error {
	return f.strike(ctx, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.signed = append(f.signed, t)
		return nil
	})
}

func (f faulty) WithNonce(_ context.Context, chain uint64, account eip191.Address, nonce uint64) (list []attester.Transaction, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.signed {
		if t.Chain == chain && t.Account == account && t.Nonce == nonce {
			list = append(list, t)
		}
	}
	return list, nil
}

func (f faulty) Note(_ context.Context, s attester.Status) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = s
	return nil
}

// reads are made from the ledger whenever they are asked.
type reads struct{ *world }

func (r reads) CatchUp(context.Context) error { return nil }

func (r reads) BatchNumbers(ctx context.Context) (open, last uint64, err error) {
	for n := uint64(1); ; n++ {
		s, err := r.service.BatchState(ctx, n)
		if err != nil || s.Sealed == nil {
			return open, n - 1, err
		}
		if !s.Final && open == 0 {
			open = n
		}
	}
}

func (r reads) OpenCommits(ctx context.Context, size uint64, limit int) (list []batch.Open, err error) {
	_, last, err := r.BatchNumbers(ctx)
	if err != nil {
		return nil, err
	}
	taken := uint64(0)
	if last > 0 {
		s, err := r.service.BatchState(ctx, last)
		if err != nil {
			return nil, err
		}
		taken = s.Sealed.To
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.commits {
		if c.Index >= taken && c.Index < size && len(list) < limit {
			list = append(list, c)
		}
	}
	return list, nil
}

func (r reads) LogHead(context.Context) (uint64, domain.Hash, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return 3 * uint64(len(r.commits)), domain.Hash{31: byte(len(r.commits))}, nil
}

// attestations returns all that stand on the chain under the schema, in their order.
func (w *world) attestations() (list []eas.Attestation) {
	w.t.Helper()
	n := w.nodes()[0]
	head, err := n.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	schema, account := eas.SchemaUID(common.Address{}), chaintest.Address(w.key)
	logs, err := n.Logs(w.t.Context(), eas.Logs(w.eas.EAS, schema, account, 0, head.Number))
	if err != nil {
		w.t.Fatal(err)
	}
	call := func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		return n.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, head)
	}
	for _, uid := range eas.UIDs(logs, w.eas.EAS, schema, account) {
		a, err := eas.Read(w.t.Context(), call, w.eas.EAS, uid)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// audit checks that every batch has exactly one attestation on the chain, that is the
// one on record, that they refer to each other, and that every commit is provable.
func (w *world) audit(batches uint64) {
	w.t.Helper()
	list := w.attestations()
	if uint64(len(list)) != batches {
		w.t.Fatalf("%d attestations stand on the chain, want one for each of %d batches", len(list), batches)
	}
	var (
		previous domain.Hash
		ref      common.Hash
		commits  []domain.Hash
	)
	for i, a := range list {
		s := w.state(uint64(i) + 1)
		if s.Attested == nil {
			w.t.Fatalf("batch %d is not attested", i+1)
		}
		if err := a.CheckBatch(*s.Sealed, *s.Attested); err != nil {
			w.t.Error(err)
		}
		said, err := eas.Decode(a.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		if said.PreviousRoot != previous || a.RefUID != ref {
			w.t.Errorf("batch %d goes on behind %s and %s, want %s and %s", said.Batch, said.PreviousRoot, a.RefUID, previous, ref)
		}
		previous, ref = said.Root, a.Uid
		var members []domain.Hash
		for _, c := range w.commits {
			if c.Index >= s.Sealed.From && c.Index < s.Sealed.To {
				members = append(members, c.Commit)
			}
		}
		tree, err := merkle.NewBatchTree(s.Sealed.ID(), members)
		if err != nil {
			w.t.Fatal(err)
		}
		for k, c := range members {
			if err := merkle.VerifyBatchPath(s.Sealed.ID(), c, uint64(k), uint64(said.Count), tree.Path(k), said.Root); err != nil {
				w.t.Error(err)
			}
		}
		commits = append(commits, members...)
	}
	if !slices.EqualFunc(commits, w.commits, func(h domain.Hash, o batch.Open) bool { return h == o.Commit }) {
		w.t.Errorf("the batches hold %d of %d commits", len(commits), len(w.commits))
	}
}
