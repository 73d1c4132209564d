package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
)

// Phases of a day.
const (
	phaseOpened = "opened"
	phaseAbsent = "absent" // the log has nothing of it
)

// A DayReport is what came of checking a day of a consent.
type DayReport struct {
	Consent string      `json:"consent"`
	Day     uint32      `json:"day"`
	Phase   string      `json:"phase"`
	Verdict Verdict     `json:"verdict"`
	Checks  []SlotCheck `json:"checks"`
}

// dayChecks are the checks that wait for the opening of a day.
var dayChecks = []string{"key", "cap", "count", "permutation", "pads", "tasks", "terminal", "notes", "opening"}

// DayOf checks a day of a consent as a whole from a bundle that has all of it, as
// [Excerpt.Day] does. A bundle that does not hold fails the check inclusion. It returns
// [domain.ErrNotFound] for a consent that the bundle does not have.
func DayOf(bundle []byte, consent string, day uint32) (*DayReport, error) {
	x, err := OpenBundle(bundle)
	if err != nil {
		fault := SlotCheck{"inclusion", Fail, domain.Sentence(err), inputs{}}
		return &DayReport{consent, day, phaseAbsent, VerdictFail, []SlotCheck{fault}}, nil
	}
	return x.Day(consent, day)
}

// Day checks a day of a consent as a whole. The checks are
//
//	inclusion    all that the others are made from stands in the signed log
//	consent      the owner signed a consent that covers the day
//	plan         one plan of 24 commits was sealed before the day began
//	commits      each of the 24 slots begins with the commit that the plan has for it
//	batch        all 24 commits stand in batches on record
//	attestation  these are attested on a chain, each behind the one before
//	key          the day's key is the one that the owner accepted
//	cap          the day had as many tasks at most as was left
//	count        the key makes as many tasks as are said to be, of the list that was sealed
//	permutation  just the slots that the key picks were revealed as tasks
//	pads         the commit of every other slot is that of a pad, and nothing happened there
//	tasks        every task passes its own checks, as [Shop] makes them
//	terminal     every task came to one end
//	notes        the day says what was not shopped, as far as others can tell
//	opening      the day was opened when it was due
//
// Before a day is opened only the first six are made, so the report is the same
// whatever became of any slot. What the log does not cover yet is pending.
func (x *Excerpt) Day(consent string, day uint32) (*DayReport, error) {
	signed := x.consents[consent]
	if signed == nil {
		return nil, fmt.Errorf("the bundle does not have the consent %s: %w", consent, domain.ErrNotFound)
	}
	owner, err := signed.published()
	if err != nil {
		return nil, err
	}
	d := &dayCheck{slot: slot{excerpt: x, owner: owner, over: signed.over}}
	d.shown = shownShop{Consent: consent, Day: day}
	d.report.Phase = phaseAbsent
	if p := x.plans[planKey{consent, day}]; p != nil {
		d.plan, d.report.Phase = *p, phaseSealed
	}
	if d.plan.Opened != nil {
		d.report.Phase = phaseOpened
	}
	for i := range uint32(plan.Slots) {
		d.ids[i] = plan.ShopID(consent, day, i)
	}
	d.say("inclusion", Pass, inputs{"log": x.Log.Origin, "size": strconv.FormatUint(x.Log.Size, 10)}, "all of it stands in the signed log of %d records", x.Log.Size)
	d.checkConsent()
	d.checkPlan()
	d.checkCommits()
	d.checkRolled()
	if d.plan.Opened == nil {
		d.all(Pending, "pending until the day is opened", dayChecks...)
	} else {
		d.checkOpened()
	}
	return &DayReport{consent, day, d.report.Phase, verdictOf(d.report.Checks), d.report.Checks}, nil
}

// A dayCheck is a day while it is checked: what its slots have in common, and their
// ids.
type dayCheck struct {
	slot

	ids [plan.Slots]string
}

func (d *dayCheck) checkPlan() {
	start := domain.DayStart(d.shown.Day)
	in := inputs{"sealedAt": d.plan.SealedAt.Format(time.RFC3339Nano), "eligibleHash": d.plan.Eligible.String()}
	fault := ""
	switch {
	case d.report.Phase == phaseAbsent:
		d.say("plan", Pending, nil, unsigned)
		return
	case !d.plan.Planned:
		d.say("plan", Fail, nil, "no plan was sealed for the day")
		return
	case !d.plan.SealedAt.Before(start):
		fault = "the plan was sealed when the day had begun"
	}
	d.check("plan", in, fault, "one plan of 24 commits was sealed before the day began")
}

