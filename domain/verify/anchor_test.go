package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
)

// A roll makes batches, one behind the other.
type roll struct {
	last batch.State
	size uint64 // of the log that they are of
}

// A rolling is a batch to be, which a test may change.
type rolling struct {
	commits []domain.Hash
	at      time.Time     // of the seal and all else
	events  []batch.Event // sealed and attested, in the order of the ledger
	tree    *merkle.BatchTree
}

func (r *roll) begin(t *testing.T, at time.Time, commits ...domain.Hash) *rolling {
	t.Helper()
	if r.last.Sealed != nil {
		r.size = max(r.size, r.last.Sealed.To) // which a test may have changed
	}
	open := make([]batch.Open, len(commits))
	for i, c := range commits {
		open[i] = batch.Open{Commit: c, Index: r.size + uint64(i)}
	}
	r.size += uint64(len(commits))
	var before *batch.State
	if r.last.Sealed != nil {
		before = &r.last
	}
	s, tree, err := batch.Close(before, 84532, batch.Word{1}, open, r.size, domain.Hash{2})
	if err != nil {
		t.Fatal(err)
	}
	n := byte(s.Batch)
	sent := batch.Submitted{Batch: s.Batch, Attester: eip191.Address{3}, EAS: eip191.Address{4}, Nonce: s.Batch, Tx: batch.Word{5, n}, RefUID: before.RefUID(&s)}
	made := batch.Attested{
		Batch: s.Batch, Attester: sent.Attester, EAS: sent.EAS, UID: batch.Word{6, n}, RefUID: sent.RefUID, Tx: sent.Tx,
		Block: 1000 + s.Batch, BlockHash: batch.Word{7, n}, Time: at,
	}
	return &rolling{commits: commits, at: at, events: []batch.Event{s, sent, made, batch.Finalised{Batch: s.Batch, UID: made.UID}}, tree: tree}
}

// end puts the records of the batch into the bundle, and the places of its commits.
func (r *roll) end(t *testing.T, b *bundling, of *rolling) {
	t.Helper()
	n := batch.NumberOf(of.events[0])
	var chain []ledger.Record
	state := batch.State{}
	for _, e := range of.events {
		p := verify.Proven{Record: record(t, chain, batch.StreamOf(n), of.at, e)}
		if len(chain) > 0 {
			p.Prev = chain[len(chain)-1].Hash
		}
		b.records, chain = append(b.records, p), append(chain, p.Record)
		state = batch.Decider.Evolve(state, e)
	}
	r.last = state
	for i, c := range of.commits {
		b.commits = append(b.commits, verify.Rolled{Batch: n, Commit: c, Index: uint64(i), Path: of.tree.Path(i)})
	}
}

// anchor rolls all that the bundle commits to into batches that are attested soon: the
// plan's before its day, and each seal by itself.
func (b *bundling) anchor(t *testing.T) {
	t.Helper()
	b.anchorWith(t, nil)
}

// anchorWith has change change each batch before it is on record.
func (b *bundling) anchorWith(t *testing.T, change func(n int, of *rolling)) {
	t.Helper()
	var commits []domain.Hash
	var at time.Time
	var seals []verify.Proven
	for _, p := range b.records {
		switch p.Record.Type {
		case shop.Committed{}.EventType():
			commits, at = append(commits, jsonOf[shop.Committed](p.Record.Data).Commit), p.Record.Time
		case seal.Sealed{}.EventType():
			seals = append(seals, p)
		}
	}
	r := &roll{}
	add := func(n int, at time.Time, commits ...domain.Hash) {
		of := r.begin(t, at.Add(5*time.Minute), commits...)
		if change != nil {
			change(n, of)
		}
		r.end(t, b, of)
	}
	if len(commits) > 0 {
		add(1, at, commits...)
	}
	for i, p := range seals {
		add(i+2, p.Record.Time, jsonOf[seal.Sealed](p.Record.Data).Root)
	}
}

// edited returns the events with those of one kind changed.
func edited[E batch.Event](events []batch.Event, change func(*E)) []batch.Event {
	events = slices.Clone(events)
	for i, e := range events {
		if own, ok := e.(E); ok {
			change(&own)
			events[i] = own
		}
	}
	return events
}

