package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/commands/agents/x402/x402test"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A market is a stage on which one agent sells a resource at the house's address.
type market struct {
	*stage
	token  *x402test.Token
	seller *x402test.Seller

	mu     sync.Mutex
	tricks []x402test.Trick          // played one after the other, a task each
	played map[string]x402test.Trick // by reference of the task
}

// sell opens a market whose seller plays some tricks in turn, and gives a consent that
// allows payments of perTask and perMonth.
func sell(t *testing.T, seed, perMonth string, tricks ...x402test.Trick) (*market, consent.Payload) {
	t.Helper()
	m := &market{stage: bare(t, seed), tricks: tricks, played: make(map[string]x402test.Trick)}
	m.token = &x402test.Token{Now: m.clock.Now}
	m.seller = &x402test.Seller{
		Version: 2, Token: m.token, PayTo: eip191.Address{1, 2, 3}, Price: "1000",
		Deliver: func(r *http.Request) string { return "paid content for " + r.URL.Query().Get("reference") },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(m.serve))
	server.Config.ErrorLog = log.New(t.Output(), "", 0)
	server.Start()
	t.Cleanup(server.Close)
	key, err := x402.ParseKey("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
	if err != nil {
		t.Fatal(err)
	}
	m.prog.Worker.Purse = &x402.Purse{
		Keys: []x402.Key{key}, Spends: &tables.Spends{Pool: pgtest.Open(t)}, Chain: m.token, Now: m.clock.Now, Rand: rand.Reader,
	}
	m.prog.Worker.Field = &selling{m.prog.Worker.Field, x402.Client{
		Net: agents.Loopback(time.Now, map[string]string{houseHost: server.Listener.Addr().String()}),
	}}
	return m, m.give(t, func(r *consent.Request) {
		r.Endpoints, r.Kinds = []consent.Endpoint{{Kind: task.X402, URL: houseURL + "/paid"}}, []task.Kind{task.X402}
		r.MaxPerDay, r.MaxPerWeek, r.RevealDelaySeconds = 24, 100, 3600
		r.PaymentsAllowed, r.Payment = true, &consent.Payment{Network: consent.PaymentNetwork, MaxPerTask: "1000", MaxPerMonth: perMonth}
	})
}

// serve lets the seller play the next trick for each new reference.
func (m *market) serve(w http.ResponseWriter, r *http.Request) {
	if reference := r.URL.Query().Get("reference"); reference != "" {
		m.mu.Lock()
		if _, known := m.played[reference]; !known {
			m.played[reference] = m.tricks[len(m.played)%len(m.tricks)]
		}
		trick := m.played[reference]
		m.mu.Unlock()
		m.seller.Play(trick)
	}
	m.seller.ServeHTTP(w, r)
}

// selling is a field in which some agents sell.
type selling struct {
	field
	shop x402.Client
}

func (s *selling) Observe(ctx context.Context, kind task.Kind, url string, as agents.Sender) (task.Surface, agents.Target, error) {
	if kind == task.X402 {
		return s.shop.Observe(ctx, url, as)
	}
	return s.field.Observe(ctx, kind, url, as)
}

func (s *selling) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	if kind == task.X402 {
		return s.shop.Ask(ctx, c)
	}
	return s.field.Ask(ctx, kind, c)
}

// A deal is what became of a task that is paid for.
type deal struct {
	Result   string // outcome and rule, or state and rule
	Fate     shop.Fate
	Receipt  bool
	Reserved bool
}

// deals reads the ledger again from its first record, which checks every payment
// against its limits, and returns what became of the tasks by their reference.
func (m *market) deals(t *testing.T) map[string]deal {
	t.Helper()
	all := make(map[string]deal)
	r := replay.New(commands.Catalog())
	for record, err := range m.prog.Service.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(record); err != nil {
			t.Fatal(err)
		}
		e, err := commands.Catalog().Decode(record.Type, record.Data)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := e.(shop.Revealed); ok {
			all[e.Expected.Value] = dealOf(t, e)
		}
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
	return all
}

