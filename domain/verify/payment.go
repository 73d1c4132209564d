package verify

import (
	"time"

	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// monthEnd is how long a payment may take from the moment that says in which month
// it counts to the one at which it is on record.
const monthEnd = 5 * time.Minute

// checkPayment holds a payment to what the owner signed. That the payments of a month
// keep its limit is for the whole log to say.
func (s *slot) checkPayment() {
	if s.reserved == nil {
		s.say("payment", Skipped, nil, "nothing was paid")
		return
	}
	r, allowed := s.reserved, s.owner.payload.Payment
	in := inputs{
		"network": r.Network, "asset": r.Asset.String(), "payer": r.Payer.String(), "payTo": r.PayTo.String(), "amount": r.Amount,
		"nonce": r.Nonce.String(), "month": r.Month, "reservedAt": s.paidAt.Format(time.RFC3339Nano),
	}
	fault := ""
	switch {
	case allowed == nil:
		fault = "the consent allows no payments"
	case s.task.Template != "" && (s.task.Deferred == nil || s.task.Deferred.Rule != task.Payment):
		fault = "the task is not one that is paid for"
	case r.Network != allowed.Network:
		fault = "it was paid on another network than the consent names"
	case exceeds(r.Amount, allowed.MaxPerTask):
		fault = "more was paid than the consent allows for a task"
	case r.Month != shop.MonthOf(s.paidAt) && r.Month != shop.MonthOf(s.paidAt.Add(-monthEnd)):
		fault = "it counts in another month than the one in which it was paid"
	case s.settled == nil:
		fault = "it was revealed before it was known what became of the payment"
	default:
		in["maxPerTask"], in["fate"] = allowed.MaxPerTask, string(s.settled.Fate)
	}
	s.check("payment", in, fault, "what was paid, the consent allows; ask the asset for the state of payer and nonce to see whether it was taken")
}

// exceeds reports whether an amount is more than a limit, or no amount at all.
func exceeds(amount, limit string) bool {
	a, ok := shop.Amount(amount)
	l, isAmount := shop.Amount(limit)
	return !ok || !isAmount || a.Cmp(l) > 0
}
