package worker

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// purchase returns what pays for a task; nil if it is none that is paid for, or the
// consent or the operator pays nothing.
func (w *Worker) purchase(v *view, d *planned, s plan.Slot, id string) *x402.Purchase {
	limits := v.Granted.Payload.Payment
	if w.Purse == nil || limits == nil || s.Task.Deferred == nil || s.Task.Deferred.Rule != task.Payment {
		return nil
	}
	return w.Purse.Purchase(x402.Terms{
		Shop: id, Consent: d.Consent, PayTo: d.Targets[s.Choice.Endpoint].PayTo, PerTask: limits.MaxPerTask, PerMonth: limits.MaxPerMonth,
		Record: func(ctx context.Context, e shop.PaymentReserved) error {
			m, err := w.onceMeta()
			if err != nil {
				return err
			}
			return w.Service.Shop(ctx, m, id, shop.Reserve(e))
		},
	})
}

// through returns what a call goes through: nil if nothing is paid.
func through(p *x402.Purchase) func(http.RoundTripper) http.RoundTripper {
	if p == nil {
		return nil
	}
	return p.Through
}

// sentState is the state of a task that was sent, which may have been paid for.
func sentState(p *x402.Purchase) shop.State {
	if p != nil && p.Paid() {
		return shop.StateSent.Pay()
	}
	return shop.StateSent
}

// receipted settles the payment of a task that is judged, if the seller says by which
// transaction it was paid. To take its word costs nobody but itself.
func (w *Worker) receipted(ctx context.Context, p *x402.Purchase, id string, slot Slot) (Slot, error) {
	if !slot.State.Paying() || p.Transaction().IsZero() {
		return slot, nil
	}
	e := shop.Settle{Fate: shop.Taken, Transaction: p.Transaction()}
	if err := w.Service.Shop(ctx, meta("settle/"+id), id, e); err != nil {
		return slot, err
	}
	slot.State = slot.State.Plain()
	return slot, nil
}

// giveUp is how long behind its end the chain is asked about a payment.
const giveUp = time.Hour

// settle records what became of a payment, once that is sure.
func (w *Worker) settle(ctx context.Context, id string, slot Slot) (Slot, error) {
	h, err := w.history(ctx, id)
	if err != nil {
		return slot, err
	}
	fate, err := w.fate(ctx, id, h.reserved)
	if err != nil {
		return slot, err
	}
	if err := w.Service.Shop(ctx, meta("settle/"+id), id, shop.Settle{Fate: fate}); err != nil {
		return slot, err
	}
	// Only now: what is released may be spent at once, and the ledger must allow it.
	if w.Purse != nil {
		if err := w.Purse.Settle(ctx, id, fate); err != nil {
			return slot, err
		}
	}
	slot.State = slot.State.Plain()
	return slot, nil
}

// fate returns what became of a payment, or errWait.
func (w *Worker) fate(ctx context.Context, id string, e shop.PaymentReserved) (shop.Fate, error) {
	if w.Purse != nil {
		fate, err := w.Purse.Fate(ctx, e)
		if fate != "" {
			return fate, nil
		}
		if err != nil {
			w.Log.WarnContext(ctx, "a chain cannot be asked about a payment", "shop", id, "error", err)
		}
	}
	if w.Now().After(time.Unix(e.ValidBefore, 0).Add(giveUp)) {
		return shop.Unknown, nil
	}
	return "", errWait
}

// reviewed judges a reply whose worker is not at hand any more, or that could not be
// judged before the payment was settled. What comes of it follows from the ledger and
// from the bytes that are kept.
func (w *Worker) reviewed(ctx context.Context, id string, s plan.Slot, slot Slot) (Slot, error) {
	h, err := w.history(ctx, id)
	if err != nil {
		return slot, err
	}
	switch {
	case h.replied.Answer:
		return w.markAgain(ctx, id, s, slot, h.filled)
	case h.replied.Status != http.StatusPaymentRequired || h.reserved.Amount == "":
		return w.lost(ctx, id, slot)
	case slot.State.Paying():
		return w.settle(ctx, id, slot)
	}
	j := shop.Judge{Grader: task.GraderVersion}
	switch h.fate {
	case shop.Taken: // and nothing was given for it
		j.Outcome, j.Rule = task.Error, strconv.Itoa(http.StatusPaymentRequired)
	case shop.Expired:
		j.Outcome, j.Rule = task.Blocked, agents.PaymentCap
	case shop.Unknown:
		j.Outcome, j.Rule = task.Blocked, shop.ChainReadFailed
	}
	err = w.Service.Shop(ctx, meta("judge/"+id), id, j)
	return Slot{State: shop.StateJudged, SentAt: slot.SentAt}, err
}

// A history is what the sealed records of a slot say.
type history struct {
	filled   task.Filled
	reserved shop.PaymentReserved // zero if nothing was paid
	fate     shop.Fate
	replied  shop.Replied
}

func (w *Worker) history(ctx context.Context, id string) (h history, err error) {
	for r, err := range w.Service.Log.Stream(ctx, shop.StreamOf(id), 0) {
		if err != nil {
			return h, err
		}
		e, err := w.Service.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return h, err
		}
		switch e := e.(type) {
		case shop.Sent:
			h.filled = e.Filled
		case shop.PaymentReserved:
			h.reserved = e
		case shop.PaymentSettled:
			h.fate = e.Fate
		case shop.Replied:
			h.replied = e
		}
	}
	return h, nil
}
