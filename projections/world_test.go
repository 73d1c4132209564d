package projections_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

var catalog = domain.NewCatalog(agent.Events, batch.Events, consent.Events, exam.Events, finding.Events,
	incident.Events, plan.Events, programme.Events, seal.Events, shop.Events)

// A history is a log that a test writes by hand. Positions have gaps, as some
// stores give them.
type history struct {
	ledger.Log

	mu      sync.Mutex
	records []ledger.Record
	now     time.Time
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// add appends one event a minute.
func (h *history) add(t *testing.T, s ledger.Stream, events ...domain.Event) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now.IsZero() {
		h.now = start
	}
	var head domain.Hash
	var version uint64
	for _, r := range h.records {
		if r.Stream == s {
			head, version = r.Hash, r.Version
		}
	}
	prepared, err := ledger.Prepare(s, ledger.Meta{Actor: "test", Command: fmt.Sprint(s, version)}, events...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range prepared {
		version++
		r.Link(head, version, h.now)
		head = r.Hash
		r.Position = 1
		if n := len(h.records); n > 0 {
			r.Position = h.records[n-1].Position + 3
		}
		h.records = append(h.records, r)
		h.now = h.now.Add(time.Minute)
	}
}

// sealed returns the records of s that are sealed.
func (h *history) sealed(s ledger.Stream) (records []ledger.Record) {
	for _, r := range h.records {
		if r.Stream == s && catalog.Visibility(r.Type) == domain.Sealed {
			r.Position, r.Hash = 0, domain.Hash{}
			records = append(records, r)
		}
	}
	return records
}

// After implements [ledger.Log].
func (h *history) After(_ context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		h.mu.Lock()
		records := h.records
		h.mu.Unlock()
		for _, r := range records {
			if r.Position > position && !yield(r, nil) {
				return
			}
		}
	}
}

// Stream implements [ledger.Log].
func (h *history) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range h.After(ctx, 0) {
			if r.Stream == s && r.Version > version && !yield(r, err) {
				return
			}
		}
	}
}

// End returns the position of the last record.
func (h *history) End(context.Context) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.records) == 0 {
		return 0, nil
	}
	return h.records[len(h.records)-1].Position, nil
}

