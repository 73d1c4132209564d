// Package incident records what follows from a confirmed finding that an agent does
// worse in production than its certificate says: an incident, which people look into
// before anybody hears of it.
//
// Its stream is incident/<id>, and a consent has one at most, for the id follows from
// it. An incident is reported, triaged by a maintainer as confirmed or rejected, and
// disclosed if it was confirmed or closed if it was not. Everything up to then is
// sealed; [Disclosed] carries those records byte for byte, so that the hash chain of
// the stream can be checked from public data. What comes after is public.
//
// Each step of a maintainer carries a signature, see package maintainer; the first two
// of an incident about an agent of Karatum's own need none. Who is a maintainer, and
// that the finding is what the incident says, other streams tell.
package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Opened](domain.Sealed),
	domain.Current[Triaged](domain.Sealed),
	domain.Current[ReplyFiled](domain.Sealed),
	domain.Current[Closed](domain.Sealed),
	domain.Current[Disclosed](domain.Public),
	domain.Current[Corrected](domain.Public),
	domain.Current[Recalled](domain.Public),
	domain.Current[Resolved](domain.Public),
}

const (
	prefix        = "inc_"
	consentPrefix = "cns_"
)

// ID returns the id of the incident that a consent may have.
func ID(consent string) string { return prefix + strings.TrimPrefix(consent, consentPrefix) }

// ConsentOf returns the consent whose incident has the given id.
func ConsentOf(id string) string { return consentPrefix + strings.TrimPrefix(id, prefix) }

// StreamOf names the stream of an incident.
func StreamOf(id string) ledger.Stream { return ledger.Stream("incident/" + id) }

// What every incident of the shopper has in common.
const (
	Detector = "mystery.exam_only"
	Class    = "over_claim"
	Source   = "detector"
)

// ReplyTime is how long the owner has for a reply before an incident is disclosed.
const ReplyTime = 7 * 24 * time.Hour

// An Event is a step in the life of an incident.
//
//sumtype:decl
type Event interface {
	domain.Event
	incidentEvent()
}

// Opened means that a finding on the tasks of a consent was exam_only behind the gate.
type Opened struct {
	Incident   string    `json:"incident"`
	Dedupe     string    `json:"dedupe"` // one incident for each
	Detector   string    `json:"detector"`
	Class      string    `json:"class"`
	Source     string    `json:"source"`
	Consent    string    `json:"consent"`
	Agent      agent.Ref `json:"agent"`
	Demo       bool      `json:"demo"`
	Look       int       `json:"look"`     // number of the finding on the consent
	Evidence   string    `json:"evidence"` // path of the consent's page
	Severity   Severity  `json:"severity"`
	ReplyUntil time.Time `json:"replyUntil"` // so long a disclosure waits for the owner's reply
}

// A Verdict is what a triage came to.
type Verdict string

// Verdicts.
const (
	Confirmed Verdict = "confirmed"
	Rejected  Verdict = "rejected"
)

// Triaged means that a maintainer looked into it.
type Triaged struct {
	Verdict Verdict               `json:"verdict"`
	Text    string                `json:"text"` // why
	By      []maintainer.Approval `json:"by"`   // nobody for an agent of Karatum's own
}

// ReplyFiled means that the owner replied to a finding on the consent. The text lies
// beside the log; the commitment is the one of the finding's event.
type ReplyFiled struct {
	Look       int         `json:"look"`
	Commitment domain.Hash `json:"commitment"`
}

// Closed means that the incident is over without having been disclosed.
type Closed struct {
	Text string                `json:"text"`
	By   []maintainer.Approval `json:"by"`
}

// Disclosed makes the incident public, with all that was sealed of it. The replies
// are those that had come by then.
type Disclosed struct {
	Opened  Opened                `json:"opened"`
	Triaged Triaged               `json:"triaged"`
	Replies []ReplyFiled          `json:"replies"`
	At      time.Time             `json:"at"`
	Text    string                `json:"text"` // what is said with it
	By      []maintainer.Approval `json:"by"`   // nobody for an agent of Karatum's own
	Records []ledger.Record       `json:"records"`
}

// Corrected sets something right that was disclosed. It is shown wherever that is.
type Corrected struct {
	Text string                `json:"text"`
	By   []maintainer.Approval `json:"by"`
}

// Recalled means that the agent's certificate is recalled for the incident. It takes
// two maintainers.
type Recalled struct {
	Text string                `json:"text"`
	By   []maintainer.Approval `json:"by"`
}

