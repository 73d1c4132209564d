package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// sealKey is the key of the leaves of a seal, which lie beside the log. They are
// durable before the seal is, so that a path can be shown whatever has become of the
// slots since, and two workers make the same seal.
func sealKey(consentID string, hour uint64) string { return fmt.Sprintf("seal/%s/%d", consentID, hour) }

// seal makes the seal of this hour, unless there is one. An hour that has passed
// without one is left out for good.
func (w *Worker) seal(ctx context.Context, c Consent, now time.Time) error {
	id, p, hour := c.Granted.Consent, c.Granted.Payload, seal.HourOf(now)
	if hour < seal.FirstHour(p.FirstDay) {
		return nil
	}
	if made, err := w.sealed(ctx, id, hour); err != nil || made {
		return err
	}
	if w.Leases == nil {
		return w.makeSeal(ctx, c, hour)
	}
	name, holder := "seal/"+id, w.name()
	if ok, err := w.Leases.TryAcquire(ctx, name, holder, leaseLife); err != nil || !ok {
		return err // another worker is at it; should it be gone, a later step is not too late
	}
	err := w.Work.CatchUp(ctx)
	if made, seen := w.sealed(ctx, id, hour); err == nil && seen == nil && !made {
		err = w.makeSeal(ctx, c, hour)
	} else {
		err = errors.Join(err, seen)
	}
	return errors.Join(err, w.Leases.Release(context.WithoutCancel(ctx), name, holder))
}

// sealed reports whether an hour is sealed, as far as is known.
func (w *Worker) sealed(ctx context.Context, consentID string, hour uint64) (bool, error) {
	made, err := w.Work.Seals(ctx, consentID, hour, hour)
	return len(made) > 0, err
}

// makeSeal makes the seal of an hour, if there is anything left to be sealed.
func (w *Worker) makeSeal(ctx context.Context, c Consent, hour uint64) error {
	id, p := c.Granted.Consent, c.Granted.Payload
	if !c.OverAt.IsZero() || hour > seal.LastHour(p.LastDay) {
		if pending, err := w.pending(ctx, c, hour); err != nil || !pending {
			return err
		}
	}
	leaves, err := w.leaves(ctx, id, hour)
	if errors.Is(err, domain.ErrNotFound) {
		leaves, err = w.makeLeaves(ctx, c, hour)
	}
	if err != nil {
		return err
	}
	sealed := seal.Sealed{Consent: id, Hour: hour, Root: merkle.Root(leaves)}
	if err := w.Service.Seal(ctx, meta(sealKey(id, hour)), id, seal.Seal(sealed)); err != nil {
		return err
	}
	return w.Work.CatchUp(ctx)
}

// pending reports whether a plan that the seal of an hour covers is not opened yet. Its
// slots may still change until it is, and everybody sees whether it is.
func (w *Worker) pending(ctx context.Context, c Consent, hour uint64) (bool, error) {
	plans, err := w.Work.Plans(ctx, c.Granted.Payload.Agent)
	return slices.ContainsFunc(plans, func(p Plan) bool {
		return p.Consent == c.Granted.Consent && p.Sealed && !p.Opened && seal.Covers(hour, p.Day)
	}), err
}

// dropOpened deletes the leaves of the seals of a consent before an hour, which may not be
// after the first that covers a slot of a day that is not opened. What a worker that was
// killed has left behind goes as well: only what this one has deleted is not looked for
// again.
func (w *Worker) dropOpened(ctx context.Context, c Consent, before uint64) error {
	id := c.Granted.Consent
	w.mu.Lock()
	from := max(w.dropped[id], seal.FirstHour(c.Granted.Payload.FirstDay))
	w.mu.Unlock()
	if from >= before {
		return nil
	}
	if err := w.dropLeaves(ctx, id, from, before); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped == nil {
		w.dropped = make(map[string]uint64)
	}
	w.dropped[id] = before
	return nil
}

