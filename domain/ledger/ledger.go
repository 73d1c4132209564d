// Package ledger defines the append-only log: its records, how they are hashed,
// and the contract that every store keeps. Package ledgertest checks that
// contract.
//
// # Format
//
// The canonical form of a record is the RFC 8785 JSON of the object
//
//	{actor, cause: {command, correlation}, data, id, stream, time, type, version}
//
// where data is the event as [domain.Encode] wrote it, id a UUID, time is UTC
// with exactly six decimals and a Z, and version counts from 1 within the stream.
// The records of one stream form a hash chain:
//
//	hash = SHA-256(enc("karatum/ledger/record/v1", prevHash) ‖ canonical form)
//
// with 32 zero bytes before the first record. The position that a log gives to a
// record is not hashed, and never leaves the process.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/karatum/mystery/domain"
)

// ErrConflict is returned by Append when the stream has moved on. It is a
// [domain.ErrConflict] too.
var ErrConflict = fmt.Errorf("stream is not at the expected version: %w", domain.ErrConflict)

// ErrDamaged means that a store holds what no append can have left behind. The error
// that wraps it says where.
var ErrDamaged = errors.New("damaged")

// A Stream names the history of one aggregate, such as "consent/build:42".
type Stream string

// Category is the part of s before the first slash.
func (s Stream) Category() string {
	c, _, _ := strings.Cut(string(s), "/")
	return c
}

// ID is the part of s behind the first slash.
func (s Stream) ID() string {
	_, id, _ := strings.Cut(string(s), "/")
	return id
}

// Meta says who caused some records and why. It is hashed along with the event.
type Meta struct {
	Actor       string // who acted: "owner:0x…", "operator", "worker"
	Command     string // idempotency key of the command; required
	Correlation string // first command of the conversation
}

// A Cause is the part of [Meta] that says why.
type Cause struct {
	Command     string `json:"command"`
	Correlation string `json:"correlation"`
}

// A Record is an event at its place in the log.
// Data holds the bytes as hashed; decode it with a [domain.Catalog].
type Record struct { //nolint:recvcheck // MarshalJSON has to work for values as well
	Position uint64 // strictly increasing over the whole log; gaps are allowed
	Stream   Stream
	Version  uint64 // 1, 2, 3, ... within Stream
	ID       uuid.UUID
	Type     domain.Type
	Time     time.Time // UTC, whole microseconds
	Actor    string
	Cause    Cause
	Data     []byte
	Hash     domain.Hash // of the chain up to and with this record
}

// A Log is an append-only sequence of records.
// Its methods may be called from several goroutines.
type Log interface {
	// Append puts events at the end of a stream: all of them, or none and an
	// error. version says how many records the stream must hold for that, 0 for
	// one that does not exist yet; if it holds another number the error matches
	// [ErrConflict] and says which. Once Append has returned nil, the records
	// survive a crash.
	//
	// The id of each record follows from the stream, m.Command and the index of
	// the event. An append that stands in the log already, of the same command at
	// the same version, succeeds without effect. So whoever does not know what
	// became of a call makes it again.
	Append(ctx context.Context, s Stream, version uint64, m Meta, events ...domain.Event) error

	// Stream yields the records of one stream that lie behind a version, by version;
	// 0 yields all of them. Behind the last there is nothing, which is no error.
	Stream(ctx context.Context, s Stream, version uint64) iter.Seq2[Record, error]

	// After yields what lies behind a position, by position, up to the present end.
	// Nothing may appear later at a place that a reader has passed: one that goes
	// on from the last position it saw has seen everything.
	After(ctx context.Context, position uint64) iter.Seq2[Record, error]
}

// namespace is the UUID namespace (RFC 9562, section 5.5) of the ids of records.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://karatum.com/ns/ledger/record"))

// EventID returns the id of the event with the given index among those that
// command appends to s.
func EventID(s Stream, command string, index int) uuid.UUID {
	name := domain.NewEnc("karatum/ledger/event-id/v1").Str(string(s)).Str(command).U32(uint32(index)) //nolint:gosec // a handful of events
	return uuid.NewSHA1(namespace, name)
}

// Prepare makes the records of an append up to what only the log knows: their
// position, version, time and hash. It returns [domain.ErrInvalid] for a command
// without an id, without events, or with text that is not UTF-8 or holds NUL.
func Prepare(s Stream, m Meta, events ...domain.Event) ([]Record, error) {
	switch {
	case m.Command == "":
		return nil, fmt.Errorf("append to %s without a command id: %w", s, domain.ErrInvalid)
	case s.Category() == "":
		return nil, fmt.Errorf("append to a stream without a name: %w", domain.ErrInvalid)
	case len(events) == 0:
		return nil, fmt.Errorf("append of no events to %s: %w", s, domain.ErrInvalid)
	}
	for _, text := range []string{string(s), m.Actor, m.Command, m.Correlation} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) { // PostgreSQL takes no NUL in text
			return nil, fmt.Errorf("append to %q with text that is not UTF-8 or holds NUL: %w", string(s), domain.ErrInvalid)
		}
	}
	records := make([]Record, len(events))
	for i, e := range events {
		data, err := domain.Encode(e)
		if err != nil {
			return nil, err
		}
		records[i] = Record{
			Stream: s,
			ID:     EventID(s, m.Command, i),
			Type:   e.EventType(),
			Actor:  m.Actor,
			Cause:  Cause{m.Command, m.Correlation},
			Data:   data,
		}
	}
	return records, nil
}

// Link gives r its place in its stream, behind the record with hash prev, and
// with that its hash. It cuts the time to microseconds.
func (r *Record) Link(prev domain.Hash, version uint64, t time.Time) {
	r.Version = version
	r.Time = t.UTC().Truncate(time.Microsecond)
	r.Hash = r.ChainHash(prev)
}

