package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/migrations/pgtest"
)

var (
	chaosSeeds = flag.String("chaos.seeds", "", "the seeds of the weather that the programme is run in, and not those that are kept")
	chaosDays  = flag.Int("chaos.days", 10, "for how many virtual days it is run in each")
)

// keptSeeds are run whenever the tests are, for some days. A seed that has shown something is
// added here, with what it was.
var keptSeeds = []uint64{
	5, // a bit of everything, in which tasks are sent all the same
}

// TestChaos runs the programme in bad weather: its log, its database, its chain, its
// agents and its clock fail in every way there is, for moments and for hours, and what
// works is killed again and again. Then the sky clears, and everything that was promised
// must hold: the ledger replays, the read models are what a fresh fold makes of it, every
// day passes its checks but for what the weather itself explains, no task left twice, each
// came to one end, and no limit was passed. A run in which hardly a task was sent, or a
// fault never struck, has shown nothing and fails.
func TestChaos(t *testing.T) {
	inOrder(t)
	t.Parallel()
	seeds := keptSeeds
	if *chaosSeeds != "" {
		seeds = nil
		for text := range strings.FieldsSeq(*chaosSeeds) {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("-chaos.seeds: %v", err)
			}
			seeds = append(seeds, n)
		}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			c := brew(t, seed, *chaosDays)
			c.endure(t)
			c.clear()
			c.recover(t)
			c.weather.report(t)
			t.Logf("%d steps, %d of them failed, %d statements, %d worker and %d attester lives", c.steps, c.failed, c.wire.ways.Load(), c.lives, c.attesters)
			c.inspect(t, *chaosDays)
		})
	}
}

// A chaos is a stage in bad weather.
type chaos struct {
	*stage
	*weather

	wire     *wire
	door     *door
	random   *rand.Rand
	end      time.Time // of the weather
	lifetime int64
	shopper  *mortal
	attester *attester.Attester
	left     int // steps that the attester lives

	steps, failed, lives, attesters int
}

// Limits of the consents: small, so that a day is cheap.
const (
	chaosPerDay  = 4
	chaosPerWeek = 18
	chaosDelay   = 20 * time.Hour
	chaosTask    = time.Second // how long an agent may take
)

