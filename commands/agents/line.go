package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"code.dny.dev/ssrf"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// A Line carries the requests of one conversation with an agent: one task, or
// one look at its surface. It has connections of its own, so that two tasks have
// nothing in common but where they come from. Close it when done.
//
// A Line is used by one goroutine.
type Line struct {
	net    Net
	sender Sender
	mcp    bool // of the Model Context Protocol
	latch  *latch
	client *http.Client
	pool   *http.Transport
	hop    func(from, to *url.URL) bool // may a redirect lead there
	count  int                          // JSON-RPC requests so far

	exchanged func(Exchange) // may be nil
	exchanges int            // so far

	wrote        atomic.Pointer[time.Time] // when the last write began
	begun, ended atomic.Int64              // writes
	written      chan struct{}             // holds an element once a write has ended

	listening sync.WaitGroup
	deaf      []context.CancelFunc // end what is listening
}

// Line opens a conversation. Nothing is dialled yet. The gate is called with ctx.
func (n Net) Line(ctx context.Context, s Sender, g Gate) *Line {
	l := &Line{net: n, sender: s, latch: newLatch(ctx, g), hop: sameSite, written: make(chan struct{}, 1)}
	wrap := func(c net.Conn, err error) (net.Conn, error) {
		if err != nil {
			return nil, err
		}
		if s.Nagle {
			delay(c)
		}
		c = l.latch.guard(c, s.BodyApart, l.mark, l.tell)
		if s.ordered() {
			c = &shaped{Conn: c, sender: &l.sender, mcp: l.mcp}
		}
		return c, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	l.pool = &http.Transport{
		Proxy:     nil,
		Protocols: protocols,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return wrap(n.dial(ctx, network, addr))
		},
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return wrap(n.dialTLS(ctx, network, addr, s.ALPN))
		},
		DisableCompression:     true, // the sender says which encodings it takes, and we decode under a limit
		ResponseHeaderTimeout:  firstByteTimeout,
		MaxResponseHeaderBytes: maxHead,
		WriteBufferSize:        writeBuffer,
	}
	l.client = &http.Client{Transport: l.pool, CheckRedirect: l.redirect}
	return l
}

// MCP makes l a conversation in the Model Context Protocol, whose requests some
// client software writes in another way. It is called before the first request.
func (l *Line) MCP() *Line {
	l.mcp = true
	return l
}

// Close ends the conversation. When it returns, no byte of it leaves any more
// and the gate is not held.
func (l *Line) Close() {
	for _, stop := range l.deaf {
		stop()
	}
	l.latch.close()
	l.listening.Wait()
	l.pool.CloseIdleConnections()
}

// AskAgain lets the gate decide once more, before the next request.
func (l *Line) AskAgain() { l.latch.again() }

func (l *Line) now() time.Time {
	if l.net.Now == nil {
		return time.Time{}
	}
	return l.net.Now()
}

func (l *Line) mark() {
	t := l.now()
	l.wrote.Store(&t)
	l.begun.Add(1)
}

func (l *Line) tell() {
	l.ended.Add(1)
	select {
	case l.written <- struct{}{}:
	default:
	}
}

// redirect lets a request follow at most three hops, each to a URL that could
// have been asked for in the first place and that the consent covers.
func (l *Line) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxHops {
		return &Error{Outcome: task.Error, Code: Protocol, Reason: "too many redirects"}
	}
	if err := l.net.Follow(req.URL.String()); err != nil {
		return err
	}
	if from := via[0].URL; !l.hop(from, req.URL) {
		return &Error{
			Outcome: task.Blocked, Code: UnsupportedTransport,
			Reason: fmt.Sprintf("a redirect leads from %s to %s, which is not covered", from.Host, req.URL.Host),
		}
	}
	req.Header.Del("Referer") // which net/http adds, and no client software of a script
	return l.sender.check(req.Header)
}

// Follow is CheckURL for a URL that an agent named. It returns an [Error].
func (n Net) Follow(raw string) error {
	err := n.CheckURL(raw)
	if err == nil {
		return nil
	}
	e := &Error{Outcome: task.Blocked, Code: UnsupportedTransport, Reason: "the agent leads to a URL that cannot be used: " + err.Error()}
	if errors.Is(err, errPrivate) {
		e.Code = PrivateAddress
	}
	return e
}

