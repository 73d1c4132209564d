// Package mcp is a thin client of the Model Context Protocol over Streamable
// HTTP, and over the HTTP+SSE transport before it. A task is a session of its
// own: initialize, a fresh list of tools, one call.
//
// Servers that know only the protocol of 2026-07-28, which has no sessions, are
// asked in that one: each request then says for itself who asks.
//
// It is lenient in what it reads, as servers in the wild are. What it repeats is
// what the protocol asks for: a session that the server lost is opened once
// more. It answers no request of the server, and passes over the stream that some
// identities open as their software does. It ends a session by leaving, as the
// common clients do.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

const (
	defaultVersion   = "2025-11-25"
	statelessVersion = "2026-07-28"
	maxPages         = 20
	maxTools         = 2000
)

// Codes of JSON-RPC errors with which a server says that it has no initialize.
const (
	methodNotFound      = -32601
	versionNotSupported = -32022
)

// A Client asks MCP servers. Its methods may be called from several goroutines.
type Client struct{ Net agents.Net }

// Observe lists the tools of the server at a URL. It returns an [agents.Error]
// if it cannot.
func (c Client) Observe(ctx context.Context, endpoint string, as agents.Sender) (task.Surface, agents.Target, error) {
	line := c.Net.Line(ctx, as, nil).MCP()
	defer line.Close()
	s := &session{line: line, net: c.Net, as: as, url: endpoint}
	defer s.close()
	if err := s.initialize(ctx); err != nil {
		return task.Surface{}, agents.Target{}, err
	}
	tools, err := s.tools(ctx)
	if err != nil {
		return task.Surface{}, agents.Target{}, err
	}
	return task.Surface{Kind: task.MCP, Tools: tools}, agents.Target{URL: endpoint}, nil
}

// Ask calls one tool and waits for its result. The error is about us: a gate
// that stayed shut, a context that was cancelled; all that is about the agent
// stands in the reply.
func (c Client) Ask(ctx context.Context, call agents.Call) (agents.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	line := c.Net.Line(ctx, call.Sender, call.Gate).MCP().Record(call.Exchanged)
	defer line.Close()
	s := &session{line: line, net: c.Net, as: call.Sender, url: call.Target.URL}
	defer s.close()
	var reply agents.Reply
	err := s.ask(ctx, call.Ask, &reply)
	return reply.Settle(err)
}

// A session is one conversation with a server.
type session struct {
	line *agents.Line
	net  agents.Net
	as   agents.Sender
	url  string

	id      string // empty when the server gave none
	version string // what the server said, known to us or not
	renewed bool
	legacy  *agents.Stream // nil over Streamable HTTP

	stateless *meta // what each request says of us; nil in a session
}

func (s *session) close() {
	if s.legacy != nil {
		s.legacy.Close()
	}
}

type (
	initializeParams struct {
		ProtocolVersion string              `json:"protocolVersion"`
		Capabilities    struct{}            `json:"capabilities"`
		ClientInfo      identity.ClientInfo `json:"clientInfo"`
	}
	discoverParams struct {
		Meta *meta `json:"_meta"`
	}
	listParams struct {
		Cursor string `json:"cursor,omitempty"`
		Meta   *meta  `json:"_meta,omitempty"`
	}
	callParams struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      *meta           `json:"_meta,omitempty"`
	}

	// meta is what initialize says in a session.
	meta struct {
		ProtocolVersion string              `json:"io.modelcontextprotocol/protocolVersion"`
		ClientInfo      identity.ClientInfo `json:"io.modelcontextprotocol/clientInfo"`
		Capabilities    struct{}            `json:"io.modelcontextprotocol/clientCapabilities"`
	}
)

// initialize opens the session. A server that does not take the request at all
// may be one of the older transport, or of the protocol without sessions.
func (s *session) initialize(ctx context.Context) error {
	a, err := s.hello(ctx)
	if err == nil && a.Error != nil && (a.Error.Code == methodNotFound || a.Error.Code == versionNotSupported) {
		return s.discover(ctx)
	}
	if old(a, err) {
		switch opened, refused := s.openLegacy(ctx); {
		case refused != nil:
			return refused
		case opened:
			a, err = s.hello(ctx)
		}
	}
	if err != nil {
		return err
	}
	if a.Error != nil {
		return a.Fail()
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		return malformed(a, "the result of initialize is no object")
	}
	s.version = result.ProtocolVersion
	status, err := s.line.Notify(ctx, s.url, s.head("", ""), "notifications/initialized")
	if err != nil || !s.as.MCPListens || s.legacy != nil || status != http.StatusAccepted {
		return err
	}
	h := s.head("", "")
	h.Set("Accept", "text/event-stream")
	return s.line.Listen(ctx, s.url, h)
}

