package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
)

// hosts is what the checks of a consent's hosts found.
type hosts struct {
	at      time.Time            // of the last check
	good    map[string]time.Time // by endpoint: when it was last proven
	how     map[string]consent.ProofMethod
	failing map[string]time.Time // by endpoint: since when its host cannot be asked
}

// seen is what is kept beside the log of an observed surface. The target is part
// of it: where a card points is part of what it shows.
type seen struct {
	Surface task.Surface  `json:"surface"`
	Target  agents.Target `json:"target"`
}

func surfaceKey(h domain.Hash) string { return "surface/" + h.String() }

// observe asks for the host proofs and surfaces of a consent's endpoints: once
// in every interval, whatever is planned, as an agent that is looked at before each
// task would know when one comes; and at once for a consent that this worker has
// never looked at. Several workers look by themselves, and what hosts said lately
// answers for all of them.
func (w *Worker) observe(ctx context.Context, c *Consent, now time.Time) error {
	id := c.Granted.Consent
	w.mu.Lock()
	last := w.checks[id]
	w.mu.Unlock()
	if now.Truncate(w.every()).Equal(last.at.Truncate(w.every())) {
		return nil
	}
	p := c.Granted.Payload
	if err := w.checkHosts(ctx, c, now); err != nil {
		return err
	}
	for i, e := range p.Endpoints {
		if !slices.Contains(p.Kinds, e.Kind) {
			continue
		}
		if err := w.look(ctx, p.Agent, e, w.observer(id, i, now)); err != nil {
			return err
		}
	}
	return w.Work.CatchUp(ctx)
}

// every is the interval at which hosts are looked at.
func (w *Worker) every() time.Duration {
	if w.CheckEvery > 0 {
		return min(w.CheckEvery, 24*time.Hour)
	}
	return observeEvery
}

func (w *Worker) checkHosts(ctx context.Context, c *Consent, now time.Time) error {
	p := c.Granted.Payload
	known, err := w.Service.KnownAgent(ctx, p.Agent)
	if err != nil {
		return err
	}
	proofs := w.Service.Proofs(ctx, known, p)
	w.weigh(c, proofs, now)
	m, err := w.onceMeta()
	if err != nil {
		return err
	}
	if err := w.Service.Consent(ctx, m, p.Agent, consent.CheckHosts{Consent: c.Granted.Consent, Proofs: proofs}); err != nil {
		return err
	}
	for i, proof := range proofs {
		c.Proven[consent.EndpointID(i)] = proof.Method != ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.checks[c.Granted.Consent]
	h.at = now // only now: a check that was not recorded is made again
	w.checks[c.Granted.Consent] = h
	return nil
}

// weigh keeps when each endpoint was last proven. A host that cannot be asked
// keeps what it had for as long as a proof lives, for a fault of the network is
// no word of the owner's; nothing is sent on a proof that is older. An identity that
// was withdrawn is a word, and its endpoint keeps nothing.
func (w *Worker) weigh(c *Consent, proofs []consent.Proof, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.checks[c.Granted.Consent]
	if h.good == nil {
		h.good, h.failing, h.how = make(map[string]time.Time), make(map[string]time.Time), make(map[string]consent.ProofMethod)
	}
	for i := range proofs {
		id := consent.EndpointID(i)
		switch {
		case proofs[i].Method != "":
			h.good[id], h.how[id] = now, proofs[i].Method
			delete(h.failing, id)
		case proofs[i].Unknown && c.Proven[id] && h.how[id] != consent.ByIdentity:
			if h.failing[id].IsZero() {
				h.failing[id] = now
			}
			if now.Sub(h.failing[id]) < proofLife {
				proofs[i].Method = consent.ByDocument
			}
		}
	}
	if w.checks == nil {
		w.checks = make(map[string]hosts)
	}
	w.checks[c.Granted.Consent] = h
}

// fresh reports whether an endpoint was proven lately enough to send to it.
func (w *Worker) fresh(consentID, endpoint string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Sub(w.checks[consentID].good[endpoint]) < proofLife
}

// look reads the surface of one endpoint and records it if it changed. An agent
// that cannot be read keeps the surface it had.
func (w *Worker) look(ctx context.Context, ref agent.Ref, e consent.Endpoint, s agents.Sender) error {
	ctx, cancel := context.WithTimeout(ctx, 2*w.deadline()) // its host may be at a task
	defer cancel()
	surface, target, err := w.Field.Observe(ctx, e.Kind, e.URL, s)
	w.remember(e, err)
	if err != nil {
		if refused, ok := errors.AsType[*agents.Error](err); ok && refused.RetryAfter > 0 {
			if err := w.rest(ctx, e.URL, refused.RetryAfter); err != nil {
				return err
			}
		}
		w.Log.InfoContext(ctx, "an endpoint cannot be read and keeps its last surface", "agent", ref, "url", e.URL, "error", err)
		return nil
	}
	body, err := domain.Canonical(seen{surface, target})
	if err != nil {
		w.Log.InfoContext(ctx, "an endpoint shows what has no canonical form and keeps its last surface", "agent", ref, "url", e.URL, "error", err)
		return nil
	}
	hash := domain.Sum(body)
	// The body is durable before the event that names it.
	if err := w.Bodies.Put(ctx, surfaceKey(hash), nil, body); err != nil {
		return err
	}
	m, err := w.onceMeta()
	if err != nil {
		return err
	}
	return w.Service.Agent(ctx, m, ref, agent.ObserveSurface{Kind: e.Kind, URL: e.URL, Surface: hash})
}

// remember keeps why the last reading of an endpoint failed: the code, or in its place
// the outcome, of what is the agent's doing.
func (w *Worker) remember(e consent.Endpoint, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unread, e)
	if failed, ok := errors.AsType[*agents.Error](err); ok {
		if w.unread == nil {
			w.unread = make(map[consent.Endpoint]string)
		}
		w.unread[e] = cmp.Or(failed.Code, string(failed.Outcome))
	}
}

