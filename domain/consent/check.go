package consent

import (
	"fmt"
	"reflect"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/plan"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one. Signatures of plain keys are checked again; those
// that contract wallets accepted, and what hosts and registries said, are taken as
// recorded.
func Check(s State, events []Event) error {
	switch e := events[0].(type) {
	case Granted:
		return Decider.Gives(s, granting(e, events[1:]), events)
	case Refused:
		if _, err := domain.Alone(events); err != nil {
			return err
		}
		return s.checkRefused(e)
	case HostProven:
		return Decider.Gives(s, s.checking(e.Consent, events), events)
	case HostLost:
		return Decider.Gives(s, s.checking(e.Consent, events), events)
	case Revoked:
		return Decider.Gives(s, Revoke(e), events)
	case Ended:
		return Decider.Gives(s, End(e), events)
	}
	panic(fmt.Sprintf("consent: unreachable event %T", events[0]))
}

// granting returns the command that led to a grant and the proofs that came with it.
func granting(g Granted, proofs []Event) Grant {
	c := Grant{
		Payload: g.Payload, Signature: g.Signature, Verified: g.Verified, OwnerNonce: g.OwnerNonce,
		Owned: agent.Ownership{Owner: g.Payload.Owner, At: g.OwnerCheck}, Certified: true,
	}
	for _, e := range proofs {
		if p, ok := e.(HostProven); ok {
			c.Proofs = append(c.Proofs, Proof{Method: p.Method})
		}
	}
	return c
}

// checking returns the command that led to news of the hosts of a consent: those
// without any are as they were.
func (s State) checking(consent string, events []Event) CheckHosts {
	c := CheckHosts{Consent: consent, Proofs: make([]Proof, len(s.Grant.Payload.Endpoints))}
	for i := range c.Proofs {
		if s.Proven[EndpointID(i)] {
			c.Proofs[i].Method = ByIdentity
		}
	}
	for _, e := range events {
		var endpoint string
		var proof Proof
		switch e := e.(type) {
		case HostProven:
			endpoint, proof = e.Endpoint, Proof{Method: e.Method}
		case HostLost:
			endpoint, proof = e.Endpoint, Proof{Reason: e.Reason}
		case Granted, Refused, Revoked, Ended:
		}
		for i := range c.Proofs {
			if EndpointID(i) == endpoint {
				c.Proofs[i] = proof
			}
		}
	}
	return c
}

// checkRefused returns nil if the owner signed this very consent. Which of the facts
// that can stand in its way did, the event alone tells: but for a consent in force,
// they are facts of the world.
func (s State) checkRefused(e Refused) error {
	if err := s.Fresh(e.Payload); err != nil {
		return err
	}
	sig, verified, err := Grant{Payload: e.Payload, Signature: e.Signature, Verified: e.Verified}.settle()
	if err != nil {
		return err
	}
	_, known := refusals[e.Cause]
	switch {
	case e.Consent != plan.ConsentID(e.Payload.Nonce):
		return fmt.Errorf("consent %s has the nonce of %s: %w", e.Consent, plan.ConsentID(e.Payload.Nonce), domain.ErrInvalid)
	case !reflect.DeepEqual(sig, e.Signature), verified != e.Verified:
		return invalid("the signature is not kept in its one form")
	case !known, e.Reason == "":
		return invalid("a refusal has a cause and a reason, and not cause %q and reason %q", e.Cause, e.Reason)
	case e.Cause == AlreadyActive && s.Active == "":
		return invalid("no consent was in force that could stand in the way")
	case e.Cause.ofHost() && s.Active != "":
		return invalid("a consent was in force, so no host was asked")
	}
	return nil
}
