package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
)

// This file takes in what producers write. Their events go through the same deciders as
// the operator's commands: what a producer sends is what a command must come to, or it
// is refused.

// An Admission is where those pass whose keys can end at any moment: requests of
// producers, many at a time and each once, and steps of maintainers, one at a time.
type Admission interface {
	// Admit calls then, unless it did so for the same nonce before. It returns what
	// then returns, or an error with the code [domain.NonceUsed].
	Admit(ctx context.Context, n Nonce, then func(context.Context) error) error

	// Exclude waits until no request of a producer is let in any more, and calls then
	// before it lets in others.
	Exclude(ctx context.Context, producer string, then func(context.Context) error) error

	// Maintain calls then while no other call of it is under way.
	Maintain(ctx context.Context, then func(context.Context) error) error
}

// A Nonce tells one request of a producer from all others.
type Nonce struct {
	Producer string
	Value    string
	Now      time.Time
	Expires  time.Time // from when on the request is worth nothing anyway
}

// ConsentHosts says at which hosts, given as host:port, there are endpoints that an owner
// has ever signed a consent for.
type ConsentHosts interface {
	IsConsentHost(ctx context.Context, host string) (bool, error)
}

// Producer carries out a command on a producer. When a revocation or the end of a key has
// returned nil, nothing is taken under it any more, not even what was under way.
func (s *Service) Producer(ctx context.Context, m ledger.Meta, id string, c producer.Command) error {
	run := func(ctx context.Context) error {
		_, err := carryOut(ctx, s, producer.Decider, producer.StreamOf(id), m, c)
		return err
	}
	switch c.(type) {
	case producer.Revoke, producer.RotateKey:
		return s.Admission.Exclude(ctx, id, run)
	case producer.Register:
	}
	return run(ctx)
}

// ProducerState returns what a producer may do: the zero State if there is none.
func (s *Service) ProducerState(ctx context.Context, id string) (producer.State, error) {
	h, err := load(ctx, s, producer.Decider, producer.StreamOf(id), "")
	return h.state, err
}

// A Submission is one request of a producer: events for the end of one stream.
type Submission struct {
	Producer    string
	Key         string // that the request is signed with
	Nonce       string
	Expires     time.Time // of the signature of the request
	Idempotency string    // the same for each try of one request
	Stream      ledger.Stream
	Events      []Submitted
}

// A Submitted is an event as a producer sends it.
type Submitted struct {
	Type domain.Type
	Data []byte // canonical, with the member "signed"
	Seq  uint64 // the version that it gets, or has; 0 if its producer does not say
}

// A Taken says what became of an event of a submission.
type Taken struct {
	ID      string // that its producer gave it
	Version uint64 // 0 if it says nothing new, and is not on record for that
	New     bool   // on record since now
}

// A VersionError is a conflict with a stream that is at another version than a producer
// thinks.
type VersionError struct {
	Stream  ledger.Stream
	Current uint64
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is at version %d, so that the next event has karseq %d", e.Stream, e.Current, e.Current+1)
}

// Unwrap returns the kind of e.
func (*VersionError) Unwrap() error { return domain.ErrConflict }

