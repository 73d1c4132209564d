package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
)

// A fieldOutage is a field in which some kinds of endpoints cannot be reached
// until a moment.
type fieldOutage struct {
	next interface {
		Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error)
		Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error)
	}
	down func(kind task.Kind) bool
}

func (f *fieldOutage) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	if f.down(kind) {
		return task.Surface{}, agents.Target{}, &agents.Error{Outcome: task.Error, Code: agents.Transport, Reason: "no answer"}
	}
	return f.next.Observe(ctx, kind, url, s)
}

func (f *fieldOutage) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	return f.next.Ask(ctx, kind, c)
}

// TestEndpointComesUpAfterPlanning gives a consent while one endpoint is down, so
// that the first day is planned without it, and starts it afterwards. A worker
// that then begins anew must find the day as it was sealed.
func TestEndpointComesUpAfterPlanning(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]task.Kind{"one endpoint": {task.MCP}, "all endpoints": {task.A2A, task.MCP}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, consents := open(t, "19")
			up := s.start.Add(23 * time.Hour) // the first plan is sealed at 22:00
			s.prog.Worker.Field = &fieldOutage{next: s.prog.Worker.Field, down: func(k task.Kind) bool {
				for _, d := range kinds {
					if k == d && s.clock.Now().Before(up) {
						return true
					}
				}
				return false
			}}
			s.days(t, 1.5)
			s.restart()
			s.days(t, 4.1)
			s.history(t).check(t)
			s.audit(t, consents)
			for name, p := range consents {
				first := opens(t, s, plan.ConsentID(p.Nonce))[0]
				for i, e := range p.Endpoints {
					note := plan.Note{Endpoint: consent.EndpointID(i), Reason: plan.Unread, Cause: agents.Transport}
					if said := slices.ContainsFunc(first.Notes, func(n plan.Note) bool { return cmp.Equal(n, note) }); said != slices.Contains(kinds, e.Kind) {
						t.Errorf("%s: the first day says %+v of the %s endpoint, which was down: %t", name, first.Notes, e.Kind, !said)
					}
				}
			}
		})
	}
}
