package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/programme"
)

// What is paused, since when and why, is public, and so are the operator's keys.
func TestPausesAndKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	state := func() map[string]any {
		got := w.get(root)
		return map[string]any{"paused": got["paused"], "pauses": got["pauses"], "operatorKeys": got["operatorKeys"]}
	}
	first := w.service.Secrets.Keys()[0].String()
	registered := state()["operatorKeys"].([]any)[0].(map[string]any)["since"]
	expect := func(when string, want map[string]any) {
		t.Helper()
		if diff := cmp.Diff(want, state()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	keys := []any{map[string]any{"key": first, "since": registered}}
	expect("at first", map[string]any{"paused": false, "pauses": []any{}, "operatorKeys": keys})

	do := func(c programme.Command) string {
		t.Helper()
		w.pass(time.Second)
		w.ok(w.service.Programme(t.Context(), w.meta(t.Name()+w.clock().String()), c))
		w.ok(w.runner.CatchUp(t.Context()))
		return w.get(root)["asOf"].(string)
	}
	host := do(programme.Pause{Scope: programme.OfHost("agent.example:443"), Reason: "it complains"})
	all := do(programme.Pause{Scope: programme.Everything, Reason: "incident"})
	pauses := []any{
		map[string]any{"scope": "host/agent.example:443", "since": host, "reason": "it complains"},
		map[string]any{"scope": "everything", "since": all, "reason": "incident"},
	}
	expect("paused", map[string]any{"paused": true, "pauses": pauses, "operatorKeys": keys})
	do(programme.Resume{Scope: programme.Everything, Reason: "over"})
	expect("resumed in part", map[string]any{"paused": false, "pauses": pauses[:1], "operatorKeys": keys})

	next := programme.RegisterKey{Key: programme.OperatorKey([32]byte{2})}
	second := do(next)
	retired := do(programme.RetireKey{Key: w.service.Secrets.Keys()[0], Reason: "a year is over"})
	expect("rotated", map[string]any{"paused": false, "pauses": pauses[:1], "operatorKeys": []any{
		map[string]any{"key": first, "since": registered, "retired": retired, "reason": "a year is over"},
		map[string]any{"key": next.Key.String(), "since": second},
	}})
}
