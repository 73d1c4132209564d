package producer_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
)

// What is signed is written out here byte for byte, as a program in another language
// has to make it.
func TestStatement(t *testing.T) {
	t.Parallel()
	const want = "karatum/producer/event/v1\n" +
		`{"data":{"certificate":"crt_7"},"id":"e-1","karkeyid":"2026-10","karstream":"agent/build:42",` +
		`"source":"https://karatum.com/producers/registry","specversion":"1.0","time":"2026-10-16T10:00:00.000Z",` +
		`"type":"com.karatum.agent.certificate_recorded.v1"}`
	got, err := producer.Statement("agent/build:42", "agent.certificate_recorded.v1", []byte(`{"certificate":"crt_7"}`),
		producer.Signed{Producer: "registry", Key: "2026-10", ID: "e-1", Time: "2026-10-16T10:00:00.000Z"})
	if err != nil || string(got) != want {
		t.Errorf("Statement() = %s, %v, want\n%s", got, err, want)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	registry := producertest.New("registry")
	const stream = ledger.Stream("agent/build:42")
	at := time.Date(2026, 10, 16, 10, 0, 0, 0, time.UTC)
	event := producertest.Sign(t, registry, stream, "e-1", agent.CertificateRecorded{Certificate: "crt_7"})
	data, err := domain.Encode(event)
	if err != nil {
		t.Fatal(err)
	}
	registered := registry.Registered("agent")
	for _, tt := range []struct {
		name    string
		history []producer.Event
		stream  ledger.Stream
		typ     domain.Type
		data    []byte
		at      time.Time
		want    error
	}{
		{"its own", []producer.Event{registered}, stream, event.EventType(), data, at, nil},
		{"nobody's", nil, stream, event.EventType(), []byte(`{"certificate":"crt_7"}`), at, nil},
		{"before it is registered", nil, stream, event.EventType(), data, at, domain.ErrForbidden},
		{"after it is revoked", []producer.Event{registered, producer.Revoked{}}, stream, event.EventType(), data, at, domain.ErrForbidden},
		{"after its key has ended", []producer.Event{registered}, stream, event.EventType(), data, at.AddDate(2, 0, 0), domain.ErrForbidden},
		{"in another stream", []producer.Event{registered}, "agent/build:43", event.EventType(), data, at, domain.ErrForbidden},
		{"as another type", []producer.Event{registered}, stream, "agent.registered.v1", data, at, domain.ErrForbidden},
		{"with other data", []producer.Event{registered}, stream, event.EventType(), bytes.Replace(data, []byte("crt_7"), []byte("crt_8"), 1), at, domain.ErrForbidden},
		{"at another moment", []producer.Event{registered}, stream, event.EventType(), bytes.Replace(data, []byte("T10:00"), []byte("T11:00"), 1), at, domain.ErrForbidden},
		{"under another id", []producer.Event{registered}, stream, event.EventType(), bytes.Replace(data, []byte("e-1"), []byte("e-2"), 1), at, domain.ErrForbidden},
		{"under a key that it does not have", []producer.Event{registered}, stream, event.EventType(), bytes.Replace(data, []byte("2026-10\""), []byte("2026-11\""), 1), at, domain.ErrForbidden},
		{"under another's key", []producer.Event{producer.Registered{
			Producer: "registry", Key: producertest.New("x").Key(), Types: registered.Types, Streams: registered.Streams,
		}}, stream, event.EventType(), data, at, domain.ErrForbidden},
		{"with half a signature", []producer.Event{registered}, stream, event.EventType(), []byte(`{"signed":{"signature":"00"}}`), at, domain.ErrInvalid},
	} {
		state := producer.Decider.Replay(tt.history...)
		err := producer.Verify(func(id string) producer.State {
			if id != state.ID {
				return producer.State{}
			}
			return state
		}, tt.stream, tt.typ, tt.data, tt.at)
		if !errors.Is(err, tt.want) {
			t.Errorf("Verify() of an event %s = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestSplitUndoesJoin(t *testing.T) {
	t.Parallel()
	bare := []byte(`{"a":1,"z":{"b":[]}}`)
	signed := producer.Signed{Producer: "p", Key: "k", ID: "1", Time: "2026-10-16T10:00:00Z", Signature: producer.Signature{1}}
	joined, err := producer.Join(bare, signed)
	if err != nil {
		t.Fatal(err)
	}
	got, s, err := producer.Split(joined)
	if err != nil || !bytes.Equal(got, bare) || s != signed {
		t.Errorf("Split(Join()) = %s, %v, %v, want %s, %v", got, s, err, bare, signed)
	}
	for _, data := range []string{`{"signed":{}}`, `[]`, `null`, `{"a":1`, `{"a":1,"a":2}`} {
		if got, err := producer.Join([]byte(data), signed); !errors.Is(err, domain.ErrInvalid) && data != `{"a":1,"a":2}` {
			t.Errorf("Join(%s) = %s, %v, want ErrInvalid", data, got, err)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	for text, want := range map[producer.Moment]bool{
		"2026-10-16T10:00:00Z": true, "2026-10-16T10:00:00.000Z": true, "2026-10-16T10:00:00.123456789Z": true,
		"": false, "2026-10-16": false, "2026-10-16T10:00:00+00:00": false, "2026-10-16T12:00:00+02:00": false, "2026-10-16T10:00:00.1234567890123Z": false,
	} {
		if err := text.Check(); (err == nil) != want {
			t.Errorf("Check() of %q = %v, want ok %t", text, err, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"a":1,"signed":{"id":"1","key":"k","producer":"p","signature":"","time":""}}`))
	f.Add([]byte(`{"signed":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		bare, s, err := producer.Split(data)
		if err != nil || s == (producer.Signed{}) {
			return
		}
		joined, err := producer.Join(bare, s)
		if err != nil {
			return // such as a second "signed"
		}
		again, s2, err := producer.Split(joined)
		if err != nil || s2 != s || !bytes.Equal(again, bare) {
			t.Errorf("Split(Join(%s)) = %s, %v, %v", bare, again, s2, err)
		}
	})
}