// runnerOn returns a runner of some projections with their tables made.
func runnerOn(t *testing.T, pool *pgxpool.Pool, log ledger.Log, list ...projections.Projection) *projections.Runner {
	t.Helper()
	r := &projections.Runner{Log: log, Catalog: catalog, Pool: pool, Projections: list}
	if err := r.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func catchUp(t *testing.T, r *projections.Runner) {
	t.Helper()
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// parked returns the streams that are parked.
func parked(t *testing.T, r *projections.Runner) (list []projections.Parked) {
	t.Helper()
	status, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range status {
		list = append(list, s.Parked...)
	}
	return list
}

// dump returns the rows of all tables of the read models but the checkpoints and
// what is parked.
func dump(t *testing.T, pool *pgxpool.Pool) map[string][]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select tablename::text from pg_tables where schemaname = $1 and tablename not in ('checkpoints', 'parked')`,
		pgtest.Schema(pool)+"_rm")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for _, name := range names {
		rows, err := pool.Query(t.Context(), `select row_to_json(x)::text from `+pgx.Identifier{name}.Sanitize()+` x order by 1`)
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func hash(text string) domain.Hash { return domain.Sum([]byte(text)) }

const (
	honest agent.Ref = "build:42"
	house  agent.Ref = "build:demo"
)

// payload is what an owner of ref signs.
func payload(ref agent.Ref, nonce string) consent.Payload {
	return consent.Payload{
		Request: consent.Request{
			Agent: ref,
			Endpoints: []consent.Endpoint{
				{Kind: task.A2A, URL: "https://agent.example/a2a"}, {Kind: task.MCP, URL: "https://agent.example/mcp"},
			},
			Kinds: []task.Kind{task.A2A}, MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 3600, ValidityDays: 30,
		},
		Terms: consent.Terms{
			Domain: "karatum.com", Owner: eip191.Address{1}, Chain: 84532, FirstDay: 20514, LastDay: 20543,
			TermsVersion: 1, Nonce: hash(nonce), IssuedAt: start,
		},
	}
}

func signature() consent.Signature {
	var sig eip191.Signature
	sig[31], sig[63], sig[64] = 1, 1, 27
	return sig[:]
}

// A day is a sealed day of a consent, with the tasks that its key gives.
type day struct {
	consent string
	day     uint32
	key     domain.Hash
	tasks   []int // real slots
	pads    []int
}

const tasksPerDay = 5

func newDay(consentID string, n uint32) day {
	d := day{consent: consentID, day: n, key: hash(fmt.Sprint("key ", n))}
	tasks := plan.RealSlots(plan.DaySecret(d.key, signature()), tasksPerDay)
	for slot := range plan.Slots {
		if tasks[slot] {
			d.tasks = append(d.tasks, slot)
		} else {
			d.pads = append(d.pads, slot)
		}
	}
	return d
}

func (d day) shop(slot int) string { return plan.ShopID(d.consent, d.day, uint32(slot)) }

func (d day) commit(slot int) domain.Hash { return hash("commit of " + d.shop(slot)) }

func (d day) seal(t *testing.T, h *history) {
	t.Helper()
	e := plan.Sealed{Consent: d.consent, Day: d.day, Eligible: hash("list")}
	for slot := range plan.Slots {
		e.Commits[slot] = d.commit(slot)
	}
	h.add(t, plan.StreamOf(d.consent), e)
	for slot := range plan.Slots {
		h.add(t, shop.StreamOf(d.shop(slot)), shop.Committed{Consent: d.consent, Day: d.day, Slot: slot, Commit: d.commit(slot)})
	}
}

// send sends a task and judges the reply, all of it sealed.
func (d day) send(t *testing.T, h *history, slot int) {
	t.Helper()
	h.add(t, shop.StreamOf(d.shop(slot)),
		shop.Sent{Endpoint: "ep_0", Template: "unit.length", TemplateVersion: 1},
		shop.SessionOpened{Target: hash("where")}, shop.SessionAction{Hash: hash("exchange")}, shop.SessionClosed{Count: 1},
		shop.Replied{Hash: hash("reply"), Status: 200},
		shop.Judged{Outcome: task.Pass, Rule: "value", Literal: task.Pass})
}

func (d day) reveal(t *testing.T, h *history, slot int) {
	t.Helper()
	s := shop.StreamOf(d.shop(slot))
	h.add(t, s, shop.Revealed{
		Consent: d.consent, Agent: house, Day: d.day, Slot: slot, Seed: hash("seed"), Template: "unit.length", Family: "unit",
		Endpoint: "ep_0", Entry: task.Entry{Kind: task.A2A, Name: "convert"}, SourceAddresses: []string{"192.0.2.1"}, SendAt: int64(d.day) * 86400,
		Prompt: "How many <feet> are in a mile?", Ask: task.Ask{Text: "How many <feet> are in a mile?"},
		Expected: task.Expected{Kind: task.Number, Value: "5280"},
		Result:   shop.Result{State: shop.StateJudged, Outcome: task.Pass, Rule: "value", Literal: task.Pass, LatencyMs: 40, ReplyHash: hash("reply")},
		Records:  h.sealed(s),
	})
}

func (d day) open(t *testing.T, h *history) {
	t.Helper()
	h.add(t, plan.StreamOf(d.consent), plan.Opened{
		Consent: d.consent, Day: d.day, Planned: true, Key: d.key, Path: []domain.Hash{hash("sibling")}, Cap: 12, Count: tasksPerDay,
		Eligible: plan.Eligible{Endpoints: []plan.EligibleEndpoint{}}, Surfaces: []plan.Surface{}, Notes: []plan.Note{{Endpoint: "ep_1", Reason: plan.Unread}},
	})
}

func register(t *testing.T, h *history) {
	t.Helper()
	h.add(t, programme.Stream, programme.TermsPublished{Version: 1, Hash: hash("terms")},
		programme.PoolPublished{Version: 1, Hash: hash("pool")}, programme.CataloguePublished{Digest: hash("catalogue")})
	h.add(t, agent.StreamOf(honest), agent.Registered{Agent: honest, Wallet: eip191.Address{1}})
	h.add(t, agent.StreamOf(house), agent.Registered{Agent: house, Wallet: eip191.Address{2}, Demo: true},
		agent.IdentityVerified{URL: "https://agent.example/"}, agent.CertificateRecorded{Certificate: "crt_1"},
		agent.SurfaceObserved{Kind: task.A2A, URL: "https://agent.example/a2a", Surface: hash("card")})
}

// grant gives a consent with one endpoint proven and returns its id.
func grant(t *testing.T, h *history, ref agent.Ref, nonce string) string {
	t.Helper()
	p := payload(ref, nonce)
	id := plan.ConsentID(p.Nonce)
	h.add(t, consent.StreamOf(ref),
		consent.Granted{Consent: id, Payload: p, Signature: signature(), Verified: consent.Verification{Method: consent.ByKey}},
		consent.HostProven{Consent: id, Endpoint: "ep_0", Method: consent.ByIdentity},
		consent.HostProven{Consent: id, Endpoint: "ep_1", Method: consent.ByDocument},
		consent.HostLost{Consent: id, Endpoint: "ep_1", Reason: "gone"})
	return id
}

func reached(id string, ref agent.Ref, look int, cycle finding.Cycle, n uint32) finding.Reached {
	return finding.Reached{
		Consent: id, Agent: ref, Demo: ref == house, Cycle: cycle, Day: n, Look: look, Verdict: finding.ExamOnly, GatedVerdict: finding.Watch, PAlways: "0.02", Note: "a gap",
		Families: []finding.Family{},
	}
}

// life writes the life of a consent of the house agent, with two days of which
// the first is opened, and returns both.
func life(t *testing.T, h *history) (first, second day) {
	t.Helper()
	register(t, h)
	id := grant(t, h, house, "n1")
	h.add(t, exam.StreamOf(house), exam.RunRecorded{Agent: house, Run: "r1", Source: "demo-harness", Attempts: []exam.Attempt{
		{Seed: hash("e"), Template: "unit.length", Family: "unit", Outcome: task.Pass, Literal: task.Pass},
		{Seed: hash("f"), Template: "unit.length", Family: "unit", Outcome: task.Fail, Literal: task.Fail},
	}})
	for i, outcome := range []exam.TrialOutcome{exam.Success, exam.Partial, exam.Disputed, exam.Failure} {
		h.add(t, exam.StreamOf(house), exam.AttemptRecorded{Agent: house, Attempt: fmt.Sprint("t", i), Family: "date", Outcome: outcome, LatencyMs: 700})
	}
	h.add(t, exam.StreamOf(house), exam.AttemptWithdrawn{Agent: house, Attempt: "t3", Reason: "two right answers"})
	first, second = newDay(id, 20514), newDay(id, 20515)
	first.seal(t, h)
	for _, slot := range first.tasks[:3] {
		first.send(t, h, slot)
	}
	h.add(t, shop.StreamOf(first.shop(first.tasks[3])), shop.Missed{Reason: shop.OperatorLate})
	// The fifth task is never heard of again.
	for _, slot := range first.tasks[:3] {
		first.reveal(t, h, slot)
	}
	first.open(t, h)
	h.add(t, finding.StreamOf(id), reached(id, house, 1, finding.AfterDay, first.day))
	second.seal(t, h)
	second.send(t, h, second.tasks[0])
	h.add(t, shop.StreamOf(second.shop(second.tasks[1])), shop.Sent{Endpoint: "ep_0"})
	return first, second
}
