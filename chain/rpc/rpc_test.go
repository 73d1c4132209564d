package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
)

const chainID = 84532

var account = common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")

// A machine is a node that does what a test has it do. Block n of its chain has
// the hash n, and every account the balance wei.
type machine struct {
	*httptest.Server

	mu    sync.Mutex
	chain uint64
	head  uint64
	wei   int64
	ill   string   // the members of every response but that to eth_chainId
	down  int      // the HTTP status of every response
	stuck bool     // no response at all
	asked []string // the methods
}

func start(t *testing.T) *machine {
	t.Helper()
	m := &machine{chain: chainID, head: 100, wei: 5}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// be changes what m does.
func (m *machine) be(change func(*machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// heard returns the methods that were asked for since the last time.
func (m *machine) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	return asked
}

func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     json.RawMessage
		Method string
		Params []any
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, request.Method)
	answer, down, stuck := m.answer(request.Method, request.Params), m.down, m.stuck
	m.mu.Unlock()
	switch {
	case stuck:
		io.Copy(io.Discard, r.Body) // so that the end of the request is noticed
		<-r.Context().Done()
	case down != 0:
		w.WriteHeader(down)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, answer)
	}
}

func (m *machine) answer(method string, params []any) string {
	switch {
	case method == "eth_chainId":
		return fmt.Sprintf(`"result":"%#x"`, m.chain)
	case m.ill != "":
		return m.ill
	case method == "eth_getBlockByNumber":
		n := m.head
		if params[0] != "latest" {
			fmt.Sscanf(fmt.Sprint(params[0]), "0x%x", &n)
		}
		if n > m.head {
			return `"result":null`
		}
		return fmt.Sprintf(`"result":{"number":"%#x","hash":"%s","timestamp":"%#x"}`, n, common.BigToHash(new(big.Int).SetUint64(n)), 1000+n)
	case method == "eth_getBalance":
		return fmt.Sprintf(`"result":"%#x"`, m.wei)
	}
	return `"result":"0x01"`
}

func block(n uint64) node.Block {
	return node.Block{Number: n, Hash: common.BigToHash(new(big.Int).SetUint64(n)), Time: time.Unix(1000+int64(n), 0).UTC()}
}

// A clock stands still until it is moved.
type clock struct{ seconds atomic.Int64 }

func (c *clock) Now() time.Time           { return time.Unix(c.seconds.Load(), 0).UTC() }
func (c *clock) Advance(d time.Duration)  { c.seconds.Add(int64(d / time.Second)) }
func (c *clock) config() (cfg rpc.Config) { cfg.Now = c.Now; cfg.Timeout = time.Minute; return cfg }
func name(m *machine) string              { return strings.TrimPrefix(m.URL, "http://") }
func states(c *rpc.Client) (s []rpc.State) {
	for _, h := range c.Health() {
		s = append(s, h.State)
	}
	return s
}

