package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

var catalog = domain.NewCatalog(agent.Events, batch.Events, consent.Events, exam.Events, finding.Events, incident.Events,
	plan.Events, producer.Events, programme.Events, seal.Events, session.Events, shield.Events, shop.Events)

// A history is a ledger written by hand, whose chains are always right.
type history struct {
	records []ledger.Record
	tips    map[ledger.Stream]replay.Tip
}

func (h *history) add(t *testing.T, s ledger.Stream, events ...domain.Event) {
	t.Helper()
	if h.tips == nil {
		h.tips = make(map[ledger.Stream]replay.Tip)
	}
	prepared, err := ledger.Prepare(s, ledger.Meta{Actor: "test", Command: fmt.Sprint("command ", len(h.records))}, events...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range prepared {
		h.link(r)
	}
}

func (h *history) link(r ledger.Record) {
	tip := h.tips[r.Stream]
	r.Link(tip.Hash, tip.Version+1, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	h.tips[r.Stream] = replay.Tip{Version: r.Version, Hash: r.Hash}
	r.Position = uint64(3 * (len(h.records) + 1)) // with gaps
	h.records = append(h.records, r)
}

func read(records []ledger.Record) error {
	p := replay.New(catalog)
	for _, r := range records {
		if err := p.Add(r); err != nil {
			return err
		}
	}
	return p.End()
}

const (
	ref  agent.Ref = "build:42"
	cons           = "cns_aaaaaaaaaaaaaaaaaaaa"
	day            = uint32(20513)
)

var (
	wallet  = eip191.Address{1}
	commits = [plan.Slots]domain.Hash{7: domain.Sum([]byte("seven"))}
	shopID  = plan.ShopID(cons, day, 7)
	sealed  = plan.Sealed{Consent: cons, Day: day, Commits: commits}
	commit  = shop.Committed{Consent: cons, Day: day, Slot: 7, Commit: commits[7]}
	terms   = programme.TermsPublished{Version: 1, Hash: domain.Hash{1}}
	pool    = programme.PoolPublished{Version: 1, Hash: domain.Hash{2}}
	key     = programme.OperatorKeyRegistered{Key: domain.Hash{3}}
)

// begin returns the beginning of a good ledger.
func begin(t *testing.T) *history {
	t.Helper()
	h := new(history)
	h.add(t, programme.Stream, key, terms, pool)
	h.add(t, agent.StreamOf(ref), agent.Registered{Agent: ref, Wallet: wallet})
	h.add(t, agent.StreamOf(ref), agent.IdentityVerified{URL: "https://a.example"})
	h.add(t, plan.StreamOf(cons), sealed)
	h.add(t, shop.StreamOf(shopID), commit)
	h.add(t, shop.StreamOf(shopID), shop.Missed{Reason: shop.OperatorLate})
	h.add(t, exam.StreamOf(ref), exam.RunRecorded{Agent: ref, Run: "1", Attempts: []exam.Attempt{{}}})
	return h
}

// revealed returns the reveal of the shop of [begin].
func revealed(h *history) shop.Revealed {
	e := shop.Revealed{Consent: cons, Agent: ref, Day: day, Slot: 7, SourceAddresses: []string{}}
	e.Result = e.Result.With(shop.Missed{Reason: shop.OperatorLate})
	for _, r := range h.records {
		if catalog.Visibility(r.Type) == domain.Sealed {
			e.Records = append(e.Records, r)
		}
	}
	return e
}

func TestReplay(t *testing.T) {
	t.Parallel()
	h := begin(t)
	h.add(t, shop.StreamOf(shopID), revealed(h))
	h.add(t, shop.StreamOf(shopID), shop.Erased{Reason: "asked to"})
	h.add(t, programme.Stream, programme.OperatorKeyRegistered{Key: domain.Hash{4}})
	h.add(t, programme.Stream, programme.OperatorKeyRetired{Key: key.Key, Reason: "a year is over"})
	h.add(t, agent.StreamOf(ref), agent.OwnerChanged{From: wallet, Reason: "sold"})
	if err := read(h.records); err != nil {
		t.Errorf("a good ledger: %v", err)
	}
}

// What no command can have led to is found, though all hashes are right.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stream ledger.Stream
		events []domain.Event
	}{
		{"an agent that nobody registered", agent.StreamOf("build:43"), []domain.Event{agent.IdentityVerified{URL: "https://b.example"}}},
		{"an agent registered twice", agent.StreamOf(ref), []domain.Event{agent.Registered{Agent: ref, Wallet: wallet}}},
		{"another agent's stream", agent.StreamOf("build:43"), []domain.Event{agent.Registered{Agent: ref, Wallet: wallet}}},
		{"an agent that is none", "agent/x", []domain.Event{agent.Registered{Agent: "x", Wallet: wallet}}},
		{"an identity verified twice", agent.StreamOf(ref), []domain.Event{agent.IdentityVerified{URL: "https://a.example"}}},
		{"an identity withdrawn that was none", agent.StreamOf(ref), []domain.Event{agent.IdentityWithdrawn{URL: "https://b.example", Reason: "x"}}},
		{"an owner from nowhere", agent.StreamOf(ref), []domain.Event{agent.OwnerChanged{From: eip191.Address{9}, To: eip191.Address{8}}}},
		{"two events of one command", agent.StreamOf(ref), []domain.Event{agent.IdentityVerified{URL: "https://b.example"}, agent.IdentityVerified{URL: "https://c.example"}}},
		{"an event of another aggregate", agent.StreamOf(ref), []domain.Event{terms}},
		{"a stream that nobody has", "gossip/1", []domain.Event{terms}},
		{"a programme beside the programme", "programme/2", []domain.Event{terms}},
		{"terms that go back", programme.Stream, []domain.Event{programme.TermsPublished{Version: 1, Hash: domain.Hash{9}}}},
		{"an operator key twice", programme.Stream, []domain.Event{key}},
		{"the only operator key retired", programme.Stream, []domain.Event{programme.OperatorKeyRetired{Key: key.Key, Reason: "x"}}},
		{"a pause without a reason", programme.Stream, []domain.Event{programme.Paused{}}},
		{"the end of a pause that was none", programme.Stream, []domain.Event{programme.Resumed{Reason: "x"}}},
		{"a consent revoked that was never given", consent.StreamOf(ref), []domain.Event{consent.Revoked{Consent: cons, Signature: consent.Signature{1}}}},
		{"a consent ended that was never given", consent.StreamOf(ref), []domain.Event{consent.Ended{Consent: cons, Reason: consent.Expired}}},
		{"a host proven without a consent", consent.StreamOf(ref), []domain.Event{consent.HostProven{Consent: cons, Endpoint: "ep_0", Method: consent.ByDocument}}},
		{"a consent that nobody signed", consent.StreamOf(ref), []domain.Event{consent.Granted{Consent: cons, Payload: consent.Payload{Request: consent.Request{Agent: ref}}, Signature: consent.Signature{1}}}},
		{"a refusal of what nobody signed", consent.StreamOf(ref), []domain.Event{consent.Refused{Consent: cons, Payload: consent.Payload{Request: consent.Request{Agent: ref}}, Signature: consent.Signature{1}}}},
		{"another plan for a day", plan.StreamOf(cons), []domain.Event{plan.Sealed{Consent: cons, Day: day}}},
		{"another consent's plan", plan.StreamOf(cons), []domain.Event{plan.Sealed{Consent: "cns_bbbbbbbbbbbbbbbbbbbb", Day: day + 1}}},
		{"a day opened with another list", plan.StreamOf(cons), []domain.Event{plan.Opened{
			Consent: cons, Day: day, Planned: true, Path: []domain.Hash{},
			Eligible: plan.Eligible{Endpoints: []plan.EligibleEndpoint{}}, Surfaces: []plan.Surface{}, Notes: []plan.Note{},
		}}},
		{"a commit that was not planned", shop.StreamOf(plan.ShopID(cons, day+1, 7)), []domain.Event{shop.Committed{Consent: cons, Day: day + 1, Slot: 7}}},
		{"another commit than planned", shop.StreamOf(plan.ShopID(cons, day, 8)), []domain.Event{shop.Committed{Consent: cons, Day: day, Slot: 8, Commit: domain.Hash{1}}}},
		{"a slot in another stream", "shop/x", []domain.Event{commit}},
		{"a slot beyond the day", "shop/y", []domain.Event{shop.Committed{Consent: cons, Day: day, Slot: 24}}},
		{"a slot sent that was missed", shop.StreamOf(shopID), []domain.Event{shop.Sent{Endpoint: "ep_0"}}},
		{"an erasure before the reveal", shop.StreamOf(shopID), []domain.Event{shop.Erased{Reason: "x"}}},
		{"an exam twice", exam.StreamOf(ref), []domain.Event{exam.RunRecorded{Agent: ref, Run: "1", Attempts: []exam.Attempt{{}}}}},
		{"an exam without attempts", exam.StreamOf(ref), []domain.Event{exam.RunRecorded{Agent: ref, Run: "2", Attempts: []exam.Attempt{}}}},
		{"a second look that comes first", finding.StreamOf(cons), []domain.Event{finding.Reached{Consent: cons, Cycle: finding.AtEnd, Look: 2, Families: []finding.Family{}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			n := len(h.records)
			h.add(t, tt.stream, tt.events...)
			h.add(t, agent.StreamOf(ref), agent.CertificateRecorded{Certificate: "later"})
			err := read(h.records)
			f := new(replay.Fault)
			if !errors.As(err, &f) || !errors.Is(err, ledger.ErrDamaged) {
				t.Fatalf("read = %v, want a Fault", err)
			}
			if f.Position != h.records[n].Position || f.Stream != tt.stream {
				t.Errorf("the fault is at position %d of %s, want %d of %s", f.Position, f.Stream, h.records[n].Position, tt.stream)
			}
		})
	}
}

// sealHour adds a seal of an hour and returns its commit.
func (h *history) sealHour(t *testing.T, hour uint64) batch.Open {
	t.Helper()
	index := uint64(0)
	for _, r := range h.records {
		if catalog.Visibility(r.Type) == domain.Public {
			index++
		}
	}
	root := domain.Sum([]byte(fmt.Sprint("seal ", hour)))
	h.add(t, seal.StreamOf(cons), seal.Sealed{Consent: cons, Hour: hour, Root: root})
	return batch.Open{Commit: root, Index: index}
}

// close adds the batch behind another one.
func (h *history) close(t *testing.T, before *batch.State, members []batch.Open, change func(*batch.Sealed)) *batch.State {
	t.Helper()
	e, _, err := batch.Close(before, 84532, batch.Word{1}, members, members[len(members)-1].Index+1, domain.Hash{2})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&e)
	}
	h.add(t, batch.StreamOf(e.Batch), e)
	state := batch.Decider.Replay(e)
	return &state
}

