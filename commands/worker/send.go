package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// gateTimeout bounds how long the gate is held for one send.
const gateTimeout = 5 * time.Second

func replyKey(shopID string) string { return "reply/" + shopID }

// send carries a task to the agent, at most once: shop.sent is appended while the
// gate is held and before the first byte leaves. It returns errWait if the gate
// is closed or the host proof too old, and nothing was sent.
func (w *Worker) send(ctx context.Context, v *view, d *planned, s plan.Slot, id string, now time.Time) (Slot, error) {
	if !w.fresh(d.Consent, s.Choice.Endpoint, now) {
		return Slot{}, errWait
	}
	ep := endpoint(v.Granted.Payload, s.Choice.Endpoint)
	sender := &sending{w: w, consent: d.Consent, shop: id, sent: shop.Sent{
		Endpoint: s.Choice.Endpoint, Identity: s.Identity, Template: s.Choice.Template,
		TemplateVersion: s.Choice.Version, Ask: s.Task.Ask.Hash(),
	}}
	reply, err := w.Field.Ask(ctx, ep.Kind, agents.Call{
		Target:   d.targets[s.Choice.Endpoint],
		Ask:      s.Task.Ask,
		Sender:   agents.As(identity.Pool()[s.Identity]),
		Deadline: w.deadline(),
		Gate:     sender.gate,
	})
	if err == nil && sender.at.IsZero() {
		// Nothing reached the gate: the host did not even let us connect. That is
		// the agent's outcome all the same, so the attempt goes on record.
		var release func()
		if release, err = sender.gate(ctx); err == nil {
			release()
		}
	}
	if err != nil {
		return w.unsent(ctx, id, sender, err)
	}
	return w.record(ctx, id, s, sender.at, reply)
}

// unsent judges an attempt that failed on our side. If shop.sent is in the log,
// or may be, the slot is spent; otherwise it waits.
func (w *Worker) unsent(ctx context.Context, id string, s *sending, err error) (Slot, error) {
	switch {
	case !s.at.IsZero():
		w.Log.WarnContext(ctx, "a task was given up on our side", "shop", id, "error", err)
		return w.lost(ctx, id, Slot{SentAt: s.at})
	case s.refused:
		w.mu.Lock()
		if w.refusals == nil {
			w.refusals = make(map[string]error)
		}
		w.refusals[id] = err
		w.mu.Unlock()
		return Slot{}, errWait
	}
	return Slot{}, err
}

// sending is the gate of one attempt.
type sending struct {
	w       *Worker
	consent string
	shop    string
	sent    shop.Sent
	at      time.Time // when shop.sent was appended
	refused bool      // by the gate
}

// gate is the [agents.Gate] of the attempt: it holds the rows of the programme and
// the consent, appends shop.sent under a command id of its own, and lets go when
// the request is written.
func (s *sending) gate(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	letGo, err := s.w.Gate.Hold(ctx, s.consent)
	if err != nil {
		cancel()
		s.refused = errors.Is(err, domain.ErrForbidden)
		return nil, err
	}
	done := func() { letGo(); cancel() }
	m, err := s.w.onceMeta()
	if err == nil {
		s.at = s.w.Now()
		err = s.w.Service.Shop(ctx, m, s.shop, shop.Send(s.sent))
	}
	if err != nil {
		s.at = time.Time{}
		done()
		return nil, err
	}
	return done, nil
}

// record commits to a reply before anything looks at it, then marks it.
func (w *Worker) record(ctx context.Context, id string, s plan.Slot, sentAt time.Time, r agents.Reply) (Slot, error) {
	slot := Slot{State: shop.StateSent, SentAt: sentAt}
	if r.Status != 0 {
		if err := w.keepReply(ctx, id, r); err != nil {
			return slot, err
		}
		slot.State = shop.StateReplied
	}
	j := shop.Judged{Outcome: r.Outcome, Rule: r.Code, Grader: task.GraderVersion}
	if r.Outcome == "" {
		j = mark(s.Task, r.Text)
	}
	if err := w.Service.Shop(ctx, meta("judge/"+id), id, shop.Judge(j)); err != nil {
		return slot, err
	}
	slot.State = shop.StateJudged
	return slot, nil
}

// keepReply makes body and salt durable, then appends the commitment to them. The
// text that the grader reads stands first, so that a grade can point into it.
func (w *Worker) keepReply(ctx context.Context, id string, r agents.Reply) error {
	var salt domain.Hash
	if _, err := io.ReadFull(w.Rand, salt[:]); err != nil {
		return fmt.Errorf("draw a salt: %w", err)
	}
	body := []byte(r.Text)
	if r.Outcome != "" {
		body = r.Raw
	}
	if err := w.Bodies.Put(ctx, replyKey(id), salt[:], body); err != nil {
		return err
	}
	at, latency := w.Now().UnixMilli(), r.Latency.Milliseconds()
	e := shop.Replied{
		Hash:         shop.ReplyHash(id, at, uint32(r.Status), uint32(latency), salt, body), //nolint:gosec // a status; below 50 days
		ReceivedAtMs: at, Status: r.Status, LatencyMs: latency, Size: len(body), Answer: r.Outcome == "",
	}
	return w.Service.Shop(ctx, meta("reply/"+id), id, shop.Reply(e))
}

// markAgain marks a reply whose worker vanished between the commitment and the
// outcome: the bytes are there, and the grader gives what it would have given.
// What came in place of an answer was known to that worker alone.
func (w *Worker) markAgain(ctx context.Context, id string, s plan.Slot, slot Slot) (Slot, error) {
	answer, err := w.answered(ctx, id)
	if err != nil {
		return slot, err
	}
	if !answer {
		return w.lost(ctx, id, slot)
	}
	_, body, err := w.Bodies.Get(ctx, replyKey(id))
	if err != nil {
		return slot, err
	}
	err = w.Service.Shop(ctx, meta("judge/"+id), id, shop.Judge(mark(s.Task, string(body))))
	return Slot{State: shop.StateJudged, SentAt: slot.SentAt}, err
}

func (w *Worker) answered(ctx context.Context, id string) (answer bool, err error) {
	for r, err := range w.Service.Log.Stream(ctx, shop.StreamOf(id)) {
		if err != nil {
			return false, err
		}
		e, err := w.Service.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return false, err
		}
		if e, ok := e.(shop.Replied); ok {
			answer = e.Answer
		}
	}
	return answer, nil
}

func mark(t task.Task, reply string) shop.Judged {
	g := task.Mark(t, reply)
	return shop.Judged{
		Outcome: g.Outcome, Rule: g.Rule, Literal: g.Literal, Offset: g.Offset, Length: g.Length, Grader: task.GraderVersion,
	}
}

func endpoint(p consent.Payload, id string) consent.Endpoint {
	for i, e := range p.Endpoints {
		if consent.EndpointID(i) == id {
			return e
		}
	}
	return consent.Endpoint{}
}
