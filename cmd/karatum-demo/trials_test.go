package main

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/replay"
)

// What the trial harness reports is half of the exam that the field is compared with, and
// stands apart from what was examined here; what it withdrew, and what says nothing of the
// agent, is no part of it.
func TestTrialsAreComparedWithTheField(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := open(t, "72")
	const ref = agent.Ref("build:steady")
	harness := producertest.New("trial-harness")
	m := ledger.Meta{Actor: "operator", Command: "register the harness"}
	if err := s.prog.Service.Producer(t.Context(), m, harness.Name, producer.Register(harness.Registered("exam"))); err != nil {
		t.Fatal(err)
	}
	public, err := url.Parse(publicURL)
	if err != nil {
		t.Fatal(err)
	}
	c := &producers.Client{URL: s.api.base, Authority: public.Host, Signer: harness.Signer(), Now: s.clock.Now}
	var events []producer.CloudEvent
	sign := func(id string, e producer.Source) {
		t.Helper()
		signed, err := c.Sign(exam.StreamOf(ref), e, id, s.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, signed)
	}
	for outcome, n := range map[exam.TrialOutcome]int{
		exam.Success: 25, exam.Partial: 2, exam.Failure: 1, exam.Unknown: 3, exam.Disputed: 2, exam.Revoked: 1,
	} {
		for i := range n {
			id := fmt.Sprint(outcome, " ", i)
			sign(id, exam.AttemptRecorded{Agent: ref, Attempt: id, Family: "dates", Outcome: outcome, LatencyMs: 900})
		}
	}
	sign("withdrawn", exam.AttemptWithdrawn{Agent: ref, Attempt: "SUCCESS 7", Reason: "two right answers"})
	if _, err := c.Send(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	run := worker.Exam{Run: "run-1", Source: "demo-harness", Seed: s.flags.draw("exam"), Attempts: 6, Payload: consents["steady"]}
	if err := s.prog.Worker.Examine(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	s.days(t, 3.1)

	var answer struct {
		Items []struct {
			Exam    finding.Arm      `json:"exam"`
			Sources []finding.Source `json:"examSources"`
		} `json:"items"`
	}
	if err := s.api.get(t.Context(), "/v1/mystery/findings", url.Values{"agent": {string(ref)}}, &answer); err != nil || len(answer.Items) == 0 {
		t.Fatalf("the findings on %s: %d, %v", ref, len(answer.Items), err)
	}
	got := answer.Items[0]
	ran := got.Exam.Passed - 24
	want := []finding.Source{{Source: "run:demo-harness", Counted: 6, Passed: ran}, {Source: "trial", Counted: 27, Passed: 24}}
	if diff := cmp.Diff(want, got.Sources); diff != "" || got.Exam.Counted != 33 {
		t.Errorf("%d attempts count, of these sources (-want +got):\n%s", got.Exam.Counted, diff)
	}

	// The whole ledger is read again, with the signature of each attempt in it.
	again := replay.New(s.prog.Service.Catalog)
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err == nil {
			err = again.Add(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := again.End(); err != nil {
		t.Error(err)
	}
}
