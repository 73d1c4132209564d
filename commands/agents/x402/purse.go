package x402

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/shop"
)

// A Chain reads a token that authorizations are redeemed at.
type Chain interface {
	// Authorization reports whether the token has used up the nonce of a payer
	// (authorizationState of EIP-3009), and the time of the block at which that was so.
	Authorization(ctx context.Context, chain uint64, token, payer eip191.Address, nonce batch.Word) (used bool, at time.Time, err error)
}

// A Purse pays for tasks. Its methods may be called from several goroutines.
type Purse struct {
	Keys   []Key // funded beforehand
	Once   bool  // each key pays for one task and never again
	Spends *tables.Spends
	Chain  Chain
	Now    func() time.Time
	Rand   io.Reader // of nonces
}

// Ready reports whether there is a key that can still pay.
func (p *Purse) Ready(ctx context.Context) (bool, error) {
	if !p.Once || len(p.Keys) == 0 {
		return len(p.Keys) > 0, nil
	}
	return p.Spends.Unused(ctx, p.accounts())
}

// Accounts returns the accounts that pay.
func (p *Purse) Accounts() []eip191.Address {
	list := make([]eip191.Address, len(p.Keys))
	for i, k := range p.Keys {
		list[i] = k.Address()
	}
	return list
}

func (p *Purse) accounts() []string {
	list := make([]string, len(p.Keys))
	for i, a := range p.Accounts() {
		list[i] = a.String()
	}
	return list
}

// Terms are what a task may be paid for with.
type Terms struct {
	Shop     string
	Consent  string
	PayTo    string // whom the resource took money for when it was looked at
	PerTask  string // atomic units
	PerMonth string

	// Record puts on record that a payment is about to leave.
	Record func(context.Context, shop.PaymentReserved) error
}

// A Purchase pays for one task, once.
type Purchase struct {
	purse     *Purse
	terms     Terms
	transport *Transport
}

// Purchase returns what pays for one task.
func (p *Purse) Purchase(t Terms) *Purchase { return &Purchase{purse: p, terms: t} }

// Through returns the transport that pays, over plain: see [agents.Call].
func (b *Purchase) Through(plain http.RoundTripper) http.RoundTripper {
	payTo, err := address(b.terms.PayTo)
	if err != nil {
		payTo = eip191.Address{} // whom nobody can ask to be paid for
	}
	b.transport = &Transport{Base: plain, PayTo: payTo, Buyer: b}
	return b.transport
}

// Paid reports whether an authorization may have left.
func (b *Purchase) Paid() bool { return b.transport != nil && b.transport.Paid() }

// Transaction returns the one that the seller says took the money; zero if it says
// nothing of the sort.
func (b *Purchase) Transaction() batch.Word {
	if b.transport == nil {
		return batch.Word{}
	}
	return b.transport.Transaction()
}

// Buy implements [Buyer]. The order is: the price is counted, signed for, kept and
// put on record; what returns without an error may be given away. A reservation that
// was not put on record was not given away, and is released; behind that point, or
// if this process ends in between, it counts until [Purse.Fate] is known.
func (b *Purchase) Buy(ctx context.Context, price Price) (Signed, error) {
	most, ok := shop.Amount(b.terms.PerTask)
	asked, isAmount := shop.Amount(price.Amount)
	if !ok || !isAmount || asked.Cmp(most) > 0 {
		return Signed{}, refuse("the agent asks %s, and the consent allows %s for a task", price.Amount, b.terms.PerTask)
	}
	now := b.purse.Now().UTC()
	e := shop.PaymentReserved{
		Network: price.Asset.Network, Asset: price.Asset.Address, PayTo: price.PayTo, Amount: price.Amount, Month: shop.MonthOf(now),
	}
	if _, err := io.ReadFull(b.purse.Rand, e.Nonce[:]); err != nil {
		return Signed{}, fmt.Errorf("draw a nonce: %w", err)
	}
	key, err := b.reserve(ctx, e)
	if err != nil {
		return Signed{}, err
	}
	signed, err := b.sign(ctx, key, price, e.Nonce, now)
	if err != nil {
		return Signed{}, errors.Join(err, b.purse.Spends.Release(context.WithoutCancel(ctx), b.terms.Shop))
	}
	a := signed.Authorization
	e.Payer, e.ValidAfter, e.ValidBefore = a.From, a.ValidAfter, a.ValidBefore
	if err := b.terms.Record(ctx, e); err != nil {
		return Signed{}, fmt.Errorf("put a payment on record: %w", err)
	}
	return signed, nil
}

// reserve counts the price and returns the key that pays it.
func (b *Purchase) reserve(ctx context.Context, e shop.PaymentReserved) (Key, error) {
	p := b.purse
	payer, err := p.Spends.Reserve(ctx, tables.Reservation{
		Shop: b.terms.Shop, Consent: b.terms.Consent, Month: e.Month, Amount: e.Amount, Limit: b.terms.PerMonth,
		Payers: p.accounts(), Once: p.Once,
	})
	switch {
	case errors.Is(err, tables.ErrSpent), errors.Is(err, tables.ErrNoPayer):
		return Key{}, refuse("%s", domain.Sentence(err))
	case err != nil:
		return Key{}, err
	}
	i := slices.IndexFunc(p.Keys, func(k Key) bool { return k.Address().String() == payer })
	return p.Keys[i], nil
}

// sign signs the authorization and keeps it.
func (b *Purchase) sign(ctx context.Context, key Key, price Price, nonce batch.Word, now time.Time) (Signed, error) {
	signed, err := key.sign(price.authorize(key.Address(), nonce, now), price.Asset)
	if err != nil {
		return Signed{}, err
	}
	kept, err := json.Marshal(signed)
	if err != nil {
		return Signed{}, err
	}
	return signed, b.purse.Spends.Keep(ctx, b.terms.Shop, kept)
}

// finality is how far behind the end of an authorization the block must lie at which
// it was not used: a chain that replaces its last blocks has not gone on without it.
const finality = time.Minute

// Fate asks the chain what became of a payment. It is empty as long as nothing is
// sure: nobody has taken the money, and somebody still may.
func (p *Purse) Fate(ctx context.Context, e shop.PaymentReserved) (shop.Fate, error) {
	asset, ok := assetOf(e.Network)
	if !ok {
		return "", fmt.Errorf("there is no way to ask about a payment on %s: %w", e.Network, domain.ErrUnavailable)
	}
	used, at, err := p.Chain.Authorization(ctx, asset.Chain, e.Asset, e.Payer, e.Nonce)
	switch {
	case err != nil:
		return "", err
	case used:
		return shop.Taken, nil
	case at.After(time.Unix(e.ValidBefore, 0).Add(finality)):
		return shop.Expired, nil
	}
	return "", nil
}

// Settle releases a payment that can no longer be taken.
func (p *Purse) Settle(ctx context.Context, id string, f shop.Fate) error {
	if f != shop.Expired {
		return nil
	}
	return p.Spends.Release(ctx, id)
}
