package explorer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

const (
	recordsPerPage = 25
	batchesPerPage = 30
)

// maxIndex bounds the numbers in addresses.
const maxIndex = 1<<53 - 1

// numberIn reads a number in the path of an address.
func numberIn(r *http.Request, parameter string) (uint64, error) {
	text := chi.URLParam(r, parameter)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxIndex || strconv.FormatUint(n, 10) != text {
		return 0, errNoPage
	}
	return n, nil
}

type ledgerPage struct {
	frame

	Head    *publiclog.Head // nil before the first checkpoint
	Note    string
	Records []recordRow
	Older   *uint64 // the index that the older page ends before; nil on the oldest
	Earlier bool
	Batch   *batchRow // the latest
}

// A recordRow is a public record in a list.
type recordRow struct {
	Index uint64
	ledger.Record

	About string // where the page of it is; "" if it has none
}

func rowOf(l publiclog.Leaf) (row recordRow, err error) {
	row.Index = l.Index
	if err = json.Unmarshal(l.Record, &row.Record); err != nil {
		return row, fmt.Errorf("record %d: %w", l.Index, err)
	}
	row.About = pageOfStream(row.Stream)
	return row, nil
}

// pageOfStream is the page about what a stream tells of, "" for none.
func pageOfStream(s ledger.Stream) string {
	kind, id, _ := strings.Cut(string(s), "/")
	switch kind {
	case "agent", "consent", "exam":
		return "/agents/" + strings.TrimPrefix(id, "build:")
	case "plan", "seal", "finding":
		return "/mystery/" + id
	case "shop":
		return "/mystery/shops/" + id
	case "incident":
		return "/incidents/" + id
	case "batch":
		return "/ledger/batches/" + id
	case "programme":
		return "/mystery"
	}
	return ""
}

func (p *Pages) ledger(r *http.Request, f frame, _ projections.Status) (any, error) {
	f.Title = "Ledger"
	f.Description = "The public log behind the programme: every public record, with proofs."
	v := ledgerPage{frame: f}
	batches, err := p.config.Reader.Batches(r.Context(), 0, 1)
	if err != nil {
		return nil, err
	}
	if len(batches) > 0 {
		row := batchRowOf(batches[0])
		v.Batch = &row
	}
	head, err := p.config.Ledger.Head(r.Context())
	if errors.Is(err, domain.ErrNotFound) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	v.Head, v.Note = &head, string(head.Note)
	end := head.Size
	if cursor := r.URL.Query().Get("before"); cursor != "" {
		n, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the address names no record: %w", domain.ErrInvalid)
		}
		end, v.Earlier = min(n, head.Size), true
	}
	from := end - min(end, recordsPerPage)
	leaves, _, err := p.config.Ledger.Leaves(r.Context(), from, int(end-from))
	if err != nil {
		return nil, err
	}
	for i := range leaves {
		row, err := rowOf(leaves[len(leaves)-1-i])
		if err != nil {
			return nil, err
		}
		v.Records = append(v.Records, row)
	}
	if from > 0 {
		v.Older = &from
	}
	return v, nil
}

// maxRecord is how much of a record stands on a page.
const maxRecord = 12 << 10

type recordPage struct {
	frame

	Row   recordRow
	Leaf  publiclog.Leaf
	Proof publiclog.Inclusion
	Note  string
	Text  string
	Cut   bool
	Size  int
	Head  publiclog.Head
	First bool // of its stream
}

func (p *Pages) record(r *http.Request, f frame, _ projections.Status) (any, error) {
	index, err := numberIn(r, "n")
	if err != nil {
		return nil, err
	}
	proof, head, err := p.config.Ledger.Inclusion(r.Context(), index, 0)
	if err != nil {
		return nil, err
	}
	f.Title = fmt.Sprintf("Record %d", index)
	f.Description = "A public record, its hashes, and the proof that it stands in the signed log."
	v := recordPage{frame: f, Leaf: proof.Leaf, Proof: proof, Note: string(head.Note), Head: head, Size: len(proof.Leaf.Record), First: proof.Leaf.Prev.IsZero()}
	if v.Row, err = rowOf(proof.Leaf); err != nil {
		return nil, err
	}
	text := proof.Leaf.Record
	if len(text) > maxRecord {
		text, v.Cut = text[:maxRecord], true
	}
	v.Text = readable(text)
	return v, nil
}

// A batchRow is a batch in a list.
type batchRow struct {
	projections.Batch

	State string
}

func batchRowOf(b projections.Batch) batchRow { return batchRow{b, batchState(b)} }

// batchState says how a batch stands.
func batchState(b projections.Batch) string {
	switch {
	case b.Final:
		return "Attested, final"
	case b.Attested != nil:
		return "Attested"
	case b.Submitted != nil:
		return "Sent to the chain"
	}
	return "Sealed"
}

type batchesPage struct {
	frame

	Batches []batchRow
	Older   uint64 // 0 on the oldest page
	Earlier bool
}

func (p *Pages) batches(r *http.Request, f frame, _ projections.Status) (any, error) {
	f.Title = "Batches"
	f.Description = "The batches that commitments are rolled into, and their attestations on a chain."
	v := batchesPage{frame: f}
	var before uint64
	if cursor := r.URL.Query().Get("before"); cursor != "" {
		n, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil || n > maxIndex {
			return nil, fmt.Errorf("the address names no batch: %w", domain.ErrInvalid)
		}
		before, v.Earlier = n, true
	}
	list, err := p.config.Reader.Batches(r.Context(), before, batchesPerPage+1)
	if err != nil {
		return nil, err
	}
	if len(list) > batchesPerPage {
		list = list[:batchesPerPage]
		v.Older = list[batchesPerPage-1].Batch
	}
	for _, b := range list {
		v.Batches = append(v.Batches, batchRowOf(b))
	}
	return v, nil
}

type batchPage struct {
	frame

	Batch    batchRow
	ID       domain.Hash
	Attested *batch.Attested
}

func (p *Pages) batch(r *http.Request, f frame, _ projections.Status) (any, error) {
	n, err := numberIn(r, "n")
	if err != nil || n == 0 {
		return nil, errNoPage
	}
	b, err := p.config.Reader.Batch(r.Context(), n)
	if err != nil {
		return nil, err
	}
	f.Title = fmt.Sprintf("Batch %d", n)
	f.Description = "A batch of commitments, its root, and its attestation on a chain."
	return batchPage{frame: f, Batch: batchRowOf(b), ID: b.ID(), Attested: b.Attested}, nil
}
