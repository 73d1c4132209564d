package replay

import (
	"math/big"
	"slices"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
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

// An aggregate is one that a stream tells of.
type aggregate interface {
	// add checks one append, and folds it in.
	add(events []domain.Event, records []ledger.Record) error
}

// aggregate returns the one whose stream is s, before its first event.
func (p *Replay) aggregate(s ledger.Stream) aggregate {
	switch id := s.ID(); s.Category() {
	case "agent":
		return &folded[agent.State, agent.Command, agent.Event]{
			decider: agent.Decider, check: agent.Check,
			named: func(e agent.Event) bool { r, ok := e.(agent.Registered); return !ok || agent.StreamOf(r.Agent) == s },
		}
	case "batch":
		return &rolled{&p.batches, s}
	case "consent":
		return &consents{p, folded[consent.State, consent.Command, consent.Event]{decider: consent.Decider, check: consent.Check, named: nameOfConsent(s)}}
	case "exam":
		return &folded[exam.State, exam.Command, exam.Event]{
			decider: exam.Decider, check: exam.Check,
			named: func(e exam.Event) bool { return exam.StreamOf(agentOfExam(e)) == s },
		}
	case "finding":
		return &findings{&p.consequences, folded[finding.State, finding.Command, finding.Event]{
			decider: finding.Decider, check: finding.Check, named: nameOfFinding(s),
		}}
	case "incident":
		return &affair{all: &p.consequences, stream: s, folded: folded[incident.State, incident.Command, incident.Event]{
			decider: incident.Decider, check: incident.Check, named: func(incident.Event) bool { return true },
		}}
	case "plan":
		f := &plans{decider: plan.Decider, check: plan.Check, named: nameOfPlan(s)}
		p.plans[id] = f
		return f
	case "producer":
		f := &producers{
			decider: producer.Decider, check: producer.Check,
			named: func(e producer.Event) bool {
				r, ok := e.(producer.Registered)
				return !ok || producer.StreamOf(r.Producer) == s
			},
		}
		p.producers[id] = f
		return f
	case "seal":
		return &folded[seal.State, seal.Command, seal.Event]{
			decider: seal.Decider, check: seal.Check,
			named: func(e seal.Event) bool {
				sealed, ok := e.(seal.Sealed)
				return !ok || seal.StreamOf(sealed.Consent) == s
			},
		}
	case "session":
		return &folded[session.State, session.Command, session.Event]{
			decider: session.Decider, check: session.Check,
			named: func(e session.Event) bool {
				o, ok := e.(session.Opened)
				return !ok || session.StreamOf(o.Session) == s
			},
		}
	case "shield-case":
		return &folded[shield.State, shield.Command, shield.Event]{
			decider: shield.Decider, check: shield.Check,
			named: func(e shield.Event) bool { o, ok := e.(shield.CaseOpened); return !ok || shield.StreamOf(o.Case) == s },
		}
	case "shop":
		return &slot{replay: p, stream: s}
	case "programme":
		if s == programme.Stream {
			return &programmes{&p.consequences, folded[programme.State, programme.Command, programme.Event]{
				decider: programme.Decider, check: programme.Check, named: func(programme.Event) bool { return true },
			}}
		}
	}
	return nobody{s}
}

// nobody is the aggregate of a stream that none of ours has.
type nobody struct{ stream ledger.Stream }

func (n nobody) add([]domain.Event, []ledger.Record) error {
	return bad("the service has no stream %q", n.stream)
}

// plans is the aggregate of a consent's plans.
type plans = folded[plan.State, plan.Command, plan.Event]

// producers is the aggregate of a producer.
type producers = folded[producer.State, producer.Command, producer.Event]

// producer returns what a producer may do at the end of what has been read.
func (p *Replay) producer(id string) (s producer.State) {
	if known := p.producers[id]; known != nil {
		s = known.state
	}
	return s
}

// A folded is an aggregate that needs nothing but its own events.
type folded[S, C any, E domain.Event] struct {
	decider domain.Decider[S, C, E]
	check   func(S, []E) error
	named   func(E) bool // whether an event is of this stream and no other one
	state   S
}

func (f *folded[S, C, E]) add(events []domain.Event, _ []ledger.Record) error {
	own := make([]E, len(events))
	for i, e := range events {
		var ok bool
		if own[i], ok = e.(E); !ok {
			return &misfit{i, bad("%s has no place in this stream", e.EventType())}
		}
		if !f.named(own[i]) {
			return &misfit{i, bad("%s tells of what has another stream", e.EventType())}
		}
	}
	if !fromProducer(events[0]) {
		return f.take(own)
	}
	for i := range own { // each of what a producer sent together is decided on its own
		if err := f.take(own[i : i+1]); err != nil {
			return &misfit{i, err}
		}
	}
	return nil
}

func fromProducer(e domain.Event) bool {
	source, ok := e.(producer.Source)
	return ok && source.Proof() != producer.Signed{}
}

// take checks the events of one command, and folds them in.
func (f *folded[S, C, E]) take(events []E) error {
	if err := f.check(f.state, events); err != nil {
		return err
	}
	for _, e := range events {
		f.state = f.decider.Evolve(f.state, e)
	}
	return nil
}

func nameOfConsent(s ledger.Stream) func(consent.Event) bool {
	return func(e consent.Event) bool {
		switch e := e.(type) {
		case consent.Granted:
			return consent.StreamOf(e.Payload.Agent) == s
		case consent.Refused:
			return consent.StreamOf(e.Payload.Agent) == s
		case consent.HostProven, consent.HostLost, consent.Revoked, consent.Ended: // of a consent in force here, or refused
		}
		return true
	}
}

func agentOfExam(e exam.Event) (ref agent.Ref) {
	switch e := e.(type) {
	case exam.RunRecorded:
		ref = e.Agent
	case exam.AttemptRecorded:
		ref = e.Agent
	case exam.AttemptWithdrawn:
		ref = e.Agent
	}
	return ref
}

func nameOfPlan(s ledger.Stream) func(plan.Event) bool {
	return func(e plan.Event) bool {
		switch e := e.(type) {
		case plan.Sealed:
			return plan.StreamOf(e.Consent) == s
		case plan.Opened:
			return plan.StreamOf(e.Consent) == s
		}
		return true
	}
}

// consents is the aggregate of an agent's consents.
type consents struct {
	replay *Replay
	folded[consent.State, consent.Command, consent.Event]
}

func (c *consents) add(events []domain.Event, records []ledger.Record) error {
	if err := c.folded.add(events, records); err != nil {
		return err
	}
	for _, e := range events {
		g, ok := e.(consent.Granted)
		if ok {
			c.replay.consequences.granted[g.Consent] = g.Payload.Terms
		}
		if ok && g.Payload.Payment != nil {
			c.replay.purses[g.Consent] = &purse{limits: *g.Payload.Payment, months: make(map[string]*big.Int)}
		}
	}
	return nil
}

// A purse is what may be paid for the tasks of a consent, and what was.
type purse struct {
	limits consent.Payment
	months map[string]*big.Int
}

// pay returns nil if a payment keeps the limits, and counts it.
func (p *purse) pay(e shop.PaymentReserved) error {
	if p == nil {
		return bad("the consent allows no payments")
	}
	amount, _ := shop.Amount(e.Amount) // as the decider has checked
	perTask, _ := shop.Amount(p.limits.MaxPerTask)
	perMonth, ok := shop.Amount(p.limits.MaxPerMonth)
	month := p.months[e.Month]
	if month == nil {
		month = new(big.Int)
		p.months[e.Month] = month
	}
	switch month.Add(month, amount); {
	case !ok, e.Network != p.limits.Network:
		return bad("it is paid on another network than the consent names")
	case amount.Cmp(perTask) > 0:
		return bad("the consent allows %s for a task, and %s is paid", p.limits.MaxPerTask, e.Amount)
	case month.Cmp(perMonth) > 0:
		return bad("the consent allows %s in a month, and with this %s is paid in %s", p.limits.MaxPerMonth, month, e.Month)
	}
	return nil
}

// release stops counting a payment that cannot be taken any more.
func (p *purse) release(e shop.PaymentReserved) {
	amount, _ := shop.Amount(e.Amount)
	p.months[e.Month].Sub(p.months[e.Month], amount)
}

// A slot is the aggregate of a shop.
type slot struct {
	replay    *Replay
	stream    ledger.Stream
	state     shop.State
	committed shop.Committed
	result    shop.Result
	paid      shop.PaymentReserved
	sealed    []domain.Hash // of the canonical forms of the sealed records, until the reveal
}

func (s *slot) add(events []domain.Event, records []ledger.Record) error {
	steps := make([]shop.Event, len(events))
	for i, e := range events {
		var ok bool
		if steps[i], ok = e.(shop.Event); !ok {
			return bad("%s has no place in this stream", e.EventType())
		}
	}
	if err := shop.Check(s.state, steps); err != nil {
		return err
	}
	for i, e := range steps {
		if err := s.step(e, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *slot) step(e shop.Event, r *ledger.Record) error {
	switch e := e.(type) {
	case shop.Committed:
		if err := s.planned(e); err != nil {
			return err
		}
		s.committed = e
	case shop.Revealed:
		if err := s.opens(e); err != nil {
			return err
		}
		s.sealed = nil
	case shop.PaymentReserved:
		if err := s.replay.purses[s.committed.Consent].pay(e); err != nil {
			return err
		}
		s.paid = e
		s.keep(e, r)
	case shop.PaymentSettled:
		if e.Fate == shop.Expired {
			s.replay.purses[s.committed.Consent].release(s.paid)
		}
		s.keep(e, r)
	case shop.Sent, shop.SessionOpened, shop.SessionAction, shop.SessionClosed, shop.Replied, shop.Judged, shop.Missed, shop.Cancelled:
		s.keep(e, r)
	case shop.Erased:
	}
	s.state = shop.Decider.Evolve(s.state, e)
	return nil
}

// keep holds a sealed record until the reveal.
func (s *slot) keep(e shop.Event, r *ledger.Record) {
	s.sealed = append(s.sealed, domain.Sum(r.AppendCanonical(nil)))
	s.result = s.result.With(e)
}

// planned returns nil if the slot commits to what its plan says.
func (s *slot) planned(e shop.Committed) error {
	if e.Slot < 0 || e.Slot >= plan.Slots || shop.StreamOf(plan.ShopID(e.Consent, e.Day, uint32(e.Slot))) != s.stream {
		return bad("slot %d of %s under %s has another stream", e.Slot, domain.DayString(e.Day), e.Consent)
	}
	p := s.replay.plans[e.Consent]
	if p == nil {
		return bad("no plan of %s was sealed before", e.Consent)
	}
	sealed, ok := p.state.Days[e.Day]
	switch {
	case !ok:
		return bad("no plan of %s under %s was sealed before", domain.DayString(e.Day), e.Consent)
	case sealed.Commits[e.Slot] != e.Commit:
		return bad("the plan of %s under %s commits to something else in slot %d", domain.DayString(e.Day), e.Consent, e.Slot)
	}
	return nil
}

// opens returns nil if the reveal tells what the sealed records of the stream do.
func (s *slot) opens(e shop.Revealed) error {
	var shown []domain.Hash
	for i := range e.Records {
		shown = append(shown, domain.Sum(e.Records[i].AppendCanonical(nil)))
	}
	switch {
	case e.Consent != s.committed.Consent, e.Day != s.committed.Day, e.Slot != s.committed.Slot:
		return bad("it reveals another slot than the one that was committed to")
	case !slices.Equal(shown, s.sealed):
		return bad("it does not carry the sealed records of its stream byte for byte")
	case e.Result != s.result:
		return bad("its result is not what the sealed records come to")
	}
	return nil
}
