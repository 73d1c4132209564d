// Package replay reads a ledger again from its first record and tells whether it is
// one that the service can have written.
//
// # What is checked
//
// Of every record: that it stands behind the one before in the log and in its
// stream, that its hash follows from its bytes and the chain of its stream, that its
// id follows from its command, that its type is in the catalog and its data is the
// canonical form of an event of that type.
//
// Of every append, the records of one command: that the aggregate, in the state that
// the records before lead to, can have decided just these events.
//
// Between streams: that a shop stands under its own name and commits to what the
// plan of its day sealed, and that its reveal carries the sealed records of its stream
// byte for byte, with the result that these come to; that each batch follows on the one
// before, and holds just the commits of the public log from there on; that what is paid
// for tasks keeps the limits of their consent, for each and for a month; that an incident
// follows from a confirmed finding on its consent, that who signed for it or for a
// correction was a maintainer then and not retired, and that its disclosure carries the sealed records of its
// stream byte for byte; that who replied to a finding had given the consent; that what a
// producer wrote carries the signature of a key that was registered for it at that place
// in the log, was allowed to it, and stands there once.
//
// # What is not
//
// What only the world knows: what hosts, registries and contract wallets answered, and
// whose host a copy of an agent was attacked at.
// Nor whether the end of the log was cut off, which the public log tells; and plans
// and marks are not made again from their keys, which package verify does.
package replay

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// A Fault is the first place in a ledger where it is not as appends leave it. It
// matches [ledger.ErrDamaged].
type Fault struct { //nolint:errname // it is the fault of the ledger, found as it should be
	Position uint64
	Stream   ledger.Stream
	Version  uint64
	Err      error // what is wrong there
}

func (f *Fault) Error() string {
	return fmt.Sprintf("the ledger at position %d, version %d of %s: %s", f.Position, f.Version, f.Stream, domain.Sentence(f.Err))
}

// Unwrap returns what f matches.
func (f *Fault) Unwrap() []error { return []error{ledger.ErrDamaged, f.Err} }

// A Tip is the last record of a stream.
type Tip struct {
	Version uint64
	Hash    domain.Hash
}

// A Replay is a ledger as far as it has been read. The memory that it takes grows
// with the number of streams and of commits, not with that of records. It is for one
// goroutine.
type Replay struct {
	catalog   domain.Catalog
	position  uint64
	records   uint64
	streams   map[ledger.Stream]*stream
	plans     map[string]*plans // by consent
	batches   batches
	purses    map[string]*purse               // by consent
	producers map[string]*producers           // by id
	signed    map[producer.Signature]struct{} // of events of producers

	consequences consequences

	run   run
	fault error
}

// A stream is what is known of one of them.
type stream struct {
	tip       Tip
	aggregate aggregate // nil until its first append is whole
}

// A run is what was read of an append: its records stand together.
type run struct {
	first   ledger.Record
	last    ledger.Record
	events  []domain.Event
	records []ledger.Record // of events
}

// New returns the Replay of a ledger of which nothing has been read.
func New(catalog domain.Catalog) *Replay {
	return &Replay{
		catalog: catalog, streams: make(map[ledger.Stream]*stream), plans: make(map[string]*plans), purses: make(map[string]*purse),
		producers: make(map[string]*producers), signed: make(map[producer.Signature]struct{}),
		batches: batches{states: make(map[uint64]*batch.State), known: make(map[domain.Hash]struct{})},
		consequences: consequences{
			granted: make(map[string]consent.Terms), found: make(map[string]map[int]found),
		},
	}
}

// Records returns how many records have been read.
func (p *Replay) Records() uint64 { return p.records }

// Position returns that of the last record that has been read.
func (p *Replay) Position() uint64 { return p.position }

// Streams returns how many streams there are.
func (p *Replay) Streams() int { return len(p.streams) }

// Tip returns the last record of a stream, the zero Tip for one that does not exist.
func (p *Replay) Tip(s ledger.Stream) Tip {
	if known := p.streams[s]; known != nil {
		return known.tip
	}
	return Tip{}
}

