package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// A view is all that the ledger says of a consent, as far as something is left to
// do.
type view struct {
	Consent
	plans       []Plan // of all consents of the agent
	slots       map[string]Slot
	comparisons Comparisons
}

func (w *Worker) view(ctx context.Context, c Consent) (*view, error) {
	v := &view{Consent: c}
	var err error
	if v.plans, err = w.Work.Plans(ctx, c.Granted.Payload.Agent); err != nil {
		return nil, err
	}
	if v.slots, err = w.Work.Slots(ctx, c.Granted.Consent); err != nil {
		return nil, err
	}
	v.comparisons, err = w.Work.Compared(ctx, c.Granted.Consent)
	return v, err
}

// own returns the plan of a day of this consent.
func (v *view) own(day uint32) (Plan, bool) {
	i := slices.IndexFunc(v.plans, func(p Plan) bool { return p.Consent == v.Granted.Consent && p.Day == day })
	if i < 0 {
		return Plan{Consent: v.Granted.Consent, Day: day}, false
	}
	return v.plans[i], true
}

// tend carries on every day of a consent that is not done with, and returns when
// the next step of one of them is due.
func (w *Worker) tend(ctx context.Context, c Consent, now time.Time) (next time.Time, err error) {
	v, err := w.view(ctx, c)
	if err != nil {
		return next, err
	}
	p := c.Granted.Payload
	soonest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	// Tomorrow's plan is sealed already; nothing lies behind it.
	last := min(p.LastDay, domain.DayOf(now)+1)
	var errs []error
	open := 0
	for day := p.FirstDay; day <= last; day++ {
		q, planned := v.own(day)
		if !q.Opened && !planned && (day > domain.DayOf(now) || !requiresPlan(c, day)) {
			continue
		}
		if !q.Opened {
			open++
		}
		at, err := w.tendDay(ctx, v, q, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		soonest(at)
	}
	if !c.OverAt.IsZero() && open == 0 && len(errs) == 0 && !v.comparisons.Ended {
		// What is compared at its end may never be looked at again.
		if err := w.dropAll(ctx, c, seal.FirstHour(last+2)); err != nil {
			return next, err
		}
		if err := w.compare(ctx, v, lastOpened(v), finding.AtEnd); err != nil {
			errs = append(errs, err)
		}
	}
	if err := w.report(ctx, v); err != nil {
		errs = append(errs, err)
	}
	if !c.OverAt.IsZero() && open > 0 {
		soonest(now.Add(time.Second)) // what has just become terminal is opened in the next step
	}
	return next, errors.Join(errs...)
}

// lastOpened returns the last day of the consent that was opened, and for one that
// never had a day the day it was over.
func lastOpened(v *view) (day uint32) {
	if !slices.ContainsFunc(v.plans, func(p Plan) bool { return p.Consent == v.Granted.Consent && p.Opened }) {
		return domain.DayOf(v.OverAt)
	}
	for _, p := range v.plans {
		if p.Consent == v.Granted.Consent && p.Opened {
			day = max(day, p.Day)
		}
	}
	return day
}

// tendDay carries on one day: its commits, its sends, its reveals, its opening
// and the comparison that follows.
func (w *Worker) tendDay(ctx context.Context, v *view, q Plan, now time.Time) (next time.Time, err error) {
	if q.Opened {
		if v.comparisons.Days[q.Day] {
			return time.Time{}, nil
		}
		return time.Time{}, w.compare(ctx, v, q.Day, finding.AfterDay)
	}
	d, err := w.day(ctx, v.Granted, v.plans, q.Day)
	if err != nil {
		return time.Time{}, err
	}
	pending := false
	var errs []error // a slot that fails keeps no other waiting
	if q.Sealed {
		if err := w.commit(ctx, q, v.slots); err != nil {
			return time.Time{}, err
		}
		for _, s := range d.Slots {
			if !s.Real {
				continue
			}
			at, err := w.tendSlot(ctx, v, d, s)
			if err != nil {
				errs = append(errs, fmt.Errorf("slot %d of %s: %w", s.Index, domain.DayString(q.Day), err))
				continue
			}
			if !at.IsZero() {
				pending = true
				if next.IsZero() || at.Before(next) {
					next = at
				}
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return next, err
	}
	due := w.openAt(v, q.Day)
	if pending || now.Before(due) {
		if !pending {
			next = due
		} else if due.After(now) && due.Before(next) {
			next = due
		}
		return next, nil
	}
	return time.Time{}, w.open(ctx, v, d, q)
}

// openAt returns the moment at which a day is due to be opened.
func (w *Worker) openAt(v *view, day uint32) time.Time {
	due := domain.DayStart(day + 1).Add(openMargin + v.Granted.Payload.RevealDelay())
	if !v.OverAt.IsZero() && v.OverAt.Before(due) {
		return v.OverAt // at once, when all its tasks are revealed
	}
	return due
}

// tendSlot carries on a real slot and returns when its next step is due: zero if
// it is revealed.
func (w *Worker) tendSlot(ctx context.Context, v *view, d *planned, s plan.Slot) (next time.Time, err error) {
	id := plan.ShopID(d.Consent, d.Day.Day, uint32(s.Index)) //nolint:gosec // below 24
	for {
		now := w.Now() // the slot before may have taken its time
		if w.isFlying(id) {
			return now.Add(waitAgain), nil
		}
		slot := v.slots[id]
		var due time.Time
		var step func() (Slot, error)
		switch slot.State.Plain() {
		case shop.StateCommitted:
			due, step = w.nextOfCommitted(ctx, v, d, s, id, now)
		case shop.StateSent, shop.StateConversed:
			due = slot.SentAt.Add(w.deadline() + lostAfter)
			step = func() (Slot, error) { return w.lost(ctx, id, slot) }
		case shop.StateReplied:
			due = slot.SentAt.Add(w.deadline() + lostAfter)
			step = func() (Slot, error) { return w.reviewed(ctx, id, s, slot) }
		case shop.StateJudged, shop.StateMissed, shop.StateCancelled:
			if slot.State.Paying() {
				due = slot.SentAt.Add(w.deadline() + lostAfter)
				step = func() (Slot, error) { return w.settle(ctx, id, slot) }
				break
			}
			due = revealAt(v, s, slot)
			step = func() (Slot, error) { return w.reveal(ctx, v, d, s, id, due) }
		case shop.StateRevealed, shop.StateErased:
			return time.Time{}, nil
		case shop.StateNone:
			return time.Time{}, fmt.Errorf("shop %s is not committed", id)
		}
		if now.Before(due) {
			return due, nil
		}
		after, err := step()
		if l := (later{}); errors.As(err, &l) {
			return l.at, nil
		}
		if errors.Is(err, errWait) {
			return now.Add(waitAgain), nil
		}
		if err != nil {
			return time.Time{}, err
		}
		v.slots[id] = after
	}
}

// errWait says that a step is due and cannot be made now.
var errWait = errors.New("not now")

// A later is an errWait that says from when on trying again is worth it.
type later struct{ at time.Time }

func (l later) Error() string        { return "not before " + l.at.String() }
func (l later) Is(target error) bool { return target == errWait }

// waitAgain is when such a step is tried again, if nothing says when.
const waitAgain = 30 * time.Second

// nextOfCommitted says what comes of a committed task: it is sent at its moment,
// missed when its window is over, or cancelled when it must not be sent.
func (w *Worker) nextOfCommitted(
	ctx context.Context, v *view, d *planned, s plan.Slot, id string, now time.Time,
) (due time.Time, step func() (Slot, error)) {
	sendAt := time.Unix(s.SendAt, 0).UTC()
	end := sendAt.Add(sendWindow)
	// A window that was over before the consent was, was missed.
	if !v.OverAt.IsZero() && v.OverAt.Before(end) {
		return v.OverAt, func() (Slot, error) { return w.cancel(ctx, id, shop.ConsentOver) }
	}
	if !v.Proven[s.Choice.Endpoint] && v.OverAt.IsZero() {
		return time.Time{}, func() (Slot, error) { return w.cancel(ctx, id, shop.HostLost) }
	}
	if now.After(end) {
		return end, func() (Slot, error) { return w.miss(ctx, id) }
	}
	return sendAt, func() (Slot, error) { return w.launch(ctx, v, d, s, id) }
}

func (w *Worker) cancel(ctx context.Context, id string, reason shop.CancelReason) (Slot, error) {
	err := w.Service.Shop(ctx, meta("cancel/"+id), id, shop.Cancel{Reason: reason})
	return Slot{State: shop.StateCancelled}, err
}

func (w *Worker) miss(ctx context.Context, id string) (Slot, error) {
	w.mu.Lock()
	reason, ok := w.waits[id]
	w.mu.Unlock()
	if !ok { // it may have been tried by another worker, or one that is no more
		waited, err := w.Turns.Waited(ctx, id)
		if err != nil {
			return Slot{}, err
		}
		reason = shop.OperatorLate
		if waited {
			reason = shop.HostBusy
		}
	}
	err := w.Service.Shop(ctx, meta("miss/"+id), id, shop.Miss{Reason: reason})
	return Slot{State: shop.StateMissed}, err
}

func (w *Worker) lost(ctx context.Context, id string, slot Slot) (Slot, error) {
	j := shop.Judged{Outcome: task.Blocked, Rule: shop.WorkerLost, Grader: task.GraderVersion}
	err := w.Service.Shop(ctx, meta("lost/"+id), id, shop.Judge(j))
	return Slot{State: slot.State.Then(shop.StateJudged), SentAt: slot.SentAt}, err
}

func revealAt(v *view, s plan.Slot, slot Slot) time.Time {
	if !v.OverAt.IsZero() {
		return v.OverAt
	}
	from := time.Unix(s.SendAt, 0).UTC()
	if !slot.SentAt.IsZero() {
		from = slot.SentAt
	}
	return from.Add(v.Granted.Payload.RevealDelay())
}

// unanchored reports whether a seal with a root is not attested where seals are. The
// zero root stands for no seal.
func (w *Worker) unanchored(ctx context.Context, root domain.Hash) (bool, error) {
	if w.Anchors == nil || root == (domain.Hash{}) {
		return false, nil
	}
	ok, err := w.Anchors.Attested(ctx, []domain.Hash{root})
	return !ok, err
}

// reveal opens a slot with everything that was sealed of it. It waits for the seal that
// pins it to be attested, so that the history that it shows stands on the chain
// before; two hours at most, and not at all once the consent is over.
func (w *Worker) reveal(ctx context.Context, v *view, d *planned, s plan.Slot, id string, due time.Time) (Slot, error) {
	r := shop.Revealed{
		Consent: d.Consent, Agent: v.Granted.Payload.Agent, Day: d.Day.Day, Slot: s.Index,
		Seed: s.Seed, Template: s.Choice.Template, TemplateVersion: s.Choice.Version, Family: s.Task.Family,
		Endpoint: s.Choice.Endpoint, Entry: s.Entry, Identity: s.Identity,
		SourceAddresses: append([]string{}, w.Sources...), SendAt: s.SendAt,
		Prompt: s.Task.Prompt, Ask: s.Task.Ask, Expected: s.Task.Expected,
		Records: []ledger.Record{},
	}
	for rec, err := range w.Service.Log.Stream(ctx, shop.StreamOf(id), 0) {
		if err != nil {
			return Slot{}, err
		}
		if w.Service.Catalog.Visibility(rec.Type) != domain.Sealed {
			continue
		}
		r.Records = append(r.Records, rec)
		e, err := w.Service.Catalog.Decode(rec.Type, rec.Data)
		if err != nil {
			return Slot{}, err
		}
		r.Result = r.Result.With(e)
		if sent, ok := e.(shop.Sent); ok && sent.Filled != (task.Filled{}) {
			t, err := s.Task.Fill(sent.Filled)
			if err != nil {
				return Slot{}, err
			}
			r.Filled, r.Prompt, r.Ask, r.Expected = sent.Filled, t.Prompt, t.Ask, t.Expected
		}
	}
	if n := len(r.Records); n > 0 {
		var (
			root domain.Hash
			err  error
		)
		if r.Pinned, root, err = w.pinned(ctx, d, uint32(s.Index), r.Records[n-1]); err != nil { //nolint:gosec // below 24
			return Slot{}, err
		}
		if r.Unanchored, err = w.unanchored(ctx, root); err != nil {
			return Slot{}, err
		}
		if r.Unanchored && v.OverAt.IsZero() && w.Now().Before(due.Add(anchorWait)) {
			return Slot{}, errWait
		}
	}
	err := w.Service.Shop(ctx, meta("reveal/"+id), id, shop.Reveal(r))
	return Slot{State: shop.StateRevealed}, err
}

// open publishes the key of a day and compares.
func (w *Worker) open(ctx context.Context, v *view, d *planned, q Plan) error {
	p := v.Granted.Payload
	secret, err := w.Service.Secrets.ByKey(p.OperatorKey)
	if err != nil {
		return err
	}
	ends, err := w.ends(ctx, d, q)
	if err != nil {
		return err
	}
	opened := plan.Opened{
		Consent: d.Consent, Day: d.Day.Day, Planned: q.Sealed,
		Key:  plan.Key(secret, p.Nonce, d.Day.Day),
		Path: plan.KeyPath(secret, p.Nonce, p.FirstDay, p.ValidityDays, d.Day.Day),
		Cap:  d.Cap, Count: d.Count,
		Eligible: d.Eligible, Surfaces: d.Surfaces,
		Notes: append(slices.Clone(d.Notes), plan.NotesOnDay(q.Sealed, d.Eligible, d.Cap, ends)...),
	}
	if opened.Path == nil {
		opened.Path = []domain.Hash{}
	}
	m := meta(fmt.Sprintf("open/%s/%d", d.Consent, d.Day.Day))
	if err := w.Service.Plan(ctx, m, d.Consent, plan.Open(opened)); err != nil {
		return err
	}
	w.forget(d)
	for i := range v.plans {
		if v.plans[i].Consent == d.Consent && v.plans[i].Day == d.Day.Day {
			v.plans[i].Opened, v.plans[i].Count = true, d.Count
		}
	}
	if !q.Sealed {
		v.plans = append(v.plans, Plan{Consent: d.Consent, Day: d.Day.Day, Opened: true, Count: d.Count})
	}
	if err := w.Work.CatchUp(ctx); err != nil {
		return err
	}
	unopened := p.FirstDay
	for q, _ := v.own(unopened); q.Opened; q, _ = v.own(unopened) {
		unopened++
	}
	if err := w.dropOpened(ctx, v.Consent, seal.FirstHour(unopened)); err != nil {
		return err
	}
	return w.compare(ctx, v, q.Day, finding.AfterDay)
}

// ends returns how the tasks of a day ended, all of which are revealed.
func (w *Worker) ends(ctx context.Context, d *planned, q Plan) (results []shop.Result, err error) {
	if !q.Sealed {
		return nil, nil
	}
	for _, s := range d.Slots {
		if !s.Real {
			continue
		}
		id := plan.ShopID(d.Consent, d.Day.Day, uint32(s.Index)) //nolint:gosec // below 24
		for r, err := range w.Service.Log.Stream(ctx, shop.StreamOf(id), 0) {
			if err != nil {
				return nil, err
			}
			e, err := w.Service.Catalog.Decode(r.Type, r.Data)
			if err != nil {
				return nil, err
			}
			if revealed, ok := e.(shop.Revealed); ok {
				results = append(results, revealed.Result)
			}
		}
	}
	return results, nil
}
