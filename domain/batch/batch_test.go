package batch_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/eip191"
)

const chain = 84532

var (
	schema = batch.Word{1, 2, 3}
	mined  = time.Date(2026, 1, 2, 3, 5, 10, 0, time.UTC)
)

// sealed is batch n of a chain of batches with 10 leaves and 4 commits each.
func sealed(n uint64) batch.Sealed {
	s := batch.Sealed{
		Batch: n, Chain: chain, Schema: schema, Root: domain.Hash{byte(n)}, Count: 4,
		From: 10 * (n - 1), To: 10 * n, LogSize: 10 * n, LogRoot: domain.Hash{31: byte(n)},
	}
	if n > 1 {
		s.PreviousRoot = domain.Hash{byte(n - 1)}
	}
	return s
}

func submitted(n uint64, tx byte) batch.Submitted {
	s := batch.Submitted{Batch: n, Attester: eip191.Address{1}, EAS: eip191.Address{2}, Nonce: 7, Tx: batch.Word{tx}}
	if n > 1 {
		s.RefUID = attested(n-1, 1).UID
	}
	return s
}

func attested(n uint64, tx byte) batch.Attested {
	return batch.Attested{
		Batch: n, Attester: eip191.Address{1}, EAS: eip191.Address{2}, UID: batch.Word{byte(n), tx}, RefUID: submitted(n, tx).RefUID, Tx: batch.Word{tx},
		Block: 100 * n, BlockHash: batch.Word{9, byte(n)}, Time: mined,
	}
}

func state(events ...batch.Event) *batch.State {
	s := batch.Decider.Replay(events...)
	return &s
}

func dropped(r batch.Reason, uid batch.Word) batch.Dropped {
	return batch.Dropped{Batch: 1, Reason: r, UID: uid}
}

// with returns v as f changes it.
func with[T any](v T, f func(*T)) T {
	f(&v)
	return v
}

