// Package kurrentdb keeps the ledger in EventStoreDB, which is called KurrentDB
// since its version 25, on one node or a cluster.
//
// # Layout
//
// A stream of the ledger is a stream there, its name behind a prefix, and version v
// is revision v-1. An event carries the record's id, its type, and as data the
// canonical JSON of the event, byte for byte. The rest stands in its metadata, as
// the canonical JSON of
//
//	{actor, command, correlation, hash, time}
//
// with the hash in hexadecimal and the time as in a record. What is read must have
// just this form: anything else is damage, and reading ends there with an error.
//
// # Order
//
// The position of a record is the place of its event in the log of the database,
// which a committed event never changes. EventStoreDB writes it as two numbers, of
// the commit and of the write itself. They differ only in transactions that span
// calls or streams, which this package never makes; it checks that they are equal,
// so that the one number of a record is the whole position. Readers see only what a
// majority of the nodes has, in the order of the log: nothing can appear before what
// was seen. Every call demands the leader, so that each sees what was acknowledged.
//
// # Appends
//
// The hash of a record follows from the one before it, so an append first reads what
// its stream holds up to the expected version, as far as this Log has not read it
// already: that part of a stream never changes. The append itself then states the
// revision it expects. A server that has events of the same ids at that place
// answers as if it had just written them, which makes every append repeatable.
//
// # Faults
//
// The client library has faults that its users must know. A client whose attempts
// to connect have failed a few times is dead for ever; calls that wait for it then
// hang, whatever their contexts say; connections are left open; a subscription that
// broke stays broken; the leader is not demanded; settings that it does not know, or
// cannot read, are passed over. Here each client serves one call at a time and is
// dropped at the first sign of trouble, so that none is ever waited for in vain;
// calls are repeated until an operation's patience ends; subscriptions are made again
// at the place they reached; what a connection string says is checked first. One
// fault remains: a server that sends an event without the time of its creation ends
// the process. Servers always send it.
//
// Servers must be of version 22.10 or later: older ones do not tell the position of
// what is read from a stream. The user must be allowed to read $all, as by default
// administrators alone are, and to write to streams behind the prefix.
package kurrentdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

var _ ledger.Log = (*Log)(nil)

// Options change how a [Log] works. Only Now is required.
type Options struct {
	// Now returns the time of a record. The database cannot give it, for the time
	// is hashed before the record is sent there.
	Now func() time.Time

	// Prefix is what the names of the ledger's streams begin with in the database;
	// "mystery-" if empty. Nothing else there may begin with it.
	Prefix string

	// MaxAppend is the MaxAppendSize of the servers in bytes; 1 MiB if zero, which
	// is what they come with. Larger appends are refused before they are sent.
	MaxAppend int

	// Connections is how many calls there are at a time at most, each on a
	// connection of its own; 8 if zero.
	Connections int

	// Deadline is how long one call of a server may take; 10 seconds if zero.
	Deadline time.Duration

	// Patience is how long an append, or the reading of a page, is tried again
	// while no server answers; 30 seconds if zero.
	Patience time.Duration
}

// A Log is a [ledger.Log] in EventStoreDB. Several may share a database.
//
// While the database is away, operations wait for it up to their patience and then
// return errors of the kind [domain.ErrUnavailable]; once it is back, the Log works
// on.
type Log struct {
	now       func() time.Time
	prefix    string
	maxAppend int
	deadline  time.Duration
	patience  time.Duration
	clients   *pool
	histories histories
}

// New returns a Log in the database that a connection string names, such as
// esdb://one:2113,two:2113,three:2113 or esdb+discover://cluster.example. It
// refuses a string that the client library would misread, with an error matching
// [domain.ErrInvalid]. It does not connect yet. Close it in the end.
func New(url string, o Options) (*Log, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	l := &Log{
		now:       o.Now,
		prefix:    o.Prefix,
		maxAppend: o.MaxAppend,
		deadline:  o.Deadline,
		patience:  o.Patience,
	}
	if l.now == nil {
		return nil, fmt.Errorf("open the log in EventStoreDB without a clock: %w", domain.ErrInvalid)
	}
	if l.prefix == "" {
		l.prefix = "mystery-"
	}
	if strings.HasPrefix(l.prefix, "$") || !utf8.ValidString(l.prefix) {
		return nil, fmt.Errorf("the prefix %q of streams in EventStoreDB begins with $ or is not UTF-8: %w", l.prefix, domain.ErrInvalid)
	}
	if l.maxAppend == 0 {
		l.maxAppend = 1 << 20
	}
	if l.deadline == 0 {
		l.deadline = 10 * time.Second
	}
	if l.patience == 0 {
		l.patience = 30 * time.Second
	}
	connections := o.Connections
	if connections == 0 {
		connections = 8
	}
	l.clients = newPool(config, connections)
	return l, nil
}

