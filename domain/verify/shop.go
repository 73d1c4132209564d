package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// Phases of a slot, as its public answer names them.
const (
	phaseSealed   = "sealed"
	phaseRevealed = "revealed"
	phasePad      = "pad"
)

// The times that a slot is held to.
const (
	sendWindow  = 15 * time.Minute // behind the planned moment
	lateReveal  = time.Hour        // is worth a word
	neverReveal = 24 * time.Hour   // is as bad as none
)

// Answers are the public answers that a slot is checked from, as they were served.
type Answers struct {
	Consent []byte // of GET /v1/mystery/consents/{id}, asked for first
	Day     []byte // of GET /v1/mystery/consents/{id}/days/{day}; nil if there is none
	Shop    []byte // of GET /v1/mystery/shops/{id}
	Stream  []byte // of GET /v1/ledger/streams/shop/{id}
	Seal    []byte // the item of the seal that the reveal names among those of GET /v1/ledger/streams/seal/{consent}; nil if it names none or there is none
	Bundle  []byte // of GET /v1/ledger/bundle?shop={id}, asked for last; nil if there is none, as nothing is signed yet
	Ask     Ask    // what the chain says of batches; nil to take the word of the log
}

// A Verdict is what all checks come to: fail if one fails, else pending if one is.
type Verdict string

// Verdicts.
const (
	VerdictOK      Verdict = "ok"
	VerdictPending Verdict = "pending"
	VerdictFail    Verdict = "fail"
)

// A SlotCheck is one claim about a slot, whether it holds, and what it was checked
// from: the values by which anybody can do so again.
type SlotCheck struct {
	ID     string            `json:"id"`
	Status Status            `json:"status"`
	Detail string            `json:"detail"`
	Inputs map[string]string `json:"inputs"`
}

// A ShopReport is what came of checking a slot.
type ShopReport struct {
	Shop    string      `json:"shopId"`
	Phase   string      `json:"phase"`
	Verdict Verdict     `json:"verdict"`
	Checks  []SlotCheck `json:"checks"`
}

// Shop checks a slot from public answers alone. The checks are
//
//	consent   the owner signed a consent that covers the day
//	plan      the slot's commit stands in the plan that was sealed before the day began
//	cap       the day had as many tasks at most as the consent and the six days before
//	          it left
//	count     the day's key is the one the owner accepted, and the slot is a task or a
//	          pad as that key says: pending until the day is opened
//	choice    seed, moment, identity, endpoint, template and entry follow from it
//	task      question and right answer follow from the seed
//	commit    the slot's commit binds all that, and no more
//	records   the sealed records are the history of the slot: their hashes lead from
//	          the commit to the reveal, their order is possible, the result is theirs
//	sending   what was sent, within its window, is what was planned
//	host      the endpoint was shown to be the owner's when it was sent there
//	payment   what was paid for it, if anything, the consent allows for one task
//	session   the conversation that is shown is the one that was committed to: its
//	          exchanges give the hashes on record, their number and their root
//	reply     the reply is the one that was committed to
//	grade     the reply is marked as this program marks it
//	seal      an hourly seal found the history complete before it was revealed
//	reveal    the reveal was not early, nor a day late
//	inclusion all of it that is public stands in the log that was signed
//	batch     the commit, and the root of the seal, stand in batches on record
//	attestation
//	          these are attested on a chain, each behind the one before: that with the
//	          commit before the task was sent, that with the seal before the reveal
//
// An attestation is checked as the log has it, and at a node of the chain if there is
// a way to ask. Both checks are pending for ever where the ledger has no chain.
//
// Of a sealed slot nothing but consent, plan, inclusion, batch and attestation is
// checked, and no task can be told from a pad by its report. What cannot be read is a [domain.ErrInvalid].
func Shop(a Answers) (*ShopReport, error) {
	s, err := parseSlot(a)
	if err != nil {
		return nil, err
	}
	if a.Bundle != nil {
		s.excerpt, s.excerptErr = OpenBundle(a.Bundle)
	}
	if s.excerpt != nil {
		s.excerpt.Ask = a.Ask
	}
	return s.run(), nil
}

