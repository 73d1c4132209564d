package kurrentdb

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// errDamaged means that the database holds what no append can have left behind.
var errDamaged = fmt.Errorf("the log is %w", ledger.ErrDamaged)

// meta is the metadata of an event.
type meta struct {
	Actor       string      `json:"actor"`
	Command     string      `json:"command"`
	Correlation string      `json:"correlation"`
	Hash        domain.Hash `json:"hash"`
	Time        string      `json:"time"`
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// metadata returns the metadata of the event of r.
func metadata(r *ledger.Record) []byte {
	data, err := domain.Canonical(meta{
		Actor: r.Actor, Command: r.Cause.Command, Correlation: r.Cause.Correlation,
		Hash: r.Hash, Time: r.Time.UTC().Format(timeFormat),
	})
	if err != nil {
		panic(fmt.Sprintf("kurrentdb: texts without a JSON form: %v", err)) // UTF-8 always has one
	}
	return data
}

// encode returns r as the client takes it.
func encode(r *ledger.Record) esdb.EventData {
	return esdb.EventData{
		EventID:     r.ID,
		EventType:   string(r.Type),
		ContentType: esdb.ContentTypeJson,
		Data:        r.Data,
		Metadata:    metadata(r),
	}
}

// decode reads an event of one of the ledger's streams. It takes nothing for
// granted: whatever encode does not write is damage.
func (l *Log) decode(e *esdb.RecordedEvent) (ledger.Record, error) {
	stream, ours := strings.CutPrefix(e.StreamID, l.prefix)
	fail := func(what string) (ledger.Record, error) {
		return ledger.Record{}, fmt.Errorf("event %d of %q %s: %w", e.EventNumber, e.StreamID, what, errDamaged)
	}
	switch commit, prepare := e.Position.Commit, e.Position.Prepare; {
	case !ours || stream == "":
		return fail("is none of the ledger")
	case e.EventNumber >= maxPosition:
		return fail("has no version")
	case commit > maxPosition || prepare > maxPosition:
		return fail("has no position, as on servers before 22.10")
	case commit != prepare || commit == 0:
		return fail(fmt.Sprintf("is at %d/%d, where no append puts one", commit, prepare))
	case e.EventType == "" || len(e.Data) == 0:
		return fail("has no type or no data")
	}
	var m meta
	if err := domain.Unmarshal(e.UserMetadata, &m); err != nil {
		return fail("has other metadata than the ledger's")
	}
	at, err := time.Parse(timeFormat, m.Time)
	if err != nil {
		return fail("has no time")
	}
	r := ledger.Record{
		Position: e.Position.Commit,
		Stream:   ledger.Stream(stream),
		Version:  e.EventNumber + 1,
		ID:       e.EventID,
		Type:     domain.Type(e.EventType),
		Time:     at,
		Actor:    m.Actor,
		Cause:    ledger.Cause{Command: m.Command, Correlation: m.Correlation},
		Data:     e.Data,
		Hash:     m.Hash,
	}
	if !bytes.Equal(metadata(&r), e.UserMetadata) {
		return fail("has metadata in another form")
	}
	return r, nil
}
