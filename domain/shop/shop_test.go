package shop_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

var (
	committed = shop.Committed{Consent: "cns_a", Day: 20881, Slot: 3, Commit: domain.Hash{1}}
	sent      = shop.Sent{Endpoint: "ep_0", Identity: 7, Template: "date.weekday", TemplateVersion: 1, Ask: domain.Hash{2}}
	converse  = shop.Converse{Target: domain.Hash{4}, Actions: []domain.Hash{{5}, {6}}}
	opened    = shop.SessionOpened{Target: domain.Hash{4}}
	actions   = []shop.SessionAction{{N: 0, Hash: domain.Hash{5}}, {N: 1, Hash: domain.Hash{6}}}
	closed    = shop.SessionClosed{Count: 2, Root: merkle.Root(converse.Actions)}
	reserved  = shop.PaymentReserved{
		Network: "eip155:84532", Asset: eip191.Address{1}, PayTo: eip191.Address{2}, Payer: eip191.Address{3}, Amount: "1000",
		Month: "2027-03", Nonce: batch.Word{4}, ValidAfter: 1804117800, ValidBefore: 1804118700,
	}
	settled   = shop.PaymentSettled{Fate: shop.Taken}
	replied   = shop.Replied{Hash: domain.Hash{3}, ReceivedAtMs: 1804118400007, Status: 200, LatencyMs: 40, Size: 6, Answer: true}
	judged    = shop.Judged{Outcome: task.Pass, Rule: "marker", Literal: task.Pass, Length: 6, Grader: 1}
	lost      = shop.Judged{Outcome: task.Blocked, Rule: "worker_lost"}
	unread    = shop.Judged{Outcome: task.Blocked, Rule: "chain_read_failed"}
	missed    = shop.Missed{Reason: shop.OperatorLate}
	cancelled = shop.Cancelled{Reason: shop.ConsentOver}
	revealed  = shop.Revealed{Consent: "cns_a", Day: 20881, Slot: 3}
	erased    = shop.Erased{Reason: "the owner asked for it"}
)

// lives holds a history for each state that a slot can be in.
var lives = []struct {
	state   shop.State
	history []shop.Event
}{
	{shop.StateNone, nil},
	{shop.StateCommitted, []shop.Event{committed}},
	{shop.StateSent, []shop.Event{committed, sent}},
	{shop.StateConversed, []shop.Event{committed, sent, opened, actions[0], actions[1], closed}},
	{shop.StateReplied, []shop.Event{committed, sent, opened, closed, replied}},
	{shop.StateJudged, []shop.Event{committed, sent, opened, closed, replied, judged}},
	{"sent+paying", []shop.Event{committed, sent, reserved}},
	{"conversed+paying", []shop.Event{committed, sent, reserved, opened, closed}},
	{"replied+paying", []shop.Event{committed, sent, reserved, opened, closed, replied}},
	{"judged+paying", []shop.Event{committed, sent, reserved, opened, closed, replied, judged}},
	{"judged+paying", []shop.Event{committed, sent, reserved, lost}},
	{shop.StateReplied, []shop.Event{committed, sent, reserved, opened, closed, replied, settled}},
	{shop.StateJudged, []shop.Event{committed, sent, reserved, opened, closed, replied, settled, judged}},
	{shop.StateJudged, []shop.Event{committed, sent, reserved, lost, settled}},
	{shop.StateMissed, []shop.Event{committed, missed}},
	{shop.StateCancelled, []shop.Event{committed, cancelled}},
	{shop.StateRevealed, []shop.Event{committed, sent, opened, closed, replied, judged, revealed}},
	{shop.StateErased, []shop.Event{committed, sent, opened, closed, replied, judged, revealed, erased}},
}

