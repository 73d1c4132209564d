package kurrentdb

import (
	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain/ledger"
)

var Encode = encode

func (l *Log) Decode(e *esdb.RecordedEvent) (ledger.Record, error) { return l.decode(e) }
