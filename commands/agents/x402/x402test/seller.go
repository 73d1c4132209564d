// Package x402test sells a resource by x402, version 1 or 2, and redeems what it is
// given at a token of its own, in one process and without a chain. It holds a payment
// to what facilitators hold it to, and can be told to cheat.
package x402test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// A Token is a token that authorizations are redeemed at. Its methods may be called
// from several goroutines.
type Token struct {
	Now func() time.Time

	mu        sync.Mutex
	down      bool
	used      map[batch.Word]x402.Authorization
	transfers []x402.Authorization
}

// Down lets the token not be read any more, or again.
func (t *Token) Down(down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = down
}

// Authorization implements [x402.Chain].
func (t *Token) Authorization(_ context.Context, chain uint64, token, payer eip191.Address, nonce batch.Word) (bool, time.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down || chain != x402.USDC.Chain || token != x402.USDC.Address {
		return false, time.Time{}, fmt.Errorf("chain %d cannot be read: %w", chain, domain.ErrUnavailable)
	}
	a, used := t.used[nonce]
	return used && a.From == payer, t.Now(), nil
}

// Transfers returns all that was redeemed, in order.
func (t *Token) Transfers() []x402.Authorization {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]x402.Authorization(nil), t.transfers...)
}

// leeway is how much of an authorization facilitators want to be left.
const leeway = 6

// redeem makes a transfer, or says why not, in the words of facilitators.
func (t *Token) redeem(s x402.Signed, payTo eip191.Address, price string) (reason string) {
	a, now := s.Authorization, t.Now().Unix()
	value, ok := new(big.Int).SetString(a.Value, 10)
	asked, isPrice := new(big.Int).SetString(price, 10)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, used := t.used[a.Nonce]
	switch {
	case !signedBy(s):
		return "invalid_exact_evm_signature"
	case a.To != payTo:
		return "invalid_exact_evm_payload_recipient_mismatch"
	case !ok || !isPrice || value.Cmp(asked) != 0:
		return "invalid_exact_evm_payload_authorization_value"
	case now <= a.ValidAfter:
		return "invalid_exact_evm_payload_authorization_valid_after"
	case now+leeway > a.ValidBefore:
		return "invalid_exact_evm_payload_authorization_valid_before"
	case used:
		return "invalid_exact_evm_transaction_simulation_failed"
	}
	if t.used == nil {
		t.used = make(map[batch.Word]x402.Authorization)
	}
	t.used[a.Nonce] = a
	t.transfers = append(t.transfers, a)
	return ""
}

func signedBy(s x402.Signed) bool {
	digest, err := s.Authorization.Digest(x402.USDC)
	if err != nil {
		return false
	}
	compact := append([]byte{s.Signature[64]}, s.Signature[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, digest[:])
	return err == nil && eip191.AddressOf(key) == s.Authorization.From
}

// A Trick is what a seller does with a payment.
type Trick string

// Tricks.
const (
	Honest  Trick = ""        // it takes the money and delivers
	Lost    Trick = "lost"    // it takes the money, and the answer is lost
	Denies  Trick = "denies"  // it takes the money and asks for it again
	Breaks  Trick = "breaks"  // it takes the money and fails
	Refuses Trick = "refuses" // it asks for money again without taking it
	Free    Trick = "free"    // it delivers without taking the money
	Quiet   Trick = "quiet"   // it takes the money and delivers, without a receipt
	Dies    Trick = "dies"    // it loses the connection without taking the money
)

// A Seller sells a resource. Fields are set before it serves.
type Seller struct {
	Version int // 1 or 2
	Token   *Token
	PayTo   eip191.Address
	Price   string
	Deliver func(*http.Request) string // the resource
	Offer   func(offer map[string]any) // what it changes in its offer; nil: nothing

	mu       sync.Mutex
	trick    Trick
	asked    int
	payments []x402.Signed
	reasons  []string
}

// Play lets the seller do a trick from now on.
func (s *Seller) Play(t Trick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trick = t
}

// Asked returns how often the resource was asked for, paid or not.
func (s *Seller) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Payments returns the payments that came in, in order, taken or not.
func (s *Seller) Payments() []x402.Signed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]x402.Signed(nil), s.payments...)
}