// Get fetches a document of at most limit bytes. It does not look at the status.
func (l *Line) Get(ctx context.Context, target string, h http.Header, limit int64) (*Document, error) {
	d := &Document{}
	err := l.get(ctx, target, h, limit, d)
	l.record(Exchange{Method: http.MethodGet, URL: target, Sent: domain.Sum(nil), Status: d.Status}, d.Body, err)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (l *Line) get(ctx context.Context, target string, h http.Header, limit int64, d *Document) error {
	res, err := l.do(ctx, http.MethodGet, target, h, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := readAll(res, limit)
	if err != nil {
		return l.broken(ctx, res.StatusCode, err)
	}
	*d = Document{res.StatusCode, res.Header, res.Request.URL, body, l.since()}
	return nil
}

// A Document is what was fetched. URL is where it was found, after redirects.
type Document struct {
	Status  int
	Header  http.Header
	URL     *url.URL
	Body    []byte
	Latency time.Duration // from the last request to the last byte
}

// Refusal returns the [Error] that the status of d stands for if that alone says
// why there is no document: a wall or a limit. Otherwise it returns nil.
func (d *Document) Refusal() *Error { return refusal(d.Status, d.Header, d.Body) }

// request returns a request that may leave, or an error that is about us.
func (l *Line) request(ctx context.Context, method, target string, h http.Header, body []byte) (*http.Request, error) {
	u, err := l.net.parse(target)
	if err != nil {
		return nil, err
	}
	head := l.sender.head(h, u.Scheme == "https", body != nil)
	if err := l.sender.check(head); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	req.Header = head
	return req, nil
}

// do sends one request. It returns an [Error], or an error of another type if
// the request was not carried out for a reason on our side.
func (l *Line) do(ctx context.Context, method, target string, h http.Header, body []byte) (*http.Response, error) {
	if l.sender.ConnectsAnew {
		l.pool.CloseIdleConnections()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { l.latch.buffered.Store(true) },
	})
	req, err := l.request(ctx, method, target, h, body)
	if err != nil {
		return nil, err
	}
	res, err := l.client.Do(req)
	if err != nil {
		l.latch.close() // the gate may open only now, for a caller that is no longer there
		return nil, l.broken(ctx, 0, err)
	}
	l.latch.done() // what is answered was written, also a request that exceeds the buffer
	return res, nil
}

// broken says what an error of the transport means.
func (l *Line) broken(ctx context.Context, status int, err error) error {
	shut := l.latch.shut()
	var ours *Error
	var dial dialError
	e := &Error{Outcome: task.Error, Code: Transport, Status: status, Reason: err.Error()}
	var timeout net.Error
	switch {
	case shut != nil:
		return shut
	case errors.As(err, &ours):
		return ours
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, ssrf.ErrProhibitedIP):
		e.Outcome, e.Code = task.Blocked, PrivateAddress
	case errors.Is(err, ssrf.ErrProhibitedPort):
		e.Outcome, e.Code = task.Blocked, UnsupportedTransport
	case errors.Is(err, errTooLarge):
		e.Code = TooLarge
	case errors.Is(err, errEncoding):
		e.Code = Protocol
	case ctx.Err() != nil:
		e.Outcome, e.Code = task.Timeout, ""
	case errors.As(err, &dial):
		// A dial that takes too long is a host that does not answer.
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Outcome, e.Code = task.Timeout, ""
	}
	return e
}

// An RPCError is a JSON-RPC 2.0 error object.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// An Answer is the JSON-RPC message that answered a request: it holds a Result or
// an Error.
type Answer struct {
	Status  int
	Header  http.Header
	Raw     []byte // the message, without the stream or array it stood in
	Result  json.RawMessage
	Error   *RPCError
	Latency time.Duration
}

