package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/api/httpsig"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// This file takes in the events of producers: CloudEvents 1.0 in JSON, by requests that
// carry HTTP message signatures of the profile [httpsig.Producers].

// Producers takes in what producers write. [commands.Service] is one.
type Producers interface {
	ProducerState(ctx context.Context, id string) (producer.State, error)
	Take(ctx context.Context, sub commands.Submission) ([]commands.Taken, error)
}

// Limits of a request of a producer.
const (
	maxEvents     = 100
	maxEventsBody = 1 << 20
	maxDepth      = 32 // of JSON

	// What is under way at once: more of it would only wait for each other.
	maxUnderWay       = 64
	maxUnderWayOfEach = 16
)

// Media types of one event and of several (CloudEvents JSON format, sections 3 and 4).
const (
	cloudEventJSON  = "application/cloudevents+json"
	cloudEventsJSON = "application/cloudevents-batch+json"
	plainJSON       = "application/json"
)

// A TakenEvent says what became of an event.
type TakenEvent struct {
	ID      string `json:"id"`
	Version uint64 `json:"version,omitempty" doc:"Its place in the stream; absent if it says nothing new, and is not on record for that."`
	Status  string `json:"status" enum:"recorded,known,unchanged" doc:"recorded: by this request; known: by an earlier one; unchanged: it says nothing new."`
}

// TakenEvents is the answer to a request of a producer.
type TakenEvents struct {
	Stream  ledger.Stream `json:"stream"`
	Records string        `json:"records" format:"uri-reference" doc:"Where the records of the stream are, with their proofs, once a checkpoint covers them."`
	Events  []TakenEvent  `json:"events"`
}

// underWay counts requests of producers.
type underWay struct {
	mu sync.Mutex
	of map[string]int // by producer; "" is for all together
}

// enter counts one more, unless there are too many.
func (u *underWay) enter(name string) (leave func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = make(map[string]int)
	}
	most := maxUnderWayOfEach
	if name == "" {
		most = maxUnderWay
	}
	if u.of[name] >= most {
		return nil, false
	}
	u.of[name]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.of[name]--; u.of[name] == 0 {
			delete(u.of, name)
		}
	}, true
}

func (s *server) registerEvents(api huma.API) {
	s.router.Post(ledgerRoot+"/events", s.takeEvents)
	schemas := api.OpenAPI().Components.Schemas
	schema := func(v any, name string) *huma.Schema { return schemas.Schema(reflect.TypeOf(v), true, name) }
	one := schema(producer.CloudEvent{}, "CloudEvent")
	most := maxEvents
	several := &huma.Schema{Type: huma.TypeArray, Items: one, MaxItems: &most}
	answer := func(text string) *huma.Response {
		return &huma.Response{Description: text, Content: map[string]*huma.MediaType{plainJSON: {Schema: schema(TakenEvents{}, "TakenEvents")}}}
	}
	responses := map[string]*huma.Response{
		"200": answer("All of it was on record before, or says nothing new"),
		"201": answer("Recorded"),
	}
	for _, status := range []int{400, 401, 403, 408, 409, 413, 415, 422, 429, 500, 503} {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{problemJSON: {Schema: schema(Problem{}, "Problem")}},
		}
	}
	text := &huma.Schema{Type: huma.TypeString}
	header := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Required: true, Schema: text, Description: doc}
	}
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "submit-ledger-events", Method: http.MethodPost, Path: ledgerRoot + "/events", Tags: []string{"producer"},
		Summary: "Append events of a producer to one stream, all or none",
		Description: "For those whom the operator has registered. The request is signed as of RFC 9421 with Ed25519, over " +
			"@method, @authority, @path, content-digest, content-type and idempotency-key, with created, expires a minute later at most, " +
			"a nonce, keyid (name of the producer, slash, name of the key), alg=\"ed25519\" and tag=\"karatum-producer\". " +
			"Each event carries a signature of its own. What is sent again is on record once.",
		Parameters: []*huma.Param{
			header("Content-Digest", "sha-256 of the body (RFC 9530)."),
			header("Idempotency-Key", "The same for each try of one request, and another one for another."),
			header("Signature-Input", "RFC 9421, section 4.1."),
			header("Signature", "RFC 9421, section 4.2."),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			cloudEventJSON:  {Schema: one},
			cloudEventsJSON: {Schema: several},
			plainJSON:       {Schema: &huma.Schema{OneOf: []*huma.Schema{one, several}}},
		}},
		Responses: responses,
	})
}

