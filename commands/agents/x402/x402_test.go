package x402_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/x402"
	"github.com/karatum/mystery/commands/agents/x402/x402test"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
)

var payee = eip191.Address{0xc0, 0xff, 0xee}

// A market is a seller and a purse that buys of it. Time stands still unless a test
// lets it pass.
type market struct {
	t      *testing.T
	now    time.Time     // of the chain
	skew   time.Duration // by which the clock of the purse goes wrong
	token  *x402test.Token
	seller *x402test.Seller
	url    string
	purse  *x402.Purse

	recorded []shop.PaymentReserved
	unable   error // of putting a payment on record
}

func open(t *testing.T, version int) *market {
	t.Helper()
	return openOn(t, version, pgtest.Open(t))
}

// openOn opens a market on a database that others may use: its consent is its own.
func openOn(t *testing.T, version int, pool *pgxpool.Pool) *market {
	t.Helper()
	m := &market{t: t, now: time.Date(2027, 3, 4, 12, 0, 0, 0, time.UTC)}
	m.token = &x402test.Token{Now: func() time.Time { return m.now }}
	m.seller = &x402test.Seller{
		Version: version, Token: m.token, PayTo: payee, Price: "1000",
		Deliver: func(r *http.Request) string { return "here is " + r.URL.Query().Get("reference") },
	}
	server := httptest.NewServer(m.seller)
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	m.url = server.URL + "/paid?lang=en"
	key, err := x402.ParseKey(key0)
	if err != nil {
		t.Fatal(err)
	}
	m.purse = &x402.Purse{
		Keys: []x402.Key{key}, Spends: &tables.Spends{Pool: pool}, Chain: m.token,
		Now: func() time.Time { return m.now.Add(m.skew) }, Rand: rand.Reader,
	}
	return m
}

// purchase returns what pays for a shop: 1000 for a task, 2500 a month.
func (m *market) purchase(id string) *x402.Purchase {
	return m.purse.Purchase(x402.Terms{
		Shop: m.t.Name() + id, Consent: m.t.Name(), PayTo: payee.String(), PerTask: "1000", PerMonth: "2500",
		Record: func(_ context.Context, e shop.PaymentReserved) error {
			if m.unable == nil {
				m.recorded = append(m.recorded, e)
			}
			return m.unable
		},
	})
}

func (m *market) call(p *x402.Purchase) agents.Call {
	return agents.Call{
		Target: agents.Target{URL: m.url, PayTo: payee.String()}, Ask: task.Ask{Arguments: json.RawMessage(`{"reference":"ref-7"}`)},
		Sender: agents.As(identity.Pool()[0]), Deadline: time.Minute, Through: p.Through,
	}
}

func (m *market) ask(c agents.Call) (agents.Reply, error) {
	return x402.Client{Net: agents.Loopback(time.Now, nil)}.Ask(m.t.Context(), c)
}

// buy asks for the resource and pays.
func (m *market) buy(id string) (*x402.Purchase, agents.Reply) {
	m.t.Helper()
	p := m.purchase(id)
	r, err := m.ask(m.call(p))
	if err != nil {
		m.t.Errorf("Ask: %v", err)
	}
	return p, r
}

func (m *market) fate(want shop.Fate) {
	m.t.Helper()
	if got, err := m.purse.Fate(m.t.Context(), m.recorded[len(m.recorded)-1]); err != nil || got != want {
		m.t.Errorf("Fate = %q, %v, want %q", got, err, want)
	}
}

// versions runs a test for both.
func versions(t *testing.T, run func(*testing.T, int)) {
	t.Helper()
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) { t.Parallel(); run(t, version) })
	}
}

