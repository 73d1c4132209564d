package verify

import (
	"slices"

	"github.com/karatum/mystery/domain"
	comparisons "github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/programme"
)

// A signers follows what people sign in a public log: owners who reply to findings, and
// maintainers, whose keys stand in the log and end there.
type signers struct {
	catalog   domain.Catalog
	programme programme.State
	findings  map[ledger.Stream]comparisons.State
	incidents map[ledger.Stream]incident.State
}

func newSigners() *signers {
	return &signers{
		catalog:  domain.NewCatalog(programme.Events, comparisons.Events, incident.Events),
		findings: make(map[ledger.Stream]comparisons.State), incidents: make(map[ledger.Stream]incident.State),
	}
}

// add checks that a record can follow on those before it in its stream, if it is one of
// these, and that who signed it was a maintainer then.
func (s *signers) add(r *ledger.Record) error {
	switch r.Stream.Category() {
	case "programme", "finding", "incident":
	default:
		return nil
	}
	e, err := s.catalog.Decode(r.Type, r.Data)
	if err != nil {
		return bad("it cannot be read: %v", err)
	}
	switch e := e.(type) {
	case programme.Event:
		s.programme = programme.Decider.Evolve(s.programme, e)
	case comparisons.Event:
		return s.found(r.Stream, e)
	case incident.Event:
		return s.happened(r.Stream, e)
	}
	return nil
}

func (s *signers) found(stream ledger.Stream, e comparisons.Event) error {
	state := s.findings[stream]
	if err := comparisons.Check(state, []comparisons.Event{e}); err != nil {
		return bad("%s", domain.Sentence(err))
	}
	s.findings[stream] = comparisons.Decider.Evolve(state, e)
	if e, ok := e.(comparisons.Corrected); ok {
		return s.maintained(e.By)
	}
	return nil
}

// happened checks a step of an incident, and with its disclosure all those that it opens.
func (s *signers) happened(stream ledger.Stream, e incident.Event) error {
	state := s.incidents[stream]
	if disclosed, ok := e.(incident.Disclosed); ok {
		var err error
		if state, err = s.sealed(disclosed.Records); err != nil {
			return err
		}
	}
	if err := incident.Check(state, []incident.Event{e}); err != nil {
		return bad("%s", domain.Sentence(err))
	}
	s.incidents[stream] = incident.Decider.Evolve(state, e)
	return s.maintained(signersOf(e))
}

// sealed returns the state that sealed records of an incident lead to. When they were
// signed the log does not tell, so a maintainer of theirs may be retired by now.
func (s *signers) sealed(records []ledger.Record) (state incident.State, err error) {
	for i := range records {
		e, err := s.catalog.Decode(records[i].Type, records[i].Data)
		if err != nil {
			return state, bad("a record that it opens cannot be read: %v", err)
		}
		step, ok := e.(incident.Event)
		if !ok {
			return state, bad("it opens a %s, which has no place in this stream", e.EventType())
		}
		if err := incident.Check(state, []incident.Event{step}); err != nil {
			return state, bad("of what it opens, %s", domain.Sentence(err))
		}
		for _, a := range signersOf(step) {
			if !slices.ContainsFunc(s.programme.Maintainers, func(m programme.Maintainer) bool { return m.Name == a.Name && m.Key == a.Key }) {
				return state, bad("of what it opens, a %s is signed by %q with a key that no maintainer ever had", step.EventType(), a.Name)
			}
		}
		state = incident.Decider.Evolve(state, step)
	}
	return state, nil
}

// maintained returns nil if all who signed are maintainers at this place in the log.
func (s *signers) maintained(by []maintainer.Approval) error {
	for _, a := range by {
		if !s.programme.Maintained(a.Name, a.Key) {
			return bad("it is signed by %q with a key that was not that of a maintainer then", a.Name)
		}
	}
	return nil
}

func signersOf(e incident.Event) []maintainer.Approval {
	switch e := e.(type) {
	case incident.Triaged:
		return e.By
	case incident.Closed:
		return e.By
	case incident.Disclosed:
		return e.By
	case incident.Corrected:
		return e.By
	case incident.Recalled:
		return e.By
	case incident.Resolved:
		return e.By
	case incident.Opened, incident.ReplyFiled: // by nobody
	}
	return nil
}
