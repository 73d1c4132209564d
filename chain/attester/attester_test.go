package attester_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
)

// mine makes so many blocks.
func mine(t *testing.T, c *devchain.Chain, blocks int) {
	t.Helper()
	for range blocks {
		if _, err := c.Mine(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A batch is sealed in its time, its schema registered, and it is attested and final
// when the chain says so; the next one refers to it.
func TestLifeOfBatches(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	a := w.attester()
	w.commit(3)
	w.step(a)
	if s := w.state(1); s.Sealed != nil {
		t.Fatal("a batch was sealed before five past the hour")
	}
	w.pass(5 * time.Minute)
	w.step(a) // seals and registers
	if s := w.state(1); s.Sealed == nil || len(s.Submitted) != 0 {
		t.Fatalf("batch 1 is %+v, want sealed and not submitted", s)
	}
	mine(t, chain, 1)
	w.step(a)
	mine(t, chain, 2)
	w.step(a)
	if s := w.state(1); len(s.Submitted) != 1 || s.Attested != nil {
		t.Fatalf("batch 1 is %+v, want submitted and not attested before it is confirmed", s)
	}
	w.commit(1)
	w.pass(time.Hour)
	w.step(a)
	if s := w.state(2); s.Sealed == nil || len(s.Submitted) != 0 {
		t.Fatalf("batch 2 is %+v, want sealed and not submitted before batch 1 is confirmed", s)
	}
	mine(t, chain, 1)
	w.step(a)
	if s := w.state(1); s.Attested == nil || s.Final {
		t.Fatalf("batch 1 is %+v, want attested and not final", s)
	}
	mine(t, chain, 7)
	w.step(a)
	mine(t, chain, 6)
	w.step(a)
	for n := uint64(1); n <= 2; n++ {
		if s := w.state(n); !s.Final || len(s.Submitted) != 1 {
			t.Errorf("batch %d is %+v, want final after one transaction", n, s)
		}
	}
	w.audit(2)
	if got := a.Status(); got.State != attester.Well {
		t.Errorf("Status = %+v, want %s", got, attester.Well)
	}
}

// Whenever the process is killed and whatever blocks the chain drops, each batch ends
// up with one attestation.
func TestKilledAndReorganised(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w, chain := newWorld(t)
			shake(t, w, rand.New(rand.NewPCG(seed, 7)), 8, func(blocks int) { mine(t, chain, blocks) }, func(blocks int) {
				if err := chain.Rewind(uint64(blocks)); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// Two processes that know nothing of each other work at the same time, without a lease.
// Each batch is attested once, and no transaction is replaced unless it has waited.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	const batches = 8
	w, chain := newWorld(t)
	r := rand.New(rand.NewPCG(3, 7))
	both := [2]*attester.Attester{w.attester(), w.attester()}
	both[1].Rand = rand.NewChaCha8([32]byte{2})
	waits := make(map[uint64]int) // by batch, how often it waited for longer than there is patience
	for n := uint64(1); n <= batches; n++ {
		w.commit(1 + r.IntN(5))
		w.pass(time.Hour)
		for round := 0; w.state(n).Attested == nil; round++ {
			if round > 100 {
				t.Fatalf("batch %d is not attested; it is %+v, and the attesters are %+v, %+v", n, w.state(n), both[0].Status(), both[1].Status())
			}
			var wg sync.WaitGroup
			for _, a := range both {
				wg.Go(func() {
					if err := a.Step(t.Context()); err != nil {
						t.Errorf("Step: %v", err)
					}
				})
			}
			wg.Wait()
			if blocks := r.IntN(3); blocks > 0 {
				mine(t, chain, blocks)
			} else if len(w.state(n).Submitted) > 0 {
				w.pass(w.policy.Patience)
				waits[n]++
			}
		}
	}
	for n := uint64(1); n <= batches; n++ {
		if s := w.state(n); len(s.Submitted) > 1+waits[n] || len(s.Submitted) != len(s.Round) {
			t.Errorf("batch %d, which waited %d times, has %d transactions, %d of them since it was dropped last", n, waits[n], len(s.Submitted), len(s.Round))
		}
	}
	w.audit(batches)
}

// shake has batches attested by processes that are killed at random, on a chain that
// loses its newest blocks at random, and then looks at what came of it.
func shake(t *testing.T, w *world, r *rand.Rand, batches uint64, mine, rewind func(blocks int)) {
	t.Helper()
	var kills, reorganisations int
	w.fault = func() (before, after bool) {
		n := r.IntN(8)
		if n < 2 {
			kills++
		}
		return n == 0, n == 1
	}
	mine(3)
	final := uint64(0)
	for round := 0; final < batches; round++ {
		if round > 400*int(batches) {
			t.Fatalf("%d of %d batches are final after %d rounds; the attester is %+v", final, batches, round, w.status)
		}
		if _, last, err := (reads{w}).BatchNumbers(t.Context()); err != nil {
			t.Fatal(err)
		} else if last < batches && r.IntN(3) == 0 {
			w.commit(1 + r.IntN(9))
			w.pass(time.Hour)
		}
		w.pass(time.Duration(r.IntN(120)) * time.Second)
		a := w.attester()
		for range 1 + r.IntN(3) {
			if err := a.Step(t.Context()); errors.Is(err, errKilled) {
				break
			} else if err != nil && a.Status().State == attester.Stopped {
				t.Fatal(err)
			}
		}
		mine(r.IntN(3))
		if r.IntN(6) == 0 {
			rewind(1 + r.IntN(3))
			reorganisations++
		}
		if w.state(final + 1).Final {
			final++
		}
	}
	t.Logf("%d batches final after %d kills and %d reorganisations", final, kills, reorganisations)
	w.audit(batches)
}

// A transaction that waits too long is replaced by one that pays an eighth more of both
// fees, has the same nonce, and says the same.
func TestFeesAreRaised(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	a := w.attester()
	w.commit(1)
	w.pass(5 * time.Minute)
	w.step(a)
	mine(t, chain, 1)
	for range 3 {
		w.step(a)
		w.step(a) // nothing more while it has patience
		w.pass(w.policy.Patience)
	}
	if n := len(w.state(1).Submitted); n != 3 {
		t.Fatalf("%d transactions, want 3", n)
	}
	var last *types.Transaction
	for _, s := range w.signed[1:] { // behind the one that registers the schema
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(s.Raw); err != nil {
			t.Fatal(err)
		}
		if last != nil {
			if tx.Nonce() != last.Nonce() || string(tx.Data()) != string(last.Data()) {
				t.Errorf("the replacement has nonce %d and other data, want %d and the same", tx.Nonce(), last.Nonce())
			}
			for name, fees := range map[string][2]*big.Int{"tip": {tx.GasTipCap(), last.GasTipCap()}, "fee": {tx.GasFeeCap(), last.GasFeeCap()}} {
				if new(big.Int).Mul(fees[0], big.NewInt(8)).Cmp(new(big.Int).Mul(fees[1], big.NewInt(9))) < 0 {
					t.Errorf("the %s is %s after %s, want an eighth more", name, fees[0], fees[1])
				}
			}
		}
		last = tx
	}
	mine(t, chain, 3)
	w.step(a)
	if s := w.state(1); s.Attested == nil || s.Attested.Tx != batch.Word(last.Hash()) {
		t.Errorf("batch 1 is %+v, want attested by its last transaction", s)
	}
	w.audit(1)
}

// What costs more than the ceiling waits, and nothing is signed.
func TestCeiling(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	a := w.attester()
	a.Ceiling = big.NewInt(1)
	w.commit(1)
	w.pass(5 * time.Minute)
	if err := a.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "ceiling") {
		t.Errorf("Step = %v, want an error about the ceiling", err)
	}
	if len(w.signed) > 0 || a.Status().State != attester.Unreachable {
		t.Errorf("%d transactions are signed and the state is %s, want none, %s", len(w.signed), a.Status().State, attester.Unreachable)
	}
}

// A ledger that was restored from a copy finds the attestation that it does not know of.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	w.commit(2)
	w.pass(5 * time.Minute)
	a := w.attester()
	w.step(a)
	mine(t, chain, 1)
	old := w.copied()
	w.step(a)
	mine(t, chain, 4)
	w.step(a)
	w.audit(1)
	w.service, w.signed = old, nil
	restored := w.attester()
	w.step(restored)
	if s := w.state(1); s.Attested == nil {
		t.Errorf("batch 1 is %+v, want attested", s)
	}
	w.audit(1)
}

// What only the operator can mend stops the attester, in words; batches are sealed
// meanwhile, and it goes on when it is mended.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, w *world, chain *devchain.Chain, a *attester.Attester)
		want  string
	}{
		{"an account without funds", func(_ *testing.T, _ *world, _ *devchain.Chain, a *attester.Attester) {
			a.Key = attester.NewKey(chaintest.Key(9))
		}, "holds too little"},
		{"a chain without EAS", func(_ *testing.T, _ *world, _ *devchain.Chain, a *attester.Attester) {
			a.EAS.EAS = common.Address{1}
		}, "no contract at"},
		{"a chain without a registry", func(_ *testing.T, _ *world, _ *devchain.Chain, a *attester.Attester) {
			a.EAS.Registry = common.Address{1}
		}, "no contract at"},
		{"another contract than EAS", func(_ *testing.T, w *world, _ *devchain.Chain, a *attester.Attester) {
			a.EAS.EAS = w.eas.Registry
		}, "is not EAS"},
		{"another registry than that of EAS", func(_ *testing.T, w *world, _ *devchain.Chain, a *attester.Attester) {
			a.EAS.Registry = w.eas.EAS
		}, "has its schemas in the registry"},
		{"nodes of another chain", func(t *testing.T, w *world, _ *devchain.Chain, a *attester.Attester) {
			t.Helper()
			a.Chain = rpc.New(5, w.config, w.nodes()...)
			t.Cleanup(a.Chain.Close)
		}, "serves chain 84532 and not 5"},
		{"a resolver that is not there", func(_ *testing.T, _ *world, _ *devchain.Chain, a *attester.Attester) {
			a.Resolver = common.Address{1}
		}, "where the resolver should be"},
		{"a schema that the batch is not sealed under", func(t *testing.T, w *world, _ *devchain.Chain, a *attester.Attester) {
			t.Helper()
			w.step(w.attester())
			a.Resolver = common.Address{1}
		}, "configure them as they were"},
		{"a batch attested with another content", func(t *testing.T, w *world, chain *devchain.Chain, _ *attester.Attester) {
			t.Helper()
			w.step(w.attester()) // registers
			mine(t, chain, 1)
			forged := eas.StatementOf(*w.state(1).Sealed)
			forged.Root[0]++
			data := eas.AttestCall(eas.SchemaUID(common.Address{}), forged, common.Hash{})
			if _, err := chain.Transact(t.Context(), w.key, devchain.Tx{To: &w.eas.EAS, Data: data}); err != nil {
				t.Fatal(err)
			}
		}, "another content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, chain := newWorld(t)
			w.commit(1)
			w.pass(5 * time.Minute)
			a := w.attester()
			tt.spoil(t, w, chain, a)
			for range 3 { // as often as it likes
				if err := a.Step(t.Context()); !errors.Is(err, attester.ErrStopped) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Step = %v, want ErrStopped with %q", err, tt.want)
				}
			}
			if got := a.Status(); got.State != attester.Stopped || !strings.Contains(got.Detail, tt.want) {
				t.Errorf("Status = %+v, want %s with %q", got, attester.Stopped, tt.want)
			}
			if w.state(1).Sealed == nil {
				t.Error("batch 1 is not sealed")
			}
			if len(w.state(1).Submitted) > 0 {
				t.Error("batch 1 is submitted")
			}
		})
	}
}

