package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/api/accept"
)

// This file gives whole lists, under the same filters as their pages: as CSV (RFC 4180)
// for people with a spreadsheet, and as lines of JSON for programs. A whole list is made
// from its pages, one after the other, so it costs no more memory than one of them, and
// a line of JSON is an item as it stands on its page.

// Formats of lists. The empty one is JSON, page by page.
const (
	formatJSON   = "json"
	formatCSV    = "csv"
	formatNDJSON = "ndjson"
)

var mediaTypes = map[string]string{formatCSV: "text/csv; charset=utf-8", formatNDJSON: "application/x-ndjson"}

// A list is a path that answers with pages of items.
type list struct {
	name    string   // of the file that a whole one is saved in
	page    int      // the most items of a page
	columns []string // of its CSV: names of fields, with dots into objects
}

// lists are all there are, by the template of their path. Every operation called list-…
// is one of them.
var lists = map[string]list{
	root + "/consents": {"consents", 100, []string{
		"id", "demo", "agent", "owner", "state", "cause", "reason", "grantedAt", "refusedAt", "overAt", "firstDate", "lastDate", "url",
	}},
	root + "/consents/{id}/days": {"days", 30, []string{
		"day", "date", "planned", "sealedAt", "eligibleHash", "opened.at", "opened.key", "opened.cap", "opened.count",
	}},
	root + "/consents/{id}/shops": {"shops", 240, []string{
		"id", "demo", "consent", "day", "slot", "phase", "commit", "task.template", "task.family", "task.endpoint", "task.sendAt", "task.state",
		"task.outcome", "task.latencyMs", "task.revealedAt",
	}},
	root + "/findings": {"findings", 100, []string{
		"id", "demo", "at", "consent", "agent", "cycle", "date", "look", "verdict", "gatedVerdict", "exam", "field", "test", "p", "drop", "detectableDrop", "logE",
		"pAlways", "note", "corrections",
	}},
	root + "/incidents": {"incidents", 100, []string{
		"id", "demo", "agent", "consent", "finding", "detector", "class", "severity", "triage", "state", "disclosedAt", "text", "recalled", "closed", "corrections",
	}},
	root + "/agents": {"agents", 100, []string{
		"agent", "demo", "registeredAt", "spotChecks", "consent", "latestFinding.id", "latestFinding.at", "latestFinding.verdict", "latestFinding.gatedVerdict",
		"latestFinding.corrected",
	}},
	ledgerRoot + "/batches": {"batches", 100, []string{
		"batch", "state", "sealedAt", "chain", "schema", "batchId", "root", "count", "previousRoot", "from", "to", "logSize", "logRoot",
		"attestation.uid", "attestation.tx", "attestation.block", "attestation.time", "attestation.final",
	}},
	ledgerRoot + "/records":                 {"records", 1000, recordColumns},
	ledgerRoot + "/streams/{category}":      {"stream", 1000, recordColumns},
	ledgerRoot + "/streams/{category}/{id}": {"stream", 1000, recordColumns},
	ledgerRoot + "/shield/cases": {"shield-cases", 100, []string{
		"case", "demo", "agent", "producer", "suite", "suiteVersion", "class", "technique", "stage", "attempts", "outcome", "openedAt", "index",
	}},
	ledgerRoot + "/sessions": {"sessions", 100, []string{
		"session", "demo", "agent", "producer", "kind", "selfReported", "parent", "openedAt", "actions", "denied", "closed", "index",
	}},
}

var recordColumns = []string{
	"index", "record.id", "record.time", "record.stream", "record.version", "record.type", "record.actor", "prevHash", "hash", "leafHash", "record.data",
}

// export answers with a whole list who asks for one, by ?format= or by Accept.
func (s *server) export(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, ok := s.listAt(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Accept")
		q := r.URL.Query()
		format := formatOf(r.Header, q)
		q.Del("format")
		switch {
		case format == formatJSON:
			next.ServeHTTP(w, withQuery(r, q))
		case mediaTypes[format] == "":
			s.turnAway(w, r, newProblem(r.Context(), http.StatusUnprocessableEntity, "format is json, csv or ndjson"))
		case q.Has("limit"):
			s.turnAway(w, r, newProblem(r.Context(), http.StatusUnprocessableEntity, "a whole list has no limit; leave it out, or ask for pages of JSON"))
		default:
			q.Set("limit", strconv.Itoa(l.page))
			e := exporter{s: s, list: l, format: format, w: w, pages: next}
			e.run(withQuery(r, q))
		}
	})
}

// listAt returns the list that a request reads.
func (s *server) listAt(r *http.Request) (l list, ok bool) {
	c := chi.NewRouteContext()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !s.router.Match(c, http.MethodGet, cmp.Or(r.URL.RawPath, r.URL.Path)) {
		return l, false
	}
	l, ok = lists[c.RoutePattern()]
	return l, ok
}

// formatOf returns what a list is asked for as. What is named in the query goes first.
func formatOf(h http.Header, q url.Values) string {
	if q.Has("format") {
		return q.Get("format")
	}
	best, most := formatJSON, accept.Weight(h, "Accept", "application/json")
	for _, f := range []struct{ name, media string }{{formatCSV, "text/csv"}, {formatNDJSON, "application/x-ndjson"}} {
		if weight := accept.Weight(h, "Accept", f.media); weight > most {
			best, most = f.name, weight
		}
	}
	return best
}

