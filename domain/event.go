package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"
)

// A Type is the wire name of an event in one shape: "consent.granted.v1". Bytes
// under a Type always mean the same; another shape is another version, and an
// [Upcast] lets the old one be read.
type Type string

// An Event is a fact. Events are small values, and nobody changes one.
type Event interface {
	EventType() Type
}

// Visibility says who may see an event. It belongs to the type, not to the
// single event, so that no code path can decide it anew.
type Visibility int

// The two visibilities. The zero Visibility is Sealed: what nobody declared
// public stays private.
const (
	Sealed Visibility = iota // private until another event opens it
	Public                   // on the public log the moment it is appended
)

// Encode returns e as canonical JSON (RFC 8785). It is called once for an event:
// from then on these bytes are stored, hashed and served as they are.
func Encode(e Event) ([]byte, error) {
	data, err := Canonical(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.EventType(), err)
	}
	return data, nil
}

// An Entry tells a [Catalog] how to read one Type, and who may.
type Entry struct {
	typ        Type
	visibility Visibility
	decode     func([]byte) (Event, error)
}

// Current returns the Entry of a shape that events are written in today.
func Current[E Event](v Visibility) Entry {
	return Upcast(v, func(e E) E { return e })
}

// Upcast returns the Entry of a shape that is only read any more: up makes a New of
// every Old.
func Upcast[Old, New Event](v Visibility, up func(Old) New) Entry {
	var zero Old
	return Entry{zero.EventType(), v, func(data []byte) (Event, error) {
		var e Old
		if err := Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("decode %s: %w", zero.EventType(), err)
		}
		return up(e), nil
	}}
}

// Unmarshal decodes exactly one JSON value into v and refuses fields that v does
// not have: a field we would drop silently is a shape we do not know.
func Unmarshal(data []byte, v any) error {
	d := decoders.Get().(*decoder) //nolint:errcheck,forcetypeassert // nothing else is in it
	d.source.Reset(data)
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("data after the JSON value: %w", ErrInvalid)
	}
	d.source.Reset(nil)
	decoders.Put(d)
	return nil
}

// A decoder reads one value after the other, each from a source of its own. One that
// has read its value to the end is as good as new; any other is never used again.
type decoder struct {
	*json.Decoder

	source bytes.Reader
}

// decoders are kept, as a ledger has millions of values.
var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.Decoder = json.NewDecoder(&d.source)
	d.DisallowUnknownFields()
	return d
}}

// A Catalog decodes every event the ledger has ever written.
type Catalog map[Type]Entry

// NewCatalog joins the lists of all aggregates. Two entries for one Type are a bug
// in the program, and it panics.
func NewCatalog(lists ...[]Entry) Catalog {
	c := make(Catalog)
	for _, en := range slices.Concat(lists...) {
		if _, dup := c[en.typ]; dup {
			panic(fmt.Sprintf("domain: event type %q declared twice", en.typ))
		}
		c[en.typ] = en
	}
	return c
}

// Decode returns the event of type t stored as data, in its current shape.
func (c Catalog) Decode(t Type, data []byte) (Event, error) {
	entry, ok := c[t]
	if !ok {
		return nil, fmt.Errorf("decode %s: %w", t, ErrUnknownType)
	}
	return entry.decode(data)
}

// Visibility returns who may see events of type t: Sealed for an unknown type.
func (c Catalog) Visibility(t Type) Visibility { return c[t].visibility }

// Types yields all types in the catalog in lexical order.
func (c Catalog) Types() iter.Seq[Type] {
	return slices.Values(slices.Sorted(maps.Keys(c)))
}