// Reasons returns why payments were not taken, in order.
func (s *Seller) Reasons() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.reasons...)
}

// ServeHTTP implements [http.Handler].
func (s *Seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "X-PAYMENT"
	if s.Version == 2 {
		name = "PAYMENT-SIGNATURE"
	}
	s.mu.Lock()
	s.asked++
	trick := s.trick
	s.mu.Unlock()
	text := r.Header.Get(name)
	if text == "" {
		s.demand(w, r, "Payment required")
		return
	}
	payment, err := s.read(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.payments = append(s.payments, payment)
	s.mu.Unlock()
	s.serve(w, r, payment, trick)
}

func (s *Seller) serve(w http.ResponseWriter, r *http.Request, payment x402.Signed, trick Trick) {
	var reason string
	switch trick {
	case Refuses:
		reason = "insufficient_funds"
	case Free:
	case Dies:
		panic(http.ErrAbortHandler)
	default:
		reason = s.Token.redeem(payment, s.PayTo, s.Price)
	}
	if reason != "" {
		s.mu.Lock()
		s.reasons = append(s.reasons, reason)
		s.mu.Unlock()
		s.demand(w, r, reason)
		return
	}
	switch trick {
	case Lost:
		panic(http.ErrAbortHandler) // closes the connection
	case Denies:
		s.demand(w, r, "settlement failed")
		return
	case Breaks:
		http.Error(w, "out of paper", http.StatusInternalServerError)
		return
	case Honest:
		s.receipt(w, payment)
	default:
	}
	_, _ = fmt.Fprint(w, s.Deliver(r))
}

// read reads a payment, of which only the version matters besides.
func (s *Seller) read(text string) (x402.Signed, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return x402.Signed{}, err
	}
	var p struct {
		Version  int             `json:"x402Version"`
		Scheme   string          `json:"scheme"`
		Network  string          `json:"network"`
		Accepted json.RawMessage `json:"accepted"`
		Payload  x402.Signed     `json:"payload"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return x402.Signed{}, err
	}
	named := p.Scheme == "exact" && p.Network == "base-sepolia"
	if s.Version == 2 {
		named = len(p.Accepted) > 0
	}
	if p.Version != s.Version || !named {
		return x402.Signed{}, fmt.Errorf("this is no payment of version %d", s.Version)
	}
	return p.Payload, nil
}

// demand answers 402 with the offer.
func (s *Seller) demand(w http.ResponseWriter, r *http.Request, reason string) {
	url := "http://" + r.Host + r.URL.String()
	offer := map[string]any{
		"scheme": "exact", "network": "eip155:84532", "amount": s.Price, "asset": x402.USDC.Address, "payTo": s.PayTo, "maxTimeoutSeconds": 60,
		"extra": map[string]any{"name": "USDC", "version": "2"},
	}
	document := map[string]any{"x402Version": s.Version, "error": reason, "accepts": []any{offer}}
	if s.Version == 1 {
		delete(offer, "amount")
		offer["network"], offer["maxAmountRequired"], offer["resource"] = "base-sepolia", s.Price, url
	} else {
		document["resource"] = map[string]any{"url": url, "description": "", "mimeType": ""}
	}
	if s.Offer != nil {
		s.Offer(offer)
	}
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Version == 2 {
		w.Header().Set("PAYMENT-REQUIRED", base64.StdEncoding.EncodeToString(body))
		body = []byte("{}")
	}
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = w.Write(body)
}

// receipt says by which transaction the money was taken: the hash of its nonce here.
func (s *Seller) receipt(w http.ResponseWriter, p x402.Signed) {
	name, network := "X-PAYMENT-RESPONSE", "base-sepolia"
	if s.Version == 2 {
		name, network = "PAYMENT-RESPONSE", "eip155:84532"
	}
	body, err := json.Marshal(map[string]any{
		"success": true, "transaction": batch.Word(domain.Sum(p.Authorization.Nonce[:])), "network": network, "payer": p.Authorization.From,
	})
	if err != nil {
		return
	}
	w.Header().Set(name, base64.StdEncoding.EncodeToString(body))
}
