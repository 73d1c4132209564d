// Package consent records which agents may be shopped, how far, and until when.
//
// Its stream is consent/<agent ref>: one stream per agent, so that an agent has
// one active consent by construction. What the owner signs is the text of
// [Payload.Message]; nothing is ever decided on fields that were not signed.
package consent

import (
	"fmt"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Granted](domain.Public),
	domain.Current[Refused](domain.Public),
	domain.Current[HostProven](domain.Public),
	domain.Current[HostLost](domain.Public),
	domain.Current[Revoked](domain.Public),
	domain.Current[Ended](domain.Public),
}

// StreamOf names the stream of the consents of an agent.
func StreamOf(ref agent.Ref) ledger.Stream { return ledger.Stream("consent/" + string(ref)) }

// An Event is a step in the life of an agent's consents.
//
//sumtype:decl
type Event interface {
	domain.Event
	consentEvent()
}

// Granted means that the owner signed a consent and it is in force.
type Granted struct {
	Consent    string           `json:"consent"`
	Payload    Payload          `json:"payload"`
	Signature  eip191.Signature `json:"signature"` // in its one canonical form
	Verified   Verification     `json:"verified"`
	OwnerNonce domain.Hash      `json:"ownerNonce,omitzero"` // opens payload.ownerNonceHash
}

// Verification says how a signature was found to be the owner's.
type Verification struct {
	Method string `json:"method"` // "eip191": recovered signer is the owner
}

// Refused means that the owner signed a consent which cannot be in force.
type Refused struct {
	Consent   string           `json:"consent"`
	Payload   Payload          `json:"payload"`
	Signature eip191.Signature `json:"signature"`
	Reason    string           `json:"reason"`
}

// A ProofMethod says how a host was shown to belong to the owner.
type ProofMethod string

// Proof methods.
const (
	ByIdentity ProofMethod = "identity" // a verified identity of the build covers the endpoint
	ByDocument ProofMethod = "document" // the host's well-known document lists the owner
)

// HostProven means that an endpoint was shown to be the owner's to offer.
type HostProven struct {
	Consent  string      `json:"consent"`
	Endpoint string      `json:"endpoint"`
	Method   ProofMethod `json:"method"`
}

// HostLost means that the proof of an endpoint is gone: what was planned for it
// is cancelled.
type HostLost struct {
	Consent  string `json:"consent"`
	Endpoint string `json:"endpoint"`
	Reason   string `json:"reason"`
}

// Revoked means that the owner withdrew the consent. It is final.
type Revoked struct {
	Consent   string           `json:"consent"`
	Nonce     domain.Hash      `json:"nonce"`
	IssuedAt  time.Time        `json:"issuedAt"`
	Signature eip191.Signature `json:"signature"`
}

// An EndReason says why a consent ended without its owner's doing.
type EndReason string

// End reasons.
const (
	Expired              EndReason = "expired"
	OwnerChanged         EndReason = "owner_changed"
	CertificateWithdrawn EndReason = "certificate_withdrawn"
)

// Ended means that the consent is over. It is final.
type Ended struct {
	Consent string    `json:"consent"`
	Reason  EndReason `json:"reason"`
}

// EventType implements [domain.Event].
func (Granted) EventType() domain.Type { return "consent.granted.v1" }

// EventType implements [domain.Event].
func (Refused) EventType() domain.Type { return "consent.refused.v1" }

// EventType implements [domain.Event].
func (HostProven) EventType() domain.Type { return "consent.host_proven.v1" }

// EventType implements [domain.Event].
func (HostLost) EventType() domain.Type { return "consent.host_lost.v1" }

// EventType implements [domain.Event].
func (Revoked) EventType() domain.Type { return "consent.revoked.v1" }

// EventType implements [domain.Event].
func (Ended) EventType() domain.Type { return "consent.ended.v1" }