func TestBuy(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, version int) {
		t.Helper()
		m := open(t, version)
		surface, target, err := x402.Client{Net: agents.Loopback(time.Now, nil)}.Observe(t.Context(), m.url, agents.As(identity.Pool()[3]))
		if err != nil || len(surface.Sales) != 1 || target.PayTo != payee.String() || target.URL != m.url {
			t.Fatalf("Observe = %+v, %+v, %v, want a resource that %s sells", surface, target, err, payee)
		}
		p, r := m.buy("shp_1")
		if r.Outcome != "" || r.Text != "here is ref-7" || r.Status != http.StatusOK || r.Latency <= 0 {
			t.Errorf("Ask = %+v, want the resource", r)
		}
		if !p.Paid() || p.Transaction().IsZero() {
			t.Errorf("paid %t by %s, want a transaction", p.Paid(), p.Transaction())
		}
		a := m.token.Transfers()
		if len(a) != 1 || a[0].Value != "1000" || a[0].To != payee || a[0].From != m.purse.Accounts()[0] {
			t.Fatalf("transfers = %+v, want one of 1000 to %s", a, payee)
		}
		want := shop.PaymentReserved{
			Network: "eip155:84532", Asset: x402.USDC.Address, PayTo: payee, Payer: a[0].From, Amount: "1000", Month: "2027-03", Nonce: a[0].Nonce,
			ValidAfter: m.now.Unix() - 600, ValidBefore: m.now.Unix() + 60,
		}
		if len(m.recorded) != 1 || m.recorded[0] != want {
			t.Errorf("recorded = %+v, want %+v", m.recorded, want)
		}
		m.fate(shop.Taken)
	})
}

// What cannot be paid is blocked, and nothing is signed.
func TestRefuse(t *testing.T) {
	t.Parallel()
	extra := func(name, value string) func(map[string]any) {
		return func(o map[string]any) { o["extra"].(map[string]any)[name] = value }
	}
	set := func(name string, value any) func(map[string]any) { return func(o map[string]any) { o[name] = value } }
	versions(t, func(t *testing.T, version int) {
		t.Helper()
		amount := "amount"
		if version == 1 {
			amount = "maxAmountRequired"
		}
		m := open(t, version)
		for name, offer := range map[string]func(map[string]any){
			"another network":        set("network", "eip155:8453"),
			"a network of no chain":  set("network", "solana"),
			"the other version's":    set("network", map[int]string{1: "eip155:84532", 2: "base-sepolia"}[version]),
			"another scheme":         set("scheme", "upto"),
			"another asset":          set("asset", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
			"an asset that is none":  set("asset", "USDC"),
			"another name":           extra("name", "USD Coin"),
			"another name's version": extra("version", "1"),
			"no names":               set("extra", nil),
			"permit2":                extra("assetTransferMethod", "permit2"),
			"another payee":          set("payTo", eip191.Address{1}.String()),
			"a payee that is none":   set("payTo", "me"),
			"more than a task may":   set(amount, "1001"),
			"nothing":                set(amount, "0"),
			"a negative amount":      set(amount, "-1"),
			"hex":                    set(amount, "0x10"),
			"a number":               set(amount, 1000),
			"an amount of a book":    set(amount, strings.Repeat("9", 1000)),
			"no time to pay":         set("maxTimeoutSeconds", 5),
		} {
			m.seller.Offer = offer
			p, r := m.buy("shp " + name)
			if r.Outcome != task.Blocked || r.Code != agents.PaymentCap || p.Paid() {
				t.Errorf("%s: Ask = %+v and paid %t, want blocked by %s", name, r, p.Paid(), agents.PaymentCap)
			}
		}
		if n := len(m.seller.Payments()); n > 0 || len(m.recorded) > 0 {
			t.Errorf("%d payments left and %d were recorded, want none", n, len(m.recorded))
		}
	})
}

// A 402 that holds no offer is blocked, whatever it holds instead; only a header that
// is not what version 2 says is the agent's fault.
func TestOddOffers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header, body string
		outcome      task.Outcome
		code         string
	}{
		"nothing":            {"", "", task.Blocked, agents.PaymentCap},
		"a page":             {"", "<html>Please pay</html>", task.Blocked, agents.PaymentCap},
		"an array":           {"", "[]", task.Blocked, agents.PaymentCap},
		"no offers":          {"", `{"x402Version":1,"accepts":[]}`, task.Blocked, agents.PaymentCap},
		"offers of nothing":  {"", `{"x402Version":1,"accepts":[1,"x",null]}`, task.Blocked, agents.PaymentCap},
		"a version to come":  {"", `{"x402Version":3,"accepts":[{}]}`, task.Blocked, agents.PaymentCap},
		"a negative version": {"", `{"x402Version":-1,"accepts":[{}]}`, task.Blocked, agents.PaymentCap},
		"no base64":          {"%%%", "{}", task.Error, agents.Protocol},
		"base64 of nothing":  {"AAAA", "{}", task.Blocked, agents.PaymentCap},
		"a long header":      {strings.Repeat("A", 40<<10), "{}", task.Error, agents.Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("PAYMENT-REQUIRED", tt.header)
				}
				w.WriteHeader(http.StatusPaymentRequired)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			var e *agents.Error
			_, _, err := x402.Client{Net: agents.Loopback(time.Now, nil)}.Observe(t.Context(), server.URL, agents.As(identity.Pool()[0]))
			if !errors.As(err, &e) || e.Outcome != tt.outcome || e.Code != tt.code {
				t.Errorf("Observe: %v, want %s (%s)", err, tt.outcome, tt.code)
			}
		})
	}
}

