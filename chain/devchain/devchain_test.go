package devchain_test

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
)

var rich = must(crypto.ToECDSA(bytes.Repeat([]byte{1}, 32)))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

func start(t *testing.T, c devchain.Config) *devchain.Chain {
	t.Helper()
	c.Rich = append(c.Rich, address(rich))
	chain, err := devchain.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	return chain
}

func mine(t *testing.T, c *devchain.Chain) node.Block {
	t.Helper()
	b, err := c.Mine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	c := start(t, devchain.Config{Now: func() time.Time { return now }})
	for _, tt := range []struct {
		name    string
		advance time.Duration
		want    string
	}{
		{"in the same second", 0, "2026-01-02T00:00:01Z"},
		{"again", 0, "2026-01-02T00:00:02Z"},
		{"an hour later", time.Hour, "2026-01-02T01:00:00Z"},
		{"weeks later", 21 * 24 * time.Hour, "2026-01-23T01:00:00Z"},
		{"after the clock went back", -time.Hour, "2026-01-23T01:00:01Z"},
	} {
		now = now.Add(tt.advance)
		if got := mine(t, c).Time.Format(time.RFC3339); got != tt.want {
			t.Errorf("a block %s is of %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSameAgain(t *testing.T) {
	t.Parallel()
	run := func() node.Block {
		c := start(t, devchain.Config{})
		if _, err := c.Transact(t.Context(), rich, devchain.Tx{Data: contracts.WalletFactory().Deploy()}); err != nil {
			t.Fatal(err)
		}
		return mine(t, c)
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two chains with the same transactions have the blocks %v and %v, want the same", a, b)
	}
}

func TestChainID(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint64]uint64{0: 84532, 11155111: 11155111} {
		c := start(t, devchain.Config{ChainID: id})
		if got, err := c.Node().ChainID(t.Context()); err != nil || got != want {
			t.Errorf("ChainID = %d, %v, want %d", got, err, want)
		}
	}
}

// Gas as on the public networks of today: 21,000 for a transfer.
func TestTransfer(t *testing.T) {
	t.Parallel()
	c := start(t, devchain.Config{})
	to := common.Address{7}
	r, err := c.Transact(t.Context(), rich, devchain.Tx{To: &to, Value: big.NewInt(5)})
	if err != nil {
		t.Fatal(err)
	}
	if r.GasUsed != 21_000 {
		t.Errorf("a transfer took %d gas, want 21000", r.GasUsed)
	}
	if _, err := c.Transact(t.Context(), must(crypto.GenerateKey()), devchain.Tx{To: &to, Value: big.NewInt(5)}); err == nil {
		t.Error("a transfer of somebody who has nothing went through")
	}
}

func TestFinality(t *testing.T) {
	t.Parallel()
	c := start(t, devchain.Config{Finality: 2})
	for _, want := range []int64{0, 0, 1, 2} {
		mine(t, c)
		h, err := c.Client().HeaderByNumber(t.Context(), big.NewInt(int64(gethrpc.FinalizedBlockNumber)))
		if err != nil || h.Number.Int64() != want {
			t.Errorf("the finalised block is %v, %v, want %d", h, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	c := start(t, devchain.Config{})
	client := rpc.New(84532, rpc.Config{Now: time.Now, Timeout: time.Minute}, c.Node())
	t.Cleanup(client.Close)
	set := rpc.Set{84532: client}
	const to = "0x0700000000000000000000000000000000000000"
	account := common.HexToAddress(to)
	for range 3 {
		if _, err := c.Transact(t.Context(), rich, devchain.Tx{To: &account, Value: big.NewInt(5)}); err != nil {
			t.Fatal(err)
		}
	}
	if head, err := set.Head(t.Context(), 84532); err != nil || head != 3 {
		t.Fatalf("Head = %d, %v, want 3", head, err)
	}
	for number, want := range []string{"0", "5", "10", "15"} {
		if got, err := set.Balance(t.Context(), 84532, uint64(number), to); err != nil || got != want {
			t.Errorf("Balance at block %d = %s, %v, want %s", number, got, err, want)
		}
	}
	if _, err := set.BlockHash(t.Context(), 84532, 4); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("BlockHash of a block to come = %v, want ErrUnavailable", err)
	}
	// A word of memory at the far end of all: more gas than there is.
	greedy := append([]byte{0x7f}, bytes.Repeat([]byte{0xff}, 32)...)
	_, err := client.CallAt(t.Context(), ethereum.CallMsg{Data: append(greedy, 0x51), Gas: 100_000}, must(client.Head(t.Context())))
	if _, ok := errors.AsType[*node.RevertError](err); !ok {
		t.Errorf("CallAt of what takes all gas = %v, want a RevertError", err)
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	c := start(t, devchain.Config{Now: func() time.Time { return now }})
	client := rpc.New(84532, rpc.Config{Now: time.Now, Timeout: time.Minute}, c.Node())
	t.Cleanup(client.Close)
	first := mine(t, c)
	to := common.Address{7}
	if _, err := c.Transact(t.Context(), rich, devchain.Tx{To: &to, Value: big.NewInt(5)}); err != nil {
		t.Fatal(err)
	}
	dropped, err := client.Head(t.Context())
	if err != nil || dropped.Number != 2 {
		t.Fatalf("Head = %v, %v, want block 2", dropped, err)
	}
	if err := c.Rewind(3); err == nil {
		t.Error("Rewind(3) of two blocks went through")
	}
	if err := c.Rewind(1); err != nil {
		t.Fatal(err)
	}
	if b, err := client.Head(t.Context()); err != nil || b != first {
		t.Errorf("Head of a chain that has got shorter = %v, %v, want %v", b, err, first)
	}
	if _, err := client.BalanceAt(t.Context(), to, dropped); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("BalanceAt of a block that was dropped = %v, want ErrUnavailable", err)
	}
	now = now.Add(time.Minute)
	again := mine(t, c)
	if again.Number != 2 || again.Hash == dropped.Hash {
		t.Errorf("the block in its place is %v, want another one than %v", again, dropped)
	}
	if _, err := client.BalanceAt(t.Context(), to, dropped); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("BalanceAt of a block that was replaced = %v, want ErrNotFound", err)
	}
	if wei, err := client.BalanceAt(t.Context(), to, again); err != nil || wei.Int64() != 5 {
		t.Errorf("BalanceAt = %v, %v, want 5: the transaction waits for the next block", wei, err)
	}
}
