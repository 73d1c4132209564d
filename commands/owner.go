package commands

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
)

// Challenged is a consent for an owner to sign. Nothing is stored of it: the id
// proves that it was issued here.
type Challenged struct {
	ChallengeID string
	Message     string
	Payload     consent.Payload
	PayloadHash domain.Hash
	ExpiresAt   time.Time
}

// CheckRequest returns the error with which [Service.Challenge] refuses a request that
// breaks a rule which can be judged without asking anybody, [domain.ErrInvalid].
func (s *Service) CheckRequest(r consent.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	for _, e := range r.Endpoints {
		if err := s.Hosts.Check(e.URL); err != nil {
			return domain.WithCode(domain.EndpointRefused, err)
		}
	}
	return nil
}

// Challenge answers a request with the message to sign. It returns
// [domain.ErrInvalid] for a request that breaks a rule, [domain.ErrNotFound] for
// an agent that is not registered, [domain.ErrForbidden] for one that belongs to
// nobody or holds no certificate, and [domain.ErrConflict] if it has an active
// consent. Who owns an ERC-8004 agent is asked of its registry, now and again at
// the grant.
func (s *Service) Challenge(ctx context.Context, r consent.Request) (Challenged, error) {
	if err := s.CheckRequest(r); err != nil {
		return Challenged{}, err
	}
	known, err := load(ctx, s, agent.Decider, agent.StreamOf(r.Agent), "")
	if err != nil {
		return Challenged{}, err
	}
	if !known.state.Registered {
		return Challenged{}, domain.WithCode(domain.NotRegistered, fmt.Errorf("agent %s is not registered: %w", r.Agent, domain.ErrNotFound))
	}
	if !known.state.Certified() {
		return Challenged{}, domain.WithCode(domain.NoCertificate, fmt.Errorf("agent %s holds no certificate: %w", r.Agent, domain.ErrForbidden))
	}
	consents, err := load(ctx, s, consent.Decider, consent.StreamOf(r.Agent), "")
	if err != nil {
		return Challenged{}, err
	}
	owned, err := s.Ownership(ctx, known.state)
	if err != nil {
		return Challenged{}, err
	}
	if owned.Owner.IsZero() {
		return Challenged{}, domain.WithCode(domain.OwnerChanged, fmt.Errorf("agent %s belongs to nobody any more: %w", r.Agent, domain.ErrForbidden))
	}
	// That of an owner before ends when the new one grants, or within the hour.
	if active := consents.state.Active; active != "" && consents.state.Grant.Payload.Owner == owned.Owner {
		return Challenged{}, domain.WithCode(domain.ActiveConsent,
			fmt.Errorf("the agent has an active consent, %s; revoke it first: %w", active, domain.ErrConflict))
	}
	p, expires, err := s.payload(ctx, r, owned.Owner)
	if err != nil {
		return Challenged{}, err
	}
	hash, err := p.Hash()
	if err != nil {
		return Challenged{}, err
	}
	message, err := p.Message()
	if err != nil {
		return Challenged{}, err
	}
	id, err := s.challengeID(ctx, consent.ToGrant, consent.Challenge{Nonce: p.Nonce, Subject: hash, Expires: expires})
	if err != nil {
		return Challenged{}, err
	}
	return Challenged{ChallengeID: id, Message: message, Payload: p, PayloadHash: hash, ExpiresAt: expires}, nil
}

