package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

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
// for a bounded number of things, however many days its consent has. What a page takes in
// milliseconds depends on the machine, and is no matter of a test.
func TestColdPages(t *testing.T) {
	t.Parallel()
	const bound = 40
	w := newWorld(t).furnish()
	log := w.publicLog()
	d := w.seal(w.grant(house), house)
	for _, slot := range d.tasks[:2] {
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
	serve := func(slot int, h http.Handler) int64 {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mystery/shops/"+d.shop(slot), nil)
		r.Header.Set("Accept", "text/html")
		rec, before := httptest.NewRecorder(), count.Load()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			t.Fatalf("GET %s: %d", r.URL, rec.Code)
		}
		return count.Load() - before
	}
	c := w.config
	c.Reader, c.Ledger = projections.Reader{Pool: pool}, publiclog.Reader{Pool: pool}
	h := api.New(c)
	few := serve(d.tasks[0], h)
	d.later(25)
	log.publish()
	w.ok(w.runner.CatchUp(t.Context()))
	many, again := serve(d.tasks[1], api.New(c)), serve(d.tasks[1], h)
	t.Logf("the page of a slot takes %d trips to the database in a process that has just started, %d with 25 days more, and %d where days are known", few, many, again)
	if few > bound || many > few || again > few {
		t.Errorf("the page of a slot takes %d, %d and %d trips to the database; want no more with more days, and %d at most", few, many, again, bound)
	}
}
