package house

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/gowebpki/jcs"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// executor answers each A2A message with a message.
type executor struct{ agent *agent }

// Execute implements [a2asrv.AgentExecutor].
func (x executor) Execute(ctx context.Context, e *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		var texts []string
		for _, p := range e.Message.Parts {
			if t := p.Text(); t != "" {
				texts = append(texts, t)
			}
		}
		r := request{header: http.Header{}, prompt: strings.Join(texts, "\n")}
		for name, values := range e.ServiceParams.List() {
			r.header[http.CanonicalHeaderKey(name)] = values
		}
		r.solve = func() (solution, bool) { return solve(r.prompt) }
		text, err := x.agent.reply(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text)), nil)
	}
}

// Cancel implements [a2asrv.AgentExecutor]. There is never anything to cancel.
func (executor) Cancel(_ context.Context, e *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(e, a2a.TaskStateCanceled, nil), nil)
	}
}

// tool is an MCP tool: solve reads its arguments, and reports false for those it
// does not understand.
type tool struct {
	name, description, schema string
	solve                     func(arguments json.RawMessage) (solution, bool)
}

const questionSchema = `{"type":"object","properties":{"question":{"type":"string","description":"The question in words"}},"required":["question"]}`

var tools = []tool{
	{
		"arithmetic", "Percentages, percentage changes, averages, bills split with a tip and compound interest, from a question in words.",
		questionSchema, solveQuestion,
	},
	{
		"convert_units", "Converts a value from one unit to another.",
		`{"type":"object","properties":{
			"value":{"type":"number","description":"The value to convert"},
			"from":{"type":"string","description":"Its unit, such as miles"},
			"to":{"type":"string","description":"The unit wanted, such as kilometers"}},
		"required":["value","from","to"]}`, solveConversion,
	},
	{
		"date_calculation", "Adds days to a date, names the day of the week or counts the days between dates, from a question in words.",
		questionSchema, solveQuestion,
	},
	{
		"hash_and_encode", "SHA-256 and Keccak-256 digests and Base64, from a question in words.",
		questionSchema, solveQuestion,
	},
	{
		"ethereum_helper", "Wei, gwei and ETH, hex numbers, function selectors and EIP-55 checksums, from a question in words.",
		questionSchema, solveQuestion,
	},
	{
		"invoice_total", "The total of an invoice pasted into a question in words.",
		questionSchema, solveQuestion,
	},
}

func solveQuestion(arguments json.RawMessage) (solution, bool) {
	var in struct {
		Question string `json:"question"`
	}
	if json.Unmarshal(arguments, &in) != nil {
		return solution{}, false
	}
	return solve(in.Question)
}

func solveConversion(arguments json.RawMessage) (solution, bool) {
	var in struct {
		Value json.Number `json:"value"`
		From  string      `json:"from"`
		To    string      `json:"to"`
	}
	if json.Unmarshal(arguments, &in) != nil {
		return solution{}, false
	}
	return convert(in.Value.String(), in.From, in.To, 6)
}

func (a *agent) call(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		canonical, err := jcs.Transform(req.Params.Arguments)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", t.name, err)
		}
		r := request{
			header: http.Header{},
			prompt: t.name + "\n" + string(canonical),
			solve:  func() (solution, bool) { return t.solve(req.Params.Arguments) },
		}
		if req.Extra != nil {
			r.header = req.Extra.Header
		}
		text, err := a.reply(ctx, r)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// reply answers after the time that the agent takes to think.
func (a *agent) reply(ctx context.Context, r request) (string, error) {
	text, pause := a.answer(r)
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
