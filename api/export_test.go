package api_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
)

// every is all pages of a list, put together.
func (w *world) every(path, limit string) (items []json.RawMessage) {
	w.t.Helper()
	for next := path + limit; next != ""; {
		a := w.do(http.MethodGet, next, "")
		var body struct {
			Items []json.RawMessage `json:"items"`
		}
		w.ok(json.Unmarshal([]byte(a.body), &body))
		items = append(items, body.Items...)
		next, _, _ = strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
	}
	return items
}

// listPath is a path of each list that the document has.
var listPath = strings.NewReplacer("{category}", "programme", "{id}", "programme")

// Every list is given whole, in every format, and its columns are fields that it has.
func TestEveryListIsExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	w.publicLog().publish()
	n := 0
	for template, methods := range published().Paths {
		op, ok := methods["get"]
		if !ok || op.Responses["200"].Content["application/json"].Schema == nil {
			continue
		}
		items := published().resolve(op.Responses["200"].Content["application/json"].Schema).Properties["items"]
		if items == nil {
			continue
		}
		n++
		path := listPath.Replace(template)
		if strings.HasPrefix(template, root+"/consents/{id}/") {
			path = strings.Replace(template, "{id}", id, 1)
		}
		if strings.HasSuffix(template, "/streams/{category}/{id}") {
			path = "/v1/ledger/streams/consent/" + strings.TrimPrefix(id, "cns_")
		}
		a := w.do(http.MethodGet, path+"?format=csv", "")
		if a.status == http.StatusNotFound { // a stream that is in no checkpoint
			continue
		}
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(a.header.Get("Content-Disposition"), ".csv") {
			t.Errorf("GET %s as CSV: %d %v", path, a.status, a.header)
			continue
		}
		header, _, _ := strings.Cut(a.body, "\r\n")
		for column := range strings.SplitSeq(header, ",") {
			s := published().resolve(items.Items)
			for part := range strings.SplitSeq(column, ".") {
				if s = published().resolve(s.Properties[part]); s == nil {
					break
				}
				if part == "record" {
					break // its fields are those of the envelope
				}
			}
			if s == nil {
				t.Errorf("%s: the items have no %s", template, column)
			}
		}
		if a := w.do(http.MethodGet, path, "", "Accept", "application/x-ndjson"); a.status != http.StatusOK || a.header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("GET %s as NDJSON: %d %v", path, a.status, a.header)
		}
	}
	if n < 11 {
		t.Errorf("the document has %d lists, want 11 at least", n)
	}
}

func (d document) resolve(s *schema) *schema {
	if s != nil && s.Ref != "" {
		return d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	return s
}

// A whole list is what its pages are, put together.
func TestWholeLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	for _, ref := range []agent.Ref{honest, house} {
		w.grant(ref)
	}
	path := root + "/consents"
	pages := w.every(path, "?limit=1")
	a := w.do(http.MethodGet, path+"?format=ndjson", "")
	lines := bytes.Split([]byte(a.body), []byte("\n"))
	if len(pages) != 2 || len(lines) != 3 || string(lines[0]) != string(pages[0]) || string(lines[1]) != string(pages[1]) || len(lines[2]) != 0 {
		t.Errorf("as lines:\n%s\nas pages:\n%s", a.body, pages)
	}
	rows, err := csv.NewReader(strings.NewReader(w.do(http.MethodGet, path+"?format=csv", "").body)).ReadAll()
	w.ok(err)
	first := w.object(string(pages[0]))
	for i, name := range rows[0] {
		if want, ok := first[name].(string); ok && rows[1][i] != want {
			t.Errorf("%s = %q, want %q", name, rows[1][i], want)
		}
	}
	if demo := slices.Index(rows[0], "demo"); len(rows) != 3 || rows[1][demo]+rows[2][demo] != "true" {
		t.Errorf("the rows are %q", rows)
	}
	rows, err = csv.NewReader(strings.NewReader(w.do(http.MethodGet, path+"?format=csv&agent="+string(house), "").body)).ReadAll()
	w.ok(err)
	if len(rows) != 2 {
		t.Errorf("of one agent there are %d rows, want 2", len(rows))
	}
	if a := w.do(http.MethodGet, path+"?format=csv", "", "If-None-Match", "*"); a.status != http.StatusNotModified {
		t.Errorf("a whole list that the client has: %d, want 304", a.status)
	}
	if a := w.do(http.MethodHead, path+"?format=csv", ""); a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD of a whole list: %d with %q", a.status, a.body)
	}
}

func TestFormatsOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	path := root + "/consents"
	for _, c := range []struct {
		name, query, accept string
		status              int
		media               string
	}{
		{"nothing asked for", "", "", http.StatusOK, "application/json"},
		{"JSON by name", "?format=json&limit=1", "text/csv", http.StatusOK, "application/json"},
		{"by Accept", "", "text/csv", http.StatusOK, "text/csv; charset=utf-8"},
		{"JSON before it", "", "text/csv;q=0.5, application/json", http.StatusOK, "application/json"},
		{"lines before JSON", "", "application/json;q=0.1,application/x-ndjson", http.StatusOK, "application/x-ndjson"},
		{"soup", "", ",;q=,*/*;q=x,text/csv;q=NaN,\"", http.StatusOK, "application/json"},
		{"unknown", "?format=xml", "", http.StatusUnprocessableEntity, "application/problem+json"},
		{"empty", "?format=", "", http.StatusUnprocessableEntity, "application/problem+json"},
		{"with a limit", "?format=csv&limit=5", "", http.StatusUnprocessableEntity, "application/problem+json"},
		{"a bad filter", "?format=csv&state=odd", "", http.StatusUnprocessableEntity, "application/problem+json"},
		{"a cursor of no list", "?format=csv&cursor=AAAA", "", http.StatusUnprocessableEntity, "application/problem+json"},
		{"an unknown filter", "?format=ndjson&zz=1", "", http.StatusUnprocessableEntity, "application/problem+json"},
	} {
		a := w.do(http.MethodGet, path+c.query, "", "Accept", c.accept)
		if a.status != c.status || a.header.Get("Content-Type") != c.media || !slices.Contains(a.header.Values("Vary"), "Accept") {
			t.Errorf("%s: %d %s, Vary %q; want %d %s", c.name, a.status, a.header.Get("Content-Type"), a.header.Values("Vary"), c.status, c.media)
		}
	}
	if a := w.do(http.MethodGet, root+"?format=csv", ""); a.status != http.StatusUnprocessableEntity {
		t.Errorf("CSV of what is no list: %d, want 422", a.status)
	}
}

// A spreadsheet computes nothing of what others wrote.
func TestCellsAreNoFormulas(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	id := w.grant(honest)
	want := map[string]string{
		"=HYPERLINK(\"https://evil.example\")": "'=HYPERLINK(\"https://evil.example\")",
		"+1":                                   "'+1",
		"@sum":                                 "'@sum",
		"-2+3|cmd":                             "'-2+3|cmd",
		"\t=1":                                 "'\t=1",
		"-0.0125":                              "-0.0125",
		"plain = text":                         "plain = text",
		"a,\"b\"\nc":                           "a,\"b\"\nc",
	}
	look := 0
	for note := range want {
		look++
		w.ok(w.service.Finding(t.Context(), w.meta(fmt.Sprint("compare ", look)), id, finding.Reach{
			Consent: id, Agent: honest, Cycle: finding.AfterDay, Day: uint32(20514 + look), Look: look,
			Verdict: finding.Insufficient, GatedVerdict: finding.Insufficient, Note: note, Families: []finding.Family{}, Sources: []finding.Source{},
		}))
	}
	w.ok(w.runner.CatchUp(t.Context()))
	rows, err := csv.NewReader(strings.NewReader(w.do(http.MethodGet, root+"/findings?format=csv", "").body)).ReadAll()
	w.ok(err)
	note := slices.Index(rows[0], "note")
	if len(rows) != len(want)+1 {
		t.Fatalf("%d rows, want %d", len(rows), len(want)+1)
	}
	var got []string
	for _, row := range rows[1:] {
		got = append(got, row[note])
	}
	if diff := cmp.Diff(slices.Sorted(maps.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("the notes (-want +got)\n%s", diff)
	}
}