// withQuery returns a request for the same path with another query, to be routed anew.
func withQuery(r *http.Request, q url.Values) *http.Request {
	c := chi.NewRouteContext()
	c.Routes = chi.RouteContext(r.Context()).Routes
	r = r.Clone(context.WithValue(r.Context(), chi.RouteCtxKey, c))
	r.URL.RawQuery = q.Encode()
	return r
}

// An exporter writes one whole list.
type exporter struct {
	s      *server
	list   list
	format string
	w      http.ResponseWriter
	pages  http.Handler
}

// run takes a list page by page. What fails on the first one is answered as there; what
// fails later ends the connection, lest a part be taken for the whole.
func (e *exporter) run(r *http.Request) {
	p := e.fetch(r)
	if p.status != http.StatusOK {
		maps.Copy(e.w.Header(), p.header)
		e.w.WriteHeader(p.status)
		_, _ = e.w.Write(p.body.Bytes()) // the client may be gone
		return
	}
	e.begin(p)
	if err := e.write(r, p); err != nil {
		e.s.Logger.WarnContext(r.Context(), "a list was cut off", "requestId", requestOf(r.Context()).id, "err", err)
		panic(http.ErrAbortHandler)
	}
}

func (e *exporter) fetch(r *http.Request) *page {
	p := &page{header: make(http.Header)}
	e.pages.ServeHTTP(p, r)
	return p
}

// begin writes the header. A part of the log is as of its first page.
func (e *exporter) begin(p *page) {
	h := e.w.Header()
	if size := p.header.Get("Ledger-Size"); size != "" {
		h.Set("Ledger-Size", size)
	}
	h.Set("Content-Type", mediaTypes[e.format])
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.%s"`, e.list.name, e.format))
	e.w.WriteHeader(http.StatusOK)
}

// write writes all items, those of p first.
func (e *exporter) write(r *http.Request, p *page) error {
	item := e.line
	if e.format == formatCSV {
		c := csv.NewWriter(e.w)
		c.UseCRLF = true // RFC 4180, section 2
		if err := c.Write(e.list.columns); err != nil {
			return err
		}
		c.Flush()
		item = func(raw json.RawMessage) error { return e.row(c, raw) }
	}
	size, err := strconv.ParseUint(p.header.Get("Ledger-Size"), 10, 64)
	if err != nil {
		size = math.MaxUint64 // the list is no part of the log
	}
	for {
		var body struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(p.body.Bytes(), &body); err != nil {
			return err
		}
		for _, raw := range body.Items {
			var place struct {
				Index uint64 `json:"index"`
			}
			if err := json.Unmarshal(raw, &place); err != nil {
				return err
			}
			if place.Index >= size {
				continue // it came while the list was made
			}
			if err := item(raw); err != nil {
				return err
			}
		}
		q, err := following(p.header.Get("Link"))
		if q == nil || err != nil {
			return err
		}
		if p = e.fetch(withQuery(r, q)); p.status != http.StatusOK {
			return fmt.Errorf("a later page is answered with %d", p.status)
		}
	}
}

// line writes an item as a line of JSON.
func (e *exporter) line(item json.RawMessage) error {
	_, err := e.w.Write(append(item, '\n'))
	return err
}

// row writes an item as a row of CSV.
func (e *exporter) row(c *csv.Writer, item json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(item, &fields); err != nil {
		return err
	}
	inner := make(map[string]map[string]json.RawMessage)
	row := make([]string, len(e.list.columns))
	for i, column := range e.list.columns {
		name, field, deep := strings.Cut(column, ".")
		raw := fields[name]
		if deep && raw != nil {
			if _, ok := inner[name]; !ok {
				var fields map[string]json.RawMessage
				if err := json.Unmarshal(raw, &fields); err != nil {
					return err
				}
				inner[name] = fields
			}
			raw = inner[name][field]
		}
		var err error
		if row[i], err = cell(raw); err != nil {
			return err
		}
	}
	if err := c.Write(row); err != nil {
		return err
	}
	c.Flush() // to what keeps the answer together
	return c.Error()
}

// number is what a spreadsheet takes for a number, and not for more.
var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// cell returns a value as a cell: text as it is, all else as JSON. Text that a
// spreadsheet would compute gets an apostrophe before it; a reply may be hostile.
func cell(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", err
	}
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && !number.MatchString(text) {
		text = "'" + text
	}
	return text, nil
}

// following returns the query of the next page that a Link header names, nil for none.
func following(link string) (url.Values, error) {
	if link == "" {
		return nil, nil
	}
	target, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("the link to the next page: %w", err)
	}
	return u.Query(), nil
}

// A page is the answer to one request of an exporter, in memory.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

// Write implements [http.ResponseWriter].
func (p *page) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(b)
}

// describeLists adds to the document what else than pages of JSON lists are given as.
func describeLists(doc *huma.OpenAPI) {
	for path := range lists {
		op := doc.Paths[path].Get
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "format", In: "query",
			Description: "csv or ndjson: the whole list from the cursor on, without a limit. What an Accept of text/csv or application/x-ndjson asks for, this does by itself.",
			Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{formatJSON, formatCSV, formatNDJSON}, Default: formatJSON},
		})
		content := op.Responses["200"].Content
		content[mediaTypes[formatCSV]] = &huma.MediaType{Schema: &huma.Schema{
			Type: huma.TypeString, Description: "RFC 4180, with names in the first row. Text that a spreadsheet would compute begins with an apostrophe.",
		}}
		content[mediaTypes[formatNDJSON]] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "An item on each line, as on a page."}}
	}
}