// The cheapest of several offers is taken, past those that cannot be paid.
func TestCheapest(t *testing.T) {
	t.Parallel()
	offer := func(amount, scheme string) string {
		return fmt.Sprintf(`{"scheme":%q,"network":"base-sepolia","maxAmountRequired":%q,"asset":"0x036cbd53842c5426634e7929541ec2318f3dcf7e",
			"payTo":%q,"maxTimeoutSeconds":3600,"extra":{"name":"USDC","version":"2"}}`, scheme, amount, strings.ToLower(payee.String()))
	}
	body := fmt.Sprintf(`{"x402Version":1,"accepts":[%s,%s,%s,%s]}`, offer("900", "exact"), offer("1", "upto"), offer("80", "exact"), offer("100", "exact"))
	m := open(t, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-PAYMENT") == "" {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = w.Write([]byte(body))
		}
	}))
	defer server.Close()
	m.url = server.URL
	m.buy("shp_1")
	if len(m.recorded) != 1 || m.recorded[0].Amount != "80" || m.recorded[0].ValidBefore != m.now.Unix()+300 {
		t.Errorf("recorded = %+v, want 80 for five minutes at most", m.recorded)
	}
}

// Whatever a seller does with a payment: it is paid once, the reply says what can be
// known of it, and the chain says what became of the money.
func TestTricks(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	for _, tt := range []struct {
		trick   x402test.Trick
		skew    time.Duration
		outcome task.Outcome
		code    string
		status  int
		fate    shop.Fate // at the end
	}{
		{x402test.Lost, 0, task.Error, agents.Transport, 0, shop.Taken},
		{x402test.Dies, 0, task.Error, agents.Transport, 0, shop.Expired},
		{x402test.Denies, 0, task.Blocked, agents.PaymentCap, 402, shop.Taken},
		{x402test.Refuses, 0, task.Blocked, agents.PaymentCap, 402, shop.Expired},
		{x402test.Breaks, 0, task.Error, "500", 500, shop.Taken},
		{x402test.Quiet, 0, "", "", 200, shop.Taken},
		{x402test.Free, 0, "", "", 200, shop.Expired},
		{x402test.Honest, 20 * time.Minute, task.Blocked, agents.PaymentCap, 402, shop.Expired},  // valid after it arrives
		{x402test.Honest, -2 * time.Minute, task.Blocked, agents.PaymentCap, 402, shop.Expired},  // expired when it arrives
		{x402test.Honest, -55 * time.Second, task.Blocked, agents.PaymentCap, 402, shop.Expired}, // too late to be redeemed
		{x402test.Honest, -9 * time.Second, "", "", 200, shop.Taken},
		{x402test.Honest, 9 * time.Minute, "", "", 200, shop.Taken},
	} {
		t.Run(fmt.Sprint(tt.trick, " ", tt.skew), func(t *testing.T) {
			t.Parallel()
			versions(t, func(t *testing.T, version int) {
				t.Helper()
				m := openOn(t, version, pool)
				m.seller.Play(tt.trick)
				m.skew = tt.skew
				p, r := m.buy("shp_1")
				if r.Outcome != tt.outcome || r.Code != tt.code || r.Status != tt.status || !p.Paid() {
					t.Errorf("Ask = %+v and paid %t, want %s (%s) after a payment", r, p.Paid(), tt.outcome, tt.code)
				}
				if wantReceipt := tt.trick == x402test.Honest && tt.status == 200; wantReceipt == p.Transaction().IsZero() {
					t.Errorf("Transaction = %s, want one: %t", p.Transaction(), wantReceipt)
				}
				if n := len(m.seller.Payments()); n != 1 || m.seller.Asked() != 2 {
					t.Errorf("%d payments in %d requests, want one in two", n, m.seller.Asked())
				}
				early := shop.Fate("")
				if tt.fate == shop.Taken {
					early = shop.Taken
				}
				m.fate(early)
				m.now = time.Unix(m.recorded[0].ValidBefore, 0).Add(time.Minute)
				m.fate(early) // its last blocks may still be replaced
				m.now = m.now.Add(time.Second)
				m.fate(tt.fate)
				m.token.Down(true)
				if f, err := m.purse.Fate(t.Context(), m.recorded[0]); f != "" || !errors.Is(err, domain.ErrUnavailable) {
					t.Errorf("Fate without a chain = %q, %v, want ErrUnavailable", f, err)
				}
			})
		})
	}
}