func client(t *testing.T, cfg rpc.Config, machines ...*machine) *rpc.Client {
	t.Helper()
	var urls []string
	for _, m := range machines {
		urls = append(urls, m.URL)
	}
	c, err := rpc.Dial(t.Context(), chainID, urls, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// illnesses are the ways in which a node fails, and what its state is then.
var illnesses = map[string]struct {
	ill   func(*machine)
	state rpc.State
	says  string
}{
	"HTTP 429":         {func(m *machine) { m.down = 429 }, rpc.Failing, "429"},
	"HTTP 500":         {func(m *machine) { m.down = 500 }, rpc.Failing, "500"},
	"HTTP 503":         {func(m *machine) { m.down = 503 }, rpc.Failing, "503"},
	"nothing":          {func(m *machine) { m.ill = `"result":null` }, rpc.Failing, "does not know the block"},
	"pruned state":     {func(m *machine) { m.ill = `"error":{"code":-32000,"message":"missing trie node, pruned"}` }, rpc.Failing, "missing trie node"},
	"another chain":    {func(m *machine) { m.chain = 1 }, rpc.WrongChain, "serves chain 1 and not 84532"},
	"no answer at all": {func(m *machine) { m.stuck = true }, rpc.Failing, "in time"},
}

// That the nodes of a chain serve another one is told from that they are down.
func TestAllOfAnotherChain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ill  func(*machine) // the second node
		want bool
	}{
		{"both of another chain", func(m *machine) { m.chain = 2 }, true},
		{"one of another chain, one down", func(m *machine) { m.down = 500 }, false},
	} {
		var now clock
		a, b := start(t), start(t)
		a.be(func(m *machine) { m.chain = 1 })
		b.be(tt.ill)
		c := client(t, now.config(), a, b)
		for range 2 { // the second time they are not asked
			_, err := c.Block(t.Context(), 7)
			if !errors.Is(err, domain.ErrUnavailable) || errors.Is(err, rpc.ErrWrongChain) != tt.want {
				t.Errorf("%s: Block = %v, want ErrUnavailable, and ErrWrongChain: %t", tt.name, err, tt.want)
			}
		}
	}
}

func TestNextNode(t *testing.T) {
	t.Parallel()
	for name, tt := range illnesses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now clock
			cfg := now.config()
			a, b := start(t), start(t)
			a.be(tt.ill)
			if a.stuck {
				cfg.Timeout = 5 * time.Second // long enough for the node that answers
			}
			c := client(t, cfg, a, b)
			read := func() {
				t.Helper()
				got, err := c.Block(t.Context(), 7)
				if err != nil || got != block(7) {
					t.Errorf("Block = %v, %v, want %v", got, err, block(7))
				}
			}
			now.Advance(time.Hour)
			read()
			if got, want := states(c), []rpc.State{tt.state, rpc.OK}; !cmp.Equal(got, want) {
				t.Errorf("the nodes are %q, want %q", got, want)
			}
			if h := c.Health()[0]; !strings.Contains(h.Error, tt.says) || !h.Since.Equal(now.Now()) {
				t.Errorf("the node is %+v, want an error that says %q since %s", h, tt.says, now.Now())
			}

			a.heard()
			read()
			if got := a.heard(); got != nil {
				t.Errorf("a node that has just failed is asked %q, want the other one to be", got)
			}

			a.be(func(m *machine) { m.chain, m.ill, m.down, m.stuck = chainID, "", 0, false })
			now.Advance(time.Minute)
			read()
			if got, want := a.heard(), []string{"eth_chainId", "eth_getBlockByNumber"}; !cmp.Equal(got, want) {
				t.Errorf("a node that has failed before is asked %q, want %q", got, want)
			}
			if got, want := states(c), []rpc.State{rpc.OK, rpc.OK}; !cmp.Equal(got, want) {
				t.Errorf("the nodes are %q, want %q", got, want)
			}
		})
	}
}

func TestNoNodeAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range illnesses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := new(clock).config()
			a := start(t)
			a.be(tt.ill)
			if a.stuck {
				cfg.Timeout = 100 * time.Millisecond
			}
			c := client(t, cfg, a)
			for range 2 { // before and after it is known to fail
				_, err := c.BalanceAt(t.Context(), account, block(7))
				if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("BalanceAt = %v, want ErrUnavailable that says %q", err, tt.says)
				}
			}
		})
	}
}

func TestChainIsKnownFirst(t *testing.T) {
	t.Parallel()
	a := start(t)
	c := client(t, new(clock).config(), a)
	for range 2 {
		if _, err := c.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := a.heard(), []string{"eth_chainId", "eth_getBlockByNumber", "eth_getBlockByNumber"}; !cmp.Equal(got, want) {
		t.Errorf("the node was asked %q, want %q", got, want)
	}
}

func TestRevertIsAnAnswer(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	a.be(func(m *machine) { m.ill = `"error":{"code":3,"message":"execution reverted","data":"0x01"}` })
	c := client(t, new(clock).config(), a, b)
	_, err := c.CallAt(t.Context(), ethereum.CallMsg{To: &account}, block(7))
	var revert *node.RevertError
	if !errors.As(err, &revert) || errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("CallAt = %v, want a RevertError", err)
	}
	if got := b.heard(); got != nil {
		t.Errorf("the next node is asked %q after a revert, want nothing", got)
	}
	if got, want := states(c), []rpc.State{rpc.OK, rpc.Unasked}; !cmp.Equal(got, want) {
		t.Errorf("the nodes are %q, want %q", got, want)
	}
}

