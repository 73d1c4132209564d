package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

func replyKey(shopID string) string { return shop.ReplyKey(shopID) }

// launch sends a task; with Async it does so beside the cycle, which must not wait
// for an agent: when things happen in public would then tell who was asked.
func (w *Worker) launch(ctx context.Context, v *view, d *planned, s plan.Slot, id string) (Slot, error) {
	q, _ := v.own(d.Day.Day)
	commits := q.Commits
	if !w.Async {
		return w.send(ctx, v, d, s, id, commits)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying == nil {
		w.flying = make(map[string]bool)
	}
	if w.flying[id] {
		return Slot{}, errWait
	}
	w.flying[id] = true
	ctx, landed := outlive(ctx, w.deadline()+landing)
	w.flight.Go(func() {
		defer landed()
		_, err := w.send(ctx, v, d, s, id, commits)
		if err != nil && !errors.Is(err, errWait) && ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "a task could not be carried out", "shop", id, "error", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.flying, id)
	})
	return Slot{}, errWait // what comes of it is in the ledger when the cycle looks again
}

// landing is what a task that was answered at its deadline has left to get on record.
const landing = 15 * time.Second

// outlive returns a context that ends a grace behind ctx: what has left is waited for,
// and not given up because the process is told to end.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return long, func() {
		stop()
		cancel()
	}
}

func (w *Worker) isFlying(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flying[id]
}

// send carries a task to the agent, at most once: shop.sent is appended while the
// gate is held and before the first byte leaves. It returns errWait if the task
// may not leave now, and nothing was sent. The commits are those of its day.
func (w *Worker) send(ctx context.Context, v *view, d *planned, s plan.Slot, id string, commits []domain.Hash) (_ Slot, err error) {
	ctx, end := commands.StartSpan(ctx, "send", attribute.String("mystery.shop", id))
	defer func() { end(unlessWaiting(err)) }()
	ep := endpoint(v.Granted.Payload, s.Choice.Endpoint)
	host, err := agents.HostOf(ep.URL)
	if err != nil {
		return Slot{}, err
	}
	a := &attempt{
		w: w, shop: id, sendAt: time.Unix(s.SendAt, 0), commits: commits,
		task: programme.Task{Consent: d.Consent, Host: host, Template: s.Choice.Template, Identity: s.Identity},
		sent: shop.Sent{
			Endpoint: s.Choice.Endpoint, Identity: s.Identity, Template: s.Choice.Template,
			TemplateVersion: s.Choice.Version, Ask: s.Task.Ask.Hash(),
		},
	}
	if err := a.ask(ctx); err != nil {
		return Slot{}, err // before anything is dialled
	}
	if a.sent.Filled, err = w.fill(ctx, &s.Task); err != nil {
		w.Log.WarnContext(ctx, "a chain cannot be read", "shop", id, "error", err)
		return w.block(ctx, id)
	}
	target := d.Targets[s.Choice.Endpoint]
	session := shop.Session{Kind: ep.Kind, URL: target.URL, Dialect: target.Dialect, Exchanges: []shop.Exchange{}}
	bought := w.purchase(v, d, s, id)
	reply, err := w.Field.Ask(ctx, ep.Kind, agents.Call{
		Target:   target,
		Ask:      s.Task.Ask,
		Sender:   agents.As(identity.Pool()[s.Identity]),
		Deadline: w.deadline(),
		Gate:     a.gate,
		Through:  through(bought),
		Exchanged: func(x agents.Exchange) {
			session.Exchanges = append(session.Exchanges, shop.Exchange{
				Method: x.Method, URL: x.URL, RPC: x.RPC, Sent: x.Sent, Status: x.Status, Received: x.Received,
			})
		},
	})
	if err == nil && a.at.IsZero() {
		// Nothing reached the gate: the host did not even let us connect. That is
		// the agent's outcome all the same, so the attempt goes on record.
		var release func()
		if release, err = a.gate(ctx); err == nil {
			release()
		}
	}
	switch {
	case err == nil:
		slot, err := w.record(ctx, id, s, a.at, session, reply, bought)
		if reply.RetryAfter > 0 {
			err = errors.Join(err, w.rest(ctx, ep.URL, reply.RetryAfter))
		}
		return slot, err
	case !a.at.IsZero():
		// Given up on our side: lost, once it is sure that nobody waits for it.
		w.Log.WarnContext(ctx, "a task was given up on our side", "shop", id, "error", err)
		return Slot{State: sentState(bought), SentAt: a.at}, nil
	case a.waits != nil:
		return Slot{}, a.waits
	case errors.Is(err, domain.ErrConflict):
		return Slot{}, errWait // another worker may have been first
	}
	return Slot{}, err
}

