// Package finding records what a comparison of field and exam came to.
//
// Its stream is finding/<consent>. There is one comparison for each day of a
// consent, after that day is opened, and one at its end; each looks at revealed
// tasks only, so that a finding says nothing that is not public. The owner of the
// agent may reply to each, once; and where one turns out to be wrong, a maintainer
// corrects it. Reply and correction are shown wherever the finding is. The text of a
// reply lies beside the log and can be erased: that there was one, and what commits to
// it, stays.
package finding

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/domain/stats"
)

// Events are the entries of all shapes that were ever written here, the oldest
// first.
var Events = []domain.Entry{
	domain.Current[Reached](domain.Public),
	domain.Current[ReplyFiled](domain.Public),
	domain.Current[Corrected](domain.Public),
	domain.Current[ReplyErased](domain.Public),
}

// StreamOf names the stream of the findings on a consent.
func StreamOf(consent string) ledger.Stream { return ledger.Stream("finding/" + consent) }

// An Event is a step in the life of a consent's findings.
//
//sumtype:decl
type Event interface {
	domain.Event
	findingEvent()
}

// Reached means that the field was compared with the exam. Rates and intervals
// follow from the counts; those given are decimal strings of the float64 nearest
// to the exact value.
type Reached struct {
	Consent    string     `json:"consent"`
	Agent      agent.Ref  `json:"agent"`
	Demo       bool       `json:"demo"`
	Cycle      Cycle      `json:"cycle"`
	Day        uint32     `json:"day"`  // the day just opened
	Look       int        `json:"look"` // 1, 2, 3, …: how often this consent was looked at
	Exam       Arm        `json:"exam"`
	Field      Arm        `json:"field"`
	Sources    []Source   `json:"examSources"` // what the exam is made of
	Families   []Family   `json:"families"`
	Test       string     `json:"test"` // z_pooled, fisher_exact, or "" if not enough data
	P          string     `json:"p"`    // one-sided
	Drop       Interval   `json:"drop"` // exam − field, 95 % Newcombe
	Verdict    Verdict    `json:"verdict"`
	Rule       uint32     `json:"rule"` // version of the rule below
	Thresholds Thresholds `json:"thresholds"`
	Note       string     `json:"note"` // the same in plain words

	// Beside the verdict; the gated one decides what follows from it.
	GatedVerdict   Verdict       `json:"gatedVerdict"`
	LogE           string        `json:"logE"`           // ln of the E-value of this look, "" without data in both arms
	PAlways        string        `json:"pAlways"`        // valid however often one looks
	Band           Band          `json:"band"`           // with all blocked and missed as passes, and as fails
	Conformity     Interval      `json:"conformity"`     // field over exam
	Stratified     Stratified    `json:"stratified"`     // family by family
	DetectableDrop string        `json:"detectableDrop"` // smallest that would be seen 4 times in 5, as a fraction
	Latency        LatencyRatios `json:"latency"`        // field over exam
	AllConsents    AllConsents   `json:"allConsents"`    // the agent in the field, under every consent it ever had
}

// A Band holds the verdicts under two extremes.
type Band struct {
	Passed Verdict `json:"passed"`
	Failed Verdict `json:"failed"`
}

// Stratified compares the arms within families (Cochran, Mantel and Haenszel).
type Stratified struct {
	Strata         int    `json:"strata"` // families with tasks in both arms
	Z              string `json:"z"`
	P              string `json:"p"`
	RiskDifference string `json:"riskDifference"`
	OddsRatio      string `json:"oddsRatio"`
	Mix            bool   `json:"mix"` // the gap may come from another mix of families
}

// LatencyRatios compare quantiles of the arms.
type LatencyRatios struct {
	Median string `json:"median"`
	P90    string `json:"p90"`
}

// AllConsents is the comparison that no new consent resets.
type AllConsents struct {
	Counted      int     `json:"counted"`
	Passed       int     `json:"passed"`
	Verdict      Verdict `json:"verdict"`
	GatedVerdict Verdict `json:"gatedVerdict"`
	P            string  `json:"p"`
	LogE         string  `json:"logE"`
}

// A Cycle says what occasioned a comparison.
type Cycle string

// Cycles.
const (
	AfterDay Cycle = "day" // a day was opened
	AtEnd    Cycle = "end" // the consent is over and its last day was opened
)

// A Verdict is what a comparison came to.
type Verdict string

// Verdicts.
const (
	ExamOnly     Verdict = "exam_only"    // significantly and materially worse in the field
	Consistent   Verdict = "consistent"   // no such gap found, which is no proof of equality
	Insufficient Verdict = "insufficient" // not enough data to say
	Watch        Verdict = "watch"        // gated only: a first sighting, not confirmed
)