// run makes all checks.
func (s *slot) run() *ShopReport {
	s.checkConsent()
	s.checkPlan()
	switch {
	case s.shown.Phase == phaseSealed && s.plan.Opened == nil:
		s.all(Pending, "pending until the slot is revealed", "cap", "count", "choice", "task", "commit", "records", "sending", "host", "payment", "session", "reply", "grade", "seal", "reveal")
	case s.event == nil:
		s.checkUnrevealed()
	default:
		s.checkCap()
		s.checkCount(true)
		s.checkChoice()
		s.checkTask()
		s.checkRecords()
		s.checkSending()
		s.checkHost()
		s.checkPayment()
		s.checkSession()
		s.checkReply()
		s.checkSeal()
		s.checkReveal()
	}
	s.checkInclusion()
	s.checkAnchors(s.anchors())
	s.report.Verdict = verdictOf(s.report.Checks)
	return &s.report
}

func verdictOf(checks []SlotCheck) Verdict {
	verdict := VerdictOK
	for _, c := range checks {
		if c.Status == Fail {
			return VerdictFail
		}
		if c.Status == Pending {
			verdict = VerdictPending
		}
	}
	return verdict
}

// A slot is a slot while it is checked.
type slot struct {
	report ShopReport
	shown  shownShop
	owner  published
	plan   shownPlan
	secret domain.Hash // of the day; zero until it is opened

	excerpt    *Excerpt // of the public log; nil if there is none
	excerptErr error    // why there is none though there was a bundle

	event     *shop.Revealed // nil unless revealed
	data      []byte         // its canonical JSON
	stream    []shownRecord
	seal      *shownRecord
	sent      *shop.Sent
	sentAt    time.Time
	reserved  *shop.PaymentReserved
	paidAt    time.Time
	settled   *shop.PaymentSettled
	replied   *shop.Replied
	judged    *shop.Judged
	conversed *shop.Converse // what the records say of the session; nil if there was none
	over      time.Time      // when the consent was; zero while it is in force
	task      task.Task
	taskMade  bool // the program has the template, and the task is that of the seed
}

type shownShop struct {
	ID      string      `json:"id"`
	Consent string      `json:"consent"`
	Day     uint32      `json:"day"`
	Slot    int         `json:"slot"`
	Commit  domain.Hash `json:"commit"`
	Phase   string      `json:"phase"`

	Revealed *shownReveal `json:"revealed"`
}

type shownReveal struct {
	Event   json.RawMessage `json:"event"`
	Reply   *shownReply     `json:"reply"`
	Session *shownSession   `json:"session"`
	Erased  *shownErasure   `json:"erased"`
}

type shownReply struct {
	Salt   domain.Hash `json:"salt"`
	Text   *string     `json:"text"`
	Base64 []byte      `json:"base64"`
}

type shownSession struct {
	Salt domain.Hash `json:"salt"`
	shop.Session
}

type shownErasure struct {
	At time.Time `json:"at"`
}

type shownPlan struct {
	Day      uint32        `json:"day"`
	Planned  bool          `json:"planned"`
	SealedAt time.Time     `json:"sealedAt"`
	Commits  []domain.Hash `json:"commits"`
	Eligible domain.Hash   `json:"eligibleHash"`
	Opened   *shownOpening `json:"opened"`

	openedAt time.Time // if the public log was asked
}

type shownOpening struct {
	Key      domain.Hash   `json:"key"`
	Path     []domain.Hash `json:"path"`
	Cap      int           `json:"cap"`
	Count    int           `json:"count"`
	Eligible plan.Eligible `json:"eligible"`

	surfaces []plan.Surface // if the public log was asked
	notes    []plan.Note    // likewise
}

// A shownRecord is a record of the public log.
type shownRecord struct {
	Prev   domain.Hash   `json:"prevHash"`
	Hash   domain.Hash   `json:"hash"`
	Record ledger.Record `json:"record"`
}

// holds reports whether the hash is that of the record.
func (r *shownRecord) holds() bool { return r.Record.ChainHash(r.Prev) == r.Hash }

func parseSlot(a Answers) (*slot, error) {
	s := &slot{}
	var err error
	if s.owner, err = parsePublished(a.Consent); err != nil {
		return nil, err
	}
	var day shownPlan
	var page struct {
		Items []shownRecord `json:"items"`
	}
	for _, part := range []struct {
		name string
		data []byte
		into any
	}{{"day", a.Day, &day}, {"shop", a.Shop, &s.shown}, {"stream", a.Stream, &page}} {
		if part.data == nil && part.into == &day {
			continue
		}
		if err := json.Unmarshal(part.data, part.into); err != nil {
			return nil, fmt.Errorf("the answer about the %s cannot be read: %w: %w", part.name, err, domain.ErrInvalid)
		}
	}
	if a.Seal != nil {
		s.seal = new(shownRecord)
		if err := json.Unmarshal(a.Seal, s.seal); err != nil {
			return nil, fmt.Errorf("the record of the seal cannot be read: %w: %w", err, domain.ErrInvalid)
		}
	}
	s.over, s.stream = s.owner.over, page.Items
	if day.Day == s.shown.Day {
		s.plan = day
	}
	s.report = ShopReport{Shop: s.shown.ID, Phase: s.shown.Phase}
	return s, s.parseEvent()
}

