package verify_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
)

var update = flag.Bool("update", false, "write the answers under testdata/shop anew")

// A life is how one slot came to its end, in the hands of an operator who may lie as
// long as everything he shows agrees with the log he keeps.
type life struct {
	plan     plan.Day
	list     plan.Eligible
	slot     plan.Slot
	sealedAt time.Time
	sent     shop.Sent
	sentAt   time.Time
	talk     shop.Session          // as it is shown
	session  []shop.Event          // as it is on record
	reserved *shop.PaymentReserved // nil: nothing is paid
	settled  *shop.PaymentSettled
	replied  shop.Replied
	reply    string
	salt     domain.Hash
	judged   shop.Judged
	revealed shop.Revealed
	at       time.Time // of the reveal
	sealed   time.Time // when the seal was made
	root     domain.Hash
	unpinned bool            // the reveal names no seal
	over     time.Time       // when the consent was; zero while it is in force
	public   []verify.Proven // records, without their proofs
}

var (
	operator = domain.Sum([]byte("operator secret"))
	talkSalt = domain.Sum([]byte("salt of the session"))
)

// honest is the life of a task that was sent, answered, marked, sealed and revealed
// as it should be. Before it comes to the log, lie may change it.
func honest(t *testing.T, lie func(*life)) (verify.Answers, *life) {
	t.Helper()
	a, l := lived(t, payload(), converts, 0, lie)
	a.Bundle = bundled(t, l)
	return a, l
}

// converts is what an agent shows that converts units.
var converts = task.Surface{Kind: task.A2A, Skills: []task.Skill{{ID: "unit-convert", Name: "Unit conversion"}}}

