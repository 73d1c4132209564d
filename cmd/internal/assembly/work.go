package assembly

import (
	"context"

	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/projections"
)

// work is the private read model as the worker wants it.
type work struct {
	runner *projections.Runner
	due    projections.Due
}

var _ worker.Work = (*work)(nil)

func (w *work) CatchUp(ctx context.Context) error { return w.runner.CatchUp(ctx) }

func (w *work) Consents(ctx context.Context) ([]worker.Consent, error) {
	rows, err := w.due.Consents(ctx)
	return as(rows, func(r projections.DueConsent) worker.Consent { return worker.Consent(r) }), err
}

func (w *work) Plans(ctx context.Context, ref agent.Ref) ([]worker.Plan, error) {
	rows, err := w.due.Plans(ctx, ref)
	return as(rows, func(r projections.DuePlan) worker.Plan { return worker.Plan(r) }), err
}

func (w *work) Slots(ctx context.Context, consentID string) (map[string]worker.Slot, error) {
	rows, err := w.due.Slots(ctx, consentID)
	slots := make(map[string]worker.Slot, len(rows))
	for id, r := range rows {
		slots[id] = worker.Slot(r)
	}
	return slots, err
}

func (w *work) Heads(ctx context.Context, consentID string, day uint32) (*[plan.Slots]domain.Hash, error) {
	return w.due.Heads(ctx, consentID, day)
}

func (w *work) Seals(ctx context.Context, consentID string, from, to uint64) ([]uint64, error) {
	return w.due.Seals(ctx, consentID, from, to)
}

func (w *work) Surfaces(ctx context.Context, ref agent.Ref) ([]worker.Surface, error) {
	rows, err := w.due.Surfaces(ctx, ref)
	return as(rows, func(r projections.DueSurface) worker.Surface { return worker.Surface(r) }), err
}

func (w *work) Compared(ctx context.Context, consentID string) (worker.Comparisons, error) {
	c, err := w.due.Compared(ctx, consentID)
	return worker.Comparisons(c), err
}

func (w *work) Exam(ctx context.Context, ref agent.Ref) ([]exam.Sample, error) {
	return w.due.Exam(ctx, ref)
}

func (w *work) Field(ctx context.Context, consentID string) ([]worker.Result, error) {
	rows, err := w.due.Field(ctx, consentID)
	return as(rows, func(r projections.DueResult) worker.Result { return worker.Result(r) }), err
}

func (w *work) AgentField(ctx context.Context, ref agent.Ref) ([]worker.Result, error) {
	rows, err := w.due.AgentField(ctx, ref)
	return as(rows, func(r projections.DueResult) worker.Result { return worker.Result(r) }), err
}

func as[From, To any](rows []From, convert func(From) To) []To {
	list := make([]To, len(rows))
	for i, r := range rows {
		list[i] = convert(r)
	}
	return list
}
