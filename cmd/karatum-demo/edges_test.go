package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
)

const edge agent.Ref = "build:steady"

// bare returns a stage with one registered agent and no consent.
func bare(t *testing.T, seed string) *stage {
	t.Helper()
	s := empty(t, flags{seed: seed, listen: "127.0.0.1:0"})
	s.register(t, edge, s.owner)
	return s
}

// empty returns a stage on which no agent is known.
func empty(t *testing.T, f flags) *stage {
	t.Helper()
	return emptyOn(t, f, pgtest.URL(t))
}

func emptyOn(t *testing.T, f flags, database string) *stage {
	t.Helper()
	start, err := f.start(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStage(t.Context(), f, start, environ(database), progress{w: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// register makes a demo agent known.
func (s *stage) register(t *testing.T, ref agent.Ref, owner eip191.Address) {
	t.Helper()
	m := ledger.Meta{Actor: "operator", Command: "register " + string(ref)}
	if err := s.prog.Service.Agent(t.Context(), m, ref, agent.Register{Agent: ref, Wallet: owner, Demo: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// give gives a consent with some changes to what is usual.
func (s *stage) give(t *testing.T, change func(*consent.Request)) consent.Payload {
	t.Helper()
	base := houseURL + "/demo-agents/steady"
	r := consent.Request{
		Agent: edge, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: base}, {Kind: task.MCP, URL: base + "/mcp"}},
		Kinds: []task.Kind{task.A2A, task.MCP}, MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 86400, ValidityDays: 60,
	}
	change(&r)
	p, err := s.api.grant(t.Context(), r, s.wallet)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *stage) revoke(t *testing.T, p consent.Payload) {
	t.Helper()
	path := "/v1/mystery/consents/" + plan.ConsentID(p.Nonce)
	var challenge struct {
		ChallengeID string `json:"challengeId"`
		Message     string `json:"message"`
	}
	if err := s.api.post(t.Context(), path+"/revoke-challenge", struct{}{}, &challenge); err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"challengeId": challenge.ChallengeID, "signature": eip191.Sign(challenge.Message, s.wallet)}
	if err := s.api.post(t.Context(), path+"/revoke", body, nil); err != nil {
		t.Fatal(err)
	}
}

// A chronicle is when things happened.
type chronicle struct {
	opened   map[uint32]time.Time // days; of the last consent that had them
	counts   map[uint32]int       // tasks by day, over all consents
	empty    int                  // days with an empty list
	sent     []time.Time
	results  map[string]int
	findings []finding.Reached
	lost     int // host_lost
	ended    int
}

// chronicle reads the ledger and checks what holds whatever happens.
func (s *stage) chronicle(t *testing.T, payloads ...consent.Payload) *chronicle {
	t.Helper()
	c := &chronicle{opened: make(map[uint32]time.Time), counts: make(map[uint32]int), results: make(map[string]int)}
	of := make(map[string]consent.Payload)
	over := make(map[string]time.Time)
	for _, p := range payloads {
		of[plan.ConsentID(p.Nonce)] = p
	}
	sentAt := make(map[ledger.Stream]time.Time)
	type day struct {
		consent string
		day     uint32
	}
	ends := make(map[day][]shop.Result)
	for r, e := range s.events(t) {
		switch e := e.(type) {
		case consent.HostLost:
			c.lost++
		case consent.Ended:
			c.ended++
			over[e.Consent] = r.Time
		case consent.Revoked:
			over[e.Consent] = r.Time
		case plan.Sealed:
			if !r.Time.Before(domain.DayStart(e.Day)) || r.Time.Before(domain.DayStart(e.Day).Add(-2*time.Hour)) {
				t.Errorf("day %s was planned at %s", domain.DayString(e.Day), r.Time)
			}
		case shop.Sent:
			sentAt[r.Stream] = r.Time
			c.sent = append(c.sent, r.Time)
		case shop.Revealed:
			c.results[string(e.Result.State)+"/"+e.Result.Rule]++
			ends[day{e.Consent, e.Day}] = append(ends[day{e.Consent, e.Day}], e.Result)
			at := time.Unix(e.SendAt, 0).UTC()
			if sent, ok := sentAt[r.Stream]; ok {
				if sent.Before(at) || sent.After(at.Add(15*time.Minute)) {
					t.Errorf("%s was due at %s and sent at %s", r.Stream, at, sent)
				}
				at = sent
			}
			due := at.Add(of[e.Consent].RevealDelay())
			if end := over[e.Consent]; !end.IsZero() && end.Before(due) {
				due = end
			}
			if r.Time.Before(due) || r.Time.After(due.Add(time.Hour)) {
				t.Errorf("%s was due to be revealed at %s and was at %s", r.Stream, due, r.Time)
			}
		case plan.Opened:
			c.opened[e.Day] = r.Time
			said := slices.DeleteFunc(slices.Clone(e.Notes), func(n plan.Note) bool { return n.Endpoint != "" })
			if diff := cmp.Diff(plan.NotesOnDay(e.Planned, e.Eligible, e.Cap, ends[day{e.Consent, e.Day}]), said); diff != "" {
				t.Errorf("day %s says other things of itself than happened (-want +got):\n%s", domain.DayString(e.Day), diff)
			}
			c.counts[e.Day] += e.Count
			if len(e.Eligible.Endpoints) == 0 {
				c.empty++
				if e.Count != 0 {
					t.Errorf("day %s has %d tasks and nothing to ask for", domain.DayString(e.Day), e.Count)
				}
			}
			due := domain.DayStart(e.Day + 1).Add(time.Hour + of[e.Consent].RevealDelay())
			if end := over[e.Consent]; !end.IsZero() && end.Before(due) {
				due = end
			}
			if r.Time.Before(due) || r.Time.After(due.Add(time.Hour)) {
				t.Errorf("day %s was due to be opened at %s and was at %s", domain.DayString(e.Day), due, r.Time)
			}
		case finding.Reached:
			c.findings = append(c.findings, e)
		}
	}
	for day := range c.counts {
		week := 0
		for back := range uint32(7) {
			week += c.counts[day-back]
		}
		if limit := min(plan.MaxPerWeek, payloads[len(payloads)-1].MaxPerWeek); week > limit {
			t.Errorf("%d tasks in the seven days to %s, want %d at most", week, domain.DayString(day), limit)
		}
	}
	s.history(t).check(t)
	return c
}

func (s *stage) settled(t *testing.T) {
	t.Helper()
	left, err := s.prog.Worker.Work.Consents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("there is work left for %d consents", len(left))
	}
}

func TestShortestConsentAtItsLimits(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "21")
	p := s.give(t, func(r *consent.Request) {
		r.ValidityDays, r.RevealDelaySeconds, r.MaxPerDay, r.MaxPerWeek = 7, 3600, 24, 100
	})
	s.days(t, 9)
	c := s.chronicle(t, p)
	if len(c.opened) != 7 || c.ended != 1 || len(c.findings) != 8 {
		t.Errorf("%d days opened, %d ends, %d findings, want 7, 1 and 8", len(c.opened), c.ended, len(c.findings))
	}
	if last := c.findings[len(c.findings)-1]; last.Cycle != finding.AtEnd {
		t.Errorf("the last finding is of cycle %s", last.Cycle)
	}
	s.settled(t)
}

// With the longest delay nothing is revealed before the consent is over, and then
// all of it.
func TestLongestDelay(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "22")
	p := s.give(t, func(r *consent.Request) {
		r.ValidityDays, r.RevealDelaySeconds, r.MaxPerDay = 8, 30*86400, 4
	})
	s.days(t, 8.9)
	if c := s.chronicle(t, p); len(c.opened) != 0 || len(c.results) != 0 || len(c.sent) == 0 {
		t.Errorf("%d days opened, results %v, %d sent", len(c.opened), c.results, len(c.sent))
	}
	s.restart()
	s.days(t, 9.5)
	if c := s.chronicle(t, p); len(c.opened) != 8 || len(c.findings) != 9 {
		t.Errorf("%d days opened, %d findings, want 8 and 9", len(c.opened), len(c.findings))
	}
	s.settled(t)
}

// A second consent of an agent does not begin the week anew.
func TestSecondConsentKeepsTheWeek(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "23")
	limits := func(r *consent.Request) { r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = 24, 24, 3600 }
	var payloads []consent.Payload
	for i := range 3 {
		payloads = append(payloads, s.give(t, limits))
		s.days(t, float64(3*i)+2.93) // 22:19: the next day is planned
		s.revoke(t, payloads[i])
		s.days(t, float64(3*i)+3)
	}
	c := s.chronicle(t, payloads...)
	if len(c.opened) < 6 {
		t.Errorf("%d days were opened", len(c.opened))
	}
	s.settled(t)
}