// What is on record of batches settles the checks of a slot, or does not yet.
func TestAnchors(t *testing.T) {
	t.Parallel()
	_, l := honest(t, nil)
	const commits, seals = 1, 2
	only := func(number int, change func(*rolling)) func(*bundling) {
		return func(b *bundling) {
			b.anchorWith(t, func(n int, of *rolling) {
				if n == number {
					change(of)
				}
			})
		}
	}
	attestedAt := func(at time.Time) func(*rolling) {
		return func(of *rolling) {
			of.at = at
			of.events = edited(of.events, func(e *batch.Attested) { e.Time = at })
		}
	}
	until := func(n int) func(*rolling) { return func(of *rolling) { of.events = of.events[:n] } }
	broken := func(of *rolling) {
		of.events = edited(of.events, func(e *batch.Submitted) { e.RefUID[31] ^= 1 })
		of.events = edited(of.events, func(e *batch.Attested) { e.RefUID[31] ^= 1 })
	}
	anew := func(lost, now time.Time) func(*rolling) {
		return func(of *rolling) {
			first := edited(of.events, func(e *batch.Attested) { e.Time = lost })[:3]
			again := edited(of.events, func(e *batch.Submitted) { e.Tx = batch.Word{9} })
			again = edited(again, func(e *batch.Attested) { e.Time, e.Tx, e.UID = now, batch.Word{9}, batch.Word{10} })
			of.events = append(append(first, batch.Dropped{Batch: 1, Reason: batch.Reorganised, UID: batch.Word{6, 1}}), again[1:3]...)
		}
	}
	for _, tt := range []struct {
		name               string
		bundle             func(*bundling)
		batch, attestation verify.Status
		says               string
	}{
		{"as it should be", func(b *bundling) { b.anchor(t) }, verify.Pass, verify.Pass, "before the task was sent; the seal: the log says"},
		{"no batches", func(*bundling) {}, verify.Pending, verify.Pending, "covers a batch with the commit"},
		{"sealed", only(seals, until(1)), verify.Pass, verify.Pending, "until batch 2 with the seal is attested"},
		{"submitted", only(seals, until(2)), verify.Pass, verify.Pending, "until batch 2 with the seal is attested"},
		{"not final", only(seals, until(3)), verify.Pass, verify.Pass, "the log says"},
		{"no place for the seal", func(b *bundling) { b.anchor(t); b.commits = b.commits[:1] }, verify.Pending, verify.Pending, "covers a batch with the seal"},
		{"attested when the task was sent already", func(b *bundling) {
			b.anchorWith(t, func(n int, of *rolling) {
				if n == commits {
					attestedAt(l.sentAt.Add(time.Minute))(of)
					of.at = l.sealedAt // the batch is older
				}
			})
		}, verify.Pass, verify.Fail, "and not before the task was sent"},
		{"seal attested when the slot was revealed already", only(seals, attestedAt(l.at.Add(time.Hour))), verify.Pass, verify.Fail, "and not before the slot was revealed"},
		{"batches began when the task was sent already", only(commits, attestedAt(l.sentAt.Add(time.Minute))), verify.Pass, verify.Skipped, "there were no batches yet when the task was sent"},
		{"attested anew after the chain changed", func(b *bundling) {
			only(commits, anew(l.sealedAt, l.sentAt.Add(time.Hour)))(b)
		}, verify.Pass, verify.Skipped, "lost the attestation that it had when the task was sent"},
		{"attested anew, and never before", func(b *bundling) {
			only(commits, anew(l.sentAt.Add(time.Minute), l.sentAt.Add(time.Hour)))(b)
		}, verify.Pass, verify.Fail, "and not before the task was sent"},
		{"another attestation before", only(seals, broken), verify.Pass, verify.Fail, "refers to"},
		{"an attestation of another transaction", only(commits, func(of *rolling) {
			of.events = edited(of.events, func(e *batch.Attested) { e.Tx[31] ^= 1 })
		}), verify.Pass, verify.Fail, "is none of batch 1"},
		{"another attester", only(commits, func(of *rolling) {
			of.events = edited(of.events, func(e *batch.Attested) { e.Attester[19] ^= 1 })
		}), verify.Pass, verify.Fail, "is none of batch 1"},
		{"the batch before lost its attestation", func(b *bundling) {
			only(commits, until(3))(b)
			i := slices.IndexFunc(b.records, func(p verify.Proven) bool { return p.Record.Type == batch.Attested{}.EventType() })
			p := verify.Proven{Prev: b.records[i].Record.Hash}
			p.Record = record(t, make([]ledger.Record, 3), b.records[i].Record.Stream, l.at, batch.Dropped{Batch: 1, Reason: batch.Reorganised, UID: batch.Word{6, 1}})
			p.Record.Hash = p.Record.ChainHash(p.Prev)
			b.records = append(b.records, p)
		}, verify.Pass, verify.Pending, "is attested; pending until batch 2 with the seal is attested anew"},
		{"a batch that does not go on", only(seals, func(of *rolling) {
			of.events = edited(of.events, func(e *batch.Sealed) { e.From, e.To = e.From+1, e.To+1; e.LogSize++ })
		}), verify.Fail, verify.Pass, "does not begin where batch 1 ended"},
		{"without the batch before", func(b *bundling) {
			b.anchor(t)
			b.records = slices.DeleteFunc(b.records, func(p verify.Proven) bool { return p.Record.Stream == batch.StreamOf(1) })
			b.commits = b.commits[1:]
		}, verify.Pending, verify.Pending, "covers a batch with the commit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := about(t, l)
			tt.bundle(&b)
			r := report(t, b.write(t)).Shops[0]
			got := map[string]verify.SlotCheck{}
			for _, c := range r.Checks {
				got[c.ID] = c
			}
			if got["batch"].Status != tt.batch || got["attestation"].Status != tt.attestation {
				t.Errorf("batch %s: %s; want %s\nattestation %s: %s; want %s",
					got["batch"].Status, got["batch"].Detail, tt.batch, got["attestation"].Status, got["attestation"].Detail, tt.attestation)
			}
			if said := got["batch"].Detail + got["attestation"].Detail; !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q in it", said, tt.says)
			}
		})
	}
}

