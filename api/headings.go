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
// only grow, so what is kept stays true. Lists that are kept are not changed any more.
type headings struct {
	kept *lru.Cache[ledger.Stream, []heading]
}

func newHeadings() headings {
	kept, err := lru.New[ledger.Stream, []heading](keptHeadings)
	if err != nil {
		panic(fmt.Sprintf("api: %v", err)) // the number is a good one
	}
	return headings{kept}
}

// of returns the headings of a stream as of a view of the log, in order.
func (h headings) of(ctx context.Context, v *publiclog.View, s ledger.Stream) ([]heading, error) {
	list, _ := h.kept.Get(s)
	for more := true; more; {
		next := uint64(1)
		if n := len(list); n > 0 {
			next = list[n-1].version + 1
		}
		leaves, err := v.Stream(ctx, s, next, headingsPage)
		if err != nil {
			return nil, err
		}
		read := slices.Clip(list) // who else has it does not see it grow
		for _, l := range leaves {
			one, err := headingOf(l)
			if err != nil {
				return nil, err
			}
			read = append(read, one)
		}
		list, more = read, len(leaves) == headingsPage
	}
	h.kept.Add(s, list)
	// Another one may have read more, of a later view.
	end, _ := slices.BinarySearchFunc(list, v.Size, func(one heading, size uint64) int { return cmp.Compare(one.index, size) })
	return list[:end], nil
}
