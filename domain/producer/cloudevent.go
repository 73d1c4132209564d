package producer

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A CloudEvent is an event as a producer sends it: CloudEvents 1.0 in JSON, with the
// extensions whose names begin with kar. Other attributes are refused, as nothing would
// vouch for them.
type CloudEvent struct {
	SpecVersion     string          `json:"specversion" enum:"1.0"`
	ID              string          `json:"id" maxLength:"100" doc:"Unique within the producer and the stream. What is sent again under an id is on record once."`
	Source          string          `json:"source" doc:"https://karatum.com/producers/ and the name of the producer." example:"https://karatum.com/producers/shield-runner"`
	Type            string          `json:"type" doc:"com.karatum. and the type of the event." example:"com.karatum.shield.case_opened.v1"`
	Time            Moment          `json:"time" doc:"When it happened, in UTC." example:"2026-10-16T10:00:00Z"`
	DataContentType string          `json:"datacontenttype,omitempty" enum:"application/json"`
	Stream          ledger.Stream   `json:"karstream" doc:"The stream that the event is for; all events of a request are for one." example:"shield-case/sc_1"`
	Seq             uint64          `json:"karseq,omitempty" doc:"The version that the event must get in its stream, counting from 1. Without it, any."`
	Key             string          `json:"karkeyid" doc:"The name of the key that signed the event." example:"2026-10"`
	Signature       string          `json:"karsig" pattern:"^[0-9a-f]{128}$" doc:"Ed25519 over the line karatum/producer/event/v1, with its newline, and the canonical JSON (RFC 8785) of this event with data, id, karkeyid, karstream, source, specversion, time and type alone."`
	Data            json.RawMessage `json:"data" doc:"As the type has it, without signed, which the service makes of the other attributes."`
}

// A Signer is a producer with its private key.
type Signer struct {
	Producer string
	Key      string // its name
	Private  ed25519.PrivateKey
}

// Sign returns e as s sends it, for a stream: under an id, with the time at which it
// happened. What e says of its signature is left out.
func (s Signer) Sign(stream ledger.Stream, e Source, id string, at time.Time) (c CloudEvent, err error) {
	data, err := domain.Encode(e)
	if err != nil {
		return c, err
	}
	bare, _, err := Split(data)
	if err != nil {
		return c, err
	}
	signed := Signed{Producer: s.Producer, Key: s.Key, ID: id, Time: Moment(at.UTC().Format(time.RFC3339Nano))}
	statement, err := Statement(stream, e.EventType(), bare, signed)
	if err != nil {
		return c, err
	}
	return CloudEvent{
		SpecVersion: CloudVersion, ID: id, Source: SourceOf(s.Producer), Type: CloudType(e.EventType()), Time: signed.Time,
		Stream: stream, Key: s.Key, Signature: hex.EncodeToString(ed25519.Sign(s.Private, statement)), Data: bare,
	}, nil
}

// Signed returns what c says of its signature, and its data in canonical form. producer
// is the one that the source names.
func (c CloudEvent) Signed(producer string) (s Signed, bare []byte, err error) {
	s = Signed{Producer: producer, Key: c.Key, ID: c.ID, Time: c.Time}
	if err := s.Signature.UnmarshalText([]byte(c.Signature)); err != nil {
		return s, nil, err
	}
	bare, err = domain.Canonical(c.Data)
	return s, bare, err
}