func (d *dayCheck) checkCommits() {
	missing := 0
	for i, id := range d.ids {
		of := d.excerpt.shops[id]
		switch {
		case of == nil:
			missing++
		case !d.plan.Planned || of.committed.Commit != d.plan.Commits[i]:
			d.say("commits", Fail, inputs{"slot": id}, "%s begins with another commit than the plan has for it", id)
			return
		}
	}
	switch {
	case !d.plan.Planned && d.plan.Opened != nil:
		d.say("commits", Skipped, nil, "the day has no plan")
	case missing > 0:
		d.say("commits", Pending, nil, "pending until the signed log covers %d more slots", missing)
	default:
		d.say("commits", Pass, nil, "all 24 slots begin with the commits of the plan")
	}
}

// checkRolled looks for the commits of the plan in batches. When each task was sent is
// for its own checks.
func (d *dayCheck) checkRolled() {
	switch {
	case d.plan.Planned:
		list := make([]anchor, len(d.plan.Commits))
		for i, c := range d.plan.Commits {
			list[i] = anchor{of: c, name: "a commit of the day"}
		}
		d.checkAnchors(list)
	case d.plan.Opened != nil:
		d.all(Skipped, "the day has no plan", "batch", "attestation")
	default:
		d.all(Pending, unsigned, "batch", "attestation")
	}
}

// checkOpened makes the checks of a day that is opened.
func (d *dayCheck) checkOpened() {
	o := d.plan.Opened
	d.secret = d.owner.secret(o.Key)
	d.check("key", inputs{"key": o.Key.String(), "planKeyRoot": d.owner.payload.PlanKeyRoot.String()}, d.owner.keyFault(&d.plan), "the key is the one that the owner accepted")
	d.checkCap()
	d.check("count", inputs{"cap": strconv.Itoa(o.Cap), "count": strconv.Itoa(o.Count)}, d.owner.countFault(&d.plan), fmt.Sprintf("the key makes %d tasks of the day", o.Count))
	if d.plan.Planned {
		d.checkSlots()
	} else {
		d.all(Skipped, "the day has no plan", "permutation", "pads", "tasks", "terminal")
	}
	d.checkNotes()
	d.checkOpening()
}

// checkSlots looks at all slots.
func (d *dayCheck) checkSlots() {
	picked := plan.RealSlots(d.secret, d.plan.Opened.Count)
	in := inputs{"slots": strings.Trim(fmt.Sprint(picked.Ascending()), "[]")}
	faults := make(map[string]string)
	pending := make(map[string]string)
	note := func(of map[string]string, check, id, what string) {
		if of[check] == "" {
			of[check] = id + ": " + what
		}
	}
	for i, id := range d.ids {
		of := d.excerpt.shops[id]
		switch {
		case of == nil:
			for _, check := range []string{"permutation", "pads", "tasks", "terminal"} {
				note(pending, check, id, unsigned)
			}
		case picked[i] && of.revealed == nil:
			note(faults, "permutation", id, "the key makes a task of it, and none was revealed")
		case !picked[i] && of.revealed != nil:
			note(faults, "permutation", id, "the key makes a pad of it, and a task was revealed")
		case !picked[i]:
			if plan.Pad(d.shown.Consent, d.shown.Day, uint32(i), plan.Seed(d.secret, d.shown.Consent, d.shown.Day, uint32(i))) != of.committed.Commit {
				note(faults, "pads", id, "the commit is not that of a pad")
			}
		default:
			if ends := endsOf(of.revealed.Records); ends != 1 {
				note(faults, "terminal", id, fmt.Sprintf("it came to %d ends", ends))
			}
			d.checkTaskOf(id, func(c SlotCheck) {
				if c.Status == Fail {
					note(faults, "tasks", id, c.ID+": "+c.Detail)
				} else {
					note(pending, "tasks", id, c.ID+": "+c.Detail)
				}
			})
		}
	}
	for _, c := range [][2]string{
		{"permutation", "the slots that the key picks are those that were revealed as tasks"},
		{"pads", "all other slots are pads, and nothing happened there"},
		{"tasks", "every task passes all of its checks"},
		{"terminal", "every task came to one end"},
	} {
		switch id := c[0]; {
		case faults[id] != "":
			d.say(id, Fail, in, "%s", faults[id])
		case pending[id] != "":
			d.say(id, Pending, in, "%s", pending[id])
		default:
			d.say(id, Pass, in, "%s", c[1])
		}
	}
}

// checkTaskOf makes the checks of a task and tells of those that do not pass.
func (d *dayCheck) checkTaskOf(id string, tell func(SlotCheck)) {
	s, err := d.excerpt.slot(id)
	if err != nil {
		tell(SlotCheck{"records", Fail, domain.Sentence(err), nil})
		return
	}
	for _, c := range s.run().Checks {
		if c.Status == Fail || c.Status == Pending {
			tell(c)
		}
	}
}