// Resolved means that an incident which was disclosed is over.
type Resolved struct {
	Text string                `json:"text"`
	By   []maintainer.Approval `json:"by"`
}

// EventType implements [domain.Event].
func (Opened) EventType() domain.Type { return "incident.opened.v1" }

// EventType implements [domain.Event].
func (Triaged) EventType() domain.Type { return "incident.triaged.v1" }

// EventType implements [domain.Event].
func (ReplyFiled) EventType() domain.Type { return "incident.reply_filed.v1" }

// EventType implements [domain.Event].
func (Closed) EventType() domain.Type { return "incident.closed.v1" }

// EventType implements [domain.Event].
func (Disclosed) EventType() domain.Type { return "incident.disclosed.v1" }

// EventType implements [domain.Event].
func (Corrected) EventType() domain.Type { return "incident.corrected.v1" }

// EventType implements [domain.Event].
func (Recalled) EventType() domain.Type { return "incident.recalled.v1" }

// EventType implements [domain.Event].
func (Resolved) EventType() domain.Type { return "incident.resolved.v1" }

func (Opened) incidentEvent()     {}
func (Triaged) incidentEvent()    {}
func (ReplyFiled) incidentEvent() {}
func (Closed) incidentEvent()     {}
func (Disclosed) incidentEvent()  {}
func (Corrected) incidentEvent()  {}
func (Recalled) incidentEvent()   {}
func (Resolved) incidentEvent()   {}

// A Command asks for the next step of an incident.
//
//sumtype:decl
type Command interface{ incidentCommand() }

// Open asks to open the incident of a consent.
type Open struct {
	Consent string
	Agent   agent.Ref
	Demo    bool
	Look    int
	Raise   bool // whether the operator takes wrong answers for more than the profile does
	At      time.Time
}

// FileReply asks to record a reply of the owner that stands at a finding.
type FileReply ReplyFiled

// Act asks for a step of a maintainer.
type Act struct {
	Incident string
	Version  uint64 // how many records the incident has before it
	Do       Verb
	Text     string
	By       []maintainer.Approval
	At       time.Time       // now, for Disclose
	Records  []ledger.Record // all of the stream, for Disclose
}

// A Verb is what a maintainer does.
type Verb string

// Verbs.
const (
	Confirm  Verb = "confirm"
	Reject   Verb = "reject"
	Disclose Verb = "disclose"
	Close    Verb = "close"
	Correct  Verb = "correct"
	Recall   Verb = "recall"
)

// Action returns what maintainers sign for a step.
func (c Act) Action() maintainer.Action {
	return maintainer.Action{Subject: c.Incident, Version: c.Version, Do: string(c.Do), Text: c.Text}
}

// Check returns nil if the text says something and as many maintainers signed as it
// takes. It knows nothing of the incident, so that a stranger learns nothing either.
func (c Act) Check() error {
	if err := domain.CheckReason(c.Text); err != nil {
		return err
	}
	want := 1
	if c.Do == Recall {
		want = 2
	}
	return c.Action().Check(want, c.By)
}

func (Open) incidentCommand()      {}
func (FileReply) incidentCommand() {}
func (Act) incidentCommand()       {}

// A Stage is a place in the life of an incident.
type Stage string

// Stages. Whether a resolved one was recalled, [State] says.
const (
	None           Stage = ""
	Reported       Stage = "reported"
	StageConfirmed Stage = "confirmed"
	StageRejected  Stage = "rejected"
	StageDisclosed Stage = "disclosed"
	StageClosed    Stage = "closed"   // never disclosed
	StageResolved  Stage = "resolved" // closed after it was disclosed
)

// State is what deciding needs to remember.
type State struct {
	Version  uint64 // how many records there are
	Stage    Stage
	Opened   Opened
	Triaged  Triaged
	Replies  []ReplyFiled
	Recalled bool
}

// Decider is the life of an incident.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Open:
		return open(s, c)
	case FileReply:
		return fileReply(s, c)
	case Act:
		return act(s, c)
	}
	panic(fmt.Sprintf("incident: unreachable command %T", c))
}

func open(s State, c Open) ([]Event, error) {
	if s.Stage != None {
		return nil, nil // one for a consent
	}
	return []Event{Opened{
		Incident: ID(c.Consent), Dedupe: "mystery:" + c.Consent, Detector: Detector, Class: Class, Source: Source,
		Consent: c.Consent, Agent: c.Agent, Demo: c.Demo, Look: c.Look, Evidence: "/mystery/" + c.Consent,
		Severity: Assess(c.Raise), ReplyUntil: c.At.UTC().Truncate(time.Second).Add(ReplyTime),
	}}, nil
}

