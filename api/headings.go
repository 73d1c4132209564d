package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file remembers what the streams are about that bundles are selected by, so that a
// bundle of one slot does not take reading every day of its consent.

// keptHeadings is of how many streams headings are kept, and headingsPage of how many
// records they are read at a time.
const (
	keptHeadings = 1024
	headingsPage = 500
)

// A heading is what a record of a consent or a plan is about. It says which records stand
// in a bundle; whatever stands there is read and proven anew.
type heading struct {
	index, version uint64

	consent  string // that was signed with it; "" if none was
	granted  bool   // and is in force from then on
	from, to uint32 // the days of that consent, or that of a plan
	planned  bool   // the day, with this record
}

func headingOf(l publiclog.Leaf) (heading, error) {
	r, e, err := read(l)
	h := heading{index: l.Index, version: r.Version}
	switch e := e.(type) {
	case consent.Granted:
		h.consent, h.granted, h.from, h.to = e.Consent, true, e.Payload.FirstDay, e.Payload.LastDay
	case consent.Refused:
		h.consent = e.Consent
	case plan.Sealed:
		h.from, h.planned = e.Day, true
	case plan.Opened:
		h.from = e.Day
	}
	return h, err
}

// headings are those of streams as far as they were read. Records never change and streams
// only grow, so what is kept stays true.
type headings struct {
	kept *lru.Cache[ledger.Stream, headed]
}

// A headed stream is one whose headings are known: all of the log up to a size, and maybe
// some behind it. The list is not changed any more.
type headed struct {
	list []heading
	size uint64
}

func newHeadings() headings {
	kept, err := lru.New[ledger.Stream, headed](keptHeadings)
	if err != nil {
		panic(fmt.Sprintf("api: %v", err)) // the number is a good one
	}
	return headings{kept}
}

// of returns the headings of streams as of a view of the log, in order. What is new in them
// is read at once, together with the leaves of the runs that are given besides.
func (h headings) of(ctx context.Context, v *publiclog.View, streams []ledger.Stream, besides ...publiclog.Run) (lists [][]heading, leaves [][]publiclog.Leaf, err error) {
	known := make([]headed, len(streams))
	for i, s := range streams {
		known[i], _ = h.kept.Get(s)
	}
	for first := true; ; first = false {
		var runs []publiclog.Run
		if first {
			runs = besides
		}
		var behind []int
		for i, k := range known {
			if k.size < v.Size {
				behind = append(behind, i)
				runs = append(slices.Clip(runs), publiclog.Run{Stream: streams[i], Version: k.next(), Limit: headingsPage})
			}
		}
		if len(runs) == 0 {
			break
		}
		found, err := v.Runs(ctx, runs...)
		if err != nil {
			return nil, nil, err
		}
		if first {
			leaves, found = found[:len(besides)], found[len(besides):]
		}
		for n, i := range behind {
			if known[i], err = known[i].with(found[n], v.Size); err != nil {
				return nil, nil, err
			}
			h.kept.Add(streams[i], known[i])
		}
	}
	for _, k := range known {
		// Another one may have read more, of a later view.
		end, _ := slices.BinarySearchFunc(k.list, v.Size, func(one heading, size uint64) int { return cmp.Compare(one.index, size) })
		lists = append(lists, k.list[:end])
	}
	return lists, leaves, nil
}

// next returns the version of the first record whose heading is not known.
func (h headed) next() uint64 {
	if n := len(h.list); n > 0 {
		return h.list[n-1].version + 1
	}
	return 1
}

// with returns the stream with the leaves of its next page in a log of some size.
func (h headed) with(page []publiclog.Leaf, size uint64) (headed, error) {
	list := slices.Clip(h.list) // who else has it does not see it grow
	for _, l := range page {
		one, err := headingOf(l)
		if err != nil {
			return h, err
		}
		list = append(list, one)
	}
	if len(page) == headingsPage {
		size = h.size // there may be more
	}
	return headed{list, size}, nil
}