// lived is the life of the nth task of the first day, under a consent whose one
// endpoint shows a surface.
func lived(t *testing.T, p consent.Payload, shows task.Surface, nth int, lie func(*life)) (verify.Answers, *life) {
	t.Helper()
	p.PlanKeyRoot = plan.KeyRoot(operator, p.Nonce, p.FirstDay, p.ValidityDays)
	id, day := plan.ConsentID(p.Nonce), p.FirstDay
	offers := []plan.Offer{{ID: "ep_0", Surface: shows}}
	l := &life{sealedAt: domain.DayStart(day).Add(-90 * time.Minute), salt: domain.Sum([]byte("salt"))}
	l.list, _ = plan.EligibleOf(offers, nil, plan.Means{Pays: true, ReadsChains: true})
	key := plan.Key(operator, p.Nonce, day)
	var err error
	if l.plan, err = plan.Compute(id, day, plan.DaySecret(key, mine[:]), p.MaxPerDay, l.list, plan.EntriesOf(offers, nil)); err != nil {
		t.Fatal(err)
	}
	picked := plan.RealSlots(l.plan.Secret, l.plan.Count)
	i := int(picked.Ascending()[nth])
	l.slot = l.plan.Slots[i]
	s, shopID := l.slot, plan.ShopID(id, day, uint32(i))
	l.sent = shop.Sent{Endpoint: s.Choice.Endpoint, Identity: s.Identity, Template: s.Choice.Template, TemplateVersion: s.Choice.Version, Ask: s.Task.Ask.Hash()}
	l.sentAt = time.Unix(s.SendAt, 0).UTC().Add(time.Second)
	l.talk = shop.Session{Kind: task.A2A, URL: "https://agent.example/a2a", Dialect: "1.0", Exchanges: []shop.Exchange{
		{Method: "POST", URL: "https://agent.example/a2a", RPC: "SendMessage", Sent: domain.Sum([]byte("asked")), Status: 200, Received: domain.Sum([]byte("working"))},
		{Method: "POST", URL: "https://agent.example/a2a", RPC: "GetTask", Sent: domain.Sum([]byte("and")), Status: 200, Received: domain.Sum([]byte("done"))},
	}}
	if l.session, err = shop.Decider.Decide(shop.StateSent, l.talk.Converse(shopID, talkSalt)); err != nil {
		t.Fatal(err)
	}
	l.reply = "The answer is " + s.Task.Expected.Value
	l.replied = shop.Replied{ReceivedAtMs: l.sentAt.UnixMilli() + 400, Status: 200, LatencyMs: 400, Size: len(l.reply), Answer: true}
	l.replied.Hash = shop.ReplyHash(shopID, l.replied.ReceivedAtMs, 200, 400, l.salt, []byte(l.reply))
	g := task.Mark(s.Task, l.reply)
	l.judged = shop.Judged{Outcome: g.Outcome, Rule: g.Rule, Literal: g.Literal, Offset: g.Offset, Length: g.Length, Grader: task.GraderVersion}
	l.at = l.sentAt.Add(p.RevealDelay())
	l.revealed = shop.Revealed{
		Consent: id, Agent: p.Agent, Day: day, Slot: i, Seed: s.Seed, Template: s.Choice.Template, TemplateVersion: s.Choice.Version,
		Family: s.Task.Family, Endpoint: s.Choice.Endpoint, Entry: s.Entry, Identity: s.Identity, SourceAddresses: []string{}, SendAt: s.SendAt,
		Prompt: s.Task.Prompt, Ask: s.Task.Ask, Expected: s.Task.Expected, Records: []ledger.Record{},
	}
	hour := seal.HourOf(l.sentAt) + 1
	l.sealed = seal.HourStart(hour)

	chain := []ledger.Record{record(t, nil, shop.StreamOf(shopID), l.sealedAt, shop.Committed{Consent: id, Day: day, Slot: i, Commit: s.Commit})}
	if lie != nil {
		lie(l)
	}
	history := [][]shop.Event{{l.sent}, l.session, {l.replied}, {l.judged}}
	if l.reserved != nil {
		history = slices.Insert(history, 1, []shop.Event{*l.reserved})
	}
	if l.settled != nil {
		history = append(history, []shop.Event{*l.settled})
	}
	for n, events := range history {
		chain = append(chain, records(t, chain, shop.StreamOf(shopID), l.sentAt.Add(time.Duration(n)*200*time.Millisecond), events...)...)
		for _, e := range events {
			if l.revealed.Result.State != shop.StateJudged {
				l.revealed.Result = l.revealed.Result.With(e)
			}
		}
	}
	l.revealed.Records = append(l.revealed.Records, chain[1:]...)
	head := chain[len(chain)-1].Hash
	today := &seal.Day{Day: day, Secret: l.plan.Secret}
	today.Heads[i] = head
	yesterday := (*seal.Day)(nil)
	if hour/24 != uint64(day) {
		yesterday, today = today, nil
	}
	leaves := seal.Leaves(hour, yesterday, today)
	if l.root.IsZero() {
		l.root = merkle.Root(leaves[:])
	}
	if l.revealed.Pinned.Path == nil && !l.unpinned {
		l.revealed.Pinned = shop.Pinned{
			Hour: hour, Salt: seal.Salt(l.plan.Secret, hour, uint32(i)), Path: merkle.Path(leaves[:], seal.Index(hour, day, uint32(i))),
		}
	}
	chain = append(chain, record(t, chain, shop.StreamOf(shopID), l.at, l.revealed))
	sealed := record(t, nil, seal.StreamOf(id), l.sealed, seal.Sealed{Consent: id, Hour: hour, Root: l.root})

	owner := publish(t, p)
	owner["state"] = "active"
	delete(owner, "revocation")
	if !l.over.IsZero() {
		owner["overAt"] = l.over
	}
	list, err := l.list.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	last := chain[len(chain)-1]
	l.public = []verify.Proven{{Record: chain[0]}, {Record: sealed}, {Record: last, Prev: head}}
	return verify.Answers{
		Consent: encode(t, owner),
		Day: encode(t, body{
			"day": day, "planned": true, "sealedAt": l.sealedAt, "commits": l.plan.Commits(), "eligibleHash": domain.Sum(list),
			"opened": body{
				"key": key, "path": plan.KeyPath(operator, p.Nonce, p.FirstDay, p.ValidityDays, day), "cap": l.plan.Cap, "count": l.plan.Count, "eligible": l.list,
			},
		}),
		Shop: encode(t, body{
			"id": shopID, "consent": id, "day": day, "slot": i, "commit": s.Commit, "phase": "revealed",
			"revealed": body{"event": json.RawMessage(last.Data), "reply": body{"salt": l.salt, "text": l.reply}, "session": body{
				"salt": talkSalt, "kind": l.talk.Kind, "url": l.talk.URL, "dialect": l.talk.Dialect, "exchanges": l.talk.Exchanges,
			}},
		}),
		Stream: encode(t, body{"items": []any{item(chain[0], domain.Hash{}), item(last, head)}}),
		Seal:   encode(t, item(sealed, domain.Hash{})),
	}, l
}

