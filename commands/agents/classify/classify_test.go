package classify_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands/agents/classify"
)

// samples returns requests of both kinds in turn, the shopper's changed by plant.
func samples(plant func(i int, r *classify.Request)) (ss []classify.Sample) {
	for i := range 200 {
		r := classify.Request{
			Head: "POST /a2a HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nUser-Agent: client/" + fmt.Sprint(i/2%4) + "\r\nContent-Type: application/json",
			Body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"m","params":{"a":1,"b":[true,"two words, and more"]}}`, i/2%3),
		}
		if i%2 == 1 {
			plant(i, &r)
		}
		ss = append(ss, classify.Sample{Shop: i%2 == 1, Features: r.Features()})
	}
	return ss
}

func TestLearnersFindAMarker(t *testing.T) {
	t.Parallel()
	replace := func(old, marked string) func(int, *classify.Request) {
		return func(_ int, r *classify.Request) {
			r.Head = strings.Replace(r.Head, old, marked, 1)
			r.Body = []byte(strings.Replace(string(r.Body), old, marked, 1))
		}
	}
	for _, tt := range []struct {
		name  string
		plant func(int, *classify.Request)
	}{
		{"a header", replace("Accept: */*", "Accept: */*\r\nX-Mark: 1")},
		{"a header that lacks", replace("Accept: */*\r\n", "")},
		{"the value of a header", replace("*/*", "text/plain")},
		{"the spelling of a header", replace("User-Agent", "user-agent")},
		{"the place of a header", replace("Host: h\r\nAccept: */*", "Accept: */*\r\nHost: h")},
		{"the space before a value", replace("Host: h", "Host:  h")},
		{"the order of keys", replace(`{"a":1,"b":`, `{"b":1,"a":`)},
		{"white space in a body", replace(`"a":`, `"a": `)},
		{"a newline behind a body", replace(`]}}`, "]}}\n")},
		{"an escape", replace("words", `w\u00f6rds`)},
		{"an id of another kind", func(_ int, r *classify.Request) {
			r.Body = []byte(strings.NewReplacer(`"id":0`, `"id":"0"`, `"id":1`, `"id":"1"`, `"id":2`, `"id":"2"`).Replace(string(r.Body)))
		}},
		{"a body in a segment of its own", func(_ int, r *classify.Request) { r.Segments = 2 }},
		{"a pause", func(_ int, r *classify.Request) { r.Pause = 50 * time.Millisecond }},
		{"a used connection", func(_ int, r *classify.Request) { r.Nth = 2 }},
	} {
		ss := samples(tt.plant)
		for _, l := range classify.Learners {
			rule := l.Learn(ss[:100])
			if got := classify.Accuracy(rule, ss[100:]); got < 0.99 {
				t.Errorf("%s: %s is right in %.2f, want in all: %v", tt.name, l.Name, got, rule)
			}
		}
	}
}

// What needs two questions is found by those who ask two.
func TestLearnersFindWhatHoldsForAPart(t *testing.T) {
	t.Parallel()
	ss := samples(func(i int, r *classify.Request) {
		if i/2%4 == 0 {
			r.Segments = 2
		}
	})
	for _, l := range classify.Learners {
		if got := classify.Accuracy(l.Learn(ss[:100]), ss[100:]); got < 0.6 || got > 0.65 {
			t.Errorf("%s is right in %.3f, want in about 0.625, a quarter of the one kind and all of the other", l.Name, got)
		}
	}
}

func TestLearnersFindNothingWhereNothingIs(t *testing.T) {
	t.Parallel()
	ss := samples(func(int, *classify.Request) {})
	for _, l := range classify.Learners {
		if got := classify.Accuracy(l.Learn(ss[:100]), ss[100:]); got != 0.5 {
			t.Errorf("%s is right in %v, want in one half", l.Name, got)
		}
	}
}

// A tap passes on what comes and keeps it as it came.
func TestTap(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	tap, err := classify.Open(t.Context(), server.Listener.Addr().String(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", tap.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	const head, body = "POST / HTTP/1.1\r\nhOST: x\r\ncontent-length: 4", "body"
	for _, parts := range [][]string{{head + "\r\n\r\n" + body}, {head + "\r\n\r\n", body}} {
		for _, part := range parts {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
			t.Errorf("the server echoes %q, %v", got, err)
		}
		res.Body.Close()
	}
	got := tap.Close()
	for i := range got {
		got[i].Pause = 0 // of the machine
	}
	want := []classify.Request{
		{Head: head, Body: []byte(body), Segments: 1, Nth: 1},
		{Head: head, Body: []byte(body), Segments: 2, Nth: 2},
	}
	if !slices.ContainsFunc(got, func(r classify.Request) bool { return r.Segments > 0 }) {
		want[0].Segments, want[1].Segments = 0, 0 // not counted on this system
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func FuzzFeatures(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nHost: x", []byte(`{"a":[1,{"b":null}]}`))
	f.Add("", []byte(`{"a`))
	f.Fuzz(func(t *testing.T, head string, body []byte) {
		fs := classify.Request{Head: head, Body: body}.Features()
		if !slices.IsSorted(fs) || len(slices.Compact(slices.Clone(fs))) != len(fs) {
			t.Errorf("Features = %q, want each once and in order", fs)
		}
	})
}
