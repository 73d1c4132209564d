package task_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// testnet is a chain that anyone can compute: it stands in for a node.
type testnet struct{}

func (testnet) hash(chain, block uint64) string {
	return "0x" + domain.Sum([]byte("block"), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, chain), block)).String()
}

func (testnet) balance(chain, block uint64, address string) string {
	h := domain.Sum([]byte("balance"), []byte(strings.ToLower(address)), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, chain), block))
	wei := new(big.Int).SetBytes(h[:9])
	return wei.SetBit(wei, 70, 1).String() // at least a thousand ETH, to the wei
}

func (n testnet) read(d task.Deferral, block uint64) string {
	if d.Rule == task.BlockHash {
		return n.hash(d.Chain, block)
	}
	return n.balance(d.Chain, block, d.Address)
}

var (
	askedBlock   = regexp.MustCompile(`block (?:number )?(\d+)`)
	askedAddress = regexp.MustCompile(`0x[0-9a-fA-F]{40}`)
	askedToken   = regexp.MustCompile(`ref-[0-9a-f]{16}`)
)

// solveDeferred answers from the words alone, as an agent with a node of its own.
func solveDeferred(prompt string) string {
	chain := uint64(11155111)
	if strings.Contains(prompt, "Base Sepolia") {
		chain = 84532
	}
	block, _ := new(big.Int).SetString(askedBlock.FindStringSubmatch(prompt)[1], 10)
	if address := askedAddress.FindString(prompt); address != "" {
		return testnet{}.balance(chain, block.Uint64(), address)
	}
	return strings.TrimPrefix(testnet{}.hash(chain, block.Uint64()), "0x")
}

// answer answers a task as the agent it is put to: from its words, and a seller
// from its request.
func answer(t task.Task) (string, error) {
	if t.Deferred == nil {
		return solve(t.Prompt)
	}
	if t.Deferred.Rule == task.Payment {
		return askedToken.FindString(string(t.Ask.Arguments)), nil
	}
	return solveDeferred(t.Prompt), nil
}

// completed fills a deferred task in with what the test's chain holds.
func completed(tb testing.TB, t task.Task, s domain.Hash) task.Task {
	tb.Helper()
	if t.Deferred == nil {
		return t
	}
	block := 9_000_000 + uint64(binary.BigEndian.Uint32(s[:])>>8)
	t, err := t.Fill(task.Filled{Block: new(big.Int).SetUint64(block).String(), Answer: testnet{}.read(*t.Deferred, block)})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

var deferredTemplates = []string{"chain.balance", "chain.block_hash", "x402.pay"}

func deferred(t *testing.T, template string, k uint32) (asked, filled task.Task, block uint64) {
	t.Helper()
	seed := domain.Sum(binary.BigEndian.AppendUint32([]byte("deferred"), k))
	asked, err := task.Generate(template, 1, seed, task.Entry{Kind: task.A2A, Name: "any"})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Deferred == nil {
		t.Fatalf("%s is not deferred", template)
	}
	block = 9_000_000 + uint64(binary.BigEndian.Uint16(seed[:]))
	filled, err = asked.Fill(task.Filled{Block: new(big.Int).SetUint64(block).String(), Answer: testnet{}.read(*asked.Deferred, block)})
	if err != nil {
		t.Fatal(err)
	}
	return asked, filled, block
}

func TestDeferredAreSolved(t *testing.T) {
	t.Parallel()
	for _, template := range deferredTemplates {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			prompts := make(map[string]bool)
			for k := range uint32(300) {
				asked, filled, block := deferred(t, template, k)
				if prompts[filled.Prompt+filled.Expected.Value] {
					t.Errorf("the question %q came twice in 300", filled.Prompt)
				}
				prompts[filled.Prompt+filled.Expected.Value] = true
				onChain := asked.Deferred.Rule != task.Payment
				if strings.Contains(asked.Prompt, "{block}") != onChain || strings.Contains(filled.Prompt, "{") {
					t.Errorf("asked %q, filled %q", asked.Prompt, filled.Prompt)
				}
				if d := asked.Deferred.Depth; onChain && (d < task.MinDepth || d > task.MaxDepth) || !onChain && d != 0 {
					t.Errorf("depth %d", d)
				}
				answer, err := answer(filled)
				if err != nil {
					t.Fatal(err)
				}
				if g := task.Mark(filled, answer); g.Outcome != task.Pass || g.Literal != task.Pass {
					t.Errorf("%q: right answer %q is marked %+v", filled.Prompt, answer, g)
				}
				for _, wrong := range []string{"", filled.Prompt, "I don't know.", "42"} {
					if g := task.Mark(filled, wrong); g.Outcome == task.Pass {
						t.Errorf("%q: %q passes", filled.Prompt, wrong)
					}
				}
				if !onChain {
					continue
				}
				// The block before, which is what is mistaken for it.
				if g := task.Mark(filled, testnet{}.read(*asked.Deferred, block-1)); g.Outcome != task.Fail {
					t.Errorf("%q: the answer for the block before is marked %+v", filled.Prompt, g)
				}
			}
		})
	}
}

