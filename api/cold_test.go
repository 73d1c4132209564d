package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// trips counts the ways to the server and back.
type trips struct{ atomic.Int64 }

func (n *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	n.Add(1)
	return ctx
}

func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (n *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	n.Add(1)
	return ctx
}

func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A page of a slot that nobody has asked for yet comes soon: checking it asks the database
// for a bounded number of things, however many days its consent has, and for fewer if another
// slot was looked at before. It says what a page says that was kept. What a page takes in
// milliseconds depends on the machine, and is no matter of a test.
func TestColdPages(t *testing.T) {
	t.Parallel()
	const first, next, warm = 20, 12, 5
	w := newWorld(t).furnish()
	log := w.publicLog()
	d := w.seal(w.grant(house), house)
	for _, slot := range d.tasks {
		d.send(slot, "5280 feet")
		d.pass(time.Hour)
		d.reveal(slot, passed("5280 feet"))
	}
	d.open()
	log.publish()
	w.ok(w.runner.CatchUp(t.Context()))

	count := new(trips)
	cfg := w.runner.Pool.Config()
	cfg.ConnConfig.Tracer, cfg.MinConns = count, 0
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	w.ok(err)
	t.Cleanup(pool.Close)
	c := w.config
	c.Reader, c.Ledger = projections.Reader{Pool: pool}, publiclog.Reader{Pool: pool}
	get := func(h http.Handler, path, accept string) (body string, trips int64) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		rec, before := httptest.NewRecorder(), count.Load()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			t.Fatalf("GET %s: %d", path, rec.Code)
		}
		return rec.Body.String(), count.Load() - before
	}
	page := func(h http.Handler, slot int) (string, int64) {
		t.Helper()
		return get(h, "/mystery/shops/"+d.shop(slot), "text/html")
	}
	bounded := func(what string, trips, bound int64) {
		t.Helper()
		if trips > bound {
			t.Errorf("the page of a slot takes %d trips to the database %s, want %d at most", trips, what, bound)
		}
	}

	h := api.New(c)
	_, trips := page(h, d.tasks[0])
	bounded("in a process that has just started", trips, first)
	_, trips = page(h, d.tasks[1])
	bounded("behind that of another slot", trips, next)
	_, trips = page(h, d.pads[0])
	bounded("behind that of another slot, if it is a pad", trips, next)
	d.later(25)
	log.publish()
	w.ok(w.runner.CatchUp(t.Context()))
	_, trips = page(h, d.tasks[1])
	bounded("with more days than it knows of", trips, first)
	_, trips = page(api.New(c), d.tasks[1])
	bounded("with more days, in a process that has just started", trips, first)

	for _, slot := range []int{d.tasks[2], d.pads[1]} {
		cold, _ := page(api.New(c), slot)
		_, _ = page(h, slot)
		kept, trips := page(h, slot)
		bounded("once it is kept", trips, warm)
		if kept != cold {
			t.Errorf("the page of slot %d is not the same once it is kept: %s", slot, cmp.Diff(cold, kept))
		}
		verify := root + "/shops/" + d.shop(slot) + "/verify"
		cold, _ = get(api.New(c), verify, "application/json")
		if again, _ := get(h, verify, "application/json"); again != cold {
			t.Errorf("the checks of slot %d are not the same where something is known: %s", slot, cmp.Diff(cold, again))
		}
	}
}
