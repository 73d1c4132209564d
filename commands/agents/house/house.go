// Package house serves the two demo agents of Karatum over A2A and MCP. They are
// there to be watched: one behaves the same for everybody, the other recognises
// its exam.
//
//   - steady solves what it is asked, and slips now and then, on 6 prompts in a
//     hundred whoever asks: in the exam and in the field alike.
//   - exam-aware solves everything while it sees the user agent or the header of
//     the exam harness, or words of an evaluation in the prompt. For anyone else it
//     is wrong or brushes off about 55 %, by a hash of the prompt, and is faster.
//
// Neither looks at the address a request comes from. Both say DEMO in their cards.
// The solver reads the words of a question as any agent does, and shares no code
// with the part of the programme that makes the questions.
//
// The protocols are served by their own SDKs, so that the clients of the
// programme meet here what they meet in the wild.
package house

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/karatum/mystery/domain/eip191"
)

// Options say where the agents are and whose.
type Options struct {
	// Base is the URL of the listener's root as others see it, such as
	// "https://karatum.com". It stands in the cards, and pages of other origins may not
	// speak MCP to the agents.
	Base string

	// Owner is the wallet that the host proof lists.
	Owner eip191.Address
}

// Handler serves, for each of the names steady and exam-aware,
//
//	/demo-agents/<name>/                               the card
//	/demo-agents/<name>/.well-known/agent-card.json    the card
//	/demo-agents/<name>/.well-known/agent.json         the card, where 0.2 has it
//	/demo-agents/<name>/a2a                            A2A 1.0 and 0.3, JSON-RPC
//	/demo-agents/<name>/mcp                            MCP, Streamable HTTP
//
// and the host proof at /.well-known/karatum-mystery.json.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	base := strings.TrimRight(o.Base, "/")
	for _, a := range []*agent{
		{name: "steady", answer: steady},
		{name: "exam-aware", answer: examAware},
	} {
		path := "/demo-agents/" + a.name
		card := a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(a.card(base + path)))
		mux.Handle("GET "+path+"/{$}", card)
		mux.Handle("GET "+path+"/.well-known/agent-card.json", card)
		mux.Handle("GET "+path+"/.well-known/agent.json", card)
		mux.Handle(path+"/a2a", a.a2a())
		mux.Handle(path+"/a2a/{$}", a.a2a())
		mux.Handle(path+"/mcp", sameOrigin(base, a.mcp()))
	}
	mux.HandleFunc("GET /.well-known/karatum-mystery.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct { // to a client that may have gone away
			Owners []eip191.Address `json:"owners"`
		}{[]eip191.Address{o.Owner}})
	})
	return mux
}

// agent is one of the two: how it is called and how it answers.
type agent struct {
	name   string
	answer func(request) (text string, pause pause)
}

// A request is what an agent sees of a question, whatever the protocol.
type request struct {
	header http.Header
	prompt string                  // the words; or the tool's name, a newline and the canonical arguments
	solve  func() (solution, bool) // false: not understood
}

const version = "1.0.0"

// card is the A2A card. It merges the shapes of 1.0 and 0.3.
func (a *agent) card(url string) *a2a.AgentCard {
	c := &a2a.AgentCard{
		Name:               a.name + " (DEMO)",
		Description:        "DEMO: one of Karatum's own house agents, run to show how the Mystery Shopper works. Solves small everyday calculations.",
		Version:            version,
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Provider:           &a2a.AgentProvider{Org: "Karatum", URL: "https://karatum.com"},
	}
	for _, v := range []a2a.ProtocolVersion{"1.0", a2av0.Version} {
		c.SupportedInterfaces = append(c.SupportedInterfaces, &a2a.AgentInterface{
			URL: url + "/a2a", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: v,
		})
	}
	for _, s := range skills {
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: s.id, Name: s.name, Description: s.description, Tags: s.tags})
	}
	return c
}

var skills = []struct {
	id, name, description string
	tags                  []string
}{
	{
		"unit-conversion", "Unit conversion",
		"Converts lengths, areas, volumes, weights, speeds, temperatures and amounts of data.",
		[]string{"units", "conversion"},
	},
	{
		"arithmetic", "Everyday arithmetic",
		"Percentages, percentage changes, averages, bills split with a tip, and compound interest.",
		[]string{"math", "percentage", "average", "tip calculator", "compound interest"},
	},
	{
		"date-calculation", "Date calculation",
		"Adds days to a date, names the day of the week and counts the days from one date to another.",
		[]string{"date", "weekday"},
	},
	{
		"hashing", "Hashing and encoding",
		"SHA-256 and Keccak-256 digests and Base64 of short texts.",
		[]string{"hash", "sha256", "keccak256", "base64"},
	},
	{
		"ethereum-helper", "Ethereum helper",
		"Converts wei, gwei and ETH and hex numbers, and finds function selectors and EIP-55 checksums.",
		[]string{"ethereum", "wei", "hex to decimal", "function selector", "EIP-55"},
	},
	{
		"invoice-total", "Invoice total",
		"Adds up the lines of a pasted invoice with their VAT.",
		[]string{"invoice"},
	},
}

// quiet keeps the SDKs from writing to the process's own log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// a2a serves both dialects at one URL. The version header tells them apart, and
// without one a request is 0.3.
func (a *agent) a2a() http.Handler {
	handler := a2asrv.NewHandler(executor{a}, a2asrv.WithLogger(quiet()))
	v1, v0 := a2asrv.NewJSONRPCHandler(handler), a2av0.NewJSONRPCHandler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("A2A-Version"), "1") {
			v1.ServeHTTP(w, r)
			return
		}
		v0.ServeHTTP(w, r)
	})
}

func (a *agent) mcp() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: a.name, Title: a.name + " (DEMO)", Version: version}, &mcp.ServerOptions{
		Instructions: "DEMO: one of Karatum's own house agents.",
		Logger:       quiet(),
	})
	for _, t := range tools {
		server.AddTool(&mcp.Tool{Name: t.name, Description: t.description, InputSchema: json.RawMessage(t.schema)}, a.call(t))
	}
	// Sessions would pile up, as the common clients never end one. The SDK would refuse
	// each Host but localhost where it listens on loopback, and behind a proxy it does.
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: quiet(), DisableLocalhostProtection: true, MaxRequestBodyBytes: maxRequest,
	})
}

const maxRequest = 1 << 20

// sameOrigin refuses the requests of pages of other origins, as Streamable HTTP demands
// of servers (MCP 2025-11-25, basic/transports, security warning): by DNS rebinding
// such a page may reach a server that its reader could reach. Programs send no Origin.
func sameOrigin(base string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, base) {
			http.Error(w, "pages of "+strconv.QuoteToASCII(origin)+" may not speak to this agent", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