// ChainHash returns the hash of r behind a record with hash prev.
func (r *Record) ChainHash(prev domain.Hash) domain.Hash {
	return HashOf(r.AppendCanonical(nil), prev)
}

// HashOf returns the hash of the record with the given canonical form, behind a
// record with hash prev.
func HashOf(canonical []byte, prev domain.Hash) domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/ledger/record/v1").Hash(prev), canonical)
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// AppendCanonical appends the canonical form of r to dst. It takes r.Data to be
// canonical, as Encode made it, so nothing is encoded again.
func (r *Record) AppendCanonical(dst []byte) []byte {
	const frame = 256 // of names, id and numbers
	dst = slices.Grow(dst, frame+len(r.Actor)+len(r.Cause.Command)+len(r.Cause.Correlation)+len(r.Data)+len(r.Stream))
	dst = append(dst, `{"actor":`...)
	dst = appendString(dst, r.Actor)
	dst = append(dst, `,"cause":{"command":`...)
	dst = appendString(dst, r.Cause.Command)
	dst = append(dst, `,"correlation":`...)
	dst = appendString(dst, r.Cause.Correlation)
	dst = append(dst, `},"data":`...)
	dst = append(dst, r.Data...)
	dst = append(dst, `,"id":"`...)
	dst = append(dst, r.ID.String()...)
	dst = append(dst, `","stream":`...)
	dst = appendString(dst, string(r.Stream))
	dst = append(dst, `,"time":"`...)
	dst = r.Time.UTC().AppendFormat(dst, timeFormat)
	dst = append(dst, `","type":`...)
	dst = appendString(dst, string(r.Type))
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendUint(dst, r.Version, 10)
	return append(dst, '}')
}

// appendString appends s as a JSON string in the form of RFC 8785, section 3.2.2.2.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0 // of what is copied as it is
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// envelope is the canonical form as encoding/json reads it.
type envelope struct {
	Actor   string          `json:"actor"`
	Cause   Cause           `json:"cause"`
	Data    json.RawMessage `json:"data"`
	ID      uuid.UUID       `json:"id"`
	Stream  Stream          `json:"stream"`
	Time    string          `json:"time"`
	Type    domain.Type     `json:"type"`
	Version uint64          `json:"version"`
}

// MarshalJSON returns the canonical form of r.
func (r Record) MarshalJSON() ([]byte, error) { return r.AppendCanonical(nil), nil }

// UnmarshalJSON reads the canonical form, also where it was reformatted on its
// way: indented, or escaped for HTML. Position and Hash, which are not in it,
// stay as they are.
func (r *Record) UnmarshalJSON(data []byte) error {
	c := *r
	if rest, ok := c.CutCanonical(data); ok && len(rest) == 0 {
		*r = c
		return nil
	}
	var e envelope
	if err := domain.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if !bytes.HasPrefix(e.Data, []byte("{")) {
		return fmt.Errorf("record without the object of an event as its data: %w", domain.ErrInvalid)
	}
	event, err := domain.Canonical(e.Data)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	t, err := time.Parse(timeFormat, e.Time)
	if err != nil {
		return fmt.Errorf("record: time %q is not UTC with six decimals: %w", e.Time, domain.ErrInvalid)
	}
	r.Actor, r.Cause, r.Data = e.Actor, e.Cause, event
	r.ID, r.Stream, r.Time, r.Type, r.Version = e.ID, e.Stream, t, e.Type, e.Version
	return nil
}

// CutCanonical reads the record that data begins with and returns what stands behind it, if
// that is the canonical form of a record in which all text but that of the event is plain
// ASCII, as nearly all are. Else it changes nothing and reports false; what is wrong with
// data, if anything is, it cannot say. Position and Hash stay as they are.
func (r *Record) CutCanonical(data []byte) (rest []byte, ok bool) {
	rest, ok = data, true
	literal := func(text string) {
		if ok = ok && len(rest) >= len(text) && string(rest[:len(text)]) == text; ok {
			rest = rest[len(text):]
		}
	}
	upTo := func(end byte) string { // text that needs no escapes
		for i, c := range rest {
			if c == end {
				text := string(rest[:i])
				rest = rest[i:]
				return text
			}
			if c < 0x20 || c >= 0x7f || c == '\\' || c == '"' {
				break
			}
		}
		ok = false
		return ""
	}
	c := Record{Position: r.Position, Hash: r.Hash}
	literal(`{"actor":"`)
	c.Actor = upTo('"')
	literal(`","cause":{"command":"`)
	c.Cause.Command = upTo('"')
	literal(`","correlation":"`)
	c.Cause.Correlation = upTo('"')
	literal(`"},"data":`)
	if !ok || len(rest) == 0 || rest[0] != '{' {
		return nil, false
	}
	if c.Data, rest, ok = domain.CutCanonical(rest); !ok {
		return nil, false
	}
	literal(`,"id":"`)
	id := upTo('"')
	literal(`","stream":"`)
	c.Stream = Stream(upTo('"'))
	literal(`","time":"`)
	at := upTo('"')
	literal(`","type":"`)
	c.Type = domain.Type(upTo('"'))
	literal(`","version":`)
	version := upTo('}')
	literal(`}`)
	if !ok {
		return nil, false
	}
	var errs [3]error
	c.ID, errs[0] = uuid.Parse(id)
	c.Time, errs[1] = time.Parse(timeFormat, at)
	c.Version, errs[2] = strconv.ParseUint(version, 10, 64)
	if errors.Join(errs[:]...) != nil || len(at) != len(timeFormat) || c.ID.String() != id || strconv.FormatUint(c.Version, 10) != version {
		return nil, false
	}
	*r = c
	return rest, true
}
