package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
)

// A Sender is who asks: one of the ordinary identities, or the exam harness.
// The zero Sender sends nothing but what the protocols require.
type Sender struct {
	identity.Identity

	marked bool // may bear Karatum's own marks
}

// As returns the sender of mystery tasks that looks like id. It can never bear a
// mark of Karatum: a [Line] refuses to write it.
func As(id identity.Identity) Sender { return Sender{Identity: id} }

// Harness returns the sender of exams. It makes itself known by its user agent
// and a header.
func Harness() Sender {
	return Sender{marked: true, Identity: identity.Identity{
		Name:        "karatum-trials",
		UserAgent:   "Karatum-Trials/1.0",
		Headers:     []identity.Header{{Name: "X-Karatum-Evaluation", Value: "1"}},
		HeaderOrder: []string{"User-Agent", "X-Karatum-Evaluation"},
		ContentType: "application/json",
		FrameOrder:  []string{"jsonrpc", "id", "method", "params"},
		RPCIDs:      identity.FromOne,
		MessageIDs:  identity.UUID,
		MCPVersion:  "2025-11-25",
		ClientInfo:  identity.ClientInfo{Name: "karatum-trials", Version: "1.0"},
	}}
}

// BotUserAgent is what KaratumBot calls itself. The page at about says what it does.
func BotUserAgent(about string) string { return "KaratumBot/1.0 (+" + about + ")" }

// crawler is who fetches host proofs: Karatum's public crawler.
func crawler(about string) Sender {
	return Sender{marked: true, Identity: identity.Identity{
		Name:        "karatum-bot",
		UserAgent:   BotUserAgent(about),
		HeaderOrder: []string{"User-Agent"},
	}}
}

// check refuses a head with a mark in it unless the sender may bear one.
func (s *Sender) check(h http.Header) error {
	if s.marked {
		return nil
	}
	texts := []string{s.ClientInfo.Name}
	for name, values := range h {
		texts = append(append(texts, name), values...)
	}
	for _, text := range texts {
		if identity.Marked(text) {
			return fmt.Errorf("a task must not bear the mark %q: %w", text, domain.ErrForbidden)
		}
	}
	return nil
}

// head returns the headers of a request: those of the client software and over
// them those of the protocol.
func (s *Sender) head(protocol http.Header, tls, body bool) http.Header {
	h := http.Header{"User-Agent": {""}} // an empty one keeps net/http from adding its own
	for _, c := range s.Constant(tls) {
		h.Set(c.Name, c.Value)
	}
	if body {
		h.Set("Content-Type", s.ContentType)
		if s.ContentType == "" {
			h.Set("Content-Type", "application/json")
		}
	}
	maps.Copy(h, protocol)
	return h
}

// newID returns an id in the given style as JSON, the n-th of its conversation.
func newID(style identity.IDStyle, n int) json.RawMessage {
	switch style {
	case identity.FromZero:
		return json.RawMessage(strconv.Itoa(n))
	case identity.UUID:
		return json.RawMessage(`"` + uuid.NewString() + `"`)
	case identity.Hex:
		return json.RawMessage(`"` + strings.ReplaceAll(uuid.NewString(), "-", "") + `"`)
	default:
		return json.RawMessage(strconv.Itoa(n + 1))
	}
}

// MessageID returns a new random id for a message.
func (s *Sender) MessageID() string {
	style := s.MessageIDs
	if style != identity.Hex {
		style = identity.UUID
	}
	return strings.Trim(string(newID(style, 0)), `"`)
}

// frame writes a JSON-RPC 2.0 frame as the sender's software does. Without an id
// it is a notification; params that are nil are left out.
func (s *Sender) frame(id json.RawMessage, method string, params any) ([]byte, error) {
	values := map[string]any{"jsonrpc": "2.0", "method": method}
	if id != nil {
		values["id"] = id
	}
	if params != nil {
		values["params"] = params
	}
	order := s.FrameOrder
	if order == nil {
		order = []string{"jsonrpc", "id", "method", "params"}
	}
	b := []byte{'{'}
	for _, key := range order {
		v, ok := values[key]
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(s.Body == identity.Escaped)
		if err := enc.Encode(v); err != nil {
			return nil, fmt.Errorf("write %s: %w", method, err)
		}
		b = append(b, '"')
		b = append(b, key...)
		b = append(b, '"', ':')
		b = append(b, bytes.TrimSpace(text.Bytes())...)
	}
	b = append(b, '}')
	if s.Body == identity.Spaced {
		b = spaced(b)
	}
	return b, nil
}

// spaced writes compact JSON as Python's json module does: with a space behind
// each comma and colon, and in ASCII.
func spaced(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/8)
	inString, escaped := false, false
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out = utf8.AppendRune(out, r)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		switch {
		case escaped:
			escaped = false
		case inString && r == '\\':
			escaped = true
		case r == '"':
			inString = !inString
		case !inString && (r == ',' || r == ':'):
			out = append(out, ' ')
		}
	}
	return out
}
