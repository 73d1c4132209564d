package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

// This file holds what owners do: ask for a message, sign it elsewhere, and send
// back the signature. The text is never taken from a client.

type endpointInput struct {
	Kind string `json:"kind" enum:"a2a,mcp,x402"`
	URL  string `json:"url" maxLength:"512" example:"https://agent.example/a2a"`
}

type paymentInput struct {
	Network     string `json:"network" maxLength:"64" doc:"eip155:84532, which is Base Sepolia, and no other." example:"eip155:84532"`
	MaxPerTask  string `json:"maxPerTask" maxLength:"30" doc:"In atomic units of USDC, a millionth each." example:"10000"`
	MaxPerMonth string `json:"maxPerMonth" maxLength:"30" doc:"No less than maxPerTask." example:"250000"`
}

type challengeInput struct {
	Agent              string          `json:"agent" maxLength:"160" doc:"build:<id> or erc8004:<chain>:<registry>:<id>" example:"build:42"`
	Endpoints          []endpointInput `json:"endpoints" minItems:"1" maxItems:"6"`
	Kinds              []string        `json:"kinds" minItems:"1" maxItems:"3" enum:"a2a,mcp,x402" doc:"In scope."`
	Skills             []string        `json:"skills,omitempty" maxItems:"64" doc:"Only these skills or tools. None: all."`
	MaxPerDay          int             `json:"maxPerDay" minimum:"1" maximum:"24"`
	MaxPerWeek         int             `json:"maxPerWeek" minimum:"1" maximum:"100"`
	PaymentsAllowed    bool            `json:"paymentsAllowed,omitempty" default:"false" doc:"Whether tasks may pay the agent's price. Tasks of kind x402 need it."`
	Payment            *paymentInput   `json:"payment,omitempty" doc:"What may be spent: just if paymentsAllowed."`
	RevealDelaySeconds int64           `json:"revealDelaySeconds,omitempty" minimum:"3600" maximum:"2592000" default:"86400"`
	ValidityDays       uint32          `json:"validityDays" minimum:"7" maximum:"365"`
	OwnerNonceHash     domain.Hash     `json:"ownerNonceHash,omitzero" doc:"SHA-256 of 32 bytes of the owner's, to be mixed into every seed in place of the signature. An owner that is a contract wallet needs it."`
}

func (in challengeInput) request() consent.Request {
	r := consent.Request{
		Agent: agent.Ref(in.Agent), Skills: in.Skills, MaxPerDay: in.MaxPerDay, MaxPerWeek: in.MaxPerWeek, PaymentsAllowed: in.PaymentsAllowed,
		RevealDelaySeconds: in.RevealDelaySeconds, ValidityDays: in.ValidityDays, OwnerNonceHash: in.OwnerNonceHash,
	}
	for _, e := range in.Endpoints {
		r.Endpoints = append(r.Endpoints, consent.Endpoint{Kind: task.Kind(e.Kind), URL: e.URL})
	}
	for _, k := range in.Kinds {
		r.Kinds = append(r.Kinds, task.Kind(k))
	}
	if in.Payment != nil {
		r.Payment = (*consent.Payment)(in.Payment)
	}
	return r
}

type challengeBody struct {
	Mark
	ChallengeID string          `json:"challengeId" doc:"Send it back with the signature."`
	Message     string          `json:"message" doc:"To be signed as it is (EIP-191 personal_sign): LF, no newline at the end."`
	Payload     consent.Payload `json:"payload" doc:"Send it back unchanged."`
	PayloadHash domain.Hash     `json:"payloadHash"`
	ExpiresAt   time.Time       `json:"expiresAt"`
}

type grantInput struct {
	ChallengeID string          `json:"challengeId" maxLength:"200"`
	Payload     consent.Payload `json:"payload"`
	Signature   string          `json:"signature" doc:"In hex behind 0x, of the message as text (its UTF-8 bytes, EIP-191 personal_sign). Of a plain key 65 bytes with v 0, 1, 27 or 28 and low s, or 64 in the form of EIP-2098; of a contract wallet whatever it accepts by ERC-1271 or, wrapped as of ERC-6492, before it is deployed; 8 KiB at most."`
	OwnerNonce  domain.Hash     `json:"ownerNonce,omitzero" doc:"The 32 bytes whose hash stands in the message, if it has one."`
}

type revokeInput struct {
	ChallengeID string `json:"challengeId" maxLength:"200"`
	Signature   string `json:"signature" doc:"As in a grant."`
}

type writtenBody struct {
	Mark
	ID    string `json:"id"`
	State string `json:"state" enum:"active,revoked,expired,ended"`
	URL   string `json:"url" format:"uri"`
}

type writtenOutput struct {
	Location string `header:"Location"`
	Body     writtenBody
}

type revokeChallengeBody struct {
	Mark
	ChallengeID string    `json:"challengeId"`
	Message     string    `json:"message" doc:"To be signed as it is (EIP-191 personal_sign): LF, no newline at the end."`
	ExpiresAt   time.Time `json:"expiresAt"`
}