func TestBlockThatWasDropped(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	c := client(t, new(clock).config(), a, b)
	dropped := node.Block{Number: 7, Hash: common.Hash{1}}
	if _, err := c.CodeAt(t.Context(), account, dropped); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("CodeAt of a block that all nodes have another one for = %v, want ErrNotFound", err)
	}
	b.be(func(m *machine) { m.down = 500 })
	if _, err := c.CodeAt(t.Context(), account, dropped); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("CodeAt of a block that one node has another one for = %v, want ErrUnavailable", err)
	}
}

func TestHeadGoesBackwards(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	c := client(t, new(clock).config(), a, b)
	for _, tt := range []struct {
		name   string
		a, b   uint64
		want   uint64
		states []rpc.State
	}{
		{"first", 100, 100, 100, []rpc.State{rpc.OK, rpc.Unasked}},
		{"a node falls behind", 97, 101, 101, []rpc.State{rpc.Behind, rpc.OK}},
		{"it stays behind", 98, 102, 102, []rpc.State{rpc.Behind, rpc.OK}},
		{"it catches up", 103, 102, 103, []rpc.State{rpc.OK, rpc.OK}},
		{"the chain gets shorter", 90, 95, 95, []rpc.State{rpc.Behind, rpc.Behind}},
		{"and goes on from there", 96, 95, 96, []rpc.State{rpc.OK, rpc.Behind}},
	} {
		a.be(func(m *machine) { m.head = tt.a })
		b.be(func(m *machine) { m.head = tt.b })
		if got, err := c.Head(t.Context()); err != nil || got != block(tt.want) {
			t.Errorf("%s: Head = %v, %v, want %v", tt.name, got, err, block(tt.want))
		}
		if got := states(c); !cmp.Equal(got, tt.states) {
			t.Errorf("%s: the nodes are %q, want %q", tt.name, got, tt.states)
		}
	}
	a.be(func(m *machine) { m.head = 80 })
	b.be(func(m *machine) { m.down = 500 })
	if got, err := c.Head(t.Context()); err != nil || got != block(80) {
		t.Errorf("Head of one node that is behind = %v, %v, want %v", got, err, block(80))
	}
	a.be(func(m *machine) { m.down = 500 })
	if got, err := c.Head(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Head of no node = %v, %v, want ErrUnavailable", got, err)
	}
}

func TestLag(t *testing.T) {
	t.Parallel()
	cfg := new(clock).config()
	cfg.Lag = 2
	a := start(t)
	c := client(t, cfg, a)
	for newest, want := range map[uint64]uint64{100: 98, 2: 0, 1: 0} {
		a.be(func(m *machine) { m.head = newest })
		if got, err := c.Head(t.Context()); err != nil || got != block(want) {
			t.Errorf("Head two blocks behind %d = %v, %v, want %v", newest, got, err, block(want))
		}
	}
}