// brew opens the stage, in good weather yet.
func brew(t *testing.T, seed uint64, days int) *chaos {
	t.Helper()
	c := &chaos{
		wire: lay(t, pgtest.URL(t)), door: &door{asked: make(map[domain.Hash]int)}, random: rand.New(rand.NewPCG(seed, 0)),
		lifetime: 60 + int64(5*days),
	}
	f := flags{seed: strconv.FormatUint(seed, 10), listen: "127.0.0.1:0", anchored: true}
	start, err := f.start(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return c.clock.Now() }
	c.weather = forecast(seed, start.Add(time.Hour), days, now)
	c.end = start.Add(time.Duration(days) * day)
	f.watch = func(next http.Handler) http.Handler { return c.door.before(c.agents(next)) }
	c.stage = emptyOn(t, f, c.wire.url())
	c.register(t, edge, c.owner)
	front := httptest.NewServer(c.node(c.anchor.Handler(), c.head))
	t.Cleanup(front.Close)
	c.prog.Attester.Chain, err = rpc.Dial(t.Context(), devChainID, []string{front.URL}, rpc.Config{Now: time.Now, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.prog.Attester.Chain.Close)
	c.prog.Service.Log = &stormyLog{c.prog.Service.Log, c.weather, c.clock}
	judge := c.database
	c.wire.fate.Store(&judge)
	c.shopper, c.attester = c.born(t), c.hired()
	return c
}

// head returns the number of the newest block.
func (c *chaos) head(ctx context.Context) uint64 {
	n, err := c.anchor.Client().BlockNumber(ctx)
	if err != nil {
		return 0 // nobody waits for it
	}
	return n
}

// born returns a worker that knows nothing but the ledger.
func (c *chaos) born(t *testing.T) *mortal {
	t.Helper()
	c.lives++
	w := c.prog.Worker
	m := (&fleet{stage: c.stage, random: c.random}).born(t, c.lifetime)
	leases := brief{&tables.Leases{Pool: c.prog.Reader.Pool}}
	if one, ok := w.Field.(worker.OneByOne); ok {
		m.Field = mortalField{worker.OneByOne{Field: one.Field, Leases: leases}, m}
	}
	m.Leases, m.Anchors, m.Deadline, m.Log = leases, w.Anchors, chaosTask, slog.New(slog.DiscardHandler)
	return m
}

// hired returns an attester that knows nothing but the ledger and the chain.
func (c *chaos) hired() *attester.Attester {
	c.attesters++
	c.left = 5 + c.random.IntN(60)
	a := c.prog.Attester
	service := *c.prog.Service
	service.Histories = commands.NewHistories()
	return &attester.Attester{
		Ledger: &service, Reads: a.Reads, Transactions: a.Transactions, Leases: brief{&tables.Leases{Pool: c.prog.Reader.Pool}},
		Chain: a.Chain, EAS: a.EAS, Resolver: a.Resolver, Key: a.Key, Policy: a.Policy, Ceiling: a.Ceiling, Now: a.Now, Rand: a.Rand, Log: slog.New(slog.DiscardHandler),
	}
}

// endure lets the days pass in which the weather is bad. What fails is tried again after a
// while, as the service does it.
func (c *chaos) endure(t *testing.T) {
	t.Helper()
	began, told := time.Now(), c.start
	whole := c.end.Sub(c.start)
	late := []time.Time{c.start.Add(whole * 6 / 10), c.start.Add(whole * 8 / 10)}
	for c.clock.Now().Before(c.end) {
		if len(late) > 0 && c.clock.Now().After(late[0]) {
			late = late[1:]
			c.insist(c.clock.Now())
		}
		if now := c.clock.Now(); now.After(told.Add(10 * day)) {
			told = now
			t.Logf("%s: %d steps, %d failed, %s", now.Format(time.DateTime), c.steps, c.failed, time.Since(began).Round(time.Second))
		}
		c.warp()
		c.enrolAgain(t)
		next, err := c.step(t)
		unattested := c.attest(t.Context())
		if c.steps++; err != nil || unattested != nil {
			c.failed++
		}
		if err != nil {
			next = c.clock.Now().Add(10*time.Second + time.Duration(c.random.Int64N(int64(time.Hour))))
		}
		c.rest(next)
	}
}

// rest lets time pass until the next thing is due, and a few minutes at least: what waits
// asks again every half minute.
func (c *chaos) rest(next time.Time) {
	if c.anchor.due.Before(next) {
		next = c.anchor.due
	}
	if least := c.clock.Now().Add(4 * time.Minute); next.Before(least) {
		next = least
	}
	c.clock.Jump(next)
}

// step is a step of the worker that lives now. If it dies in it, another one takes its place.
func (c *chaos) step(t *testing.T) (next time.Time, err error) {
	t.Helper()
	next, err = c.shopper.Step(c.shopper.ctx)
	if c.shopper.ctx.Err() != nil {
		c.shopper.kill()
		c.happened(workerDies)
		c.shopper = c.born(t)
		err = context.Canceled
	}
	return next, err
}

// attest closes the batch that is due, and has it attested as far as that goes today.
func (c *chaos) attest(ctx context.Context) error {
	now := c.clock.Now()
	if now.Before(c.anchor.due) {
		return nil
	}
	errs := []error{c.prog.PublishLedger(ctx)}
	for range 3 {
		if c.strikes(chainLost) {
			errs = append(errs, c.anchor.Rewind(min(1+uint64(c.draw(chainLost, maxLost)), c.head(ctx))))
		}
		errs = append(errs, c.attestOnce(ctx))
		for range 2 {
			_, err := c.anchor.Mine(ctx)
			errs = append(errs, err)
		}
	}
	const every, phase = 6 * time.Hour, 5*time.Hour + 5*time.Minute
	c.anchor.due = now.Add(-phase).Truncate(every).Add(every + phase)
	err := errors.Join(errs...)
	if again := now.Add(time.Hour); err != nil && again.Before(c.anchor.due) {
		c.anchor.due = again
	}
	return err
}

// attestOnce is a step of the attester that lives now. It may be killed in it.
func (c *chaos) attestOnce(ctx context.Context) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	dies := c.left == 0
	if dies {
		defer time.AfterFunc(time.Duration(c.random.Int64N(int64(20*time.Millisecond))), kill).Stop()
	}
	err := c.attester.Step(ctx)
	if c.left--; dies {
		c.happened(attesterDies)
		c.attester = c.hired()
	}
	return err
}

// warp sets the clock as the weather wants it.
func (c *chaos) warp() {
	now := c.clock.Now()
	if c.strikes(clockForward) {
		c.clock.Jump(now.Add(time.Minute + time.Duration(c.draw(clockForward, int64(4*time.Hour)))))
	}
	if c.strikes(clockDays) {
		c.clock.Jump(now.Add(day + time.Duration(c.draw(clockDays, int64(2*day)))))
	}
	if c.strikes(clockBack) {
		c.clock.set(now.Add(-time.Minute - time.Duration(c.draw(clockBack, int64(2*time.Hour)))))
	}
}