// record links an event to a chain.
func record(t *testing.T, chain []ledger.Record, stream ledger.Stream, at time.Time, e domain.Event) ledger.Record {
	t.Helper()
	return records(t, chain, stream, at, e)[0]
}

// records links the events of one command to a chain.
func records[E domain.Event](t *testing.T, chain []ledger.Record, stream ledger.Stream, at time.Time, events ...E) []ledger.Record {
	t.Helper()
	list := make([]domain.Event, len(events))
	for i, e := range events {
		list[i] = e
	}
	added, err := ledger.Prepare(stream, ledger.Meta{Actor: "worker", Command: "command " + strconv.Itoa(len(chain))}, list...)
	if err != nil {
		t.Fatal(err)
	}
	var prev domain.Hash
	if n := len(chain); n > 0 {
		prev = chain[n-1].Hash
	}
	for i := range added {
		added[i].Link(prev, uint64(len(chain)+i)+1, at)
		prev = added[i].Hash
	}
	return added
}

func item(r ledger.Record, prev domain.Hash) body {
	return body{"index": 1, "prevHash": prev, "hash": r.Hash, "leafHash": merkle.LeafHash(r.Hash[:]), "record": r}
}

func shopReport(t *testing.T, a verify.Answers) *verify.ShopReport {
	t.Helper()
	r, err := verify.Shop(a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// with lists the checks with a status.
func with(r *verify.ShopReport, status verify.Status) (ids []string) {
	for _, c := range r.Checks {
		if c.Status == status {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func TestShop(t *testing.T) {
	t.Parallel()
	a, _ := honest(t, nil)
	r := shopReport(t, a)
	if r.Verdict != verify.VerdictOK || len(with(r, verify.Pass)) != 18 {
		t.Errorf("verdict %s: %+v, want all of 18 checks to pass", r.Verdict, r.Checks)
	}
}

// The answers under testdata are those that the command is tested with.
func TestShopTestdata(t *testing.T) {
	t.Parallel()
	a, _ := honest(t, nil)
	for name, data := range map[string][]byte{"consent": a.Consent, "day": a.Day, "shop": a.Shop, "stream": a.Stream, "seal": a.Seal, "bundle": a.Bundle} {
		file := filepath.Join("testdata", "shop", name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(data, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), strings.TrimSuffix(string(got), "\n")); diff != "" {
			t.Errorf("%s is stale: go test ./domain/verify -run ShopTestdata -update\n%s", file, diff)
		}
	}
}

// An operator whose log agrees with everything he shows is still found out.
func TestShopLies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lie  func(*life)
		want []string // all that fails
	}{
		{"planned when the day had begun", func(l *life) { l.sealedAt = l.sealedAt.Add(2 * time.Hour) }, []string{"plan"}},
		{"one task more", func(l *life) { l.plan.Count++ }, []string{"count"}},
		{"a cap that the owner did not allow", func(l *life) { l.plan.Cap = 24 }, []string{"cap", "count"}},
		{"another list", func(l *life) { l.list.Endpoints[0].ID = "ep_1" }, []string{"choice"}},
		{"another seed", func(l *life) { l.revealed.Seed[0] ^= 1 }, []string{"choice", "task", "commit", "sending"}},
		{"another slot", func(l *life) { l.revealed.Slot++ }, []string{"choice"}},
		{"another day", func(l *life) { l.revealed.Day++ }, []string{"choice"}},
		{"another consent", func(l *life) { l.revealed.Consent = "cns_a" }, []string{"choice"}},
		{"another agent", func(l *life) { l.revealed.Agent = "build:43" }, []string{"choice"}},
		{"another moment", func(l *life) { l.revealed.SendAt -= 5 }, []string{"choice", "commit"}},
		{"another identity", func(l *life) { l.revealed.Identity ^= 1 }, []string{"choice", "commit", "sending"}},
		{"another endpoint", func(l *life) { l.revealed.Endpoint = "ep_1" }, []string{"choice", "commit", "sending"}},
		{"another entry", func(l *life) { l.revealed.Entry.Name = "units" }, []string{"choice"}},
		{"another question", func(l *life) { l.revealed.Prompt += "!" }, []string{"task"}},
		{"another ask", func(l *life) { l.revealed.Ask.Text += "!" }, []string{"task"}},
		{"another answer", func(l *life) { l.revealed.Expected.Value += "1" }, []string{"task"}},
		{"another family", func(l *life) { l.revealed.Family = "date" }, []string{"task"}},
		{"another result", func(l *life) {
			l.revealed.Result = shop.Result{State: shop.StateJudged, Outcome: task.Fail, LatencyMs: 400, ReplyHash: l.replied.Hash}
		}, []string{"records"}},
		{"sent too early", func(l *life) { l.sentAt = l.sentAt.Add(-2 * time.Second) }, []string{"sending"}},
		{"sent too late", func(l *life) { l.sentAt = l.sentAt.Add(15 * time.Minute); l.sealed = l.sealed.Add(time.Hour) }, []string{"sending", "reveal"}},
		{"sent to another endpoint", func(l *life) { l.sent.Endpoint = "ep_1" }, []string{"sending", "host"}},
		{"sent another question", func(l *life) { l.sent.Ask[0] ^= 1 }, []string{"sending"}},
		{"another place of the session", func(l *life) { l.talk.URL += "/2" }, []string{"session"}},
		{"another dialect", func(l *life) { l.talk.Dialect = "0.3" }, []string{"session"}},
		{"an exchange left out", func(l *life) { l.talk.Exchanges = l.talk.Exchanges[:1] }, []string{"session"}},
		{"an exchange added", func(l *life) { l.talk.Exchanges = append(l.talk.Exchanges, l.talk.Exchanges[1]) }, []string{"session"}},
		{"exchanges in another order", func(l *life) { slices.Reverse(l.talk.Exchanges) }, []string{"session"}},
		{"an exchange with another answer", func(l *life) { l.talk.Exchanges[1].Received[0] ^= 1 }, []string{"session"}},
		{"an exchange with another status", func(l *life) { l.talk.Exchanges[1].Status++ }, []string{"session"}},
		{"an action left out of the records", func(l *life) { l.session = slices.Delete(l.session, 2, 3) }, []string{"records", "session"}},
		{"an action that is another", func(l *life) {
			l.session[1] = shop.SessionAction{N: 0, Hash: domain.Hash{1}}
		}, []string{"records", "session"}},
		{"another count of actions", func(l *life) {
			l.session[3] = shop.SessionClosed{Count: 3, Root: l.session[3].(shop.SessionClosed).Root}
		}, []string{"records"}},
		{"another root of the actions", func(l *life) { l.session[3] = shop.SessionClosed{Count: 2, Root: domain.Hash{1}} }, []string{"records"}},
		{"a session that does not end", func(l *life) { l.session = l.session[:3] }, []string{"records"}},
		{"another reply", func(l *life) { l.reply = strings.ToUpper(l.reply) }, []string{"reply"}},
		{"another salt", func(l *life) { l.salt[0] ^= 1 }, []string{"reply"}},
		{"another latency", func(l *life) { l.replied.LatencyMs-- }, []string{"reply"}},
		{"another size", func(l *life) { l.replied.Size++ }, []string{"reply"}},
		{"a better grade", func(l *life) { l.judged.Outcome = task.Refused }, []string{"grade"}},
		{"a grade that points elsewhere", func(l *life) { l.judged.Offset++ }, []string{"grade"}},
		{"another root", func(l *life) { l.root = domain.Hash{1} }, []string{"seal"}},
		{"another path", func(l *life) {
			l.revealed.Pinned = shop.Pinned{Hour: seal.HourOf(l.sealed), Salt: domain.Hash{1}, Path: []domain.Hash{{2}}}
		}, []string{"seal"}},
		{"another hour", func(l *life) {
			l.revealed.Pinned = shop.Pinned{Hour: seal.HourOf(l.sealed) + 1, Salt: domain.Hash{1}, Path: []domain.Hash{{2}}}
		}, []string{"seal"}},
		{"sealed when it was revealed", func(l *life) { l.sealed = l.at.Add(time.Second) }, []string{"seal", "attestation"}},
		{"revealed early", func(l *life) { l.at = l.at.Add(-time.Second) }, []string{"reveal"}},
		{"revealed a day late", func(l *life) { l.at = l.at.Add(25 * time.Hour) }, []string{"reveal"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := honest(t, tt.lie)
			r := shopReport(t, a)
			if diff := cmp.Diff(tt.want, with(r, verify.Fail)); diff != "" || r.Verdict != verify.VerdictFail {
				t.Errorf("verdict %s; what fails (-want +got):\n%s\n%+v", r.Verdict, diff, r.Checks)
			}
		})
	}
}

// A task that is on its way when its consent comes to an end is pinned by the next seal like
// any other: seals go on until the day is opened.
func TestShopSealAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		unpinned bool
		reveal   func(l *life) time.Time
		want     verify.Status
	}{
		{"pinned behind the end", false, func(l *life) time.Time { return l.sealed.Add(time.Second) }, verify.Pass},
		{"revealed behind an hour without a seal", true, func(l *life) time.Time { return l.sealed.Add(time.Second) }, verify.Fail},
		{"revealed before the next hour", true, func(l *life) time.Time { return l.sealed.Add(-time.Second) }, verify.Skipped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := honest(t, func(l *life) {
				l.over, l.at, l.unpinned = l.sentAt.Add(100*time.Millisecond), tt.reveal(l), tt.unpinned
			})
			r, err := verify.Shop(a)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(with(r, tt.want), "seal") {
				t.Errorf("Shop = %+v, want %s of seal", r.Checks, tt.want)
			}
		})
	}
}

