// Package worker is the shopper's cycle: it observes what agents show, plans and
// seals days, sends tasks when their time has come, commits to replies, marks
// them, reveals, opens days and compares.
//
// [Worker.Step] does all that is due and says when the next thing is. What is due
// follows from the ledger alone; the worker keeps nothing but caches and the
// results of its hourly checks. Several workers may run on one ledger:
// expected versions and the gate keep them from doing anything twice.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// A Worker runs the cycle. Its methods are not for concurrent use; what it does
// at one moment it does side by side as far as Parallel allows.
type Worker struct {
	Service *commands.Service
	Work    Work
	Field   Field

	// ExamField is the world as the exam harness reaches it, from other addresses than
	// tasks; nil: like Field.
	ExamField Field

	Gate     Gate
	Turns    Turns
	Bodies   Bodies
	Leases   Leases           // nil: no other worker shares the ledger
	Chain    Chain            // nil: no chain can be read
	Anchors  Anchors          // nil: commits and seals are attested nowhere, and nothing waits for that
	Purse    *x402.Purse      // nil: nothing is paid
	Rand     io.Reader        // of reply salts and of the command ids of sends
	Now      func() time.Time // programme time
	Sources  []string         // addresses that tasks come from, published with reveals
	Deadline time.Duration    // of one task; 0 means [consent.TaskDeadline]
	Parallel int              // consents served side by side; 0 means 1
	Async    bool             // send beside the cycle; without, Step waits for each answer
	Log      *slog.Logger

	// Cycled is told what came of each step that Run takes; nil tells nobody.
	Cycled func(err error)

	// CheckEvery is the interval at which host proofs and surfaces are read: an hour
	// if zero, and a day at most. Beyond two hours tasks are missed, for nothing is
	// sent on an older proof.
	CheckEvery time.Duration

	mu      sync.Mutex
	checks  map[string]hosts             // by consent
	fit     map[string]time.Time         // by consent: when its agent was last looked at
	days    map[dayKey]*planned          // what is sealed and not opened yet
	dropped map[string]uint64            // by consent: the hour up to which leaves of seals were deleted
	waits   map[string]shop.MissedReason // by shop: why it was not sent when it was due
	flying  map[string]bool              // shops that are being sent, with Async
	unread  map[consent.Endpoint]string  // endpoints whose last reading failed, and why
	flight  sync.WaitGroup
	ending  atomic.Bool // nothing leaves any more
	holder  string      // of leases
}

// Work is what the worker reads: a private read model, caught up by CatchUp.
type Work interface {
	CatchUp(ctx context.Context) error

	// Consents returns every consent with something left to do.
	Consents(ctx context.Context) ([]Consent, error)

	// Plans returns the plans of all consents that an agent ever had.
	Plans(ctx context.Context, ref agent.Ref) ([]Plan, error)

	// Slots returns the slots of a consent that are not revealed, by shop id.
	Slots(ctx context.Context, consentID string) (map[string]Slot, error)

	// Heads returns the hash of the last record of each slot of a day, or nil if the
	// day has no plan.
	Heads(ctx context.Context, consentID string, day uint32) (*[plan.Slots]domain.Hash, error)

	// Seals returns the hours that are sealed from one hour up to another, in order.
	Seals(ctx context.Context, consentID string, from, to uint64) ([]uint64, error)

	// Surfaces returns what the endpoints of an agent were seen to show, oldest
	// first.
	Surfaces(ctx context.Context, ref agent.Ref) ([]Surface, error)

	// Compared returns the comparisons of a consent.
	Compared(ctx context.Context, consentID string) (Comparisons, error)

	// Exam returns the samples of an agent's exam: of its trial attempts that are not
	// withdrawn, and of all recorded runs.
	Exam(ctx context.Context, ref agent.Ref) ([]exam.Sample, error)

	// Field returns the revealed results of a consent, AgentField those of all
	// consents that an agent ever had.
	Field(ctx context.Context, consentID string) ([]Result, error)
	AgentField(ctx context.Context, ref agent.Ref) ([]Result, error)
}

// A Consent is a consent with something left to do.
type Consent struct {
	Granted consent.Granted
	Demo    bool
	OverAt  time.Time // zero while it is active
	Proven  map[string]bool
}

// A Plan is a day that is sealed or opened.
type Plan struct {
	Consent  string
	Day      uint32
	Sealed   bool
	Commits  []domain.Hash
	Eligible domain.Hash
	Opened   bool
	Count    int // of real slots; known once it is opened
}

// A Slot is where a slot stands.
type Slot struct {
	State  shop.State
	SentAt time.Time // zero if it was not sent
}

// A Surface is what an endpoint was seen to show from a moment on.
type Surface struct {
	Kind task.Kind
	URL  string
	Hash domain.Hash
	At   time.Time
}

// Comparisons says which comparisons of a consent exist.
type Comparisons struct {
	Looks   int
	Days    map[uint32]bool
	Ended   bool
	PAlways string // of the last look, "" before the first

	Confirmed int            // the first look that was exam_only behind the gate; 0 if none was
	Incident  incident.Stage // what became of the incident that follows from it
}

