package batch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/merkle"
)

var policy = batch.Policy{After: 5 * time.Minute, Size: 4, Confirmations: 2, Patience: time.Minute}

func clock(h, m, s int) time.Time { return time.Date(2026, 1, 2, h, m, s, 0, time.UTC) }

func openAt(times ...time.Time) []batch.Open {
	var list []batch.Open
	for i, at := range times {
		list = append(list, batch.Open{Commit: domain.Hash{byte(i + 1)}, Index: uint64(12 + 3*i), Time: at})
	}
	return list
}

func TestMembers(t *testing.T) {
	t.Parallel()
	small := policy
	big := with(policy, func(p *batch.Policy) { p.Size = 200_000 })
	for _, tt := range []struct {
		name   string
		policy batch.Policy
		open   []batch.Open
		now    time.Time
		want   int
	}{
		{"nothing", small, nil, clock(9, 30, 0), 0},
		{"before the moment", small, openAt(clock(9, 0, 0)), clock(9, 4, 59), 0},
		{"at the moment", small, openAt(clock(9, 0, 0)), clock(9, 5, 0), 1},
		{"what came with the moment waits", small, openAt(clock(9, 0, 0), clock(9, 5, 0)), clock(9, 5, 0), 1},
		{"what came since waits too", small, openAt(clock(9, 4, 59), clock(9, 5, 1)), clock(9, 59, 59), 1},
		{"within the hour", small, openAt(clock(9, 5, 0)), clock(10, 4, 59), 0},
		{"after the program was down", small, openAt(clock(3, 0, 0), clock(4, 0, 0), clock(9, 6, 0)), clock(9, 7, 0), 2},
		{"enough for its size", small, openAt(clock(9, 6, 0), clock(9, 6, 0), clock(9, 6, 0), clock(9, 6, 0)), clock(9, 6, 0), 4},
		{"more than its size", small, openAt(clock(9, 6, 0), clock(9, 6, 0), clock(9, 6, 0), clock(9, 6, 0), clock(9, 6, 0)), clock(9, 6, 0), 4},
		{"more than may be, at the moment", big, openAt(make([]time.Time, 120_000)...), clock(9, 6, 0), 100_000},
		{"more than may be, by size", big, openAt(make([]time.Time, 200_000)...), clock(9, 6, 0), 100_000},
	} {
		if got := batch.Members(tt.policy, tt.open, tt.now); got != tt.want {
			t.Errorf("%s: Members = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	open := openAt(clock(9, 0, 0), clock(9, 0, 1), clock(9, 0, 2))
	first, tree, err := batch.Close(nil, chain, schema, open, 40, domain.Hash{4})
	if err != nil {
		t.Fatal(err)
	}
	want := batch.Sealed{Batch: 1, Chain: chain, Schema: schema, Root: tree.Root(), Count: 3, To: 19, LogSize: 40, LogRoot: domain.Hash{4}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("Close (-want +got):\n%s", diff)
	}
	if err := merkle.VerifyBatchPath(first.ID(), open[1].Commit, 1, 3, tree.Path(1), first.Root); err != nil {
		t.Error(err)
	}
	open[0].Index, open[1].Index, open[2].Index = 20, 24, 25
	second, _, err := batch.Close(state(first), chain, schema, open, 40, domain.Hash{4})
	if err != nil {
		t.Fatal(err)
	}
	if second.Batch != 2 || second.PreviousRoot != first.Root || second.From != 19 || second.To != 26 || second.Root == first.Root {
		t.Errorf("the second batch is %+v", second)
	}
	for _, c := range []batch.Seal{{Sealed: first}, {Sealed: second, Before: state(first)}} {
		if _, err := batch.Decider.Decide(batch.State{}, c); err != nil {
			t.Errorf("batch %d cannot be sealed: %v", c.Sealed.Batch, err)
		}
	}
	if _, _, err := batch.Close(state(sealed(1)), chain, schema, []batch.Open{{Index: sealed(1).To - 1}}, 40, domain.Hash{4}); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Close of a commit of the batch before = %v, want ErrConflict", err)
	}
	if _, _, err := batch.Close(nil, chain, schema, nil, 40, domain.Hash{4}); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("Close of nothing = %v, want ErrInvalid", err)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	type events = []batch.Event
	var (
		one    = events{sealed(1)}
		sent   = events{sealed(1), submitted(1, 1)}
		done   = events{sealed(1), submitted(1, 1), attested(1, 1)}
		second = events{sealed(2), submitted(2, 1)}
		now    = clock(9, 6, 0)
		drop   = func(n uint64, r batch.Reason) batch.Step {
			return batch.Record{Command: batch.Drop{Dropped: batch.Dropped{Batch: n, Reason: r}, Seen: 1}}
		}
		view = func(f func(*batch.View)) batch.View {
			return with(batch.View{Now: now, Head: 100, Nonce: 7, Settled: 7, Sent: now, Pooled: true}, f)
		}
		mined = func(head uint64, tx byte) batch.View {
			a := attested(1, tx)
			return batch.View{Now: now, Head: head, Nonce: 8, Settled: 8, Mined: &a}
		}
	)
	for _, tt := range []struct {
		name   string
		policy batch.Policy
		given  events
		before events
		view   batch.View
		want   batch.Step
	}{
		{"sealed", policy, one, nil, view(func(*batch.View) {}), batch.Sign{Nonce: 7}},
		{"sealed behind an attested one", policy, events{sealed(2)}, done, view(func(v *batch.View) { v.Nonce = 8 }), batch.Sign{Nonce: 8, RefUID: attested(1, 1).UID}},
		{"sealed behind one that is not", policy, events{sealed(2)}, sent, view(func(*batch.View) {}), batch.Wait{}},
		{"sealed behind one that was dropped", policy, events{sealed(2)}, append(done[:3:3], dropped(batch.Reorganised, attested(1, 1).UID)), view(func(*batch.View) {}), batch.Wait{}},
		{"in the pool", policy, sent, nil, view(func(*batch.View) {}), batch.Wait{}},
		{"not in the pool", policy, sent, nil, view(func(v *batch.View) { v.Pooled = false }), batch.Resend{}},
		{"signed and nothing known of it", policy, sent, nil, view(func(v *batch.View) { v.Pooled, v.Sent = false, time.Time{} }), batch.Resend{}},
		{"in the pool for long", policy, sent, nil, view(func(v *batch.View) { v.Sent = now.Add(-time.Minute) }), batch.Raise{Nonce: 7}},
		{"just mined", policy, sent, nil, mined(101, 1), batch.Wait{}},
		{"mined and confirmed", policy, sent, nil, mined(102, 1), batch.Record{Command: batch.Attest(attested(1, 1))}},
		{"mined after it was replaced", policy, append(sent[:2:2], submitted(1, 2)), nil, mined(102, 1), batch.Record{Command: batch.Attest(attested(1, 1))}},
		{"mined before it was sent again", policy, events{sealed(1), submitted(1, 1), dropped(batch.Superseded, batch.Word{})}, nil, mined(102, 1), batch.Record{Command: batch.Attest(attested(1, 1))}},
		{"mined without a receipt yet", policy, sent, nil, view(func(v *batch.View) { v.Nonce, v.Pooled = 8, false }), batch.Wait{}},
		{"its nonce taken", policy, sent, nil, view(func(v *batch.View) { v.Nonce, v.Settled = 8, 8 }), drop(1, batch.NonceTaken)},
		{"refused just now", policy, sent, nil, view(func(v *batch.View) { v.Failed, v.Nonce = 99, 8 }), batch.Wait{}},
		{"refused", policy, sent, nil, view(func(v *batch.View) { v.Failed, v.Nonce, v.Settled = 98, 8, 8 }), drop(1, batch.Reverted)},
		{"the one before attested anew", policy, second, events{sealed(1), submitted(1, 1), submitted(1, 2), attested(1, 2)}, view(func(*batch.View) {}), drop(2, batch.Superseded)},
		{"attested", policy, done, nil, mined(110, 1), batch.Wait{}},
		{"attested and final by depth", with(policy, func(p *batch.Policy) { p.Depth = 12 }), done, nil, mined(112, 1), batch.Record{Command: batch.Finalise{Batch: 1, UID: attested(1, 1).UID}}},
		{"attested and not quite so deep", with(policy, func(p *batch.Policy) { p.Depth = 12 }), done, nil, mined(111, 1), batch.Wait{}},
		{"attested and final by the chain", policy, done, nil, with(mined(110, 1), func(v *batch.View) { v.Final = 100 }), batch.Record{Command: batch.Finalise{Batch: 1, UID: attested(1, 1).UID}}},
		{"attested and reorganised away", policy, done, nil, view(func(*batch.View) {}), batch.Record{Command: batch.Drop{Dropped: dropped(batch.Reorganised, attested(1, 1).UID), Seen: 1}}},
		{"attested and mined in another block", policy, done, nil, with(mined(120, 1), func(v *batch.View) { v.Mined.BlockHash[0]++ }), batch.Record{Command: batch.Drop{Dropped: dropped(batch.Reorganised, attested(1, 1).UID), Seen: 1}}},
		{"attested and the node fell behind", policy, done, nil, view(func(v *batch.View) { v.Head = 99 }), batch.Wait{}},
		{"final", policy, append(done[:3:3], batch.Finalised{Batch: 1, UID: attested(1, 1).UID}), nil, view(func(*batch.View) {}), batch.Wait{}},
	} {
		var before *batch.State
		if tt.before != nil {
			before = state(tt.before...)
		}
		s := *state(tt.given...)
		got := batch.Next(tt.policy, s, before, tt.view)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if r, ok := got.(batch.Record); ok {
			if events, err := batch.Decider.Decide(s, r.Command); err != nil || len(events) != 1 {
				t.Errorf("%s: the decider says %v, %v", tt.name, events, err)
			}
		}
	}
}