// Fail returns the [Error] that an answer with a JSON-RPC error means.
func (a *Answer) Fail() *Error {
	if e := refusal(a.Status, a.Header, a.Raw); e != nil {
		return e
	}
	return &Error{
		Outcome: task.Error, Code: strconv.Itoa(a.Error.Code), Status: a.Status, Raw: a.Raw, RetryAfter: retryAfter(a.Header),
		Reason: fmt.Sprintf("the agent answered with JSON-RPC error %d: %.200s", a.Error.Code, a.Error.Message),
	}
}

// RPC posts a JSON-RPC request and returns the message that answers it, from a
// JSON body, an event stream, or, if replies is not nil, from that stream.
// A JSON-RPC error is an Answer too, whatever the HTTP status beside it. Where
// nothing answers, it returns an [Error], or an error of another type if the
// request was not carried out.
func (l *Line) RPC(ctx context.Context, target string, h http.Header, method string, params any, replies *Stream) (*Answer, error) {
	id := newID(l.sender.RPCIDs, l.count)
	l.count++
	body, err := l.sender.frame(id, method, params)
	if err != nil {
		return nil, err
	}
	a := &Answer{}
	err = l.post(ctx, target, h, body, id, replies, a)
	l.record(Exchange{Method: http.MethodPost, URL: target, RPC: method, Sent: domain.Sum(body), Status: a.Status}, a.Raw, err)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// post sends the request with the given id and fills a with its answer.
func (l *Line) post(ctx context.Context, target string, h http.Header, body, id []byte, replies *Stream, a *Answer) error {
	res, err := l.do(ctx, http.MethodPost, target, h, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	*a = Answer{Status: res.StatusCode, Header: res.Header}
	stream := replies
	if isEventStream(res.Header) && stream == nil {
		stream = l.stream(res)
	}
	if stream != nil && res.StatusCode < 400 {
		err = stream.answer(ctx, id, a)
		a.Latency = l.since()
		if err == nil && replies == nil && !l.sender.MCPListens {
			stream.finish() // software that listens goes on at once, over another connection
		}
		return err
	}
	if body, e := readAll(res, maxReply); e != nil {
		err = l.broken(ctx, res.StatusCode, e)
	} else if !a.find(body, id) {
		err = unreadable(res.StatusCode, res.Header, body)
	}
	a.Latency = l.since()
	return err
}

// Stream opens an event stream by GET. Close it when done.
func (l *Line) Stream(ctx context.Context, target string, h http.Header) (*Stream, error) {
	res, err := l.do(ctx, http.MethodGet, target, h, nil)
	if err == nil && (res.StatusCode != http.StatusOK || !isEventStream(res.Header)) {
		err = unreadable(res.StatusCode, res.Header, nil)
		_ = res.Body.Close()
	}
	l.record(Exchange{Method: http.MethodGet, URL: target, Sent: domain.Sum(nil), Status: http.StatusOK}, nil, err)
	if err != nil {
		return nil, err
	}
	return l.stream(res), nil
}

// Listen opens an event stream by GET for messages that answer no request, as
// some client software does, and passes over whatever comes until l is closed. It
// returns when the request has been written, so that no write of it falls between
// a later [Line.AskAgain] and the request that the gate is asked for. That there is
// no such stream is no error.
func (l *Line) Listen(ctx context.Context, target string, h http.Header) error {
	ctx, stop := context.WithCancel(ctx)
	req, err := l.request(ctx, http.MethodGet, target, h, nil)
	if err != nil {
		stop()
		return err
	}
	l.deaf = append(l.deaf, stop)
	before := l.begun.Load() // some of these are answered and have not ended yet
	over := make(chan struct{})
	l.listening.Go(func() {
		defer close(over)
		if res, err := l.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxStream)) // nothing is expected
			_ = res.Body.Close()
		}
	})
	for done := false; !done && l.ended.Load() <= before; {
		select {
		case <-l.written:
		case <-over:
			done = true
		}
	}
	l.record(Exchange{Method: http.MethodGet, URL: target, Sent: domain.Sum(nil)}, nil, nil)
	return nil
}

func (l *Line) stream(res *http.Response) *Stream {
	return &Stream{line: l, res: res, events: newEvents(res)}
}

