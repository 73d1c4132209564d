package producer

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// Signed says of an event which producer it comes from, and proves it: whoever has
// the log alone, without the producer's key, cannot make one. Events carry it as the
// member "signed" of their data; those that the service or its operator may write too
// are without it then.
//
// Signature is an Ed25519 signature (RFC 8032) over the bytes of [Statement].
type Signed struct {
	Producer  string    `json:"producer"`
	Key       string    `json:"key"`
	ID        string    `json:"id"` // of the event, unique within the producer and the stream
	Time      Moment    `json:"time"`
	Signature Signature `json:"signature"`
}

// Proof returns s. It is there for what embeds it.
func (s Signed) Proof() Signed { return s }

// A Source is an event that may come from a producer. The zero Proof says that it does
// not.
type Source interface {
	domain.Event
	Proof() Signed
}

// The beginnings of what an event of a producer is called in CloudEvents.
const (
	sourceBase = "https://karatum.com/producers/"
	typeBase   = "com.karatum."
)

// SourceOf returns the attribute source of the CloudEvents of a producer.
func SourceOf(producer string) string { return sourceBase + producer }

// NameOf returns the producer that a source names.
func NameOf(source string) (producer string, ok bool) {
	return strings.CutPrefix(source, sourceBase)
}

// CloudType returns the attribute type of CloudEvents of type t.
func CloudType(t domain.Type) string { return typeBase + string(t) }

// TypeOf returns the type that the attribute type of a CloudEvent names.
func TypeOf(cloudType string) (t domain.Type, ok bool) {
	name, ok := strings.CutPrefix(cloudType, typeBase)
	return domain.Type(name), ok
}

// CloudVersion is the version of CloudEvents that statements are of.
const CloudVersion = "1.0"

// statement is what is signed, as encoding/json writes it.
type statement struct {
	Data    json.RawMessage `json:"data"`
	ID      string          `json:"id"`
	Key     string          `json:"karkeyid"`
	Stream  ledger.Stream   `json:"karstream"`
	Source  string          `json:"source"`
	Version string          `json:"specversion"`
	Time    Moment          `json:"time"`
	Type    string          `json:"type"`
}

// prefix keeps a signature of an event from meaning anything else.
const prefix = "karatum/producer/event/v1\n"

// Statement returns the bytes that a producer signs of an event of type t in a stream,
// with the given data, which is without "signed": the line
//
//	karatum/producer/event/v1
//
// with its newline, and behind it the canonical JSON (RFC 8785) of the CloudEvent
//
//	{data, id, karkeyid, karstream, source, specversion: "1.0", time, type}
//
// without any other attribute and without a newline at the end. source is
// https://karatum.com/producers/ and the name of the producer, type com.karatum. and
// that of the event.
func Statement(stream ledger.Stream, t domain.Type, data []byte, s Signed) ([]byte, error) {
	canonical, err := domain.Canonical(statement{data, s.ID, s.Key, stream, SourceOf(s.Producer), CloudVersion, s.Time, CloudType(t)})
	if err != nil {
		return nil, fmt.Errorf("what is signed of a %s: %w: %w", t, err, domain.ErrInvalid)
	}
	return append([]byte(prefix), canonical...), nil
}

// Split takes "signed" out of the data of an event.
func Split(data []byte) (bare []byte, s Signed, err error) {
	if !bytes.Contains(data, []byte(`"signed"`)) {
		return data, s, nil
	}
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, s, fmt.Errorf("the data of an event: %w: %w", err, domain.ErrInvalid)
	}
	signed, ok := members["signed"]
	if !ok {
		return data, s, nil
	}
	if err := domain.Unmarshal(signed, &s); err != nil {
		return nil, s, fmt.Errorf("what says who signed an event: %w: %w", err, domain.ErrInvalid)
	}
	delete(members, "signed")
	bare, err = domain.Canonical(members)
	return bare, s, err
}

// Join puts s into the data of an event that is without it. The result is canonical.
func Join(bare []byte, s Signed) ([]byte, error) {
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(bare, &members); err != nil {
		return nil, fmt.Errorf("the data of an event: %w: %w", err, domain.ErrInvalid)
	}
	if members == nil || members["signed"] != nil {
		return nil, fmt.Errorf("the data of an event is an object, and the signature does not stand in it: %w", domain.ErrInvalid)
	}
	signed, err := domain.Canonical(s)
	if err != nil {
		return nil, err
	}
	members["signed"] = signed
	return domain.Canonical(members)
}