// takeEvents answers a request of a producer, and counts what came of it.
func (s *server) takeEvents(w http.ResponseWriter, r *http.Request) {
	status, answer, err := s.take(r)
	if err == nil {
		outcome := "recorded"
		if status == http.StatusOK {
			outcome = "known"
		}
		s.count(outcome, len(answer.Events))
		s.written(r.Context(), w.Header())
		w.Header().Set("Content-Type", plainJSON)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
		return
	}
	p := new(Problem)
	if !errors.As(err, &p) && !errors.As(s.fail(r.Context(), err), &p) {
		p = newProblem(r.Context(), http.StatusInternalServerError, "")
	}
	p.Detail = short(p.Detail)
	if v, ok := errors.AsType[*commands.VersionError](err); ok {
		p.Current = &v.Current
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Signature realm="ledger"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	s.count(strings.TrimPrefix(p.Type, typeBase), 0)
	writeProblem(w, p)
}

func (s *server) count(outcome string, events int) {
	if s.Counted != nil {
		s.Counted(outcome, events)
	}
}

func (s *server) take(r *http.Request) (status int, answer TakenEvents, err error) {
	ctx := r.Context()
	leave, ok := s.underWay.enter("")
	if !ok {
		return 0, answer, newProblem(ctx, http.StatusTooManyRequests, "too many requests of producers are under way; send the same again in a second")
	}
	defer leave()
	body, err := readEvents(r)
	if err != nil {
		return 0, answer, err
	}
	sig, name, err := s.authenticate(r, body)
	if err != nil {
		return 0, answer, err
	}
	leave, ok = s.underWay.enter(name)
	if !ok {
		return 0, answer, newProblem(ctx, http.StatusTooManyRequests,
			fmt.Sprintf("%d requests of the producer %s are under way; send the same again when one of them is answered", maxUnderWayOfEach, name))
	}
	defer leave()
	events, err := parseEvents(ctx, body)
	if err != nil {
		return 0, answer, err
	}
	_, key, _ := strings.Cut(sig.KeyID, "/")
	sub := commands.Submission{
		Producer: name, Key: key, Nonce: sig.Nonce, Expires: sig.Expires, Idempotency: r.Header.Get("Idempotency-Key"), Stream: events[0].Stream,
	}
	if sub.Events, err = submitted(events, name, sub.Stream); err != nil {
		return 0, answer, err
	}
	taken, err := s.Producers.Take(ctx, sub)
	if err != nil {
		return 0, answer, err
	}
	status, answer = answerTo(sub.Stream, taken)
	return status, answer, nil
}

func answerTo(stream ledger.Stream, taken []commands.Taken) (status int, answer TakenEvents) {
	status = http.StatusOK
	answer = TakenEvents{Stream: stream, Records: streamPath(stream), Events: make([]TakenEvent, len(taken))}
	for i, t := range taken {
		answer.Events[i] = TakenEvent{ID: t.ID, Version: t.Version, Status: "known"}
		switch {
		case t.New:
			answer.Events[i].Status = "recorded"
			status = http.StatusCreated
		case t.Version == 0:
			answer.Events[i].Status = "unchanged"
		}
	}
	return status, answer
}

// streamPath is where the records of a stream are served.
func streamPath(s ledger.Stream) string {
	return ledgerRoot + "/streams/" + url.PathEscape(s.Category()) + "/" + url.PathEscape(s.ID())
}

// readEvents reads the body of a request.
func readEvents(r *http.Request) ([]byte, error) {
	ctx := r.Context()
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != cloudEventJSON && media != cloudEventsJSON && media != plainJSON {
		return nil, newProblem(ctx, http.StatusUnsupportedMediaType, "events come as "+cloudEventJSON+", several as "+cloudEventsJSON)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxEventsBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, newProblem(ctx, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d bytes at most; send the events in several", maxEventsBody))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, newProblem(ctx, http.StatusRequestTimeout, "the body took too long to arrive")
	}
	if err != nil {
		return nil, malformed("the body cannot be read")
	}
	return body, nil
}

// authenticate returns the signature of a request, and the producer who made it.
func (s *server) authenticate(r *http.Request, body []byte) (sig *httpsig.Signature, name string, err error) {
	if err := httpsig.CheckDigest(r.Header, body); err != nil {
		return nil, "", err
	}
	public, err := url.Parse(s.PublicURL)
	if err != nil {
		return nil, "", err
	}
	if sig, err = httpsig.Producers.Parse(r, httpsig.AuthorityOf(public)); err != nil {
		return nil, "", err
	}
	if err := sig.Check(s.Now()); err != nil {
		return nil, "", err
	}
	const maxIdempotency = 100
	if !domain.Printable(r.Header.Get("Idempotency-Key"), maxIdempotency) {
		return nil, "", malformed("the header Idempotency-Key is 1 to %d printable ASCII characters", maxIdempotency)
	}
	if !domain.Printable(sig.Nonce, len(sig.Nonce)) {
		return nil, "", malformed("the nonce of the signature is printable ASCII")
	}
	name, key, _ := strings.Cut(sig.KeyID, "/")
	unknown := domain.WithCode(domain.UnknownProducer, fmt.Errorf("keyid names no key of a producer: its name, a slash, and the name of the key: %w", domain.ErrUnauthenticated))
	if producer.CheckName(name) != nil || producer.CheckName(key) != nil {
		return nil, "", unknown
	}
	state, err := s.Producers.ProducerState(r.Context(), name)
	if err != nil {
		return nil, "", err
	}
	known, ok := state.Key(key)
	if !ok {
		return nil, "", unknown
	}
	if err := sig.Verify(known.Public[:]); err != nil {
		return nil, "", err
	}
	if !known.HoldsAt(s.Now()) && !state.Revoked {
		return nil, "", domain.WithCode(domain.UnknownProducer, fmt.Errorf("the key %s holds from %s to %s: %w",
			sig.KeyID, known.NotBefore.Format(time.RFC3339), known.NotAfter.Format(time.RFC3339), domain.ErrUnauthenticated))
	}
	return sig, name, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrMalformed)...)
}