func dealOf(t *testing.T, e shop.Revealed) deal {
	t.Helper()
	d := deal{Result: string(e.Result.Outcome) + " " + e.Result.Rule}
	if e.Result.State != shop.StateJudged {
		d.Result = string(e.Result.State) + " " + e.Result.Rule
	}
	if e.Result.Outcome == task.Pass {
		d.Result = "pass"
	}
	for _, r := range e.Records {
		event, err := commands.Catalog().Decode(r.Type, r.Data)
		if err != nil {
			t.Fatal(err)
		}
		switch event := event.(type) {
		case shop.PaymentReserved:
			d.Reserved = true
		case shop.PaymentSettled:
			d.Fate, d.Receipt = event.Fate, !event.Transaction.IsZero()
		}
	}
	return d
}

// paidOnce checks that no task was ever given two authorizations.
func (m *market) paidOnce(t *testing.T) {
	t.Helper()
	seen := make(map[string]bool)
	for _, p := range m.seller.Payments() {
		nonce := p.Authorization.Nonce.String()
		if seen[nonce] {
			t.Errorf("the authorization %s was sent twice", nonce)
		}
		seen[nonce] = true
	}
	if len(seen) > len(m.played) {
		t.Errorf("%d authorizations for %d tasks", len(seen), len(m.played))
	}
}

// TestPayments shops an agent that sells, and cheats in every way in turn. What each
// task comes to follows from what the seller did and from the chain, and all of it can
// be checked once it is revealed.
func TestPayments(t *testing.T) {
	inOrder(t)
	t.Parallel()
	want := map[x402test.Trick]deal{
		x402test.Honest:  {"pass", shop.Taken, true, true},
		x402test.Quiet:   {"pass", shop.Taken, false, true},
		x402test.Free:    {"pass", shop.Expired, false, true},
		x402test.Lost:    {"error transport", shop.Taken, false, true},
		x402test.Dies:    {"error transport", shop.Expired, false, true},
		x402test.Breaks:  {"error 500", shop.Taken, false, true},
		x402test.Denies:  {"error 402", shop.Taken, false, true},
		x402test.Refuses: {"blocked payment_cap", shop.Expired, false, true},
	}
	tricks := []x402test.Trick{
		x402test.Honest, x402test.Quiet, x402test.Free, x402test.Lost, x402test.Dies, x402test.Breaks, x402test.Denies, x402test.Refuses,
	}
	m, p := sell(t, "71", "1000000", tricks...)
	m.days(t, 4.1)
	got := m.deals(t)
	if len(got) < len(tricks) {
		t.Fatalf("%d tasks were revealed, want each of %d tricks", len(got), len(tricks))
	}
	for reference, d := range got {
		if strings.HasPrefix(d.Result, "missed") {
			continue
		}
		if diff := cmp.Diff(want[m.played[reference]], d); diff != "" {
			t.Errorf("a seller that %q (-want +got):\n%s", m.played[reference], diff)
		}
	}
	m.paidOnce(t)
	m.audit(t, map[string]consent.Payload{"steady": p})
}

// A month's limit holds, and what it leaves no room for is blocked.
func TestPaymentsOfAMonth(t *testing.T) {
	inOrder(t)
	t.Parallel()
	m, _ := sell(t, "72", "5999", x402test.Honest)
	m.days(t, 4.1)
	paid, blocked := 0, 0
	for _, d := range m.deals(t) {
		switch d {
		case deal{"missed host_busy", "", false, false}: // two of them lay too close to each other
		case deal{"pass", shop.Taken, true, true}:
			paid++
		case deal{"blocked payment_cap", "", false, false}:
			blocked++
		default:
			t.Errorf("a task came to %+v", d)
		}
	}
	// The days may lie in two months.
	if (paid != 5 && paid != 10) || len(m.token.Transfers()) != paid || blocked == 0 {
		t.Errorf("%d were paid and %d blocked, in %d transfers, want 5 in a month", paid, blocked, len(m.token.Transfers()))
	}
}

// Where the chain cannot be asked, a payment that was refused in return says nothing,
// and what it came to is unknown.
func TestPaymentsWithoutChain(t *testing.T) {
	inOrder(t)
	t.Parallel()
	m, p := sell(t, "73", "1000000", x402test.Denies, x402test.Honest, x402test.Lost)
	m.token.Down(true)
	m.days(t, 3.1)
	want := map[x402test.Trick]deal{
		x402test.Denies: {"blocked chain_read_failed", shop.Unknown, false, true},
		x402test.Honest: {"pass", shop.Taken, true, true},
		x402test.Lost:   {"error transport", shop.Unknown, false, true},
	}
	for reference, d := range m.deals(t) {
		if diff := cmp.Diff(want[m.played[reference]], d); diff != "" {
			t.Errorf("a seller that %q (-want +got):\n%s", m.played[reference], diff)
		}
	}
	m.audit(t, map[string]consent.Payload{"steady": p})
}

