package worker

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// An Exam is what the harness is to ask.
type Exam struct {
	Run      string // its name, unique among the agent's runs
	Source   string
	Seed     domain.Hash // of the whole run
	Attempts int
	Payload  consent.Payload // of the consent: its endpoints are examined
}

// Examine puts tasks of the same catalogue to the same endpoints under the
// harness's own name, and records the run. An attempt that is blocked is recorded
// and counts for nothing. What pauses tasks holds it back as well: then it returns
// an error of the kind [domain.ErrForbidden], and records nothing.
func (w *Worker) Examine(ctx context.Context, e Exam) error {
	offers, targets, err := w.examSurface(ctx, e.Payload)
	if err != nil {
		return err
	}
	list, _ := plan.EligibleOf(offers, e.Payload.Skills, plan.Means{ReadsChains: w.readsChains()})
	if list.Empty() {
		return fmt.Errorf("no endpoint of %s shows a skill or tool that a task exists for: %w", e.Payload.Agent, domain.ErrInvalid)
	}
	entries := plan.EntriesOf(offers, e.Payload.Skills)
	run := exam.RunRecorded{Agent: e.Payload.Agent, Run: e.Run, Source: e.Source}
	for i := range e.Attempts {
		seed := domain.MAC(e.Seed, domain.NewEnc("karatum/mystery/exam/v1").Str(e.Run).U32(uint32(i)))
		a, err := w.attempt(ctx, e.Payload, list, entries, targets, seed)
		if err != nil {
			return fmt.Errorf("attempt %d: %w", i, err)
		}
		run.Attempts = append(run.Attempts, a)
	}
	return w.Service.Exam(ctx, meta("exam/"+string(e.Payload.Agent)+"/"+e.Run), e.Payload.Agent, exam.RecordRun(run))
}

// examSurface reads the endpoints afresh, as the harness. It buys nothing: what the
// owner lets be spent is for tasks.
func (w *Worker) examSurface(ctx context.Context, p consent.Payload) (offers []plan.Offer, targets map[string]agents.Target, err error) {
	targets = make(map[string]agents.Target)
	for i, ep := range p.Endpoints {
		if !slices.Contains(p.Kinds, ep.Kind) || ep.Kind == task.X402 {
			continue
		}
		letGo, err := w.examGate(p, ep, "")(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", ep.URL, err)
		}
		letGo()
		surface, target, err := w.examField().Observe(ctx, ep.Kind, ep.URL, agents.Harness())
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", ep.URL, err)
		}
		id := consent.EndpointID(i)
		offers = append(offers, plan.Offer{ID: id, Surface: surface})
		targets[id] = target
	}
	return offers, targets, nil
}

func (w *Worker) attempt(
	ctx context.Context, p consent.Payload, list plan.Eligible, entries plan.Entries, targets map[string]agents.Target, seed domain.Hash,
) (exam.Attempt, error) {
	choice := list.Choose(seed)
	t, _, err := entries.Make(choice, seed)
	if err != nil {
		return exam.Attempt{}, err
	}
	a := exam.Attempt{
		Seed: seed, Template: choice.Template, TemplateVersion: choice.Version, Family: t.Family,
		Endpoint: choice.Endpoint, Entry: choice.Entry,
	}
	if _, err := w.fill(ctx, &t); err != nil {
		a.Outcome, a.Rule = task.Blocked, shop.ChainReadFailed
		return a, nil //nolint:nilerr // the outcome says so
	}
	ep := endpoint(p, choice.Endpoint)
	reply, err := w.examField().Ask(ctx, ep.Kind, agents.Call{
		Target: targets[choice.Endpoint], Ask: t.Ask, Sender: agents.Harness(), Deadline: w.deadline(),
		Gate: w.examGate(p, ep, choice.Template),
	})
	if err != nil {
		return exam.Attempt{}, err
	}
	a.Outcome, a.Rule, a.LatencyMs = reply.Outcome, reply.Code, reply.Latency.Milliseconds()
	if reply.Outcome == "" {
		g := task.Mark(t, reply.Text)
		a.Outcome, a.Rule, a.Literal = g.Outcome, g.Rule, g.Literal
	}
	return a, nil
}

// examField is the world as the harness reaches it.
func (w *Worker) examField() Field {
	if w.ExamField != nil {
		return w.ExamField
	}
	return w.Field
}

// examGate is the gate of a task of an exam, which has no identity of the pool.
func (w *Worker) examGate(p consent.Payload, ep consent.Endpoint, template string) agents.Gate {
	return func(ctx context.Context) (release func(), err error) {
		host, err := agents.HostOf(ep.URL)
		if err != nil {
			return nil, err
		}
		return w.Gate.Hold(ctx, programme.Task{
			Consent: plan.ConsentID(p.Nonce), Host: host, Template: template, Identity: math.MaxUint32,
		})
	}
}
