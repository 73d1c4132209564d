// Package agent records what Karatum knows of an agent that may be shopped: who
// owns it, which of its identities were verified, what its endpoints show.
//
// Its stream is agent/<ref>. An agent must be registered before anything else is
// recorded of it. What is known comes from the operator, or from a producer, who signs
// for it and may say less, see [producer.Signed].
package agent

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/task"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Registered](domain.Public),
	domain.Current[IdentityVerified](domain.Public),
	domain.Current[IdentityWithdrawn](domain.Public),
	domain.Current[OwnerChanged](domain.Public),
	domain.Current[CertificateRecorded](domain.Public),
	domain.Current[CertificateWithdrawn](domain.Public),
	domain.Current[SurfaceObserved](domain.Public),
}

// StreamOf names the stream of an agent.
func StreamOf(ref Ref) ledger.Stream { return ledger.Stream("agent/" + string(ref)) }

// An Event is something that became known of an agent.
//
//sumtype:decl
type Event interface {
	domain.Event
	agentEvent()
}

// Registered means that the agent and its owner wallet are known. A Demo agent
// is one of Karatum's own, built to be looked at.
type Registered struct {
	Agent  Ref            `json:"agent"`
	Wallet eip191.Address `json:"wallet"`
	Demo   bool           `json:"demo"`
	At     Block          `json:"at,omitzero"` // where an ERC-8004 agent was looked up

	producer.Signed `json:"signed,omitzero"`
}

// OwnerChanged means that the agent belongs to another wallet now: To is zero if
// it belongs to nobody any more. A consent of the owner before ends with it.
type OwnerChanged struct {
	From   eip191.Address `json:"from"`
	To     eip191.Address `json:"to"`
	Reason string         `json:"reason"`
	At     Block          `json:"at,omitzero"` // where it was seen of an ERC-8004 agent

	producer.Signed `json:"signed,omitzero"`
}

// IdentityVerified means that the URL was shown to be the agent's own: as an
// endpoint it needs no host proof.
type IdentityVerified struct {
	URL string `json:"url"`

	producer.Signed `json:"signed,omitzero"`
}