// Close closes the connections, each after the call it serves. Later calls return
// errors of the kind [domain.ErrUnavailable].
func (l *Log) Close() { l.clients.close() }

// Append implements [ledger.Log]. If ctx ends while the append is under way,
// Append returns at once, and the outcome is unknown. It is unknown as well after an
// error of the kind [domain.ErrUnavailable].
func (l *Log) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	records, err := ledger.Prepare(s, m, events...)
	if err != nil {
		return err
	}
	if err := l.append(ctx, s, version, records); err != nil {
		return fmt.Errorf("append to %s at %d: %w", s, version, err)
	}
	return nil
}

func (l *Log) append(ctx context.Context, s ledger.Stream, version uint64, records []ledger.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	waiting, cancel := l.wait(ctx)
	defer cancel()
	before, err := l.before(waiting, s, version, records[0].ID) // the records of a command stand together: its first suffices
	if err != nil {
		return err
	}
	switch actual := before.length; {
	case actual < version:
		return fmt.Errorf("it is at %d: %w", actual, ledger.ErrConflict)
	case before.command:
		if actual, err = l.length(waiting, s); err != nil {
			return err
		}
		return fmt.Errorf("the command %s is in the log, and the stream is at %d: %w", records[0].Cause.Command, actual, ledger.ErrConflict)
	}
	prev, now := before.hash, l.now()
	for i := range records {
		records[i].Link(prev, version+uint64(i)+1, now)
		prev = records[i].Hash
	}
	proposed, err := l.propose(records)
	if err != nil {
		return err
	}
	expected := esdb.ExpectedRevision(esdb.NoStream{})
	if version > 0 {
		expected = esdb.StreamRevision{Value: version - 1}
	}
	_, err = insist(waiting, l.clients, func(ctx context.Context, c *esdb.Client) (*esdb.WriteResult, error) {
		return c.AppendToStream(ctx, l.prefix+string(s), esdb.AppendToStreamOptions{ExpectedRevision: expected, Deadline: &l.deadline}, proposed...)
	})
	if isCode(err, esdb.ErrorCodeWrongExpectedVersion) {
		return l.settle(waiting, s, version, records)
	}
	return err
}

// settle gives the verdict on an append that the server refused for the stream's
// revision. A server that has lost sight of an earlier try, as may happen when the
// leader changes, refuses the repetition: then the records stand at their place.
func (l *Log) settle(ctx context.Context, s ledger.Stream, version uint64, records []ledger.Record) error {
	actual, err := l.length(ctx, s)
	if err != nil {
		return err
	}
	if end := version + uint64(len(records)); actual >= end {
		stored, err := l.readStream(ctx, s, version, end-version)
		if err != nil {
			return err
		}
		same := len(stored.records) == len(records)
		for i := range stored.records {
			same = same && stored.records[i].ID == records[i].ID
		}
		if same {
			return nil
		}
	}
	return fmt.Errorf("it is at %d: %w", actual, ledger.ErrConflict)
}

// length returns how many records a stream holds.
func (l *Log) length(ctx context.Context, s ledger.Stream) (uint64, error) {
	p, err := l.fetch(ctx, 1, func(ctx context.Context, c *esdb.Client) (*esdb.ReadStream, error) {
		options := esdb.ReadStreamOptions{Direction: esdb.Backwards, From: esdb.End{}, Deadline: &l.deadline}
		return c.ReadStream(ctx, l.prefix+string(s), options, 1)
	})
	if err != nil || len(p.events) == 0 {
		return 0, err
	}
	last, err := l.decode(p.events[0])
	return last.Version, err
}

// propose returns records as the client takes them, unless they are too large for
// the server: the client would report that like a broken connection.
func (l *Log) propose(records []ledger.Record) ([]esdb.EventData, error) {
	proposed := make([]esdb.EventData, len(records))
	size := 0
	for i := range records {
		proposed[i] = encode(&records[i])
		size += len(proposed[i].Data) + len(proposed[i].Metadata) + 2*len(proposed[i].EventType)
	}
	if size > l.maxAppend {
		return nil, fmt.Errorf("%d bytes at once, and EventStoreDB takes %d; split the command or raise MaxAppendSize: %w", size, l.maxAppend, domain.ErrInvalid)
	}
	return proposed, nil
}

// errNoAnswer ends an operation whose patience is over.
var errNoAnswer = errors.New("no answer in time")

// wait returns a context in which an operation is tried again, and that ends with
// its patience.
func (l *Log) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.patience, errNoAnswer)
}

// maxPosition is the last position there can be: servers count in signed numbers.
const maxPosition = math.MaxInt64
