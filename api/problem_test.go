package api_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// documented is the list of docs/PROBLEMS.md: the status of each type.
var documented = sync.OnceValue(func() map[string]string {
	data, err := os.ReadFile("../docs/PROBLEMS.md")
	if err != nil {
		panic(err)
	}
	list := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([0-9]{3}) \\|").FindAllStringSubmatch(string(data), -1) {
		list[row[1]] = row[2]
	}
	return list
})

// Every code of the domain and every name in problem.go has its line in the
// documentation, and nothing else has.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	var want []string
	for _, file := range []string{"../domain/code.go", "problem.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // X Code = "x"
				if typ, ok := n.Type.(*ast.Ident); ok && typ.Name == "Code" {
					want = append(want, text(n.Values[0]))
				}
			case *ast.KeyValueExpr: // http.StatusX: {"x", "for people"}
				if v, ok := n.Value.(*ast.CompositeLit); ok && v.Type == nil && len(v.Elts) == 2 {
					want = append(want, text(v.Elts[0]))
				}
			}
			return true
		})
	}
	slices.Sort(want)
	var got []string
	for name := range documented() {
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
		t.Errorf("docs/PROBLEMS.md (-want +got):\n%s", diff)
	}
}

func text(e ast.Expr) string {
	lit, _ := e.(*ast.BasicLit)
	if lit == nil {
		return ""
	}
	return strings.Trim(lit.Value, `"`)
}

// Every code has a title of its own, so it becomes a type.
func TestEveryCodeIsAType(t *testing.T) {
	t.Parallel()
	parsed, err := os.ReadFile("../domain/code.go")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t).furnish()
	coded := &failing{Service: w.service}
	w.handler = api.New(api.Config{Service: coded, Reader: readerOf(w), Bodies: w.bodies, PublicURL: "https://karatum.com", CatchUp: w.runner.CatchUp, Now: w.clock})
	titles := make(map[any]string)
	for _, m := range regexp.MustCompile(`(?m)Code += "([a-z-]+)"`).FindAllStringSubmatch(string(parsed), -1) {
		coded.err = domain.WithCode(domain.Code(m[1]), fmt.Errorf("as it happens: %w", domain.ErrConflict))
		p := w.object(w.do(http.MethodPost, root+"/consents/challenge", request(honest)).body)
		if p["type"] != "https://karatum.com/problems/"+m[1] || p["detail"] != "as it happens" || p["status"] != 409.0 {
			t.Errorf("code %s gives %v", m[1], p)
		}
		if same, dup := titles[p["title"]]; dup {
			t.Errorf("%s has the title of %s", m[1], same)
		}
		titles[p["title"]] = m[1]
	}
}

// A problem that passes by itself says when to ask again.
func TestProblemSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	coded := &failing{Service: w.service, err: domain.WithCode(domain.KeysUnavailable, fmt.Errorf("nobody answers: %w", domain.ErrUnavailable))}
	w.handler = api.New(api.Config{Service: coded, Reader: readerOf(w), Bodies: w.bodies, PublicURL: "https://karatum.com", CatchUp: w.runner.CatchUp, Now: w.clock})
	if a := w.do(http.MethodPost, root+"/consents/challenge", request(honest)); a.status != 503 || a.header.Get("Retry-After") != "5" {
		t.Errorf("the answer is %d with Retry-After %q, want 503 and 5: %s", a.status, a.header.Get("Retry-After"), a.body)
	}
	coded.err = fmt.Errorf("for good: %w", domain.ErrConflict)
	if a := w.do(http.MethodPost, root+"/consents/challenge", request(honest)); a.header.Get("Retry-After") != "" {
		t.Errorf("a conflict has Retry-After %q", a.header.Get("Retry-After"))
	}
}

// failing refuses challenges.
type failing struct {
	*commands.Service

	err error
}

func (f *failing) Challenge(context.Context, consent.Request) (commands.Challenged, error) {
	return commands.Challenged{}, f.err
}

// A wallet is a contract on one chain that accepts one signature of whatever.
type wallet struct {
	accepts string
	down    bool
}

var head = agent.Block{Chain: commands.HomeChain, Number: 41_022_311, Hash: agent.BlockHash(domain.Sum([]byte("head")))}

