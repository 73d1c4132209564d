package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// A tableChain is a chain that can be computed: a block every two seconds of
// programme time, and what stands in it.
type tableChain struct {
	now  func() time.Time
	down bool
}

func (*tableChain) Reads(uint64) bool { return true }

func (c *tableChain) Head(_ context.Context, _ uint64) (uint64, error) {
	if c.down {
		return 0, errors.New("the node does not answer")
	}
	return uint64(c.now().Unix() / 2), nil
}

func (c *tableChain) BlockHash(_ context.Context, chain, block uint64) (string, error) {
	return "0x" + domain.Sum([]byte(fmt.Sprint("hash ", chain, block))).String(), nil
}

func (c *tableChain) Balance(_ context.Context, chain, block uint64, address string) (string, error) {
	return fmt.Sprintf("%d%d", 10_000_000+chain%1000*7, block*13+uint64(len(address))), nil
}

// explorer is an agent that shows one skill, reading blocks, and has the same
// node.
type explorer struct {
	field
	chain *tableChain
}

func (e *explorer) Observe(_ context.Context, kind task.Kind, url string, _ agents.Sender) (task.Surface, agents.Target, error) {
	s := task.Surface{Kind: kind}
	if kind == task.A2A {
		s.Skills = []task.Skill{{ID: "block-explorer", Name: "Block explorer"}}
	}
	return s, agents.Target{URL: url}, nil
}

var (
	numberOfBlock = regexp.MustCompile(`block (?:number )?(\d+)`)
	anAddress     = regexp.MustCompile(`0x[0-9a-fA-F]{40}`)
)

func (e *explorer) Ask(ctx context.Context, _ task.Kind, c agents.Call) (agents.Reply, error) {
	if c.Gate != nil {
		release, err := c.Gate(ctx)
		if err != nil {
			return agents.Reply{}, err
		}
		release()
	}
	m := numberOfBlock.FindStringSubmatch(c.Ask.Text)
	if m == nil {
		return agents.Reply{Status: http.StatusOK, Text: "Which block?"}, nil
	}
	block, err := strconv.ParseUint(m[1], 10, 63)
	if err != nil {
		return agents.Reply{}, err
	}
	chain := uint64(11155111)
	if strings.Contains(c.Ask.Text, "Base Sepolia") {
		chain = 84532
	}
	answer, err := e.chain.BlockHash(ctx, chain, block)
	if address := anAddress.FindString(c.Ask.Text); address != "" {
		answer, err = e.chain.Balance(ctx, chain, block, address)
	}
	return agents.Reply{Status: http.StatusOK, Text: answer}, err
}

// TestOnChainTasks shops an agent that reads chains: the block is chosen when a
// task is sent, the answer stands in the log before the reply, and all of it can be
// checked once it is revealed. A chain that cannot be read blocks the task and
// counts for nothing.
func TestOnChainTasks(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "37")
	chain := &tableChain{now: s.clock.Now}
	s.prog.Worker.Chain = chain
	s.prog.Worker.Field = &explorer{s.prog.Worker.Field, chain}
	s.days(t, 3)
	chain.down = true
	s.days(t, 6)

	ends := make(map[string]int)
	for r, e := range s.events(t) {
		revealed, ok := e.(shop.Revealed)
		if !ok {
			continue
		}
		if revealed.Family != "chain" {
			t.Errorf("%s is a task of family %s", r.Stream, revealed.Family)
		}
		result := revealed.Result
		ends[string(result.Outcome)+" "+result.Rule]++
		if (result.Outcome == task.Pass) != (revealed.Filled != task.Filled{}) {
			t.Errorf("%s: outcome %s (%s) with %+v filled in", r.Stream, result.Outcome, result.Rule, revealed.Filled)
		}
		if strings.Contains(revealed.Prompt, "{block}") == (result.Outcome == task.Pass) {
			t.Errorf("%s was asked as %q", r.Stream, revealed.Prompt)
		}
	}
	passed := 0
	for end, n := range ends {
		switch {
		case strings.HasPrefix(end, "pass "):
			passed += n
		case end != "blocked chain_read_failed":
			t.Errorf("%d tasks ended as %q", n, end)
		}
	}
	if passed == 0 || ends["blocked chain_read_failed"] == 0 {
		t.Errorf("%v, want some that passed and some that were blocked", ends)
	}
	s.audit(t, consents)
}