// rest leaves the host of an endpoint alone for as long as it asked: nothing is sent
// to it before. Its surfaces are still read at their fixed times.
func (w *Worker) rest(ctx context.Context, endpoint string, d time.Duration) error {
	host, err := agents.HostOf(endpoint)
	if err != nil {
		return err
	}
	return w.Turns.Rest(ctx, host, w.Now().Add(d))
}

// observer returns who looks: an identity of the pool that nobody outside can
// foresee, or an agent would know us by it.
func (w *Worker) observer(consentID string, endpoint int, now time.Time) agents.Sender {
	hour := uint64(now.Unix() / int64(observeEvery/time.Second)) //nolint:gosec // after 1970
	key := domain.MAC(w.Service.Secrets.Current(), domain.NewEnc("karatum/mystery/observer/v1").Str(consentID).U64(hour))
	pool := identity.Pool()
	return agents.As(pool[plan.U(key, fmt.Sprintf("endpoint:%d", endpoint), uint64(len(pool)))])
}

// offers returns what the endpoints of a consent showed for the purposes of a day:
// the last surface before 20:00 of the day before, or for the first day of the
// consent, if there is none, the one read when it was granted.
func (w *Worker) offers(ctx context.Context, p consent.Payload, day uint32) (offers []plan.Offer, named []plan.Surface, targets map[string]agents.Target, err error) {
	history, err := w.Work.Surfaces(ctx, p.Agent)
	if err != nil {
		return nil, nil, nil, err
	}
	until := domain.DayStart(day).Add(-surfaceUntil)
	named, targets = []plan.Surface{}, make(map[string]agents.Target)
	for i, e := range p.Endpoints {
		id := consent.EndpointID(i)
		if !slices.Contains(p.Kinds, e.Kind) {
			offers = append(offers, plan.Offer{ID: id, LeftOut: true})
			continue
		}
		hash, ok := surfaceFor(history, e, until, day == p.FirstDay)
		if !ok {
			offers = append(offers, plan.Offer{ID: id, Unread: true, Cause: w.causeOf(e)})
			continue
		}
		_, body, err := w.Bodies.Get(ctx, surfaceKey(hash))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("surface %s of %s: %w", hash, e.URL, err)
		}
		var s seen
		if err := domain.Unmarshal(body, &s); err != nil {
			return nil, nil, nil, fmt.Errorf("surface %s of %s: %w", hash, e.URL, err)
		}
		offers = append(offers, plan.Offer{ID: id, Surface: s.Surface})
		named = append(named, plan.Surface{Endpoint: id, Hash: hash})
		targets[id] = s.Target
	}
	return offers, named, targets, nil
}

// causeOf returns why the last reading of an endpoint failed; "" if it did not, or this
// worker did not see it.
func (w *Worker) causeOf(e consent.Endpoint) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread[e]
}

// surfaceFor returns the last surface of an endpoint before a moment, and for a
// first day the first one if that is all there is.
func surfaceFor(history []Surface, e consent.Endpoint, until time.Time, firstDay bool) (hash domain.Hash, ok bool) {
	for _, s := range history {
		switch {
		case s.URL != e.URL, s.Kind != e.Kind:
		case s.At.Before(until):
			hash, ok = s.Hash, true
		case firstDay && !ok:
			return s.Hash, true
		}
	}
	return hash, ok
}
