package projections_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// The story is told at a moment of its own for each step, and looked at later.
func TestVitals(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	id := grant(t, &h, house, "n1") // from day 20514 on, with a delay of an hour
	d := newDay(id, 20514)
	d.seal(t, &h)
	pool := pgtest.Open(t)
	runner := runnerOn(t, pool, &h, projections.All()...)
	noon := domain.DayStart(20514).Add(12 * time.Hour)
	sent := shop.Sent{Endpoint: "ep_0", Template: "unit.length", TemplateVersion: 1}
	slot := func(i int) string { return d.shop(d.tasks[i]) }
	at := func(after time.Duration, f func()) {
		h.now = noon.Add(after)
		f()
	}
	opens := domain.DayStart(20515).Add(2 * time.Hour) // an hour, and the delay
	for _, step := range []struct {
		name    string
		happens func()
		now     time.Time
		want    projections.Vitals
	}{
		{"planned", func() {}, noon, projections.Vitals{Consents: 1}},
		{"sent", func() {
			at(0, func() { h.add(t, shop.StreamOf(slot(0)), sent) })
		}, noon.Add(time.Minute), projections.Vitals{Consents: 1, InFlight: 1, LastSent: noon}},
		{"two minutes without an outcome", func() {}, noon.Add(2 * time.Minute), projections.Vitals{
			Consents: 1, InFlight: 1, LastSent: noon, Due: 1, OldestDue: noon.Add(2 * time.Minute),
		}},
		{"lost", func() {
			at(3*time.Minute, func() {
				h.add(t, shop.StreamOf(slot(0)), shop.Judged{Outcome: task.Blocked, Rule: "worker_lost"})
			})
		}, noon.Add(4 * time.Minute), projections.Vitals{Consents: 1, LastSent: noon, LastEnded: noon.Add(3 * time.Minute)}},
		{"not revealed in time", func() {}, noon.Add(3 * time.Hour), projections.Vitals{
			Consents: 1, LastSent: noon, LastEnded: noon.Add(3 * time.Minute), Due: 1, OldestDue: noon.Add(time.Hour),
		}},
		{"revealed, and others missed", func() {
			at(4*time.Hour, func() { d.reveal(t, &h, d.tasks[0]) })
			for i := range tasksPerDay - 1 {
				at(5*time.Hour, func() { h.add(t, shop.StreamOf(slot(i+1)), shop.Missed{Reason: shop.OperatorLate}) })
			}
		}, noon.Add(8 * time.Hour), projections.Vitals{Consents: 1, LastSent: noon, LastEnded: noon.Add(5 * time.Hour)}},
		{"not opened in time, and the next day without a plan", func() {}, opens.Add(time.Hour), projections.Vitals{
			Consents: 1, Unplanned: 1, LastSent: noon, LastEnded: noon.Add(5 * time.Hour), Due: 1, OldestDue: opens,
		}},
		{"revoked before", func() {
			at(6*time.Hour, func() {
				h.add(t, consent.StreamOf(house), consent.Revoked{Consent: id, IssuedAt: start, Signature: signature()})
			})
		}, opens.Add(time.Hour), projections.Vitals{LastSent: noon, LastEnded: noon.Add(5 * time.Hour), Due: 1, OldestDue: noon.Add(6 * time.Hour)}},
		{"opened", func() {
			for i := range tasksPerDay - 1 {
				d.reveal(t, &h, d.tasks[i+1])
			}
			d.open(t, &h)
		}, opens.Add(time.Hour), projections.Vitals{LastSent: noon, LastEnded: noon.Add(5 * time.Hour)}},
	} {
		step.happens()
		catchUp(t, runner)
		got := must(projections.Due{Pool: pool}.Vitals(t.Context(), step.now))(t)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: Vitals (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestOldestOpenCommit(t *testing.T) {
	t.Parallel()
	var h history
	r, _ := read(t, &h)
	if got := must(r.OldestOpenCommit(t.Context()))(t); !got.IsZero() {
		t.Errorf("OldestOpenCommit of nothing = %s", got)
	}
	register(t, &h)
	d := newDay(grant(t, &h, house, "n1"), 20514)
	before := h.now
	d.seal(t, &h)
	r, _ = read(t, &h)
	if got := must(r.OldestOpenCommit(t.Context()))(t); got.Before(before) || got.After(before.Add(5*time.Minute)) {
		t.Errorf("OldestOpenCommit = %s, want the first one behind %s", got, before)
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	r := &projections.Runner{Log: &h, Pool: pool, Projections: projections.All()}
	if _, err := r.Stale(t.Context()); err == nil {
		t.Error("Stale without read models succeeds")
	}
	r = runnerOn(t, pool, &h, projections.Agents, projections.Shops)
	if got := must(r.Stale(t.Context()))(t); len(got) > 0 {
		t.Errorf("Stale = %v, want none", got)
	}
	if _, err := pool.Exec(t.Context(), `update checkpoints set version = 0 where name = 'shops'`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shops"}, must(r.Stale(t.Context()))(t)); diff != "" {
		t.Errorf("Stale (-want +got):\n%s", diff)
	}
}

// Checkpoints of an early program do not count public records. What stands at them is made
// anew, as nothing else tells how many there were.
func TestCheckpointsWithoutACount(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	catchUp(t, r)
	asOf := must(projections.Reader{Pool: pool}.AsOf(t.Context()))(t)
	if _, err := pool.Exec(t.Context(), `alter table checkpoints drop column public`); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // what was prepared knew the column
	if got := must(r.Stale(t.Context()))(t); len(got) != len(r.Projections) {
		t.Errorf("Stale = %v, want all", got)
	}
	for _, what := range []string{"the first time", "again"} {
		if err := r.Init(t.Context()); err != nil {
			t.Fatalf("Init %s: %v", what, err)
		}
		if got := must(r.Stale(t.Context()))(t); len(got) > 0 {
			t.Errorf("Stale behind Init %s = %v, want none", what, got)
		}
		if got := must(projections.Reader{Pool: pool}.AsOf(t.Context()))(t); got.Size != asOf.Size || asOf.Size == 0 {
			t.Errorf("AsOf behind Init %s is of %d public records, want %d", what, got.Size, asOf.Size)
		}
	}
	if err := r.Compare(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range must(r.Status(t.Context()))(t) {
		if s.Generation != 2 {
			t.Errorf("%s was made %d times, want twice", s.Name, s.Generation)
		}
	}
}
