package commands

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A history is a stream folded into what deciding needs.
type history[S, E any] struct {
	state   S
	version uint64
	before  []E // what the command asked about has appended already
}

// load folds a stream.
func load[S, C any, E domain.Event](
	ctx context.Context, s *Service, d domain.Decider[S, C, E], stream ledger.Stream, command string,
) (h history[S, E], err error) {
	read, err := s.told(ctx, stream)
	if err != nil {
		return h, err
	}
	for _, t := range read {
		e, ok := t.event.(E)
		if !ok {
			return h, fmt.Errorf("%s in stream %s: %w", t.event.EventType(), stream, domain.ErrUnknownType)
		}
		h.state = d.Evolve(h.state, e)
		if command != "" && t.command == command {
			h.before = append(h.before, e)
		}
	}
	h.version = uint64(len(read))
	return h, nil
}

// told returns what a stream holds. It reads what is not known of it yet.
func (s *Service) told(ctx context.Context, stream ledger.Stream) ([]told, error) {
	known := s.Histories.of(stream)
	read := known
	for r, err := range s.Log.Stream(ctx, stream, uint64(len(known))) {
		if err != nil {
			return nil, err
		}
		e, err := s.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			return nil, err
		}
		read = append(read, told{e, r.Cause.Command, r.Cause.Correlation})
	}
	s.Histories.keep(stream, read)
	return read, nil
}

// told is an event that a stream holds, the command that it came of, and the first of
// the conversation.
type told struct {
	event       domain.Event
	command     string
	correlation string
}

// Histories holds the events of streams that were loaded lately, for a stream only
// grows: loading it again takes reading what came since. A consent is sealed each
// hour for months; without this each seal would read all those before it.
//
// Its methods may be called from several goroutines, and on nil.
type Histories struct {
	mu     sync.Mutex
	events int // held in all
	held   *simplelru.LRU[ledger.Stream, []told]
}

const (
	maxEvents  = 1 << 17 // some hundred bytes each
	maxStreams = 1 << 14
)

// NewHistories returns what holds nothing yet.
func NewHistories() *Histories {
	h := new(Histories)
	let := func(_ ledger.Stream, events []told) { h.events -= len(events) }
	h.held, _ = simplelru.NewLRU(maxStreams, let) // fails for a size below one only
	return h
}

// of returns the first events of a stream, as far as they are held. Appending to
// the result makes a copy.
func (h *Histories) of(s ledger.Stream) []told {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known, _ := h.held.Get(s)
	return slices.Clip(known)
}

// keep holds the first events of a stream, unless more of them are held already,
// and lets go of streams that were not asked for longest.
func (h *Histories) keep(s ledger.Stream, events []told) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, _ := h.held.Peek(s); len(known) >= len(events) {
		return
	}
	h.held.Remove(s) // replacing would not be told of
	h.held.Add(s, events)
	h.events += len(events)
	for h.events > maxEvents && h.held.Len() > 1 {
		h.held.RemoveOldest()
	}
}

// forget lets go of a stream.
func (h *Histories) forget(s ledger.Stream) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held.Remove(s)
}