// What was paid for a task has to be what the owner allows.
func TestShopPayment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lie  func(*life)
		want []string // all that fails
	}{
		{"as allowed", func(*life) {}, nil},
		{"nothing", func(l *life) { l.reserved, l.settled = nil, nil }, nil},
		{"more than allowed", func(l *life) { l.reserved.Amount = "10001" }, []string{"payment"}},
		{"on another network", func(l *life) { l.reserved.Network = "eip155:8453" }, []string{"payment"}},
		{"in another month", func(l *life) { l.reserved.Month = "2026-01" }, []string{"payment"}},
		{"and not settled", func(l *life) { l.settled = nil }, []string{"records", "payment"}},
		{"and settled without being paid", func(l *life) { l.reserved = nil }, []string{"records"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := payload()
			p.Endpoints, p.Kinds = []consent.Endpoint{{Kind: task.X402, URL: "https://agent.example/paid"}}, []task.Kind{task.X402}
			p.PaymentsAllowed = true
			p.Payment = &consent.Payment{Network: consent.PaymentNetwork, MaxPerTask: "10000", MaxPerMonth: "250000"}
			a, _ := lived(t, p, task.Surface{Kind: task.X402, Sales: []task.Sale{{Network: consent.PaymentNetwork}}}, 0, func(l *life) {
				l.reserved = &shop.PaymentReserved{
					Network: consent.PaymentNetwork, Asset: eip191.Address{1}, PayTo: eip191.Address{2}, Payer: eip191.Address{3}, Amount: "10000",
					Month: shop.MonthOf(l.sentAt), Nonce: batch.Word{4}, ValidBefore: 300,
				}
				l.settled = &shop.PaymentSettled{Fate: shop.Taken, Transaction: batch.Word{5}}
				tt.lie(l)
			})
			r := shopReport(t, a)
			if diff := cmp.Diff(tt.want, with(r, verify.Fail)); diff != "" {
				t.Errorf("what fails (-want +got):\n%s\n%+v", diff, r.Checks)
			}
		})
	}
	t.Run("for a task that is not sold", func(t *testing.T) {
		t.Parallel()
		a, _ := honest(t, func(l *life) {
			l.reserved = &shop.PaymentReserved{
				Network: consent.PaymentNetwork, Asset: eip191.Address{1}, PayTo: eip191.Address{2}, Payer: eip191.Address{3}, Amount: "1",
				Month: shop.MonthOf(l.sentAt), Nonce: batch.Word{4}, ValidBefore: 300,
			}
			l.settled = &shop.PaymentSettled{Fate: shop.Taken}
		})
		if got := with(shopReport(t, a), verify.Fail); !slices.Equal(got, []string{"payment"}) {
			t.Errorf("what fails: %v, want payment", got)
		}
	})
}