// Add reads the next record, in the order of the log. It returns a [Fault] if the
// record is wrong, or the append before it: that one was not whole until now. After
// that the Replay is of no more use.
func (p *Replay) Add(r ledger.Record) error {
	if p.fault == nil {
		p.fault = p.add(r)
	}
	return p.fault
}

// End checks the last append. There must not be more.
func (p *Replay) End() error {
	if p.fault == nil {
		p.fault = p.finish()
	}
	return p.fault
}

func (p *Replay) add(r ledger.Record) error {
	goesOn := len(p.run.events) > 0 && p.run.last.Stream == r.Stream && p.run.last.Cause.Command == r.Cause.Command
	if !goesOn {
		if err := p.finish(); err != nil {
			return err
		}
		p.run = run{first: r}
	}
	e, err := p.check(&r)
	if err != nil {
		return &Fault{r.Position, r.Stream, r.Version, err}
	}
	p.run.last = r
	p.run.events = append(p.run.events, e)
	p.run.records = append(p.run.records, r)
	p.position = r.Position
	p.records++
	return nil
}

// check looks at one record and returns its event.
func (p *Replay) check(r *ledger.Record) (domain.Event, error) {
	s := p.streams[r.Stream]
	if s == nil {
		s = new(stream)
		p.streams[r.Stream] = s
	}
	switch first := p.run.first; {
	case r.Position <= p.position:
		return nil, bad("it stands behind position %d", p.position)
	case r.Version != s.tip.Version+1:
		return nil, bad("it stands behind version %d of its stream", s.tip.Version)
	case r.ChainHash(s.tip.Hash) != r.Hash:
		return nil, bad("its hash is not that of its bytes behind those before it")
	case r.Cause.Command == "":
		return nil, bad("it names no command")
	case r.ID != ledger.EventID(r.Stream, r.Cause.Command, len(p.run.events)):
		return nil, bad("its id is not that of event %d of command %s", len(p.run.events), r.Cause.Command)
	case r.Actor != first.Actor, r.Cause != first.Cause:
		return nil, bad("it has another actor or cause than the events before it of the same command")
	}
	e, err := p.catalog.Decode(r.Type, r.Data)
	if err != nil {
		return nil, err
	}
	if e.EventType() == r.Type { // an older shape is encoded no more
		canonical, err := domain.Encode(e)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(canonical, r.Data) {
			return nil, bad("its data is not the canonical form of the event")
		}
	}
	if fromProducer(e) {
		if err := p.vouched(r, e); err != nil {
			return nil, err
		}
	}
	s.tip = Tip{r.Version, r.Hash}
	if p.catalog.Visibility(r.Type) == domain.Public {
		p.batches.count(e)
	}
	return e, nil
}

// vouched checks that the event of a record is its producer's. Its signature stands
// there once: who has the log can copy it, and nothing else.
func (p *Replay) vouched(r *ledger.Record, e domain.Event) error {
	source, _ := e.(producer.Source)
	signed := source.Proof()
	if _, twice := p.signed[signed.Signature]; twice {
		return bad("the signature of its producer stands in the log before")
	}
	p.signed[signed.Signature] = struct{}{}
	if actor := producer.Actor(signed.Producer); r.Actor != actor {
		return bad("its actor is %s, and it is signed by %s", r.Actor, actor)
	}
	return producer.Verify(p.producer, r.Stream, r.Type, r.Data, r.Time)
}

// finish checks the append that was read.
func (p *Replay) finish() error {
	if len(p.run.events) == 0 {
		return nil
	}
	s := p.streams[p.run.first.Stream]
	if s.aggregate == nil {
		s.aggregate = p.aggregate(p.run.first.Stream)
	}
	err := s.aggregate.add(p.run.events, p.run.records)
	if err == nil {
		p.run = run{}
		return nil
	}
	at := p.run.first
	if f := new(misfit); errors.As(err, &f) {
		at = p.run.records[f.index]
	}
	return &Fault{at.Position, at.Stream, at.Version, err}
}

// A misfit says which of the events of an append is wrong.
type misfit struct {
	index int
	err   error
}

func (m *misfit) Error() string { return m.err.Error() }
func (m *misfit) Unwrap() error { return m.err }

func bad(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}
