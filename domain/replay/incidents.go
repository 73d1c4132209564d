package replay

import (
	"slices"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/programme"
)

// A consequences is what may follow from findings, over all streams.
type consequences struct {
	granted   map[string]consent.Terms // by consent
	found     map[string]map[int]found // by consent and look
	programme programme.State
	raised    bool // the severity of incidents ever was
}

// A found is what is known of a finding.
type found struct {
	agent     agent.Ref
	demo      bool
	confirmed bool        // exam_only behind the gate
	reply     domain.Hash // commitment, zero without one
}

// programmes is the aggregate of the programme.
type programmes struct {
	all *consequences
	folded[programme.State, programme.Command, programme.Event]
}

func (p *programmes) add(events []domain.Event, records []ledger.Record) error {
	if err := p.folded.add(events, records); err != nil {
		return err
	}
	p.all.programme = p.state
	p.all.raised = p.all.raised || p.state.HighSeverity()
	return nil
}

// signed returns nil if all who signed were maintainers at that place in the log.
func (c *consequences) signed(by []maintainer.Approval) error {
	for _, a := range by {
		if !c.programme.Maintained(a.Name, a.Key) {
			return bad("it is signed by %q with a key that was not that of a maintainer then", a.Name)
		}
	}
	return nil
}

// findings is the aggregate of a consent's findings.
type findings struct {
	all *consequences
	folded[finding.State, finding.Command, finding.Event]
}

func (f *findings) add(events []domain.Event, records []ledger.Record) error {
	if err := f.folded.add(events, records); err != nil {
		return err
	}
	switch e := events[0].(type) {
	case finding.Reached:
		if f.all.found[e.Consent] == nil {
			f.all.found[e.Consent] = make(map[int]found)
		}
		f.all.found[e.Consent][e.Look] = found{agent: e.Agent, demo: e.Demo, confirmed: e.GatedVerdict == finding.ExamOnly}
	case finding.ReplyFiled:
		known := f.all.found[e.Consent][e.Look]
		terms := f.all.granted[e.Consent]
		if e.Owner != terms.Owner || e.Domain != terms.Domain || e.Chain != terms.Chain || e.Agent != known.agent {
			return bad("the reply is not signed by who gave the consent")
		}
		known.reply = e.Commitment
		f.all.found[e.Consent][e.Look] = known
	case finding.Corrected:
		return f.all.signed(e.By)
	}
	return nil
}

func nameOfFinding(s ledger.Stream) func(finding.Event) bool {
	return func(e finding.Event) bool {
		var consent string
		switch e := e.(type) {
		case finding.Reached:
			consent = e.Consent
		case finding.ReplyFiled:
			consent = e.Consent
		case finding.ReplyErased:
			consent = e.Consent
		case finding.Corrected:
			consent = e.Consent
		}
		return finding.StreamOf(consent) == s
	}
}

// An affair is the aggregate of an incident.
type affair struct {
	all    *consequences
	stream ledger.Stream
	folded[incident.State, incident.Command, incident.Event]
	sealed []domain.Hash // of the canonical forms of the sealed records
}

func (a *affair) add(events []domain.Event, records []ledger.Record) error {
	if err := a.folded.add(events, records); err != nil {
		return err
	}
	r := &records[0] // it is alone
	switch e := events[0].(type) {
	case incident.Opened:
		a.keep(r)
		return a.opened(e, r)
	case incident.ReplyFiled:
		a.keep(r)
		if known := a.all.found[a.state.Opened.Consent][e.Look]; known.reply.IsZero() || known.reply != e.Commitment {
			return bad("no such reply stands at a finding on the consent")
		}
	case incident.Triaged:
		a.keep(r)
		return a.all.signed(e.By)
	case incident.Closed:
		a.keep(r)
		return a.all.signed(e.By)
	case incident.Disclosed:
		return a.disclosed(e, r)
	case incident.Corrected:
		return a.all.signed(e.By)
	case incident.Recalled:
		return a.all.signed(e.By)
	case incident.Resolved:
		return a.all.signed(e.By)
	}
	return nil
}

// keep holds a sealed record until the disclosure.
func (a *affair) keep(r *ledger.Record) {
	a.sealed = append(a.sealed, domain.Sum(r.AppendCanonical(nil)))
}

// grace is how far the moment that an event names may lie before that of its record:
// an append may have to wait for the store.
const grace = time.Hour

func (a *affair) opened(e incident.Opened, r *ledger.Record) error {
	switch known := a.all.found[e.Consent][e.Look]; {
	case incident.StreamOf(e.Incident) != a.stream:
		return bad("it is of incident %s, which has another stream", e.Incident)
	case !known.confirmed:
		return bad("finding %d on %s is not a confirmed exam_only", e.Look, e.Consent)
	case known.agent != e.Agent, known.demo != e.Demo:
		return bad("it is about another agent than the finding")
	case e.Severity != incident.Assess(false) && !a.all.raised:
		return bad("its severity is raised, and that was never configured")
	case e.ReplyUntil.Before(r.Time.Add(incident.ReplyTime - grace)):
		return bad("it leaves the owner less time for a reply than there is")
	}
	return nil
}

func (a *affair) disclosed(e incident.Disclosed, r *ledger.Record) error {
	var shown []domain.Hash
	for i := range e.Records {
		shown = append(shown, domain.Sum(e.Records[i].AppendCanonical(nil)))
	}
	switch {
	case !slices.Equal(shown, a.sealed):
		return bad("it does not carry the sealed records of its stream byte for byte")
	case e.At.After(r.Time.Add(time.Minute)):
		return bad("it says that it was disclosed later than it was recorded")
	}
	return a.all.signed(e.By)
}