// dropAll deletes the leaves of all seals of a consent that is over, which are those before
// an hour.
func (w *Worker) dropAll(ctx context.Context, c Consent, before uint64) error {
	id := c.Granted.Consent
	if err := w.dropLeaves(ctx, id, seal.FirstHour(c.Granted.Payload.FirstDay), before); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.dropped, id)
	return nil
}

// dropLeaves deletes the leaves of the seals of a consent from one hour up to another.
func (w *Worker) dropLeaves(ctx context.Context, consentID string, from, before uint64) error {
	var keys []string
	for hour := from; hour < before; hour++ {
		keys = append(keys, sealKey(consentID, hour))
	}
	return w.Bodies.Delete(ctx, keys...)
}

// makeLeaves computes the leaves of a seal and keeps them.
func (w *Worker) makeLeaves(ctx context.Context, c Consent, hour uint64) ([]domain.Hash, error) {
	id, today := c.Granted.Consent, domain.DayOf(seal.HourStart(hour))
	var days [2]*seal.Day
	for i, day := range []uint32{today - 1, today} {
		heads, err := w.Work.Heads(ctx, id, day)
		if err != nil {
			return nil, err
		}
		if heads == nil {
			continue
		}
		secret, err := w.secret(c.Granted, day)
		if err != nil {
			return nil, err
		}
		days[i] = &seal.Day{Day: day, Secret: secret, Heads: *heads}
	}
	leaves := seal.Leaves(hour, days[0], days[1])
	var body []byte
	for _, l := range leaves {
		body = append(body, l[:]...)
	}
	if err := w.Bodies.Put(ctx, sealKey(id, hour), nil, body); err != nil {
		return nil, err
	}
	return w.leaves(ctx, id, hour) // another worker may have been first; what is kept counts
}

// leaves returns the leaves of a seal as they are kept, or [domain.ErrNotFound].
func (w *Worker) leaves(ctx context.Context, id string, hour uint64) ([]domain.Hash, error) {
	_, body, err := w.Bodies.Get(ctx, sealKey(id, hour))
	if err != nil {
		return nil, err
	}
	leaves := make([]domain.Hash, 2*plan.Slots)
	if len(body) != len(leaves)*len(leaves[0]) {
		return nil, fmt.Errorf("the leaves of the seal of hour %d of %s are damaged: %d bytes", hour, id, len(body))
	}
	for i := range leaves {
		copy(leaves[i][:], body[i*len(leaves[i]):])
	}
	return leaves, nil
}

// pinned returns the first seal that found a slot at last, its last sealed record,
// and the root of that seal. Both are zero if there is none: the slot is revealed
// before the next full hour, or nobody was there to seal it. It returns errWait if an
// hour has begun whose seal is still to be made.
func (w *Worker) pinned(ctx context.Context, d *planned, slot uint32, last ledger.Record) (p shop.Pinned, root domain.Hash, err error) {
	ended := seal.HourOf(last.Time)
	from := max(ended, seal.FirstHour(d.Day.Day)) // the seal of the hour may have been made late
	hours, err := w.Work.Seals(ctx, d.Consent, from, seal.FirstHour(d.Day.Day+2)-1)
	if err != nil {
		return p, root, err
	}
	for _, hour := range hours {
		leaves, err := w.leaves(ctx, d.Consent, hour)
		if errors.Is(err, domain.ErrNotFound) {
			continue
		}
		if err != nil {
			return p, root, err
		}
		i := seal.Index(hour, d.Day.Day, slot)
		if leaves[i] == seal.Leaf(hour, d.Day.Day, slot, d.Secret, last.Hash) {
			return shop.Pinned{Hour: hour, Salt: seal.Salt(d.Secret, hour, slot), Path: merkle.Path(leaves, i)}, merkle.Root(leaves), nil
		}
	}
	if hour := seal.HourOf(w.Now()); hour > ended && seal.Covers(hour, d.Day.Day) && !slices.Contains(hours, hour) {
		return p, root, errWait // it began while this step was under way; the next one begins with its seal
	}
	return p, root, nil
}