func TestDecide(t *testing.T) {
	t.Parallel()
	one := state(sealed(1), submitted(1, 1), attested(1, 1))
	open := state(sealed(1), submitted(1, 1))
	elsewhere := state(with(sealed(1), func(s *batch.Sealed) { s.Chain = 10 }), submitted(1, 1), attested(1, 1))
	final := batch.Finalised{Batch: 1, UID: attested(1, 1).UID}
	seal := func(n uint64, before *batch.State, f func(*batch.Sealed)) batch.Seal {
		return batch.Seal{Sealed: with(sealed(n), f), Before: before}
	}
	same := func(*batch.Sealed) {}
	submit := func(n uint64, before *batch.State, f func(*batch.Submitted)) batch.Submit {
		return batch.Submit{Submitted: with(submitted(n, 1), f), Before: before}
	}
	asIs := func(*batch.Submitted) {}
	behind := func(seen int, s batch.Submit) batch.Submit {
		s.Seen = seen
		return s
	}
	drop := func(seen int, d batch.Dropped) batch.Drop { return batch.Drop{Dropped: d, Seen: seen} }
	reorganised := dropped(batch.Reorganised, attested(1, 1).UID)
	other := func(s *batch.Submitted) { s.Tx = batch.Word{2} }

	type events = []batch.Event
	domaintest.Decide(t, batch.Decider, []domaintest.Case[batch.Command, batch.Event]{
		{Name: "seal the first", When: seal(1, nil, same), Then: events{sealed(1)}},
		{Name: "seal behind an attested batch", When: seal(2, one, same), Then: events{sealed(2)}},
		{Name: "seal behind a batch that waits", When: seal(2, open, same), Then: events{sealed(2)}},
		{Name: "seal again", Given: events{sealed(1)}, When: seal(1, nil, same)},
		{Name: "seal otherwise", Given: events{sealed(1)}, When: seal(1, nil, func(s *batch.Sealed) { s.Count++ }), Err: domain.ErrConflict},
		{Name: "seal the second first", When: seal(2, nil, same), Err: domain.ErrConflict},
		{Name: "leave a batch out", When: seal(3, one, same), Err: domain.ErrConflict},
		{Name: "seal batch 0", When: seal(1, nil, func(s *batch.Sealed) { s.Batch = 0 }), Err: domain.ErrConflict},
		{Name: "name another root", When: seal(2, one, func(s *batch.Sealed) { s.PreviousRoot[31]++ }), Err: domain.ErrConflict},
		{Name: "leave leaves out", When: seal(2, one, func(s *batch.Sealed) { s.From++ }), Err: domain.ErrConflict},
		{Name: "take leaves again", When: seal(2, one, func(s *batch.Sealed) { s.From-- }), Err: domain.ErrConflict},
		{Name: "seal on a log that shrank", When: seal(2, one, func(s *batch.Sealed) { s.LogSize = 9 }), Err: domain.ErrConflict},
		{Name: "seal beyond the log", When: seal(2, one, func(s *batch.Sealed) { s.To = 21 }), Err: domain.ErrInvalid},
		{Name: "seal nothing", When: seal(1, nil, func(s *batch.Sealed) { s.Count = 0 }), Err: domain.ErrInvalid},
		{Name: "seal too much", When: seal(1, nil, func(s *batch.Sealed) { s.Count, s.To, s.LogSize = 100_001, 1<<20, 1<<20 }), Err: domain.ErrInvalid},
		{Name: "seal more commits than leaves", When: seal(1, nil, func(s *batch.Sealed) { s.Count = 11 }), Err: domain.ErrInvalid},
		{Name: "seal leaves backwards", When: seal(2, one, func(s *batch.Sealed) { s.To = 3 }), Err: domain.ErrInvalid},
		{Name: "seal for no chain", When: seal(1, nil, func(s *batch.Sealed) { s.Chain = 0 }), Err: domain.ErrInvalid},
		{Name: "seal with a size that JSON rounds", When: seal(1, nil, func(s *batch.Sealed) { s.LogSize = 1 << 53 }), Err: domain.ErrInvalid},

		{Name: "submit", Given: events{sealed(1)}, When: submit(1, nil, asIs), Then: events{submitted(1, 1)}},
		{Name: "submit again", Given: events{sealed(1), submitted(1, 1)}, When: submit(1, nil, asIs)},
		{Name: "replace", Given: events{sealed(1), submitted(1, 1)}, When: behind(1, submit(1, nil, other)), Then: events{submitted(1, 2)}},
		{Name: "replace what another process has replaced", Given: events{sealed(1), submitted(1, 1), submitted(1, 3)}, When: behind(1, submit(1, nil, other)), Err: domain.ErrConflict},
		{Name: "submit what another process has submitted otherwise", Given: events{sealed(1), submitted(1, 1)}, When: submit(1, nil, other), Err: domain.ErrConflict},
		{Name: "send a second", Given: events{sealed(1), submitted(1, 1)}, When: submit(1, nil, func(s *batch.Submitted) { s.Nonce++ }), Err: domain.ErrConflict},
		{Name: "replace by another account", Given: events{sealed(1), submitted(1, 1)}, When: submit(1, nil, func(s *batch.Submitted) { s.Tx, s.Attester = batch.Word{2}, eip191.Address{3} }), Err: domain.ErrConflict},
		{Name: "submit behind an attested batch", Given: events{sealed(2)}, When: submit(2, one, asIs), Then: events{submitted(2, 1)}},
		{Name: "submit behind one that is not attested", Given: events{sealed(2)}, When: submit(2, open, func(s *batch.Submitted) { s.RefUID = batch.Word{} }), Err: domain.ErrConflict},
		{Name: "submit behind nothing", Given: events{sealed(2)}, When: submit(2, nil, func(s *batch.Submitted) { s.RefUID = batch.Word{} }), Err: domain.ErrConflict},
		{Name: "submit without a reference", Given: events{sealed(2)}, When: submit(2, one, func(s *batch.Submitted) { s.RefUID = batch.Word{} }), Err: domain.ErrConflict},
		{Name: "submit with a reference of another chain", Given: events{sealed(2)}, When: submit(2, elsewhere, asIs), Err: domain.ErrConflict},
		{Name: "submit the first on another chain", Given: events{sealed(2)}, When: submit(2, elsewhere, func(s *batch.Submitted) { s.RefUID = batch.Word{} }), Then: events{with(submitted(2, 1), func(s *batch.Submitted) { s.RefUID = batch.Word{} })}},
		{Name: "submit a transaction of another batch", Given: events{sealed(2)}, When: submit(1, nil, asIs), Err: domain.ErrConflict},
		{Name: "submit what is attested", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: submit(1, nil, other), Err: domain.ErrConflict},
		{Name: "submit what is not sealed", When: submit(1, nil, asIs), Err: domain.ErrNotFound},
		{Name: "submit with another nonce after a drop", Given: events{sealed(1), submitted(1, 1), dropped(batch.NonceTaken, batch.Word{})}, When: behind(1, submit(1, nil, func(s *batch.Submitted) { s.Nonce, s.Tx = 8, batch.Word{2} })), Then: events{with(submitted(1, 2), func(s *batch.Submitted) { s.Nonce = 8 })}},

		{Name: "attest", Given: events{sealed(1), submitted(1, 1)}, When: batch.Attest(attested(1, 1)), Then: events{attested(1, 1)}},
		{Name: "attest by a transaction that was replaced", Given: events{sealed(1), submitted(1, 1), submitted(1, 2)}, When: batch.Attest(attested(1, 1)), Then: events{attested(1, 1)}},
		{Name: "attest by a transaction from before a drop", Given: events{sealed(1), submitted(1, 1), attested(1, 1), reorganised, submitted(1, 2)}, When: batch.Attest(attested(1, 1)), Then: events{attested(1, 1)}},
		{Name: "attest again", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: batch.Attest(attested(1, 1))},
		{Name: "attest twice", Given: events{sealed(1), submitted(1, 1), submitted(1, 2), attested(1, 1)}, When: batch.Attest(attested(1, 2)), Err: domain.ErrConflict},
		{Name: "attest by a transaction of somebody else", Given: events{sealed(1), submitted(1, 1)}, When: batch.Attest(attested(1, 2)), Err: domain.ErrConflict},
		{Name: "attest elsewhere", Given: events{sealed(1), submitted(1, 1)}, When: batch.Attest(with(attested(1, 1), func(a *batch.Attested) { a.EAS[0]++ })), Err: domain.ErrConflict},
		{Name: "attest without a UID", Given: events{sealed(1), submitted(1, 1)}, When: batch.Attest(with(attested(1, 1), func(a *batch.Attested) { a.UID = batch.Word{} })), Err: domain.ErrInvalid},

		{Name: "finalise", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: batch.Finalise(final), Then: events{final}},
		{Name: "finalise again", Given: events{sealed(1), submitted(1, 1), attested(1, 1), final}, When: batch.Finalise(final)},
		{Name: "finalise what is not attested", Given: events{sealed(1), submitted(1, 1)}, When: batch.Finalise(final), Err: domain.ErrConflict},
		{Name: "finalise another attestation", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: batch.Finalise{Batch: 1, UID: batch.Word{8}}, Err: domain.ErrConflict},

		{Name: "drop what is attested", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: drop(1, reorganised), Then: events{reorganised}},
		{Name: "drop what was submitted", Given: events{sealed(1), submitted(1, 1)}, When: drop(1, dropped(batch.Reverted, batch.Word{})), Then: events{dropped(batch.Reverted, batch.Word{})}},
		{Name: "drop again", Given: events{sealed(1), submitted(1, 1), dropped(batch.Reverted, batch.Word{})}, When: drop(1, dropped(batch.Reverted, batch.Word{}))},
		{Name: "drop what another process has submitted anew", Given: events{sealed(1), submitted(1, 1), dropped(batch.NonceTaken, batch.Word{}), submitted(1, 2)}, When: drop(1, dropped(batch.NonceTaken, batch.Word{})), Err: domain.ErrConflict},
		{Name: "drop another attestation", Given: events{sealed(1), submitted(1, 1), attested(1, 1)}, When: drop(1, dropped(batch.Reorganised, batch.Word{8})), Err: domain.ErrConflict},
		{Name: "drop what is final", Given: events{sealed(1), submitted(1, 1), attested(1, 1), final}, When: drop(1, reorganised), Err: domain.ErrConflict},
		{Name: "drop for no reason", Given: events{sealed(1), submitted(1, 1)}, When: drop(1, batch.Dropped{Batch: 1}), Err: domain.ErrInvalid},
	})
}

func TestWord(t *testing.T) {
	t.Parallel()
	text := "0x00000000000000000000000000000000000000000000000000000000000000ab"
	var w batch.Word
	if err := w.UnmarshalText([]byte(text)); err != nil || w.String() != text || w.IsZero() {
		t.Errorf("%s reads as %s, %v", text, w, err)
	}
	for _, bad := range []string{"", "0x", text[2:], text[:65], text + "0", "0X" + text[2:], text[:64] + "AB"} {
		if err := new(batch.Word).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q reads as 32 bytes", bad)
		}
	}
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	if got := batch.StreamOf(12); got != "batch/12" {
		t.Errorf("StreamOf(12) = %s, want batch/12", got)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, batch.Events, os.DirFS("testdata"))
}

// What the example of batch.sealed says follows from its other fields.
func TestSealedExample(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/batch.sealed.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var s batch.Sealed
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if got, want := s.ID().String(), "130e3a3e98f2502fcd05e8623873945ff46746332fc2229170a1cb85f3e7fcb1"; got != want {
		t.Errorf("ID = %s, want %s", got, want)
	}
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, batch.Events, os.DirFS("testdata"))
}