// A price that goes up after the payment is not paid, nor is anything a second time.
func TestPriceRaised(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, version int) {
		t.Helper()
		m := open(t, version)
		m.seller.Play(x402test.Denies)
		m.seller.Offer = func(o map[string]any) {
			if len(m.seller.Payments()) > 0 {
				o["amount"], o["maxAmountRequired"] = "1", "1"
			}
		}
		if p, r := m.buy("shp_1"); r.Code != agents.PaymentCap || !p.Paid() || len(m.token.Transfers()) != 1 {
			t.Errorf("Ask = %+v after %d transfers, want blocked after one", r, len(m.token.Transfers()))
		}
		// Nor by another try, whoever makes it.
		again := m.purchase("shp_1")
		if _, err := m.ask(m.call(again)); !errors.Is(err, domain.ErrConflict) || again.Paid() {
			t.Errorf("Ask again: %v, want ErrConflict", err)
		}
	})
}

func TestMonth(t *testing.T) {
	t.Parallel()
	m := open(t, 2)
	for i, want := range []string{"", "", agents.PaymentCap} { // 1000 of 2500 each
		if _, r := m.buy(fmt.Sprint("shp_", i)); r.Code != want {
			t.Errorf("purchase %d: %+v, want code %q", i, r, want)
		}
	}
	m.now = m.now.AddDate(0, 1, 0)
	if _, r := m.buy("shp_3"); r.Outcome != "" {
		t.Errorf("in the next month: %+v, want an answer", r)
	}
	// What was not taken and cannot be any more makes room.
	m.seller.Play(x402test.Refuses)
	m.buy("shp_4")
	m.seller.Play(x402test.Honest)
	if _, r := m.buy("shp_5"); r.Code != agents.PaymentCap {
		t.Errorf("with one in doubt: %+v, want blocked", r)
	}
	for _, f := range []shop.Fate{shop.Unknown, shop.Taken, shop.Expired} {
		if err := m.purse.Settle(t.Context(), t.Name()+"shp_4", f); err != nil {
			t.Error(err)
		}
		_, r := m.buy("shp after " + string(f))
		if (r.Outcome == "") != (f == shop.Expired) {
			t.Errorf("with one %s: %+v", f, r)
		}
	}
}

