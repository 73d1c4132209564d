package api

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/projections"
)

// A passport is what is known of an agent, in lines that stand for themselves.
type passport struct {
	AsOf        uint64       `json:"asOf" doc:"How many public records the latest checkpoint of the log covers. What is newer has no proof yet."`
	Certificate passportLine `json:"certificate"`
	Mystery     passportLine `json:"mystery"`
	Shield      passportLine `json:"shield"`
	Sessions    passportLine `json:"sessions"`
	Incidents   passportLine `json:"incidents"`
}

type passportLine struct {
	Text     string     `json:"text" doc:"In plain words; \"no data\" where nothing is known, which says neither good nor bad."`
	Recalled bool       `json:"recalled,omitempty" doc:"If the certificate is recalled for an incident."`
	Evidence []evidence `json:"evidence" doc:"The records that the line rests on."`
}

// evidence is a record of the public log and how to check it.
type evidence struct {
	Stream   ledger.Stream `json:"stream"`
	Version  uint64        `json:"version"`
	Index    *uint64       `json:"index,omitempty" doc:"In the public log; absent while no checkpoint covers the record."`
	Hash     *domain.Hash  `json:"hash,omitempty"`
	RecordAt string        `json:"recordUrl,omitempty" format:"uri"`
	ProofAt  string        `json:"proofUrl,omitempty" format:"uri" doc:"Of its inclusion."`
}

const noData = "no data"

// passportOf puts the lines of an agent together. note says how it stands to spot
// checks.
func (s *server) passportOf(ctx context.Context, a projections.Agent, note string, f *projections.Finding) (p passport, err error) {
	p.Mystery.Evidence = []evidence{}
	switch head, err := s.Ledger.Head(ctx); {
	case err == nil:
		p.AsOf = head.Size
	case !errors.Is(err, domain.ErrNotFound): // else nothing was published yet
		return p, err
	}
	incidents, err := s.Reader.Incidents(ctx, projections.IncidentQuery{Agent: a.Ref, Limit: 100})
	if err != nil {
		return p, err
	}
	if p.Certificate, err = s.certificateLine(ctx, a, incidents, p.AsOf); err != nil {
		return p, err
	}
	p.Mystery.Text = note
	if f != nil {
		if p.Mystery.Evidence, err = s.evidenceOf(ctx, p.AsOf, finding.StreamOf(f.Consent), f.Version); err != nil {
			return p, err
		}
	}
	if p.Shield, err = s.shieldLine(ctx, a.Ref, p.AsOf); err != nil {
		return p, err
	}
	if p.Sessions, err = s.sessionsLine(ctx, a.Ref, p.AsOf); err != nil {
		return p, err
	}
	p.Incidents, err = s.incidentsLine(ctx, incidents, p.AsOf)
	return p, err
}

// shieldLine tells how the agent stood up to attacks on copies of it. Cases without an
// outcome that counts are not shown.
func (s *server) shieldLine(ctx context.Context, ref agent.Ref, asOf uint64) (passportLine, error) {
	l := passportLine{Text: noData, Evidence: []evidence{}}
	totals, err := s.Reader.ShieldTotals(ctx, ref)
	if err != nil || totals.Counted == 0 {
		return l, err
	}
	share := stats.Wilson(stats.Counts{N: totals.Counted, Passes: totals.Compromised})
	l.Text = fmt.Sprintf("Attacked in %s on copies of it: compromised in %d (%.1f %%, 95 %% interval %.1f to %.1f %%).",
		counted(totals.Counted, "case"), totals.Compromised, 100*float64(totals.Compromised)/float64(totals.Counted), 100*share.Lo, 100*share.Hi)
	latest, err := s.Reader.ShieldCases(ctx, projections.ShieldQuery{Size: asOf, Agent: ref, Limit: 1})
	if err != nil || len(latest) == 0 {
		return l, err
	}
	c := latest[0]
	l.Text += fmt.Sprintf(" The latest was opened on %s, of %s %s.", c.Opened.Format(time.DateOnly), c.Suite, c.Version)
	l.Evidence, err = s.evidenceOf(ctx, asOf, shield.StreamOf(c.ID), 1)
	return l, err
}

