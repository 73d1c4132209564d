package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file finds the records that a bundle holds, in few questions to the database: each
// asks for all that is needed by then.

// A gathering reads what a bundle is made of: of one view of the log, and from beside it.
type gathering struct {
	*server

	view   *publiclog.View
	signed consent.Payload // of the consent in scope
	scope  bundleScope
	bodies Bodies

	consents []heading                          // of the agent
	known    map[uint64]publiclog.Leaf          // that were read and stand in the bundle, by index
	ahead    map[ledger.Stream][]publiclog.Leaf // of slots, that were read before it is known whether they are in scope
	seals    map[uint64][]publiclog.Leaf        // of the consent that were looked at, by version; none where there is none
}

// slotRecords is more than a slot has in the log: its commit, its reveal, an erasure. So many
// slots are read at a time.
const (
	slotRecords = 10
	slotsPage   = 200
)

// gather begins a gathering with what is read at once: what the records of the agent's
// consents and of the plans are about, and, for a day or a slot, the slots themselves and
// the seal that is most likely needed.
func (s *server) gather(ctx context.Context, v *publiclog.View, signed consent.Payload, scope bundleScope, bodies Bodies) (*gathering, error) {
	g := &gathering{
		server: s, view: v, signed: signed, scope: scope, bodies: bodies, known: make(map[uint64]publiclog.Leaf),
		ahead: make(map[ledger.Stream][]publiclog.Leaf), seals: make(map[uint64][]publiclog.Leaf),
	}
	var runs []publiclog.Run
	if !scope.whole() {
		runs = runsOf(slotsOf(scope, scope.day))
	}
	slots := len(runs)
	first := seal.FirstHour(signed.FirstDay)
	if scope.pinned >= first { // none was missed, as a rule
		runs = append(runs, publiclog.Run{Stream: seal.StreamOf(scope.consent), Version: scope.pinned - first + 1, Limit: 1})
	}
	lists, found, err := s.headings.of(ctx, v, []ledger.Stream{consent.StreamOf(signed.Agent), plan.StreamOf(scope.consent)}, runs...)
	if err != nil {
		return nil, err
	}
	g.consents = lists[0]
	for i, leaves := range found {
		if i < slots {
			g.ahead[runs[i].Stream] = leaves
		} else {
			g.seals[runs[i].Version] = leaves
		}
	}
	return g, nil
}

// runsOf returns the runs that are all records of slots.
func runsOf(slots []ledger.Stream) (runs []publiclog.Run) {
	for _, s := range slots {
		runs = append(runs, publiclog.Run{Stream: s, Version: 1, Limit: slotRecords})
	}
	return runs
}

// Over how many days before a day its cap counts tasks.
const capDays = 6

// selected returns the leaves that a bundle holds: the consents of the agent, the plans
// in scope and those of the six days before, the slots, and their seals. Commits are
// those of the slots, and the roots of the seals that reveals name.
func (g *gathering) selected(ctx context.Context) (indexes []uint64, commits []domain.Hash, err error) {
	covered, own := false, -1
	var granted []string
	var plans []ledger.Stream
	for i, h := range g.consents {
		indexes = append(indexes, h.index)
		if h.consent == g.scope.consent {
			covered = true
			if h.granted {
				own = i
			}
		}
		if h.granted {
			granted, plans = append(granted, h.consent), append(plans, plan.StreamOf(h.consent))
		}
	}
	if !covered {
		return nil, nil, fmt.Errorf("the signed log does not cover the consent %s yet: %w", g.scope.consent, domain.ErrNotFound)
	}
	if own < 0 {
		return indexes, nil, nil // it was refused
	}
	from, to := g.scope.day, g.scope.day
	if g.scope.whole() {
		from, to = g.consents[own].from, g.consents[own].to
	}
	lists, _, err := g.headings.of(ctx, g.view, plans)
	if err != nil {
		return nil, nil, err
	}
	var slots []ledger.Stream
	for i, list := range lists {
		for _, h := range list {
			if h.from < from-min(capDays, from) || h.from > to {
				continue
			}
			indexes = append(indexes, h.index)
			if h.planned && granted[i] == g.scope.consent && h.from >= from {
				slots = append(slots, slotsOf(g.scope, h.from)...)
			}
		}
	}
	found, hours, commits, err := g.committed(ctx, slots)
	if err != nil {
		return nil, nil, err
	}
	if g.scope.shop != "" && len(found) == 0 {
		return nil, nil, fmt.Errorf("the signed log does not cover the slot %s yet: %w", g.scope.shop, domain.ErrNotFound)
	}
	indexes = append(indexes, found...)
	seals, err := g.sealsOf(ctx, g.consents[own].from, hours)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range seals {
		_, e, err := read(l)
		if err != nil {
			return nil, nil, err
		}
		sealed, ok := e.(seal.Sealed)
		if ok && hours[sealed.Hour] {
			commits = append(commits, sealed.Root)
		}
		if ok && (g.scope.whole() || hours[sealed.Hour]) {
			indexes = append(indexes, l.Index)
			g.known[l.Index] = l
		}
	}
	return indexes, commits, nil
}

