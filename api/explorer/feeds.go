package explorer

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/projections"
)

// Feeds are Atom (RFC 4287). The id of an entry is a tag URI (RFC 4151), which stays as
// it is whatever becomes of the entry or of addresses.

// feedSince is the year in which the names of entries were given out.
const feedSince = "2026"

const feedEntries = 50

type feed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []feedLink  `xml:"link"`
	Entries []feedEntry `xml:"entry"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
	Type string `xml:"type,attr"`
}

type feedEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    feedLink `xml:"link"`
	Summary string   `xml:"summary"`
}

// tag names something of ours for ever.
func (p *Pages) tag(name string) string {
	host := p.config.PublicURL
	if u, err := url.Parse(host); err == nil {
		host = u.Hostname()
	}
	return "tag:" + host + "," + feedSince + ":" + name
}

// alternate is the page of what a feed or an entry tells of.
func (p *Pages) alternate(path string) feedLink {
	return feedLink{"alternate", p.config.PublicURL + path, "text/html"}
}

// serveFeed serves the feed of a name that entries fill.
func (p *Pages) serveFeed(name, title string, fill func(r *http.Request) ([]feedEntry, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		entries, err := fill(r)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		f := feed{
			ID: p.tag(name), Title: title, Author: "Karatum", Entries: entries, Updated: feedTime(p.config.Now()),
			Links: []feedLink{{"self", p.config.PublicURL + r.URL.RequestURI(), "application/atom+xml"}, p.alternate("/mystery")},
		}
		if r.URL.RawQuery != "" {
			f.ID = p.tag(name + "?" + r.URL.Query().Encode())
		}
		for i, e := range entries {
			if i == 0 || e.Updated > f.Updated { // all are of one form, in UTC
				f.Updated = e.Updated
			}
		}
		body, err := xml.MarshalIndent(f, "", " ")
		if err != nil {
			p.fail(w, r, fmt.Errorf("feed %s: %w", name, err))
			return
		}
		w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
		_, _ = w.Write(append([]byte(xml.Header), body...)) // the client may be gone
	}
}

func feedTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// marked puts DEMO before what is said of one of Karatum's own agents.
func marked(demo bool, text string) string {
	if demo {
		return "DEMO: " + text
	}
	return text
}

// findingEntries are the latest comparisons, of all agents or of one.
func (p *Pages) findingEntries(r *http.Request) (entries []feedEntry, err error) {
	q := projections.FindingQuery{Limit: feedEntries}
	if ref := r.URL.Query().Get("agent"); ref != "" {
		if q.Agent, err = agent.ParseRef(ref); err != nil {
			return nil, err
		}
	}
	if id := r.URL.Query().Get("consent"); id != "" {
		if !consentIDs.MatchString(id) {
			return nil, fmt.Errorf("a consent is named cns_ and 20 letters and digits: %w", domain.ErrInvalid)
		}
		q.Consent = id
	}
	list, err := p.config.Reader.Findings(r.Context(), q)
	if err != nil {
		return nil, err
	}
	for _, found := range list {
		c := comparisonOf(found)
		e := feedEntry{
			ID: p.tag(fmt.Sprintf("finding/%s/%d", c.Consent, c.Look)), Title: marked(c.Demo, bareRef(c.Agent)+": "+c.Word.Words),
			Updated: feedTime(c.At), Link: p.alternate(c.Address()), Summary: readable([]byte(c.Note)),
		}
		for i, said := range c.Corrections {
			if i == 0 {
				e.Title += ", corrected"
			}
			e.Updated = feedTime(said.At)
			e.Summary += fmt.Sprintf("\nCorrected on %s: %s", day(domain.DayOf(said.At)), readable([]byte(said.Text)))
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// revealEntries are the tasks that were revealed last.
func (p *Pages) revealEntries(r *http.Request) (entries []feedEntry, err error) {
	list, err := p.config.Reader.LatestReveals(r.Context(), feedEntries)
	for _, t := range list {
		entries = append(entries, feedEntry{
			ID: p.tag("shop/" + t.Shop), Title: marked(t.Demo, fmt.Sprintf("%s: %s, %s", bareRef(t.Agent), familyName(t.Family), endingWord(t.Ending))),
			Updated: feedTime(t.Revealed), Link: p.alternate("/mystery/shops/" + t.Shop),
			Summary: fmt.Sprintf("Planned for %s, made from the template %s.", feedTime(t.Planned), t.Template),
		})
	}
	return entries, err
}
