package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

type dayKey struct {
	consent string
	day     uint32
}

// planned is a day with what is needed to carry it out and to open it.
type planned struct {
	plan.Day
	draft
}

// A draft is everything that a day is computed from but the secret. It is kept
// beside the log before the day is sealed, so that the day comes out the same
// whenever it is computed again, whatever the endpoints show by then.
type draft struct {
	Limit    int                      `json:"limit"` // the cap, before an empty list makes it 0
	Eligible plan.Eligible            `json:"eligible"`
	Entries  plan.Entries             `json:"entries"`
	Surfaces []plan.Surface           `json:"surfaces"`
	Targets  map[string]agents.Target `json:"targets"` // by endpoint
	Notes    []plan.Note              `json:"notes"`   // on what is not in the list
}

func draftKey(consentID string, day uint32) string { return fmt.Sprintf("plan/%s/%d", consentID, day) }

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
	d, err := w.day(ctx, c.Granted, plans, day)
	if err != nil {
		return err
	}
	list, err := d.Eligible.Bytes()
	if err != nil {
		return err
	}
	sealed := plan.Sealed{Consent: c.Granted.Consent, Day: day, Commits: d.Commits(), Eligible: domain.Sum(list)}
	if domain.DayOf(w.Now()) >= day {
		return nil // it has struck midnight meanwhile
	}
	m := meta(fmt.Sprintf("seal/%s/%d", c.Granted.Consent, day))
	if err := w.Service.Plan(ctx, m, c.Granted.Consent, plan.Seal(sealed)); err != nil {
		return err
	}
	return w.Work.CatchUp(ctx)
}

// draft returns the draft of a day: the one that is kept, or a new one, which is
// kept from then on.
func (w *Worker) draft(ctx context.Context, g consent.Granted, plans []Plan, day uint32) (d draft, err error) {
	key := draftKey(g.Consent, day)
	_, body, err := w.Bodies.Get(ctx, key)
	if errors.Is(err, domain.ErrNotFound) {
		if d, err = w.newDraft(ctx, g, plans, day); err != nil {
			return d, err
		}
		if body, err = domain.Canonical(d); err != nil {
			return d, err
		}
		if err := w.Bodies.Put(ctx, key, nil, body); err != nil {
			return d, err
		}
		// Another worker may have been first; what is kept counts.
		_, body, err = w.Bodies.Get(ctx, key)
	}
	if err != nil {
		return d, err
	}
	d = draft{}
	return d, domain.Unmarshal(body, &d)
}

func (w *Worker) newDraft(ctx context.Context, g consent.Granted, plans []Plan, day uint32) (d draft, err error) {
	// A consent names what its tasks are made from; this build has nothing else.
	if g.Payload.CatalogueDigest != task.Digest() || g.Payload.PoolHash != identity.Hash() {
		return d, fmt.Errorf("consent %s names a catalogue or identity pool that this build does not have: %w", g.Consent, domain.ErrUnavailable)
	}
	offers, surfaces, targets, err := w.offers(ctx, g.Payload, day)
	if err != nil {
		return d, err
	}
	means, err := w.means(ctx)
	if err != nil {
		return d, err
	}
	before, err := w.tasksBefore(ctx, g, plans, day)
	if err != nil {
		return d, err
	}
	d = draft{
		Limit:   plan.Cap(g.Payload.MaxPerDay, g.Payload.MaxPerWeek, before),
		Entries: plan.EntriesOf(offers, g.Payload.Skills), Surfaces: surfaces, Targets: targets,
	}
	d.Eligible, d.Notes = plan.EligibleOf(offers, g.Payload.Skills, means)
	return d, nil
}

// means returns what the operator is able to do besides asking.
func (w *Worker) means(ctx context.Context) (m plan.Means, err error) {
	m.ReadsChains = w.readsChains()
	if w.Purse != nil {
		m.Pays, err = w.Purse.Ready(ctx)
	}
	return m, err
}

// readsChains reports whether there are nodes of all chains that tasks ask about.
func (w *Worker) readsChains() bool {
	return w.Chain != nil && !slices.ContainsFunc(task.Chains(), func(id uint64) bool { return !w.Chain.Reads(id) })
}

// secret returns the day secret, which only both parties' parts give. It returns
// an error matching [domain.ErrUnavailable] if the operator's part, which the
// consent names, is not at hand.
func (w *Worker) secret(g consent.Granted, day uint32) (domain.Hash, error) {
	ours, err := w.Service.Secrets.ByKey(g.Payload.OperatorKey)
	if err != nil {
		return domain.Hash{}, err
	}
	return plan.DaySecret(plan.Key(ours, g.Payload.Nonce, day), g.Entropy()), nil
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
	secret, err := w.secret(g, day)
	if err != nil {
		return nil, err
	}
	kept, err := w.draft(ctx, g, plans, day)
	if err != nil {
		return nil, err
	}
	d = &planned{draft: kept}
	if d.Day, err = plan.Compute(g.Consent, day, secret, kept.Limit, kept.Eligible, kept.Entries); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(plans, func(p Plan) bool { return p.Consent == g.Consent && p.Day == day })
	if commits := d.Commits(); i >= 0 && plans[i].Sealed && !slices.Equal(plans[i].Commits, commits[:]) {
		return nil, fmt.Errorf("day %s of %s does not come out as it was sealed; the operator secret or a template has changed",
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

// forget drops what is kept in memory of a day that is done with.
func (w *Worker) forget(d *planned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.days, dayKey{d.Consent, d.Day.Day})
	for i := range d.Slots {
		delete(w.waits, plan.ShopID(d.Consent, d.Day.Day, uint32(i)))
	}
}

// commit completes the shop.committed events of a sealed plan: all 24 or, after a
// crash, those that are missing.
func (w *Worker) commit(ctx context.Context, p Plan, have map[string]Slot) error {
	for i, h := range p.Commits {
		id := plan.ShopID(p.Consent, p.Day, uint32(i))
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