func (s *slot) parseEvent() (err error) {
	switch {
	case s.shown.Phase != phaseRevealed && s.shown.Phase != phaseSealed && s.shown.Phase != phasePad:
		return fmt.Errorf("the slot is %q, which no slot is: %w", s.shown.Phase, domain.ErrInvalid)
	case s.shown.Slot < 0 || s.shown.Slot >= plan.Slots:
		return fmt.Errorf("there is no slot %d: %w", s.shown.Slot, domain.ErrInvalid)
	case (s.shown.Revealed != nil) != (s.shown.Phase == phaseRevealed):
		return fmt.Errorf("the slot is %s, and its reveal does not go with that: %w", s.shown.Phase, domain.ErrInvalid)
	case s.shown.Revealed == nil:
		return nil
	}
	s.event = new(shop.Revealed)
	if err := domain.Unmarshal(s.shown.Revealed.Event, s.event); err != nil {
		return fmt.Errorf("the reveal cannot be read: %w: %w", err, domain.ErrInvalid)
	}
	if s.data, err = domain.Canonical(s.shown.Revealed.Event); err != nil {
		return fmt.Errorf("the reveal cannot be read: %w: %w", err, domain.ErrInvalid)
	}
	return nil
}

type inputs = map[string]string

func (s *slot) say(id string, status Status, in inputs, format string, args ...any) {
	if in == nil {
		in = inputs{}
	}
	s.report.Checks = append(s.report.Checks, SlotCheck{id, status, fmt.Sprintf(format, args...), in})
}

// check says pass or, if there is one, fault.
func (s *slot) check(id string, in inputs, fault, pass string) {
	if fault != "" {
		s.say(id, Fail, in, "%s", fault)
		return
	}
	s.say(id, Pass, in, "%s", pass)
}

func (s *slot) all(status Status, detail string, ids ...string) {
	for _, id := range ids {
		s.say(id, status, nil, "%s", detail)
	}
}

func (s *slot) index() uint32 { return uint32(s.shown.Slot) } //nolint:gosec // below 24

func (s *slot) checkConsent() {
	in := inputs{"consent": s.owner.id, "payloadHash": s.owner.payloadHash.String(), "owner": s.owner.owner.String(), "day": strconv.FormatUint(uint64(s.shown.Day), 10)}
	r, err := s.owner.report()
	switch {
	case err != nil:
		s.say("consent", Fail, in, "%s", domain.Sentence(err))
		return
	case s.owner.id != s.shown.Consent || s.owner.state == "refused" || !s.owner.payload.Covers(s.shown.Day):
		s.say("consent", Fail, in, "no consent that is shown covers the day")
		return
	}
	for _, c := range r.Checks {
		if c.Status == Fail {
			s.say("consent", Fail, in, "%s: %s", c.ID, c.Detail)
			return
		}
	}
	for _, c := range r.Checks {
		if c.ID == "signature" && c.Status == Skipped {
			s.say("consent", Skipped, in, "%s", c.Detail)
			return
		}
	}
	s.say("consent", Pass, in, "%s signed a consent that covers %s", s.owner.owner, domain.DayString(s.shown.Day))
}

func (s *slot) checkPlan() {
	in := inputs{"commit": s.shown.Commit.String(), "sealedAt": s.plan.SealedAt.Format(time.RFC3339Nano)}
	var fault string
	switch {
	case s.shown.ID != plan.ShopID(s.shown.Consent, s.shown.Day, s.index()):
		fault = "the id is not that of the consent, day and slot"
	case !s.plan.Planned || len(s.plan.Commits) != plan.Slots:
		fault = "there is no plan of 24 slots for the day"
	case s.plan.Commits[s.shown.Slot] != s.shown.Commit:
		fault = "the plan has another commit for the slot"
	case !s.plan.SealedAt.Before(domain.DayStart(s.shown.Day)):
		fault = "the plan was sealed when the day had begun"
	default:
		fault = s.committedFault()
	}
	s.check("plan", in, fault, "the commit stands in the plan of the day, which was sealed before it began")
}

