package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
)

const (
	hash7 = "0x7777777777777777777777777777777777777777777777777777777777777777"
	hash8 = "0x8888888888888888888888888888888888888888888888888888888888888888"

	block7 = `"result":{"number":"0x7","hash":"` + hash7 + `","timestamp":"0x6774a1a0","anything":[]}`
	block8 = `"result":{"number":"0x8","hash":"` + hash8 + `","timestamp":"0x6774a182"}`
)

var (
	seven   = node.Block{Number: 7, Hash: common.HexToHash(hash7), Time: time.Date(2025, 1, 1, 2, 0, 0, 0, time.UTC)}
	account = common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
)

// serve starts a node that answers each method with the members of a JSON-RPC
// response. A method that is left out is not known to it.
func serve(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Errorf("the request is not JSON: %v", err)
		}
		answer, ok := answers[request.Method]
		if !ok {
			answer = `"error":{"code":-32601,"message":"the method does not exist"}`
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(request.ID)+`,`+answer+`}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, address string) *node.Client {
	t.Helper()
	c, err := node.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRead(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, map[string]string{
		"eth_chainId":          `"result":"0x14a34"`,
		"eth_getBlockByNumber": block7,
		"eth_getCode":          `"result":"0xef01"`,
		"eth_call":             `"result":"0x"`,
		"eth_getBalance":       `"result":"0xde0b6b3a7640000"`,
	}).URL)
	if id, err := c.ChainID(t.Context()); err != nil || id != 84532 {
		t.Errorf("ChainID = %d, %v, want 84532", id, err)
	}
	for name, read := range map[string]func() (node.Block, error){
		"Head":  func() (node.Block, error) { return c.Head(t.Context()) },
		"Block": func() (node.Block, error) { return c.Block(t.Context(), 7) },
	} {
		if b, err := read(); err != nil || b != seven {
			t.Errorf("%s = %v, %v, want %v", name, b, err, seven)
		}
	}
	if code, err := c.CodeAt(t.Context(), account, seven); err != nil || !cmp.Equal(code, []byte{0xef, 1}) {
		t.Errorf("CodeAt = %x, %v, want ef01", code, err)
	}
	if out, err := c.CallAt(t.Context(), ethereum.CallMsg{To: &account}, seven); err != nil || len(out) != 0 {
		t.Errorf("CallAt = %x, %v, want nothing", out, err)
	}
	if wei, err := c.BalanceAt(t.Context(), account, seven); err != nil || wei.String() != "1000000000000000000" {
		t.Errorf("BalanceAt = %v, %v, want one ether", wei, err)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		block, code string
		says        string
	}{
		"no block":                 {block: `"result":null`, says: "does not know the block"},
		"another block":            {block: block8, says: "another block"},
		"a block without a hash":   {block: `"result":{"number":"0x7","timestamp":"0x1"}`, says: "not a block"},
		"a block of another shape": {block: `"result":{"number":7}`, says: "cannot unmarshal"},
		"a block beyond all time":  {block: `"result":{"number":"0x7","hash":"` + hash7 + `","timestamp":"0xffffffffffffffff"}`, says: "not a block"},
		"no result":                {block: `"more":1`, says: "JSON-RPC response has no result"},
		"no code":                  {block: block7, code: `"result":null`, says: "cannot unmarshal"},
		"pruned state":             {block: block7, code: `"error":{"code":-32000,"message":"missing trie node 7f (path ) state is not available"}`, says: "missing trie node"},
		"a limit":                  {block: `"error":{"code":-32005,"message":"limit\nexceeded"}`, says: "limit exceeded"},
		"method unknown":           {block: block7, code: `"error":{"code":-32601,"message":"no such method"}`, says: "no such method"},
		"a long complaint":         {block: `"error":{"code":1,"message":"` + strings.Repeat("ж", 1000) + `"}`, says: strings.Repeat("ж", 200) + "…"},
		"an answer without end":    {block: `"result":"` + strings.Repeat("0", 1<<20) + `"`, says: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]string{"eth_getBlockByNumber": tt.block, "eth_getCode": tt.code})
			code, err := dial(t, s.URL).CodeAt(t.Context(), account, seven)
			if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) || code != nil {
				t.Errorf("CodeAt = %x, %v, want ErrUnavailable that says %q", code, err, tt.says)
			}
		})
	}
}

func TestBlockHasMoved(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, map[string]string{"eth_getBlockByNumber": block7, "eth_getBalance": `"result":"0x1"`}).URL)
	wei, err := c.BalanceAt(t.Context(), account, node.Block{Number: 7, Hash: common.HexToHash(hash8)})
	if !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("BalanceAt of a block that was dropped = %v, %v, want ErrNotFound", wei, err)
	}
}

func TestNumberBeyondAll(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, map[string]string{"eth_getBlockByNumber": block7}).URL)
	if b, err := c.Block(t.Context(), 1<<63); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Block(2^63) = %v, %v, want ErrUnavailable", b, err)
	}
}

// The messages are those of go-ethereum, anvil, Nethermind and Besu.
func TestRevert(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer string
		data   []byte
	}{
		{`{"code":3,"message":"execution reverted: no","data":"0x08c379a0"}`, []byte{8, 0xc3, 0x79, 0xa0}},
		{`{"code":3,"message":"execution reverted","data":"0x"}`, []byte{}},
		{`{"code":-32000,"message":"execution reverted"}`, nil},
		{`{"code":-32000,"message":"Execution reverted","data":{"at":1}}`, nil},
		{`{"code":-32015,"message":"VM execution error.","data":"Reverted 0x0102"}`, []byte{1, 2}},
		{`{"code":-32000,"message":"out of gas"}`, nil},
		{`{"code":-32603,"message":"EVM error MemoryOOG"}`, nil},
		{`{"code":-32603,"message":"EVM error InvalidOperandOOG"}`, nil},
		{`{"code":-32603,"message":"EVM error OutOfOffset"}`, nil},
		{`{"code":-32000,"message":"invalid opcode: INVALID"}`, nil},
		{`{"code":-32003,"message":"EVM error OutOfGas"}`, nil},
		{`{"code":-32000,"message":"stack underflow (0 <=> 1)"}`, nil},
	} {
		c := dial(t, serve(t, map[string]string{"eth_getBlockByNumber": block7, "eth_call": `"error":` + tt.answer}).URL)
		_, err := c.CallAt(t.Context(), ethereum.CallMsg{To: &account}, seven)
		var revert *node.RevertError
		if !errors.As(err, &revert) || errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("CallAt answered by %s: %v, want a RevertError", tt.answer, err)
		} else if !cmp.Equal(revert.Data, tt.data) {
			t.Errorf("CallAt answered by %s has data %#v, want %#v", tt.answer, revert.Data, tt.data)
		}
	}
}

func TestAddressIsKeptOut(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://other.example/secretkey1")
			w.WriteHeader(code)
			io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s
	}
	down := status(200, "")
	down.Close()
	for name, tt := range map[string]struct {
		url, says string
	}{
		"429":             {status(429, "key secretkey1 has used up its calls").URL, "429"},
		"500":             {status(500, "").URL, "500"},
		"a redirect":      {status(307, "").URL, "307"},
		"nobody":          {down.URL, "refused"},
		"an echo":         {serve(t, map[string]string{"eth_chainId": `"error":{"code":1,"message":"no such key: secretkey1 pass1 secretkey2"}`}).URL, "no such key: … … …"},
		"something else":  {status(200, "<html>secretkey1</html>").URL, "invalid character"},
		"an empty answer": {status(200, "").URL, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, strings.Replace(tt.url, "http://", "http://user:pass1@", 1)+"/v2/secretkey1?token=secretkey2")
			_, err := c.ChainID(t.Context())
			if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), c.Name()) {
				t.Errorf("ChainID = %v, want ErrUnavailable that says %q and names %s", err, tt.says, c.Name())
			}
			for _, secret := range []string{"secretkey", "pass1", "user"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("ChainID = %v, which contains %q", err, secret)
				}
			}
		})
	}
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "secretkey", "ws://example.com", "file:///secretkey", "http://", "http://a b/secretkey", "http://[::1/secretkey", "https://u:secretkey@%zz/"} {
		c, err := node.Dial(t.Context(), address)
		if !errors.Is(err, domain.ErrInvalid) || strings.Contains(err.Error(), "secretkey") {
			t.Errorf("Dial(%q) = %v, %v, want ErrInvalid", address, c, err)
		}
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that the end of the request is noticed
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	c := dial(t, s.URL)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Head(short); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "in time") {
		t.Errorf("Head that takes too long = %v, want ErrUnavailable", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Head(ended); !errors.Is(err, context.Canceled) || errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Head that was broken off = %v, want context.Canceled", err)
	}
}