// Under a schema with the resolver, the chain itself takes each batch once.
func TestResolver(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	code := contracts.BatchResolver().Deploy(w.eas.EAS, chaintest.Address(w.key), uint64(0), [32]byte{})
	deployed, err := chain.Transact(t.Context(), chaintest.Key(2), devchain.Tx{Data: code})
	if err != nil {
		t.Fatal(err)
	}
	a := w.attester()
	a.Resolver = deployed.ContractAddress
	for range 2 {
		w.commit(2)
		w.pass(time.Hour)
		for range 3 {
			w.step(a)
			mine(t, chain, 3)
		}
	}
	w.step(a)
	for n := uint64(1); n <= 2; n++ {
		if s := w.state(n); s.Attested == nil || len(s.Submitted) != 1 {
			t.Errorf("batch %d is %+v, want attested by one transaction", n, s)
		}
	}
}

// A resolver that is deployed later goes on behind the last batch.
func TestDeploy(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	life := func(a *attester.Attester) {
		w.commit(2)
		w.pass(time.Hour)
		for range 4 {
			w.step(a)
			mine(t, chain, 3)
		}
		w.step(a)
	}
	a := w.attester()
	life(a)
	ctx, cancel := context.WithCancel(t.Context())
	var mining sync.WaitGroup
	mining.Go(func() {
		for ctx.Err() == nil {
			_, _ = chain.Mine(ctx)
		}
	})
	d, err := a.Deploy(t.Context(), 10*time.Millisecond)
	cancel()
	mining.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if d.Behind != 1 || d.Schema != eas.SchemaUID(d.Resolver) {
		t.Errorf("Deploy = %+v, want it behind batch 1", d)
	}
	next := w.attester()
	next.Resolver = d.Resolver
	life(next)
	life(next)
	for n := uint64(2); n <= 3; n++ {
		if s := w.state(n); s.Attested == nil || s.Sealed.Schema != batch.Word(d.Schema) || s.Attested.RefUID.IsZero() != (n == 2) {
			t.Errorf("batch %d is %+v, want attested under the new schema", n, s)
		}
	}
	w.commit(1)
	w.pass(time.Hour)
	w.step(next)
	if _, err := next.Deploy(t.Context(), time.Millisecond); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Deploy while a batch is under way = %v, want ErrConflict", err)
	}
}

