package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/projections"
)

// Why a process cannot serve, in the words of /readyz and of the doctor.
const (
	noDatabase = "the database does not answer"
	noRecords  = "the ledger takes no records: see whether its disk is full"
	endsNow    = "this process is about to end; ask another one, or again"
)

// Drain makes this process say from now on that it is not ready, so that whoever shares
// out requests passes it by. Those that come all the same are answered.
func (p *Programme) Drain() { p.draining.Store(true) }

// pingTimeout bounds what is waited for to know whether the database answers.
const pingTimeout = 3 * time.Second

// Ready returns why this process cannot serve requests, "" if it can.
func (p *Programme) Ready(ctx context.Context) (why string) {
	if p.draining.Load() {
		return endsNow
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := p.Reader.Ping(ctx); err != nil {
		p.log.WarnContext(ctx, "the database does not answer", "err", err)
		return noDatabase
	}
	if !p.taking.takes() {
		return noRecords
	}
	return ""
}

// Level returns how far the database is migrated.
func (p *Programme) Level(ctx context.Context) (migrations.Level, error) {
	return migrations.LevelOf(ctx, p.url, p.schema)
}

// Vitals returns what the operator watches. What this process knows by itself is there
// even with an error.
func (p *Programme) Vitals(ctx context.Context) (v operator.Vitals, err error) {
	stat := p.pool.Stat()
	v.Conns, v.IdleConns, v.MaxConns = int(stat.AcquiredConns()), int(stat.IdleConns()), int(stat.MaxConns())
	if p.clock != nil {
		v.Clock = p.clock.Offset()
	}
	if v.Shopper, err = (projections.Due{Pool: p.pool}).Vitals(ctx, p.Now()); err != nil {
		return v, err
	}
	if v.PublicLog, err = p.Ledger.Standing(ctx); err != nil {
		return v, err
	}
	if v.Open, err = p.Reader.OldestOpenCommit(ctx); err != nil {
		return v, err
	}
	status, err := p.Reader.Programme(ctx)
	if err != nil {
		return v, err
	}
	v.Pauses = len(status.Pauses)
	if p.Attester == nil {
		return v, nil
	}
	s, err := (&tables.Transactions{Pool: p.pool}).Status(ctx)
	if errors.Is(err, domain.ErrNotFound) {
		return v, nil // not begun
	}
	v.Attesting = s.State
	return v, err
}

// ReadModels returns where the read models stand, as the processes that serve and work
// have left them.
func (p *Programme) ReadModels(ctx context.Context) ([]projections.Standing, error) {
	return p.runner.Status(ctx)
}

// CompareHeads holds the end of the log against what the database made of it: the next
// record must follow the last one, no read model may be further than the log, and the
// last public record that the database took must be in the log, with the same hash. It
// returns an error matching [ledger.ErrDamaged] if something else is the case, as when
// one of the two was restored from an older backup.
func (p *Programme) CompareHeads(ctx context.Context) (end uint64, err error) {
	if p.local != nil {
		if err := p.local.CheckEnd(ctx); err != nil {
			return 0, err
		}
	}
	tree, err := p.Ledger.Standing(ctx)
	if err != nil {
		return 0, err
	}
	list, err := p.runner.Status(ctx)
	if err != nil {
		return 0, err
	}
	ahead := func(what string, position uint64) error {
		if end == 0 || position <= end {
			return nil
		}
		return fmt.Errorf("%s is at position %d, and the log ends at %d; one of them was restored from another backup: the log is %w",
			what, position, end, ledger.ErrDamaged)
	}
	for _, s := range list {
		end = s.End
		if err := ahead("read model "+s.Name, s.Position); err != nil {
			return end, err
		}
	}
	if err := ahead("the public log", tree.Position); err != nil || tree.Size == 0 {
		return end, err
	}
	for r, err := range p.ledger.Stream(ctx, tree.Stream, tree.Version-1) {
		switch {
		case err != nil:
			return end, err
		case r.Hash != tree.Hash:
			return end, fmt.Errorf("version %d of %s is another record in the log than in the public log: the log is %w", tree.Version, tree.Stream, ledger.ErrDamaged)
		}
		return end, nil
	}
	return end, fmt.Errorf("version %d of %s is in the public log and not in the log, which was restored from an older backup: the log is %w",
		tree.Version, tree.Stream, ledger.ErrDamaged)
}

// watch counts requests by their route, and traces them.
func (p *Programme) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		began := time.Now()
		ctx, end := p.traceRequest(r.Context(), method(r.Method))
		defer func() {
			route, status := pattern(chi.RouteContext(ctx)), statusOf(answer)
			p.counters.Request(route, method(r.Method), status, time.Since(began))
			end(route, status)
		}()
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// pattern returns the route that a request took; there are few.
func pattern(route *chi.Context) string {
	if p := route.RoutePattern(); p != "" && p != "/*" {
		return p
	}
	return "none"
}

// method returns the method of a request, if it is one that is known: anybody may make up
// another.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
		return m
	}
	return "other"
}

func statusOf(w middleware.WrapResponseWriter) int {
	if s := w.Status(); s != 0 {
		return s
	}
	return http.StatusOK
}