func (s *server) registerOwners(api huma.API) {
	type challengeRequest struct{ Body challengeInput }
	type challengeOutput struct{ Body challengeBody }
	huma.Register(api, limited(post("challenge-consent", "/consents/challenge", "Ask for a consent to sign", http.StatusOK, maxChallenge, http.StatusForbidden)),
		func(ctx context.Context, in *challengeRequest) (*challengeOutput, error) {
			if err := s.spend(ctx, s.Limits, commands.GrantQuotas(agent.Ref(in.Body.Agent), callerOf(ctx).address)); err != nil {
				return nil, err
			}
			c, err := s.Service.Challenge(ctx, in.Body.request())
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			known, err := s.agent(ctx, c.Payload.Agent)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &challengeOutput{challengeBody{markOf(known.Demo), c.ChallengeID, c.Message, c.Payload, c.PayloadHash, c.ExpiresAt}}, nil
		})

	type grantRequest struct{ Body grantInput }
	huma.Register(api, post("grant-consent", "/consents", "Give a signed consent", http.StatusCreated, maxGrant, http.StatusForbidden),
		func(ctx context.Context, in *grantRequest) (*writtenOutput, error) { return s.grant(ctx, in.Body) })

	type path struct {
		ID string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
	}
	type revokeChallengeOutput struct{ Body revokeChallengeBody }
	huma.Register(api, limited(post("challenge-revocation", "/consents/{id}/revoke-challenge", "Ask for a revocation to sign", http.StatusOK, maxSmall)),
		func(ctx context.Context, in *path) (*revokeChallengeOutput, error) {
			c, err := s.challengeRevoke(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			known, err := s.signed(ctx, in.ID)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &revokeChallengeOutput{revokeChallengeBody{markOf(known.Demo), c.ChallengeID, c.Message, c.ExpiresAt}}, nil
		})

	type revokeRequest struct {
		ID   string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
		Body revokeInput
	}
	huma.Register(api, post("revoke-consent", "/consents/{id}/revoke", "Revoke a consent, at once", http.StatusOK, maxGrant, http.StatusForbidden),
		func(ctx context.Context, in *revokeRequest) (*writtenOutput, error) {
			return s.revoke(ctx, in.ID, in.Body)
		})
}

func (s *server) grant(ctx context.Context, in grantInput) (*writtenOutput, error) {
	sig, err := consent.ParseSignature(in.Signature)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	id, err := s.Service.Grant(ctx, in.ChallengeID, in.Payload, sig, in.OwnerNonce)
	if err != nil && id == "" {
		return nil, s.fail(ctx, err)
	}
	s.caughtUp(ctx)
	if err != nil {
		return nil, s.refuse(ctx, id, err)
	}
	known, err := s.Reader.Agent(ctx, in.Payload.Agent)
	if err != nil { // the consent stands all the same
		s.Logger.ErrorContext(ctx, "a consent was granted for an agent that cannot be read", "requestId", requestOf(ctx).id, "err", err)
	}
	url := s.consentURL(id)
	return &writtenOutput{url, writtenBody{markOf(known.Demo), id, projections.Active, url}}, nil
}

func (s *server) revoke(ctx context.Context, id string, in revokeInput) (*writtenOutput, error) {
	sig, err := consent.ParseSignature(in.Signature)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	c, err := s.signed(ctx, id)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if err := s.Service.Revoke(ctx, id, c.Agent, in.ChallengeID, sig); err != nil {
		return nil, s.fail(ctx, err)
	}
	s.caughtUp(ctx)
	if c, err = s.Reader.Consent(ctx, id); err != nil {
		return nil, s.fail(ctx, err) // revoking again does no harm
	}
	url := s.consentURL(id)
	return &writtenOutput{url, writtenBody{markOf(c.Demo), id, c.State, url}}, nil
}

func (s *server) challengeRevoke(ctx context.Context, id string) (c commands.RevokeChallenged, err error) {
	if err := s.spend(ctx, s.Limits, commands.RevokeQuotas(callerOf(ctx).address)); err != nil {
		return c, err
	}
	known, err := s.signed(ctx, id)
	if err == nil {
		c, err = s.Service.ChallengeRevoke(ctx, id, known.Agent)
	}
	if err != nil {
		return c, s.fail(ctx, err)
	}
	return c, nil
}

// signed returns a consent to be revoked, though it was granted a moment ago and
// elsewhere.
func (s *server) signed(ctx context.Context, id string) (projections.Consent, error) {
	c, err := s.Reader.Consent(ctx, id)
	if errors.Is(err, domain.ErrNotFound) {
		if err := s.CatchUp(ctx); err != nil {
			return c, err
		}
		return s.Reader.Consent(ctx, id)
	}
	return c, err
}

// agent is the same for an agent.
func (s *server) agent(ctx context.Context, ref agent.Ref) (projections.Agent, error) {
	a, err := s.Reader.Agent(ctx, ref)
	if errors.Is(err, domain.ErrNotFound) {
		if err := s.CatchUp(ctx); err != nil {
			return a, err
		}
		return s.Reader.Agent(ctx, ref)
	}
	return a, err
}
