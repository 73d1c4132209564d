package explorer

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/projections"
)

// How much of a list stands on one page.
const (
	tasksPerPage = 30
	daysPerPage  = 10
)

var (
	consentIDs = regexp.MustCompile(`^cns_[a-z2-7]{20}$`)
	shopIDs    = regexp.MustCompile(`^shp_[a-z2-7]{20}_[0-9]{8}_[0-9]{2}$`)
)

// errNoPage is what an address without a page comes to.
var errNoPage = fmt.Errorf("there is nothing at this address: %w", domain.ErrNotFound)

type consentPage struct {
	frame

	Consent     projections.Consent
	State       string
	OwnerText   string
	Message     string
	PayloadHash domain.Hash
	Verified    string
	Delay       string
	FirstDay    string
	LastDay     string
	Why         string // it is over or was refused
	Proofs      []projections.Proof
	Revocation  string // the message that revoked it

	Finding   *comparison
	Chosen    bool                  // it was asked for by its look; else it is the latest
	Discussed []comparison          // others that were replied to or corrected
	Incident  *projections.Incident // nil without a disclosed one
	Plot      drawing
	Families  []plotRow
	Latency   *drawing
	Timeline  *drawing
	Revealed  int
	LastTask  *time.Time
	Tasks     []taskRow
	MoreTasks string // query of the next page; "" on the last
	Earlier   bool   // this is not the first page
	Days      []dayRow
	MoreDays  string
	NextDay   *openingDay
}

// A taskRow is a revealed task in a list.
type taskRow struct {
	projections.RevealedTask

	Ending string
	Class  string
}

func taskRowsOf(tasks []projections.RevealedTask) []taskRow {
	rows := make([]taskRow, len(tasks))
	for i, t := range tasks {
		rows[i] = taskRow{t, endingWord(t.Ending), endingClass(t.Ending)}
	}
	return rows
}

// endingClass is right, wrong or lost, like the marks of the timeline.
func endingClass(ending string) string {
	right, wrong, _ := split(map[string]int{ending: 1})
	switch {
	case right > 0:
		return "right"
	case wrong > 0:
		return "wrong"
	}
	return "lost"
}

// A dayRow is a day of a consent.
type dayRow struct {
	Date     string
	Day      uint32
	Sealed   bool
	SealedAt time.Time
	Opened   bool
	OpenedAt time.Time
	Due      time.Time // to be opened, at the earliest and if nothing ends the consent before
	Count    int
	Cap      int
	Notes    []dayNote
	Slots    []slotLink
}

// A dayNote says what was not shopped on a day, and why.
type dayNote struct {
	plan.Note

	Why string
}

// A slotLink leads to a slot. It reads the same for a task and a pad.
type slotLink struct{ Number, Shop string }

// An openingDay is the day that is opened next.
type openingDay struct {
	Date string
	Due  time.Time
}

func (p *Pages) consent(r *http.Request, f frame, _ projections.Status) (any, error) {
	ctx, id := r.Context(), chi.URLParam(r, "consent")
	if !consentIDs.MatchString(id) {
		return nil, errNoPage
	}
	c, err := p.config.Reader.Consent(ctx, id)
	if err != nil {
		return nil, err
	}
	v := consentPage{frame: f, Consent: c}
	v.Own = c.Demo
	v.Title = "Consent of " + bareRef(c.Agent)
	v.Description = "What was signed for this agent, every task that was revealed, and how it compares with the exam."
	if err := v.signed(c); err != nil {
		return nil, err
	}
	if v.Proofs, err = p.config.Reader.Proofs(ctx, c); err != nil {
		return nil, err
	}
	if c.State == projections.Refused {
		return v, nil
	}
	if err := p.compared(ctx, &v, r.URL.Query().Get("look")); err != nil {
		return nil, err
	}
	if err := p.tasks(ctx, &v, r.URL.Query().Get("tasks")); err != nil {
		return nil, err
	}
	return v, p.days(ctx, &v, r.URL.Query().Get("days"))
}