// discover asks a server without sessions whether it speaks our version.
func (s *session) discover(ctx context.Context) error {
	s.version = statelessVersion
	s.stateless = &meta{ProtocolVersion: statelessVersion, ClientInfo: s.as.ClientInfo}
	a, err := s.rpc(ctx, "server/discover", "", discoverParams{s.stateless})
	if err != nil {
		return err
	}
	if a.Error != nil {
		return a.Fail()
	}
	var result struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if json.Unmarshal(a.Result, &result) != nil || !slices.Contains(result.SupportedVersions, statelessVersion) {
		return malformed(a, "the server has no initialize and does not speak version "+statelessVersion)
	}
	return nil
}

func (s *session) hello(ctx context.Context) (*agents.Answer, error) {
	s.id, s.version = "", ""
	p := initializeParams{ProtocolVersion: s.as.MCPVersion, ClientInfo: s.as.ClientInfo}
	if p.ProtocolVersion == "" {
		p.ProtocolVersion = defaultVersion
	}
	a, err := s.rpc(ctx, "initialize", "", p)
	if err == nil {
		s.id = a.Header.Get("Mcp-Session-Id")
	}
	return a, err
}

// old reports whether a server rejected initialize as one of the older transport
// does. After a 5xx or a broken connection nothing is tried.
func old(a *agents.Answer, err error) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, failedWith(a, err))
}

// failedWith returns the HTTP status of an answer that reports an error, or of what
// came in place of one; 0 if nothing failed, or nothing came.
func failedWith(a *agents.Answer, err error) int {
	var e *agents.Error
	switch {
	case errors.As(err, &e):
		return e.Status
	case a != nil && a.Error != nil:
		return a.Status
	}
	return 0
}

// openLegacy opens the event stream of the older transport, over which requests are
// answered. It reports false if there is no such stream, and returns an [agents.Error]
// if it leads to where the consent does not.
func (s *session) openLegacy(ctx context.Context) (bool, error) {
	stream, post := s.findLegacy(ctx)
	if stream == nil {
		return false, nil
	}
	if err := s.covers(post); err != nil {
		stream.Close()
		return false, err
	}
	s.url, s.legacy = post.String(), stream
	return true, nil
}

// findLegacy returns the event stream of the older transport and where it says that
// requests are to be posted; nil if there is none. What initialize was answered says
// more then than any error here.
func (s *session) findLegacy(ctx context.Context) (*agents.Stream, *url.URL) {
	stream, err := s.line.Stream(ctx, s.url, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return nil, nil
	}
	for {
		name, data, err := stream.Next(ctx)
		if err != nil {
			break
		}
		if name != "endpoint" {
			continue
		}
		base, err := url.Parse(s.url)
		if err != nil {
			break
		}
		post, err := base.Parse(string(bytes.TrimSpace(data)))
		if err != nil {
			break
		}
		return stream, post
	}
	stream.Close()
	return nil, nil
}

// covers returns an [agents.Error] unless requests may be posted to a URL.
func (s *session) covers(post *url.URL) error {
	if err := s.net.Follow(post.String()); err != nil {
		return err
	}
	base, err := url.Parse(s.url)
	if err != nil {
		return err
	}
	if !agents.SameHost(base, post) {
		return &agents.Error{
			Outcome: task.Blocked, Code: agents.UnsupportedTransport,
			Reason: "the event stream leads to " + post.Host + ", which the consent does not cover",
		}
	}
	return nil
}

// head returns the headers of a request for a method. Without sessions they say
// which method it is, and which tool it calls.
func (s *session) head(method, tool string) http.Header {
	h := http.Header{"Accept": {"application/json, text/event-stream"}}
	if s.id != "" {
		h.Set("Mcp-Session-Id", s.id)
	}
	if s.version != "" {
		h.Set("Mcp-Protocol-Version", s.version)
	}
	if s.stateless != nil {
		h.Set("Mcp-Method", method)
		if tool != "" && !strings.ContainsFunc(tool, unicode.IsControl) { // which no header may hold
			h.Set("Mcp-Name", tool)
		}
	}
	return h
}

func (s *session) rpc(ctx context.Context, method, tool string, params any) (*agents.Answer, error) {
	return s.line.RPC(ctx, s.url, s.head(method, tool), method, params, s.legacy)
}

// request sends a request within the session, and opens a new one, once, if the
// server has lost it.
func (s *session) request(ctx context.Context, method, tool string, params any) (*agents.Answer, error) {
	a, err := s.rpc(ctx, method, tool, params)
	if s.id == "" || s.renewed || !lost(a, err) {
		return a, err
	}
	s.renewed = true
	if err := s.initialize(ctx); err != nil {
		return nil, err
	}
	return s.rpc(ctx, method, tool, params)
}

// lost reports whether the server does not know the session any more: 404 by the
// specification, 400 or 401 in practice.
func lost(a *agents.Answer, err error) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusBadRequest, http.StatusUnauthorized}, failedWith(a, err))
}

