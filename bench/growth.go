package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// growth measures what has no peer: how figures change with the number of events, leaves,
// commits and consents, each time ten times as many.
func (b *bench) growth(ctx context.Context) error {
	for _, size := range []struct{ consents, days int }{{1, 11}, {4, 27}, {18, 60}, {130, 84}} { // a thousand records to a million
		if err := b.growEvents(ctx, size.consents, size.days); err != nil {
			return err
		}
	}
	for _, n := range []int{1e3, 1e4, 1e5, 1e6} {
		if err := b.growLeaves(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range []int{1e3, 1e4, 1e5} {
		if err := b.growCommits(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range []int{1e3, 1e4, 1e5} {
		if err := b.growConsents(ctx, n); err != nil {
			return err
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
	err = firstOf(
		b.contest(ctx, among+"every check, from the log", side{run: r.rate(r.replayLog, true)}),
		b.contest(ctx, among+"all read models made anew", side{run: r.rate(r.rebuild, true)}),
		b.contest(ctx, among+"records put into the public log", side{run: r.rate(r.integrate, true)}),
	)
	if err != nil {
		return err
	}
	v, err := serveLedger(ctx, r.schema, r.log)
	if err != nil {
		return err
	}
	defer v.Close()
	return firstOf(
		b.growReading(ctx, among, v, "/v1/mystery/consents/{id}"),
		b.contest(ctx, among+"append, 32 writers", side{run: func(ctx context.Context) ([]figure, error) { return b.appendsTo(ctx, r.schema, 32) }}),
	)
}

// growReading measures how often a path is read.
func (b *bench) growReading(ctx context.Context, among string, v *service, path string) error {
	return b.contest(ctx, among+"GET "+path, side{run: func(ctx context.Context) ([]figure, error) {
		return b.hammer(ctx, v.address, v.path(path))
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
	return b.contest(ctx, fmt.Sprintf("%d leaves: inclusion proof", n), side{run: each(func(ctx context.Context) error { return s.prove(ctx, n) })})
}

// growCommits measures a batch of n commits.
func (b *bench) growCommits(ctx context.Context, n int) error {
	records, commits, err := commit(n)
	if err != nil {
		return err
	}
	return b.contest(ctx, fmt.Sprintf("%d commits: batch closed and stored", n),
		side{run: func(ctx context.Context) ([]figure, error) { return b.closeNew(ctx, records, commits) }})
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
	if err := b.contest(ctx, among+"all read models made anew", side{run: r.rate(r.rebuild, true)}); err != nil {
		return err
	}
	v, err := serveLedger(ctx, r.schema, r.log)
	if err != nil {
		return err
	}
	defer v.Close()
	return firstOf(
		b.growReading(ctx, among, v, "/v1/mystery/consents"),
		b.growReading(ctx, among, v, "/v1/mystery/consents/{id}"),
	)
}

// path fills the consent of the service in.
func (v *service) path(path string) string { return strings.Replace(path, "{id}", v.consent, 1) }
