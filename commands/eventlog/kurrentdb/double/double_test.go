package double_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
)

// open returns a cluster of one node and a client of it.
func open(t *testing.T) (*double.Cluster, *esdb.Client) {
	t.Helper()
	c, err := double.New(t.Context(), double.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config, err := esdb.ParseConnectionString(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = esdb.NoopLogging()
	client, err := esdb.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return c, client
}

// event returns one of a type, with an id that follows from the type.
func event(kind string) esdb.EventData {
	return esdb.EventData{EventID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(kind)), EventType: kind, ContentType: esdb.ContentTypeJson, Data: []byte(`{}`), Metadata: []byte(`{}`)}
}

func events(kinds string) (all []esdb.EventData) {
	for kind := range strings.SplitSeq(kinds, "") {
		all = append(all, event(kind))
	}
	return all
}

// What a server does with appends to a stream that holds the events A, B and C, of
// which B and C were appended at once. The cases are those of its CheckCommit.
func TestAppend(t *testing.T) {
	t.Parallel()
	revision := func(n uint64) esdb.ExpectedRevision { return esdb.StreamRevision{Value: n} }
	for _, tt := range []struct {
		name     string
		stream   string
		expected esdb.ExpectedRevision
		events   string
		want     string // the stream afterwards, or an error
		latest   uint64
	}{
		{"at the end", "s", revision(2), "D", "ABCD", 3},
		{"several at the end", "s", revision(2), "DE", "ABCDE", 4},
		{"beyond the end", "s", revision(3), "D", "wrong", 0},
		{"in the middle", "s", revision(1), "D", "wrong", 0},
		{"as a new stream", "s", esdb.NoStream{}, "D", "wrong", 0},
		{"again", "s", revision(0), "BC", "ABC", 2},
		{"again the first", "s", esdb.NoStream{}, "A", "ABC", 0},
		{"again in other parts", "s", esdb.NoStream{}, "ABC", "ABC", 2},
		{"again a part", "s", revision(0), "B", "ABC", 1},
		{"again with more", "s", revision(0), "BCD", "wrong", 0},
		{"again in another order", "s", revision(0), "CB", "wrong", 0},
		{"again at the end", "s", revision(2), "A", "ABCA", 3}, // ids are looked for at their place only
		{"at any revision", "s", esdb.Any{}, "D", "ABCD", 3},
		{"again at any revision", "s", esdb.Any{}, "BC", "ABC", 2},
		{"again a part, at any revision", "s", esdb.Any{}, "CD", "wrong", 0},
		{"to an existing stream", "s", esdb.StreamExists{}, "D", "ABCD", 3},
		{"again to an existing stream", "s", esdb.StreamExists{}, "A", "ABC", 0},
		{"to a stream that does not exist", "none", esdb.StreamExists{}, "D", "wrong", 0},
		{"the same ids to another stream", "none", esdb.Any{}, "AB", "AB", 1},
		{"to a new stream", "none", esdb.NoStream{}, "AB", "AB", 1},
		{"to a new stream at a revision", "none", revision(0), "A", "wrong", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, client := open(t)
			for i, kinds := range []string{"A", "BC"} {
				expected := esdb.ExpectedRevision(esdb.NoStream{})
				if i > 0 {
					expected = esdb.StreamRevision{Value: 0}
				}
				if _, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: expected}, events(kinds)...); err != nil {
					t.Fatal(err)
				}
			}
			result, err := client.AppendToStream(t.Context(), tt.stream, esdb.AppendToStreamOptions{ExpectedRevision: tt.expected}, events(tt.events)...)
			if tt.want == "wrong" {
				if e := new(esdb.Error); !errors.As(err, &e) || e.Code() != esdb.ErrorCodeWrongExpectedVersion {
					t.Errorf("append: %v, want a wrong expected version", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := read(t)(client.ReadStream(t.Context(), tt.stream, esdb.ReadStreamOptions{From: esdb.Start{}}, math.MaxInt64))
			if got != tt.want || result.NextExpectedVersion != tt.latest {
				t.Errorf("append leaves %s and answers %d, want %s and %d", got, result.NextExpectedVersion, tt.want, tt.latest)
			}
		})
	}
}

// read returns a function that reads all of what was opened: the types of the
// events, or an error.
func read(t *testing.T) func(*esdb.ReadStream, error) string {
	t.Helper()
	return func(s *esdb.ReadStream, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var kinds strings.Builder
		for {
			e, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return kinds.String()
			}
			if err != nil {
				return kinds.String() + "!" + err.Error()
			}
			if !strings.HasPrefix(e.Event.StreamID, "$") {
				kinds.WriteString(e.Event.EventType)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	_, client := open(t)
	var positions []esdb.Position
	for i, kind := range []string{"A", "B", "C"} {
		r, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, event(kind))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.AppendToStream(t.Context(), fmt.Sprint("t", i), esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, event("x"+kind)); err != nil {
			t.Fatal(err)
		}
		positions = append(positions, esdb.Position{Commit: r.CommitPosition, Prepare: r.PreparePosition})
	}
	of := func(direction esdb.Direction, from esdb.StreamPosition, n uint64) string {
		return read(t)(client.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{Direction: direction, From: from}, n))
	}
	all := func(direction esdb.Direction, from esdb.AllPosition, n uint64) string {
		return read(t)(client.ReadAll(t.Context(), esdb.ReadAllOptions{Direction: direction, From: from}, n))
	}
	inside := esdb.Position{Commit: positions[1].Commit + 1, Prepare: positions[1].Commit + 1}
	for what, pair := range map[string][2]string{
		"a stream":                         {of(esdb.Forwards, esdb.Start{}, 9), "ABC"},
		"two of it":                        {of(esdb.Forwards, esdb.Start{}, 2), "AB"},
		"from a revision":                  {of(esdb.Forwards, esdb.Revision(1), 9), "BC"},
		"from beyond its end":              {of(esdb.Forwards, esdb.Revision(7), 9), ""},
		"from its end":                     {of(esdb.Forwards, esdb.End{}, 9), ""},
		"backwards":                        {of(esdb.Backwards, esdb.End{}, 9), "CBA"},
		"its last":                         {of(esdb.Backwards, esdb.End{}, 1), "C"},
		"backwards from a revision":        {of(esdb.Backwards, esdb.Revision(1), 9), "BA"},
		"backwards from the start":         {of(esdb.Backwards, esdb.Start{}, 9), "A"},
		"all":                              {all(esdb.Forwards, esdb.Start{}, 99), "AxABxBCxC"},
		"all from a position":              {all(esdb.Forwards, positions[1], 99), "BxBCxC"},
		"two from a position":              {all(esdb.Forwards, positions[1], 2), "BxB"},
		"all from beyond the end":          {all(esdb.Forwards, esdb.Position{Commit: math.MaxInt64, Prepare: math.MaxInt64}, 99), ""},
		"all from the end":                 {all(esdb.Forwards, esdb.End{}, 99), ""},
		"all backwards":                    {all(esdb.Backwards, esdb.End{}, 99), "xCCxBBxAA"},
		"all backwards from a position":    {all(esdb.Backwards, positions[1], 99), "xAA"},
		"all backwards from the beginning": {all(esdb.Backwards, esdb.Start{}, 99), ""},
	} {
		if pair[0] != pair[1] {
			t.Errorf("read %s: %s, want %s", what, pair[0], pair[1])
		}
	}
	for what, got := range map[string]string{
		"from within a record":  all(esdb.Forwards, inside, 99),
		"from no number":        all(esdb.Forwards, esdb.Position{Commit: math.MaxInt64 + 1}, 99),
		"from before its write": all(esdb.Forwards, esdb.Position{Commit: 1, Prepare: 2}, 99),
		"what is not there":     read(t)(client.ReadStream(t.Context(), "none", esdb.ReadStreamOptions{From: esdb.Start{}}, 9)),
	} {
		if !strings.HasPrefix(got, "!") {
			t.Errorf("read %s: %s, want a refusal", what, got)
		}
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	_, client := open(t)
	put := func(stream, kind string) esdb.Position {
		t.Helper()
		r, err := client.AppendToStream(t.Context(), stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, event(kind))
		if err != nil {
			t.Fatal(err)
		}
		return esdb.Position{Commit: r.CommitPosition, Prepare: r.PreparePosition}
	}
	first := put("s-1", "A")
	put("s-2", "B")
	for i := range 4 {
		put("other", fmt.Sprint("n", i))
	}
	lives := 0
	hear := func(s *esdb.Subscription, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		var heard []string
		for live := false; ; {
			switch e := s.Recv(); {
			case e.EventAppeared != nil:
				if kind := e.EventAppeared.Event.EventType; !strings.HasPrefix(kind, "$") {
					heard = append(heard, kind)
				}
				if live {
					return heard
				}
			case e.CheckPointReached != nil:
				heard = append(heard, "-")
			case e.CaughtUp != nil:
				live = true
				heard = append(heard, "live")
				lives++
				put("s-1", fmt.Sprint("live", lives))
			case e.SubscriptionDropped != nil:
				t.Fatal(e.SubscriptionDropped.Error)
			}
		}
	}
	filter := &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"s-"}}
	got := hear(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: filter, MaxSearchWindow: 3, CheckpointInterval: 1}))
	if diff := cmp.Diff([]string{"A", "B", "-", "-", "-", "live", "live1"}, got); diff != "" {
		t.Errorf("with a filter (-want +got):\n%s", diff)
	}
	got = hear(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: first, Filter: filter, MaxSearchWindow: 100, CheckpointInterval: 1}))
	if diff := cmp.Diff([]string{"B", "live1", "-", "live", "live2"}, got); diff != "" {
		t.Errorf("behind a position (-want +got):\n%s", diff)
	}
	got = hear(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.End{}}))
	if diff := cmp.Diff([]string{"live", "live3"}, got); diff != "" {
		t.Errorf("from the end (-want +got):\n%s", diff)
	}
	got = hear(client.SubscribeToStream(t.Context(), "s-1", esdb.SubscribeToStreamOptions{From: esdb.Revision(0)}))
	if diff := cmp.Diff([]string{"live1", "live2", "live3", "live", "live4"}, got); diff != "" {
		t.Errorf("to a stream (-want +got):\n%s", diff)
	}
	if _, err := client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.Position{Commit: first.Commit + 1}}); err == nil || !strings.Contains(err.Error(), "invalid position") {
		t.Errorf("from within a record: %v, want a refusal", err)
	}
}

// A call whose client has gone ends, and a node that is down takes none.
func TestDown(t *testing.T) {
	t.Parallel()
	c, client := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := client.SubscribeToAll(ctx, esdb.SubscribeToAllOptions{From: esdb.End{}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for s.Recv().SubscriptionDropped == nil {
	}
	c.Down(0)
	c.Down(0)
	if _, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, event("A")); err == nil {
		t.Error("a node that is down took an append")
	}
	c.Up(0)
	c.Up(0)
}