// committedFault says what is wrong with the first record of the slot, if it is
// there: the log is signed now and then, and the record may be younger.
func (s *slot) committedFault() string {
	if len(s.stream) == 0 {
		return ""
	}
	first := &s.stream[0]
	var e shop.Committed
	err := domain.Unmarshal(first.Record.Data, &e)
	want := shop.Committed{Consent: s.shown.Consent, Day: s.shown.Day, Slot: s.shown.Slot, Commit: s.shown.Commit}
	if err != nil || e != want || first.Record.Type != want.EventType() || first.Record.Version != 1 ||
		first.Record.Stream != shop.StreamOf(s.shown.ID) || !first.Prev.IsZero() || !first.holds() {
		return "the first record of the slot in the public log is not its commit"
	}
	return ""
}

// checkCount checks whether the slot is what the key of its day makes of it.
func (s *slot) checkCount(isTask bool) {
	o := s.plan.Opened
	if o == nil {
		s.say("count", Pending, nil, "pending until the day is opened")
		return
	}
	s.secret = s.owner.secret(o.Key)
	in := inputs{"key": o.Key.String(), "planKeyRoot": s.owner.payload.PlanKeyRoot.String(), "cap": strconv.Itoa(o.Cap), "count": strconv.Itoa(o.Count)}
	fault := s.owner.keyFault(&s.plan)
	if fault == "" {
		fault = s.owner.countFault(&s.plan)
	}
	switch {
	case fault != "":
	case plan.RealSlots(s.secret, o.Count)[s.index()] != isTask && isTask:
		fault = "the key makes a pad of this slot, and a task was revealed"
	case plan.RealSlots(s.secret, o.Count)[s.index()] != isTask:
		fault = "the key makes a task of this slot, and none was revealed"
	}
	s.check("count", in, fault, "the key that the owner accepted makes this of the slot")
}

// checkUnrevealed checks a slot of an opened day that was not revealed: it has to
// be a pad.
func (s *slot) checkUnrevealed() {
	s.checkCap()
	s.checkCount(false)
	if s.plan.Opened == nil {
		s.all(Fail, "the slot is said to be a pad, and its day is not opened", "commit")
		return
	}
	const none = "a pad holds no task"
	s.all(Skipped, none, "choice", "task")
	seed := plan.Seed(s.secret, s.shown.Consent, s.shown.Day, s.index())
	fault := ""
	if plan.Pad(s.shown.Consent, s.shown.Day, s.index(), seed) != s.shown.Commit {
		fault = "the commit is not that of a pad"
	}
	s.check("commit", inputs{"seed": seed.String(), "commit": s.shown.Commit.String()}, fault, "the commit is that of a pad")
	s.all(Skipped, none, "records", "sending", "host", "payment", "session", "reply", "grade", "seal", "reveal")
}

func (s *slot) checkChoice() {
	e := s.event
	in := inputs{"seed": e.Seed.String()}
	fault := ""
	switch {
	case e.Consent != s.shown.Consent || e.Day != s.shown.Day || e.Slot != s.shown.Slot || e.Agent != s.owner.payload.Agent:
		fault = "the reveal is of another slot"
	case e.SendAt != plan.SendAt(e.Seed, e.Day) || e.Identity != plan.Identity(e.Seed):
		fault = "moment or identity do not follow from the seed"
	}
	if fault != "" || s.plan.Opened == nil {
		if fault != "" {
			s.say("choice", Fail, in, "%s", fault)
		} else {
			s.say("choice", Pending, in, "moment and identity follow from the seed; pending until the day is opened")
		}
		return
	}
	list := s.plan.Opened.Eligible
	switch {
	case e.Seed != plan.Seed(s.secret, e.Consent, e.Day, s.index()):
		fault = "the seed does not follow from the key of the day"
	case list.Empty():
		fault = "nothing was eligible"
	default:
		c := list.Choose(e.Seed)
		if c.Endpoint != e.Endpoint || c.Template != e.Template || c.Version != e.TemplateVersion || c.Entry != e.Entry.Name {
			fault = "endpoint, template or entry are not those that the seed chooses"
		}
	}
	s.check("choice", in, fault, "seed, moment, identity and task follow from the key of the day")
}

