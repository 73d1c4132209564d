// Package a2a is a thin client of the Agent2Agent protocol over JSON-RPC and
// HTTP. It reads the agent cards of versions 0.2, 0.3 and 1.0, alone or merged in
// one document, speaks the two dialects that there are on the wire (0.3, which
// 0.2 shares, and 1.0), and follows a task to its end by polling.
//
// It is lenient in what it reads, as agents in the wild are, and sends one
// message per task. The two things it repeats are the reading of a task's state
// and, once, a message that the agent rejected for its dialect. It does not
// stream, push or authenticate.
package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/task"
)

// The dialects, as they stand in [agents.Target].
const (
	V1 = "1.0"
	V0 = "0.3"
)

// Codes of JSON-RPC errors that say that the dialect is not spoken.
const (
	methodNotFound      = -32601
	versionNotSupported = -32009
)

// A Client asks A2A agents. Its methods may be called from several goroutines.
type Client struct{ Net agents.Net }

// Observe reads the card of the agent registered at a URL and returns its skills
// and the interface to ask. It returns an [agents.Error] if there is none.
func (c Client) Observe(ctx context.Context, registered string, as agents.Sender) (task.Surface, agents.Target, error) {
	line := c.Net.Line(ctx, as, nil)
	defer line.Close()
	card, err := findCard(ctx, line, c.Net, registered)
	if err != nil {
		return task.Surface{}, agents.Target{}, err
	}
	target, err := card.choose(c.Net)
	if err != nil {
		return task.Surface{}, agents.Target{}, err
	}
	return task.Surface{Kind: task.A2A, Skills: card.skills()}, target, nil
}

// Ask sends one text and waits for the answer. The error is about us: a gate
// that stayed shut, a context that was cancelled; all that is about the agent
// stands in the reply.
func (c Client) Ask(ctx context.Context, call agents.Call) (agents.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	line := c.Net.Line(ctx, call.Sender, call.Gate).Record(call.Exchanged)
	defer line.Close()
	var reply agents.Reply
	err := ask(ctx, line, call, &reply)
	return reply.Settle(err)
}

func ask(ctx context.Context, line *agents.Line, call agents.Call, reply *agents.Reply) error {
	dialect := call.Target.Dialect
	a, err := send(ctx, line, call, dialect)
	if err == nil && a.Error != nil && (a.Error.Code == methodNotFound || a.Error.Code == versionNotSupported) {
		// Cards that say 1.0 and agents that speak 0.3 are common, and the reverse.
		dialect = other(dialect)
		a, err = send(ctx, line, call, dialect)
	}
	if err != nil {
		return err
	}
	return follow(ctx, line, call.Target.URL, dialect, a, reply)
}

func other(dialect string) string {
	if dialect == V1 {
		return V0
	}
	return V1
}

// follow reads the answer and the state of its task until that is final. The
// latency counts from the message to the last of these reads.
func follow(ctx context.Context, line *agents.Line, url, dialect string, a *agents.Answer, reply *agents.Reply) error {
	for delay := firstPoll; ; delay = min(2*delay, lastPoll) {
		reply.Status, reply.Raw = a.Status, a.Raw
		reply.Latency += a.Latency
		if a.Error != nil {
			return a.Fail()
		}
		r, err := parseResult(a)
		if err != nil {
			return err
		}
		if !r.pending() {
			reply.Text = r.text
			return r.verdict(a)
		}
		if r.taskID == "" {
			return malformed(a, "a task that is not done has no id to ask for it again")
		}
		if err := wait(ctx, delay); err != nil {
			return err
		}
		reply.Latency += delay
		if a, err = get(ctx, line, url, dialect, r.taskID); err != nil {
			return err
		}
	}
}

// Pauses between two looks at a task.
const (
	firstPoll = 200 * time.Millisecond
	lastPoll  = 5 * time.Second
)

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return &agents.Error{Outcome: task.Timeout, Reason: "the agent's task was not done at the deadline"}
}

// The requests, their keys in the order in which the libraries write them.
type (
	sendV0 struct {
		Message       messageV0       `json:"message"`
		Configuration configurationV0 `json:"configuration"`
	}
	messageV0 struct {
		Kind      string   `json:"kind"`
		MessageID string   `json:"messageId"`
		Role      string   `json:"role"`
		Parts     []partV0 `json:"parts"`
	}
	partV0 struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	configurationV0 struct {
		Accepted []string `json:"acceptedOutputModes"`
		Blocking bool     `json:"blocking"`
	}

	sendV1 struct {
		Message       messageV1       `json:"message"`
		Configuration configurationV1 `json:"configuration"`
	}
	messageV1 struct {
		MessageID string   `json:"messageId"`
		Role      string   `json:"role"`
		Parts     []partV1 `json:"parts"`
	}
	partV1 struct {
		Text string `json:"text"`
	}
	configurationV1 struct {
		Accepted []string `json:"acceptedOutputModes"` // waiting is what 1.0 does unless told otherwise
	}

	taskQuery struct {
		ID string `json:"id"`
	}
)

var textOnly = []string{"text/plain"}