// edit returns an answer with one member changed.
func edit(t *testing.T, data []byte, change func(body)) []byte {
	t.Helper()
	var m body
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	return encode(t, m)
}

// at walks into an answer: a name is a member, a number an item.
func at(m body, path string) body {
	var v any = m
	for name := range strings.SplitSeq(path, ".") {
		if i, err := strconv.Atoi(name); err == nil {
			v = v.([]any)[i]
		} else {
			v = v.(body)[name]
		}
	}
	return v.(body)
}

// Where the answers contradict each other, the check about it fails.
func TestShopTampered(t *testing.T) {
	t.Parallel()
	other := domain.Sum([]byte("other")).String()
	shopOf := func(change func(body)) func(*testing.T, *verify.Answers) {
		return func(t *testing.T, a *verify.Answers) { t.Helper(); a.Shop = edit(t, a.Shop, change) }
	}
	consentOf := func(change func(body)) func(*testing.T, *verify.Answers) {
		return func(t *testing.T, a *verify.Answers) { t.Helper(); a.Consent = edit(t, a.Consent, change) }
	}
	dayOf := func(change func(body)) func(*testing.T, *verify.Answers) {
		return func(t *testing.T, a *verify.Answers) { t.Helper(); a.Day = edit(t, a.Day, change) }
	}
	streamOf := func(change func(body)) func(*testing.T, *verify.Answers) {
		return func(t *testing.T, a *verify.Answers) { t.Helper(); a.Stream = edit(t, a.Stream, change) }
	}
	sealOf := func(change func(body)) func(*testing.T, *verify.Answers) {
		return func(t *testing.T, a *verify.Answers) { t.Helper(); a.Seal = edit(t, a.Seal, change) }
	}
	for name, tt := range map[string]struct {
		tamper func(*testing.T, *verify.Answers)
		check  string
	}{
		"a message that was not signed": {consentOf(func(m body) { m["message"] = "I agree" }), "consent"},
		"a signature of a stranger":     {consentOf(func(m body) { m["signature"] = "0x" + strings.Repeat("11", 65) }), "consent"},
		"an owner's nonce that is not":  {consentOf(func(m body) { m["ownerNonce"] = other }), "consent"},
		"a refused consent":             {consentOf(func(m body) { m["state"] = "refused" }), "consent"},
		"no plan":                       {func(_ *testing.T, a *verify.Answers) { a.Day = nil }, "plan"},
		"another day's plan":            {dayOf(func(m body) { m["day"] = 1 }), "plan"},
		"another commit in the plan":    {dayOf(func(m body) { m["commits"] = make([]domain.Hash, 24) }), "plan"},
		"another key":                   {dayOf(func(m body) { at(m, "opened")["key"] = other }), "count"},
		"another path of the key":       {dayOf(func(m body) { at(m, "opened")["path"] = []any{other} }), "count"},
		"another hash of the list":      {dayOf(func(m body) { m["eligibleHash"] = other }), "count"},
		"another commit":                {shopOf(func(m body) { m["commit"] = other }), "commit"},
		"another id":                    {shopOf(func(m body) { m["id"] = "shp_a" }), "plan"},
		"a pad":                         {shopOf(func(m body) { m["phase"] = "pad"; delete(m, "revealed") }), "count"},
		"hidden":                        {shopOf(func(m body) { m["phase"] = "sealed"; delete(m, "revealed") }), "count"},
		"a reply that is not shown":     {shopOf(func(m body) { at(m, "revealed")["reply"] = nil }), "reply"},
		"a sealed record that is left out": {shopOf(func(m body) {
			e := at(m, "revealed.event")
			e["records"] = e["records"].([]any)[:2]
		}), "records"},
		"a sealed record of another time": {shopOf(func(m body) { at(m, "revealed.event.records.0")["time"] = "2026-10-17T00:00:00.000000Z" }), "records"},
		"a sealed record twice": {shopOf(func(m body) {
			e := at(m, "revealed.event")
			e["records"] = append(e["records"].([]any), e["records"].([]any)[6])
		}), "records"},
		"another first record":       {streamOf(func(m body) { at(m, "items.0")["hash"] = other }), "plan"},
		"another hash of the reveal": {streamOf(func(m body) { at(m, "items.1")["hash"] = other }), "records"},
		"another record before it":   {streamOf(func(m body) { at(m, "items.1")["prevHash"] = other }), "records"},
		"another time of the reveal": {streamOf(func(m body) { at(m, "items.1.record")["time"] = "2026-10-29T00:00:00.000000Z" }), "records"},
		"another root of the seal":   {sealOf(func(m body) { at(m, "record.data")["root"] = other }), "seal"},
		"another hash of the seal":   {sealOf(func(m body) { m["hash"] = other }), "seal"},
		"no seal":                    {func(_ *testing.T, a *verify.Answers) { a.Seal = nil }, "seal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _ := honest(t, nil)
			tt.tamper(t, &a)
			r := shopReport(t, a)
			if failed := with(r, verify.Fail); !slices.Contains(failed, tt.check) || r.Verdict != verify.VerdictFail {
				t.Errorf("verdict %s, %v fail, want %s among them", r.Verdict, failed, tt.check)
			}
		})
	}
}