// checkTask makes the task again, and the commit from it.
func (s *slot) checkTask() {
	e := s.event
	in := inputs{"seed": e.Seed.String(), "template": e.Template, "templateVersion": strconv.FormatUint(uint64(e.TemplateVersion), 10), "entry": e.Entry.Name}
	planned, err := task.Generate(e.Template, e.TemplateVersion, e.Seed, e.Entry)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		s.all(Skipped, "this program does not have the template in that version", "task", "commit")
		return
	case err != nil:
		s.say("task", Fail, in, "%s", domain.Sentence(err))
		s.say("commit", Fail, in, "there is no task to commit to")
		return
	}
	s.task = planned
	if e.Filled != (task.Filled{}) {
		if s.task, err = planned.Fill(e.Filled); err != nil {
			s.say("task", Fail, in, "%s", domain.Sentence(err))
		}
	}
	if err == nil {
		s.taskMade = s.task.Prompt == e.Prompt && s.task.Ask.Hash() == e.Ask.Hash() && s.task.Expected == e.Expected && s.task.Family == e.Family
		fault := ""
		if !s.taskMade {
			fault = "question or right answer are not those of the seed"
		}
		s.check("task", in, fault, "question and right answer are those of the seed")
	}
	commit := plan.Commit(plan.CommitFields{
		Consent: s.shown.Consent, Day: s.shown.Day, Slot: s.index(), Template: e.Template, TemplateVersion: e.TemplateVersion,
		Endpoint: e.Endpoint, Identity: e.Identity, SendAt: e.SendAt, Seed: e.Seed,
		AskHash: planned.Ask.Hash(), ExpectedHash: plan.ExpectedHash(planned),
	})
	fault := ""
	if commit != s.shown.Commit {
		fault = fmt.Sprintf("what is revealed gives the commit %s", commit)
	}
	s.check("commit", inputs{
		"commit": s.shown.Commit.String(), "askHash": planned.Ask.Hash().String(), "expectedHash": plan.ExpectedHash(planned).String(),
	}, fault, "the commit binds what is revealed")
}

var shopCatalog = domain.NewCatalog(shop.Events)

// checkRecords replays the history of the slot.
func (s *slot) checkRecords() {
	in := inputs{"records": strconv.Itoa(len(s.event.Records))}
	if len(s.stream) < 2 {
		s.recordsFault() // for what the other checks need
		s.say("records", Pending, in, "pending until the signed log covers the reveal")
		return
	}
	in["from"], in["to"] = s.stream[0].Hash.String(), s.stream[1].Hash.String()
	s.check("records", in, s.recordsFault(), "the sealed records lead from the commit to the reveal")
}

func (s *slot) recordsFault() string {
	state, result := shop.StateCommitted, shop.Result{}
	head := domain.Hash{}
	if len(s.stream) > 0 {
		head = s.stream[0].Hash
	}
	records := s.event.Records
	history := make([]shop.Event, len(records))
	for i := range records {
		var fault string
		if history[i], fault = s.sealedEvent(i); fault != "" {
			return fault
		}
		head = records[i].ChainHash(head)
	}
	for first, i := 0, 0; i < len(records); first = i {
		for i < len(records) && records[i].Cause == records[first].Cause {
			i++
		}
		events := history[first:i] // of one command
		if err := shop.Check(state, events); err != nil {
			return domain.Sentence(err)
		}
		for _, e := range events {
			state, result = shop.Decider.Evolve(state, e), result.With(e)
		}
	}
	switch {
	case result != s.event.Result:
		return "the result is not the one of the sealed records"
	case state != shop.StateJudged && state != shop.StateMissed && state != shop.StateCancelled:
		return "the slot was revealed before it had a result"
	case len(s.stream) < 2:
		return ""
	}
	last := &s.stream[1]
	switch {
	case last.Prev != head:
		return "the hashes of the sealed records do not lead from the commit to the reveal"
	case last.Record.Stream != shop.StreamOf(s.shown.ID) || last.Record.Version != uint64(len(records))+2 ||
		last.Record.Type != (shop.Revealed{}).EventType() || !bytes.Equal(last.Record.Data, s.data) || !last.holds():
		return "the reveal is not the one in the public log"
	}
	return ""
}