// Take appends the events of a submission: all that are not on record yet, or none and an
// error. An event is known by its id, and on record once, whatever is repeated.
//
// Whoever calls has verified the signature of the request. Take verifies those of the
// events, and whether the producer may write them, which it does while nobody can revoke
// that.
func (s *Service) Take(ctx context.Context, sub Submission) (taken []Taken, err error) {
	state, err := s.ProducerState(ctx, sub.Producer)
	if err != nil {
		return nil, err
	}
	events, err := s.read(state, sub)
	if err != nil {
		return nil, err
	}
	n := Nonce{Producer: sub.Producer, Value: sub.Nonce, Now: s.Now(), Expires: sub.Expires}
	err = s.Admission.Admit(ctx, n, func(ctx context.Context) error {
		state, err := s.ProducerState(ctx, sub.Producer)
		if err != nil {
			return err
		}
		if err := allowed(state, sub, events, s.Now()); err != nil {
			return err
		}
		taken, err = s.append(ctx, sub, events)
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, s.conclude(ctx, sub, events)
}

// read decodes the events of a submission and verifies their signatures.
func (s *Service) read(state producer.State, sub Submission) ([]producer.Source, error) {
	events := make([]producer.Source, len(sub.Events))
	ids := make(map[string]bool)
	for i, given := range sub.Events {
		if _, known := s.Catalog[given.Type]; !known {
			return nil, fmt.Errorf("there are no events of type %s: %w", given.Type, domain.ErrInvalid)
		}
		if err := state.May(given.Type, sub.Stream); err != nil {
			return nil, err
		}
		e, err := s.Catalog.Decode(given.Type, given.Data)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w: %w", i, err, domain.ErrInvalid)
		}
		data, err := domain.Encode(e)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w: %w", i, err, domain.ErrInvalid)
		}
		source, ok := e.(producer.Source)
		if !ok || !bytes.Equal(data, given.Data) {
			return nil, fmt.Errorf("event %d: its data is not a %s with all of its members, each once and as they are spelled: %w", i, given.Type, domain.ErrInvalid)
		}
		if err := s.verifySource(state, sub, source, given); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if id := source.Proof().ID; ids[id] {
			return nil, fmt.Errorf("event %d: the id %q is there twice: %w", i, id, domain.ErrInvalid)
		}
		ids[source.Proof().ID] = true
		events[i] = source
	}
	return events, nil
}

// maxEventID bounds the ids that producers give to their events.
const maxEventID = 100

func (s *Service) verifySource(state producer.State, sub Submission, e producer.Source, given Submitted) error {
	signed := e.Proof()
	switch {
	case signed.Producer != sub.Producer:
		return domain.WithCode(domain.EventSignature, fmt.Errorf("it names another producer as its source: %w", domain.ErrForbidden))
	case !domain.Printable(signed.ID, maxEventID):
		return fmt.Errorf("the id of an event is 1 to %d printable ASCII characters: %w", maxEventID, domain.ErrInvalid)
	case misplaced(sub.Stream, e):
		return fmt.Errorf("it tells of what has another stream than %s: %w", sub.Stream, domain.ErrInvalid)
	}
	if err := signed.Time.Check(); err != nil {
		return err
	}
	return producer.Verify(func(string) producer.State { return state }, sub.Stream, given.Type, given.Data, s.Now())
}

// misplaced reports whether an event names a stream, and not this one.
func misplaced(stream ledger.Stream, e domain.Event) bool {
	switch e := e.(type) {
	case agent.Registered:
		return agent.StreamOf(e.Agent) != stream
	case exam.AttemptRecorded:
		return exam.StreamOf(e.Agent) != stream
	case exam.AttemptWithdrawn:
		return exam.StreamOf(e.Agent) != stream
	case session.Opened:
		return session.StreamOf(e.Session) != stream
	case shield.CaseOpened:
		return shield.StreamOf(e.Case) != stream
	}
	return false
}

// allowed returns nil if a producer may write what it submits, at this moment.
func allowed(state producer.State, sub Submission, events []producer.Source, now time.Time) error {
	for _, e := range events {
		if err := state.May(e.EventType(), sub.Stream); err != nil {
			return err
		}
		if key, ok := state.Key(e.Proof().Key); !ok || !key.HoldsAt(now) {
			return fmt.Errorf("the key %s of the producer %s does not hold: %w", e.Proof().Key, sub.Producer, domain.ErrForbidden)
		}
	}
	if key, ok := state.Key(sub.Key); !ok || !key.HoldsAt(now) {
		return fmt.Errorf("the key %s of the producer %s does not hold: %w", sub.Key, sub.Producer, domain.ErrForbidden)
	}
	return nil
}

