package main

import (
	"iter"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// events yields every record of the ledger with its event.
func (s *stage) events(t *testing.T) iter.Seq2[ledger.Record, domain.Event] {
	t.Helper()
	return s.decoded(t, s.prog.Service.Log.After(t.Context(), 0))
}

// eventsOf yields the records of a stream with their events.
func (s *stage) eventsOf(t *testing.T, stream ledger.Stream) iter.Seq2[ledger.Record, domain.Event] {
	t.Helper()
	return s.decoded(t, s.prog.Service.Log.Stream(t.Context(), stream, 0))
}

// decoded ends the test at a record that cannot be read.
func (s *stage) decoded(t *testing.T, records iter.Seq2[ledger.Record, error]) iter.Seq2[ledger.Record, domain.Event] {
	t.Helper()
	return func(yield func(ledger.Record, domain.Event) bool) {
		for r, err := range records {
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.prog.Service.Catalog.Decode(r.Type, r.Data)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(r, e) {
				return
			}
		}
	}
}
