package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

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

// Challenge answers a request with the message to sign. It returns
// [domain.ErrInvalid] for a request that breaks a rule, [domain.ErrNotFound] for
// an agent that is not registered, and [domain.ErrConflict] if the agent has an
// active consent.
func (s *Service) Challenge(ctx context.Context, r consent.Request) (Challenged, error) {
	if err := r.Check(); err != nil {
		return Challenged{}, err
	}
	for _, e := range r.Endpoints {
		if err := s.Hosts.Check(e.URL); err != nil {
			return Challenged{}, err
		}
	}
	known, err := load(ctx, s, agent.Decider, agent.StreamOf(r.Agent), "")
	if err != nil {
		return Challenged{}, err
	}
	if !known.state.Registered {
		return Challenged{}, fmt.Errorf("agent %s is not registered: %w", r.Agent, domain.ErrNotFound)
	}
	consents, err := load(ctx, s, consent.Decider, consent.StreamOf(r.Agent), "")
	if err != nil {
		return Challenged{}, err
	}
	if active := consents.state.Active; active != "" {
		return Challenged{}, fmt.Errorf("the agent has an active consent, %s; revoke it first: %w", active, domain.ErrConflict)
	}
	p, expires, err := s.payload(ctx, r, known.state.Wallet)
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
	id := consent.NewChallengeKey(s.Secret).ID(consent.ToGrant, consent.Challenge{Nonce: p.Nonce, Subject: hash, Expires: expires})
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
	return consent.Payload{
		Request: r,
		Terms: consent.Terms{
			Domain:          s.Domain,
			Owner:           owner,
			FirstDay:        first,
			LastDay:         first + r.ValidityDays - 1,
			TermsVersion:    published.Terms.Version,
			TermsHash:       published.Terms.Hash,
			PoolVersion:     published.Pool.Version,
			PoolHash:        published.Pool.Hash,
			CatalogueDigest: published.Catalogue.Digest,
			PlanKeyRoot:     plan.KeyRoot(s.Secret, nonce, first, r.ValidityDays),
			Nonce:           nonce,
			IssuedAt:        issued,
		},
	}, expires, nil
}

// Grant puts a signed consent into force and returns its id. If the owner's
// signature holds but an endpoint is not proven to be the owner's, the refusal is
// recorded and returned as refused. It returns [domain.ErrInvalid] for what was
// not issued here or does not parse, [domain.ErrForbidden] for an expired
// challenge or another signer, and [domain.ErrConflict] for a second grant.
func (s *Service) Grant(
	ctx context.Context, challengeID string, p consent.Payload, sig eip191.Signature, ownerNonce domain.Hash,
) (id, refused string, err error) {
	c, err := consent.NewChallengeKey(s.Secret).Open(consent.ToGrant, challengeID, s.Now())
	if err != nil {
		return "", "", err
	}
	hash, err := p.Hash()
	if err != nil {
		return "", "", err
	}
	if hash != c.Subject || p.Nonce != c.Nonce {
		return "", "", fmt.Errorf("the payload is not the one that was issued with this challenge; send it back unchanged: %w", domain.ErrInvalid)
	}
	known, err := load(ctx, s, agent.Decider, agent.StreamOf(p.Agent), "")
	if err != nil {
		return "", "", err
	}
	g := consent.Grant{Payload: p, Signature: sig, OwnerNonce: ownerNonce, Wallet: known.state.Wallet}

	// No host is asked on the word of somebody whose signature does not hold.
	before, err := load(ctx, s, consent.Decider, consent.StreamOf(p.Agent), "")
	if err != nil {
		return "", "", err
	}
	if err := before.state.Admit(g); err != nil {
		return "", "", err
	}
	g.Proofs = s.Proofs(ctx, known.state, p)
	for i, proof := range g.Proofs {
		if proof.Unknown { // a host that is down refuses nothing
			return "", "", fmt.Errorf("%s: %s; try again before the challenge expires: %w", p.Endpoints[i].URL, proof.Reason, domain.ErrUnavailable)
		}
	}

	id = plan.ConsentID(p.Nonce)
	// The gate opens first: without the consent nothing is planned and nothing
	// passes, while a consent behind a closed gate would be dead.
	if err := s.Gate.Open(ctx, id); err != nil {
		return "", "", err
	}
	m, err := s.meta("owner:" + p.Owner.String())
	if err != nil {
		return "", "", err
	}
	events, err := carryOut(ctx, s, consent.Decider, consent.StreamOf(p.Agent), m, consent.Command(g))
	if err != nil {
		return "", "", err
	}
	for _, e := range events {
		if r, ok := e.(consent.Refused); ok {
			return id, r.Reason, nil
		}
	}
	return id, "", nil
}

