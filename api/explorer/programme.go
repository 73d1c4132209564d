package explorer

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/projections"
)

// How much of each list stands on the page of the programme.
const (
	findingsPerPage = 20
	consentsPerPage = 20
)

type programmePage struct {
	frame

	PerDay     int
	Totals     totals
	DemoTotals *totals // nil if there are none

	Counts       []countedVerdict
	All          int    // consents that were compared
	Verdict      string // that is chosen; "" for all
	Findings     []comparison
	MoreFindings string // query of the next page; "" on the last
	Earlier      bool
	Plot         *drawing // of these
	MinDrop      int

	Consents     []consentRow
	MoreConsents string

	Terms  []terms.Term
	Limits []limit
	OptIn  optInPage
}

// totals are figures as people read them.
type totals struct{ Consents, Revealed, Findings string }

func totalsOf(t projections.Totals) totals {
	return totals{grouped(t.Consents[projections.Active]), grouped(sum(t.Revealed)), grouped(sum(t.Findings))}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// grouped writes a number with commas between groups of three digits.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return strings.Join(groups, ",")
}

func (p *Pages) programme(r *http.Request, f frame, s projections.Status) (any, error) {
	f.Title = "Mystery Shopper"
	f.Description = "Whether agents with a Karatum certificate do as well on an ordinary day as in their exam."
	v := programmePage{
		frame: f, PerDay: consent.MaxPerDay, Totals: totalsOf(s.Totals), Terms: terms.Current().Terms, Limits: limits(f)[:5],
		OptIn: p.optInPage(f, emptyOptIn(), nil),
	}
	switch demo := totalsOf(s.Demo); {
	case f.Demo:
		v.Totals = demo
	case sum(s.Demo.Consents)+sum(s.Demo.Revealed)+sum(s.Demo.Findings) > 0:
		v.DemoTotals = &demo
	}
	if err := p.findings(r, &v); err != nil {
		return nil, err
	}
	return v, p.consents(r, &v)
}

// findings fills in where consents stand, the latest comparisons first.
func (p *Pages) findings(r *http.Request, v *programmePage) error {
	counts, err := p.config.Reader.StandingCounts(r.Context())
	if err != nil {
		return err
	}
	chosen := r.URL.Query().Get("verdict")
	v.Counts = countsOf(counts, chosen)
	for _, c := range v.Counts {
		v.All += c.Count
	}
	if chosen != "" {
		if !slices.ContainsFunc(v.Counts, func(c countedVerdict) bool { return c.Here }) {
			return fmt.Errorf("findings can be picked by exam_only, watch, consistent and insufficient: %w", domain.ErrInvalid)
		}
		v.Verdict = chosen
	}
	q := projections.StandingQuery{Verdict: finding.Verdict(chosen), Limit: findingsPerPage + 1}
	if cursor := r.URL.Query().Get("after"); cursor != "" {
		if q.After, err = standingKeyOf(cursor); err != nil {
			return err
		}
		v.Earlier = true
	}
	list, err := p.config.Reader.Standings(r.Context(), q)
	if err != nil {
		return err
	}
	if len(list) > findingsPerPage {
		list = list[:findingsPerPage]
		last := list[findingsPerPage-1]
		v.MoreFindings = fmt.Sprintf("%d_%s", last.At.UnixMicro(), last.Consent)
	}
	var rows []plotRow
	for _, found := range list {
		c := comparisonOf(found)
		v.Findings, v.MinDrop = append(v.Findings, c), c.Thresholds.MinDropPoints
		if c.Enough() && len(rows) < 12 {
			rows = append(rows, plotRow{bareRef(c.Agent), c.Exam, c.Field, true})
		}
	}
	if len(rows) > 0 {
		d := examVersusField("plot", rows, list[0].Thresholds)
		v.Plot = &d
	}
	return nil
}

// standingKeyOf reads a place in the list of comparisons: microseconds since 1970 and a
// consent.
func standingKeyOf(cursor string) (*projections.ConsentKey, error) {
	at, id, _ := strings.Cut(cursor, "_")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros < 0 || micros > maxIndex || !consentIDs.MatchString(id) {
		return nil, fmt.Errorf("the address names no comparison: %w", domain.ErrInvalid)
	}
	return &projections.ConsentKey{Recorded: time.UnixMicro(micros).UTC(), ID: id}, nil
}

// consents fills in consents, the latest first: those before the one that the address
// names.
func (p *Pages) consents(r *http.Request, v *programmePage) error {
	q := projections.ConsentQuery{Limit: consentsPerPage + 1}
	if cursor := r.URL.Query().Get("consents"); cursor != "" {
		if !consentIDs.MatchString(cursor) {
			return fmt.Errorf("the address names no consent: %w", domain.ErrInvalid)
		}
		last, err := p.config.Reader.Consent(r.Context(), cursor)
		if err != nil {
			return err
		}
		q.After, v.Earlier = &projections.ConsentKey{Recorded: last.Recorded, ID: last.ID}, true
	}
	list, err := p.config.Reader.Consents(r.Context(), q)
	if err != nil {
		return err
	}
	if len(list) > consentsPerPage {
		list = list[:consentsPerPage]
		v.MoreConsents = list[consentsPerPage-1].ID
	}
	v.Consents = consentRowsOf(list)
	return nil
}