// Digest returns the SHA-256 of the [Statement] of an event: how events of producers
// name each other.
func Digest(stream ledger.Stream, e Source) (domain.Hash, error) {
	data, err := domain.Encode(e)
	if err != nil {
		return domain.Hash{}, err
	}
	bare, s, err := Split(data)
	if err != nil {
		return domain.Hash{}, err
	}
	signed, err := Statement(stream, e.EventType(), bare, s)
	return domain.Sum(signed), err
}

// skew is how far the moment at which an event was taken and the one in its record may
// lie apart.
const skew = time.Minute

// Verify returns nil if the producer with state s wrote an event with some data, of type
// t, that the ledger took into a stream at a moment: it may, its key holds then, and the
// signature is its. It returns nil too for data that names no producer.
func Verify(producers func(id string) State, stream ledger.Stream, t domain.Type, data []byte, at time.Time) error {
	bare, signed, err := Split(data)
	if err != nil || signed == (Signed{}) {
		return err
	}
	s := producers(signed.Producer)
	if s.ID == "" {
		return fmt.Errorf("%q is no producer: %w", signed.Producer, domain.ErrForbidden)
	}
	if err := s.May(t, stream); err != nil {
		return err
	}
	key, ok := s.Key(signed.Key)
	if !ok || !key.HoldsAt(at.Add(skew)) && !key.HoldsAt(at.Add(-skew)) {
		return fmt.Errorf("the producer %s had no key %q then: %w", s.ID, signed.Key, domain.ErrForbidden)
	}
	statement, err := Statement(stream, t, bare, signed)
	if err != nil {
		return err
	}
	return key.Public.Verify(statement, signed.Signature)
}

// A Moment is when something happened, in the words of a producer, which are kept as
// they are since it signed them: RFC 3339 in UTC, with a Z.
type Moment string

// maxMoment is the length of a moment with nine decimals.
const maxMoment = len("2006-01-02T15:04:05.999999999Z")

// Check returns nil if m is such a moment. The error matches [domain.ErrInvalid].
func (m Moment) Check() error {
	if _, err := time.Parse(time.RFC3339Nano, string(m)); err != nil || !strings.HasSuffix(string(m), "Z") || strings.Contains(string(m), ",") || len(m) > maxMoment {
		return fmt.Errorf("a moment is written as RFC 3339 in UTC, such as 2026-10-16T10:00:00Z: %w", domain.ErrInvalid)
	}
	return nil
}

// Time returns m as a time, the zero one if it is not a moment.
func (m Moment) Time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, string(m))
	return t
}

// A PublicKey is an Ed25519 key. As text it is 64 lower-case hex digits.
type PublicKey [ed25519.PublicKeySize]byte

// Verify returns nil if sig is the signature of message under k. The error matches
// [domain.ErrForbidden].
func (k PublicKey) Verify(message []byte, sig Signature) error {
	if !ed25519.Verify(k[:], message, sig[:]) {
		return domain.WithCode(domain.EventSignature, fmt.Errorf("the signature of the event is not of the producer's key: %w", domain.ErrForbidden))
	}
	return nil
}

// small are the encodings of the points of small order, without the bit of their sign:
// under such a key one signature holds for many messages.
var small = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func (k PublicKey) check() error {
	const sign = 0x80
	k[len(k)-1] &^= sign
	if slices.Contains(small, k.String()) {
		return fmt.Errorf("this public key is no private key's; make one with openssl genpkey -algorithm ed25519: %w", domain.ErrInvalid)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (k PublicKey) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *PublicKey) UnmarshalText(text []byte) error { return unhex(k[:], text, "a public key") }

// String returns k as its text.
func (k PublicKey) String() string { return hex.EncodeToString(k[:]) }

// A Signature is one of Ed25519. As text it is 128 lower-case hex digits.
type Signature [ed25519.SignatureSize]byte

// MarshalText implements encoding.TextMarshaler.
func (s Signature) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Signature) UnmarshalText(text []byte) error { return unhex(s[:], text, "a signature") }

// unhex takes just as many lower-case digits as dst has room for.
func unhex(dst, text []byte, what string) error {
	if len(text) != hex.EncodedLen(len(dst)) || !bytes.Equal(text, bytes.ToLower(text)) {
		return fmt.Errorf("%s is %d lower-case hex digits: %w", what, hex.EncodedLen(len(dst)), domain.ErrInvalid)
	}
	if _, err := hex.Decode(dst, text); err != nil {
		return fmt.Errorf("%s is %d lower-case hex digits: %w", what, hex.EncodedLen(len(dst)), domain.ErrInvalid)
	}
	return nil
}