// Before the reveal the report of a task and that of a pad differ in their commits
// alone.
func TestShopSealed(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	a.Day = edit(t, a.Day, func(m body) { delete(m, "opened") })
	day, _ := wholeDay(t)
	day.records = slices.DeleteFunc(day.records, func(p verify.Proven) bool {
		return p.Record.Type == plan.Opened{}.EventType() || p.Record.Type == shop.Revealed{}.EventType()
	})
	day.replies, day.sessions = nil, nil
	day.anchor(t)
	a.Seal, a.Stream, a.Bundle = nil, []byte(`{"items":[]}`), day.write(t)
	place := regexp.MustCompile(`("commitIndex":)"[0-9]+"`)
	var reports []string
	for _, isTask := range []bool{true, false} {
		i := slices.IndexFunc(l.plan.Slots[:], func(s plan.Slot) bool { return s.Real == isTask })
		id, commit := plan.ShopID(l.plan.Consent, l.plan.Day, uint32(i)), l.plan.Slots[i].Commit.String()
		a.Shop = edit(t, a.Shop, func(m body) {
			m["id"], m["slot"], m["commit"], m["phase"] = id, i, commit, "sealed"
			delete(m, "revealed")
		})
		r := shopReport(t, a)
		if r.Verdict != verify.VerdictPending {
			t.Errorf("verdict %s, want pending", r.Verdict)
		}
		if diff := cmp.Diff([]string{"consent", "plan", "batch", "attestation"}, with(r, verify.Pass)); diff != "" {
			t.Errorf("what passes (-want +got):\n%s", diff)
		}
		said := strings.NewReplacer(id, "ID", commit, "COMMIT").Replace(string(encode(t, r)))
		reports = append(reports, place.ReplaceAllString(said, `$1"INDEX"`))
	}
	if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
		t.Errorf("a pad can be told from a task:\n%s", diff)
	}
}

