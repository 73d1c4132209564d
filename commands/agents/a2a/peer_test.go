//go:build peers

package a2a_test

import (
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/a2a"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// Agents made with the SDK of others are understood, whoever asks and however they
// answer.
func TestPeerSDK(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ version, dialect string }{{"0.3", a2a.V0}, {"1.0", a2a.V1}, {"both", a2a.V1}} {
		t.Run(tt.version, func(t *testing.T) {
			t.Parallel()
			url := agenttest.FirstLine(t, agenttest.Node(t, nil, "a2a.mjs", tt.version))
			c := a2a.Client{Net: agents.Loopback(time.Now, nil)}
			pool := identity.Pool()
			surface, target, err := c.Observe(t.Context(), url, agents.As(pool[0]))
			if err != nil {
				t.Fatal(err)
			}
			if len(surface.Skills) != 1 || surface.Skills[0].ID != "repeat" || target.Dialect != tt.dialect {
				t.Errorf("Observe = %+v, %+v", surface, target)
			}
			other := target
			other.Dialect = map[string]string{a2a.V0: a2a.V1, a2a.V1: a2a.V0}[target.Dialect]
			for i, who := range pool {
				text := []string{"message for you", "task for you", "slow task"}[i%3]
				call := agents.Call{Target: target, Ask: task.Ask{Text: text}, Sender: agents.As(who), Deadline: time.Minute}
				if i%4 == 3 {
					call.Target = other // a card that lies
				}
				reply, err := c.Ask(t.Context(), call)
				if err != nil || reply.Outcome != "" || !strings.Contains(reply.Text, "You said: "+text) {
					t.Errorf("%s in dialect %s of %q = %+v, %v", who.Name, call.Target.Dialect, text, reply, err)
				}
			}
		})
	}
}
