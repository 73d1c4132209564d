package session_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/session"
)

var (
	recorder = producertest.New("session-recorder")
	stream   = session.StreamOf("ses_1")
	by       = producer.Signed{Producer: recorder.Name}
)

func opened(changes ...func(*session.Opened)) session.Opened {
	e := session.Opened{
		Session: "ses_1", Agent: "build:42", Kind: session.Shield, Parent: "sc_1", Policy: domain.Hash{1}, StartedAt: "2026-10-16T10:00:00.000Z",
		Refs: session.Refs{A2AContext: "ctx-1"}, Signed: by,
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func action(t *testing.T, n int64, what session.Action, changes ...func(*session.ActionRecorded)) session.ActionRecorded {
	t.Helper()
	e := session.ActionRecorded{
		Session: "ses_1", N: n, Actor: "agent", Action: what, Name: "transfer", Decision: "none", At: "2026-10-16T10:00:01.000Z", DurationMs: 12,
	}
	for _, change := range changes {
		change(&e)
	}
	return producertest.Sign(t, recorder, stream, "action", e)
}

func call(e *session.ActionRecorded) { e.Call = "c1" }

func denied(e *session.ActionRecorded) { e.Decision = session.Deny }

func cost(amount, asset string) func(*session.ActionRecorded) {
	return func(e *session.ActionRecorded) { e.Cost = &session.Cost{Amount: amount, Asset: asset} }
}

func closed(t *testing.T, actions ...session.ActionRecorded) session.Closed {
	t.Helper()
	root, err := session.Root(actions)
	if err != nil {
		t.Fatal(err)
	}
	return session.Closed{Session: "ses_1", Reason: "completed", Count: int64(len(actions)), Root: root, Signed: by}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	hello, bye := action(t, 0, "message"), action(t, 1, "message")
	called, answered := action(t, 0, session.ToolCall, call), action(t, 1, session.ToolResult, call)
	refused := action(t, 0, session.ToolCall, call, denied)
	policy := action(t, 1, "policy_decision", call, denied)
	quote := action(t, 0, session.PaymentQuote, call, cost("1000", "usdc"))
	end := closed(t, hello)
	open := func(change func(*session.Opened)) session.Command { return session.Open(opened(change)) }
	record := func(what session.Action, changes ...func(*session.ActionRecorded)) session.Command {
		return session.RecordAction(action(t, 0, what, changes...))
	}
	stranger, elsewhere := hello, hello
	stranger.Producer, elsewhere.Session = "another", "ses_2"
	short, other := end, end
	short.Count, other.Root = 0, domain.Hash{}

	type events = []session.Event
	domaintest.Decide(t, session.Decider, []domaintest.Case[session.Command, session.Event]{
		{Name: "open", When: session.Open(opened()), Then: events{opened()}},
		{Name: "open twice", Given: events{opened()}, When: session.Open(opened()), Err: domain.ErrConflict},
		{Name: "open a shop", When: open(func(e *session.Opened) { e.Kind = "shop" }), Err: domain.ErrInvalid},
		{Name: "open without a parent", When: open(func(e *session.Opened) { e.Parent = "" }), Err: domain.ErrInvalid},
		{Name: "open a runtime session with a parent", When: open(func(e *session.Opened) { e.Kind = session.Runtime }), Err: domain.ErrInvalid},
		{Name: "open for nobody", When: open(func(e *session.Opened) { e.Signed = producer.Signed{} }), Err: domain.ErrInvalid},
		{Name: "open at no moment", When: open(func(e *session.Opened) { e.StartedAt = "yesterday" }), Err: domain.ErrInvalid},
		{Name: "act before opening", When: session.RecordAction(hello), Err: domain.ErrNotFound},
		{Name: "act", Given: events{opened()}, When: session.RecordAction(hello), Then: events{hello}},
		{Name: "act again", Given: events{opened(), hello}, When: session.RecordAction(bye), Then: events{bye}},
		{Name: "act with a gap", Given: events{opened()}, When: session.RecordAction(bye), Err: domain.ErrConflict},
		{Name: "act twice", Given: events{opened(), hello}, When: session.RecordAction(hello), Err: domain.ErrConflict},
		{Name: "act of a stranger", Given: events{opened()}, When: session.RecordAction(stranger), Err: domain.ErrForbidden},
		{Name: "act of another session", Given: events{opened()}, When: session.RecordAction(elsewhere), Err: domain.ErrInvalid},
		{Name: "an action of no name", Given: events{opened()}, When: record("think"), Err: domain.ErrInvalid},
		{Name: "a call without an id", Given: events{opened()}, When: record(session.ToolCall), Err: domain.ErrInvalid},
		{Name: "a price without a cost", Given: events{opened()}, When: record(session.PaymentQuote), Err: domain.ErrInvalid},
		{Name: "a price in floats", Given: events{opened()}, When: record(session.PaymentQuote, cost("1.5", "usdc")), Err: domain.ErrInvalid},
		{Name: "a result of a call", Given: events{opened(), called}, When: session.RecordAction(answered), Then: events{answered}},
		{Name: "a result of no call", Given: events{opened()}, When: record(session.ToolResult, call), Err: domain.ErrInvalid},
		{Name: "a result of what was denied", Given: events{opened(), refused}, When: session.RecordAction(answered), Err: domain.ErrInvalid},
		{
			Name: "a result of what was denied afterwards", Given: events{opened(), called, policy},
			When: session.RecordAction(action(t, 2, session.ToolResult, call)), Err: domain.ErrInvalid,
		},
		{
			Name: "a second result", Given: events{opened(), called, answered},
			When: session.RecordAction(action(t, 2, session.ToolResult, call)), Err: domain.ErrConflict,
		},
		{
			Name: "a payment of the price", Given: events{opened(), quote},
			When: session.RecordAction(action(t, 1, session.PaymentSettled, call, cost("1000", "usdc"))),
			Then: events{action(t, 1, session.PaymentSettled, call, cost("1000", "usdc"))},
		},
		{
			Name: "a payment of more", Given: events{opened(), quote},
			When: session.RecordAction(action(t, 1, session.PaymentSettled, call, cost("1001", "usdc"))), Err: domain.ErrInvalid,
		},
		{
			Name: "a payment in another asset", Given: events{opened(), quote},
			When: session.RecordAction(action(t, 1, session.PaymentSettled, call, cost("1", "eurc"))), Err: domain.ErrInvalid,
		},
		{Name: "close", Given: events{opened(), hello}, When: session.Close(end), Then: events{end}},
		{Name: "close without actions", Given: events{opened()}, When: session.Close(closed(t)), Then: events{closed(t)}},
		{Name: "close with another count", Given: events{opened(), hello}, When: session.Close(short), Err: domain.ErrInvalid},
		{Name: "close with another root", Given: events{opened(), hello}, When: session.Close(other), Err: domain.ErrInvalid},
		{Name: "close twice", Given: events{opened(), hello, end}, When: session.Close(end), Err: domain.ErrConflict},
		{Name: "act after closing", Given: events{opened(), hello, end}, When: session.RecordAction(bye), Err: domain.ErrConflict},
	})
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, session.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, session.Events, os.DirFS("testdata"))
}