// A purchase that fails on our side gives nothing away, and what it has counted by
// then stays counted once it may be on record.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	unable := errors.New("the ledger does not answer")
	for name, tt := range map[string]struct {
		fail    func(*market)
		counted bool
	}{
		"no randomness": {func(m *market) { m.purse.Rand = strings.NewReader("short") }, false},
		"no record":     {func(m *market) { m.unable = unable }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, 2)
			tt.fail(m)
			p := m.purchase("shp_1")
			if r, err := m.ask(m.call(p)); err == nil || p.Paid() {
				t.Errorf("Ask = %+v, %v and paid %t, want an error and nothing paid", r, err, p.Paid())
			}
			if n := len(m.seller.Payments()); n > 0 {
				t.Errorf("%d payments left", n)
			}
			m.unable, m.purse.Rand = nil, rand.Reader
			m.buy("shp_2")
			if _, r := m.buy("shp_3"); (r.Code == agents.PaymentCap) != tt.counted {
				t.Errorf("Ask = %+v, want what was interrupted to count: %t", r, tt.counted)
			}
		})
	}
}

// The gate is asked before each request, so a consent that is revoked while a price
// is looked at is not paid under.
func TestGateBeforePaying(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, version int) {
		t.Helper()
		m := open(t, version)
		revoked := errors.New("revoked")
		asked, held := 0, 0
		p := m.purchase("shp_1")
		call := m.call(p)
		call.Gate = func(context.Context) (func(), error) {
			if asked++; asked > 1 {
				return nil, revoked
			}
			held++
			return func() { held-- }, nil
		}
		var exchanges []agents.Exchange
		call.Exchanged = func(x agents.Exchange) { exchanges = append(exchanges, x) }
		if _, err := m.ask(call); !errors.Is(err, revoked) || held != 0 {
			t.Errorf("Ask: %v with %d holds, want %v", err, held, revoked)
		}
		if n := len(m.seller.Payments()); n > 0 || asked != 2 {
			t.Errorf("%d payments left, the gate was asked %d times, want none and 2", n, asked)
		}
		if len(exchanges) != 1 || exchanges[0].Status != http.StatusPaymentRequired || exchanges[0].N != 0 {
			t.Errorf("exchanges = %+v, want the one that was answered by 402", exchanges)
		}
	})
}

// One key for each task, as long as there are keys.
func TestOnce(t *testing.T) {
	t.Parallel()
	m := open(t, 1)
	second, err := x402.ParseKey(key1)
	if err != nil {
		t.Fatal(err)
	}
	m.purse.Keys, m.purse.Once = append(m.purse.Keys, second), true
	ready := func(want bool) {
		t.Helper()
		if got, err := m.purse.Ready(t.Context()); err != nil || got != want {
			t.Errorf("Ready = %t, %v, want %t", got, err, want)
		}
	}
	ready(true)
	m.buy("shp_1")
	ready(true)
	m.buy("shp_2")
	ready(false)
	if a := m.token.Transfers(); len(a) != 2 || a[0].From == a[1].From {
		t.Errorf("transfers = %+v, want two from two accounts", a)
	}
	m.now = m.now.AddDate(0, 1, 0)
	if _, r := m.buy("shp_3"); r.Code != agents.PaymentCap {
		t.Errorf("with no key left: %+v, want blocked", r)
	}
	if ok, err := (&x402.Purse{}).Ready(t.Context()); ok || err != nil {
		t.Errorf("Ready without keys = %t, %v, want false", ok, err)
	}
}

// A body goes out again with the payment.
func TestTransportBody(t *testing.T) {
	t.Parallel()
	m := open(t, 2)
	m.seller.Deliver = func(r *http.Request) string {
		b := make([]byte, 64)
		n, _ := r.Body.Read(b)
		return string(b[:n])
	}
	p := m.purchase("shp_1")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.url, strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Through(http.DefaultTransport).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := make([]byte, 64)
	if n, _ := res.Body.Read(b); string(b[:n]) != "a body" || res.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d %q, want the body that was sent", res.StatusCode, b[:n])
	}
	req.Body, req.GetBody = http.MaxBytesReader(nil, req.Body, 10), nil
	if _, err := m.purchase("shp_2").Through(http.DefaultTransport).RoundTrip(req); err == nil { //nolint:bodyclose // there is none
		t.Error("a body that cannot be sent again was paid for")
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Subject{
		Now: time.Now,
		New: func(n agents.Net) agenttest.Client { return x402.Client{Net: n} },
		Server: func(text string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
		},
		Ask: task.Ask{Arguments: json.RawMessage(`{"reference":"ref-7"}`)}, Document: true,
	})
}
