// Package identity holds the client identities under which tasks are sent: what
// an ordinary script, written with an ordinary HTTP library, looks like on the
// wire. The hash of the pool stands in the message that an owner signs, so the
// owner knows every face that a task can wear.
//
// The pool is data, and a published version of it never changes: a new pool is
// a new file with a new [Version]. None of its entries bears the name of a
// product or a mark of Karatum's own crawler or exam harness; see [Marked]. The
// package describes identities only. Shaping requests after them is the work of
// the clients.
package identity

import (
	_ "embed" // for the pool
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/karatum/mystery/domain"
)

// Size is the number of identities in every pool. A task draws its identity as
// a number below Size.
const Size = 12

// CallerHeaders stands in [Identity].HeaderOrder for all headers that the
// caller sets and that the order does not name.
const CallerHeaders = "*"

// A Header is one line of a request head, spelled as on the wire.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ClientInfo is what an MCP client calls itself in its initialize request.
type ClientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Body is the way a JSON library writes.
type Body string

// The ways to write JSON.
const (
	Compact Body = "compact" // {"a":1,"b":"<é>"}, as JSON.stringify does
	Spaced  Body = "spaced"  // {"a": 1, "b": "<\u00e9>"}, the default of Python's json
	Escaped Body = "escaped" // {"a":1,"b":"\u003cé\u003e"}, the default of Go's encoding/json
)

// An IDStyle is the way a client makes the ids of requests and messages.
type IDStyle string

// The styles of ids.
const (
	FromZero IDStyle = "from-0" // the numbers 0, 1, 2, ...
	FromOne  IDStyle = "from-1" // the numbers 1, 2, 3, ...
	UUID     IDStyle = "uuid"   // random, in the form of RFC 9562
	Hex      IDStyle = "hex"    // the same without hyphens
)

// An Identity is one ordinary client. Its slices belong to the pool and must
// not be changed.
type Identity struct {
	Name string `json:"name"` // ours, neutral; never sent

	// Library and LibraryVersion name what is described. Measured means that
	// the head was recorded from just that version; otherwise a neighbouring
	// version was recorded and only the version text differs.
	Library        string `json:"library"`
	LibraryVersion string `json:"libraryVersion"`
	Measured       bool   `json:"measured"`

	UserAgent      string   `json:"userAgent"`      // empty: the header is not sent
	AcceptLanguage string   `json:"acceptLanguage"` // empty: the header is not sent
	Encodings      []string `json:"encodings"`      // of Accept-Encoding; none: the header is not sent
	PlainEncodings []string `json:"plainEncodings"` // the same over plain HTTP; none: as Encodings
	Headers        []Header `json:"headers"`        // further headers of each request, unless the caller sets them

	// Order and spelling of a head, each holding CallerHeaders once; of any
	// request, of those of MCP, and of the GET of an event stream in it. An empty
	// one is like the one before it.
	HeaderOrder []string `json:"headerOrder"`
	MCPOrder    []string `json:"mcpOrder"`
	StreamOrder []string `json:"streamOrder"`

	ALPN []string `json:"alpn"` // offered in TLS, never h2; none: the extension is not sent

	// How requests are put on connections: each on a new one, as each is a run of
	// the program; a body after its head and not with it; and small writes waiting
	// for each other (RFC 896).
	ConnectsAnew bool `json:"connectsAnew"`
	BodyApart    bool `json:"bodyApart"`
	Nagle        bool `json:"nagle"`

	ContentType string   `json:"contentType"` // of a JSON body
	Body        Body     `json:"body"`        // of a JSON body
	FrameOrder  []string `json:"frameOrder"`  // keys of a JSON-RPC frame; keys without a value are left out
	RPCIDs      IDStyle  `json:"rpcIds"`      // of JSON-RPC requests
	MessageIDs  IDStyle  `json:"messageIds"`  // of A2A messages: UUID or Hex

	MCPVersion string     `json:"mcpVersion"` // the protocol version asked for first
	MCPListens bool       `json:"mcpListens"` // opens an event stream by GET once it is initialized
	ClientInfo ClientInfo `json:"clientInfo"`
}

// Constant returns the headers that the library adds to each request unless the
// caller sets them, in the order and spelling of the wire. Some libraries take
// other encodings over TLS than over plain HTTP.
func (id *Identity) Constant(tls bool) []Header {
	encodings := id.Encodings
	if !tls && len(id.PlainEncodings) > 0 {
		encodings = id.PlainEncodings
	}
	values := map[string]string{
		"user-agent":      id.UserAgent,
		"accept-language": id.AcceptLanguage,
		"accept-encoding": strings.Join(encodings, ", "),
	}
	for _, h := range id.Headers {
		values[strings.ToLower(h.Name)] = h.Value
	}
	var hs []Header
	for _, name := range id.HeaderOrder {
		if v := values[strings.ToLower(name)]; v != "" {
			hs = append(hs, Header{name, v})
		}
	}
	return hs
}

//go:embed pool_v1.json
var poolV1 []byte

var load = sync.OnceValue(func() []Identity {
	var pool []Identity
	if err := domain.Unmarshal(poolV1, &pool); err != nil {
		panic(fmt.Sprintf("identity: embedded pool: %v", err))
	}
	return pool
})

var hash = sync.OnceValue(func() domain.Hash {
	data, err := domain.Canonical(load())
	if err != nil {
		panic(fmt.Sprintf("identity: embedded pool: %v", err))
	}
	return domain.Sum(data)
})

// Pool returns the [Size] identities of the current pool in their order. The
// caller must not change them.
func Pool() []Identity { return load() }

// Version returns the version of the current pool.
func Version() uint32 { return 1 }

// Hash returns H(JCS(pool)), the form in which a consent names the pool.
func Hash() domain.Hash { return hash() }

// marks are the parts of a head that no task may bear, in lower case.
var marks = []string{"karatumbot", "karatum-trials", "x-karatum"}

// Marked reports whether text bears a mark by which Karatum makes itself known:
// the user agent of its crawler (KaratumBot), or the user agent (Karatum-Trials)
// or a header (X-Karatum-Evaluation) of its exam harness, in whatever case. A
// client refuses to send a task whose head is marked.
func Marked(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
}