// A Result is a revealed slot.
type Result struct {
	Family string
	Result shop.Result
}

// Field is the world of agents.
type Field interface {
	Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error)
	Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error)
}

// Chain reads what deferred tasks ask for.
type Chain interface {
	// Reads reports whether there is a node of the chain with the given id.
	Reads(chain uint64) bool

	// Head returns the number of the newest block of the chain with the given id.
	Head(ctx context.Context, chain uint64) (uint64, error)

	// BlockHash returns the hash of a block, 0x and 64 hex digits.
	BlockHash(ctx context.Context, chain, block uint64) (string, error)

	// Balance returns the native balance of an address at a block, in wei.
	Balance(ctx context.Context, chain, block uint64, address string) (string, error)
}

// Anchors tells what is attested on a chain.
type Anchors interface {
	// Attested reports whether all of the commits stand in batches that are attested
	// now. The root of a seal is a commit as well.
	Attested(ctx context.Context, commits []domain.Hash) (bool, error)
}

// A Gate lets tasks pass while the consent and the programme do. Hold returns
// [tables.ErrPaused] or another [domain.ErrForbidden] if they do not.
type Gate interface {
	Hold(ctx context.Context, t programme.Task) (release func(), err error)
}

// Turns keeps tasks for one host apart, over all consents and workers.
type Turns interface {
	// Take returns the zero time if the task may go to its host now, or when to ask
	// again. A turn that a task has may be asked for again.
	Take(ctx context.Context, t tables.Turn, now time.Time) (again time.Time, err error)

	// Rest leaves a host alone until a moment.
	Rest(ctx context.Context, host string, until time.Time) error

	// Waited reports whether a task had to wait, the last time that it asked.
	Waited(ctx context.Context, shop string) (bool, error)
}

