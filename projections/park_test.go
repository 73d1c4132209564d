package projections_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// lines is a projection that keeps the URLs of verified identities in the order in
// which they were handed to it. While sick is set it takes none with "poison" in it.
func lines(name string, sick *bool) projections.Projection {
	return projections.Projection{
		Name: name, Version: 1, Visibility: domain.Public, ByStream: true,
		Tables: `create table ` + name + ` (stream text, n bigint generated always as identity, url text)`,
		Apply: func(ctx context.Context, tx projections.Tx, r ledger.Record, e domain.Event) error {
			v, ok := e.(agent.IdentityVerified)
			if ok && *sick && strings.Contains(v.URL, "poison") {
				return errors.New("this is poison")
			}
			if !ok {
				return nil
			}
			return tx.Exec(ctx, `insert into `+name+` (stream, url) values ($1, $2)`, string(r.Stream), v.URL)
		},
	}
}

// kept returns the URLs that a projection of [lines] keeps of a stream.
func kept(t *testing.T, r *projections.Runner, name string, s ledger.Stream) (urls []string) {
	t.Helper()
	if err := r.Pool.QueryRow(t.Context(), `select coalesce(array_agg(url order by n), '{}') from `+name+` where stream = $1`, string(s)).Scan(&urls); err != nil {
		t.Fatal(err)
	}
	return urls
}

// verify appends events with URLs to a stream.
func verify(t *testing.T, h *history, s ledger.Stream, urls ...string) {
	t.Helper()
	for _, u := range urls {
		h.add(t, s, agent.IdentityVerified{URL: u})
	}
}

// A poison event parks its stream and nothing else: what comes later in the stream
// waits behind it, and is applied in order once it can be.
func TestPoisonParksItsStream(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	one, two := agent.StreamOf(honest), agent.StreamOf(house)
	yes, no := true, false
	verify(t, &h, one, "a", "poison", "b")
	verify(t, &h, two, "x")
	r := runnerOn(t, pool, &h, lines("sick", &yes), lines("well", &no))
	catchUp(t, r)
	verify(t, &h, one, "c")
	verify(t, &h, two, "y")
	catchUp(t, r)

	want := []projections.Parked{{Projection: "sick", Stream: one, Version: 2}}
	if diff := cmp.Diff(want, parked(t, r), cmpopts.IgnoreFields(projections.Parked{}, "Since", "Reason")); diff != "" {
		t.Fatalf("parked (-want +got):\n%s", diff)
	}
	if reason := parked(t, r)[0].Reason; !strings.Contains(reason, "agent.identity_verified.v1, version 2 of "+string(one)+": this is poison") {
		t.Errorf("it is parked because of %q", reason)
	}
	for _, tt := range []struct {
		name   string
		stream ledger.Stream
		want   []string
	}{
		{"sick", one, []string{"a"}},
		{"sick", two, []string{"x", "y"}},
		{"well", one, []string{"a", "poison", "b", "c"}},
	} {
		if got := kept(t, r, tt.name, tt.stream); !slices.Equal(got, tt.want) {
			t.Errorf("%s keeps %v of %s, want %v", tt.name, got, tt.stream, tt.want)
		}
	}

	still, err := r.Retry(t.Context(), "", "")
	if err != nil || len(still) != 1 {
		t.Errorf("Retry of what is poison still = %v, %v", still, err)
	}
	yes = false
	if still, err := r.Retry(t.Context(), "sick", one); err != nil || len(still) > 0 {
		t.Fatalf("Retry = %v, %v", still, err)
	}
	if got, want := kept(t, r, "sick", one), []string{"a", "poison", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("after the retry it keeps %v, want %v", got, want)
	}
	verify(t, &h, one, "d")
	catchUp(t, r)
	if got := kept(t, r, "sick", one); len(got) != 5 || got[4] != "d" {
		t.Errorf("the stream does not go on: %v", got)
	}
	if _, err := r.Retry(t.Context(), "sick", one); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Retry of what is not parked = %v, want %v", err, domain.ErrNotFound)
	}
}