// sessionsLine tells how often the agent was watched at work, and by whom.
func (s *server) sessionsLine(ctx context.Context, ref agent.Ref, asOf uint64) (passportLine, error) {
	l := passportLine{Text: noData, Evidence: []evidence{}}
	totals, err := s.Reader.SessionTotals(ctx, ref)
	all := totals.Trial + totals.Shield + totals.Runtime
	if err != nil || all == 0 {
		return l, err
	}
	l.Text = fmt.Sprintf("%s on record: %d of trials, %d of Shield, and %d in use, as its own side tells. %s denied.",
		counted(all, "session"), totals.Trial, totals.Shield, totals.Runtime, counted(totals.Denied, "action"))
	latest, err := s.Reader.Sessions(ctx, projections.SessionQuery{Size: asOf, Agent: ref, Limit: 1})
	if err != nil || len(latest) == 0 {
		return l, err
	}
	l.Evidence, err = s.evidenceOf(ctx, asOf, session.StreamOf(latest[0].ID), 1)
	return l, err
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (s *server) certificateLine(ctx context.Context, a projections.Agent, incidents []projections.Incident, asOf uint64) (passportLine, error) {
	l := passportLine{Text: noData, Evidence: []evidence{}}
	var said []string
	for _, c := range a.Certificates {
		said = append(said, fmt.Sprintf("Certificate %s is on record since %s.", c.Value, c.Since.Format(time.DateOnly)))
		e, err := s.evidenceOf(ctx, asOf, agent.StreamOf(a.Ref), c.Version)
		if err != nil {
			return l, err
		}
		l.Evidence = append(l.Evidence, e...)
	}
	for _, i := range incidents {
		if i.Recall == nil {
			continue
		}
		l.Recalled = true
		said = append(said, fmt.Sprintf("RECALLED on %s for incident %s: %s.", i.Recall.At.Format(time.DateOnly), i.Opened.Incident, strings.TrimSuffix(i.Recall.Text, ".")))
		e, err := s.evidenceOf(ctx, asOf, incident.StreamOf(i.Opened.Incident), i.Recall.Version)
		if err != nil {
			return l, err
		}
		l.Evidence = append(l.Evidence, e...)
	}
	if len(said) > 0 {
		l.Text = strings.Join(said, " ")
	}
	return l, nil
}

func (s *server) incidentsLine(ctx context.Context, incidents []projections.Incident, asOf uint64) (passportLine, error) {
	l := passportLine{Text: noData, Evidence: []evidence{}}
	var said []string
	for _, i := range incidents {
		over := ""
		if i.Resolution != nil {
			over = ", closed on " + i.Resolution.At.Format(time.DateOnly)
		}
		text := fmt.Sprintf("Incident %s: %s, %s %s, disclosed on %s%s.", i.Opened.Incident, i.Opened.Class,
			i.Opened.Severity.Score, i.Opened.Severity.Rating, i.Recorded.Format(time.DateOnly), over)
		said = append(said, text)
		e, err := s.evidenceOf(ctx, asOf, incident.StreamOf(i.Opened.Incident), i.Version)
		if err != nil {
			return l, err
		}
		l.Evidence = append(l.Evidence, e...)
	}
	if len(said) > 0 {
		l.Text = strings.Join(said, " ")
	}
	return l, nil
}

// evidenceOf returns one record as evidence, with its place in the log if a checkpoint
// covers it.
func (s *server) evidenceOf(ctx context.Context, asOf uint64, stream ledger.Stream, version uint64) ([]evidence, error) {
	e := evidence{Stream: stream, Version: version}
	if asOf == 0 {
		return []evidence{e}, nil
	}
	leaves, _, err := s.Ledger.Stream(ctx, stream, version, 1)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return []evidence{e}, nil
	case err != nil:
		return nil, err
	case len(leaves) == 0:
		return []evidence{e}, nil
	}
	l := leaves[0]
	e.Index, e.Hash = &l.Index, &l.Hash
	e.RecordAt = fmt.Sprintf("%s%s/records/%d", s.PublicURL, ledgerRoot, l.Index)
	e.ProofAt = fmt.Sprintf("%s%s/proofs/inclusion?%s", s.PublicURL, ledgerRoot, url.Values{"index": {fmt.Sprint(l.Index)}}.Encode())
	return []evidence{e}, nil
}