// signed fills in what the owner signed.
func (v *consentPage) signed(c projections.Consent) (err error) {
	v.State = stateWords[c.State]
	v.OwnerText = c.Payload.Owner.String()
	v.Delay = span(time.Duration(c.Payload.RevealDelaySeconds) * time.Second)
	v.FirstDay, v.LastDay = day(c.Payload.FirstDay), day(c.Payload.LastDay)
	v.Verified = verifiedBy(c.Verified)
	v.Why = whyOver(c)
	if v.Message, err = c.Payload.Message(); err != nil {
		return err
	}
	if v.PayloadHash, err = c.Payload.Hash(); err != nil {
		return err
	}
	if e := c.Revocation; e != nil {
		v.Revocation = c.Payload.Revocation(e.Nonce, e.IssuedAt).Message()
	}
	return nil
}

// verifiedBy says how a signature was found to be the owner's.
func verifiedBy(v consent.Verification) string {
	switch v.Method {
	case consent.ByWallet:
		return fmt.Sprintf("The contract at the owner’s address accepts it (ERC-1271), asked at block %d of chain %d.", v.At.Number, v.At.Chain)
	case consent.ByFactory:
		return fmt.Sprintf("The contract that it says how to deploy at the owner’s address accepts it (ERC-6492), asked at block %d of chain %d.", v.At.Number, v.At.Chain)
	case consent.ByKey:
	}
	return "The key recovered from it is that of the owner’s account (EIP-191)."
}

// whyOver says why a consent is over, or was refused.
func whyOver(c projections.Consent) string {
	switch consent.EndReason(c.Reason) {
	case consent.Expired:
		return "Its last day is over."
	case consent.OwnerChanged:
		return "The agent changed hands."
	case consent.CertificateWithdrawn:
		return "The agent’s certificate was withdrawn."
	}
	switch c.State {
	case projections.Revoked:
		return "Its owner revoked it."
	case projections.Refused:
		return sentence(c.Reason)
	}
	return ""
}

// maxDiscussed is how many comparisons that were replied to or corrected a page lists.
const maxDiscussed = 10

// compared fills in a comparison, that of a look or with "" the latest, which others were
// replied to or corrected, and what followed.
func (p *Pages) compared(ctx context.Context, v *consentPage, look string) error {
	found, err := p.lookedAt(ctx, v.Consent.ID, look)
	if err != nil || found == nil {
		return err
	}
	if v.Finding, err = p.discussed(ctx, *found); err != nil {
		return err
	}
	v.Chosen = look != ""
	others, err := p.config.Reader.Findings(ctx, projections.FindingQuery{Consent: v.Consent.ID, Discussed: true, Limit: maxDiscussed})
	if err != nil {
		return err
	}
	for _, f := range others {
		if f.Look != found.Look {
			v.Discussed = append(v.Discussed, comparisonOf(f))
		}
	}
	incidents, err := p.config.Reader.Incidents(ctx, projections.IncidentQuery{Consent: v.Consent.ID, Limit: 1})
	if err != nil {
		return err
	}
	if len(incidents) > 0 {
		v.Incident = &incidents[0]
	}
	c := *v.Finding
	rows := rowsOf(c)
	v.Families = rows[1:]
	v.Plot = examVersusField("plot", rows, c.Thresholds)
	if d, ok := latencies("latency", c.Reached); ok {
		v.Latency = &d
	}
	return nil
}

// lookedAt returns the comparison of a look at a consent, or with "" the latest, nil if
// there is none.
func (p *Pages) lookedAt(ctx context.Context, consentID, look string) (*projections.Finding, error) {
	if look == "" {
		return p.config.Reader.LatestFinding(ctx, consentID)
	}
	n, err := strconv.ParseInt(look, 10, 32)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("the address names no look at this consent: %w", domain.ErrInvalid)
	}
	f, err := p.config.Reader.Finding(ctx, consentID, int(n))
	return &f, err
}

// discussed is a comparison with the words of the owner.
func (p *Pages) discussed(ctx context.Context, f projections.Finding) (*comparison, error) {
	c := comparisonOf(f)
	if f.Reply == nil {
		return &c, nil
	}
	text, err := p.config.OwnerReply(ctx, *f.Reply)
	c.ReplyText = readable([]byte(text))
	return &c, err
}