// What others attest under our schema, and garbage, changes nothing.
func TestStrangersUnderOurSchema(t *testing.T) {
	t.Parallel()
	w, chain := newWorld(t)
	a := w.attester()
	w.commit(1)
	w.pass(5 * time.Minute)
	w.step(a)
	mine(t, chain, 1)
	data := eas.AttestCall(eas.SchemaUID(common.Address{}), eas.StatementOf(*w.state(1).Sealed), common.Hash{})
	if _, err := chain.Transact(t.Context(), chaintest.Key(2), devchain.Tx{To: &w.eas.EAS, Data: data}); err != nil {
		t.Fatal(err)
	}
	w.step(a)
	mine(t, chain, 3)
	w.step(a)
	w.audit(1)
}

func TestExamine(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	a := w.attester()
	found, err := a.Examine(t.Context())
	if err != nil || !strings.Contains(found, "with the first batch") || !strings.Contains(found, chaintest.Address(w.key).Hex()) {
		t.Errorf("Examine = %q, %v, want the account and that the schema is to be registered", found, err)
	}
	a.Key = attester.NewKey(chaintest.Key(9))
	if _, err := a.Examine(t.Context()); !errors.Is(err, attester.ErrStopped) {
		t.Errorf("Examine without funds = %v, want ErrStopped", err)
	}
	if err := a.Step(t.Context()); !errors.Is(err, attester.ErrStopped) || a.Status().State != attester.Stopped {
		t.Errorf("Step without commits and without funds = %v, and the state is %s, want ErrStopped and %s", err, a.Status().State, attester.Stopped)
	}
	a.Key = attester.NewKey(w.key)
	w.step(a)
	if got := a.Status(); got.State != attester.Well {
		t.Errorf("Status = %+v, want %s", got, attester.Well)
	}
	if len(w.signed) > 0 {
		t.Error("something was signed")
	}
}