// Every command in every state: what is not named is a conflict, and in a slot
// that was never committed not found.
func TestDecide(t *testing.T) {
	t.Parallel()
	type answer []shop.Event // empty: nothing happens
	commands := []struct {
		name    string
		command shop.Command
		allowed map[shop.State]answer
	}{
		{"commit", shop.Commit(committed), map[shop.State]answer{
			shop.StateNone: {committed}, shop.StateCommitted: {}, shop.StateSent: {}, shop.StateConversed: {}, shop.StateReplied: {},
			shop.StateJudged: {}, shop.StateMissed: {}, shop.StateCancelled: {}, shop.StateRevealed: {}, shop.StateErased: {},
			"sent+paying": {}, "conversed+paying": {}, "replied+paying": {}, "judged+paying": {},
		}},
		{"send", shop.Send(sent), map[shop.State]answer{shop.StateCommitted: {sent}}},
		{"reserve", shop.Reserve(reserved), map[shop.State]answer{shop.StateSent: {reserved}}},
		{"settle", shop.Settle(settled), map[shop.State]answer{"replied+paying": {settled}, "judged+paying": {settled}}},
		{"converse", converse, map[shop.State]answer{
			shop.StateSent: {opened, actions[0], actions[1], closed}, "sent+paying": {opened, actions[0], actions[1], closed},
		}},
		{"reply", shop.Reply(replied), map[shop.State]answer{shop.StateConversed: {replied}, "conversed+paying": {replied}}},
		{"judge", shop.Judge(judged), map[shop.State]answer{
			shop.StateConversed: {judged}, shop.StateReplied: {judged}, "conversed+paying": {judged}, "replied+paying": {judged},
		}},
		{"judge lost", shop.Judge(lost), map[shop.State]answer{
			shop.StateSent: {lost}, shop.StateConversed: {lost}, shop.StateReplied: {lost},
			"sent+paying": {lost}, "conversed+paying": {lost}, "replied+paying": {lost},
		}},
		{"judge unread", shop.Judge(unread), map[shop.State]answer{
			shop.StateCommitted: {unread}, shop.StateReplied: {unread}, "replied+paying": {unread},
		}},
		{"miss", shop.Miss(missed), map[shop.State]answer{shop.StateCommitted: {missed}}},
		{"cancel", shop.Cancel(cancelled), map[shop.State]answer{shop.StateCommitted: {cancelled}}},
		{"reveal", shop.Reveal(revealed), map[shop.State]answer{
			shop.StateJudged: {revealed}, shop.StateMissed: {revealed}, shop.StateCancelled: {revealed}, shop.StateRevealed: {}, shop.StateErased: {},
		}},
		{"erase", shop.Erase(erased), map[shop.State]answer{shop.StateRevealed: {erased}, shop.StateErased: {}}},
	}
	var cases []domaintest.Case[shop.Command, shop.Event]
	for _, c := range commands {
		for _, life := range lives {
			tt := domaintest.Case[shop.Command, shop.Event]{
				Name: fmt.Sprintf("%s what is %q after %d events", c.name, life.state, len(life.history)), Given: life.history, When: c.command,
			}
			switch a, ok := c.allowed[life.state]; {
			case len(a) > 0:
				tt.Then = a
			case !ok && life.state == shop.StateNone:
				tt.Err = domain.ErrNotFound
			case !ok:
				tt.Err = domain.ErrConflict
			}
			cases = append(cases, tt)
		}
	}
	domaintest.Decide(t, shop.Decider, cases)
}

// Never a second authorization: no history lets one out after another.
func TestNeverPaidTwice(t *testing.T) {
	t.Parallel()
	for _, life := range lives {
		for _, e := range life.history {
			if _, ok := e.(shop.PaymentReserved); !ok {
				continue
			}
			if _, err := shop.Decider.Decide(shop.Decider.Replay(life.history...), shop.Reserve(reserved)); !errors.Is(err, domain.ErrConflict) {
				t.Errorf("Reserve what is %s after %d events: %v, want ErrConflict", life.state, len(life.history), err)
			}
		}
	}
}

