package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

type dayKey struct {
	consent string
	day     uint32
}

// planned is a day with what is needed to carry it out and to open it.
type planned struct {
	plan.Day
	eligible plan.Eligible
	surfaces []plan.Surface
	targets  map[string]agents.Target
	notes    []string
}

// planNext seals the plan of tomorrow once it is 22:00. Nothing is planned after
// midnight: a day that was not sealed in time has no plan.
func (w *Worker) planNext(ctx context.Context, c Consent, now time.Time) error {
	day := domain.DayOf(now) + 1
	p := c.Granted.Payload
	if now.Before(domain.DayStart(day).Add(-planFrom)) || !p.Covers(day) {
		return nil
	}
	plans, err := w.Work.Plans(ctx, p.Agent)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(plans, func(q Plan) bool { return q.Consent == c.Granted.Consent && q.Day == day }) {
		return nil
	}
	d, err := w.compute(ctx, c.Granted, plans, day)
	if err != nil {
		return err
	}
	list, err := d.eligible.Bytes()
	if err != nil {
		return err
	}
	hash := domain.Sum(list)
	if err := w.Bodies.Put(ctx, "eligible/"+hash.String(), nil, list); err != nil {
		return err
	}
	sealed := plan.Sealed{Consent: c.Granted.Consent, Day: day, Commits: d.Commits(), Eligible: hash}
	m := meta(fmt.Sprintf("seal/%s/%d", c.Granted.Consent, day))
	if err := w.Service.Plan(ctx, m, c.Granted.Consent, plan.Seal(sealed)); err != nil {
		return err
	}
	w.keep(d)
	return w.Work.CatchUp(ctx)
}

// compute derives a day of a consent from the ledger and the operator secret.
func (w *Worker) compute(ctx context.Context, g consent.Granted, plans []Plan, day uint32) (*planned, error) {
	offers, surfaces, targets, err := w.offers(ctx, g.Payload, day)
	if err != nil {
		return nil, err
	}
	list, notes := plan.EligibleOf(offers, g.Payload.Skills)
	before, err := w.tasksBefore(ctx, g, plans, day)
	if err != nil {
		return nil, err
	}
	limit := plan.Cap(g.Payload.MaxPerDay, g.Payload.MaxPerWeek, before)
	d, err := plan.Compute(g.Consent, day, w.secret(g, day), limit, list, offers, g.Payload.Skills)
	if err != nil {
		return nil, err
	}
	return &planned{Day: d, eligible: list, surfaces: surfaces, targets: targets, notes: notes}, nil
}

// secret returns the day secret, which only both parties' parts give.
func (w *Worker) secret(g consent.Granted, day uint32) domain.Hash {
	return plan.DaySecret(plan.PlanKey(w.Service.Secret, g.Payload.Nonce, day), g.Entropy())
}

// tasksBefore returns the tasks of the six days before day, summed over all
// consents of the agent. Days that are opened say their number; the others are
// computed, which ends at the latest at the first day of the consent.
func (w *Worker) tasksBefore(ctx context.Context, g consent.Granted, plans []Plan, day uint32) (sum int, err error) {
	for back := uint32(1); back <= 6 && back <= day; back++ {
		d := day - back
		for _, p := range plans {
			if p.Day == d && p.Consent != g.Consent {
				if !p.Opened {
					return 0, fmt.Errorf("day %s of the agent's earlier consent %s is not opened yet: %w",
						domain.DayString(d), p.Consent, domain.ErrUnavailable)
				}
				sum += p.Count
			}
		}
		if d < g.Payload.FirstDay {
			continue
		}
		i := slices.IndexFunc(plans, func(p Plan) bool { return p.Consent == g.Consent && p.Day == d })
		if i >= 0 && plans[i].Opened {
			sum += plans[i].Count
			continue
		}
		own, err := w.day(ctx, g, plans, d)
		if err != nil {
			return 0, err
		}
		sum += own.Count
	}
	return sum, nil
}

// day returns a day that is not opened yet, from the cache or computed again. A
// sealed day must come out as it was sealed.
func (w *Worker) day(ctx context.Context, g consent.Granted, plans []Plan, day uint32) (*planned, error) {
	w.mu.Lock()
	d, ok := w.days[dayKey{g.Consent, day}]
	w.mu.Unlock()
	if ok {
		return d, nil
	}
	d, err := w.compute(ctx, g, plans, day)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(plans, func(p Plan) bool { return p.Consent == g.Consent && p.Day == day })
	if commits := d.Commits(); i >= 0 && plans[i].Sealed && !slices.Equal(plans[i].Commits, commits[:]) {
		return nil, fmt.Errorf("day %s of %s does not come out as it was sealed; the operator secret, the templates or a stored surface have changed",
			domain.DayString(day), g.Consent)
	}
	w.keep(d)
	return d, nil
}

func (w *Worker) keep(d *planned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.days == nil {
		w.days = make(map[dayKey]*planned)
	}
	w.days[dayKey{d.Consent, d.Day.Day}] = d
}

func (w *Worker) forget(consentID string, day uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.days, dayKey{consentID, day})
}

// commit completes the shop.committed events of a sealed plan: all 24 or, after a
// crash, those that are missing.
func (w *Worker) commit(ctx context.Context, p Plan, have map[string]Slot) error {
	for i, h := range p.Commits {
		id := plan.ShopID(p.Consent, p.Day, uint32(i)) //nolint:gosec // below 24
		if have[id].State != shop.StateNone {
			continue
		}
		c := shop.Committed{Consent: p.Consent, Day: p.Day, Slot: i, Commit: h}
		if err := w.Service.Shop(ctx, meta("commit/"+id), id, shop.Commit(c)); err != nil {
			return err
		}
		have[id] = Slot{State: shop.StateCommitted}
	}
	return nil
}

// requiresPlan reports whether a day must have been planned: the consent was in
// force when it began.
func requiresPlan(c Consent, day uint32) bool {
	return c.Granted.Payload.Covers(day) && (c.OverAt.IsZero() || c.OverAt.After(domain.DayStart(day)))
}
