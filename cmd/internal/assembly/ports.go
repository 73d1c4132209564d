package assembly

import (
	"context"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/a2a"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain/task"
)

// field is the world of agents, by protocol.
type field struct{ net agents.Net }

func (f field) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	switch kind {
	case task.A2A:
		return a2a.Client{Net: f.net}.Observe(ctx, url, s)
	case task.MCP:
		return mcp.Client{Net: f.net}.Observe(ctx, url, s)
	case task.X402:
		return x402.Client{Net: f.net}.Observe(ctx, url, s)
	default:
		return task.Surface{}, agents.Target{}, unsupported(kind)
	}
}

func (f field) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	switch kind {
	case task.A2A:
		return a2a.Client{Net: f.net}.Ask(ctx, c)
	case task.MCP:
		return mcp.Client{Net: f.net}.Ask(ctx, c)
	case task.X402:
		return x402.Client{Net: f.net}.Ask(ctx, c)
	default:
		return agents.Reply{}, unsupported(kind)
	}
}

func unsupported(kind task.Kind) error {
	return &agents.Error{
		Outcome: task.Blocked, Code: agents.UnsupportedTransport, Reason: "no client speaks " + string(kind),
	}
}