func TestRevokedBeforeTheFirstDay(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]float64{"before it was planned": 0.5, "after it was planned": 23.0 / 24} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bare(t, "24")
			p := s.give(t, func(*consent.Request) {})
			s.days(t, at)
			s.revoke(t, p)
			s.days(t, 1.5)
			c := s.chronicle(t, p)
			if len(c.sent) != 0 {
				t.Errorf("%d tasks were sent", len(c.sent))
			}
			s.settled(t)
			for _, f := range c.findings {
				t.Logf("finding after %s of day %s", f.Cycle, domain.DayString(f.Day))
			}
		})
	}
}

// A consent given until 22:00 less the life of its challenge begins tomorrow,
// else the day after.
func TestFirstDayAtTheEdge(t *testing.T) {
	inOrder(t)
	t.Parallel()
	for _, tt := range []struct {
		at    time.Duration
		first uint32
	}{
		{22*time.Hour - consent.ChallengeLife - time.Second, 1},
		{22*time.Hour - consent.ChallengeLife, 2},
		{23*time.Hour + 59*time.Minute + 59*time.Second, 2},
	} {
		s := bare(t, "25")
		s.clock.Jump(s.start.Add(tt.at))
		p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.RevealDelaySeconds = 24, 3600 })
		if got := p.FirstDay - domain.DayOf(s.start); got != tt.first {
			t.Errorf("a consent asked for at %s begins on day %d, want %d", tt.at, got, tt.first)
		}
		s.days(t, float64(tt.first)+1.2)
		if c := s.chronicle(t, p); len(c.opened) != 1 || c.empty != 0 {
			t.Errorf("%d days opened, %d of them empty, want the first with something to ask", len(c.opened), c.empty)
		}
	}
}

