package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
)

// OpenIncident opens the incident of a consent for the finding of one look, which must
// be exam_only behind the gate. A consent that had an incident gets no other one. An
// incident about an agent of Karatum's own is confirmed and disclosed at once: that
// agent was built to be caught, and nobody has to be heard.
func (s *Service) OpenIncident(ctx context.Context, consentID string, look int) error {
	e, err := s.found(ctx, consentID, look)
	if err != nil {
		return err
	}
	if e.GatedVerdict != finding.ExamOnly {
		return fmt.Errorf("finding %s is %s, and an incident takes a confirmed exam_only: %w", finding.ID(consentID, look), e.GatedVerdict, domain.ErrConflict)
	}
	published, err := s.CurrentProgramme(ctx)
	if err != nil {
		return err
	}
	id := incident.ID(consentID)
	open := incident.Open{Consent: consentID, Agent: e.Agent, Demo: e.Demo, Look: look, Raise: published.HighSeverity(), At: s.Now()}
	if err := s.incident(ctx, ledger.Meta{Actor: "worker", Command: "incident/open/" + consentID}, id, open); err != nil {
		return err
	}
	if e.Demo {
		return s.discloseOwn(ctx, id)
	}
	return nil
}

// ownText is what is said of incidents about agents of Karatum's own.
const ownText = "This agent is one of Karatum's own, built to behave like this; there is nobody else to hear."

// discloseOwn takes an incident about an agent of Karatum's own to its disclosure.
func (s *Service) discloseOwn(ctx context.Context, id string) error {
	for _, do := range []incident.Verb{incident.Confirm, incident.Disclose} {
		now, err := s.Incident(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case do == incident.Confirm && now.Stage != incident.Reported, do == incident.Disclose && now.Stage != incident.StageConfirmed:
			continue // it was done before, or somebody took it into their hands
		}
		m := ledger.Meta{Actor: "worker", Command: fmt.Sprintf("incident/%s/%s", do, id)}
		c := incident.Act{Incident: id, Version: now.Version, Do: do, Text: ownText}
		if err := s.act(ctx, m, c); err != nil {
			return err
		}
	}
	return nil
}

// Incident returns where an incident stands: with the zero stage for one that never
// was. It is private until it is disclosed.
func (s *Service) Incident(ctx context.Context, id string) (incident.State, error) {
	h, err := load(ctx, s, incident.Decider, incident.StreamOf(id), "")
	return h.state, err
}

// ActOnIncident carries out the step of maintainers on an incident. Who did not sign as
// it takes, or is no maintainer, gets an error matching [domain.ErrForbidden] that does
// not depend on whether there is such an incident.
func (s *Service) ActOnIncident(ctx context.Context, c incident.Act) error {
	if err := c.Check(); err != nil {
		return err
	}
	return s.maintain(ctx, c.By, func(ctx context.Context, m ledger.Meta) error {
		if c.Do == incident.Disclose {
			if err := s.passReplies(ctx, incident.ConsentOf(c.Incident)); err != nil {
				return err
			}
		}
		return s.act(ctx, m, c)
	})
}

// act carries out a step. A disclosure takes the records of the stream along.
func (s *Service) act(ctx context.Context, m ledger.Meta, c incident.Act) error {
	c.At = s.Now()
	if c.Do == incident.Disclose {
		for r, err := range s.Log.Stream(ctx, incident.StreamOf(c.Incident), 0) {
			if err != nil {
				return err
			}
			c.Records = append(c.Records, r)
		}
	}
	return s.incident(ctx, m, c.Incident, c)
}

func (s *Service) incident(ctx context.Context, m ledger.Meta, id string, c incident.Command) error {
	_, err := carryOut(ctx, s, incident.Decider, incident.StreamOf(id), m, c)
	return err
}

// CorrectFinding records a maintainer's correction of a finding.
func (s *Service) CorrectFinding(ctx context.Context, c finding.Correct) error {
	if err := c.Check(); err != nil {
		return err
	}
	return s.maintain(ctx, c.By, func(ctx context.Context, m ledger.Meta) error {
		return s.Finding(ctx, m, c.Consent, c)
	})
}

// maintain calls then with the meta of what maintainers signed. None of them is retired
// before it returns: what is signed with a key stands before the end of that key in the
// ledger, for everybody to check.
func (s *Service) maintain(ctx context.Context, by []maintainer.Approval, then func(context.Context, ledger.Meta) error) error {
	return s.Admission.Maintain(ctx, func(ctx context.Context) error {
		m, err := s.maintainers(ctx, by)
		if err != nil {
			return err
		}
		return then(ctx, m)
	})
}

// maintainers returns the meta of what these signed, unless one of them is not
// registered or no maintainer any more.
func (s *Service) maintainers(ctx context.Context, by []maintainer.Approval) (m ledger.Meta, err error) {
	published, err := s.CurrentProgramme(ctx)
	if err != nil {
		return m, err
	}
	names := make([]string, len(by))
	for i, a := range by {
		if !published.Maintained(a.Name, a.Key) {
			return m, fmt.Errorf("the key of %q is not that of a maintainer; karatum-mystery programme add-maintainer registers it: %w", a.Name, domain.ErrForbidden)
		}
		names[i] = a.Name
	}
	return s.meta("maintainer:" + strings.Join(names, ", "))
}
