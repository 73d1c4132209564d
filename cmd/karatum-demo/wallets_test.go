package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/chain/wallet"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
)

// offered is the endpoint that owners offer here.
const offered = houseURL + "/demo-agents/steady"

// A chain is one on which transactions cost nothing.
type chain interface {
	Node() *node.Client
	Transact(ctx context.Context, key *ecdsa.PrivateKey, tx devchain.Tx) (*types.Receipt, error)
}

// keeper is the key that controls the wallets and deploys everything.
func keeper(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{0x2a}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Owners of every sort give their consent on a chain of this process.
func TestOwnersOnChain(t *testing.T) {
	inOrder(t)
	t.Parallel()
	key := keeper(t)
	c, err := devchain.New(devchain.Config{ChainID: commands.HomeChain, Rich: []common.Address{crypto.PubkeyToAddress(key.PublicKey)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	testOwners(t, c, key, "71", func(t *testing.T, published []byte) {
		t.Helper()
		again(t, c, published)
	})
}

// again checks a published consent, a contract wallet at its block.
func again(t *testing.T, c chain, published []byte) {
	t.Helper()
	r, err := verify.Consent(published)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Wallets {
		n := c.Node()
		block := node.Block{Number: w.At.Number, Hash: common.Hash(w.At.Hash)}
		v, err := wallet.VerifyAt(t.Context(), n, block, w.Owner, w.Hash, w.Signature)
		if err != nil || string(v.Method) != string(w.Method) {
			t.Errorf("the wallet asked again says %s, %v, want %s", v.Method, err, w.Method)
			continue
		}
		r.Settle(w, verify.Pass, "asked again")
	}
	for _, check := range r.Checks {
		if check.Status != verify.Pass {
			t.Errorf("%s is %s: %s", check.ID, check.Status, check.Detail)
		}
	}
}

// testOwners runs on any chain. recheck is given the body of each published consent.
func testOwners(t *testing.T, c chain, key *ecdsa.PrivateKey, seed string, recheck func(*testing.T, []byte)) {
	t.Helper()
	transact := func(tx devchain.Tx) *types.Receipt {
		t.Helper()
		r, err := c.Transact(t.Context(), key, tx)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	deployer := crypto.PubkeyToAddress(key.PublicKey)
	deployed := transact(devchain.Tx{Data: contracts.Wallet().Deploy(deployer)}).ContractAddress
	factory := transact(devchain.Tx{Data: contracts.WalletFactory().Deploy()}).ContractAddress
	registryAt := transact(devchain.Tx{Data: contracts.IdentityRegistry().Deploy()}).ContractAddress
	transact(devchain.Tx{To: &registryAt, Data: contracts.IdentityRegistry().Call("register", "https://agent.example/registration.json")})
	salt := [32]byte{7}
	future := create2(factory, salt, contracts.Wallet().Deploy(deployer))

	nodes := rpc.Set{commands.HomeChain: rpc.New(commands.HomeChain, rpc.Config{Now: time.Now}, c.Node())}
	plain := func(message string) []byte { return personalSign(t, key, message) }
	token := agent.Ref(fmt.Sprintf("erc8004:%d:%s:0", commands.HomeChain, strings.ToLower(registryAt.Hex())))
	tests := []struct {
		name   string
		ref    agent.Ref
		owner  common.Address
		nonce  bool
		sign   func(message string) []byte
		method consent.Method
	}{
		{"a plain key", "build:by-key", deployer, false, plain, consent.ByKey},
		{"a contract wallet", "build:by-wallet", deployed, true, plain, consent.ByWallet},
		{"a contract wallet that is yet to be deployed", "build:by-factory", future, true, func(message string) []byte {
			return wrapped(t, factory, contracts.WalletFactory().Call("deploy", deployer, salt), plain(message))
		}, consent.ByFactory},
		{"the owner on a registry", token, deployer, false, plain, consent.ByKey},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := empty(t, flags{seed: fmt.Sprint(seed, i), listen: "127.0.0.1:0", nodes: nodes})
			s.register(t, test.ref, eip191.Address(test.owner))
			s.verified(t, test.ref)
			published := s.consentBy(t, test.ref, test.nonce, test.sign)
			recheck(t, published)
			r, err := verify.Consent(published)
			if err != nil {
				t.Fatal(err)
			}
			g, err := s.prog.Service.ActiveConsent(t.Context(), test.ref)
			if err != nil || g.Consent != r.Consent || g.Verified.Method != test.method || g.Payload.Owner != eip191.Address(test.owner) {
				t.Fatalf("the active consent is %s of %s by %s, %v, want %s of %s by %s",
					g.Consent, g.Payload.Owner, g.Verified.Method, err, r.Consent, test.owner, test.method)
			}
			if test.ref != token {
				return
			}
			stranger := common.Address{0x99}
			transact(devchain.Tx{To: &registryAt, Data: contracts.IdentityRegistry().Call("transferFrom", deployer, stranger, common.Big0)})
			s.days(t, 1.1)
			if _, ended := s.ends(t, token); !slices.Equal(ended, []consent.EndReason{consent.OwnerChanged}) {
				t.Errorf("after the transfer of the token the consent ended %v, want once for a changed owner", ended)
			}
		})
	}
	if code, err := codeAt(t.Context(), c, future); err != nil || len(code) != 0 {
		t.Errorf("asking a wallet deployed it: %d bytes of code, %v", len(code), err)
	}
}

// verified makes what is offered a verified identity of an agent.
func (s *stage) verified(t *testing.T, ref agent.Ref) {
	t.Helper()
	m := ledger.Meta{Actor: "operator", Command: "identity " + string(ref)}
	if err := s.prog.Service.Agent(t.Context(), m, ref, agent.VerifyIdentity{URL: offered}); err != nil {
		t.Fatal(err)
	}
}

// consentBy gives a consent over the API, signed by sign, and returns what is
// published of it.
func (s *stage) consentBy(t *testing.T, ref agent.Ref, withNonce bool, sign func(message string) []byte) []byte {
	t.Helper()
	request := consent.Request{
		Agent: ref, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: offered}}, Kinds: []task.Kind{task.A2A},
		MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 30,
	}
	nonce := s.flags.draw("owner nonce " + string(ref))
	if withNonce {
		request.OwnerNonceHash = domain.Sum(nonce[:])
	}
	var challenge struct {
		ChallengeID string          `json:"challengeId"`
		Message     string          `json:"message"`
		Payload     json.RawMessage `json:"payload"`
	}
	if err := s.api.post(t.Context(), "/v1/mystery/consents/challenge", request, &challenge); err != nil {
		t.Fatal(err)
	}
	grant := map[string]any{
		"challengeId": challenge.ChallengeID, "payload": challenge.Payload,
		"signature": consent.Signature(sign(challenge.Message)),
	}
	if withNonce {
		grant["ownerNonce"] = nonce
	}
	var granted struct {
		ID string `json:"id"`
	}
	if err := s.api.post(t.Context(), "/v1/mystery/consents", grant, &granted); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api.base+"/v1/mystery/consents/"+granted.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", req.URL.Path, res.Status, err)
	}
	return body
}

