package kurrentdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/karatum/mystery/domain"
)

// A pool hands out clients of the library, each to one call at a time. That is what
// makes the library safe to use: a client waits for nobody but its one caller, and
// nobody is waiting for it when it dies or is closed.
type pool struct {
	config *esdb.Configuration
	tokens chan struct{} // one for each call under way

	mu     sync.Mutex
	idle   []*esdb.Client
	closed bool
}

func newPool(config *esdb.Configuration, size int) *pool {
	return &pool{config: config, tokens: make(chan struct{}, size)}
}

// errClosed is returned for calls after close.
var errClosed = errors.New("the log is closed")

// take returns an idle client or a new one.
func (p *pool) take() (*esdb.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return p.fresh()
}

// fresh returns a client that the pool does not know.
func (p *pool) fresh() (*esdb.Client, error) {
	config := *p.config // the client keeps what it is given
	return esdb.NewClient(&config)
}

// put takes back a client whose call has ended.
func (p *pool) put(c *esdb.Client, healthy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if healthy && !p.closed {
		p.idle = append(p.idle, c)
		return
	}
	_ = c.Close() // it has no error to return
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close() // it has no error to return
	}
	p.idle = nil
}

// A call is one use of a client. It must not touch what its caller uses after the
// context has ended.
type call[T any] func(context.Context, *esdb.Client) (T, error)

// do makes a call, and returns when it has ended or ctx has. The library listens to
// ctx only in parts, so the call runs by itself. It may outlast ctx by the time that
// one attempt to connect takes, and until then counts among those under way.
func do[T any](ctx context.Context, p *pool, f call[T]) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	select {
	case p.tokens <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	c, err := p.take()
	if err != nil {
		<-p.tokens
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := guard(demandLeader(ctx), c, f)
		p.put(c, isHealthy(ctx, err))
		<-p.tokens
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// demandLeader returns a context whose calls followers refuse, naming the leader.
// The library means to do this, but writes the header where only servers read.
func demandLeader(ctx context.Context) context.Context {
	return grpcmetadata.AppendToOutgoingContext(ctx, "requires-leader", "true")
}

// errPanic means that the library met an answer that it does not understand.
var errPanic = errors.New("the EventStoreDB client does not understand the server")

// guard makes a call and turns its panic into an error.
func guard[T any](ctx context.Context, c *esdb.Client, f call[T]) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return f(ctx, c)
}

// The first pause between two tries, and the longest; each is twice the one before.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// insist makes a call again and again while no server can be used, until ctx ends.
// That is sound for reads, and for appends as this package makes them. If it was the
// patience of the operation that ended, the error is of the kind
// [domain.ErrUnavailable].
func insist[T any](ctx context.Context, p *pool, f call[T]) (T, error) {
	var last error
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		value, err := do(ctx, p, f)
		switch {
		case err == nil:
			return value, nil
		case errors.Is(err, errClosed):
			return value, fmt.Errorf("%w: %w", err, domain.ErrUnavailable)
		case isCode(err, esdb.ErrorCodeAccessDenied), isCode(err, esdb.ErrorCodeUnauthenticated):
			return value, fmt.Errorf("give the connection string a user who may read $all and write to the ledger's streams: %w", err)
		case ctx.Err() == nil && !isPassing(err):
			return value, err
		case ctx.Err() == nil:
			last = err
			sleep(ctx, pause)
		}
		if ctx.Err() != nil {
			return value, ended(ctx, last)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended says why ctx has: its patience, or else its caller's own reason.
func ended(ctx context.Context, last error) error {
	switch cause := context.Cause(ctx); {
	case !errors.Is(cause, errNoAnswer):
		return ctx.Err()
	case last == nil:
		return fmt.Errorf("EventStoreDB gave %w: %w", cause, domain.ErrUnavailable)
	default:
		// Not wrapped: a reason of the connection is none of the caller's context.
		return fmt.Errorf("EventStoreDB gave %w (%v): %w", cause, last, domain.ErrUnavailable) //nolint:errorlint // as said
	}
}

// isCode reports whether err comes from the library with the given code.
func isCode(err error, code esdb.ErrorCode) bool {
	e := new(esdb.Error)
	return errors.As(err, &e) && e.IsErrorCode(code)
}

// statusOf returns the gRPC status behind an error of the library.
func statusOf(err error) codes.Code {
	e := new(esdb.Error)
	if errors.As(err, &e) && e.Err() != nil {
		err = e.Err()
	}
	return status.Code(err) // Unknown for what is no status
}

// isMissing reports whether a stream does not exist. The library uses the same code
// for a status, which means that something else was not found, such as the leader.
func isMissing(err error) bool {
	return isCode(err, esdb.ErrorCodeResourceNotFound) && statusOf(err) != codes.NotFound
}

// isMisplaced reports whether a server refused to read from a position because no
// record begins there.
func isMisplaced(err error) bool {
	e := new(esdb.Error)
	if !errors.As(err, &e) || e.Err() == nil {
		return false
	}
	text := status.Convert(e.Err()).Message()
	return statusOf(err) == codes.InvalidArgument && text == "Trying to read from an invalid position." ||
		statusOf(err) == codes.Unknown && strings.Contains(text, "InvalidPosition")
}

// isAnswer reports whether err is a server's answer to the call, and would come again.
func isAnswer(err error) bool {
	e := new(esdb.Error)
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() {
	case esdb.ErrorCodeWrongExpectedVersion, esdb.ErrorCodeStreamDeleted, esdb.ErrorCodeAccessDenied,
		esdb.ErrorCodeUnauthenticated, esdb.ErrorCodeUnsupportedFeature:
		return true
	default:
		return isMissing(err) || isMisplaced(err) || statusOf(err) == codes.InvalidArgument
	}
}

// isPassing reports whether a call that failed with err may succeed later. It is so
// for all that is no answer: connections that break, elections, deadlines, and what
// the library reports without the reason.
func isPassing(err error) bool {
	return !isAnswer(err) && !errors.Is(err, errPanic)
}

// isHealthy reports whether a client is of further use after a call that ended with
// err. One that was told another leader is connected to that one by now.
func isHealthy(ctx context.Context, err error) bool {
	return err == nil || isAnswer(err) || isCode(err, esdb.ErrorCodeNotLeader) ||
		ctx.Err() != nil && (statusOf(err) == codes.Canceled || statusOf(err) == codes.DeadlineExceeded)
}
