package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
)

// Requests made from the document, right and wrong, get answers that the document
// declares. Nothing of them is our failure, all refusals are problems, and none says again
// what was sent.
func TestContract(t *testing.T) {
	t.Parallel()
	requests := 10_000
	if raceDetector || testing.Short() {
		requests = 500
	}
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	w, d := eventful(t)
	ask := newAsker(w, d, data)
	before, statuses, faulty := w.records(), make(map[int]int), 0
	for range requests {
		r := ask.request()
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		res := rec.Result()
		body, err := io.ReadAll(res.Body)
		w.ok(err)
		w.ok(res.Body.Close())
		statuses[res.StatusCode]++
		for _, fault := range ask.faults(r, res, body) {
			faulty++
			t.Errorf("%s %.200s = %d: %s: %.500s", r.Method, r.URL, res.StatusCode, fault, body)
		}
		ask.learn(body)
		if faulty > 5 {
			t.Fatalf("that is enough to look at; the log says %.2000s", w.logged)
		}
	}
	if w.records() != before {
		t.Errorf("%d records were appended by guesses", w.records()-before)
	}
	if got := w.logged.String(); got != "" {
		t.Errorf("guesses were logged as our failure:\n%s", got)
	}
	t.Logf("answers by status: %v", statuses)
	for _, status := range []int{200, 304, 400, 404, 415, 422} {
		if statuses[status] == 0 {
			t.Errorf("no request was answered with %d", status)
		}
	}
}

// An asker makes requests. It is the same sequence every time.
type asker struct {
	*rand.Rand

	operations []askable
	schemas    map[string]askedSchema
	known      map[string][]string // good values, by the name of their parameter
	cursors    []string            // of any list
	etags      []string
}

type askable struct {
	method, path string

	Parameters []struct {
		Ref    string      `json:"$ref"`
		Name   string      `json:"name"`
		In     string      `json:"in"`
		Schema askedSchema `json:"schema"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]struct {
			Schema askedSchema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type askedSchema struct {
	Ref        string                 `json:"$ref"`
	Type       any                    `json:"type"`
	Enum       []any                  `json:"enum"`
	Examples   []any                  `json:"examples"`
	Minimum    float64                `json:"minimum"`
	Maximum    float64                `json:"maximum"`
	Items      *askedSchema           `json:"items"`
	Properties map[string]askedSchema `json:"properties"`
	OneOf      []askedSchema          `json:"oneOf"`
}

func newAsker(w *world, d day, data []byte) *asker {
	w.t.Helper()
	var doc struct {
		Paths      map[string]map[string]askable `json:"paths"`
		Components struct {
			Schemas map[string]askedSchema `json:"schemas"`
		} `json:"components"`
	}
	w.ok(json.Unmarshal(data, &doc))
	a := &asker{Rand: rand.New(rand.NewPCG(1, 2)), schemas: doc.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			op.method, op.path = strings.ToUpper(method), path
			a.operations = append(a.operations, op)
		}
	}
	a.known = map[string][]string{
		"id":    {d.consent, d.shop(d.tasks[0]), d.shop(d.pads[0]), finding.ID(d.consent, 1), incident.ID(d.consent), string(honest)},
		"ref":   {string(honest), string(house)},
		"agent": {string(honest), string(house)}, "shop": {d.shop(d.tasks[0])}, "consent": {d.consent},
		"day": {fmt.Sprint(d.day)}, "index": {"0", "5"}, "n": {"1", "2"}, "from": {"0", "3"}, "to": {"5"}, "size": {"4"},
		"category": {"consent", "programme", "shop"}, "wait": {"0", "1"}, "Ledger-Wait": {"0", "1"},
	}
	return a
}

// echo is in everything that is sent and means nothing.
const echo = "Xyzzy"

// nasty is what nobody should send.
var nasty = []string{
	"", "0", "-1", "1", "00", "1e3", "18446744073709551616", "9007199254740993", "NaN", "true", "null", "[]", "{}", echo, echo + "/..", "../" + echo, "%2e%2e%2f",
	"\x00" + echo, "\xff" + echo, "'" + echo + "'--", "<script>" + echo + "</script>", strings.Repeat(echo, 300), "💥" + echo, "\u202e" + echo, echo + "\r\nSet-Cookie: a=b",
	"cns_aaaaaaaaaaaaaaaaaaaa", "shp_aaaaaaaaaaaaaaaaaaaa_20260301_07", "fnd_aaaaaaaaaaaaaaaaaaaa_1", strings.Repeat("ab", 32), "0x" + strings.Repeat("00", 65),
}

// accepts are wishes for forms of answers.
var accepts = []string{
	"", "*/*", "application/json", "text/html", "text/csv", "application/x-ndjson", "text/plain", "application/json;q=0", "image/*, text/csv;q=0.1, */*;q=0",
	";;;,,q=", "text/" + strings.Repeat("x", 3000), "application/json;q=2, text/html;q=-1", "\"text/csv\"", "*/*;q=0.5, application/problem+json",
}

func pick[T any](a *asker, from []T) T { return from[a.IntN(len(from))] }

// value makes one of a parameter or of a body.
func (a *asker) value(name string, s askedSchema) string {
	switch good := a.known[name]; {
	case strings.Contains(strings.ToLower(name), "wait"): // what is far off holds a request up
		return pick(a, append([]string{echo, "-1", "1.5"}, good...))
	case len(good) > 0 && a.IntN(3) > 0:
		return pick(a, good)
	case name == "cursor" && len(a.cursors) > 0 && a.IntN(3) > 0:
		return pick(a, a.cursors)
	case len(s.Enum) > 0 && a.IntN(3) > 0:
		return fmt.Sprint(pick(a, s.Enum))
	case len(s.Examples) > 0 && a.IntN(3) > 0:
		return fmt.Sprint(pick(a, s.Examples))
	case s.Type == "integer" && a.IntN(2) > 0:
		return fmt.Sprintf("%.0f", pick(a, []float64{s.Minimum, s.Minimum - 1, s.Minimum + 1, s.Maximum, s.Maximum + 1}))
	}
	return pick(a, nasty)
}

// request makes a request of an operation.
func (a *asker) request() *http.Request {
	op := pick(a, a.operations)
	path, query, header := op.path, url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		name, in := p.Name, p.In
		switch p.Ref {
		case "":
		case "#/components/parameters/wait":
			name, in = "wait", "query"
		default:
			name, in = "Ledger-Wait", "header"
		}
		switch in {
		case "path":
			value := a.value(name, p.Schema)
			if value == "" {
				value = "-" // nothing is another path
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		case "query":
			if a.IntN(2) > 0 {
				query.Add(name, a.value(name, p.Schema))
			}
		default:
			if a.IntN(3) > 0 {
				header.Set(name, strings.Map(printable, a.value(name, p.Schema)))
			}
		}
	}
	if a.IntN(20) == 0 {
		query.Set(echo, echo)
	}
	r := httptest.NewRequest(op.method, path, nil)
	if r.URL.RawQuery = query.Encode(); a.IntN(50) == 0 {
		r.URL.RawQuery += "&%zz=" + echo
	}
	if len(op.RequestBody.Content) > 0 || a.IntN(50) == 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(nil)), 0
		if media := slices.Sorted(maps.Keys(op.RequestBody.Content)); len(media) > 0 {
			body := a.body(op, media[0])
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			header.Set("Content-Type", pick(a, append(media, media[0], media[0], "text/plain", "")))
		}
	}
	maps.Copy(r.Header, header)
	if a.IntN(2) == 0 {
		r.Header.Set("Accept", pick(a, accepts))
	}
	if len(a.etags) > 0 && a.IntN(4) == 0 {
		r.Header.Set("If-None-Match", pick(a, append(a.etags, "*", `"a`, `W/`, strings.Repeat(`"a",`, 500))))
	}
	return r
}

