//go:build peers

package x402_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/token"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// TestPeerSellers buys of x402-express (version 1) and @x402/express (version 2), whose
// facilitators redeem at an EIP-3009 token on anvil.
func TestPeerSellers(t *testing.T) {
	t.Parallel()
	c := anviltest.Start(t, x402.USDC.Chain)
	buyer, err := crypto.HexToECDSA(key0[2:])
	if err != nil {
		t.Fatal(err)
	}
	from := crypto.PubkeyToAddress(buyer.PublicKey)
	putToken(t, c, from)
	urls := startSellers(t, c.URL)
	for version, url := range map[int]string{1: urls.V1, 2: urls.V2} {
		m := open(t, version)
		m.now, m.url = time.Now(), url
		m.purse.Chain = peerChain{c.Node()}
		m.purse.Now = func() time.Time { return time.Now().Add(m.skew) }
		for _, tt := range []struct {
			name    string
			skew    time.Duration
			outcome task.Outcome
			fate    shop.Fate
		}{
			{"in time", 0, "", shop.Taken},
			{"before it is valid", 20 * time.Minute, task.Blocked, ""},
			{"when it has expired", -20 * time.Minute, task.Blocked, shop.Expired},
			{"once more", 0, "", shop.Taken},
		} {
			t.Run(fmt.Sprintf("version %d %s", version, tt.name), func(t *testing.T) {
				m.t, m.skew = t, tt.skew
				p, r := m.buy("shp_1")
				if r.Outcome != tt.outcome || !p.Paid() {
					t.Fatalf("Ask = %s (%s, status %d) %q and paid %t, want %q after a payment", r.Outcome, r.Code, r.Status, r.Raw, p.Paid(), tt.outcome)
				}
				m.fate(tt.fate)
				if tt.outcome != "" {
					return
				}
				if want := `{"content":"worth it","reference":"ref-7"}`; r.Text != want || p.Transaction().IsZero() {
					t.Errorf("Ask = %q, paid by %s, want %q by a transaction", r.Text, p.Transaction(), want)
				}
				receipt, err := c.Client().TransactionReceipt(t.Context(), common.Hash(p.Transaction()))
				if err != nil || receipt.Status != 1 {
					t.Errorf("the transaction %s: %+v, %v, want one that succeeded", p.Transaction(), receipt, err)
				}
			})
		}
	}
	head, err := c.Node().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := token.Balance(t.Context(), c.Node(), x402.USDC.Address, payee, head); err != nil || got.Int64() != 4000 {
		t.Errorf("the sellers hold %s, %v, want 4000 of four purchases", got, err)
	}
}

// A peerChain asks a token by a node.
type peerChain struct{ node *node.Client }

func (c peerChain) Authorization(
	ctx context.Context, _ uint64, asset, payer eip191.Address, nonce batch.Word,
) (used bool, at time.Time, err error) {
	head, err := c.node.Head(ctx)
	if err != nil {
		return false, at, err
	}
	used, err = token.Used(ctx, c.node, asset, payer, nonce, head)
	return used, head.Time, err
}

// putToken puts a token where USDC is on Base Sepolia, and gives some to an account.
func putToken(t *testing.T, c *anviltest.Chain, to common.Address) {
	t.Helper()
	owner, err := crypto.HexToECDSA(key0[2:])
	if err != nil {
		t.Fatal(err)
	}
	contract := contracts.PaymentToken()
	deployed, err := c.Transact(t.Context(), owner, devchain.Tx{Data: contract.Deploy()})
	if err != nil {
		t.Fatal(err)
	}
	code, err := c.Client().CodeAt(t.Context(), deployed.ContractAddress, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := common.Address(x402.USDC.Address)
	if err := c.Client().Client().CallContext(t.Context(), nil, "anvil_setCode", at, hexutil.Bytes(code)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Transact(t.Context(), owner, devchain.Tx{To: &at, Data: contract.Call("mint", to, big.NewInt(1_000_000))}); err != nil {
		t.Fatal(err)
	}
}

type sellers struct{ V1, V2 string }

// startSellers starts the sellers for as long as the test takes.
func startSellers(t *testing.T, rpc string) (urls sellers) {
	t.Helper()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	cmd := exec.CommandContext(t.Context(), "node", "sellers.cjs", rpc, payee.String())
	cmd.Dir, cmd.Stderr = filepath.Join(peers, "x402"), t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the sellers do not start: %v", err)
	}
	if err := json.Unmarshal(line, &urls); err != nil {
		t.Fatal(err)
	}
	return urls
}

// An identity of the pool sees how both sell.
func TestPeerObserve(t *testing.T) {
	t.Parallel()
	c := anviltest.Start(t, x402.USDC.Chain)
	putToken(t, c, common.Address{1})
	urls := startSellers(t, c.URL)
	client := x402.Client{Net: agents.Loopback(time.Now, nil)}
	for _, url := range []string{urls.V1, urls.V2} {
		for _, id := range identity.Pool() {
			s, target, err := client.Observe(t.Context(), url, agents.As(id))
			if err != nil || len(s.Sales) != 1 || s.Sales[0].Network != x402.USDC.Network || target.PayTo != payee.String() {
				t.Errorf("Observe as %s = %+v, %+v, %v, want what %s sells", id.Name, s, target, err, payee)
			}
		}
	}
}
