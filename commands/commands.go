// Package commands is the write side: one method of [Service] per aggregate, and
// the two conversations that an owner has with the service, to grant a consent
// and to revoke it.
//
// A method loads the stream, lets the decider decide and appends. What touches
// the world (hosts, the gate) is a port declared here; nothing is asked of the
// world between load and append.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/domain/shop"
)

// A Service carries out commands. Fields are required unless they say otherwise;
// its methods may be called from several goroutines.
type Service struct {
	Log     ledger.Log
	Catalog domain.Catalog
	Now     func() time.Time // programme time
	Rand    io.Reader        // of nonces and command ids
	Secrets Keyring          // the operator's part of all keys; nil: see KeyRoots
	Domain  string           // that consents are signed for, such as karatum.com
	Hosts   Hosts
	Gate    Gate
	Chain   uint64 // where contract wallets are asked; 0 is HomeChain
	Chains  Chains // nil: there is no node of any chain

	// Texts keeps what owners reply to findings; nil: no reply is taken.
	Texts        Texts
	Admission    Admission // of producers and maintainers
	ConsentHosts ConsentHosts

	// KeyRoots and ChallengeKeys are needed by a service that holds no secret, which can do
	// all that owners ask for. One that has Secrets goes by these alone.
	KeyRoots      KeyRoots
	ChallengeKeys ChallengeKeys

	// Histories saves reading again what was read before; nil: nothing is kept. It
	// must see one log only.
	Histories *Histories
}

// Catalog returns the catalog of every event of the ledger.
func Catalog() domain.Catalog {
	return domain.NewCatalog(agent.Events, batch.Events, consent.Events, exam.Events, finding.Events,
		incident.Events, plan.Events, producer.Events, programme.Events, seal.Events, session.Events, shield.Events, shop.Events)
}

// A Gate stands between a consent and everything that is sent under it.
type Gate interface {
	// Open lets tasks pass; a closed gate stays closed.
	Open(ctx context.Context, consent string) error

	// Close lets no task pass any more, waits for those that hold the gate, and
	// then calls then.
	Close(ctx context.Context, consent string, then func(context.Context) error) error

	// Pause does the same for all tasks of a scope, until Resume.
	Pause(ctx context.Context, scope programme.Scope, then func(context.Context) error) error
	Resume(ctx context.Context, scope programme.Scope, then func(context.Context) error) error
}

// Agent carries out a command on what is known of an agent. A new owner and a
// withdrawn certificate may end the agent's consent, see [Service.EndIfUnfit].
func (s *Service) Agent(ctx context.Context, m ledger.Meta, ref agent.Ref, c agent.Command) error {
	if _, err := carryOut(ctx, s, agent.Decider, agent.StreamOf(ref), m, c); err != nil {
		return err
	}
	switch c.(type) {
	case agent.ChangeOwner, agent.WithdrawCertificate:
		return s.EndIfUnfit(ctx, m, ref)
	case agent.Register, agent.VerifyIdentity, agent.WithdrawIdentity, agent.RecordCertificate, agent.ObserveSurface:
	}
	return nil
}

// EndIfUnfit ends the active consent of an agent that has another owner now or no
// certificate any more. When it returns, no task is on its way out under it.
func (s *Service) EndIfUnfit(ctx context.Context, m ledger.Meta, ref agent.Ref) error {
	known, err := s.KnownAgent(ctx, ref)
	if err != nil {
		return err
	}
	granted, err := s.ActiveConsent(ctx, ref)
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	reason := consent.Unfit(known, granted.Payload.Owner)
	if reason == "" {
		return nil
	}
	return s.Consent(ctx, m, ref, consent.End{Consent: granted.Consent, Reason: reason})
}

// Consent carries out a command on the consents of an agent. Owners come through
// [Service.Grant] and [Service.Revoke]. Ending a consent returns once no task is
// on its way out under it any more.
func (s *Service) Consent(ctx context.Context, m ledger.Meta, ref agent.Ref, c consent.Command) error {
	run := func(ctx context.Context) error {
		_, err := carryOut(ctx, s, consent.Decider, consent.StreamOf(ref), m, c)
		return err
	}
	if end, ok := c.(consent.End); ok {
		return s.Gate.Close(ctx, end.Consent, run)
	}
	return run(ctx)
}

// Plan carries out a command on the plans of a consent.
func (s *Service) Plan(ctx context.Context, m ledger.Meta, consentID string, c plan.Command) error {
	_, err := carryOut(ctx, s, plan.Decider, plan.StreamOf(consentID), m, c)
	return err
}