// proofTimeout bounds the question to one host.
const proofTimeout = 10 * time.Second

// Proofs asks, for each endpoint of a payload, whether it is the owner's: by a
// verified identity of the agent, else by the document at its host.
func (s *Service) Proofs(ctx context.Context, known agent.State, p consent.Payload) []consent.Proof {
	proofs := make([]consent.Proof, len(p.Endpoints))
	var g errgroup.Group
	for i, e := range p.Endpoints {
		if known.VerifiedFor(e.URL) {
			proofs[i].Method = consent.ByIdentity
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, proofTimeout)
			defer cancel()
			switch err := s.Hosts.Prove(ctx, e.URL, p.Owner); {
			case err == nil:
				proofs[i].Method = consent.ByDocument
			case errors.Is(err, domain.ErrForbidden), errors.Is(err, domain.ErrInvalid):
				proofs[i].Reason = "its host has no /.well-known/karatum-mystery.json that lists the owner"
			default:
				proofs[i].Reason, proofs[i].Unknown = "/.well-known/karatum-mystery.json at its host could not be read", true
			}
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
	return proofs
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
	r := s.revocation(granted, nonce, issued)
	c := consent.Challenge{Nonce: nonce, Subject: r.Subject(), Expires: issued.Add(consent.ChallengeLife)}
	id := consent.NewChallengeKey(s.Secret).ID(consent.ToRevoke, c)
	return RevokeChallenged{ChallengeID: id, Message: r.Message(), ExpiresAt: c.Expires}, nil
}

// Revoke withdraws a consent in its owner's name. When it returns nil no byte of
// a new task leaves any more. Revoking what is over already succeeds.
func (s *Service) Revoke(ctx context.Context, consentID string, ref agent.Ref, challengeID string, sig eip191.Signature) error {
	c, err := consent.NewChallengeKey(s.Secret).Open(consent.ToRevoke, challengeID, s.Now())
	if err != nil {
		return err
	}
	h, err := load(ctx, s, consent.Decider, consent.StreamOf(ref), "")
	if err != nil {
		return err
	}
	issued := c.Expires.Add(-consent.ChallengeLife)
	if c.Subject != (consent.Revocation{Consent: consentID, Agent: ref}).Subject() {
		return fmt.Errorf("this challenge was issued for another consent: %w", domain.ErrInvalid)
	}
	r := consent.Revoke{Consent: consentID, Domain: s.Domain, Nonce: c.Nonce, IssuedAt: issued, Signature: sig}
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
		return consent.Granted{}, fmt.Errorf("consent %s is over already: %w", consentID, domain.ErrConflict)
	case h.state.Active == "" || h.state.Active != consentID:
		return consent.Granted{}, fmt.Errorf("there is no active consent %s: %w", consentID, domain.ErrNotFound)
	}
	return h.state.Grant, nil
}

func (s *Service) revocation(g consent.Granted, nonce domain.Hash, issued time.Time) consent.Revocation {
	return consent.Revocation{
		Domain: s.Domain, Consent: g.Consent, Agent: g.Payload.Agent, Owner: g.Payload.Owner, Nonce: nonce, IssuedAt: issued,
	}
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