// Without an account that pays nothing is planned that costs something, and the day
// says so.
func TestPaymentsWithoutPayer(t *testing.T) {
	inOrder(t)
	t.Parallel()
	m, p := sell(t, "74", "1000000", x402test.Honest)
	m.prog.Worker.Purse.Keys = nil
	m.days(t, 3.1)
	if n := len(m.deals(t)); n > 0 {
		t.Errorf("%d tasks were planned, want none", n)
	}
	opened := opens(t, m.stage, plan.ConsentID(p.Nonce))
	if len(opened) == 0 {
		t.Fatal("no day was opened")
	}
	for _, o := range opened {
		want := []plan.Note{{Endpoint: "ep_0", Reason: plan.NoPayer}}
		if diff := cmp.Diff(want, o.Notes); diff != "" || o.Cap != 0 {
			t.Errorf("day %s was opened with cap %d, want 0, and other notes (-want +got):\n%s", domain.DayString(o.Day), o.Cap, diff)
		}
	}
	if n := len(m.seller.Payments()); n > 0 {
		t.Errorf("%d payments left", n)
	}
}

// TestPaymentsInterrupted kills the worker at appends about paid tasks, before and
// after they are durable. Whoever takes over knows nothing but ledger and tables:
// nothing is sent or paid twice, limits hold, and each task ends.
func TestPaymentsInterrupted(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{false, true} {
		t.Run(fmt.Sprintf("persisted %t", persisted), func(t *testing.T) {
			t.Parallel()
			m, p := sell(t, "75", "30000", x402test.Honest, x402test.Denies, x402test.Quiet, x402test.Refuses)
			faulty := &onceFaulty{Log: m.prog.Service.Log, persisted: persisted, failed: make(map[string]bool), count: make(map[domain.Type]int)}
			m.prog.Service.Log = faulty
			m.stumble(t, 4.1, true)
			got := m.deals(t)
			m.paidOnce(t)
			if n := faulty.count; n["shop.payment_reserved.v1"] == 0 || n["shop.payment_settled.v1"] < 4 || len(n) != 5 {
				t.Errorf("appends failed: %v, want some of five kinds", n)
			}
			total := new(big.Int)
			for _, a := range m.token.Transfers() {
				value, _ := shop.Amount(a.Value)
				total.Add(total, value)
			}
			if total.Cmp(big.NewInt(60000)) > 0 { // of two months at most
				t.Errorf("%s was spent", total)
			}
			for reference, d := range got {
				if d.Result == "" || d.Reserved != (d.Fate != "") {
					t.Errorf("the task %s came to %+v", reference, d)
				}
			}
			t.Logf("%d tasks, of which appends failed: %v", len(got), faulty.count)
			m.audit(t, map[string]consent.Payload{"steady": p})
		})
	}
}

// A onceFaulty fails appends of sent tasks once: all that settle a payment, and one in
// four of the others.
type onceFaulty struct {
	ledger.Log

	persisted bool
	failed    map[string]bool
	count     map[domain.Type]int
}

func (l *onceFaulty) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	key := fmt.Sprint(s, " ", events[0].EventType())
	spared := l.failed[key]
	switch events[0].(type) {
	case shop.PaymentSettled:
	case shop.PaymentReserved, shop.SessionOpened, shop.Replied, shop.Judged:
		spared = spared || domain.Sum([]byte(key))[0]%4 != 0
	default:
		spared = true
	}
	if spared {
		return l.Log.Append(ctx, s, version, m, events...)
	}
	l.failed[key] = true
	l.count[events[0].EventType()]++
	if l.persisted {
		if err := l.Log.Append(ctx, s, version, m, events...); err != nil {
			return err
		}
	}
	return fmt.Errorf("append to %s: the database went away: %w", s, domain.ErrUnavailable)
}

var _ worker.Field = (*selling)(nil)