// sealedEvent returns the event of the i-th sealed record and keeps what it says, or
// says what is wrong with it.
func (s *slot) sealedEvent(i int) (_ shop.Event, fault string) {
	records := s.event.Records
	r := &records[i]
	if r.Stream != shop.StreamOf(s.shown.ID) || r.Version != uint64(i)+2 || i > 0 && r.Time.Before(records[i-1].Time) { //nolint:gosec // an index
		return nil, fmt.Sprintf("sealed record %d is not at its place", i+1)
	}
	decoded, err := shopCatalog.Decode(r.Type, r.Data)
	if err != nil {
		return nil, fmt.Sprintf("sealed record %d cannot be read: %s", i+1, domain.Sentence(err))
	}
	e, ok := decoded.(shop.Event)
	if !ok || shopCatalog.Visibility(r.Type) != domain.Sealed {
		return nil, fmt.Sprintf("record %d is not a sealed one of a slot", i+1)
	}
	switch e := e.(type) {
	case shop.Sent:
		s.sent, s.sentAt = &e, r.Time
	case shop.PaymentReserved:
		s.reserved, s.paidAt = &e, r.Time
	case shop.PaymentSettled:
		s.settled = &e
	case shop.SessionOpened:
		s.conversed = &shop.Converse{Target: e.Target}
	case shop.SessionAction:
		if s.conversed != nil {
			s.conversed.Actions = append(s.conversed.Actions, e.Hash)
		}
	case shop.Replied:
		s.replied = &e
	case shop.Judged:
		s.judged = &e
	case shop.SessionClosed, shop.Missed, shop.Cancelled, shop.Committed, shop.Revealed, shop.Erased:
	}
	return e, ""
}

func (s *slot) checkSending() {
	if s.sent == nil {
		s.say("sending", Skipped, nil, "nothing was sent")
		return
	}
	e, due := s.event, time.Unix(s.event.SendAt, 0).UTC()
	in := inputs{"sendAt": due.Format(time.RFC3339), "sentAt": s.sentAt.Format(time.RFC3339Nano), "ask": s.sent.Ask.String()}
	fault := ""
	switch {
	case s.sentAt.Before(due) || s.sentAt.After(due.Add(sendWindow)):
		fault = "it was not sent within 15 minutes of its moment"
	case s.sent.Endpoint != e.Endpoint || s.sent.Identity != e.Identity || s.sent.Template != e.Template || s.sent.TemplateVersion != e.TemplateVersion:
		fault = "something else was sent than what was planned"
	case s.sent.Filled != e.Filled:
		fault = "the task is revealed with another block or answer than it was sent with"
	case s.task.Prompt != "" && e.Filled == (task.Filled{}) && s.sent.Ask != s.task.Ask.Hash():
		fault = "another question was sent"
	case !s.over.IsZero() && s.sentAt.After(s.over):
		fault = "it was sent after the consent was over"
	}
	s.check("sending", in, fault, "what was planned was sent within its window")
}

// checkSession opens the commitments to the conversation. Whether count and root go
// with the actions on record is a matter of the records.
func (s *slot) checkSession() {
	shown := s.shown.Revealed
	if s.conversed == nil {
		if shown.Session != nil {
			s.say("session", Fail, nil, "a conversation is shown, and none is on record")
			return
		}
		s.say("session", Skipped, nil, "there was no conversation, or it was lost with its worker")
		return
	}
	in := inputs{
		"target": s.conversed.Target.String(), "count": strconv.Itoa(len(s.conversed.Actions)), "root": merkle.Root(s.conversed.Actions).String(),
	}
	switch {
	case shown.Erased != nil:
		s.say("session", Skipped, in, "erased on %s, commitments intact", shown.Erased.At.UTC().Format(time.DateOnly))
		return
	case shown.Session == nil:
		s.say("session", Fail, in, "a conversation is on record, and none is shown")
		return
	}
	in["salt"] = shown.Session.Salt.String()
	fault := ""
	switch c := shown.Session.Converse(s.shown.ID, shown.Session.Salt); {
	case c.Target != s.conversed.Target:
		fault = "the conversation was held elsewhere than is shown"
	case !slices.Equal(c.Actions, s.conversed.Actions):
		fault = "the exchanges that are shown are not those that were committed to"
	}
	s.check("session", in, fault, "the exchanges are those that were committed to")
}

