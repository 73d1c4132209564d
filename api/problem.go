package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections"
)

// typeBase is what the type of every problem begins with. What follows never
// changes its meaning.
const typeBase = "https://karatum.com/problems/"

// A Problem is a refusal as of RFC 9457.
type Problem struct { //nolint:errname // it is called a problem in the RFC
	Type     string   `json:"type" format:"uri" doc:"What sort of problem this is. Stable: decide on it." example:"https://karatum.com/problems/conflict"`
	Title    string   `json:"title" doc:"The same for people."`
	Status   int      `json:"status" doc:"The HTTP status."`
	Detail   string   `json:"detail,omitempty" doc:"What was wrong this time, for people."`
	Instance string   `json:"instance,omitempty" format:"uri-reference" doc:"The path that was asked. The header X-Request-Id names the request."`
	Current  *uint64  `json:"current,omitempty" doc:"The version of the stream, if another one was expected."`
	Consent  string   `json:"consent,omitempty" doc:"The refused consent, if the refusal was recorded."`
	Errors   []Detail `json:"errors,omitempty" doc:"What was wrong where, if it can be told."`

	retryAfter int // seconds; 0: nobody knows
}

// A Detail is one thing wrong with the input. It does not repeat the input, in
// which there may be a signature.
type Detail struct {
	Location string `json:"location,omitempty" example:"body.maxPerDay"`
	Message  string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus implements [huma.StatusError].
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements [huma.ContentTypeFilter].
func (*Problem) ContentType(string) string { return problemJSON }

// GetHeaders implements [huma.HeadersError].
func (p *Problem) GetHeaders() http.Header {
	if p.retryAfter == 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.Itoa(p.retryAfter)}}
}

const problemJSON = "application/problem+json"

// sorts names the problems by their status.
var sorts = map[int]struct{ name, title string }{
	http.StatusBadRequest:            {"malformed", "The request cannot be read"},
	http.StatusUnauthorized:          {"unauthenticated", "It cannot be told who asks"},
	http.StatusForbidden:             {"forbidden", "You may not do this"},
	http.StatusNotFound:              {"not-found", "There is no such thing"},
	http.StatusMethodNotAllowed:      {"method-not-allowed", "The path has no such method"},
	http.StatusNotAcceptable:         {"not-acceptable", "No answer in an accepted form"},
	http.StatusRequestTimeout:        {"timeout", "The request took too long to arrive"},
	http.StatusConflict:              {"conflict", "This goes against what has happened before"},
	http.StatusRequestEntityTooLarge: {"too-large", "The request is too large"},
	http.StatusUnsupportedMediaType:  {"unsupported-media-type", "The body is in an unknown format"},
	http.StatusUnprocessableEntity:   {"invalid", "The request breaks a rule"},
	http.StatusTooManyRequests:       {"rate-limited", "Too many requests"},
	http.StatusInternalServerError:   {"internal", "Something went wrong on our side"},
	http.StatusServiceUnavailable:    {"unavailable", "This cannot be done at the moment"},
}

// titles names the problems that are known more closely than by their status: by
// the code of an error. Each is a type of its own; its status is that of the
// error's kind. docs/PROBLEMS.md lists them.
var titles = map[domain.Code]string{
	domain.AlreadyReplied:     "The finding has a reply",
	domain.ActiveConsent:      "The agent has an active consent",
	domain.BadSignature:       "The signature is in no accepted form",
	domain.ChainNotConfigured: "No node of this chain can be asked",
	domain.ChainUnavailable:   "The chain does not answer",
	domain.ChallengeExpired:   "The challenge has expired",
	domain.ChallengeForeign:   "The challenge was not issued here for this",
	domain.ChallengeUsed:      "The challenge was used already",
	domain.ConsentOver:        "The consent is over already",
	domain.EndpointRefused:    "The endpoint may not be shopped",
	domain.HostNotProven:      "A host is not shown to be the owner's",
	domain.HostStopped:        "A host wants no tasks",
	domain.HostUnreachable:    "A host cannot be asked",
	domain.KeysUnavailable:    "New consents cannot be prepared",
	domain.NoCertificate:      "The agent holds no certificate",
	domain.NotRegistered:      "The agent is not registered",
	domain.OwnerNotListed:     "A host's document names other owners",
	domain.PrivateAddress:     "A host is not on the public internet",
	domain.ProofMalformed:     "A host's document is not what it should be",
	domain.ProofMissing:       "A host has no document",
	domain.ProofRedirected:    "A host's document is at another host",
	domain.ProofTooLarge:      "A host's document is too large",
	domain.OwnerChanged:       "The agent belongs to somebody else",
	domain.OwnerNonceMissing:  "A contract wallet has to commit to a nonce",
	domain.OwnerNonceMismatch: "The owner's nonce is not the one committed to",
	domain.PayloadChanged:     "The payload is not the one that was issued",
	domain.PaymentRules:       "The payment breaks a rule",
	domain.WrongChain:         "The payload is for another chain",
	domain.WrongDomain:        "The payload is for another domain",
	domain.WrongSigner:        "Somebody other than the owner signed",

	domain.ClockSkew:           "A clock is wrong",
	domain.DigestMismatch:      "The body is not the one that was signed",
	domain.EventSignature:      "An event is not the producer's own",
	domain.IdempotencyMismatch: "This stands for something else already",
	domain.NonceUsed:           "The request came before",
	domain.ProducerRevoked:     "The producer is revoked",
	domain.RequestSignature:    "The request is not signed as it must be",
	domain.SignatureExpired:    "The signature does not hold now",
	domain.StreamNotAllowed:    "The producer may not write to this stream",
	domain.TypeNotAllowed:      "The producer may not write this type",
	domain.UnknownProducer:     "There is no such producer, or no such key",
	domain.WrongVersion:        "The stream is at another version",
}

