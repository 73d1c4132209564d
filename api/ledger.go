package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file serves the public log: below /ledger as C2SP tlog-tiles, for the clients
// and witnesses of any such log, and below /v1/ledger the records themselves and
// proofs in JSON.

// ledgerRoot is the path of the JSON.
const ledgerRoot = "/v1/ledger"

// plainText is the media type of notes and proofs as text.
const plainText = "text/plain; charset=utf-8"

func (s *server) registerLedger(api huma.API) {
	s.router.Get("/ledger/checkpoint", s.serveCheckpoint)
	s.router.Get("/ledger/key", s.serveLedgerKey)
	s.router.Get("/ledger/tile/*", s.serveTile)

	huma.Register(api, getLedger("get-ledger", "", "The latest checkpoint of the public log"), s.getLedger)
	huma.Register(api, getLedger("list-ledger-records", "/records", "The public records, in the order of the log"), s.listRecords)
	huma.Register(api, getLedger("get-ledger-record", "/records/{index}", "One public record"), s.getRecord)
	huma.Register(api, getLedger("list-ledger-stream", "/streams/{category}/{id}", "The public records of a stream, such as consent/build:42"), s.listStream)
	huma.Register(api, getLedger("list-ledger-single-stream", "/streams/{category}", "The public records of a stream without an id, such as programme"),
		func(ctx context.Context, in *singleStreamInput) (*leavesOutput, error) {
			return s.listStream(ctx, &streamInput{Category: in.Category, StreamPage: in.StreamPage})
		})
	huma.Register(api, s.inclusionOperation(api), s.proveInclusion)
	huma.Register(api, getLedger("prove-ledger-consistency", "/proofs/consistency", "The proof that the log has only grown from one size to another (RFC 6962)"), s.proveConsistency)
}

func getLedger(id, path, summary string) huma.Operation {
	op := get(id, "", summary, http.StatusNotFound)
	op.Path, op.Tags = ledgerRoot+path, []string{"ledger"}
	return op
}

// failLedger is [server.fail] where numbers that contradict each other are a request
// that cannot be read.
func (s *server) failLedger(ctx context.Context, err error) error {
	if errors.Is(err, domain.ErrInvalid) && !errors.Is(err, publiclog.ErrDamaged) {
		return newProblem(ctx, http.StatusBadRequest, domain.Sentence(err))
	}
	if errors.Is(err, publiclog.ErrDamaged) {
		err = fmt.Errorf("%v", err) //nolint:errorlint // whatever else it is, it is our failure
	}
	return s.fail(ctx, err)
}

// refuseLedger answers with the problem of an error, outside of huma.
func (s *server) refuseLedger(w http.ResponseWriter, r *http.Request, err error) {
	p := new(Problem)
	if !errors.As(s.failLedger(r.Context(), err), &p) {
		p = newProblem(r.Context(), http.StatusInternalServerError, "")
	}
	writeProblem(w, p)
}

// serveCheckpoint answers with the signed note. It may be kept for a moment: nobody
// is told an older one for longer.
func (s *server) serveCheckpoint(w http.ResponseWriter, r *http.Request) {
	h, err := s.Ledger.Head(r.Context())
	if err != nil {
		s.refuseLedger(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=5")
	w.Header().Set("Content-Type", plainText)
	_, _ = w.Write(h.Note) // the client may be gone
}

func (s *server) serveLedgerKey(w http.ResponseWriter, r *http.Request) {
	h, err := s.Ledger.Head(r.Context())
	if err != nil {
		s.refuseLedger(w, r, err)
		return
	}
	writeText(w, h.Key+"\n")
}

// serveTile answers with the bytes of a tile, which never change.
func (s *server) serveTile(w http.ResponseWriter, r *http.Request) {
	tile, err := publiclog.ParseTile(strings.TrimPrefix(r.URL.Path, "/ledger/"))
	if err != nil {
		s.refuseLedger(w, r, err)
		return
	}
	data, err := s.Ledger.Tile(r.Context(), tile)
	if err != nil {
		s.refuseLedger(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(data) //nolint:gosec // hashes, in a type that no browser renders; the client may be gone
}

// A Sized answer says as of when it is: every one below /v1/ledger does.
type Sized struct {
	Size uint64 `header:"Ledger-Size" doc:"How many public records the latest published checkpoint covers. Whatever is answered is as of that checkpoint."`
}

type ledgerOutput struct {
	Sized
	Body struct {
		Origin     string      `json:"origin" doc:"The name of the log, which is that of its key."`
		Size       uint64      `json:"size" doc:"How many public records there are."`
		Root       domain.Hash `json:"root" doc:"Root of the RFC 6962 tree over their hashes."`
		Checkpoint string      `json:"checkpoint" doc:"Origin, size and root, signed: C2SP tlog-checkpoint, with the cosignatures of witnesses if there are any."`
		VKey       string      `json:"vkey" doc:"The public key of the log, as C2SP signed-note writes it. Compare it with one that you got elsewhere."`
	}
}

func (s *server) getLedger(ctx context.Context, _ *struct{}) (*ledgerOutput, error) {
	h, err := s.Ledger.Head(ctx)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out := &ledgerOutput{Sized: Sized{h.Size}}
	out.Body.Origin, out.Body.Size, out.Body.Root, out.Body.Checkpoint, out.Body.VKey = h.Origin, h.Size, h.Root, string(h.Note), h.Key
	return out, nil
}

// A LedgerRecord is a public record with what it takes to find it in the tree:
//
//	hash     = SHA-256(enc("karatum/ledger/record/v1", prevHash) ‖ the bytes of record)
//	leafHash = SHA-256(0x00 ‖ hash)
type LedgerRecord struct {
	Index    uint64          `json:"index" doc:"Its place among all public records, from 0 on."`
	PrevHash domain.Hash     `json:"prevHash" doc:"Hash of the record before it in its stream, which may be one that is not opened yet; zeros for the first."`
	Hash     domain.Hash     `json:"hash" doc:"SHA-256 over 00000018, karatum/ledger/record/v1, the 32 bytes of prevHash, and the bytes of record as they stand here."`
	LeafHash domain.Hash     `json:"leafHash" doc:"SHA-256 over a zero byte and the 32 bytes of hash."`
	Record   json.RawMessage `json:"record" doc:"Canonical JSON (RFC 8785), byte for byte as hashed: actor, cause, data, id, stream, time, type, version."`
}

func recordOf(l publiclog.Leaf) LedgerRecord {
	return LedgerRecord{Index: l.Index, PrevHash: l.Prev, Hash: l.Hash, LeafHash: l.LeafHash(), Record: l.Record}
}

type recordsInput struct {
	From  uint64 `query:"from" minimum:"0" maximum:"4611686018427387904" default:"0" doc:"The first index."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type leavesOutput struct {
	Sized
	Link string `header:"Link" doc:"The next page (RFC 8288); absent on the last one."`
	Body struct {
		Items []LedgerRecord `json:"items"`
	}
}

func leavesOf(leaves []publiclog.Leaf, h publiclog.Head) *leavesOutput {
	out := &leavesOutput{Sized: Sized{h.Size}}
	out.Body.Items = make([]LedgerRecord, len(leaves))
	for i, l := range leaves {
		out.Body.Items[i] = recordOf(l)
	}
	return out
}

// fromLink is the Link header to the page that begins at from.
func fromLink(path string, from uint64, limit int) string {
	q := url.Values{"from": {strconv.FormatUint(from, 10)}, "limit": {strconv.Itoa(limit)}}
	return fmt.Sprintf(`<%s%s?%s>; rel="next"`, ledgerRoot, path, q.Encode())
}

func (s *server) listRecords(ctx context.Context, in *recordsInput) (*leavesOutput, error) {
	leaves, h, err := s.Ledger.Leaves(ctx, in.From, in.Limit)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out := leavesOf(leaves, h)
	if end := in.From + uint64(len(leaves)); end < h.Size && len(leaves) > 0 {
		out.Link = fromLink("/records", end, in.Limit)
	}
	return out, nil
}

type recordInput struct {
	Index uint64 `path:"index" minimum:"0" maximum:"4611686018427387904"`
}

type recordOutput struct {
	Sized
	Body LedgerRecord
}

func (s *server) getRecord(ctx context.Context, in *recordInput) (*recordOutput, error) {
	l, h, err := s.Ledger.Leaf(ctx, in.Index)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	return &recordOutput{Sized{h.Size}, recordOf(l)}, nil
}

// A StreamPage picks records of a stream.
type StreamPage struct {
	From  uint64 `query:"from" minimum:"0" maximum:"4611686018427387904" default:"0" doc:"The first version. Versions of records that are not public are left out."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type streamInput struct {
	Category string `path:"category" maxLength:"40" example:"consent"`
	ID       string `path:"id" maxLength:"400" example:"build:42"`
	StreamPage
}

type singleStreamInput struct {
	Category string `path:"category" maxLength:"40" example:"programme"`
	StreamPage
}

func (s *server) listStream(ctx context.Context, in *streamInput) (*leavesOutput, error) {
	path := in.Category
	if in.ID != "" {
		path += "/" + in.ID
	}
	name, err := url.PathUnescape(path) // the router leaves that to us
	if err != nil || strings.ContainsRune(name, 0) {
		return nil, newProblem(ctx, http.StatusBadRequest, "the name of the stream cannot be read")
	}
	leaves, h, err := s.Ledger.Stream(ctx, ledger.Stream(name), in.From, in.Limit)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out := leavesOf(leaves, h)
	if len(leaves) == in.Limit {
		var last ledger.Record
		if err := json.Unmarshal(leaves[len(leaves)-1].Record, &last); err != nil {
			return nil, s.failLedger(ctx, err)
		}
		out.Link = fromLink("/streams/"+(&url.URL{Path: name}).EscapedPath(), last.Version+1, in.Limit)
	}
	return out, nil
}

type inclusionInput struct {
	Index  uint64 `query:"index" required:"true" minimum:"0" maximum:"4611686018427387904"`
	Size   uint64 `query:"size" minimum:"1" maximum:"4611686018427387904" doc:"Among how many first records. Without it, among all that the latest checkpoint covers."`
	Accept string `header:"Accept" doc:"text/plain for c2sp.org/tlog-proof@v1, which holds for sizes that have a checkpoint."`
}

// An InclusionProof says that a record is one of the first Size of the log.
type InclusionProof struct {
	Index      uint64        `json:"index"`
	Size       uint64        `json:"size"`
	Hash       domain.Hash   `json:"hash" doc:"Of the record."`
	LeafHash   domain.Hash   `json:"leafHash"`
	Path       []domain.Hash `json:"path" doc:"Sibling hashes, those of leaves first (RFC 6962, section 2.1.1)."`
	Root       domain.Hash   `json:"root" doc:"Of the tree of that size."`
	Checkpoint string        `json:"checkpoint,omitempty" doc:"The signed checkpoint of that size, if one was published."`
}

type inclusionOutput struct {
	Sized
	ContentType string `header:"Content-Type"`
	Vary        string `header:"Vary"`
	Body        []byte
}

func (s *server) inclusionOperation(api huma.API) huma.Operation {
	op := getLedger("prove-ledger-inclusion", "/proofs/inclusion", "The proof that a record is in the log")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "OK",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[InclusionProof](), true, "InclusionProof")},
			plainText:          {Schema: &huma.Schema{Type: huma.TypeString, Description: "c2sp.org/tlog-proof@v1"}},
		},
	}}
	return op
}

func (s *server) proveInclusion(ctx context.Context, in *inclusionInput) (*inclusionOutput, error) {
	p, h, err := s.Ledger.Inclusion(ctx, in.Index, in.Size)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out := &inclusionOutput{Sized: Sized{h.Size}, Vary: "Accept"}
	if prefersText(in.Accept) {
		if p.Note == nil {
			return nil, newProblem(ctx, http.StatusNotFound,
				fmt.Sprintf("no checkpoint of %d records was published, and a proof as text carries one; ask without a size", p.Size))
		}
		out.ContentType = plainText
		out.Body = checkpoint.Proof{Index: in.Index, Path: p.Path, Note: p.Note}.Text()
		return out, nil
	}
	out.ContentType = "application/json"
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(InclusionProof{
		Index: in.Index, Size: p.Size, Hash: p.Leaf.Hash, LeafHash: p.Leaf.LeafHash(), Path: p.Path, Root: p.Root, Checkpoint: string(p.Note),
	}); err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out.Body = body.Bytes()
	return out, nil
}

// prefersText reports whether an Accept header names text/plain before JSON.
func prefersText(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/plain":
			return true
		case "application/json":
			return false
		}
	}
	return false
}

type consistencyInput struct {
	From uint64 `query:"from" required:"true" minimum:"0" maximum:"4611686018427387904"`
	To   uint64 `query:"to" minimum:"1" maximum:"4611686018427387904" doc:"Without it, the size of the latest checkpoint."`
}

type consistencyOutput struct {
	Sized
	Body struct {
		From       uint64        `json:"from"`
		To         uint64        `json:"to"`
		FromRoot   domain.Hash   `json:"fromRoot"`
		ToRoot     domain.Hash   `json:"toRoot"`
		Path       []domain.Hash `json:"path" doc:"Empty if from is 0, which every log continues, or to (RFC 6962, section 2.1.2)."`
		Checkpoint string        `json:"checkpoint,omitempty" doc:"The signed checkpoint of the larger size, if one was published."`
	}
}

func (s *server) proveConsistency(ctx context.Context, in *consistencyInput) (*consistencyOutput, error) {
	p, h, err := s.Ledger.Consistency(ctx, in.From, in.To)
	if err != nil {
		return nil, s.failLedger(ctx, err)
	}
	out := &consistencyOutput{Sized: Sized{h.Size}}
	b := &out.Body
	b.From, b.To, b.FromRoot, b.ToRoot, b.Path, b.Checkpoint = p.From, p.To, p.FromRoot, p.ToRoot, p.Path, string(p.Note)
	return out, nil
}