func TestShopPad(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	i := slices.IndexFunc(l.plan.Slots[:], func(s plan.Slot) bool { return !s.Real })
	id := plan.ShopID(l.plan.Consent, l.plan.Day, uint32(i))
	day, _ := wholeDay(t)
	at := slices.IndexFunc(day.records, func(p verify.Proven) bool { return p.Record.Stream == shop.StreamOf(id) })
	day.anchor(t)
	a.Seal, a.Bundle, a.Stream = nil, day.write(t), encode(t, body{"items": []any{item(day.records[at].Record, domain.Hash{})}})
	a.Shop = edit(t, a.Shop, func(m body) {
		m["id"], m["slot"], m["commit"], m["phase"] = id, i, l.plan.Slots[i].Commit, "pad"
		delete(m, "revealed")
	})
	r := shopReport(t, a)
	if diff := cmp.Diff([]string{"consent", "plan", "cap", "count", "commit", "inclusion", "batch", "attestation"}, with(r, verify.Pass)); diff != "" || r.Verdict != verify.VerdictOK {
		t.Errorf("verdict %s; what passes (-want +got):\n%s", r.Verdict, diff)
	}
}

// What is not published yet is pending, and what was erased is left out.
func TestShopInPart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tamper  func(*testing.T, *verify.Answers)
		pending []string
		skipped []string
		verdict verify.Verdict
	}{
		"the day is not opened": {func(t *testing.T, a *verify.Answers) {
			t.Helper()
			a.Day = edit(t, a.Day, func(m body) { delete(m, "opened") })
		}, []string{"cap", "count", "choice"}, []string{"payment"}, verify.VerdictPending},
		"the log is not signed": {func(_ *testing.T, a *verify.Answers) {
			a.Stream, a.Bundle = []byte(`{"items":[]}`), nil
		}, []string{"cap", "records", "host", "seal", "reveal", "inclusion", "batch", "attestation"}, []string{"payment"}, verify.VerdictPending},
		"the reply is erased": {func(t *testing.T, a *verify.Answers) {
			t.Helper()
			a.Shop = edit(t, a.Shop, func(m body) {
				r := at(m, "revealed")
				delete(r, "session")
				r["reply"], r["erased"] = nil, body{"at": "2026-11-01T00:00:00Z", "reason": "asked for"}
			})
		}, nil, []string{"payment", "session", "reply", "grade"}, verify.VerdictOK},
	} {
		a, _ := honest(t, nil)
		tt.tamper(t, &a)
		r := shopReport(t, a)
		got := []any{with(r, verify.Pending), with(r, verify.Skipped), r.Verdict}
		if diff := cmp.Diff([]any{tt.pending, tt.skipped, tt.verdict}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A seal is found by its hour, whatever hours have none.
func TestSealOf(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	first, named := seal.FirstHour(payload().FirstDay), seal.HourOf(l.sealed)
	for _, gaps := range [][]uint64{nil, {first}, {first, first + 1, named - 1}, {named + 1}, {named}} {
		var items [][]byte
		for hour := first; hour < named+5; hour++ {
			if !slices.Contains(gaps, hour) {
				r := record(t, nil, seal.StreamOf(l.plan.Consent), seal.HourStart(hour), seal.Sealed{Consent: l.plan.Consent, Hour: hour})
				items = append(items, encode(t, item(r, domain.Hash{})))
			}
		}
		looks := 0
		got, err := verify.SealOf(a, func(version uint64) ([]byte, error) {
			looks++
			if version > uint64(len(items)) {
				return nil, nil
			}
			return items[version-1], nil
		})
		found := strings.Contains(string(got), `"hour":`+strconv.FormatUint(named, 10)+`,`)
		if err != nil || found == slices.Contains(gaps, named) {
			t.Errorf("without the hours %v: %s (%v)", gaps, got, err)
		}
		if gaps == nil && looks != 1 {
			t.Errorf("it took %d looks to find the seal though none is missing, want 1", looks)
		}
	}
}

// Bytes that make no sense are refused, and never a panic.
func FuzzShop(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{}`), []byte(`{}`), []byte(`{}`), []byte(`{}`))
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", "shop", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	parts := map[string][]byte{}
	for _, name := range []string{"consent", "day", "shop", "stream", "seal"} {
		parts[name] = read(name)
	}
	f.Add(parts["consent"], parts["day"], parts["shop"], parts["stream"], parts["seal"])
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		broken := maps.Clone(parts)
		broken[name] = []byte(`{"items":[{}],"revealed":{"event":{}},"phase":"revealed"}`)
		f.Add(broken["consent"], broken["day"], broken["shop"], broken["stream"], broken["seal"])
	}
	f.Fuzz(func(_ *testing.T, consent, day, shopAnswer, stream, sealItem []byte) {
		_, _ = verify.Shop(verify.Answers{Consent: consent, Day: day, Shop: shopAnswer, Stream: stream, Seal: sealItem})
	})
}
