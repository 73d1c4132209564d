package exam_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/task"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	run := func(name string, outcomes ...task.Outcome) exam.RunRecorded {
		r := exam.RunRecorded{Agent: "build:42", Run: name, Source: "demo-harness"}
		for i, o := range outcomes {
			r.Attempts = append(r.Attempts, exam.Attempt{Seed: domain.Hash{byte(i)}, Template: "date.weekday", Outcome: o})
		}
		return r
	}
	one, two := run("run-1", task.Pass, task.Timeout), run("run-2", task.Fail)

	trial := exam.AttemptRecorded{Agent: "build:42", Attempt: "t-1", Family: "unit", Outcome: exam.Success, LatencyMs: 900}
	changed := func(change func(*exam.AttemptRecorded)) exam.RecordAttempt {
		c := trial
		change(&c)
		return exam.RecordAttempt(c)
	}
	gone := exam.AttemptWithdrawn{Agent: "build:42", Attempt: "t-1", Reason: "two right answers"}

	type events = []exam.Event
	domaintest.Decide(t, exam.Decider, []domaintest.Case[exam.Command, exam.Event]{
		{Name: "record a run", When: exam.RecordRun(one), Then: events{one}},
		{Name: "record another run", Given: events{one}, When: exam.RecordRun(two), Then: events{two}},
		{Name: "record a run again", Given: events{one, two}, When: exam.RecordRun(one)},
		{Name: "record other attempts of a run", Given: events{one}, When: exam.RecordRun(run("run-1", task.Fail))},
		{Name: "record a run without a name", When: exam.RecordRun(run("", task.Pass)), Err: domain.ErrInvalid},
		{Name: "record a run without attempts", When: exam.RecordRun(run("run-1")), Err: domain.ErrInvalid},

		{Name: "record a trial attempt", Given: events{one}, When: exam.RecordAttempt(trial), Then: events{trial}},
		{Name: "record it again", Given: events{trial}, When: exam.RecordAttempt(trial)},
		{Name: "record it with another outcome", Given: events{trial}, When: changed(func(a *exam.AttemptRecorded) { a.Outcome = exam.Failure }), Err: domain.ErrConflict},
		{Name: "record it once it is withdrawn", Given: events{trial, gone}, When: exam.RecordAttempt(trial), Err: domain.ErrConflict},
		{Name: "record an outcome that there is not", When: changed(func(a *exam.AttemptRecorded) { a.Outcome = "success" }), Err: domain.ErrInvalid},
		{Name: "record an attempt without an id", When: changed(func(a *exam.AttemptRecorded) { a.Attempt = "" }), Err: domain.ErrInvalid},
		{Name: "record an attempt whose family is no name", When: changed(func(a *exam.AttemptRecorded) { a.Family = "unit\n" }), Err: domain.ErrInvalid},
		{Name: "record a negative latency", When: changed(func(a *exam.AttemptRecorded) { a.LatencyMs = -1 }), Err: domain.ErrInvalid},
		{Name: "withdraw an attempt", Given: events{trial}, When: exam.WithdrawAttempt(gone), Then: events{gone}},
		{Name: "withdraw it twice", Given: events{trial, gone}, When: exam.WithdrawAttempt(gone)},
		{Name: "withdraw one that never was", When: exam.WithdrawAttempt(gone), Err: domain.ErrNotFound},
		{Name: "withdraw one without a reason", Given: events{trial}, When: exam.WithdrawAttempt{Agent: "build:42", Attempt: "t-1"}, Err: domain.ErrInvalid},
	})
}

func TestSample(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[exam.TrialOutcome]task.Outcome{
		exam.Success: task.Pass, exam.Partial: task.Fail, exam.Failure: task.Fail,
		exam.Unknown: "", exam.Disputed: "", exam.Revoked: "",
	} {
		got, ok := exam.AttemptRecorded{Family: "unit", Outcome: outcome}.Sample()
		if got.Outcome != want || ok != (want != "") {
			t.Errorf("Sample of %s = %q, %t, want %q", outcome, got.Outcome, ok, want)
		}
	}
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	if got := exam.StreamOf("build:42"); got != "exam/build:42" {
		t.Errorf("StreamOf(build:42) = %s, want exam/build:42", got)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, exam.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, exam.Events, os.DirFS("testdata"))
}