// printable leaves out what no header can carry.
func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}

func (a *asker) body(op askable, media string) []byte {
	value := a.json(op.RequestBody.Content[media].Schema, 0)
	if op.path == root+"/consents/challenge" && a.IntN(2) == 0 {
		value = json.RawMessage(request(honest, pick(a, []string{"agent", "endpoints", "maxPerDay", "validityDays", "payment", echo}), pick(a, []any{nil, -1, "", echo, []any{}, 1e30})))
	}
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	switch a.IntN(20) {
	case 0:
		return body[:a.IntN(len(body))]
	case 1:
		return append(bytes.Repeat([]byte(" "), 1<<21), body...)
	case 2:
		return bytes.ReplaceAll(body, []byte(`"`), []byte("\xff"))
	}
	return body
}

// json makes a value of a schema, some of it wrong.
func (a *asker) json(s askedSchema, depth int) any {
	if a.IntN(12) == 0 || depth > 6 {
		return pick(a, []any{nil, true, -1, 1.5, 1e300, echo, []any{}, map[string]any{echo: 1}, pick(a, a.known["id"])})
	}
	if s.Ref != "" {
		return a.json(a.schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]], depth+1)
	}
	if len(s.OneOf) > 0 {
		return a.json(pick(a, s.OneOf), depth+1)
	}
	switch {
	case s.Properties != nil:
		o := make(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if a.IntN(15) > 0 {
				o[name] = a.json(s.Properties[name], depth+1)
			}
		}
		return o
	case s.Items != nil:
		list := []any{}
		for range a.IntN(3) {
			list = append(list, a.json(*s.Items, depth+1))
		}
		return list
	case s.Type == "integer":
		return int64(pick(a, []float64{s.Minimum, s.Minimum + 1, s.Maximum, s.Maximum + 1, -1}))
	case s.Type == "boolean":
		return a.IntN(2) == 0
	}
	return strings.ToValidUTF8(a.value("", s), "")
}

// learn keeps what an answer gives to ask for more.
func (a *asker) learn(body []byte) {
	var list struct {
		Next string `json:"nextCursor"`
	}
	if json.Unmarshal(body, &list) == nil && list.Next != "" && len(a.cursors) < 100 {
		a.cursors = append(a.cursors, list.Next)
	}
}

// faults says what is wrong with an answer.
func (a *asker) faults(r *http.Request, res *http.Response, body []byte) (list []string) {
	if tag := res.Header.Get("ETag"); tag != "" && len(a.etags) < 100 {
		a.etags = append(a.etags, tag)
	}
	media := res.Header.Get("Content-Type")
	if res.StatusCode >= 500 {
		list = append(list, "our failure")
	}
	if res.StatusCode >= 400 {
		var p map[string]any
		if media != problem || json.Unmarshal(body, &p) != nil {
			return append(list, "no problem, but "+media)
		}
		delete(p, "instance") // is the path, as the location of an error is a name
		errors, _ := p["errors"].([]any)
		for _, e := range errors {
			if e, ok := e.(map[string]any); ok {
				delete(e, "location")
			}
		}
		if said := encode(p); strings.Contains(said, echo) {
			list = append(list, "it says again what was sent")
		}
	}
	if res.Header.Get("Set-Cookie") != "" {
		list = append(list, "a header was smuggled in")
	}
	if err := held(r.Method, r.URL.EscapedPath(), answer{res.StatusCode, res.Header, string(body)}); err != nil {
		list = append(list, err.Error())
	}
	return list
}
