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
	Consent    string       `json:"consent"`
	Payload    Payload      `json:"payload"`
	Signature  Signature    `json:"signature"` // of a plain key in its one canonical form
	Verified   Verification `json:"verified"`
	OwnerCheck agent.Block  `json:"ownerCheck,omitzero"` // where the owner of an ERC-8004 agent was looked up
	OwnerNonce domain.Hash  `json:"ownerNonce,omitzero"` // opens payload.ownerNonceHash
}

// Refused means that the owner signed a consent which cannot be in force.
type Refused struct {
	Consent   string       `json:"consent"`
	Payload   Payload      `json:"payload"`
	Signature Signature    `json:"signature"`
	Verified  Verification `json:"verified"`
	Cause     Cause        `json:"cause"`
	Reason    string       `json:"reason"` // the same for people
}

// A Cause is what stood in the way of a consent that its owner signed.
type Cause string

// Causes.
const (
	OtherOwner    Cause = "owner_changed"   // the agent is not the signer's any more
	Uncertified   Cause = "no_certificate"  // the agent holds none and is no demo
	AlreadyActive Cause = "active_consent"  // the agent has a consent in force
	HostUnproven  Cause = "host_not_proven" // an endpoint is not shown to be the owner's, for a reason of its own

	// HostStopped and those after it are causes of a host whose word is no proof.
	HostStopped     Cause = "host_stopped"     // it wants no tasks
	OwnerNotListed  Cause = "owner_not_listed" // its document names others
	PrivateAddress  Cause = "private_address"  // it is not on the public internet
	ProofMalformed  Cause = "proof_malformed"  // its document is not what it should be
	ProofMissing    Cause = "proof_missing"    // it has none
	ProofRedirected Cause = "proof_redirected" // its document is said to be at another host
	ProofTooLarge   Cause = "proof_too_large"
)

// refusals are the codes and kinds of all causes.
var refusals = map[Cause]struct {
	code domain.Code
	kind error
}{
	OtherOwner:      {domain.OwnerChanged, domain.ErrForbidden},
	Uncertified:     {domain.NoCertificate, domain.ErrForbidden},
	AlreadyActive:   {domain.ActiveConsent, domain.ErrConflict},
	HostUnproven:    {domain.HostNotProven, domain.ErrInvalid},
	HostStopped:     {domain.HostStopped, domain.ErrForbidden},
	OwnerNotListed:  {domain.OwnerNotListed, domain.ErrInvalid},
	PrivateAddress:  {domain.PrivateAddress, domain.ErrInvalid},
	ProofMalformed:  {domain.ProofMalformed, domain.ErrInvalid},
	ProofMissing:    {domain.ProofMissing, domain.ErrInvalid},
	ProofRedirected: {domain.ProofRedirected, domain.ErrInvalid},
	ProofTooLarge:   {domain.ProofTooLarge, domain.ErrInvalid},
}

// HostCause returns the cause that the error of a host proof is by its code.
func HostCause(err error) Cause {
	code := domain.CodeOf(err)
	for cause, r := range refusals {
		if r.code == code && cause.ofHost() {
			return cause
		}
	}
	return HostUnproven
}

// ofHost reports whether a host was asked before c was known.
func (c Cause) ofHost() bool { return c != OtherOwner && c != Uncertified && c != AlreadyActive }

// Err returns the refusal as an error, of the kind and with the code that its
// cause has.
func (e Refused) Err() error {
	r, ok := refusals[e.Cause]
	if !ok {
		r = refusals[HostUnproven]
	}
	return domain.WithCode(r.code, fmt.Errorf("%s: %w", e.Reason, r.kind))
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
	Consent   string       `json:"consent"`
	Nonce     domain.Hash  `json:"nonce"`
	IssuedAt  time.Time    `json:"issuedAt"`
	Signature Signature    `json:"signature"`
	Verified  Verification `json:"verified"`
}

// An EndReason says why a consent ended without its owner's doing.
type EndReason string

// End reasons.
const (
	Expired              EndReason = "expired"
	OwnerChanged         EndReason = "owner_changed"
	CertificateWithdrawn EndReason = "certificate_withdrawn"
)

// Unfit returns why a consent of the owner's must end, from what is known of the
// agent now: "" if nothing says so.
func Unfit(known agent.State, owner eip191.Address) EndReason {
	switch {
	case known.Wallet != owner:
		return OwnerChanged
	case !known.Certified():
		return CertificateWithdrawn
	}
	return ""
}

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
	return g.Signature
}

// A Command asks for a change of an agent's consents.
//
//sumtype:decl
type Command interface{ consentCommand() }

// Grant asks to put a signed consent into force. What was asked of the world
// before stands in it: the chain, the registry, the hosts.
type Grant struct {
	Payload    Payload
	Signature  Signature    // as it came
	Verified   Verification // what a contract wallet said; zero: nothing, or none was asked
	OwnerNonce domain.Hash
	Owned      agent.Ownership // who owns the agent now
	Certified  bool            // whether the agent is a demo or holds a certificate now

	// Proofs holds one entry for each endpoint, in order: how it was proven, or why
	// not. It is empty if no host was asked because something else bars the grant.
	Proofs []Proof
}

// A Proof is the outcome of asking whether an endpoint is the owner's.
type Proof struct {
	Method  ProofMethod // "" if not proven
	Reason  string      // why not
	Unknown bool        // the host could not be asked, which proves neither
	Cause   Cause       // of the refusal that it means for a grant
}

