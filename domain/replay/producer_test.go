package replay_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/session"
)

// addAs appends what a producer sent in one request.
func (h *history) addAs(t *testing.T, actor string, s ledger.Stream, events ...domain.Event) {
	t.Helper()
	from := len(h.records)
	h.add(t, s, events...)
	tip := replayTip(h, from, s)
	for i := range h.records[from:] { // the chain again, over the actor
		r := &h.records[from+i]
		r.Actor = actor
		r.Hash = r.ChainHash(tip)
		tip = r.Hash
	}
	last := h.tips[s]
	last.Hash = tip
	h.tips[s] = last
}

// replayTip returns the hash before record from, in its stream.
func replayTip(h *history, from int, s ledger.Stream) (tip domain.Hash) {
	for _, r := range h.records[:from] {
		if r.Stream == s {
			tip = r.Hash
		}
	}
	return tip
}

func TestReplayOfProducers(t *testing.T) {
	t.Parallel()
	recorder, registry := producertest.New("recorder"), producertest.New("registry")
	stream := session.StreamOf("ses_1")
	opened := producertest.Sign(t, recorder, stream, "0", session.Opened{
		Session: "ses_1", Agent: ref, Kind: session.Runtime, StartedAt: "2026-03-01T12:00:00Z",
	})
	action := producertest.Sign(t, recorder, stream, "1", session.ActionRecorded{
		Session: "ses_1", Actor: "agent", Action: "message", Decision: "none", At: "2026-03-01T12:00:00Z",
	})
	certified := producertest.Sign(t, registry, agent.StreamOf(ref), "1", agent.CertificateRecorded{Certificate: "crt_1"})
	withdrawn := producertest.Sign(t, registry, agent.StreamOf(ref), "2", agent.CertificateWithdrawn{Certificate: "crt_1", Reason: "a mistake"})
	late := recorder.Registered("session")
	late.Key.NotBefore = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	altered := action
	altered.DurationMs = 1

	for _, tt := range []struct {
		name string
		add  func(h *history)
		want string // part of the fault, "" for none
	}{
		{"a session in one request", func(h *history) {
			h.add(t, producer.StreamOf("recorder"), recorder.Registered("session"))
			h.addAs(t, producer.Actor("recorder"), stream, opened, action)
		}, ""},
		{"a certificate that is recorded and withdrawn in one request", func(h *history) {
			h.add(t, producer.StreamOf("registry"), registry.Registered("agent"))
			h.addAs(t, producer.Actor("registry"), agent.StreamOf(ref), certified, withdrawn)
		}, ""},
		{"a session of nobody", func(h *history) {
			h.addAs(t, producer.Actor("recorder"), stream, opened)
		}, "is no producer"},
		{"a session without a signature", func(h *history) {
			bare := opened
			bare.Signed = producer.Signed{}
			h.addAs(t, producer.Actor("recorder"), stream, bare)
		}, "opened by a producer"},
		{"an action that was altered", func(h *history) {
			h.add(t, producer.StreamOf("recorder"), recorder.Registered("session"))
			h.addAs(t, producer.Actor("recorder"), stream, opened, altered)
		}, "not of the producer's key"},
		{"an event after the producer was revoked", func(h *history) {
			h.add(t, producer.StreamOf("recorder"), recorder.Registered("session"))
			h.addAs(t, producer.Actor("recorder"), stream, opened)
			h.add(t, producer.StreamOf("recorder"), producer.Revoked{Reason: "lost"})
			h.addAs(t, producer.Actor("recorder"), stream, action)
		}, "is revoked"},
		{"an event before its key held", func(h *history) {
			h.add(t, producer.StreamOf("recorder"), late)
			h.addAs(t, producer.Actor("recorder"), stream, opened)
		}, "had no key"},
		{"an event of a type that was not allowed", func(h *history) {
			h.add(t, producer.StreamOf("registry"), registry.Registered("session"))
			h.addAs(t, producer.Actor("registry"), agent.StreamOf(ref), certified)
		}, "may not write"},
		{"an event that somebody else is said to have sent", func(h *history) {
			h.add(t, producer.StreamOf("registry"), registry.Registered("agent"))
			h.addAs(t, "operator", agent.StreamOf(ref), certified)
		}, "its actor is operator"},
		{"an event that was copied", func(h *history) {
			h.add(t, producer.StreamOf("registry"), registry.Registered("agent"))
			h.addAs(t, producer.Actor("registry"), agent.StreamOf(ref), certified)
			h.addAs(t, producer.Actor("registry"), agent.StreamOf(ref), withdrawn)
			h.addAs(t, producer.Actor("registry"), agent.StreamOf(ref), certified)
		}, "stands in the log before"},
		{"an event that was not decided so", func(h *history) {
			h.add(t, producer.StreamOf("recorder"), recorder.Registered("session"))
			h.addAs(t, producer.Actor("recorder"), stream, opened, action, producertest.Sign(t, recorder, stream, "2", session.Closed{
				Session: "ses_1", Reason: "completed", Count: 2,
			}))
		}, "the session has 1 actions"},
	} {
		h := begin(t)
		tt.add(h)
		err := read(h.records)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
