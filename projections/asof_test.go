package projections_test

import (
	"testing"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// publicRecords counts the public records of h one by one.
func publicRecords(t *testing.T, h *history) (n uint64) {
	t.Helper()
	for r, err := range h.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if commands.Catalog().Visibility(r.Type) == domain.Public {
			n++
		}
	}
	return n
}

func TestAsOfCountsPublicRecords(t *testing.T) {
	t.Parallel()
	var h history
	d, _ := life(t, &h)
	pool := pgtest.Open(t)
	runner := runnerOn(t, pool, &h, projections.All()...)
	reader, tally := projections.Reader{Pool: pool}, &projections.Tally{Runner: runner}
	asOf := func() projections.AsOf { return must(reader.AsOf(t.Context()))(t) }
	expect := func(when string, models, log uint64) {
		t.Helper()
		if got := asOf().Size; got != models {
			t.Errorf("%s: AsOf is of size %d, want %d", when, got, models)
		}
		if got := must(tally.Public(t.Context()))(t); got != log {
			t.Errorf("%s: Public = %d, want %d", when, got, log)
		}
	}
	n := publicRecords(t, &h)
	expect("before anything is applied", 0, n)
	catchUp(t, runner)
	expect("after a whole life", n, n)

	before := asOf()
	h.add(t, shop.StreamOf(d.shop(23)), shop.Missed{Reason: shop.Paused}) // sealed
	catchUp(t, runner)
	if got := asOf(); got != before {
		t.Errorf("a sealed record turned %+v into %+v", before, got)
	}
	h.add(t, agent.StreamOf("build:new"), agent.Registered{Agent: "build:new"})
	expect("before a record is applied", n, n+1)
	catchUp(t, runner)
	expect("after it is", n+1, n+1)

	before = asOf()
	if err := runner.Rebuild(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	expect("after a rebuild", n+1, n+1)
	if asOf() == before {
		t.Error("tables were replaced, and AsOf does not tell")
	}
	if err := runner.Compare(t.Context()); err != nil {
		t.Errorf("Compare = %v", err)
	}
	if _, err := pool.Exec(t.Context(), `update checkpoints set public = public + 1 where name = 'plans'`); err != nil {
		t.Fatal(err)
	}
	if err := runner.Compare(t.Context()); err == nil {
		t.Error("Compare = nil of a wrong count")
	}
}