func (Granted) consentEvent()    {}
func (Refused) consentEvent()    {}
func (HostProven) consentEvent() {}
func (HostLost) consentEvent()   {}
func (Revoked) consentEvent()    {}
func (Ended) consentEvent()      {}

// Entropy returns the owner's part of the seeds: the nonce the owner committed
// to, if the message has a line for it, else the canonical signature.
func (g Granted) Entropy() []byte {
	if !g.Payload.OwnerNonceHash.IsZero() {
		return g.OwnerNonce[:]
	}
	return g.Signature[:]
}

// A Command asks for a change of an agent's consents.
//
//sumtype:decl
type Command interface{ consentCommand() }

// Grant asks to put a signed consent into force. Proofs holds one entry for each
// endpoint, in order: how it was proven, or why not.
type Grant struct {
	Payload    Payload
	Signature  eip191.Signature
	OwnerNonce domain.Hash
	Wallet     eip191.Address // the agent's owner as the registry knows it now
	Proofs     []Proof
}

// A Proof is the outcome of asking whether an endpoint is the owner's.
type Proof struct {
	Method  ProofMethod // "" if not proven
	Reason  string      // why not
	Unknown bool        // the host could not be asked, which proves neither
}

// CheckHosts asks to record what the host proofs of the active consent are now.
type CheckHosts struct {
	Consent string
	Proofs  []Proof
}

// Revoke asks to withdraw the active consent in its owner's name.
type Revoke struct {
	Consent   string
	Domain    string
	Nonce     domain.Hash
	IssuedAt  time.Time
	Signature eip191.Signature
}

// End asks to close the active consent for a reason of ours.
type End struct {
	Consent string
	Reason  EndReason
}

func (Grant) consentCommand()      {}
func (CheckHosts) consentCommand() {}
func (Revoke) consentCommand()     {}
func (End) consentCommand()        {}

// State is what deciding needs to remember of an agent's consents.
type State struct {
	Seen   map[string]bool // every consent id ever granted or refused
	Active string          // the one in force, or ""
	Over   map[string]bool // those revoked or ended
	Grant  Granted         // of the active one
	Proven map[string]bool // its endpoints
}

// Decider is the life of an agent's consents.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Grant:
		return grant(s, c)
	case CheckHosts:
		if !s.active(c.Consent) {
			return nil, nil // over since it was asked
		}
		return checkHosts(s, c), nil
	case Revoke:
		return revoke(s, c)
	case End:
		if !s.active(c.Consent) {
			return nil, nil
		}
		return []Event{Ended(c)}, nil
	}
	panic(fmt.Sprintf("consent: unreachable command %T", c))
}

func (s State) active(consent string) bool { return consent != "" && s.Active == consent }

// Admit returns nil if nothing but its host proofs can stand in the way of g: the
// payload keeps its rules, its challenge was not used, its owner signed it, and
// the agent has no active consent. No host is asked before.
func (s State) Admit(g Grant) error {
	if err := g.Payload.Check(); err != nil {
		return err
	}
	if id := plan.ConsentID(g.Payload.Nonce); s.Seen[id] {
		return fmt.Errorf("this challenge was used already, for consent %s: %w", id, domain.ErrConflict)
	}
	if err := checkSigner(g); err != nil {
		return err
	}
	if s.Active != "" {
		return fmt.Errorf("the agent has an active consent, %s; revoke it first: %w", s.Active, domain.ErrConflict)
	}
	return nil
}

