package rpc

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// A Set holds the clients of several chains by chain id, and answers in the text
// forms of events. A chain that is not in it is a [domain.ErrUnavailable].
type Set map[uint64]*Client

// Reads reports whether there is a node of the chain.
func (s Set) Reads(chain uint64) bool { return s[chain] != nil }

// Head returns the number of the newest block of a chain.
func (s Set) Head(ctx context.Context, chain uint64) (uint64, error) {
	c, err := s.client(chain)
	if err != nil {
		return 0, err
	}
	b, err := c.Head(ctx)
	return b.Number, err
}

// BlockHash returns the hash of a block, 0x and 64 hex digits.
func (s Set) BlockHash(ctx context.Context, chain, block uint64) (string, error) {
	_, b, err := s.block(ctx, chain, block)
	if err != nil {
		return "", err
	}
	return b.Hash.Hex(), nil
}

// Balance returns the native balance of an address at a block, in wei.
func (s Set) Balance(ctx context.Context, chain, block uint64, address string) (string, error) {
	account, err := eip191.ParseAddress(address)
	if err != nil {
		return "", err
	}
	c, b, err := s.block(ctx, chain, block)
	if err != nil {
		return "", err
	}
	wei, err := c.BalanceAt(ctx, common.Address(account), b)
	if err != nil {
		return "", err
	}
	return wei.String(), nil
}

// Close lets go of all connections.
func (s Set) Close() {
	for _, c := range s {
		c.Close()
	}
}

func (s Set) block(ctx context.Context, chain, number uint64) (*Client, node.Block, error) {
	c, err := s.client(chain)
	if err != nil {
		return nil, node.Block{}, err
	}
	b, err := c.Block(ctx, number)
	return c, b, err
}

func (s Set) client(chain uint64) (*Client, error) {
	c, ok := s[chain]
	if !ok {
		return nil, fmt.Errorf("no node of chain %d is configured: %w", chain, domain.ErrUnavailable)
	}
	return c, nil
}