func TestAgree(t *testing.T) {
	t.Parallel()
	cfg := new(clock).config()
	cfg.Agree = true
	a, b, spare := start(t), start(t), start(t)
	c := client(t, cfg, a, b, spare)
	balance := func() error {
		_, err := c.BalanceAt(t.Context(), account, block(7))
		return err
	}
	if err := balance(); err != nil {
		t.Errorf("BalanceAt that two nodes agree on = %v", err)
	}
	if got := spare.heard(); got != nil {
		t.Errorf("the third node is asked %q, want nothing", got)
	}
	b.be(func(m *machine) { m.down = 500 })
	if err := balance(); err != nil {
		t.Errorf("BalanceAt with one node down = %v", err)
	}
	spare.be(func(m *machine) { m.wei = 6 })
	if err := balance(); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "do not agree") || !strings.Contains(err.Error(), name(spare)) {
		t.Errorf("BalanceAt that two nodes differ in = %v, want ErrUnavailable that names them", err)
	}
	spare.be(func(m *machine) { m.down = 500 })
	if err := balance(); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "two nodes") {
		t.Errorf("BalanceAt with two nodes down = %v, want ErrUnavailable", err)
	}
	if got, err := client(t, cfg, a).Block(t.Context(), 7); err != nil || got != block(7) {
		t.Errorf("Block with a single node = %v, %v, want %v", got, err, block(7))
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	cfg := new(clock).config()
	cfg.Parallel = 2
	var under, most atomic.Int64
	full := make(chan struct{}, 100)
	let := make(chan struct{})
	m := start(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := under.Add(1)
		defer under.Add(-1)
		for {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		full <- struct{}{}
		<-let
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := rpc.Dial(t.Context(), chainID, []string{s.URL}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := c.Head(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-full
	<-full
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Head(waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("Head that waits for others and is broken off = %v, want context.Canceled", err)
	}
	close(let)
	all.Wait()
	if got := most.Load(); got != 2 {
		t.Errorf("%d questions were under way at once, want 2", got)
	}
}

func TestBrokenOff(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	c := client(t, new(clock).config(), a, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Head(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Head that was broken off = %v, want context.Canceled", err)
	}
	a.be(func(m *machine) { m.stuck = true })
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Head(ctx); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Head that its caller gave too little time = %v, want ErrUnavailable", err)
	}
	if got, want := states(c), []rpc.State{rpc.Unasked, rpc.Unasked}; !cmp.Equal(got, want) {
		t.Errorf("the nodes are %q, want %q: they did nothing wrong", got, want)
	}
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, urls := range [][]string{nil, {"https://ok.example", "secretkey"}, {"ftp://secretkey"}} {
		c, err := rpc.Dial(t.Context(), chainID, urls, new(clock).config())
		if !errors.Is(err, domain.ErrInvalid) || strings.Contains(err.Error(), "secretkey") {
			t.Errorf("Dial(%q) = %v, %v, want ErrInvalid", urls, c, err)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s := rpc.Set{chainID: client(t, new(clock).config(), start(t))}
	const address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	if got, err := s.Head(t.Context(), chainID); err != nil || got != 100 {
		t.Errorf("Head = %d, %v, want 100", got, err)
	}
	if got, err := s.BlockHash(t.Context(), chainID, 10); err != nil || got != "0x000000000000000000000000000000000000000000000000000000000000000a" {
		t.Errorf("BlockHash(10) = %s, %v", got, err)
	}
	if got, err := s.Balance(t.Context(), chainID, 10, address); err != nil || got != "5" {
		t.Errorf("Balance = %s, %v, want 5", got, err)
	}
	if got, err := s.Balance(t.Context(), chainID, 10, address[1:]); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("Balance of a bad address = %s, %v, want ErrInvalid", got, err)
	}
	if got, err := s.BlockHash(t.Context(), chainID, 101); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("BlockHash beyond the head = %s, %v, want ErrUnavailable", got, err)
	}
	for name, read := range map[string]func() error{
		"Head":      func() error { _, err := s.Head(t.Context(), 1); return err },
		"BlockHash": func() error { _, err := s.BlockHash(t.Context(), 1, 1); return err },
		"Balance":   func() error { _, err := s.Balance(t.Context(), 1, 1, address); return err },
	} {
		if err := read(); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "no node of chain 1 is configured") {
			t.Errorf("%s of a chain without a node = %v, want ErrUnavailable", name, err)
		}
	}
}