// committed returns where the records of slots are, their commits, and the hours of the
// seals that their reveals name.
func (g *gathering) committed(ctx context.Context, slots []ledger.Stream) (indexes []uint64, hours map[uint64]bool, commits []domain.Hash, err error) {
	hours = make(map[uint64]bool)
	for page := range slices.Chunk(slots, slotsPage) {
		leaves, err := g.slots(ctx, page)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, l := range leaves {
			_, e, err := read(l)
			if err != nil {
				return nil, nil, nil, err
			}
			indexes = append(indexes, l.Index)
			if !g.scope.whole() { // of which there may be more than fits in memory
				g.known[l.Index] = l
			}
			switch e := e.(type) {
			case shop.Committed:
				commits = append(commits, e.Commit)
			case shop.Revealed:
				if e.Pinned.Path != nil {
					hours[e.Pinned.Hour] = true
				}
			}
		}
	}
	return indexes, hours, commits, nil
}

// slots returns the records of slots.
func (g *gathering) slots(ctx context.Context, slots []ledger.Stream) (leaves []publiclog.Leaf, err error) {
	var unread []ledger.Stream
	for _, s := range slots {
		if read, ok := g.ahead[s]; ok {
			leaves = append(leaves, read...)
		} else {
			unread = append(unread, s)
		}
	}
	if len(unread) == 0 {
		return leaves, nil
	}
	found, err := g.view.Runs(ctx, runsOf(unread)...)
	return slices.Concat(append(found, leaves)...), err
}

// sealsOf returns seals of the consent, whose first day is given: all that are in scope, and
// others maybe.
func (g *gathering) sealsOf(ctx context.Context, firstDay uint32, hours map[uint64]bool) ([]publiclog.Leaf, error) {
	stream := seal.StreamOf(g.scope.consent)
	if g.scope.whole() {
		return g.view.Stream(ctx, stream, 1, math.MaxInt32)
	}
	named := slices.Sorted(maps.Keys(hours))
	for i, hour := range named {
		version, err := verify.FindSeal(firstDay, hour, func(version uint64) (uint64, error) {
			leaves, err := g.seal(ctx, version)
			if err != nil || len(leaves) == 0 {
				return 0, err
			}
			_, e, err := read(leaves[0])
			sealed, _ := e.(seal.Sealed)
			return sealed.Hour, err
		})
		switch last := named[len(named)-1]; {
		case errors.Is(err, domain.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case hour == last:
			return g.seal(ctx, version)
		default:
			return g.view.Stream(ctx, stream, version, int(last-named[i])+1) //nolint:gosec // within a day and the next
		}
	}
	return nil, nil
}

// seal returns the record of a version of the stream of seals, none behind its end.
func (g *gathering) seal(ctx context.Context, version uint64) ([]publiclog.Leaf, error) {
	if leaves, ok := g.seals[version]; ok {
		return leaves, nil
	}
	leaves, err := g.view.Stream(ctx, seal.StreamOf(g.scope.consent), version, 1)
	if err == nil {
		g.seals[version] = leaves
	}
	return leaves, err
}

// slotsOf returns the streams of the slots of a day that are in scope.
func slotsOf(scope bundleScope, day uint32) (streams []ledger.Stream) {
	if scope.shop != "" {
		return []ledger.Stream{shop.StreamOf(scope.shop)}
	}
	for slot := range uint32(plan.Slots) {
		streams = append(streams, shop.StreamOf(plan.ShopID(scope.consent, day, slot)))
	}
	return streams
}

// rolled returns the places of commits in batches that the signed log covers, and the
// leaves of what it has of these batches, of those before them, which they go on behind,
// and of the first one, which tells since when there are batches.
func (g *gathering) rolled(ctx context.Context, commits []domain.Hash) (list []verify.Rolled, indexes []uint64, err error) {
	proofs, err := g.Reader.CommitProofs(ctx, commits)
	if err != nil {
		return nil, nil, err
	}
	var streams []ledger.Stream
	for _, p := range proofs {
		if p.Batch != nil {
			streams = append(streams, batch.StreamOf(p.Batch.Batch), batch.StreamOf(p.Batch.Batch-1), batch.StreamOf(1))
		}
	}
	slices.Sort(streams)
	places, err := g.view.Indexes(ctx, slices.Compact(streams))
	if err != nil {
		return nil, nil, err
	}
	shown := make(map[ledger.Stream][]uint64)
	for commit, p := range proofs {
		if p.Batch == nil || len(places[batch.StreamOf(p.Batch.Batch)]) == 0 {
			continue
		}
		n := p.Batch.Batch
		for _, of := range []uint64{n, n - 1, 1} {
			shown[batch.StreamOf(of)] = places[batch.StreamOf(of)]
		}
		list = append(list, verify.Rolled{Batch: n, Commit: commit, Index: p.Index, Path: p.Path})
	}
	return list, slices.Collect(joined(shown)), nil
}

// joined yields the places of all streams.
func joined(places map[ledger.Stream][]uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, of := range places {
			for _, index := range of {
				if !yield(index) {
					return
				}
			}
		}
	}
}

// remembered are bodies that are read once for an answer.
type remembered struct {
	Bodies

	read map[string]saltedBody
}

type saltedBody struct{ salt, body []byte }

// Get implements [Bodies].
func (r *remembered) Get(ctx context.Context, key string) (salt, body []byte, err error) {
	if b, ok := r.read[key]; ok {
		return b.salt, b.body, nil
	}
	if salt, body, err = r.Bodies.Get(ctx, key); err == nil {
		if r.read == nil {
			r.read = make(map[string]saltedBody)
		}
		r.read[key] = saltedBody{salt, body}
	}
	return salt, body, err
}