// append appends events to the stream of their aggregate.
func (s *Service) append(ctx context.Context, sub Submission, events []producer.Source) ([]Taken, error) {
	switch sub.Stream.Category() {
	case "agent":
		if _, err := agent.ParseRef(sub.Stream.ID()); err != nil {
			return nil, err
		}
		return take(ctx, s, agent.Decider, s.claimed, sub, events)
	case "exam":
		if _, err := agent.ParseRef(sub.Stream.ID()); err != nil {
			return nil, err
		}
		return take(ctx, s, exam.Decider, func(_ context.Context, e exam.Event) (exam.Command, error) { return exam.CommandOf(e), nil }, sub, events)
	case "session":
		return take(ctx, s, session.Decider, func(_ context.Context, e session.Event) (session.Command, error) { return session.CommandOf(e), nil }, sub, events)
	case "shield-case":
		return take(ctx, s, shield.Decider, s.attacked, sub, events)
	}
	return nil, fmt.Errorf("no producer writes to %s: %w", sub.Stream, domain.ErrInvalid) // State.May keeps others out
}

// claimed returns the command that asks for what a registry says of an agent.
func (s *Service) claimed(_ context.Context, e agent.Event) (agent.Command, error) {
	if e, ok := e.(agent.IdentityVerified); ok {
		if err := s.Hosts.Check(e.URL); err != nil {
			return nil, err
		}
	}
	return agent.CommandOf(e), nil
}

// attacked returns the command that asks for what a Shield runner says of a case.
func (s *Service) attacked(ctx context.Context, e shield.Event) (shield.Command, error) {
	c := shield.CommandOf(e)
	open, ok := c.(shield.Open)
	if !ok {
		return c, nil
	}
	var err error
	open.OfConsent, err = s.ConsentHosts.IsConsentHost(ctx, open.Case.Target.Host)
	return open, err
}

// conclude does what has to come of events that were taken, now or by an earlier try.
func (s *Service) conclude(ctx context.Context, sub Submission, events []producer.Source) error {
	for _, e := range events {
		switch e.(type) {
		case agent.OwnerChanged, agent.CertificateWithdrawn:
			m, err := s.meta(producer.Actor(sub.Producer))
			if err != nil {
				return err
			}
			return s.EndIfUnfit(ctx, m, agent.Ref(sub.Stream.ID()))
		}
	}
	return nil
}

// Namespaces of what ids of producers are made of (RFC 9562, section 5.5).
var (
	conversations = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://karatum.com/ns/producer/request"))
	submissions   = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://karatum.com/ns/producer/submission"))
)

// meta returns the meta of a submission: its conversation is that of the idempotency key,
// its command that and the very events, both apart from those of all other producers. The
// ids of its records follow from the command.
func (sub Submission) meta() ledger.Meta {
	key := domain.NewEnc("karatum/producer/request/v1").Str(sub.Producer).Str(sub.Idempotency)
	all := domain.NewEnc("karatum/producer/submission/v1").Bytes(key)
	for _, e := range sub.Events {
		all = all.Str(string(e.Type)).Bytes(e.Data)
	}
	return ledger.Meta{
		Actor:       producer.Actor(sub.Producer),
		Command:     uuid.NewSHA1(submissions, all).String(),
		Correlation: uuid.NewSHA1(conversations, key).String(),
	}
}

