package task

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
)

// The rules by which an answer that is not known yet is found.
const (
	BlockHash = "block_hash" // the hash of the block
	Balance   = "balance"    // the native balance of an address at the block, in wei
	Payment   = "x402"       // the price is asked for when the task is sent
)

// Depths bound how far behind the head the block of an on-chain task lies: deep
// enough to stay, and so near that a node without archives still has its state.
const (
	MinDepth = 12
	MaxDepth = 40
)

// A Deferral says how the answer of a task is found when it is sent. Rule and
// depth are committed to beforehand; {block} stands in the words for the block.
type Deferral struct {
	Rule    string `json:"rule"`
	Depth   uint32 `json:"depth"` // blocks behind the head
	Chain   uint64 `json:"chain,omitempty"`
	Address string `json:"address,omitempty"`
}

// Filled is what a deferred task was completed with.
type Filled struct {
	Block  string `json:"block,omitempty"`
	Answer string `json:"answer,omitempty"`
}

// blockMark stands for the block in the words of a deferred task.
const blockMark = "{block}"

// Fill completes a deferred task. It returns [domain.ErrInvalid] for a block that
// is no number or an answer that answers nothing: no hash of 32 bytes, no amount
// with enough digits to tell.
func (t Task) Fill(f Filled) (Task, error) {
	if t.Deferred == nil || t.Deferred.Rule == Payment {
		return t, nil
	}
	block, err := strconv.ParseUint(f.Block, 10, 63)
	if err != nil || strconv.FormatUint(block, 10) != f.Block {
		return t, fmt.Errorf("%q is no block number: %w", f.Block, domain.ErrInvalid)
	}
	switch t.Deferred.Rule {
	case BlockHash:
		digits, ok := strings.CutPrefix(f.Answer, "0x")
		if hash, err := domain.ParseHash(digits); !ok || err != nil || hash.IsZero() {
			return t, fmt.Errorf("%q is no block hash: %w", f.Answer, domain.ErrInvalid)
		}
		t.Expected = Expected{Kind: Hex, Value: digits}
	case Balance:
		wei, ok := new(big.Int).SetString(f.Answer, 10)
		if !ok || wei.Sign() < 0 || wei.String() != f.Answer || !substantial(f.Answer) {
			return t, fmt.Errorf("a balance of %q wei is no answer to ask for: %w", f.Answer, domain.ErrInvalid)
		}
		t.Expected = count(f.Answer)
	}
	t.Prompt = strings.ReplaceAll(t.Prompt, blockMark, f.Block)
	t.Ask.Text = strings.ReplaceAll(t.Ask.Text, blockMark, f.Block)
	if len(t.Ask.Arguments) > 0 {
		t.Ask.Arguments = json.RawMessage(strings.ReplaceAll(string(t.Ask.Arguments), blockMark, f.Block))
	}
	return t, nil
}

// A network is a public test network that can be read without an account.
type network struct {
	id        uint64
	names     []string
	addresses []string // contracts of the network itself, whose balances move
}

var networks = []network{
	{
		id: 84532, names: []string{"Base Sepolia", "Base Sepolia (chain id 84532)", "the Base Sepolia testnet"},
		addresses: []string{
			"0x4200000000000000000000000000000000000006", "0x4200000000000000000000000000000000000011",
			"0x4200000000000000000000000000000000000016", "0x4200000000000000000000000000000000000019",
			"0x420000000000000000000000000000000000001A",
		},
	},
	{
		id: 11155111, names: []string{"Ethereum Sepolia", "Sepolia (chain id 11155111)", "the Sepolia testnet"},
		addresses: []string{
			"0xfFf9976782d46CC05630D1f6eBAb18b2324d6B14", "0x7f02C3E3c98b133055B8B348B2Ac625669Ed295D",
		},
	},
}

// Chains returns the ids of the chains that tasks ask about.
func Chains() []uint64 {
	ids := make([]uint64, len(networks))
	for i, n := range networks {
		ids[i] = n.id
	}
	return ids
}

// OnChain reports whether the tasks of the template ask about one of [Chains], which
// has to be read when they are sent.
func (t Template) OnChain() bool { return t.Family == chainFamily }

