package replay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// buying returns a ledger with one consent, which allows payments of 100 for a task
// and 250 in a month, or none, and the name of that consent. All slots of its first
// day are committed to.
func buying(t *testing.T, allowed bool) (h *history, id string) {
	t.Helper()
	owner := secp256k1.PrivKeyFromBytes([]byte("owner"))
	issued := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	first := consent.FirstDay(issued.Add(consent.ChallengeLife))
	p := consent.Payload{
		Request: consent.Request{
			Agent: ref, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://a.example/a2a"}}, Kinds: []task.Kind{task.A2A},
			MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 30,
		},
		Terms: consent.Terms{
			Domain: "karatum.com", Owner: eip191.AddressOf(owner.PubKey()), Chain: 84532, FirstDay: first, LastDay: first + 29,
			TermsVersion: 1, TermsHash: domain.Hash{1}, PoolVersion: 1, PoolHash: domain.Hash{2}, CatalogueDigest: domain.Hash{3},
			OperatorKey: domain.Hash{4}, PlanKeyRoot: domain.Hash{5}, Nonce: domain.Hash{6}, IssuedAt: issued,
		},
	}
	if allowed {
		p.PaymentsAllowed = true
		p.Payment = &consent.Payment{Network: consent.PaymentNetwork, MaxPerTask: "100", MaxPerMonth: "250"}
	}
	message, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	signature := eip191.Sign(message, owner)
	granted, err := consent.Decider.Decide(consent.State{}, consent.Grant{
		Payload: p, Signature: signature[:], Owned: agent.Ownership{Owner: p.Owner}, Certified: true,
		Proofs: []consent.Proof{{Method: consent.ByDocument}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, id = new(history), plan.ConsentID(p.Nonce)
	events := make([]domain.Event, len(granted))
	for i, e := range granted {
		events[i] = e
	}
	h.add(t, consent.StreamOf(ref), events...)
	h.add(t, plan.StreamOf(id), plan.Sealed{Consent: id, Day: day})
	for i := range plan.Slots {
		h.add(t, shop.StreamOf(plan.ShopID(id, day, uint32(i))), shop.Committed{Consent: id, Day: day, Slot: i})
	}
	return h, id
}

func TestPayments(t *testing.T) {
	t.Parallel()
	type payment struct {
		amount, month, network string
		fate                   shop.Fate
	}
	const march, april, base = "2026-03", "2026-04", consent.PaymentNetwork
	for _, tt := range []struct {
		name     string
		allowed  bool
		payments []payment
		good     bool
	}{
		{"as much as is allowed", true, []payment{{"100", march, base, ""}, {"100", march, base, shop.Taken}, {"50", march, base, shop.Unknown}}, true},
		{"more for a task", true, []payment{{"101", march, base, ""}}, false},
		{"more in a month", true, []payment{{"100", march, base, ""}, {"100", march, base, ""}, {"51", march, base, ""}}, false},
		{"in two months", true, []payment{{"100", march, base, ""}, {"100", march, base, ""}, {"100", april, base, ""}}, true},
		{"what expired is free again", true, []payment{{"100", march, base, shop.Expired}, {"100", march, base, ""}, {"100", march, base, ""}}, true},
		{"what is unknown is not", true, []payment{{"100", march, base, shop.Unknown}, {"100", march, base, ""}, {"100", march, base, ""}}, false},
		{"on another network", true, []payment{{"1", march, "eip155:8453", ""}}, false},
		{"without leave", false, []payment{{"1", march, base, ""}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, id := buying(t, tt.allowed)
			for i, p := range tt.payments {
				s := shop.StreamOf(plan.ShopID(id, day, uint32(i)))
				h.add(t, s, shop.Sent{Endpoint: "ep_0"})
				h.add(t, s, shop.PaymentReserved{
					Network: p.network, Asset: eip191.Address{1}, PayTo: eip191.Address{2}, Payer: eip191.Address{3}, Amount: p.amount,
					Month: p.month, Nonce: batch.Word{byte(i + 1)}, ValidBefore: 300,
				})
				h.add(t, s, shop.Judged{Outcome: task.Blocked, Rule: shop.WorkerLost})
				if p.fate != "" {
					h.add(t, s, shop.PaymentSettled{Fate: p.fate})
				}
			}
			switch err := read(h.records); {
			case tt.good && err != nil:
				t.Errorf("read = %v, want nil", err)
			case !tt.good && !errors.Is(err, ledger.ErrDamaged):
				t.Errorf("read = %v, want %v", err, ledger.ErrDamaged)
			}
		})
	}
}