// Seal carries out a command on the seals of a consent.
func (s *Service) Seal(ctx context.Context, m ledger.Meta, consentID string, c seal.Command) error {
	_, err := carryOut(ctx, s, seal.Decider, seal.StreamOf(consentID), m, c)
	return err
}

// Shop carries out a command on a slot.
func (s *Service) Shop(ctx context.Context, m ledger.Meta, id string, c shop.Command) error {
	_, err := carryOut(ctx, s, shop.Decider, shop.StreamOf(id), m, c)
	return err
}

// Exam carries out a command on the exams of an agent.
func (s *Service) Exam(ctx context.Context, m ledger.Meta, ref agent.Ref, c exam.Command) error {
	_, err := carryOut(ctx, s, exam.Decider, exam.StreamOf(ref), m, c)
	return err
}

// Finding carries out a command on the findings on a consent.
func (s *Service) Finding(ctx context.Context, m ledger.Meta, consentID string, c finding.Command) error {
	_, err := carryOut(ctx, s, finding.Decider, finding.StreamOf(consentID), m, c)
	return err
}

// Batch carries out a command on a batch of commits.
func (s *Service) Batch(ctx context.Context, m ledger.Meta, n uint64, c batch.Command) error {
	_, err := carryOut(ctx, s, batch.Decider, batch.StreamOf(n), m, c)
	return err
}

// Programme carries out a command on the programme. Pausing returns once no task
// of the scope is on its way out any more. When a maintainer is retired, nothing that is
// signed with their key gets on record any more, not even what was under way.
func (s *Service) Programme(ctx context.Context, m ledger.Meta, c programme.Command) error {
	run := func(ctx context.Context) error {
		_, err := carryOut(ctx, s, programme.Decider, programme.Stream, m, c)
		return err
	}
	switch c := c.(type) {
	case programme.Pause:
		if err := c.Check(); err != nil {
			return err // nothing is shut that would not go on record
		}
		return s.Gate.Pause(ctx, c.Scope, run)
	case programme.Resume:
		return s.Gate.Resume(ctx, c.Scope, run)
	case programme.RetireMaintainer:
		return s.Admission.Maintain(ctx, run)
	case programme.Publish, programme.RegisterKey, programme.RetireKey, programme.RegisterMaintainer:
		return run(ctx)
	}
	panic(fmt.Sprintf("commands: unreachable command %T", c))
}

// maxAttempts bounds the retries of a command that loses races for its stream.
const maxAttempts = 3

// carryOut loads the stream, decides, and appends; if another command got in
// between, it decides again on the newer history. It returns what was appended.
// A command whose id stands in the stream already was carried out before its
// answer was lost: it has no second effect and succeeds.
func carryOut[S, C any, E domain.Event](
	ctx context.Context, s *Service, d domain.Decider[S, C, E], stream ledger.Stream, m ledger.Meta, c C,
) (appended []E, err error) {
	ctx, end := StartSpan(ctx, "command", attribute.String("mystery.stream", string(stream)), attribute.String("mystery.command", fmt.Sprintf("%T", c)))
	defer func() { end(err) }()
	if m.Correlation == "" {
		m.Correlation = m.Command
	}
	for attempt := 1; ; attempt++ {
		h, err := load(ctx, s, d, stream, m.Command)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", stream, err)
		}
		if len(h.before) > 0 {
			return h.before, nil
		}
		decided, err := d.Decide(h.state, c)
		if err != nil || len(decided) == 0 {
			return nil, err
		}
		events := make([]domain.Event, len(decided))
		for i, e := range decided {
			events[i] = e
		}
		err = s.Log.Append(ctx, stream, h.version, m, events...)
		if err == nil {
			return decided, nil
		}
		s.Histories.forget(stream) // what is known of it may be what is wrong
		if !errors.Is(err, ledger.ErrConflict) {
			return nil, err
		}
		if attempt == maxAttempts {
			return nil, fmt.Errorf("others changed this in every one of %d attempts; send the same again: %w", maxAttempts, domain.ErrConflict)
		}
	}
}

// ShopState returns where a slot stands now.
func (s *Service) ShopState(ctx context.Context, id string) (shop.State, error) {
	h, err := load(ctx, s, shop.Decider, shop.StreamOf(id), "")
	return h.state, err
}

// BatchState returns where a batch stands now.
func (s *Service) BatchState(ctx context.Context, n uint64) (batch.State, error) {
	h, err := load(ctx, s, batch.Decider, batch.StreamOf(n), "")
	return h.state, err
}

// CurrentProgramme returns what holds for the whole programme now.
func (s *Service) CurrentProgramme(ctx context.Context) (programme.State, error) {
	h, err := load(ctx, s, programme.Decider, programme.Stream, "")
	return h.state, err
}