// unlessWaiting returns nil for a task that only had to wait.
func unlessWaiting(err error) error {
	if l := (later{}); errors.Is(err, errWait) || errors.As(err, &l) {
		return nil
	}
	return err
}

// An attempt is one try to send a task, and its [agents.Gate].
type attempt struct {
	w       *Worker
	task    programme.Task // as a pause sees it
	shop    string
	sendAt  time.Time
	commits []domain.Hash // of the day
	sent    shop.Sent
	at      time.Time // when shop.sent was appended
	waits   error     // why the task may not leave now: errWait or a later
}

// mayLeave returns errWait if the window of the task is over, its host proof is too
// old, or the plan that it belongs to is not attested.
func (a *attempt) mayLeave(ctx context.Context) error {
	now := a.w.Now()
	switch {
	case a.w.ending.Load():
		return errWait // another process sends it, or this one when it is back
	case now.After(a.sendAt.Add(sendWindow)):
		return a.wait(shop.OperatorLate, errWait)
	case !a.w.fresh(a.task.Consent, a.sent.Endpoint, now):
		return a.wait(shop.ProofStale, errWait)
	case a.w.Anchors == nil:
		return nil
	}
	ok, err := a.w.Anchors.Attested(ctx, a.commits)
	if err == nil && !ok {
		err = a.wait(shop.Unattested, errWait)
	}
	return err
}

// wait keeps why the task waits, which is the reason if it is missed, and returns as.
func (a *attempt) wait(reason shop.MissedReason, as error) error {
	a.waits = as
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.w.waits == nil {
		a.w.waits = make(map[string]shop.MissedReason)
	}
	a.w.waits[a.shop] = reason
	return as
}

// ask returns nil if the task may leave now as far as can be told before its host
// is dialled: a connection that carries nothing would announce the task as well.
func (a *attempt) ask(ctx context.Context) error {
	if err := a.mayLeave(ctx); err != nil {
		return err
	}
	// What the worker has read may be older than a send that has just ended.
	state, err := a.w.Service.ShopState(ctx, a.shop)
	if err != nil {
		return err
	}
	if state != shop.StateCommitted {
		return errWait
	}
	letGo, err := a.hold(ctx)
	if err != nil {
		return err
	}
	letGo()
	return a.turn(ctx, a.w.Now())
}

// turn takes the task's turn at its host. One that was taken counts even if the task
// does not leave after all.
func (a *attempt) turn(ctx context.Context, now time.Time) error {
	ends := a.sendAt.Add(sendWindow)
	again, err := a.w.Turns.Take(ctx, tables.Turn{Host: a.task.Host, Shop: a.shop, Due: a.sendAt, Ends: ends}, now)
	switch {
	case err != nil:
		return err
	case again.After(ends):
		return a.wait(shop.HostBusy, later{ends.Add(time.Second)})
	case !again.IsZero():
		return a.wait(shop.HostBusy, later{again})
	}
	return nil
}

// hold enters the gate.
func (a *attempt) hold(ctx context.Context) (release func(), err error) {
	release, err = a.w.Gate.Hold(ctx, a.task)
	switch {
	case errors.Is(err, tables.ErrPaused):
		err = errors.Join(err, a.wait(shop.Paused, errWait))
	case errors.Is(err, domain.ErrForbidden):
		err = errors.Join(err, a.wait(shop.OperatorLate, errWait))
	}
	return release, err
}

// gate holds the rows of the programme and the consent. The first time it appends
// shop.sent under a command id of its own; a task of several requests passes again
// before the one that asks.
func (a *attempt) gate(ctx context.Context) (release func(), err error) {
	if a.at.IsZero() {
		if err := a.mayLeave(ctx); err != nil {
			return nil, err
		}
	}
	letGo, err := a.hold(ctx)
	if err != nil || !a.at.IsZero() {
		return letGo, err
	}
	now := a.w.Now()
	if err := a.leave(ctx, now); err != nil {
		letGo()
		return nil, err
	}
	a.at = now
	return letGo, nil
}

// leave puts on record that the task leaves now.
func (a *attempt) leave(ctx context.Context, now time.Time) error {
	if err := a.turn(ctx, now); err != nil {
		return err // the day has changed since it asked, or another task was faster
	}
	m, err := a.w.onceMeta()
	if err != nil {
		return err
	}
	return a.w.Service.Shop(ctx, m, a.shop, shop.Send(a.sent))
}

