package commands

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
)

// Texts keeps bytes beside the log. Put keeps what there is under a key already.
type Texts interface {
	Put(ctx context.Context, key string, salt, body []byte) error
}

// ReplyChallenged is a reply to a finding for an owner to sign. Nothing is stored of
// it: the owner sends back text and salt with the signature.
type ReplyChallenged struct {
	ChallengeID string
	Message     string
	Salt        domain.Hash
	Commitment  domain.Hash
	ExpiresAt   time.Time
}

// ChallengeReply returns the message that files text as the reply to a finding when the
// owner who gave the consent signs it. It returns [domain.ErrInvalid] for a text that
// may not stand as a reply, and [domain.ErrNotFound] for a finding that never was.
func (s *Service) ChallengeReply(ctx context.Context, findingID, text string) (c ReplyChallenged, err error) {
	if err := finding.CheckReply(text); err != nil {
		return c, err
	}
	e, err := s.replyTo(ctx, findingID, text)
	if err != nil {
		return c, err
	}
	if c.Salt, err = s.nonce(); err != nil {
		return c, err
	}
	if e.Nonce, err = s.nonce(); err != nil {
		return c, err
	}
	e.IssuedAt = s.Now().UTC().Truncate(time.Second)
	e.Commitment = finding.Commitment(findingID, c.Salt, text)
	issued := consent.Challenge{Nonce: e.Nonce, Subject: e.Subject(), Expires: e.IssuedAt.Add(consent.ChallengeLife)}
	if c.ChallengeID, err = s.challengeID(ctx, consent.ToReply, issued); err != nil {
		return c, err
	}
	c.Message, c.Commitment, c.ExpiresAt = e.Message(), e.Commitment, issued.Expires
	return c, nil
}

// A Reply is what an owner sends back.
type Reply struct {
	Finding     string
	ChallengeID string
	Text        string
	Salt        domain.Hash
	Signature   consent.Signature
}

// FileReply records the reply of an owner to a finding, and passes it on to the incident
// of the consent. The text is durable before it is committed to. It returns
// [domain.ErrConflict] if the finding has a reply.
func (s *Service) FileReply(ctx context.Context, r Reply) error {
	if s.Texts == nil {
		return fmt.Errorf("no replies are taken here: %w", domain.ErrUnavailable)
	}
	if err := finding.CheckReply(r.Text); err != nil {
		return err
	}
	issued, err := s.openChallenge(ctx, consent.ToReply, r.ChallengeID)
	if err != nil {
		return err
	}
	e, err := s.replyTo(ctx, r.Finding, r.Text)
	if err != nil {
		return err
	}
	e.Nonce, e.IssuedAt, e.Signature = issued.Nonce, issued.Expires.Add(-consent.ChallengeLife), r.Signature
	e.Commitment = finding.Commitment(r.Finding, r.Salt, r.Text)
	if e.Subject() != issued.Subject {
		return domain.WithCode(domain.ChallengeForeign,
			fmt.Errorf("the challenge was issued for another reply; send back text and salt as they were: %w", domain.ErrInvalid))
	}
	granted, err := s.grantOf(ctx, e.Agent, e.Consent)
	if err != nil {
		return err
	}
	if e.Verified, err = s.verify(ctx, granted.Payload, !granted.Payload.OwnerNonceHash.IsZero(), e.Message(), e.Signature); err != nil {
		return err
	}
	findings, err := load(ctx, s, finding.Decider, finding.StreamOf(e.Consent), "")
	if err != nil {
		return err
	}
	if !findings.state.Replied[e.Look] { // else it is there, or was erased since
		if err := s.Texts.Put(ctx, finding.ReplyKey(e.Commitment), r.Salt[:], []byte(r.Text)); err != nil {
			return err
		}
	}
	m := ledger.Meta{Actor: "owner:" + e.Owner.String(), Command: "reply/" + r.ChallengeID}
	if err := s.Finding(ctx, m, e.Consent, finding.FileReply(e)); err != nil {
		return err
	}
	return s.passReplies(ctx, e.Consent)
}

// replyTo returns the reply to a finding as far as text and finding decide it.
func (s *Service) replyTo(ctx context.Context, findingID, text string) (e finding.ReplyFiled, err error) {
	consentID, look, err := finding.ParseID(findingID)
	if err != nil {
		return e, err
	}
	reached, err := s.found(ctx, consentID, look)
	if err != nil {
		return e, err
	}
	granted, err := s.grantOf(ctx, reached.Agent, consentID)
	if err != nil {
		return e, err
	}
	p := granted.Payload
	return finding.ReplyFiled{
		Consent: consentID, Look: look, Agent: reached.Agent, Domain: p.Domain, Owner: p.Owner, Chain: p.Chain, Size: len(text),
	}, nil
}

// passReplies records the replies that stand at findings on a consent in its incident,
// if there is one that is not disclosed.
func (s *Service) passReplies(ctx context.Context, consentID string) error {
	id := incident.ID(consentID)
	now, err := s.Incident(ctx, id)
	if err != nil || now.Stage == incident.None {
		return err
	}
	for reply, err := range s.filed(ctx, consentID) {
		if err != nil {
			return err
		}
		m := ledger.Meta{Actor: "worker", Command: "incident/reply/" + finding.ID(consentID, reply.Look)}
		c := incident.FileReply{Look: reply.Look, Commitment: reply.Commitment}
		if err := s.incident(ctx, m, id, c); err != nil {
			return err
		}
	}
	return nil
}

// found returns the finding of one look at a consent.
func (s *Service) found(ctx context.Context, consentID string, look int) (finding.Reached, error) {
	for r, err := range s.Log.Stream(ctx, finding.StreamOf(consentID), 0) {
		if err != nil {
			return finding.Reached{}, err
		}
		e, err := s.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return finding.Reached{}, err
		}
		if reached, ok := e.(finding.Reached); ok && reached.Look == look {
			return reached, nil
		}
	}
	return finding.Reached{}, fmt.Errorf("there is no finding %s: %w", finding.ID(consentID, look), domain.ErrNotFound)
}

// grantOf returns a consent of an agent as it was granted, whether it is over or not.
func (s *Service) grantOf(ctx context.Context, ref agent.Ref, consentID string) (consent.Granted, error) {
	for r, err := range s.Log.Stream(ctx, consent.StreamOf(ref), 0) {
		if err != nil {
			return consent.Granted{}, err
		}
		e, err := s.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return consent.Granted{}, err
		}
		if granted, ok := e.(consent.Granted); ok && granted.Consent == consentID {
			return granted, nil
		}
	}
	return consent.Granted{}, fmt.Errorf("there is no consent %s: %w", consentID, domain.ErrNotFound)
}

// filed yields the replies that were filed to findings on a consent, and whatever keeps it
// from going on.
func (s *Service) filed(ctx context.Context, consentID string) iter.Seq2[finding.ReplyFiled, error] {
	return func(yield func(finding.ReplyFiled, error) bool) {
		for r, err := range s.Log.Stream(ctx, finding.StreamOf(consentID), 0) {
			if err != nil {
				yield(finding.ReplyFiled{}, err)
				return
			}
			e, err := s.Catalog.Decode(r.Type, r.Data)
			if err != nil {
				yield(finding.ReplyFiled{}, err)
				return
			}
			if f, ok := e.(finding.ReplyFiled); ok && !yield(f, nil) {
				return
			}
		}
	}
}
