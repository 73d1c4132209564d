package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/session"
)

// Who has the log, and its key, cannot make an event of a producer.
func TestLogWithProducers(t *testing.T) {
	t.Parallel()
	recorder := producertest.New("recorder")
	stream := session.StreamOf("ses_1")
	good := producertest.Sign(t, recorder, stream, "0", session.Opened{
		Session: "ses_1", Agent: "build:42", Kind: session.Runtime, StartedAt: "2026-03-01T12:00:00Z",
	})
	bare, altered := good, good
	bare.Signed, altered.Agent = producer.Signed{}, "build:43"
	revoked := []domain.Event{recorder.Registered("session"), producer.Revoked{Reason: "lost"}}
	for _, tt := range []struct {
		name     string
		producer []domain.Event
		events   []domain.Event
		want     string // what is said, "" if all is well
	}{
		{"what it signed", revoked[:1], []domain.Event{good}, ""},
		{"what it never signed", revoked[:1], []domain.Event{altered}, "not of the producer's key"},
		{"what nobody signed", revoked[:1], []domain.Event{bare}, "no producer has signed it"},
		{"what it signed, twice", revoked[:1], []domain.Event{good, good}, "stands in the log before"},
		{"what it signed, after it was revoked", revoked, []domain.Event{good}, "is revoked"},
		{"what no producer signed", nil, []domain.Event{good}, "is no producer"},
	} {
		l := serveLog(t, 7)
		l.append(producer.StreamOf("recorder"), tt.producer...)
		l.append(stream, tt.events...)
		l.size = len(l.items)
		code, said := l.look(filepath.Join(t.TempDir(), "log.json"))
		if tt.want == "" && code != exitOK || tt.want != "" && (code != exitFailed || !strings.Contains(said, tt.want)) {
			t.Errorf("with %s it says %d: %s", tt.name, code, said)
		}
	}
}

// append adds events of one stream to the log.
func (l *servedLog) append(s ledger.Stream, events ...domain.Event) {
	l.t.Helper()
	var prev domain.Hash
	for i, e := range events {
		r := l.record(s, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), prev, uint64(i+1), e)
		l.add(r, prev)
		prev = r.Hash
	}
}