// tasksOf says in words which tasks are in a scope.
func tasksOf(s programme.Scope) string {
	kind, of, _ := strings.Cut(string(s), "/")
	switch kind {
	case "host":
		return "all tasks for the host " + of
	case "consent":
		return "all tasks under the consent " + of
	case "template":
		return "all tasks made from the template " + of
	case "identity":
		return "all tasks under identity " + of
	default:
		return "all tasks for everybody"
	}
}

type termsPage struct {
	frame

	Terms     []terms.Term
	Since     *time.Time // nil if the current version was not published
	Published []projections.Version
}

func (p *Pages) terms(_ *http.Request, f frame, s projections.Status) (any, error) {
	f.Title = "The ten terms"
	f.Description = "What the owner of an agent accepts with a consent to Mystery Shopping."
	return termsPage{frame: f, Terms: terms.Current().Terms, Since: since(s.Terms), Published: s.Terms}, nil
}

type identitiesPage struct {
	frame

	Identities []identity.Identity
	Since      *time.Time
	Published  []projections.Version
}

func (p *Pages) identities(_ *http.Request, f frame, s projections.Status) (any, error) {
	f.Title = "The client identities"
	f.Description = "The ordinary clients that the tasks of the Mystery Shopper come under."
	return identitiesPage{frame: f, Identities: identity.Pool(), Since: since(s.Pools), Published: s.Pools}, nil
}

// since is when the last of versions was published.
func since(versions []projections.Version) *time.Time {
	if len(versions) == 0 {
		return nil
	}
	return &versions[len(versions)-1].Since
}

type ethicsPage struct {
	frame

	Limits  []limit
	Reasons []plan.Reason
}

// A limit is one row of the table of limits.
type limit struct{ Of, Limit, Note string }

// limits lists what holds for everybody, the hard limits of a consent first.
func limits(f frame) []limit {
	challenges := commands.GrantQuotas("", netip.Addr{}) // for an agent, and for an address
	return []limit{
		{"Tasks for one agent", fmt.Sprintf("%d a day, %d a week", consent.MaxPerDay, consent.MaxPerWeek), "Over all consents that the agent ever had."},
		{"Endpoints of one agent", strconv.Itoa(consent.MaxEndpoints), "Each at a host that shows whose it is."},
		{"Tasks for one host", fmt.Sprintf("%d a day", f.TasksPerHost), "Over the consents of all agents. What goes beyond is counted as missed."},
		{"Time between two tasks for one host", span(consent.HostPause), "The earlier one first; longer if the host says so in Retry-After. What cannot wait is counted as missed."},
		{"Sending of one task", "once", "Never again after an error or a timeout, and never after a crash of ours."},
		{"Waiting for an answer", span(consent.TaskDeadline), "From the connection to the last byte, and for all that belongs to one task."},
		{"Lateness of a task", "15 minutes", "Later it is not sent at all, and counted as missed."},
		{"Reading a card or a list of tools", f.Every(), "For each endpoint, under a client identity, whether a task is due or not."},
		{"Reading a host’s document", f.Every(), "Once a minute at most, by KaratumBot. No task is sent on a reading two hours old."},
		{"Delay before a task is revealed", span(consent.MinRevealDelay) + " to " + span(consent.MaxRevealDelay), "As the owner chose. At once after a revocation."},
		{"Life of a consent", fmt.Sprintf("%d to %d days", consent.MinValidity, consent.MaxValidity), "As the owner chose."},
		{"Challenges to sign", fmt.Sprintf("%d an hour for an agent, %d in all", challenges[0].Limit, challenges[1].Limit), "From one network address. A challenge to revoke is counted apart, and never by agent."},
		{"Time to sign a challenge", span(consent.ChallengeLife), "And once."},
	}
}

// span writes a length of time in its largest whole unit.
func span(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		switch n := d / unit.length; {
		case d%unit.length != 0 || n == 0:
		case n == 1:
			return "1 " + unit.name
		default:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}

func (p *Pages) ethics(_ *http.Request, f frame, _ projections.Status) (any, error) {
	f.Title = "Ethics, disclosure and limits"
	f.Description = "What the Mystery Shopper holds to, how often it sends, and how to stop it."
	return ethicsPage{frame: f, Limits: limits(f), Reasons: plan.Reasons()}, nil
}

func (p *Pages) bot(_ *http.Request, f frame, _ projections.Status) (any, error) {
	f.Title = "KaratumBot"
	f.Description = "What KaratumBot fetches, how often, and how to stop it."
	return f, nil
}