// A commit stands just where it does.
func TestPlacesOfCommits(t *testing.T) {
	t.Parallel()
	_, l := honest(t, nil)
	other := func(n int) (list []domain.Hash) {
		for i := range n {
			list = append(list, domain.Sum(fmt.Append(nil, "other ", i)))
		}
		return list
	}
	for _, n := range []int{1, 2, 3, 5, 8} {
		for name, change := range map[string]func(*verify.Rolled, *rolling){
			"as it is":            func(*verify.Rolled, *rolling) {},
			"at another place":    func(c *verify.Rolled, _ *rolling) { c.Index++ },
			"behind the end":      func(c *verify.Rolled, _ *rolling) { c.Index = uint64(n) },
			"far behind the end":  func(c *verify.Rolled, _ *rolling) { c.Index = 1 << 63 },
			"a longer path":       func(c *verify.Rolled, _ *rolling) { c.Path = append(slices.Clone(c.Path), domain.Hash{}) },
			"a shorter path":      func(c *verify.Rolled, _ *rolling) { c.Path = c.Path[1:] },
			"no path":             func(c *verify.Rolled, _ *rolling) { c.Path = nil },
			"a node for a commit": func(c *verify.Rolled, _ *rolling) { c.Commit, c.Path = c.Path[0], c.Path[1:] },
			"the root for a commit": func(c *verify.Rolled, of *rolling) {
				c.Commit, c.Path = of.tree.Root(), nil
			},
			"of another batch": func(c *verify.Rolled, _ *rolling) { c.Batch = 2 },
			"of no batch":      func(c *verify.Rolled, _ *rolling) { c.Batch = 0 },
			"of nobody":        func(c *verify.Rolled, _ *rolling) { c.Commit = domain.Hash{} },
			"in a batch of one more": func(_ *verify.Rolled, of *rolling) {
				of.events = edited(of.events, func(e *batch.Sealed) { e.Count++; e.To++ })
			},
			"under another schema": func(_ *verify.Rolled, of *rolling) {
				of.events = edited(of.events, func(e *batch.Sealed) { e.Schema[0]++ })
			},
			"on another chain": func(_ *verify.Rolled, of *rolling) {
				of.events = edited(of.events, func(e *batch.Sealed) { e.Chain++ })
			},
		} {
			b := about(t, l)
			r := &roll{}
			of := r.begin(t, l.sealedAt, append(other(n-1), l.slot.Commit)...)
			place := verify.Rolled{Batch: 1, Commit: l.slot.Commit, Index: uint64(n - 1), Path: of.tree.Path(n - 1)}
			change(&place, of)
			r.end(t, &b, of)
			r.end(t, &b, r.begin(t, l.sealedAt, l.root))
			b.commits = []verify.Rolled{place}
			_, err := verify.OpenBundle(b.write(t))
			if name == "as it is" {
				if err != nil {
					t.Errorf("%d commits: %v", n, err)
				}
			} else if !errors.Is(err, verify.ErrFailed) {
				t.Errorf("%d commits, %s: %v, want ErrFailed", n, name, err)
			}
		}
	}

	// The same commit made twice has two places, of which a bundle names one.
	b := about(t, l)
	r := &roll{}
	of := r.begin(t, l.sealedAt, l.slot.Commit, l.root, l.slot.Commit)
	r.end(t, &b, of)
	all := b.commits
	for name, places := range map[string][]verify.Rolled{"the first": all[:2], "the second": all[1:]} {
		b.commits = places
		if s := report(t, b.write(t)).Shops[0]; s.Verdict != verify.VerdictOK && !slices.Equal(with(s, verify.Fail), []string{"attestation"}) {
			t.Errorf("%s of two places: %+v", name, s.Checks)
		}
	}
	b.commits = all
	if _, err := verify.OpenBundle(b.write(t)); !errors.Is(err, verify.ErrFailed) {
		t.Errorf("both places: %v, want ErrFailed", err)
	}
}