// take decides on events one by one, behind what is in their stream, and appends those
// that are new together. It decides again when others get in between.
func take[S, C any, E domain.Event](
	ctx context.Context, s *Service, d domain.Decider[S, C, E], commandOf func(context.Context, E) (C, error), sub Submission, events []producer.Source,
) ([]Taken, error) {
	m := sub.meta()
	for attempt := 1; ; attempt++ {
		told, err := s.told(ctx, sub.Stream)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", sub.Stream, err)
		}
		taken, added, err := place(ctx, d, commandOf, told, m, sub, events)
		if err != nil || len(added) == 0 {
			return taken, err
		}
		err = s.Log.Append(ctx, sub.Stream, uint64(len(told)), m, added...)
		if err == nil {
			return taken, nil
		}
		s.Histories.forget(sub.Stream)
		if !errors.Is(err, ledger.ErrConflict) {
			return nil, err
		}
		if attempt == maxAttempts {
			return nil, fmt.Errorf("others wrote to %s in every one of %d attempts; send the same again: %w", sub.Stream, maxAttempts, domain.ErrConflict)
		}
	}
}

// place says where events stand, or are going to, behind what is told in their stream,
// and which of them are to be added.
func place[S, C any, E domain.Event](
	ctx context.Context, d domain.Decider[S, C, E], commandOf func(context.Context, E) (C, error), stream []told, m ledger.Meta, sub Submission, events []producer.Source,
) (taken []Taken, added []domain.Event, err error) {
	var state S
	known := make(map[string]int) // ids of events of this producer, to where they stand
	spent := false                // the idempotency key
	for i, t := range stream {
		e, ok := t.event.(E)
		if !ok {
			return nil, nil, fmt.Errorf("%s in stream %s: %w", t.event.EventType(), sub.Stream, domain.ErrUnknownType)
		}
		state = d.Evolve(state, e)
		if source, ok := t.event.(producer.Source); ok && source.Proof().Producer == sub.Producer {
			known[source.Proof().ID] = i
		}
		spent = spent || t.correlation == m.Correlation
	}
	for i, source := range events {
		id := source.Proof().ID
		at, before := known[id]
		if before && !reflect.DeepEqual(stream[at].event, domain.Event(source)) {
			return nil, nil, mismatch("the id %q stands for another event in %s", id, sub.Stream)
		}
		version := uint64(len(stream) + len(added) + 1)
		if before {
			version = uint64(at) + 1 //nolint:gosec // not negative
		}
		if seq := sub.Events[i].Seq; seq != 0 && seq != version {
			return nil, nil, domain.WithCode(domain.WrongVersion, &VersionError{sub.Stream, uint64(len(stream))})
		}
		if before {
			taken = append(taken, Taken{ID: id, Version: version})
			continue
		}
		if spent {
			return nil, nil, mismatch("the Idempotency-Key was sent with other events for %s before", sub.Stream)
		}
		e, _ := source.(E)
		decided, err := decide(ctx, d, commandOf, state, e)
		if err != nil {
			return nil, nil, fmt.Errorf("event %d: %w", i, err)
		}
		if !decided {
			taken = append(taken, Taken{ID: id})
			continue
		}
		state = d.Evolve(state, e)
		taken, added = append(taken, Taken{ID: id, Version: version, New: true}), append(added, source)
	}
	return taken, added, nil
}

// decide reports whether an event is news in a state, and returns an error if it cannot
// come to it there.
func decide[S, C any, E domain.Event](
	ctx context.Context, d domain.Decider[S, C, E], commandOf func(context.Context, E) (C, error), state S, e E,
) (news bool, err error) {
	c, err := commandOf(ctx, e)
	if err != nil {
		return false, err
	}
	decided, err := d.Decide(state, c)
	switch {
	case errors.Is(err, domain.ErrNotFound): // what has to come first did not
		return false, fmt.Errorf("%s: %w", domain.Sentence(err), domain.ErrInvalid)
	case err != nil || len(decided) == 0:
		return false, err
	case len(decided) != 1 || !reflect.DeepEqual(decided[0], e):
		return false, fmt.Errorf("this %s does not follow on what is on record; read the stream and send what does: %w", e.EventType(), domain.ErrConflict)
	}
	return true, nil
}

func mismatch(format string, args ...any) error {
	return domain.WithCode(domain.IdempotencyMismatch, fmt.Errorf(format+": %w", append(args, domain.ErrConflict)...))
}