// enrolAgain asks the owner for a consent if there is none and time is left for one. If it
// fails, it is asked again.
func (c *chaos) enrolAgain(t *testing.T) {
	t.Helper()
	const least, most = 7, 90 // days
	left := int(c.end.Sub(c.clock.Now())/day) - 2
	if _, err := c.prog.Service.ActiveConsent(t.Context(), edge); !errors.Is(err, domain.ErrNotFound) || left < least {
		return
	}
	base := houseURL + "/demo-agents/steady"
	_, err := c.api.grant(t.Context(), consent.Request{
		Agent: edge, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: base}, {Kind: task.MCP, URL: base + "/mcp"}}, Kinds: []task.Kind{task.A2A, task.MCP},
		MaxPerDay: chaosPerDay, MaxPerWeek: chaosPerWeek, RevealDelaySeconds: int64(chaosDelay / time.Second), ValidityDays: uint32(min(left, most)),
	}, c.wallet)
	if err != nil {
		t.Logf("%s: a consent could not be given: %v", c.clock.Now(), err)
	}
}

// recover lets the programme go on in good weather until nothing is left to do, neither
// for a consent nor on the chain.
func (c *chaos) recover(t *testing.T) {
	t.Helper()
	end := c.clock.Now().Add(10 * day)
	for {
		next, err := c.step(t)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("the weather is good, and a step fails: %v", err)
		}
		if err := c.attest(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("the weather is good, and batches are not attested: %v", err)
		}
		left, err := c.prog.Worker.Work.Consents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open, _, err := c.prog.Reader.BatchNumbers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 && open == 0 {
			return
		}
		if c.clock.Now().After(end) {
			t.Fatalf("ten days of good weather, and there is work left for %d consents; the first batch that is not final is %d", len(left), open)
		}
		c.rest(next)
	}
}

