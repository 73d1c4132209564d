package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
)

// What producers wrote is shown with the records that it is made of, and each of these
// with a proof that holds.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	l := w.publicLog()
	for i := range 3 {
		id := fmt.Sprint("sc_", i)
		stream := shield.StreamOf(id)
		events := []producer.CloudEvent{signEvent(t, runner, stream, "opened", openedCase(id))}
		for n := range i {
			events = append(events, signEvent(t, runner, stream, fmt.Sprint(n), resisted(id, n)))
		}
		if _, err := w.client(runner).Send(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	aborted := shield.CaseAborted{Case: "sc_0", Reason: "the fork was lost"}
	if _, err := w.client(runner).Send(t.Context(), signEvent(t, runner, shield.StreamOf("sc_0"), "aborted", aborted)); err != nil {
		t.Fatal(err)
	}
	stream := session.StreamOf("ses_1")
	denied := acted("ses_1", 0)
	denied.Decision = session.Deny
	if _, err := w.client(recorder).Send(t.Context(), signEvent(t, recorder, stream, "opened", openedSession("ses_1")),
		signEvent(t, recorder, stream, "0", denied), signEvent(t, recorder, stream, "1", acted("ses_1", 1))); err != nil {
		t.Fatal(err)
	}
	w.ok(w.runner.CatchUp(t.Context()))
	l.publish()

	cases := w.get("/v1/ledger/shield/cases")
	stages := ""
	for _, item := range listed(cases) {
		stages += fmt.Sprint(item["case"], " ", item["stage"], " ", item["attempts"], ", ")
	}
	if stages != "sc_2 decided 2, sc_1 decided 1, sc_0 aborted 0, " {
		t.Errorf("the cases are %s", stages)
	}
	page := w.get("/v1/ledger/shield/cases?limit=2&agent=build:42")
	next, _ := page["nextCursor"].(string)
	if rest := listed(w.get("/v1/ledger/shield/cases?limit=2&agent=build:42&cursor=" + next)); len(rest) != 1 || rest[0]["case"] != "sc_0" {
		t.Errorf("the second page is %v", rest)
	}
	if none := listed(w.get("/v1/ledger/shield/cases?agent=build:demo")); len(none) != 0 {
		t.Errorf("the cases of another agent are %v", none)
	}
	one := w.get("/v1/ledger/shield/cases/sc_2")
	if one["outcome"] != "resisted" || len(proven(one)) != 3 {
		t.Errorf("the case is %v", one)
	}
	held := w.get("/v1/ledger/sessions/ses_1?limit=2")
	if held["actions"] != 2.0 || held["denied"] != 1.0 || held["selfReported"] != true || len(proven(held)) != 2 {
		t.Errorf("the session is %v", held)
	}
	if a := w.do(http.MethodGet, "/v1/ledger/sessions/ses_1?limit=2", ""); !strings.Contains(a.header.Get("Link"), "/v1/ledger/sessions/ses_1?from=3&limit=2") {
		t.Errorf("the next page is %q", a.header.Get("Link"))
	}
	if list := listed(w.get("/v1/ledger/sessions?kind=runtime")); len(list) != 1 || list[0]["session"] != "ses_1" {
		t.Errorf("the sessions are %v", list)
	}
	known := w.get("/v1/ledger/agents/build:42")
	if got := fmt.Sprint(known["shield"], known["sessions"]); !strings.Contains(got, "cases:2 compromised:0 counted:2") || !strings.Contains(got, "runtime:1") {
		t.Errorf("the agent has %s", got)
	}
	lines, _ := w.get(root + "/agents/build:42")["passport"].(map[string]any)
	for line, want := range map[string]string{
		"shield":   "Attacked in 2 cases on copies of it: compromised in 0 (0.0 %, 95 % interval 0.0 to 65.8 %).",
		"sessions": "1 session on record: 0 of trials, 0 of Shield, and 1 in use, as its own side tells. 1 action denied.",
	} {
		l, _ := lines[line].(map[string]any)
		if text, _ := l["text"].(string); !strings.HasPrefix(text, want) || len(objects(l["evidence"])) != 1 {
			t.Errorf("the passport says of %s: %v, want %q", line, l, want)
		}
	}
	for _, list := range []map[string]any{one, held, known} {
		for _, r := range proven(list) {
			path, _ := r["proof"].(string)
			if proof := w.get(path); proof["hash"] != r["hash"] || proof["index"] != r["index"] {
				t.Errorf("the proof at %s is that of %v", path, proof["hash"])
			}
		}
	}
	for _, path := range []string{"/shield/cases/sc_9", "/sessions/ses_9", "/agents/build:9"} {
		if a := w.do(http.MethodGet, "/v1/ledger"+path, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", path, a.status, a.body)
		}
	}
	for _, query := range []string{"/shield/cases?cursor=x", "/sessions?agent=x", "/agents/x"} {
		if a := w.do(http.MethodGet, "/v1/ledger"+query, ""); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d: %s", query, a.status, a.body)
		}
	}
}

// What is not under a checkpoint yet has no proof, and is not shown.
func TestWitnessesAwaitTheirCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish().admit()
	l := w.publicLog()
	l.publish()
	if _, err := w.client(recorder).Send(t.Context(), signEvent(t, recorder, session.StreamOf("ses_1"), "opened", openedSession("ses_1"))); err != nil {
		t.Fatal(err)
	}
	w.ok(w.runner.CatchUp(t.Context()))
	w.ok(l.integrator.Integrate(t.Context()))
	if list := listed(w.get("/v1/ledger/sessions")); len(list) != 0 {
		t.Errorf("before a checkpoint the sessions are %v", list)
	}
	if a := w.do(http.MethodGet, "/v1/ledger/sessions/ses_1", ""); a.status != http.StatusNotFound {
		t.Errorf("before a checkpoint the session is %d", a.status)
	}
	l.publish()
	if list := listed(w.get("/v1/ledger/sessions")); len(list) != 1 {
		t.Errorf("behind a checkpoint the sessions are %v", list)
	}
}

func listed(o map[string]any) (list []map[string]any) { return objects(o["items"]) }

func proven(o map[string]any) []map[string]any { return objects(o["records"]) }

func objects(v any) (list []map[string]any) {
	all, _ := v.([]any)
	for _, item := range all {
		if o, ok := item.(map[string]any); ok {
			list = append(list, o)
		}
	}
	return list
}