func TestOwnersNonceMakesTheSeeds(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "26")
	nonce := s.flags.draw("owner's nonce")
	r := consent.Request{
		Agent: edge, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: houseURL + "/demo-agents/steady"}},
		Kinds: []task.Kind{task.A2A}, MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 3600, ValidityDays: 7,
		OwnerNonceHash: domain.Sum(nonce[:]),
	}
	var challenge struct {
		ChallengeID string          `json:"challengeId"`
		Message     string          `json:"message"`
		Payload     consent.Payload `json:"payload"`
	}
	if err := s.api.post(t.Context(), "/v1/mystery/consents/challenge", r, &challenge); err != nil {
		t.Fatal(err)
	}
	if err := s.api.post(t.Context(), "/v1/mystery/consents", map[string]any{
		"challengeId": challenge.ChallengeID, "payload": challenge.Payload,
		"signature": eip191.Sign(challenge.Message, s.wallet), "ownerNonce": nonce,
	}, nil); err != nil {
		t.Fatal(err)
	}
	s.days(t, 3)
	c := s.chronicle(t, challenge.Payload)
	p := challenge.Payload
	secret := plan.DaySecret(plan.Key(s.prog.Service.Secrets.Current(), p.Nonce, p.FirstDay), nonce[:])
	if n := plan.Count(secret, 12); c.counts[p.FirstDay] != n {
		t.Errorf("the first day holds %d tasks, and the owner's nonce says %d", c.counts[p.FirstDay], n)
	}
}

// fickle hosts lose their proof for a while.
type fickle struct {
	commands.Hosts

	prove func() error
}

func (f fickle) Prove(ctx context.Context, endpoint string, owner eip191.Address) error {
	if err := f.prove(); err != nil {
		return err
	}
	return f.Hosts.Prove(ctx, endpoint, owner)
}

func TestHostIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		lost int // events
	}{
		"it says no":         {domain.ErrForbidden, 2},
		"it does not answer": {errors.New("no route"), 2}, // but only after two hours
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bare(t, "27")
			p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = 24, 100, 3600 })
			from, until := s.start.Add(36*time.Hour+time.Minute), s.start.Add(60*time.Hour)
			s.prog.Service.Hosts = fickle{s.prog.Service.Hosts, func() error {
				if now := s.clock.Now(); now.After(from) && now.Before(until) {
					return tt.err
				}
				return nil
			}}
			s.days(t, 5.5)
			c := s.chronicle(t, p)
			if c.lost != tt.lost {
				t.Errorf("%d hosts were lost, want %d", c.lost, tt.lost)
			}
			after := 0
			for _, at := range c.sent {
				if at.After(from.Add(3*time.Hour)) && at.Before(until) {
					t.Errorf("a task was sent at %s, without a proof", at)
				}
				if at.After(until) {
					after++
				}
			}
			if after == 0 {
				t.Error("nothing was sent when the host was back")
			}
			t.Log(c.results)
		})
	}
}

func TestSurfaceEmpties(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "28")
	p := s.give(t, func(r *consent.Request) { r.RevealDelaySeconds = 3600 })
	s.prog.Worker.Field = &vanishing{s.prog.Worker.Field, func() bool {
		now := s.clock.Now()
		return now.After(s.start.Add(40*time.Hour)) && now.Before(s.start.Add(90*time.Hour))
	}}
	s.days(t, 3.5)
	s.restart()
	s.days(t, 6.5)
	if c := s.chronicle(t, p); c.empty != 2 || len(c.opened) != 5 {
		t.Errorf("%d of %d days were empty, want 2 of 5", c.empty, len(c.opened))
	}
}

