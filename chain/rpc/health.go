package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
)

// A State says how a node does.
type State string

// States of a node.
const (
	Unasked    State = "unasked"     // nothing was read from it yet
	OK         State = "ok"          // its last answer was one
	Behind     State = "behind"      // its last head was lower than one seen before
	Failing    State = "failing"     // its last answer was none
	WrongChain State = "wrong chain" // it serves another chain
)

// Health is the state of one node: what doctor shows of it.
type Health struct {
	Node  string    `json:"node"` // its host
	State State     `json:"state"`
	Since time.Time `json:"since"` // when it came into State
	Error string    `json:"error,omitempty"`
}

// An endpoint is a node and what became of the questions to it.
type endpoint struct {
	node *node.Client

	mu     sync.Mutex
	known  bool      // its chain id is the right one
	asked  time.Time // for the last time
	health Health
}

func (e *endpoint) state() Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health
}

// rank sorts nodes: those that answer before those that have just failed.
func (e *endpoint) rank(now time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if (e.health.State == Failing || e.health.State == WrongChain) && now.Sub(e.asked) < pause {
		return 1
	}
	return 0
}

// aside returns an error if the node has lately shown that it serves another chain.
func (e *endpoint) aside(c *Client) error {
	now := c.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.health.State == WrongChain && now.Sub(e.asked) < pause {
		return wrongChainError{e.health.Error}
	}
	return nil
}

// identify has the node show that it serves the chain of c.
func (e *endpoint) identify(ctx context.Context, c *Client) error {
	e.mu.Lock()
	known := e.known
	e.mu.Unlock()
	if known {
		return nil
	}
	id, err := e.node.ChainID(ctx)
	if err != nil {
		return err
	}
	if id != c.chain {
		return wrongChainError{fmt.Sprintf("the node %s serves chain %d and not %d", e.node.Name(), id, c.chain)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = true
	return nil
}

// ErrWrongChain means that all nodes serve another chain than they should. It is a
// [domain.ErrUnavailable], but one that only people can mend.
var ErrWrongChain = fmt.Errorf("another chain: %w", domain.ErrUnavailable)

// wrongChainError is an ErrWrongChain, of one node or of all.
type wrongChainError struct{ text string }

func (w wrongChainError) Error() string { return w.text + ": " + domain.ErrUnavailable.Error() }
func (wrongChainError) Unwrap() error   { return ErrWrongChain }

// answered notes an answer. Whether the node is behind, only its head can tell.
func (e *endpoint) answered(c *Client) {
	if e.state().State != Behind {
		e.set(c, OK, "")
	}
}

// failed notes err and returns it. What the chain itself says, by way of the node,
// and what its asker broke off are no failures of the node.
func (e *endpoint) failed(ctx context.Context, c *Client, err error) error {
	var (
		revert *node.RevertError
		wrong  wrongChainError
	)
	switch {
	case errors.As(err, &revert), errors.Is(err, domain.ErrNotFound):
		e.answered(c)
	case errors.As(err, &wrong):
		e.set(c, WrongChain, wrong.text)
	case ctx.Err() != nil:
		return stopped(ctx, c)
	default:
		e.set(c, Failing, domain.Sentence(err))
	}
	return err
}

// set moves the node to a state.
func (e *endpoint) set(c *Client, s State, text string) {
	now := c.config.Now()
	e.mu.Lock()
	before := e.health
	e.asked = now
	if s == Failing || s == WrongChain {
		e.known = false
	}
	e.health.State, e.health.Error = s, text
	if before.State != s {
		e.health.Since = now
	}
	e.mu.Unlock()
	switch {
	case before.State == s:
	case s == OK && before.State != Unasked:
		c.config.Log.Info("a node of a chain is well again", "chain", c.chain, "node", before.Node)
	case s != OK:
		c.config.Log.Warn("a node of a chain is not well", "chain", c.chain, "node", before.Node, "state", string(s), "error", text)
	}
}