// Rows that depend on several streams are made anew: in between, they were folded
// without what the parked stream says.
func TestRetryWhereStreamsDependOnEachOther(t *testing.T) {
	t.Parallel()
	pool, fresh := pgtest.Open(t), pgtest.Open(t)
	var whole history
	first, _ := life(t, &whole)
	sick := projections.Shops
	poisoned := true
	sick.Apply = func(ctx context.Context, tx projections.Tx, r ledger.Record, e domain.Event) error {
		if r.Stream.Category() == "consent" && poisoned {
			return errors.New("this is poison")
		}
		return projections.Shops.Apply(ctx, tx, r, e)
	}
	r := runnerOn(t, pool, &whole, sick)
	catchUp(t, r)
	shown := must(projections.Reader{Pool: pool}.Shops(t.Context(), projections.ShopQuery{Consent: first.consent, Limit: 100}))(t)
	if len(shown) != 0 || len(parked(t, r)) != 1 {
		t.Fatalf("%d slots of a consent that is parked, and %d parked streams", len(shown), len(parked(t, r)))
	}
	poisoned = false
	if still, err := r.Retry(t.Context(), "", ""); err != nil || len(still) > 0 {
		t.Fatalf("Retry = %v, %v", still, err)
	}
	catchUp(t, runnerOn(t, fresh, &whole, projections.Shops))
	if diff := cmp.Diff(dump(t, fresh), dump(t, pool)); diff != "" {
		t.Errorf("after the retry (-never parked +got):\n%s", diff)
	}
}

// A statement that is refused among many is found by its record.
func TestPoisonInSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	register(t, &h)
	picky := tally("picky", domain.Public)
	picky.Tables = `create table picky (type text primary key, n bigint not null check (type <> 'agent.certificate_recorded.v1'))`
	r := runnerOn(t, pool, &h, picky)
	catchUp(t, r)
	list := parked(t, r)
	if len(list) != 1 || list[0].Stream != agent.StreamOf(house) || list[0].Version != 3 {
		t.Errorf("parked: %+v, want version 3 of %s", list, agent.StreamOf(house))
	}
}

// What fails for every record is no poison.
func TestBrokenProgramStandsStill(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sql  string
		want string
	}{
		"a table that is not there":  {`insert into nowhere values (1)`, "nowhere"},
		"a check that nothing meets": {`insert into never values (1)`, "100 streams are parked, and no more will be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			var h history
			for i := range 150 {
				verify(t, &h, agent.StreamOf(agent.Ref(fmt.Sprint("build:", i))), "a")
			}
			broken := projections.Projection{
				Name: "broken", Version: 1, Visibility: domain.Public, Tables: `create table never (n int check (n = 0))`,
				Apply: func(ctx context.Context, tx projections.Tx, _ ledger.Record, _ domain.Event) error {
					return tx.Exec(ctx, tt.sql)
				},
			}
			no := false
			r := runnerOn(t, pool, &h, broken, lines("well", &no))
			if err := r.CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "projection broken: ") {
				t.Errorf("CatchUp = %v, want an error that says %q", err, tt.want)
			}
			if list := parked(t, r); len(list) > 0 {
				t.Errorf("%d streams are parked", len(list))
			}
			if n := len(dump(t, pool)["well"]); n != 150 {
				t.Errorf("the other projection has taken %d records, want all", n)
			}
		})
	}
}

// The operator parks a stream, and what comes then waits.
func TestPark(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var h history
	one := agent.StreamOf(honest)
	verify(t, &h, one, "a")
	no := false
	r := runnerOn(t, pool, &h, lines("well", &no))
	catchUp(t, r)
	verify(t, &h, one, "b") // not applied yet
	p, err := r.Park(t.Context(), "well", one, "under review")
	if err != nil || p.Version != 2 {
		t.Fatalf("Park = %+v, %v, want it from version 2 on", p, err)
	}
	catchUp(t, r)
	if got := kept(t, r, "well", one); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it keeps %v, want what came before", got)
	}
	for _, tt := range []struct {
		projection string
		stream     ledger.Stream
		want       error
	}{
		{"well", one, domain.ErrConflict},
		{"well", "agent/build:nobody", domain.ErrNotFound},
		{"nosuch", one, domain.ErrNotFound},
	} {
		if _, err := r.Park(t.Context(), tt.projection, tt.stream, "again"); !errors.Is(err, tt.want) {
			t.Errorf("Park(%s, %s) = %v, want %v", tt.projection, tt.stream, err, tt.want)
		}
	}
	if err := r.Compare(t.Context()); !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), "leaves out "+string(one)) {
		t.Errorf("Compare = %v, want it to say what is left out", err)
	}
	if still, err := r.Retry(t.Context(), "well", ""); err != nil || len(still) > 0 {
		t.Fatalf("Retry = %v, %v", still, err)
	}
	if got := kept(t, r, "well", one); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after the retry it keeps %v", got)
	}
}