func (s *Service) payload(ctx context.Context, r consent.Request, owner eip191.Address) (p consent.Payload, expires time.Time, err error) {
	published, err := s.CurrentProgramme(ctx)
	if err != nil {
		return p, expires, err
	}
	if published.Terms.Version == 0 {
		return p, expires, fmt.Errorf("no terms are published yet; start the service once with its full configuration: %w", domain.ErrUnavailable)
	}
	nonce, err := s.nonce()
	if err != nil {
		return p, expires, err
	}
	issued := s.Now().UTC().Truncate(time.Second)
	expires = issued.Add(consent.ChallengeLife)
	first := consent.FirstDay(expires)
	ours, err := s.keyRoot(ctx, nonce, first, r.ValidityDays)
	if err != nil {
		return p, expires, err
	}
	if err := inForce(published, ours.OperatorKey); err != nil {
		return p, expires, err
	}
	return consent.Payload{
		Request: r,
		Terms: consent.Terms{
			Domain:          s.Domain,
			Owner:           owner,
			Chain:           s.chainOf(r.Agent),
			FirstDay:        first,
			LastDay:         first + r.ValidityDays - 1,
			TermsVersion:    published.Terms.Version,
			TermsHash:       published.Terms.Hash,
			PoolVersion:     published.Pool.Version,
			PoolHash:        published.Pool.Hash,
			CatalogueDigest: published.Catalogue.Digest,
			OperatorKey:     ours.OperatorKey,
			PlanKeyRoot:     ours.PlanKeyRoot,
			Nonce:           nonce,
			IssuedAt:        issued,
		},
	}, expires, nil
}

// Grant puts a signed consent into force and returns its id. From the owner's
// signature on it goes on record: if something else stands in its way, the refusal
// is recorded, and its id is returned beside the error of [consent.Refused.Err].
// Of other errors there is no id and no trace: [domain.ErrInvalid] for what was
// not issued here or does not parse, [domain.ErrForbidden] for an expired
// challenge or another signer, [domain.ErrConflict] for a second grant, and
// [domain.ErrUnavailable] if chain or host could not be asked.
func (s *Service) Grant(
	ctx context.Context, challengeID string, p consent.Payload, sig consent.Signature, ownerNonce domain.Hash,
) (id string, err error) {
	if err := s.issued(ctx, challengeID, p); err != nil {
		return "", err
	}
	if err := s.notRetired(ctx, p.OperatorKey); err != nil {
		return "", err
	}
	known, err := s.KnownAgent(ctx, p.Agent)
	if err != nil {
		return "", err
	}
	before, err := load(ctx, s, consent.Decider, consent.StreamOf(p.Agent), "")
	if err != nil {
		return "", err
	}
	g := consent.Grant{Payload: p, Signature: sig, OwnerNonce: ownerNonce, Certified: known.Certified()}
	if err := s.checkOwner(ctx, &g, before.state, known); err != nil {
		return "", err
	}
	if g.Owned.Owner == p.Owner && known.Wallet != p.Owner {
		if err := s.follow(ctx, p.Agent, g.Owned); err != nil {
			return "", err
		}
		// The consent of the owner before may have ended with it.
		if before, err = load(ctx, s, consent.Decider, consent.StreamOf(p.Agent), ""); err != nil {
			return "", err
		}
	}
	if err := s.checkHosts(ctx, &g, before.state, known); err != nil {
		return "", err
	}
	return s.grant(ctx, before.state, g)
}

// follow records the owner that the registry of an agent names.
func (s *Service) follow(ctx context.Context, ref agent.Ref, o agent.Ownership) error {
	m, err := s.meta("owner:" + o.Owner.String())
	if err != nil {
		return err
	}
	return s.Agent(ctx, m, ref, NewOwner(o))
}

// NewOwner asks to record what the registry of an ERC-8004 agent says.
func NewOwner(o agent.Ownership) agent.ChangeOwner {
	return agent.ChangeOwner{To: o.Owner, Reason: "the identity registry names another owner", At: o.At}
}