// tools lists the tools, all pages of them within limits. Schemas are kept as
// they are: a reference in them that leads nowhere is not our concern. One that
// has no canonical form, as with a key twice or half a surrogate, cannot be hashed
// with the surface and counts as none.
func (s *session) tools(ctx context.Context) ([]task.Tool, error) {
	tools := []task.Tool{}
	var params any // left out where there is nothing to say
	if s.stateless != nil {
		params = listParams{Meta: s.stateless}
	}
	seen := map[string]bool{}
	for range maxPages {
		a, err := s.request(ctx, "tools/list", "", params)
		if err != nil {
			return nil, err
		}
		if a.Error != nil {
			return nil, a.Fail()
		}
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				InputSchema json.RawMessage `json:"inputSchema"`
				Annotations json.RawMessage `json:"annotations"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.Result, &page); err != nil {
			return nil, malformed(a, "the result of tools/list holds no list of tools")
		}
		for _, t := range page.Tools {
			if _, err := domain.Canonical(t.InputSchema); err != nil {
				t.InputSchema = nil
			}
			tools = append(tools, task.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Destructive: destructive(t.Annotations)})
		}
		if page.NextCursor == "" || seen[page.NextCursor] || len(tools) >= maxTools {
			break
		}
		seen[page.NextCursor] = true
		params = listParams{page.NextCursor, s.stateless}
	}
	return tools[:min(len(tools), maxTools)], nil
}

// destructive reports whether a tool says of itself that it destroys. What is no set of
// annotations says nothing.
func destructive(annotations json.RawMessage) bool {
	var hints struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"` // means something only where the other is false
	}
	return json.Unmarshal(annotations, &hints) == nil && hints.Destructive && !hints.ReadOnly
}

func (s *session) lists(ctx context.Context, name string) (bool, error) {
	tools, err := s.tools(ctx)
	return slices.ContainsFunc(tools, func(t task.Tool) bool { return t.Name == name }), err
}

// ask calls the tool if it is still listed.
func (s *session) ask(ctx context.Context, ask task.Ask, reply *agents.Reply) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	listed, err := s.lists(ctx, ask.Tool)
	if err != nil {
		return err
	}
	if !listed {
		return gone(ask.Tool)
	}
	arguments := ask.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	s.line.AskAgain() // the session is not the task yet; this is
	a, err := s.request(ctx, "tools/call", ask.Tool, callParams{ask.Tool, arguments, s.stateless})
	if err != nil {
		return err
	}
	reply.Status, reply.Raw, reply.Latency = a.Status, a.Raw, a.Latency
	if a.Error != nil {
		return s.failed(ctx, ask.Tool, a.Error.Message, a.Fail())
	}
	text, isError, err := parseResult(a)
	if err != nil {
		return err
	}
	reply.Text = text
	if isError {
		return s.failed(ctx, ask.Tool, text, &agents.Error{
			Outcome: task.Error, Code: agents.Failed, Status: a.Status, Raw: a.Raw, Reason: "the tool reports an error",
		})
	}
	return nil
}

var unknownTool = regexp.MustCompile(`(?i)unknown tool|tool .* not found`)

// failed tells a tool that failed from one that is gone. Servers say the latter
// in many ways, so neither the code nor its place decides: the words do, or else
// the list.
func (s *session) failed(ctx context.Context, tool, words string, failure *agents.Error) error {
	if failure.Outcome != task.Error {
		return failure
	}
	if unknownTool.MatchString(words) {
		return gone(tool)
	}
	if listed, err := s.lists(ctx, tool); err == nil && !listed {
		return gone(tool)
	}
	return failure
}

func gone(tool string) error {
	return &agents.Error{Outcome: task.Blocked, Code: agents.ToolGone, Reason: "the server does not list the tool " + tool + " any more"}
}

// parseResult returns what a tool said: the text in its content, or else its
// structured content as JSON. Content of other types is passed over.
func parseResult(a *agents.Answer) (text string, isError bool, err error) {
	var result struct {
		Content []struct {
			Text     string `json:"text"`
			Resource struct {
				Text string `json:"text"`
			} `json:"resource"`
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
		ResultType        string          `json:"resultType"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		return "", false, malformed(a, "the result of tools/call is no tool result")
	}
	if result.ResultType == "input_required" {
		return "", false, &agents.Error{Outcome: task.Refused, Status: a.Status, Raw: a.Raw, Reason: "the tool asked back"}
	}
	var texts []string
	for _, c := range result.Content {
		for _, t := range []string{c.Text, c.Resource.Text} {
			if t != "" {
				texts = append(texts, t)
			}
		}
	}
	if len(texts) == 0 && len(result.StructuredContent) > 0 && string(result.StructuredContent) != "null" {
		texts = append(texts, string(result.StructuredContent))
	}
	return strings.Join(texts, "\n"), result.IsError, nil
}

func malformed(a *agents.Answer, reason string) error {
	return &agents.Error{Outcome: task.Error, Code: agents.Protocol, Status: a.Status, Raw: a.Raw, Reason: reason}
}
