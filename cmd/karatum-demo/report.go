package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// A report is what the weeks came to, as the public API tells it.
type report struct {
	Agents    []agentReport    `json:"agents"`
	Incidents []incidentReport `json:"incidents"`
	Revealed  int              `json:"revealed"`
	Replayed  int              `json:"replayed"` // made again from the seed, and equal
	Days      int              `json:"days"`     // with a sealed plan
	SlotsMin  int              `json:"slotsMin"` // committed on one day
	SlotsMax  int              `json:"slotsMax"`
	Events    int              `json:"events"`
	Batches   batchCounts      `json:"batches"`
	Anchored  int              `json:"anchored"` // revealed, and the commit proven to stand on the chain
	Seconds   float64          `json:"seconds"`
}

type agentReport struct {
	Agent        string          `json:"agent"`
	Ref          string          `json:"ref"`
	Verdict      finding.Verdict `json:"verdict"`
	GatedVerdict finding.Verdict `json:"gatedVerdict"`
	ExamAttempts int             `json:"examAttempts"`
	ExamPasses   int             `json:"examPasses"`
	FieldTasks   int             `json:"fieldTasks"`
	FieldPasses  int             `json:"fieldPasses"`
	P            json.Number     `json:"p"`

	drop finding.Interval
}

// An incidentReport is an incident as the public hears of it.
type incidentReport struct {
	Agent    string      `json:"agent"`
	Score    json.Number `json:"score"`
	Vector   string      `json:"vector"`
	Severity string      `json:"severity"`
	State    string      `json:"state"`
}

// report reads the outcome from the public API and makes every revealed task
// again.
func (s *stage) report(ctx context.Context, consents map[string]consent.Payload) (r report, err error) {
	for _, name := range agentNames {
		a, err := s.agent(ctx, name)
		if err != nil {
			return r, err
		}
		r.Agents = append(r.Agents, a)
		if err := s.replay(ctx, plan.ConsentID(consents[name].Nonce), &r); err != nil {
			return r, fmt.Errorf("replay of %s: %w", name, err)
		}
	}
	if r.Incidents, err = s.incidents(ctx); err != nil {
		return r, err
	}
	if r.Batches, err = s.countBatches(ctx); err != nil {
		return r, err
	}
	r.Events, err = s.prog.Events(ctx)
	return r, err
}

func (s *stage) incidents(ctx context.Context) ([]incidentReport, error) {
	var answer struct {
		Items []struct {
			Agent    agent.Ref         `json:"agent"`
			Severity incident.Severity `json:"severity"`
			State    string            `json:"state"`
		} `json:"items"`
	}
	if err := s.api.get(ctx, "/v1/mystery/incidents", nil, &answer); err != nil {
		return nil, err
	}
	list := []incidentReport{}
	for _, i := range answer.Items {
		name := strings.TrimPrefix(string(i.Agent), "build:")
		list = append(list, incidentReport{name, json.Number(i.Severity.Score), i.Severity.Vector, string(i.Severity.Rating), i.State})
	}
	return list, nil
}

func (s *stage) agent(ctx context.Context, name string) (a agentReport, err error) {
	var answer struct {
		Finding *struct {
			Verdict finding.Verdict  `json:"verdict"`
			Gated   finding.Verdict  `json:"gatedVerdict"`
			Exam    finding.Arm      `json:"exam"`
			Field   finding.Arm      `json:"field"`
			P       json.Number      `json:"p"`
			Drop    finding.Interval `json:"drop"`
		} `json:"finding"`
	}
	a = agentReport{Agent: name, Ref: "build:" + name}
	if err := s.api.get(ctx, "/v1/mystery/agents/"+a.Ref, nil, &answer); err != nil {
		return a, err
	}
	f := answer.Finding
	if f == nil {
		return a, fmt.Errorf("no finding on %s was reached", name)
	}
	a.Verdict, a.GatedVerdict, a.P, a.drop = f.Verdict, f.Gated, f.P, f.Drop
	a.ExamAttempts, a.ExamPasses = f.Exam.Counted, f.Exam.Passed
	a.FieldTasks, a.FieldPasses = f.Field.Counted, f.Field.Passed
	return a, nil
}