func TestFillRefuses(t *testing.T) {
	t.Parallel()
	hash, _, _ := deferred(t, "chain.block_hash", 1)
	balance, _, _ := deferred(t, "chain.balance", 1)
	good := "0x" + hex.EncodeToString(make([]byte, 31)) + "01"
	for _, tt := range []struct {
		name string
		task task.Task
		with task.Filled
	}{
		{"no block", hash, task.Filled{Answer: good}},
		{"a block in hex", hash, task.Filled{Block: "0x10", Answer: good}},
		{"a block with a sign", hash, task.Filled{Block: "+10", Answer: good}},
		{"a block beyond all", hash, task.Filled{Block: "99999999999999999999", Answer: good}},
		{"a hash without 0x", hash, task.Filled{Block: "10", Answer: good[2:]}},
		{"half a hash", hash, task.Filled{Block: "10", Answer: good[:34]}},
		{"the hash of a block that is not there", hash, task.Filled{Block: "10", Answer: "0x" + strings.Repeat("0", 64)}},
		{"a balance in hex", balance, task.Filled{Block: "10", Answer: "0x1234"}},
		{"no balance", balance, task.Filled{Block: "10", Answer: "0"}},
		{"a negative balance", balance, task.Filled{Block: "10", Answer: "-12345678"}},
	} {
		if _, err := tt.task.Fill(tt.with); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: Fill = %v, want ErrInvalid", tt.name, err)
		}
	}
}

// Filling changes nothing but the block and the answer, whatever takes the task.
func TestFillArguments(t *testing.T) {
	t.Parallel()
	asked, err := task.Generate("chain.block_hash", 1, domain.Hash{7}, task.Entry{Kind: task.MCP, Name: "chain", Text: "question"})
	if err != nil {
		t.Fatal(err)
	}
	filled, err := asked.Fill(task.Filled{Block: "9000001", Answer: testnet{}.hash(asked.Deferred.Chain, 9000001)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(filled.Ask.Arguments), strings.ReplaceAll(string(asked.Ask.Arguments), "{block}", "9000001"); got != want || got == string(asked.Ask.Arguments) {
		t.Errorf("arguments = %s, want %s", got, want)
	}
	plain, err := task.Generate("date.weekday", 1, domain.Hash{7}, task.Entry{Kind: task.A2A, Name: "dates"})
	if err != nil {
		t.Fatal(err)
	}
	same, err := plain.Fill(task.Filled{})
	if err != nil || same.Ask.Hash() != plain.Ask.Hash() || same.Expected != plain.Expected {
		t.Errorf("a task with nothing to fill in was changed: %+v, %v", same, err)
	}
}
