package main

import (
	"fmt"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/exam"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// tasksPerDay is what a cap of 12 comes to on average, with half of the days below it.
const tasksPerDay = 6

// owner is the key of the owner of every agent.
var owner = secp256k1.PrivKeyFromBytes([]byte{31: 1})

// firstDay is the first day of every consent.
const firstDay = uint32(20456)

// A history is a ledger as the service writes one: consents, their days with 24 commits
// each, tasks, hourly seals, reveals. Its events are such that replaying it finds nothing
// wrong, though its hashes commit to nothing.
type history struct {
	records []ledger.Record // since forget
	count   uint64          // of all there ever were
	tips    map[ledger.Stream]tip
	now     time.Time
}

func newHistory() *history {
	return &history{tips: make(map[ledger.Stream]tip), now: time.Unix(int64(firstDay-2)*86400, 0).UTC()}
}

// forget drops the records, and goes on behind them.
func (h *history) forget() { h.records = h.records[:0] }

type tip struct {
	version uint64
	hash    domain.Hash
}

func (h *history) add(s ledger.Stream, events ...domain.Event) error {
	m := ledger.Meta{Actor: "worker", Command: fmt.Sprintf("c-%d", h.count), Correlation: fmt.Sprintf("c-%d", h.count)}
	prepared, err := ledger.Prepare(s, m, events...)
	if err != nil {
		return err
	}
	for _, r := range prepared {
		end := h.tips[s]
		r.Link(end.hash, end.version+1, h.now)
		h.tips[s] = tip{r.Version, r.Hash}
		h.count++
		r.Position = h.count
		h.records = append(h.records, r)
	}
	h.now = h.now.Add(time.Millisecond)
	return nil
}

func hashOf(parts ...any) domain.Hash { return domain.Sum([]byte(fmt.Sprint(parts...))) }

// write returns a ledger of so many consents and days.
func write(consents, days int) ([]ledger.Record, error) {
	h := newHistory()
	err := h.add(programme.Stream, programme.OperatorKeyRegistered{Key: hashOf("key")},
		programme.TermsPublished{Version: 1, Hash: hashOf("terms")}, programme.PoolPublished{Version: 1, Hash: hashOf("pool")})
	if err != nil {
		return nil, err
	}
	ids := make([]string, consents)
	refs := make([]agent.Ref, consents)
	for i := range consents {
		refs[i] = agent.Ref(fmt.Sprintf("build:%d", i))
		if ids[i], err = h.grant(refs[i], i); err != nil {
			return nil, err
		}
	}
	for day := firstDay; day < firstDay+uint32(days); day++ { //nolint:gosec // a few
		for i, id := range ids {
			if err := h.day(id, refs[i], day); err != nil {
				return nil, err
			}
		}
	}
	return h.records, nil
}

// grant registers an agent and gives a consent for it.
func (h *history) grant(ref agent.Ref, i int) (id string, err error) {
	p := consent.Payload{
		Request: consent.Request{
			Agent: ref, Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://agent.example/a2a"}},
			Kinds: []task.Kind{task.A2A}, MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 3600, ValidityDays: 90,
		},
		Terms: consent.Terms{
			Domain: "karatum.com", Owner: eip191.AddressOf(owner.PubKey()), Chain: 84532, TermsVersion: 1, Nonce: hashOf("nonce", i), IssuedAt: h.now,
			FirstDay: firstDay, LastDay: firstDay + 89,
		},
	}
	id = plan.ConsentID(p.Nonce)
	message, err := p.Message()
	if err != nil {
		return "", err
	}
	signature := eip191.Sign(message, owner)
	return id, firstOf(
		h.add(agent.StreamOf(ref), agent.Registered{Agent: ref, Wallet: eip191.AddressOf(owner.PubKey())}),
		h.add(agent.StreamOf(ref), agent.CertificateRecorded{Certificate: "crt_1"}),
		h.add(consent.StreamOf(ref), consent.Granted{
			Consent: id, Payload: p, Signature: signature[:], Verified: consent.Verification{Method: consent.ByKey},
		}, consent.HostProven{Consent: id, Endpoint: "ep_0", Method: consent.ByDocument}),
		h.add(exam.StreamOf(ref), exam.RunRecorded{Agent: ref, Run: "1", Source: "harness", Attempts: []exam.Attempt{{
			Seed: hashOf("e", i), Template: "unit.convert", Family: "unit", Outcome: task.Pass, Literal: task.Pass,
		}}}),
	)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// day plans a day, sends its tasks, seals each of its hours and opens it.
func (h *history) day(id string, ref agent.Ref, day uint32) error {
	eligible := plan.Eligible{Endpoints: []plan.EligibleEndpoint{}}
	list, err := eligible.Bytes()
	if err != nil {
		return err
	}
	sealed := plan.Sealed{Consent: id, Day: day, Eligible: domain.Sum(list)}
	for slot := range sealed.Commits {
		sealed.Commits[slot] = hashOf("commit", id, day, slot)
	}
	if err := h.add(plan.StreamOf(id), sealed); err != nil {
		return err
	}
	for slot, commit := range sealed.Commits {
		s := shop.StreamOf(plan.ShopID(id, day, uint32(slot)))
		if err := h.add(s, shop.Committed{Consent: id, Day: day, Slot: slot, Commit: commit}); err != nil {
			return err
		}
	}
	for hour := range uint64(24) {
		if err := h.add(seal.StreamOf(id), seal.Sealed{Consent: id, Hour: seal.FirstHour(day) + hour, Root: hashOf("root", id, day, hour)}); err != nil {
			return err
		}
		if hour < tasksPerDay {
			if err := h.task(id, ref, day, int(hour)); err != nil {
				return err
			}
		}
	}
	return h.add(plan.StreamOf(id), plan.Opened{
		Consent: id, Day: day, Planned: true, Key: hashOf("key", id, day), Path: []domain.Hash{hashOf(1), hashOf(2), hashOf(3)},
		Cap: 12, Count: tasksPerDay, Eligible: eligible, Surfaces: []plan.Surface{}, Notes: []plan.Note{},
	})
}

// task sends a task, takes its answer and reveals it.
func (h *history) task(id string, ref agent.Ref, day uint32, slot int) error {
	s := shop.StreamOf(plan.ShopID(id, day, uint32(slot))) //nolint:gosec // below 24
	exchange := hashOf("exchange", id, day, slot)
	steps := [][]domain.Event{
		{shop.Sent{Endpoint: "ep_0", Template: "unit.convert", TemplateVersion: 1, Ask: hashOf("ask", id, day, slot)}},
		{
			shop.SessionOpened{Target: hashOf("target", id, day, slot)},
			shop.SessionAction{Hash: exchange},
			shop.SessionClosed{Count: 1, Root: merkle.Root([]domain.Hash{exchange})},
		},
		{shop.Replied{Hash: hashOf("reply", id, day, slot), ReceivedAtMs: h.now.UnixMilli(), Status: 200, LatencyMs: 412, Size: 96, Answer: true}},
		{shop.Judged{Outcome: task.Pass, Rule: "value", Literal: task.Pass, Offset: 3, Length: 9, Grader: 1}},
	}
	reveal := shop.Revealed{
		Consent: id, Agent: ref, Day: day, Slot: slot, Seed: hashOf("seed", id, day, slot), Template: "unit.convert", TemplateVersion: 1, Family: "unit",
		Endpoint: "ep_0", Entry: task.Entry{Kind: task.A2A, Name: "convert"}, SourceAddresses: []string{"192.0.2.1"}, SendAt: int64(day) * 86400,
		Prompt: "A hall is 2,416 feet long. How many metres is that, to one decimal?", Ask: task.Ask{Text: "A hall is 2,416 feet long. How many metres is that, to one decimal?"},
		Expected: task.Expected{Kind: task.Number, Value: "736.4"},
	}
	for _, events := range steps {
		if err := h.add(s, events...); err != nil {
			return err
		}
		for i, e := range events {
			r := h.records[len(h.records)-len(events)+i]
			r.Position, r.Hash = 0, domain.Hash{}
			reveal.Records = append(reveal.Records, r)
			reveal.Result = reveal.Result.With(e)
		}
	}
	return h.add(s, reveal)
}

// catalog is that of the service.
func catalog() domain.Catalog {
	return domain.NewCatalog(agent.Events, batch.Events, consent.Events, exam.Events, finding.Events, plan.Events, programme.Events, seal.Events, shop.Events)
}
