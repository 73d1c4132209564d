package double

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
)

// Positions are offsets in a file of records. The first ones describe the file and
// are no events; each event takes a head besides its own bytes.
const (
	firstPosition = 186
	headSize      = 92
)

// Expected revisions that are no numbers, as servers write them.
const (
	expectAny    = -2
	expectNone   = -1
	expectExists = -4
)

// An event is one that was stored. Nothing of it changes.
type event struct {
	id       uuid.UUID
	stream   string
	revision uint64
	position uint64 // of both commit and prepare: an append is not a transaction of its own
	metadata map[string]string
	custom   []byte
	data     []byte
}

// A proposed event is one on its way in.
type proposed struct {
	id          uuid.UUID
	kind        string
	contentType string
	custom      []byte
	data        []byte
}

// size is what counts against the limit of an append.
func (p proposed) size() int { return len(p.data) + len(p.custom) + 2*len(p.kind) }

// A verdict is what becomes of an append.
type verdict struct {
	ok     bool
	latest int64  // revision of the last event appended if ok, else of the stream; -1 for none
	last   *event // that event; nil if there is none
}

// append stores events at the end of a stream if it is as expected, or finds that
// they are there. A write that was made already is recognised where the revision
// says where to look, and otherwise by what was written lately.
func (c *Cluster) append(stream string, expected int64, events []proposed) verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.streams[stream]
	current := int64(len(have)) - 1
	refused := verdict{latest: current}
	if expected == expectExists && current < 0 {
		return refused
	}
	if expected >= expectNone {
		switch {
		case expected > current:
			return refused
		case expected < current:
			at := int(expected + 1)
			if len(events) == 0 || at+len(events) > len(have) || c.forgets {
				return refused
			}
			for i, e := range events {
				if have[at+i].id != e.id {
					return refused
				}
			}
			last := have[at+len(events)-1]
			return verdict{ok: true, latest: int64(last.revision), last: last} //nolint:gosec // an index
		}
	} else if last, all := c.written(stream, events); last != nil {
		if !all {
			return refused // a part of it is there: it is not the same write
		}
		return verdict{ok: true, latest: int64(last.revision), last: last} //nolint:gosec // an index
	}
	if len(events) == 0 {
		return verdict{ok: true, latest: current}
	}
	last := c.add(stream, events)
	c.notify()
	return verdict{ok: true, latest: int64(last.revision), last: last} //nolint:gosec // an index
}

// written returns the last of the leading events that a stream has already, and
// whether it has all. The caller holds c.mu.
func (c *Cluster) written(stream string, events []proposed) (last *event, all bool) {
	for _, p := range events {
		e := c.ids[p.id]
		if e == nil || e.stream != stream {
			return last, false
		}
		last = e
	}
	return last, true
}

// add stores events and returns the last. The caller holds c.mu.
func (c *Cluster) add(stream string, events []proposed) (last *event) {
	created := strconv.FormatInt(c.now().UnixNano()/100, 10) // in ticks of 100 ns
	for _, p := range events {
		last = &event{
			id:       p.id,
			stream:   stream,
			revision: uint64(len(c.streams[stream])),
			position: c.end,
			metadata: map[string]string{"type": p.kind, "content-type": p.contentType, "created": created},
			custom:   p.custom,
			data:     p.data,
		}
		c.end += uint64(headSize + len(stream) + p.size()) //nolint:gosec // a length
		c.events = append(c.events, last)
		c.streams[stream] = append(c.streams[stream], last)
		c.ids[p.id] = last
	}
	return last
}

// A source is what a call reads: $all, or one stream.
type source struct {
	node   *node
	all    bool
	stream string
}

// view returns the events that the source shows now, and a channel that is closed
// when there may be others.
func (s source) view() ([]*event, <-chan struct{}) {
	c := s.node.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := c.events
	if n := s.node.frozen; n >= 0 {
		shown = shown[:n]
	}
	if s.all {
		return shown, c.changed
	}
	events := c.streams[s.stream]
	if len(shown) < len(c.events) {
		i, _ := search(events, c.events[len(shown)].position)
		events = events[:i]
	}
	return events, c.changed
}

// search returns the index of the first event at or behind position, and whether
// it is at it.
func search(events []*event, position uint64) (int, bool) {
	return slices.BinarySearchFunc(events, position, func(e *event, p uint64) int {
		switch {
		case e.position < p:
			return -1
		case e.position > p:
			return 1
		}
		return 0
	})
}

// wire returns e as it is sent.
func (e *event) wire(textID bool) *streams.ReadResp {
	most, least := halves(e.id)
	id := &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{MostSignificantBits: most, LeastSignificantBits: least}}}
	if textID {
		id = &shared.UUID{Value: &shared.UUID_String_{String_: e.id.String()}}
	}
	return &streams.ReadResp{Content: &streams.ReadResp_Event{Event: &streams.ReadResp_ReadEvent{
		Event: &streams.ReadResp_ReadEvent_RecordedEvent{
			Id:               id,
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(e.stream)},
			StreamRevision:   e.revision,
			CommitPosition:   e.position,
			PreparePosition:  e.position,
			Metadata:         e.metadata,
			CustomMetadata:   e.custom,
			Data:             e.data,
		},
		Position: &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: e.position},
	}}}
}

// halves returns an id as the two numbers of its wire form.
func halves(id uuid.UUID) (most, least int64) {
	return int64(binary.BigEndian.Uint64(id[:8])), int64(binary.BigEndian.Uint64(id[8:])) //nolint:gosec // bits, not numbers
}

// parseID reads an id in either of its wire forms.
func parseID(id *shared.UUID) (parsed uuid.UUID, err error) {
	if s := id.GetStructured(); s != nil {
		binary.BigEndian.PutUint64(parsed[:8], uint64(s.GetMostSignificantBits()))  //nolint:gosec // bits, not numbers
		binary.BigEndian.PutUint64(parsed[8:], uint64(s.GetLeastSignificantBits())) //nolint:gosec // bits, not numbers
	} else if parsed, err = uuid.Parse(id.GetString_()); err != nil {
		return uuid.Nil, err
	}
	if parsed == uuid.Nil {
		return uuid.Nil, errors.New("event without an id")
	}
	return parsed, nil
}

// toInt reads a number of a request, which servers keep as a signed one.
func toInt(n uint64) (int64, error) {
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("%d is out of range", n)
	}
	return int64(n), nil
}
