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

	type events = []exam.Event
	domaintest.Decide(t, exam.Decider, []domaintest.Case[exam.Command, exam.Event]{
		{Name: "record a run", When: exam.RecordRun(one), Then: events{one}},
		{Name: "record another run", Given: events{one}, When: exam.RecordRun(two), Then: events{two}},
		{Name: "record a run again", Given: events{one, two}, When: exam.RecordRun(one)},
		{Name: "record other attempts of a run", Given: events{one}, When: exam.RecordRun(run("run-1", task.Fail))},
		{Name: "record a run without a name", When: exam.RecordRun(run("", task.Pass)), Err: domain.ErrInvalid},
		{Name: "record a run without attempts", When: exam.RecordRun(run("run-1")), Err: domain.ErrInvalid},
	})
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