// checkReply opens the commitment to the reply, and marks it again.
func (s *slot) checkReply() {
	shown := s.shown.Revealed
	switch {
	case s.replied == nil && shown.Reply != nil:
		s.say("reply", Fail, nil, "a reply is shown, and none was committed to")
		s.say("grade", Fail, nil, "there was no reply to mark")
		return
	case s.replied == nil:
		s.all(Skipped, "there is no reply", "reply", "grade")
		return
	case shown.Erased != nil:
		s.all(Skipped, fmt.Sprintf("erased on %s, commitment intact", shown.Erased.At.UTC().Format(time.DateOnly)), "reply", "grade")
		return
	case shown.Reply == nil:
		s.say("reply", Fail, inputs{"hash": s.replied.Hash.String()}, "a reply was committed to, and none is shown")
		s.say("grade", Skipped, nil, "the reply is not shown")
		return
	}
	body := shown.Reply.Base64
	if shown.Reply.Text != nil {
		body = []byte(*shown.Reply.Text)
	}
	r := s.replied
	in := inputs{
		"hash": r.Hash.String(), "salt": shown.Reply.Salt.String(), "receivedAtMs": strconv.FormatInt(r.ReceivedAtMs, 10),
		"status": strconv.Itoa(r.Status), "latencyMs": strconv.FormatInt(r.LatencyMs, 10), "bodyHash": domain.Sum(body).String(),
	}
	fault := ""
	if !r.CommitsTo(s.shown.ID, shown.Reply.Salt, body) {
		fault = "the reply that is shown is not the one that was committed to"
	}
	s.check("reply", in, fault, "the reply is the one that was committed to")
	if fault != "" {
		s.say("grade", Skipped, nil, "the reply that was marked is not shown")
		return
	}
	s.checkGrade(string(body))
}

func (s *slot) checkGrade(reply string) {
	j := s.judged
	switch {
	case j == nil || !s.replied.Answer || j.Rule == shop.WorkerLost:
		s.say("grade", Skipped, nil, "what came was no answer to mark")
		return
	case j.Grader != task.GraderVersion:
		s.say("grade", Skipped, nil, "it was marked by grader %d, and this program has %d", j.Grader, task.GraderVersion)
		return
	case !s.taskMade:
		s.say("grade", Skipped, nil, "there is no task that is sure to be the one that was asked")
		return
	}
	g := task.Mark(s.task, reply)
	again := shop.Judged{Outcome: g.Outcome, Rule: g.Rule, Literal: g.Literal, Offset: g.Offset, Length: g.Length, Grader: task.GraderVersion}
	fault := ""
	if again != *j {
		fault = fmt.Sprintf("this program marks the reply %s (%s) at byte %d, and it was marked %s (%s) at byte %d", g.Outcome, g.Rule, g.Offset, j.Outcome, j.Rule, j.Offset)
	}
	s.check("grade", inputs{"outcome": string(j.Outcome), "rule": j.Rule}, fault, "this program marks the reply the same")
}

// checkSeal checks the seal that pinned the history. There need not be one if no
// hour whose seal covers the slot began between its end and its reveal. That the consent
// was over by then excuses nobody, as its seals go on until its days are opened.
func (s *slot) checkSeal() {
	p := s.event.Pinned
	if len(s.stream) < 2 || len(s.event.Records) == 0 {
		s.say("seal", Pending, nil, "pending until the signed log covers the reveal")
		return
	}
	end, revealed := s.event.Records[len(s.event.Records)-1].Time, s.stream[1].Record.Time
	in := inputs{"head": s.stream[1].Prev.String(), "endedAt": end.Format(time.RFC3339Nano), "revealedAt": revealed.Format(time.RFC3339Nano)}
	if p.Path == nil {
		hour := max(seal.HourOf(end)+1, seal.FirstHour(s.shown.Day))
		if revealed.After(seal.HourStart(hour)) && seal.Covers(hour, s.shown.Day) {
			s.say("seal", Fail, in, "an hour began between the end of the slot and its reveal, and no seal pins it")
			return
		}
		s.say("seal", Skipped, in, "it was revealed before the next hour that is sealed began")
		return
	}
	in["hour"], in["salt"] = strconv.FormatUint(p.Hour, 10), p.Salt.String()
	if s.seal == nil {
		s.say("seal", Fail, in, "the seal that the reveal names is not in the public log")
		return
	}
	var e seal.Sealed
	err := domain.Unmarshal(s.seal.Record.Data, &e)
	fault := ""
	switch {
	case err != nil || s.seal.Record.Type != e.EventType() || s.seal.Record.Stream != seal.StreamOf(s.shown.Consent) ||
		e.Consent != s.shown.Consent || e.Hour != p.Hour || !s.seal.holds():
		fault = "the record is not that of the seal that the reveal names"
	case s.seal.Record.Time.After(revealed) || s.seal.Record.Time.Before(end):
		fault = "the seal was not made between the end of the slot and its reveal"
	default:
		in["root"] = e.Root.String()
		if err := seal.VerifyPath(e.Root, p.Hour, s.shown.Day, s.index(), p.Salt, s.stream[1].Prev, p.Path); err != nil {
			fault = domain.Sentence(err)
		}
		if s.plan.Opened != nil && p.Salt != seal.Salt(s.secret, p.Hour, s.index()) {
			fault = "the salt does not follow from the key of the day"
		}
	}
	s.check("seal", in, fault, "a seal found the history complete before it was revealed")
}

