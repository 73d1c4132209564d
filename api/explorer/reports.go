package explorer

import (
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
)

const (
	keptReports = 512
	// A reply can be lost without a word in the ledger, so a report is not kept for long.
	reportLife = time.Minute
)

// reports keeps what came of checking slots, which takes longer than all else on a page,
// until something is published or signed that could change it. Programs are never
// answered from it.
type reports struct {
	config Config
	kept   *lru.Cache[string, keptReport]
}

// A keptReport is one with what it was made from: everything public up to a record and a
// checkpoint.
type keptReport struct {
	report *verify.ShopReport // is not changed any more
	made   time.Time
	asOf   time.Time
	size   uint64
}

func newReports(c Config) *reports {
	kept, err := lru.New[string, keptReport](keptReports)
	if err != nil {
		panic(err) // it has room for some
	}
	return &reports{c, kept}
}

// of returns the report of a slot and when it was made. The state must be older than what
// is read from now on, so that no report is taken for a later one.
func (r *reports) of(ctx context.Context, shop string, s projections.Status) (*verify.ShopReport, time.Time, error) {
	head, err := r.config.Ledger.Head(ctx)
	if err != nil && !errors.Is(err, domain.ErrNotFound) { // nothing is signed yet
		return nil, time.Time{}, err
	}
	now := r.config.Now()
	if k, ok := r.kept.Get(shop); ok && k.asOf.Equal(s.AsOf) && k.size == head.Size && now.Sub(k.made) < reportLife {
		return k.report, k.made, nil
	}
	report, err := r.config.Verify(ctx, shop)
	if err != nil {
		return nil, time.Time{}, err
	}
	r.kept.Add(shop, keptReport{report, now, s.AsOf, head.Size})
	return report, now, nil
}