// issued returns nil if a payload is just what was issued with a challenge that is
// still open.
func (s *Service) issued(ctx context.Context, challengeID string, p consent.Payload) error {
	c, err := s.openChallenge(ctx, consent.ToGrant, challengeID)
	if err != nil {
		return err
	}
	hash, err := p.Hash()
	switch {
	case err != nil:
		return err
	case p.Domain != s.Domain:
		return domain.WithCode(domain.WrongDomain, fmt.Errorf("the payload is for another domain; consents are signed for %s here: %w", s.Domain, domain.ErrInvalid))
	case p.Chain != s.chainOf(p.Agent):
		return domain.WithCode(domain.WrongChain, fmt.Errorf("the payload names chain %d, and contracts are asked on chain %d here: %w",
			p.Chain, s.chainOf(p.Agent), domain.ErrInvalid))
	case hash != c.Subject || p.Nonce != c.Nonce:
		return domain.WithCode(domain.PayloadChanged, fmt.Errorf("the payload is not the one that was issued with this challenge; send it back unchanged: %w", domain.ErrInvalid))
	}
	return nil
}

// checkOwner finds out how a grant was signed and who owns its agent, each only
// after the one before: no wallet is asked for a challenge that was used, and no
// registry on the word of somebody whose signature does not hold.
func (s *Service) checkOwner(ctx context.Context, g *consent.Grant, before consent.State, known agent.State) (err error) {
	p := g.Payload
	if err := before.Fresh(p); err != nil {
		return err
	}
	message, err := p.Message()
	if err != nil {
		return err
	}
	if g.Verified, err = s.verify(ctx, p, !p.OwnerNonceHash.IsZero(), message, g.Signature); err != nil {
		return err
	}
	if err := before.Admit(*g); err != nil {
		return err
	}
	g.Owned, err = s.Ownership(ctx, known)
	return err
}

// checkHosts asks the hosts of a grant that its owner signed, unless something else
// stands in its way.
func (s *Service) checkHosts(ctx context.Context, g *consent.Grant, before consent.State, known agent.State) error {
	if cause, _ := before.Bar(*g); cause != "" {
		return nil
	}
	p := g.Payload
	g.Proofs = s.Proofs(ctx, known, p)
	for i, proof := range g.Proofs {
		if proof.Unknown { // a host that is down refuses nothing
			return domain.WithCode(domain.HostUnreachable, fmt.Errorf("%s: %s; try again before the challenge expires: %w",
				p.Endpoints[i].URL, proof.Reason, domain.ErrUnavailable))
		}
	}
	return nil
}

// grant carries out a grant that was checked against the state before.
func (s *Service) grant(ctx context.Context, before consent.State, g consent.Grant) (id string, err error) {
	id = plan.ConsentID(g.Payload.Nonce)
	expected, err := consent.Decider.Decide(before, g)
	if err != nil {
		return "", err
	}
	// The gate opens first: without the consent nothing is planned and nothing
	// passes, while a consent behind a closed gate would be dead.
	if _, ok := expected[0].(consent.Granted); ok {
		if err := s.Gate.Open(ctx, id); err != nil {
			return "", err
		}
	}
	m, err := s.meta("owner:" + g.Payload.Owner.String())
	if err != nil {
		return "", err
	}
	events, err := carryOut(ctx, s, consent.Decider, consent.StreamOf(g.Payload.Agent), m, consent.Command(g))
	if err != nil {
		return "", err
	}
	if r, ok := events[0].(consent.Refused); ok {
		return id, r.Err()
	}
	return id, nil
}

// KnownAgent returns what is known of an agent now.
func (s *Service) KnownAgent(ctx context.Context, ref agent.Ref) (agent.State, error) {
	h, err := load(ctx, s, agent.Decider, agent.StreamOf(ref), "")
	return h.state, err
}

// RevokeChallenged is a revocation for an owner to sign.
type RevokeChallenged struct {
	ChallengeID string
	Message     string
	ExpiresAt   time.Time
}

// ChallengeRevoke returns the message that revokes a consent when its owner
// signs it. It returns [domain.ErrNotFound] for a consent that never was and
// [domain.ErrConflict] for one that is over.
func (s *Service) ChallengeRevoke(ctx context.Context, consentID string, ref agent.Ref) (RevokeChallenged, error) {
	granted, err := s.active(ctx, consentID, ref)
	if err != nil {
		return RevokeChallenged{}, err
	}
	nonce, err := s.nonce()
	if err != nil {
		return RevokeChallenged{}, err
	}
	issued := s.Now().UTC().Truncate(time.Second)
	r := granted.Payload.Revocation(nonce, issued)
	c := consent.Challenge{Nonce: nonce, Subject: r.Subject(), Expires: issued.Add(consent.ChallengeLife)}
	id, err := s.challengeID(ctx, consent.ToRevoke, c)
	if err != nil {
		return RevokeChallenged{}, err
	}
	return RevokeChallenged{ChallengeID: id, Message: r.Message(), ExpiresAt: c.Expires}, nil
}