func (s *slot) checkReveal() {
	if len(s.stream) < 2 {
		s.say("reveal", Pending, nil, "pending until the signed log covers the reveal")
		return
	}
	due := time.Unix(s.event.SendAt, 0).UTC()
	if s.sent != nil {
		due = s.sentAt
	}
	due = due.Add(s.owner.payload.RevealDelay())
	at := s.stream[1].Record.Time
	if !s.over.IsZero() && s.over.Before(due) {
		due = s.over
	}
	late := at.Sub(due)
	in := inputs{"dueAt": due.Format(time.RFC3339Nano), "revealedAt": at.Format(time.RFC3339Nano)}
	switch {
	case late < 0:
		s.say("reveal", Fail, in, "it was revealed before it was due")
	case late > neverReveal:
		s.say("reveal", Fail, in, "it was revealed more than a day late")
	case late > lateReveal:
		s.say("reveal", Pass, in, "it was revealed, though %s late", late.Truncate(time.Minute))
	default:
		s.say("reveal", Pass, in, "it was revealed when it was due")
	}
}

// SealOf returns the item of the seal that a reveal names, nil if it names none or
// there is none. get returns the record of the given version of the stream of seals,
// as the public log shows it, or nil behind the end. answers about consent and shop
// must be there.
func SealOf(a Answers, get func(version uint64) ([]byte, error)) ([]byte, error) {
	s, err := parseSlot(a)
	if err != nil || s.event == nil {
		return nil, err
	}
	return PinnedSeal(s.owner.payload.FirstDay, s.shown.Day, s.event.Pinned, get)
}

// PinnedSeal is [SealOf] for who has read what the reveal of a slot of some day names, and
// knows the first day of its consent.
func PinnedSeal(firstDay, day uint32, p shop.Pinned, get func(version uint64) ([]byte, error)) (item []byte, err error) {
	if p.Path == nil || !seal.Covers(p.Hour, day) {
		return nil, nil
	}
	_, err = FindSeal(firstDay, p.Hour, func(version uint64) (uint64, error) {
		var r shownRecord
		var e seal.Sealed
		if item, err = get(version); err != nil || item == nil {
			return 0, err
		}
		if err := json.Unmarshal(item, &r); err != nil {
			return 0, fmt.Errorf("the record of a seal cannot be read: %w: %w", err, domain.ErrInvalid)
		}
		if err := domain.Unmarshal(r.Record.Data, &e); err != nil {
			return 0, fmt.Errorf("the record of a seal cannot be read: %w: %w", err, domain.ErrInvalid)
		}
		return e.Hour, nil
	})
	if errors.Is(err, errNoSeal) {
		return nil, nil
	}
	return item, err
}

var errNoSeal = fmt.Errorf("there is no seal of the hour: %w", domain.ErrNotFound)

// FindSeal returns the version of the seal of an hour in the stream of seals of a consent
// whose first day is given, or [domain.ErrNotFound]. hourAt returns the hour of the seal
// that is some version of the stream, 0 behind the end. The last version that it is called
// with is the one that is found.
//
// Hours go up by one at least from version to version, and few are missed. So the seal is
// the very one that it is if none was missed, or as many versions before it at most as the
// hour there is too late.
func FindSeal(firstDay uint32, hour uint64, hourAt func(version uint64) (uint64, error)) (version uint64, err error) {
	first := seal.FirstHour(firstDay)
	if hour < first {
		return 0, errNoSeal
	}
	from, to := uint64(1), hour-first+1
	for version = to; from <= to; version = from + (to-from)/2 {
		at, err := hourAt(version)
		switch {
		case err != nil:
			return 0, err
		case at == hour:
			return version, nil
		case at == 0:
			to = version - 1
		case at > hour:
			from, to = max(from, version-min(version-1, at-hour)), version-1
		default:
			from, to = version+1, min(to, version+(hour-at))
		}
	}
	return 0, errNoSeal
}