// Leases keep several workers from doing the same work. They save work; what keeps
// anything from being done twice is the ledger.
type Leases interface {
	TryAcquire(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	Release(ctx context.Context, name, holder string) error
}

// Bodies keeps bytes beside the log.
type Bodies interface {
	Put(ctx context.Context, key string, salt, body []byte) error
	Get(ctx context.Context, key string) (salt, body []byte, err error)
	Delete(ctx context.Context, keys ...string) error
}

// The times of the cycle.
const (
	sendWindow   = 15 * time.Minute // after its planned moment a task is still sent
	proofLife    = 2 * time.Hour    // a send needs a host proof younger than this
	observeEvery = time.Hour
	planFrom     = 2 * time.Hour // before midnight, the next day is planned
	surfaceUntil = 4 * time.Hour // before midnight, the last surface that counts for the next day
	lostAfter    = time.Minute   // behind its deadline a task without an outcome is lost
	anchorWait   = 2 * time.Hour // behind its moment a reveal waits so long for its seal to be attested
	openMargin   = time.Hour     // behind the day and the reveal delay, the day is opened
)

func (w *Worker) deadline() time.Duration {
	if w.Deadline > 0 {
		return w.Deadline
	}
	return consent.TaskDeadline
}

// Run steps until ctx ends, looking at least once in each interval. From then on nothing
// leaves, and tasks that have left are waited for, as long as an agent may take for
// one. When Run returns, nothing is on its way any more; what was given up comes out as
// lost, and all else goes on where it stood when a worker steps again. A Worker runs
// once.
func (w *Worker) Run(ctx context.Context, interval time.Duration) error {
	defer context.AfterFunc(ctx, func() { w.ending.Store(true) })()
	defer w.flight.Wait()
	for ctx.Err() == nil {
		next, err := w.Step(ctx)
		if w.Cycled != nil && ctx.Err() == nil {
			w.Cycled(err)
		}
		if err != nil && ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "a step of the cycle failed and is tried again", "error", err)
		}
		wait := interval
		if until := next.Sub(w.Now()); err == nil && until < wait {
			wait = max(until, 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// Step does everything that is due now and returns the next moment at which
// something will be. An error of one consent does not keep the others waiting.
func (w *Worker) Step(ctx context.Context) (next time.Time, err error) {
	ctx, end := commands.StartSpan(ctx, "cycle")
	defer func() { end(err) }()
	if err := w.Work.CatchUp(ctx); err != nil {
		return time.Time{}, err
	}
	consents, err := w.Work.Consents(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now := w.Now()
	next = nextHour(now)
	if check := now.Truncate(w.every()).Add(w.every()); check.Before(next) {
		next = check
	}
	// First the seals: they must not wait for anybody that may be slow.
	errs := []error{w.each(consents, func(c Consent) error { return w.seal(ctx, c, now) })}
	var mu sync.Mutex
	errs = append(errs, w.each(consents, func(c Consent) error {
		at, err := w.leased(ctx, c, now)
		mu.Lock()
		defer mu.Unlock()
		if !at.IsZero() && at.Before(next) {
			next = at
		}
		return err
	}))
	return next, errors.Join(errs...)
}

// each does something for all consents, side by side as far as Parallel allows.
func (w *Worker) each(consents []Consent, do func(Consent) error) error {
	errs := make([]error, len(consents))
	limit := make(chan struct{}, max(w.Parallel, 1))
	var wg sync.WaitGroup
	for i, c := range consents {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if err := do(c); err != nil {
				errs[i] = fmt.Errorf("consent %s: %w", c.Granted.Consent, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// leased serves a consent unless another worker is at it.
func (w *Worker) leased(ctx context.Context, c Consent, now time.Time) (next time.Time, err error) {
	if w.Leases == nil {
		return w.serve(ctx, c, now)
	}
	name, holder := "consent/"+c.Granted.Consent, w.name()
	ok, err := w.Leases.TryAcquire(ctx, name, holder, leaseLife)
	if err != nil || !ok {
		return next, err
	}
	next, err = w.serve(ctx, c, now)
	return next, errors.Join(err, w.Leases.Release(context.WithoutCancel(ctx), name, holder))
}

// leaseLife is how long a worker that vanished holds others up, in real time.
const leaseLife = time.Minute

// name is what this worker is called in leases.
func (w *Worker) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == "" {
		w.holder = uuid.NewString()
	}
	return w.holder
}

// serve does what is due for one consent.
func (w *Worker) serve(ctx context.Context, c Consent, now time.Time) (next time.Time, err error) {
	ctx, end := commands.StartSpan(ctx, "consent", attribute.String("mystery.consent", c.Granted.Consent))
	defer func() { end(err) }()
	if err := w.expire(ctx, &c, now); err != nil {
		return time.Time{}, err
	}
	var errs []error // what cannot be observed or planned keeps nothing else waiting
	if c.OverAt.IsZero() {
		errs = append(errs, w.observe(ctx, &c, now), w.planNext(ctx, c, w.Now()))
	}
	next, err = w.tend(ctx, c, now)
	return next, errors.Join(append(errs, err)...)
}

// expire ends a consent whose last day is over, or whose agent changed hands or
// lost its last certificate.
func (w *Worker) expire(ctx context.Context, c *Consent, now time.Time) error {
	p := c.Granted.Payload
	end := domain.DayStart(p.LastDay + 1)
	switch {
	case !c.OverAt.IsZero():
		return nil
	case now.Before(end):
		return w.endIfUnfit(ctx, c, now)
	}
	m := meta("expire/" + c.Granted.Consent)
	if err := w.Service.Consent(ctx, m, p.Agent, consent.End{Consent: c.Granted.Consent, Reason: consent.Expired}); err != nil {
		return err
	}
	c.OverAt = end
	w.Log.InfoContext(ctx, "a consent has expired", "consent", c.Granted.Consent)
	return nil
}

// endIfUnfit looks once in every hour at the agent of a consent. What the operator
// records ends a consent at once; here that is made good after a crash in between,
// and the registry of an ERC-8004 agent is asked who owns it. A chain that cannot
// be read changes nothing.
func (w *Worker) endIfUnfit(ctx context.Context, c *Consent, now time.Time) error {
	id, ref := c.Granted.Consent, c.Granted.Payload.Agent
	w.mu.Lock()
	last := w.fit[id]
	w.mu.Unlock()
	if now.Truncate(observeEvery).Equal(last.Truncate(observeEvery)) {
		return nil
	}
	if err := w.checkOwner(ctx, ref); err != nil {
		return err
	}
	m, err := w.onceMeta()
	if err != nil {
		return err
	}
	if err := w.Service.EndIfUnfit(ctx, m, ref); err != nil {
		return err
	}
	switch active, err := w.Service.ActiveConsent(ctx, ref); {
	case err != nil && !errors.Is(err, domain.ErrNotFound):
		return err
	case err != nil, active.Consent != id:
		c.OverAt = w.Now()
		w.Log.InfoContext(ctx, "a consent is over", "consent", id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fit == nil {
		w.fit = make(map[string]time.Time)
	}
	w.fit[id] = now
	return nil
}

// checkOwner records who owns an ERC-8004 agent, if its registry names somebody
// else than before.
func (w *Worker) checkOwner(ctx context.Context, ref agent.Ref) error {
	if _, ok := ref.Token(); !ok {
		return nil
	}
	known, err := w.Service.KnownAgent(ctx, ref)
	if err != nil {
		return err
	}
	owned, err := w.Service.Ownership(ctx, known)
	if err != nil {
		w.Log.WarnContext(ctx, "the owner of an agent cannot be read and is taken to be the one it was", "agent", ref, "error", err)
		return nil
	}
	m, err := w.onceMeta()
	if err != nil {
		return err
	}
	return w.Service.Agent(ctx, m, ref, commands.NewOwner(owned))
}

// meta returns the meta of a command that anybody may repeat: its id follows from
// what is done, so that it has one effect.
func meta(command string) ledger.Meta {
	return ledger.Meta{Actor: "worker", Command: command}
}

// onceMeta returns the meta of a command that must not be repeated.
func (w *Worker) onceMeta() (ledger.Meta, error) {
	id, err := uuid.NewRandomFromReader(w.Rand)
	if err != nil {
		return ledger.Meta{}, fmt.Errorf("draw a command id: %w", err)
	}
	return meta(id.String()), nil
}

func nextHour(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }
