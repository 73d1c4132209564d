package assembly

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A Store is the ledger with all that follows from it, opened to be looked after.
// Other than a [Programme] it needs no secret and no key, and publishes nothing: an
// empty ledger stays empty.
type Store struct {
	Log     ledger.Log
	Catalog domain.Catalog

	programme *Programme
	local     *postgres.Log // nil if the ledger is elsewhere
	runner    *projections.Runner
}

// OpenStore opens the store of a Config. It joins a private database that runs.
func OpenStore(ctx context.Context, c Config, o Options) (s *Store, err error) {
	p := &Programme{config: c, schema: orElse(o.Schema, "mystery"), log: o.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.openDatabase(ctx, o); err != nil {
		return nil, err
	}
	if err := p.openClock(ctx, o.Now); err != nil {
		return nil, err
	}
	if err := p.openLog(o.Now); err != nil { //nolint:contextcheck // a log lives until Close
		return nil, err
	}
	s = &Store{Log: p.ledger, Catalog: commands.Catalog(), programme: p, local: p.local}
	s.runner = &projections.Runner{Log: p.ledger, Catalog: s.Catalog, Pool: p.pool, Projections: projections.All(), Logger: p.log}
	return s, nil
}

// Now returns programme time.
func (s *Store) Now() time.Time { return s.programme.Now() }

// Close ends everything that OpenStore began.
func (s *Store) Close() { s.programme.Close() }

// A Finding is something in a store that is not as the service leaves it.
type Finding struct {
	Check    string        `json:"check"` // records, log, public_log, bodies or read_models
	Position uint64        `json:"position,omitempty"`
	Stream   ledger.Stream `json:"stream,omitempty"`
	Version  uint64        `json:"version,omitempty"`
	Detail   string        `json:"detail"`
}

// A Verification is what came of reading a store again.
type Verification struct {
	Records  uint64    `json:"records"`
	Streams  int       `json:"streams"`
	Position uint64    `json:"position"` // of the last record
	Findings []Finding `json:"findings"` // empty if all is well
}

// Verify reads the whole store again: each record with its chain, its id and whether
// its aggregate can have decided it (package replay), what appends go on from, the
// public log, the bodies beside the ledger that events commit to, and the read models, which are made anew and compared. tell, if not nil, is
// called now and then with how many records were read, and the position of the last one there is,
// 0 if that is not known.
//
// What is found is no error: that is for a store which cannot be read now.
func (s *Store) Verify(ctx context.Context, tell func(records, position, end uint64)) (v Verification, err error) {
	v.Findings = []Finding{}
	found := func(check string, err error) error {
		if !errors.Is(err, ledger.ErrDamaged) && !errors.Is(err, domain.ErrUnknownType) {
			return err
		}
		f := Finding{Check: check, Detail: domain.Sentence(err)}
		if at := new(replay.Fault); errors.As(err, &at) {
			f.Position, f.Stream, f.Version, f.Detail = at.Position, at.Stream, at.Version, domain.Sentence(at.Err)
		}
		v.Findings = append(v.Findings, f)
		return nil
	}
	kept := newBeside()
	r, err := s.replay(ctx, tell, found, kept)
	if err != nil {
		return v, err
	}
	v.Records, v.Streams, v.Position = r.Records(), r.Streams(), r.Position()
	if s.local != nil {
		if err := found("log", s.local.Check(ctx)); err != nil {
			return v, err
		}
	}
	if err := found("public_log", publiclog.Audit(ctx, s.programme.pool)); err != nil {
		return v, err
	}
	if len(v.Findings) > 0 {
		return v, nil // what is made of a damaged log says nothing
	}
	if err := found("bodies", kept.check(ctx, s.Log, &tables.Bodies{Pool: s.programme.pool})); err != nil {
		return v, err
	}
	return v, found("read_models", s.runner.Compare(ctx))
}

// replay reads all records again and holds the public log against them.
func (s *Store) replay(
	ctx context.Context, tell func(records, position, end uint64), found func(string, error) error, kept *beside,
) (*replay.Replay, error) {
	r := replay.New(s.Catalog)
	tree, err := publiclog.Compare(ctx, s.programme.pool)
	if err := found("public_log", err); err != nil {
		return r, err
	}
	var end uint64
	if s.local != nil {
		if end, err = s.local.End(ctx); err != nil {
			return r, err
		}
	}
	for rec, err := range s.Log.After(ctx, 0) {
		if err != nil {
			return r, found("records", fmt.Errorf("behind position %d: %w", r.Position(), err))
		}
		prev := r.Tip(rec.Stream).Hash
		if err := r.Add(rec); err != nil {
			return r, found("records", err)
		}
		if tree != nil {
			if err := tree.Add(ctx, &rec, prev, s.Catalog.Visibility(rec.Type)); err != nil {
				if err := found("public_log", err); err != nil {
					return r, err
				}
				tree = nil
			}
		}
		if err := kept.add(s.Catalog, &rec); err != nil {
			return r, found("records", err)
		}
		if tell != nil && r.Records()%1000 == 0 {
			tell(r.Records(), r.Position(), end)
		}
	}
	if err := r.End(); err != nil {
		return r, found("records", err)
	}
	if tree != nil {
		return r, found("public_log", tree.End(r.Position()))
	}
	return r, nil
}

// A line is a record on its way out of a store and into another.
type line struct {
	Hash   domain.Hash     `json:"hash"`
	Record json.RawMessage `json:"record"` // its canonical form, which is hashed
}

// Export writes every record as a line of JSON, its hash and its canonical form, in
// order. Sealed records are among them: the file is as secret as the database.
func (s *Store) Export(ctx context.Context, w io.Writer) (n uint64, err error) {
	b := bufio.NewWriter(w)
	for r, err := range s.Log.After(ctx, 0) {
		if err != nil {
			return n, err
		}
		buf := append([]byte(`{"hash":"`), r.Hash.String()...)
		buf = append(r.AppendCanonical(append(buf, `","record":`...)), "}\n"...)
		if _, err := b.Write(buf); err != nil {
			return n, err
		}
		n++
	}
	return n, b.Flush()
}

// maxLine bounds a line of an import: far more than any record has.
const maxLine = 16 << 20

// Import fills an empty ledger from what Export wrote, byte for byte, all of it or
// nothing. Each record is checked on the way as Verify does it. It returns an error
// matching [domain.ErrInvalid] that names the line, or [ledger.ErrDamaged], if the
// lines are no ledger.
func (s *Store) Import(ctx context.Context, r io.Reader) (n uint64, err error) {
	if s.local == nil {
		return 0, fmt.Errorf("a ledger is imported into PostgreSQL only; leave MYSTERY_EVENTLOG unset: %w", domain.ErrInvalid)
	}
	return s.local.Import(ctx, checked(s.Catalog, r))
}

// checked yields the records of an export, as long as they are a ledger.
func checked(catalog domain.Catalog, r io.Reader) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		p := replay.New(catalog)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		n := uint64(0)
		fail := func(err error) { yield(ledger.Record{}, fmt.Errorf("line %d: %w", max(n, 1), err)) }
		for lines.Scan() {
			n++
			rec, err := parse(lines.Bytes())
			if err != nil {
				fail(err)
				return
			}
			rec.Position = n
			if err := p.Add(rec); err != nil {
				fail(err)
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			fail(err)
		} else if err := p.End(); err != nil {
			fail(err)
		} else if n == 0 {
			fail(fmt.Errorf("there is no record: %w", domain.ErrInvalid))
		}
	}
}

// parse reads a line. Only the canonical form will do, for nothing else is exported.
func parse(text []byte) (r ledger.Record, err error) {
	var l line
	if err := domain.Unmarshal(text, &l); err != nil {
		return r, fmt.Errorf("this is no exported record: %w: %w", err, domain.ErrInvalid)
	}
	if err := json.Unmarshal(l.Record, &r); err != nil {
		return r, fmt.Errorf("this is no exported record: %w: %w", err, domain.ErrInvalid)
	}
	r.Hash = l.Hash
	if !bytes.Equal(r.AppendCanonical(nil), l.Record) {
		return r, fmt.Errorf("the record is not in its canonical form: %w", domain.ErrInvalid)
	}
	return r, nil
}