// parseEvents reads one event, or a list of them.
func parseEvents(ctx context.Context, body []byte) (events []producer.CloudEvent, err error) {
	if !utf8.Valid(body) {
		return nil, malformed("the body is not UTF-8")
	}
	if depth(body) > maxDepth {
		return nil, malformed("the body is nested deeper than %d levels", maxDepth)
	}
	text := strings.TrimLeft(string(body), " \t\r\n")
	if strings.HasPrefix(text, "[") {
		err = domain.Unmarshal(body, &events)
	} else {
		events = make([]producer.CloudEvent, 1)
		err = domain.Unmarshal(body, &events[0])
	}
	switch {
	case err != nil:
		return nil, malformed("the body is not a CloudEvent 1.0 in JSON, nor a list of them: %s", err)
	case len(events) == 0:
		return nil, malformed("there are no events in the body")
	case len(events) > maxEvents:
		return nil, newProblem(ctx, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d events at most, and this one has %d", maxEvents, len(events)))
	}
	return events, nil
}

// depth returns how deep JSON is nested.
func depth(body []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// submitted makes of events what is appended of them.
func submitted(events []producer.CloudEvent, name string, stream ledger.Stream) ([]commands.Submitted, error) {
	list := make([]commands.Submitted, len(events))
	for i, e := range events {
		t, ok := producer.TypeOf(e.Type)
		source, fromHere := producer.NameOf(e.Source)
		switch {
		case e.SpecVersion != producer.CloudVersion:
			return nil, malformed("event %d is not of CloudEvents %s", i, producer.CloudVersion)
		case e.DataContentType != "" && e.DataContentType != plainJSON:
			return nil, malformed("the data of event %d is not of type %s", i, plainJSON)
		case e.Stream != stream:
			return nil, malformed("event %d is for another stream than those before it", i)
		case !ok:
			return nil, fmt.Errorf("event %d: its type does not begin with com.karatum.: %w", i, domain.ErrInvalid)
		case !fromHere || source != name:
			return nil, domain.WithCode(domain.EventSignature,
				fmt.Errorf("event %d: its source is not %s, who signed the request: %w", i, producer.SourceOf(name), domain.ErrForbidden))
		}
		signed, bare, err := e.Signed(name)
		if errors.Is(err, domain.ErrInvalid) {
			return nil, fmt.Errorf("event %d: karsig: %w", i, err)
		}
		if err != nil {
			return nil, malformed("the data of event %d has no canonical form (RFC 8785): %s", i, err)
		}
		data, err := producer.Join(bare, signed)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		list[i] = commands.Submitted{Type: t, Data: data, Seq: e.Seq}
	}
	return list, nil
}