// vanishing is a field in which everything that an agent offers vanishes.
type vanishing struct {
	field
	gone func() bool
}

type field interface {
	Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error)
	Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error)
}

func (v *vanishing) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	surface, target, err := v.field.Observe(ctx, kind, url, s)
	if v.gone() {
		surface.Skills, surface.Tools = nil, nil
	}
	return surface, target, err
}

// An agent that is down or talks rubbish has outcomes of its own, and nothing of it
// is our failure.
func TestAgentIsDown(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "29")
	p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.RevealDelaySeconds = 24, 3600 })
	n := 0
	s.prog.Worker.Field = &answering{s.prog.Worker.Field, func(ctx context.Context, c agents.Call) (agents.Reply, error) {
		n++
		switch n % 5 {
		case 0: // refused connection: the gate is never asked
			return agents.Reply{Outcome: task.Error, Code: agents.Transport}, nil
		case 1: // a timeout behind the gate
			release, err := c.Gate(ctx)
			if err != nil {
				return agents.Reply{}, err
			}
			release()
			return agents.Reply{Outcome: task.Timeout}, nil
		}
		release, err := c.Gate(ctx)
		if err != nil {
			return agents.Reply{}, err
		}
		release()
		switch n % 5 {
		case 2:
			return agents.Reply{Status: 200, Text: "\x00\xff" + strings.Repeat("9", 2<<20), Latency: time.Hour * 1200}, nil
		case 3:
			return agents.Reply{Outcome: task.Error, Code: "500", Status: 500, Raw: nil}, nil
		}
		return agents.Reply{Status: 200, Text: strings.Repeat("<script>", 1000)}, nil
	}}
	s.days(t, 3.5)
	c := s.chronicle(t, p)
	t.Log(c.results)
	if c.results["judged/transport"] == 0 || c.results["judged/500"] == 0 || c.results["judged/"] == 0 {
		t.Errorf("results: %v", c.results)
	}
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if err := s.api.get(t.Context(), "/v1/mystery/consents/"+plan.ConsentID(p.Nonce)+"/shops?phase=revealed&limit=240", nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if err := s.api.get(t.Context(), "/v1/mystery/shops/"+item.ID, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

type answering struct {
	field
	answer func(context.Context, agents.Call) (agents.Reply, error)
}

func (a *answering) Ask(ctx context.Context, _ task.Kind, c agents.Call) (agents.Reply, error) {
	return a.answer(ctx, c)
}

// While the programme is paused nothing is sent, and what would have been is missed
// for that reason.
func TestPausedProgramme(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "30")
	p := s.give(t, func(r *consent.Request) { r.MaxPerDay, r.RevealDelaySeconds = 24, 3600 })
	s.days(t, 1)
	meta := func(command string) ledger.Meta { return ledger.Meta{Actor: "operator", Command: command} }
	if err := s.prog.Service.Programme(t.Context(), meta("pause"), programme.Pause{Scope: programme.Everything, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if err := s.prog.Worker.Examine(t.Context(), worker.Exam{Run: "paused", Source: "a test", Attempts: 1, Payload: p}); !errors.Is(err, tables.ErrPaused) {
		t.Errorf("an exam while the programme is paused: %v, want ErrPaused", err)
	}
	open := s.prog.Worker.Field
	dialled := 0
	s.prog.Worker.Field = &answering{open, func(context.Context, agents.Call) (agents.Reply, error) {
		dialled++
		return agents.Reply{}, errors.New("nobody should ask")
	}}
	s.days(t, 1.3)
	s.prog.Worker.Field = open
	if dialled != 0 {
		t.Errorf("the agent was dialled %d times while nothing may be sent", dialled)
	}
	steps := make(map[domain.Type]int)
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		steps[r.Type]++
		if r.Type == (shop.Missed{}).EventType() && !strings.Contains(string(r.Data), `"paused"`) {
			t.Errorf("%s: %s", r.Stream, r.Data)
		}
	}
	if steps["exam.run_recorded.v1"] != 0 || steps["shop.sent.v1"] != 0 || steps["shop.missed.v1"] == 0 {
		t.Errorf("%v, want some tasks missed and none sent", steps)
	}
	if err := s.prog.Service.Programme(t.Context(), meta("resume"), programme.Resume{Scope: programme.Everything, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	s.days(t, 2)
	sends := 0
	for r, err := range s.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == (shop.Sent{}).EventType() {
			sends++
		}
	}
	if sends == 0 {
		t.Error("nothing was sent any more after the programme was resumed")
	}
}
