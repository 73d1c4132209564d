package kurrentdb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
)

// The tests of this file first show a fault of the client library, then that a Log
// does not have it. Where the first part fails, the library has changed.

// soon is how long a test waits for what must come. It is a bound for slow machines.
const soon = time.Minute

// bare returns a client as the library makes it.
func bare(t *testing.T, url string) *esdb.Client {
	t.Helper()
	config, err := esdb.ParseConnectionString(url)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = esdb.NoopLogging()
	c, err := esdb.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bareAppend writes an event without any check, and gives up after d.
func bareAppend(ctx context.Context, c *esdb.Client, stream string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	e := esdb.EventData{EventID: uuid.New(), EventType: "other", ContentType: esdb.ContentTypeJson, Data: []byte(`{}`)}
	_, err := c.AppendToStream(ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, e)
	return err
}

func isCode(err error, code esdb.ErrorCode) bool {
	e := new(esdb.Error)
	return errors.As(err, &e) && e.Code() == code
}

// mustAppend appends one event and ends the test on an error.
func mustAppend(t *testing.T, log ledger.Log, s ledger.Stream, version uint64) {
	t.Helper()
	if err := log.Append(t.Context(), s, version, command(fmt.Sprint(version)), noted{int(version)}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// goroutines returns how many goroutines are in a function.
func goroutines(function string) (n int) {
	buf := make([]byte, 1<<20)
	for {
		size := runtime.Stack(buf, true)
		if size < len(buf) {
			buf = buf[:size]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, function) {
			n++
		}
	}
	return n
}

// Where goroutines are that wait for a client, run one, make a call, or belong to a
// connection.
const (
	waiting    = "esdb.(*grpcClient).getConnectionHandle("
	running    = "esdb.connectionStateMachine("
	calling    = "kurrentdb.do["
	connection = "grpcsync.(*CallbackSerializer).run("
)

// Not parallel: it counts goroutines.
func TestCallersHang(t *testing.T) { //nolint:paralleltest // as said
	const callers = 8
	c := cluster(t, 1)
	connecting := make(chan struct{})
	hang := func() (release func()) {
		let := make(chan struct{})
		c.SetFault(func(_ context.Context, m double.Moment) error {
			if m == double.BeforeConnect {
				connecting <- struct{}{}
				<-let
				return status.Error(codes.Unavailable, "not today")
			}
			return nil
		})
		return func() { close(let) }
	}

	// The bare client tries once to connect, for all callers, and then is gone. All
	// but the first wait for it nevertheless.
	machines, before := goroutines(running), goroutines(waiting)
	release := hang()
	client := bare(t, c.URL()+"&maxDiscoverAttempts=1&discoveryInterval=1")
	var returned atomic.Int64
	for range callers {
		go func() {
			_ = bareAppend(t.Context(), client, "other", time.Millisecond)
			returned.Add(1)
		}()
	}
	<-connecting
	eventually(t, "callers that wait", func() bool { return goroutines(waiting) == before+callers })
	release()
	eventually(t, "the end of the client", func() bool { return goroutines(running) <= machines })
	eventually(t, "one answer", func() bool { return returned.Load() == 1 })
	stuck := goroutines(waiting)
	if got := stuck - before; got != callers-1 {
		t.Errorf("%d callers wait for a client that is gone, want %d", got, callers-1)
	}

	// A Log lets its callers go when their contexts end, and keeps nothing behind.
	release = hang()
	log := open(t, c.URL(), kurrentdb.Options{Connections: 2})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range callers {
		wg.Go(func() {
			err := log.Append(ctx, ledger.Stream(fmt.Sprint("a/", i)), 0, command("c"), noted{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Append: %v, want context.Canceled", err)
			}
		})
	}
	<-connecting
	<-connecting // both connections hang
	cancel()
	wg.Wait()
	release()
	eventually(t, "the end of all calls", func() bool { return goroutines(calling) == 0 && goroutines(waiting) == stuck })
	c.SetFault(nil)
	for i := range callers {
		mustAppend(t, log, ledger.Stream(fmt.Sprint("a/", i)), 0)
	}
}

// Not parallel: it counts goroutines.
func TestConnectionsAreLeftOpen(t *testing.T) { //nolint:paralleltest // as said
	const outages = 5
	c := cluster(t, 1)
	machines, before := goroutines(running), goroutines(connection)
	client := bare(t, c.URL()+"&maxDiscoverAttempts=100000&discoveryInterval=1")
	for range outages {
		eventually(t, "an append", func() bool { return bareAppend(t.Context(), client, "other", soon) == nil })
		c.Down(0)
		if err := bareAppend(t.Context(), client, "other", soon); err == nil {
			t.Error("an append in an outage succeeded")
		}
		c.Up(0)
	}
	_ = client.Close()
	eventually(t, "the end of the client", func() bool { return goroutines(running) <= machines })
	left := goroutines(connection)
	if left < before+outages {
		t.Errorf("a client that saw %d outages leaves %d goroutines of connections behind, want one for each at least", outages, left-before)
	}

	log := open(t, c.URL(), kurrentdb.Options{})
	for v := range uint64(outages) {
		mustAppend(t, log, "a/1", v)
		c.Down(0)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := log.Append(ctx, "a/2", 0, command("c"), noted{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Append in an outage: %v, want context.DeadlineExceeded", err)
		}
		cancel()
		c.Up(0)
	}
	log.Close()
	eventually(t, "the end of all clients", func() bool { return goroutines(running) <= machines })
	eventually(t, "the end of all connections", func() bool { return goroutines(connection) <= left })
}

func TestClientDiesInAnOutage(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	client := bare(t, c.URL()+"&maxDiscoverAttempts=2&discoveryInterval=1")
	log := open(t, c.URL(), kurrentdb.Options{})
	if err := bareAppend(t.Context(), client, "other", soon); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, log, "a/1", 0)

	c.Down(0)
	eventually(t, "the death of the client", func() bool {
		return isCode(bareAppend(t.Context(), client, "other", soon), esdb.ErrorCodeConnectionClosed)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := log.Append(ctx, "a/1", 1, command("1"), noted{1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append in an outage: %v, want context.DeadlineExceeded", err)
	}

	c.Up(0)
	if err := bareAppend(t.Context(), client, "other", soon); !isCode(err, esdb.ErrorCodeConnectionClosed) {
		t.Errorf("the client after the outage: %v, want that it is closed", err)
	}
	mustAppend(t, log, "a/1", 1)
	if got := len(ledgertest.Audit(t, log)); got != 2 {
		t.Errorf("the log has %d records, want 2", got)
	}
}

func TestLeaderIsNotDemanded(t *testing.T) {
	t.Parallel()
	const follower = 1
	c := cluster(t, 3)
	c.Freeze(follower)
	client := bare(t, c.NodeURL(follower))
	t.Cleanup(func() { _ = client.Close() })
	if err := bareAppend(t.Context(), client, "other", soon); err != nil {
		t.Fatal(err) // followers hand appends on
	}
	reading, err := client.ReadStream(t.Context(), "other", esdb.ReadStreamOptions{From: esdb.Start{}, RequiresLeader: true}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reading.Recv(); !isCode(err, esdb.ErrorCodeResourceNotFound) {
		t.Errorf("reading what was just written: %v, want that it is not found", err)
	}
	reading.Close()

	log := open(t, c.NodeURL(follower), kurrentdb.Options{})
	for v := range uint64(3) {
		mustAppend(t, log, "a/1", v)
		if got := len(ledgertest.Audit(t, log)); got != int(v)+1 {
			t.Errorf("the log has %d records after an append, want %d", got, v+1)
		}
	}
}

func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	c := cluster(t, 3)
	log := open(t, c.URL(), kurrentdb.Options{})
	var version uint64
	for _, leader := range []int{1, 2, 0} {
		mustAppend(t, log, "a/1", version)
		c.Lead(leader)
		mustAppend(t, log, "a/1", version+1) // the old leader names the new one
		version += 2

		c.Lead(-1)
		done := make(chan error)
		go func() { done <- log.Append(t.Context(), "a/1", version, command(fmt.Sprint(version)), noted{}) }()
		c.Down(leader)
		c.Lead((leader + 1) % 3)
		if err := <-done; err != nil {
			t.Errorf("an append amid an election: %v", err)
		}
		version++
		c.Up(leader)
	}
	if got := uint64(len(ledgertest.Audit(t, log))); got != version {
		t.Errorf("the log has %d records, want %d", got, version)
	}
}

// A status that says that something is not found looks like a stream that is not
// there. Taken for one, a history would look empty.
func TestNotFoundIsNotEmpty(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	mustAppend(t, log, "a/1", 0)
	strike := func(times int64) {
		var n atomic.Int64
		c.SetFault(func(_ context.Context, m double.Moment) error {
			if m == double.BeforeRead && n.Add(1) <= times {
				return status.Error(codes.NotFound, "Leader info available")
			}
			return nil
		})
	}

	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	strike(1)
	reading, err := client.ReadStream(t.Context(), "mystery-a/1", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reading.Recv(); !isCode(err, esdb.ErrorCodeResourceNotFound) {
		t.Errorf("the client reads %v, want the code of a missing stream", err)
	}

	strike(3)
	n := 0
	for _, err := range log.Stream(t.Context(), "a/1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("the stream has %d records, want 1", n)
	}
}

// What an append meets, and whether it was stored then.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	answer := func(code codes.Code) func(context.Context, *double.Cluster) error {
		return func(context.Context, *double.Cluster) error { return status.Error(code, "no luck") }
	}
	silence := func(ctx context.Context, _ *double.Cluster) error {
		<-ctx.Done()
		return ctx.Err()
	}
	cut := func(ctx context.Context, c *double.Cluster) error {
		go func() {
			c.Down(0) // waits for this call
			c.Up(0)
		}()
		<-ctx.Done()
		return ctx.Err()
	}
	for name, fault := range map[string]func(context.Context, *double.Cluster) error{
		"unavailable": answer(codes.Unavailable),
		"aborted":     answer(codes.Aborted), // the server's word for its own timeouts
		"unknown":     answer(codes.Unknown),
		"internal":    answer(codes.Internal),
		"silence":     silence,
		"cut":         cut,
	} {
		for moment, stored := range map[double.Moment]bool{double.BeforeAppend: false, double.AfterAppend: true} {
			t.Run(fmt.Sprint(name, ", stored: ", stored), func(t *testing.T) {
				t.Parallel()
				c := cluster(t, 1)
				strike := func(times int64) {
					var n atomic.Int64
					c.SetFault(func(ctx context.Context, m double.Moment) error {
						if m == moment && n.Add(1) <= times {
							return fault(ctx, c)
						}
						return nil
					})
				}
				client := bare(t, c.URL()+"&maxDiscoverAttempts=100000&discoveryInterval=1")
				t.Cleanup(func() { _ = client.Close() })
				strike(1)
				if err := bareAppend(t.Context(), client, "other", 300*time.Millisecond); err == nil {
					t.Error("the client reports success")
				}
				if got := c.Len("other") > 0; got && !stored {
					t.Error("the append was stored")
				}

				log := open(t, c.URL(), kurrentdb.Options{Deadline: 300 * time.Millisecond})
				for v := range uint64(2) {
					strike(2)
					if err := log.Append(t.Context(), "a/1", 2*v, command(fmt.Sprint(v)), noted{}, noted{}); err != nil {
						t.Errorf("Append: %v", err)
					}
				}
				c.SetFault(nil)
				if got := len(ledgertest.Audit(t, log)); got != 4 {
					t.Errorf("the log has %d records, want 4", got)
				}
			})
		}
	}
}

// A fault that lasts ends an operation with its patience. What was stored is found
// by the repetition.
func TestPatience(t *testing.T) {
	t.Parallel()
	for moment, stored := range map[double.Moment]int{double.BeforeAppend: 0, double.AfterAppend: 1} {
		c := cluster(t, 1)
		log := open(t, c.URL(), kurrentdb.Options{Patience: 200 * time.Millisecond})
		c.SetFault(func(_ context.Context, m double.Moment) error {
			if m == moment || m == double.BeforeRead {
				return status.Error(codes.Unavailable, "never")
			}
			return nil
		})
		add := func() error { return log.Append(t.Context(), "a/1", 0, command("c"), noted{}) }
		eventually(t, "the fault", func() bool { // a slow machine may not get that far at once
			if err := add(); !errors.Is(err, domain.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Append: %v, want ErrUnavailable and no end of a context", err)
			}
			return c.Len("mystery-a/1") == stored
		})
		for _, err := range log.After(t.Context(), 0) {
			if !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("After: %v, want ErrUnavailable", err)
			}
		}
		c.SetFault(nil)
		if got := c.Len("mystery-a/1"); got != stored {
			t.Errorf("%d events are stored, want %d", got, stored)
		}
		log = open(t, c.URL(), kurrentdb.Options{})
		if err := add(); err != nil {
			t.Errorf("the repetition: %v", err)
		}
		if got := len(ledgertest.Audit(t, log)); got != 1 {
			t.Errorf("the log has %d records, want 1", got)
		}
	}
}

// What a server refuses for good is not tried again.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]string{
		codes.PermissionDenied: "read $all", codes.Unauthenticated: "read $all",
		codes.InvalidArgument: "no", codes.Unimplemented: "no",
	} {
		c := cluster(t, 1)
		log := open(t, c.URL(), kurrentdb.Options{})
		var calls atomic.Int64
		c.SetFault(func(_ context.Context, m double.Moment) error {
			if m == double.BeforeConnect {
				return nil
			}
			calls.Add(1)
			return status.Error(code, "no")
		})
		err := log.Append(t.Context(), "a/1", 0, command("c"), noted{})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%v: Append: %v, want a refusal that speaks of %q", code, err, want)
		}
		for _, err := range log.After(t.Context(), 0) {
			if err == nil || errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("%v: After: %v, want a refusal", code, err)
			}
		}
		if got := calls.Load(); got != 2 {
			t.Errorf("%v: %d calls, want 2", code, got)
		}
	}
}

// A server may refuse the repetition of an append that it has.
func TestRefusedRepetition(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	mustAppend(t, log, "a/1", 0)
	c.Forget(true)
	var n atomic.Int64
	c.SetFault(func(_ context.Context, m double.Moment) error {
		if m == double.AfterAppend && n.Add(1) == 1 {
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	})
	for range 2 {
		if err := log.Append(t.Context(), "a/1", 1, command("c"), noted{1}, noted{2}); err != nil {
			t.Errorf("Append: %v", err)
		}
	}
	if err := log.Append(t.Context(), "a/1", 1, command("c"), noted{1}, noted{2}, noted{3}); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a command that has grown: %v, want ErrConflict", err)
	}
	if err := log.Append(t.Context(), "a/1", 1, command("d"), noted{1}, noted{2}); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("another command: %v, want ErrConflict", err)
	}
	if got := len(ledgertest.Audit(t, log)); got != 3 {
		t.Errorf("the log has %d records, want 3", got)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	var events []esdb.EventData
	for range 4 {
		events = append(events, esdb.EventData{EventID: uuid.New(), EventType: "other", Data: make([]byte, 1<<19)})
	}
	// The server may answer while the client is still sending, which then sees only
	// that it cannot go on.
	_, err := client.AppendToStream(t.Context(), "other", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, events...)
	if e := new(esdb.Error); !errors.As(err, &e) || !errors.Is(e.Err(), io.EOF) && status.Code(e.Err()) != codes.InvalidArgument {
		t.Errorf("the client reports %v, want an end of file or the refusal", err)
	}

	large := []domain.Event{written{strings.Repeat("x", 1<<20)}}
	log := open(t, c.URL(), kurrentdb.Options{})
	if err := log.Append(t.Context(), "a/1", 0, command("c"), large...); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("Append: %v, want ErrInvalid", err)
	}
	log = open(t, c.URL(), kurrentdb.Options{MaxAppend: 64 << 20, Patience: 200 * time.Millisecond}) // more than the server takes
	if err := log.Append(t.Context(), "a/1", 0, command("c"), large...); err == nil {
		t.Error("the server took too large an append")
	}
	if got := c.Len("mystery-a/1"); got != 0 {
		t.Errorf("%d events are stored, want none", got)
	}
}

// The answers that end a read of newer servers make the client panic.
func TestReadPanics(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	log := open(t, c.URL(), kurrentdb.Options{})
	mustAppend(t, log, "a/1", 0)
	client := bare(t, c.URL())
	t.Cleanup(func() { _ = client.Close() })
	for name, rewrite := range map[string]func(*streams.ReadResp){
		"last position": func(r *streams.ReadResp) {
			r.Content = &streams.ReadResp_LastStreamPosition{LastStreamPosition: 7}
		},
		"no content":   func(r *streams.ReadResp) { r.Content = nil },
		"no stream id": func(r *streams.ReadResp) { r.GetEvent().GetEvent().StreamIdentifier = nil },
	} {
		c.Rewrite(rewrite)
		reading, err := client.ReadStream(t.Context(), "mystery-a/1", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer reading.Close()
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the client does not panic", name)
				}
			}()
			_, _ = reading.Recv()
		}()
		for _, err := range log.Stream(t.Context(), "a/1", 0) {
			if err == nil || errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("%s: Stream: %v, want an error that is no outage", name, err)
			}
		}
	}
}