// An Arm is one side of a comparison. Counted is the sum of the five outcomes
// that are the agent's own; the last three never count.
type Arm struct {
	Counted   int      `json:"counted"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	Refused   int      `json:"refused"`
	TimedOut  int      `json:"timedOut"`
	Errored   int      `json:"errored"`
	Blocked   int      `json:"blocked"`
	Missed    int      `json:"missed"`
	Cancelled int      `json:"cancelled"`
	Rate      Interval `json:"rate"` // 95 % Wilson
	MedianMs  string   `json:"medianMs"`
	P90Ms     string   `json:"p90Ms"`
}

// A Source is where samples of the exam come from: trial attempts of the
// certification, or runs of the harness.
type Source struct {
	Source  string `json:"source"`
	Counted int    `json:"counted"`
	Passed  int    `json:"passed"`
}

// An Interval is an estimate with its 95 % interval, "" where there is none.
type Interval struct {
	Value string `json:"value"`
	Low   string `json:"low"`
	High  string `json:"high"`
}

// A Family is the part of a comparison that falls to one family of tasks. It is
// for reading; no test is made of it.
type Family struct {
	Family      string `json:"family"`
	ExamCount   int    `json:"examCount"`
	ExamPassed  int    `json:"examPassed"`
	FieldCount  int    `json:"fieldCount"`
	FieldPassed int    `json:"fieldPassed"`
}

// Thresholds are those of the rule.
type Thresholds struct {
	MinExam       int    `json:"minExam"`
	MinField      int    `json:"minField"`
	MaxP          string `json:"maxP"`
	MinDropPoints int    `json:"minDropPoints"`
	MinE          int    `json:"minE"`           // of the gate
	MaxLost       int    `json:"maxLostPercent"` // of planned tasks blocked or missed
}

// CurrentThresholds returns those that comparisons are made with now.
func CurrentThresholds() Thresholds {
	return Thresholds{
		MinExam: stats.MinExam, MinField: stats.MinField, MaxP: stats.Format(stats.MaxP), MinDropPoints: stats.MinDropPoints,
		MinE: stats.MinE, MaxLost: stats.MaxLostPercent,
	}
}

// EventType implements [domain.Event].
func (Reached) EventType() domain.Type { return "finding.reached.v1" }

func (Reached) findingEvent() {}

// A Command asks for a step of a consent's findings.
//
//sumtype:decl
type Command interface{ findingCommand() }

// Reach asks to record a comparison. Its look number is given here.
type Reach Reached

// FileReply asks to record the reply of an owner, whose signature is as it came.
type FileReply ReplyFiled

// EraseReply asks to record that the text of a reply is erased.
type EraseReply ReplyErased

// Correct asks to record a correction.
type Correct struct {
	Consent string
	Look    int
	Version int // how many corrections the finding has
	Text    string
	By      []maintainer.Approval
}

func (Reach) findingCommand()      {}
func (FileReply) findingCommand()  {}
func (EraseReply) findingCommand() {}
func (Correct) findingCommand()    {}

// State is what is recorded.
type State struct {
	Looks     int
	Days      map[uint32]bool
	Ended     bool
	Replied   map[int]bool // by look
	Erased    map[int]bool // replies whose text is gone, by look
	Corrected map[int]int  // how often, by look
}

// Decider is the life of a consent's findings.
var Decider = domain.Decider[State, Command, Event]{Decide: decide, Evolve: evolve}

func decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Reach:
		if c.Cycle == AtEnd && s.Ended || c.Cycle == AfterDay && s.Days[c.Day] {
			return nil, nil
		}
		if c.Look != s.Looks+1 {
			return nil, fmt.Errorf("look %d at %s cannot follow look %d: %w", c.Look, c.Consent, s.Looks, domain.ErrConflict)
		}
		return []Event{Reached(c)}, nil
	case FileReply:
		return fileReply(s, ReplyFiled(c))
	case EraseReply:
		return eraseReply(s, ReplyErased(c))
	case Correct:
		return correct(s, c)
	}
	panic(fmt.Sprintf("finding: unreachable command %T", c))
}

func evolve(s State, e Event) State {
	switch e := e.(type) {
	case ReplyFiled:
		if s.Replied == nil {
			s.Replied = make(map[int]bool)
		}
		s.Replied[e.Look] = true
	case ReplyErased:
		if s.Erased == nil {
			s.Erased = make(map[int]bool)
		}
		s.Erased[e.Look] = true
	case Corrected:
		if s.Corrected == nil {
			s.Corrected = make(map[int]int)
		}
		s.Corrected[e.Look]++
	case Reached:
		s.Looks++
		if e.Cycle == AtEnd {
			s.Ended = true
			break
		}
		if s.Days == nil {
			s.Days = make(map[uint32]bool)
		}
		s.Days[e.Day] = true
	}
	return s
}
