package explorer

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
)

const agentsPerPage = 50

type agentsPage struct {
	frame

	Agents  []agentRow
	More    string // query of the next page; "" on the last
	Earlier bool
}

// An agentRow is an agent in a list.
type agentRow struct {
	projections.ListedAgent

	State string
	Word  *verdictWord // nil without a comparison
	At    time.Time    // of it
}

func (p *Pages) agents(r *http.Request, f frame, _ projections.Status) (any, error) {
	f.Title = "Agents"
	f.Description = "Every registered agent: whether its owner agreed to spot checks, and what came of them."
	v := agentsPage{frame: f}
	var after *projections.AgentKey
	if cursor := r.URL.Query().Get("after"); cursor != "" {
		ref, err := agent.ParseRef(cursor)
		if err != nil {
			return nil, err
		}
		last, err := p.config.Reader.Agent(r.Context(), ref)
		if err != nil {
			return nil, err
		}
		after, v.Earlier = &projections.AgentKey{Since: last.Since, Ref: ref}, true
	}
	list, err := p.config.Reader.AgentList(r.Context(), after, agentsPerPage+1)
	if err != nil {
		return nil, err
	}
	if len(list) > agentsPerPage {
		list = list[:agentsPerPage]
		v.More = string(list[agentsPerPage-1].Ref)
	}
	for _, a := range list {
		row := agentRow{ListedAgent: a, State: "Never agreed"}
		if a.State != "" {
			row.State = stateWords[a.State]
		}
		if a.Latest != nil {
			word := wordOf(a.Latest.GatedVerdict)
			row.Word, row.At = &word, a.Latest.At
		}
		v.Agents = append(v.Agents, row)
	}
	return v, nil
}

type agentPage struct {
	frame

	Agent    projections.Agent
	Owner    string
	Kind     string
	Passport Passport
	Consents []consentRow
	Finding  *comparison
	Badge    string // address of it
}

// A Passport is what is known of an agent, in lines that stand for themselves.
type Passport struct {
	AsOf  uint64 // how many public records the latest checkpoint covers
	Lines []PassportLine
}

// A PassportLine says one thing, and which records it rests on.
type PassportLine struct {
	Name     string
	Text     string
	Recalled bool // the certificate is recalled for an incident
	Evidence []Evidence
}

// Evidence is a public record.
type Evidence struct {
	Stream  ledger.Stream
	Version uint64
	Index   *uint64 // in the log; nil while no checkpoint covers it
}

// About is the page of what the record tells of, "" if it has none.
func (e Evidence) About() string { return pageOfStream(e.Stream) }

// A consentRow is a consent in a list.
type consentRow struct {
	projections.Consent

	State    string
	Why      string
	First    string
	Last     string
	PerDay   int
	PerWeek  int
	AgentRef agent.Ref
}

func consentRowsOf(list []projections.Consent) []consentRow {
	rows := make([]consentRow, len(list))
	for i, c := range list {
		rows[i] = consentRow{
			Consent: c, State: stateWords[c.State], Why: whyOver(c), First: day(c.Payload.FirstDay), Last: day(c.Payload.LastDay),
			PerDay: c.Payload.MaxPerDay, PerWeek: c.Payload.MaxPerWeek, AgentRef: c.Agent,
		}
	}
	return rows
}

// refOf is the agent that an address names: in full, or a build by its bare id.
func refOf(r *http.Request) (agent.Ref, error) {
	name := chi.URLParam(r, "agent")
	if !strings.Contains(name, ":") {
		name = "build:" + name
	}
	ref, err := agent.ParseRef(name)
	if err != nil {
		return "", errNoPage
	}
	return ref, nil
}

// ofAgent is where programs find an agent.
func ofAgent(r *http.Request) string {
	ref, err := refOf(r)
	if err != nil {
		return "/v1/mystery/agents/" + chi.URLParam(r, "agent")
	}
	return "/v1/mystery/agents/" + string(ref)
}

func (p *Pages) agent(r *http.Request, f frame, _ projections.Status) (any, error) {
	ctx := r.Context()
	ref, err := refOf(r)
	if err != nil {
		return nil, err
	}
	a, err := p.config.Reader.Agent(ctx, ref)
	if err != nil {
		return nil, err
	}
	f.Title, f.Own = bareRef(ref), a.Demo
	f.Path = "/agents/" + bareRef(ref) // whichever of its names was asked for
	f.Description = "Whether the owner of this agent agreed to spot checks, and what came of them."
	v := agentPage{frame: f, Agent: a, Owner: a.Wallet.String(), Kind: "An agent in an ERC-8004 registry", Badge: f.Path + "/badge.svg"}
	if strings.HasPrefix(string(ref), "build:") {
		v.Kind = "A Karatum build"
	}
	if v.Passport, err = p.config.Passport(ctx, ref); err != nil {
		return nil, err
	}
	consents, err := p.config.Reader.Consents(ctx, projections.ConsentQuery{Agent: ref, Limit: 20})
	if err != nil {
		return nil, err
	}
	v.Consents = consentRowsOf(consents)
	found, err := p.config.Reader.LatestFindingOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	if found != nil {
		v.Finding, err = p.discussed(ctx, *found)
	}
	return v, err
}

// badge serves how an agent stands as a small image for other pages. It has no colour
// that could be taken for a mark, and says as of when it is.
func (p *Pages) badge(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	text := "field: never agreed to spot checks"
	ref, err := refOf(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	a, err := p.config.Reader.Agent(ctx, ref)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	found, err := p.config.Reader.LatestFindingOf(ctx, ref)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	consents, err := p.config.Reader.Consents(ctx, projections.ConsentQuery{Agent: ref, Granted: true, Limit: 1})
	switch {
	case err != nil:
		p.fail(w, r, err)
		return
	case found != nil:
		text = comparisonOf(*found).Badge()
	case len(consents) > 0:
		text = "field: nothing compared yet, n=0, " + p.config.Now().UTC().Format("Jan 2006")
	}
	if len(consents) > 0 && consents[0].State != projections.Active {
		text += ", consent " + strings.ToLower(stateWords[consents[0].State])
	}
	if a.Demo {
		text = "DEMO " + text
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write([]byte(badge("Karatum", text))) // the client may be gone
}

// badge draws two texts side by side. A letter is taken for 6.2 pixels, and the renderer
// makes each text as wide as that.
func badge(name, text string) string {
	width := func(s string) float64 { return 6.2 * float64(len([]rune(s))) }
	left, right := width(name)+14, width(text)+14
	var s svg
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="20" role="img" aria-label="%s"><title>%s</title>`,
		num(left+right), escaped(name+": "+text), escaped(name+": "+text))
	fmt.Fprintf(&s, `<rect x=".5" y=".5" width="%s" height="19" rx="2" fill="#faf9f6" stroke="#5a5d63"/><path d="M%s 0v20" stroke="#5a5d63"/>`,
		num(left+right-1), num(left))
	for _, part := range []struct {
		x    float64
		text string
	}{{7, name}, {left + 7, text}} {
		fmt.Fprintf(&s, `<text x="%s" y="14" textLength="%s" fill="#1b1c1e" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">%s</text>`,
			num(part.x), num(width(part.text)), escaped(part.text))
	}
	fmt.Fprint(&s, "</svg>\n")
	return s.String()
}

// LimitsText says what was agreed to at most.
func (c consentRow) LimitsText() string {
	return fmt.Sprintf("%d a day, %d a week", c.PerDay, c.PerWeek)
}