// pauses says, in seconds, when it may be worth asking again after a problem that passes
// by itself.
var pauses = map[domain.Code]int{domain.KeysUnavailable: 5}

// kinds is the one place where a kind of error becomes a status.
var kinds = []struct {
	kind   error
	status int
}{
	{domain.ErrMalformed, http.StatusBadRequest},
	{domain.ErrUnauthenticated, http.StatusUnauthorized},
	{domain.ErrInvalid, http.StatusUnprocessableEntity},
	{domain.ErrConflict, http.StatusConflict},
	{domain.ErrForbidden, http.StatusForbidden},
	{domain.ErrNotFound, http.StatusNotFound},
	{domain.ErrUnavailable, http.StatusServiceUnavailable},
}

// newProblem makes the problem of a status. What is our fault is not explained
// to the caller.
func newProblem(ctx context.Context, status int, detail string, errs ...error) *Problem {
	sort, ok := sorts[status]
	if !ok {
		status = http.StatusInternalServerError
		sort = sorts[status]
	}
	p := &Problem{Type: typeBase + sort.name, Title: sort.title, Status: status, Instance: requestOf(ctx).path}
	if status == http.StatusInternalServerError {
		p.Detail = "the request id in the header X-Request-Id lets us find out what"
		return p
	}
	p.Detail = detail
	for _, err := range errs {
		if d := new(huma.ErrorDetail); errors.As(err, &d) {
			p.Errors = append(p.Errors, Detail{Location: d.Location, Message: short(strings.TrimSuffix(d.Message, ": "+domain.ErrInvalid.Error()))})
		} else if err != nil {
			p.Errors = append(p.Errors, Detail{Message: short(domain.Sentence(err))})
		}
	}
	return p
}

// short cuts a message: a decoder's may repeat a number of any length.
func short(message string) string {
	const limit = 200
	if len(message) <= limit {
		return message
	}
	return strings.ToValidUTF8(message[:limit], "") + " …"
}

// fail turns the error of a handler into the problem that its caller sees. It
// logs what the caller does not see.
func (s *server) fail(ctx context.Context, err error) error {
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			p := newProblem(ctx, k.status, domain.Sentence(err))
			if title, ok := titles[domain.CodeOf(err)]; ok {
				p.Type, p.Title, p.retryAfter = typeBase+string(domain.CodeOf(err)), title, pauses[domain.CodeOf(err)]
			}
			return p
		}
	}
	status := http.StatusInternalServerError
	if projections.Unreachable(err) || ctx.Err() != nil {
		status = http.StatusServiceUnavailable
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // else nobody waits for the answer
		s.Logger.ErrorContext(ctx, "request failed", "requestId", requestOf(ctx).id, "path", requestOf(ctx).path, "err", err)
	}
	return newProblem(ctx, status, "try again in a moment")
}

// refuse is the problem of a consent whose refusal is on record.
func (s *server) refuse(ctx context.Context, consent string, err error) error {
	err = s.fail(ctx, err)
	if p, ok := errors.AsType[*Problem](err); ok {
		p.Consent = consent
	}
	return err
}

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", problemJSON)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}