// Batches whose records make no sense are none of a ledger.
func TestBatchesThatAreNone(t *testing.T) {
	t.Parallel()
	_, l := honest(t, nil)
	for name, change := range map[string]func(*rolling){
		"not sealed first": func(of *rolling) { of.events = of.events[1:] },
		"sealed twice":     func(of *rolling) { of.events = append(of.events, of.events[0]) },
		"of another stream": func(of *rolling) {
			of.events = edited(of.events, func(e *batch.Attested) { e.Batch = 7 })
		},
		"without a number": func(of *rolling) { of.events = edited(of.events[:1], func(e *batch.Sealed) { e.Batch = 0 }) },
	} {
		b := about(t, l)
		b.anchorWith(t, func(_ int, of *rolling) { change(of) })
		if _, err := verify.OpenBundle(b.write(t)); !errors.Is(err, verify.ErrFailed) {
			t.Errorf("%s: %v, want ErrFailed", name, err)
		}
	}
	b := about(t, l)
	b.anchor(t)
	b.records = slices.DeleteFunc(b.records, func(p verify.Proven) bool { return p.Record.Type == batch.Submitted{}.EventType() })
	if _, err := verify.OpenBundle(b.write(t)); !errors.Is(err, verify.ErrFailed) {
		t.Errorf("without a record between: %v, want ErrFailed", err)
	}
}

// Whoever asks the chain hears of each batch once, and believes it and not the log.
func TestAskTheChain(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	for said, want := range map[verify.Status]verify.Status{verify.Pass: verify.Pass, verify.Fail: verify.Fail, verify.Skipped: verify.Pending} {
		var asked []uint64
		a.Ask = func(s batch.Sealed, made batch.Attested) (verify.Status, string) {
			if made.Batch != s.Batch {
				t.Errorf("asked for batch %d as for %d", made.Batch, s.Batch)
			}
			asked = append(asked, s.Batch)
			return said, "what the node says"
		}
		r := shopReport(t, a)
		if got := r.Checks[len(r.Checks)-1]; got.ID != "attestation" || got.Status != want {
			t.Errorf("the chain says %s: %s %s (%s), want %s", said, got.ID, got.Status, got.Detail, want)
		}
		if diff := cmp.Diff([]uint64{1, 2}, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
	b, _ := wholeDay(t)
	b.anchor(t)
	x, err := verify.OpenBundle(b.write(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[uint64]int{}
	x.Ask = func(s batch.Sealed, _ batch.Attested) (verify.Status, string) {
		asked[s.Batch]++
		return verify.Pass, ""
	}
	r, err := x.Day(l.plan.Consent, l.plan.Day)
	if err != nil || r.Verdict != verify.VerdictOK || asked[1] != 1 || asked[2] != 1 {
		t.Errorf("the day: %v, %+v, asked %v", err, r, asked)
	}
}

// A commit in the middle of the bundle is a JSON object with four members.
func TestCommitsAreCanonical(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	var m struct {
		Commits []map[string]any `json:"commits"`
	}
	if err := json.Unmarshal(a.Bundle, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Commits) != 2 || m.Commits[0]["commit"] != l.slot.Commit.String() || m.Commits[1]["commit"] != l.root.String() || len(m.Commits[0]) != 4 {
		t.Errorf("the commits are %v", m.Commits)
	}
}
