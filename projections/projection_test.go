package projections_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// tally is a projection that counts what it is handed, by type.
func tally(name string, v domain.Visibility) projections.Projection {
	return projections.Projection{
		Name: name, Version: 1, Visibility: v,
		Tables: `create table ` + name + ` (type text primary key, n bigint not null)`,
		Apply: func(ctx context.Context, tx projections.Tx, r ledger.Record, _ domain.Event) error {
			return tx.Exec(ctx, `insert into `+name+` values ($1, 1) on conflict (type) do update set n = `+name+`.n + 1`, string(r.Type))
		},
	}
}

func TestPublicProjectionSeesNothingSealed(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	first, _ := life(t, &h)
	var seen []ledger.Record
	var hidden int
	nosy := projections.Projection{
		Name: "nosy", Version: 1, Visibility: domain.Public, Tables: `create table nosy (position bigint)`,
		Apply: func(ctx context.Context, tx projections.Tx, r ledger.Record, e domain.Event) error {
			seen = append(seen, r)
			switch e.(type) {
			case shop.Sent, shop.SessionOpened, shop.SessionAction, shop.SessionClosed, shop.Replied, shop.Judged, shop.Missed, shop.Cancelled:
				hidden++
			}
			return tx.Exec(ctx, `insert into nosy values ($1)`, r.Position)
		},
	}
	catchUp(t, runnerOn(t, pool, &h, nosy))
	if hidden > 0 {
		t.Errorf("it was handed %d sealed events", hidden)
	}
	want := 0
	for _, r := range h.records {
		if catalog.Visibility(r.Type) == domain.Public {
			want++
		}
	}
	if len(seen) != want {
		t.Errorf("it was handed %d records, want the %d public ones", len(seen), want)
	}
	for _, r := range seen {
		if r.Position != 0 {
			t.Fatalf("it was handed position %d of %s", r.Position, r.Type)
		}
	}
	if !slices.ContainsFunc(h.records, func(r ledger.Record) bool { return string(r.Stream) == "shop/"+first.shop(first.tasks[0]) }) {
		t.Fatal("the history has no tasks, and the test proves nothing")
	}
}

// Nothing that the public can read may tell whether a task was sent.
func TestSealedRecordsLeaveNoTraceInPublicTables(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	register(t, &h)
	d := newDay(grant(t, &h, house, "n1"), 20514)
	d.seal(t, &h)
	public := slices.DeleteFunc(projections.All(), func(p projections.Projection) bool { return p.Visibility == domain.Sealed })
	if len(public) != len(projections.All())-1 {
		t.Fatalf("%d of %d projections are public, want all but one", len(public), len(projections.All()))
	}
	r := runnerOn(t, pool, &h, public...)
	catchUp(t, r)
	before := dump(t, pool)
	for _, slot := range d.tasks {
		d.send(t, &h, slot)
	}
	catchUp(t, r)
	if diff := cmp.Diff(before, dump(t, pool)); diff != "" {
		t.Errorf("sending tasks changed public tables (-before +after):\n%s", diff)
	}
}

func TestRebuildEqualsLive(t *testing.T) {
	t.Parallel()
	live, rebuilt := pgtest.Open(t), pgtest.Open(t)
	var whole history
	life(t, &whole)

	// One runner sees the history grow record by record, the other as a whole.
	var growing history
	r := runnerOn(t, live, &growing, projections.All()...)
	for _, rec := range whole.records {
		growing.mu.Lock()
		growing.records = append(growing.records, rec)
		growing.mu.Unlock()
		catchUp(t, r)
	}
	catchUp(t, runnerOn(t, rebuilt, &whole, projections.All()...))
	if diff := cmp.Diff(dump(t, live), dump(t, rebuilt)); diff != "" {
		t.Errorf("the rebuilt tables differ (-live +rebuilt):\n%s", diff)
	}
}

func TestManyPages(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	events := make([]domain.Event, 2500)
	for i := range events {
		events[i] = agent.IdentityVerified{URL: fmt.Sprint("https://agent.example/", i)}
	}
	h.add(t, agent.StreamOf(honest), events...)
	r := runnerOn(t, pool, &h, tally("many", domain.Public))
	catchUp(t, r)
	catchUp(t, r) // nothing is counted twice
	want := []string{`{"type":"agent.identity_verified.v1","n":2500}`}
	if diff := cmp.Diff(want, dump(t, pool)["many"]); diff != "" {
		t.Errorf("after two pages (-want +got):\n%s", diff)
	}
}

func TestConcurrentRunners(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	r1 := runnerOn(t, pool, &h, tally("shared", domain.Public), tally("private", domain.Sealed))
	r2 := runnerOn(t, pool, &h, tally("shared", domain.Public), tally("private", domain.Sealed))
	const records = 200
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range records {
			h.add(t, agent.StreamOf(honest), agent.IdentityVerified{URL: fmt.Sprint("https://agent.example/", i)})
		}
	})
	var running sync.WaitGroup
	for _, r := range []*projections.Runner{r1, r2, r1, r2} {
		running.Go(func() {
			for range 25 {
				if err := r.CatchUp(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	running.Wait()
	catchUp(t, r1)
	want := []string{fmt.Sprintf(`{"type":"agent.identity_verified.v1","n":%d}`, records)}
	got := dump(t, pool)
	for _, table := range []string{"shared", "private"} {
		if diff := cmp.Diff(want, got[table]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", table, diff)
		}
	}
}

type unheardOf struct{}

func (unheardOf) EventType() domain.Type { return "future.happened.v1" }

func TestUnknownTypeStopsEverybody(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	h.add(t, "future/1", unheardOf{})
	err := runnerOn(t, pool, &h, tally("open", domain.Public)).CatchUp(t.Context())
	if !errors.Is(err, domain.ErrUnknownType) {
		t.Errorf("CatchUp = %v, want %v: skipped, the record would be missing for ever", err, domain.ErrUnknownType)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	register(t, &h)
	v1 := tally("changing", domain.Public)
	old := runnerOn(t, pool, &h, v1)
	catchUp(t, old)

	v2 := v1
	v2.Version = 2
	v2.Tables = `create table changed (type text, times bigint)`
	v2.Apply = func(ctx context.Context, tx projections.Tx, r ledger.Record, _ domain.Event) error {
		return tx.Exec(ctx, `insert into changed values ($1, 1)`, string(r.Type))
	}
	catchUp(t, runnerOn(t, pool, &h, v2))
	got := dump(t, pool)
	if _, kept := got["changing"]; kept || len(got["changed"]) != len(h.records) {
		t.Errorf("after the version was raised: %v", got)
	}

	h.add(t, agent.StreamOf(honest), agent.CertificateRecorded{Certificate: "crt_2"})
	if err := old.CatchUp(t.Context()); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("CatchUp of the earlier version = %v, want %v", err, domain.ErrConflict)
	}
	if err := old.Init(t.Context()); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Init of the earlier version = %v, want %v", err, domain.ErrConflict)
	}
}

func TestCatchUpBeforeInit(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	runnerOn(t, pool, &h)
	r := &projections.Runner{Log: &h, Catalog: catalog, Pool: pool, Projections: projections.All()}
	if err := r.CatchUp(t.Context()); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("CatchUp = %v, want %v", err, domain.ErrNotFound)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	r := runnerOn(t, pool, &h, projections.All()...)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, time.Millisecond) })
	life(t, &h)
	reader := projections.Reader{Pool: pool}
	for {
		s, err := reader.Programme(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Demo.Consents[projections.Active] == 1 && s.Demo.Findings["exam_only"] == 1 {
			break
		}
	}
	cancel()
	running.Wait()
}