func TestPaymentsHaveAForm(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shop.PaymentReserved){
		"no amount":           func(e *shop.PaymentReserved) { e.Amount = "" },
		"nothing":             func(e *shop.PaymentReserved) { e.Amount = "0" },
		"a negative amount":   func(e *shop.PaymentReserved) { e.Amount = "-1" },
		"a hex amount":        func(e *shop.PaymentReserved) { e.Amount = "0x10" },
		"a leading zero":      func(e *shop.PaymentReserved) { e.Amount = "010" },
		"an amount of a book": func(e *shop.PaymentReserved) { e.Amount = strings.Repeat("9", 31) },
		"another month":       func(e *shop.PaymentReserved) { e.Month = "2027-13" },
		"a day":               func(e *shop.PaymentReserved) { e.Month = "2027-03-01" },
		"never valid":         func(e *shop.PaymentReserved) { e.ValidBefore = e.ValidAfter },
		"no network":          func(e *shop.PaymentReserved) { e.Network = "" },
		"no asset":            func(e *shop.PaymentReserved) { e.Asset = eip191.Address{} },
		"no payee":            func(e *shop.PaymentReserved) { e.PayTo = eip191.Address{} },
		"no payer":            func(e *shop.PaymentReserved) { e.Payer = eip191.Address{} },
		"no nonce":            func(e *shop.PaymentReserved) { e.Nonce = batch.Word{} },
	} {
		e := reserved
		change(&e)
		if _, err := shop.Decider.Decide(shop.StateSent, shop.Reserve(e)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Reserve with %s: %v, want ErrInvalid", name, err)
		}
	}
	for name, e := range map[string]shop.Settle{
		"no fate":                      {},
		"a fate of its own":            {Fate: "spent"},
		"a transaction that took none": {Fate: shop.Expired, Transaction: batch.Word{1}},
	} {
		if _, err := shop.Decider.Decide("judged+paying", e); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Settle with %s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestEraseNeedsAReason(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"", " ", "two\nlines", "\xff", strings.Repeat("x", 401)} {
		if _, err := shop.Decider.Decide(shop.StateRevealed, shop.Erase{Reason: reason}); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Erase for %.10q = %v, want ErrInvalid", reason, err)
		}
	}
}

// A session stands in the log from its opening to its close, in one append.
func TestCheckSession(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		events []shop.Event
		ok     bool
	}{
		{"whole", []shop.Event{opened, actions[0], actions[1], closed}, true},
		{"of no exchange", []shop.Event{opened, shop.SessionClosed{Root: merkle.Root(nil)}}, true},
		{"not closed", []shop.Event{opened, actions[0], actions[1]}, false},
		{"not opened", []shop.Event{actions[0], actions[1], closed}, false},
		{"an action alone", []shop.Event{actions[0]}, false},
		{"an action out of order", []shop.Event{opened, actions[1], actions[0], closed}, false},
		{"an action missing", []shop.Event{opened, actions[0], closed}, false},
		{"another root", []shop.Event{opened, actions[0], actions[1], shop.SessionClosed{Count: 2}}, false},
		{"closed twice", []shop.Event{opened, actions[0], actions[1], closed, closed}, false},
		{"with a reply", []shop.Event{opened, actions[0], actions[1], closed, replied}, false},
	} {
		if err := shop.Check(shop.StateSent, tt.events); (err == nil) != tt.ok || !tt.ok && !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Check of a session that is %s = %v", tt.name, err)
		}
	}
	if err := shop.Check(shop.StateConversed, []shop.Event{opened, actions[0], actions[1], closed}); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Check of a second session = %v, want ErrConflict", err)
	}
}