const chainFamily = "chain"

var chainVeto = []string{"price", "token price", "trading", "swap", "bridge", "wallet creation", "deploy", "nft"}

var chainTemplates = []Template{
	{
		ID: "chain.block_hash", Version: 1, Family: chainFamily,
		keywords: keywords{
			own:       []string{"block hash", "blockhash", "get block hash"},
			broad:     []string{"block explorer", "blockchain data", "on-chain data", "onchain data", "chain reader", "blockchain explorer"},
			described: []string{"block hash", "hash of a block", "reads blocks"},
			veto:      chainVeto,
		},
		make: makeBlockHash,
	},
	{
		ID: "chain.balance", Version: 1, Family: chainFamily,
		keywords: keywords{
			own:       []string{"native balance", "eth balance", "balance at block", "address balance", "account balance on chain"},
			broad:     []string{"block explorer", "blockchain data", "on-chain data", "onchain data", "chain reader", "blockchain explorer"},
			described: []string{"native balance", "balance of an address", "balance at a block"},
			veto:      chainVeto,
		},
		make: makeBalance,
	},
	{ID: paymentTemplate, Version: 1, Family: "x402", make: makePayment},
}

// blockHashPhrasings ask for the hash of block {block} on {network}.
var blockHashPhrasings = []string{
	"What is the hash of block {block} on {network}?",
	"Give me the block hash of block {block} on {network}.",
	"On {network}, which hash does block {block} have?",
	"I need the hash of block number {block} on {network}.",
	"Look up block {block} on {network}: what is its hash?",
}

// hashAlone asks for nothing but the hash.
var hashAlone = []string{
	"The block's own hash, not that of its parent.",
	"Reply with the hash only.",
	"Just the hash, in hex.",
	"Only the hash is needed, with 0x in front.",
}

func makeBlockHash(d *draw) puzzle {
	n := pick(d, networks)
	return puzzle{
		body:     fill(pick(d, blockHashPhrasings), "block", blockMark, "network", pick(d, n.names)),
		details:  [][]string{hashAlone},
		expected: Expected{Kind: Hex},
		deferred: &Deferral{Rule: BlockHash, Depth: depth(d), Chain: n.id},
	}
}

// balancePhrasings ask for the balance of {address} at block {block} on {network}.
var balancePhrasings = []string{
	"What was the native balance of {address} at block {block} on {network}, in wei?",
	"How many wei did {address} hold at block {block} on {network}?",
	"On {network}, what is the ETH balance of {address} at block {block}? I need it in wei.",
	"Look up the native balance of {address} on {network} as of block {block}, in wei.",
	"Give me the balance in wei of {address} on {network} at block {block}.",
}

func makeBalance(d *draw) puzzle {
	n := pick(d, networks)
	address := pick(d, n.addresses)
	return puzzle{
		body:     fill(pick(d, balancePhrasings), "block", blockMark, "network", pick(d, n.names), "address", address),
		details:  [][]string{numberAlone},
		expected: Expected{Kind: Number},
		deferred: &Deferral{Rule: Balance, Depth: depth(d), Chain: n.id, Address: address},
	}
}

func depth(d *draw) uint32 {
	return uint32(d.between(MinDepth, MaxDepth)) //nolint:gosec // small
}

const paymentTemplate = "x402.pay"

// paymentPhrasings name the one thing that is asked of a seller.
var paymentPhrasings = []string{
	"One copy of the paid resource, with the reference of this request in it.",
	"The paid resource for the reference in this request.",
	"The resource behind the price, marked with the reference of the request.",
}

// The reference is new for each task, so that nothing stored can answer it. It
// stands in the request and not in the words, and what it costs is known when the
// seller says so.
func makePayment(d *draw) puzzle {
	token := fmt.Sprintf("ref-%08x%08x", d.word()>>32, d.word()>>32)
	return puzzle{
		body:     pick(d, paymentPhrasings),
		expected: Expected{Kind: Token, Value: token},
		request:  map[string]any{"reference": token},
		deferred: &Deferral{Rule: Payment},
	}
}
