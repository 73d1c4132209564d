// Package agents is how tasks reach the agents and how their answers come back.
// It holds what the clients of all protocols share: which addresses may be
// reached and how ([Net]), who asks ([Sender]), and one conversation over
// HTTP/1.1 ([Line]). Packages a2a and mcp speak the protocols; package house
// serves the two demo agents; package agenttest checks clients.
//
// One invariant holds for every task: nothing of it leaves before its [Gate] has
// opened, and it is sent at most once. A reset, a timeout or a 5xx is final;
// only the steps that a protocol itself asks for are repeated.
package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/karatum/mystery/domain/task"
)

// A Gate decides at the last moment whether a task may still be sent. It is
// called when a connection stands and its TLS handshake is done, before the first
// byte of a request is written; where a task takes several requests, it is called
// again before the one that carries the question. If it returns an error, no byte
// is written from then on. Otherwise release is called once, as soon as that
// request has been written or has failed. ctx ends five seconds after the call
// began, and with it the hold: the connection is closed and release is called.
type Gate func(ctx context.Context) (release func(), err error)

// A Target is where and how an endpoint takes tasks, as its surface said when
// it was last observed. It can be stored, so that a send fetches no card.
type Target struct {
	URL     string `json:"url"`
	Dialect string `json:"dialect,omitempty"` // of A2A: "1.0" or "0.3"
	PayTo   string `json:"payTo,omitempty"`   // of x402: whom it takes money for
}

// A Call is one task on its way to an agent.
type Call struct {
	Target   Target
	Ask      task.Ask
	Sender   Sender
	Deadline time.Duration // for the whole task, from the dial to the last byte
	Gate     Gate          // nil: open

	Exchanged func(Exchange) // called with each exchange when it is over, in order; nil: with none

	// Through is, for a resource that is for sale, what pays for it on the way; nil:
	// nothing is paid. See [Line.Fetch].
	Through func(http.RoundTripper) http.RoundTripper
}

// A Reply is what came of a call that was carried out.
type Reply struct {
	// Outcome is empty when an answer came and is to be graded; otherwise it is
	// error, timeout, blocked or refused, and Code says why.
	Outcome task.Outcome
	Code    string

	Status int    // the HTTP status of the answer; 0 if none came
	Text   string // what the grader reads
	Raw    []byte // the JSON-RPC message or body that all the above derives from

	// Latency is the time between the sending of the request that carries the
	// task and the last byte of its answer; 0 if that request was never sent.
	Latency time.Duration

	// RetryAfter is how long the host asks to be left alone; 0 if it does not. It
	// speaks of the next task: this one is not sent again.
	RetryAfter time.Duration
}

// Codes of blocked: why nothing can be said about the agent. Further parts of
// the programme add codes of their own.
const (
	PrivateAddress       = "private_address"       // it, or where it redirects to, is no address of the public internet
	UnsupportedTransport = "unsupported_transport" // it is reached only in ways that we do not speak or that the consent does not cover
	AuthWall             = "auth_wall"             // it wants credentials
	PaymentCap           = "payment_cap"           // it wants to be paid, and not as the consent and we allow
	BotWall              = "bot_wall"              // something that wants to see a browser answers in its place
	RateLimited          = "rate_limited"          // a limit against us
	ToolGone             = "tool_gone"             // the tool is not listed any more
)

// Codes of error. There is also the code that the agent itself gave, of JSON-RPC
// or HTTP.
const (
	NoCard    = "no_card"   // no agent card was found
	Protocol  = "protocol"  // what came is not the protocol
	TooLarge  = "too_large" // what came exceeds a limit
	Transport = "transport" // no connection, or one that broke
	Failed    = "failed"    // the agent or its tool reports that it failed
)

// An Error says why an agent gave nothing that could be graded, or no surface.
// It is about the agent or the way to it; an error of another type says that
// the call itself was not carried out.
type Error struct {
	Outcome task.Outcome // error, timeout, blocked or refused
	Code    string
	Status  int    // the HTTP status, if one came
	Raw     []byte // what came in place of an answer
	Reason  string // for people

	RetryAfter time.Duration // as in [Reply]
}

// Error implements the error interface.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s: %s", e.Outcome, e.Reason)
	}
	return fmt.Sprintf("%s (%s): %s", e.Outcome, e.Code, e.Reason)
}

// Settle turns the error of a conversation into a part of the reply if it is an
// [Error], which is about the agent, and returns any other.
func (r Reply) Settle(err error) (Reply, error) {
	var e *Error
	if !errors.As(err, &e) {
		return r, err
	}
	r.Outcome, r.Code, r.RetryAfter = e.Outcome, e.Code, e.RetryAfter
	if e.Status != 0 {
		r.Status = e.Status
	}
	if e.Raw != nil {
		r.Raw = e.Raw
	}
	return r, nil
}

// refusal returns the Error for an answer whose HTTP status alone decides,
// whatever its body says, or nil.
func refusal(status int, h http.Header, body []byte) *Error {
	e := &Error{Outcome: task.Blocked, Status: status, Raw: body, RetryAfter: retryAfter(h)}
	switch {
	case isBotWall(status, h, body):
		e.Code, e.Reason = BotWall, "a page that wants to see a browser answers in place of the agent"
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		e.Code, e.Reason = AuthWall, fmt.Sprintf("the agent wants credentials (HTTP %d)", status)
	case status == http.StatusPaymentRequired:
		e.Code, e.Reason = PaymentCap, "the agent wants to be paid (HTTP 402)"
	case status == http.StatusTooManyRequests:
		e.Code, e.Reason = RateLimited, "the agent limits our requests (HTTP 429)"
	default:
		return nil
	}
	return e
}

// unreadable returns the Error for an answer that is not the protocol.
func unreadable(status int, h http.Header, body []byte) *Error {
	if e := refusal(status, h, body); e != nil {
		return e
	}
	e := &Error{Outcome: task.Error, Code: Protocol, Status: status, Raw: body, RetryAfter: retryAfter(h)}
	e.Reason = fmt.Sprintf("HTTP %d with a body of type %q is no JSON-RPC answer", status, h.Get("Content-Type"))
	if status >= 400 {
		e.Code = strconv.Itoa(status)
	}
	return e
}

// maxRetryAfter is the longest time for which a host is left alone at its word.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the Retry-After header (RFC 9110, section 10.2.3): seconds, or
// a moment, which is compared with the clock of the host that wrote it.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, min(until.Sub(now), maxRetryAfter))
}