// replay goes through all slots of a consent.
func (s *stage) replay(ctx context.Context, consentID string, r *report) error {
	slots := make(map[uint32]int) // by day
	query := url.Values{"limit": {"240"}}
	for {
		var page struct {
			Items []struct {
				ID    string `json:"id"`
				Day   uint32 `json:"day"`
				Phase string `json:"phase"`
			} `json:"items"`
			Next string `json:"nextCursor"`
		}
		if err := s.api.get(ctx, "/v1/mystery/consents/"+consentID+"/shops", query, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			slots[item.Day]++
			if item.Phase != "revealed" {
				continue
			}
			r.Revealed++
			same, commit, err := s.again(ctx, item.ID)
			if err != nil {
				return err
			}
			if same {
				r.Replayed++
			}
			if s.anchor != nil {
				ok, err := s.anchored(ctx, commit)
				if err != nil {
					return err
				}
				if ok {
					r.Anchored++
				}
			}
			s.tell.at("%d made again", r.Replayed)
		}
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	for _, n := range slots {
		if r.SlotsMax == 0 || n < r.SlotsMin {
			r.SlotsMin = n
		}
		r.SlotsMax = max(r.SlotsMax, n)
	}
	r.Days = max(r.Days, len(slots))
	return nil
}

// again makes a revealed task again from its seed and compares it with what was
// asked and with what was committed to, which it returns.
func (s *stage) again(ctx context.Context, id string) (same bool, committed domain.Hash, err error) {
	var answer struct {
		Commit   domain.Hash `json:"commit"`
		Revealed struct {
			Event shop.Revealed `json:"event"`
		} `json:"revealed"`
	}
	if err := s.api.get(ctx, "/v1/mystery/shops/"+id, nil, &answer); err != nil {
		return false, committed, err
	}
	e := answer.Revealed.Event
	t, err := task.Generate(e.Template, e.TemplateVersion, e.Seed, e.Entry)
	if err != nil {
		return false, committed, err
	}
	asked := t.Ask.Hash() // as committed to: what is filled in was not known
	expected := plan.ExpectedHash(t)
	if e.Filled != (task.Filled{}) {
		if t, err = t.Fill(e.Filled); err != nil {
			return false, committed, err
		}
	}
	commit := plan.Commit(plan.CommitFields{
		Consent: e.Consent, Day: e.Day, Slot: uint32(e.Slot), //nolint:gosec // below 24
		Template: e.Template, TemplateVersion: e.TemplateVersion, Endpoint: e.Endpoint,
		Identity: plan.Identity(e.Seed), SendAt: plan.SendAt(e.Seed, e.Day), Seed: e.Seed,
		AskHash: asked, ExpectedHash: expected,
	})
	return commit == answer.Commit && t.Prompt == e.Prompt &&
		t.Ask.Hash() == e.Ask.Hash() && t.Expected.Hash() == e.Expected.Hash(), answer.Commit, nil
}

func (r report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "agent\texam\tfield\tdrop\tp\tverdict\tconfirmed")
	for _, a := range r.Agents {
		_, _ = fmt.Fprintf(t, "%s (DEMO)\t%d/%d\t%d/%d\t%s\t%s\t%s\t%s\n", a.Agent,
			a.ExamPasses, a.ExamAttempts, a.FieldPasses, a.FieldTasks, points(a.drop.Value), short(a.P), a.Verdict, a.GatedVerdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, i := range r.Incidents {
		if _, err := fmt.Fprintf(w, "\nIncident (DEMO): %s, %s %s, %s\n%s\n", i.Agent, i.Score, i.Severity, i.State, i.Vector); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%d tasks revealed, %d of them made again from their seeds and equal; %d days with %s slots each; "+
		"%d of %d batches attested, and %d of the tasks proven to stand in them; %d events; %.1f s\n",
		r.Revealed, r.Replayed, r.Days, fromTo(r.SlotsMin, r.SlotsMax), r.Batches.Attested, r.Batches.Sealed, r.Anchored, r.Events, r.Seconds)
	return err
}

func fromTo(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// points writes a fraction in percentage points.
func points(fraction string) string {
	f, err := json.Number(fraction).Float64()
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%.1f points", 100*f)
}

func short(p json.Number) string {
	f, err := p.Float64()
	switch {
	case err != nil:
		return "-"
	case f < 1e-300:
		return "< 1e-300"
	}
	return fmt.Sprintf("%.3g", f)
}
