package attester_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/node"
)

// A query is what a node is asked.
type query struct {
	ID     json.RawMessage
	Method string
	Params []any
}

// An illness answers a query in place of the chain, or reports false and leaves it to
// the chain, having changed it or not.
type illness func(w http.ResponseWriter, r *http.Request, q *query) (answered bool)

func status(code int) illness {
	return func(w http.ResponseWriter, _ *http.Request, _ *query) bool {
		w.WriteHeader(code)
		return true
	}
}

// answer puts members in the place of each answer to one of the methods, or to any but
// eth_chainId if there are none.
func answer(members string, methods ...string) illness {
	return func(w http.ResponseWriter, _ *http.Request, q *query) bool {
		if !slices.Contains(methods, q.Method) && (len(methods) > 0 || q.Method == "eth_chainId") {
			return false
		}
		reply(w, q, members)
		return true
	}
}

func reply(w http.ResponseWriter, q *query, members string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, members)
}

func hang(_ http.ResponseWriter, r *http.Request, _ *query) bool {
	<-r.Context().Done()
	return true
}

// backwards is an illness of a node that has lost some blocks.
func backwards(chain *gethrpc.Client) illness {
	return func(_ http.ResponseWriter, r *http.Request, q *query) bool {
		if q.Method != "eth_getBlockByNumber" || q.Params[0] != "latest" {
			return false
		}
		var head hexutil.Uint64
		if chain.CallContext(r.Context(), &head, "eth_blockNumber") == nil {
			q.Params[0] = head - 3
		}
		return false
	}
}

// A frail node shows a chain, or whatever its illness makes of it.
type frail struct {
	chain *gethrpc.Client
	ill   atomic.Pointer[illness]
}

func (f *frail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // to its end, or the end of the request is not noticed
	var q query
	if err != nil || json.Unmarshal(body, &q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if ill := f.ill.Load(); ill != nil && (*ill)(w, r, &q) {
		return
	}
	var result json.RawMessage
	if err := f.chain.CallContext(r.Context(), &result, q.Method, q.Params...); err != nil {
		text, _ := json.Marshal(err.Error()) // of a string it cannot fail
		reply(w, &q, fmt.Sprintf(`"error":{"code":-32000,"message":%s}`, text))
		return
	}
	reply(w, &q, `"result":`+string(result))
}

// A node that fails, or lies, at whatever point of the life of a batch, holds the
// attester up and misleads it into nothing: neither is the batch signed again nor is it
// given up, and all goes on when the node is well.
func TestHostileNode(t *testing.T) {
	t.Parallel()
	state := []string{"eth_call", "eth_getTransactionCount", "eth_getBalance", "eth_getCode", "eth_estimateGas"}
	for _, tt := range []struct {
		name    string
		ill     func(chain *gethrpc.Client) illness
		timeout time.Duration // of a question; 0: that of the world
		want    string        // in the error before the batch is attested; "" means that there is none
	}{
		{"that does not answer", func(*gethrpc.Client) illness { return hang }, 50 * time.Millisecond, "did not answer in time"},
		{"that has enough", func(*gethrpc.Client) illness { return status(http.StatusTooManyRequests) }, 0, "HTTP status 429"},
		{"that is broken", func(*gethrpc.Client) illness { return status(http.StatusInternalServerError) }, 0, "HTTP status 500"},
		{"of another chain", func(*gethrpc.Client) illness { return answer(`"result":"0x1"`, "eth_chainId") }, 0, "serves chain 1 and not 84532"},
		{"that knows nothing", func(*gethrpc.Client) illness { return answer(`"result":null`) }, 0, "does not know the block"},
		{"that says nothing", func(*gethrpc.Client) illness { return answer(`"extra":1`) }, 0, "could not be read"},
		{"that talks nonsense", func(*gethrpc.Client) illness { return answer(`"result":{"number":"ten"}`) }, 0, "could not be read"},
		{"without the state", func(*gethrpc.Client) illness {
			return answer(`"error":{"code":-32000,"message":"missing trie node 1234 (path )"}`, state...)
		}, 0, "missing trie node"},
		{"that goes backwards", backwards, 0, ""},
	} {
		for _, at := range []string{"sealed", "submitted", "attested"} {
			t.Run("a node "+tt.name+" when the batch is "+at, func(t *testing.T) {
				t.Parallel()
				w, chain := newWorld(t)
				f := &frail{chain: chain.RPC()}
				t.Cleanup(f.chain.Close)
				w.serve(f)
				mine(t, chain, 4)
				w.lead(chain, at)
				before, signed := w.state(1), len(w.signed)

				ill := tt.ill(f.chain)
				f.ill.Store(&ill)
				usual := w.config.Timeout
				w.config.Timeout = cmp.Or(tt.timeout, usual)
				a := w.attester()
				for range 2 {
					err := a.Step(t.Context())
					wantErr := tt.want != "" && at != "attested" // then a step asks for blocks alone, which may be there
					if (err == nil || !strings.Contains(err.Error(), tt.want)) && wantErr || err != nil && tt.want == "" {
						t.Errorf("Step = %v, want an error with %q", err, tt.want)
					}
					state := attester.Unreachable
					if strings.Contains(tt.want, "serves chain") { // which no waiting mends
						state = attester.Stopped
					}
					if got := a.Status(); err != nil && got.State != state || errors.Is(err, attester.ErrStopped) != (got.State == attester.Stopped) {
						t.Errorf("Status = %+v after %v, want %s", got, err, state)
					}
					mine(t, chain, 1)
				}
				if s := w.state(1); len(w.signed) != signed || len(s.Submitted) != len(before.Submitted) || (s.Attested == nil) != (before.Attested == nil) {
					t.Errorf("batch 1 is %+v after %d transactions, want %+v after %d", s, len(w.signed), before, signed)
				}

				f.ill.Store(nil)
				w.pass(time.Minute) // a node of another chain is not asked at once
				if tt.timeout > 0 {
					w.config.Timeout = usual
					a = w.attester()
				}
				for step := 0; !w.state(1).Final; step++ {
					if step > 20 {
						t.Fatalf("batch 1 is not final; the attester is %+v", a.Status())
					}
					w.step(a)
					mine(t, chain, 1)
				}
				if len(w.signed) != 2 {
					t.Errorf("%d transactions are signed, want one for the schema and one for the batch", len(w.signed))
				}
				w.audit(1)
			})
		}
	}
}

// serve has attesters ask h for the chain.
func (w *world) serve(h http.Handler) {
	w.t.Helper()
	server := httptest.NewServer(h)
	w.t.Cleanup(server.Close)
	w.config.Now = w.clock
	w.nodes = func() []*node.Client {
		n, err := node.Dial(w.t.Context(), server.URL)
		if err != nil {
			w.t.Fatal(err)
		}
		return []*node.Client{n}
	}
}

// lead brings a first batch to a point of its life.
func (w *world) lead(chain *devchain.Chain, to string) {
	w.t.Helper()
	a := w.attester()
	w.commit(3)
	w.pass(5 * time.Minute)
	w.step(a) // seals, and registers the schema
	mine(w.t, chain, 1)
	if to == "sealed" {
		return
	}
	w.step(a)
	if to == "submitted" {
		return
	}
	mine(w.t, chain, 3)
	w.step(a)
}