// Batches follow each other and take the commits of the log as they come.
func TestBatches(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*history, []batch.Open) {
		t.Helper()
		h := begin(t)
		members := []batch.Open{{Commit: commits[7], Index: 6}}
		for hour := range uint64(4) {
			members = append(members, h.sealHour(t, 492312+hour))
		}
		return h, members
	}
	submitted := batch.Submitted{Batch: 1, Tx: batch.Word{3}}
	attested := batch.Attested{Batch: 1, UID: batch.Word{4}, Tx: batch.Word{3}, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	h, members := start(t)
	first := h.close(t, nil, members[:3], nil)
	for _, e := range []domain.Event{submitted, attested, batch.Finalised{Batch: 1, UID: attested.UID}} {
		h.add(t, batch.StreamOf(1), e)
	}
	h.close(t, first, members[3:], nil)
	h.add(t, batch.StreamOf(2), batch.Submitted{Batch: 2, Tx: batch.Word{5}, RefUID: attested.UID})
	if err := read(h.records); err != nil {
		t.Errorf("a good ledger: %v", err)
	}

	for name, forge := range map[string]func(*testing.T, *history, []batch.Open){
		"another root": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, m, func(e *batch.Sealed) { e.Root[0] ^= 1 })
		},
		"a commit left out": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, slices.Delete(m, 1, 2), nil)
		},
		"commits swapped": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			m[0].Commit, m[1].Commit = m[1].Commit, m[0].Commit
			h.close(t, nil, m, nil)
		},
		"a commit of nobody": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, append(m, batch.Open{Commit: domain.Hash{9}, Index: 20}), nil)
		},
		"a log that is larger": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, m, func(e *batch.Sealed) { e.LogSize = 99 })
		},
		"the second without a first": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, &batch.State{Sealed: &batch.Sealed{Batch: 1, To: 1}}, m, nil)
		},
		"commits twice": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			first := h.close(t, nil, m, nil)
			again := slices.Clone(m)
			for i := range again {
				again[i].Index += first.Sealed.To
			}
			h.close(t, first, again, nil)
		},
		"another batch's stream": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, m, nil)
			h.add(t, batch.StreamOf(2), submitted)
		},
		"an event of another aggregate": func(t *testing.T, h *history, _ []batch.Open) { t.Helper(); h.add(t, batch.StreamOf(1), terms) },
		"signed before the one before is attested": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, h.close(t, nil, m[:2], nil), m[2:], nil)
			h.add(t, batch.StreamOf(2), batch.Submitted{Batch: 2})
		},
		"attested by a transaction of nobody": func(t *testing.T, h *history, m []batch.Open) {
			t.Helper()
			h.close(t, nil, m, nil)
			h.add(t, batch.StreamOf(1), attested)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, members := start(t)
			forge(t, h, members)
			f := new(replay.Fault)
			if err := read(h.records); !errors.As(err, &f) || f.Position != h.records[len(h.records)-1].Position {
				t.Errorf("read = %v, want a fault at the last record", err)
			}
		})
	}
}

