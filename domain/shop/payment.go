package shop

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// PaymentReserved means that a price was accepted: it counts against the limits of
// the consent, and the one authorization to pay it (EIP-3009) is signed and kept. It
// is appended before that authorization leaves, and never a second time. Whoever
// knows payer and nonce can ask the asset whether the money was taken.
type PaymentReserved struct {
	Network string         `json:"network"` // CAIP-2
	Asset   eip191.Address `json:"asset"`
	PayTo   eip191.Address `json:"payTo"`
	Payer   eip191.Address `json:"payer"`
	Amount  string         `json:"amount"` // in atomic units of the asset
	Month   string         `json:"month"`  // the UTC month that it counts in, such as 2027-03
	Nonce   batch.Word     `json:"nonce"`

	// The authorization holds between these moments, both excluded, in Unix seconds.
	ValidAfter  int64 `json:"validAfter"`
	ValidBefore int64 `json:"validBefore"`
}

// PaymentSettled means that it is known what became of a payment, or that it will
// not be known. Only one that can no longer be taken stops counting against the limits.
type PaymentSettled struct {
	Fate Fate `json:"fate"`

	// Transaction is the one that the seller says took the money. It is zero where
	// the chain was asked instead.
	Transaction batch.Word `json:"transaction,omitzero"`
}

// A Fate is what became of a payment.
type Fate string

// Fates.
const (
	Taken   Fate = "taken"   // by the seller, as its receipt or the chain says
	Expired Fate = "expired" // it was not taken, and cannot be any more
	Unknown Fate = "unknown" // the chain could not be asked
)

// MonthOf returns the month that a payment of a moment counts in.
func MonthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// EventType implements [domain.Event].
func (PaymentReserved) EventType() domain.Type { return "shop.payment_reserved.v1" }

// EventType implements [domain.Event].
func (PaymentSettled) EventType() domain.Type { return "shop.payment_settled.v1" }

func (PaymentReserved) shopEvent() {}
func (PaymentSettled) shopEvent()  {}

// Reserve asks for leave to pay.
type Reserve PaymentReserved

// Settle asks to record what became of the payment.
type Settle PaymentSettled

func (Reserve) shopCommand() {}
func (Settle) shopCommand()  {}

// paying marks a state: a payment was reserved, and it is not known what became of it.
const paying = "+paying"

// Paying reports whether it is not known yet what became of a payment. A slot of
// which that is so goes on in all steps but the reveal.
func (s State) Paying() bool { return strings.HasSuffix(string(s), paying) }

// Plain returns s without that.
func (s State) Plain() State { return State(strings.TrimSuffix(string(s), paying)) }

// Pay returns s with that.
func (s State) Pay() State { return s.Plain() + paying }

// Then returns the state that follows s where next would, had nothing been paid.
func (s State) Then(next State) State {
	if s.Paying() {
		return next.Pay()
	}
	return next
}

func reserve(s State, c Reserve) ([]Event, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if s.Paying() {
		return nil, fmt.Errorf("a payment for this slot was reserved before: %w", domain.ErrConflict)
	}
	return step(s, PaymentReserved(c), StateSent)
}

func settle(s State, c Settle) ([]Event, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if s != StateNone && !s.Paying() {
		return nil, fmt.Errorf("no payment for this slot waits to be settled: %w", domain.ErrConflict)
	}
	return step(s, PaymentSettled(c), StateReplied, StateJudged)
}

// check holds what is reserved to the form that all of its readers rely on.
func (r Reserve) check() error {
	_, err := time.Parse("2006-01", r.Month)
	switch amount, ok := Amount(r.Amount); {
	case !ok || amount.Sign() == 0:
		return fmt.Errorf("a payment of %q is none: %w", r.Amount, domain.ErrInvalid)
	case err != nil:
		return fmt.Errorf("%q is no month: %w", r.Month, domain.ErrInvalid)
	case r.ValidAfter >= r.ValidBefore:
		return fmt.Errorf("a payment that is never valid pays nothing: %w", domain.ErrInvalid)
	case r.Network == "" || r.Asset.IsZero() || r.PayTo.IsZero() || r.Payer.IsZero() || r.Nonce.IsZero():
		return fmt.Errorf("a payment names network, asset, payee, payer and nonce: %w", domain.ErrInvalid)
	}
	return nil
}

func (s Settle) check() error {
	switch s.Fate {
	case Taken:
		return nil
	case Expired, Unknown:
		if s.Transaction.IsZero() {
			return nil
		}
		return fmt.Errorf("a payment that is %s has no transaction: %w", s.Fate, domain.ErrInvalid)
	}
	return fmt.Errorf("no payment is %q: %w", s.Fate, domain.ErrInvalid)
}

// Amount reads an amount of atomic units: a decimal of up to 30 digits, without
// leading zeros.
func Amount(text string) (*big.Int, bool) {
	if text == "" || len(text) > 30 || strings.Trim(text, "0123456789") != "" || text[0] == '0' && text != "0" {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}