// CheckHosts asks to record what the host proofs of the active consent are now.
type CheckHosts struct {
	Consent string
	Proofs  []Proof
}

// Revoke asks to withdraw the active consent in its owner's name.
type Revoke struct {
	Consent   string
	Nonce     domain.Hash
	IssuedAt  time.Time
	Signature Signature
	Verified  Verification // as in Grant
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

// Fresh returns nil if a payload keeps its rules and its challenge was not used.
// It is asked before any wallet is.
func (s State) Fresh(p Payload) error {
	if err := p.Check(); err != nil {
		return err
	}
	if id := plan.ConsentID(p.Nonce); s.Seen[id] {
		return domain.WithCode(domain.ChallengeUsed,
			fmt.Errorf("this challenge was used already, for consent %s: %w", id, domain.ErrConflict))
	}
	return nil
}

// Admit returns nil if g is a consent that its owner signed: from then on it goes
// on record, granted or refused. No host is asked before.
func (s State) Admit(g Grant) error {
	_, _, err := s.admit(g)
	return err
}

func (s State) admit(g Grant) (Signature, Verification, error) {
	if err := s.Fresh(g.Payload); err != nil {
		return nil, Verification{}, err
	}
	sig, verified, err := g.settle()
	if err != nil {
		return nil, Verification{}, err
	}
	return sig, verified, g.checkNonce(verified)
}

// settle returns how the owner signed this very payload.
func (g Grant) settle() (Signature, Verification, error) {
	message, err := g.Payload.Message()
	if err != nil {
		return nil, Verification{}, err
	}
	return signed{message, g.Payload.Owner, g.Payload.Chain, g.Signature, g.Verified}.settle()
}

// checkNonce returns nil if the owner opened the commitment where the message has
// a line for one. A contract wallet must have it: its signatures have no canonical
// form, so whoever picks the bytes would pick among seeds.
func (g Grant) checkNonce(v Verification) error {
	committed := !g.Payload.OwnerNonceHash.IsZero()
	switch {
	case !committed && v.Method != ByKey:
		return domain.WithCode(domain.OwnerNonceMissing,
			invalid("a contract wallet signed, so the consent needs ownerNonceHash; ask for a new challenge with the SHA-256 of 32 random bytes in it"))
	case !committed && !g.OwnerNonce.IsZero():
		return domain.WithCode(domain.OwnerNonceMismatch, invalid("ownerNonce was sent, but the message commits to none"))
	case committed && domain.Sum(g.OwnerNonce[:]) != g.Payload.OwnerNonceHash:
		return domain.WithCode(domain.OwnerNonceMismatch, invalid("ownerNonce does not open the commitment in the message"))
	}
	return nil
}

// Bar returns what stands in the way of an admitted grant whatever its hosts say,
// and the reason for people: "" if nothing does.
func (s State) Bar(g Grant) (Cause, string) {
	switch {
	case g.Owned.Owner != g.Payload.Owner && g.Owned.Owner.IsZero():
		return OtherOwner, "the agent belongs to nobody any more"
	case g.Owned.Owner != g.Payload.Owner:
		return OtherOwner, fmt.Sprintf("the agent belongs to %s now; ask for a new challenge", g.Owned.Owner)
	case !g.Certified:
		return Uncertified, "the agent holds no certificate"
	case s.Active != "":
		return AlreadyActive, fmt.Sprintf("the agent has an active consent, %s; revoke it first", s.Active)
	}
	return "", ""
}

func grant(s State, c Grant) ([]Event, error) {
	sig, verified, err := s.admit(c)
	if err != nil {
		return nil, err
	}
	id := plan.ConsentID(c.Payload.Nonce)
	refuse := func(cause Cause, reason string) ([]Event, error) {
		return []Event{Refused{id, c.Payload, sig, verified, cause, reason}}, nil
	}
	if cause, reason := s.Bar(c); cause != "" {
		return refuse(cause, reason)
	}
	switch len(c.Proofs) {
	case len(c.Payload.Endpoints):
	case 0:
		return nil, fmt.Errorf("what stood in the way of this consent is gone; send the grant again: %w", domain.ErrConflict)
	default:
		return nil, invalid("a grant carries the outcome of one host proof for each of the %d endpoints, not %d", len(c.Payload.Endpoints), len(c.Proofs))
	}
	events := []Event{Granted{id, c.Payload, sig, verified, c.Owned.At, c.OwnerNonce}}
	var reasons []string
	var cause Cause // the first, but that a host wants no tasks comes before all others
	for i, p := range c.Proofs {
		if p.Method == "" {
			if cause == "" || p.Cause == HostStopped {
				cause = p.Cause
			}
			reasons = append(reasons, fmt.Sprintf("endpoint %s (%s) is not proven: %s", EndpointID(i), c.Payload.Endpoints[i].URL, p.Reason))
		}
		events = append(events, HostProven{Consent: id, Endpoint: EndpointID(i), Method: p.Method})
	}
	if len(reasons) > 0 {
		if cause == "" {
			cause = HostUnproven
		}
		return refuse(cause, strings.Join(reasons, "; "))
	}
	return events, nil
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
	sig, verified, err := signed{p.Revocation(c.Nonce, c.IssuedAt).Message(), p.Owner, p.Chain, c.Signature, c.Verified}.settle()
	if err != nil {
		return nil, err
	}
	return []Event{Revoked{c.Consent, c.Nonce, c.IssuedAt, sig, verified}}, nil
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