func grant(s State, c Grant) ([]Event, error) {
	if err := s.Admit(c); err != nil {
		return nil, err
	}
	if len(c.Proofs) != len(c.Payload.Endpoints) {
		return nil, invalid("a grant carries the outcome of one host proof for each of the %d endpoints, not %d", len(c.Payload.Endpoints), len(c.Proofs))
	}
	id := plan.ConsentID(c.Payload.Nonce)
	events := []Event{Granted{
		Consent: id, Payload: c.Payload, Signature: c.Signature,
		Verified: Verification{Method: "eip191"}, OwnerNonce: c.OwnerNonce,
	}}
	var reasons []string
	for i, p := range c.Proofs {
		if p.Method == "" {
			reasons = append(reasons, fmt.Sprintf("endpoint %s (%s) is not proven: %s", EndpointID(i), c.Payload.Endpoints[i].URL, p.Reason))
		}
		events = append(events, HostProven{Consent: id, Endpoint: EndpointID(i), Method: p.Method})
	}
	if len(reasons) > 0 {
		return []Event{Refused{Consent: id, Payload: c.Payload, Signature: c.Signature, Reason: strings.Join(reasons, "; ")}}, nil
	}
	return events, nil
}

// checkSigner returns nil if the owner signed this very payload and, where the
// message has a commitment line, opened it.
func checkSigner(c Grant) error {
	text, err := c.Payload.Message()
	if err != nil {
		return err
	}
	signer, err := eip191.Recover(text, c.Signature)
	if err != nil {
		return err
	}
	if signer != c.Payload.Owner {
		return fmt.Errorf("the message was signed by %s and not by the owner %s: %w", signer, c.Payload.Owner, domain.ErrForbidden)
	}
	if c.Wallet != c.Payload.Owner {
		return fmt.Errorf("the agent belongs to %s now; ask for a new challenge: %w", c.Wallet, domain.ErrForbidden)
	}
	committed := !c.Payload.OwnerNonceHash.IsZero()
	if committed && domain.Sum(c.OwnerNonce[:]) != c.Payload.OwnerNonceHash {
		return invalid("ownerNonce does not open the commitment in the message")
	}
	if !committed && !c.OwnerNonce.IsZero() {
		return invalid("ownerNonce was sent, but the message commits to none")
	}
	return nil
}

func checkHosts(s State, c CheckHosts) []Event {
	var events []Event
	for i, p := range c.Proofs {
		id := EndpointID(i)
		switch proven := p.Method != ""; {
		case proven && !s.Proven[id]:
			events = append(events, HostProven{Consent: c.Consent, Endpoint: id, Method: p.Method})
		case !proven && s.Proven[id]:
			events = append(events, HostLost{Consent: c.Consent, Endpoint: id, Reason: p.Reason})
		}
	}
	return events
}

func revoke(s State, c Revoke) ([]Event, error) {
	switch {
	case s.Over[c.Consent]:
		return nil, nil // it is what the owner wants, and no news
	case !s.active(c.Consent):
		return nil, fmt.Errorf("there is no active consent %s: %w", c.Consent, domain.ErrNotFound)
	}
	p := s.Grant.Payload
	text := Revocation{
		Domain: c.Domain, Consent: c.Consent, Agent: p.Agent, Owner: p.Owner, Nonce: c.Nonce, IssuedAt: c.IssuedAt,
	}.Message()
	signer, err := eip191.Recover(text, c.Signature)
	if err != nil {
		return nil, err
	}
	if signer != p.Owner {
		return nil, fmt.Errorf("the message was signed by %s and not by the owner %s: %w", signer, p.Owner, domain.ErrForbidden)
	}
	return []Event{Revoked{Consent: c.Consent, Nonce: c.Nonce, IssuedAt: c.IssuedAt, Signature: c.Signature}}, nil
}

func evolve(s State, e Event) State {
	if s.Seen == nil {
		s.Seen, s.Over, s.Proven = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	}
	switch e := e.(type) {
	case Granted:
		s.Seen[e.Consent], s.Active, s.Grant = true, e.Consent, e
		s.Proven = make(map[string]bool)
	case Refused:
		s.Seen[e.Consent] = true
	case HostProven:
		s.Proven[e.Endpoint] = true
	case HostLost:
		delete(s.Proven, e.Endpoint)
	case Revoked:
		s.Over[e.Consent], s.Active = true, ""
	case Ended:
		s.Over[e.Consent], s.Active = true, ""
	}
	return s
}