// endsOf counts the records by which a slot comes to an end.
func endsOf(records []ledger.Record) (n int) {
	ends := []domain.Type{shop.Judged{}.EventType(), shop.Missed{}.EventType(), shop.Cancelled{}.EventType()}
	for i := range records {
		if slices.Contains(ends, records[i].Type) {
			n++
		}
	}
	return n
}

// openedFrom is when in the day after it a day is due to be opened, but for the delay.
const openedFrom = time.Hour

func (d *dayCheck) checkOpening() {
	due := domain.DayStart(d.shown.Day + 1).Add(openedFrom + d.owner.payload.RevealDelay())
	at := d.plan.openedAt
	early := at.Before(due)
	if !d.over.IsZero() && d.over.Before(due) {
		due = d.over
	}
	in := inputs{"dueAt": due.Format(time.RFC3339Nano), "openedAt": at.Format(time.RFC3339Nano)}
	for _, id := range d.ids {
		if of := d.excerpt.shops[id]; of != nil && of.revealed != nil && of.records[len(of.records)-1].Record.Time.After(due) && of.erasedAt.IsZero() {
			due = of.records[len(of.records)-1].Record.Time // tasks under way come first
		}
	}
	switch late := at.Sub(due); {
	case early && (d.over.IsZero() || at.Before(d.over)):
		d.say("opening", Fail, in, "the day was opened before it was due")
	case late > neverReveal:
		d.say("opening", Fail, in, "the day was opened more than a day late")
	case late > lateReveal:
		d.say("opening", Pass, in, "the day was opened, though %s late", late.Truncate(time.Minute))
	default:
		d.say("opening", Pass, in, "the day was opened when it was due")
	}
}

// A BundleReport is what came of checking everything in a bundle.
type BundleReport struct {
	Log      string           `json:"log"`
	Key      string           `json:"key"`
	Size     uint64           `json:"size"`
	Root     domain.Hash      `json:"root"`
	Records  int              `json:"records"`
	Replies  int              `json:"replies"`
	Verdict  Verdict          `json:"verdict"`
	Consents []*ConsentReport `json:"consents"`
	Days     []*DayReport     `json:"days"`
	Shops    []*ShopReport    `json:"shops"`
}

// Report checks every consent, every slot, and every day all of whose slots are there;
// and days without a plan, if all others of the consent are there. What the log holds
// and no ledger can hold is an [ErrFailed].
func (x *Excerpt) Report() (*BundleReport, error) {
	r, err := x.reportAll()
	if err != nil {
		return nil, fmt.Errorf("the bundle does not hold: %w: %w", err, ErrFailed)
	}
	return r, nil
}

func (x *Excerpt) reportAll() (*BundleReport, error) {
	r := &BundleReport{
		Log: x.Log.Origin, Key: x.Key, Size: x.Log.Size, Root: x.Log.Root, Records: x.counts.records, Replies: x.counts.replies,
		Consents: []*ConsentReport{}, Days: []*DayReport{}, Shops: []*ShopReport{}, Verdict: VerdictOK,
	}
	for _, id := range x.signed() {
		owner, err := x.consents[id].published()
		if err != nil {
			return nil, err
		}
		c, err := owner.report()
		if err != nil {
			return nil, err
		}
		r.Consents = append(r.Consents, c)
		if c.Failed() {
			r.Verdict = VerdictFail
		}
	}
	slots := make(map[planKey]int)
	for _, id := range x.order {
		s, err := x.slot(id)
		if err != nil {
			return nil, err
		}
		report := s.run()
		r.Shops = append(r.Shops, report)
		r.Verdict = worse(r.Verdict, report.Verdict)
		slots[planKey{s.shown.Consent, s.shown.Day}]++
	}
	partial := make(map[string]bool)
	for key, p := range x.plans {
		partial[key.consent] = partial[key.consent] || p.Planned && slots[key] < plan.Slots
	}
	for _, key := range x.days() {
		if slots[key] < plan.Slots && partial[key.consent] {
			continue
		}
		d, err := x.Day(key.consent, key.day)
		if err != nil {
			return nil, err
		}
		r.Days = append(r.Days, d)
		r.Verdict = worse(r.Verdict, d.Verdict)
	}
	return r, nil
}

// worse returns the worse of two verdicts.
func worse(a, b Verdict) Verdict {
	if a == VerdictFail || b == VerdictOK {
		return a
	}
	return b
}
