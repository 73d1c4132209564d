package shop

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/task"
)

// A Session is one conversation with an agent: where it was held, and what went over
// the wire, by its hashes. It lies beside the log with a salt, as the reply does, for
// the URL is the agent's word. The events of the session commit to it.
type Session struct {
	Kind      task.Kind  `json:"kind"`
	URL       string     `json:"url"`               // where tasks are taken, as the surface said
	Dialect   string     `json:"dialect,omitempty"` // of A2A
	Exchanges []Exchange `json:"exchanges"`         // in order
}

// An Exchange is one request of a session and what answered it.
type Exchange struct {
	Method   string      `json:"method"`        // of HTTP
	URL      string      `json:"url"`           // before any redirect
	RPC      string      `json:"rpc,omitempty"` // the JSON-RPC method; empty for a document or a stream
	Sent     domain.Hash `json:"sent"`          // of the body of the request
	Status   int         `json:"status"`        // of HTTP; 0 if no answer came or none was waited for
	Received domain.Hash `json:"received"`      // of the document or message that answered, decoded; of nothing if none did
}

// SessionKey is the key of the session of a shop, which lies beside the log.
func SessionKey(id string) string { return "session/" + id }

// Converse returns the command that puts s on record for a shop:
//
//	target = H(enc("karatum/mystery/session/v1", shopId, kind, url, dialect) ‖ salt)
//	action = H(enc("karatum/mystery/exchange/v1", shopId, u32 n, method, url, rpc, u32 status) ‖ salt ‖ sent ‖ received)
//
// n counts from 0.
func (s Session) Converse(shopID string, salt domain.Hash) Converse {
	c := Converse{Target: domain.Sum(domain.NewEnc("karatum/mystery/session/v1").
		Str(shopID).Str(string(s.Kind)).Str(s.URL).Str(s.Dialect).Hash(salt))}
	for n, x := range s.Exchanges {
		c.Actions = append(c.Actions, domain.Sum(domain.NewEnc("karatum/mystery/exchange/v1").
			Str(shopID).U32(uint32(n)).Str(x.Method).Str(x.URL).Str(x.RPC).U32(uint32(x.Status)). //nolint:gosec // a count and a status
			Hash(salt).Hash(x.Sent).Hash(x.Received)))
	}
	return c
}

// SessionOpened begins the record of a conversation with the agent. It is appended
// with all that follows up to [SessionClosed], when the conversation is over: to write
// between two requests would make them slower than those of others.
type SessionOpened struct {
	Target domain.Hash `json:"target"` // commits to where it was held
}

// SessionAction is one exchange of the conversation.
type SessionAction struct {
	N    int         `json:"n"` // from 0
	Hash domain.Hash `json:"hash"`
}

// SessionClosed ends the record of a conversation.
type SessionClosed struct {
	Count int         `json:"count"`
	Root  domain.Hash `json:"root"` // RFC 6962, over the hashes of the actions
}

// EventType implements [domain.Event].
func (SessionOpened) EventType() domain.Type { return "shop.session_opened.v1" }

// EventType implements [domain.Event].
func (SessionAction) EventType() domain.Type { return "shop.session_action.v1" }

// EventType implements [domain.Event].
func (SessionClosed) EventType() domain.Type { return "shop.session_closed.v1" }

func (SessionOpened) shopEvent() {}
func (SessionAction) shopEvent() {}
func (SessionClosed) shopEvent() {}

// Converse asks to record a conversation, from its opening to its close, in one.
type Converse struct {
	Target  domain.Hash
	Actions []domain.Hash
}

func (Converse) shopCommand() {}

func converse(s State, c Converse) ([]Event, error) {
	events, err := step(s, SessionOpened{c.Target}, StateSent)
	if err != nil {
		return nil, err
	}
	for n, h := range c.Actions {
		events = append(events, SessionAction{n, h})
	}
	return append(events, SessionClosed{len(c.Actions), merkle.Root(c.Actions)}), nil
}

// conversed returns the command that gives the events of a session, of which the
// first is a [SessionOpened].
func conversed(events []Event) (Converse, error) {
	var c Converse
	for _, e := range events {
		switch e := e.(type) {
		case SessionOpened:
			c.Target = e.Target
		case SessionAction:
			c.Actions = append(c.Actions, e.Hash)
		case SessionClosed:
		case Committed, Sent, PaymentReserved, PaymentSettled, Replied, Judged, Missed, Cancelled, Revealed, Erased:
			return c, fmt.Errorf("a %s does not belong into a session: %w", e.EventType(), domain.ErrInvalid)
		}
	}
	return c, nil
}