func send(ctx context.Context, line *agents.Line, call agents.Call, dialect string) (*agents.Answer, error) {
	id, text := call.Sender.MessageID(), call.Ask.Text
	if dialect == V1 {
		return line.RPC(ctx, call.Target.URL, head(dialect), "SendMessage", sendV1{
			Message:       messageV1{id, "ROLE_USER", []partV1{{text}}},
			Configuration: configurationV1{textOnly},
		}, nil)
	}
	return line.RPC(ctx, call.Target.URL, head(dialect), "message/send", sendV0{
		Message:       messageV0{"message", id, "user", []partV0{{"text", text}}},
		Configuration: configurationV0{textOnly, true},
	}, nil)
}

func get(ctx context.Context, line *agents.Line, url, dialect, id string) (*agents.Answer, error) {
	method := "tasks/get"
	if dialect == V1 {
		method = "GetTask"
	}
	return line.RPC(ctx, url, head(dialect), method, taskQuery{id}, nil)
}

// head returns the headers of a dialect. A server takes a request without
// A2A-Version for 0.3, also one whose method exists in 1.0 only. What a client
// accepts is left to its library, as most scripts leave it.
func head(dialect string) http.Header {
	if dialect == V1 {
		return http.Header{"A2A-Version": {V1}} // spelled as the specification does
	}
	return nil
}

// result is a Message or a Task, of any version.
type result struct {
	taskID string
	state  string // in the spelling of 0.3; "completed" for a Message
	text   string // what the grader reads
}

type (
	part struct {
		Text string          `json:"text"`
		Data json.RawMessage `json:"data"`
	}
	message struct {
		Parts []part `json:"parts"`
	}
	wireTask struct {
		ID     string `json:"id"`
		Status struct {
			State   string   `json:"state"`
			Message *message `json:"message"`
		} `json:"status"`
		Artifacts []message `json:"artifacts"`
	}
)

// parseResult tells Message and Task apart by their wrapper (1.0), by "kind"
// (0.3) or by their shape (older servers).
func parseResult(a *agents.Answer) (result, error) {
	var w struct {
		Kind    string          `json:"kind"`
		Task    json.RawMessage `json:"task"`
		Message json.RawMessage `json:"message"`
		Status  json.RawMessage `json:"status"`
		Parts   json.RawMessage `json:"parts"`
	}
	if err := json.Unmarshal(a.Result, &w); err != nil {
		return result{}, malformed(a, "the result is no object")
	}
	switch {
	case w.Task != nil:
		return parseTask(a, w.Task)
	case w.Message != nil:
		return parseMessage(a, w.Message)
	case w.Kind == "task", w.Status != nil:
		return parseTask(a, a.Result)
	case w.Kind == "message", w.Parts != nil:
		return parseMessage(a, a.Result)
	}
	return result{}, malformed(a, "the result is neither a message nor a task")
}

func parseMessage(a *agents.Answer, raw json.RawMessage) (result, error) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return result{}, malformed(a, "the result is no message")
	}
	return result{state: "completed", text: text(m)}, nil
}

// parseTask reads a task. Its artifacts come before the message of its status;
// some agents answer in the one, some in the other, some in both.
func parseTask(a *agents.Answer, raw json.RawMessage) (result, error) {
	var t wireTask
	if err := json.Unmarshal(raw, &t); err != nil {
		return result{}, malformed(a, "the result is no task")
	}
	messages := t.Artifacts
	if t.Status.Message != nil {
		messages = append(messages, *t.Status.Message)
	}
	state := strings.ToLower(strings.TrimPrefix(t.Status.State, "TASK_STATE_"))
	return result{t.ID, strings.ReplaceAll(state, "_", "-"), text(messages...)}, nil
}

// text joins the text parts, or the data parts as JSON if there is no text.
func text(messages ...message) string {
	var texts, data []string
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Text != "" {
				texts = append(texts, p.Text)
			}
			if p.Data != nil {
				data = append(data, string(p.Data))
			}
		}
	}
	if len(texts) == 0 {
		texts = data
	}
	return strings.Join(texts, "\n")
}

// pending reports whether the state is one to look at again.
func (r result) pending() bool {
	return slices.Contains([]string{"submitted", "working", "unknown", "unspecified"}, r.state)
}

// verdict returns nil if there is an answer to grade, and what else the state
// means.
func (r result) verdict(a *agents.Answer) error {
	e := &agents.Error{Outcome: task.Error, Code: agents.Failed, Status: a.Status, Raw: a.Raw}
	switch r.state {
	case "completed":
		return nil
	case "input-required":
		// Agents put whole answers here to keep the conversation open.
		if r.text != "" {
			return nil
		}
		e.Outcome, e.Code, e.Reason = task.Refused, "", "the agent asked back without a word"
	case "rejected":
		e.Outcome, e.Code, e.Reason = task.Refused, "", "the agent rejected the task"
	case "auth-required":
		e.Outcome, e.Code, e.Reason = task.Blocked, agents.AuthWall, "the agent wants credentials"
	case "failed", "canceled", "cancelled":
		e.Reason = "the agent reports that its task " + r.state
	default:
		return malformed(a, fmt.Sprintf("the task is in the unknown state %.40q", r.state))
	}
	return e
}

func malformed(a *agents.Answer, reason string) error {
	return &agents.Error{Outcome: task.Error, Code: agents.Protocol, Status: a.Status, Raw: a.Raw, Reason: reason}
}
