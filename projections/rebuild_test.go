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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// Rebuilt again and again while the log grows and the live tables follow it, a read
// model is what it is without any of that.
func TestRebuildWhileTheLogGrows(t *testing.T) {
	t.Parallel()
	pool, calm := pgtest.Open(t), pgtest.Open(t)
	var whole, growing history
	life(t, &whole)
	r := runnerOn(t, pool, &growing, projections.All()...)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { r.Run(ctx, time.Millisecond) })
	others.Go(func() {
		for i := range whole.records {
			growing.mu.Lock()
			growing.records = whole.records[:i+1]
			growing.mu.Unlock()
			if err := (&projections.Runner{Log: &growing, Catalog: catalog, Pool: pool, Projections: projections.All()}).CatchUp(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 4 {
		var names []string
		if i%2 == 1 {
			names = []string{"shops", "due"}
		}
		if err := r.Rebuild(t.Context(), names, nil); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	others.Wait()
	catchUp(t, r)
	catchUp(t, runnerOn(t, calm, &whole, projections.All()...))
	if diff := cmp.Diff(dump(t, calm), dump(t, pool)); diff != "" {
		t.Errorf("after rebuilds (-calm +got):\n%s", diff)
	}
	if err := r.Compare(t.Context()); err != nil {
		t.Error(err)
	}
	if n := shadows(t, pool); n != 0 {
		t.Errorf("%d schemas are left behind", n)
	}
}

// What was edited by hand is gone after a rebuild, of that projection alone.
func TestRebuildOfOneProjection(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	catchUp(t, r)
	want := dump(t, pool)
	before, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `delete from agents`); err != nil {
		t.Fatal(err)
	}
	var told []uint64
	if err := r.Rebuild(t.Context(), []string{"agents"}, func(records, _, _ uint64) { told = append(told, records) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dump(t, pool)); diff != "" {
		t.Errorf("after the rebuild (-before it was edited +got):\n%s", diff)
	}
	after, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range after {
		if changed := after[i].Generation != before[i].Generation; changed != (after[i].Name == "agents") {
			t.Errorf("%s has generation %d behind %d", after[i].Name, after[i].Generation, before[i].Generation)
		}
	}
	if err := r.Rebuild(t.Context(), []string{"agents", "nosuch"}, nil); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Rebuild of no projection = %v, want %v", err, domain.ErrNotFound)
	}
}

// Tables that were made anew have the indexes of those they replace.
func TestRebuildKeepsIndexes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	indexes := func() []string {
		t.Helper()
		rows, err := pool.Query(t.Context(), `select indexdef from pg_indexes where schemaname = $1 order by 1`, pgtest.Schema(pool)+"_rm")
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := indexes()
	if err := r.Rebuild(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, indexes()); diff != "" || len(want) < 25 {
		t.Errorf("of %d indexes, after a rebuild (-want +got):\n%s", len(want), diff)
	}
}

// holdRebuild takes the right to rebuild, as another process does.
func holdRebuild(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock(hashtextextended('karatum/mystery/projections/shadow/' || $1, 0))`,
		pgtest.Schema(pool)+"_rm_rebuild"); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Hijack().Close(context.Background()) }
}

func TestSecondRebuildIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	release := holdRebuild(t, pool)
	defer release()
	if err := r.Rebuild(t.Context(), []string{"agents"}, nil); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("a second Rebuild = %v, want %v", err, domain.ErrConflict)
	}
}

// A runner that has read a page for one generation applies nothing of it to the next.
func TestOldGenerationWritesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	h := someAgents(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := tally("tallied", domain.Public)
	apply := slow.Apply
	slow.Apply = func(ctx context.Context, tx projections.Tx, rec ledger.Record, e domain.Event) error {
		once.Do(func() {
			close(reached)
			<-goOn
		})
		return apply(ctx, tx, rec, e)
	}
	old := runnerOn(t, pool, h, slow)
	var running sync.WaitGroup
	running.Go(func() {
		if err := old.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-reached
	fresh := runnerOn(t, pool, h, tally("tallied", domain.Public))
	if err := fresh.Rebuild(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	// As if nothing of it had been applied: only the generation tells.
	if _, err := pool.Exec(t.Context(), `update checkpoints set position = 0; delete from tallied`); err != nil {
		t.Fatal(err)
	}
	var before, after int64
	const generation = `select generation from checkpoints`
	if err := pool.QueryRow(t.Context(), generation).Scan(&before); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	running.Wait() // the page was refused, read again for this generation, and applied once
	if err := pool.QueryRow(t.Context(), generation).Scan(&after); err != nil || after != before || before != 2 {
		t.Errorf("the generation is %d behind %d, %v, want 2", after, before, err)
	}
	want := []string{`{"type":"agent.identity_verified.v1","n":2}`, `{"type":"agent.registered.v1","n":2}`}
	if diff := cmp.Diff(want, dump(t, pool)["tallied"]); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// A reader never sees half of a rebuild: its snapshot holds the former tables until it ends,
// and the swap waits.
func TestSwapWaitsForReaders(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	r := runnerOn(t, pool, someAgents(t), projections.All()...)
	catchUp(t, r)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var agents, holdings int
	if err := tx.QueryRow(t.Context(), `select count(*) from agents`).Scan(&agents); err != nil {
		t.Fatal(err)
	}
	rebuilt := make(chan error, 1)
	go func() { rebuilt <- r.Rebuild(t.Context(), nil, nil) }()
	for { // until the swap has been tried and has waited
		var waits bool
		if err := pool.QueryRow(t.Context(), `
			select exists (select from pg_locks l join pg_class c on c.oid = l.relation join pg_namespace n on n.oid = c.relnamespace
			where not granted and n.nspname = $1)`, pgtest.Schema(pool)+"_rm").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits {
			break
		}
	}
	if err := tx.QueryRow(t.Context(), `select count(*) from agent_holdings`).Scan(&holdings); err != nil || agents != 2 || holdings != 2 {
		t.Errorf("the reader sees %d agents and %d identities, %v, want 2 and 2", agents, holdings, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-rebuilt; err != nil {
		t.Error(err)
	}
}

// Killed at any statement and begun again, a rebuild leads to what it leads to undisturbed, and
// in between the tables can be read.
func TestRebuildKilledAtEveryStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	h := someAgents(t)
	list := []projections.Projection{projections.Agents}
	calm := runnerOn(t, pool, h, list...)
	catchUp(t, calm)
	want := dump(t, pool)
	dying, k := pgtest.Mortal(t, pool)
	r := &projections.Runner{Log: h, Catalog: catalog, Pool: dying, Projections: list}
	for n := 0; ; n++ {
		k.Arm(n)
		err := r.Rebuild(t.Context(), nil, nil)
		died := k.Disarm()
		if died != (err != nil) {
			t.Fatalf("killed at statement %d: %t, and the error is %v", n, died, err)
		}
		if diff := cmp.Diff(want, dump(t, pool)); diff != "" {
			t.Fatalf("killed at statement %d (-want +got):\n%s", n, diff)
		}
		if !died {
			if n < 20 {
				t.Errorf("it took %d statements only; the test has lost its subject", n)
			}
			break
		}
		if n%4 == 0 { // the right to it goes with the connection of the one that died
			again(t, func() error { return calm.Rebuild(t.Context(), nil, nil) })
			if diff := cmp.Diff(want, dump(t, pool)); diff != "" {
				t.Fatalf("killed at statement %d and begun again (-want +got):\n%s", n, diff)
			}
		}
	}
	if n := shadows(t, pool); n != 0 {
		t.Errorf("%d schemas are left behind", n)
	}
}

// Killed at any statement of a start with a raised version, a program leaves the tables of one
// version, whole, and whoever has them goes on; started again, it leads to what it leads
// to undisturbed.
func TestRaisedVersionKilledAtEveryStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	h := someAgents(t)
	v1 := tally("changing", domain.Public)
	v2 := v1
	v2.Version = 2
	v2.Tables = `create table changed (type text not null, stream text not null)`
	v2.Indexes = `create index on changed (stream)`
	v2.Apply = func(ctx context.Context, tx projections.Tx, r ledger.Record, _ domain.Event) error {
		return tx.Exec(ctx, `insert into changed values ($1, $2)`, string(r.Type), string(r.Stream))
	}
	begin := func() (old *projections.Runner, tables map[string][]string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `drop table if exists changing, changed, checkpoints, parked`); err != nil {
			t.Fatal(err)
		}
		old = runnerOn(t, pool, h, v1)
		catchUp(t, old)
		return old, dump(t, pool)
	}
	_, before := begin()
	runnerOn(t, pool, h, v2)
	after := dump(t, pool)
	dying, k := pgtest.Mortal(t, pool)
	r := &projections.Runner{Log: h, Catalog: catalog, Pool: dying, Projections: []projections.Projection{v2}}
	swapped := 0
	for n := 0; ; n++ {
		old, _ := begin()
		k.Arm(n)
		err := r.Init(t.Context())
		died := k.Disarm()
		if died != (err != nil) {
			t.Fatalf("killed at statement %d: %t, and the error is %v", n, died, err)
		}
		got, follows := dump(t, pool), old.CatchUp(t.Context())
		switch {
		case cmp.Equal(got, before) && follows == nil && died:
		case cmp.Equal(got, after) && errors.Is(follows, domain.ErrConflict):
			swapped++
		default:
			t.Fatalf("killed at statement %d, the tables are %v, and the earlier program says %v", n, got, follows)
		}
		if !died {
			if n < 15 || swapped < 2 {
				t.Errorf("it took %d statements, %d of them behind the swap; the test has lost its subject", n, swapped)
			}
			break
		}
		runnerOn(t, pool, h, v2)
		if diff := cmp.Diff(after, dump(t, pool)); diff != "" {
			t.Fatalf("killed at statement %d and begun again (-want +got):\n%s", n, diff)
		}
	}
	// One that died behind the swap has left an empty schema, which the next rebuild removes.
	if err := r.Rebuild(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := shadows(t, pool); n != 0 {
		t.Errorf("%d schemas are left behind", n)
	}
}

// again calls f until it meets no conflict.
func again(t *testing.T, f func() error) {
	t.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, domain.ErrConflict) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// Killed at any statement of parking or trying again, nothing is applied twice or left out.
func TestParkingKilledAtEveryStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	one, two := agent.StreamOf(honest), agent.StreamOf(house)
	verify(t, &h, one, "a", "poison", "b")
	verify(t, &h, two, "x", "y")
	sick := true
	dying, k := pgtest.Mortal(t, pool)
	calm := runnerOn(t, pool, &h, lines("sick", &sick))
	r := &projections.Runner{Log: &h, Catalog: catalog, Pool: dying, Projections: calm.Projections}
	for n := 0; ; n++ {
		if _, err := pool.Exec(t.Context(), `truncate sick, parked; update checkpoints set position = 0, generation = generation + 1`); err != nil {
			t.Fatal(err)
		}
		sick = true
		k.Arm(n)
		err := r.CatchUp(t.Context())
		if err == nil {
			sick = false
			_, err = r.Retry(t.Context(), "sick", "")
		}
		died := k.Disarm()
		if died != (err != nil) {
			t.Fatalf("killed at statement %d: %t, and the error is %v", n, died, err)
		}
		if died {
			sick = true
			catchUp(t, calm)
			sick = false
			if _, err := calm.Retry(t.Context(), "sick", ""); err != nil && !errors.Is(err, domain.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if got, want := kept(t, calm, "sick", one), []string{"a", "poison", "b"}; !slices.Equal(got, want) {
			t.Fatalf("killed at statement %d and begun again, it keeps %v, want %v", n, got, want)
		}
		if got, want := kept(t, calm, "sick", two), []string{"x", "y"}; !slices.Equal(got, want) {
			t.Fatalf("killed at statement %d and begun again, it keeps %v, want %v", n, got, want)
		}
		if !died {
			if n < 15 {
				t.Errorf("it took %d statements only; the test has lost its subject", n)
			}
			break
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	r := runnerOn(t, pool, &h, tally("first", domain.Public), tally("second", domain.Sealed))
	verify(t, &h, agent.StreamOf(honest), "a", "b", "c")
	status := func() []projections.Standing {
		t.Helper()
		list, err := r.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, s := range status() {
		if s.Position != 0 || s.Behind() != h.records[2].Position || !s.Oldest.Equal(h.records[0].Time) {
			t.Errorf("before it has begun %s stands at %+v", s.Name, s)
		}
		if _, ok := s.Remaining(); ok {
			t.Errorf("%s is said to end, and has no rate", s.Name)
		}
	}
	catchUp(t, r)
	for _, s := range status() {
		if left, ok := s.Remaining(); s.Behind() != 0 || !s.Oldest.IsZero() || left != 0 || !ok || s.Rebuilding {
			t.Errorf("when it is through %s stands at %+v", s.Name, s)
		}
	}
	release := holdRebuild(t, pool)
	schema := pgx.Identifier{pgtest.Schema(pool) + "_rm_rebuild"}.Sanitize()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`create schema %s; create table %[1]s.checkpoints as select * from checkpoints where name = 'second'`, schema)); err != nil {
		t.Fatal(err)
	}
	if list := status(); list[0].Rebuilding || !list[1].Rebuilding || list[1].Rebuilt != list[1].Position {
		t.Errorf("while the second is rebuilt: %+v", list)
	}
	release()
	for list := status(); list[1].Rebuilding; list = status() { // until the server has seen the end of the connection
		if t.Context().Err() != nil {
			t.Fatal("what a killed rebuild has left counts as one that is under way")
		}
	}
	s := projections.Standing{Position: 10, End: 30, Rate: 5, Oldest: start}
	if left, ok := s.Remaining(); !ok || left != 4*time.Second {
		t.Errorf("Remaining of 20 at 5 a second = %v, %t, want 4s", left, ok)
	}
}