// inspect holds what is on record of so many days against everything that was promised.
func (c *chaos) inspect(t *testing.T, days int) {
	t.Helper()
	if err := c.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	v, err := storeOf(t, schemaOf(t, c.stage)).Verify(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Findings {
		t.Errorf("verify finds: %+v", f)
	}
	a := c.account(t)
	t.Logf("%d records, %d consents, %d of %d tasks sent and %d answered, which ended as %v", v.Records, len(a.consents), a.sends, len(a.slots), a.answered, a.ends)
	a.enough(t, days)
	for _, granted := range a.consents {
		c.inspectDays(t, granted, a)
	}
}

// An account is what a whole ledger came to.
type account struct {
	consents []consent.Granted
	sends    int
	answered int // sent, and graded by what the agent said
	ends     map[string]int

	planned map[string]bool // by consent and day
	opened  map[string]time.Time
	sealed  map[string]bool // by consent and hour
	slots   map[string]*slotLife
}

// A slotLife is when a task came to its end, and when it was to be revealed and was.
type slotLife struct{ ended, due, revealed time.Time }

// enough holds that there was something for the weather to strike at. The weather is bad
// for most of the time, so most tasks are not sent; a few days may show next to nothing.
func (a *account) enough(t *testing.T, days int) {
	t.Helper()
	const long = 50 // days
	switch planned := len(a.slots); {
	case a.sends == 0 || a.answered == 0:
		t.Errorf("of %d tasks %d were sent and %d answered", planned, a.sends, a.answered)
	case days < long:
	case 2*planned < days || 6*a.sends < planned || 2*a.answered < a.sends:
		t.Errorf("in %d days there were %d tasks, of which %d were sent and %d answered; want one every other day, a sixth of them sent, and half of those answered",
			days, planned, a.sends, a.answered)
	}
}

func key(consentID string, n any) string { return fmt.Sprint(consentID, "/", n) }

// account goes through the ledger and checks what must hold of all of it.
func (c *chaos) account(t *testing.T) *account {
	t.Helper()
	a := &account{
		ends: make(map[string]int), planned: make(map[string]bool), opened: make(map[string]time.Time),
		sealed: make(map[string]bool), slots: make(map[string]*slotLife),
	}
	asks, sentOn := make(map[domain.Hash]int), make(map[uint32]int)
	sent := make(map[ledger.Stream]int)
	var last time.Time
	for r, e := range c.events(t) {
		switch e := e.(type) {
		case consent.Granted:
			a.consents = append(a.consents, e)
		case plan.Sealed:
			a.planned[key(e.Consent, e.Day)] = true
		case plan.Opened:
			a.opened[key(e.Consent, e.Day)] = r.Time
		case seal.Sealed:
			a.sealed[key(e.Consent, e.Hour)] = true
		case shop.Sent:
			a.sends++
			asks[e.Ask]++
			sentOn[domain.DayOf(r.Time)]++
			if sent[r.Stream]++; sent[r.Stream] > 1 {
				t.Errorf("%s was sent %d times", r.Stream, sent[r.Stream])
			}
			if pause := r.Time.Sub(last); pause < consent.HostPause {
				t.Errorf("%s was sent %s after the one before", r.Stream, pause)
			}
			last = r.Time
		case shop.Revealed:
			a.ends[strings.TrimSpace(fmt.Sprint(e.Result.State, " ", e.Result.Outcome, " ", e.Result.Rule))]++
			life := &slotLife{due: time.Unix(e.SendAt, 0), revealed: r.Time}
			for _, r := range e.Records {
				if life.ended = r.Time; r.Type == (shop.Sent{}).EventType() {
					life.due = r.Time
				}
			}
			life.due = life.due.Add(chaosDelay)
			a.slots[r.Stream.ID()] = life
			if e.Result.Outcome == task.Pass || e.Result.Outcome == task.Fail {
				a.answered++
			}
		}
	}
	for key, n := range c.door.asked {
		if n > asks[key] {
			t.Errorf("an agent was asked %d times, and %d tasks were sent: %s", n, asks[key], key)
		}
	}
	for first := range sentOn {
		week := 0
		for d := first; d < first+7; d++ {
			week += sentOn[d]
		}
		if sentOn[first] > chaosPerDay || week > chaosPerWeek {
			t.Errorf("%d tasks were sent on %s, and %d in the week that begins there", sentOn[first], domain.DayString(first), week)
		}
	}
	h := c.history(t)
	h.check(t)
	for id, steps := range h.steps {
		ends := 0
		for _, step := range steps {
			if slices.Contains([]domain.Type{shop.Judged{}.EventType(), shop.Missed{}.EventType(), shop.Cancelled{}.EventType()}, step) {
				ends++
			}
		}
		revealed := steps[len(steps)-1] == (shop.Revealed{}).EventType()
		if want := min(len(steps)-1, 1); ends != want || revealed != (want == 1) {
			t.Errorf("%s came to %d ends: %v", id, ends, steps)
		}
	}
	return a
}

// inspectDays asks for the checks of every day of a consent. One that fails must do so for
// what the weather did, and nothing else.
func (c *chaos) inspectDays(t *testing.T, granted consent.Granted, a *account) {
	t.Helper()
	id, days := granted.Consent, make(map[string]int)
	for d := granted.Payload.FirstDay; d <= granted.Payload.LastDay; d++ {
		var r verify.DayReport
		if err := c.api.get(t.Context(), fmt.Sprintf("/v1/mystery/consents/%s/days/%d/verify", id, d), nil, &r); err != nil {
			t.Error(err)
			continue
		}
		as := string(r.Verdict)
		for _, check := range r.Checks {
			if check.Status == verify.Pass || check.Status == verify.Skipped {
				continue
			}
			why := a.explain(id, d, check)
			if as = why; why == "" {
				as = "not explained"
				t.Errorf("%s of %s: %s is %s: %s %v", domain.DayString(d), id, check.ID, check.Status, check.Detail, check.Inputs)
			}
		}
		days[as]++
	}
	t.Logf("%s: the days are %v", id, days)
}

// explain says why a check of a day fails, if that is what is promised of a day on which
// nobody was there in time; otherwise it says nothing.
func (a *account) explain(id string, d uint32, check verify.SlotCheck) string {
	if check.Status != verify.Fail {
		return ""
	}
	switch check.ID {
	case "plan":
		if !a.planned[key(id, d)] {
			return "without a plan"
		}
	case "opening":
		if due := domain.DayStart(d + 1).Add(time.Hour + chaosDelay); a.opened[key(id, d)].Sub(due) > day {
			return "opened a day late"
		}
	case "tasks":
		parts := strings.SplitN(check.Detail, ": ", 3)
		life := a.slots[parts[0]]
		switch {
		case life == nil:
		case parts[1] == "reveal" && life.revealed.Sub(life.due) > day:
			return "a task revealed a day late"
		case parts[1] == "seal":
			for hour := max(seal.HourOf(life.ended)+1, seal.FirstHour(d)); hour <= seal.HourOf(life.revealed); hour++ {
				if !a.sealed[key(id, hour)] {
					return "a task without a seal"
				}
			}
		}
	}
	return ""
}