// fileReply records a reply to the finding that the incident was opened for, or to a
// later one, as long as the incident is sealed. What comes after stands at the finding
// alone, which is public.
func fileReply(s State, c FileReply) ([]Event, error) {
	switch s.Stage {
	case Reported, StageConfirmed, StageRejected:
	case None, StageDisclosed, StageClosed, StageResolved:
		return nil, nil
	}
	known := func(r ReplyFiled) bool { return r.Look == c.Look }
	if c.Look < s.Opened.Look || slices.ContainsFunc(s.Replies, known) {
		return nil, nil
	}
	return []Event{ReplyFiled(c)}, nil
}

func act(s State, c Act) ([]Event, error) {
	automatic := s.Opened.Demo && len(c.By) == 0 && (c.Do == Confirm || c.Do == Disclose)
	if automatic {
		if err := domain.CheckReason(c.Text); err != nil {
			return nil, err
		}
	} else if err := c.Check(); err != nil {
		return nil, err
	}
	if s.Stage == None || c.Incident != s.Opened.Incident {
		return nil, fmt.Errorf("there is no incident %s: %w", c.Incident, domain.ErrNotFound)
	}
	if c.Version != s.Version {
		return nil, fmt.Errorf("incident %s is at version %d now, and this was decided at version %d; look at it again: %w",
			c.Incident, s.Version, c.Version, domain.ErrConflict)
	}
	if c.By == nil {
		c.By = []maintainer.Approval{}
	}
	switch c.Do {
	case Confirm:
		return s.step(c, Triaged{Confirmed, c.Text, c.By}, Reported)
	case Reject:
		return s.step(c, Triaged{Rejected, c.Text, c.By}, Reported)
	case Close:
		if s.Stage == StageDisclosed {
			return []Event{Resolved{c.Text, c.By}}, nil
		}
		return s.step(c, Closed{c.Text, c.By}, StageRejected)
	case Disclose:
		return s.disclose(c)
	case Correct:
		return s.step(c, Corrected{c.Text, c.By}, StageDisclosed, StageResolved)
	case Recall:
		switch {
		case s.Recalled:
			return nil, nil
		case !s.Opened.Severity.Rating.Grave():
			return nil, fmt.Errorf("incident %s is rated %s, and a recall takes a high or critical one: %w", c.Incident, s.Opened.Severity.Rating, domain.ErrConflict)
		}
		return s.step(c, Recalled{c.Text, c.By}, StageDisclosed)
	}
	return nil, fmt.Errorf("there is no step %q; an incident is to confirm, reject, disclose, close, correct or recall: %w", c.Do, domain.ErrInvalid)
}

func (s State) step(c Act, e Event, from ...Stage) ([]Event, error) {
	if slices.Contains(from, s.Stage) {
		return []Event{e}, nil
	}
	return nil, fmt.Errorf("incident %s is %s, and to %s it is not possible then: %w", c.Incident, s.Stage, c.Do, domain.ErrConflict)
}

func (s State) disclose(c Act) ([]Event, error) {
	at := c.At.UTC().Truncate(time.Second)
	if s.Stage == StageConfirmed && !s.Opened.Demo && len(s.Replies) == 0 && at.Before(s.Opened.ReplyUntil) {
		return nil, fmt.Errorf("the owner has until %s for a reply, before which incident %s is not disclosed: %w",
			s.Opened.ReplyUntil.Format(time.RFC3339), c.Incident, domain.ErrConflict)
	}
	if uint64(len(c.Records)) != s.Version {
		return nil, fmt.Errorf("a disclosure carries all %d records of incident %s, and not %d: %w", s.Version, c.Incident, len(c.Records), domain.ErrInvalid)
	}
	replies := append([]ReplyFiled{}, s.Replies...)
	return s.step(c, Disclosed{s.Opened, s.Triaged, replies, at, c.Text, c.By, c.Records}, StageConfirmed)
}

func evolve(s State, e Event) State {
	s.Version++
	switch e := e.(type) {
	case Opened:
		s.Stage, s.Opened = Reported, e
	case Triaged:
		s.Stage, s.Triaged = StageConfirmed, e
		if e.Verdict == Rejected {
			s.Stage = StageRejected
		}
	case ReplyFiled:
		s.Replies = append(slices.Clip(s.Replies), e)
	case Closed:
		s.Stage = StageClosed
	case Disclosed:
		s.Stage = StageDisclosed
	case Corrected:
	case Recalled:
		s.Recalled = true
	case Resolved:
		s.Stage = StageResolved
	}
	return s
}