// Revoke withdraws a consent in its owner's name. When it returns nil no byte of
// a new task leaves any more. Revoking what is over already succeeds.
func (s *Service) Revoke(ctx context.Context, consentID string, ref agent.Ref, challengeID string, sig consent.Signature) error {
	c, err := s.openChallenge(ctx, consent.ToRevoke, challengeID)
	if err != nil {
		return err
	}
	h, err := load(ctx, s, consent.Decider, consent.StreamOf(ref), "")
	if err != nil {
		return err
	}
	if c.Subject != (consent.Revocation{Consent: consentID, Agent: ref}).Subject() {
		return domain.WithCode(domain.ChallengeForeign, fmt.Errorf("this challenge was issued for another consent: %w", domain.ErrInvalid))
	}
	r := consent.Revoke{Consent: consentID, Nonce: c.Nonce, IssuedAt: c.Expires.Add(-consent.ChallengeLife), Signature: sig}
	if p := h.state.Grant.Payload; h.state.Active == consentID {
		message := p.Revocation(r.Nonce, r.IssuedAt).Message()
		if r.Verified, err = s.verify(ctx, p, !p.OwnerNonceHash.IsZero(), message, sig); err != nil {
			return err
		}
	}
	if events, err := consent.Decider.Decide(h.state, r); err != nil || len(events) == 0 {
		return err // a stranger closes no gate
	}
	m, err := s.meta("owner:" + h.state.Grant.Payload.Owner.String())
	if err != nil {
		return err
	}
	return s.Gate.Close(ctx, consentID, func(ctx context.Context) error { return s.Consent(ctx, m, ref, r) })
}

func (s *Service) active(ctx context.Context, consentID string, ref agent.Ref) (consent.Granted, error) {
	h, err := load(ctx, s, consent.Decider, consent.StreamOf(ref), "")
	switch {
	case err != nil:
		return consent.Granted{}, err
	case h.state.Over[consentID]:
		return consent.Granted{}, domain.WithCode(domain.ConsentOver, fmt.Errorf("consent %s is over already: %w", consentID, domain.ErrConflict))
	case h.state.Active == "" || h.state.Active != consentID:
		return consent.Granted{}, fmt.Errorf("there is no active consent %s: %w", consentID, domain.ErrNotFound)
	}
	return h.state.Grant, nil
}

func (s *Service) nonce() (n domain.Hash, err error) {
	if _, err := io.ReadFull(s.Rand, n[:]); err != nil {
		return n, fmt.Errorf("draw a nonce: %w", err)
	}
	return n, nil
}

// meta returns the meta of a command that is carried out once and not repeated.
func (s *Service) meta(actor string) (ledger.Meta, error) {
	id, err := uuid.NewRandomFromReader(s.Rand)
	if err != nil {
		return ledger.Meta{}, fmt.Errorf("draw a command id: %w", err)
	}
	return ledger.Meta{Actor: actor, Command: id.String()}, nil
}

// ActiveConsent returns the consent of an agent that is in force.
func (s *Service) ActiveConsent(ctx context.Context, ref agent.Ref) (consent.Granted, error) {
	h, err := load(ctx, s, consent.Decider, consent.StreamOf(ref), "")
	if err != nil {
		return consent.Granted{}, err
	}
	if h.state.Active == "" {
		return consent.Granted{}, fmt.Errorf("agent %s has no active consent: %w", ref, domain.ErrNotFound)
	}
	return h.state.Grant, nil
}
