package commands

import (
	"context"
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
)

// Bodies holds the bytes that events only commit to. To delete what is not there is
// not an error.
type Bodies interface {
	Delete(ctx context.Context, keys ...string) error
}

// Erase deletes reply and session of a revealed slot and their salts for good, and
// records that and why. The record comes first: from then on nobody is shown them, and
// whoever does not know what became of a call makes it again. It returns
// [domain.ErrConflict] for a slot that is not revealed, or for which the agent was not
// asked anything.
func (s *Service) Erase(ctx context.Context, m ledger.Meta, id, reason string, from Bodies) error {
	conversed := false
	for r, err := range s.Log.Stream(ctx, shop.StreamOf(id), 0) {
		if err != nil {
			return err
		}
		e, err := s.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return err
		}
		if _, ok := e.(shop.SessionOpened); ok {
			conversed = true
		}
		if revealed, ok := e.(shop.Revealed); ok && !conversed && revealed.Result.ReplyHash.IsZero() {
			return fmt.Errorf("the slot %s got no reply, so there is nothing to erase: %w", id, domain.ErrConflict)
		}
	}
	if err := s.Shop(ctx, m, id, shop.Erase{Reason: reason}); err != nil {
		return err
	}
	for _, key := range []string{shop.ReplyKey(id), shop.SessionKey(id)} {
		if err := from.Delete(ctx, key); err != nil {
			return fmt.Errorf("the erasure is recorded, and the reply is still in the database; erase it again: %w", err)
		}
	}
	return nil
}

// EraseReply does the same with the text of an owner's reply to a finding. It returns
// [domain.ErrNotFound] if there is none. That there was one, who signed it and what
// commits to it stays.
func (s *Service) EraseReply(ctx context.Context, m ledger.Meta, findingID, reason string, from Bodies) error {
	consentID, look, err := finding.ParseID(findingID)
	if err != nil {
		return err
	}
	if err := s.Finding(ctx, m, consentID, finding.EraseReply{Consent: consentID, Look: look, Reason: reason}); err != nil {
		return err
	}
	for filed, err := range s.filed(ctx, consentID) {
		if err != nil {
			return err
		}
		if filed.Look != look {
			continue
		}
		if err := from.Delete(ctx, finding.ReplyKey(filed.Commitment)); err != nil {
			return fmt.Errorf("the erasure is recorded, and the text is still in the database; erase it again: %w", err)
		}
	}
	return nil
}
