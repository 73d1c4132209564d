package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/karatum/mystery/domain/batch"
)

// growth measures what has no peer: how figures change with the number of events, leaves,
// commits and consents, each time ten times as many, up to a largest number.
func (b *bench) growth(ctx context.Context) error {
	for _, size := range []struct{ n, consents, days int }{{1e3, 1, 11}, {1e4, 4, 27}, {1e5, 18, 60}, {1e6, 130, 84}} {
		if size.n <= b.largest {
			if err := b.growEvents(ctx, size.consents, size.days); err != nil {
				return err
			}
		}
	}
	for _, grow := range []struct {
		f    func(context.Context, int) error
		most int
	}{{b.growLeaves, 1e6}, {b.growCommits, batch.MaxCount}, {b.growConsents, 1e5}} {
		for n := 1000; n <= min(grow.most, b.largest); n *= 10 {
			if err := grow.f(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// growEvents measures a ledger of so many consents and days.
func (b *bench) growEvents(ctx context.Context, consents, days int) (err error) {
	records, err := write(consents, days)
	if err != nil {
		return err
	}
	r, err := b.openReader(ctx, records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	among := fmt.Sprintf("%d events: ", len(records))
	err = b.hold(ctx,
		doing(among+"every check, from the log", side{run: r.rate(r.replayLog, true)}),
		doing(among+"all read models made anew", side{run: r.rate(r.rebuild, true)}),
		doing(among+"records put into the public log", side{run: r.rate(r.integrate, true)}),
	)
	if err != nil {
		return err
	}
	v, err := serveLedger(ctx, r.schema, r.log)
	if err != nil {
		return err
	}
	defer v.Close()
	return b.hold(ctx,
		b.reading(among+"GET shops of a consent", v, v.path()+"/shops"),
		doing(among+"append, 32 writers", side{run: func(ctx context.Context) ([]figure, error) { return b.appendsTo(ctx, r.schema, 32) }}),
	)
}

// reading is a contest about how often a path is read.
func (b *bench) reading(what string, v *service, path string) contest {
	return doing(what, side{run: func(ctx context.Context) ([]figure, error) {
		if _, err := ask(ctx, v.address, path); err != nil { // the first reads what PostgreSQL has not in memory
			return nil, err
		}
		return b.hammer(ctx, v.address, path)
	}})
}

// growLeaves measures proofs out of a public log of n leaves.
func (b *bench) growLeaves(ctx context.Context, n int) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	if err := s.grow(ctx, n); err != nil {
		return err
	}
	return b.hold(ctx, doing(fmt.Sprintf("%d leaves: inclusion proof", n), side{run: each(func(ctx context.Context) error { return s.prove(ctx, n) })}))
}

// growCommits measures a batch of n commits.
func (b *bench) growCommits(ctx context.Context, n int) error {
	records, commits, err := commit(n)
	if err != nil {
		return err
	}
	return b.hold(ctx, doing(fmt.Sprintf("%d commits: batch closed and stored", n),
		side{run: func(ctx context.Context) ([]figure, error) { return b.closeNew(ctx, records, commits) }}))
}

// growConsents measures a ledger of n consents that have not begun yet.
func (b *bench) growConsents(ctx context.Context, n int) (err error) {
	records, err := write(n, 0)
	if err != nil {
		return err
	}
	r, err := b.openReader(ctx, records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	among := fmt.Sprintf("%d consents: ", n)
	if err := b.hold(ctx, doing(among+"all read models made anew", side{run: r.rate(r.rebuild, true)})); err != nil {
		return err
	}
	v, err := serveLedger(ctx, r.schema, r.log)
	if err != nil {
		return err
	}
	defer v.Close()
	return b.hold(ctx, b.reading(among+"GET consents", v, "/v1/mystery/consents"))
}