func (c *wallet) VerifyWallet(_ context.Context, _ uint64, _ eip191.Address, _ domain.Hash, sig []byte) (consent.Verification, error) {
	if c.down {
		return consent.Verification{}, fmt.Errorf("the node does not answer: %w", domain.ErrUnavailable)
	}
	if consent.Signature(sig).String() != c.accepts {
		return consent.Verification{}, fmt.Errorf("not accepted: %w", domain.ErrForbidden)
	}
	return consent.Verification{Method: consent.ByWallet, At: head}, nil
}

func (c *wallet) OwnerOf(context.Context, agent.Token) (agent.Ownership, error) {
	if c.down {
		return agent.Ownership{}, fmt.Errorf("the node does not answer: %w", domain.ErrUnavailable)
	}
	return agent.Ownership{Owner: owner, At: head}, nil
}

func TestContractWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	contract := &wallet{accepts: "0x" + strings.Repeat("6492", 4096)}
	w.service.Chains = contract
	nonce := domain.Sum([]byte("mine"))
	s := w.challenge(honest, "ownerNonceHash", domain.Sum(nonce[:]))
	body := with(s.body, "signature", contract.accepts, "ownerNonce", nonce)
	n := w.records()
	for _, c := range []struct {
		name   string
		do     func() answer
		status int
		sort   string
	}{
		{"a node that is down", func() answer {
			contract.down = true
			defer func() { contract.down = false }()
			return w.do(http.MethodPost, root+"/consents", encode(body))
		}, 503, "chain-unavailable"},
		{"another signature", func() answer {
			return w.do(http.MethodPost, root+"/consents", encode(with(w.object(encode(body)), "signature", "0x"+strings.Repeat("00", 100))))
		}, 403, "wrong-signer"},
		{"no nonce committed to", func() answer {
			return w.do(http.MethodPost, root+"/consents", encode(with(w.challenge(honest).body, "signature", contract.accepts)))
		}, 422, "owner-nonce-missing"},
	} {
		a := c.do()
		if p := w.object(a.body); a.status != c.status || p["type"] != "https://karatum.com/problems/"+c.sort || w.records() != n {
			t.Errorf("%s: %d, %d records more: %s", c.name, a.status, w.records()-n, a.body)
		}
		if documented()[c.sort] != fmt.Sprint(c.status) {
			t.Errorf("docs/PROBLEMS.md gives %s the status %s, want %d", c.sort, documented()[c.sort], c.status)
		}
	}
	w.post(root+"/consents", http.StatusCreated, encode(body))

	c := w.get(root + "/consents/" + s.id)
	at := map[string]any{"chain": float64(head.Chain), "block": float64(head.Number), "blockHash": head.Hash.String()}
	if diff := cmp.Diff(map[string]any{"method": "erc1271", "at": at}, c["verified"]); diff != "" || c["signature"] != contract.accepts {
		t.Errorf("verified (-want +got):\n%s", diff)
	}
	ch := w.post(root+"/consents/"+s.id+"/revoke-challenge", http.StatusOK, "")
	w.post(root+"/consents/"+s.id+"/revoke", http.StatusOK, encode(map[string]any{"challengeId": ch["challengeId"], "signature": contract.accepts}))
	r, _ := w.get(root + "/consents/" + s.id)["revocation"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"method": "erc1271", "at": at}, r["verified"]); diff != "" {
		t.Errorf("the revocation, verified (-want +got):\n%s", diff)
	}
}

// An agent on a registry: where its owner was looked up is public, and a transfer
// shows.
func TestAgentOnRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	w.service.Chains = &wallet{}
	const ref = agent.Ref("erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0")
	w.ok(w.service.Agent(t.Context(), w.meta("register"), ref, agent.Register{Agent: ref, Wallet: owner, Demo: true, At: head}))
	id := w.grant(ref)
	if c := w.get(root + "/consents/" + id); c["ownerCheck"] == nil {
		t.Errorf("the consent does not say where its owner was looked up: %v", c)
	}
	w.ok(w.service.Agent(t.Context(), w.meta("sell"), ref, agent.ChangeOwner{To: eip191.Address{1}, Reason: "sold", At: head}))
	w.ok(w.runner.CatchUp(t.Context()))
	a := w.get(root + "/agents/" + string(ref))
	if a["owner"] != (eip191.Address{1}).String() || a["spotChecks"] != "ended" || !strings.Contains(fmt.Sprint(a["note"]), "changed hands") {
		t.Errorf("the agent is %v", a)
	}
}