// IdentityWithdrawn means that the URL no longer counts as the agent's own.
type IdentityWithdrawn struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`

	producer.Signed `json:"signed,omitzero"`
}

// CertificateRecorded means that the agent holds a Karatum certificate.
type CertificateRecorded struct {
	Certificate string `json:"certificate"`

	producer.Signed `json:"signed,omitzero"`
}

// CertificateWithdrawn means that a certificate of the agent is void.
type CertificateWithdrawn struct {
	Certificate string `json:"certificate"`
	Reason      string `json:"reason"`

	producer.Signed `json:"signed,omitzero"`
}

// SurfaceObserved means that an endpoint shows a surface (skills or tools) other
// than the one before. Surface is the hash of its canonical JSON; the body lies
// beside the log and is opened with the plans made from it.
type SurfaceObserved struct {
	Kind    task.Kind   `json:"kind"`
	URL     string      `json:"url"`
	Surface domain.Hash `json:"surface"`
}

// EventType implements [domain.Event].
func (Registered) EventType() domain.Type { return "agent.registered.v1" }

// EventType implements [domain.Event].
func (IdentityVerified) EventType() domain.Type { return "agent.identity_verified.v1" }

// EventType implements [domain.Event].
func (IdentityWithdrawn) EventType() domain.Type { return "agent.identity_withdrawn.v1" }

// EventType implements [domain.Event].
func (OwnerChanged) EventType() domain.Type { return "agent.owner_changed.v1" }

// EventType implements [domain.Event].
func (CertificateRecorded) EventType() domain.Type { return "agent.certificate_recorded.v1" }

// EventType implements [domain.Event].
func (CertificateWithdrawn) EventType() domain.Type { return "agent.certificate_withdrawn.v1" }

// EventType implements [domain.Event].
func (SurfaceObserved) EventType() domain.Type { return "agent.surface_observed.v1" }

func (Registered) agentEvent()           {}
func (IdentityVerified) agentEvent()     {}
func (IdentityWithdrawn) agentEvent()    {}
func (OwnerChanged) agentEvent()         {}
func (CertificateRecorded) agentEvent()  {}
func (CertificateWithdrawn) agentEvent() {}
func (SurfaceObserved) agentEvent()      {}

// A Command asks for a change of what is known of an agent.
//
//sumtype:decl
type Command interface{ agentCommand() }

// Register asks to make an agent known.
type Register struct {
	Agent  Ref
	Wallet eip191.Address
	Demo   bool
	At     Block

	producer.Signed
}

// ChangeOwner asks to record that the agent belongs to another wallet.
type ChangeOwner struct {
	To     eip191.Address
	Reason string
	At     Block

	producer.Signed
}

// VerifyIdentity asks to record that a URL is the agent's own.
type VerifyIdentity struct {
	URL string

	producer.Signed
}

// WithdrawIdentity asks to record that a URL is not the agent's own any more.
type WithdrawIdentity struct {
	URL, Reason string

	producer.Signed
}

// RecordCertificate asks to record that the agent holds a certificate.
type RecordCertificate struct {
	Certificate string

	producer.Signed
}

// WithdrawCertificate asks to record that a certificate is void.
type WithdrawCertificate struct {
	Certificate, Reason string

	producer.Signed
}

// ObserveSurface asks to record what an endpoint shows.
type ObserveSurface struct {
	Kind    task.Kind
	URL     string
	Surface domain.Hash
}

func (Register) agentCommand()            {}
func (VerifyIdentity) agentCommand()      {}
func (WithdrawIdentity) agentCommand()    {}
func (ChangeOwner) agentCommand()         {}
func (RecordCertificate) agentCommand()   {}
func (WithdrawCertificate) agentCommand() {}
func (ObserveSurface) agentCommand()      {}

// State is what is known of an agent.
type State struct {
	Registered   bool
	Ref          Ref
	Wallet       eip191.Address
	Demo         bool
	Identities   map[string]bool // verified URLs
	Certificates map[string]bool // certificates in force
	Surfaces     map[Endpoint]domain.Hash
}

// Certified reports whether the agent may be shopped for its certificate's sake:
// it holds one, or is there to be looked at.
func (s State) Certified() bool { return s.Demo || len(s.Certificates) > 0 }

// An Endpoint is where a surface is seen: one URL may speak several protocols.
type Endpoint struct {
	Kind task.Kind
	URL  string
}

// Decider is what may be recorded of an agent.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	if _, first := c.(Register); !first && !s.Registered {
		return nil, fmt.Errorf("this agent is not registered: %w", domain.ErrNotFound)
	}
	if err := claim(s, c); err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case Register:
		if !s.Registered {
			return []Event{Registered(c)}, nil
		}
		if s.Wallet != c.Wallet || s.Demo != c.Demo {
			return nil, fmt.Errorf("%s is registered already, with wallet %s: %w", c.Agent, s.Wallet, domain.ErrConflict)
		}
		return nil, nil
	case VerifyIdentity:
		if s.Identities[c.URL] {
			return nil, nil
		}
		return []Event{IdentityVerified(c)}, nil
	case WithdrawIdentity:
		if !s.Identities[c.URL] {
			return nil, fmt.Errorf("%s is not a verified identity of this agent: %w", c.URL, domain.ErrNotFound)
		}
		return []Event{IdentityWithdrawn(c)}, nil
	case ChangeOwner:
		if s.Wallet == c.To {
			return nil, nil
		}
		return []Event{OwnerChanged{From: s.Wallet, To: c.To, Reason: c.Reason, At: c.At, Signed: c.Signed}}, nil
	case RecordCertificate:
		if s.Certificates[c.Certificate] {
			return nil, nil
		}
		return []Event{CertificateRecorded(c)}, nil
	case WithdrawCertificate:
		if !s.Certificates[c.Certificate] {
			return nil, fmt.Errorf("this agent holds no certificate %s: %w", c.Certificate, domain.ErrNotFound)
		}
		return []Event{CertificateWithdrawn(c)}, nil
	case ObserveSurface:
		if s.Surfaces[Endpoint{c.Kind, c.URL}] == c.Surface {
			return nil, nil // events on change only
		}
		return []Event{SurfaceObserved(c)}, nil
	}
	panic(fmt.Sprintf("agent: unreachable command %T", c))
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case Registered:
		s.Registered, s.Ref, s.Wallet, s.Demo = true, e.Agent, e.Wallet, e.Demo
		s.Identities = make(map[string]bool)
		s.Certificates = make(map[string]bool)
		s.Surfaces = make(map[Endpoint]domain.Hash)
	case IdentityVerified:
		s.Identities[e.URL] = true
	case IdentityWithdrawn:
		delete(s.Identities, e.URL)
	case OwnerChanged:
		s.Wallet = e.To
	case CertificateRecorded:
		s.Certificates[e.Certificate] = true
	case CertificateWithdrawn:
		delete(s.Certificates, e.Certificate)
	case SurfaceObserved:
		s.Surfaces[Endpoint{e.Kind, e.URL}] = e.Surface
	}
	return s
}