// tasks fills in a page of revealed tasks: those before the one that cursor names.
func (p *Pages) tasks(ctx context.Context, v *consentPage, cursor string) error {
	var before *projections.ShopKey
	if cursor != "" {
		key, err := shopKeyOf(v.Consent.ID, cursor)
		if err != nil {
			return err
		}
		before, v.Earlier = &key, true
	}
	tasks, err := p.config.Reader.RevealedTasks(ctx, v.Consent.ID, before, tasksPerPage+1)
	if err != nil {
		return err
	}
	if len(tasks) > tasksPerPage {
		tasks = tasks[:tasksPerPage]
		v.MoreTasks = tasks[tasksPerPage-1].Shop
	}
	v.Tasks = taskRowsOf(tasks)
	tallies, err := p.config.Reader.Tallies(ctx, v.Consent.ID)
	if err != nil || len(tallies) == 0 {
		return err
	}
	for _, t := range tallies {
		v.Revealed += sum(t.Endings)
	}
	d := timeline("timeline", v.Consent.Payload.FirstDay, v.Consent.Payload.LastDay, tallies)
	v.Timeline = &d
	if !v.Earlier && len(tasks) > 0 {
		v.LastTask = &tasks[0].Planned
	}
	return nil
}

// shopKeyOf reads the id of a slot of a consent as a place among its slots.
func shopKeyOf(consentID, shop string) (k projections.ShopKey, err error) {
	bad := fmt.Errorf("the address names no task of this consent: %w", domain.ErrInvalid)
	if !shopIDs.MatchString(shop) || shop[4:24] != consentID[4:] {
		return k, bad
	}
	date, err := time.Parse("20060102", shop[25:33])
	if err != nil {
		return k, bad
	}
	slot, err := strconv.Atoi(shop[34:])
	if err != nil || slot >= plan.Slots {
		return k, bad
	}
	return projections.ShopKey{Day: domain.DayOf(date), Slot: slot}, nil
}

// days fills in the days of the consent, the latest first: those before the day that
// cursor names.
func (p *Pages) days(ctx context.Context, v *consentPage, cursor string) error {
	next, err := p.config.Reader.Plans(ctx, projections.PlanQuery{Consent: v.Consent.ID, Unopened: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(next) > 0 {
		v.NextDay = &openingDay{day(next[0].Day), openedAt(v.Consent, next[0].Day)}
	}
	q := projections.PlanQuery{Consent: v.Consent.ID, Latest: true, Limit: daysPerPage + 1}
	if cursor != "" {
		before, err := strconv.ParseUint(cursor, 10, 32)
		if err != nil || before == 0 {
			return fmt.Errorf("the address names no day: %w", domain.ErrInvalid)
		}
		q.Before, v.Earlier = uint32(before), true
	}
	plans, err := p.config.Reader.Plans(ctx, q)
	if err != nil {
		return err
	}
	if len(plans) > daysPerPage {
		plans = plans[:daysPerPage]
		v.MoreDays = strconv.FormatUint(uint64(plans[daysPerPage-1].Day), 10)
	}
	for _, d := range plans {
		v.Days = append(v.Days, dayRowOf(v.Consent, d))
	}
	return nil
}

// openedAt is when a day is due to be opened, if nothing ends the consent before.
func openedAt(c projections.Consent, day uint32) time.Time {
	return domain.DayStart(day + 1).Add(time.Hour + time.Duration(c.Payload.RevealDelaySeconds)*time.Second)
}

func dayRowOf(c projections.Consent, d projections.Plan) dayRow {
	row := dayRow{Date: day(d.Day), Day: d.Day, Sealed: d.Sealed != nil, SealedAt: d.SealedAt, Opened: d.Opened != nil, OpenedAt: d.OpenedAt, Due: openedAt(c, d.Day)}
	if d.Opened != nil {
		row.Count, row.Cap = d.Opened.Count, d.Opened.Cap
		for _, n := range d.Opened.Notes {
			row.Notes = append(row.Notes, dayNote{n, n.Reason.Sentence()})
		}
	}
	for slot := range uint32(plan.Slots) {
		if row.Sealed {
			row.Slots = append(row.Slots, slotLink{fmt.Sprintf("%02d", slot), plan.ShopID(c.ID, d.Day, slot)})
		}
	}
	return row
}