// A Stream is a text/event-stream that comes in over a [Line].
type Stream struct {
	line   *Line
	res    *http.Response
	events *events
}

// Close ends the stream.
func (s *Stream) Close() { _ = s.res.Body.Close() }

// finish reads what follows an answer, if it comes soon: most libraries read an
// answer to its end, and use a connection again only then.
func (s *Stream) finish() {
	late := time.AfterFunc(finishTimeout, s.Close)
	defer late.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(s.res.Body, maxReply)) // nothing of it is expected
}

// Next returns the next event and its name. The end of the stream is an [Error].
func (s *Stream) Next(ctx context.Context) (name string, data []byte, err error) {
	name, data, err = s.events.next()
	switch {
	case errors.Is(err, io.EOF):
		return "", nil, unreadable(s.res.StatusCode, s.res.Header, nil)
	case err != nil:
		return "", nil, s.line.broken(ctx, s.res.StatusCode, err)
	}
	return name, data, nil
}

// answer reads events up to the one that answers the request with the given id.
func (s *Stream) answer(ctx context.Context, id json.RawMessage, a *Answer) error {
	for {
		_, data, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if a.take(data, id) {
			return nil
		}
	}
}

// since returns the time since the last write began.
func (l *Line) since() time.Duration {
	if t := l.wrote.Load(); t != nil {
		return l.now().Sub(*t)
	}
	return 0
}

// Notify posts a JSON-RPC notification and returns the HTTP status of the answer.
// It ignores what else comes back.
func (l *Line) Notify(ctx context.Context, target string, h http.Header, method string) (status int, err error) {
	body, err := l.sender.frame(nil, method, nil)
	if err != nil {
		return 0, err
	}
	x := Exchange{Method: http.MethodPost, URL: target, RPC: method, Sent: domain.Sum(body)}
	res, err := l.do(ctx, http.MethodPost, target, h, body)
	if err != nil {
		l.record(x, nil, err)
		return 0, err
	}
	defer res.Body.Close()
	x.Status = res.StatusCode
	l.record(x, nil, nil)
	if !isEventStream(res.Header) {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply)) // read only to keep the connection
	}
	return res.StatusCode, nil
}

// envelope is a JSON-RPC message of any kind.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// take fills a from the message if it answers the request with the given id. Ids
// that were echoed as another JSON type are taken, as is an error without one.
func (a *Answer) take(raw []byte, id json.RawMessage) bool {
	var e envelope
	if json.Unmarshal(raw, &e) != nil || e.Method != "" || (e.Result == nil && e.Error == nil) {
		return false
	}
	unnamed := (len(e.ID) == 0 || string(e.ID) == "null") && e.Error != nil
	if id != nil && !unnamed && strings.Trim(string(e.ID), `"`) != strings.Trim(string(id), `"`) {
		return false
	}
	a.Raw, a.Result, a.Error = raw, e.Result, e.Error
	return true
}

var bom = []byte("\xef\xbb\xbf")

// find looks for the answer in a JSON body: a message or an array of them. A
// single message answers whatever its id.
func (a *Answer) find(body []byte, id json.RawMessage) bool {
	text := bytes.TrimSpace(bytes.TrimPrefix(body, bom))
	if len(text) == 0 || text[0] != '[' {
		return a.take(text, nil)
	}
	var many []json.RawMessage
	if json.Unmarshal(text, &many) != nil {
		return false
	}
	for _, raw := range many {
		if a.take(raw, id) {
			return true
		}
	}
	return false
}

func isEventStream(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && t == "text/event-stream"
}

// isBotWall reports whether an answer is a page that wants to see a browser, and
// not the agent. Such a page is never worked around.
func isBotWall(status int, h http.Header, body []byte) bool {
	if h.Get("Cf-Mitigated") != "" {
		return true
	}
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || t != "text/html" || status < 400 {
		return false
	}
	page := strings.ToLower(string(body))
	for _, mark := range []string{"captcha", "cf-challenge", "challenge-platform", "verify you are human", "are you a robot"} {
		if strings.Contains(page, mark) {
			return true
		}
	}
	return false
}