// Whatever of a session is shown otherwise gives other commitments.
func TestConverse(t *testing.T) {
	t.Parallel()
	talk := func() shop.Session {
		return shop.Session{Kind: task.A2A, URL: "u", Dialect: "1.0", Exchanges: []shop.Exchange{
			{Method: "POST", URL: "u", RPC: "SendMessage", Sent: domain.Hash{1}, Status: 200, Received: domain.Hash{2}},
		}}
	}
	want := talk().Converse("shp_1", domain.Hash{9})
	for name, change := range map[string]func(*shop.Session){
		"kind":     func(s *shop.Session) { s.Kind = task.MCP },
		"url":      func(s *shop.Session) { s.URL = "v" },
		"dialect":  func(s *shop.Session) { s.Dialect = "" },
		"method":   func(s *shop.Session) { s.Exchanges[0].Method = "GET" },
		"where":    func(s *shop.Session) { s.Exchanges[0].URL = "v" },
		"rpc":      func(s *shop.Session) { s.Exchanges[0].RPC = "" },
		"sent":     func(s *shop.Session) { s.Exchanges[0].Sent = domain.Hash{} },
		"status":   func(s *shop.Session) { s.Exchanges[0].Status = 201 },
		"received": func(s *shop.Session) { s.Exchanges[0].Received = domain.Hash{} },
		"number":   func(s *shop.Session) { s.Exchanges = append(s.Exchanges, s.Exchanges[0]) },
	} {
		s := talk()
		change(&s)
		if got := s.Converse("shp_1", domain.Hash{9}); cmp.Equal(want, got) {
			t.Errorf("another %s gives the same commitments", name)
		}
	}
	for name, got := range map[string]shop.Converse{"shop": talk().Converse("shp_2", domain.Hash{9}), "salt": talk().Converse("shp_1", domain.Hash{8})} {
		if got.Target == want.Target || got.Actions[0] == want.Actions[0] {
			t.Errorf("another %s gives the same commitments", name)
		}
	}
}

// At most once: no history lets a second task out.
func TestNeverSentTwice(t *testing.T) {
	t.Parallel()
	for _, life := range lives {
		for _, e := range life.history {
			if _, ok := e.(shop.Sent); !ok {
				continue
			}
			if _, err := shop.Decider.Decide(shop.Decider.Replay(life.history...), shop.Send(sent)); !errors.Is(err, domain.ErrConflict) {
				t.Errorf("Send what is %s: %v, want ErrConflict", life.state, err)
			}
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	for _, life := range lives {
		got := shop.Decider.Replay(life.history...)
		if got != life.state {
			t.Errorf("state after %d events = %q, want %q", len(life.history), got, life.state)
		}
	}
}

func TestResultWith(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		history []shop.Event
		want    shop.Result
	}{
		{"committed", []shop.Event{committed}, shop.Result{}},
		{"in flight", []shop.Event{committed, sent}, shop.Result{}},
		{"replied", []shop.Event{committed, sent, replied}, shop.Result{LatencyMs: 40, ReplyHash: domain.Hash{3}}},
		{"judged", []shop.Event{committed, sent, replied, judged}, shop.Result{
			State: shop.StateJudged, Outcome: task.Pass, Rule: "marker", Literal: task.Pass, LatencyMs: 40, ReplyHash: domain.Hash{3},
		}},
		{"lost", []shop.Event{committed, sent, lost}, shop.Result{State: shop.StateJudged, Outcome: task.Blocked, Rule: "worker_lost"}},
		{"missed", []shop.Event{committed, missed}, shop.Result{State: shop.StateMissed, Rule: "operator_late"}},
		{"missed for a host that had enough", []shop.Event{committed, shop.Missed{Reason: shop.HostBusy}}, shop.Result{State: shop.StateMissed, Rule: "host_busy"}},
		{"cancelled", []shop.Event{committed, cancelled}, shop.Result{State: shop.StateCancelled, Rule: "consent_over"}},
		{"revealed", []shop.Event{committed, missed, revealed}, shop.Result{State: shop.StateMissed, Rule: "operator_late"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got shop.Result
			for _, e := range tt.history {
				got = got.With(e)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, shop.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, shop.Events, os.DirFS("testdata"))
}
