package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/projections"
)

type findingBody struct {
	Mark
	At          time.Time             `json:"at"`
	Consent     string                `json:"consent"`
	ConsentURL  string                `json:"consentUrl" format:"uri"`
	Agent       agent.Ref             `json:"agent"`
	Cycle       string                `json:"cycle" enum:"day,end" doc:"What occasioned the comparison: a day was opened, or the consent is over."`
	Day         uint32                `json:"day" doc:"The day just opened."`
	Date        string                `json:"date" format:"date"`
	Look        int                   `json:"look" doc:"How often this consent was looked at, with this time."`
	Verdict     string                `json:"verdict" enum:"exam_only,consistent,insufficient" doc:"consistent: no such gap was found, which is no proof of equality."`
	Note        string                `json:"note" doc:"The same in plain words."`
	Exam        finding.Arm           `json:"exam"`
	Field       finding.Arm           `json:"field"`
	Sources     []finding.Source      `json:"examSources" doc:"What the exam is made of: trial attempts of the certification, and runs of the harness."`
	Families    []finding.Family      `json:"families" doc:"For reading; no test is made of them."`
	Test        string                `json:"test" doc:"z_pooled or fisher_exact; empty if there is not enough data."`
	P           string                `json:"p" doc:"One-sided."`
	Drop        finding.Interval      `json:"drop" doc:"Exam less field, with its 95 % interval (Newcombe)."`
	Gated       string                `json:"gatedVerdict" enum:"exam_only,watch,consistent,insufficient" doc:"The verdict behind a test that holds however often one looks; watch is a first sighting, not confirmed."`
	LogE        string                `json:"logE" doc:"Natural logarithm of the E-value of this look."`
	PAlways     string                `json:"pAlways" doc:"Valid at every look; it never rises."`
	Band        finding.Band          `json:"band" doc:"The verdicts with all blocked and missed tasks as passes, and as fails."`
	Conformity  finding.Interval      `json:"conformity" doc:"Field over exam, with its 95 % interval."`
	Stratified  finding.Stratified    `json:"stratified" doc:"The comparison within families (Cochran-Mantel-Haenszel)."`
	Detectable  string                `json:"detectableDrop" doc:"The smallest drop that this many tasks show 4 times in 5, as a fraction; empty if none."`
	Latency     finding.LatencyRatios `json:"latency" doc:"Field over exam."`
	AllConsents finding.AllConsents   `json:"allConsents" doc:"The agent in the field under every consent it ever had."`
	Rule        uint32                `json:"rule"`
	Thresholds  finding.Thresholds    `json:"thresholds"`
}

type findingsInput struct {
	Agent   string `query:"agent" maxLength:"160" doc:"Only those on this agent." example:"build:42"`
	Verdict string `query:"verdict" enum:"exam_only,consistent,insufficient"`
	Cursor  string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type findingsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []findingBody `json:"items" doc:"Latest first."`
		Next  string        `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

type findingKey projections.FindingKey

func (k findingKey) valid() bool {
	return consentID.MatchString(k.Consent) && k.Look > 0 && k.Look < 1<<31
}

func (s *server) registerFindings(api huma.API) {
	huma.Register(api, get("list-findings", "/findings", "Every comparison of field and exam"), s.listFindings)
}

func (s *server) listFindings(ctx context.Context, in *findingsInput) (*findingsOutput, error) {
	q := projections.FindingQuery{Verdict: finding.Verdict(in.Verdict), Limit: in.Limit + 1}
	var err error
	if in.Agent != "" {
		if q.Agent, err = agent.ParseRef(in.Agent); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	after, err := decodeCursor[findingKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	q.After = (*projections.FindingKey)(after)
	list, err := s.Reader.Findings(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(f projections.Finding) any { return findingKey{f.At, f.Consent, f.Look} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &findingsOutput{Link: nextLink("/findings", next, in.Limit, map[string]string{"agent": in.Agent, "verdict": in.Verdict})}
	out.Body.Items, out.Body.Next = make([]findingBody, len(list)), next
	for i, f := range list {
		out.Body.Items[i] = s.findingOf(f)
	}
	return out, nil
}

func (s *server) findingOf(f projections.Finding) findingBody {
	return findingBody{
		Mark: markOf(f.Demo), At: f.At, Consent: f.Consent, ConsentURL: s.consentURL(f.Consent), Agent: f.Agent,
		Cycle: string(f.Cycle), Day: f.Day, Date: domain.DayString(f.Day), Look: f.Look,
		Verdict: string(f.Verdict), Note: f.Note, Exam: f.Exam, Field: f.Field, Sources: f.Sources, Families: f.Families,
		Test: f.Test, P: f.P, Drop: f.Drop, Gated: string(f.GatedVerdict), LogE: f.LogE, PAlways: f.PAlways, Band: f.Band, Conformity: f.Conformity,
		Stratified: f.Stratified, Detectable: f.DetectableDrop, Latency: f.Latency, AllConsents: f.AllConsents, Rule: f.Rule, Thresholds: f.Thresholds,
	}
}