// record commits to a session and its reply before anything looks at them, then marks
// the reply.
func (w *Worker) record(ctx context.Context, id string, s plan.Slot, sentAt time.Time, talk shop.Session, r agents.Reply, bought *x402.Purchase) (Slot, error) {
	slot := Slot{State: sentState(bought), SentAt: sentAt}
	if err := w.keepSession(ctx, id, talk); err != nil {
		return slot, err
	}
	slot.State = slot.State.Then(shop.StateConversed)
	if r.Status != 0 {
		if err := w.keepReply(ctx, id, r); err != nil {
			return slot, err
		}
		slot.State = slot.State.Then(shop.StateReplied)
	}
	if slot.State.Paying() && r.Status == http.StatusPaymentRequired {
		return slot, nil // what it means depends on whether the money was taken
	}
	j := shop.Judged{Outcome: r.Outcome, Rule: r.Code, Grader: task.GraderVersion}
	if r.Outcome == "" {
		j = mark(s.Task, r.Text)
	}
	if err := w.Service.Shop(ctx, meta("judge/"+id), id, shop.Judge(j)); err != nil {
		return slot, err
	}
	slot.State = slot.State.Then(shop.StateJudged)
	return w.receipted(ctx, bought, id, slot)
}

// keepSession makes the session and its salt durable, then appends the commitments to
// it.
func (w *Worker) keepSession(ctx context.Context, id string, s shop.Session) error {
	salt, err := w.salt()
	if err != nil {
		return err
	}
	body, err := domain.Canonical(s)
	if err != nil {
		return err
	}
	if err := w.Bodies.Put(ctx, shop.SessionKey(id), salt[:], body); err != nil {
		return err
	}
	return w.Service.Shop(ctx, meta("session/"+id), id, s.Converse(id, salt))
}

// salt draws the salt of a commitment.
func (w *Worker) salt() (salt domain.Hash, err error) {
	if _, err := io.ReadFull(w.Rand, salt[:]); err != nil {
		return salt, fmt.Errorf("draw a salt: %w", err)
	}
	return salt, nil
}

// keepReply makes body and salt durable, then appends the commitment to them. The
// text that the grader reads stands first, so that a grade can point into it.
func (w *Worker) keepReply(ctx context.Context, id string, r agents.Reply) error {
	salt, err := w.salt()
	if err != nil {
		return err
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

// fill completes a deferred task with what its chain says now. What goes into the
// event is all that it takes to do so again.
func (w *Worker) fill(ctx context.Context, t *task.Task) (f task.Filled, err error) {
	d := t.Deferred
	if d == nil || d.Rule == task.Payment {
		return f, nil
	}
	if w.Chain == nil {
		return f, fmt.Errorf("no node of chain %d is configured: %w", d.Chain, domain.ErrUnavailable)
	}
	head, err := w.Chain.Head(ctx, d.Chain)
	if err != nil {
		return f, err
	}
	if head <= uint64(d.Depth) {
		return f, fmt.Errorf("chain %d has %d blocks only: %w", d.Chain, head, domain.ErrUnavailable)
	}
	block := head - uint64(d.Depth)
	if d.Rule == task.BlockHash {
		f.Answer, err = w.Chain.BlockHash(ctx, d.Chain, block)
	} else {
		f.Answer, err = w.Chain.Balance(ctx, d.Chain, block, d.Address)
	}
	if err != nil {
		return f, err
	}
	f.Block = strconv.FormatUint(block, 10)
	*t, err = t.Fill(f)
	return f, err
}

// block judges a deferred task that cannot be completed.
func (w *Worker) block(ctx context.Context, id string) (Slot, error) {
	j := shop.Judge{Outcome: task.Blocked, Rule: shop.ChainReadFailed, Grader: task.GraderVersion}
	err := w.Service.Shop(ctx, meta("block/"+id), id, j)
	return Slot{State: shop.StateJudged}, err
}

// markAgain marks a reply whose worker vanished between the commitment and the
// outcome: the bytes are there, and the grader gives what it would have given.
func (w *Worker) markAgain(ctx context.Context, id string, s plan.Slot, slot Slot, filled task.Filled) (Slot, error) {
	var err error
	if s.Task, err = s.Task.Fill(filled); err != nil {
		return slot, err
	}
	_, body, err := w.Bodies.Get(ctx, replyKey(id))
	if err != nil {
		return slot, err
	}
	err = w.Service.Shop(ctx, meta("judge/"+id), id, shop.Judge(mark(s.Task, string(body))))
	return Slot{State: slot.State.Then(shop.StateJudged), SentAt: slot.SentAt}, err
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