// personalSign returns r, s and v of key for message.
func personalSign(t *testing.T, key *ecdsa.PrivateKey, message string) []byte {
	t.Helper()
	hash := eip191.Hash(message)
	sig, err := crypto.Sign(hash[:], key)
	if err != nil {
		t.Fatal(err)
	}
	sig[64] += 27
	return sig
}

// wrapped returns a signature of a wallet with what deploys it (ERC-6492).
func wrapped(t *testing.T, factory common.Address, call, sig []byte) []byte {
	t.Helper()
	var args abi.Arguments
	for _, name := range []string{"address", "bytes", "bytes"} {
		kind, err := abi.NewType(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, abi.Argument{Type: kind})
	}
	packed, err := args.Pack(factory, call, sig)
	if err != nil {
		t.Fatal(err)
	}
	return append(packed, bytes.Repeat([]byte{0x64, 0x92}, 16)...)
}

// create2 returns where a factory puts code (EIP-1014).
func create2(factory common.Address, salt [32]byte, code []byte) common.Address {
	return crypto.CreateAddress2(factory, salt, crypto.Keccak256(code))
}

func codeAt(ctx context.Context, c chain, account common.Address) ([]byte, error) {
	n := c.Node()
	head, err := n.Head(ctx)
	if err != nil {
		return nil, err
	}
	return n.CodeAt(ctx, account, head)
}