type statsBody struct {
	AsOf uint64    `json:"asOf" doc:"How many public records the latest checkpoint of the log covers."`
	All  StatsPart `json:"all" doc:"Without Karatum's own agents."`
	Demo demoStats `json:"demo" doc:"Karatum's own agents alone."`
}

type demoStats struct {
	Mark
	StatsPart
}

// A StatsPart counts what is public.
type StatsPart struct {
	Totals
	Counted int    `json:"counted" doc:"Revealed tasks that count as the agents' own doing."`
	Passed  int    `json:"passed"`
	Blocked int    `json:"blocked" doc:"Revealed tasks that our side kept from counting."`
	Missed  int    `json:"missed" doc:"Tasks that were not sent in time."`
	Lost    string `json:"lostShare" doc:"Blocked and missed, of all that were to be counted, in percent; \"no data\" without any."`

	BlockedShare string                    `json:"blockedShare" doc:"Blocked alone, of the same, in percent; \"no data\" without any."`
	Families     map[string]map[string]int `json:"families" doc:"Revealed tasks by family, and in it by outcome, or missed or cancelled."`
	Kinds        map[string]map[string]int `json:"kinds" doc:"Revealed tasks by kind of endpoint (a2a, mcp, x402), and in it as above."`
	Latency      latencyBody               `json:"latency" doc:"Of the tasks that were answered: passed, failed or refused."`
}

type latencyBody struct {
	Answers int   `json:"answers"`
	P50     int64 `json:"p50Ms" doc:"Half of the answers took no longer, in milliseconds; 0 without any."`
	P90     int64 `json:"p90Ms" doc:"Nine tenths took no longer."`
	P99     int64 `json:"p99Ms" doc:"99 hundredths took no longer."`
}

func (s *server) registerStats(api huma.API) {
	type output struct{ Body statsBody }
	huma.Register(api, get("get-stats", "/stats", "How much there is of everything, from public records alone"),
		func(ctx context.Context, _ *struct{}) (*output, error) {
			status, err := s.Reader.Programme(ctx)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			b := statsBody{Demo: demoStats{Mark: markOf(true)}}
			if b.All, err = s.statsOf(ctx, status.Totals, false); err != nil {
				return nil, s.fail(ctx, err)
			}
			if b.Demo.StatsPart, err = s.statsOf(ctx, status.Demo, true); err != nil {
				return nil, s.fail(ctx, err)
			}
			switch head, err := s.Ledger.Head(ctx); {
			case err == nil:
				b.AsOf = head.Size
			case !errors.Is(err, domain.ErrNotFound):
				return nil, s.fail(ctx, err)
			}
			return &output{b}, nil
		})
}

func (s *server) statsOf(ctx context.Context, t projections.Totals, demo bool) (StatsPart, error) {
	p := StatsPart{Totals: Totals(t), Passed: t.Revealed["pass"], Blocked: t.Revealed["blocked"], Missed: t.Revealed["missed"]}
	for _, outcome := range []string{"pass", "fail", "refused", "timeout", "error"} {
		p.Counted += t.Revealed[outcome]
	}
	all := p.Counted + p.Blocked + p.Missed
	p.Lost, p.BlockedShare = percent(p.Blocked+p.Missed, all), percent(p.Blocked, all)
	tasks, err := s.Reader.TaskTotals(ctx, demo)
	if err != nil {
		return p, err
	}
	p.Families, p.Kinds = tasks.Families, tasks.Kinds
	l := tasks.Latency
	p.Latency = latencyBody{l.Answers, l.P50.Milliseconds(), l.P90.Milliseconds(), l.P99.Milliseconds()}
	return p, nil
}

// percent is a share in percent, rounded to a tenth.
func percent(n, all int) string {
	if all == 0 {
		return noData
	}
	tenths := (2000*n + all) / (2 * all)
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}