func TestForgedReveals(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shop.Revealed){
		"another slot":            func(e *shop.Revealed) { e.Slot = 8 },
		"another result":          func(e *shop.Revealed) { e.Result.Outcome = task.Pass },
		"without its records":     func(e *shop.Revealed) { e.Records = []ledger.Record{} },
		"a record twice":          func(e *shop.Revealed) { e.Records = append(e.Records, e.Records...) },
		"a record of another one": func(e *shop.Revealed) { e.Records = slices.Clone(e.Records); e.Records[0].Actor = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			e := revealed(h)
			change(&e)
			h.add(t, shop.StreamOf(shopID), e)
			if err := read(h.records); !errors.Is(err, ledger.ErrDamaged) {
				t.Errorf("read = %v, want %v", err, ledger.ErrDamaged)
			}
		})
	}
}

// A record that is not as it was appended is found, and named.
func TestChangedRecords(t *testing.T) {
	t.Parallel()
	relink := func(change func(*ledger.Record)) func(*testing.T, *history) {
		return func(_ *testing.T, h *history) {
			r := h.records[2] // the last of the first append
			h.records, h.tips[r.Stream] = h.records[:2], replay.Tip{Version: 2, Hash: h.records[1].Hash}
			change(&r)
			h.link(r)
		}
	}
	for name, change := range map[string]func(*testing.T, *history){
		"a flipped byte": func(_ *testing.T, h *history) {
			h.records[2].Data = []byte(strings.Replace(string(h.records[2].Data), "1", "2", 1))
		},
		"another actor":               func(_ *testing.T, h *history) { h.records[2].Actor = "other" },
		"another hash":                func(_ *testing.T, h *history) { h.records[2].Hash[5] ^= 1 },
		"another version":             func(_ *testing.T, h *history) { h.records[2].Version++ },
		"a position that goes back":   func(_ *testing.T, h *history) { h.records[2].Position = 1 },
		"a record left out":           func(_ *testing.T, h *history) { h.records = slices.Delete(h.records, 1, 2) },
		"an actor of its own, linked": relink(func(r *ledger.Record) { r.Actor = "other" }),
		"another id, linked":          relink(func(r *ledger.Record) { r.ID[0] ^= 1 }),
		"another command, linked":     relink(func(r *ledger.Record) { r.Cause.Command = "other" }),
		"no command, linked":          relink(func(r *ledger.Record) { r.Cause.Command = "" }),
		"spaces in the data, linked":  relink(func(r *ledger.Record) { r.Data = append(slices.Clone(r.Data), ' ') }),
		"an unknown type, linked":     relink(func(r *ledger.Record) { r.Type = "programme.gossip.v1" }),
		"data that is none, linked":   relink(func(r *ledger.Record) { r.Data = []byte("{") }),
		"a doubled record, linked":    relink(func(*ledger.Record) {}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			change(t, h)
			if name == "a doubled record, linked" {
				h.link(h.records[2])
			}
			err := read(h.records)
			f := new(replay.Fault)
			if !errors.As(err, &f) {
				t.Fatalf("read = %v, want a Fault", err)
			}
			if f.Stream != programme.Stream {
				t.Errorf("the fault is in %s, want %s", f.Stream, programme.Stream)
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	t := new(testing.T)
	h := begin(t)
	for i := range 10_000 {
		h.add(t, agent.StreamOf(ref), agent.IdentityVerified{URL: fmt.Sprintf("https://a.example/%d", i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := read(h.records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(h.records)*b.N)/b.Elapsed().Seconds(), "records/s")
}
