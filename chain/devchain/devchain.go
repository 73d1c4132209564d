// Package devchain is an Ethereum chain in this process: a whole node of
// go-ethereum without a network, which keeps everything in memory and is gone
// with the process.
//
// It goes by the clock that it is given, and nothing in its blocks is random: the
// same transactions at the same times make the same chain. That, and an id of
// one's choice, is what ethclient/simulated does not offer. Forks that are not on
// the public networks yet are left out; with them gas would cost several times as
// much.
//
// It is for tests and for karatum-demo. The production binaries do not link it.
package devchain

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/miner"
	gethnode "github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/karatum/mystery/chain/node"
)

// Config says what chain to make. All of it may be left out.
type Config struct {
	ChainID uint64           // 0 means 84532, the id of Base Sepolia
	Rich    []common.Address // accounts with a million ether each
	Alloc   types.GenesisAlloc

	// Now is the time of the next block. A block is one second later than the one
	// before it if Now has not got that far, or is nil.
	Now func() time.Time

	// Finality is how many blocks behind the head the finalised block is.
	Finality uint64
}

// A Chain is a chain in this process. Its methods may be called from several
// goroutines.
type Chain struct {
	config Config
	stack  *gethnode.Node
	eth    *eth.Ethereum
	client *ethclient.Client
	server *rpc.Server // of Handler

	sealing sync.Mutex // one block is made at a time
}

// New starts a chain. It makes blocks when it is told to, and not by itself.
func New(c Config) (*Chain, error) {
	stack, err := gethnode.New(&gethnode.Config{Name: "devchain", P2P: p2p.Config{NoDiscovery: true, NoDial: true}})
	if err != nil {
		return nil, fmt.Errorf("make the node of a development chain: %w", err)
	}
	chain := &Chain{config: c, stack: stack}
	if err := chain.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a development chain: %w", err), stack.Close())
	}
	return chain, nil
}

func (c *Chain) start() (err error) {
	config := ethconfig.Defaults
	config.Genesis = c.genesis()
	config.SyncMode = ethconfig.FullSync
	config.StateScheme = rawdb.HashScheme // with NoPruning the state of every block stays readable
	config.NoPruning = true
	config.LogNoHistory = true // logs are searched for and not indexed
	config.TxPool.NoLocals = true
	config.Miner.Recommit = time.Hour      // a slow machine gets the time it needs to fill a block
	config.RPCEVMTimeout = 5 * time.Minute // and to run a contract
	config.DatabaseCache, config.TrieCleanCache, config.TrieDirtyCache, config.SnapshotCache = 16, 16, 16, 0
	if c.eth, err = eth.New(c.stack, &config); err != nil {
		return err
	}
	logs := filters.NewFilterSystem(c.eth.APIBackend, filters.Config{})
	filter := rpc.API{Namespace: "eth", Service: filters.NewFilterAPI(logs)}
	c.stack.RegisterAPIs([]rpc.API{filter})
	c.server = rpc.NewServer()
	for _, api := range append(c.eth.APIs(), filter) {
		if api.Namespace != "eth" {
			continue // for whoever runs the node
		}
		if err := c.server.RegisterName(api.Namespace, api.Service); err != nil {
			return err
		}
	}
	if err := c.stack.Start(); err != nil {
		return err
	}
	c.client = ethclient.NewClient(c.stack.Attach())
	c.eth.SetSynced() // there is nobody to catch up with, so transactions are welcome
	return nil
}

func (c *Chain) genesis() *core.Genesis {
	rules := *params.AllDevChainProtocolChanges
	rules.ChainID = new(big.Int).SetUint64(cmp.Or(c.config.ChainID, 84532))
	rules.AmsterdamTime, rules.BogotaTime = nil, nil
	alloc := core.SystemContractAllocs()
	for _, account := range c.config.Rich {
		alloc[account] = types.Account{Balance: new(big.Int).Mul(big.NewInt(1e6), big.NewInt(params.Ether))}
	}
	maps.Copy(alloc, c.config.Alloc)
	g := &core.Genesis{
		Config:     &rules,
		GasLimit:   params.MaxGasLimit >> 36, // some 134 million
		Difficulty: new(big.Int),
		BaseFee:    big.NewInt(params.InitialBaseFee),
		Alloc:      alloc,
	}
	if c.config.Now != nil {
		g.Timestamp = seconds(c.config.Now())
	}
	return g
}

func seconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

// Close ends the chain. Nothing of it is left.
func (c *Chain) Close() error {
	c.client.Close()
	c.server.Stop()
	return c.stack.Close()
}

// RPC returns a new connection to the node, for whoever speaks JSON-RPC.
func (c *Chain) RPC() *rpc.Client { return c.stack.Attach() }

// Node returns a new reader of the chain.
func (c *Chain) Node() *node.Client { return node.New("devchain", c.stack.Attach()) }

// Handler serves what a public node does, the namespace eth of JSON-RPC over HTTP. It
// answers who names it by an address or as localhost: no web page that leads another name
// here.
func (c *Chain) Handler() http.Handler {
	return gethnode.NewHTTPHandlerStack(c.server, nil, []string{"localhost"}, nil, false)
}

// Client returns the connection of the chain itself, which closes with it. It does
// for the bindings of contracts.
func (c *Chain) Client() *ethclient.Client { return c.client }

// Mine makes a block of the transactions that wait, or an empty one.
func (c *Chain) Mine(ctx context.Context) (node.Block, error) {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	// What was sent is sorted into the pool by another goroutine.
	if err := c.eth.TxPool().Sync(); err != nil {
		return node.Block{}, fmt.Errorf("wait for the pool of transactions: %w", err)
	}
	parent := c.eth.BlockChain().CurrentBlock()
	at := parent.Time + 1
	if c.config.Now != nil {
		at = max(at, seconds(c.config.Now()))
	}
	block, _, err := c.eth.Miner().BuildTestingPayload(&miner.BuildPayloadArgs{
		Parent:      parent.Hash(),
		Timestamp:   at,
		Withdrawals: types.Withdrawals{},
		BeaconRoot:  new(common.Hash),
	}, nil, false, nil)
	if err != nil {
		return node.Block{}, fmt.Errorf("make block %d: %w", parent.Number.Uint64()+1, err)
	}
	if _, err := c.eth.BlockChain().InsertBlockWithoutSetHead(ctx, block, false); err != nil {
		return node.Block{}, fmt.Errorf("take block %d into the chain: %w", block.NumberU64(), err)
	}
	if err := c.setHead(block); err != nil {
		return node.Block{}, err
	}
	return node.Block{Number: block.NumberU64(), Hash: block.Hash(), Time: time.Unix(int64(block.Time()), 0).UTC()}, nil //nolint:gosec // from seconds
}

// Rewind drops the newest blocks, as a reorganisation does before it puts others
// in their place. Their transactions wait again. It is an error to drop more
// blocks than there are behind the first.
func (c *Chain) Rewind(blocks uint64) error {
	c.sealing.Lock()
	defer c.sealing.Unlock()
	head := c.eth.BlockChain().CurrentBlock().Number.Uint64()
	if blocks > head {
		return fmt.Errorf("the chain has %d blocks behind the first, so %d cannot be dropped", head, blocks)
	}
	return c.setHead(c.eth.BlockChain().GetBlockByNumber(head - blocks))
}

// setHead makes block the newest of the chain.
func (c *Chain) setHead(block *types.Block) error {
	chain := c.eth.BlockChain()
	if _, err := chain.SetCanonical(block); err != nil {
		return fmt.Errorf("make block %d the head: %w", block.NumberU64(), err)
	}
	final := block.NumberU64() - min(block.NumberU64(), c.config.Finality)
	chain.SetFinalized(chain.GetHeaderByNumber(final))
	chain.SetSafe(chain.GetHeaderByNumber(final))
	return nil
}

// Transact has key sign a transaction, makes a block with it and returns the
// receipt. A transaction without To deploys a contract. One that fails is an error.
func (c *Chain) Transact(ctx context.Context, key *ecdsa.PrivateKey, tx Tx) (*types.Receipt, error) {
	hash, err := tx.Send(ctx, c.client, key)
	if err != nil {
		return nil, err
	}
	if _, err := c.Mine(ctx); err != nil {
		return nil, err
	}
	receipt, err := c.client.TransactionReceipt(ctx, hash)
	if err != nil {
		return nil, fmt.Errorf("look for the receipt of %s: %w", hash, err)
	}
	return receipt, Succeeded(receipt)
}
